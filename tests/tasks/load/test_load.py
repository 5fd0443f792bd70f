"""Any source becomes the same staged rows: texts cleaned, references joined by id, keys computed."""

import importlib
import json
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.sample import Sample, content_hash
from answerkey.tasks.load.frame import frame_source
from answerkey.tasks.load.load import Source, dataset_name, load
from answerkey.tasks.reports.commit import commit
from answerkey.tasks.validate.contract import Contract
from answerkey.tasks.validate.validate import validate
from answerkey.tasks.warehouse.home import Home
from tests.tasks.staging_help import jsonl, query, rows_of, run, stage

QUESTIONS = [
    {"id": "q1", "question": "Capital of France?", "references": ["Paris"], "lang": "en", "facts": ["F"]},
    {"id": "q2", "question": "Два плюс два?", "references": ["4", "четыре"], "lang": "ru", "cluster": "sums"},
]
ANSWERS = [
    {"id": "q1", "answer": "It is Paris", "model": "one"},
    {"id": "q2", "answer": None, "model": "one"},
    {"id": "q1", "answer": "Lyon", "model": "two"},
    {"id": "q9", "answer": "unasked", "model": "two", "references": "mine"},
]


@pytest.mark.parametrize(
    ("given", "staged"),
    [(None, "1"), ("", "1"), (3, "3"), ("03", "3"), (2.0, "2"), (" b ", "b"), (0, "0"), ("1.5", "1.5"), (True, "true")],
)
def test_what_tells_the_answers_to_a_question_apart(tmp_path, given, staged):
    rows = [{"id": "q", "answer": "a", "reference": "a", "repeat": given}, {"id": "r", "repeat": "x"}]
    assert rows_of(stage(tmp_path, rows).staged)[0]["repeat"] == staged


def test_answers_and_references_of_two_files(tmp_path):
    references = jsonl(tmp_path / "questions.jsonl", QUESTIONS)
    loaded = stage(tmp_path, ANSWERS, references=references, slices=("lang",))
    first, blank, other, unknown = rows_of(loaded.staged)
    assert first == {
        "row": 1,
        "file": None,
        "file_row": None,
        "sample_id": "q1",
        "release": "one",
        "question": "Capital of France?",
        "answer": "It is Paris",
        "missing_because": None,
        "finish_reason": None,
        "repeat": "1",
        "references": ["Paris"],
        "facts": ["F"],
        "context": [],
        "incorrect_references": [],
        "cluster": None,
        "label": None,
        "correct": None,
        "slices": [("lang", "en")],
        "sample_key": Sample("q1", "It is Paris", ["Paris"], "Capital of France?", ["F"]).key,
        "sample_hash": content_hash(["q1", "Capital of France?", ["Paris"], ["F"], None]),
    }
    assert (blank["answer"], blank["references"], blank["cluster"]) == (None, ["4", "четыре"], "sums")
    assert (other["release"], other["sample_hash"]) == ("two", first["sample_hash"])
    assert other["sample_key"] != first["sample_key"]
    assert (unknown["references"], unknown["slices"]) == ([], [("lang", "(none)")])
    assert (loaded.dataset, loaded.n_rows, rows_of(loaded.rejects)) == ("questions", 4, [])
    assert [row["sample_id"] for row in rows_of(loaded.references or "")] == ["q1", "q2"]
    assert loaded.notes == (
        "questions.jsonl: columns recognised by name: id, question, references, facts, cluster",
        "answers.jsonl: columns recognised by name: id, answer, references, release=model",
    )


def test_staged_keys_are_those_of_the_scoring_library(tmp_path):
    texts = ["", " ", "Zürich", "北京", "a\u00a0b", "x\x00y", "-5", "\U0001f600", None]
    rows = [
        {"id": i, "question": q, "answer": a, "references": [r for r in (a, q) if r is not None]}
        for i, (q, a) in enumerate((q, a) for q in texts for a in texts)
    ]
    for row in rows_of(stage(tmp_path, rows).staged):
        sample = Sample(row["sample_id"], row["answer"], row["references"], row["question"], row["facts"])
        assert row["sample_key"] == sample.key


