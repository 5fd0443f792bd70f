"""The release gate: decides from a policy and the evidence of two reports whether the new release may ship.

| outcome of a rule | when |
|---|---|
| PASS | the whole interval (95 %, two-sided) lies above the floor |
| FAIL | the whole interval lies below it, also after Holm's correction for all rules about scores |
| INCONCLUSIVE | anything else: there are too few samples to tell |
| INCOMPLETE | something that the rule needs is missing, so its numbers decide nothing |

The gate says FAIL if any rule fails; otherwise INCOMPLETE if any rule is; otherwise INCONCLUSIVE if any rule is;
otherwise PASS. A rule fails only on sound evidence, and nothing that is still missing could change that.

PASS needs no correction for several rules, because every rule must hold: a release that breaks a rule passes with a
chance of at most 2.5 % (intersection-union test; Berger 1982). A single rule is enough for FAIL, so its intervals are
widened step by step as in Holm (1979): the chance of any false alarm is at most 2.5 %, whatever the number of rules.

Two identical releases over few samples are INCONCLUSIVE: 20 unchanged samples say little about 2,000.

These error rates are about sampling only. A judge errs too, so a verdict names its basis, and a judge decides nothing
if human labels contradict it, or if it flags most of its own verdicts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from answerkey.metrics_core.comparison import ALL
from answerkey.metrics_core.formatting import Displayed, Shown
from answerkey.metrics_core.gate.evidence import (
    Basis,
    Calibrated,
    Coverage,
    Depth,
    Evidence,
    Missing,
    PairedScores,
    RuleStatistic,
    people_statistic,
    statistic_of,
)
from answerkey.metrics_core.gate.policy import SCORE_KINDS, Policy, PolicyRule
from answerkey.metrics_core.statistics.bounded_mean import minimum_clusters
from answerkey.metrics_core.statistics.intervals import LEVEL, Interval, decimals, percent
from answerkey.metrics_core.statistics.power import POWER, needed_by_width

GateOutcome = Literal["PASS", "FAIL", "INCONCLUSIVE", "INCOMPLETE"]
Decision = Literal["PASS", "FAIL", "INCONCLUSIVE"]
"""The decision of an interval about a floor: it lies above (PASS), below (FAIL), or contains it."""
PRECEDENCE: tuple[GateOutcome, ...] = ("FAIL", "INCOMPLETE", "INCONCLUSIVE", "PASS")
"""Outcomes by precedence, among several rules and among several gates."""
_MAX_REASONS = 3


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """The outcome of one rule of a gate, with the reason in one sentence.

    `value` is the statistic that the rule bounds (a difference, a mean, a kappa, the lowest coverage), `low` and `high`
    its interval at `level`, `n` the number of samples; None if there is none. `needed` estimates how many samples like
    these would decide. `n_clusters` is None if all samples are independent. `n_unanswered` samples get the lowest
    score, because the new release did not answer them; `n_unmeasured` answers were not scored.

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
    n_labelled: int | None = None


@dataclass(frozen=True, slots=True)
class Verdict(Displayed):
    """The decision of a gate, in one sentence that a release manager can act on, and the rules behind it.

    `look` is the number of this interim analysis of the two releases, from 1; None if it is not known, or nothing was
    analysed. The new release is one of `candidates`. `level` is that of every interval behind the verdict, before
    Holm's steps. `notes` are further sentences for the reader. `basis` is what the primary rule rests on; None without
    a baseline.

    >>> Verdict("PASS", "v2 may ship in place of v1.").outcome in PRECEDENCE
    True
    """

    outcome: GateOutcome
    sentence: str
    rules: tuple[RuleOutcome, ...] = ()
    look: int | None = None
    candidates: int = 1
    level: float = LEVEL
    notes: tuple[str, ...] = ()
    basis: Basis | None = None

    def shown(self) -> Shown:
        """The sentence, the rules with their reasons, and the notes."""
        rows = [(rule.rule, rule.outcome, rule.sentence) for rule in self.rules]
        return Shown(f"{self.outcome}: {self.sentence}", ("rule", "outcome", "why"), rows, self.notes)


