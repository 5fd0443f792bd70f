"""Which questions there are to ask, and what of the data set a prompt may show."""

from typing import Any

import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.load import Source
from answerkey.tasks.releases.questions import find_questions, questions, text_or_file
from answerkey.tasks.warehouse.home import Home
from tests.tasks.staging_help import jsonl, run, served

ROWS: list[dict[str, Any]] = [
    {"id": "q1", "question": "Capital of France?", "reference": "Paris", "meta": {"lang": "en"}, "n": 1},
    {"id": "q2", "question": " ", "reference": "x", "meta": {"lang": "en"}, "n": None},
    {"id": "q1", "question": "Capital of France?", "reference": "Paris", "meta": {"lang": "en"}, "n": 7},
    {"id": "q3", "question": "Столица России?", "reference": ["Москва"], "meta": {"lang": "ru"}, "n": 2.5},
]


def asked(folder, rows, template, **how):
    found = find_questions(Home(folder / "home"), jsonl(folder / "faq.jsonl", rows), folder / "work", **how)
    return list(questions(found, template, folder / "work"))


def test_each_id_once_in_order_with_the_values_that_the_template_names(tmp_path):
    found = asked(tmp_path, ROWS, "{meta.lang} {n}: {question}")
    assert [one.sample_id for one in found] == ["q1", "q2", "q3"]
    assert found[0].values == {"meta.lang": "en", "n": "1", "question": "Capital of France?"}
    assert found[2].values == {"meta.lang": "ru", "n": "2.5", "question": "Столица России?"}
    assert found[1].values["n"] == ""
    # A language alone asks nothing.
    assert [one.blank for one in found] == [False, True, False]
    assert [one.blank for one in asked(tmp_path, ROWS, "Please: {question}")] == [False, True, False]
    assert [one.blank for one in asked(tmp_path, ROWS, "{n}")] == [False, True, False]


def test_a_key_stands_for_its_column_whatever_that_is_called(tmp_path):
    rows = [{"id": "q1", "meta": {"ask": "Why?"}, "gold": "so"}]
    [found] = asked(tmp_path, rows, "{question}", paths={"question": "meta.ask", "references": "gold"})
    assert (found.text, found.values) == ("Why?", {"question": "Why?"})


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("Answer!", "template: it names no column, so every question would be the same; write {question} into it"),
        ("{topic}", "template: FILE has no column 'topic' with a text; there are question, id, meta, n"),
        ("{reference}", "template: {reference} has what answers are measured by, which the model must not see"),
        ("{references}", "template: {references} has what answers are measured by, which the model must not see"),
        ("{meta}", "FILE, row 1: meta is an object with lang; map a path into it; correct the row or template"),
    ],
)
def test_a_template_that_cannot_be_filled(template, message, tmp_path):
    rows = [{**row, "meta": {"lang": "en", "x": 1}} for row in ROWS] if "{meta}" in template else ROWS
    with pytest.raises(UserError) as error:
        asked(tmp_path, rows, template)
    said = str(error.value).replace(str(tmp_path / "faq.jsonl"), "FILE")
    assert said.replace("lang, x", "lang") == message


@pytest.mark.parametrize(
    ("references", "template"),
    [
        ("gold", "{expected_output}"),
        ("gold", "{gold[0]}"),
        ("gold[0]", "{gold.1}"),
        ("gold[0]", "{$.gold}"),
        ("meta.right.0.text", "{question} {meta.right[1].text}"),
        ("meta.right.0.text", "{meta.right}"),
        ("0.gold", "{0.gold}"),
    ],
)
def test_no_template_can_show_a_reference(references, template, tmp_path):
    right = [{"text": "so"}, {"text": "because"}]
    rows = [
        {"id": "q1", "question": "Why?", "gold": ["so", "because"], "expected_output": "so", "meta": {"right": right},
         "0": {"gold": "so"}}
    ]  # fmt: skip
    with pytest.raises(UserError, match="has what answers are measured by, which the model must not see"):
        asked(tmp_path, rows, template, paths={"references": references})