def test_an_id_with_two_contents_in_the_references_file(tmp_path):
    again = jsonl(tmp_path / "q.jsonl", [*QUESTIONS, QUESTIONS[0]])
    assert len(rows_of(stage(tmp_path, ANSWERS, references=again).references or "")) == 2
    bad = jsonl(tmp_path / "q.jsonl", [*QUESTIONS, {**QUESTIONS[0], "references": ["Lyon"]}])
    with pytest.raises(UserError) as error:
        stage(tmp_path, ANSWERS, references=bad)
    assert str(error.value) == f"{bad}: id 'q1' comes again in row 3 with other content; keep one row per id"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "row 3: line 3 is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ('{"references": ["a"]}', "row 3: the id is missing; give every row an id"),
        ('{"id": "", "references": ["a"]}', "row 3: the id is missing; give every row an id"),
        ('{"id": "q3", "references": [["a"]]}', "row 3: references (references) is a list; map one item of it"),
    ],
)
def test_a_hole_in_the_references_file_stops(tmp_path, line, message):
    file = Path(jsonl(tmp_path / "q.jsonl", QUESTIONS))
    file.write_text(file.read_text() + line + "\n")
    with pytest.raises(UserError) as error:
        stage(tmp_path, ANSWERS, references=str(file))
    assert str(error.value).removesuffix("; correct or remove the row") == f"{file}, {message}"


@pytest.mark.parametrize(
    ("rows", "source", "message"),
    [
        (
            [{"id": 1, "text": "x"}],
            {},
            "no column for answer was recognised among id, text; name it with --map answer=text",
        ),
        (
            [{"id": 1, "reference": "r", "note": "", "My Answers": "x", "other": ""}],
            {},
            "no column for answer was recognised among id, reference, note, My Answers, other; name it with "
            "--map answer=My Answers",
        ),
        (
            [{"id": 1, "answer": "x"}],
            {},
            "no column for references was recognised among id, answer; name it with --map references=COLUMN "
            "or give --references FILE",
        ),
        (
            [{"answer": "x"}],
            {"references": "questions.jsonl"},
            "--references are joined by id; name the column with --map id=COLUMN; the columns are answer",
        ),
    ],
)
def test_a_column_that_is_needed(tmp_path, rows, source, message):
    if source:
        source["references"] = jsonl(tmp_path / source["references"], QUESTIONS)
    with pytest.raises(UserError) as error:
        stage(tmp_path, rows, **source)
    assert str(error.value) == f"{tmp_path / 'answers.jsonl'}: {message}"


def test_references_that_no_metric_needs(tmp_path):
    [row] = rows_of(stage(tmp_path, [{"question": "Q", "answer": "x"}], needs_references=False).staged)
    assert (row["sample_id"], row["references"]) == (content_hash(["Q", ()]), [])
    asked = jsonl(tmp_path / "q.jsonl", [{"id": 1, "question": "Q"}])
    [row] = rows_of(stage(tmp_path, [{"id": 1, "answer": "x"}], references=asked, needs_references=False).staged)
    assert (row["question"], row["references"]) == ("Q", [])
    # Otherwise all rows would have the same id.
    message = "no column for id was recognised among answer; name it with --map id=COLUMN"
    with pytest.raises(UserError, match=message):
        stage(tmp_path, [{"answer": "x"}], needs_references=False)


def test_a_references_file_without_a_needed_column(tmp_path):
    file = jsonl(tmp_path / "q.jsonl", [{"key": 1, "references": "a"}])
    with pytest.raises(UserError) as error:
        stage(tmp_path, ANSWERS, references=file)
    assert str(error.value) == f"{file}: no column for id among key, references; name it with --map-references id=key"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "id,answer,references\n", "no rows; it needs at least one"),
        ("a.json", "[]", "no rows; it needs at least one"),
        ("a.jsonl", "\n \n", "no rows; it needs at least one"),
        (
            "a.jsonl",
            "id,answer\n1,x\n",
            "none of the first 2 rows can be read: line 1 is not JSON: Expecting value: line 1 column 1 (char 0)",
        ),
    ],
)
def test_a_file_without_a_single_row(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError) as error:
        load(Source(str(tmp_path / name)), tmp_path / "work")
    assert str(error.value) == f"{tmp_path / name}: {message}"


def test_where_the_release_comes_from(tmp_path):
    rows = [{"id": 1, "answer": "x", "references": "y", "model": "gpt"}, {"id": 2, "answer": "x", "references": "y"}]
    assert [row["release"] for row in rows_of(stage(tmp_path, rows).staged)] == ["gpt", None]
    given = stage(tmp_path, rows, release="mine")
    assert [row["release"] for row in rows_of(given.staged)] == ["mine", "mine"]
    loaded = stage(tmp_path, rows[1:], name="chatgpt-4")
    assert rows_of(loaded.staged)[0]["release"] == "chatgpt-4"
    assert loaded.notes[1:] == ("no release column and no --release: the release is called 'chatgpt-4' after the file",)


