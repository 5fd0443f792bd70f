"""Coverage of the intervals, and what they cost in rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

import numpy as np
from _error_rates import (
    COVERED,
    HEAVY_TAILED,
    ONE_SIDED,
    Figure,
    Floats,
    Rng,
    Row,
    Table,
    change_of,
    counts,
    number,
    pairs,
    table,
)
from scipy.stats import binom, binomtest, t

from answerkey.metrics_core.decide.agreement import agreement, auroc
from answerkey.metrics_core.decide.bounded_mean import ENOUGH, assumed_range, rejects
from answerkey.metrics_core.decide.clustered import mean_interval, proportion_interval
from answerkey.metrics_core.decide.intervals import Interval, SumStatistic, bootstrap
from answerkey.metrics_core.decide.paired import (
    change_range,
    difference_interval,
    paired_difference,
    pooled_difference,
)
from answerkey.metrics_core.decide.ppi import ppi_mean, rogan_gladen
from answerkey.metrics_core.metrics.bleu import bleu_extremes, corpus_bleu

Rows = Iterator[tuple[tuple[str, ...], Callable[[Rng, int], Row]]]
NS = (10, 30, 100, 1000)
PS = (0.5, 0.9, 0.99, 1.0)
CHANGES = ((0.0, 0.02), (0.02, 0.02), (0.0, 0.05), (0.05, 0.05), (0.09, 0.11), (0.2, 0.3))
CLUSTERS = (5, 10, 30, 100)
CORRELATIONS = (0.2, 0.6)
SIZE = 10
"""Rows in a cluster."""


def tables() -> Iterator[Table]:
    yield table("mean of 0/1 rows", ("rows",), rows_of(shares, NS))
    yield table("difference of 0/1 rows", ("rows",), rows_of(changes, (*NS[:3], 300, 1000)))
    yield table("graded rows", ("rows",), rows_of(graded, NS))
    yield table("clusters", ("clusters", "correlation"), _clusters())
    yield table("agreement", ("rows",), rows_of(agreements, (30, 100, 1000)))
    yield table("few labels", ("labels",), rows_of(few_labels, (10, 20, 30, 100, 300)))
    yield table("ratios of sums", ("rows",), rows_of(ratios, NS))
    yield table("open end", ("rows",), rows_of(open_ended, (20, 50, 100, 300)))
    yield table("price", ("rows",), rows_of(price, NS))


def rows_of(measure: Callable[[Rng, int, int], Row], sizes: Iterable[int]) -> Rows:
    """A row of a table for each size."""
    for n in sizes:
        yield (f"{n:,}",), lambda rng, runs, n=n: measure(rng, runs, n)


def shares(_: Rng, __: int, n: int) -> Row:
    """Exact: the sum over all numbers of ones."""
    found = {k: _share_interval(k, n) for p in PS for k in map(int, counts(n, p))}
    figures, worst = {}, 0.0
    for p in PS:
        below = above = 0.0
        for k in map(int, counts(n, p)):
            chance = float(binom.pmf(k, n, p))
            below += chance * (found[k].high < p - 1e-12)
            above += chance * (found[k].low > p + 1e-12)
        figures[f"p = {number(p)}"] = Figure(1 - below - above, COVERED)
        worst = max(worst, below, above)
    return figures | {"largest error on one side": Figure(worst, ONE_SIDED)}


@cache
def _share_interval(ones: int, n: int) -> Interval:
    found = proportion_interval(np.repeat([1.0, 0.0], [ones, n - ones]), None)
    assert found
    return found


def changes(_: Rng, __: int, n: int) -> Row:
    """Exact: the sum over all numbers of fixed and broken rows."""
    figures, worst = {}, 0.0
    for fixed, broken in CHANGES:
        below = above = 0.0
        for up, down, chance in pairs(n, fixed, broken):
            low, high, _ = change_interval(up, down, n)
            below += chance * (high < fixed - broken - 1e-12)
            above += chance * (low > fixed - broken + 1e-12)
        figures[f"{number(fixed)} fixed, {number(broken)} broken"] = Figure(1 - below - above, COVERED)
        worst = max(worst, below, above)
    return figures | {"largest error on one side": Figure(worst, ONE_SIDED)}


@cache
def change_interval(fixed: int, broken: int, n: int) -> Interval:
    found = difference_interval(change_of(fixed, broken, n), None, binary=True)
    assert found
    return found


Draws = Callable[[Rng, int, int], Floats]
"""Repetitions of rows: (runs, n)."""


def mostly(share: float, rest: Callable[[Rng, tuple[int, int]], Floats], value: float) -> Draws:
    """Draws of which `share` are `value` and the others come from `rest`."""
    return lambda rng, runs, n: np.where(rng.random((runs, n)) < share, value, rest(rng, (runs, n)))


GRADED: dict[str, tuple[float, Draws]] = {
    "95 % ones, else uniform": (0.975, mostly(0.95, lambda rng, shape: rng.random(shape), 1.0)),
    "99 % ones, else .5": (0.995, mostly(0.99, lambda _, shape: np.full(shape, 0.5), 1.0)),
    "97 % zeros, else uniform": (0.015, mostly(0.97, lambda rng, shape: rng.random(shape), 0.0)),
    "uniform": (0.5, lambda rng, runs, n: rng.random((runs, n))),
    "beta(8, 2)": (0.8, lambda rng, runs, n: rng.beta(8, 2, (runs, n))),
}


def graded(rng: Rng, runs: int, n: int) -> Row:
    figures = {}
    for name, (truth, draw) in GRADED.items():
        rows = draw(rng, runs, n)
        figures[name] = contained(rows, np.ones(n), truth, 0.0)
        check(mean_interval(rows[0], None, low=0.0, high=1.0), rows[:1], np.ones(n), 0.0)
    return figures


def contained(sums: Floats, sizes: Floats, truth: float, low: float) -> Figure:
    """The share of samples (runs, units) whose interval contains the truth, in a range from `low` to 1.

    Uses the one-sided tests that the interval inverts, since these take many samples at once.
    """
    above = rejects(sums, truth, sizes, low=low, high=1.0)
    below = rejects(-sums, -truth, sizes, low=-1.0, high=-low)
    return Figure(1 - float(np.mean(above | below)), COVERED, len(sums))


def check(interval: Interval | None, sums: Floats, sizes: Floats, low: float) -> None:
    """Check that the product's interval ends where the test of one sample (1, units) begins to reject."""
    assert interval
    for end, sign in ((interval.low, 1.0), (interval.high, -1.0)):
        bounds = {"low": min(sign * low, sign), "high": max(sign * low, sign)}
        for step, expected in ((-1e-4, True), (1e-4, False)):
            if low < end + sign * step < 1:
                assert rejects(sign * sums, sign * end + step, sizes, **bounds)[0] == expected


