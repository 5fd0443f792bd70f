"""`answerkey gate` and `answerkey calibrate` as their users and CI systems start them."""

import html
import json
import re
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt

from answerkey.tasks.load.load import Source
from tests.tasks.comparing_help import LENIENT, answer, release, releases
from tests.tasks.gating_help import Made, warehouse
from tests.tasks.staging_help import Row, jsonl, query, run

FIELD = "label.correct"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Four releases with 500 right or wrong answers: two alike, one worse, one with failures; and a hostile name."""
    folder = tmp_path_factory.mktemp("gated")

    def scores(wrong, failed=0):
        found: dict[str, float | str | None] = {f"q{i:03}": float(i >= wrong) for i in range(500)}
        return found | {f"q{i:03}": "failed" for i in range(400, 400 + failed)}

    names = {"old": scores(50), "same": scores(50), "worse": scores(150), "thin": scores(50, failed=40)}
    nasty = {"[red]<b>\x1b[2J\u202e": scores(55)}
    warehouse(folder, [Made(name, {FIELD: found}) for name, found in (names | nasty).items()])
    return folder


QUESTIONS, RIGHT, BAD = 600, 480, 29
INSTEAD_OF_WRONG: dict[str, Row | None] = {
    "honest": {"answer": "no"},
    "dropper": None,
    "renamer": {"id": "another"},
    "unanswered": {"answer": None, "missing_because": "timeout: 30 s"},
    "damaged": {"answer": "y\x00es"},
    "blank": {"answer": ""},
    "mover": {"answer": "no", "kind": "elsewhere"},
}
"""What stands in the file of a new release in place of an answer that the old one had right."""


def answers_of(instead, bad=BAD):
    """The old release's answers, 480 of 600 right, with `instead` in place of the first `bad` ones."""
    rows = [
        answer(i, "yes" if i < RIGHT else "no", kind="a" if i < RIGHT else "b", missing_because=None)
        for i in range(QUESTIONS)
    ]
    if instead is None:
        return rows[bad:]
    changed = [row | instead | ({"id": f"another{row['id']}"} if "id" in instead else {}) for row in rows[:bad]]
    return [*changed, *rows[bad:]]


@pytest.fixture(scope="module")
def cheats(tmp_path_factory):
    """An old release, and new ones that all have the same 29 answers wrong, or hide them."""
    folder = tmp_path_factory.mktemp("cheats")
    rows = [{**row, "release": "old"} for row in answers_of({}, 0)]
    for name, instead in INSTEAD_OF_WRONG.items():
        rows += [{**row, "release": name} for row in answers_of(instead)]
    source = Source(jsonl(folder / "all.jsonl", rows), dataset="d", slices=("kind",))
    run(folder, source, ["exact_match"], contract=LENIENT)
    release(folder, "alone", answers_of(None))
    release(folder, "rewriter", answers_of({"answer": "no", "references": ["no"]}))
    return folder


def decided(cli, home, new, *rules, margin=0.02):
    """Exit code and JSON of `answerkey gate old NEW` on exact matches."""
    options = [part for rule in rules for part in ("--rule", rule)]
    policy = ("--primary", "exact_match.match", "--margin", margin, *options)
    result = cli("gate", "old", new, *policy, "--home", home, "--json")
    return result.returncode, json.loads(result.stdout)


@pytest.mark.parametrize(
    ("new", "why"),
    [
        ("honest", ""),
        ("dropper", "29 absent"),
        ("alone", "29 absent"),
        ("unanswered", "29 unanswered (timeout)"),
        ("damaged", "29 quarantined (encoding)"),
        ("renamer", "29 absent"),
        ("blank", ""),
        ("mover", ""),
    ],
)
def test_not_answering_is_no_better_than_answering_wrong(bare_cli, cheats, new, why):
    rules = ("exact_match.match[kind=a] >= -0.03", "level exact_match.match >= 0.8")

    code, verdict = decided(bare_cli, cheats, new, *rules)

    assert (code, verdict["outcome"]) == (1, "FAIL")
    primary, of_slice, level, _coverage = verdict["rules"]
    assert [rule["outcome"] for rule in verdict["rules"]] == ["FAIL", "FAIL", "FAIL", "PASS"]
    # 29 of 600 lost
    assert (primary["value"], primary["n"], of_slice["n"]) == (pytest.approx(-29 / 600), 600, 480)
    assert level["value"] < 0.77
    if why:
        assert f", 29 of them not answered by {new} and counted as 0: {why}); it lost more" in verdict["sentence"]
    assert primary["n_unanswered"] == of_slice["n_unanswered"] == level["n_unanswered"] == (BAD if why else 0)


