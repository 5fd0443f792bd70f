"""What the tables of the page say."""

from dataclasses import replace

from answerkey.metrics_core.comparison import Comparison
from answerkey.tasks.publish.page import tables
from tests.tasks.publish.page.page_help import FIELDS, field_comparison, page, release, report, score


def test_headline_fields_come_first_and_all_others_apart():
    shown = tables.headline_scores(page())
    assert shown.head == ("metric", "old", "new")
    assert [tuple(map(str, row)) for row in shown.rows] == [
        ("rouge_l.recall", "0.500 [0.400, 0.600]", "0.600 [0.500, 0.700]"),
        ("exact_match.match", "0.300 [0.200, 0.400]", "0.300 [0.200, 0.400]"),
        ("scored/total", "10/10", "10/10"),
        ("median length, characters", "20", "20"),
    ]
    assert shown.parted == [False, False, True, False]
    assert [row[0] for row in tables.other_scores(page()).rows] == ["rouge_l.f1"]


def test_a_release_without_a_field_has_an_empty_cell():
    fewer = report("new", scores=(score(FIELDS[0], 0.5),))
    made = replace(page(), releases=(release("old"), replace(release("new"), report=fewer)))
    cells = [[str(cell) for cell in row[1:]] for row in tables.headline_scores(made).rows[:2]]
    assert [[cell == "–" for cell in row] for row in cells] == [[False, False], [False, True]]


def test_a_slice_has_its_score_in_every_release_and_how_many_answers_it_is_of():
    shown = tables.slices(page(), FIELDS[2])
    assert (shown.title, shown.head) == (
        "exact_match.match by slice: mean [95 % interval]", ("slice", "old", "new", "scored")
    )  # fmt: skip
    assert [list(map(str, row)) for row in shown.rows] == [
        ["lang=en", "0.300 [0.200, 0.400]", "0.300 [0.200, 0.400]", "10"]
    ]


def test_a_release_may_be_called_as_a_column_is():
    made = page(names=("clusters", "scored"))
    shown = tables.slices(made, FIELDS[0]).folded()
    assert tuple(shown.head) == ("slice", "clusters", "scored", "scored")
    [row] = shown.rows
    assert [str(cell) for cell in row] == ["lang=en", "0.500 [0.400, 0.600]", "0.600 [0.500, 0.700]", "10"]
    assert [str(cell) for cell in tables.headline_scores(made).folded().rows[0]][1:] == [str(cell) for cell in row][1:3]


def test_of_very_many_slices_the_largest_are_kept():
    many = tuple(score(FIELDS[0], 0.5, f"id=a={n}", n=n + 1) for n in range(100))
    sliced = replace(release("a"), report=report("a", scores=many))
    shown = tables.slices(replace(page(), fields=page().fields[:1], releases=(sliced,)), FIELDS[0])
    assert [row[0] for row in shown.rows[:2]] == ["id=a=99", "id=a=98"]
    assert len(shown.rows) == 40
    assert shown.notes == ["The largest values of each column; 60 smaller ones are in the warehouse."]


def test_comparisons_of_slices_are_grouped_by_the_field_that_decides():
    rows = tuple(field_comparison(name, slice=part) for name in FIELDS[:2] for part in ("all", "lang=en", "lang=ru"))
    overall, first, other = tables.differences(Comparison("a", "b", rows), FIELDS[0])
    assert [row[0] for row in overall.rows] == [*FIELDS[:2]]
    assert (first.title, [row[0] for row in first.rows]) == ("rouge_l.recall by slice", ["lang=en", "lang=ru"])
    assert (other.title, [row[0] for row in other.rows]) == ("Other metrics by slice", ["lang=en", "lang=ru"])
    assert len(tables.differences(Comparison("a", "b", rows[:1]), FIELDS[0])) == 1


def test_rows_that_only_one_side_has_and_the_test_stand_below_on_the_page():
    row = field_comparison(
        n_only_old=1234, missing_new={"failed": 1200, "absent": 34}, n_only_new=1, n_clusters=5, needed=900, low=-0.1
    )
    [table] = tables.differences(Comparison("a", "b", (row,)), FIELDS[0])
    cells = dict(zip(table.folded().head, table.folded().rows[0], strict=True))
    below = {name: cells[name].below for name in ("samples", "p adjusted", "detectable")}
    assert below == {
        "samples": ("only old 1,234 (1,200 failed, 34 absent)", "only new 1", "5 clusters"),
        "p adjusted": ("permutation",),
        "detectable": ("~900 needed",),
    }
    assert (table.records()[0]["clusters"], table.records()[0]["needed"]) == ("5", "~900")


def test_tests_are_named_in_words():
    named = []
    for name in ("mcnemar", "sign-flip", "another", ""):
        [table] = tables.differences(Comparison("a", "b", (field_comparison(test=name),)), FIELDS[0])
        named.append(table.folded().rows[0][table.folded().head.index("p adjusted")].below)
    assert named == [("McNemar, exact",), ("permutation",), ("another",), ()]
