"""Operating characteristics of a gate on data like the user's own: how often it is wrong, and how often it sees a loss.

Formulas promise error rates under their assumptions; here the gate itself runs on simulated pairs of releases, of two
kinds.

- Exchanged: each pair is drawn with replacement from the samples of the two real releases, and for each sample (or
  cluster) a coin decides which of the two answers is called the new one. With a fair coin the releases are equally
  good, whatever the data. With a coin that mostly calls the worse answer new, the loss is known and the share of
  samples that change is the real one. All rules see the same samples and coins, so they depend on each other as they
  do in the data.
- Adverse: the samples and the scores of the old release are drawn alike, and the new one differs from it in a way that
  drawing the real pairs again never shows: answers are left out, whole clusters break, or a few answers lose everything
  while the others move a little. These are about the primary field alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.gate.evidence import Evidence, PairedScores, RuleStatistic, statistic_of
from answerkey.metrics_core.gate.gate import PRECEDENCE, GateOutcome, decisions
from answerkey.metrics_core.gate.policy import Policy, PolicyRule
from answerkey.metrics_core.statistics.bounded_mean import Floats
from answerkey.metrics_core.statistics.clustered import Codes
from answerkey.metrics_core.statistics.intervals import LEVEL, Estimate, clopper_pearson
from answerkey.metrics_core.statistics.power import POWER

Truth = Literal["equal", "margin", "loss", "enough", "dropped", "documents", "rare", "noise"]

_CELLS, _COUNTED_CELLS = 400_000, 4_000_000
"""Samples that the simulations of one scenario may draw together, and if the gate only counts them: about a second."""
_LEAST, _MOST = 200, 2000
_NOISE, _LITTLE_NOISE = 0.1, 0.001
"""By how much of the range of a field scores move without becoming better or worse."""
_CHANGED = 0.1
"""The share of samples of a 0/1 field that change where they are moved by noise alone."""


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """One scenario: the true loss of the primary field, and how often the gate passes and fails, with 95 % intervals.

    Attributes:
        name: exchanged are equal: no loss. margin: a loss of exactly the margin. loss: one that the gate should detect
            by its own formula. enough: no loss, on as many samples as the gate says are enough. Adverse are dropped: as
            margin, and the answers that lost most are left out. documents: whole clusters lose everything. rare: single
            answers do, and the others move a little. noise: no loss, scores move up and down.
        loss: mean of old - new in the simulated releases, in the units of the primary field.
        n: samples of each simulated pair; `n_runs`: pairs.
        passed, failed: shares of PASS and of FAIL; `stated_pass`, `stated_fail`: the same by formula, or None.
        wrong: which of PASS and FAIL are wrong, given the loss.

    >>> rate = Estimate(0.02, clopper_pearson(10, 500))
    >>> OperatingPoint("equal", loss=0.0, n=1000, n_runs=500, passed=rate, failed=rate).failed.value
    0.02
    """

    name: Truth
    loss: float
    n: int
    n_runs: int
    passed: Estimate
    failed: Estimate
    stated_pass: float | None = None
    stated_fail: float | None = None
    wrong: tuple[Literal["PASS", "FAIL"], ...] = ()


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
    level: float = LEVEL

    def worst(self, outcome: Literal["PASS", "FAIL"]) -> OperatingPoint | None:
        """The scenario in which the gate most often says `outcome` and is wrong."""
        share = {"PASS": "passed", "FAIL": "failed"}[outcome]
        wrong = (point for point in self.trials if outcome in point.wrong)
        return max(wrong, key=lambda point: float(getattr(point, share).value), default=None)


class _Scenario(NamedTuple):
    name: Truth
    loss: float
    wrong: tuple[Literal["PASS", "FAIL"], ...]
    growth: float = 1.0
    stated_pass: float | None = None
    stated_fail: float | None = None


_ADVERSE = ("dropped", "documents", "rare", "noise")


def self_test(
    policy: Policy, evidence: Evidence, *, level: float = LEVEL, seed: int = 0, runs: int | None = None
) -> SelfTest:
    """Run the gate on simulated pairs of releases: equal ones, ones that lose the margin, ones that lose more.

    Rules about levels, coverage and calibration say nothing about differences and are left out.

    Args:
        level: of the intervals of the gate.
        runs: pairs per scenario; by default as many as a few seconds allow (200 to 2,000).

    Raises:
        UserError: the primary field has no comparable numbers, or none that differ.

    >>> from answerkey.metrics_core.gate.policy import parse_policy
    >>> policy = parse_policy({"primary": "exact_match.match", "margin": 0.05}, "example")
    >>> old, new = np.repeat([1.0, 0.0, 1.0], [60, 20, 20]), np.repeat([1.0, 0.0], [60, 40])
    >>> scores = {("exact_match.match", "all"): PairedScores(old, new, binary=True)}
    >>> [point.name for point in self_test(policy, Evidence("v1", "v2", scores, {}), runs=20).trials]
    ['equal', 'margin', 'loss', 'enough', 'dropped', 'rare', 'noise']
    """
    found = ((key, evidence.scores.get(key)) for key in policy.needs)
    columns = {key: column.paired() for key, column in found if isinstance(column, PairedScores)}
    key = policy.primary.field, policy.primary.slice
    primary = columns.get(key)
    statistic = None if primary is None else statistic_of(primary, evidence.clusters, difference=True)
    if primary is None or statistic is None or not statistic.changes.any():
        raise UserError(f"self-test: no sample has another {policy.primary.field} in one report than in the other")
    rules = tuple(r for r in policy.rules if r.kind == "difference" and (r.field, r.slice) in columns)
    units = _Units(evidence.clusters, primary)
    points = []
    scenarios = [*_exchanged(policy.primary.floor, statistic, len(rules), units.largest_loss, level)]
    scenarios += _adverse(policy, statistic, primary, units.largest_loss)
    for place, scenario in enumerate(scenarios):
        rows = round(len(primary.old) * scenario.growth)
        cells = _COUNTED_CELLS if primary.binary and statistic.codes is None else _CELLS
        many = runs or max(_LEAST, min(_MOST, cells // rows))
        adverse = scenario.name in _ADVERSE
        drawn = {key: primary} if adverse else columns
        draws = _Draws(rules[:1] if adverse else rules, drawn, units, scenario, policy.coverage, level)
        counts = draws.counts(many, np.random.default_rng([seed, place]))
        passed, failed = (Estimate(counts[one] / many, clopper_pearson(counts[one], many)) for one in ("PASS", "FAIL"))
        points.append(
            OperatingPoint(
                scenario.name, scenario.loss, round(statistic.n * scenario.growth), many, passed, failed,
                scenario.stated_pass, scenario.stated_fail, scenario.wrong,
            )
        )  # fmt: skip
    return SelfTest(statistic.n, units.n_informative, tuple(rule.text for rule in rules), tuple(points), level)


def _exchanged(
    floor: float, statistic: RuleStatistic, family: int, largest: float, level: float
) -> Iterator[_Scenario]:
    """What to simulate by exchanging, as far as enough samples change."""
    yield _Scenario("equal", 0.0, ("FAIL",) if floor else ("PASS", "FAIL"))
    if 0 < -floor <= largest:
        yield _Scenario("margin", -floor, ("PASS", "FAIL"))
    loss = statistic.detectable_loss(floor, largest, 1 - (1 - level) / family)
    if loss is not None:
        yield _Scenario("loss", loss, ("PASS",), stated_fail=POWER)
    needed = statistic.needed_to_pass(floor, 0.0, level) if floor < 0 else None
    if needed and needed <= _COUNTED_CELLS // _LEAST and family == 1:
        yield _Scenario("enough", 0.0, ("FAIL",), growth=needed / statistic.n, stated_pass=POWER)


def _adverse(policy: Policy, statistic: RuleStatistic, primary: PairedScores, largest: float) -> Iterator[_Scenario]:
    """What drawing the real pairs again does not show, as far as the old release has so much to lose."""
    margin = -policy.primary.floor
    room = float(np.nanmean(primary.old)) - primary.low
    if margin and margin <= largest and policy.coverage < 1:
        yield _Scenario("dropped", margin, ("PASS",))
    if margin and margin <= room:
        if statistic.n_clusters is not None:
            yield _Scenario("documents", margin, ("PASS", "FAIL"))
        yield _Scenario("rare", margin, ("PASS", "FAIL"))
    yield _Scenario("noise", 0.0, ("FAIL",) if margin else ("PASS", "FAIL"))


class _Units:
    """What is drawn (clusters, or single samples), and how much each moves the primary field."""

    def __init__(self, clusters: Codes | None, primary: PairedScores) -> None:
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
        self, loss: float, growth: float, rng: np.random.Generator
    ) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_], Codes | None]:
        """Rows, whether each is swapped so that the new release has the loss, and the clusters of the draw."""
        drawn = rng.integers(0, len(self._sizes), max(1, round(len(self._sizes) * growth)))
        for_the_worse = rng.random(len(drawn)) < 0.5 + 0.5 * loss / self.largest_loss
        swapped = for_the_worse == self._worse_if_swapped[drawn]
        if not self._clustered:
            return self._rows[drawn], swapped, None
        sizes = self._sizes[drawn]
        unit = np.repeat(np.arange(len(drawn)), sizes)
        within = np.arange(len(unit)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return self._rows[self._starts[drawn][unit] + within], swapped[unit], unit


class _Draws(NamedTuple):
    """Simulated pairs of one scenario: the rules that decide, and the columns and units that are drawn."""

    rules: tuple[PolicyRule, ...]
    columns: dict[tuple[str, str], PairedScores]
    units: _Units
    scenario: _Scenario
    coverage: float
    level: float

    def counts(self, runs: int, rng: np.random.Generator) -> Counter[GateOutcome]:
        """How often the gate says what."""
        return Counter(self._outcome(rng) for _ in range(runs))

    def _outcome(self, rng: np.random.Generator) -> GateOutcome:
        name, loss = self.scenario.name, self.scenario.loss
        exchanged = name not in ("documents", "rare", "noise")
        rows, swapped, clusters = self.units.draw(loss if exchanged else 0.0, self.scenario.growth, rng)
        if exchanged:
            columns = {key: column.drawn(rows, swapped) for key, column in self.columns.items()}
        else:
            columns = {key: _attacked(column, name, loss, rows, clusters, rng) for key, column in self.columns.items()}
        if name == "dropped":
            columns = {key: _dropped(column, self.coverage) for key, column in columns.items()}
        found = {rule: statistic_of(columns[rule.field, rule.slice], clusters, difference=True) for rule in self.rules}
        known = {rule: statistic for rule, statistic in found.items() if statistic is not None}
        outcomes: list[GateOutcome] = [*decisions(known, len(self.rules), self.level).values()]
        if len(known) < len(found):
            outcomes.append("INCOMPLETE")
        return min(outcomes, key=PRECEDENCE.index)


def _dropped(column: PairedScores, coverage: float) -> PairedScores:
    """As many of the answers that lost most are left out as the policy's coverage allows."""
    lost = np.nan_to_num(column.old - column.new)
    most = int((1 - coverage) * np.isfinite(column.old).sum())
    out = np.argsort(-lost, kind="stable")[: min(most, int((lost > 0).sum()))]
    mask = np.zeros(len(lost), np.bool_)
    mask[out] = True
    return replace(column, new=np.where(mask, np.nan, column.new), unanswered={"absent": mask})