@pytest.mark.parametrize(
    ("new", "slice_", "code", "sentence"),
    [
        ("honest", "a", 1, "29 of 480 samples score lower than in old"),
        ("dropper", "a", 1, "29 of 480 samples score lower than in old"),
        ("honest", "b", 0, "0 of 120 samples score lower than in old"),
        ("rewriter", "a", 4, "0 of 451 samples score lower than in old, but 29 cannot be compared"),
    ],
)
def test_none_of_some_questions_may_break_whatever_the_others_do(bare_cli, cheats, new, slice_, code, sentence):
    rule = f"exact_match.match[kind={slice_}]"
    returned, found = decided(bare_cli, cheats, new, f"none broken {rule}", margin=0.2)
    assert (returned, found["rules"][1]["sentence"]) == (code, f"{rule}: {sentence}")


def test_changed_references_are_another_data_set(bare_cli, cheats):
    code, found = decided(bare_cli, cheats, "rewriter", "level exact_match.match >= 0.7")
    assert (code, found["outcome"]) == (4, "INCOMPLETE")
    assert [rule["outcome"] for rule in found["rules"]] == ["INCOMPLETE", "PASS", "PASS"]
    assert (
        "29 samples have different questions or references in the data set of rewriter; evaluate both releases on the "
        "same version of the data set"
    ) in found["sentence"]


@pytest.mark.parametrize(
    ("new", "margin", "code", "outcome"),
    [
        ("same", 0.02, 0, "PASS"),
        ("worse", 0.02, 1, "FAIL"),
        ("same", 0.001, 3, "INCONCLUSIVE"),
        ("thin", 0.02, 4, "INCOMPLETE"),
    ],
)
def test_the_exit_code_is_the_verdict(bare_cli, home, tmp_path, new, margin, code, outcome):
    xml = tmp_path / "gate.xml"
    result = bare_cli("gate", "old", new, "--primary", FIELD, "--margin", margin, "--json", "--output", xml)
    assert result.returncode == code, result.stderr
    content = json.loads(result.stdout)
    assert (content["outcome"], content["exit_code"], content["old"]) == (outcome, code, "faq/old/v1")
    [suite] = ElementTree.parse(xml).getroot()
    assert [case.get("name") for case in suite.findall("testcase")] == content["policy"]
    assert {element.get("name"): element.get("value") for element in suite.iter("property")}["basis"] == "people"
    assert int(suite.get("failures", "")) + int(suite.get("errors", "")) == sum(
        rule["outcome"] != "PASS" for rule in content["rules"]
    )


def test_sentences_without_questions_are_not_for_the_offline_judge(bare_cli, tmp_path):
    """A third of the answers names another city; two thirds repeat the reference, which any judge gets right."""
    cities = ("Berlin", "Munich", "Vienna")
    rows = []
    for name, n_wrong in (("old", 0), ("new", 20)):
        for i in range(60):
            right = f"The headquarters of company {i} are in {cities[i % 3]}."
            wrong = f"The headquarters of company {i} are in {cities[(i + 1) % 3]}."
            rows.append({"id": f"q{i:02}", "release": name, "answer": wrong if i < n_wrong else right})
            rows[-1]["references"] = [right]
    run(tmp_path, Source(jsonl(tmp_path / "all.jsonl", rows), dataset="d"), ["meaning_match"])

    policy = ("--primary", "meaning_match.match", "--margin", 0.4)
    result = bare_cli("gate", "old", "new", *policy, "--home", tmp_path, "--json")

    assert result.returncode == 4, result.stderr
    verdict = json.loads(result.stdout)
    assert verdict["outcome"] == "INCOMPLETE"
    assert "60 of 60 on new as outside its training data (60 without a question that tells which word" in str(verdict)


