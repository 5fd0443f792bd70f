"""Read a policy from its file, or from the options of the gate: the conditions for a release to ship.

primary: meaning_match.match
margin: 0.02
labels: random
judge_bias: 0.03
baseline: anchor
rules:
  - answer_correctness.token_overlap_recall >= -0.03
  - meaning_match.match[lang=ru] >= -0.05
  - level meaning_match.match >= 0.80
  - level latency.seconds <= 2
  - p95 latency.seconds <= 4
  - latency.seconds <= +10%
  - coverage >= 0.95
  - kappa meaning_match.match >= 0.6
  - people meaning_match.match >= -0.02
  - in depth meaning_match.match >= 0.5
  - none broken meaning_match.match[must=yes]
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from answerkey.metrics_core.decide.policy import (
    ALL,
    COVERAGE,
    FIELD,
    SMALLEST,
    Baseline,
    Drawing,
    Policy,
    PolicyRule,
    RuleKind,
    parse_rule,
    quoted,
    range_problem,
)
from answerkey.metrics_core.document import Located
from answerkey.metrics_core.errors import UserError, did_you_mean


def _listed(rules: object) -> object:
    if rules is None:
        return []
    return rules if isinstance(rules, list | tuple) else [rules]


def _number(value: object) -> object:
    # YAML reads 1e-2 as a text.
    with suppress(ValueError):
        return float(value) if isinstance(value, str) else value
    return value


def _distinct(value: float) -> float:
    if 0 < value < SMALLEST:
        raise ValueError("not told from 0")
    return value


_NotNegative = Annotated[
    float, BeforeValidator(_number), Field(strict=True, ge=0, allow_inf_nan=False), AfterValidator(_distinct)
]


class PolicyFile(BaseModel):
    """The content of a policy file.

    >>> PolicyFile.model_validate({"primary": "rouge_l.f1", "margin": "2e-2"}).margin
    0.02
    """

    model_config = ConfigDict(extra="forbid")

    primary: Annotated[str, Field(pattern=f"^(people )?{FIELD}$")]
    margin: _NotNegative
    labels: Drawing | None = None
    judge_bias: _NotNegative = 0.0
    baseline: Baseline = "anchor"
    rules: Annotated[list[Annotated[PolicyRule, BeforeValidator(parse_rule)]], BeforeValidator(_listed)] = []


KEYS = tuple(PolicyFile.model_fields)
"""The keys of a policy, in the order in which they are written."""
_REMEDIES = {
    "primary": "write the METRIC.FIELD that decides, for instance meaning_match.match",
    "margin": "write the largest loss of {primary} that you accept, for instance 0.02. At 0 the new release must be "
    "better to pass",
    "labels": "write random where the samples with labels were drawn, or chosen",
    "judge_bias": "write how far a judge's bias may differ, for instance 0.03",
    "baseline": "write anchor for a fixed one, or last shipped where a release that passes is the next one",
}
"""The remedies by key."""


def parse_policy(content: Any, where: str | Located) -> Policy:
    """Read a policy from a mapping with the keys of `KEYS`, of which `primary` and `margin` are required.

    A policy without a coverage rule gets `coverage >= 0.95`.

    Args:
        content: the parsed YAML.
        where: the source, for messages; a YAML document adds the line.

    Raises:
        UserError: something in it is invalid; one line per problem, each with the remedy.

    >>> policy = parse_policy({"primary": "rouge_l.f1", "margin": 0.02, "rules": ["level rouge_l.f1 >= 0.4"]}, "p.yaml")
    >>> [rule.text for rule in policy.rules]
    ['rouge_l.f1 >= -0.02', 'level rouge_l.f1 >= 0.4', 'coverage >= 0.95']
    """
    source = where if isinstance(where, Located) else Located(where, content, {})

    def line(path: str, problem: str) -> str:
        location = source.where(path) if source.lines else source.file
        return f"{location}: {problem}"

    if not isinstance(content, Mapping):
        raise UserError(line("", f"a policy has the keys {', '.join(KEYS)}, for instance primary: rouge_l.f1"))
    written = {str(key): value for key, value in content.items()}
    problems: list[str] = []
    try:
        policy_file = PolicyFile.model_validate(written)
    except ValidationError as error:
        problems = [line(*_problem(details, written)) for details in error.errors()]
        raise UserError("\n".join(dict.fromkeys(problems))) from error

    # The margin is the first rule
    field = policy_file.primary.removeprefix("people ")
    kind: RuleKind = "difference" if field == policy_file.primary else "people"
    floor = -policy_file.margin if policy_file.margin else 0.0
    rules = [PolicyRule(kind, field, ALL, floor), *policy_file.rules]
    # No two rules may be about one thing
    rule_by_subject: dict[tuple[object, ...], PolicyRule] = {}
    for position, rule in enumerate(rules, -1):
        earlier = rule_by_subject.setdefault((rule.kind, rule.field, rule.slice, rule.percent, rule.relative), rule)
        if earlier is not rule:
            problem = f"rule {quoted(rule.text)}: there is {quoted(earlier.text)} already; keep one of them"
            problems.append(line(f"rules[{position}]", problem))
    if problems:
        raise UserError("\n".join(problems))
    if not any(rule.kind == "coverage" for rule in rules):
        rules.append(PolicyRule("coverage", "", ALL, COVERAGE))
    return Policy(tuple(rules), policy_file.labels, policy_file.judge_bias, policy_file.baseline)


def _problem(error: Any, written: Mapping[str, Any]) -> tuple[str, str]:
    """The path and the description of a problem."""
    # A key that nobody knows, a rule that cannot be read, or a value that does not fit
    key, *inner = error["loc"]
    listed = ", ".join(KEYS)
    if error["type"] == "extra_forbidden":
        return key, f"{quoted(key)}: no such key{did_you_mean(key, KEYS) or f'; the keys are {listed}'}"
    if key == "rules":
        return f"rules[{inner[0]}]", f"rule {quoted(error['input'])}: {error['ctx']['error']}"
    value = written.get(key)
    problem = "missing" if value is None else f"{quoted(value)} cannot be used"
    primary = written.get("primary")
    return key, f"{key}: {problem}; {_REMEDIES[key].format(primary=primary or 'the primary field')}"


def check_ranges(policy: Policy, ranges: Mapping[str, tuple[float, float]]) -> None:
    """Check that every rule can be broken, and can hold.

    Args:
        ranges: by METRIC.FIELD, the lowest and the highest possible score; rules about other fields are not checked.

    Raises:
        UserError: a rule always holds, or never; one line per rule.

    >>> strict = parse_policy({"primary": "bleu.bleu", "margin": 0, "rules": ["level bleu.bleu >= 7"]}, "gate.yaml")
    >>> try:
    ...     check_ranges(strict, {"bleu.bleu": (0.0, 1.0)})
    ... except UserError as error:
    ...     print(error)
    policy: rule 'level bleu.bleu >= 7': no release could pass, since bleu.bleu is 0 to 1; write a floor between 0 and 1
    """
    problems = []
    for rule in policy.rules:
        problem = range_problem(rule, *ranges[rule.field]) if rule.field in ranges else None
        if problem:
            is_margin = rule is policy.primary and rule.kind == "difference"
            label = f"margin {-rule.floor:g}" if is_margin else f"rule {quoted(rule.text)}"
            problems.append(f"policy: {label}: {problem}")
    if problems:
        raise UserError("\n".join(problems))
