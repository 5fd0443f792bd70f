"""The page is one file that asks for nothing, and data in it stay data."""

import json
import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.metrics_core.comparison import Comparison
from answerkey.metrics_core.gate.gate import Verdict
from answerkey.metrics_core.gate.policy import parse_policy
from answerkey.tasks.gate.verdicts import ReleaseVerdict
from answerkey.tasks.publish.page.html import for_script, render, write
from answerkey.tasks.publish.page.model import Corrected, LabelAgreement
from tests.tasks.publish.page.page_help import FIELDS, VERDICT, field_comparison, page, score

HOSTILE = (
    "</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "' onfocus=alert(1) autofocus '",
    "<!--", "]]>", "{{ 7 * 7 }}", "\u2028\u2029", "\u202egnp.exe", "javascript:alert(1)", "&lt;b&gt;", "\x00",
)  # fmt: skip


class Elements(HTMLParser):
    """Every start tag with its attributes, and the text of scripts and styles."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.found = []
        self.raw = []
        self.texts = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.cdata_elem:
            self.raw.append((self.cdata_elem, data))
        else:
            self.texts.append(data)


def full():
    sliced = field_comparison(
        slice="lang=en", fixed=3, broken=1, n_only_old=2, missing_new={"failed": 2}, low=-0.1, needed=900
    )
    absent = field_comparison("bleu.bleu", difference=None, note="only old has it")
    comparisons = (
        Comparison("old", "new", (field_comparison(), sliced, absent), ("longer answers",), margin=0.02),
        Comparison("old", "new", (), (), None, "the signatures differ"),
    )  # fmt: skip
    half = (0.5, 0.4, 0.6)
    shared = (half, (0.8, 0.7, 0.9), half, (None, None, None), (None, None, None))
    corrected = (Corrected(FIELDS[0], "new", (0.61, 0.6, 0.62), (0.55, 0.5, 0.6), 20, 30, "PPI++"),)
    agreements = (
        LabelAgreement(FIELDS[0], None, "answers.correct", 40, *shared),
        LabelAgreement(FIELDS[0], "new", "answers.correct", 20, *shared),
    )
    return replace(page(), gates=(VERDICT,), comparisons=comparisons, agreements=agreements, corrected=corrected)


@pytest.fixture(scope="module")
def plain():
    return render(full())


@pytest.fixture(scope="module")
def hostile():
    made = page(text=lambda kind, place: f"{kind} {place} {' '.join(HOSTILE)}", names=(HOSTILE[0], HOSTILE[1]))
    return render(made)


def attributes(html):
    for tag, found in Elements(html).found:
        for name, value in found.items():
            yield tag, name, value


@pytest.mark.parametrize("which", ["plain", "hostile"])
def test_nothing_is_fetched_and_nothing_runs_but_the_page_itself(which, request):
    html = request.getfixturevalue(which)
    tags = [tag for tag, _ in Elements(html).found]
    assert (tags.count("script"), tags.count("style")) == (2, 1)
    assert not {"img", "iframe", "object", "embed", "form", "base", "image", "use", "a:b"} & set(tags)
    for tag, name, value in attributes(html):
        assert not name.startswith("on") and name not in ("style", "src", "srcset", "action")
        if name in ("href", "xlink:href"):
            assert str(value).startswith("#") or (tag, value) == ("link", "data:,")
    assert not re.search(r"@import|url\(", html.partition("</style>")[0])


def test_the_policy_names_the_style_and_the_script_by_their_hashes(plain):
    [policy] = [
        found["content"] for tag, found in Elements(plain).found if found.get("http-equiv") == "Content-Security-Policy"
    ]
    blocks = re.findall(r"<(style|script)>(.*?)</\1>", plain, re.DOTALL)
    assert [kind for kind, _ in blocks] == ["style", "script"]
    for kind, text in blocks:
        assert f"{kind}-src 'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" in str(policy)
    assert str(policy).startswith("default-src 'none'; ")
    assert "unsafe" not in str(policy)


def test_the_policy_stands_before_everything_that_it_governs(plain):
    assert plain.index("Content-Security-Policy") < plain.index("<style>") < plain.index("<script")


def test_text_from_data_is_shown_as_it_is(hostile):
    shown = "".join(Elements(hostile).texts)
    assert "warning 0 </script><script>alert(1)</script>" in shown
    assert "{{ 7 * 7 }}" in shown and "49" not in shown
    assert "&lt;b&gt;" in shown


def test_characters_that_steer_text_are_nowhere_in_the_page(hostile):
    outside = re.sub(r'<script type="application/json".*?</script>', "", hostile, flags=re.DOTALL)
    assert not set("\u202e\u2066\x00") & set(outside)
    assert '<span class="mark">RLO</span>' in outside


def test_the_data_of_the_table_come_back_unchanged(hostile):
    [text] = re.findall(r'<script type="application/json" id="data-json">(.*?)</script>', hostile, re.DOTALL)
    found = json.loads(text)
    assert found["samples"]["questions"][1] == f"question 1 {' '.join(HOSTILE)}"
    assert (found["old"], found["new"], found["primary"]) == (0, 1, FIELDS[0])


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_in_the_script_cannot_end_it_and_is_the_same_data(text):
    made = for_script({"text": text})
    assert not set("<>&\u2028\u2029") & set(made)
    assert json.loads(made) == {"text": text}


def test_the_verdict_stands_first_with_its_rules(plain):
    main = plain.partition("<main")[2]
    assert main.index("FAIL") < main.index("New loses more than the margin.") < main.index("Before you trust a number")
    assert "<code><bdi" in main and "rouge_l.recall &gt;= -0.02" in main
    assert (
        main.index("rouge_l.recall &gt;= -0.02")
        < main.index("\u22120.100<small>\u22120.150 to \u22120.050")
        < main.index("It lost 0.1.")
    )
    assert "<title>set: FAIL, new</title>" in plain
    assert "No policy was given" not in plain


def test_several_releases_have_a_verdict_each_the_last_one_first():
    passed = ReleaseVerdict(
        "old", "mid", parse_policy({"primary": FIELDS[0], "margin": 0.02}, "x"), Verdict("PASS", "It may ship.")
    )
    html = render(replace(page(), gates=(passed, VERDICT)))
    assert html.index("New loses more than the margin.") < html.index("It may ship.")
    assert html.count('<section class="verdict') == 1 and html.count('<details id="verdict-') == 1
    assert "<title>set: 1 FAIL, 1 PASS</title>" in html


def test_the_difference_that_people_would_find_stands_beside_the_raw_one():
    row = field_comparison(people=-0.04, people_low=-0.09, people_high=0.01, n_labelled=120)
    html = render(replace(page(), comparisons=(Comparison("old", "new", (row, field_comparison(FIELDS[1]))),)))
    assert "in human labels</bdi></th>" in html and "estimated from the 120 with a label" in html
    assert "\u22120.040<small>\u22120.090 to +0.010</small>" in html
    assert "in human labels" not in render(
        replace(page(), comparisons=(Comparison("old", "new", (field_comparison(),)),))
    )


def test_without_a_gate_the_page_says_so():
    html = render(page())
    assert "No policy was given, so there is no verdict." in html
    assert "summary 0" in html


def test_what_cannot_be_compared_has_a_reason_and_no_numbers(plain):
    section = plain.partition('id="difference"')[2].partition("</section>")[0]
    first, second = section.split('<details class="comparison"')[1:]
    assert "the signatures differ" in first and "<table" not in first
    assert '<td class="finding not-compared">not compared: only old has it</td>' in second
    assert '<small class="words">~900 needed</small>' in second
    assert "3/1" in second and '<small class="words">only old 2 (2 failed)</small>' in second
    assert "longer answers" in second


def test_coverage_opens_only_where_something_failed(plain):
    def section(html):
        return html.partition('<section id="coverage"')[2].partition("</section>")[0]

    assert "No row failed or was skipped" in section(plain) and "<details>" in section(plain)
    failed = replace(page().releases[1].report, scores=(score(FIELDS[0], 0.5, failed=4),))
    gaps = section(render(replace(page(), releases=(page().releases[0], replace(page().releases[1], report=failed)))))
    assert "<details open>" in gaps and "6/10" in gaps and "0.300 to 0.700" in gaps and "60\u00a0%" in gaps


def test_agreement_with_people_and_the_means_that_they_would_give(plain):
    section = plain.partition('<section id="people"')[2].partition("</section>")[0]
    first, second = section.split("Estimated means of the human labels")
    assert first.count("0.800<small>0.700 to 0.900</small>") == 2
    assert "0.610<small>0.600 to 0.620</small>" in second and "0.550<small>0.500 to 0.600</small>" in second
    assert 'href="#people"' in plain and 'href="#people"' not in render(page())


def test_every_mean_stands_with_its_interval(plain):
    section = plain.partition('id="scores"')[2].partition("</section>")[0]
    assert section.count("<small>0.400 to 0.600</small>") == 1
    assert section.count("<small>0.500 to 0.700</small>") == 1


def test_the_history_says_whether_the_newest_report_differs():
    html = render(replace(page(), history_notes=("It is <lower> than before.",)))
    assert "It is &lt;lower&gt; than before." in html.partition('id="history"')[2].partition("</section>")[0]


def test_a_single_release_has_no_old_and_new():
    html = render(page(names=("only",)))
    assert "The answers" in html and "What changed" not in html and 'id="history"' not in html


def test_how_answers_were_generated_stands_with_their_prompts():
    made = {
        "model": "openai/<b>", "temperature": 0.7, "seed": 3, "max_tokens": 2048, "not_taken": ["seed"],
        "answered": 1999, "questions": 2000, "made_at": "2026-01-01T00:00:00+00:00", "system": "",
        "template": "In {lang}:\n{question}</pre>",
    }  # fmt: skip
    plain = page()
    [*others, last] = plain.releases
    report = replace(last.report, manifest={**last.report.manifest, "generation": made})
    html = render(replace(plain, releases=(*others, replace(last, report=report))))
    assert html.count("<h3>Generated answers</h3>") == 1
    said = " ".join(" ".join(Elements(html).texts).split())
    assert "openai/<b> ; temperature 0.7, seed 3, at most 2,048 tokens; not taken: seed; 1,999 of 2,000" in said
    assert "In {lang}:\n{question}</pre>" in Elements(html).texts
    assert "Generated answers" not in render(plain)


def test_a_file_is_written_whole_and_replaces_the_last_one(tmp_path):
    file = write(page(), tmp_path / "reports" / "page.html")
    first = file.read_text(encoding="utf-8")
    assert first.startswith("<!doctype html>") and first == render(page())
    write(page(n=2), file)
    assert file.read_text(encoding="utf-8") != first
    assert [path.name for path in file.parent.iterdir()] == ["page.html"]


def test_reports_of_one_command_share_it():
    made = page(names=("a", "b", "c"))
    other = replace(made.releases[2], command="answerkey evaluate other.jsonl")
    html = render(replace(made, releases=(*made.releases[:2], other)))
    shown = [" ".join(text.split()) for text in re.findall(r"<h3>(?:<bdi.*?)</h3>\s*<pre.*?</pre>", html, re.DOTALL)]
    assert [re.sub("<.*?>", "", one) for one in shown] == [
        "a, b answerkey evaluate a.jsonl", "c answerkey evaluate other.jsonl",
    ]  # fmt: skip


def test_the_margin_is_explained_where_it_is_drawn_first():
    compared = Comparison("old", "new", (field_comparison(),), margin=0.02)
    html = render(replace(page(), gates=(VERDICT,), comparisons=(compared,)))
    said = "The dashed line is the non-inferiority margin, −0.020."
    assert html.index('class="verdict') < html.index(said) < html.index("Difference between the releases")
    assert said not in render(replace(page(), comparisons=(replace(compared, margin=None),)))
