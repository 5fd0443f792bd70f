"""Policies: the conditions for a release to ship, as plain data."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from .intervals import MIN_COVERAGE

ALL = "all"
"""The slice of all samples."""

RuleKind = Literal["difference", "people", "level", "kappa", "coverage", "depth", "broken"]
Drawing = Literal["random", "chosen"]
"""The selection of samples with human labels."""
Baseline = Literal["anchor", "last shipped"]
"""What new releases are compared with: always the same release, or the last one that passed."""
SCORE_KINDS: tuple[RuleKind, ...] = ("difference", "people", "level")
"""Rules with an interval of scores or labels."""

COVERAGE = MIN_COVERAGE
"""The default floor: without coverage, a release could pass because its worst answers failed to be scored."""
DEPTH = 0.5
"""The default floor of fields that the offline judge scores: the share of its verdicts without a flag."""


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One condition.

    Attributes:
        kind: the quantity that must lie above `floor`. difference: new - old. people: new - old in human labels; the
            field predicts those that are missing. level: the mean of the new release. kappa: the agreement of the
            metric with human labels. coverage: the share of samples with a number, for every field of the policy, in
            both releases. depth: the share of the offline judge's verdicts, in each release, that it does not flag as
            outside its training data. broken: none of the samples scores lower than before, whatever others would do.
        field: METRIC.FIELD, empty for coverage.
        slice: 'all', or column=value.
        floor: in the units of the field; for a difference usually negative: minus the tolerated loss.
        at_most: whether the quantity must lie below minus `floor` instead: less of the field is better.
        percent: for a level, the percentile of the new release in place of its mean: 0 to 100, 50 for the median.
        relative: whether a difference, and `floor`, are shares of the old mean.

    >>> PolicyRule("difference", "rouge_l.f1", "lang=ru", -0.05).text
    'rouge_l.f1[lang=ru] >= -0.05'
    >>> PolicyRule("level", "latency.seconds", ALL, -2, at_most=True).text
    'level latency.seconds <= 2'
    >>> PolicyRule("level", "latency.seconds", ALL, -4, at_most=True, percent=95).text
    'p95 latency.seconds <= 4'
    >>> PolicyRule("difference", "latency.seconds", ALL, -0.1, at_most=True, relative=True).text
    'latency.seconds <= +10%'
    """

    kind: RuleKind
    field: str
    slice: str
    floor: float
    at_most: bool = False
    percent: float | None = None
    relative: bool = False

    @property
    def limit(self) -> float:
        """The number in the rule."""
        return -self.floor if self.at_most else self.floor

    @property
    def shown_limit(self) -> str:
        """The number in the rule as text, without a sign where it is relative."""
        return f"{100 * abs(self.limit):g} %" if self.relative else f"{self.limit:g}"

    @property
    def share(self) -> float | None:
        """The share of the scores that must meet the limit, for a percentile."""
        if self.percent is None:
            return None
        return (self.percent if self.at_most else 100 - self.percent) / 100

    @property
    def text(self) -> str:
        """The text of the rule in a policy."""
        prefix = {"difference": "", "depth": "in depth ", "broken": "none broken "}.get(self.kind, f"{self.kind} ")
        if self.percent is not None:
            prefix = f"{percentile_name(self.percent)} "
        subject = f"{prefix}{self.field}"
        if self.slice != ALL:
            subject += f"[{self.slice}]"
        if self.kind == "broken":
            return subject
        # All digits, where six would name another limit
        short = f"{self.limit:g}"
        number = short if float(short) == self.limit else self.limit
        if self.relative:
            number = f"{100 * self.limit:+g}%"
        sign = "<=" if self.at_most else ">="
        return f"{subject.rstrip()} {sign} {number}"


