"""Which questions there are to ask, and what of the data set a prompt may show."""

import pytest

from answerkey.tasks.load.load import Source
from answerkey.tasks.releases.questions import find_questions, questions, text_or_file
from answerkey.tasks.warehouse.home import Home
from tests.kit.serving import served
from tests.tasks.staging_help import jsonl, refusal, run

ROWS = [
    {"id": "q1", "question": "Capital of France?", "reference": "Paris", "meta": {"lang": "en"}, "n": 1},
    {"id": "q2", "question": " ", "reference": "x", "meta": {"lang": "en"}, "n": None},
    {"id": "q1", "question": "Capital of France?", "reference": "Paris", "meta": {"lang": "en"}, "n": 7},
    {"id": "q3", "question": "Столица России?", "reference": ["Москва"], "meta": {"lang": "ru"}, "n": 2.5},
]
WHY = {"id": "q1", "question": "Why?"}


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
    for template in ("{meta.lang} {n}: {question}", "Please: {question}", "{n}"):
        assert [one.blank for one in asked(tmp_path, ROWS, template)] == [False, True, False]


@pytest.mark.parametrize(
    ("row", "template", "paths", "values"),
    [
        # A key stands for its column, whatever that is called.
        (
            {"id": "q1", "meta": {"ask": "Why?"}, "gold": "so"}, "{question}",
            {"question": "meta.ask", "references": "gold"}, {"question": "Why?"},
        ),
        # What stands beside a reference is shown.
        (
            WHY | {"meta": {"right": "so", "topic": "x"}}, "{meta.topic}: {question}", {"references": "meta.right"},
            {"meta.topic": "x", "question": "Why?"},
        ),
    ],
)  # fmt: skip
def test_columns_that_are_mapped(tmp_path, row, template, paths, values):
    [call] = asked(tmp_path, [row], template, paths=paths)
    assert (call.text, call.values) == ("Why?", values)


@pytest.mark.parametrize(
    ("rows", "template", "message"),
    [
        (
            ROWS,
            "Answer!",
            "template: it names no column, so every question would be the same; write {question} into it",
        ),
        (ROWS, "{topic}", "template: FILE has no column 'topic' with a text; there are question, id, meta, n"),
        (
            [ROWS[0] | {"meta": {"lang": "en", "x": 1}}],
            "{meta}",
            "FILE, row 1: meta is an object with lang, x; map a path into it; correct the row or template",
        ),
        ([WHY | {"id": None, "reference": "so"}], "{question}", "FILE, row 1: the id is missing; give every row an id"),
        (
            [{"question": "Why?", "reference": "so"}],
            "{question}",
            "FILE: no column for id was recognised; name it with --map id=COLUMN",
        ),
        ([WHY], "{question}", "FILE: no column for references was recognised; name it with --map references=COLUMN"),
        (
            [ROWS[0], {**ROWS[0], "reference": "Lyon"}],
            "{question}",
            "FILE: id 'q1' occurs again in row 2 with different content; keep one row per id",
        ),
    ],
)
def test_what_cannot_be_asked(rows, template, message, tmp_path):
    assert refusal(asked, tmp_path, rows, template).replace(str(tmp_path / "faq.jsonl"), "FILE") == message


RIGHT = {
    "gold": ["so", "because"], "expected_output": "so", "meta": {"right": [{"text": "so"}, {"text": "because"}]},
    "0": {"gold": "so"}, "all": '{"gold": "so"}',
}  # fmt: skip


@pytest.mark.parametrize(
    ("references", "template", "hidden"),
    [
        ("gold", "{references}", "references"), ("gold", "{expected_output}", "expected_output"),
        ("gold[0]", "{gold.1}", "gold.1"), ("gold[0]", "{$.gold}", "$.gold"),
        ("meta.right.0.text", "{question} {meta.right[1].text}", "meta.right[1].text"),
        ("0.gold", "{0.gold}", "0.gold"),
        ("all.gold", "{all}", "all"),
    ],
)  # fmt: skip
def test_no_template_can_show_a_reference(references, template, hidden, tmp_path):
    message = refusal(asked, tmp_path, [WHY | RIGHT], template, paths={"references": references})
    assert message == f"template: {{{hidden}}} has what answers are measured by, which the model must not see"


def test_a_token_in_an_address_is_in_no_message(tmp_path):
    jsonl(tmp_path / "faq.jsonl", [{"question": "Why?", "reference": "so"}])
    with served(tmp_path) as site:
        found = find_questions(Home(tmp_path), f"{site}/faq.jsonl?sig=canary", tmp_path / "work")
        message = refusal(list, questions(found, "{question}", tmp_path / "work"))
    assert message.startswith(f"{site}/faq.jsonl?…: no column for id was recognised")


def test_a_data_set_of_the_warehouse_by_its_name(tmp_path):
    home, work = Home(tmp_path / "home"), tmp_path / "work"
    # The questions stand beside the answers only, and are known from there.
    answers = [{"id": row["id"], "question": row["question"], "answer": "?", "lang": "en"} for row in ROWS[:2]]
    references = [{"id": row["id"], "reference": row["reference"]} for row in ROWS[:2]]
    files = jsonl(tmp_path / "old.jsonl", answers), jsonl(tmp_path / "faq.jsonl", references)
    run(home, Source(*files, "faq", "old", slices=("lang",)))
    found = find_questions(home, "faq", work)
    assert (found.dataset, found.known) == ("faq", None)
    assert [(question.sample_id, question.values) for question in questions(found, "{lang}: {question}", work)] == [
        ("q1", {"lang": "en", "question": "Capital of France?"}), ("q2", {"lang": "en", "question": " "}),
    ]  # fmt: skip
    message = refusal(list, questions(found, "{golden}", work))
    assert message.startswith("template: the data set faq has no column 'golden' with a text; there are ")
    message = refusal(find_questions, home, "fqa", work)
    assert message == f"fqa: no such file, and no data set of this name in {home} (there are faq)"
    assert "has its own name, columns and slices" in refusal(find_questions, home, "faq", work, name="other")


def test_a_prompt_is_a_text_or_the_file_that_has_it(tmp_path):
    file = tmp_path / "my prompt.txt"
    file.write_text("Be brief.\nBe kind.\n")
    assert text_or_file(str(file)) == "Be brief.\nBe kind."
    for text in ("Be brief.", "x" * 5_000):
        assert text_or_file(text) == text
    assert refusal(text_or_file, "prompt.txt") == "prompt.txt: there is no such file"
    file.write_bytes(b"\xff\xfe")
    assert "not a text in UTF-8" in refusal(text_or_file, str(file))
