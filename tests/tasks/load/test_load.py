"""Any source becomes the same staged rows: texts cleaned, references joined by id, keys computed."""

import json
import random

import pandas as pd
import pytest

from answerkey.metrics_core.sample import Sample, content_hash
from answerkey.tasks.load.load import Source, dataset_name, load
from answerkey.tasks.reports.commit import commit
from answerkey.tasks.validate.contract import Contract
from answerkey.tasks.validate.validate import validate
from answerkey.tasks.warehouse.home import Home
from tests.tasks.staging_help import jsonl, query, refusal, rows_of, stage, staged, workbook

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
ROW = {"id": "q1", "question": "Q", "reference": "R", "answer": "A", "release": "one"}


@pytest.fixture
def questions(tmp_path):
    return jsonl(tmp_path / "questions.jsonl", QUESTIONS)


def columns(rows, *names):
    return [tuple(row[name] for name in names) for row in rows]


def test_what_tells_the_answers_to_a_question_apart(tmp_path):
    repeats = {None: "1", "": "1", 3: "3", "03": "3", 2.0: "2", " b ": "b", 0: "0", "1.5": "1.5", True: "true"}
    rows = [{"id": n, "answer": "a", "reference": "a", "repeat": repeat} for n, repeat in enumerate(repeats)]
    assert [row["repeat"] for row in staged(tmp_path, rows)] == list(repeats.values())


def test_answers_and_references_of_two_files(tmp_path, questions):
    loaded = stage(tmp_path, ANSWERS, references=questions, slices=("lang",))
    first, blank, other, unknown = rows_of(loaded.staged)
    assert first == {
        "row": 1, "file": None, "file_row": None, "sample_id": "q1", "release": "one", "release_order": None,
        "question": "Capital of France?", "answer": "It is Paris", "missing_because": None, "finish_reason": None,
        "repeat": "1", "references": ["Paris"], "facts": ["F"], "context": [], "incorrect_references": [],
        "columns": None, "given": None, "cluster": None, "label": None, "correct": None, "slices": [("lang", "en")],
        "sample_key": Sample("q1", "It is Paris", ["Paris"], "Capital of France?", ["F"]).key,
        "sample_hash": content_hash(["q1", "Capital of France?", ["Paris"], ["F"], None]),
    }  # fmt: skip
    assert (blank["answer"], blank["references"], blank["cluster"]) == (None, ["4", "четыре"], "sums")
    assert (other["release"], other["sample_hash"]) == ("two", first["sample_hash"])
    assert other["sample_key"] != first["sample_key"]
    assert (unknown["references"], unknown["slices"]) == ([], [("lang", "(none)")])
    assert (loaded.dataset, loaded.n_rows, rows_of(loaded.rejects)) == ("questions", 4, [])
    assert columns(rows_of(loaded.references), "sample_id") == [("q1",), ("q2",)]
    assert loaded.notes == (
        "questions.jsonl: columns id, question, references, facts, cluster",
        "answers.jsonl: columns id, answer, references, release=model",
    )


NONE_FOR = "no column for {} was recognised among {}; name it with --map "


@pytest.mark.parametrize(
    ("row", "source", "message"),
    [
        ({"id": 1, "text": "x"}, {}, NONE_FOR.format("answer", "id, text") + "answer=text"),
        (
            {"id": 1, "reference": "r", "note": "", "My Answers": "x", "other": ""},
            {},
            NONE_FOR.format("answer", "id, reference, note, My Answers, other") + "answer=My Answers",
        ),
        (
            {"id": 1, "answer": "x"},
            {},
            NONE_FOR.format("references", "id, answer") + "references=COLUMN or give --references FILE",
        ),
        (
            {"#": 1, "Question": "q", "Correct answer": "r", "v1 (prod)": "a", "v2": "b"},
            {},
            "no column for answer was recognised among #, Question, Correct answer, v1 (prod), v2; if v1 (prod), v2 "
            "are the answers of one release each, give --wide 'v1 (prod),v2'",
        ),
        # Two columns of answers, of which the first has the right ones
        (
            {"question": "q", "choices": ["A", "B"], "answer": "B", "prediction": "A"},
            {},
            NONE_FOR.format("references", "question, choices, answer, prediction")
            + "references=answer or give --references FILE",
        ),
        # All rows would have the same id.
        ({"answer": "x"}, {"needs_references": False}, NONE_FOR.format("id", "answer") + "id=COLUMN"),
        (
            {"answer": "x"},
            {"references": QUESTIONS},
            "--references are joined by id; name the column with --map id=COLUMN; the columns are answer",
        ),
        (
            {"id": 1, "answer": "x"},
            {"references": [{"key": 1, "references": "a"}]},
            "no column for id among key, references; name it with --map-references id=key",
        ),
    ],
)
def test_a_column_that_is_needed(tmp_path, row, source, message):
    if "references" in source:
        source = {"references": jsonl(tmp_path / "questions.jsonl", source["references"])}
    file = "questions" if "--map-references" in message else "answers"
    assert refusal(stage, tmp_path, [row], **source) == f"{tmp_path}/{file}.jsonl: {message}"


