"""Policies: what is read, and one line for each thing that cannot be."""

import pytest

from answerkey.metrics_core.decide.policy import PolicyRule
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.policy_file import check_ranges, parse_policy

PLAIN = {"primary": "label.correct", "margin": 0.02}


def problems(content):
    with pytest.raises(UserError) as caught:
        parse_policy(content, "gate.yaml")
    return str(caught.value).splitlines()


def test_every_kind_of_rule_is_read_and_written_back():
    texts = [
        "token_overlap.recall >= -0.03",
        "meaning_match.match[lang=ru] >= -0.05",
        "meaning_match.match[topic=a >= b [x]] >= 0",
        "level meaning_match.match >= 0.8",
        "p95 latency.seconds <= 2",
        "latency.seconds <= +10%",
        "kappa meaning_match.match >= 0.6",
        "people meaning_match.match >= -0.03",
        "in depth meaning_match.match >= 0.8",
        "none broken meaning_match.match[must=yes]",
        "coverage >= 0.9",
    ]
    content = {"primary": "meaning_match.match", "margin": 0.02, "labels": "random", "judge_bias": 0.03, "rules": texts}
    policy = parse_policy(content, "x")
    assert parse_policy(policy.as_dict(), "x") == policy
    assert [rule.text for rule in policy.rules] == ["meaning_match.match >= -0.02", *texts]
    assert policy.rules[2] == PolicyRule("difference", "meaning_match.match", "lang=ru", -0.05)
    assert policy.rules[3].slice == "topic=a >= b [x]"
    assert policy.coverage == 0.9
    assert policy.fields == ("meaning_match.match", "token_overlap.recall", "latency.seconds")
    assert (policy.rules[5].kind, policy.rules[5].share, policy.rules[6].floor) == ("level", 0.95, -0.1)
    assert policy.rule("kappa", "meaning_match.match") == policy.rules[7]
    assert policy.rule("kappa", "token_overlap.recall") is None
    assert [rule.kind for rule in policy.rules[8:10]] == ["people", "depth"]


def test_coverage_has_a_floor_also_where_nobody_wrote_one():
    assert [rule.text for rule in parse_policy(PLAIN, "x").rules] == ["label.correct >= -0.02", "coverage >= 0.95"]