def test_what_the_old_release_has_no_score_for_may_have_been_its_best(bare_cli, tmp_path):
    """A judge that was down for 30 of 1,000 answers of the old release, and 10 that it failed on in both."""
    down = {f"q{i:03}": "failed: timeout" for i in range(30)}
    both = {f"q{i:03}": "failed: content_filter" for i in range(40, 50)}
    scores = {f"q{i:03}": float(i >= 100) for i in range(1000)}
    made = [Made("old", {FIELD: scores | down | both}), Made("new", {FIELD: scores | both})]
    made += [Made("bad", {FIELD: scores | {f"q{i:03}": 0.0 for i in range(500, 640)}})]
    warehouse(tmp_path, made)
    words = ("gate", "old", "--home", tmp_path, "--primary", FIELD, "--margin")
    result = bare_cli(*words[:2], "new", *words[2:], 0.02, "--json")
    assert result.returncode == 4, result.stderr
    [rule, _] = json.loads(result.stdout)["rules"]
    assert (rule["value"], rule["n"], rule["n_unmeasured"]) == (-0.04, 1000, 50)
    assert rule["sentence"].endswith(
        "1,000 samples, 10 of them not scored and counted as 0: 10 failed (content_filter), 40 of them not scored in "
        "old and counted as 1 there); this decides nothing, because it would be PASS if what was not scored had the "
        "best values; score what failed again with --only-failed, or complete the data set"
    )
    # 140 answers were lost, so it fails whatever the 40 were.
    result = bare_cli(*words[:2], "bad", *words[2:], 0.02)
    assert result.returncode == 1
    assert "40 of them not scored in old and counted as 0 there" in " ".join(result.stdout.split())


def test_too_few_samples_may_be_allowed(bare_cli, home, tmp_path):
    xml = tmp_path / "gate.xml"
    options = ("--primary", FIELD, "--margin", 0.001, "--allow-inconclusive", "--output", xml)
    assert bare_cli("gate", "old", "same", *options, code=0).stdout.startswith("INCONCLUSIVE")
    [suite] = ElementTree.parse(xml).getroot()
    assert [suite.get(name) for name in ("failures", "errors", "skipped")] == ["0", "0", "1"]
    bare_cli("gate", "old", "thin", *options, code=4)


def test_a_policy_file_and_the_text(bare_cli, home, tmp_path):
    file, written = tmp_path / "gate.yaml", tmp_path / "verdict.json"
    file.write_text(f"primary: {FIELD}\nmargin: 0.05\nrules: [level {FIELD} >= 0.8]\n")
    result = bare_cli("gate", "faq/old/v1", "faq/same/v1", "--policy", file, "--output", written, code=0)
    first, *lines = result.stdout.splitlines()
    assert first.startswith("PASS  same may ship in place of old: label.correct went")
    assert [line.split("  ")[0].strip() for line in lines if " PASS " in line] == [
        "label.correct >= -0.05", "level label.correct >= 0.8", "coverage >= 0.95",
    ]  # fmt: skip
    assert json.loads(written.read_text())["outcome"] == "PASS"


def test_a_hostile_name_is_shown_and_does_nothing(bare_cli, home):
    result = bare_cli("gate", "old", "[red]<b>\x1b[2J\u202e", "--primary", FIELD, "--margin", 0.05, code=0)
    assert result.stdout.startswith("PASS  [red]<b>[U+001B][2J[RLO] may ship")
    assert not {"\x1b", "\u202e"} & set(result.stdout)


def test_calibrate_prints_and_keeps(bare_cli, tmp_path, own_home):
    file = tmp_path / "labels.csv"
    rows = [f"q{i},{'a' if i % 2 else 'b'},{int(i % 3 > 0)},{int(i % 4 > 0)}" for i in range(60)]
    file.write_text("\n".join(["id,release,label,verdict", *rows]))
    result = bare_cli("calibrate", "mine.match", "--labels", file, code=0)
    assert [line.split()[:2] for line in result.stdout.splitlines() if "[" in line] == [
        ["all", "60"], ["b", "30"], ["a", "30"],
    ]  # fmt: skip
    assert "signature: mine|stored" in result.stdout
    content = json.loads(bare_cli("calibrate", "mine.match", "--labels", file, "--json").stdout)
    assert [part["release"] for part in content["calibrations"]] == [None, "b", "a"]