def covered(intervals: Iterator[Interval | None], truth: float, runs: int) -> Figure:
    """The share of the intervals that contain the truth; one that does not exist contains everything."""
    held = sum(one is None or one.low - 1e-12 <= truth <= one.high + 1e-12 for one in intervals)
    return Figure(held / runs, COVERED, runs)


def beta_clusters(rng: Rng, runs: int, many: int, p: float, correlation: float) -> Floats:
    """The chance of a 1 in each cluster, (runs, clusters): rows of one cluster correlate by `correlation`."""
    total = 1 / correlation - 1
    return rng.beta(p * total, (1 - p) * total, (runs, many))


def _clusters() -> Rows:
    for many in CLUSTERS:
        for correlation in CORRELATIONS:
            yield (f"{many}", number(correlation)), lambda r, k, c=many, i=correlation: clustered(r, k, c, i)


def clustered(rng: Rng, runs: int, many: int, correlation: float) -> Row:
    figures = {}
    sizes, codes = np.full(many, float(SIZE)), np.repeat(np.arange(many), SIZE)
    for p in PS[:3]:
        sums = rng.binomial(SIZE, beta_clusters(rng, runs, many, p, correlation)).astype(float)
        figures[f"p = {number(p)}"] = contained(sums, sizes, p, 0.0)
    row = np.concatenate([np.repeat([1.0, 0.0], [int(one), SIZE - int(one)]) for one in sums[0]])
    check(proportion_interval(row, codes), sums[:1], sizes, 0.0)
    # Sizes from 1 to 40, whatever the share in a cluster is.
    sizes = np.minimum(rng.geometric(0.1, (runs, many)), 40).astype(float)
    sums = rng.binomial(sizes.astype(int), beta_clusters(rng, runs, many, 0.9, correlation)).astype(float)
    figures["p = .9, sizes 1 to 40"] = contained(sums, sizes, 0.9, 0.0)
    # The difference of two graded scores whose clusters move together.
    moves = rng.normal(0, 0.2 * math.sqrt(correlation), (runs, many, 1))
    rows = 0.05 + moves + rng.normal(0, 0.2 * math.sqrt(1 - correlation), (runs, many, SIZE))
    rows = np.clip(rows, -1, 1)
    found = (
        difference_interval(row, codes, binary=False, bounds=change_range(row, codes)) for row in rows.reshape(runs, -1)
    )
    figures["graded difference"] = covered(found, 0.05, runs)
    return figures


