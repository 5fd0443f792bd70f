"""Pages in a real browser: the table of samples, screens of every width, keyboard, print, and all pages of a home."""

from dataclasses import replace

import pytest
from playwright.sync_api import expect

from answerkey.flows.pages import page_server
from answerkey.metrics_core.comparison import Comparison
from tests.kit.serving import answering
from tests.tasks.publish.page.browser_help import barriers, compared, html
from tests.tasks.publish.page.page_help import VERDICT, field_comparison, full, page, score
from tests.tasks.publish.site_help import HOSTILE, decide, made_home


def test_the_worst_changes_come_first_and_every_column_sorts_both_ways(show):
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


def test_rows_without_a_score_come_last_and_say_why(show):
    opened = show(page(4))
    assert opened.column("new")[-1] == "failed"
    opened.page.get_by_role("button", name="new", exact=True).click()
    opened.page.get_by_role("button", name="new", exact=True).click()
    assert opened.column("new")[-1] == "failed"


def test_filters_work_together_and_the_count_is_announced(show):
    opened = show(page(40))
    expect(opened.status).to_have_text("40 of 40 samples")
    tally = opened.page.get_by_role("group", name="Show", exact=True).get_by_role("button")
    assert tally.all_inner_texts() == [
        "all 40", "40 changed", "19 got worse", "20 better", "0 unchanged", "1 without a score",
    ]  # fmt: skip
    opened.show("got worse")
    expect(opened.status).to_have_text("19 of 40 samples")
    assert all("▼" in change for change in opened.column("Change"))
    opened.choose("lang", "ru")
    expect(opened.status).to_have_text("9 of 40 samples")
    opened.choose("Human label", "right → wrong")
    found = int(opened.status.text_content().split()[0])
    assert 0 < found < 9
    assert set(opened.column("Human label")) == {"right → wrong"}
    opened.page.get_by_label("Search").fill("no such text")
    expect(opened.status).to_have_text("0 of 40 samples")
    expect(opened.page.get_by_text("No sample fits these filters.")).to_be_visible()


def test_the_search_looks_at_questions_references_answers_and_ids(show):
    opened = show(page(40))
    for text in ("question 17", "OTHER reference 17", "answer of new 17", "id 17", "17 question"):
        opened.page.get_by_label("Search").fill(text)
        expect(opened.status).to_have_text("1 of 40 samples")
        assert opened.column("Sample") == ["id 17"]


def test_other_releases_and_scores_can_be_chosen(show):
    opened = show(page(4, names=("a", "b", "c")))
    assert opened.page.get_by_label("Old release").input_value() == "1"
    opened.choose("Old release", "a")
    opened.choose("Score", "rouge_l.f1")
    heads = [text.strip() for text in opened.page.locator("#rows thead th").all_inner_texts()]
    assert heads[3:6] == ["a", "c", "Change"]
    opened.choose("New release", "a")
    assert set(opened.column("Change")) == {"0.000"}


def test_search_and_filters_are_in_the_address(show):
    opened = show(page(40, names=("a", "b", "c")))
    opened.page.get_by_label("Search").fill("question 1")
    expect(opened.status).to_have_text("13 of 40 samples")
    opened.show("better")
    opened.choose("lang", "ru")
    opened.choose("Old release", "a")
    opened.page.get_by_role("button", name="Sample").click()
    kept, address = opened.column("Sample"), opened.page.url
    assert address.partition("#")[2] == "q=question+1&show=better&old=a&sort=id&slice.lang=ru"
    opened.page.reload()
    expect(opened.rows).to_have_count(len(kept))
    assert opened.column("Sample") == kept == ["id 1", "id 11", "id 13", "id 15", "id 17", "id 19"]
    opened.page.evaluate("location.hash = 'old=no&show=no&sort=no&label=no&score=no&slice.lang=no&releases=no'")
    expect(opened.page.get_by_role("button", name="all 40")).to_have_attribute("aria-pressed", "true")
    expect(opened.page.get_by_label("Old release")).to_have_value("1")


def test_the_decision_leads_to_what_got_worse(show):
    opened = show(compared())
    opened.page.get_by_role("link", name="19 got worse").click()
    expect(opened.status).to_have_text("19 of 40 samples")
    expect(opened.page.locator("#samples-title")).to_be_in_viewport()


