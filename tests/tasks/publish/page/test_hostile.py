"""Hostile data in a real browser: they do nothing, there and in what is exported."""

import csv
import io

import pytest
from playwright.sync_api import Error, expect

from tests.tasks.publish.page.page_help import page
from tests.tasks.publish.page.test_html import HOSTILE

FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", '=cmd|" /C calc"!A0', " =1", "\uff1d1")
LONG = "x" * 200_000


def hostile(kind, place):
    if kind.startswith("answer"):
        return LONG if place == 0 else FORMULAS[place % len(FORMULAS)]
    return f"{kind} {place} {' '.join(HOSTILE)}"


def test_hostile_data_do_nothing(show):
    names = (f"{HOSTILE[0]} {HOSTILE[7]}", HOSTILE[1])
    opened = show(page(12, names=names, text=hostile))
    for toggle in opened.page.locator(".toggle").all():
        toggle.click()
    opened.page.get_by_label("Search").fill("<script>")
    expect(opened.status).to_have_text("12 of 12 samples")
    assert opened.page.locator("img, iframe, [onerror], [onfocus], [style]").count() == 0
    assert opened.page.evaluate("document.scripts.length") == 2
    # No character that turns the direction of text is left, and every text has a direction of its own.
    assert not set("\u202e\u2066") & set(opened.page.inner_text("body"))
    expect(opened.page.locator(".mark", has_text="RLO").first).to_be_visible()
    isolated = "[...document.querySelectorAll('bdi')].every(one => getComputedStyle(one).unicodeBidi === 'isolate')"
    assert opened.page.evaluate(isolated)


def test_a_script_that_gets_into_the_page_is_not_run(show):
    """Should the escaping ever fail: the policy of the page is the second lock."""
    spoilt = "<script>document.title = 1</script><p id=p onclick='document.title = 1'>press</p><style>p{top:0}</style>"
    opened = show(page(4), spoilt=spoilt)
    opened.page.locator("#p").click()
    assert opened.page.title() != "1"
    with pytest.raises(Error, match="TrustedHTML"):
        opened.page.evaluate("document.body.innerHTML = '<b>x</b>'")
    assert len(opened.problems) == 4
    assert all("Content Security Policy" in problem or "TrustedHTML" in problem for problem in opened.problems)
    opened.problems.clear()


@pytest.mark.slow
def test_a_very_long_answer_is_shown_short_until_it_is_asked_for(show):
    opened = show(page(2, text=hostile))
    opened.page.get_by_role("button", name="Details of").first.click()
    detail = opened.page.locator("td.detail")
    shown = detail.locator(".text", has_text="xxx").first
    assert len(shown.inner_text()) < 1500
    button = detail.get_by_role("button", name="Show all 200,000 characters").first
    button.click()
    assert len(shown.inner_text()) == 200_000
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    detail.get_by_role("button", name="Show less").first.click()
    assert len(shown.inner_text()) < 1500


def test_no_cell_of_the_csv_is_a_formula_and_every_text_comes_back(show, tmp_path):
    opened = show(page(9, text=hostile, names=("=old", "new")))
    opened.choose("Show", "all samples")
    with opened.page.expect_download() as started:
        opened.page.get_by_role("button", name="Export these rows as CSV").click()
    started.value.save_as(tmp_path / "rows.csv")
    assert started.value.suggested_filename == "set-samples.csv"
    text = (tmp_path / "rows.csv").read_text(encoding="utf-8-sig")
    csv.field_size_limit(len(LONG) + 1)
    head, *rows = csv.reader(io.StringIO(text, newline=""))
    by_id = {row[0]: dict(zip(head, row, strict=True)) for row in rows}
    assert len(by_id) == 9
    for place in range(1, 9):
        row = by_id[hostile("id", place)]
        assert row["new: answer"] == f"'{FORMULAS[place % len(FORMULAS)]}"
        assert row["question"] == hostile("question", place)
    assert by_id[hostile("id", 0)]["new: answer"] == LONG
    assert by_id[hostile("id", 8)]["'=old: rouge_l.recall"] == "1"
    for cell in (cell for row in (head, *rows) for cell in row):
        assert not cell.lstrip().startswith(("=", "+", "@", "\uff1d")), cell[:50]
