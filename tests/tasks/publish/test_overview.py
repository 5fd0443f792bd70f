"""The overview: numbers of the warehouse, the newest first, and what judges cost."""

import re

import pytest

from answerkey.metrics_core.llm.ledger import MAY_BE_PAID, UNSENT
from answerkey.tasks.publish.overview import build_overview, render_overview
from tests.tasks.publish.site_help import HOSTILE, decide, made_home
from tests.tasks.staging_help import query


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    made = made_home(tmp_path_factory.mktemp("overview"))
    decide(made)
    return made


@pytest.fixture(scope="module")
def overview(home):
    return build_overview(home)


@pytest.mark.slow
def test_data_sets_and_reports_come_newest_first_with_the_numbers_of_the_warehouse(home, overview):
    assert [(one.name, one.n_samples, one.n_releases) for one in overview.datasets] == [("other", 1, 1), ("faq", 6, 2)]
    faq = overview.datasets[1]
    assert faq.headlines == ("exact_match.match", "token_overlap.recall")
    stored = query(
        home,
        "SELECT release, mean, ci_low, ci_high FROM report_scores WHERE slice = 'all' AND field = 'match' "
        "AND report_id LIKE 'faq/%' ORDER BY mean DESC",
    )
    assert [(one.release, one.mean, one.low, one.high) for one in faq.reports] == stored
    assert [one.release for one in faq.reports] == [HOSTILE, "old"]
    assert [one.outcome for one in faq.reports] == [overview.verdicts[0].outcome, ""]
    assert [(one.release, one.mean) for one in faq.history if one.field == "exact_match.match"] == [
        ("old", 0.5), (HOSTILE, stored[0][1])
    ]  # fmt: skip


@pytest.mark.slow
def test_spend_is_by_judge_and_calls_without_a_price_are_counted_apart(overview):
    assert [(one.judge, one.calls, one.errors, one.tokens_in, one.usd, one.unpriced) for one in overview.judges] == [
        ("local/own", 2, 0, 200, None, 2),
        ("openai/small", 3, 1, 300, 1.5, 0),
    ]
    assert (overview.spent, overview.unpriced) == (1.5, 2)
    html = render_overview(overview)
    assert "<p>$1.50 in all, and 2 calls whose price is not known.</p>" in html


def test_calls_that_cost_nothing_have_no_unknown_price_and_lines_that_nobody_worked_on_are_no_calls(
    tmp_path,
):
    home = made_home(tmp_path)
    codes = [*MAY_BE_PAID, "http_500", "http_500", UNSENT, UNSENT]
    with home.warehouse.writing() as warehouse:
        warehouse.execute("DELETE FROM judge_calls")
        warehouse.execute(
            "INSERT INTO judge_calls (call_id, request_key, judge, prompt, run, kind, attempt, format, status, "
            "started_at, code) "
            "SELECT c, c, 'local/own', 'meaning_match v1', 'run', 'ask', 1, 'text', 'error', now(), c "
            "FROM unnest($codes) t(c)",
            {"codes": codes},
        )
    home.warehouse.publish()
    [found] = build_overview(home.as_published()).judges
    n_paid = len(MAY_BE_PAID)
    assert (found.calls, found.errors, found.usd, found.unpriced) == (n_paid + 2, n_paid + 2, None, n_paid)


def test_the_page_loads_nothing_and_names_its_style_and_script_by_their_hashes(overview):
    html = render_overview(overview)
    assert re.findall(r"(?:src|href)=\"(?!#|data:|faq/|other/)([^\"]*)\"", html) == []
    assert len(re.findall(r"sha256-", html)) == 2
    assert html.count("<svg") == 2  # a data set with one report has no line over time