def test_references_that_no_metric_needs(tmp_path):
    rows = staged(tmp_path, [{"question": "Q", "answer": "x"}], needs_references=False)
    assert columns(rows, "sample_id", "references") == [(content_hash(["Q", ()]), [])]
    asked = jsonl(tmp_path / "q.jsonl", [{"id": 1, "question": "Q"}])
    rows = staged(tmp_path, [{"id": 1, "answer": "x"}], references=asked, needs_references=False)
    assert columns(rows, "question", "references") == [("Q", [])]


def test_where_the_release_comes_from(tmp_path):
    rows = [{"id": 1, "answer": "x", "references": "y", "model": "gpt"}, {"id": 2, "answer": "x", "references": "y"}]
    assert columns(staged(tmp_path, rows), "release") == [("gpt",), (None,)]
    assert columns(staged(tmp_path, rows, release="mine"), "release") == [("mine",), ("mine",)]
    loaded = stage(tmp_path, rows[1:], name="chatgpt-4")
    assert columns(rows_of(loaded.staged), "release") == [("chatgpt-4",)]
    assert loaded.notes == (
        "chatgpt-4.jsonl: columns id, answer, references; the release is called 'chatgpt-4' after the file",
    )


REVIEWS = [("bad", "negative"), ("good", "positive"), ("dull", "negative"), ("fine", "positive")]


def test_rows_without_an_id_and_a_known_name_of_the_question_are_told_apart_by_all_that_no_answer_made(tmp_path):
    asked = [{"review": review, "expected": right, "latency_ms": n} for n, (review, right) in enumerate(REVIEWS)]
    rows = [{**row, "answer": f"{model} says", "model": model} for model in ("one", "two") for row in asked]
    loaded = stage(tmp_path, rows)
    ids = [row["sample_id"] for row in rows_of(loaded.staged)]
    assert len(set(ids)) == 4 and ids[:4] == ids[4:]
    assert loaded.notes[-1] == (
        "answers.jsonl: no id column; a hash of question and references and review serves as the id"
    )
    # The same question, asked about several texts
    rows = [{**row, "question": "Is it good?"} for row in rows]
    assert len({row["sample_id"] for row in staged(tmp_path, rows)}) == 4
    # Whole rows that are the same stay one question
    assert len({row["sample_id"] for row in staged(tmp_path, [rows[0], rows[0]])}) == 1


SPELLINGS = {
    "decimals": (["1", "2"], ["1.0", "2.0"], True, "2 ids are spelled otherwise in r.jsonl, and joined: '1' is '1.0'"),
    "zeros": (["7", "12"], ["007", "012"], True, "'7' is '007'"),
    "blanks": (["1", " q-2"], [" 1 ", "q-2\n"], True, "'1' is ' 1 '"),
    "marks that cannot be seen": (["q1", "q2"], ["\ufeffq1", "q2"], True, "1 ids are spelled otherwise"),
    "composed letters": (["e\u0301"], ["\xe9"], True, "1 ids are spelled otherwise"),
    "as they stand": (["1", "01"], ["1", "01"], True, ""),
    "two of the references": (
        ["1.0"],
        ["1", "01"],
        False,
        "id '1.0' is not joined with '01', '1' of r.jsonl, since one",
    ),
    "two of the answers": (
        ["1", "001"],
        ["1.0"],
        False,
        "id '1' is not joined with '1.0' of r.jsonl, since one of the",
    ),
    "one of two as it stands": (["1", "001"], ["1"], True, "id '001' is not joined with '1' of r.jsonl"),
    "other numbers": (
        ["1.5", "10"],
        ["1.50", "1"],
        False,
        "none of its ids is in r.jsonl: '1.5' for instance, and there",
    ),
    "other names": (
        ["a", "B"],
        ["x", "b"],
        False,
        "none of its ids is in r.jsonl: 'a' for instance, and there 'b'; na",
    ),
}


@pytest.mark.parametrize(("answers", "references", "joined", "note"), SPELLINGS.values(), ids=SPELLINGS)
def test_ids_of_two_files_are_joined_as_people_spell_them(tmp_path, answers, references, joined, note):
    source = jsonl(tmp_path / "r.jsonl", [{"id": name, "question": "Q", "reference": "R"} for name in references])
    rows = [{"id": name, "answer": "A"} for name in answers]
    loaded = stage(tmp_path, rows, references=source, release="one")
    assert [row["sample_id"] for row in rows_of(loaded.staged) if row["references"]] == references * joined
    notes = [text for text in loaded.notes if "r.jsonl" in text and ": columns" not in text]
    assert [note in text for text in notes] == [True] * bool(note)


