"""Is a difference of the stated size shown as often as stated, and is the stated number of rows enough?"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from _error_rates import POWERED, Figure, Floats, Rng, Row, Table, change_of, number, pairs, table
from _error_rates_gate import finding_of, outcome_of, p_of, rates
from _error_rates_intervals import SIZE, change_interval

from answerkey.metrics_core.decide.bounded_mean import rejects
from answerkey.metrics_core.decide.clustered import Codes, unit_sums
from answerkey.metrics_core.decide.multiple_testing import holm
from answerkey.metrics_core.decide.paired import PairedDifference, paired_difference, sign_flip
from answerkey.metrics_core.decide.power import minimum_detectable, needed_to_pass, needed_to_show

Rows = Iterator[tuple[tuple[str, ...], Callable[[Rng, int], Row]]]
FAMILIES = (1, 5, 14)
FLIPS, CLUSTERED_FLIPS = 9_999, 999
"""Sign flips: of rows as many as a comparison of so few tries."""
PILOTS, CLUSTERED_PILOTS = 99, 9
"""Comparisons of equal releases, of rows and of clusters. The median of what they state is put to the test."""


def tables() -> Iterator[Table]:
    yield table("power, 0/1 rows", ("rows", "changed"), _shares())
    yield table("power, graded rows", ("rows", "differences"), _graded())
    yield table("power, clusters", ("clusters", "scores"), _clustered())
    yield table("rows that would do", ("statement", "case"), _needed())


def _shares() -> Rows:
    for n, changed in ((30, 0.3), (100, 0.1), (300, 0.1), (300, 0.02), (1000, 0.18)):
        yield (f"{n:,}", number(changed)), lambda _, __, n=n, q=changed: shares(n, q)


def shares(n: int, changed: float) -> Row:
    """Exact. Only Holm's first step matters, since the other fields do not differ."""
    figures: dict[str, Figure] = {}
    measured = paired_difference(*_sides(change_of(round(n * changed / 2), round(n * changed / 2), n)), binary=True)
    for family in FAMILIES:
        effect = minimum_detectable(measured, family=family)
        assert effect is not None
        share = max(2 * round(n * changed / 2) / n, effect)
        shown = power_of(n, (share + effect) / 2, (share - effect) / 2, family)
        figures |= _stated(family, effect, Figure(shown, POWERED))
    return figures


def power_of(n: int, fixed: float, broken: float, family: int) -> float:
    """The probability of the finding "better"."""
    return sum(
        chance
        for up, down, chance in pairs(n, fixed, broken)
        if up > down and _shown(change_interval(up, down, n), up - down, min(1.0, family * p_of(up, down)))
    )


def _sides(change: Floats) -> tuple[Floats, Floats]:
    return (change < 0).astype(float), (change > 0).astype(float)


def _stated(family: int, effect: float | None, shown: Figure) -> dict[str, Figure]:
    name = f"{family} field{'s' * (family > 1)}"
    stated = Figure(0.0, text="none") if effect is None else Figure(effect)
    return {f"{name}: stated": stated, f"{name}: shown": shown}


def _shown(interval: tuple[float, float, str] | None, difference: float, adjusted: float) -> bool:
    low, high, _ = interval or (None, None, "")
    return finding_of(low, high, difference, adjusted) == "better"


Draw = Callable[[Rng, float], tuple[Floats, Codes | None]]
"""Differences of rows whose true mean is given, and their clusters."""


def normal(n: int, sd: float, share: float = 1.0) -> Draw:
    """Differences with a standard deviation among the `share` of rows that change at all."""

    def draw(rng: Rng, effect: float) -> tuple[Floats, None]:
        return np.clip(rng.normal(effect / share, sd, n), -1, 1) * (rng.random(n) < share), None

    return draw


def in_clusters(many: int, spread: float) -> Draw:
    """Graded differences, six in a cluster, whose standard deviation is .6 of `spread` between and .8 within."""
    codes = np.repeat(np.arange(many), 6)

    def draw(rng: Rng, effect: float) -> tuple[Floats, Codes]:
        moves = np.repeat(rng.normal(0, 0.6 * spread, many), 6) + rng.normal(0, 0.8 * spread, 6 * many)
        return np.clip(effect + moves, -1, 1), codes

    return draw


