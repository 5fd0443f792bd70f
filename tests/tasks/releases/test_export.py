"""What the warehouse holds can be loaded again: the same data set, answers and sample keys."""

import pytest

from answerkey.tasks.load.load import Source
from answerkey.tasks.releases.export import stored_references
from answerkey.tasks.warehouse.home import Home
from tests.tasks.staging_help import jsonl, query, refusal, run, stored

VERSIONS = (
    "SELECT dataset_version, json_extract_string(manifest, '$.answers_version') FROM reports "
    "WHERE release = 'new' ORDER BY version"
)
ROWS = [
    {"id": "2", "release": "new", "question": "Сколько?", "answer": "-5", "reference": ["-5", "−5"], "ok": "yes"},
    {"id": "10", "release": "new", "question": None, "answer": None, "reference": "[1, 2]", "ok": None},
    {"id": "2", "release": "old", "question": "Сколько?", "answer": "5", "reference": ["-5", "−5"], "ok": "no"},
    {"id": "3", "release": "old", "question": "Who?", "answer": "x", "reference": "A \"quoted\" name", "ok": "no"},
]  # fmt: skip


def test_a_report_of_one_file(tmp_path):
    home = tmp_path / "home"
    rows = [
        {
            **row,
            "_sample": "a column",
            "topic": row["id"],
            "facts": ["a", "b"],
            "cluster": "c",
            "incorrect_references": ["w"],
        }
        for row in ROWS
    ]
    source = Source(jsonl(tmp_path / "d.jsonl", rows), dataset="d", paths={"label": "ok"}, slices=("topic",))
    run(home, source, ["contains", "rouge_l"])
    before = query(home, "SELECT count(*) FROM measurements")
    again = run(home, stored(home, "d/new/v1", tmp_path / "out"), ["contains", "rouge_l"])
    assert again.ids == ["d/new/v2"]
    [first, second] = query(home, VERSIONS)
    assert first == second
    # Nothing is new: not a data set version, not an answer, not a measurement.
    assert query(home, "SELECT count(*) FROM datasets") == [(1,)]
    assert query(home, "SELECT count(*) FROM answers") == [(4,)]
    assert query(home, "SELECT DISTINCT incorrect_references FROM report_answers") == [(["w"],)]
    assert query(home, "SELECT count(*) FROM measurements") == before
    same = "SELECT sample_id, metric, field, \"value\" FROM scores WHERE report_id = '{}' ORDER BY ALL"
    assert query(home, same.format("d/new/v1")) == query(home, same.format("d/new/v2"))


@pytest.mark.parametrize("asked_in", ["references", "answers"])
def test_a_report_with_references_of_their_own(tmp_path, asked_in):
    """Where the questions stand decides on the version, and so does a sample without an answer."""
    home = tmp_path / "home"
    references = [{"id": str(i), "reference": f"r {i}"} for i in range(3)]
    answers = [{"id": str(i), "answer": f"a {i}", "release": "new"} for i in range(2)]
    for row in references if asked_in == "references" else answers:
        row["question"] = f"q {row['id']}"
    source = Source(jsonl(tmp_path / "a.jsonl", answers), jsonl(tmp_path / "r.jsonl", references), "d")
    run(home, source)
    run(home, stored(home, "d/new/v1", tmp_path / "out"))
    [first, second] = query(home, VERSIONS)
    assert first == second
    assert query(home, "SELECT count(*) FROM samples") == [(3,)]
    assert query(home, "SELECT count(*) FROM measurements") == [(2,)]


def test_only_what_is_there_is_written(tmp_path):
    home = tmp_path / "home"
    run(home, Source(jsonl(tmp_path / "d.jsonl", ROWS[:1]), dataset="d"))
    assert "d/old/v1: no such report" in refusal(stored, home, "d/old/v1", tmp_path / "out")
    assert stored_references(Home(home), "other", tmp_path / "out" / "r.jsonl") is None
