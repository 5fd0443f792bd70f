"""How often the gate is wrong: independent rows, rare large losses, documents, levels, nights, releases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
from _error_rates import (
    ANY_FINDING,
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
from _error_rates_intervals import SIZE, beta_clusters, change_interval, rows_of
from scipy.stats import binom

from answerkey.metrics_core.comparison import FieldComparison
from answerkey.metrics_core.decide.clustered import Codes
from answerkey.metrics_core.decide.evidence import LabelDraw, PairedScores, statistic_of
from answerkey.metrics_core.decide.multiple_testing import holm
from answerkey.metrics_core.decide.paired import mcnemar
from answerkey.metrics_core.decide.policy import ALL, PolicyRule
from answerkey.metrics_core.decide.ppi import ppi_difference
from answerkey.metrics_core.decide.verdict import GateOutcome, decisions

Rows = Iterator[tuple[tuple[str, ...], Callable[[Rng, int], Row]]]
FIELD = "metric.field"
NIGHTS = (1, 5, 10, 30)
RELEASES = (1, 5, 10, 20)


def tables() -> Iterator[Table]:
    yield table("gate, 0/1 rows", ("rows", "margin", "changes"), _independent())
    yield table("gate, rare large losses", ("rows",), rows_of(rare, (30, 100, 300, 1000)))
    yield table("gate, documents break", ("documents",), rows_of(documents, (5, 10, 20, 50, 200)))
    yield table("people and judge", ("labels",), rows_of(people_and_judge, (60, 100)))
    yield table("gate, levels", ("rows or clusters",), _levels())
    yield table("nights", ("nights",), rows_of(nights, NIGHTS))
    yield table("releases", ("releases",), rows_of(releases, RELEASES))


def outcome_of(
    old: Floats,
    new: Floats,
    margin: float,
    *,
    binary: bool,
    clusters: Codes | None = None,
    floor: float | None = None,
) -> GateOutcome:
    """What the gate decides on the difference, or, where a `floor` is given, on the level beside it.

    `apply_policy` without its sentences: saying how many samples it would take is ten times slower than deciding.
    """
    rules = [PolicyRule("difference", FIELD, ALL, -margin)]
    if floor is not None:
        rules.append(PolicyRule("level", FIELD, ALL, floor))
    scores = PairedScores(old, new, binary=binary)
    statistics = {rule: statistic_of(scores, clusters, difference=rule.kind == "difference") for rule in rules}
    known = {rule: statistic for rule, statistic in statistics.items() if statistic is not None}
    return decisions(known, len(rules))[rules[-1]]


@cache
def paired_outcome(fixed: int, broken: int, n: int, margin: float) -> GateOutcome:
    change = change_of(fixed, broken, n)
    return outcome_of((change < 0).astype(float), (change > 0).astype(float), margin, binary=True)


def rates(fixed: float, broken: float, n: int, margin: float) -> tuple[float, float]:
    """The chances of PASS and of FAIL: exactly, for independent rows."""
    passed = failed = 0.0
    for up, down, chance in pairs(n, fixed, broken):
        outcome = paired_outcome(up, down, n, margin)
        passed += chance * (outcome == "PASS")
        failed += chance * (outcome == "FAIL")
    return passed, failed


def _independent() -> Rows:
    for n, margin in ((30, 0.1), (100, 0.05), (300, 0.02), (300, 0.05), (1000, 0.02)):
        for name, fixed in (("broken only", 0.0), ("5 % fixed too", 0.05)):
            yield (
                (f"{n:,}", number(margin), name),
                lambda _, __, n=n, m=margin, f=fixed: {
                    "PASS at the margin": Figure(rates(f, f + m, n, m)[0], ONE_SIDED),
                    "FAIL at the margin": Figure(rates(f, f + m, n, m)[1], ONE_SIDED),
                    "PASS of equals": Figure(rates(f + m / 2, f + m / 2, n, m)[0]),
                    "FAIL at thrice the margin": Figure(rates(f, f + 3 * m, n, m)[1]),
                },
            )  # fmt: skip


def rare(rng: Rng, runs: int, n: int) -> Row:
    """Scores with noise of .005, except for a share that falls from about .9 to 0; the mean loss equals the margin."""
    figures, worst = {}, 0.0
    for share in (0.01, 0.02, 0.05, 0.1):
        margin = 0.9 * share
        found = []
        for _ in range(runs):
            old = rng.uniform(0.85, 0.95, n)
            new = np.where(rng.random(n) < share, 0.0, old + rng.normal(0, 0.005, n))
            found.append(outcome_of(old, new, margin, binary=False))
        figures[f"{number(share)} fall, PASS"] = Figure(found.count("PASS") / runs, ONE_SIDED, runs)
        worst = max(worst, found.count("FAIL") / runs)
    return figures | {"largest FAIL": Figure(worst, ONE_SIDED, runs)}


def documents(rng: Rng, runs: int, many: int) -> Row:
    """All answers of a broken document turn wrong, all others stay right; the mean loss equals the margin."""
    figures, worst = {}, 0.0
    for share, sizes, name in (
        *((share, "equal", f"{number(share)} break") for share in (0.02, 0.05, 0.1, 0.2)),
        (0.1, "any", ".1 break, sizes 1 to 40"),
        (0.1, "large", "the larger, the likelier"),
    ):
        found = []
        lengths = np.minimum(rng.geometric(0.1, (runs, many)), 40) if sizes != "equal" else np.full((runs, many), SIZE)
        chance = lengths / 100 if sizes == "large" else np.full((runs, many), share)
        margin = share
        if sizes == "large":
            every = np.minimum(np.arange(1, 2000), 40)
            weights = 0.1 * 0.9 ** np.arange(1999)
            margin = float(weights @ (every * every / 100) / (weights @ every))
        broken = rng.random((runs, many)) < chance
        for length, gone in zip(lengths, broken, strict=True):
            codes = np.repeat(np.arange(many), length)
            new = 1.0 - np.repeat(gone, length)
            found.append(outcome_of(np.ones(len(codes)), new, margin, binary=True, clusters=codes))
        figures[f"{name}, PASS"] = Figure(found.count("PASS") / runs, ONE_SIDED, runs)
        worst = max(worst, found.count("FAIL") / runs)
    figures["largest FAIL"] = Figure(worst, ONE_SIDED, runs)
    # Graded answers, of which those of a document move together: as bad as the margin, and .06 worse than that.
    codes, old = np.repeat(np.arange(many), SIZE), np.full(many * SIZE, 0.5)
    for loss, name, bar in ((0.02, "graded, FAIL", ONE_SIDED), (0.08, "graded and .06 worse, FAIL", None)):
        together = rng.normal(-loss, 0.12, (runs, many, 1)) + rng.normal(0, 0.1, (runs, many, SIZE))
        new = np.clip(0.5 + together, 0, 1).reshape(runs, -1)
        found = [outcome_of(old, scores, 0.02, binary=False, clusters=codes) for scores in new]
        figures[name] = Figure(found.count("FAIL") / runs, bar, runs)
    return figures


JUDGES = {
    "hides all, else right": (0.0, 0.0, 1.0),
    "hides all": (0.02, 0.03, 1.0),
    "hides half": (0.02, 0.03, 0.5),
    "hides none": (0.02, 0.03, 0.0),
    "graded, hides all": (0.02, 0.03, 1.0),
    "clusters, hides all": (0.0, 0.03, 1.0),
    "clusters, hides half": (0.02, 0.03, 0.5),
    "unequal chances, hides all": (0.02, 0.03, 1.0),
    "two looks, hides all": (0.0, 0.0, 1.0),
}
"""The share of answers that are fixed and of as many more that are broken, the judge's errors, and what it hides."""


