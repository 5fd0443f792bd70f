"""The example data is what its README says: counted in the files, row by row."""

import ast
import json
import re
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
RELEASES = ("aurora-1", "aurora-2")
KINDS = ("number", "date", "name", "list", "negation", "yes_no", "multi_fact", "definition")
Row = dict[str, Any]


def _read(name):
    return [json.loads(line) for line in (EXAMPLES / name).read_text(encoding="utf-8").splitlines()]


QUESTIONS = _read("questions.jsonl")
ANSWERS = _read("answers.jsonl")
README = (EXAMPLES / "README.md").read_text(encoding="utf-8")
BY_ID = {row["id"]: row for row in QUESTIONS}
BY_KEY = {(row["id"], row["release"]): row for row in ANSWERS}


def _right(release, **where):
    """Number of answers of `release` labelled right, on the questions whose columns equal `where`."""
    return sum(
        row["correct"]
        for row in ANSWERS
        if row["release"] == release and all(BY_ID[row["id"]][key] == value for key, value in where.items())
    )


def _table_row(first_cell):
    """The cells after the first one of the README's only table row that starts with `first_cell`."""
    found = [line for line in README.splitlines() if line.startswith(f"| {first_cell} |")]
    assert len(found) == 1, f"README has {len(found)} table rows for {first_cell!r}"
    return [cell.strip() for cell in found[0].strip().strip("|").split("|")][1:]


def _showcase(what):
    """The answers that the README's table of hard rows names for `what`; each has the label it claims."""
    cells = _table_row(what)
    keys = re.findall(r"`([a-z0-9-]+)` (aurora-[12])", cells[0])
    assert len(keys) == cells[0].count("`") // 2 > 0
    rows = [BY_KEY[key] for key in keys]
    assert [row["correct"] for row in rows] == [cells[1] == "true"] * len(rows)
    return rows


def _words(text):
    return re.findall(r"\w+", text.casefold())


def _shared(row):
    """Shares of common words (of the reference, of the answer), 0 to 1, each the best over the references."""
    answer = set(_words(row["answer"]))
    references = [set(_words(text)) for text in BY_ID[row["id"]]["references"]]
    common = [(len(words & answer), len(words)) for words in references]
    return max(n / size for n, size in common), max(n / len(answer) for n, _ in common)


def _texts(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)


@pytest.mark.parametrize("name", ["questions.jsonl", "answers.jsonl", "traces.jsonl", "README.md"])
def test_files_are_plain_utf8_in_normal_form(name):
    data = (EXAMPLES / name).read_bytes()
    text = data.decode("utf-8")
    assert not data.startswith(b"\xef\xbb\xbf")
    assert text.endswith("\n") and "\r" not in text and "\n\n\n" not in text
    assert unicodedata.is_normalized("NFC", text)


def test_texts_have_no_stray_space_or_control_character():
    """Escapes in JSON can hide what the file's bytes do not show, so the decoded strings are checked too."""
    for text in _texts([QUESTIONS, ANSWERS]):
        assert text == text.strip() and "  " not in text, text
        assert unicodedata.is_normalized("NFC", text), text
        assert not {unicodedata.category(char) for char in text} & {"Cc", "Cf", "Co", "Cn"}, text


def test_row_counts():
    assert (len(QUESTIONS), len(ANSWERS)) == (76, 152)
    assert "`questions.jsonl`: 76 questions" in README
    assert "`answers.jsonl`: 152 answers" in README


def test_columns_and_ids_of_the_questions():
    short = {"num": "number", "neg": "negation", "yn": "yes_no", "multi": "multi_fact", "def": "definition"}
    assert len(BY_ID) == len(QUESTIONS)
    assert len({row["question"] for row in QUESTIONS}) == len(QUESTIONS)
    for row in QUESTIONS:
        lang, kind, number = row["id"].split("-")
        assert (lang, short.get(kind, kind)) == (row["lang"], row["kind"])
        assert re.fullmatch(r"\d\d", number)
        assert set(row) - {"facts"} == {"id", "question", "references", "kind", "lang"}
        assert row["question"].strip()


def test_the_language_of_the_questions():
    for row in QUESTIONS:
        assert bool(re.search("[\u0400-\u04ff]", row["question"])) == (row["lang"] == "ru"), row["id"]


