"""The page of five real releases in a real browser: its numbers are those of the warehouse, and it loads nothing."""

import json
from itertools import pairwise

import pytest
from playwright.sync_api import expect

from answerkey.metrics_core.gate.policy import parse_policy
from answerkey.tasks.compare.compare import compare
from answerkey.tasks.gate.gate import gate
from answerkey.tasks.load.load import Source
from answerkey.tasks.publish.page.build import build_page
from answerkey.tasks.warehouse.home import Home
from tests.tasks.staging_help import query, run

pytestmark = pytest.mark.slow

PATHS = {"id": "meta.question_id", "release": "model", "label": "human_label"}


@pytest.fixture(scope="module")
def home(shared, tmp_path_factory):
    folder = tmp_path_factory.mktemp("five")
    file = str(shared / "data/evouna_nq/evouna_nq_dev.jsonl")
    run(folder, Source(file, dataset="five", paths=PATHS, slices=("meta.usable",)), ["token_overlap", "contains"])
    return folder


@pytest.fixture(scope="module")
def page(home):
    ids = [row[0] for row in query(home, "SELECT report_id FROM reports ORDER BY rowid")]
    comparisons = [compare(Home(home), old, new, primary="label.correct") for old, new in pairwise(ids)]
    policy = parse_policy({"primary": "label.correct", "margin": 0.02, "rules": ["coverage >= 0.9"]}, "policy")
    return build_page(Home(home), ids, comparisons=comparisons, gates=[gate(Home(home), *ids[-2:], policy)])


def test_it_opens_with_the_verdict_and_filters_and_sorts(home, page, show):
    opened = show(page)
    expect(opened.page.locator(".verdict h2")).to_contain_text(page.gates[0].verdict.outcome)
    expect(opened.page.get_by_text("No difference between Bing Chat and ChatGPT-4 is shown").first).to_be_visible()
    expect(opened.status).to_have_text("313 of 1,924 samples")  # those that changed
    opened.choose("Show", "worse")
    broken = page.comparisons[-1].overall[0].broken
    expect(opened.status).to_have_text(f"{broken:,} of 1,924 samples")
    assert set(opened.column("Human label")) == {"right → wrong"}
    opened.choose("Show", "all samples")
    expect(opened.status).to_have_text("1,924 of 1,924 samples")
    opened.choose("Score", "token_overlap.recall")
    opened.page.get_by_role("button", name="ChatGPT-4").click()
    opened.page.get_by_role("button", name="ChatGPT-4").click()
    assert opened.column("ChatGPT-4") == ["1.000"] * 25


def test_every_mean_on_the_page_is_that_of_the_warehouse(home, page, show):
    stored = query(
        home,
        "SELECT metric || '.' || field, list(mean ORDER BY r.rowid) "
        "FROM report_scores s JOIN reports r USING (report_id) WHERE slice = 'all' GROUP BY ALL",
    )
    opened = show(page)
    opened.page.evaluate("document.querySelectorAll('#scores details').forEach(one => { one.open = true })")
    region = opened.page.locator("#scores")
    for name, means in stored:
        cells = region.locator("tr", has=opened.page.locator("th", has_text=name)).locator("td").all_inner_texts()
        assert [cell.split()[0] for cell in cells] == [f"{mean:.3f}" for mean in means]
    assert len(stored) == 5
    texts = json.loads(opened.page.locator("#data-json").text_content() or "")["samples"]["answers"][4]["texts"]
    answers = query(home, "SELECT answer FROM answers WHERE release = 'Bing Chat' ORDER BY sample_id")
    assert texts == [row[0] for row in answers]
