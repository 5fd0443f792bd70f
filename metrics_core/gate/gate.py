"""May the new release ship? From a policy and the evidence of two reports to PASS, FAIL, INCONCLUSIVE or INCOMPLETE.

| outcome of a rule | when |
|---|---|
| PASS | the whole interval (95 %, two-sided) lies above the floor |
| FAIL | the whole interval lies below it, also after Holm's correction for all rules about scores |
| INCONCLUSIVE | anything else: there are too few samples to tell |
| INCOMPLETE | something that the rule needs is missing, so its numbers decide nothing |

The gate says FAIL if any rule fails; otherwise INCOMPLETE if any rule is; otherwise INCONCLUSIVE if any rule is;
otherwise PASS. A rule fails only on sound evidence, and nothing that is still missing could change that.

PASS needs no correction for several rules, because every rule must hold: the chance of letting a release through that
breaks one rule is that of this rule, at most 2.5 % (intersection-union test; Berger 1982). A single rule is enough for
FAIL, so there the intervals are widened step by step as in Holm (1979): however many rules there are, the chance of
any false alarm is at most 2.5 %.

Two identical releases over few samples are INCONCLUSIVE: 20 unchanged samples say little about 2,000.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from answerkey.metrics_core.comparison import ALL
from answerkey.metrics_core.gate.evidence import Calibrated, Coverage, Evidence, Missing, RuleStatistic, statistic_of
from answerkey.metrics_core.gate.policy import Policy, PolicyRule
from answerkey.metrics_core.statistics.bounded_mean import minimum_clusters
from answerkey.metrics_core.statistics.intervals import LEVEL, Interval, percent
from answerkey.metrics_core.statistics.power import POWER, needed_to_decide

GateOutcome = Literal["PASS", "FAIL", "INCONCLUSIVE", "INCOMPLETE"]
Decision = Literal["PASS", "FAIL", "INCONCLUSIVE"]
"""What an interval says of a floor: it lies above, below, or contains it."""
PRECEDENCE: tuple[GateOutcome, ...] = ("FAIL", "INCOMPLETE", "INCONCLUSIVE", "PASS")
"""Which outcome outweighs which, among several rules and among several gates."""
_MAX_REASONS = 3


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """One rule of a gate: its text, its outcome, and the reason in one sentence.

    `value` is the statistic that the rule bounds (a difference, a mean, a kappa, the lowest coverage), `low` and `high`
    its interval at `level`, `n` the samples; None if there is none. `needed` estimates how many samples like these
    would decide. `n_clusters` is None where all samples are independent. `n_unanswered` samples count as the lowest
    score, because the new release did not answer them, and `n_unmeasured` answers were not scored.

    >>> RuleOutcome("coverage >= 0.95", "PASS", "all 200 samples have a number", 1.0, n=200).outcome
    'PASS'
    """

    rule: str
    outcome: GateOutcome
    sentence: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    needed: int | None = None
    level: float | None = None
    n_clusters: int | None = None
    n_unanswered: int = 0
    n_unmeasured: int = 0

    @property
    def tolerates_loss(self) -> bool:
        """Whether the rule bounds a loss, so that `needed` is about releases that are equally good."""
        return not self.rule.startswith(("level ", "kappa ")) and self.rule.rpartition(" ")[2].startswith("-")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision of a gate, in one sentence that a release manager can act on, and the rules behind it.

    `look` counts how often these two releases were decided on as data arrived, this time included; None where that is
    not known, or nothing was looked at. The new release is one of `candidates`. `level` is that of every interval
    behind the verdict, before Holm's steps.

    >>> Verdict("PASS", "v2 may ship in place of v1.").outcome in PRECEDENCE
    True
    """

    outcome: GateOutcome
    sentence: str
    rules: tuple[RuleOutcome, ...] = ()
    look: int | None = None
    candidates: int = 1
    level: float = LEVEL


class _Gap(NamedTuple):
    """What keeps a rule from being decided, and the outcome that the rule gets for it."""

    outcome: GateOutcome
    reason: str


