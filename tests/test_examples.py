"""The example data is what its README says: counted in the files, row by row."""

import ast
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


def _right(release, **where):
    """Number of answers of `release` labelled right, on the questions whose columns equal `where`."""
    asked = [row["id"] for row in QUESTIONS.values() if where.items() <= row.items()]
    return sum(ANSWERS[name, release]["correct"] for name in asked)


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


@pytest.mark.parametrize("kind", ["all", *dict.fromkeys(row["kind"] for row in QUESTIONS.values())])
def test_counts_of_a_kind(kind):
    where = {} if kind == "all" else {"kind": kind}
    count = Counter(row["lang"] for row in QUESTIONS.values() if where.items() <= row.items())
    right = [_right(release, **where) for release in RELEASES]
    assert _cells(kind) == [str(n) for n in (count["en"], count["ru"], count.total(), *right)]


def test_counts_of_the_releases():
    for release in RELEASES:
        by_lang = [f"{_right(release, lang=lang)} of {n}" for lang, n in (("en", 44), ("ru", 32))]
        assert _cells(release) == [f"{_right(release)} of 76", f"{100 * _right(release) / 76:.1f} %", *by_lang]
    both = Counter(tuple(ANSWERS[name, release]["correct"] for release in RELEASES) for name in QUESTIONS)
    assert (
        f"Both are right on {both[True, True]} questions, only `aurora-1` on {both[True, False]}, only `aurora-2` on "
        f"{both[False, True]}, neither on {both[False, False]}."
    ) in README


def test_a_copy_of_a_reference_is_labelled_right():
    """Case and a final full stop aside; signs count, because "5" is no copy of "-5"."""

    def plain(text):
        return (text or "").casefold().rstrip(".")

    copies = [row for row in ANSWERS.values() if plain(row["answer"]) in map(plain, QUESTIONS[row["id"]]["references"])]
    assert len(copies) >= 20 and all(row["correct"] for row in copies)


def test_traces_are_answers_of_a_release():
    traces = _read("traces.jsonl")
    assert f"`traces.jsonl`: {len({trace['id'] for trace in traces})} logged traces" in README
    metadata = [trace["metadata"] for trace in traces]
    text = " ".join(README.split())
    assert f"of which {sum(one['environment'] == 'production' for one in metadata)} are from production" in text
    assert f"{sum('expected_output' in one for one in metadata)} bring the references of their question along" in text
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