def answers_in_clusters(many: int) -> Draw:
    """0/1 rows of which a quarter changes, ten in a cluster, whose shares of better rows vary (beta, 3 in all)."""
    codes = np.repeat(np.arange(many), SIZE)

    def draw(rng: Rng, effect: float) -> tuple[Floats, Codes]:
        changed = max(0.25, effect)
        better = (1 + effect / changed) / 2
        share = np.full(many, 1.0) if better >= 1 else rng.beta(3 * better, 3 * (1 - better), many)
        signs = np.where(rng.random(len(codes)) < np.repeat(share, SIZE), 1.0, -1.0)
        return signs * (rng.random(len(codes)) < changed), codes

    return draw


def _graded() -> Rows:
    for n in (30, 100, 300):
        yield (f"{n:,}", "sd .3"), lambda r, k, n=n: simulated(r, k, normal(n, 0.3))
    yield ("300", "a tenth changes"), lambda r, k: simulated(r, k, normal(300, 0.3, 0.1))


def _clustered() -> Rows:
    # With so few clusters only differences near the end of the range are shown, where spread is small.
    for many in (4, 5, 6, 8):
        yield (f"{many}", "sd .08"), lambda r, k, c=many: simulated(r, k, in_clusters(c, 0.08))
    for many in (12, 20, 50):
        yield (f"{many}", "sd .25"), lambda r, k, c=many: simulated(r, k, in_clusters(c, 0.25))
    for many in (12, 20, 50):
        yield (f"{many}", "0/1"), lambda r, k, c=many: simulated(r, k, answers_in_clusters(c), binary=True)


def measured_of(drawn: tuple[Floats, Codes | None], *, binary: bool, seed: int, fast: bool = False) -> PairedDifference:
    change, codes = drawn
    old, new = _sides(change) if binary else (np.zeros(len(change)), change)
    clusters = None if codes is None else codes.tolist()
    return paired_difference(old, new, binary=binary, clusters=clusters, seed=seed, permutations=1 if fast else 999)


def _pilots(rng: Rng, draw: Draw) -> list[tuple[Floats, Codes | None]]:
    """Rows without a difference."""
    first = draw(rng, 0.0)
    return [first, *(draw(rng, 0.0) for _ in range((PILOTS if first[1] is None else CLUSTERED_PILOTS) - 1))]


def simulated(rng: Rng, runs: int, draw: Draw, *, binary: bool = False) -> Row:
    figures: dict[str, Figure] = {}
    pilots = [measured_of(first, binary=binary, seed=0, fast=True) for first in _pilots(rng, draw)]
    for family in FAMILIES:
        effects = [minimum_detectable(pilot, family=family) for pilot in pilots]
        known = [effect for effect in effects if effect is not None]
        effect = float(np.median(known)) if len(known) > len(pilots) / 2 else None
        # Few repetitions are enough where nothing can be shown.
        many = runs if effect is not None else min(runs, 200)
        hits = shown(rng, [draw(rng, 0.9 if effect is None else effect) for _ in range(many)], family)
        bar = POWERED if effect is not None else None
        figures |= _stated(family, effect, Figure(hits / many, bar, many))
    return figures