def people_and_judge(rng: Rng, runs: int, labelled: int) -> Row:
    """Wrong verdicts on 1,000 questions with a judge, at a loss of the margin, .05: the first end of each interval."""
    figures, worst, n = {}, 0.0, 1000
    for name, (fixed, errors, hidden) in JUDGES.items():
        ends = []
        for _ in range(runs):
            clusters = np.arange(n) // 5 if "clusters" in name else np.arange(n)
            place, size = rng.random(n)[clusters], rng.choice([0.5, 1.0], n) if "graded" in name else np.ones(n)
            margin = 0.05 * float(size.mean())
            old, new = place >= fixed, 1 - size * ((place >= fixed) & (place < 2 * fixed + 0.05))
            seen = np.where((place >= 2 * fixed) & (place < 2 * fixed + 0.05) & (rng.random(n) < hidden), 1.0, new)
            verdicts = [np.where(rng.random(n) < errors, 1 - side, side) for side in (old, seen)]
            chances = np.full(n, labelled / n)
            if "chances" in name:
                chances *= np.where(verdicts[0] == verdicts[1], 0.8, 3.0)
            order = rng.random(n) / chances
            looks = (0.5, 1.0) if "looks" in name else (1.0,)
            decided = []
            for at, share in enumerate(looks, 1):
                known = order < np.sort(order)[round(share * labelled)] if "chances" not in name else order < 1
                draw = LabelDraw(chances, known, looks[:at], len(looks))
                interval = ppi_difference(
                    *verdicts, *(np.where(known, side, np.nan) for side in (old, new)), clusters=clusters,
                    level=draw.level(0.95), probabilities=chances,
                ).interval  # fmt: skip
                assert interval
                decided.append((interval.low > -margin, interval.high < -margin))
            ends.append(np.any(decided, axis=0))
        passed, failed = np.mean(ends, axis=0).tolist()
        figures[f"{name}, PASS"] = Figure(passed, ONE_SIDED, runs)
        worst = max(worst, failed)
    return figures | {"largest FAIL": Figure(worst, HEAVY_TAILED, runs)}


