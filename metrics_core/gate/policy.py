"""Policies: what must hold for a release to ship, written as a primary field, a margin, and further rules.

primary: meaning_match.match
margin: 0.02
looks: once
rules:
  - answer_correctness.token_overlap_recall >= -0.03
  - meaning_match.match[lang=ru] >= -0.05
  - level meaning_match.match >= 0.80
  - coverage >= 0.95
  - kappa meaning_match.match >= 0.6
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, get_args

from answerkey.metrics_core.comparison import ALL
from answerkey.metrics_core.errors import UserError

RuleKind = Literal["difference", "level", "kappa", "coverage"]
Looks = Literal["once", "repeated"]

COVERAGE = 0.95
"""The floor of a policy that names none: without it, a release could pass because its worst answers failed."""


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One condition.

    Attributes:
        kind: what must lie above `floor`. difference: new - old. level: the new release's own mean. kappa: the
            agreement of the metric with human labels. coverage: the share of the samples that have a number, for every
            field that the policy names, in both releases.
        field: METRIC.FIELD, empty for coverage.
        slice: 'all', or column=value.
        floor: in the units of the field; for a difference mostly below 0, minus the loss that is tolerated.

    >>> PolicyRule("difference", "rouge_l.f1", "lang=ru", -0.05).text
    'rouge_l.f1[lang=ru] >= -0.05'
    """

    kind: RuleKind
    field: str
    slice: str
    floor: float

    @property
    def text(self) -> str:
        """The rule as it is written in a policy."""
        before = "" if self.kind == "difference" else f"{self.kind} "
        where = "" if self.slice == ALL else f"[{self.slice}]"
        short = f"{self.floor:g}"
        return f"{before}{self.field}{where}".rstrip() + f" >= {short if float(short) == self.floor else self.floor}"


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules of a gate. The first is that of the primary field, with the margin.

    `looks` says how often the gate will be asked about the same two releases as data arrive. Where it is repeated, all
    its verdicts together have the error rate that otherwise a single one has.

    >>> Policy((PolicyRule("difference", "rouge_l.f1", ALL, -0.02), PolicyRule("coverage", "", ALL, 0.95))).coverage
    0.95
    """

    rules: tuple[PolicyRule, ...]
    looks: Looks = "once"

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
        """Field and slice of every rule about scores."""
        return tuple(dict.fromkeys((r.field, r.slice) for r in self.rules if r.kind in ("difference", "level")))

    @property
    def coverage(self) -> float:
        """The share of the samples that must have a number, 0 to 1."""
        return next(rule.floor for rule in self.rules if rule.kind == "coverage")

    def kappa(self, field: str) -> PolicyRule | None:
        """The rule that demands a calibration of `field`, if any does."""
        return next((rule for rule in self.rules if rule.kind == "kappa" and rule.field == field), None)


_LEAST_COVERAGE = 0.5
"""The lowest share of samples with a number that a rule may demand."""
_LARGEST_LOSS = 0.5
"""The share of a field's range from which on a loss is no margin: a rule that tolerates it would nearly always hold."""
KEYS = ("primary", "margin", "looks", "rules")
"""The keys of a policy, in the order in which they are written."""
_FIELD = r"[^\s\[\]<>=.]+\.[^\s\[\]<>=]+"
_RULE = re.compile(rf"(?:(level|kappa)\s+)?({_FIELD}|coverage)\s*(?:\[(.+)\])?\s*>=\s*(\S+)")
_HOW = (
    "write METRIC.FIELD >= -0.02, METRIC.FIELD[column=value] >= -0.05, level METRIC.FIELD >= 0.8, "
    "kappa METRIC.FIELD >= 0.6 or coverage >= 0.95"
)
_KINDS: Mapping[str | None, RuleKind] = {None: "difference", "level": "level", "kappa": "kappa"}
_RANGE: Mapping[RuleKind, tuple[float, float]] = {"coverage": (0.0, 1.0), "kappa": (-1.0, 1.0)}


def parse_policy(content: object, where: str) -> Policy:
    """Read a policy from a mapping with the keys `primary`, `margin`, `looks` and `rules`.

    A policy without a coverage rule gets `coverage >= 0.95`.

    Args:
        content: as a YAML reader returns it; `where` names its source in messages.

    Raises:
        UserError: something in it is invalid; one line per problem, each with what to write instead.

    >>> policy = parse_policy({"primary": "rouge_l.f1", "margin": 0.02, "rules": ["level rouge_l.f1 >= 0.4"]}, "p.yaml")
    >>> [rule.text for rule in policy.rules]
    ['rouge_l.f1 >= -0.02', 'level rouge_l.f1 >= 0.4', 'coverage >= 0.95']
    """
    if not isinstance(content, Mapping):
        raise UserError(
            f"{where}: a policy has the keys primary, margin, looks and rules, for instance primary: rouge_l.f1"
        )
    problems: list[str] = [*_strange_keys(content)]
    rules: list[PolicyRule] = []
    for part in (_primary(content), *(_rule(text) for text in _texts(content))):
        (rules if isinstance(part, PolicyRule) else problems).append(part)  # type: ignore[arg-type]
    problems += _twice(rules)
    if (looks := content.get("looks", "once")) not in get_args(Looks):
        problems.append(
            f"looks: {_given(looks)}; write once, or repeated where data arrive and the gate is asked again"
        )
    if problems:
        raise UserError("\n".join(f"{where}: {problem}" for problem in problems))
    if not any(rule.kind == "coverage" for rule in rules):
        rules.append(PolicyRule("coverage", "", ALL, COVERAGE))
    return Policy(tuple(rules), "repeated" if looks == "repeated" else "once")


