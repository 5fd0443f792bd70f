"""A page in the browser, and what it did which it must not do."""

from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources

from playwright.sync_api import Page

from answerkey.metrics_core.comparison import Comparison
from answerkey.tasks.publish.page.html import render
from answerkey.tasks.publish.page.model import as_json
from tests.tasks.publish.page.page_help import VERDICT, field_comparison, page


@dataclass
class Opened:
    """A page in the browser, and everything that it did which it must not do."""

    page: Page
    problems: list[str] = field(default_factory=list)

    @property
    def rows(self):
        return self.page.locator("#rows tbody tr.row")

    @property
    def status(self):
        return self.page.get_by_role("status")

    def column(self, name):
        """The cells of a column of the rows on the screen."""
        heads = self.page.locator("#rows thead th").all_inner_texts()
        place = next(turn for turn, head in enumerate(heads) if head.startswith(name))
        return [text.strip() for text in self.rows.locator(f":scope > :nth-child({place + 1})").all_inner_texts()]

    def choose(self, label, option):
        self.page.get_by_label(label, exact=True).select_option(label=option)

    def show(self, samples):
        """Press the button of these samples, for instance `got worse`."""
        self.page.get_by_role("group", name="Show", exact=True).get_by_role("button", name=samples).click()


made = {}


def html(content):
    """The page, rendered once: most of the time of these tests would be the drawing of the same plots."""
    key = as_json(content)
    if key not in made:
        made[key] = render(content)
    return made[key]


def compared(n=40):
    """A page with a comparison and a verdict."""
    return replace(
        page(n), comparisons=(Comparison("old", "new", (field_comparison(),), margin=0.02),), gates=(VERDICT,)
    )


@cache
def _axe():
    return resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


def barriers(page):
    """What axe-core finds on a page that is a barrier to somebody: rule and element."""
    page.evaluate(f"() => {{ {_axe()} }}")
    found = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{one['id']}: {node['html'][:200]} {node['failureSummary']}"
        for one in found["violations"]
        for node in one["nodes"]
    ]