def test_references_are_one_to_four_different_texts():
    for row in QUESTIONS:
        references = row["references"]
        assert isinstance(references, list) and 1 <= len(references) <= 4, row["id"]
        assert all(isinstance(ref, str) and ref.strip() for ref in references), row["id"]
        assert len({ref.casefold() for ref in references}) == len(references), row["id"]
    assert {len(row["references"]) for row in QUESTIONS} == {1, 2, 3, 4}
    assert sum(len(row["references"]) > 1 for row in QUESTIONS) > 0.9 * len(QUESTIONS)


def test_facts_belong_to_lists_and_multi_fact_answers():
    for row in QUESTIONS:
        assert ("facts" in row) == (row["kind"] in {"list", "multi_fact"}), row["id"]
        facts = row.get("facts", [])
        assert len(facts) == len(set(facts)) and len(facts) != 1, row["id"]
        assert all(isinstance(fact, str) and fact.strip() for fact in facts), row["id"]


def test_both_releases_answer_every_question_once():
    assert len(BY_KEY) == len(ANSWERS)
    assert set(BY_KEY) == {(row["id"], release) for row in QUESTIONS for release in RELEASES}
    for row in ANSWERS:
        assert set(row) == {"id", "release", "answer", "correct"}
        assert isinstance(row["correct"], bool)
        assert row["answer"] is None or isinstance(row["answer"], str)


@pytest.mark.parametrize("kind", KINDS)
def test_counts_of_a_kind(kind):
    count = Counter(row["lang"] for row in QUESTIONS if row["kind"] == kind)
    assert count["en"] >= 5 and count["ru"] >= 4
    right = [_right(release, kind=kind) for release in RELEASES]
    assert _table_row(kind) == [str(n) for n in (count["en"], count["ru"], count.total(), *right)]


def test_counts_over_all_kinds():
    count = Counter(row["lang"] for row in QUESTIONS)
    assert {row["kind"] for row in QUESTIONS} == set(KINDS)
    assert (count["en"], count["ru"]) == (44, 32)
    assert [_right(release) for release in RELEASES] == [51, 55]
    assert _table_row("all") == ["44", "32", "76", "51", "55"]


@pytest.mark.parametrize("release", RELEASES)
def test_counts_of_a_release(release):
    right = _right(release)
    by_lang = [f"{_right(release, lang=lang)} of {n}" for lang, n in (("en", 44), ("ru", 32))]
    assert _table_row(release) == [f"{right} of 76", f"{100 * right / 76:.1f} %", *by_lang]


def test_where_the_second_release_is_better_and_where_worse():
    gain = {kind: _right("aurora-2", kind=kind) - _right("aurora-1", kind=kind) for kind in KINDS}
    assert {kind for kind in KINDS if gain[kind] > 0} == {"list", "yes_no", "multi_fact", "definition"}
    assert {kind for kind in KINDS if gain[kind] < 0} == {"number", "date", "negation"}
    text = " ".join(README.split())
    assert "better on `list`, `yes_no`, `multi_fact` and `definition`, " in text
    assert "worse on `number`, `date` and `negation`, " in text


def test_the_releases_disagree_in_both_directions():
    pairs = Counter(tuple(BY_KEY[row["id"], release]["correct"] for release in RELEASES) for row in QUESTIONS)
    assert pairs == {(True, True): 34, (True, False): 17, (False, True): 21, (False, False): 4}
    line = "Both are right on 34 questions, only `aurora-1` on 17, only `aurora-2` on 21, neither on 4."
    assert line in README


def test_the_second_release_writes_longer_answers():
    length = {
        release: sum(len(_words(row["answer"] or "")) for row in ANSWERS if row["release"] == release) / 76
        for release in RELEASES
    }
    assert length["aurora-1"] < 3 and length["aurora-2"] > 10


def test_a_copy_of_a_reference_is_labelled_right():
    """Case and a final full stop aside; signs count, because "5" is no copy of "-5"."""
    copies = [
        row
        for row in ANSWERS
        if row["answer"]
        and row["answer"].casefold().rstrip(".")
        in [ref.casefold().rstrip(".") for ref in BY_ID[row["id"]]["references"]]
    ]
    assert len(copies) >= 20
    assert [row for row in copies if not row["correct"]] == []


