"""Operating characteristics of a gate on data like the user's: its error rates, and its power to detect a loss.

The gate itself runs on simulated pairs of releases, of three kinds.

- Exchanged: each pair is drawn with replacement from the samples of the two real releases, and for each sample (or
  cluster) a coin decides which of the two answers is called the new one. With a fair coin the releases are equally
  good, whatever the data. With a coin that mostly calls the worse answer new, the loss is known and the share of
  samples that change is the real one. All rules see the same samples and coins, so they depend on each other as they
  do in the data.
- Adverse: samples and scores of the old release are drawn in the same way, and the new release differs from it in ways
  that resampling the real pairs never shows: answers are left out, whole clusters break, or a few answers lose
  everything while the others move a little. These scenarios are about the primary field only.
- Misjudged: answers are exchanged as above, and the judge hides as much of the loss as the human labels of both
  releases allow. Without such labels there is no such scenario.

A rule about people is simulated on the labelled samples, without the help of the scores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.gate.evidence import Evidence, PairedScores, RuleStatistic, people_statistic, statistic_of
from answerkey.metrics_core.gate.gate import PRECEDENCE, GateOutcome, decisions
from answerkey.metrics_core.gate.policy import Policy, PolicyRule
from answerkey.metrics_core.statistics.bounded_mean import Floats
from answerkey.metrics_core.statistics.clustered import Codes
from answerkey.metrics_core.statistics.intervals import LEVEL, Estimate, clopper_pearson
from answerkey.metrics_core.statistics.power import POWER

Truth = Literal["equal", "margin", "loss", "enough", "judge", "dropped", "documents", "rare", "noise"]

_CELLS, _COUNTED_CELLS = 400_000, 4_000_000
"""The most samples that the simulations of a scenario draw, in general and if the gate only counts: about a second."""
_LEAST, _MOST = 200, 2000
_NOISE, _LITTLE_NOISE = 0.1, 0.001
"""The share of a field's range by which scores move without becoming better or worse."""
_CHANGED = 0.1
"""The share of samples of a 0/1 field that noise changes."""


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """One scenario: the true loss of the primary field, and how often the gate passes and fails, with 95 % intervals.

    Attributes:
        name: exchanged are equal: no loss. margin: a loss of exactly the margin. loss: one that the gate should detect
            by its own formula. enough: no loss, on as many samples as the gate says are enough. judge: a loss of the
            margin, of which the judge hides what its errors on labelled samples allow. Adverse are dropped: as
            margin, and the answers that lost most are left out. documents: whole clusters lose everything. rare: single
            answers do, and the others move a little. noise: no loss, scores move up and down.
        loss: mean of old - new in the simulated releases, in the units of the primary field.
        n: samples of each simulated pair; `n_runs`: pairs.
        passed, failed: shares of PASS and of FAIL; `stated_pass`, `stated_fail`: those by formula, or None.
        wrong: the outcomes (PASS, FAIL) that are wrong, given the loss.

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

    `hidden` is the loss that the judge may hide: its difference minus the lower end of the interval that human labels
    correct it to. None if there are no labels; 0 if no judge decides.

    The names of the fields are those of the JSON of `answerkey gate --self-test`.

    >>> SelfTest(n=1000, units=200, rules=("rouge_l.f1 >= -0.02",), trials=()).units
    200
    """

    n: int
    units: int
    rules: tuple[str, ...]
    trials: tuple[OperatingPoint, ...]
    level: float = LEVEL
    hidden: float | None = None

    def worst(self, outcome: Literal["PASS", "FAIL"]) -> OperatingPoint | None:
        """The scenario in which `outcome` is wrong and most frequent."""
        share = {"PASS": "passed", "FAIL": "failed"}[outcome]
        wrong = (point for point in self.trials if outcome in point.wrong)
        return max(wrong, key=lambda point: float(getattr(point, share).value), default=None)


class _Scenario(NamedTuple):
    name: Truth
    loss: float
    wrong: tuple[Literal["PASS", "FAIL"], ...]
    growth: float = 1.0
    hidden: float = 0.0
    stated_pass: float | None = None
    stated_fail: float | None = None


