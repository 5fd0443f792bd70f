"""Suites of users: what a file may hold, what its expectations find, and what happens to the rows."""

import json

import pytest

from answerkey.tasks.load.load import Source
from answerkey.tasks.reports.report import read_reports
from answerkey.tasks.validate.contract import Contract
from answerkey.tasks.validate.expectations import read_suite
from answerkey.tasks.warehouse.home import Home
from tests.tasks.staging_help import jsonl, refusal, run
from tests.tasks.validate.validating_help import APOLOGY, expecting, rows, validated

LENGTHS = (
    "{type: expect_column_value_lengths_to_be_between, kwargs: {column: answer, max_value: %s}, severity: warning}"
)


def check(folder, contract, *each):
    return validated(folder, rows(*each), contract)


def test_rows_that_break_a_critical_expectation_are_quarantined_and_of_a_warning_kept(tmp_path):
    found = check(
        tmp_path, expecting(APOLOGY, LENGTHS % 12),
        {}, {"answer": "Sorry, no."}, {"answer": None}, {"answer": "I apologise for this delay."}, {"references": []},
    )  # fmt: skip
    said = "`no_apology`: No answer begins with an apology {of any kind}"
    assert found.kept == [1, 3]
    assert found.reasons == {
        **dict.fromkeys((2, 4), ("no_apology", f"breaks {said}")),
        5: ("references_present", "every reference is missing or blank"),
    }
    own, warned = found.check("no_apology"), found.check("answer_lengths_be_between")
    assert (own.severity, own.success, own.n_checked, own.n_failed) == ("critical", False, 5, 2)
    assert own.message == f"2 rows in breach of {said} (rows 2, 4)"
    assert (warned.severity, warned.success, warned.n_failed) == ("warning", False, 1)


def test_a_name_and_a_sentence_are_shown_as_they_are_in_one_line(tmp_path):
    odd = APOLOGY.replace("no_apology", '"no {x}"').replace(
        "begins with an apology {of any kind}", "\n    matches s{2}"
    )
    found = check(tmp_path, expecting(odd, max_quarantined=0.2), {}, {"answer": "Sorry."})
    assert found.reasons == {2: ("no {x}", "breaks `no {x}`: No answer matches s{2}")}
    broken = "most often `no {x}`: 1 row (row 2): in breach of `no {x}`: No answer matches s{2}. "
    assert broken in found.validation.broken


def test_what_mostly_allows_is_kept(tmp_path):
    mostly = expecting(APOLOGY.replace("answer,", "answer, mostly: 0.75,"))
    answers = [{}, {"answer": "Sorry."}, {}, {}, {"answer": None}]
    found = check(tmp_path, mostly, *answers)
    own = found.check("no_apology")
    assert (found.kept, own.success, own.n_failed) == ([1, 2, 3, 4, 5], True, 1)
    assert own.message.endswith("(row 2), which is no more than the expectation allows")
    assert check(tmp_path, mostly, *answers, {"answer": "Sorry!"}).kept == [1, 3, 4, 5]


CONDITIONS = (
    APOLOGY.replace(
        "answer,",
        """answer, row_condition: {type: and, conditions: [
    {type: comparison, column: {name: topic}, operator: ==, parameter: law},
    {type: nullity, column: {name: question}, is_null: false}]},""",
    ),
    LENGTHS % """2, row_condition: 'col("topic") == "art"', condition_parser: great_expectations""",
    "{type: expect_column_pair_values_a_to_be_greater_than_b, "
    "kwargs: {column_A: question_chars, column_B: n_references}}",
    "{type: expect_compound_columns_to_be_unique, kwargs: {column_list: [question, answer]}, meta: {name: new}}",
    "{type: expect_column_values_to_be_in_set, kwargs: {column: topic, value_set: [law, art]}}",
)


def test_conditions_pairs_keys_and_slices(tmp_path):
    law, art = {"slices": {"topic": "law"}}, {"slices": {"topic": "art"}}
    found = check(
        tmp_path, expecting(*CONDITIONS),
        {"answer": "Sorry.", **law}, {"answer": "Sorry.", **art, "question": "Why?"}, {"question": "", **art},
        {"answer": "A", **law}, {"answer": "A", **law}, {"slices": {"topic": "x"}},
    )  # fmt: skip
    assert {number: rule for number, (rule, _) in found.reasons.items()} == {
        1: "no_apology", 3: "question_chars_n_references_a_be_greater_than_b", 4: "new", 5: "new",
        6: "topic_be_in_set",
    }  # fmt: skip
    assert "(rows 2, 3)" in found.check("answer_lengths_be_between").message


def test_an_expectation_about_another_column_of_the_data(tmp_path):
    priced = "{type: expect_column_values_to_match_regex, kwargs: {column: price, regex: '^[0-9.]+$'}}"
    found = check(
        tmp_path, expecting(priced), {"columns": {"price": "3.50"}}, {"columns": {"price": "free"}},
        {"columns": {"tone": "polite"}},
    )  # fmt: skip
    assert {number: rule for number, (rule, _) in found.reasons.items()} == {2: "price_match_regex"}


SCHEMA = """{type: expect_column_values_to_match_json_schema, kwargs: {column: answer, json_schema: {
    $id: "http://127.0.0.1:1/answer", properties: {city: {$ref: "#/$defs/name"}},
    $defs: {name: {type: string, examples: [{id: x}]}}}}}"""