def test_rows_that_are_refused_cost_none_of_their_neighbours_and_are_counted_nowhere(tmp_path):
    references = jsonl(tmp_path / "r.jsonl", [{"id": f"{n}.0", "references": ["R"]} for n in range(40)])
    answers = [{"id": n, "answer": "A", "release": "new", "lang": "en"} for n in range(40)]
    for n in (3, 4, 39):
        answers[n]["answer"] = ["A", "B"]
    answers[17]["lang"] = ["en", "de"]
    # A row with a column more stands between rows that have the same columns
    answers[20]["label"] = "yes"

    loaded = stage(tmp_path, answers, references=references, slices=("lang",))

    rows = [row["row"] for row in rows_of(loaded.staged)]
    assert rows == [n + 1 for n in range(40) if n not in (3, 4, 17, 39)]
    answer_is_list = "answer (answer) is a list; map one item of it, such as answer[0]"
    slice_is_list = "slice (lang) is a list; map one item of it"
    rejects = [(4, answer_is_list), (5, answer_is_list), (18, slice_is_list), (40, answer_is_list)]
    assert columns(rows_of(loaded.rejects), "row", "reason") == rejects
    assert [note for note in loaded.notes if "36 ids are spelled otherwise" in note]


def test_each_file_of_answers_may_spell_ids_in_its_way(tmp_path):
    source = jsonl(tmp_path / "r.jsonl", [{"id": "1", "question": "Q", "reference": "R"}])
    for release, name in (("v1", "1"), ("v2", "001"), ("v3", 1.0)):
        jsonl(tmp_path / "a" / f"{release}.jsonl", [{"id": name, "answer": "A", "release": release}])
    rows = rows_of(load(Source(str(tmp_path / "a"), references=source), tmp_path / "work").staged)
    assert [row["sample_id"] for row in rows] == ["1"] * 3


def test_a_slice_of_the_answers_comes_before_one_of_the_references(tmp_path, questions):
    answers = [{**ANSWERS[0], "lang": "xx", "meta": {"n": 1}}, {**ANSWERS[1], "lang": None}]
    rows = staged(tmp_path, answers, references=questions, slices=("lang", "meta.n", "lang"))
    assert [row["slices"] for row in rows] == [
        [("lang", "xx"), ("meta.n", "1")],
        [("lang", "ru"), ("meta.n", "(none)")],
    ]


def test_lone_surrogates_become_the_replacement_character(tmp_path):
    broken, named = "a\ud800b", ("id", "question", "answer", "model", "cluster", "label", "kind")
    rows = [dict.fromkeys(named, broken) | {"references": [broken]}]
    [row] = staged(tmp_path, rows, slices=("kind",), paths={"label": "label"})
    texts = {row[name] for name in ("sample_id", "question", "answer", "release", "cluster", "label")}
    assert texts | set(row["references"]) | {row["slices"][0][1]} == {"a\ufffdb"}
    assert row["sample_key"] == Sample("any id", "a\ufffdb", ["a\ufffdb"], "a\ufffdb").key


def test_releases_whose_names_look_alike_are_one(tmp_path):
    names = ["é", "e\u0301", " é ", "r", "r ", "a\nb", "r\u202e", "r\u200b", " "]
    rows = [{"id": str(n), "answer": "x", "reference": "x", "release": name} for n, name in enumerate(names)]
    loaded = stage(tmp_path, rows)
    assert [row["release"] for row in rows_of(loaded.staged)] == ["é", "é", "é", "r", "r", ""]
    assert [row["reason"] for row in rows_of(loaded.rejects)] == [
        f"the release {shown} has a character that cannot be seen, {code}; remove it"
        for shown, code in (("'a\\nb'", "U+000A"), ("'r\\u202e'", "U+202E"), ("'r\\u200b'", "U+200B"))
    ]


OF_THE_SITE = "a page or folder of the site has this name; choose another one"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"release": "r "}, "--release 'r ': write 'r', composed and without blanks around it"),
        ({"release": "a\nb"}, "--release: the release 'a\\nb' has a character that cannot be seen, U+000A; remove it"),
        *(
            ({"dataset": name}, f"--dataset {name!r}: use letters, digits, dots, dashes and underscores")
            for name in ("my data", "a/b")
        ),
        *(({"dataset": name}, f"--dataset {name!r}: {OF_THE_SITE}") for name in ("..", "index.html", "_data-docs")),
        ({"references": "runs/index.html.jsonl"}, f"--dataset 'index.html': {OF_THE_SITE}"),
    ],
)
def test_names_that_nothing_can_have(source, message):
    assert refusal(lambda: dataset_name(Source("a.jsonl", **source))) == message


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("runs/a.b.jsonl", "a.b"), ("gold/ключи.csv", "ключи"), ("https://host/data/dev.csv?sig=a/b.csv", "dev"),
        ("s3://key:secret@bucket/nq.csv?X-Amz-Signature=1", "bucket"), ("my.duckdb::schema.table", "my"),
        ("runs/Title Case (2).csv", "Title-Case-2"), ("runs/!!!.csv", "data"),
    ],
)  # fmt: skip
def test_the_name_of_a_data_set(source, name):
    assert dataset_name(Source(source)) == dataset_name(Source("runs/a.jsonl", references=source)) == name


