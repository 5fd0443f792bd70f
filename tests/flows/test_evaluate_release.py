"""The main job from end to end: the command line, a real server, the warehouse."""

import html
import json
import re
import signal
from pathlib import Path

import duckdb
import pytest

from answerkey.tasks.warehouse.home import Home
from tests.flows.conftest import started_on
from tests.kit.prefect_api import artifacts_of, runs_named
from tests.kit.waiting import wait_until
from tests.tasks.staging_help import jsonl, query

SUITE = """
expectations:
  - {type: expect_column_values_to_be_in_set, kwargs: {column: topic, value_set: [colour, geo, name, number]}}
  - type: expect_column_mean_to_be_between
    kwargs: {column: answer_chars, max_value: 1}
    severity: warning
    meta: {name: brief_answers}
"""
FAST = "answer_correctness,exact_match,contains,bleu"


def test_two_releases_in_one_file(cli, answers, tmp_path, ask, home):
    suite = tmp_path / "mine.yaml"
    suite.write_text(SUITE)
    result = cli(
        "evaluate", answers, "--metrics", FAST, "--slice", "topic", "--json",
        "--expectations", suite, page=True, code=0,
    )  # fmt: skip
    assert (home / "pages/_data-docs/validations/contract").is_dir()
    assert "columns id, answer=response, references=reference, release" in result.stderr
    assert "faq: 8 rows read, 8 accepted, 0 quarantined" in result.stderr
    old, new = json.loads(result.stdout)
    assert (old["report_id"], new["report_id"]) == ("faq/old/v1", "faq/new/v1")
    means = {
        (report["release"], score["metric"], score["field"]): score["mean"]
        for report in (old, new)
        for score in report["scores"]
        if score["slice"] == "all"
    }
    # Of old only q1 is right word for word (a minus sign is not nothing, and q3 was not answered).
    assert means["old", "exact_match", "match"] == 0.25
    assert means["new", "exact_match", "match"] == 0.5
    assert means["old", "contains", "match"] == 0.5
    assert means["new", "contains", "match"] == 0.75
    assert means["new", "answer_correctness", "token_overlap_recall"] == 0.75
    assert ("new", "bleu", "corpus_bleu") in means
    [number] = [s for s in old["scores"] if s["slice"] == "topic=number" and s["metric"] == "exact_match"]
    assert (number["mean"], number["n_total"], number["ci_low"]) == (0.0, 1, None)
    _shown_in_the_ui(ask, home)
    shown = cli("report", "--by", "exact_match.match").stdout.splitlines()
    start = shown.index("exact_match.match by slice: mean [95 % interval]")
    cells = [line.split() for line in shown[start + 3 : start + 7]]
    assert cells == [["topic=colour", "0.000", "1.000", "1"], ["topic=geo", "1.000", "0.000", "1"],
                     ["topic=name", "0.000", "0.000", "1"], ["topic=number", "0.000", "1.000", "1"]]  # fmt: skip
    _compared(cli, answers, home)


def _compared(cli, answers, home):
    """What stands in the terminal: both of exactly two releases compared, unless one says not to, or there are more."""
    compared = "SELECT old_report, new_report FROM comparisons GROUP BY ALL ORDER BY ALL"
    assert query(home, compared) == [("faq/old/v1", "faq/new/v1")]
    again = ("evaluate", answers, "--metrics", "exact_match", "--quiet")
    printed = cli(*again, code=0).stdout
    assert printed.startswith(
        "old comes first, so it is taken as the old release (the other way round: --baseline new)."
    )
    assert "\nNo difference between faq/new/v2 and faq/old/v2 is shown: exact_match.match went from 0.250" in printed
    cli(*again, "--baseline", "none", code=0)
    # An estimate needs no key.
    cli("evaluate", answers, "--metrics", "meaning_match", "--judge", "openai/gpt-4o-mini", "--dry-run", code=0)
    assert query(home, compared) == [("faq/old/v1", "faq/new/v1"), ("faq/old/v2", "faq/new/v2")]