def test_rows_without_an_id_column(tmp_path):
    rows = [
        {"question": "Q", "answer": "a", "references": ["R"], "model": "one"},
        {"question": "Q", "answer": "b", "references": ["R"], "model": "two"},
        {"question": "Q", "answer": "b", "references": ["S"], "model": "two"},
    ]
    loaded = stage(tmp_path, rows)
    ids = [row["sample_id"] for row in rows_of(loaded.staged)]
    assert ids == [content_hash(["Q", ["R"]]), content_hash(["Q", ["R"]]), content_hash(["Q", ["S"]])]
    assert loaded.notes[1:] == ("answers.jsonl: no id column; a hash of question and references serves as the id",)


def test_a_slice_of_the_answers_comes_before_one_of_the_references(tmp_path):
    references = jsonl(tmp_path / "q.jsonl", QUESTIONS)
    answers = [{**ANSWERS[0], "lang": "xx", "meta": {"n": 1}}, {**ANSWERS[1], "lang": None}]
    loaded = stage(tmp_path, answers, references=references, slices=("lang", "meta.n", "lang"))
    assert [row["slices"] for row in rows_of(loaded.staged)] == [
        [("lang", "xx"), ("meta.n", "1")],
        [("lang", "ru"), ("meta.n", "(none)")],
    ]


def test_lone_surrogates_become_the_replacement_character(tmp_path):
    broken = "a\ud800b"
    rows = [
        dict.fromkeys(("id", "question", "answer", "model", "cluster", "label", "kind"), broken)
        | {"references": [broken]},
        {"id": "2", "answer": {broken: 1, "x": 2}, "references": "r"},
    ]
    loaded = stage(tmp_path, rows, slices=("kind",), paths={"label": "label"})
    [row] = rows_of(loaded.staged)
    named = ("sample_id", "question", "answer", "release", "cluster", "label")
    assert {row[name] for name in named} | set(row["references"]) | {row["slices"][0][1]} == {"a\ufffdb"}
    [refused] = rows_of(loaded.rejects)
    assert refused["reason"] == "answer (answer) is an object with a\ufffdb, x; map a path into it"
    sample = Sample("any id", "a\ufffdb", ["a\ufffdb"], "a\ufffdb")
    assert row["sample_key"] == sample.key


def test_rows_that_cannot_be_staged_are_kept_whole(tmp_path):
    file = tmp_path / "a.jsonl"
    bad = '{"id": 1, "answer": ["x"], "references": "r"}'
    file.write_text(bad + '\n{"id": 2,\n{"id": 3, "answer": "é", "references": "r"}\n')
    loaded = load(Source(str(file)), tmp_path / "work")
    assert [row["sample_id"] for row in rows_of(loaded.staged)] == ["3"]
    assert loaded.n_rows == 3
    assert [(row["row"], row["rule"], row["reason"], row["raw"]) for row in rows_of(loaded.rejects)] == [
        (1, "unreadable", "answer (answer) is a list; map one item of it", bad),
        (
            2,
            "unreadable",
            "line 2 is not JSON: Expecting property name enclosed in double quotes: line 1 column 10 (char 9)",
            '{"id": 2,',
        ),
    ]


@pytest.mark.parametrize("name", ["my data", "a/b", "x:y", "é?"])
def test_a_data_set_name_that_report_ids_cannot_hold(name):
    with pytest.raises(UserError) as error:
        dataset_name(Source("a.jsonl", dataset=name))
    assert str(error.value) == f"--dataset {name!r}: use letters, digits, dots, dashes and underscores"


@pytest.mark.parametrize("name", [".", "..", "index.html", "_data-docs"])
def test_a_data_set_is_not_called_like_a_page_of_the_site(name):
    said = f"--dataset {name!r}: a page or a folder of the site has this name; choose another one"
    for source in (Source("a.jsonl", dataset=name), Source(f"runs/{name}.jsonl")):
        with pytest.raises(UserError) as error:
            dataset_name(source)
        assert str(error.value) == said