class _Gap(NamedTuple):
    """The reason why a rule cannot be decided, and the outcome that it gets instead."""

    outcome: GateOutcome
    reason: str


class _About(NamedTuple):
    """The name of the new release, the number of rules about scores, the level, and by how much each rule that rests on
    a judge alone must clear its floor."""

    new: str
    family: int
    level: float
    slack: Mapping[PolicyRule, float]


class _Bounds(NamedTuple):
    """The statistic of a rule if answers that were not scored get the lowest score, and if they get the highest."""

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
    statistics = {rule: _bounds(rule, evidence) for rule in policy.rules if rule.kind in SCORE_KINDS}
    known = {rule: bounds for rule, bounds in statistics.items() if isinstance(bounds, _Bounds)}
    slack = judge_slack(policy, evidence)
    about = _About(evidence.new, len(statistics), level, slack)
    worst = decisions({rule: bounds.worst for rule, bounds in known.items()}, about.family, level, slack)
    scored = all(bounds.best is bounds.worst for bounds in known.values())
    best = worst if scored else decisions({r: b.best for r, b in known.items()}, about.family, level, slack)
    outcomes, reasons = [], {}
    for rule in policy.rules:
        if rule.kind == "coverage":
            outcomes.append(_coverage(rule, policy, evidence))
        elif rule.kind == "kappa":
            outcomes.append(_kappa(rule, evidence))
        elif rule.kind == "depth":
            outcomes.append(_depth(rule, policy, evidence))
        elif isinstance(bounds := statistics[rule], Missing):
            outcomes.append(RuleOutcome(rule.text, "INCOMPLETE", f"{_name(rule)}: {bounds.reason}"))
        else:
            decided = worst[rule], best[rule]
            gap = next(_gaps(rule, bounds.worst, decided, policy, evidence), None)
            if gap:
                reasons[rule] = f"{_subject(rule, bounds.worst)}, because {gap.reason}"
            outcomes.append(_score(rule, bounds, gap, decided, about))
    outcome = next(one for one in PRECEDENCE if any(rule.outcome == one for rule in outcomes))
    basis = _basis(policy.primary, statistics[policy.primary], evidence)
    turning = _turning(policy.primary, outcomes[0], evidence, slack) if basis == "judge" else ()
    decisive = {rule: one for rule, one in zip(policy.rules, outcomes, strict=True) if one.outcome == outcome}
    sentence = _summary(outcome, decisive, reasons, policy, evidence, basis)
    return Verdict(outcome, sentence, tuple(outcomes), level=level, notes=(*turning, *evidence.notes), basis=basis)


def judge_slack(policy: Policy, evidence: Evidence) -> dict[PolicyRule, float]:
    """For each rule that rests on a judge alone, the distance from its floor that the policy demands of the interval.

    >>> from answerkey.metrics_core.gate.policy import parse_policy
    >>> written = {"primary": "meaning_match.match", "margin": 0.05, "judge_bias": 0.02}
    >>> policy = parse_policy(written, "example")
    >>> [*judge_slack(policy, Evidence("v1", "v2", {}, {}, bases={"meaning_match.match": "judge"})).values()]
    [0.02]
    >>> judge_slack(policy, Evidence("v1", "v2", {}, {}, bases={"meaning_match.match": "people"}))
    {}
    """
    if not policy.judge_bias:
        return {}
    alone = [r for r in policy.rules if r.kind in ("difference", "level") and evidence.bases.get(r.field) == "judge"]
    return dict.fromkeys(alone, policy.judge_bias)