def agreements(rng: Rng, runs: int, n: int) -> Row:
    figures = {}
    for p in (0.5, 0.9, 0.97):
        # The judge errs on a tenth of the wrong answers and on a twentieth of the right ones.
        shares = np.array([p * 0.95, (1 - p) * 0.1, p * 0.05, (1 - p) * 0.9])
        verdict, agreed = shares[0] + shares[1], shares[0] + shares[3]
        chance = verdict * p + (1 - verdict) * (1 - p)
        both = (verdict + p) / 2
        found = [_agreement(*map(int, drawn)) for drawn in rng.multinomial(n, shares, runs)]
        kappas, ac1s = ((agreed - c) / (1 - c) for c in (chance, 2 * both * (1 - both)))
        figures[f"kappa, p = {number(p)}"] = covered((one[0] for one in found), kappas, runs)
        figures[f"AC1, p = {number(p)}"] = covered((one[1] for one in found), ac1s, runs)
    for name, shift in (("AUROC .76", 1.0), ("AUROC .98", 2.9)):
        truth = float(0.5 + 0.5 * math.erf(shift / 2))
        labels = rng.random((runs, n)) < 0.7
        scores = rng.normal(0, 1, (runs, n)) + shift * labels
        pairs_ = (auroc(score, label) for score, label in zip(scores, labels.astype(float), strict=True))
        figures[name] = covered((one and one.interval for one in pairs_), truth, runs)
    return figures


@cache
def _agreement(a: int, b: int, c: int, d: int) -> tuple[Interval | None, Interval | None]:
    found = agreement(np.repeat([1, 1, 0, 0], [a, b, c, d]), np.repeat([1, 0, 1, 0], [a, b, c, d]))
    return found.kappa and found.kappa.interval, found.ac1.interval


def few_labels(rng: Rng, runs: int, labelled: int) -> Row:
    """Corrected means of 1,000 rows of which `labelled` have a label, and 80 % of the answers are right."""
    figures, n = {}, 1000
    for name, right, wrong in (("PPI, judge .95", 0.95, 0.05), ("PPI, judge .75", 0.75, 0.25)):
        truth = rng.random((runs, n)) < 0.8
        judged = (rng.random((runs, n)) < np.where(truth, right, wrong)).astype(float)
        found = (
            ppi_mean(score, [*label[:labelled].astype(float).tolist(), *[None] * (n - labelled)]).interval
            for score, label in zip(judged, truth, strict=True)
        )
        figures[name] = covered(found, 0.8, runs)
    # People give the same, an eighth less, or a quarter less.
    scores = rng.beta(6, 1.5, (runs, n))
    labels = scores * rng.choice([1.0, 0.875, 0.75], (runs, n))
    population = 0.8 * 0.875
    found = (
        ppi_mean(score, [*label[:labelled].tolist(), *[None] * (n - labelled)]).interval
        for score, label in zip(scores, labels, strict=True)
    )
    figures["PPI, graded"] = covered(found, population, runs)
    intervals = []
    for _ in range(runs):
        ones = rng.binomial(labelled, 0.7)
        right, fooled = rng.binomial(ones, 0.9), rng.binomial(labelled - ones, 0.2)
        positive = rng.binomial(n, 0.8 * 0.9 + 0.2 * 0.2)
        corrected = rogan_gladen(int(positive), n, _confusion(int(right), int(fooled), int(ones), labelled))
        intervals.append(corrected and corrected.interval)
    figures["Rogan-Gladen"] = covered(iter(intervals), 0.8, runs)
    return figures


def _confusion(right: int, fooled: int, ones: int, n: int) -> tuple[int, int, int, int]:
    from answerkey.metrics_core.decide.agreement import Confusion

    return Confusion(right, fooled, ones - right, n - ones - fooled)