def test_releases_whose_names_look_alike_are_one(tmp_path):
    names = ["é", "e\u0301", " é ", "r", "r ", "a\nb", "r\u202e", "r\u200b", " "]
    rows = [{"id": str(n), "answer": "x", "reference": "x", "release": name} for n, name in enumerate(names)]
    loaded = load(Source(jsonl(tmp_path / "d.jsonl", rows)), tmp_path / "staged")
    staged = pq.read_table(loaded.staged).to_pylist()
    assert [row["release"] for row in staged] == ["é", "é", "é", "r", "r", ""]
    refused = pq.read_table(loaded.rejects).to_pylist()
    assert [row["reason"] for row in refused] == [
        f"the release {shown} has a character that cannot be seen, {code}; remove it"
        for shown, code in (("'a\\nb'", "U+000A"), ("'r\\u202e'", "U+202E"), ("'r\\u200b'", "U+200B"))
    ]


def test_a_release_is_given_as_it_will_be_called():
    for name, said in {
        "r ": "--release 'r ': write 'r', composed and without blanks around it",
        "a\nb": "--release: the release 'a\\nb' has a character that cannot be seen, U+000A; remove it",
    }.items():
        with pytest.raises(UserError) as error:
            Source("a.jsonl", release=name)
        assert str(error.value) == said


def test_the_name_of_a_data_set(tmp_path):
    assert dataset_name(Source("runs/a.b.jsonl")) == "a.b"
    assert dataset_name(Source("runs/a.jsonl", references="gold/ключи.csv")) == "ключи"
    assert dataset_name(Source("https://host/data/dev.csv?sig=a/b.csv")) == "dev"
    assert dataset_name(Source("s3://key:secret@bucket/nq.csv?X-Amz-Signature=1")) == "bucket"
    assert dataset_name(Source("my.duckdb::schema.table")) == "my"
    assert dataset_name(Source("runs/Title Case (2).csv")) == "Title-Case-2"
    assert dataset_name(Source("runs/!!!.csv")) == "data"


def test_cells_that_hold_json_are_read_where_all_of_a_column_do(tmp_path):
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How many?"}]
    rows = [
        {"id": 1, "input": json.dumps({"messages": chat}), "output": '"Six"', "reference": '"6"', "note": '"a" or "b"'},
        {"id": 2, "input": json.dumps(chat), "output": '"A \\"6\\""', "reference": '["6", "six"]', "note": "c"},
    ]
    first, second = rows_of(stage(tmp_path, rows, slices=("note",)).staged)
    assert (first["question"], first["answer"], first["slices"]) == ("How many?", "Six", [("note", '"a" or "b"')])
    assert (second["question"], second["answer"], second["references"]) == ("How many?", 'A "6"', ["6", "six"])
    # One row may be a quotation.
    [alone] = rows_of(stage(tmp_path, [{"id": 1, "answer": '"So it goes."', "reference": "r"}], "alone").staged)
    assert alone["answer"] == '"So it goes."'


def test_columns_are_recognised_however_they_are_written(tmp_path):
    rows = [{"Sample ID": 1, "QUESTION": "q", "Answer": "a", "Ground-Truth": "r", "answer": "b"}]
    loaded = stage(tmp_path, rows)
    assert "columns recognised by name: id=Sample ID, question=QUESTION, answer, references=Ground-Truth" in str(
        loaded.notes
    )


def test_a_data_frame_is_a_source(tmp_path):
    frame = pd.DataFrame(
        {
            "id": [7, 8, 9],
            "references": [["a", "b"], "c", np.array(["d"])],
            "answer": ["x", np.nan, None],
            "score": [1, 2, None],
            "label": [True, False, None],
            "when": [pd.Timestamp("2024-05-01"), pd.NaT, None],
        },
        index=[5, 5, 5],
    )
    file = frame_source(frame, tmp_path / "frames", "mine")
    source = Source(file, paths={"label": "label"}, slices=("when", "score"))
    loaded = load(source, tmp_path / "work")
    staged = rows_of(loaded.staged)
    assert [row["sample_id"] for row in staged] == ["7", "8", "9"]
    assert [row["references"] for row in staged] == [["a", "b"], ["c"], ["d"]]
    assert [row["answer"] for row in staged] == ["x", None, None]
    assert [row["label"] for row in staged] == ["true", "false", None]
    assert staged[0]["slices"] == [("when", "2024-05-01 00:00:00"), ("score", "1.0")]
    assert staged[1]["slices"] == [("when", "(none)"), ("score", "2.0")]
    assert {row["release"] for row in staged} == {loaded.dataset} == {"mine"}


def committed(tmp_path, rows, **source):
    loaded = stage(tmp_path, rows, **source)
    keys = [row["sample_key"] for row in rows_of(loaded.staged)]
    return commit(Home(tmp_path / "home"), "run", "source", loaded, loaded.staged, []), keys


