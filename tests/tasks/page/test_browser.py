"""The page in a real browser: it works, it asks nobody for anything, and hostile data do nothing."""

import csv
import io
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")
from playwright.sync_api import Browser, Error, Locator, Page, Playwright, expect, sync_playwright

from metrics_core.pair import Pair
from tasks.page.html import render
from tasks.page.model import Page as Content
from tasks.page.model import as_json
from tests.tasks.page.page_help import VERDICT, comparison, page
from tests.tasks.page.test_html import HOSTILE

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason=f"no browser: none of {', '.join(NAMES)} is on the PATH")

FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", '=cmd|" /C calc"!A0', " =1", "\uff1d1")
LONG = "x" * 200_000
MANY = 10_000


@dataclass
class Opened:
    """A page in the browser, and everything that it did which it must not do."""

    page: Page
    problems: list[str] = field(default_factory=list)

    @property
    def rows(self) -> Locator:
        return self.page.locator("#rows tbody tr.row")

    @property
    def status(self) -> Locator:
        return self.page.get_by_role("status")

    def column(self, name: str) -> list[str]:
        """The cells of a column of the rows on the screen."""
        heads = self.page.locator("#rows thead th").all_inner_texts()
        place = next(turn for turn, head in enumerate(heads) if head.startswith(name))
        return [text.strip() for text in self.rows.locator(f":scope > :nth-child({place + 1})").all_inner_texts()]

    def choose(self, label: str, option: str) -> None:
        self.page.get_by_label(label, exact=True).select_option(label=option)


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Iterator[Browser]:
    # A browser that runs as root, as in containers, refuses its own sandbox.
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    launched = playwright.chromium.launch(executable_path=BROWSER, args=options)
    yield launched
    launched.close()


Open = Callable[..., Opened]
made: dict[str, str] = {}