def ratios(rng: Rng, runs: int, n: int) -> Row:
    """What is summed before it is divided: a share of words, and corpus BLEU where matches are likely and rare."""
    figures, bleu = {}, SumStatistic(corpus_bleu, bleu_extremes)
    shared_words = [_words(rng, n) for _ in range(runs)]
    found = (bootstrap(row, _RATIO, seed=run) for run, row in enumerate(shared_words))
    figures["ratio"] = covered(found, 0.6, runs)
    found = (
        pooled_difference(row, _words(rng, n), _RATIO, permutations=1, seed=run).interval
        for run, row in enumerate(shared_words)
    )
    figures["difference of ratios"] = covered(found, 0.0, runs)
    for name, likely in (("half match", 0.5), ("one in seven matches", 1 / 7)):
        truth = float(corpus_bleu(_counts(np.random.default_rng(1), 1_000_000, likely).sum(axis=0)))
        one = (bootstrap(_counts(rng, n, likely), bleu, seed=run) for run in range(runs))
        figures[f"BLEU, {name}"] = covered(one, truth, runs)
        two = (pooled_difference(*(_counts(rng, n, likely) for _ in "ab"), bleu, permutations=1) for _ in range(runs))
        figures[f"BLEU difference, {name}"] = covered((pair.interval for pair in two), 0.0, runs)
    return figures


def _words(rng: Rng, n: int) -> Floats:
    """Matches and lengths of answers."""
    lengths = rng.integers(5, 30, n)
    return np.stack([rng.binomial(lengths, 0.6), lengths], axis=1).astype(float)


_RATIO = SumStatistic(lambda sums: sums[..., 0] / sums[..., 1], lambda mean: (mean * [0, 1], mean[[1, 1]]))


def _counts(rng: Rng, n: int, likely: float) -> Floats:
    """What BLEU counts, of answers whose words match with very different chances: `likely` on average, some all."""
    reference = np.ceil(rng.lognormal(2.5, 0.6, n))
    right = rng.random(n) < likely / 5
    length = np.where(right, reference, np.maximum(1, np.round(reference * rng.lognormal(0, 0.25, n))))
    chance = np.where(right, 1.0, rng.beta(4 * likely, 4 * (1 - likely), n))
    possible = np.maximum(0, length[:, None] - np.arange(4))
    matches = rng.binomial(possible.astype(int), chance[:, None] ** (1 + np.arange(4) / 2))
    return np.column_stack([length, reference, np.minimum.accumulate(matches, axis=1), possible])


Changes = Callable[[Rng, tuple[int, ...]], tuple[Floats, Floats]]
"""Values of the old and of the new release, of a shape."""


def _times(spread: float) -> Callable[[Rng, tuple[int, ...]], Floats]:
    """Log-normal numbers whose median is 1."""
    return lambda rng, shape: rng.lognormal(0, spread, shape)