def test_the_order_of_rows_makes_no_version_and_a_reference_does(tmp_path):
    rows = [{"id": i, "question": f"q{i}", "answer": f"a{i}", "references": [f"r{i}", "s"]} for i in range(60)]
    shuffled = random.Random(3).sample(rows, len(rows))
    first, keys = committed(tmp_path, rows)
    again, shuffled_keys = committed(tmp_path, shuffled)
    assert again == first
    assert sorted(shuffled_keys) == sorted(keys) != shuffled_keys
    rows[31] = {**rows[31], "references": ["r31", "t"]}
    changed, _ = committed(tmp_path, rows)
    assert changed.dataset_version != first.dataset_version
    counts = query(tmp_path / "home", "SELECT version, n_samples FROM datasets ORDER BY created_at")
    assert counts == [(first.dataset_version, 60), (changed.dataset_version, 60)]


def test_a_references_file_is_the_data_set_answered_or_not(tmp_path):
    references = jsonl(tmp_path / "q.jsonl", QUESTIONS)
    one, _ = committed(tmp_path, ANSWERS[:1], references=references)
    two, _ = committed(tmp_path, ANSWERS[:3], references=jsonl(tmp_path / "q.jsonl", QUESTIONS[::-1]))
    assert one.dataset_version == two.dataset_version
    assert [release.release for release in two.releases] == ["one", "two"]
    other = jsonl(tmp_path / "q.jsonl", [QUESTIONS[0], {**QUESTIONS[1], "references": ["4"]}])
    assert committed(tmp_path, ANSWERS[:1], references=other)[0].dataset_version != one.dataset_version


def test_a_references_file_without_questions_leaves_them_to_the_answers(tmp_path):
    home = tmp_path / "home"
    answers = jsonl(tmp_path / "answers.jsonl", [{"id": "1", "question": "Who?", "answer": "Ada"}])
    references = jsonl(tmp_path / "references.jsonl", [{"id": "1", "references": ["Ada"]}])
    run(home, Source(answers, references, dataset="d", release="r"), ["exact_match"])
    assert query(home, "SELECT sample_id, question FROM samples") == [("1", "Who?")]


def test_the_context_is_part_of_the_answer_and_of_no_data_set_version(tmp_path):
    row = {"id": "q1", "question": "Q", "reference": "R", "answer": "A", "release": "one"}
    given = [row | {"retrieved_contexts": ["first", " ", "second"]}, row | {"release": "two"}]
    with_context, without = rows_of(stage(tmp_path, given).staged)
    assert (with_context["context"], without["context"]) == (["first", "second"], [])
    assert without["sample_key"] == Sample("q1", "A", ["R"], "Q").key
    assert with_context["sample_key"] == Sample("q1", "A", ["R"], "Q", context=["first", "second"]).key
    assert with_context["sample_hash"] == without["sample_hash"]


def test_the_context_of_the_references_counts_where_the_answer_brings_none(tmp_path):
    references = jsonl(tmp_path / "references.jsonl", [{"id": "q1", "question": "Q", "reference": "R", "context": "C"}])
    answers = [{"id": "q1", "answer": "A", "context": None}, {"id": "q1", "answer": "B", "context": ["own"]}]
    staged = rows_of(stage(tmp_path, answers, references=references).staged)
    assert [one["context"] for one in staged] == [["C"], ["own"]]


def test_answers_known_to_be_wrong_belong_to_the_sample(tmp_path):
    row = {"id": "q1", "question": "Q", "reference": "R", "answer": "A", "release": "one"}
    wrong = ["W", "V"]
    [given] = rows_of(stage(tmp_path, [row | {"incorrect_answers": wrong}]).staged)
    [without] = rows_of(stage(tmp_path, [row]).staged)
    assert (given["incorrect_references"], without["incorrect_references"]) == (wrong, [])
    assert given["sample_key"] == Sample("q1", "A", ["R"], "Q", incorrect_references=wrong).key
    assert without["sample_key"] == Sample("q1", "A", ["R"], "Q").key
    assert given["sample_hash"] != without["sample_hash"]