def _attacked(
    column: PairedScores,
    name: Truth,
    loss: float,
    rows: npt.NDArray[np.intp],
    clusters: Codes | None,
    rng: np.random.Generator,
) -> PairedScores:
    """The old release's scores on `rows`, and those of a new one that loses `loss` on average by few large losses."""
    old = column.old[rows]
    new = _moved(column, old, _NOISE if name == "noise" else _LITTLE_NOISE, rng)
    if loss:
        codes = clusters if name == "documents" and clusters is not None else np.arange(len(old))
        breaks = rng.random(int(codes.max()) + 1) < loss / (float(np.nanmean(column.old)) - column.low)
        new = np.where(breaks[codes] & np.isfinite(old), column.low, new)
    return replace(column, old=old, new=new)


def _moved(column: PairedScores, old: Floats, noise: float, rng: np.random.Generator) -> Floats:
    """Scores that went up or down, as likely and as far: by `noise` of the range, as far as there is room.

    Of a 0/1 field a few answers become right and as many wrong, if that is more than a little noise.
    """
    if column.binary:
        right = float(np.nanmean(column.old))
        if noise < _NOISE or not 0 < right < 1:
            return old
        changes = min(_CHANGED, right, 1 - right) / 2
        changed = rng.random(len(old)) < np.where(old == 1, changes / right, changes / (1 - right))
        return np.where(changed, 1 - old, old)
    room = np.minimum(noise * (column.high - column.low), np.minimum(old - column.low, column.high - old))
    moved: Floats = old + room * rng.choice([-1.0, 1.0], len(old))
    return moved