def _slower(rng: Rng, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    question, noise = _times(0.6)(rng, shape), _times(0.3)
    return question * noise(rng, shape), 1.1 * question * noise(rng, shape)


def _some_far_slower(rng: Rng, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    question, noise = _times(0.5)(rng, shape), _times(0.2)
    return question * noise(rng, shape), question * noise(rng, shape) * np.where(rng.random(shape) < 0.1, 5.0, 1.0)


def _timeouts(rng: Rng, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    old, new = (rng.gamma(4, 0.25, shape) + 60.0 * (rng.random(shape) < 0.02) for _ in range(2))
    return old, new


OPEN_LEVELS: dict[str, tuple[float, Callable[[Rng, tuple[int, ...]], Floats]]] = {
    "mean, log-normal": (math.exp(0.5), _times(1.0)),
    "mean, exponential": (1.0, lambda rng, shape: rng.exponential(1.0, shape)),
    "mean, gamma": (0.5, lambda rng, shape: rng.gamma(0.5, 1.0, shape)),
    "mean, Pareto": (0.5, lambda rng, shape: rng.pareto(3.0, shape)),
}
OPEN_CHANGES: dict[str, tuple[float, Changes]] = {
    "a tenth slower": (0.1 * math.exp(0.225), _slower),
    "a tenth 5 times slower": (0.4 * math.exp(0.145), _some_far_slower),
    "some time out in both": (0.0, _timeouts),
    "t with 3 degrees": (0.1, lambda rng, shape: (np.full(shape, 1.0), 1.1 + rng.standard_t(3, shape))),
    "half unchanged": (
        0.5 * math.exp(0.5),
        lambda rng, shape: (np.ones(shape), 1 + _times(1.0)(rng, shape) * (rng.random(shape) < 0.5)),
    ),
}  # fmt: skip


def open_ended(rng: Rng, runs: int, n: int) -> Row:
    """Seconds and tokens, which have no highest value: the larger error of the two ends."""
    figures = {}
    for name, (truth, draw) in OPEN_LEVELS.items():
        rows = draw(rng, (runs, n))
        ranges = [assumed_range(row, low=0.0) for row in rows]
        figures[name] = _larger_error(rows, np.ones(n), truth, ranges)
        check_open(mean_interval(rows[0], None, low=0.0, high=math.inf), rows[0], ranges[0])
    for name, (truth, pair) in OPEN_CHANGES.items():
        old, new = pair(rng, (runs, n))
        rows = new - old
        ranges = [
            change_range(change, None, span=math.inf, usual=float(before.mean()))
            for before, change in zip(old, rows, strict=True)
        ]
        figures[name] = _larger_error(rows, np.ones(n), truth, ranges)
        check_open(paired_difference(old[0], new[0], span=math.inf).interval, rows[0], ranges[0])
    # Documents of ten questions, with a time of their own.
    sizes = np.full(n, float(SIZE))
    sums = (_times(0.7)(rng, (runs, n, 1)) * rng.exponential(1.0, (runs, n, SIZE))).sum(axis=2)
    ranges = [assumed_range(row, sizes, low=0.0) for row in sums]
    figures["documents of 10"] = _larger_error(sums, sizes, math.exp(0.245), ranges)
    return figures


def _larger_error(sums: Floats, sizes: Floats, truth: float, ranges: Sequence[tuple[float, float]]) -> Figure:
    """The larger share of samples (runs, units) of which an end of the interval lies on the wrong side of the truth."""
    errors = []
    for sign, ends in ((1.0, [low for low, _ in ranges]), (-1.0, [-high for _, high in ranges])):
        # On the scale of the distance of the truth from the added unit, all samples have the same range.
        reach = np.maximum(sign * truth - np.array(ends), 1e-9)
        errors.append(rejects(sign * (sums - truth * sizes) / reach[:, None], 0.0, sizes, low=-1.0).mean())
    # With fewer rows a warning says that they may be too narrow.
    bar = HEAVY_TAILED if len(sizes) >= ENOUGH else None
    return Figure(float(max(errors)), bar, len(sums))


def check_open(interval: Interval | None, row: Floats, ends: tuple[float, float]) -> None:
    """Check that the product's interval is that of the range."""
    expected = mean_interval(row, None, low=ends[0], high=ends[1])
    assert interval and expected and np.allclose(interval[:2], expected[:2])


def price(rng: Rng, runs: int, n: int) -> Row:
    """How many times the rows of the usual method this takes for the same width: the squared ratio of the widths."""
    figures = {}
    for p in (0.5, 0.9):
        ratios = []
        for k in rng.binomial(n, p, 200):
            usual = binomtest(int(k), n).proportion_ci(method="wilson")
            ours = _share_interval(int(k), n)
            ratios.append((ours.high - ours.low) / (usual.high - usual.low))
        figures[f"0/1, p = {number(p)}"] = Figure(float(np.median(ratios)) ** 2)
    draws: dict[str, Callable[[], Floats]] = {
        "uniform scores": lambda: rng.random(n),
        "beta(8, 2)": lambda: rng.beta(8, 2, n),
        "differences, sd .3": lambda: np.clip(rng.normal(0, 0.3, n), -1, 1),
        "differences, half 0, sd .3": lambda: np.clip(rng.normal(0, 0.3, n), -1, 1) * (rng.random(n) < 0.5),
        "differences, sd .05": lambda: np.clip(rng.normal(0, 0.05, n), -1, 1),
        "97 % zeros, else uniform": lambda: rng.random(n) * (rng.random(n) < 0.03),
    }
    for name, draw in draws.items():
        ratios = []
        for _ in range(min(runs, 100)):
            row = draw()
            width = 2 * float(t.ppf(0.975, n - 1)) * float(np.std(row, ddof=1)) / math.sqrt(n)
            found = (
                difference_interval(row, None, binary=False)
                if name.startswith("differences")
                else mean_interval(row, None, low=0.0, high=1.0)
            )
            if found and width:
                ratios.append((found.high - found.low) / width)
        figures[name] = Figure(float(np.median(ratios)) ** 2 if ratios else 0.0)
    return figures