def test_a_margin_of_0_is_0():
    assert parse_policy({**PLAIN, "margin": 0}, "x").primary.text == "label.correct >= 0"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"primary": None}, "primary: missing; write the METRIC.FIELD that decides, for instance meaning_match.match"),
        ({"primary": "label"}, "primary: 'label' cannot be used; write the METRIC.FIELD that decides, for instance "
         "meaning_match.match"),
        ({"margin": None}, "margin: missing; write the largest loss of label.correct that you accept, for instance "
         "0.02. At 0 the new release must be better to pass"),
        ({"margn": 1}, "'margn': no such key; did you mean margin?"),
        ({"labels": "all"}, "labels: 'all' cannot be used; write random where the samples with labels were drawn, or "
         "chosen"),
        ({"judge_bias": -1}, "judge_bias: '-1' cannot be used; write how far a judge's bias may differ, for instance "
         "0.03"),
        ({"rules": ["in depth a.b >= 0"]}, "rule 'in depth a.b >= 0': every release would pass; write a floor above 0, "
         "for instance 0.5"),
        ({"rules": ["none broken a.b >= 0"]}, "rule 'none broken a.b >= 0': not understood; write METRIC.FIELD >= "
         "-0.02, METRIC.FIELD[column=value] >= -0.05, people METRIC.FIELD >= -0.02, level METRIC.FIELD >= 0.8, level "
         "METRIC.FIELD <= 2, p95 METRIC.FIELD <= 4, METRIC.FIELD <= +10%, kappa METRIC.FIELD >= 0.6, in depth "
         "METRIC.FIELD >= 0.5, none broken METRIC.FIELD[column=value] or coverage >= 0.95"),
        ({"rules": ["p0 latency.seconds <= 2"]}, "rule 'p0 latency.seconds <= 2': p0 is no percentile; write p1 to "
         "p99.9, or median"),
        ({"rules": ["rouge_l.f1 >= -10%"]}, "rule 'rouge_l.f1 >= -10%': '-10%' is not a number; write a share as 0.95, "
         "not as 95%"),
        ({"colour": 1}, "'colour': no such key; the keys are primary, margin, labels, judge_bias, baseline, rules"),
        ({"rules": ["coverage >= 95%"]}, "rule 'coverage >= 95%': '95%' is not a number from 0 to 1; write a share as "
         "0.95, not as 95%"),
        ({"rules": ["coverage >= 0"]}, "rule 'coverage >= 0': nearly every release would pass; write at least 0.5, "
         "for instance 0.95"),
        ({"rules": ["kappa label.correct >= 0"]}, "rule 'kappa label.correct >= 0': a judge that guesses has a kappa of"
         " 0; write a floor above 0, for instance 0.6"),
        ({"rules": ["a.b >= nan"]}, "rule 'a.b >= nan': 'nan' is not a number; write a share as 0.95, not as 95%"),
        ({"rules": ["a.b[ru] >= 0"]}, "rule 'a.b[ru] >= 0': 'ru' is not a slice; write [column=value]"),
        ({"rules": ["label.correct >= -0.1"]}, "rule 'label.correct >= -0.1': there is 'label.correct >= -0.02' "
         "already; keep one of them"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_gets_a_line(changes, line):
    assert problems({**PLAIN, **changes}) == [f"gate.yaml: {line}"]


@pytest.mark.parametrize(
    ("margin", "rule", "line"),
    [
        (5, "", "margin 5: a release that is far worse would pass, since label.correct is 0 to 1: write the loss that "
         "you accept, less than 0.5, for instance 0.02"),
        (0.99, "", "margin 0.99: a release that is far worse would pass, since label.correct is 0 to 1"),
        (0, "label.correct[lang=ru] >= -7", "rule 'label.correct[lang=ru] >= -7': a release that is far worse would p"),
        (0, "label.correct[lang=ru] >= 1", "rule 'label.correct[lang=ru] >= 1': no release could pass, since label.corr"
         "ect is 0 to 1 and cannot gain more than 1; write a smaller gain"),
        (0, "level label.correct >= 1.5", "rule 'level label.correct >= 1.5': no release could pass, since label.correc"
         "t is 0 to 1; write a floor between 0 and 1"),
        (0, "level label.correct >= 1", "rule 'level label.correct >= 1': no release could pass, since label.correct "
         "is 0 to 1; write a floor between 0 and 1"),
        (0, "level m.errors <= 0", "rule 'level m.errors <= 0': no release could pass, since m.errors is 0 to 1; "
         "write a ceiling between 0 and 1"),
        (0, "level m.errors <= 1", "rule 'level m.errors <= 1': every release would pass, since m.errors is 0 to 1; "
         "write a ceiling between 0 and 1"),
        (0, "level label.correct[lang=ru] >= 1", "rule 'level label.correct[lang=ru] >= 1': no release could pass"),
        (0, "level label.correct >= 0", "rule 'level label.correct >= 0': every release would pass, since label.correct"
         " is 0 to 1; write a floor between 0 and 1"),
        (0, "level m.similarity >= -1", "rule 'level m.similarity >= -1': every release would pass, since m.similarity "
         "is -1 to 1; write a floor between -1 and 1"),
    ],
)  # fmt: skip
def test_a_rule_that_always_or_never_holds_is_refused(margin, rule, line):
    read = parse_policy({**PLAIN, "margin": margin, "rules": [rule] if rule else []}, "x")
    with pytest.raises(UserError) as caught:
        check_ranges(read, {"label.correct": (0.0, 1.0), "m.errors": (0.0, 1.0), "m.similarity": (-1.0, 1.0)})
    assert str(caught.value).startswith(f"policy: {line}")


def test_what_a_field_can_have_is_allowed():
    rules = [
        "m.similarity >= -0.9",
        "level m.similarity >= -0.5",
        "level label.correct >= 0.99",
        "level m.errors <= 0.01",
        "gone.f >= -7",
    ]
    read = parse_policy({**PLAIN, "margin": "4e-1", "rules": rules}, "x")
    check_ranges(read, {"label.correct": (0.0, 1.0), "m.errors": (0.0, 1.0), "m.similarity": (-1.0, 1.0)})


@pytest.mark.parametrize("margin", [-0.01, True, "2 %", float("nan"), float("inf")])
def test_a_margin_is_a_number_from_0(margin):
    [line] = problems({**PLAIN, "margin": margin})
    assert line.startswith(
        f"gate.yaml: margin: {str(margin)!r} cannot be used; write the largest loss of label.correct"
    )


@pytest.mark.parametrize("rule", ["label.correct > 0", "label.correct = 1", "recall >= 0", "", 7, {"a": "b >= 0"}])
def test_a_rule_that_is_not_understood_is_shown_how(rule):
    [line] = problems({**PLAIN, "rules": [rule]})
    assert line.startswith(f"gate.yaml: rule {str(rule)!r}: not understood; write METRIC.FIELD >= -0.02, ")


def test_all_problems_are_named_at_once():
    assert len(problems({"primry": "x", "rules": ["what", "coverage[a=b] >= 1", "level coverage >= 0.5"]})) == 6
    assert problems(["a"]) == problems(None)