def test_answers_known_to_be_wrong_come_from_the_references_file_and_are_in_the_warehouse(tmp_path):
    home = tmp_path / "home"
    answers = [{"id": str(i), "answer": text, "release": "r"} for i, text in enumerate(("Air is denser.", "Bern"))]
    references = [
        {"id": "0", "question": "Which is denser?", "reference": "Air is denser.", "bad_answers": ["Vapor is denser."]},
        {"id": "1", "question": "Which city?", "reference": "Bern", "bad_answers": ["Basel", "bern"]},
    ]
    source = Source(jsonl(tmp_path / "a.jsonl", answers), jsonl(tmp_path / "r.jsonl", references), "d")
    run(home, source, ["exact_match"])
    assert query(home, "SELECT incorrect_references FROM report_answers ORDER BY sample_id") == [
        (["Vapor is denser."],), (["Basel", "bern"],)
    ]  # fmt: skip


def test_a_column_called_context_that_is_something_else_is_left_alone_unless_it_is_named(tmp_path):
    row = {"id": "q1", "question": "Q", "reference": "R", "answer": "A", "context": {"title": "T", "text": "U"}}
    [staged] = rows_of(stage(tmp_path, [row]).staged)
    assert staged["context"] == []
    loaded = stage(tmp_path, [row], paths={"context": "context"})
    [rejected] = rows_of(loaded.rejects)
    assert rejected["reason"] == "context (context) is an object with title, text; map a path into it"


def test_columns_that_first_appear_late_are_found(tmp_path):
    early = [{"id": n, "response": "x", "ground_truth": "x"} for n in range(3_000)]
    late = [
        {
            "id": 3_000,
            "response": 7,
            "ground_truth": ["x", "y"],
            "ok": True,
            "meta": {"lang": "fr"},
            "contexts": ["c"],
        },
        {"id": "3001", "output": "z", "reference": "x", "model": "other"},
    ]
    loaded = stage(tmp_path, early + late, paths={"label": "ok"}, slices=("meta.lang",), release="r")
    rows = rows_of(loaded.staged)
    assert [(row["answer"], row["references"], row["label"]) for row in rows[2_999:]] == [
        ("x", ["x"], None), ("7", ["x", "y"], "true"), ("z", ["x"], None),
    ]  # fmt: skip
    assert rows[3_000]["slices"] == [("meta.lang", "fr")] and rows[3_000]["context"] == ["c"]
    loaded = stage(tmp_path, early + late)
    assert [row["release"] for row in rows_of(loaded.staged)[2_999:]] == ["answers", "answers", "other"]
    loaded = stage(tmp_path, [{"id": 1}] * 200 + late[1:])
    assert [(row["answer"], row["release"]) for row in rows_of(loaded.staged)[199:]] == [(None, None), ("z", "other")]
    with pytest.raises(UserError) as error:
        stage(tmp_path, early + late, paths={"label": "right"})
    assert str(error.value) == (
        f"{tmp_path}/answers.jsonl: no column 'right' (for label); the columns are contexts, ground_truth, id, "
        "meta, model, ok, output, reference, response"
    )


def test_files_of_two_tools_are_read_by_the_columns_that_each_has(tmp_path):
    one = jsonl(tmp_path / "a.jsonl", [{"id": 1, "response": "x", "reference": "X"}])
    other = jsonl(tmp_path / "b.jsonl", [{"id": 2, "output": "y", "expected_output": "Y"}])
    loaded = load(Source(f"{one}\n{other}", dataset="d", release="r"), tmp_path / "staged")
    assert [(row["row"], row["answer"], row["references"]) for row in rows_of(loaded.staged)] == [
        (1, "x", ["X"]), (2, "y", ["Y"]),
    ]  # fmt: skip
    with pytest.raises(UserError, match=r"^a\.jsonl, b\.jsonl: name the data set of several files with --dataset$"):
        load(Source(f"{one}\n{other}", release="r"), tmp_path / "staged")
    with pytest.raises(UserError, match=r"^a\.jsonl, b\.jsonl: no column says which release answered; name it with"):
        load(Source(f"{one}\n{other}", dataset="d"), tmp_path / "staged")


@pytest.mark.parametrize("library", ["pandas", "pyarrow", "polars"])
def test_frames_of_each_library_are_sources(tmp_path, library):
    columns = {"id": [1, 2], "answer": ["é", None], "reference": [["a", "b"], ["c"]]}
    module = importlib.import_module(library)
    frame = module.table(columns) if library == "pyarrow" else module.DataFrame(columns)
    loaded = load(Source(frame_source(frame, tmp_path / "frames")), tmp_path / "staged")
    assert [(row["sample_id"], row["answer"], row["references"]) for row in rows_of(loaded.staged)] == [
        ("1", "é", ["a", "b"]), ("2", None, ["c"]),
    ]  # fmt: skip
    with pytest.raises(UserError, match=r"^a data frame is needed \(of pandas, polars or Arrow\), not dict$"):
        frame_source(columns, tmp_path / "frames")