def _basis(rule: PolicyRule, bounds: _Bounds | Missing, evidence: Evidence) -> Basis:
    if rule.kind != "people":
        return evidence.bases.get(rule.field, "text")
    partly = isinstance(bounds, Missing) or bounds.worst.n_labelled != bounds.worst.n
    return "people and judge" if partly else "people"


def _bounds(rule: PolicyRule, evidence: Evidence) -> _Bounds | Missing:
    column = evidence.scores.get((rule.field, rule.slice), Missing(f"there are no scores of {rule.field}"))
    if isinstance(column, Missing):
        return column
    if rule.kind == "people":
        people = people_statistic(column, evidence.clusters)
        return _Bounds(people, people) if people else Missing("no sample has a human label in both releases")
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
    what = " has a different question or different" if n == 1 else "s have different questions or"
    return (
        f"{n:,} sample{what} references in the data set of {new}; evaluate both releases on the same version of the "
        "data set"
    )


def decisions(
    statistics: Mapping[PolicyRule, RuleStatistic],
    family: int,
    level: float = LEVEL,
    slack: Mapping[PolicyRule, float] | None = None,
) -> dict[PolicyRule, Decision]:
    """PASS, FAIL or INCONCLUSIVE for each rule, as one of `family` rules about scores.

    Args:
        slack: by rule, the least distance of the interval from the floor, on either side; by default 0.

    >>> import numpy as np
    >>> from answerkey.metrics_core.gate.evidence import PairedScores
    >>> rule, scores = PolicyRule("difference", "exact_match.match", ALL, -0.05), np.repeat([1.0, 0.0], [150, 50])
    >>> same = statistic_of(PairedScores(scores, scores, binary=True), None, difference=True)
    >>> list(decisions({rule: same}, family=1).values())
    ['PASS']
    """
    slack = slack or {}
    failing = _failing(statistics, family, level, slack)
    return {
        rule: "FAIL"
        if rule in failing
        else "PASS"
        if statistic.beyond(rule.floor + slack.get(rule, 0.0), 1, level)
        else "INCONCLUSIVE"
        for rule, statistic in statistics.items()
    }


def _failing(
    statistics: Mapping[PolicyRule, RuleStatistic], family: int, level: float, slack: Mapping[PolicyRule, float]
) -> set[PolicyRule]:
    """The rules whose interval lies below the floor, by Holm's steps over `family` rules."""
    failing: set[PolicyRule] = set()
    while family > len(failing):
        step = 1 - (1 - level) / (family - len(failing))
        newly_failing = {
            rule
            for rule, statistic in statistics.items()
            if rule not in failing and statistic.beyond(rule.floor - slack.get(rule, 0.0), -1, step)
        }
        if not newly_failing:
            break
        failing |= newly_failing
    return failing


def _gaps(
    rule: PolicyRule,
    statistic: RuleStatistic,
    decided: tuple[Decision, Decision],
    policy: Policy,
    evidence: Evidence,
) -> Iterator[_Gap]:
    """The reasons why the numbers of a rule decide nothing, the worst first."""
    if statistic.n_changed:
        yield _Gap("INCOMPLETE", _changed(statistic.n_changed, evidence.new))
    for reason in evidence.vetoes.get(rule.field, ()):
        yield _Gap("INCOMPLETE", reason)
    for part in evidence.coverage.get(rule.field, ()):
        if part.share < policy.coverage:
            yield _Gap("INCOMPLETE", f"only {_counted(part)} have a comparable number")
    if rule.kind == "people":
        return
    if reason := _contradiction(rule, decided, policy, evidence):
        yield _Gap("INCOMPLETE", reason)
    demanded = policy.rule("depth", rule.field)
    if demanded and (depth := _depth(demanded, policy, evidence)).outcome != "PASS":
        yield _Gap(depth.outcome, depth.sentence.removeprefix(f"{rule.field}: "))
    demanded = policy.rule("kappa", rule.field)
    if demanded and (kappa := _kappa(demanded, evidence)).outcome != "PASS":
        yield _Gap(kappa.outcome, kappa.sentence)