def test_releases_without_a_common_sample_have_no_counts_beside_the_decision(show):
    opened = show(page(1))
    expect(opened.page.get_by_role("button", name="1 without a score")).to_be_visible()
    expect(opened.page.locator("#changes")).to_be_hidden()


def test_many_releases_are_a_number_in_the_title_and_named_below_it(show):
    opened = show(page(4, names=("a", "b", "c", "d")))
    expect(opened.page.locator("h1")).to_have_text("4 releases")
    expect(opened.page.locator("p.releases")).to_contain_text("4 releases: a, b, c, d")


def test_several_releases_stand_side_by_side_for_each_question(show):
    opened = show(page(4, names=("a", "b", "c")))
    opened.choose("Releases", "all 3, in columns")
    heads = [text.strip() for text in opened.page.locator("#rows thead th").all_inner_texts()]
    assert heads[3:] == ["a", "b", "c", "Apart"]
    expect(opened.status).to_have_text("4 of 4 samples")
    assert [opened.column(name)[0] for name in ("Sample", "a", "b", "c", "Apart")] == [
        "id 0", "0.000", "1.000", "1.000", "1.000",
    ]  # fmt: skip
    opened.page.get_by_role("button", name="Details of id 0").click()
    for name in ("a", "b", "c"):
        expect(opened.page.locator("td.detail").get_by_text(f"answer of {name} 0", exact=True)).to_be_visible()
    opened.choose("Score", "exact_match.match")
    assert opened.page.locator("#rows thead th").count() == 6


def test_lines_begin_where_two_answers_part_and_scores_of_0_and_1_are_words(show):
    start = "Deion Sanders was inducted into the Pro Football Hall of Fame in 2011 as a "
    made = answers(f"{start}cornerback.", f"{start}player.")
    old, new = made.samples.answers
    found = tuple(
        replace(one, values={**one.values, "exact_match.match": (right,)}) for one, right in ((old, 1), (new, 0))
    )
    opened = show(replace(made, primary="exact_match.match", samples=replace(made.samples, answers=found)))
    lines = opened.rows.first.locator(".line").all_inner_texts()
    assert [" ".join(line.split()) for line in lines] == [
        "reference reference 0 (and 1 more)", "old … in 2011 as a cornerback.", "new … in 2011 as a player.",
        "why judge 0",
    ]  # fmt: skip
    assert [opened.column(name) for name in ("old", "new", "Change")] == [["1"], ["0"], ["▼ worse"]]


def test_pages_turn_and_the_document_stays_small(show):
    opened = show(page(60))
    expect(opened.rows).to_have_count(25)
    opened.page.get_by_role("button", name="Next").click()
    opened.page.get_by_role("button", name="Next").click()
    expect(opened.page.get_by_text("Page 3 of 3")).to_be_visible()
    expect(opened.rows).to_have_count(10)
    expect(opened.page.get_by_role("button", name="Next")).to_be_disabled()
    opened.choose("Rows", "100")
    expect(opened.rows).to_have_count(60)


def test_a_row_opens_with_texts_scores_reasons_and_facts_by_keyboard(show):
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


def test_a_single_release_has_a_table_of_its_answers(show):
    opened = show(page(3, names=("only",)))
    assert opened.column("rouge_l.recall") == ["0.000", "0.500", "1.000"]
    expect(opened.page.get_by_label("Old release")).to_have_count(0)


def test_what_changed_begins_with_what_changed(show):
    def scored(old, new):
        made = page(len(old))
        answers = tuple(
            replace(one, values={made.primary: tuple(values)}, unscored={})
            for one, values in zip(made.samples.answers, (old, new), strict=True)
        )
        return show(replace(made, samples=replace(made.samples, answers=answers)))

    worse = scored([0.5, 0.5, 1.0, 0.2, 0.3, None], [0.5, 0.7, 0.0, 0.1, None, None])
    assert worse.column("Sample") == ["id 2", "id 3", "id 1", "id 4"]
    worse.show("all")
    assert len(worse.column("Sample")) == 6
    better = scored([0.5, 0.5, 0.2, 0.1], [0.5, 0.6, 1.0, 0.1])
    assert better.column("Sample") == ["id 2", "id 1"]
    nothing = scored([0.5, 0.5], [0.5, 0.5])
    assert nothing.column("Sample") == ["id 0", "id 1"]