def percentile_name(percent: float) -> str:
    """The name of a percentile.

    >>> percentile_name(50), percentile_name(99.5)
    ('median', 'p99.5')
    """
    return "median" if percent == 50 else f"p{percent:g}"


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules of a gate. The first is that of the primary field, with the margin.

    Attributes:
        labels: the selection of the samples with human labels; None if it is not known.
        judge_bias: how far the bias of a judge may differ between the releases, in the units of the field. A rule that
            rests on a judge alone must hold, or be broken, by that much more.
        baseline: whether a release that passes becomes the baseline of the next, where the gate is kept.

    >>> Policy((PolicyRule("difference", "rouge_l.f1", ALL, -0.02), PolicyRule("coverage", "", ALL, 0.95))).coverage
    0.95
    """

    rules: tuple[PolicyRule, ...]
    labels: Drawing | None = None
    judge_bias: float = 0.0
    baseline: Baseline = "anchor"

    def as_dict(self) -> dict[str, Any]:
        """The policy as the mapping that a policy file contains.

        >>> policy = Policy((parse_rule("rouge_l.f1 >= -0.02"), parse_rule("coverage >= 0.95")))
        >>> policy.as_dict()["margin"], policy.as_dict()["rules"]
        (0.02, ['coverage >= 0.95'])
        """
        prefix = "people " if self.primary.kind == "people" else ""
        return {
            "primary": f"{prefix}{self.primary.field}",
            "margin": abs(self.primary.floor),
            "labels": self.labels,
            "judge_bias": self.judge_bias,
            "baseline": self.baseline,
            "rules": [rule.text for rule in self.rules[1:]],
        }

    def by_people(self) -> Policy:
        """The policy with a primary rule about human labels, which the primary field predicts."""
        primary = replace(self.primary, kind="people")
        return replace(self, rules=(primary, *(rule for rule in self.rules[1:] if rule != primary)))

    def with_depth(self, fields: Sequence[str]) -> Policy:
        """The policy with a rule about depth for each of these fields of the offline judge."""
        new = [PolicyRule("depth", field, ALL, DEPTH) for field in fields if not self.rule("depth", field)]
        return replace(self, rules=(*self.rules, *new))

    @property
    def primary(self) -> PolicyRule:
        """The rule of the primary field."""
        return self.rules[0]

    @property
    def fields(self) -> tuple[str, ...]:
        """Every METRIC.FIELD that the rules name, the primary one first."""
        return tuple(dict.fromkeys(rule.field for rule in self.rules if rule.field))

    @property
    def needs(self) -> tuple[tuple[str, str], ...]:
        """The field and the slice of every rule that reads scores."""
        # Two rules may read the same scores
        rules = [rule for rule in self.rules if rule.kind in (*SCORE_KINDS, "broken")]
        return tuple(dict.fromkeys((rule.field, rule.slice) for rule in rules))

    @property
    def coverage(self) -> float:
        """The share of the samples that must have a number, 0 to 1."""
        return next(rule.floor for rule in self.rules if rule.kind == "coverage")

    def rule(self, kind: RuleKind, field: str) -> PolicyRule | None:
        """The first rule of this kind about `field`, if there is any."""
        return next((rule for rule in self.rules if rule.kind == kind and rule.field == field), None)


FIELD = r"[^\s\[\]<>=.]+\.[^\s\[\]<>=]+"
_RULE = re.compile(
    r"(?:(level|kappa|people|in\s+depth|none\s+broken|median|p\d\d?(?:\.\d+)?)\s+)?"
    rf"({FIELD}|coverage)\s*(?:\[(.+)\])?\s*(?:(>=|<=)\s*(\S+))?"
)
_PERCENTILE = re.compile(r"p\d")
_FORMS = (
    "write METRIC.FIELD >= -0.02, METRIC.FIELD[column=value] >= -0.05, people METRIC.FIELD >= -0.02, "
    "level METRIC.FIELD >= 0.8, level METRIC.FIELD <= 2, p95 METRIC.FIELD <= 4, METRIC.FIELD <= +10%, "
    "kappa METRIC.FIELD >= 0.6, in depth METRIC.FIELD >= 0.5, "
    "none broken METRIC.FIELD[column=value] or coverage >= 0.95"
)
_KINDS: Mapping[str, RuleKind] = {
    "": "difference", "people": "people", "level": "level", "kappa": "kappa", "in depth": "depth",
    "none broken": "broken",
}  # fmt: skip
_RANGE: Mapping[RuleKind, tuple[float, float]] = {"coverage": (0.0, 1.0), "kappa": (-1.0, 1.0), "depth": (0.0, 1.0)}
_MIN_FLOORS: Mapping[RuleKind, tuple[float, str]] = {
    "coverage": (0.5, "nearly every release would pass; write at least 0.5, for instance 0.95"),
    "kappa": (1e-9, "a judge that guesses has a kappa of 0; write a floor above 0, for instance 0.6"),
    "depth": (1e-9, "every release would pass; write a floor above 0, for instance 0.5"),
}
"""The lowest floor that can be broken, and the problem with a lower one."""

_LARGEST_LOSS = 0.5
"""The share of a field's range from which a loss is no margin: a rule that tolerates it would nearly always hold."""
SMALLEST = 1e-9
"""The smallest limit other than 0. No number of rows could tell a smaller one from 0."""