def _contradiction(rule: PolicyRule, decided: tuple[Decision, Decision], policy: Policy, evidence: Evidence) -> str:
    """How human labels contradict the decision of a rule about the scores of the same samples; empty if they do not.

    They do if the interval of the labels, or of the scores corrected by them, lies on the other side of the floor; also
    if the corrected difference does and its interval does not contain the difference of the scores.
    """
    column = evidence.scores.get((rule.field, rule.slice))
    checked = rule.kind == "difference" and decided[0] == decided[1] != "INCONCLUSIVE"
    if not checked or not isinstance(column, PairedScores):
        return ""
    labels, corrected = column.by_people(), people_statistic(column, evidence.clusters)
    alone = None if labels is None else statistic_of(labels, evidence.clusters, difference=True)
    # Where labels were drawn with several probabilities, their plain mean is no estimate.
    alone = corrected if column.draw else alone
    if alone is None or corrected is None:
        return ""
    passes = decided[0] == "PASS"
    # A floor in the units of the field; labels have a range of 1.
    span = column.high - column.low
    floor, interval, judged = rule.floor / span, corrected.interval(), (corrected.judged or 0.0) / span
    against = corrected.value < floor if passes else corrected.value > floor
    apart = interval is not None and not interval.low <= judged <= interval.high
    if not (against and apart) and not any(labels.beyond(floor, -1 if passes else 1) for labels in (alone, corrected)):
        return ""
    parts = [f"in the labels of {alone.n:,} samples the difference is {_signed(alone, floor)}"]
    if corrected.n_labelled != corrected.n and corrected.interval() != alone.interval():
        parts.append(f"corrected by them, it is {_signed(corrected, floor)} in all {corrected.n:,}")
    remedy = "; if they were drawn at random, labels: random in the policy lets people decide"
    return f"people contradict it: {', and '.join(parts)}{remedy if policy.labels is None else ''}"


def _signed(statistic: RuleStatistic, floor: float) -> str:
    interval = statistic.interval()
    ends = [_end(end, floor, signed=True) for end in interval[:2]] if interval else []
    span = f", {percent(LEVEL)} interval {' to '.join(ends)}" if ends else ""
    return f"{statistic.value:+.3f}{span}"


def _score(
    rule: PolicyRule, bounds: _Bounds, gap: _Gap | None, decided: tuple[Decision, Decision], about: _About
) -> RuleOutcome:
    """The outcome of a rule.

    Args:
        found: the decisions with the worst and with the best values for answers that were not scored.
    """
    outcome: GateOutcome = decided[0]
    statistic = bounds.best if decided == ("FAIL", "FAIL") else bounds.worst
    interval = statistic.interval(about.level)
    needed = None
    if gap:
        outcome, tail = gap.outcome, f"this decides nothing, because {gap.reason}"
    elif decided[0] != decided[1]:
        outcome = "INCOMPLETE"
        tail = (
            f"this decides nothing, because it would be {decided[1]} if what was not scored had the best values; "
            "score what failed again with --only-failed, or complete the data set"
        )
    else:
        slack = about.slack.get(rule, 0.0)
        if outcome == "INCONCLUSIVE":
            needed = _needed(rule, statistic, interval, rule.floor + slack, about.level)
        tail = _meaning(rule, statistic, outcome, interval, needed, about.level)
        without = decisions({rule: statistic}, about.family, about.level)[rule] if slack else outcome
        if outcome == "INCONCLUSIVE" != without:
            tail = _meaning(rule, statistic, without, interval, needed, about.level)
            tail += f", but not by the {slack:g} more that the policy wants, since the judge may favour one release"
        elif outcome == "INCONCLUSIVE" and interval and interval.high < rule.floor - slack:
            tail += f" (it is below the floor, but not by enough after the correction for {about.family} rules)"
    low, high = (interval.low, interval.high) if interval else (None, None)
    sentence = f"{_numbers(rule, statistic, interval, about)}; {tail}"
    if rule.at_most:
        low, high = (None if end is None else 0.0 - end for end in (high, low))
    return RuleOutcome(
        rule.text, outcome, sentence, _sign(rule) * statistic.value + 0.0, low, high, statistic.n, needed, about.level,
        statistic.n_clusters, sum(statistic.unanswered.values()), sum(statistic.unmeasured.values()),
        statistic.n_labelled,
    )  # fmt: skip