def html(content: Content) -> str:
    """The page, rendered once: most of the time of these tests would be the drawing of the same plots."""
    key = as_json(content)
    if key not in made:
        made[key] = render(content)
    return made[key]


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Write a page to disk and open it from there, without a network. Whatever goes wrong fails the test."""
    shown: list[Opened] = []

    def open_(content: Content, width: int = 1280, spoilt: str = "", **options: object) -> Opened:
        file = tmp_path / "page.html"
        file.write_text(html(content).replace("<main", f"{spoilt}<main"), encoding="utf-8")
        context = browser.new_context(viewport={"width": width, "height": 900}, offline=True, **options)  # type: ignore[arg-type]
        opened = Opened(context.new_page())
        note = opened.problems.append
        opened.page.on("console", lambda message: note(f"console {message.type}: {message.text}"))
        opened.page.on("pageerror", lambda error: note(f"error: {error}"))
        opened.page.on("dialog", lambda dialog: (note(f"dialog: {dialog.message}"), dialog.dismiss()))
        allowed = (file.as_uri(), "data:,", "blob:")
        context.on("request", lambda one: None if one.url.startswith(allowed) else note(f"request: {one.url}"))
        opened.page.goto(file.as_uri())
        expect(opened.rows.first).to_be_visible()
        shown.append(opened)
        return opened

    yield open_
    for opened in shown:
        opened.page.context.close()
        assert opened.problems == []


def compared(n: int = 40) -> Content:
    return replace(page(n), pairs=(Pair("old", "new", (comparison(),), margin=0.02),), verdict=VERDICT)


def test_the_verdict_is_on_the_first_screen_with_the_warnings(show: Open) -> None:
    opened = show(compared())
    for text in ("FAIL", "New loses more than the margin.", "Before you trust a number", "warning 0"):
        box = opened.page.locator("main").get_by_text(text, exact=text == "FAIL").first.bounding_box()
        assert box is not None and box["y"] + box["height"] < 900


def test_the_worst_changes_come_first_and_every_column_sorts_both_ways(show: Open) -> None:
    opened = show(page(40))
    assert opened.column("Change")[0] == "▼ \u22120.949"
    heads = opened.page.locator("#rows thead th")
    for name, first, last in (
        ("Sample", "id 0", "id 39"),
        ("old", "0.000", "1.000"),
        ("Change", "▼ \u22120.949", "▲ +1.000"),
    ):
        head = heads.filter(has_text=name)
        head.get_by_role("button").click()
        if name == "Change":
            head.get_by_role("button").click()
        ways = {}
        for _ in range(2):
            ways[head.get_attribute("aria-sort")] = opened.column(name)[0]
            head.get_by_role("button").click()
        assert ways == {"ascending": first, "descending": last}
    assert heads.filter(has_text="old").get_attribute("aria-sort") == "none"


def test_rows_without_a_score_come_last_and_say_why(show: Open) -> None:
    opened = show(page(4))
    assert opened.column("new")[-1] == "failed"
    opened.page.get_by_role("button", name="new", exact=True).click()
    opened.page.get_by_role("button", name="new", exact=True).click()
    assert opened.column("new")[-1] == "failed"


def test_filters_work_together_and_the_count_is_announced(show: Open) -> None:
    opened = show(page(40))
    expect(opened.status).to_have_text("40 of 40 samples")
    opened.choose("Show", "worse")
    expect(opened.status).to_have_text("19 of 40 samples")
    assert all("▼" in change for change in opened.column("Change"))
    opened.choose("lang", "ru")
    expect(opened.status).to_have_text("9 of 40 samples")
    opened.choose("Label of people", "right → wrong")
    found = int((opened.status.text_content() or "").split()[0])
    assert 0 < found < 9
    assert set(opened.column("Label")) == {"right → wrong"}
    opened.page.get_by_label("Search").fill("no such text")
    expect(opened.status).to_have_text("0 of 40 samples")
    expect(opened.page.get_by_text("No sample fits these filters.")).to_be_visible()


def test_the_search_looks_at_questions_references_answers_and_ids(show: Open) -> None:
    opened = show(page(40))
    for text in ("question 17", "OTHER reference 17", "answer of new 17", "id 17", "17 question"):
        opened.page.get_by_label("Search").fill(text)
        expect(opened.status).to_have_text("1 of 40 samples")
        assert opened.column("Sample") == ["id 17"]


def test_other_releases_and_scores_can_be_chosen(show: Open) -> None:
    opened = show(page(4, names=("a", "b", "c")))
    assert opened.page.get_by_label("Old release").input_value() == "1"
    opened.choose("Old release", "a")
    opened.choose("Score", "rouge_l.f1")
    heads = [text.strip() for text in opened.page.locator("#rows thead th").all_inner_texts()]
    assert heads[3:6] == ["a", "c", "Change"]
    opened.choose("New release", "a")
    assert set(opened.column("Change")) == {"0.000"}


def test_pages_turn_and_the_document_stays_small(show: Open) -> None:
    opened = show(page(60))
    expect(opened.rows).to_have_count(25)
    opened.page.get_by_role("button", name="Next").click()
    opened.page.get_by_role("button", name="Next").click()
    expect(opened.page.get_by_text("Page 3 of 3")).to_be_visible()
    expect(opened.rows).to_have_count(10)
    expect(opened.page.get_by_role("button", name="Next")).to_be_disabled()
    opened.choose("Rows", "100")
    expect(opened.rows).to_have_count(60)


def test_a_row_opens_with_texts_scores_reasons_and_facts_by_keyboard(show: Open) -> None:
    opened = show(page(4))
    opened.page.get_by_label("Search").fill("id 0")
    expect(opened.rows).to_have_count(1)
    toggle = opened.page.get_by_role("button", name="Details of id 0")
    toggle.focus()
    opened.page.keyboard.press("Enter")
    assert toggle.get_attribute("aria-expanded") == "true"
    detail = opened.page.locator("td.detail")
    for text in (
        "reference 0",
        "other reference 0",
        "fact 0",
        "lang: en",
        "answer of old 0",
        "answer of new 0",
        "judge 0",
    ):
        expect(detail.get_by_text(text, exact=True).first).to_be_visible()
    assert detail.locator(".facts").first.locator("li").all_inner_texts() == [
        "contradicted\nborn in 1867 0\nanswer: born in 1866 0",
        "missing\nborn in Warsaw 0",
        "matched\na physicist 0\nanswer: worked as a physicist 0",
        "extra\nfather taught 0",
    ]
    expect(detail.locator("table.scores tbody tr").first).to_have_text("rouge_l.recall0.0001.000")
    opened.page.keyboard.press("Space")
    expect(detail).to_have_count(0)


def test_arrows_move_between_rows_and_the_skip_link_passes_the_head(show: Open) -> None:
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


def test_sorting_keeps_the_focus(show: Open) -> None:
    opened = show(page(4))
    head = opened.page.get_by_role("button", name="Question")
    head.focus()
    opened.page.keyboard.press("Enter")
    expect(opened.page.get_by_role("button", name="Question")).to_be_focused()


def hostile(kind: str, place: int) -> str:
    if kind.startswith("answer"):
        return LONG if place == 0 else FORMULAS[place % len(FORMULAS)]
    return f"{kind} {place} {' '.join(HOSTILE)}"


def test_hostile_data_do_nothing(show: Open) -> None:
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


def test_a_script_that_gets_into_the_page_is_not_run(show: Open) -> None:
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


def test_a_very_long_answer_is_shown_short_until_it_is_asked_for(show: Open) -> None:
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


def test_no_cell_of_the_csv_is_a_formula_and_every_text_comes_back(show: Open, tmp_path: Path) -> None:
    opened = show(page(9, text=hostile, names=("=old", "new")))
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


def test_ten_thousand_samples_stay_usable(show: Open) -> None:
    words = ("river", "stone", "cloud", "seven")
    started = time.perf_counter()
    opened = show(
        page(MANY, text=lambda kind, place: f"{kind} {place} {words[place % 4]} " * (20 if "answer" in kind else 1))
    )
    assert time.perf_counter() - started < 30
    paint = opened.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert paint < 5_000
    assert opened.page.evaluate("document.querySelectorAll('*').length") < 5_000
    started = time.perf_counter()
    opened.page.get_by_label("Search").fill("stone")
    expect(opened.status).to_have_text("2,500 of 10,000 samples")
    assert time.perf_counter() - started < 5
    started = time.perf_counter()
    opened.page.get_by_role("button", name="Question").click()
    expect(opened.page.locator("th[aria-sort=ascending]")).to_have_text("Question")
    assert time.perf_counter() - started < 5
    assert opened.column("Sample")[0] == "id 1 stone"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 1280])
def test_the_page_is_as_wide_as_the_screen(show: Open, width: int, scheme: str) -> None:
    opened = show(compared(), width, color_scheme=scheme)
    opened.page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    opened.page.locator(".toggle").first.click()
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    dark = opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    assert dark == (scheme == "dark")


def test_text_can_be_read_in_the_light_and_in_the_dark(show: Open) -> None:
    """WCAG 2.2: contrast of at least 4.5 for text, in both schemes, for every colour that text has."""
    contrast = """names => { const probe = document.createElement('i'); document.body.append(probe);
        const light = name => { probe.style.color = `var(--${name})`;
            const [r, g, b] = getComputedStyle(probe).color.match(/\\d+/g).map(c => c / 255)
                .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05 };
        const ratio = (one, other) => Math.max(one, other) / Math.min(one, other);
        return names.map(([ink, ground]) => ratio(light(ink), light(ground))) }"""
    inks = ("ink", "muted", "accent", "better", "worse", "mark", "pass", "fail", "inconclusive", "incomplete")
    pairs = [[ink, ground] for ink in inks for ground in ("paper", "ground")]
    for scheme in ("light", "dark"):
        opened = show(page(2), color_scheme=scheme)
        found = dict(zip(map(tuple, pairs), opened.page.evaluate(contrast, pairs), strict=True))
        assert {pair: ratio for pair, ratio in found.items() if ratio < 4.5} == {}


def test_print_opens_what_is_closed_and_leaves_out_what_is_pressed(show: Open, tmp_path: Path) -> None:
    opened = show(compared())
    opened.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    opened.page.emulate_media(media="print")
    assert opened.page.locator("details:not([open])").count() == 0
    for hidden in ("nav", ".controls", ".toggle >> nth=0", "text=Export these rows as CSV"):
        expect(opened.page.locator(hidden)).to_be_hidden()
    expect(opened.page.locator("#rows thead")).to_be_visible()
    assert all(box == "visible" for box in opened.page.evaluate(
        "[...document.querySelectorAll('.scroll')].map(one => getComputedStyle(one).overflowX)"
    ))  # fmt: skip
    assert len(opened.page.pdf(path=tmp_path / "page.pdf")) > 10_000
    opened.page.emulate_media(media="screen")
    opened.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert opened.page.locator("details:not([open])").count() > 0


def test_everything_but_the_table_is_there_without_javascript(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(html(compared()), encoding="utf-8")
    context = browser.new_context(java_script_enabled=False, offline=True)
    opened = context.new_page()
    opened.goto(file.as_uri())
    expect(opened.get_by_text("This table needs JavaScript.")).to_be_visible()
    expect(opened.get_by_role("region", name="Scores of all fields")).to_be_visible()
    context.close()


def test_tables_of_slices_follow_the_chosen_field(show: Open) -> None:
    opened = show(page(4))
    expect(opened.page.get_by_role("region", name="rouge_l.recall by lang")).to_be_visible()
    opened.page.get_by_label("Table of").select_option("exact_match.match")
    expect(opened.page.get_by_role("region", name="exact_match.match by lang")).to_be_visible()
    expect(opened.page.get_by_role("region", name="rouge_l.recall by lang")).to_be_hidden()


def test_a_single_release_has_a_table_of_its_answers(show: Open) -> None:
    opened = show(page(3, names=("only",)))
    assert opened.column("rouge_l.recall") == ["0.000", "0.500", "1.000"]
    expect(opened.page.get_by_label("Old release")).to_have_count(0)