def _shown_in_the_ui(ask, home):
    named = runs_named(ask, "evaluate 2 releases on faq")
    # Other tests evaluate such a data set on the same server, each in a home of its own.
    [run] = [run for run in named if str(home) in json.dumps(run["parameters"])]
    assert run["state_type"] == "COMPLETED"
    names = [task["name"] for task in ask("task_runs/filter", {"flow_runs": {"id": {"any_": [run["id"]]}}})]
    assert "score bleu 1/1, 8 rows" in names
    artifacts = artifacts_of(ask, run["id"])
    assert {"scores-faq", "report-faq-new", "scoring"} <= set(artifacts)
    [matches] = [row for row in json.loads(artifacts["scores-faq"]["data"]) if row["metric"] == "exact_match.match"]
    assert [matches[name].split()[0] for name in ("old", "new")] == ["0.250", "0.500"]
    page = artifacts["report-faq-new"]["data"]
    # Two releases are compared without being asked, and the page says which was taken as the old one.
    assert "No difference between new and old is shown: " in page
    assert "old comes first, so it is taken as the old release (the other way round: --baseline new)." in page
    assert page.startswith("# faq\n\n**old**, **new**. Made ")
    file = home / "pages/faq/new-v1.html"
    [linked] = re.findall(r'href="\.\./(_data-docs/validations/contract/[^"]*)"', file.read_text())
    assert "Every row has an id" in (home / "pages" / linked).read_text()
    assert f"--slice topic \\\n    --metrics {FAST} \\\n" in html.unescape(file.read_text())
    assert "brief_answers" in [row[0] for row in query(home, "SELECT rule FROM validations WHERE NOT success")]
    assert (home / "great_expectations/gx/expectations/mine.json").is_file()
    assert f"The whole page: `{file.resolve()}`" in page
    assert artifacts["scoring"]["data"] in (100, 100.0)
    logs = [line["message"] for line in ask("logs/filter", {"logs": {"flow_run_id": {"any_": [run["id"]]}}})]
    assert "faq: 8 rows read, 8 accepted, 0 quarantined" in logs


def test_a_rerun_scores_nothing_and_makes_version_2(cli, answers, tmp_path, home):
    assert cli("evaluate", answers, "--metrics", FAST).returncode == 0
    before = query(home, "SELECT * FROM scores ORDER BY ALL")
    rows = query(home, "SELECT max(created_at) FROM measurements")
    shuffled = tmp_path / "other" / "faq.jsonl"
    shuffled.parent.mkdir()
    shuffled.write_text("\n".join(reversed(answers.read_text().splitlines())))
    process = cli("evaluate", shuffled, "--metrics", FAST)
    assert (
        "8 rows, equal ones once: answer_correctness (0 new, 8 known), exact_match (0 new, 8 known)" in process.stderr
    )
    assert query(home, "SELECT max(created_at) FROM measurements") == rows
    assert query(home, "SELECT * FROM scores WHERE report_id LIKE '%/v1' ORDER BY ALL") == before
    same = "SELECT release, sample_id, metric, field, value FROM scores WHERE report_id LIKE ? ORDER BY ALL"
    assert query(home, same, ["%/v2"]) == query(home, same, ["%/v1"])
    assert query(home, "SELECT count(DISTINCT dataset_version) FROM reports") == [(1,)]
    listed = cli("report", "--list").stdout
    assert all(report in listed for report in ("faq/old/v1", "faq/old/v2", "faq/new/v1", "faq/new/v2"))
    newest = cli("report").stdout
    assert "faq/new/v2" in newest
    assert "- 1 row with a blank answer: a missing answer scores 0 (row 6)" in newest.splitlines()
    assert list((home / "runs").iterdir()) == list((home / "parts").iterdir()) == []
    assert "faq/new/v1" in cli("report", "faq/new/v1").stdout


@pytest.mark.real
def test_a_failed_shard_is_reported_and_only_it_is_scored_again(cli, answers, tmp_path, home):
    blocked = _block_the_part_of("contains", answers, home, tmp_path)
    result = cli("evaluate", answers, "--metrics", "contains,exact_match", code=4)
    assert "faq/new/v1: no answer has a score of contains" in result.stderr
    assert "contains: 8 rows failed: IsADirectoryError" in result.stderr
    assert "PARTIAL" in result.stdout
    failed = query(home, "SELECT DISTINCT status, \"value\", reason FROM scores WHERE metric = 'contains'")
    assert [(status, value) for status, value, _ in failed] == [("failed", None)]
    assert failed[0][2].startswith("task_failed: IsADirectoryError")
    [bounds] = query(
        home,
        "SELECT DISTINCT n_total, n_scored, n_failed, coverage, mean, bound_low, bound_high FROM report_scores "
        "WHERE metric = 'contains'",
    )
    assert bounds == (4, 0, 4, 0.0, None, 0.0, 1.0)
    blocked.rmdir()
    process = cli("evaluate", answers, "--metrics", "contains,exact_match,rouge_l", "--only-failed")
    assert "contains (8 new, 0 known), exact_match (0 new, 8 known), rouge_l (0 new, 0 known)" in process.stderr
    statuses = query(
        home,
        "SELECT metric, status, count(*) FROM scores WHERE report_id LIKE '%/v2' GROUP BY ALL ORDER BY ALL",
    )
    assert statuses == [("contains", "scored", 8), ("exact_match", "scored", 8), ("rouge_l", "skipped", 24)]