class _About(NamedTuple):
    """What the rules share: the name of the new release, how many rules are about scores, and the level."""

    new: str
    family: int
    level: float


class _Bounds(NamedTuple):
    """A rule's statistic if answers that were not scored have the lowest score, and if they have the highest one."""

    worst: RuleStatistic
    best: RuleStatistic


def apply_policy(policy: Policy, evidence: Evidence, level: float = LEVEL) -> Verdict:
    """Apply every rule of the policy, with intervals at `level`.

    A field that is missing, or not covered or calibrated as the policy demands, never passes.

    >>> import numpy as np
    >>> from answerkey.metrics_core.gate.evidence import PairedScores
    >>> from answerkey.metrics_core.gate.policy import parse_policy
    >>> policy = parse_policy({"primary": "exact_match.match", "margin": 0.05}, "example")
    >>> scores = np.repeat([1.0, 0.0], [150, 50])
    >>> same = PairedScores(scores, scores, binary=True)
    >>> full = {"exact_match.match": (Coverage("v1", 200, 200), Coverage("v2", 200, 200))}
    >>> apply_policy(policy, Evidence("v1", "v2", {("exact_match.match", "all"): same}, full)).outcome
    'PASS'
    """
    statistics = {rule: _bounds(rule, evidence) for rule in policy.rules if rule.kind in ("difference", "level")}
    known = {rule: bounds for rule, bounds in statistics.items() if isinstance(bounds, _Bounds)}
    worst = decisions({rule: bounds.worst for rule, bounds in known.items()}, len(statistics), level)
    scored = all(bounds.best is bounds.worst for bounds in known.values())
    best = worst if scored else decisions({r: bounds.best for r, bounds in known.items()}, len(statistics), level)
    outcomes = []
    for rule in policy.rules:
        if rule.kind == "coverage":
            outcomes.append(_coverage(rule, policy, evidence))
        elif rule.kind == "kappa":
            outcomes.append(_kappa(rule, evidence))
        elif isinstance(bounds := statistics[rule], Missing):
            outcomes.append(RuleOutcome(rule.text, "INCOMPLETE", f"{_name(rule)}: {bounds.reason}"))
        else:
            gap = next(_gaps(rule, bounds.worst, policy, evidence), None)
            outcomes.append(
                _score(rule, bounds, gap, (worst[rule], best[rule]), _About(evidence.new, len(statistics), level))
            )
    outcome = next(one for one in PRECEDENCE if any(rule.outcome == one for rule in outcomes))
    return Verdict(outcome, _summary(outcome, outcomes, evidence), tuple(outcomes), level=level)


def _bounds(rule: PolicyRule, evidence: Evidence) -> _Bounds | Missing:
    column = evidence.scores.get((rule.field, rule.slice), Missing(f"there are no scores of {rule.field}"))
    if isinstance(column, Missing):
        return column
    difference = rule.kind == "difference"
    worst = statistic_of(column, evidence.clusters, difference=difference)
    if worst is None:
        if difference and column.changed is not None and column.changed.any():
            return Missing(_changed(int(column.changed.sum()), evidence.new))
        where = "" if rule.slice == ALL else f" of {rule.slice}"
        who = "both releases have" if difference else f"{evidence.new} has"
        return Missing(f"no sample{where} for which {who} a number")
    best = statistic_of(column, evidence.clusters, difference=difference, best=True) if worst.unmeasured else None
    return _Bounds(worst, best or worst)


def _changed(n: int, new: str) -> str:
    return (
        f"{n:,} sample{' has another question or other' if n == 1 else 's have other questions or'} references in the "
        f"data set of {new}; evaluate both releases on the same version of the data set"
    )


def decisions(
    statistics: Mapping[PolicyRule, RuleStatistic], family: int, level: float = LEVEL
) -> dict[PolicyRule, Decision]:
    """PASS, FAIL or INCONCLUSIVE for each rule, as one of `family` rules about scores.

    >>> import numpy as np
    >>> from answerkey.metrics_core.gate.evidence import PairedScores
    >>> rule, scores = PolicyRule("difference", "exact_match.match", ALL, -0.05), np.repeat([1.0, 0.0], [150, 50])
    >>> same = statistic_of(PairedScores(scores, scores, binary=True), None, difference=True)
    >>> list(decisions({rule: same}, family=1).values())
    ['PASS']
    """
    failing = _failing(statistics, family, level)
    return {
        rule: "FAIL" if rule in failing else "PASS" if statistic.above(rule.floor, level) else "INCONCLUSIVE"
        for rule, statistic in statistics.items()
    }


