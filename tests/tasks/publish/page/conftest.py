"""A browser, and pages opened in it from disk."""

import os
import shutil

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.kit.waiting import FAULT_S
from tests.tasks.publish.page.browser_help import Opened, html

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@pytest.fixture(scope="module")
def playwright():
    # Not for the whole session: its event loop would run on under the tests that start one of their own.
    expect.set_options(timeout=1_000 * FAULT_S)
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="module")
def browser(playwright):
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is on the PATH")
    # A browser that runs as root, as in containers, refuses its own sandbox.
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    launched = playwright.chromium.launch(executable_path=found, args=options)
    yield launched
    launched.close()


@pytest.fixture
def show(browser, tmp_path):
    """Open a page: the content of one from disk without a network, or the address of one. Whatever goes wrong fails."""
    shown = []

    def open_(content, width=1280, spoilt="", **options):
        address = content if isinstance(content, str) else (tmp_path / "page.html").as_uri()
        if address != content:
            text = html(content).replace("<main", f"{spoilt}<main")
            (tmp_path / "page.html").write_text(text, encoding="utf-8")
            options["offline"] = True
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        context.set_default_timeout(1_000 * FAULT_S)
        opened = Opened(context.new_page())
        note = opened.problems.append
        opened.page.on("console", lambda message: note(f"console {message.type}: {message.text}"))
        opened.page.on("pageerror", lambda error: note(f"error: {error}"))
        opened.page.on("dialog", lambda dialog: (note(f"dialog: {dialog.message}"), dialog.dismiss()))
        allowed = (address, "data:", "blob:")
        context.on("request", lambda one: None if one.url.startswith(allowed) else note(f"request: {one.url}"))
        opened.page.goto(address)
        if address != content:
            expect(opened.rows.first).to_be_visible()
        shown.append(opened)
        return opened

    yield open_
    for opened in shown:
        opened.page.context.close()
        assert opened.problems == []