def answers(old, new):
    """A page with a sample that was answered so."""
    made = page(1)
    return replace(
        made,
        samples=replace(
            made.samples,
            answers=tuple(
                replace(one, texts=(text,)) for one, text in zip(made.samples.answers, (old, new), strict=True)
            ),
        ),
    )


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("old", "new", "lost", "found"),
    [
        ("born in Warsaw in 1866.", "born in Warsaw in 1867, they say.", ["1866"], ["1867, they say"]),
        ("He is a cat", "He is a very old cat", [], ["very old"]),
        (
            "\u5317\u4eac\u662f\u9996\u90fd\u3002",
            "\u4e0a\u6d77\u662f\u9996\u90fd\u3002",
            ["\u5317\u4eac"],
            ["\u4e0a\u6d77"],
        ),
        ("the same", "the same", [], []),
        ("alpha beta gamma", "one two three", [], []),
        ("a <b>word</b>\u202e", "a <i>word</i>\u202e", ["b", "b"], ["i", "i"]),
    ],
    ids=["other", "added", "Chinese", "equal", "nothing in common", "markup"],
)
def test_what_two_answers_do_not_share_is_marked(show, old, new, lost, found):
    opened = show(answers(old, new))
    opened.page.locator(".toggle").first.click()
    detail = opened.page.locator("td.detail")
    assert detail.locator("del").all_inner_texts() == lost
    assert detail.locator("ins").all_inner_texts() == found
    texts = [text.replace("RLO", "\u202e") for text in detail.locator(".two").first.locator(".text").all_inner_texts()]
    assert texts == [old, new]


@pytest.mark.nightly
def test_a_link_to_a_sample_opens_it_whatever_the_filters_are(show):
    opened = show(page(60, text=lambda kind, place: f"{kind}/{place} & \u00e9"))
    opened.page.get_by_role("button", name="Details of id/40").click()
    link = opened.page.get_by_role("link", name="Link to this sample")
    name = str(link.get_attribute("href"))
    assert name == "#sample=id%2F40%20%26%20%C3%A9"
    opened.page.get_by_role("button", name="Next").click()
    opened.page.get_by_label("Search").fill("id/7 ")
    opened.show("got worse")
    opened.choose("lang", "ru")
    opened.page.evaluate("name => { location.hash = name }", name)
    detail = opened.page.locator("td.detail")
    expect(detail.get_by_text("answer of new/40 & \u00e9", exact=True)).to_be_in_viewport()
    toggle = opened.page.get_by_role("button", name="Details of id/40")
    expect(toggle).to_be_focused()
    expect(toggle).to_be_in_viewport()
    expect(opened.page.get_by_label("Search")).to_have_value("")
    assert [opened.page.get_by_label(one, exact=True).input_value() for one in ("lang", "Human label")] == ["", "all"]
    expect(opened.page.get_by_role("button", name="all 60")).to_have_attribute("aria-pressed", "true")
    opened.page.reload()
    expect(detail.get_by_text("answer of new/40 & \u00e9", exact=True)).to_be_in_viewport()
    opened.page.evaluate("location.hash = 'sample=%E0%A4%A'")
    expect(opened.status).to_have_text("Sample %E0%A4%A is not on this page")


def test_what_comes_after_the_samples_is_folded_and_opens_from_the_list_of_sections(show):
    opened = show(page(4))
    for name in ("scores", "slices", "coverage", "data", "history", "methods"):
        folded = opened.page.locator(f"#{name} > .folded")
        assert folded.get_attribute("open") is None
        opened.page.locator(f"nav a[href='#{name}']").click()
        expect(folded).to_have_attribute("open", "")
        expect(opened.page.locator(f"#{name} h2")).to_be_in_viewport()


def test_the_verdict_is_on_the_first_screen_with_the_warnings(show):
    opened = show(compared())
    for text in (
        "FAIL",
        "New loses more than the margin.",
        "summary 0",
        "19 got worse",
        "Before you trust a number",
        "warning 0",
    ):
        box = opened.page.locator("main").get_by_text(text, exact=text == "FAIL").first.bounding_box()
        assert box["y"] + box["height"] < 900


