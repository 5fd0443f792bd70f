"""The page on screens of every width, in the dark, by keyboard, printed, and without its script."""

from dataclasses import replace

import pytest
from playwright.sync_api import expect

from answerkey.metrics_core.comparison import Comparison
from tests.tasks.publish.page.browser_help import compared, html
from tests.tasks.publish.page.page_help import VERDICT, field_comparison, page, score


def test_the_verdict_is_on_the_first_screen_with_the_warnings(show):
    opened = show(compared())
    for text in ("FAIL", "summary 0", "Before you trust a number", "warning 0"):
        box = opened.page.locator("main").get_by_text(text, exact=text == "FAIL").first.bounding_box()
        assert box is not None and box["y"] + box["height"] < 900


@pytest.mark.slow
def test_arrows_move_between_rows_and_the_skip_link_passes_the_head(show):
    opened = show(page(4))
    toggles = opened.page.locator(".toggle")
    toggles.first.focus()
    opened.page.keyboard.press("ArrowDown")
    expect(toggles.nth(1)).to_be_focused()
    opened.page.keyboard.press("ArrowUp")
    expect(toggles.first).to_be_focused()
    opened.page.evaluate("document.activeElement.blur(); getSelection().removeAllRanges(); scrollTo(0, 0)")
    opened.page.get_by_role("link", name="Skip to the report").focus()
    expect(opened.page.get_by_role("link", name="Skip to the report")).to_be_in_viewport()
    opened.page.keyboard.press("Enter")
    expect(opened.page.locator("main")).to_be_focused()


@pytest.mark.slow
def test_sorting_keeps_the_focus(show):
    opened = show(page(4))
    head = opened.page.get_by_role("button", name="Question")
    head.focus()
    opened.page.keyboard.press("Enter")
    expect(opened.page.get_by_role("button", name="Question")).to_be_focused()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 1280])
def test_the_page_is_as_wide_as_the_screen(show, width, scheme):
    opened = show(compared(), width, color_scheme=scheme)
    opened.page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    opened.page.locator(".toggle").first.click()
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    dark = opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    assert dark == (scheme == "dark")


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("n", [2, 5])
def test_the_first_sample_is_within_two_screens_and_no_column_is_cut(show, n, width):
    made = page(4, names=("old", *("GPT-3.5 (text-davinci-003)", "ChatGPT-3.5", "ChatGPT-4", "new")[1 - n :]))
    long = field_comparison("answer_correctness.token_overlap_recall", n_clusters=30, n_only_old=9, needed=12_345)
    rows = tuple(replace(long, slice=part, low=-0.1, fixed=144, broken=142) for part in ("all", "lang=en"))
    others = [one.label for one in made.releases[1:]]
    opened = show(
        replace(
            made,
            comparisons=tuple(Comparison("old", new, rows, ("answers are longer",), margin=0.02) for new in others),
            gates=tuple(replace(VERDICT, new=new) for new in others),
        ),
        width,
    )
    first = opened.rows.first.bounding_box()
    assert first is not None and first["y"] < 2 * 844
    opened.page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    cut = """[...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth + 1)
        .map(one => one.getAttribute('aria-label'))"""
    assert opened.page.evaluate(cut) == []


@pytest.mark.slow
def test_text_can_be_read_in_the_light_and_in_the_dark(show):
    """WCAG 2.2: contrast of at least 4.5 for text, in both schemes, for every colour that text has."""
    contrast = """names => { const probe = document.createElement('i'); document.body.append(probe);
        const light = name => { probe.style.color = `var(--${name})`;
            const [r, g, b] = getComputedStyle(probe).color.match(/\\d+/g).map(c => c / 255)
                .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05 };
        const ratio = (one, other) => Math.max(one, other) / Math.min(one, other);
        return names.map(([ink, ground]) => ratio(light(ink), light(ground))) }"""
    inks = ("ink", "muted", "accent", "better", "worse", "mark", "pass", "fail", "inconclusive", "incomplete")
    comparisons = [[ink, ground] for ink in inks for ground in ("paper", "ground")]
    for scheme in ("light", "dark"):
        opened = show(page(2), color_scheme=scheme)
        found = dict(zip(map(tuple, comparisons), opened.page.evaluate(contrast, comparisons), strict=True))
        assert {pair: ratio for pair, ratio in found.items() if ratio < 4.5} == {}


@pytest.mark.slow
def test_print_opens_what_is_closed_and_leaves_out_what_is_pressed(show, tmp_path):
    opened = show(compared())
    opened.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    opened.page.emulate_media(media="print")
    assert opened.page.locator("details:not([open])").count() == 0
    for hidden in ("nav", ".search", ".controls", ".toggle >> nth=0", "text=Export these rows as CSV"):
        expect(opened.page.locator(hidden)).to_be_hidden()
    expect(opened.page.locator("#rows thead")).to_be_visible()
    assert all(box == "visible" for box in opened.page.evaluate(
        "[...document.querySelectorAll('.scroll')].map(one => getComputedStyle(one).overflowX)"
    ))  # fmt: skip
    assert len(opened.page.pdf(path=tmp_path / "page.pdf")) > 10_000
    opened.page.emulate_media(media="screen")
    opened.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert opened.page.locator("details:not([open])").count() > 0


def test_everything_but_the_table_is_there_without_javascript(browser, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(html(compared()), encoding="utf-8")
    context = browser.new_context(java_script_enabled=False, offline=True)
    opened = context.new_page()
    opened.goto(file.as_uri())
    expect(opened.get_by_text("This table needs JavaScript.")).to_be_visible()
    opened.get_by_role("heading", name="The releases side by side").click()
    expect(opened.get_by_role("region", name="Scores", exact=True)).to_be_visible()
    context.close()


@pytest.mark.slow
def test_a_phone_shows_a_line_for_each_metric(show):
    made = compared()
    names = ("answer_correctness.token_overlap_recall", "ground_truth_similarity.similarity", "exact_match.match")
    fields = tuple(replace(field, name=name) for field, name in zip(made.fields, names, strict=True))
    scores = tuple(
        replace(one, report=replace(one.report, scores=tuple(score(name, 0.5) for name in names)))
        for one in made.releases
    )
    opened = show(replace(made, fields=fields, releases=scores, headlines=names), 390)
    opened.page.get_by_role("link", name="Scores").click()
    region = opened.page.get_by_role("region", name="Scores", exact=True)
    for name in names:
        cells = region.get_by_role("row", name=name).get_by_role("cell")
        tops = {box["y"] for box in map(lambda cell: cell.bounding_box(), cells.all()) if box}
        assert (cells.count(), len(tops)) == (2, 1)
    assert region.evaluate("one => one.scrollWidth <= one.clientWidth")


@pytest.mark.slow
def test_a_phone_shows_a_line_for_each_release_where_there_are_many(show):
    opened = show(page(4, names=("old", "GPT-3.5 (text-davinci-003)", "new")), 390)
    opened.page.get_by_role("link", name="Scores").click()
    region = opened.page.get_by_role("region", name="Scores", exact=True)
    for name in ("rouge_l.recall", "exact_match.match"):
        cells = region.get_by_role("row", name=name).get_by_role("cell")
        boxes = [box for box in map(lambda cell: cell.bounding_box(), cells.all()) if box]
        assert len({box["y"] for box in boxes}) == len(boxes) == 3
        # The name, the number and its interval beside one another.
        assert max(box["height"] for box in boxes) < 30
    assert region.evaluate("one => one.scrollWidth <= one.clientWidth")