def test_cells_that_hold_json_are_read_where_all_of_a_column_do(tmp_path):
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How many?"}]
    rows = [
        {
            "id": 1,
            "input": json.dumps({"messages": chat}),
            "output": '"Six"',
            "reference": '["6"]',
            "note": '"a" or "b"',
        },
        {"id": 2, "input": json.dumps(chat), "output": '"A \\"6\\""', "reference": '["6", "six"]', "note": "c"},
    ]
    assert columns(staged(tmp_path, rows, slices=("note",)), "question", "answer", "references", "slices") == [
        ("How many?", "Six", ["6"], [("note", '"a" or "b"')]),
        ("How many?", 'A "6"', ["6", "six"], [("note", "c")]),
    ]
    # One row may be a quotation.
    assert columns(staged(tmp_path, [{"id": 1, "answer": '"So."', "reference": "r"}]), "answer") == [('"So."',)]


def test_columns_are_recognised_however_they_are_written(tmp_path):
    row = {"Sample ID": 1, "QUESTION": "q", "Answer": "a", "Ground-Truth": "r", "answer": "b"}
    recognised = "columns id=Sample ID, question=QUESTION, answer, references=Ground-Truth"
    assert recognised in str(stage(tmp_path, [row]).notes)


def committed(folder, rows, **source):
    loaded = stage(folder, rows, **source)
    return commit(Home(folder / "home"), "run", "source", loaded, loaded.staged, [])


def test_the_order_of_rows_makes_no_version_and_a_reference_does(tmp_path):
    rows = [{"id": i, "question": f"q{i}", "answer": f"a{i}", "references": [f"r{i}", "s"]} for i in range(60)]
    shuffled = random.Random(3).sample(rows, len(rows))
    first = committed(tmp_path, rows)
    assert committed(tmp_path, shuffled) == first
    rows[31] = {**rows[31], "references": ["r31", "t"]}
    changed = committed(tmp_path, rows)
    counts = query(tmp_path / "home", "SELECT version, n_samples FROM datasets ORDER BY created_at")
    assert counts == [(first.dataset_version, 60), (changed.dataset_version, 60)]


def test_a_references_file_is_the_data_set_answered_or_not(tmp_path, questions):
    one = committed(tmp_path, ANSWERS[:1], references=questions)
    two = committed(tmp_path, ANSWERS[:3], references=jsonl(tmp_path / "questions.jsonl", QUESTIONS[::-1]))
    assert one.dataset_version == two.dataset_version
    assert [release.release for release in two.releases] == ["one", "two"]
    other = jsonl(tmp_path / "questions.jsonl", [QUESTIONS[0], {**QUESTIONS[1], "references": ["4"]}])
    assert committed(tmp_path, ANSWERS[:1], references=other).dataset_version != one.dataset_version


def test_a_references_file_may_call_right_answers_answers(tmp_path):
    gold = jsonl(tmp_path / "gold.jsonl", [{"id": 1, "question": "Q", "answer": ["Paris", "Paname"]}])
    loaded = stage(tmp_path, [{"id": 1, "answer": "Paname"}], references=gold)
    assert columns(rows_of(loaded.staged), "answer", "references") == [("Paname", ["Paris", "Paname"])]
    assert "gold.jsonl: answer has the right answers" in loaded.notes


def test_a_references_file_without_questions_leaves_them_to_the_answers(tmp_path):
    references = jsonl(tmp_path / "references.jsonl", [{"id": "1", "references": ["Ada"]}])
    committed(tmp_path, [{"id": "1", "question": "Who?", "answer": "Ada"}], references=references, release="r")
    assert query(tmp_path / "home", "SELECT sample_id, question FROM samples") == [("1", "Who?")]


def test_the_context_is_part_of_the_answer_and_of_no_data_set_version(tmp_path):
    given = [ROW | {"retrieved_contexts": ["first", " ", "second"]}, ROW | {"release": "two"}]
    with_context, without = staged(tmp_path, given)
    assert (with_context["context"], without["context"]) == (["first", "second"], [])
    assert without["sample_key"] == Sample("q1", "A", ["R"], "Q").key
    assert with_context["sample_key"] == Sample("q1", "A", ["R"], "Q", context=["first", "second"]).key
    assert with_context["sample_hash"] == without["sample_hash"]