def _sign(rule: PolicyRule) -> int:
    """What turns numbers of which more is better into those of the field."""
    return -1 if rule.at_most else 1


def _is_loss(rule: PolicyRule) -> bool:
    """Whether the rule bounds a loss."""
    return rule.kind in ("difference", "people") and rule.floor < 0


def _needed(
    rule: PolicyRule, statistic: RuleStatistic, interval: Interval | None, floor: float, level: float
) -> int | None:
    """The number of samples (or labels, for a rule about people) that would lift the interval above the floor.

    It is assumed that the releases are equally good, or, if the interval rules that out or equally good releases cannot
    pass, that they are as different as observed.
    """
    equal = _is_loss(rule) and (interval is None or interval.high >= 0)
    return statistic.needed_to_pass(floor, 0.0 if equal else statistic.value, level)


def _numbers(rule: PolicyRule, statistic: RuleStatistic, interval: Interval | None, about: _About) -> str:
    sign = _sign(rule)
    # 0.0 is added since minus zero would be shown as such.
    worst, value = sign * statistic.low + 0.0, sign * statistic.value + 0.0
    many = f"{statistic.n:,} sample{'' if statistic.n == 1 else 's'}"
    if statistic.n_clusters is not None:
        many += f" in {statistic.n_clusters:,} cluster{'' if statistic.n_clusters == 1 else 's'}"
    if statistic.unanswered:
        n, counted = sum(statistic.unanswered.values()), _reasons(statistic.unanswered)
        many += f", {n:,} of them not answered by {about.new} and counted as {worst:g}: {counted}"
    if any(statistic.left_out):
        answers, samples = statistic.left_out
        many += (
            f", {answers:,} single answer{'s' * (answers > 1)} to {samples:,} of them not given by {about.new} and "
            f"counted as {worst:g}"
        )
    if statistic.unmeasured:
        n, counted = sum(statistic.unmeasured.values()), _reasons(statistic.unmeasured)
        many += f", {n:,} of them not scored and counted as {sign * statistic.unmeasured_as:g}: {counted}"
    span = "no interval"
    if interval:
        ends = interval[:2][::sign]
        low, high = (_end(sign * end + 0.0, rule.limit, signed=statistic.means is not None) for end in ends)
        span = f"{percent(about.level)} interval {low} to {high}"
    if statistic.means is None:
        return f"{_name(rule)} is {value:.3f} ({span}, {many})"
    before, after = (sign * one + 0.0 for one in statistic.means)
    if statistic.n_labelled is None:
        return f"{_name(rule)} went from {before:.3f} to {after:.3f} ({value:+.3f}, {span}, {many})"
    if statistic.n_labelled == statistic.n:
        judge = "" if statistic.judged is None else f"; {rule.field} says {statistic.judged:+.3f}"
        return (
            f"human labels went from {before:.3f} to {after:.3f} ({statistic.value:+.3f}, {span}, {many}, all with "
            f"labels in both releases{judge})"
        )
    alone = "" if statistic.judged is None else f", which alone says {statistic.judged:+.3f}"
    return (
        f"human labels differ by {statistic.value:+.3f} ({span}, {many}, {statistic.n_labelled:,} of them with labels "
        f"in both releases, the others predicted by {rule.field}{alone})"
    )


def _end(end: float, floor: float, *, signed: bool) -> str:
    """The end of an interval, with enough decimals to distinguish it from the floor and from 0."""
    return f"{end:{'+' if signed else ''}.{decimals(end, floor, 0.0)}f}"