def _block_the_part_of(metric, answers, home, tmp_path):
    """Put a folder where the part of a metric's first shard will be written, so that every attempt fails."""
    from answerkey.metrics_core.registry import create
    from answerkey.tasks.load.load import Source, load
    from answerkey.tasks.score.plan import plan
    from answerkey.tasks.validate.contract import Contract
    from answerkey.tasks.validate.validate import validate

    loaded = load(Source(str(answers)), tmp_path / "work")
    validation = validate(loaded.staged, loaded.rejects, str(tmp_path / "work"), Contract())
    planned = plan(validation.accepted, Home(home), home / "runs" / "work", create([metric], {}), only_failed=False)
    [shard] = planned.shards
    part = Path(shard.home, shard.part)
    part.mkdir(parents=True)
    return part


def test_answers_to_one_question_are_one_unit(cli, tmp_path, home):
    """Twenty questions with three answers each; of every five, so many are right."""
    rows = [
        {"id": f"q{question}", "question": f"Question {question}?", "reference": "yes", "release": release}
        | {"run": f"run {repeat}", "answer": "yes" if repeat < right[question % 5] else f"no {repeat}"}
        for release, right in (("v1", (3, 3, 2, 3, 0)), ("v2", (3, 2, 2, 0, 0)))
        for question in range(20)
        for repeat in range(3)
    ]
    words = ("evaluate", jsonl(tmp_path / "d.jsonl", rows), "--metrics", "exact_match")
    # Without a column that tells them apart they are duplicates.
    refused = cli(*words)
    assert (refused.returncode, "most often `id_unique`" in refused.stderr) == (2, True)
    assert cli(*words, "--map", "repeat=run").returncode == 0
    output = cli("report", "d/v1").stdout
    assert "60 answers to 20 questions" in output
    assert "exact_match.match_pass@3" in output and "exact_match.match_pass^3" in output
    assert "variance between the answers to one question: exact_match.match 0.067" in output
    # Sixty answers to twenty questions are twenty units.
    gated = cli("gate", "v1", "v2", "--primary", "exact_match.match", "--margin", "0.05", "--json")
    [rule, *_] = json.loads(gated.stdout)["rules"]
    assert (gated.returncode, rule["outcome"], rule["n"]) == (1, "FAIL", 20)
    assert -0.6 < rule["low"] < rule["value"] < rule["high"] < -0.05
    assert rule["value"] == pytest.approx(7 / 15 - 11 / 15)


def test_a_broken_contract_stops_before_scoring_and_loses_nothing(cli, tmp_path, home):
    rows = [{"id": str(i), "answer": "a", "reference": "" if i < 3 else "b"} for i in range(6)]
    file = jsonl(tmp_path / "holes.jsonl", rows)
    result = cli("evaluate", file, "--metrics", "contains", code=2)
    assert "Traceback" not in result.stderr
    last = result.stderr.splitlines()[-1]
    assert last.startswith(f"answerkey: {file}: 50 % of the rows (3 of 6) are in quarantine, 20 % are allowed")
    assert query(home, 'SELECT rule, "row" FROM quarantine ORDER BY ALL') == [
        ("references_present", n) for n in (1, 2, 3)
    ]
    assert query(home, "SELECT status FROM runs") == [("stopped",)]
    assert query(home, "SELECT count(*) FROM measurements") == [(0,)]
    allowed = cli("evaluate", file, "--metrics", "contains", "--max-quarantined", "0.6", code=0)
    assert "3 quarantined" in allowed.stdout


def test_a_run_without_a_single_row_is_refused_in_one_line_though_all_may_be_quarantined(cli, tmp_path, home):
    file = jsonl(tmp_path / "rows.jsonl", [{"id": "1", "answer": "a", "reference": ""}])

    process = cli("evaluate", file, "--metrics", "contains", "--max-quarantined", "1", code=2)

    message = process.stderr.splitlines()[-1]
    assert "100 % of the rows (1 of 1) are in quarantine, so there is nothing to score" in message
    assert "--max-quarantined" not in message
    assert query(home, "SELECT status FROM runs") == [("stopped",)]