def test_the_context_of_the_references_counts_where_the_answer_brings_none(tmp_path):
    references = jsonl(tmp_path / "references.jsonl", [{"id": "q1", "question": "Q", "reference": "R", "context": "C"}])
    answers = [{"id": "q1", "answer": "A", "context": None}, {"id": "q1", "answer": "B", "context": ["own"]}]
    assert columns(staged(tmp_path, answers, references=references), "context") == [(["C"],), (["own"],)]


def test_a_column_called_context_that_is_something_else_is_left_alone_unless_it_is_named(tmp_path):
    row = ROW | {"context": {"title": "T", "text": "U"}}
    assert columns(staged(tmp_path, [row]), "context") == [([],)]
    [rejected] = rows_of(stage(tmp_path, [row], paths={"context": "context"}).rejects)
    assert rejected["reason"] == "context (context) is an object with title, text; map a path into it"


def test_answers_known_to_be_wrong_belong_to_the_sample(tmp_path):
    wrong = ["W", "V"]
    [given] = staged(tmp_path, [ROW | {"incorrect_answers": wrong}])
    [without] = staged(tmp_path, [ROW])
    assert (given["incorrect_references"], without["incorrect_references"]) == (wrong, [])
    assert given["sample_key"] == Sample("q1", "A", ["R"], "Q", incorrect_references=wrong).key
    assert given["sample_hash"] != without["sample_hash"]


def test_answers_known_to_be_wrong_come_from_the_references_file_and_are_in_the_warehouse(tmp_path):
    wrong = [["Vapor is denser."], ["Basel", "bern"]]
    references = [{"id": str(n), "reference": "x", "bad_answers": texts} for n, texts in enumerate(wrong)]
    file = jsonl(tmp_path / "r.jsonl", references)
    committed(tmp_path, [{"id": str(n), "answer": "x"} for n in range(2)], references=file, release="r")
    kept = query(tmp_path / "home", "SELECT incorrect_references FROM samples ORDER BY sample_id")
    assert kept == [(texts,) for texts in wrong]


def test_columns_that_first_appear_late_are_found(tmp_path):
    early = [{"id": n, "response": "x", "ground_truth": "x"} for n in range(3_000)]
    late = [
        {"id": 3_000, "response": 7, "ground_truth": ["x", "y"], "ok": True, "meta": {"lang": "fr"}, "contexts": ["c"]},
        {"id": "3001", "output": "z", "reference": "x", "model": "other"},
    ]
    rows = staged(tmp_path, early + late, paths={"label": "ok"}, slices=("meta.lang",), release="r")
    assert columns(rows[2_999:], "answer", "references", "label") == [
        ("x", ["x"], None), ("7", ["x", "y"], "true"), ("z", ["x"], None),
    ]  # fmt: skip
    assert columns(rows[3_000:3_001], "slices", "context") == [([("meta.lang", "fr")], ["c"])]
    rows = staged(tmp_path, [{"id": 1}] * 200 + late[1:])
    assert columns(rows[199:], "answer", "release") == [(None, None), ("z", "other")]


def test_files_of_two_tools_are_read_by_the_columns_that_each_has(tmp_path):
    one = jsonl(tmp_path / "a.jsonl", [{"id": 1, "response": "x", "reference": "X"}])
    other = jsonl(tmp_path / "b.jsonl", [{"id": 2, "output": "y", "expected_output": "Y"}])
    both, work = f"{one}\n{other}", tmp_path / "work"
    rows = rows_of(load(Source(both, dataset="d", release="r"), work).staged)
    assert columns(rows, "row", "answer", "references") == [(1, "x", ["X"]), (2, "y", ["Y"])]
    unnamed = "a.jsonl, b.jsonl: name the data set of several files with --dataset"
    assert refusal(load, Source(both, release="r"), work) == unnamed
    said = refusal(load, Source(both, dataset="d"), work)
    assert said.startswith("a.jsonl, b.jsonl: no column says which release answered; name it with --release")


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


@pytest.mark.parametrize(
    ("read_as", "references", "expected"),
    [
        ({}, [["[1, 2]"], ["[sic]"], ["a", "b"]], [SPLIT, KEPT]),
        ({"references-as": "text"}, [["[1, 2]"], ["[sic]"], ['["a", "b"]']], [KEPT]),
        ({"references-as": "list"}, [["1", "2"], ["[sic]"], ["a", "b"]], []),
    ],
)
def test_references_that_spell_lists_are_split_with_a_note(tmp_path, read_as, references, expected):
    (tmp_path / "a.csv").write_text(CSV_OF_LISTS)
    loaded = load(Source(str(tmp_path / "a.csv"), release="r", paths=read_as), tmp_path / "work")
    assert [row["references"] for row in rows_of(loaded.staged)] == references
    assert [note for note in loaded.notes if "list" in note] == expected