def _reasons(counts: Mapping[str, int]) -> str:
    """The most frequent reasons with their counts."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{n:,} {reason}" for reason, n in ordered[:_MAX_REASONS]]
    rest = sum(n for _, n in ordered[_MAX_REASONS:])
    return ", ".join([*shown, *([f"{rest:,} for other reasons"] if rest else [])])


def _meaning(
    rule: PolicyRule,
    statistic: RuleStatistic,
    outcome: GateOutcome,
    interval: Interval | None,
    needed: int | None,
    level: float,
) -> str:
    if rule.kind == "level":
        bound, beyond = ("at most", "above") if rule.at_most else ("at least", "below")
        shown = {"PASS": f"{bound} {rule.limit:g} is shown", "FAIL": f"it is {beyond} {rule.limit:g}"}
        open_ = f"{bound} {rule.limit:g} is not shown"
    elif rule.at_most and rule.limit >= 0:
        rise = f"a rise of {rule.limit:g} or more"
        shown = {"PASS": f"{rise} is ruled out", "FAIL": f"it rose by more than {rule.limit:g}"}
        open_ = f"{rise} is not ruled out"
    elif rule.at_most:
        fall = f"a fall of more than {rule.floor:g}"
        shown = {"PASS": f"{fall} is shown", "FAIL": f"{fall} is ruled out"}
        open_ = f"{fall} is not shown"
    elif rule.floor < 0:
        loss = f"a loss of {-rule.floor:g} or more"
        shown = {"PASS": f"{loss} is ruled out", "FAIL": f"it lost more than the {-rule.floor:g} that is tolerated"}
        open_ = f"{loss} is not ruled out"
    else:
        gain = f"a gain of more than {rule.floor:g}" if rule.floor else "a gain"
        shown = {"PASS": f"{gain} is shown", "FAIL": f"{gain} is ruled out" if rule.floor else "it is worse"}
        open_ = f"{gain} is not shown"
    return shown.get(outcome) or f"{open_}, and {_wish(rule, statistic, interval, needed, level)}"


def _wish(
    rule: PolicyRule, statistic: RuleStatistic, interval: Interval | None, needed: int | None, level: float
) -> str:
    """A clause about the number of samples, labels or clusters that would decide the rule."""
    # The fewest clusters of equal size with which the rule could pass: without any change, or at the highest level.
    margin = statistic.high - rule.floor if rule.kind == "level" else -rule.floor
    least = minimum_clusters(margin, (1 - level) / 2, span=statistic.high - statistic.low)
    if statistic.n_clusters is not None and least is not None and statistic.n_clusters < least:
        return (
            f"with {statistic.n_clusters:,} clusters it could not be "
            f"{'whatever the answers are' if rule.kind == 'level' else 'even if no answer changed'}; it takes "
            f"about {least:,}"
        )
    loss, what = _is_loss(rule), "samples" if statistic.n_labelled in (None, statistic.n) else "labels"
    decide = "rule it out" if loss else "show it"
    worse = loss and interval is not None and interval.high < 0
    if worse and statistic.value <= rule.floor:
        return (
            f"it is worse, by about {-statistic.value:.2g}; if that is the true loss, more {what} will not make it pass"
        )
    if needed is None:
        return f"more {what} like these would not {decide}"
    if worse:
        assumed = f"the loss is {-statistic.value:.2g}, as it seems"
    else:
        assumed = "both releases are equally good" if loss else "it is as high as it seems"
    if needed <= (statistic.n if what == "samples" else statistic.n_labelled or 0):
        return f"this many {what} would mostly {decide} if {assumed}, which is therefore in doubt"
    about = "about" if loss and not worse else "roughly"
    return (
        f"{about} {rounded(needed, 2 if about == 'about' else 1):,} {what} would {decide} with a power of "
        f"{percent(POWER)} if {assumed}"
    )


def rounded(n: float, digits: int) -> int:
    """Round a count to `digits` significant digits.

    >>> rounded(2141, 1), rounded(2141, 2), rounded(7, 2)
    (2000, 2100, 7)
    """
    return int(round(n, digits - 1 - math.floor(math.log10(n)))) if n >= 1 else 0


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


def _depth(rule: PolicyRule, policy: Policy, evidence: Evidence) -> RuleOutcome:
    """PASS if the judge leaves enough verdicts on both releases unflagged, or if people have checked it on both."""
    parts = evidence.depth.get(rule.field, ())
    if not parts:
        reason = f"{rule.field} was not scored by the offline judge, which alone flags verdicts"
        return RuleOutcome(rule.text, "INCOMPLETE", reason)
    least = min(parts, key=lambda part: part.share)
    sentence = f"{rule.field}: the judge flags {flagged(parts)} as outside its training data"
    sentence += f" ({least.why})" if least.why else ""
    if least.share >= rule.floor:
        return RuleOutcome(rule.text, "PASS", sentence, least.share, n=least.n)
    kappa = policy.rule("kappa", rule.field)
    if policy.rule("people", rule.field):
        return RuleOutcome(rule.text, "PASS", f"{sentence}; human labels correct it", least.share, n=least.n)
    if kappa and _kappa(kappa, evidence).outcome == "PASS":
        return RuleOutcome(rule.text, "PASS", f"{sentence}; it is calibrated on both", least.share, n=least.n)
    sentence += "; let people label random samples of both releases, and write labels: random in the policy"
    return RuleOutcome(rule.text, "INCOMPLETE", sentence, least.share, n=least.n)


def flagged(parts: tuple[Depth, ...]) -> str:
    """A phrase with the number of verdicts that the judge flags in each release.

    >>> flagged((Depth("v1", 500, 500), Depth("v2", 500, 499)))
    '500 of 500 verdicts on v1 and 499 of 500 on v2'
    """
    texts = [f"{part.flagged:,} of {part.n:,}{' verdicts' * (not i)} on {part.release}" for i, part in enumerate(parts)]
    return " and ".join(texts)


def _counted(part: Coverage) -> str:
    missing = ", ".join(f"{n:,} {what}" for what, n in part.missing.items() if n)
    share = f"{part.n_scored:,} of {part.n_wanted:,} samples of {part.release}"
    return f"{share} ({missing})" if missing else share


def _kappa(rule: PolicyRule, evidence: Evidence) -> RuleOutcome:
    """PASS if the lower end reaches the floor on both releases; the worse of the two decides.

    A judge below the floor makes the rule incomplete: its numbers are no evidence, but the release is not bad.
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
    ends = " to ".join(_end(end, rule.floor, signed=False) for end in (low, high))
    span = f"{percent(LEVEL)} interval {ends}, {calibration.n:,} labels {calibration.source}"
    numbers = f"kappa of {rule.field} on {calibration.release} is {value:.3f} ({span})"
    outcome: GateOutcome = "PASS" if low >= rule.floor else "INCOMPLETE" if high < rule.floor else "INCONCLUSIVE"
    needed = None
    if outcome == "INCONCLUSIVE" and interval and value > rule.floor:
        needed = needed_by_width(interval, value - rule.floor, calibration.n)
    meaning = {
        "PASS": f"at least {rule.floor:g} is shown{', and on the other release as well' if n_releases > 1 else ''}",
        "INCOMPLETE": f"it is below {rule.floor:g}, so use a different judge or prompt",
        "INCONCLUSIVE": f"at least {rule.floor:g} is not shown"
        + (f", and about {needed:,} labels would show it with a power of {percent(POWER)}" if needed else ""),
    }[outcome]
    return RuleOutcome(rule.text, outcome, f"{numbers}; {meaning}", value, low, high, calibration.n, needed, LEVEL)


