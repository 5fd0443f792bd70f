"""Evaluations with judges from end to end: the command line, a real Prefect server, a scripted judge over HTTP."""

import json
import re
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from answerkey.tasks.warehouse.home import Home
from tests.flows.conftest import command
from tests.judge_batches import BatchServer
from tests.judge_server import UNTESTED, JudgeServer, agreeable, data_of
from tests.kit.waiting import FAULT_S, wait_until
from tests.tasks.staging_help import query

METRICS = "contains,meaning_match,ground_truth_similarity"
ROWS = [
    ("q1", "old", "Capital of France?", "Paris", "Paris"),
    ("q2", "old", "What is 3 - 8?", "It is 5.", "-5"),
    ("q3", "old", "Which colour?", None, "blue"),
    ("q4", "old", "Who made it?", "Dmitri Mendeleev made it", "Mendeleev"),
    ("q1", "new", "Capital of France?", "The capital is Paris. It is large.", "Paris"),
    ("q2", "new", "What is 3 - 8?", "-5", "-5"),
    ("q3", "new", "Which colour?", "blue", "blue"),
    ("q4", "new", "Who made it?", "Nobody knows", "Mendeleev"),
]
N_MATCH, N_SIMILARITY = 4, 7
"""Requests: four answers are neither blank nor right word for word, and they have three references between them."""


def brain(body):
    """Agrees with everything but "Nobody knows"."""
    data = data_of(body)
    if data.get("answer") == "Nobody knows" and "text" in data["references"][0]:
        return json.dumps({"reason": "It refuses.", "reference": None, "rule": "hedging", "verdict": "refusal"})
    return agreeable(body)


@pytest.fixture
def judge():
    with JudgeServer(brain) as running:
        yield running


@pytest.fixture
def evaluate(cli, judge, home, tmp_path):
    """`answerkey evaluate` on the rows, with a judge whose price litellm knows."""
    names = ("id", "release", "question", "answer", "reference")
    file = tmp_path / "faq.jsonl"
    file.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in ROWS))

    def run(*arguments, url=judge.url, **changes):
        options = ("--metrics", METRICS, "--judge", "openai/gpt-4o-mini", "--judge-base", url)
        return cli("evaluate", file, *options, *arguments, **changes)

    return run


def means(result):
    return {
        (report["release"], f"{score['metric']}.{score['field']}"): score["mean"]
        for report in json.loads(result.stdout)
        for score in report["scores"]
    }


@pytest.mark.nightly
def test_a_batch_at_half_the_price_is_in_the_report(evaluate, home):
    with BatchServer(brain) as server:
        batch = ("--batch", "--config", "{judging: {batch_poll_s: 0.05}}")
        alone, expected = (evaluate("--dry-run", "--json", *how, url=server.url) for how in ((), batch))
        assert "as a batch; no judge was asked" in expected.stderr
        costs = [[cost["cost_usd"] for cost in json.loads(found.stdout)] for found in (alone, expected)]
        assert [2 * cost for cost in costs[1]] == pytest.approx(costs[0])
        done = evaluate("--json", *batch, url=server.url)
        assert done.returncode == 0, done.stderr
        assert (server.worked_on, server.direct) == (N_MATCH + N_SIMILARITY, [])
    assert means(done)["new", "meaning_match.match"] == 0.75
    reports = json.loads(done.stdout)
    assert {(report["status"], report["message"]) for report in reports} == {("COMPLETE", None)}
    spent = reports[0]["manifest"]["judge"]
    [(paid,)] = query(home, "SELECT sum(cost_usd) FROM judge_calls")
    assert (spent["calls"], spent["cost_usd"]) == (N_MATCH + N_SIMILARITY, pytest.approx(paid))