def answers_of(*, right, **more):
    answer = "It is {}." if right else "It is not {}."
    return [{"id": n, "answer": answer.format(n % 3 or n), "reference": str(n), **more} for n in range(6)]


def references_of(folder, name, content, **source):
    (folder / name).write_text(content)
    loaded = load(Source(str(folder / name), release="r", **source), folder / "work")
    notes = [note for note in loaded.notes if "list" in note]
    return [row["references"] for row in rows_of(loaded.staged)], notes


CSV_OF_LISTS = """id,answer,reference
1,"[2, 1]","[1, 2]"
2,x,[sic]
3,"[""a""]","[""a"", ""b""]"
"""
SPLIT = (
    """a.csv: references that spell a list of texts are read as that list (row 3: ["a", "b"] as 'a' and 'b'); --map """
    "references-as=text keeps them as they stand"
)
KEPT = (
    "a.csv: references that look like a list are read as one text (row 1: [1, 2]); --map references-as=list makes each "
    "item a reference"
)


def test_references_that_spell_lists_are_split_with_a_note(tmp_path):
    assert references_of(tmp_path, "a.csv", CSV_OF_LISTS) == ([["[1, 2]"], ["[sic]"], ["a", "b"]], [SPLIT, KEPT])
    texts = [["[1, 2]"], ["[sic]"], ['["a", "b"]']]
    assert references_of(tmp_path, "a.csv", CSV_OF_LISTS, paths={"references-as": "text"}) == (texts, [KEPT])
    lists = [["1", "2"], ["[sic]"], ["a", "b"]]
    assert references_of(tmp_path, "a.csv", CSV_OF_LISTS, paths={"references-as": "list"}) == (lists, [])


def test_a_list_that_comes_after_the_first_rows_is_the_text_that_it_is(tmp_path):
    rows = [{"id": n, "answer": "x", "reference": "x" if n < 150 else "['a', 'b']"} for n in range(151)]
    loaded = stage(tmp_path, rows)
    assert rows_of(loaded.staged)[150]["references"] == ["['a', 'b']"]


def test_references_of_a_workbook_and_of_a_second_file_are_noted_too(tmp_path):
    pd.DataFrame({"id": [1], "answer": ["x"], "reference": ["['1', '2']"]}).to_excel(tmp_path / "a.xlsx", index=False)
    loaded = load(Source(str(tmp_path / "a.xlsx"), release="r"), tmp_path / "work")
    assert rows_of(loaded.staged)[0]["references"] == ["1", "2"]
    assert any("(row 1: ['1', '2'] as '1' and '2'); --map references-as" in note for note in loaded.notes)
    (tmp_path / "references.csv").write_text(CSV_OF_LISTS)
    notes = stage(tmp_path, [{"id": 1, "answer": "x"}], references=str(tmp_path / "references.csv")).notes
    assert "references.csv: references that spell a list of texts are read as that list" in "\n".join(notes)
    assert "--map-references references-as=text keeps them" in "\n".join(notes)


def test_several_columns_of_references_are_all_used_and_others_are_named(tmp_path):
    rows = [{"id": 1, "answer": "x", "Expected Answer": "a", "Alternative Answer": "b", "is_correct": "yes"}]
    note = (
        "answers.jsonl: not used: Alternative Answer; if these are right answers too, give --map 'references=Expected "
        "Answer' --map 'references=Alternative Answer'"
    )
    assert note in stage(tmp_path, rows).notes
    both = stage(tmp_path, rows, paths={"references": "Expected Answer\nAlternative Answer"})
    assert rows_of(both.staged)[0]["references"] == ["a", "b"]
    assert not any("not used" in one for one in both.notes)
    three = [{"id": 1, "answer": "x", "reference_1": "a", "reference_2": "b", "reference_3": "c"}]
    assert (
        "answers.jsonl: not used: reference_3; if these are right answers too, give --map references=reference_1 --map "
        "references=reference_2 --map references=reference_3"
    ) in stage(tmp_path, three, paths={"references": "reference_1\nreference_2"}).notes
    with pytest.raises(
        UserError, match=r"no column 'Alternativ Answer' \(for references\); did you mean 'Alternative A"
    ):
        stage(tmp_path, rows, paths={"references": "Expected Answer\nAlternativ Answer"})


