"""Judged runs from the plan to the report: calls are kept beside the numbers, and a budget is no dead end."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import duckdb
import pytest

from answerkey.metrics_core.llm.access import Access, CallLimits
from answerkey.metrics_core.llm.ledger import COLUMNS, open_ledger
from answerkey.metrics_core.registry import create
from answerkey.tasks.publish.page.build import build_page
from answerkey.tasks.publish.page.markdown import as_markdown
from answerkey.tasks.reports.commit import collect_calls, insert_calls
from answerkey.tasks.reports.manifest import check_notes
from answerkey.tasks.reports.report import read_reports
from answerkey.tasks.score.plan import plan
from answerkey.tasks.score.score import score
from answerkey.tasks.warehouse.home import Home
from tests.judge_server import JudgeServer
from tests.metrics_core.judges.asking import call
from tests.tasks.judging_help import MODEL, judged, wordy
from tests.tasks.staging_help import query, refusal, rows_of, run, stage

BOTH = ["meaning_match", "ground_truth_similarity"]
KEY = "sk-test-0123456789abcdef"
ROWS = [
    {"id": f"q{i:02}", "question": f"Q{i}?", "answer": f"It is {i}. {'A wrong one.' if i % 4 == 1 else 'So it is.'}"}
    | {"references": [f"It is {i}."], "release": "r"}
    for i in range(12)
]
BLANK = {"id": "q98", "question": "Blank?", "answer": "", "references": ["It is so."], "release": "r"}
SAME = {"id": "q99", "question": "Same?", "answer": "It is so.", "references": ["It is so."], "release": "r"}


@pytest.fixture
def server():
    with JudgeServer(wordy) as one:
        yield one


def test_a_judged_run_keeps_its_calls_where_duckdb_finds_them_and_measurements_name_them(home, tmp_path, server):
    rows = [*ROWS, BLANK, SAME]
    completed = run(home, rows, BOTH, options=judged(server.url))
    assert [(report.status, report.message) for report in completed.reports] == [("COMPLETE", None)]
    # One verdict per sample; the facts of twelve references, and twelve matchings; two samples need no judge.
    assert server.n_requests == 12 + 12 + 12
    columns = ", ".join(name for name in COLUMNS if name != "started_at")
    stored = query(home, f"SELECT {columns}, epoch(started_at) FROM judge_calls ORDER BY call_id")
    keys = {key for (key,) in query(home, "SELECT unnest(requests) FROM measurements")}
    ledger = open_ledger(str(tmp_path))
    place = COLUMNS.index("started_at")
    kept = sorted(ledger.calls(sorted(keys)))
    ledger.close()
    assert [row[:-1] for row in stored] == [(*row[:place], *row[place + 1 :]) for row in kept]
    assert [row[-1] for row in stored] == pytest.approx([row[place] for row in kept], abs=2e-6)
    assert [kind for (kind,) in query(home, "SELECT DISTINCT typeof(started_at) FROM judge_calls")] == [
        "TIMESTAMP WITH TIME ZONE"
    ]
    assert len(stored) == 36 and {row[1] for row in stored} == keys
    (tmp_path / "judge.sqlite").unlink()
    # The reply behind a number is one join away.
    found = query(
        home,
        "SELECT sample_id, reply ->> '$.verdict' FROM judge_calls "
        "JOIN (SELECT sample_key, unnest(requests) AS request_key FROM measurements WHERE metric = 'meaning_match') "
        "USING (request_key) JOIN answers USING (sample_key) ORDER BY sample_id",
    )
    assert found == [(f"q{i:02}", "mismatch" if i % 4 == 1 else "match") for i in range(12)]
    assert query(home, "SELECT DISTINCT run, status, kind, judge FROM judge_calls") == [
        (completed.run_id, "usable", "ask", f"{MODEL}@127.0.0.1:{server.port}/v1")
    ]
    found = query(
        home,
        "SELECT sample_id, s.metric, s.reason, len(requests), from_ledger, attempts, tokens_in > 0 "
        "FROM sample_scores s JOIN answers USING (sample_id) JOIN measurements m USING (sample_key, metric) "
        "WHERE sample_id IN ('q00', 'q01', 'q98', 'q99') ORDER BY sample_id, s.metric",
    )
    equal = "the answer equals the reference apart from its form"
    assert found == [
        ("q00", "ground_truth_similarity", "1 of 2 facts match", 2, False, 1, True),
        ("q00", "meaning_match", "I say match.", 1, False, 1, True),
        ("q01", "ground_truth_similarity", "1 of 2 facts match", 2, False, 1, True),
        ("q01", "meaning_match", "I say mismatch.", 1, False, 1, True),
        ("q98", "ground_truth_similarity", "blank answer", 0, False, 1, False),
        ("q98", "meaning_match", "blank answer", 0, False, 1, False),
        ("q99", "ground_truth_similarity", equal, 0, False, 1, False),
        ("q99", "meaning_match", equal, 0, False, 1, False),
    ]


def test_a_budget_stops_cleanly_and_more_of_it_goes_on(home, server):
    completed = run(home, ROWS, ["meaning_match", "bleu"], options=judged(server.url, max_calls=5))
    message = "meaning_match: 7 of 12 not scored: 7 budget used up: 5 calls (max_calls)"
    assert [(report.status, report.message) for report in completed.reports] == [("PARTIAL", message)]
    assert server.n_requests == 5
    assert query(home, "SELECT status, attempts, count(*) FROM measurements GROUP BY ALL ORDER BY ALL") == [
        ("scored", 1, 12 + 5), ("skipped", 0, 7),
    ]  # fmt: skip
    [report] = read_reports(home, completed.ids)
    assert report.message == message
    page = as_markdown(build_page(home, completed.ids, most_samples=0))
    assert f"\n- {report.release}: {message.replace('_', chr(92) + '_')}\n" in page
    # Skipped is not failed.
    left = run(home, ROWS, ["meaning_match", "bleu"], only_failed=True, options=judged(server.url))
    assert dict(left.plan.n_todo) == {"meaning_match": 0, "bleu": 0}
    assert [(report.status, report.message) for report in left.reports] == [("PARTIAL", message)]
    more = run(home, ROWS, ["meaning_match", "bleu"], options=judged(server.url, max_calls=100))
    assert (dict(more.plan.n_known), dict(more.plan.n_todo)) == (
        {"meaning_match": 5, "bleu": 12},
        {"meaning_match": 7, "bleu": 0},
    )
    assert [(report.status, report.message) for report in more.reports] == [("COMPLETE", None)]
    assert server.n_requests == 12
    assert query(home, "SELECT count(*) FROM judge_calls") == [(12,)]


def shard_of(tmp_path, options):
    loaded = stage(tmp_path / "staged", ROWS)
    metrics = create(["meaning_match"], {**options, "access": Access(ledger=str(tmp_path), run="r")})
    [one] = plan(loaded.staged, Home(tmp_path), tmp_path / "runs" / "work", metrics, only_failed=False).shards
    return one


def test_the_key_reaches_the_judge_and_nothing_else(tmp_path, server, monkeypatch):
    monkeypatch.setenv("SOME_PLACE", KEY)
    shard = replace(shard_of(tmp_path, judged(server.url)), key_from="env:SOME_PLACE")
    part = score(shard, spawn=True)
    assert [request.headers["authorization"] for request in server.requests] == [f"Bearer {KEY}"] * 12
    assert [row["status"] for row in rows_of(f"{tmp_path}/{part}")] == ["scored"] * 12
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert any(file.name == "judge.sqlite" for file in files)
    assert [file.name for file in files if KEY.encode() in file.read_bytes()] == []
    assert KEY not in repr(shard)
    (tmp_path / part).unlink()
    monkeypatch.delenv("SOME_PLACE")
    assert "the judge's key is not in env:SOME_PLACE" in refusal(score, shard, spawn=False)


def test_a_call_without_an_end_gets_it_at_the_next_copy(home, tmp_path):
    before = datetime.now(UTC)
    ledger = open_ledger(str(tmp_path))
    assert ledger.claim("k")
    _, first = ledger.start(CallLimits(run="r"), call(), None)
    with home.warehouse.writing() as warehouse:
        warehouse.execute("INSERT INTO runs VALUES ('r', 'f', 'd', now(), NULL, 'running', NULL, '{}')")

    def copy():
        part = tmp_path / "part.parquet"
        duckdb.sql("SELECT ['k', 'k', 'other'] AS requests").write_parquet(str(part))
        file = collect_calls(home, ["part.parquet", "gone.parquet"], tmp_path / "out")
        with home.warehouse.writing() as warehouse:
            insert_calls(warehouse, file)

    state = "SELECT call_id, attempt, status, reply, tokens_in FROM judge_calls ORDER BY attempt"
    copy()
    assert query(home, state) == [(first, 1, "sent", None, None)]
    result = {"seconds": 0.5, "tokens_in": 7, "reply": "é 北\x00京"}
    ledger.finish(first, "unreadable", result)
    _, second = ledger.start(CallLimits(run="r"), call(attempt=2, kind="repair"), None)
    ledger.finish(second, "usable", result)
    copy()
    copy()
    assert query(home, state) == [
        (first, 1, "unreadable", "é 北\ufffd京", 7), (second, 2, "usable", "é 北\ufffd京", 7),
    ]  # fmt: skip
    [(started,)] = query(home, "SELECT max(started_at) FROM judge_calls")
    assert before <= started <= datetime.now(UTC)
    ledger.close()


def test_a_report_of_a_judge_that_was_stopped_has_no_number_and_says_why(home, server):
    rows = [
        {"id": f"{i}", "question": f"Which, of {i}?", "answer": f"{i}", "references": [f"the {i}"]} for i in range(60)
    ]
    completed = run(home, rows, ["meaning_match"], options=judged(server.url, check="auto"))
    [report] = completed.reports
    assert server.n_requests == 40
    assert report.status == "PARTIAL"
    assert report.message.startswith(
        "meaning_match: 60 of 60 not scored: 60 judge stopped: openai/some-model@127.0.0.1"
    )
    assert "was right on 0 of 20 questions whose match is known to be 0; wrong on reversed roles" in report.message
    [kept] = read_reports(home, completed.ids)
    line, *wrong = check_notes(kept.manifest)
    assert line.endswith("was right on known answers of 0: 0 of 20 (0 to 17 %); of 1: 20 of 20 (83 to 100 %)")
    assert wrong[0].endswith("answer: Omar lent it to Lena.; expected 0, replied 1")
    # A row can be forgotten, so no text of one is kept here
    assert "Which, of" not in json.dumps(kept.manifest["judge"]) + report.message
    assert query(home, "SELECT count(*) FROM measurements WHERE status = 'scored'") == [(0,)]
    untested = run(home, rows[:9], ["meaning_match"], options=judged(server.url, check="auto", temperature=0.1))
    [kept] = read_reports(home, untested.ids)
    assert check_notes(kept.manifest) == ["meaning_match: the judge was not checked"]