def test_names_in_answers_notify_nobody_where_the_verdict_is_a_comment(bare_cli, tmp_path, own_home):
    hostile = "ask @octocat of @org/team, https://github.com/org/repo/issues/7, &#64;octocat, me@example.com, #12"
    texts = {"old": "yes", "new": hostile}
    releases(own_home, {name: [answer(i, text) for i in range(60)] for name, text in texts.items()})
    summary = tmp_path / "summary.md"
    rules = ("--primary", "exact_match.match", "--margin", "0.05")

    bare_cli("gate", "old", "new", *rules, "--output", summary, code=1)

    page = MarkdownIt("commonmark").enable("table").render(summary.read_text(encoding="utf-8"))
    seen = html.unescape(re.sub("<[^>]*>", "", page))
    assert hostile[:20] in seen.replace("\u200b", "")
    assert re.findall(r"@\w\S*|\S*://\S*|#\d+", seen) == []
    assert "<a " not in page


def test_the_verdict_stands_on_top_of_a_page(bare_cli, tmp_path, own_home):
    policy = tmp_path / "gate.yaml"
    n_right = {"old": 50, "new": 20}
    releases(
        own_home,
        {name: [answer(i, "yes" if i < right else "no") for i in range(60)] for name, right in n_right.items()},
    )
    policy.write_text("primary: exact_match.match\nmargin: 0.05\n")
    options = ("--policy", policy)
    summary, link = tmp_path / "summary.md", ("--link", "https://example.com/run/7")
    result = bare_cli(
        "gate", "old", "new", *options, "--output", tmp_path / "gate.html", "--output", summary, *link, code=1
    )
    lines = summary.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "## FAIL: new in place of old"
    assert lines[2].startswith("new must not ship in place of old: exact\\_match.match went from 0.833 to 0.333")
    assert "By exact\\_match.match, 30 samples got worse, 0 got better, and 30 stayed the same." in lines
    worst = lines.index("| worst samples | question | right answer | old | new |")
    assert lines[worst + 2 : worst + 7] == [f"| q{i:03} | Question {i}? | yes | yes | no |" for i in range(20, 25)]
    assert lines[worst + 7 :] == ["", "[All answers side by side](https://example.com/run/7)"]
    assert any(line.startswith("| exact\\_match.match \\>= -0.05 | FAIL | -0.500 [") for line in lines)
    page = (tmp_path / "gate.html").read_text(encoding="utf-8")
    assert "<title>Do not ship new · d</title>" in page
    assert "new must not ship in place of old: exact_match.match went from 0.833 to 0.333" in page
    figures = re.search(r'<div class="figures">(.*?)</section>', page, re.DOTALL)[1]
    shown = [html.unescape(re.sub("<.*?>", "", part)) for part in re.findall(r'<p class="figure">(.*?)</p>', figures)]
    assert shown == ["33.3\u00a0%", "\u221250.0 points", "0 better30 worse"]
    result = bare_cli("report", "new", "--baseline", "old", *options, "--html", tmp_path / "report.html")
    assert (result.returncode, result.stdout) == (1, f"{tmp_path / 'report.html'}\n"), result.stderr
    assert "<title>Do not ship new · d</title>" in (tmp_path / "report.html").read_text(encoding="utf-8")
    result = bare_cli("report", "new", "--baseline", "old", *options)
    shown = result.stdout
    assert result.returncode == 1
    assert (
        shown.index("FAIL  new must") < shown.index("d/old/v1 → d/new/v1: 60 samples") < shown.index("2 releases on d")
    )
    bare_cli("gate", "gone", "new", *options, "--output", tmp_path / "none.html", code=4)
    assert "<title>Cannot be decided: new · d</title>" in (tmp_path / "none.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(("policy", "kept"), [("last shipped", "/same/v1"), ("anchor", "old")])
def test_what_passes_as_its_gate_is_kept_is_the_next_baseline_if_the_policy_says_so(bare_cli, tmp_path, policy, kept):
    warehouse(tmp_path, [Made(name, {FIELD: {f"q{i}": 1.0 for i in range(500)}}) for name in ("old", "same")])
    text = f"{{primary: {FIELD}, margin: 0.05, baseline: {policy}}}"

    bare_cli("gate", "old", "same", "--policy", text, "--keep", "--home", tmp_path, code=0)

    [(baseline,)] = query(tmp_path, "SELECT baseline FROM current_gates")
    assert baseline.endswith(kept)