BATCH = """{"custom_id": "1", "response": {"body": {"choices": [{"message": {"content": null, "refusal": "No."}}]}}}
{"custom_id": "2", "response": {"body": {"choices": [{"message": {"content": "x"}}, {"message": {"content": "y"}}]}}}"""
GEMINI = """{"key": "1", "response": {"candidates": [{"content":{"parts":[{"text":"a","thought":true},{"text":"x"}]}}]}}
{"key": "2", "response": {"candidates": [{"finishReason": "SAFETY"}]}}"""
BEDROCK = """{"recordId": "1", "modelInput": {}, "modelOutput": {"content": [{"type": "text", "text": "x"}]}}
{"recordId": "2", "modelInput": {}, "modelOutput": {"output": {"message": {"content": [{"text": "y"}]}}}}
{"recordId": "3", "modelInput": {}, "error": {"errorMessage": "throttled"}}"""
ALPACA = """{"instruction": "Translate.", "input": "cat", "output": "chat", "reference": "chat"}
{"instruction": "2 + 2?", "input": "", "output": "5", "reference": "4"}"""
REPLIED = """id,answer,reference
1,"{""choices"": [{""message"": {""role"": ""assistant"", ""content"": ""Paris""}}]}",Paris
2,Paris,Rome
"""
VIEWED = """{"rows": [{"row_idx": 0, "row": {"answer": "x", "id": "1"}, "truncated_cells": ["answer"]},
{"row_idx": 1, "row": {"answer": "y", "id": "2"}, "truncated_cells": []}]}"""
EVERYDAY = {
    "a line break in a name": (
        "a.csv",
        'id,answer,"correct\nanswer"\n1,x,y\n',
        [("x", ["y"])],
        "references=correct answer",
    ),
    "blanks before quotes": ("a.csv", 'id, answer, reference\n"1", "x, y", "y"\n', [("x, y", ["y"])], ""),
    "a list of objects": ("a.csv", """id,answer,reference\n1,x,"[{'a': 'x', 'b': 1}]"\n2,x,y\n""", [("x", ["y"])], ""),
    "a list of numbers": (
        "a.csv",
        "id;answer;reference\n1;5;['5', 'five']\n2;5;[5]\n",
        [("5", ["5", "five"]), ("5", ["5"])],
        "",
    ),
    "no number": (
        "a.csv",
        "id;answer;latency_s\n1;x;1,5\n",
        [("x", [])],
        "latency_s is left out where it is no number",
    ),
    "a refusal and two answers": ("a.jsonl", BATCH, [("No.", []), ("x", []), ("y", [])], "a batch"),
    "thoughts of Gemini": ("a.jsonl", GEMINI, [("x", []), (None, [])], "a batch"),
    "models of Bedrock": ("a.jsonl", BEDROCK, [("x", []), ("y", []), (None, [])], "a batch"),
    "instructions with inputs": ("a.jsonl", ALPACA, [("chat", ["chat"]), ("5", ["4"])], "of Alpaca"),
    "a reply of an API as text": ("a.csv", REPLIED, [("Paris", ["Rome"])], ""),
    "a cell cut off": ("a.json", VIEWED, [("y", [])], "Hugging Face"),
}


@pytest.mark.parametrize(("name", "content", "rows", "note"), EVERYDAY.values(), ids=EVERYDAY)
def test_everyday_files_are_read_as_people_mean_them(tmp_path, name, content, rows, note):
    (tmp_path / name).write_text(content)
    loaded = load(Source(str(tmp_path / name), release="r", needs_references=False), tmp_path / "work")
    assert columns(rows_of(loaded.staged), "answer", "references") == rows
    assert note in "".join(loaded.notes)


def test_a_reply_of_an_api_as_text_is_refused_with_the_path_to_the_answer(tmp_path):
    (tmp_path / "a.csv").write_text(REPLIED)
    [rejected] = rows_of(load(Source(str(tmp_path / "a.csv"), release="r"), tmp_path / "work").rejects)
    assert rejected["reason"].endswith("map a path into it, such as answer.choices[0].message.content")


def test_an_instruction_and_its_input_are_the_question(tmp_path):
    (tmp_path / "a.jsonl").write_text(ALPACA)
    loaded = load(Source(str(tmp_path / "a.jsonl"), release="r"), tmp_path / "work")
    assert [row["question"] for row in rows_of(loaded.staged)] == ["Translate.\n\ncat", "2 + 2?"]


def test_requests_that_failed_are_of_the_one_model_that_answered(tmp_path):
    message = {"model": "m", "role": "assistant", "content": [{"type": "text", "text": "x"}]}
    rows = [{"custom_id": "1", "result": {"message": message}}, {"custom_id": "2", "result": {"type": "errored"}}]
    file = jsonl(tmp_path / "a.jsonl", rows)
    loaded = load(Source(file, needs_references=False), tmp_path / "work")
    expected = [("m", None), ("m", "errored")]
    assert columns(rows_of(loaded.staged), "release", "missing_because") == expected