def _levels() -> Rows:
    for n in (20, 100, 1000):
        yield (f"{n:,} rows",), lambda _, __, n=n: level_of_rows(n)
    for many in (5, 10, 30, 100):
        yield (f"{many} clusters",), lambda r, k, c=many: level_of_clusters(r, k, c)


def level_of_rows(n: int) -> Row:
    """Exact, with the true mean at the floor."""
    figures = {}
    for p in (0.5, 0.9, 0.99):
        passed = failed = 0.0
        for k in map(int, counts(n, p)):
            own = np.repeat([1.0, 0.0], [k, n - k])
            outcome = outcome_of(own, own, 0.5, binary=True, floor=p)
            passed += float(binom.pmf(k, n, p)) * (outcome == "PASS")
            failed += float(binom.pmf(k, n, p)) * (outcome == "FAIL")
        figures[f"{number(p)}, PASS"] = Figure(passed, ONE_SIDED)
        figures[f"{number(p)}, FAIL"] = Figure(failed, ONE_SIDED)
    return figures


def level_of_clusters(rng: Rng, runs: int, many: int) -> Row:
    """The correlation within clusters is .6."""
    figures = {}
    codes = np.repeat(np.arange(many), SIZE)
    for p in (0.5, 0.9, 0.99):
        means = beta_clusters(rng, runs, many, p, 0.6)
        rows = (rng.random((runs, len(codes))) < np.repeat(means, SIZE, axis=1)).astype(float)
        found = [outcome_of(row, row, 0.5, binary=True, clusters=codes, floor=p) for row in rows]
        for outcome in ("PASS", "FAIL"):
            figures[f"{number(p)}, {outcome}"] = Figure(found.count(outcome) / runs, ONE_SIDED, runs)
    return figures