_ADVERSE = ("dropped", "documents", "rare", "noise")


def self_test(
    policy: Policy, evidence: Evidence, *, level: float = LEVEL, seed: int = 0, runs: int | None = None
) -> SelfTest:
    """Run the gate on simulated pairs of releases: equal ones, and ones that lose the margin or more.

    Rules about levels, coverage and calibration say nothing about differences and are left out.

    Args:
        level: of the intervals of the gate.
        runs: pairs per scenario; by default 200 to 2,000, as a few seconds allow.

    Raises:
        UserError: the primary field has no comparable numbers, or all of them are equal.

    >>> from answerkey.metrics_core.gate.policy import parse_policy
    >>> policy = parse_policy({"primary": "exact_match.match", "margin": 0.05}, "example")
    >>> old, new = np.repeat([1.0, 0.0, 1.0], [60, 20, 20]), np.repeat([1.0, 0.0], [60, 40])
    >>> scores = {("exact_match.match", "all"): PairedScores(old, new, binary=True)}
    >>> [point.name for point in self_test(policy, Evidence("v1", "v2", scores, {}), runs=20).trials]
    ['equal', 'margin', 'loss', 'enough', 'dropped', 'rare', 'noise']
    """
    columns = {rule: column for rule in policy.rules if (column := _simulated(rule, evidence)) is not None}
    primary = columns.get(policy.primary)
    statistic = None if primary is None else statistic_of(primary, evidence.clusters, difference=True)
    if primary is None or statistic is None or not statistic.changes.any():
        raise UserError(f"self-test: no sample has another {policy.primary.field} in one report than in the other")
    rules, hidden = tuple(columns), _hidden(policy, evidence)
    units = _Units(evidence.clusters, primary)
    points = []
    scenarios = [*_exchanged(policy.primary.floor, statistic, len(rules), units.largest_loss, level)]
    if hidden and 0 < -policy.primary.floor <= units.largest_loss:
        scenarios.append(_Scenario("judge", -policy.primary.floor, ("PASS",), hidden=hidden))
    scenarios += _adverse(policy, statistic, primary, units.largest_loss)
    for index, scenario in enumerate(scenarios):
        rows = round(len(primary.old) * scenario.growth)
        cells = _COUNTED_CELLS if primary.binary and statistic.codes is None else _CELLS
        many = runs or max(_LEAST, min(_MOST, cells // rows))
        tested = rules[:1] if scenario.name in _ADVERSE else rules
        rng = np.random.default_rng([seed, index])
        counts = Counter(_outcome(tested, columns, units, scenario, policy.coverage, level, rng) for _ in range(many))
        passed, failed = (Estimate(counts[one] / many, clopper_pearson(counts[one], many)) for one in ("PASS", "FAIL"))
        points.append(
            OperatingPoint(
                scenario.name, scenario.loss, round(statistic.n * scenario.growth), many, passed, failed,
                scenario.stated_pass, scenario.stated_fail, scenario.wrong,
            )
        )  # fmt: skip
    return SelfTest(statistic.n, units.n_informative, tuple(rule.text for rule in rules), tuple(points), level, hidden)


def _simulated(rule: PolicyRule, evidence: Evidence) -> PairedScores | None:
    """The scores or labels on which a rule about a difference is simulated."""
    column = evidence.scores.get((rule.field, rule.slice))
    if rule.kind not in ("difference", "people") or not isinstance(column, PairedScores):
        return None
    scores = column if rule.kind == "difference" else column.by_people()
    return scores and scores.paired()


def _hidden(policy: Policy, evidence: Evidence) -> float | None:
    """The loss in the primary field that its judge may hide, in the units of the field."""
    rule, column = policy.primary, evidence.scores.get((policy.primary.field, policy.primary.slice))
    if rule.kind == "people" or evidence.bases.get(rule.field) != "judge":
        return 0.0
    people = people_statistic(column, evidence.clusters) if isinstance(column, PairedScores) else None
    interval = people and people.interval()
    if not isinstance(column, PairedScores) or people is None or people.judged is None or interval is None:
        return None
    return max(0.0, people.judged - interval.low * (column.high - column.low))


def _exchanged(
    floor: float, statistic: RuleStatistic, family: int, largest: float, level: float
) -> Iterator[_Scenario]:
    """The scenarios with exchanged answers, as far as enough samples change."""
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
    """The adverse scenarios, as far as the old release has enough to lose."""
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
    """The units that are drawn (clusters or samples), and how much each moves the primary field."""

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
        """The rows, whether each is swapped so that the new release has the loss, and the clusters of the draw."""
        drawn = rng.integers(0, len(self._sizes), max(1, round(len(self._sizes) * growth)))
        share = max(-1.0, min(1.0, loss / self.largest_loss))
        for_the_worse = rng.random(len(drawn)) < 0.5 + 0.5 * share
        swapped = for_the_worse == self._worse_if_swapped[drawn]
        if not self._clustered:
            return self._rows[drawn], swapped, None
        sizes = self._sizes[drawn]
        unit = np.repeat(np.arange(len(drawn)), sizes)
        within = np.arange(len(unit)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return self._rows[self._starts[drawn][unit] + within], swapped[unit], unit


def _outcome(
    rules: Sequence[PolicyRule],
    columns: Mapping[PolicyRule, PairedScores],
    units: _Units,
    scenario: _Scenario,
    coverage: float,
    level: float,
    rng: np.random.Generator,
) -> GateOutcome:
    """The outcome of the gate for one simulated pair of releases."""
    exchanged = scenario.name not in ("documents", "rare", "noise")
    loss = scenario.loss - scenario.hidden if exchanged else 0.0
    rows, swapped, clusters = units.draw(loss, scenario.growth, rng)
    statistics = {}
    for rule in rules:
        column = columns[rule]
        drawn = column.drawn(rows, swapped) if exchanged else _attacked(column, scenario, rows, clusters, rng)
        if scenario.name == "dropped":
            drawn = _dropped(drawn, coverage)
        if statistic := statistic_of(drawn, clusters, difference=True):
            statistics[rule] = statistic
    outcomes: list[GateOutcome] = [*decisions(statistics, len(rules), level).values()]
    if len(statistics) < len(rules):
        outcomes.append("INCOMPLETE")
    return min(outcomes, key=PRECEDENCE.index)


def _dropped(column: PairedScores, coverage: float) -> PairedScores:
    """Leave out the answers that lost most, as many as the coverage of the policy allows."""
    lost = np.nan_to_num(column.old - column.new)
    most = int((1 - coverage) * np.isfinite(column.old).sum())
    out = np.argsort(-lost, kind="stable")[: min(most, int((lost > 0).sum()))]
    mask = np.zeros(len(lost), np.bool_)
    mask[out] = True
    return replace(column, new=np.where(mask, np.nan, column.new), unanswered={"absent": mask})


def _attacked(
    column: PairedScores, scenario: _Scenario, rows: Codes, clusters: Codes | None, rng: np.random.Generator
) -> PairedScores:
    """The old release's scores on `rows`, and those of a new release with few large losses."""
    old = column.old[rows]
    new = _moved(column, old, _NOISE if scenario.name == "noise" else _LITTLE_NOISE, rng)
    if scenario.loss:
        codes = clusters if scenario.name == "documents" and clusters is not None else np.arange(len(old))
        breaks = rng.random(int(codes.max()) + 1) < scenario.loss / (float(np.nanmean(column.old)) - column.low)
        new = np.where(breaks[codes] & np.isfinite(old), column.low, new)
    return replace(column, old=old, new=new)


def _moved(column: PairedScores, old: Floats, noise: float, rng: np.random.Generator) -> Floats:
    """Scores that move up or down with equal chances, by `noise` of the range or as far as there is room.

    In a 0/1 field, as many answers become right as wrong, unless there is only a little noise.
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
