"""What the command line says before anything is started: help, and one clear line for bad input."""

import json

import pytest


def test_help_names_every_command(bare_cli):
    result = bare_cli("--help")
    assert result.returncode == 0
    for name in ("evaluate", "judge", "report", "compare", "diff", "history", "metrics", "doctor"):
        assert f"\n│ {name} " in result.stdout


@pytest.mark.parametrize(("words", "option"), [(["help"], ["--help"]), (["help", "gate"], ["gate", "--help"])])
def test_help_is_a_command_too(bare_cli, words, option):
    result = bare_cli(*words)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("Usage: answerkey")
    assert result.stdout == bare_cli(*option).stdout


def test_metrics_lists_all_with_their_fields(bare_cli):
    result = bare_cli("metrics", "--json")
    catalogue = {row["metric"]: row for row in json.loads(result.stdout)}
    assert list(catalogue) == [
        "answer_correctness", "rouge_l", "rouge", "token_overlap", "bleu", "chrf", "exact_match", "contains",
        "semantic_similarity", "meaning_match", "ground_truth_similarity", "faithfulness", "answer_relevance",
        "completeness", "politeness", "refusal", "same_meaning", "preference",
    ]  # fmt: skip
    assert [field["name"] for field in catalogue["rouge_l"]["fields"]] == ["precision", "recall", "f1"]
    assert catalogue["rouge_l"]["needs"] == ["answer", "references"]
    assert catalogue["bleu"]["signature"].startswith("bleu|v1|tok:13a+chars|")
    assert catalogue["meaning_match"]["needs"] == ["answer", "question", "references"]
    assert catalogue["meaning_match"]["signature"].startswith("meaning_match|v1|judge:offline@3:")
    shown = bare_cli("metrics").stdout
    assert all(name in shown for name in catalogue)