def shown(rng: Rng, draws: list[tuple[Floats, Codes | None]], family: int) -> int:
    """How many of the draws have the finding "better"; p-values of other fields are uniform, as without a difference.

    Uses the test that the interval inverts, and sign flips where that test alone does not rule the finding out.
    """
    codes = draws[0][1]
    sums = np.stack([unit_sums(change, codes) for change, _ in draws])
    sizes = unit_sums(np.ones(len(draws[0][0])), codes)
    above = rejects(sums, 0.0, sizes, low=-1.0, high=1.0)
    hits, flips = 0, FLIPS if codes is None else CLUSTERED_FLIPS
    for seed in np.flatnonzero(above):
        p = holm([sign_flip(sums[seed], seed=int(seed), permutations=flips), *rng.random(family - 1)])[0]
        hits += _shown((1e-9, 1.0, ""), 1.0, p)
    # The product's own comparison has the same finding for the first draws.
    for seed in range(min(5, len(draws))):
        interval = paired_difference(
            np.zeros(len(draws[seed][0])),
            draws[seed][0],
            clusters=None if codes is None else codes.tolist(),
            permutations=1,
        ).interval
        assert interval
        assert abs(interval.low) < 1e-4 or (interval.low > 0) == above[seed]
    return hits


def _needed() -> Rows:
    yield ("a difference is shown", "0/1 rows, 12 of 100 fixed, 6 broken"), _enough_shares
    yield ("a difference is shown", "60 graded rows, .05, sd .3"), _enough_graded
    for n, changed, margin in ((600, 0.18, 0.03), (1000, 0.01, 0.02), (50, 0.0, 0.02)):
        case = f"{n:,} 0/1 rows, {number(changed)} changed, margin {number(margin)}"
        yield ("equals pass", case), lambda _, __, c=(n, changed, margin): enough_to_pass(*c)
    case = "100 graded rows, sd .2, margin .03"
    yield ("equals pass", case), lambda r, k: enough_graded_to_pass(r, k, normal(100, 0.2), normal, 0.03)
    case = "20 clusters, sd .25, margin .1"
    grown = lambda many, _: in_clusters(many // 6, 0.25)  # noqa: E731
    yield ("equals pass", case), lambda r, k: enough_graded_to_pass(r, k, in_clusters(20, 0.25), grown, 0.1)


def _enough(needed: float, done: Figure) -> Row:
    return {"rows": Figure(needed, text=f"{needed:,.0f}"), "share": done}


def _enough_shares(_: Rng, __: int) -> Row:
    measured = paired_difference(*_sides(change_of(12, 6, 100)), binary=True)
    needed = needed_to_show(measured)
    assert needed is not None
    return _enough(needed, Figure(power_of(needed, 0.12, 0.06, 1), POWERED))


def _enough_graded(rng: Rng, runs: int) -> Row:
    pilots = []
    for _ in range(PILOTS):
        change = np.clip(rng.normal(0, 0.3, 60), -1, 1)
        pilots.append(
            needed_to_show(measured_of((change - change.mean() + 0.05, None), binary=False, seed=0, fast=True))
        )
    needed = int(np.median([one for one in pilots if one is not None]))
    hits = shown(rng, [normal(needed, 0.3)(rng, 0.05) for _ in range(runs)], 1)
    return _enough(needed, Figure(hits / runs, POWERED, runs))


def enough_to_pass(n: int, changed: float, margin: float) -> Row:
    """Exact, at the share of changes that was assumed: (changed + 1/2) / (rows + 1)."""
    changes = change_of(round(n * changed / 2), round(n * changed / 2), n)
    needed = needed_to_pass(changes, None, -margin, 0.0, binary=True, bounds=(-1.0, 1.0))
    assert needed is not None
    share = (2 * round(n * changed / 2) + 0.5) / (n + 1)
    return _enough(needed, Figure(rates(share / 2, share / 2, needed, margin)[0], POWERED))


def enough_graded_to_pass(rng: Rng, runs: int, pilot: Draw, grown: Callable[[int, float], Draw], margin: float) -> Row:
    stated = []
    for change, codes in _pilots(rng, pilot):
        stated.append(needed_to_pass(change, codes, -margin, 0.0, binary=False, bounds=(-1.0, 1.0)))
    needed = int(np.median([one for one in stated if one is not None]))
    passed = 0
    for _ in range(runs):
        change, codes = grown(needed, 0.2)(rng, 0.0)
        passed += outcome_of(np.zeros(len(change)), change, margin, binary=False, clusters=codes) == "PASS"
    return _enough(needed, Figure(passed / runs, POWERED, runs))
