"""All pages of a home and its overview: read from the snapshot, the newest first, and nothing is written."""

import re
import shutil

import pytest

from answerkey.metrics_core.llm.ledger import MAY_BE_PAID, UNSENT
from answerkey.tasks.publish.site import Site, build_overview, render_overview, report_page
from answerkey.tasks.warehouse.home import Home
from tests.tasks.publish.site_help import HOSTILE, NEW, decide, made_home
from tests.tasks.staging_help import query


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return made_home(tmp_path_factory.mktemp("site"))


@pytest.fixture
def home(original, tmp_path):
    return Home(shutil.copytree(original.local, tmp_path / "home"))


def files(home):
    return {
        path.as_posix(): path.stat().st_mtime_ns for path in home.local.rglob("*") if path.suffix not in (".lock", "")
    }


def test_every_report_has_a_page_and_reading_writes_nothing(home):
    with home.store.atomic_write("pages/_data-docs/index.html") as file:
        file.write_text("docs")
    before = files(home)
    site = Site(home)
    names = list(site.names())
    hostile = next(name for name in names if "new" in name)
    assert names == ["index.html", "other/only-v1.html", hostile, "faq/old-v1.html", "_data-docs/index.html"]
    pages = {name: site.read(name).decode() for name in names}
    assert all(f'href="{name}"' in pages["index.html"] for name in names[1:])
    assert all('<a href="../index.html">All reports</a>' in pages[name] for name in names[1:4])
    assert pages["_data-docs/index.html"] == "docs"
    assert HOSTILE not in pages["index.html"] and "&lt;b&gt;new&lt;/b&gt; &amp; co" in pages["index.html"]
    assert files(home) == before
    outside = ("nothing.html", "faq/old-v2.html", "answerkey.duckdb", "../snapshot.duckdb", "a\\b.html", "a\0.html", "")
    for name in outside:
        with pytest.raises(FileNotFoundError):
            site.read(name)


@pytest.mark.nightly
def test_pages_show_what_was_published_and_keep_no_writer_waiting(home):
    site = Site(home)
    new = next(name for name in site.names() if "new" in name)
    assert b'class="verdict open"' in site.read(new)
    outcome = decide(home)
    assert b'class="verdict open"' in site.read(new)
    with home.warehouse.writing():
        # Whoever reads the tables themselves would wait until this is committed.
        assert b"Newest verdicts" not in site.read("index.html")
    home.warehouse.publish()
    assert f'class="verdict {outcome.lower()}"'.encode() in site.read(new)
    assert b"Newest verdicts" in site.read("index.html")


def test_a_report_is_shown_with_what_it_was_compared_with_or_made_with(home):
    page = report_page(home.as_published(), NEW)
    assert [release.report.report_id for release in page.releases] == ["faq/old/v1", NEW]
    assert [(pair.old, pair.new) for pair in page.comparisons] == [("old", HOSTILE)]
    assert [release.label for release in report_page(home.as_published(), "faq/old/v1").releases] == ["old"]


@pytest.mark.nightly
def test_a_verdict_without_a_comparison_gets_one_that_is_not_kept(home):
    with home.warehouse.writing() as warehouse:
        warehouse.execute("DELETE FROM comparisons")
    decide(home)
    home.warehouse.publish()
    page = report_page(home.as_published(), NEW)
    assert page.comparisons[0].overall[0].name == page.gates[0].primary == "exact_match.match"
    assert query(home, "SELECT count(*) FROM comparisons") == [(0,)]


def test_a_link_that_leads_out_of_the_folder_and_names_that_no_page_has_are_left_out(tmp_path):
    pages = tmp_path / "pages"
    pages.mkdir()
    (tmp_path / "secret.html").write_text("secret")
    (pages / "own.html").write_text("own")
    (pages / "a\nb.html").write_text("no name of a page")
    (pages / "link.html").symlink_to(tmp_path / "secret.html")
    (pages / "folder").symlink_to(tmp_path)
    (pages / "round.html").symlink_to(pages / "round.html")
    site = Site(Home(tmp_path))
    assert list(site.names()) == ["index.html", "own.html"]
    assert site.read("own.html") == b"own"
    for name in ("link.html", "folder/secret.html", "round.html", "a\nb.html"):
        with pytest.raises(FileNotFoundError):
            site.read(name)
    assert b"link.html" not in site.read("index.html")


@pytest.mark.nightly
def test_the_overview_lists_reports_verdicts_and_spend(home):
    outcome = decide(home)
    overview = build_overview(home)
    assert [(one.name, one.n_samples, one.n_releases) for one in overview.datasets] == [("other", 1, 1), ("faq", 6, 2)]
    faq = overview.datasets[1]
    assert faq.headlines == ("exact_match.match", "token_overlap.recall")
    stored = query(
        home,
        "SELECT release || '/v1', format('{:.3f} [{:.3f}, {:.3f}]', mean, ci_low, ci_high) FROM report_scores "
        "WHERE slice = 'all' AND field = 'match' AND report_id LIKE 'faq/%' ORDER BY mean DESC",
    )
    [table] = faq.reports
    rows = [dict(zip(table.head, map(str, row), strict=True)) for row in table.rows]
    assert [(row["report"], row["exact_match.match"]) for row in rows] == stored
    assert [(row["gate"], row["scored"]) for row in rows] == [(outcome, "6/6"), ("–", "6/6")]
    points = [(one.release, one.mean) for one in faq.history if one.field == "exact_match.match"]
    assert points == [("old", 0.5), (HOSTILE, pytest.approx(5 / 6))]
    calls = [(row["judge"], row["calls"], row["without a usable reply"], row["tokens sent"], row["US$"])
             for row in overview.judges.records()]  # fmt: skip
    assert calls == [("local/own", "2", "0", "200", "not known"), ("openai/small", "3", "1", "300", "$1.50")]
    html = render_overview(overview)
    assert "<p>$1.50 in all, and 2 calls whose price is not known.</p>" in html
    assert re.findall(r"(?:src|href)=\"(?!#|data:|faq/|other/)([^\"]*)\"", html) == []
    assert len(re.findall(r"sha256-", html)) == 2
    assert html.count("<svg") == 2  # a data set with one report has no line over time


def test_calls_that_cost_nothing_have_no_unknown_price_and_lines_that_nobody_worked_on_are_no_calls(home):
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
    overview = build_overview(home)
    [row] = overview.judges.records()
    n_paid = len(MAY_BE_PAID)
    assert (row["calls"], row["without a usable reply"], row["US$"]) == (f"{n_paid + 2}", f"{n_paid + 2}", "not known")
    assert (overview.spent, overview.unpriced) == (0, n_paid)