def test_what_stands_beside_a_reference_is_shown(tmp_path):
    rows = [{"id": "q1", "question": "Why?", "meta": {"right": "so", "topic": "x"}}]
    [found] = asked(tmp_path, rows, "{meta.topic}: {question}", paths={"references": "meta.right"})
    assert found.values == {"meta.topic": "x", "question": "Why?"}


def test_a_token_in_an_address_is_in_no_message(tmp_path):
    jsonl(tmp_path / "faq.jsonl", [{"question": "Why?", "reference": "so"}])
    with served(tmp_path) as site, pytest.raises(UserError) as error:
        found = find_questions(Home(tmp_path), f"{site}/faq.jsonl?sig=canary", tmp_path / "work")
        list(questions(found, "{question}", tmp_path / "work"))
    assert str(error.value).startswith(f"{site}/faq.jsonl?…: no column for id was recognised")


def test_the_whole_of_an_object_that_holds_the_references_is_not_shown(tmp_path):
    rows = [{"id": "q1", "question": "Why?", "all": '{"gold": "so"}'}]
    with pytest.raises(UserError, match=r"\{all\} has what answers are measured by"):
        asked(tmp_path, rows, "{all}", paths={"references": "all.gold"})


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"question": "Why?", "reference": "so"}], r"no column for id was recognised; name it with --map id=COLUMN"),
        (
            [{"id": "q1", "question": "Why?"}],
            r"no column for references was recognised; name it with --map references=",
        ),
        ([ROWS[0], {**ROWS[0], "reference": "Lyon"}], r"id 'q1' comes again in row 2 with other content; keep one row"),
    ],
)
def test_a_data_set_that_cannot_be_used(rows, message, tmp_path):
    with pytest.raises(UserError, match=message):
        asked(tmp_path, rows, "{question}")


def test_a_data_set_of_the_warehouse_by_its_name(tmp_path):
    home = tmp_path / "home"
    # The questions stand beside the answers only, and are known from there.
    answers = [{"id": row["id"], "question": row["question"], "answer": "?", "lang": "en"} for row in ROWS[:2]]
    references = [{"id": row["id"], "reference": row["reference"]} for row in ROWS[:2]]
    files = jsonl(tmp_path / "old.jsonl", answers), jsonl(tmp_path / "faq.jsonl", references)
    run(home, Source(*files, "faq", "old", slices=("lang",)))
    found = find_questions(Home(home), "faq", tmp_path / "work")
    [first, second] = questions(found, "{lang}: {question}", tmp_path / "work")
    assert (found.dataset, found.known) == ("faq", None)
    assert (first.sample_id, first.values) == ("q1", {"lang": "en", "question": "Capital of France?"})
    assert second.sample_id == "q2"
    with pytest.raises(UserError, match=r"^template: the data set faq has no column 'gold' with a text; there are "):
        list(questions(found, "{gold}", tmp_path / "work"))
    with pytest.raises(UserError, match=r"^fqa: no such file, and no data set of this name in .* \(there are faq\)$"):
        find_questions(Home(home), "fqa", tmp_path / "work")
    with pytest.raises(UserError, match="has its own name, columns and slices"):
        find_questions(Home(home), "faq", tmp_path / "work", name="other")


def test_a_prompt_is_a_text_or_the_file_that_has_it(tmp_path):
    file = tmp_path / "my prompt.txt"
    file.write_text("Be brief.\nBe kind.\n", encoding="utf-8")
    assert text_or_file(str(file)) == "Be brief.\nBe kind."
    assert text_or_file("Be brief.") == "Be brief."
    assert text_or_file("x" * 5_000) == "x" * 5_000
    with pytest.raises(UserError, match=r"^prompt\.txt: there is no such file$"):
        text_or_file("prompt.txt")
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="not a text in UTF-8"):
        text_or_file(str(file))
