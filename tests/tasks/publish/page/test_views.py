"""The tables of the page, cell by cell."""

from dataclasses import replace

from answerkey.metrics_core.comparison import Pair
from answerkey.tasks.publish.page import views
from tests.tasks.publish.page.page_help import FIELDS, comparison, page, release, report, score


def test_every_field_has_a_line_and_the_first_of_a_metric_is_marked() -> None:
    found = [(line.field.name, line.first, line.headline, len(line.cells)) for line in views.lines(page())]
    assert found == [
        ("rouge_l.recall", True, True, 2),
        ("rouge_l.f1", False, False, 2),
        ("exact_match.match", True, True, 2),
    ]


def test_a_release_without_a_field_has_an_empty_cell() -> None:
    fewer = report("new", scores=(score(FIELDS[0], 0.5),))
    lines = views.lines(replace(page(), releases=(release("old"), replace(release("new"), report=fewer))))
    assert [[cell is None for cell in line.cells] for line in lines] == [[False, False], [False, True], [False, True]]


def test_slices_of_the_field_that_decides_come_first() -> None:
    found = views.slice_tables(replace(page(), primary=FIELDS[2]))
    assert [(table.field, table.column) for table in found] == [(name, "lang") for name in (FIELDS[2], *FIELDS[:2])]
    [line] = found[0].lines
    assert (line.value, line.n, [cell.mean for cell in line.cells if cell]) == ("en", 10, [0.3, 0.3])


def test_of_very_many_slices_the_largest_are_kept() -> None:
    many = tuple(score(FIELDS[0], 0.5, f"id=a={n}", n=n + 1) for n in range(100))
    [table] = views.slice_tables(
        replace(page(), fields=page().fields[:1], releases=(replace(release("a"), report=report("a", scores=many)),))
    )
    assert [line.value for line in table.lines[:2]] == ["a=99", "a=98"]
    assert (len(table.lines), table.left_out) == (40, 60)


def test_comparisons_of_slices_are_parted_by_the_field_that_decides() -> None:
    rows = tuple(comparison(name, slice=part) for name in FIELDS[:2] for part in ("all", "lang=en", "lang=ru"))
    first, other = views.by_slice(Pair("a", "b", rows), FIELDS[0])
    assert (first[0], [row.slice for row in first[1]]) == ("rouge_l.recall by slice", ["lang=en", "lang=ru"])
    assert (other[0], {row.name for row in other[1]}) == ("Other metrics by slice", {"rouge_l.f1"})
    assert views.by_slice(Pair("a", "b", rows[:1]), FIELDS[0]) == ()


def test_rows_that_only_one_side_has_say_what_they_are_on_the_other() -> None:
    row = comparison(n_only_old=1234, missing_new={"failed": 1200, "absent": 34}, n_only_new=1)
    assert views.one_sided(row) == ("only old 1,234 (1,200 failed, 34 absent)", "only new 1")
    assert views.one_sided(comparison()) == ()


def test_tests_are_named_in_words() -> None:
    assert [views.test_name(comparison(test=name)) for name in ("mcnemar", "sign-flip", "another", "")] == [
        "McNemar, exact", "sign flips", "another", "",
    ]  # fmt: skip


def test_reports_of_one_command_share_its_recipe() -> None:
    made = page(names=("a", "b", "c"))
    other = replace(made.releases[2], command="answerkey evaluate other.jsonl")
    found = views.recipes(replace(made, releases=(*made.releases[:2], other)))
    assert [(recipe.command, [one.label for one in recipe.releases]) for recipe in found] == [
        ("answerkey evaluate a.jsonl", ["a", "b"]),
        ("answerkey evaluate other.jsonl", ["c"]),
    ]