def _name(rule: PolicyRule) -> str:
    return rule.field if rule.slice == ALL else f"{rule.field}[{rule.slice}]"


def _turning(
    rule: PolicyRule, decided: RuleOutcome, evidence: Evidence, slack: Mapping[PolicyRule, float]
) -> Iterator[str]:
    """A note on the shift of the judge's bias that would turn the verdict, and on shifts that were observed."""
    low, high = decided.low, decided.high
    if rule.kind != "difference" or low is None or high is None or decided.outcome not in ("PASS", "FAIL"):
        return
    passes = decided.outcome == "PASS"
    room = abs((low if passes else high) - rule.floor)
    shift = evidence.bias_shifts.get(rule.field)
    known = (
        f"between {shift.source} its bias differed by {shift.typical:.3f} (median) and {shift.largest:.3f} (largest)"
        if shift
        else f"nothing is known about how much its bias differs between releases: calibrate {rule.field} on two of them"
    )
    yield (
        f"This verdict would change if the judge were {room:.3f} more {'lenient' if passes else 'strict'} with "
        f"{evidence.new} than with {evidence.old}; {known}."
    )


def _summary(
    outcome: GateOutcome,
    decisive: Mapping[PolicyRule, RuleOutcome],
    reasons: Mapping[PolicyRule, str],
    policy: Policy,
    evidence: Evidence,
    basis: Basis,
) -> str:
    """The sentence of the verdict, from the rules with its outcome and the reasons why numbers decide nothing."""
    start = {
        "PASS": f"{evidence.new} may ship in place of {evidence.old}, every rule holds",
        "FAIL": f"{evidence.new} must not ship in place of {evidence.old}",
        "INCONCLUSIVE": f"It is not yet clear whether {evidence.new} may ship",
        "INCOMPLETE": f"It cannot be decided whether {evidence.new} may ship",
    }[outcome]
    first = next(iter(decisive))
    # A rule about depth or coverage shares its cause with the rule whose numbers it invalidates.
    more = sum(rule.kind not in ("depth", "coverage") for rule in decisive if rule != first)
    others = f" (and {more} more of {len(policy.rules)} rules)" if more and outcome != "PASS" else ""
    sentence = f"{start}: {reasons.get(first, decisive[first].sentence)}{others}."
    if outcome == "INCOMPLETE" or basis in ("text", "people", "given"):
        return sentence
    depth = evidence.depth.get(policy.primary.field, ())
    if any(part.flagged for part in depth):
        sentence += f" The judge flags {flagged(depth)} as outside its training data."
    return sentence if basis != "judge" else f"{_caution(policy, evidence)}: {sentence}"


def _subject(rule: PolicyRule, statistic: RuleStatistic) -> str:
    """The subject of a sentence about numbers that decide nothing: the difference or the mean."""
    number = _sign(rule) * statistic.value + 0.0
    value = f"{number:.3f}" if statistic.means is None else f"{number:+.3f}"
    what, verb = ("human labels", "decide") if rule.kind == "people" else (_name(rule), "decides")
    return f"{what} ({value}) {verb} nothing"


def _caution(policy: Policy, evidence: Evidence) -> str:
    """The caveat that precedes the verdict of a judge."""
    field = policy.primary.field
    kappa = policy.rule("kappa", field)
    column = evidence.scores.get((field, ALL))
    people = column.by_people() if isinstance(column, PairedScores) else None
    labelled = None if people is None else statistic_of(people, evidence.clusters, difference=True)
    if labelled:
        samples = f"{labelled.n:,} sample{'' if labelled.n == 1 else 's'}"
        return f"By the judge alone, which the labels of {samples} neither contradict nor confirm"
    if kappa and _kappa(kappa, evidence).outcome == "PASS":
        return f"By the judge alone, whose agreement with people was measured on both releases ({kappa.text})"
    return "By the judge alone, not checked against people"
