"""The command of a report does again what its parameters say."""

import shlex

import pytest

from answerkey.flows.answers import command_line
from answerkey.flows.parameters import Limits
from answerkey.tasks.load.remote import without_secrets

PARAMETERS = {
    "data": {
        "answers": "/data/my answers.jsonl", "references": "", "dataset": "faq", "release": "",
        "columns": ["id=meta.id", "label=it's right"], "reference_columns": [], "slices": ["lang", "kind"],
    },
    "scoring": {
        "metrics": ["rouge_l", "bleu"], "profile": "default", "blank_answer": "zero", "models": [],
        "aggregation": "mean", "threshold": 0.0, "only_failed": True,
    },
    "judging": {"judges": [], "jury": "majority", "repeats": 1},
    "limits": {"max_quarantined": 0.2, "min_coverage": 0.95},
}  # fmt: skip


def words_of(parameters):
    """The command as a shell takes it apart; a backslash joins its lines."""
    return shlex.split(command_line(parameters).replace("\\\n", " "))


def test_every_parameter_that_was_set_is_an_option():
    assert words_of(PARAMETERS) == [
        "answerkey", "evaluate", "/data/my answers.jsonl", "--dataset", "faq", "--map",
        "id=meta.id,label=it's right", "--slice", "lang,kind", "--metrics", "rouge_l,bleu",
        "--only-failed", "--max-quarantined", "0.2", "--min-coverage", "0.95",
    ]  # fmt: skip


def test_a_limit_of_zero_is_written_and_gives_the_same_limits_again():
    limits = Limits(max_quarantined=0, min_coverage=0)
    words = words_of({"data": {"answers": "a"}, "limits": limits.model_dump()})
    assert words[3:] == ["--max-quarantined", "0.0", "--min-coverage", "0.0"]


def test_the_baseline_and_the_policy_come_last():
    policy = "primary: label.correct\nmargin: 0.02\n"
    words = words_of({**PARAMETERS, "baseline": "gpt 4", "policy": policy})
    assert words[-5:] == ["0.95", "--baseline", "gpt 4", "--policy", policy]


def test_judges_are_named_with_their_votes_and_budget():
    judging = {"judges": ["a/b", "c/d"], "key_from": "env:KEY", "jury": "mean", "repeats": 2, "max_cost_usd": 1.5}
    words = words_of({**PARAMETERS, "judging": judging})
    assert words[words.index("--judge") :][:8] == [
        "--judge", "a/b,c/d", "--judge-key-from", "env:KEY", "--repeats", "2", "--max-cost", "1.5",
    ]  # fmt: skip
    assert words[-2:] == ["--config", '{"judging": {"jury": "mean"}}']


@pytest.mark.parametrize("parameters", [{}, {"data": {}}, {"data": None}])
def test_a_run_without_parameters_has_no_command(parameters):
    assert command_line(parameters) == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:word@host/a.csv", "https://…@host/a.csv"),
        ("https://me:word@rest@host/a.csv", "https://…@host/a.csv"),
        ("postgresql://me:word@host/db", "postgresql://…@host/db"),
        ("https://host/a.csv?sig=abc&se=1", "https://host/a.csv?…"),
        ("/data/a@b?.csv", "/data/a@b?.csv"),
        ("s3://b/a?k=1: not there; 'gs://b/c?d'?", "s3://b/a?…: not there; 'gs://b/c?…'?"),
    ],
)
def test_passwords_and_tokens_of_addresses_are_left_out(text, shown):
    assert without_secrets(text) == shown
