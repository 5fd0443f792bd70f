"""What the command line says before anything is started: help, and one clear line for bad input."""

import json

import pytest


def refused(result):
    """The one line of a refusal."""
    assert result.returncode == 2, result
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    [line] = result.stderr.splitlines()
    return line


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


def test_an_unknown_argument_exits_with_2(bare_cli):
    line = refused(bare_cli("evaluate", "x.csv", "--metrix", "bleu"))
    assert line == "answerkey: --metrix: there is no such option; did you mean --metrics?"


NO_FILE = "there is no such file; in its folder there is constraints.txt"


def test_a_missing_file_is_named(bare_cli):
    assert refused(bare_cli("evaluate", "nowhere.csv")) == f"answerkey: nowhere.csv: {NO_FILE}"


def test_a_missing_references_file_is_named(bare_cli, answers):
    line = refused(bare_cli("evaluate", answers, "--references", "gone.jsonl"))
    assert line == f"answerkey: gone.jsonl: {NO_FILE}"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--metrics", "rouge_ll"], "metric 'rouge_ll' is not known: did you mean rouge_l?"),
        (
            ["--map", "idx=a"],
            "--map idx=a: 'idx' is not a key; choose from id, question, answer, references, facts, context, "
            "release, label, cluster, missing_because, repeat, finish_reason, incorrect_references, references-as",
        ),
        (["--map", "id"], "--map id: write KEY=PATH, for instance id=meta.question_id"),
        (
            ["--profile", "v9"],
            "--profile v9: choose from default, continuous_eval_v0_2, continuous_eval_v0_3",
        ),
        (
            ["--aggregation", "best"],
            "--aggregation best: choose from mean, median, min, max, vote, consensus",
        ),
        (["--threshold", "1.5"], "--threshold 1.5: must be less than or equal to 1"),
        (["--dataset", "a/b"], "--dataset 'a/b': use letters, digits, dots, dashes and underscores"),
    ],
)
def test_a_bad_option_is_refused_before_anything_starts(bare_cli, answers, arguments, line, tmp_path):
    home = tmp_path / "home"
    assert refused(bare_cli("evaluate", answers, *arguments, "--home", home)) == f"answerkey: {line}"
    assert not (home / "answerkey.duckdb").exists()


def test_reports_of_an_empty_home(bare_cli, tmp_path):
    line = refused(bare_cli("report", "--home", tmp_path))
    assert line == f"answerkey: {tmp_path}: no warehouse here yet; run `answerkey evaluate` first, or give --home"


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
