"""What the page shows is plain values, and JSON."""

import json
import math
from dataclasses import replace

import pytest

from answerkey.tasks.publish.page.model import as_json
from tests.tasks.publish.page.page_help import FIELDS, VERDICT, field_comparison, page, release, report, score


def test_a_page_is_json_with_every_value_in_its_place() -> None:
    made = replace(page(3), gates=(VERDICT,))
    found = json.loads(as_json(made))
    assert found["gates"][0]["verdict"]["rules"][0]["sentence"] == "It lost 0.1."
    assert found["samples"]["ids"] == ["id 0", "id 1", "id 2"]
    assert found["samples"]["answers"][1]["values"]["rouge_l.recall"] == [1.0, 0.5, None]
    assert found["samples"]["answers"][1]["unscored"]["rouge_l"]["2"] == ["failed", "why 0"]
    assert found["releases"][1]["report"]["scores"][0]["mean"] == 0.6
    assert found["history"][0]["methods"] == 1


def test_a_nan_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_json(field_comparison(difference=math.nan))


def test_what_is_no_part_of_a_page_is_refused() -> None:
    with pytest.raises(TypeError, match="set is not JSON"):
        as_json({"a": {1}})


def test_every_field_has_a_line_and_the_first_of_a_metric_is_marked() -> None:
    found = [(line.field.name, line.first, line.headline, len(line.cells)) for line in page().lines]
    assert found == [
        ("rouge_l.recall", True, True, 2),
        ("rouge_l.f1", False, False, 2),
        ("exact_match.match", True, True, 2),
    ]


def test_a_release_without_a_field_has_an_empty_cell() -> None:
    fewer = report("new", scores=(score(FIELDS[0], 0.5),))
    lines = replace(page(), releases=(release("old"), replace(release("new"), report=fewer))).lines
    assert [[cell is None for cell in line.cells] for line in lines] == [[False, False], [False, True], [False, True]]


def test_slices_of_the_field_that_decides_come_first() -> None:
    found = replace(page(), primary=FIELDS[2]).slice_tables
    assert [(table.field, table.column) for table in found] == [(name, "lang") for name in (FIELDS[2], *FIELDS[:2])]
    [line] = found[0].lines
    assert (line.value, line.n, [cell.mean for cell in line.cells if cell]) == ("en", 10, [0.3, 0.3])


def test_of_very_many_slices_the_largest_are_kept() -> None:
    many = tuple(score(FIELDS[0], 0.5, f"id=a={n}", n=n + 1) for n in range(100))
    sliced = replace(release("a"), report=report("a", scores=many))
    [table] = replace(page(), fields=page().fields[:1], releases=(sliced,)).slice_tables
    assert [line.value for line in table.lines[:2]] == ["a=99", "a=98"]
    assert (len(table.lines), table.left_out) == (40, 60)


def test_reports_of_one_command_share_its_recipe() -> None:
    made = page(names=("a", "b", "c"))
    other = replace(made.releases[2], command="answerkey evaluate other.jsonl")
    found = replace(made, releases=(*made.releases[:2], other)).recipes
    assert [(recipe.command, [one.label for one in recipe.releases]) for recipe in found] == [
        ("answerkey evaluate a.jsonl", ["a", "b"]),
        ("answerkey evaluate other.jsonl", ["c"]),
    ]