def test_answers_to_other_questions_than_their_ids_have_are_named(tmp_path, questions):
    notes = stage(tmp_path, [{"id": "q1", "answer": "x", "question": "Two?"}], references=questions).notes
    assert "1 answers have another question than questions.jsonl has under their id" in notes[-1]


PRINTED = {
    "strings": ("['Paris' 'Paname']", ["Paris", "Paname"]),
    "quotes and blanks": ("""["O'slo city" 'a "b" c']""", ["O'slo city", 'a "b" c']),
    "lines": ("['Paris'\n 'Paname'\n 'Lutetia']", ["Paris", "Paname", "Lutetia"]),
    "an array": ("array(['Paris', 'Paname'], dtype=object)", ["Paris", "Paname"]),
    "a list of numpy's strings": ("[np.str_('Paris'), np.str_('Paname')]", ["Paris", "Paname"]),
    "nothing in it": ("['Paris' None nan]", ["Paris"]),
    "a set": ("{'b', 'a'}", ["b", "a"]),
    "a tuple": ("('b', 'a')", ["b", "a"]),
    "a list of Python": ("['x 1 2 y', 'b']", ["x 1 2 y", "b"]),
}


@pytest.mark.parametrize(("printed", "references"), PRINTED.values(), ids=PRINTED)
def test_references_as_numpy_prints_them(tmp_path, printed, references):
    rows = [{"id": "1", "answer": "x", "reference": printed}, {"id": "2", "answer": "x", "reference": printed}]
    loaded = load(Source(jsonl(tmp_path / "a.jsonl", rows), release="r"), tmp_path / "work")
    assert [row["references"] for row in rows_of(loaded.staged)] == [references] * 2


@pytest.mark.parametrize(
    "printed", ["['a' 'b' ... 'y' 'z']", "array(['a', ..., 'z'], dtype=object)", "['a'\n ... 'z']"]
)
def test_lists_that_numpy_shortened_are_refused(tmp_path, printed):
    file = jsonl(tmp_path / "a.jsonl", [{"id": n, "answer": "x", "reference": printed if n else "x"} for n in range(9)])
    loaded = load(Source(file, release="r"), tmp_path / "work")
    assert len(rows_of(loaded.staged)) == 1
    assert {row["reason"] for row in rows_of(loaded.rejects)} == {
        'references (reference) is a list that numpy shortened ("..."); write all of it, for instance with .tolist()'
    }


def test_a_list_that_comes_after_the_first_rows_is_read_like_any_other(tmp_path):
    rows = [{"id": n, "answer": "x", "reference": "x" if n < 150 else "['a', 'b']"} for n in range(151)]
    assert staged(tmp_path, rows)[150]["references"] == ["a", "b"]


def test_references_of_a_workbook_and_of_a_second_file_are_noted_too(tmp_path):
    file = workbook(tmp_path / "a.xlsx", A=[["id", "answer", "reference"], [1, "x", "['1', '2']"]])
    loaded = load(Source(file, release="r"), tmp_path / "work")
    assert rows_of(loaded.staged)[0]["references"] == ["1", "2"]
    assert any("(row 1: ['1', '2'] as '1' and '2'); --map references-as" in note for note in loaded.notes)
    (tmp_path / "b.csv").write_text(CSV_OF_LISTS)
    notes = "\n".join(stage(tmp_path, [{"id": 1, "answer": "x"}], references=str(tmp_path / "b.csv")).notes)
    assert "b.csv: references that spell a list of texts are read as that list" in notes
    assert "--map-references references-as=text keeps them" in notes


def test_several_columns_of_references_are_all_used_and_others_are_named(tmp_path):
    rows = [{"id": 1, "answer": "x", "Expected Answer": "a", "Alternative Answer": "b", "is_correct": "yes"}]
    note = (
        "answers.jsonl: not used: Alternative Answer; if these are right answers too, give --map 'references=Expected "
        "Answer' --map 'references=Alternative Answer'"
    )
    assert note in stage(tmp_path, rows).notes
    both = stage(tmp_path, rows, paths={"references": "Expected Answer\nAlternative Answer"})
    assert rows_of(both.staged)[0]["references"] == ["a", "b"]
    assert both.notes == (
        "answers.jsonl: columns id, answer; not used: is_correct; the release is called 'answers' after the file",
    )
    more = [rows[0] | {"Gold": "c"}]
    named = "--map 'references=Expected Answer' --map 'references=Alternative Answer' --map references=Gold"
    note = f"answers.jsonl: not used: Gold; if these are right answers too, give {named}"
    assert note in stage(tmp_path, more, paths={"references": "Expected Answer\nAlternative Answer"}).notes
    misspelt = {"references": "Expected Answer\nAlternativ Answer"}
    said = refusal(stage, tmp_path, rows, paths=misspelt)
    assert "no column 'Alternativ Answer' (for references); did you mean 'Alternative Answer'?" in said