def _failing(statistics: Mapping[PolicyRule, RuleStatistic], family: int, level: float) -> set[PolicyRule]:
    """The rules whose interval lies below the floor, by Holm's steps over `family` rules."""
    failing: set[PolicyRule] = set()
    while family > len(failing):
        step = 1 - (1 - level) / (family - len(failing))
        newly_failing = {
            rule for rule, statistic in statistics.items() if rule not in failing and statistic.below(rule.floor, step)
        }
        if not newly_failing:
            break
        failing |= newly_failing
    return failing


def _gaps(rule: PolicyRule, statistic: RuleStatistic, policy: Policy, evidence: Evidence) -> Iterator[_Gap]:
    """What keeps the numbers of a rule from deciding anything, the worst first."""
    if statistic.n_changed:
        yield _Gap("INCOMPLETE", _changed(statistic.n_changed, evidence.new))
    for part in evidence.coverage.get(rule.field, ()):
        if part.share < policy.coverage:
            yield _Gap("INCOMPLETE", f"only {_counted(part)} have a comparable number")
    demanded = policy.kappa(rule.field)
    if demanded and (kappa := _kappa(demanded, evidence)).outcome != "PASS":
        yield _Gap(kappa.outcome, kappa.sentence)


def _score(
    rule: PolicyRule, bounds: _Bounds, gap: _Gap | None, found: tuple[Decision, Decision], about: _About
) -> RuleOutcome:
    """The outcome that was `found` both with the worst and with the best values of what was not scored."""
    outcome: GateOutcome = found[0]
    statistic = bounds.best if found == ("FAIL", "FAIL") else bounds.worst
    interval = statistic.interval(about.level)
    needed = None
    if gap:
        outcome, tail = gap.outcome, f"this decides nothing, because {gap.reason}"
    elif found[0] != found[1]:
        outcome = "INCOMPLETE"
        tail = (
            f"this decides nothing, because it would be {found[1]} if what was not scored had the best values; "
            "score what failed again with --only-failed, or complete the data set"
        )
    else:
        needed = _needed(rule, statistic, about.level) if outcome == "INCONCLUSIVE" else None
        tail = _meaning(rule, statistic, outcome, needed, about.level)
        if outcome == "INCONCLUSIVE" and interval and interval.high < rule.floor:
            tail += f" (it is below the floor, but among {about.family} rules not surely enough)"
    low, high = (interval.low, interval.high) if interval else (None, None)
    sentence = f"{_numbers(rule, statistic, interval, about)}; {tail}"
    return RuleOutcome(
        rule.text, outcome, sentence, statistic.value, low, high, statistic.n, needed, about.level,
        statistic.n_clusters, sum(statistic.unanswered.values()), sum(statistic.unmeasured.values()),
    )  # fmt: skip


def _needed(rule: PolicyRule, statistic: RuleStatistic, level: float) -> int | None:
    """Samples that would decide if the releases were equally good; where that is no pass, as different as they seem."""
    equal = rule.kind == "difference" and rule.floor < 0
    return statistic.needed_to_pass(rule.floor, 0.0 if equal else statistic.value, level)


def _minimum_clusters(rule: PolicyRule, statistic: RuleStatistic, level: float) -> int | None:
    """The fewest clusters of equal size that could let the rule pass: without any change, or at the highest level."""
    margin = -rule.floor if rule.kind == "difference" else statistic.high - rule.floor
    return minimum_clusters(margin, (1 - level) / 2, span=statistic.high - statistic.low)