@pytest.mark.real
def test_kill_9_in_the_middle_loses_no_finished_shard(server, cli, tmp_path, home, monkeypatch):
    rows = (
        {"id": str(i), "answer": f"answer number {i} is {i * 7} and more", "reference": f"{i * 7}"}
        for i in range(12_000)
    )
    file = jsonl(tmp_path / "many.jsonl", rows)
    held = tmp_path / "held"
    held.touch()
    monkeypatch.setenv("HELD", str(held))
    # The last one goes on when a file is gone.
    metrics = "chrf,bleu,tests.flows.held_metric:Held"
    run = started_on(server, "evaluate", file, "--metrics", metrics)
    wait_until(lambda: run.poll() is not None or len(list((home / "parts").rglob("*.parquet"))) >= 2, "two shards")
    assert run.poll() is None, run.communicate()
    run.send_signal(signal.SIGKILL)
    run.wait()
    finished = {part: part.stat().st_mtime_ns for part in (home / "parts").rglob("*.parquet")}
    assert len(finished) >= 2
    assert query(home, "SELECT status FROM runs") == [("running",)]
    bytes_by_part = {part: part.read_bytes() for part in finished}
    held.unlink()
    cli("evaluate", file, "--metrics", metrics, code=0)
    counts = query(
        home,
        "SELECT metric, count(*), count(DISTINCT sample_key) FROM measurements GROUP BY ALL ORDER BY ALL",
    )
    assert counts == [("bleu", 12_000, 12_000), ("chrf", 12_000, 12_000), ("contains", 12_000, 12_000)]
    assert bytes_by_part
    assert not list((home / "parts").rglob("*.parquet"))


CAPITALS = ["Paris", "Rome", "Oslo", "Bern", "Wien", "Lima", "Kyiv", "Riga", "Bonn", "Cork"]


def answers(file, **bad):
    """Ten right answers, the last five about the south, with others in place of some, by `qNUMBER`."""
    rows = [
        {"id": f"q{n}", "question": f"Capital {n}?", "reference": right, "answer": bad.get(f"q{n}", right)}
        | {"part": "south" if n > 4 else "north"}
        for n, right in enumerate(CAPITALS)
    ]
    return jsonl(file, rows)


@pytest.mark.nightly
def test_answers_in_quarantine_are_in_the_counts_the_coverage_and_the_bounds(bare_cli, tmp_path, home):
    bad, why = {"q8": "502 Bad Gateway", "q9": "Error: 429 Too Many Requests"}, "2 quarantined (error_page)"
    home = ["--home", home]
    metric = ["--metrics", "exact_match"]
    file = answers(tmp_path / "faq.jsonl", **bad)
    process = bare_cli("evaluate", file, "--release", "new", "--slice", "part", "--json", *metric, *home, code=0)
    [report] = json.loads(process.stdout)
    assert (report["status"], report["message"]) == ("PARTIAL", f"exact_match: 2 of 10 not scored: {why}")
    score, south = (
        next(one for one in report["scores"] if one["slice"] == name and one["field"] == "match")
        for name in ("all", "part=south")
    )
    counts = [score[name] for name in ("mean", "n_scored", "n_total", "n_failed", "coverage")]
    assert counts == [1.0, 8, 10, 2, 0.8]
    assert (score["bound_low"], score["bound_high"]) == (pytest.approx(0.8), 1.0)
    assert (south["n_scored"], south["n_total"], south["bound_low"]) == (3, 5, pytest.approx(0.6))

    again = bare_cli("rerun", "faq/new/v1", "--metrics", "contains", *home)
    assert f"contains: 2 of 10 not scored: {why}" in again.stdout, again.stderr
    assert "8/10" in again.stdout

    bare_cli("evaluate", answers(tmp_path / "faq.jsonl"), "--release", "old", *metric, *home)
    gate = bare_cli("gate", "old", "faq/new/v1", "--primary", "exact_match.match", "--margin", "0.02", *home)
    assert "only 8 of 10 samples of new (2 failed) have a comparable number" in " ".join(gate.stdout.split())
    assert gate.returncode != 0


@pytest.mark.nightly
def test_an_answer_of_45_megabytes_costs_its_own_score_and_nothing_else(bare_cli, tmp_path, home):
    file = answers(tmp_path / "faq.jsonl", q9="Paris " * 7_500_000)
    options = ("--release", "a", "--metrics", "exact_match")
    process = bare_cli("evaluate", file, *options, code=0)
    assert "exact_match: 1 of 10 not scored: 1 quarantined (length_answer)" in process.stdout
    with duckdb.connect(str(tmp_path / "home/snapshot.duckdb"), read_only=True) as warehouse:
        [(reason, raw)] = warehouse.execute("SELECT reason, raw FROM quarantine").fetchall()
    assert reason == "an answer of 45,000,000 characters, 100,000 are allowed"
    assert json.loads(raw)["answer"].endswith("... (45,000,000 characters)")
    assert len(raw) < 1_001_000