@pytest.mark.parametrize(
    ("cells", "mapped", "named"),
    [((True, False), {}, True), (("yes", ""), {}, True), (("a", "b"), {}, False), ((1, 0), {"label": "label"}, False)],
)
def test_a_column_of_human_labels_that_is_not_mapped_is_named(tmp_path, cells, mapped, named):
    rows = [{"id": n, "answer": "x", "reference": "x", "label": cell} for n, cell in enumerate(cells)]
    note = "answers.jsonl: column 'label' looks like human labels; --map label=label"
    assert (note in stage(tmp_path, rows, paths=mapped).notes) == named


def test_numbers_are_scored_as_they_are_spelled(tmp_path):
    numbers = ["1.10", "1e3", "1E400", "0.10000000000000000555", "-0.0", "7"]
    lines = [f'{{"id": {n}, "answer": {text}, "reference": [{text}]}}' for n, text in enumerate(numbers)]
    assert columns(staged(tmp_path, lines), "answer", "references") == [(text, [text]) for text in numbers]


ANSWER_TEXTS = ["[1, 2]", '{"a": 1}', '{"content": "Paris"}', '["x"]', '"quoted"']
TOOLS = {
    "braintrust": '{"id": TEXT, "input": "?", "output": TEXT, "expected": TEXT, "span_id": "s"}',
    "langsmith": '{"id": TEXT, "inputs": {"question": "?"}, "outputs": {"output": TEXT}, "reference_outputs": '
    '{"output": TEXT}}',
    "langfuse": '{"id": TEXT, "input": "?", "output": TEXT, "expectedOutput": TEXT, "timestamp": "t", "projectId": '
    '"p", "sessionId": "s"}',
    "mlflow": '{"id": TEXT, "inputs": "?", "outputs": TEXT, "targets": TEXT}',
    "opik": '{"dataset_item_id": TEXT, "dataset_item_data": {"input": "?", "expected_output": TEXT}, '
    '"evaluation_task_output": TEXT}',
    "promptfoo": '{"promptIdx": 0, "testIdx": TEXT, "provider": "p", "prompt": {}, "vars": {"q": "?"}, "response": '
    '{"output": TEXT}, "testCase": {"assert": [{"type": "equals", "value": TEXT}]}}',
    "inspect": '{"eval": {"model": "m", "task": "t"}, "samples": [{"id": TEXT, "input": "?", "target": TEXT, "output": '
    '{"completion": TEXT}}]}',
    "deepeval": '{"test_cases": [{"input": "?", "actual_output": TEXT, "expected_output": TEXT, "name": TEXT}]}',
}


@pytest.mark.parametrize("tool", TOOLS)
def test_answers_and_references_that_are_json_texts_stay_texts_in_every_importer(tool, tmp_path):
    rows = [TOOLS[tool].replace("TEXT", json.dumps(text)) for text in ANSWER_TEXTS]
    loaded = stage(tmp_path, rows, release="r", format=tool)
    assert rows_of(loaded.rejects) == []
    assert columns(rows_of(loaded.staged), "answer", "references") == [(text, [text]) for text in ANSWER_TEXTS]


def test_cells_of_a_tool_hold_json_because_tables_have_nothing_but_texts(tmp_path):
    answers = ["[1, 2]", '{"content": "Paris"}', '"quoted"', "plain"]
    rows = [{"id": n, "input": "?", "output": text, "expected": "x", "span_id": "s"} for n, text in enumerate(answers)]
    pd.DataFrame(rows).to_csv(tmp_path / "experiment.csv", index=False)
    loaded = load(Source(str(tmp_path / "experiment.csv"), release="r"), tmp_path / "work")
    assert rows_of(loaded.rejects) == []
    assert [row["answer"] for row in rows_of(loaded.staged)] == ["[1, 2]", "Paris", "quoted", "plain"]


def test_a_folder_of_a_file_per_release_that_is_called_one_release(tmp_path):
    for name in ("v1", "v2"):
        jsonl(tmp_path / "answers" / f"{name}.jsonl", [{"id": n, "answer": name, "reference": "x"} for n in range(6)])
    loaded = load(Source(f"{tmp_path}/answers", release="one"), tmp_path / "work")
    broken = validate(loaded.staged, loaded.rejects, str(tmp_path / "work"), Contract()).broken
    assert "most often `id_unique`: " in broken
    assert (
        " If these are answers of several releases, evaluate each file with a --release of its own, or leave --release "
        "out where a column names the release (--map release=COLUMN)."
    ) in broken