def check_ranges(policy: Policy, ranges: Mapping[str, tuple[float, float]], where: str = "policy") -> None:
    """Find out whether every rule can be broken, and can be kept.

    Args:
        ranges: by METRIC.FIELD, the lowest and the highest possible score; rules about other fields are not checked.

    Raises:
        UserError: a rule always holds, or never; one line per rule.

    >>> strict = parse_policy({"primary": "bleu.bleu", "margin": 0, "rules": ["level bleu.bleu >= 1.5"]}, "gate.yaml")
    >>> try:
    ...     check_ranges(strict, {"bleu.bleu": (0.0, 1.0)})
    ... except UserError as error:
    ...     print(error)
    policy: rule 'level bleu.bleu >= 1.5': no release could pass, since bleu.bleu is 0 to 1; write a floor below 1
    """
    problems = [
        f"{where}: {_named(rule, policy)}: {problem}"
        for rule in policy.rules
        if rule.field in ranges and (problem := _range_problem(rule, *ranges[rule.field]))
    ]
    if problems:
        raise UserError("\n".join(problems))


def _named(rule: PolicyRule, policy: Policy) -> str:
    return f"margin {-rule.floor:g}" if rule is policy.primary else f"rule {_shown(rule.text)}"


def _range_problem(rule: PolicyRule, low: float, high: float) -> str | None:
    """Why every release keeps the rule, or none can."""
    span, where = high - low, f"{rule.field} is {low:g} to {high:g}"
    if rule.kind == "level":
        if rule.floor <= low:
            return f"every release would pass, since {where}; write a floor above {low:g}"
        return f"no release could pass, since {where}; write a floor below {high:g}" if rule.floor > high else None
    if rule.kind != "difference":
        return None
    if rule.floor <= -_LARGEST_LOSS * span:
        return (
            f"a release that is far worse would pass, since {where}: write the loss that does not matter, less than "
            f"{_LARGEST_LOSS * span:g}, for instance {span / 50:g}"
        )
    if rule.floor >= span:
        return f"no release could pass, since {where} and cannot gain more than {span:g}; write a smaller gain"
    return None


def _strange_keys(content: Mapping[object, object]) -> Iterator[str]:
    for key in content:
        if key not in KEYS:
            near = difflib.get_close_matches(str(key), KEYS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"the keys are {', '.join(KEYS)}"
            yield f"{_shown(key)}: no such key; {hint}"


def _primary(content: Mapping[object, object]) -> PolicyRule | str:
    field, margin = content.get("primary"), content.get("margin")
    # YAML reads 1e-2 as a text.
    with suppress(ValueError):
        margin = float(margin) if isinstance(margin, str) else margin
    if not isinstance(field, str) or not re.fullmatch(_FIELD, field):
        return f"primary: {_given(field)}; write the METRIC.FIELD that decides, for instance meaning_match.match"
    if isinstance(margin, bool) or not isinstance(margin, int | float) or not 0 <= margin < math.inf:
        return (
            f"margin: {_given(margin)}; write the loss of {field} that does not matter, for instance 0.02. At 0 the "
            "new release must be better to pass"
        )
    return PolicyRule("difference", field, ALL, -float(margin) if margin else 0.0)


def _texts(content: Mapping[object, object]) -> Sequence[object]:
    rules = content.get("rules")
    if rules is None:
        return ()
    return rules if isinstance(rules, Sequence) and not isinstance(rules, str) else (rules,)


def _rule(text: object) -> PolicyRule | str:
    """The rule, or what is wrong with it."""
    # YAML makes a mapping of a line with a colon and a blank in it.
    matched = _RULE.fullmatch(text.strip()) if isinstance(text, str) else None
    if matched is None:
        quotes = " in quotes" if isinstance(text, Mapping) else ""
        return f"rule {_shown(text)}: not understood; {_HOW}{quotes}"
    word, field, slice_, number = matched.groups()
    kind: RuleKind = "coverage" if field == "coverage" else _KINDS[word]
    try:
        floor = float(number)
    except ValueError:
        floor = math.nan
    low, high = _RANGE.get(kind, (-math.inf, math.inf))
    if not (math.isfinite(floor) and low <= floor <= high):
        span = f" from {low:g} to {high:g}" if kind in _RANGE else ""
        return f"rule {_shown(text)}: {_shown(number)} is not a number{span}; write a share as 0.95, not as 95%"
    if low_floor := _always_holds(kind, floor):
        return f"rule {_shown(text)}: {low_floor}"
    if kind in _RANGE and (slice_ or (kind == "coverage" and word)):
        return f"rule {_shown(text)}: {kind} takes no slice and no other word; {_HOW}"
    if slice_ and "=" not in slice_:
        return f"rule {_shown(text)}: {_shown(slice_)} is not a slice; write [column=value]"
    return PolicyRule(kind, "" if kind == "coverage" else field, slice_ or ALL, floor)


def _always_holds(kind: RuleKind, floor: float) -> str | None:
    if kind == "coverage" and floor < _LEAST_COVERAGE:
        return f"nearly every release would pass; write at least {_LEAST_COVERAGE}, for instance 0.95"
    if kind == "kappa" and floor <= 0:
        return "a judge that guesses has a kappa of 0; write a floor above 0, for instance 0.6"
    return None


def _twice(rules: Sequence[PolicyRule]) -> Iterator[str]:
    seen: dict[tuple[RuleKind, str, str], PolicyRule] = {}
    for rule in rules:
        first = seen.setdefault((rule.kind, rule.field, rule.slice), rule)
        if first is not rule:
            yield f"rule {_shown(rule.text)}: there is {_shown(first.text)} already; keep one of them"


def _given(value: object) -> str:
    return "missing" if value is None else f"{_shown(value)} cannot be used"


def _shown(value: object) -> str:
    text = str(value)
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
