"""Comparing from the command line and as a flow: baselines, tables, why a number moved, history."""

import json
import re

import pytest

from answerkey.flows.cli import main
from answerkey.flows.compare_releases import compare_releases
from answerkey.metrics_core.decide.intervals import paired_proportions
from answerkey.metrics_core.errors import UserError
from tests.kit.prefect_api import artifacts_of, runs_named
from tests.tasks.comparing_help import answer, release, releases
from tests.tasks.staging_help import query

N = 40


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Of 40 answers `old` has 20 right, `new` 30 (12 fixed, 2 broken); `same` is `old` again, and there is a rerun."""
    folder = tmp_path_factory.mktemp("comparisons")
    old = [i < 20 for i in range(N)]
    new = [(right or i < 32) and i not in (0, 1) for i, right in enumerate(old)]
    rows = {
        name: [answer(i, "yes" if right else "no", right, kind="ab"[i % 2]) for i, right in enumerate(rights)]
        for name, rights in (("old", old), ("new", new), ("same", old))
    }
    metrics = ("exact_match", "contains")
    releases(folder, rows, metrics)
    release(folder, "old", rows["old"], metrics)
    return folder


def lines_of(result):
    """The lines with something in them."""
    assert result.returncode == 0, result.stderr
    return [line for line in result.stdout.splitlines() if line]


def cells(line):
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_a_table_with_a_verdict(bare_cli, home):
    result = bare_cli("compare", "old", "new", "--by-slice", "--wide", "--fields", "label.correct")
    lines = lines_of(result)
    low, high, _ = paired_proportions(fixed=12, broken=2, n=N) or (0.0, 0.0, "")
    size = f"+0.250 [{low:+.3f}, {high:+.3f}]"
    assert lines[0] == "d/old/v2 → d/new/v1: 40 samples in both"
    assert lines[1].startswith("d/new/v1 is better than d/old/v2: label.correct went from 0.500 to 0.750 (+0.250, 95 %")
    assert cells(lines[2]) == [
        "field", "samples", "old", "new", "difference [95 % interval]", "p adjusted", "finding", "detectable",
        "fixed/broken",
    ]  # fmt: skip
    detectable = cells(lines[4])[7]
    assert cells(lines[4]) == [
        "label.correct", "40", "0.500", "0.750", size, "0.013", "better", detectable, "12/2",
    ]  # fmt: skip
    assert lines[5] == "label.correct by slice"
    assert [cells(line)[0] for line in lines[8:10]] == ["kind=a", "kind=b"]
    assert query(home, "SELECT DISTINCT new_report FROM comparisons WHERE old_report = 'd/old/v2'") == [("d/new/v1",)]


def test_what_is_not_shown_says_what_would_have_been(bare_cli, home):
    result = bare_cli("compare", "d/old/v1", "same", "--json", "--samples", "3")
    content = json.loads(result.stdout)
    assert (content["old"], content["new"], content["samples"]) == ("d/old/v1", "d/same/v1", [])
    row = content["rows"][0]
    assert (row["metric"], row["difference"], row["finding"]) == ("label", 0.0, "not shown to differ")
    table = bare_cli("compare", "d/old/v1", "same", "--wide").stdout
    assert "No difference between d/same/v1 and d/old/v1 is shown: label.correct went from" in table
    assert f"not shown to differ       {row['mde']:.3f}" in table


def test_samples_that_changed_with_both_answers(bare_cli, home):
    result = bare_cli("compare", "old", "new", "--samples", "2", "--moved", "worse")
    assert result.stdout.splitlines()[-8:] == [
        line
        for sample in (0, 1)
        for line in (
            f"q{sample:03}  1.000 → 0.000 (-1.000)", f"  question    Question {sample}?", "  reference   yes",
            "  old         yes", "  new         no",
        )
    ][-8:]  # fmt: skip


def test_a_report_has_the_worst_samples_where_they_are_asked_for(bare_cli, home):
    result = bare_cli("report", "d/old/v1", "--samples", "1", "--by", "exact_match.match")
    assert result.stdout.splitlines()[-5:] == [
        "old: the samples with the worst exact_match.match",
        "q020  0.000", "  question   Question 20?", "  reference  yes", "  answer     no",
    ]  # fmt: skip
    [one] = json.loads(bare_cli("report", "d/old/v1", "--samples", "2", "--json").stdout)
    assert [(row["sample_id"], row["field"], row["value"]) for row in one["samples"]] == [
        ("q020", "label.correct", 0.0), ("q021", "label.correct", 0.0),
    ]  # fmt: skip
    compact = bare_cli("report", "d/old/v1", "--json").stdout
    assert "samples" not in json.loads(compact)[0] and "Question" not in compact


def test_worst_samples_of_reports_of_which_one_lacks_the_field(bare_cli, tmp_path):
    for name, metrics in (("old", ["exact_match", "contains"]), ("new", ["exact_match"])):
        release(tmp_path, name, [answer(0, "yes", latency_s=9), answer(1, "no", latency_s=2)], metrics)
    slow = json.loads(
        bare_cli("report", "old", "--samples", "1", "--by", "latency.seconds", "--home", tmp_path, "--json").stdout
    )
    assert [row["value"] for row in slow[0]["samples"]] == [9.0]
    words = ("report", "old", "new", "--samples", "1", "--by", "contains.match", "--home", tmp_path)
    lines = lines_of(bare_cli(*words))
    assert "old: the samples with the worst contains.match" in lines and lines[-1] == "new: no sample has a number"
    content = json.loads(bare_cli(*words, "--json").stdout)
    assert [[row["field"] for row in entry["samples"]] for entry in content] == [["contains.match"], []]


def test_what_differs_between_two_reports(bare_cli, home):
    lines = lines_of(bare_cli("diff", "d/old/v1", "new"))
    assert lines[:3] == [
        "d/old/v1 → d/new/v1",
        "samples: 40 in both; 14 with another answer, 14 with another label",
        "the same: judge, prompt, parser, code, settings of metrics, library versions, parameters",
    ]
    content = json.loads(bare_cli("diff", "d/old/v1", "new", "--json").stdout)
    assert (content["n_answers"], content["n_labels"], content["changed"]) == (14, 14, [])


def test_history_is_drawn(bare_cli, home):
    lines = lines_of(bare_cli("history", "label.correct"))
    assert lines[0] == "label.correct on d"
    assert [line.split()[0] for line in lines[3:7]] == ["old/v1", "new/v1", "same/v1", "old/v2"]
    assert all("├" in line and "●" in line and "┤" in line for line in lines[3:7])
    assert lines[4].index("●") > lines[3].index("●") == lines[5].index("●")
    content = json.loads(bare_cli("history", "label.correct", "--json").stdout)
    assert [moment["mean"] for moment in content["d"]] == [0.5, 0.75, 0.5, 0.5]
    assert lines[7:] == []


@pytest.mark.real
def test_the_flow_takes_names_and_shows_what_it_found(on_server, home, ask):
    script = (
        "from answerkey.flows.parameters import Comparing\n"
        "from answerkey.flows.compare_releases import compare_releases\n"
        f"pair = compare_releases(Comparing(old='old', new='new', primary='contains.match'), {str(home)!r},\n"
        "    '{primary: contains.match, margin: 0.01}')\n"
        "print(pair.old, pair.new, pair.rows[0].name, pair.rows[0].finding)"
    )
    assert on_server(script) == "d/old/v2 d/new/v1 contains.match better\n"
    [run] = runs_named(ask, "compare new with old")
    assert run["state_type"] == "COMPLETED"
    assert artifacts_of(ask, run["id"]).keys() == {
        "differences-d-old-d-new",
        "comparison-d-old-d-new",
        "verdict-d-old-d-new",
    }
    assert (home / "pages/d/new-v1-against-old-v2.html").is_file()


def test_a_form_takes_files_of_scores_and_keeps_them_as_reports(tmp_path):
    """Half of the old release's answers are right, and all of the new one's."""
    for name, right in {"v1": N / 2, "v2": N}.items():
        rows = [f"q{n},{int(n < right)}" for n in range(N)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,score", *rows]))

    def compared(**form):
        pair = compare_releases(form, str(tmp_path), "{primary: given.score, margin: 0.1}", keep=True, page=False)
        return pair.old, pair.new, pair.rows[0].name, pair.rows[0].difference, pair.rows[0].finding

    both = {"old": str(tmp_path / "v1.csv"), "new": str(tmp_path / "v2.csv"), "dataset": "faq"}
    for version in ("v1", "v2"):
        assert compared(**both) == (f"faq/v1/{version}", f"faq/v2/{version}", "given.score", 0.5, "better")
    verdicts = "SELECT new_report, outcome FROM verdicts ORDER BY ALL"
    [versions] = query(tmp_path, "SELECT count(DISTINCT answers_version) FROM answers")
    assert versions == (2,), "equal files are equal answers"
    assert query(tmp_path, verdicts) == [("faq/v2/v1", "PASS"), ("faq/v2/v2", "PASS")]
    assert query(tmp_path, "SELECT DISTINCT dataset, baseline FROM gates") == [("faq", "v1")]
    assert not list((tmp_path / "runs").iterdir())
    with pytest.raises(UserError, match=r"^v1: there is no such file, and for two reports"):
        compared(old="v1")


@pytest.mark.real
def test_commands_run_flows_where_there_is_a_server(cli, home, ask):
    rules = ("--primary", "contains.match", "--margin", "0.01", "--json")
    assert json.loads(cli("compare", "d/old/v1", "same", "--json").stdout)["new"] == "d/same/v1"
    gated = cli("gate", "d/old/v1", "same", *rules)
    assert (gated.returncode, json.loads(gated.stdout)["outcome"], gated.stderr) == (3, "INCONCLUSIVE", "")
    keys = {}
    for name in ("compare same with d/old/v1", "gate same against d/old/v1"):
        [run] = runs_named(ask, name)
        keys[name] = artifacts_of(ask, run["id"]).keys()
        assert (run["state_type"], "answerkey" in run["tags"]) == ("COMPLETED", True)
    compared = {"comparison-d-old-d-same"}
    assert keys["compare same with d/old/v1"] == compared | {"differences-d-old-d-same"}
    assert keys["gate same against d/old/v1"] == compared | {"verdict-d-old-d-same"}
    # The commands draw no page.
    assert not (home / "pages/d/same-v1-against-old-v1.html").exists()
    of_flows = "SELECT flow, dataset, status, parameters -> '$.comparing.new' FROM runs WHERE run_id = ?"
    [compared] = runs_named(ask, "compare same with d/old/v1")
    assert query(home, of_flows, [compared["id"]]) == [("compare-releases", "d", "complete", '"same"')]
    assert query(home, "SELECT DISTINCT status FROM runs WHERE flow = 'gate-releases'") == [("complete",)]


def test_one_field_per_metric_is_shown_and_pairs_share_their_family(tmp_path, capsys):
    metrics = ("answer_correctness", "rouge_l", "exact_match")
    n_right = {"old": 6, "one": 13, "two": 13}
    rows = {name: [answer(i, "yes" if i < right else "no") for i in range(20)] for name, right in n_right.items()}
    releases(tmp_path, rows, metrics)
    words = ["report", "d/one/v1", "d/two/v1", "--baseline", "old", "--home", str(tmp_path)]

    def shown(*more):
        assert main([*words, *more]) == 0
        return capsys.readouterr().out

    def fields(text):
        return re.findall(r"^(\w+\.\w+) ", text, re.MULTILINE)

    headlines = ["answer_correctness.token_overlap_recall", "rouge_l.recall", "exact_match.match"]
    # Two tables of comparisons, one of reports.
    assert fields(shown()) == headlines * 3
    for pair in json.loads(shown("--json"))["comparisons"]:
        assert pair["n_pairs"] == 2
        # Seven answers more are right, p is 2 / 2^7: six fields of two pairs are one family.
        assert [row["p_adjusted"] for row in pair["rows"]] == pytest.approx([6 * 2 / 2**7] * 3, rel=0.1)
    # With one reference per sample, rouge_l is a part of answer_correctness under another name; the headline stays.
    every = fields(shown("--all-fields"))
    assert len(every) == 3 * 8 and every[:16] == every[:8] * 2 and set(every[16:]) == set(every[:8])
    assert [name for name in every[16:] if not name.startswith("answer_correctness.")] == headlines[1:]
