"""The page about traces: its rule is one, its table is printed and its queries run."""

import re
from pathlib import Path

from answerkey.flows.cli.comparison_tables import print_funnels
from answerkey.tasks.traces.condition import parse_condition
from answerkey.tasks.traces.rules import KEYS, load_rules
from tests.tasks.staging_help import query
from tests.tasks.traces.tracing_help import run

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs/traces.md").read_text(encoding="utf-8")


def block(kind):
    [found] = re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def test_the_rule_and_the_conditions_can_be_read_and_every_key_is_there(tmp_path):
    (tmp_path / "rule.yaml").write_text(block("yaml"), encoding="utf-8")
    [read] = load_rules([str(tmp_path / "rule.yaml")])
    assert (read.name, read.sampling, len(read.where), read.judge["max_calls"]) == ("faq-meaning", 0.1, 3, 500)
    shown = set(re.findall(r"^([a-z_]+):", block("yaml"), re.MULTILINE)) | set(re.findall(r"`([a-z_]+)`", PAGE))
    assert set(KEYS) - shown == {"description"}
    conditions = re.findall(r"`([^`]+)`", PAGE.split("| to select traces |")[1].split("\n\n")[0])
    assert len(conditions) > 10
    assert all(parse_condition(one).names for one in conditions)


def test_the_table_is_what_the_examples_give_and_the_queries_run(tmp_path, capsys):
    [rule] = load_rules([str(ROOT / "examples/rules")], ["faq-words"])
    print_funnels([run(tmp_path, rule)], as_json=False)
    assert block("text").strip("\n") in capsys.readouterr().out
    for one in filter(str.strip, block("sql").split(";")):
        assert query(tmp_path, one)


def test_the_rules_of_the_examples_can_be_read():
    words, meaning = load_rules([str(ROOT / "examples/rules")])
    assert (words.metric, meaning.metric, meaning.sampling) == ("token_overlap", "meaning_match", 0.5)
    assert words.source == str(ROOT / "examples/traces.jsonl")