def _numbers(rule: PolicyRule, statistic: RuleStatistic, interval: Interval | None, about: _About) -> str:
    many = f"{statistic.n:,} sample{'' if statistic.n == 1 else 's'}"
    if statistic.n_clusters is not None:
        many += f" in {statistic.n_clusters:,} cluster{'' if statistic.n_clusters == 1 else 's'}"
    if statistic.unanswered:
        n, counted = sum(statistic.unanswered.values()), _reasons(statistic.unanswered)
        many += f", {n:,} of them not answered by {about.new} and counted as {statistic.low:g}: {counted}"
    if any(statistic.left_out):
        answers, samples = statistic.left_out
        many += (
            f", {answers:,} single answer{'s' * (answers > 1)} to {samples:,} of them not given by {about.new} and "
            f"counted as {statistic.low:g}"
        )
    if statistic.unmeasured:
        n, counted = sum(statistic.unmeasured.values()), _reasons(statistic.unmeasured)
        many += f", {n:,} of them not scored and counted as {statistic.unmeasured_as:g}: {counted}"
    width = f"{percent(about.level)} interval"
    if statistic.means is None:
        span = f"{width} {interval.low:.3f} to {interval.high:.3f}" if interval else "no interval"
        return f"{_name(rule)} is {statistic.value:.3f} ({span}, {many})"
    span = f"{percent(about.level)} interval {interval.low:+.3f} to {interval.high:+.3f}" if interval else "no interval"
    before, after = statistic.means
    return f"{_name(rule)} went from {before:.3f} to {after:.3f} ({statistic.value:+.3f}, {span}, {many})"


