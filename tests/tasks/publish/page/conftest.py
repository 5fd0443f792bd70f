"""A browser, and pages opened in it from disk."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Playwright, expect, sync_playwright

from answerkey.tasks.publish.page.model import Page as Content
from tests.tasks.publish.page.browser_help import Open, Opened, html

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    # Not for the whole session: its event loop would run on under the tests that start one of their own.
    expect.set_options(timeout=60_000)
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is on the PATH")
    # A browser that runs as root, as in containers, refuses its own sandbox.
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    launched = playwright.chromium.launch(executable_path=found, args=options)
    yield launched
    launched.close()


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Write a page to disk and open it from there, without a network. Whatever goes wrong fails the test."""
    shown: list[Opened] = []

    def open_(content: Content, width: int = 1280, spoilt: str = "", **options: object) -> Opened:
        file = tmp_path / "page.html"
        file.write_text(html(content).replace("<main", f"{spoilt}<main"), encoding="utf-8")
        context = browser.new_context(viewport={"width": width, "height": 900}, offline=True, **options)  # type: ignore[arg-type]
        context.set_default_timeout(100_000)
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
