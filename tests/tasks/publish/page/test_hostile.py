"""Hostile text from data: it stays text in HTML, Markdown, plots and a real browser, there and in what is exported."""

import csv
import io
import json
import re
from base64 import b64encode
from hashlib import sha256
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Error, expect

from answerkey.tasks.publish.escape import hidden_name, isolated, visible
from answerkey.tasks.publish.page import charts
from answerkey.tasks.publish.page.html import for_script, render
from answerkey.tasks.publish.page.markdown import as_markdown
from tests.tasks.publish.page.page_help import FIELDS, Elements, full, page

HOSTILE = (
    "</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "' onfocus=alert(1) autofocus '",
    "<!--", "]]>", "{{ 7 * 7 }}", "\u2028\u2029", "\u202egnp.exe", "javascript:alert(1)", "&lt;b&gt;", "\x00",
)  # fmt: skip
FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", '=cmd|" /C calc"!A0', " =1", "\uff1d1")
LONG = "x" * 200_000


def everywhere(kind, place):
    return f"{kind} {place} {' '.join(HOSTILE)}"


def with_formulas(kind, place):
    if kind.startswith("answer"):
        return LONG if place == 0 else FORMULAS[place % len(FORMULAS)]
    return everywhere(kind, place)


@pytest.fixture(scope="module")
def plain():
    return render(full())


@pytest.fixture(scope="module")
def hostile():
    return render(page(text=everywhere, names=HOSTILE[:2]))


@pytest.mark.parametrize("which", ["plain", "hostile"])
def test_nothing_is_fetched_and_nothing_runs_but_the_page_itself(which, request):
    html = request.getfixturevalue(which)
    elements = Elements(html).found
    tags = [tag for tag, _ in elements]
    assert (tags.count("script"), tags.count("style")) == (2, 1)
    assert not {"img", "iframe", "object", "embed", "form", "base", "image", "use", "a:b"} & set(tags)
    for tag, name, value in ((tag, *one) for tag, attributes in elements for one in attributes.items()):
        assert not name.startswith("on") and name not in ("style", "src", "srcset", "action")
        if name in ("href", "xlink:href"):
            assert str(value).startswith(("#", "../")) or (tag, value) == ("link", "data:,")
    assert not re.search(r"@import|url\(", html.partition("</style>")[0])


def test_the_policy_comes_first_and_names_the_style_and_the_script_by_their_hashes(plain):
    [policy] = [
        found["content"] for _, found in Elements(plain).found if found.get("http-equiv") == "Content-Security-Policy"
    ]
    blocks = re.findall(r"<(style|script)>(.*?)</\1>", plain, re.DOTALL)
    assert [kind for kind, _ in blocks] == ["style", "script"]
    for kind, text in blocks:
        assert f"{kind}-src 'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" in policy
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    assert plain.index("Content-Security-Policy") < plain.index("<style>") < plain.index("<script")


def test_text_from_data_is_shown_as_it_is_but_for_characters_that_steer_text(hostile):
    shown = "".join(Elements(hostile).texts)
    assert "warning 0 </script><script>alert(1)</script>" in shown
    assert "{{ 7 * 7 }}" in shown and "49" not in shown
    assert "&lt;b&gt;" in shown
    outside = re.sub(r'<script type="application/json".*?</script>', "", hostile, flags=re.DOTALL)
    assert not set("\u202e\u2066\x00") & set(outside)
    assert '<span class="mark">RLO</span>' in outside


def test_the_data_of_the_table_come_back_unchanged(hostile):
    [text] = re.findall(r'<script type="application/json" id="data-json">(.*?)</script>', hostile, re.DOTALL)
    content = json.loads(text)
    assert content["samples"]["questions"][1] == f"question 1 {' '.join(HOSTILE)}"
    assert (content["old"], content["new"], content["primary"]) == (0, 1, FIELDS[0])


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_in_the_script_cannot_end_it_and_is_the_same_data(text):
    made = for_script({"text": text})
    assert not set("<>&\u2028\u2029") & set(made)
    assert json.loads(made) == {"text": text}


@given(st.text())
def test_nothing_in_a_text_becomes_markup(text):
    inside = str(isolated(text)).removeprefix('<bdi dir="auto">').removesuffix("</bdi>")
    for tag in ('<span class="mark">', "</span>"):
        inside = inside.replace(tag, "")
    assert not set("<>\"'") & set(inside)


@pytest.mark.parametrize(
    ("character", "name"),
    [("\u202e", "RLO"), ("\u2066", "LRI"), ("\x00", "U+0000"), ("\x85", "U+0085"), ("\U000e0041", "U+E0041")],
)
def test_characters_that_steer_text_are_named(character, name):
    assert hidden_name(character) == name
    assert visible(f"a{character}b") == f"a[{name}]b"
    assert str(isolated(f"a{character}b")) == f'<bdi dir="auto">a<span class="mark">{name}</span>b</bdi>'


@pytest.mark.parametrize("text", ["Привет, мир", "القاهرة", "東京\n2 lines\ttab", "👩‍👩‍👧", "می‌خواهم"])
def test_ordinary_text_of_any_script_stays_as_it_is(text):
    assert visible(text) == text
    assert str(isolated(text)) == f'<bdi dir="auto">{text}</bdi>'


def test_text_from_data_stays_text_in_markdown():
    nasty = "<img src=x onerror=alert(1)> [a](javascript:b) | `c` \u202e*d*\n# e"
    text = as_markdown(page(names=(nasty, "new"), text=lambda kind, place: f"{kind} {nasty}"))
    assert "\u202e" not in text
    shown = "\\<img src=x onerror=alert(1)\\> \\[a\\](javascript:b) \\| \\`c\\` \\[RLO\\]\\*d\\* \\# e"
    assert f"- **Warning:** warning {shown}" in text
    assert not [line for line in text.splitlines() if line.startswith("# ") and line != "# set"]


def test_names_from_data_stay_text_in_plots():
    made = page(names=("</svg><script>alert(1)</script>\"' onload=x \u202e&", "new"))
    drawing = charts.history_plot(made.history, FIELDS[0], 600)
    assert "<script" not in drawing and "\u202e" not in drawing
    elements = list(ElementTree.fromstring(drawing).iter())
    assert {one.tag.partition("}")[2] for one in elements} <= {"svg", "g", "path", "line", "rect", "text"}
    assert any((one.text or "").startswith("</svg><script>") for one in elements)


def test_hostile_data_do_nothing(show):
    opened = show(page(12, names=(f"{HOSTILE[0]} {HOSTILE[7]}", HOSTILE[1]), text=with_formulas))
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


def test_a_script_that_gets_into_the_page_is_not_run(show):
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


def test_no_cell_of_the_csv_is_a_formula_and_every_text_comes_back(show, tmp_path):
    opened = show(page(9, text=with_formulas, names=("=old", "new")))
    opened.show("all")
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
        row = by_id[everywhere("id", place)]
        assert row["new: answer"] == f"'{FORMULAS[place % len(FORMULAS)]}"
        assert row["question"] == everywhere("question", place)
    assert by_id[everywhere("id", 0)]["new: answer"] == LONG
    assert by_id[everywhere("id", 8)]["'=old: rouge_l.recall"] == "1"
    for cell in (cell for row in (head, *rows) for cell in row):
        assert not cell.lstrip().startswith(("=", "+", "@", "\uff1d")), cell[:50]
