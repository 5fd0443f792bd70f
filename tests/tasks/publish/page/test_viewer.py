"""All pages of a home in a browser, as `answerkey view` serves them: links, screens, barriers, no other request."""

import threading

import pytest
from playwright.sync_api import expect

from answerkey.flows.pages import page_server
from tests.tasks.publish.page.browser_help import barriers, compared
from tests.tasks.publish.site_help import HOSTILE, decide, made_home


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    home = made_home(tmp_path_factory.mktemp("viewer"))
    decide(home)
    home.warehouse.publish()
    with page_server(home, 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def problems():
    return []


def opened(browser, address, problems, width, scheme):
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    context.on("request", lambda one: None if one.url.startswith((address, "data:")) else problems.append(one.url))
    page.goto(address)
    return page


@pytest.mark.slow
def test_one_comes_from_the_overview_to_every_report_and_back(browser, address, problems):
    page = opened(browser, address, problems, 1400, "light")
    expect(page.get_by_role("heading", name="Newest verdicts")).to_be_visible()
    for name in (f"{HOSTILE} v1", "old v1", "only v1"):
        page.get_by_role("rowheader").get_by_role("link", name=name, exact=True).click()
        expect(page.locator("#rows tbody tr.row").first).to_be_visible()
        page.get_by_role("link", name="All reports").click()
        expect(page.get_by_role("heading", name="Judges and spend")).to_be_visible()
    assert problems == []
    page.context.close()


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (390, "dark")])
def test_the_overview_has_no_barrier_and_is_as_wide_as_the_screen(browser, address, problems, width, scheme):
    page = opened(browser, address, problems, width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert barriers(page) == []
    assert problems == []
    page.context.close()


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1400, "dark"), (390, "light")])
def test_a_report_has_no_barrier(show, width, scheme):
    shown = show(compared(), width, color_scheme=scheme)
    shown.page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    shown.page.locator(".toggle").first.click()
    assert barriers(shown.page) == []