@pytest.mark.real
def test_the_keyboard_moves_between_rows_sorts_in_place_and_skips_the_head(show):
    opened = show(page(4))
    toggles = opened.page.locator(".toggle")
    toggles.first.focus()
    opened.page.keyboard.press("ArrowDown")
    expect(toggles.nth(1)).to_be_focused()
    opened.page.keyboard.press("ArrowUp")
    expect(toggles.first).to_be_focused()
    opened.page.get_by_role("button", name="Question").focus()
    opened.page.keyboard.press("Enter")
    expect(opened.page.get_by_role("button", name="Question")).to_be_focused()
    opened.page.evaluate("document.activeElement.blur(); getSelection().removeAllRanges(); scrollTo(0, 0)")
    opened.page.get_by_role("link", name="Skip to the report").focus()
    expect(opened.page.get_by_role("link", name="Skip to the report")).to_be_in_viewport()
    opened.page.keyboard.press("Enter")
    expect(opened.page.locator("main")).to_be_focused()


@pytest.mark.nightly
@pytest.mark.parametrize(("n", "width"), [(2, 390), (5, 390), (5, 1400)])
def test_the_first_sample_is_within_two_screens_and_no_column_is_cut(show, n, width):
    made = page(4, names=("old", *("GPT-3.5 (text-davinci-003)", "ChatGPT-3.5", "ChatGPT-4", "new")[1 - n :]))
    long = field_comparison("answer_correctness.token_overlap_recall", n_clusters=30, n_only_old=9, needed=12_345)
    rows = tuple(replace(long, slice=part, low=-0.1, fixed=144, broken=142) for part in ("all", "lang=en"))
    others = [release.label for release in made.releases[1:]]
    opened = show(
        replace(
            made,
            comparisons=tuple(Comparison("old", new, rows, ("answers are longer",), margin=0.02) for new in others),
            gates=tuple(replace(VERDICT, new=new) for new in others),
        ),
        width,
    )
    first = opened.rows.first.bounding_box()
    assert first["y"] < 2 * 844
    opened.page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    cut = """[...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth + 1)
        .map(one => one.getAttribute('aria-label'))"""
    assert opened.page.evaluate(cut) == []


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


@pytest.mark.real
def test_a_phone_shows_a_line_for_each_metric(show):
    made = compared()
    names = ("answer_correctness.token_overlap_recall", "ground_truth_similarity.similarity", "exact_match.match")
    fields = tuple(replace(field, name=name) for field, name in zip(made.fields, names, strict=True))
    scores = tuple(
        replace(release, report=replace(release.report, scores=tuple(score(name, 0.5) for name in names)))
        for release in made.releases
    )
    opened = show(replace(made, fields=fields, releases=scores, headlines=names), 390)
    opened.page.get_by_role("link", name="Scores").click()
    region = opened.page.get_by_role("region", name="Scores", exact=True)
    for name in names:
        cells = region.get_by_role("row", name=name).get_by_role("cell")
        tops = {box["y"] for box in map(lambda cell: cell.bounding_box(), cells.all()) if box}
        assert (cells.count(), len(tops)) == (2, 1)
    assert region.evaluate("one => one.scrollWidth <= one.clientWidth")


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    home = made_home(tmp_path_factory.mktemp("viewer"))
    decide(home)
    home.warehouse.publish()
    with answering(page_server(home, 0)) as address:
        yield f"{address}/"


@pytest.mark.real
def test_one_comes_from_the_overview_to_every_report_and_back(show, address):
    opened = show(address, 1400)
    expect(opened.page.get_by_role("heading", name="Newest verdicts")).to_be_visible()
    for name in (f"{HOSTILE}/v1", "old/v1", "only/v1"):
        opened.page.get_by_role("rowheader").get_by_role("link", name=name, exact=True).click()
        expect(opened.rows.first).to_be_visible()
        opened.page.get_by_role("link", name="All reports").click()
        expect(opened.page.get_by_role("heading", name="Judges and spend")).to_be_visible()


@pytest.mark.real
@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (390, "dark")])
def test_no_page_has_a_barrier_or_is_wider_than_the_screen(show, address, width, scheme):
    overview = show(address, width, color_scheme=scheme).page
    assert overview.evaluate("document.documentElement.scrollWidth") <= width
    assert barriers(overview) == []
    report = show(full(), width, color_scheme="light" if scheme == "dark" else "dark").page
    report.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    report.locator(".toggle").first.click()
    assert report.evaluate("document.documentElement.scrollWidth") <= width
    assert barriers(report) == []