@pytest.mark.real
def test_dry_run_then_little_money_then_enough_then_none_needed(evaluate, judge, home, ask):
    _dry_run(evaluate, judge, home, ask)
    little = evaluate("--max-calls", "4")
    assert little.returncode == 0, little.stderr
    assert judge.n_requests == 4
    assert "\njudge: 4 calls, $0.00" in little.stdout
    assert little.stdout.count("PARTIAL") == 2
    assert "budget used up: 4 calls (max_calls)" in little.stdout
    skipped = query(home, "SELECT count(*) FROM measurements WHERE status = 'skipped'")
    assert skipped > [(0,)]
    # Nothing of what is left is answered before the metrics have said how far they are.
    judge.holds = lambda _server: True
    limits = ("--config", f"{{judging: {{timeout_s: {FAULT_S}, deadline_s: {FAULT_S}}}}}")
    known = _newest_run(home)
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(evaluate, "--max-calls", "20", "--json", *limits)
        try:
            wait_until(
                lambda: running.done() or (_newest_run(home) != known and _progress_in_ui(home, ask)),
                "a line about how far a metric is",
            )
        finally:
            judge.release()
        enough = running.result()
    assert enough.returncode == 0, enough.stderr
    assert judge.n_requests == N_MATCH + N_SIMILARITY
    assert set(judge.stats()["bodies"].values()) == {1}
    found = means(enough)
    assert found["old", "meaning_match.match"] == 0.75
    assert found["new", "meaning_match.match"] == 0.75
    # "The capital is Paris." is the one fact of the reference, "It is large." is one more.
    assert found["new", "ground_truth_similarity.similarity"] == (0.5 + 1 + 1 + 1) / 4
    assert found["new", "ground_truth_similarity.fact_recall"] == 1.0
    assert {(report["status"], report["message"]) for report in json.loads(enough.stdout)} == {("COMPLETE", None)}
    _progress_in_terminal_and_ui(enough, home, ask)
    again = evaluate()
    assert "meaning_match (0 new, 8 known), ground_truth_similarity (0 new, 8 known)" in again.stderr
    assert "\njudge: 0 calls, $0.0000\n" in again.stdout
    assert judge.n_requests == N_MATCH + N_SIMILARITY
    spent = json.loads(enough.stdout)[0]["manifest"]["judge"]
    assert (spent["calls"], spent["max_calls"]) == (N_MATCH + N_SIMILARITY - 4, 20)
    assert 0 < spent["cost_usd"] < 0.01


def _dry_run(evaluate, judge, home, ask):
    plain = evaluate("--dry-run")
    assert plain.returncode == 0, plain.stderr
    lines = plain.stdout.splitlines()
    assert lines[0].strip() == "dry run: what the judges would be asked"
    cells = [line.split() for line in lines[1:] if line]
    assert cells[0] == ["metric", "samples", "calls", "ledger", "tokens", "in/out", "cost"]
    assert [row[:4] for row in cells[2:4]] == [
        ["meaning_match", "8", str(N_MATCH), "0"],
        ["ground_truth_similarity", "8", str(N_SIMILARITY), "0"],
    ]
    assert cells[4][:3] == ["total", str(N_MATCH + N_SIMILARITY), "0"]
    assert all(row[-1].startswith("$0.00") for row in cells[2:5])
    assert max(map(len, lines)) <= 80
    assert plain.stderr.splitlines()[-1].startswith(f"dry run: {N_MATCH + N_SIMILARITY} calls, $0.00")
    assert judge.n_requests == 0
    assert query(home, "SELECT status, message FROM runs") == [("complete", "dry run")]
    assert query(home, "SELECT count(*) FROM reports") == query(home, "SELECT count(*) FROM measurements") == [(0,)]
    assert list((home / "runs").iterdir()) == []
    [artifact] = ask("artifacts/latest/filter", {"artifacts": {"key": {"any_": ["dry-run-faq"]}}})
    rows = json.loads(artifact["data"])
    assert [(row["metric"], row["calls"]) for row in rows] == [
        ("meaning_match", f"{N_MATCH}"),
        ("ground_truth_similarity", f"{N_SIMILARITY}"),
        ("total", f"{N_MATCH + N_SIMILARITY}"),
    ]


def _progress_in_terminal_and_ui(result, home, ask):
    said = [line for line in result.stderr.splitlines() if " samples, " in line]
    assert said
    # Two to four samples were left, as the calls of the first run fell to either metric. Those that need no call
    # are not among them.
    line = re.compile(r"\w+: \d/[2-4] samples, \d calls, \$0\.00\d\d, \d at once of \d+, 0 failed")
    assert [one for one in said if not line.fullmatch(one)] == []
    assert set(said) <= set(_progress_in_ui(home, ask))


