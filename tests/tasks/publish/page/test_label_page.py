"""The page on which people label, in a browser: by keyboard to a verdict, with a killed server, by two people."""

import signal
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.tasks.labelling_help import labelling, made_releases, verdict_of
from tests.tasks.publish.page.browser_help import barriers
from tests.tasks.staging_help import query

SCREENS = [(1400, "light"), (390, "dark")]


def opened(browser: Browser, address: str, name: str, width: int = 1400, scheme: str = "light") -> Page:
    page = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()  # type: ignore[arg-type]
    page.goto(address)
    page.keyboard.press("Tab")
    page.keyboard.type(name)
    page.keyboard.press("Enter")
    expect(page.locator(".answer").first).to_be_visible()
    return page


def label_one(page: Page, keys: str = "") -> None:
    """Label the question on the screen by keyboard, rightly unless keys are given, and wait for what comes next."""
    asked = page.locator("#question").inner_text()
    texts = page.locator(".answer > p:first-of-type").all_inner_texts()
    for key in keys or [verdict_of(text)[0] for text in texts]:
        page.keyboard.press(key)
    expect(page.locator("#question").filter(has_text=asked).and_(page.locator("#work:not([hidden]) *"))).to_have_count(
        0
    )


def test_labelling_by_keyboard_ends_with_a_verdict_though_the_server_is_killed(
    browser: Browser, tmp_path: Path
) -> None:
    made_releases(tmp_path)
    with labelling(tmp_path) as first:
        page = opened(browser, first.address, "AB")
        assert "old" not in page.locator("main").inner_text() and "new" not in page.locator("main").inner_text()
        for _ in range(10):
            label_one(page)
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
        page.keyboard.press("r")
        page.keyboard.press("r")
        expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
    assert query(tmp_path, "SELECT count(*), count(DISTINCT annotator) FROM labels") == [(20, 1)]
    with labelling(tmp_path) as second:
        page = opened(browser, second.address, "AB")
        expect(page.locator("#count")).to_have_text("10 of 25 questions labelled until the next analysis")
        label_one(page)
        page.keyboard.press("u")
        expect(page.locator("#count")).to_have_text("10 of 25 questions labelled until the next analysis")
        while page.locator("#work").is_visible():
            label_one(page)
        expect(page.locator("#outcome")).to_have_text("FAIL")
        expect(page.locator("#notes")).to_contain_text("25 questions were drawn at random")
        expect(page.locator("#notes")).to_contain_text("labelled by AB")
        second.process.send_signal(signal.SIGINT)
        said, _ = second.process.communicate()
        assert "FAIL" in said and second.process.returncode == 1
    assert query(tmp_path, "SELECT outcome, basis FROM verdicts") == [("FAIL", "people and judge")]
    assert query(tmp_path, "SELECT verdict, count(*) FROM labels GROUP BY ALL HAVING verdict = 'withdrawn'") == [
        ("withdrawn", 2)
    ]


@pytest.mark.nightly
@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_the_page_has_no_barrier_and_is_as_wide_as_the_screen(
    browser: Browser, tmp_path: Path, width: int, scheme: str
) -> None:
    made_releases(tmp_path)
    with labelling(tmp_path, "--labels", "4") as served:
        page = opened(browser, served.address, "AB", width, scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert barriers(page) == []
        page.keyboard.press("s")
        while page.locator("#work").is_visible():
            label_one(page)
        expect(page.locator("#outcome")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert barriers(page) == []


@pytest.mark.real
def test_two_people_label_every_question_and_settle_differences(browser: Browser, tmp_path: Path) -> None:
    made_releases(tmp_path)
    with labelling(tmp_path, "--labels", "3", "--annotators", "2") as served:
        ann, bob = (opened(browser, served.address, name) for name in ("Ann", "Bob"))
        for _ in range(3):
            label_one(ann)
        expect(ann.locator("#outcome")).to_have_text("Waiting")
        # Otherwise she might get the question to settle.
        ann.context.close()
        label_one(bob, "cr")
        for _ in range(2):
            label_one(bob)
        expect(bob.locator("#settles")).to_be_visible()
        expect(bob.locator("#count")).to_contain_text("answers were called the same by two people")
        assert "Called: cannot tell, " in bob.locator("#answers").inner_text()
        while bob.locator("#work").is_visible():
            label_one(bob)
        expect(bob.locator("#outcome")).to_be_visible()
    assert query(tmp_path, "SELECT count(DISTINCT annotator), bool_or(adjudicates) FROM labels") == [(2, True)]
