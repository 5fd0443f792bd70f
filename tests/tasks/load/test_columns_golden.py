"""The golden cases of variable mapping, done by the loader's KEY=PATH.

Where this loader differs on purpose, the test says how: a text is itself and keeps no quotes, and what does not
resolve is never taken for a literal text or silently left empty everywhere.
"""

import json

import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.columns import parse_map
from tests.tasks.staging_help import rows_of, stage


def loaded(folder, path, *outputs):
    """The staged rows of a file with these outputs, the answers mapped from `path`."""
    rows = [{"id": n, "output": output, "expected_output": "right"} for n, output in enumerate(outputs)]
    done = stage(folder, rows, "traces", release="r", paths=parse_map([f"answer={path}"]))
    assert rows_of(done.rejects) == []
    return rows_of(done.staged)


def golden(shared):
    cases = json.loads((shared / "golden" / "meaning_match.json").read_text("utf-8"))["mapping"]
    assert all(case["section"] == "output" for case in cases)
    return {case["path"]: case for case in cases if case["value"] is not None or case["path"] == "output.answer"}


def test_these_are_all_golden_cases(shared):
    paths = ["output.details.unit", "output.flat.key", "output", "output.answer", "output.[0].name", "literal text"]
    assert list(golden(shared)) == paths


@pytest.mark.parametrize("path", ["output.details.unit", "output.flat.key", "output.[0].name"])
def test_a_path_into_a_column(path, shared, tmp_path):
    case = golden(shared)[path]
    [row] = loaded(tmp_path, path, case["json"])
    assert row["answer"] == case["value"]
    assert row["references"] == ["right"]


def test_a_nested_value_comes_before_a_name_with_dots(tmp_path):
    both = {"flat": {"key": "nested"}, "flat.key": "flat"}
    rows = loaded(tmp_path, "output.flat.key", both, {"flat": {}, "flat.key": "flat"}, {"flat.key": "flat"})
    # Once inside "flat" there is no way back: the second row has nothing at this path.
    assert [row["answer"] for row in rows] == ["nested", None, "flat"]


def test_a_whole_column_that_is_a_text_keeps_no_quotes(shared, tmp_path):
    case = golden(shared)["output"]
    [row] = loaded(tmp_path, "output", case["json"])
    assert (row["answer"], case["value"]) == ("just a string", '"just a string"')


def test_a_path_that_does_not_resolve_stops_or_leaves_the_row_without_an_answer(shared, tmp_path):
    case = golden(shared)["output.answer"]
    with pytest.raises(UserError) as error:
        loaded(tmp_path, "output.answer", case["json"])
    assert str(error.value).endswith(
        "traces.jsonl: no column 'output.answer' (for answer); the columns are expected_output, id, output"
    )
    # Resolved in another row, it is a column; this row then has no answer, and its measurements say so.
    rows = loaded(tmp_path, "output.answer", case["json"], {"answer": "42"})
    assert [row["answer"] for row in rows] == [None, "42"]


def test_a_text_that_is_no_path_is_not_taken_for_the_answer(shared, tmp_path):
    case = golden(shared)["literal text"]
    with pytest.raises(UserError, match="no column 'literal text'"):
        loaded(tmp_path, "literal text", case["json"])