def parse_rule(text: object) -> PolicyRule:
    """Parse a rule.

    >>> rule = parse_rule("level meaning_match.match >= 0.8")
    >>> rule.kind, rule.field, rule.floor
    ('level', 'meaning_match.match', 0.8)

    Raises:
        ValueError: it is not understood, or always holds; the message says what to write.
    """
    # YAML makes a mapping of a line with a colon and a blank in it.
    matched = _RULE.fullmatch(text.strip()) if isinstance(text, str) else None
    if matched is None or (matched[4] is None) != (matched[1] or "").startswith("none"):
        quotes = " in quotes" if isinstance(text, Mapping) else ""
        raise ValueError(f"not understood; {_FORMS}{quotes}")
    word, field, slice_, sign, number = matched.groups()
    word = " ".join((word or "").split())
    # A percentile is a level of its own: the median is the 50th
    percent = None
    if word == "median" or _PERCENTILE.match(word):
        percent = 50.0 if word == "median" else float(word[1:])
        word = "level"
    kind: RuleKind = "coverage" if field == "coverage" else _KINDS[word]
    # The number, which is a share of the old mean where it ends with a percent sign
    relative = kind == "difference" and sign == "<=" and number.endswith("%")
    try:
        floor = float(number.removesuffix("%")) / 100 if relative else float(number or 0)
    except ValueError:
        floor = math.nan
    low, high = _RANGE.get(kind, (-math.inf, math.inf))
    if not (math.isfinite(floor) and low <= floor <= high):
        span = f" from {low:g} to {high:g}" if kind in _RANGE else ""
        raise ValueError(f"{quoted(number)} is not a number{span}; write a share as 0.95, not as 95%")
    if 0 < abs(floor) < SMALLEST:
        raise ValueError(f"{quoted(number)} cannot be told from 0; write 0 or a larger number")
    # What the kind does not take, or what would hold for every release
    if sign == "<=" and kind not in ("difference", "level"):
        raise ValueError(f"{kind} takes a floor and no ceiling; write >=")
    if kind == "kappa" and floor == high:
        raise ValueError("no judge could pass: its interval ends short of 1; write a floor below 1, for instance 0.6")
    if kind in _MIN_FLOORS and floor < _MIN_FLOORS[kind][0]:
        raise ValueError(_MIN_FLOORS[kind][1])
    if kind in _RANGE and (slice_ or (kind == "coverage" and word)):
        raise ValueError(f"{kind} takes no slice and no other word; {_FORMS}")
    if slice_ and "=" not in slice_:
        raise ValueError(f"{quoted(slice_)} is not a slice; write [column=value]")
    if percent == 0:
        raise ValueError("p0 is no percentile; write p1 to p99.9, or median")
    # More of the negated field is better, so that every rule has a floor
    at_most = sign == "<="
    return PolicyRule(
        kind=kind,
        field="" if kind == "coverage" else field,
        slice=slice_ or ALL,
        floor=-floor if at_most else floor,
        at_most=at_most,
        percent=percent,
        relative=relative,
    )


def range_problem(rule: PolicyRule, low: float, high: float) -> str | None:
    """The reason why a rule holds for every release, or for none, if scores are `low` to `high`; None if it decides.

    >>> range_problem(parse_rule("level bleu.bleu >= 7"), 0.0, 1.0)
    'no release could pass, since bleu.bleu is 0 to 1; write a floor between 0 and 1'
    """
    span = high - low
    field_range = f"{rule.field} is {low:g} to {high:g}"
    if rule.kind == "level":
        # No interval reaches an end of the range
        lowest, highest = (-high, -low) if rule.at_most else (low, high)
        bound = "ceiling" if rule.at_most else "floor"
        remedy = f"write a {bound} between {low:g} and {high:g}"
        if rule.floor <= lowest:
            return f"every release would pass, since {field_range}; {remedy}"
        if rule.floor >= highest:
            return f"no release could pass, since {field_range}; {remedy}"
    elif rule.kind in ("difference", "people") and not rule.relative:
        if rule.floor <= -_LARGEST_LOSS * span:
            return (
                f"a release that is far worse would pass, since {field_range}: write the loss that you accept, less "
                f"than {_LARGEST_LOSS * span:g}, for instance {span / 50:g}"
            )
        if rule.floor >= span:
            return (
                f"no release could pass, since {field_range} and cannot gain more than {span:g}; write a smaller gain"
            )
    return None


def quoted(value: object) -> str:
    """Quote a value, cut to 80 characters.

    >>> quoted("margin"), len(quoted("m" * 100))
    ("'margin'", 82)
    """
    text = str(value)
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