@pytest.mark.parametrize(
    ("cells", "mapped", "named"),
    [((True, False), {}, True), (("yes", ""), {}, True), (("a", "b"), {}, False), ((1, 0), {"label": "label"}, False)],
)
def test_a_column_of_human_labels_that_is_not_mapped_is_named(tmp_path, cells, mapped, *, named):
    rows = [{"id": n, "answer": "x", "reference": "x", "label": cell} for n, cell in enumerate(cells)]
    note = "answers.jsonl: column 'label' looks like human labels; --map label=label"
    assert (note in stage(tmp_path, rows, paths=mapped).notes) == named


def test_numbers_are_scored_as_they_are_spelled(tmp_path):
    numbers = ["1.10", "1e3", "1E400", "0.10000000000000000555", "-0.0", "7"]
    lines = "\n".join(f'{{"id": {n}, "answer": {text}, "reference": [{text}]}}' for n, text in enumerate(numbers))
    (tmp_path / "a.jsonl").write_text(lines)
    staged = rows_of(load(Source(str(tmp_path / "a.jsonl"), release="r"), tmp_path / "work").staged)
    assert [(row["answer"], row["references"]) for row in staged] == [(text, [text]) for text in numbers]


ANSWER_TEXTS = ["[1, 2]", '{"a": 1}', '{"content": "Paris"}', '["x"]', '"quoted"']
TOOLS: dict[str, Any] = {
    "braintrust": lambda text: {"id": text, "input": "?", "output": text, "expected": text, "span_id": "s"},
    "langsmith": lambda text: {
        "id": text, "inputs": {"question": "?"}, "outputs": {"output": text}, "reference_outputs": {"output": text},
    },
    "langfuse": lambda text: {
        "id": text, "input": "?", "output": text, "expectedOutput": text, "timestamp": "t", "projectId": "p",
        "sessionId": "s",
    },
    "mlflow": lambda text: {"id": text, "inputs": "?", "outputs": text, "targets": text},
    "opik": lambda text: {
        "dataset_item_id": text, "dataset_item_data": {"input": "?", "expected_output": text},
        "evaluation_task_output": text,
    },
    "promptfoo": lambda text: {
        "promptIdx": 0, "testIdx": text, "provider": "p", "prompt": {}, "vars": {"q": "?"},
        "response": {"output": text}, "testCase": {"assert": [{"type": "equals", "value": text}]},
    },
    "inspect": lambda text: {
        "eval": {"model": "m", "task": "t"},
        "samples": [{"id": text, "input": "?", "target": text, "output": {"completion": text}}],
    },
    "deepeval": lambda text: {
        "test_cases": [{"input": "?", "actual_output": text, "expected_output": text, "name": text}]
    },
}  # fmt: skip


@pytest.mark.parametrize("tool", TOOLS)
def test_answers_and_references_that_are_json_texts_stay_texts_in_every_importer(tool, tmp_path):
    loaded = stage(tmp_path, map(TOOLS[tool], ANSWER_TEXTS), release="r", format=tool)
    assert rows_of(loaded.rejects) == []
    staged = [(row["answer"], row["references"]) for row in rows_of(loaded.staged)]
    assert staged == [(text, [text]) for text in ANSWER_TEXTS]


def test_cells_of_a_tool_hold_json_because_tables_have_nothing_but_texts(tmp_path):
    file = tmp_path / "experiment.csv"
    answers = ["[1, 2]", '{"content": "Paris"}', '"quoted"', "plain"]
    rows = [{"id": n, "input": "?", "output": text, "expected": "x", "span_id": "s"} for n, text in enumerate(answers)]
    pd.DataFrame(rows).to_csv(file, index=False)
    loaded = load(Source(str(file), release="r"), tmp_path / "work")
    assert rows_of(loaded.rejects) == []
    assert [row["answer"] for row in rows_of(loaded.staged)] == ["[1, 2]", "Paris", "quoted", "plain"]


def test_a_folder_of_a_file_per_release_is_told_apart_by_the_user(tmp_path):
    for name, right in (("v1", True), ("v2", False)):
        jsonl(tmp_path / "answers" / f"{name}.jsonl", answers_of(right=right))
    remedy = (
        r"most often `id_unique`: .* If these are answers of several releases, evaluate each file with a --release of "
        r"its own, or leave --release out where a column names the release \(--map release=COLUMN\)\."
    )
    loaded = load(Source(f"{tmp_path}/answers"), tmp_path / "work")
    broken = validate(loaded.staged, loaded.rejects, str(tmp_path / "work"), Contract()).broken
    assert re.search(remedy, broken or "")