def test_missing_answers():
    missing = [row for row in ANSWERS if not row["answer"]]
    assert sorted(repr(row["answer"]) for row in missing) == ["''", "None"]
    assert sorted(map(repr, missing)) == sorted(map(repr, _showcase("missing: empty or null")))


def test_refusals():
    refusal = re.compile(r"cannot answer that|не могу ответить на этот вопрос", re.IGNORECASE)
    refused = [row for row in ANSWERS if refusal.search(row["answer"] or "")]
    assert len(refused) == 4
    assert Counter(BY_ID[row["id"]]["lang"] for row in refused) == {"en": 2, "ru": 2}
    assert sorted(map(repr, refused)) == sorted(map(repr, _showcase("refusal")))


def test_hedged_answers_hold_the_right_answer_and_are_false():
    rows = _showcase("right answer, but hedged")
    assert len(rows) == 2
    for row in rows:
        assert _shared(row)[0] == 1.0, row
        assert re.search("not sure|не уверен", row["answer"]), row


def test_alternatives_hold_the_right_answer_and_are_false():
    rows = _showcase("several alternatives, one of them right")
    assert len(rows) == 3
    for row in rows:
        assert _shared(row)[0] == 1.0, row
        assert re.search(r"\b(or|или)\b", row["answer"]), row


def test_paraphrases_share_few_words_and_are_true():
    rows = _showcase("hardly a word in common with any reference")
    assert len(rows) == 3
    assert [row for row in rows if _shared(row)[1] > 0.2] == []


def test_contradictions_share_most_words_and_are_false():
    rows = _showcase("nearly every word of a reference, opposite meaning or wrong value")
    assert len(rows) == 5
    assert [row for row in rows if max(_shared(row)) < 0.8] == []
    assert (BY_KEY["en-num-05", "aurora-1"]["answer"], BY_ID["en-num-05"]["references"][0]) == ("5", "-5")


def test_the_long_paragraph_holds_its_answer():
    (row,) = _showcase("one short fact inside a long, chatty paragraph")
    assert len(_words(row["answer"])) > 80
    assert "Mercury" in row["answer"]


def test_a_spelling_without_the_dots_of_yo_is_right():
    (row,) = _showcase("Russian е written for ё")
    reference = BY_ID[row["id"]]["references"][0]
    assert "ё" in reference and row["answer"] == reference.replace("ё", "е")


@pytest.mark.parametrize("what", ["number word against digits", "alias, acronym or symbol", "incomplete"])
def test_other_hard_rows_have_their_labels(what):
    assert len(_showcase(what)) == 4


def test_traces_are_answers_of_a_release():
    traces = _read("traces.jsonl")
    assert len({trace["id"] for trace in traces}) == len(traces) == 84
    assert "`traces.jsonl`: 84 logged traces" in README
    production = [trace for trace in traces if trace["metadata"]["environment"] == "production"]
    expected = [trace for trace in traces if "expected_output" in trace["metadata"]]
    assert (len(production), len(expected)) == (66, 72)
    text = " ".join(README.split())
    assert "of which 66 are from production" in text and "72 bring the references of their question along" in text
    for trace in traces:
        question = BY_ID[trace["metadata"]["question_id"]]
        assert trace["input"]["question"] == question["question"]
        assert trace["output"]["text"] == BY_KEY[question["id"], "aurora-2"]["answer"]
        assert trace["metadata"].get("expected_output", question["references"]) == question["references"]


def test_the_command_of_the_readme_names_the_files():
    command = (
        "answerkey evaluate examples/answers.jsonl --references examples/questions.jsonl --dataset examples "
        "--map release=release --map label=correct --slice kind --slice lang"
    )
    assert README.splitlines().count(command) == 1


def test_the_notebook_runs_and_shows_what_it_says(capsys):
    cells = json.loads((EXAMPLES / "releases.ipynb").read_text(encoding="utf-8"))["cells"]
    assert all(cell.get("outputs", []) == [] for cell in cells)
    names: dict[str, Any] = {}
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
    assert len(shown) == 5
    new, comparison = names["new"], names["comparison"]
    assert new.summary().loc["meaning_match.match", "mean"] > names["old"].summary().loc["meaning_match.match", "mean"]
    assert comparison.rows[0].name == "meaning_match.match"
    assert comparison.rows[0].finding == "not shown to differ"
    assert list(names["old"].worst(3)["id"]) == ["q2", "q3", "q4"]
