"""The example data is what its README says: counted in the files, row by row."""

import ast
import csv
import json
from collections import Counter

import pytest

from tests.conftest import ROOT

EXAMPLES = ROOT / "examples"
RELEASES = ("aurora-1", "aurora-2")


def _read(name):
    return [json.loads(line) for line in (EXAMPLES / name).read_text(encoding="utf-8").splitlines()]


README = (EXAMPLES / "README.md").read_text(encoding="utf-8")
QUESTIONS = {row["id"]: row for row in _read("questions.jsonl")}
ANSWERS = {(row["id"], row["release"]): row for row in _read("answers.jsonl")}


def _answers(release):
    """The rows of a release of the help desk, in the order of its file."""
    with (EXAMPLES / f"helpdesk/{release}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


HELPDESK = _read("helpdesk/questions.jsonl")
DESK = {release: _answers(release) for release in ("v1", "v2", "v3", "v4")}


def _cells(first):
    """The cells after the first one of the README's only table row that starts with `first`."""
    [line] = [line for line in README.splitlines() if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_both_releases_answer_every_question():
    assert ANSWERS.keys() == {(name, release) for name in QUESTIONS for release in RELEASES}
    assert f"`questions.jsonl`: {len(QUESTIONS)} questions" in README
    assert f"`answers.jsonl`: {len(ANSWERS)} answers" in README
    for row in QUESTIONS.values():
        assert ("facts" in row) == (row["kind"] in {"list", "multi_fact"}), row["id"]
        assert 1 <= len(row["references"]) <= 4, row["id"]


def test_traces_are_answers_of_a_release():
    traces = _read("traces.jsonl")
    assert f"`traces.jsonl`: {len({trace['id'] for trace in traces})} logged traces" in README
    metadata = [trace["metadata"] for trace in traces]
    text = " ".join(README.split())
    assert f"of which {sum(entry['environment'] == 'production' for entry in metadata)} are from production" in text
    assert (
        f"{sum('expected_output' in entry for entry in metadata)} bring the references of their question along" in text
    )
    for trace in traces:
        question = QUESTIONS[trace["metadata"]["question_id"]]
        assert trace["input"]["question"] == question["question"]
        assert trace["output"]["text"] == ANSWERS[question["id"], "aurora-2"]["answer"]
        assert trace["metadata"].get("expected_output", question["references"]) == question["references"]


def test_the_notebook_runs_and_shows_what_it_says(capsys):
    cells = json.loads((EXAMPLES / "releases.ipynb").read_text(encoding="utf-8"))["cells"]
    assert all(cell.get("outputs", []) == [] for cell in cells)
    names = {}
    shown = []
    for cell in cells:
        if cell["cell_type"] == "code":
            # As a notebook does: the value of the last line is shown.
            *body, last = ast.parse("".join(cell["source"])).body
            exec(compile(ast.Module(body, []), "releases.ipynb", "exec"), names)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), "releases.ipynb", "eval"), names)
                shown.append(value._repr_html_())
            else:
                exec(compile(ast.Module([last], []), "releases.ipynb", "exec"), names)
    assert capsys.readouterr().out == ""
    assert len(shown) == 6
    old, new = names["results"].values()
    comparison = names["comparison"]
    assert new.summary().loc["meaning_match.match", "mean"] > old.summary().loc["meaning_match.match", "mean"]
    assert comparison.rows[0].name == "meaning_match.match"
    assert comparison.rows[0].finding == "not shown to differ"
    assert names["verdict"].outcome == "PASS"
    assert list(old.worst(3)["id"]) == ["q2", "q3", "q4"]


def _plain(text):
    """Case, punctuation and repeated blanks aside."""
    return " ".join("".join(one if one.isalnum() else " " for one in text.casefold()).split())


def test_helpdesk_questions_are_all_different():
    ids = {row["id"] for row in HELPDESK}
    questions = {_plain(row["question"]) for row in HELPDESK}
    assert len(ids) == len(questions) == len(HELPDESK) == 300
    assert f"`helpdesk/` has {len(HELPDESK)} questions" in README


@pytest.mark.parametrize(
    ("language", "langs"),
    [("English", {"en"}), ("German", {"de"}), ("Russian", {"ru"}), ("together", {"en", "de", "ru"})],
)
def test_helpdesk_counts_of_a_language(language, langs):
    kinds = _cells("language")[:-2]
    asked = [row for row in HELPDESK if row["lang"] in langs]
    labelled = {row["id"] for row in DESK["v1"] if row["correct"]}
    count = Counter(row["kind"] for row in asked)
    assert set(count) <= set(kinds)
    numbers = (*(count[kind] for kind in kinds), len(asked), sum(row["id"] in labelled for row in asked))
    assert _cells(language) == [str(number) for number in numbers]


def test_helpdesk_references():
    known_wrong = sum(bool(row["incorrect_references"]) for row in HELPDESK)
    assert f"up to 2 wrong answers that such a desk often gives; {known_wrong} questions have them" in README
    for row in HELPDESK:
        right = {_plain(text) for text in row["references"]}
        wrong = {_plain(text) for text in row["incorrect_references"]}
        assert 1 <= len(right) == len(row["references"]) <= 2, row["id"]
        assert len(wrong) == len(row["incorrect_references"]) <= 2, row["id"]
        assert right.isdisjoint(wrong), row["id"]


@pytest.mark.parametrize("release", DESK)
def test_helpdesk_labels(release):
    labels = {row["id"]: row["correct"] for row in DESK[release] if row["correct"]}
    count = Counter(labels.values())
    assert labels.keys() == {row["id"] for row in DESK["v1"] if row["correct"]}
    assert count["true"] + count["false"] == len(labels) == 100
    assert _cells(release)[-1] == str(count["true"])