def _reasons(counts: Mapping[str, int]) -> str:
    """The most frequent reasons with their counts."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{n:,} {reason}" for reason, n in ordered[:_MAX_REASONS]]
    rest = sum(n for _, n in ordered[_MAX_REASONS:])
    return ", ".join([*shown, *([f"{rest:,} for other reasons"] if rest else [])])


def _meaning(rule: PolicyRule, statistic: RuleStatistic, outcome: GateOutcome, needed: int | None, level: float) -> str:
    if rule.kind == "level":
        shown = {"PASS": f"at least {rule.floor:g} is shown", "FAIL": f"it is below {rule.floor:g}"}
        open_ = f"at least {rule.floor:g} is not shown"
    elif rule.floor < 0:
        loss = f"a loss of {-rule.floor:g} or more"
        shown = {"PASS": f"{loss} is ruled out", "FAIL": f"it lost more than the {-rule.floor:g} that is tolerated"}
        open_ = f"{loss} is not ruled out"
    else:
        gain = f"a gain of more than {rule.floor:g}" if rule.floor else "a gain"
        shown = {"PASS": f"{gain} is shown", "FAIL": f"{gain} is ruled out" if rule.floor else "it is worse"}
        open_ = f"{gain} is not shown"
    return shown.get(outcome) or f"{open_}, and {_wish(rule, statistic, needed, level)}"


def _wish(rule: PolicyRule, statistic: RuleStatistic, needed: int | None, level: float) -> str:
    """How many samples, or clusters, would settle it."""
    least = _minimum_clusters(rule, statistic, level)
    if statistic.n_clusters is not None and least is not None and statistic.n_clusters < least:
        return (
            f"with {statistic.n_clusters:,} clusters it could not be "
            f"{'even if no answer changed' if rule.kind == 'difference' else 'whatever the answers are'}; it takes "
            f"about {least:,}"
        )
    loss = rule.kind == "difference" and rule.floor < 0
    decide = "rule it out" if loss else "show it"
    if needed is None:
        return f"more samples like these would not {decide}"
    if needed <= statistic.n:
        decide = "have ruled it out" if loss else "have shown it"
    assumed = "both releases are equally good" if loss else "it is as high as it seems"
    return f"about {needed:,} samples would {decide} with a power of {percent(POWER)} if {assumed}"


def _coverage(rule: PolicyRule, policy: Policy, evidence: Evidence) -> RuleOutcome:
    known = {field: evidence.coverage[field] for field in policy.fields if evidence.coverage.get(field)}
    if absent := [field for field in policy.fields if field not in known]:
        return RuleOutcome(rule.text, "INCOMPLETE", f"there are no comparable numbers of {', '.join(absent)}")
    shares = [(part.share, field, part) for field, parts in known.items() for part in parts]
    least, field, part = min(shares, key=lambda one: one[0])
    sentence = f"{field} has the least: {_counted(part)} have a comparable number"
    if least < rule.floor:
        sentence += "; score what failed again with --only-failed, or evaluate what is absent"
    return RuleOutcome(
        rule.text, "PASS" if least >= rule.floor else "INCOMPLETE", sentence, value=least, n=part.n_wanted
    )  # fmt: skip


def _counted(part: Coverage) -> str:
    missing = ", ".join(f"{n:,} {what}" for what, n in part.missing.items() if n)
    share = f"{part.n_scored:,} of {part.n_wanted:,} samples of {part.release}"
    return f"{share} ({missing})" if missing else share


def _kappa(rule: PolicyRule, evidence: Evidence) -> RuleOutcome:
    """PASS by the lower end, on both releases: the one that is worst off speaks.

    A judge that is not good enough makes its numbers no evidence, not the release bad.
    """
    parts = evidence.calibrations.get(rule.field) or (Missing("it was never calibrated"),)
    outcomes = [_kappa_on(rule, part, len(parts)) for part in parts]
    return min(outcomes, key=lambda one: (PRECEDENCE.index(one.outcome), one.value is not None, one.value or 0.0))


def _kappa_on(rule: PolicyRule, calibration: Calibrated | Missing, n_releases: int) -> RuleOutcome:
    if isinstance(calibration, Missing):
        return RuleOutcome(rule.text, "INCOMPLETE", f"{rule.field}: {calibration.reason}")
    if calibration.kappa is None:
        reason = "all labels, or all verdicts, are the same, which defines no kappa"
        return RuleOutcome(rule.text, "INCOMPLETE", f"{rule.field} on {calibration.release}: {reason}")
    value, interval = calibration.kappa
    low, high = (interval.low, interval.high) if interval else (-1.0, 1.0)
    span = f"{percent(LEVEL)} interval {low:.3f} to {high:.3f}, {calibration.n:,} labels {calibration.source}"
    numbers = f"kappa of {rule.field} on {calibration.release} is {value:.3f} ({span})"
    outcome: GateOutcome = "PASS" if low >= rule.floor else "INCOMPLETE" if high < rule.floor else "INCONCLUSIVE"
    needed = None
    if outcome == "INCONCLUSIVE" and interval and value > rule.floor:
        needed = needed_to_decide(interval, value - rule.floor, calibration.n)
    meaning = {
        "PASS": f"at least {rule.floor:g} is shown{', and on the other release as well' if n_releases > 1 else ''}",
        "INCOMPLETE": f"it is below {rule.floor:g}, so take another judge or prompt",
        "INCONCLUSIVE": f"at least {rule.floor:g} is not shown"
        + (f", and about {needed:,} labels would show it with a power of {percent(POWER)}" if needed else ""),
    }[outcome]
    return RuleOutcome(rule.text, outcome, f"{numbers}; {meaning}", value, low, high, calibration.n, needed, LEVEL)


def _name(rule: PolicyRule) -> str:
    return rule.field if rule.slice == ALL else f"{rule.field}[{rule.slice}]"


def _summary(outcome: GateOutcome, rules: list[RuleOutcome], evidence: Evidence) -> str:
    alike = [rule for rule in rules if rule.outcome == outcome]
    others = f" (and {len(alike) - 1} more of {len(rules)} rules)" if len(alike) > 1 else ""
    start = {
        "PASS": f"{evidence.new} may ship in place of {evidence.old}, all {len(rules)} rules hold",
        "FAIL": f"{evidence.new} must not ship in place of {evidence.old}",
        "INCONCLUSIVE": f"Whether {evidence.new} may ship is not shown either way",
        "INCOMPLETE": f"Whether {evidence.new} may ship cannot be said, because evidence is missing",
    }[outcome]
    return f"{start}: {alike[0].sentence}{'' if outcome == 'PASS' else others}."
