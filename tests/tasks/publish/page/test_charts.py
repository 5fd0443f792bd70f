"""Plots show every number of their rows, follow the page's colours, and hold nothing but shapes and text."""

import re
from xml.etree import ElementTree

from answerkey.metrics_core.comparison import Comparison
from answerkey.tasks.publish import tables
from answerkey.tasks.publish.page import charts
from answerkey.tasks.publish.table import Cell
from answerkey.tasks.reports.report import ReportPoint
from tests.tasks.publish.page.page_help import FIELDS, field_comparison, page


def texts(drawing):
    return [element.text or "" for element in ElementTree.fromstring(drawing).iter() if element.tag.endswith("text")]


def places(drawing, names):
    """Where the texts `names` stand."""
    return {
        f"{element.get('x')},{element.get('y')}"
        for element in ElementTree.fromstring(drawing).iter()
        if element.tag.endswith("text") and element.text in names
    }


def fills(drawing):
    return re.findall(r'(?:fill|stroke)="(var\(--\w+\)|#\w+)"', drawing)


def test_differences_are_coloured_by_what_was_found_and_the_margin_is_drawn():
    rows = (
        field_comparison(),
        field_comparison(FIELDS[1], difference=-0.1, low=-0.2, high=-0.05),
        field_comparison(FIELDS[2], difference=0.0, low=-0.1, high=0.1),
        field_comparison(slice="lang=en", difference=0.9),
        field_comparison("bleu.bleu", difference=None),
    )
    drawing = charts.difference_plot(Comparison("old", "new", rows, margin=0.02), FIELDS[::-1], 300)
    shown = texts(drawing)
    assert {"rouge_l.recall", "+0.100", "\u22120.100", "0.000"} <= set(shown)
    assert "+0.900" not in shown and "bleu.bleu" not in shown
    assert {"var(--better)", "var(--worse)", "var(--muted)"} <= set(fills(drawing))
    assert 'stroke-dasharray="4,3"' in drawing
    # A line of its own for each row: the layers share one scale from top to bottom.
    assert len(places(drawing, {"rouge_l.recall", "rouge_l.f1", "exact_match.match"})) == 3
    assert "rouge_l.f1" not in texts(charts.difference_plot(Comparison("old", "new", rows), FIELDS[:1], 300))
    elsewhere = charts.difference_plot(Comparison("old", "new", rows, margin=0.02), ("label.correct", *FIELDS), 300)
    assert "stroke-dasharray" not in elsewhere
    assert charts.difference_plot(Comparison("old", "new", ()), FIELDS, 300) is None


def test_on_a_phone_the_line_at_zero_does_not_cross_the_names_above_the_intervals():
    rows = (field_comparison(), field_comparison(FIELDS[1], difference=-0.1, low=-0.2, high=-0.05))
    drawing = charts.difference_plot(Comparison("old", "new", rows), FIELDS, charts.NARROW)
    names = sorted(float(place.partition(",")[2]) for place in places(drawing, {"rouge_l.recall", "rouge_l.f1"}))
    zero = sorted(
        map(float, re.findall(r'<line x1="[\d.]+" y1="([\d.]+)"[^>]*stroke="var\(--muted\)"[^>]*width="1.2"', drawing))
    )
    assert len(names) == len(zero) == 2
    assert all(4 < line - name < 12 for name, line in zip(names, zero, strict=True))


def test_what_length_alone_moves_is_grey_and_says_so():
    rows = (field_comparison(), field_comparison(FIELDS[1]))
    longer = Comparison("old", "new", rows, ("answers are 2 times longer. Scores that reward overlap move with it",))
    names = ("rouge_l.recall (moves with length)", "rouge_l.f1 (moves with length)")
    drawing = charts.difference_plot(longer, FIELDS, charts.WIDE)
    assert "rouge_l.recall" in texts(drawing) and names[1] in texts(drawing) and names[0] not in texts(drawing)
    assert fills(drawing).count("var(--better)") == 2  # the line and the mark of recall
    [table] = tables.differences(longer, FIELDS[0])
    found = {str(row[0]): row[[*table.head].index("finding")] for row in table.rows}
    assert found[FIELDS[1]] == Cell("better", kind="not compared", below=("moves with length",))
    assert found[FIELDS[0]] == Cell("better", kind="better")


def test_slices_have_a_colour_for_each_of_the_last_releases():
    many = page(names=tuple("abcdefgh"))
    drawing = charts.slice_plot(many, "lang", 300)
    assert "en" in texts(drawing)
    assert {f"var(--c{n})" for n in range(1, charts.PALETTE + 1)} <= set(fills(drawing))
    assert charts.slice_plot(many, "no such", 300) is None


def test_history_has_the_newest_report_of_each_release_or_all_of_the_only_one():
    def drawn(*reports):
        history = tuple(
            ReportPoint(
                f"set/{release}/v{n}", release, n, "2026", "v", "COMPLETE", FIELDS[0], 9, 9, mean, mean, mean, 1
            )
            for release, n, mean in reports
        )
        drawing = charts.history_plot(history, FIELDS[0], 600)
        return drawing and [text for text in texts(drawing) if text[0] in "rv"]

    assert drawn(("r", 1, 0.5), ("r", 2, 0.6), ("r", 3, 0.7)) == ["v1", "v2", "v3"]
    assert drawn(("r1", 1, 0.5), ("r2", 1, 0.6), ("r1", 2, 0.7)) == ["r1", "r2"]
    assert drawn(("r", 1, 0.5)) is drawn(("r", 1, 0.5), ("r", 2, None)) is None