def test_a_json_schema_that_refers_to_its_own_parts(tmp_path):
    found = check(tmp_path, expecting(SCHEMA), {"answer": '{"city": "Paris"}'}, {"answer": '{"city": 1}'})
    assert (found.kept, found.reasons[2][0]) == ([1], "answer_match_json_schema")


@pytest.mark.parametrize(("severity", "stops"), [("critical", True), ("warning", False), ("info", False)])
def test_an_expectation_about_the_whole_stops_or_warns(tmp_path, severity, stops):
    contract = expecting(
        f"{{type: expect_table_row_count_to_be_between, kwargs: {{min_value: 3}}, severity: {severity}}}",
        "{type: expect_column_mean_to_be_between, kwargs: {column: answer_chars, max_value: 5}, severity: "
        f"{severity}, description: Answers are brief}}",
    )
    found = check(tmp_path, contract, {}, {}, {})
    assert found.kept == [1, 2, 3]
    assert found.check("row_count_be_between").success
    message = "the data break `answer_chars_mean_be_between`: Answers are brief; observed: 10.0"
    assert found.check("answer_chars_mean_be_between").message == message
    assert found.validation.broken == (message if stops else None)


def test_a_suite_of_great_expectations_0_18_has_older_names():
    older = {
        "expectation_suite_name": "answers",
        "expectations": [
            {"expectation_type": "expect_column_values_to_not_be_null", "kwargs": {"column": "answer"}, "meta": {}},
            {"expectation_type": "expect_column_values_to_be_in_set", "kwargs": {"column": "id", "value_set": ["1"]}},
        ],
        "meta": {"great_expectations_version": "0.18.19"},
    }
    suite = read_suite(json.dumps(older) + "\n")
    assert (suite.name, len(suite.expectations)) == ("answers", 2)


WRONG = [
    (
        "{expectations: [",
        ":1: not YAML: expected the node content, but found '<stream end>'; check the indentation, and "
        "put a text with a colon, bracket or star in quotes",
    ),
    ("{expectations: [], expectations: []}", ":1: expectations: is here twice, first in line 1; keep one"),
    ("{a: 1}", ": not a suite: it needs a list `expectations`, each with `type` and `kwargs`"),
    ("{expectations: [{kwargs: {}}]}", ": expectation 1: no `type`, such as expect_column_values_to_not_be_null"),
    (
        "{expectations: [{type: expect_column_values_to_not_be_nul}]}",
        ": expectation 1: there is no expect_column_values_to_not_be_nul; did you mean "
        "expect_column_values_to_not_be_null?",
    ),
    (
        "{expectations: [{type: expect_column_values_to_not_be_null}]}",
        ": expectation 1 (expect_column_values_to_not_be_null): column: field required",
    ),
    (
        "{expectations: [{type: expect_column_values_to_not_be_null, kwargs: {column: anser}}]}",
        ": expectation 1 (anser_not_be_null): there is no column 'anser'; did you mean answer?",
    ),
    (
        "{expectations: [{type: expect_column_to_exist, kwargs: {column: answer}, meta: {name: encoding}}]}",
        ": expectation 1: the name 'encoding' is taken; give it one in `meta: name`",
    ),
    (
        "{expectations: [{type: expect_column_values_to_not_be_null, kwargs: {column: answer}, severity: bad}]}",
        ": expectation 1 (expect_column_values_to_not_be_null): Invalid severity 'bad'. "
        "Must be one of: critical, warning, info",
    ),
    (
        "{expectations: [{type: expect_column_values_to_not_be_null, kwargs: {column: answer, row_condition: "
        "{type: nullity, column: {name: releas}, is_null: false}}}]}",
        ": expectation 1 (answer_not_be_null): there is no column 'releas'; did you mean release?",
    ),
    (
        "{expectations: [{type: expect_column_values_to_not_be_null, kwargs: {column: <b>}}]}",
        ": expectation 1 (expect_column_values_to_not_be_null): '<b>': the name of a column cannot have < in it; "
        "rename the column",
    ),
    (
        "{expectations: [{type: expect_column_values_to_match_json_schema, "
        "kwargs: {column: answer, json_schema: &a {not: *a}}}]}",
        ":1: nested more than 20 levels deep",
    ),
    (
        "{expectations: [{type: unexpected_rows_expectation, kwargs: {unexpected_rows_query: SELECT 1}}]}",
        ": expectation 1: unexpected_rows_expectation needs a database; the rows are checked in memory",
    ),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_a_wrong_suite_is_one_line(tmp_path, text, message):
    file = tmp_path / "suite.yaml"
    file.write_text(text)
    for given, where in ((text, "expectations"), (str(file), str(file))):
        assert refusal(read_suite, given, ()) == where + message


def test_the_text_of_a_file_is_kept_and_is_the_same_suite(tmp_path):
    file = tmp_path / "suite.yaml"
    file.write_text("\ufeff- type: expect_table_row_count_to_be_between\n  kwargs:\n    min_value: 3")
    assert "No such file or directory" in refusal(read_suite, f"{file}.json")
    given = read_suite(str(file))
    assert given.text == "- type: expect_table_row_count_to_be_between\n  kwargs:\n    min_value: 3\n"
    assert read_suite(given.text).expectations == given.expectations
    source = Source(jsonl(tmp_path / "a.jsonl", [{"id": n, "answer": "a", "reference": "a"} for n in range(3)]))
    done = run(tmp_path / "home", source, ("exact_match",), contract=Contract(expectations=str(file)))
    [report] = read_reports(Home(tmp_path / "home"), done.ids)
    assert report.manifest["expectations"] == given.text