def _newest_run(home):
    """While it is at work, too."""
    with Home(home).warehouse.reading() as warehouse:
        [(run_id,)] = warehouse.execute("SELECT run_id FROM runs ORDER BY started_at DESC LIMIT 1").fetchall()
    return run_id


def _progress_in_ui(home, ask):
    """The lines about samples in the log of the newest run."""
    wanted = {"logs": {"flow_run_id": {"any_": [_newest_run(home)]}}, "limit": 200}
    logs = [line["message"] for line in ask("logs/filter", wanted)]
    return [line for line in logs if " samples, " in line]


def test_a_judge_that_is_down_fails_no_run_and_coverage_decides_the_status(evaluate, home):
    # It goes down once it was found there; calls are made again until the deadline is over. None is sent, so none is
    # counted, except for one that the deadline cuts short while it connects: nobody knows whether that was sent.
    limits = ("--config", "{judging: {deadline_s: 1}}", "--max-calls", "2", "--min-coverage", "0.5")
    with socket.create_server(("127.0.0.1", 0)) as door:
        threading.Thread(target=lambda: (door.accept()[0].close(), door.close()), daemon=True).start()
        down = evaluate(*limits, url=f"http://127.0.0.1:{door.getsockname()[1]}/v1")
    assert down.returncode == 0, down.stderr
    lines = down.stdout.partition("\nnext:\n")[0].splitlines()
    start = lines.index("faq/old/v1  4 answers")
    [(unsent, cut)] = query(
        home, "SELECT count(*) FILTER (code = 'unsent'), count(*) FILTER (code != 'unsent') FROM judge_calls"
    )
    assert unsent > 0 and cut <= 2
    for metric, line in zip(METRICS.split(",")[1:], lines[start + 1 :], strict=False):
        assert line.startswith(f"  {metric}: 2 of 4 not scored: ")
        assert cut or line.endswith(": 2 connection (the server could not be reached)")
    [judged] = [one for one in lines if one.startswith("judge: ")]
    assert judged.startswith(f"judge: {cut} call")
    assert query(home, "SELECT coalesce(sum(calls), 0) FROM judge_costs") == [(cut,)]
    failed = query(home, "SELECT DISTINCT \"value\", split_part(reason, ':', 1) FROM scores WHERE status = 'failed'")
    assert (None, "connection") in failed
    assert {*failed} <= {(None, "connection"), *([(None, "timeout")] if cut else [])}
    assert query(home, "SELECT status, message FROM runs") == [("complete", None)]


def test_a_judge_that_cannot_be_reached_stops_the_run_unless_nothing_is_to_be_asked(bare_cli, tmp_path, home):
    file = tmp_path / "faq.csv"
    file.write_text("id,release,question,answer,reference\nq1,a,Where?,Rome,Paris\nq2,a,Where?,Paris,Paris\n")
    with JudgeServer(agreeable) as judge:
        words = ("evaluate", file, "--metrics", "contains,meaning_match", *UNTESTED)
        named = ("--judge", f"openai/x@{judge.url}")
        nobody = bare_cli(*words, "--judge", "openai/x@http://127.0.0.1:9/v1", code=2)
        bare_cli(*words, *named, code=0)
    # What is known needs no judge.
    bare_cli("rerun", "faq/a/v1", "--metrics", "meaning_match,exact_match", code=0)
    assert [line for line in nobody.stderr.splitlines() if line.startswith("answerkey:")] == [
        "answerkey: openai/x@127.0.0.1:9/v1 cannot be reached: Connection refused; start its server, or correct the "
        "address"
    ]
    assert query(home, "SELECT status, count(*) FROM runs GROUP BY ALL ORDER BY ALL") == [
        ("complete", 2),
        ("stopped", 1),
    ]
    assert query(home, "SELECT report_id FROM reports ORDER BY ALL") == [("faq/a/v1",), ("faq/a/v2",)]


