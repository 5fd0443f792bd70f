"""Operating characteristics of a gate on data like the user's own: how often it raises a false alarm or sees a loss.

Formulas promise error rates under their assumptions; here the gate itself runs on simulated pairs of releases. Each
pair is drawn with replacement from the samples of the two real releases, and for each sample (or cluster) a coin
decides which of the two answers is called the new one. With a fair coin the releases are equally good, whatever the
data. With a coin that mostly calls the worse answer new, the loss is known and the share of samples that change is the
real one. All rules see the same samples and coins, so they depend on each other as they do in the data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.gate.evidence import Coverage, Evidence, PairedScores, RuleStatistic, statistic_of
from answerkey.metrics_core.gate.gate import GateOutcome, apply_policy
from answerkey.metrics_core.gate.policy import Policy
from answerkey.metrics_core.statistics.intervals import LEVEL, Estimate, normal_quantile, wilson
from answerkey.metrics_core.statistics.power import POWER, needed_to_decide

_CELLS = 8_000_000
"""Samples that the simulations of one scenario may draw together: a few seconds."""
_LEAST, _MOST = 200, 2000


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """One scenario: the true loss of the primary field, and how often the gate passes and fails, with 95 % intervals.

    Attributes:
        name: equal: no loss. margin: a loss of exactly the margin. loss: one that the gate should detect by its own
            formula. enough: no loss, on as many samples as the gate says are enough.
        loss: mean of old - new in the simulated releases, in the units of the primary field.
        n: samples of each simulated pair; `n_runs`: pairs.
        passed, failed: shares of PASS and of FAIL; `stated_pass`, `stated_fail`: the same by formula, or None.

    >>> rate = Estimate(0.02, wilson(10, 500))
    >>> OperatingPoint("equal", loss=0.0, n=1000, n_runs=500, passed=rate, failed=rate).failed.value
    0.02
    """

    name: Literal["equal", "margin", "loss", "enough"]
    loss: float
    n: int
    n_runs: int
    passed: Estimate
    failed: Estimate
    stated_pass: float | None = None
    stated_fail: float | None = None


@dataclass(frozen=True, slots=True)
class SelfTest:
    """The operating points, and the rules about differences that were simulated; `n` samples form `units` clusters.

    The names of the fields are those of the JSON of `answerkey gate --self-test`.

    >>> SelfTest(n=1000, units=200, rules=("rouge_l.f1 >= -0.02",), trials=()).units
    200
    """

    n: int
    units: int
    rules: tuple[str, ...]
    trials: tuple[OperatingPoint, ...]


class _Scenario(NamedTuple):
    name: Literal["equal", "margin", "loss", "enough"]
    loss: float
    growth: float = 1.0
    stated_pass: float | None = None
    stated_fail: float | None = None


def self_test(policy: Policy, evidence: Evidence, *, seed: int = 0, runs: int | None = None) -> SelfTest:
    """Run the gate on simulated pairs of releases: equal ones, ones that lose the margin, ones that lose more.

    Rules about levels, coverage and calibration say nothing about differences and are left out.

    Args:
        runs: pairs per scenario; by default as many as a few seconds allow (200 to 2,000).

    Raises:
        UserError: the primary field has no comparable numbers, or none that differ.

    >>> from answerkey.metrics_core.gate.policy import parse_policy
    >>> policy = parse_policy({"primary": "exact_match.match", "margin": 0.05}, "example")
    >>> old, new = np.repeat([1.0, 0.0, 1.0], [60, 20, 20]), np.repeat([1.0, 0.0], [60, 40])
    >>> scores = {("exact_match.match", "all"): PairedScores(old, new, binary=True)}
    >>> [point.name for point in self_test(policy, Evidence("v1", "v2", scores, {}), runs=20).trials]
    ['equal', 'margin', 'loss', 'enough']
    """
    found = ((key, evidence.scores.get(key)) for key in policy.needs)
    columns = {key: column.paired() for key, column in found if isinstance(column, PairedScores)}
    primary = columns.get((policy.primary.field, policy.primary.slice))
    statistic = None if primary is None else statistic_of(primary, evidence.clusters, difference=True)
    if primary is None or statistic is None or not statistic.changes.any():
        raise UserError(f"self-test: no sample has another {policy.primary.field} in one report than in the other")
    rules = tuple(r for r in policy.rules if r.kind == "difference" and (r.field, r.slice) in columns)
    tried = Policy((*rules, replace(policy.primary, kind="coverage", field="", floor=0.0)))
    covered = {rule.field: (Coverage(evidence.new, 1, 1),) for rule in rules}
    simulated = replace(evidence, scores=columns, coverage=covered, calibrations={})
    units = _Units(evidence.clusters, primary)
    points = []
    for place, scenario in enumerate(_scenarios(policy.primary.floor, statistic, len(rules), units.largest_loss)):
        rows = round(len(primary.old) * scenario.growth)
        many = runs or max(_LEAST, min(_MOST, _CELLS // rows))
        counts = _counts(tried, simulated, units, scenario, many, np.random.default_rng([seed, place]))
        passed, failed = (Estimate(counts[one] / many, wilson(counts[one], many)) for one in ("PASS", "FAIL"))
        points.append(
            OperatingPoint(
                scenario.name, scenario.loss, round(statistic.n * scenario.growth), many, passed, failed,
                scenario.stated_pass, scenario.stated_fail,
            )
        )  # fmt: skip
    return SelfTest(statistic.n, units.n_informative, tuple(rule.text for rule in rules), tuple(points))


def _scenarios(floor: float, statistic: RuleStatistic, family: int, largest: float) -> Iterator[_Scenario]:
    """What to simulate, as far as enough samples change."""
    yield _Scenario("equal", 0.0)
    if 0 < -floor <= largest:
        yield _Scenario("margin", -floor)
    level = 1 - (1 - LEVEL) / family
    interval, usual = statistic.interval_if_equal(level), statistic.interval_if_equal()
    if interval is None or usual is None:
        return
    # An interval that wide leaves the floor out with the chance POWER if the truth lies so much farther away.
    farther = (interval.high - interval.low) / 2 * (1 + normal_quantile(2 * POWER - 1) / normal_quantile(level))
    if farther - floor <= largest:
        yield _Scenario("loss", farther - floor, stated_fail=POWER)
    needed = needed_to_decide(usual, -floor, statistic.n)
    if needed and needed <= _CELLS // _LEAST and family == 1:
        yield _Scenario("enough", 0.0, growth=needed / statistic.n, stated_pass=POWER)


class _Units:
    """What is drawn (clusters, or single samples), and how much each moves the primary field."""

    def __init__(self, clusters: npt.NDArray[np.intp] | None, primary: PairedScores) -> None:
        n = len(primary.old)
        codes = np.arange(n) if clusters is None else np.unique(clusters, return_inverse=True)[1]
        self._rows = np.argsort(codes, kind="stable")
        self._sizes = np.bincount(codes)
        self._starts = np.cumsum(self._sizes) - self._sizes
        sums = np.bincount(codes, np.nan_to_num(primary.new - primary.old))
        known = np.isfinite(primary.old)
        self._worse_if_swapped = sums > 0
        self.largest_loss = float(np.abs(sums).sum() / known.sum())
        self.n_informative = len(np.unique(codes[known]))
        self._clustered = clusters is not None

    def draw(
        self, scenario: _Scenario, rng: np.random.Generator
    ) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_], npt.NDArray[np.intp] | None]:
        """Rows, whether each is swapped, and the clusters of the draw."""
        drawn = rng.integers(0, len(self._sizes), max(1, round(len(self._sizes) * scenario.growth)))
        for_the_worse = rng.random(len(drawn)) < 0.5 + 0.5 * scenario.loss / self.largest_loss
        swapped = for_the_worse == self._worse_if_swapped[drawn]
        if not self._clustered:
            return self._rows[drawn], swapped, None
        sizes = self._sizes[drawn]
        unit = np.repeat(np.arange(len(drawn)), sizes)
        within = np.arange(len(unit)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return self._rows[self._starts[drawn][unit] + within], swapped[unit], unit


def _counts(
    policy: Policy, evidence: Evidence, units: _Units, scenario: _Scenario, runs: int, rng: np.random.Generator
) -> Counter[GateOutcome]:
    """How often the gate says what."""
    counts: Counter[GateOutcome] = Counter()
    for _ in range(runs):
        rows, swapped, clusters = units.draw(scenario, rng)
        columns = {k: c.drawn(rows, swapped) for k, c in evidence.scores.items() if isinstance(c, PairedScores)}
        counts[apply_policy(policy, replace(evidence, scores=columns, clusters=clusters)).outcome] += 1
    return counts
