"""Rules as people write them: read, and everything wrong reported at once with file, line and key."""

from datetime import UTC, datetime

import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.traces.condition import parse_condition
from answerkey.tasks.traces.rules import load_rules

GOOD = """\
name: faq-meaning
description: for people
enabled: false
source: ../logs/*.jsonl
id: trace.id
time: started
start: 2026-11-01
late_days: 2
where:
  - metadata.env = 'production'
  - list_contains(tags, 'billing')
sampling: 0.1
mapping:
  input: input.question
  output: output.text
  key: metadata.question_id
dataset: faq
metric: meaning_match
options: {blank_answer: undefined}
judge: openai/gpt-4o-mini
"""
LEAST = "name: {name}\nsource: log.jsonl\nmapping: {{output: o, ground_truth: g}}\nmetric: rouge_l\n"


def problems(folder, text):
    file = folder / "x.yaml"
    file.write_text(text)
    with pytest.raises(UserError) as error:
        load_rules([str(file)])
    lines = str(error.value).splitlines()
    assert all(line.startswith(f"{file}:") for line in lines), lines
    return [line.removeprefix(f"{file}:") for line in lines]


def test_a_rule_with_everything(tmp_path):
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "a.yaml").write_text(GOOD)
    [rule] = load_rules([str(tmp_path / "rules")])
    assert (rule.name, rule.enabled, rule.sampling, rule.metric, rule.dataset) == (
        "faq-meaning", False, 0.1, "meaning_match", "faq",
    )  # fmt: skip
    # Relative to the file, wherever the run starts; the names of the document mean the same.
    assert rule.source == str(tmp_path / "logs" / "*.jsonl")
    assert rule.mapping == {"question": "input.question", "answer": "output.text", "key": "metadata.question_id"}
    assert rule.where == (
        parse_condition("metadata.env = 'production'"),
        parse_condition("list_contains(tags, 'billing')"),
    )
    assert (rule.id, rule.time, rule.start, rule.late_days) == (
        "trace.id",
        "started",
        datetime(2026, 11, 1, tzinfo=UTC),
        2,
    )
    assert rule.judge == {"judges": ["openai/gpt-4o-mini"]} and rule.options == {"blank_answer": "undefined"}
    assert rule.line("where[1]").endswith("a.yaml:11")


def test_the_least_that_a_rule_needs_and_several_in_a_file(tmp_path):
    both = "".join("  - " + LEAST.format(name=name).replace("\n", "\n    ").rstrip() + "\n" for name in ("a", "b"))
    (tmp_path / "ab.yaml").write_text("rules:\n" + both)
    (tmp_path / "c.yml").write_text(LEAST.format(name="c"))
    rules = load_rules([str(tmp_path)])
    assert [(rule.name, rule.line("metric").rpartition(":")[2]) for rule in rules] == [
        ("a", "5"),
        ("b", "9"),
        ("c", "4"),
    ]
    assert (rules[0].id, rules[0].time, rules[0].enabled, rules[0].sampling, rules[0].where) == (
        "id",
        "start_time",
        True,
        1.0,
        (),
    )
    assert [rule.name for rule in load_rules([str(tmp_path)], ["b"])] == ["b"]
    with pytest.raises(UserError, match=r"^--rule bb: there is no rule of this name; did you mean b\?$"):
        load_rules([str(tmp_path)], ["bb"])


def test_everything_wrong_is_reported_at_once(tmp_path):
    text = GOOD.replace("sampling: 0.1", "sampling: 1.5").replace("metric: meaning_match", "metric: meaning_mach")
    text = text.replace("enabled", "enabeld").replace("list_co", "lst_co").replace("id: trace.id", "id: $..id")
    assert sorted(problems(tmp_path, text), key=lambda line: int(line.split(":")[0])) == [
        "3: enabeld: a rule has no such key; did you mean enabled?",
        "5: id: '$..id' names several values; write the path of one, like messages[0].text",
        "11: where: \"lst_contains(tags, 'billing')\": lst_contains() is not allowed in a condition on a trace; did "
        "you mean list_contains()?",
        "12: sampling: 1.5 must be a share between 0 (none) and 1 (all)",
        "18: metric: metric 'meaning_mach' is not known: did you mean meaning_match?",
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("name: faq-meaning", "name: a/b", "1: name: 'a/b' must be letters, digits, dots, dashes and underscores"),
        ("name: faq-meaning\n", "", "1: name: is missing"),
        ("enabled: false", "enabled: 0", "3: enabled: 0 must be true or false"),
        ("start: 2026-11-01", "start: soon", "7: start: 'soon' must be a day or a time, like 2026-11-01"),
        ("late_days: 2", "late_days: -1", "8: late_days: -1 must be a number of days"),
        ("sampling: 0.1", "sampling: 10%", "12: sampling: '10%' must be a share between 0 (none) and 1 (all)"),
        ("  input: input", "  inptu: input", "14: mapping.inptu: is not to be mapped; did you mean input?"),
        ("  input: input", "  answer: input", "15: mapping.output: is the same as answer; keep one"),
        ("  output: output.text\n", "", "13: mapping: answer (or output) is missing: where the answer is in a trace"),
        ("  key: metadata.question_id\n", "", "16: dataset: its rows are joined by id; say with mapping.key where"),
        ("dataset: faq\n", "", "16: mapping.key: joins a data set; name it with dataset"),
        ("  key: m", "  references: r\n  key: m", "16: mapping.references: the data set has them; keep one of both"),
        ("  key: metadata.question_id\ndataset: faq\n", "", "13: mapping: references (or ground_truth) is missing; "),
        (
            "metric: meaning_match",
            "metric: rouge_l",
            "20: judge: rouge_l asks none; remove it, or choose a metric that",
        ),
        (
            "metric: meaning_match",
            "metric: preference",
            "18: metric: preference compares two releases, and traces have",
        ),
        ("id: trace.id", "id: a[b]", "5: id: 'a[b]' is not a path; write names with dots and numbers in brackets"),
        ("  input: input", "  input: 5 #", "14: mapping.input: a path is a text like"),
        ("metric: meaning_match", "name: again", "18: name: is here twice, first in line 1; keep one"),
        ("id: trace.id", "id: [", "7: not YAML: "),
        (GOOD, "", "1: a rule has the keys name, source, mapping, metric and more; this is none"),
    ],
)
def test_what_is_wrong_with_a_rule(tmp_path, old, new, said):
    assert old in GOOD
    found = problems(tmp_path, GOOD.replace(old, new, 1))
    assert any(line.startswith(said) for line in found), found


def test_a_name_that_is_taken(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text("# x\n" + LEAST.format(name="same"))
    with pytest.raises(UserError) as error:
        load_rules([str(tmp_path)])
    there, here = (tmp_path / f"{name}.yaml" for name in ("a", "b"))
    assert str(error.value) == f"{here}:2: name: same is taken by the rule in {there}:2; rename one"
    # The same file given twice is one file.
    assert len(load_rules([str(there), str(there)])) == 1


def test_places_without_rules(tmp_path):
    with pytest.raises(UserError, match="there is no such file or folder of rules"):
        load_rules([str(tmp_path / "nowhere")])
    with pytest.raises(UserError, match=r"no rules in this folder; a rule is a \.yaml file"):
        load_rules([str(tmp_path)])


def test_an_endless_document_is_refused(tmp_path):
    assert problems(tmp_path, "name: &a [*a]\n")[0].startswith("1: nested more than 20 levels deep")