def nights(_: Rng, runs: int, many: int) -> Row:
    """New answers to 300 questions every night, at a loss of the margin, .05; and 50 more questions every night."""
    bars = (ONE_SIDED, ANY_FINDING) if many == 1 else (None, None)
    none = (1 - rates(0.05, 0.1, 300, 0.05)[0]) ** many
    return {
        "new answers: a PASS": Figure(1 - none, bars[0]),
        "more questions: PASS or FAIL": Figure(_growing(runs)[many - 1], bars[1], runs),
    }


@cache
def _growing(runs: int) -> tuple[float, ...]:
    """By night: the share of series in which equal releases have had a PASS or a FAIL at a margin of 0."""
    rng = np.random.default_rng(30)
    decided = np.zeros(runs, bool)
    up, down = np.zeros(runs, int), np.zeros(runs, int)
    shares = []
    for night in range(1, NIGHTS[-1] + 1):
        drawn = rng.multinomial(50, [0.05, 0.05, 0.9], runs)
        up, down = up + drawn[:, 0], down + drawn[:, 1]
        n = 50 * night
        for sign, moving, others in ((1, up, down), (-1, down, up)):
            least = {other: _edge(sign, other, n) for other in set(others.tolist())}
            decided |= moving >= np.array([least[other] for other in others.tolist()])
        shares.append(float(decided.mean()))
    return tuple(shares)


def _edge(sign: int, other: int, n: int) -> int:
    """The fewest fixed (broken) rows for a PASS (FAIL) at a margin of 0, given `other` broken (fixed) ones."""
    low, high = other, n - other + 1
    while high - low > 1:
        middle = (low + high) // 2
        counted = (middle, other) if sign > 0 else (other, middle)
        if paired_outcome(*counted, n, 0.0) == ("PASS" if sign > 0 else "FAIL"):
            high = middle
        else:
            low = middle
    return high


def releases(rng: Rng, runs: int, many: int) -> Row:
    """New releases as good as the baseline and compared with it together, in one field or four.

    There are 300 questions of varying difficulty.
    """
    figures, n = {}, 300
    for fields in (1, 4):
        found = []
        for _ in range(runs):
            counted = _answers(rng, n, many, fields)
            adjusted = holm([p_of(up, down) for up, down in counted])
            findings = (_finding(*pair, n, p) for pair, p in zip(counted, adjusted, strict=True))
            found.append(any(one != "not shown to differ" for one in findings))
        figures[f"{fields} field{'s' * (fields > 1)}: better or worse"] = Figure(sum(found) / runs, ANY_FINDING, runs)
    return figures


def _answers(rng: Rng, n: int, many: int, fields: int) -> list[tuple[int, int]]:
    """Fixed and broken rows of every new release and field: all releases draw from the same chance of each question."""
    right = rng.random((1 + many, fields, n)) < rng.beta(4, 1, n)
    old, new = right[0], right[1:]
    up, down = (~old & new).sum(axis=2).ravel(), (old & ~new).sum(axis=2).ravel()
    return list(zip(up.tolist(), down.tolist(), strict=True))


def finding_of(low: float | None, high: float | None, difference: float, adjusted: float) -> str | None:
    """The finding of a comparison."""
    return FieldComparison(
        "metric", "field", ALL, n_common=2, n_only_old=0, n_only_new=0, old=0.0, new=0.0, difference=difference,
        low=low, high=high, p=adjusted, p_adjusted=adjusted, mde=None, fixed=None, broken=None, test="",
    ).finding  # fmt: skip


@cache
def p_of(fixed: int, broken: int) -> float:
    return mcnemar(fixed, broken)


def _finding(fixed: int, broken: int, n: int, adjusted: float) -> str | None:
    low, high, _ = change_interval(fixed, broken, n)
    return finding_of(low, high, (fixed - broken) / n, adjusted)