@pytest.mark.real
def test_other_commands_read_and_commit_while_a_slow_judge_works(bare_cli, tmp_path, home):
    slow, other = tmp_path / "slow.csv", tmp_path / "other.csv"
    slow.write_text("id,release,question,answer,reference\nq1,a,Where?,Rome,Paris\n")
    other.write_text("id,release,question,answer,reference\nq1,b,Where?,Paris,Paris\n")
    limits = f"{{judging: {{check: never, timeout_s: {FAULT_S}, deadline_s: {FAULT_S}}}}}"
    with JudgeServer(agreeable, holds=lambda _server: True) as judge:
        options = ("--metrics", "meaning_match", "--judge", f"openai/x@{judge.url}", "--config", limits, "--no-page")
        with subprocess.Popen(command("evaluate", slow, *options), stdout=subprocess.DEVNULL) as running:
            try:
                wait_until(lambda: running.poll() is not None or judge.held, "the question to the judge")
                bare_cli("evaluate", other, "--metrics", "exact_match", code=0)
                listed = bare_cli("report", "other/b/v1", code=0)
                assert (judge.answered, running.poll()) == (0, None)
            finally:
                judge.release()
        assert running.returncode == 0
    assert "other/b/v1" in listed.stdout
    reports = query(home, "SELECT report_id, status FROM reports ORDER BY ALL")
    assert reports == [("other/b/v1", "COMPLETE"), ("slow/a/v1", "COMPLETE")]


def test_a_metric_without_a_single_score_is_said_at_the_end_and_is_no_success(bare_cli, tmp_path, home):
    file = tmp_path / "faq.csv"
    # Where the words are the same, nobody is asked.
    file.write_text("id,release,question,answer,reference\nq1,a,Where?,It is Paris,Paris\nq1,b,Where?,Paris,Paris\n")
    with JudgeServer(agreeable, faults=lambda _number, _body: "unauthorized") as judge:
        process = bare_cli(
            "evaluate", file, "--metrics", "contains,meaning_match", "--judge", f"openai/x@{judge.url}",
            ANSWERKEY_JUDGE_KEY="none",
        )  # fmt: skip
    assert process.returncode == 4, process.stderr
    assert [line for line in process.stderr.splitlines() if line.startswith("answerkey:")] == [
        "answerkey: faq/a/v1: no answer has a score of meaning_match"
    ]
    assert process.stderr.endswith("no answer has a score of meaning_match\n")
    assert "meaning_match: 1 of 1 not scored: 1 http_401" in process.stdout


def test_a_judge_that_fails_its_check_is_asked_about_no_row_and_the_dry_run_counts_exactly(bare_cli, tmp_path, home):
    file = tmp_path / "faq.jsonl"
    file.write_text(
        "".join(
            json.dumps(
                {"id": n, "release": "a", "question": f"Who, of {n}?", "answer": f"{n}", "reference": f"the {n}"}
            )
            + "\n"
            for n in range(12)
        )
    )
    with JudgeServer(agreeable) as judge:
        words = ("evaluate", file, "--metrics", "contains,meaning_match", "--judge", f"openai/x@{judge.url}")
        [foreseen] = json.loads(bare_cli(*words, "--dry-run", "--json", code=0).stdout)
        assert (foreseen["calls"], foreseen["checks"], judge.n_requests) == (12 + 40, 40, 0)
        stopped = bare_cli(*words, ANSWERKEY_JUDGE_KEY="none")
        assert (stopped.returncode, judge.n_requests) == (4, 40), stopped.stderr
        assert "meaning_match: 12 of 12 not scored: 12 judge stopped: openai/x@127.0.0.1:" in stopped.stdout
        assert "right on 0 of 20 questions whose match is known to be 0" in " ".join(stopped.stdout.split())
        # A second run pays for ten that are asked again, and what was scored without a judge stands
        bare_cli(*words, ANSWERKEY_JUDGE_KEY="none", code=4)
        assert judge.n_requests == 50
    scored = query(home, "SELECT metric, count(*) FROM measurements WHERE status = 'scored' GROUP BY ALL")
    assert scored == [("contains", 12)]
