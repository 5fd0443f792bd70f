"""A rule's run from the log to the warehouse, alone and beside others: what is new, what is scored, what is left."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from answerkey.tasks.load.load import Source
from answerkey.tasks.traces import funnel as funnels
from answerkey.tasks.traces.funnel import alone
from answerkey.tasks.warehouse.home import Home
from tests.conftest import ROOT
from tests.judge_server import JudgeServer
from tests.kit.waiting import FAULT_S
from tests.tasks import staging_help
from tests.tasks.judging_help import judged, wordy
from tests.tasks.staging_help import jsonl, query, refusal, score_or_fail
from tests.tasks.traces.tracing_help import MAPPING, counts, days, rule, run, trace


def test_every_trace_ends_somewhere_and_the_counts_add_up(traces):
    traces.log(
        *(trace(n, env="production" if n < 10 else "staging") for n in range(14)),
        trace(14, expected=None), trace(15, output=""), trace(16, output="bro\ufffdken"), trace(17, id=None),
        trace(18, start_time="soon"), trace(19, output=["a", "list"]), "no json",
    )  # fmt: skip
    funnel = traces.run(where="env = 'production'", sampling=1)
    assert counts(funnel) == "21 seen, 4 filtered, 5 quarantined, 11 scored, 1 undefined, 12 measured"
    # "7 indeed" does not stand in "It is 7": all 0, and so is a blank answer.
    assert (funnel.field, funnel.mean, funnel.low) == ("match", 0.0, 0.0)
    assert traces.query("SELECT * EXCLUDE (run_id, created_at, watermark) FROM trace_funnels") == [
        ("r", None, None, 21, 0, 4, 0, 5, 11, 1, 0, 0, 0, 12, 1.0, "contains", funnel.signature)
    ]
    ends = {"t3": "scored", "t12": "filtered", "t14": "undefined", "t15": "scored", "t16": "quarantined"}
    assert {name: traces.outcomes[name] for name in ends} == ends
    reasons = dict(traces.query("SELECT trace_id, reason FROM trace_outcomes WHERE reason IS NOT NULL"))
    assert reasons["t12"] == "env = 'production'"
    assert reasons["t14"] == "no reference: every reference is missing or blank"
    assert traces.query("SELECT field, \"value\" FROM trace_scores WHERE trace_id = 't3'") == [("match", 0.0)]


def test_rows_that_cannot_be_scored_are_kept_whole_with_the_reason(traces):
    deep = "[" * 50_000 + "]" * 50_000
    bad = {f'{json.dumps(trace(20))[:-1]}, "x": {deep}}}': "line 16 is not JSON: maximum recursion depth exceeded"}
    bad[f'{json.dumps(trace(21))[:-1]}, "id": "twice"}}'] = "line 17: an object has the key 'id' twice; keep one"
    traces.log(
        trace(0), trace(1, id=None), trace(2, id=["x"]), trace(3, id="  "), trace(4, id="x" * 1001),
        trace(5, start_time=None), trace(6, start_time="2026-13-01"), trace(7, start_time=True),
        trace(8, output={"a": "b", "c": "d"}), trace(9, output="a\x00b"), trace(10, expected="x" * 100_001),
        "[1]", '"text"', "null", "{", *bad, trace(22, x=float("nan")),
    )  # fmt: skip
    assert traces.counts() == "18 seen, 16 quarantined, 2 scored, 2 measured"
    kept = traces.query('SELECT "row", rule, reason, raw FROM quarantine ORDER BY rule = \'unreadable\', "row"')
    assert [(row, broken) for row, broken, *_ in kept[:2]] == [(10, "encoding"), (11, "length_reference")]
    reasons = {
        **dict.fromkeys((2, 3, 4, 5), "the id (id) is missing, or is no text or number of a usual length"),
        **dict.fromkeys((6, 7, 8), "the time (start_time) is missing, or is neither ISO 8601 nor seconds since 1970"),
        9: "answer (output) is an object with a, c; map a path into it",
        **{n: f"line {n} is a JSON {kind}, not an object" for n, kind in ((12, "list"), (13, "str"), (14, "NoneType"))},
        15: "line 15 is not JSON",
        **dict(zip((16, 17), bad.values(), strict=True)),
    }
    assert [row for row, *_ in kept[2:]] == [*reasons]
    assert all(reason.startswith(reasons[row]) for row, _, reason, _ in kept[2:])
    assert json.loads(kept[2][3]) == trace(1, id=None) and kept[-3][3] == "{"
    # They are known by a hash of the row, so they are not looked at again.
    assert traces.counts() == ""


def test_only_what_is_new_is_looked_at_however_late_it_comes(traces):
    traces.log(*(trace(n) for n in range(100, 110)), trace(1, start_time="3000-01-01T00:00:00Z"))
    first = traces.run()
    # A trace from the future makes no other late.
    assert (counts(first), first.watermark) == ("11 seen, 11 scored, 11 measured", "2026-11-01T01:49:00+00:00")
    assert traces.counts() == ""
    # One is newer, one has the very time of the watermark, one is older than everything.
    times = {"start_time": "2026-11-01T01:49:00Z"}, {"start_time": "2020-01-01T00:00:00Z"}
    traces.log(trace(200), trace(300, **times[0]), trace(400, **times[1]))
    second = traces.run()
    assert (counts(second), second.watermark) == ("3 seen, 3 scored, 3 measured", "2026-11-01T03:20:00+00:00")
    assert len(traces.outcomes) == 14 and traces.counts() == ""
    assert traces.query("SELECT count(*) FROM measurements") == [(14,)]


@pytest.mark.nightly
def test_traces_that_are_too_late_are_named_with_the_backfill_that_scores_them(traces):
    given = {"late_days": 1, "where": "env = 'production'"}
    # What is filtered is forgotten once it is old: it is no trace that came late.
    traces.log(trace(0, env="staging"), trace(1440 * 6))
    assert traces.counts(**given) == "2 seen, 1 filtered, 1 scored, 1 measured"
    traces.log(trace(1440 * 2), trace(1440 * 3), trace(1440 * 3 + 1, env="staging"))
    assert traces.prepared(**given).notes == (
        "r: 2 traces are older than the newest one by more than late_days (1), and were left out; `--since 2026-11-03` "
        "scores them",
    )
    assert traces.counts(**given) == ""
    assert traces.run(days("2026-11-03/2026-11-06"), **given).scored == 2
    assert traces.prepared(**given).notes == ()


@pytest.mark.nightly
def test_a_rule_looks_back_as_far_as_it_says(traces):
    given = {"late_days": 1, "where": "env = 'production'", "start": "2026-11-02"}
    traces.log(trace(0), trace(1440 * 2, env="staging"), trace(1440 * 5), trace(1440 * 5, id="b", env="x"))
    # The first is before the rule's start.
    assert traces.counts(**given) == "3 seen, 2 filtered, 1 scored, 1 measured"
    # What was filtered and is too old to be looked at again is forgotten; scores never are.
    assert traces.outcomes == {"t7200": "scored", "b": "filtered"}
    traces.log(trace(1440 * 4 + 1), trace(1440 * 4 - 1))
    assert traces.counts(**given) == "1 seen, 1 scored, 1 measured"
    assert traces.counts(**given) == ""


def test_a_backfill_takes_a_range_of_dates_and_moves_nothing(traces):
    traces.log(*(trace(n) for n in range(0, 2880, 60)), trace(1, start_time=None), "no json")
    # Before any other run: it needs no watermark, and sets none. A row without a time is in no range.
    back = traces.run(days("2026-11-02/2026-11-02T12:00:00Z"))
    assert (counts(back), back.watermark) == ("12 seen, 12 scored, 12 measured", None)
    assert traces.query("SELECT since < until, watermark FROM trace_funnels") == [(True, None)]
    # The run about new traces leaves those out, and the next backfill scores none of them again.
    assert traces.counts() == "38 seen, 2 quarantined, 36 scored, 36 measured"
    [watermark] = traces.query("SELECT watermark FROM trace_rules")
    assert traces.counts(days("2026-11-02/")) == "24 seen, 24 scored, 24 again"
    assert traces.counts(days("/2026-11-01T01:00:00Z")) == "1 seen, 1 scored, 1 again"
    assert traces.query("SELECT watermark FROM trace_rules") == [watermark]
    assert traces.query("SELECT count(*), count(DISTINCT sample_key) FROM measurements") == [(48, 48)]


def test_a_higher_rate_keeps_every_trace_of_the_lower_one(traces):
    def scored():
        return {one for one, outcome in traces.outcomes.items() if outcome == "scored"}

    traces.log(*(trace(n) for n in range(300)))
    low, since = traces.counts(sampling=0.1), days("2026-11-01/")
    taken = scored()
    below = f"{int(0.1 * 2**128):032x}"
    assert taken == {f"t{n}" for n in range(300) if hashlib.md5(f"r\0t{n}".encode()).hexdigest() < below}
    assert low == f"300 seen, {300 - len(taken)} sampled_out, {len(taken)} scored, {len(taken)} measured"
    # Those that were left out are settled for runs about new traces; a backfill decides anew.
    assert traces.counts(sampling=0.2) == ""
    high = traces.run(since, sampling=0.2)
    more = scored()
    assert taken < more and high.scored == len(more) and high.measured == len(more - taken)
    # A lower rate takes no score away.
    low = traces.run(since, sampling=0.01)
    assert low.scored < len(taken) and low.measured == 0 and scored() == more


def test_a_rule_that_is_switched_off_counts_and_scores_nothing(traces):
    traces.log(trace(0), trace(1, id=None), "no json")
    assert traces.counts(enabled=False) == "3 seen, 3 disabled"
    # They went by while it was off; a backfill fetches them.
    assert traces.counts() == ""
    assert traces.counts(days("2026-11-01/")) == "2 seen, 1 quarantined, 1 scored, 2 again, 1 measured"


def test_one_id_several_times(traces):
    traces.log(trace(0), trace(0), trace(1), trace(1, output="else"), trace(2), trace(2, env="staging"))
    # A second copy is dropped; of two that differ it is unknown which is right.
    assert traces.counts(where="env = 'production'") == "6 seen, 1 filtered, 3 quarantined, 2 scored, 2 measured"
    assert traces.outcomes == {"t0": "scored", "t1": "quarantined", "t2": "scored"}
    assert traces.counts(where="env = 'production'") == ""


def evaluated(folder, row):
    """Evaluate a row as the data set `faq` in the same home."""
    source = Source(jsonl(folder / "faq.jsonl", [{"id": "q1", "question": "q", **row}]), release="x")
    staging_help.run(folder, source, ["contains"])


def test_equal_answers_are_measured_once_and_shared_with_evaluations(traces):
    evaluated(traces.folder, {"answer": "a", "reference": "a"})
    same, other = {"input": "q", "output": "a", "expected": "a"}, trace(3)
    traces.log(trace(0, **same), trace(1, **same), trace(2, **same, more=1), other, other | {"id": "t4"})
    assert traces.counts() == "5 seen, 5 scored, 1 measured"


def test_ground_truth_can_come_from_a_data_set(traces):
    evaluated(traces.folder, {"answer": "x", "reference": ["Paris", "city of Paris"]})
    known = {"meta": {"qid": "q1"}}
    traces.log(
        trace(0, output="It is Paris.", **known), trace(1, output="Rome", **known), trace(2, meta={"qid": "other"}),
        trace(3), trace(4, input=None, output="Paris", **known),
    )  # fmt: skip
    mapping = {"answer": "output", "question": "input", "key": "meta.qid"}
    funnel = traces.run(mapping=mapping, dataset="faq")
    assert counts(funnel) == "5 seen, 3 scored, 2 undefined, 5 measured"
    assert funnel.mean == pytest.approx(2 / 3)
    assert dict(traces.query('SELECT trace_id, "value" FROM trace_scores')) == {"t0": 1.0, "t1": 0.0, "t4": 1.0}
    said = refusal(traces.run, mapping=mapping, dataset="fag")
    assert said == f"{traces.folder}/r.yaml:1: dataset: there is no data set 'fag'; there are faq"


def test_what_failed_is_tried_again_and_counted_so(traces):
    traces.log(*(trace(n) for n in range(4)))
    failed = run(traces.folder, rule(traces.folder), scored=lambda shard: score_or_fail(shard, ["contains"]))
    assert counts(failed) == "4 seen, 4 failed, 4 measured"
    traces.log(trace(4))
    assert traces.counts() == "5 seen, 5 scored, 4 again, 5 measured"
    assert traces.counts() == ""


def test_a_path_that_matches_no_trace_is_a_mistake_in_the_rule(traces):
    traces.log(trace(0), trace(1), "no json")
    for key, path, line in (("id", "trace_id", 1), ("time", "created", 8)):
        # Also where the range of a backfill would have hidden it.
        for window in (days("/"), days("2026-11-01/")):
            assert refusal(traces.run, window, **{key: path}) == (
                f"{traces.folder}/r.yaml:{line}: {key}: none of the 2 rows in {traces.folder}/log.jsonl has "
                f"anything at '{path}'; write where the {key} of a trace is"
            )
    # A value that no trace has at a mapped path may come later: the run warns of it, and goes on.
    where = ["environ IS DISTINCT FROM 'x'", "error IS NULL"]
    assert traces.prepared(mapping={**MAPPING, "references": "expcted"}, where=where).notes[:2] == (
        "r: none of the 2 rows has anything at 'environ', which a condition looks at",
        f"{traces.folder}/r.yaml:4: none of the 2 sampled traces has anything at 'expcted', which is mapped to "
        "references",
    )


CAST = (
    "give its values a type, like try_cast(metadata.duration_ms AS DOUBLE) < 5000, length(input::VARCHAR) > 20 or "
    "try_cast(start_time::VARCHAR AS DATE) = '2026-11-03'"
)


def test_a_condition_that_cannot_be_evaluated_is_no_condition_that_fails(traces):
    traces.log(trace(0, ms=5), trace(1, ms="5"), trace(2, ms=[]), trace(3), trace(4, ms=7))
    unknown = f"r: 'ms < 6' cannot be evaluated for 2 of 5 rows, which are filtered; {CAST}"
    assert traces.prepared(where="ms < 6").notes == (unknown,)
    assert traces.counts(where="ms < 6") == "5 seen, 4 filtered, 1 scored, 1 measured"
    reasons = "SELECT reason, count(*) FROM trace_outcomes WHERE outcome = 'filtered' GROUP BY reason ORDER BY reason"
    assert traces.query(reasons) == [("cannot be evaluated: ms < 6", 2), ("ms < 6", 2)]
    said = refusal(traces.prepared, name="wrong", where=["env = 'production'", "length(output) > 3"])
    where = f"{traces.folder}/wrong.yaml:8: where: 'length(output) > 3'"
    assert said == f"{where} cannot be evaluated for 5 of 5 rows; {CAST}"
    # A corrected one is tried on what it could not be evaluated for, and on nothing that is settled.
    mended = {"where": "try_cast(ms::VARCHAR AS INT) < 6"}
    assert traces.prepared(**mended).notes == (
        "r: where changed since the last run; the 3 traces that earlier runs settled are not looked at again, but "
        "with `--since 2026-11-01`",
    )
    assert traces.counts(**mended) == "2 seen, 1 filtered, 1 scored, 2 again, 1 measured"
    assert traces.counts(**mended) == "" and traces.prepared(**mended).notes == ()


def test_a_rule_that_changed_says_what_it_does_not_look_at_again(traces):
    traces.log(*(trace(n) for n in range(10)))
    assert traces.counts(sampling=0) == "10 seen, 10 sampled_out"
    for key, value in (("sampling", 1), ("metric", "bleu")):
        assert traces.prepared(**{"sampling": 0, key: value}).notes == (
            f"r: {key} changed since the last run; the 10 traces that earlier runs settled are not looked at again, "
            "but with `--since 2026-11-01`",
        )
    for key, value in (("late_days", 90), ("description", "new")):
        assert traces.prepared(**{"sampling": 0, key: value}).notes == ()
    backfill = traces.prepared(days("2026-11-01/"), sampling=1)
    assert (backfill.notes, backfill.todo) == ((), 10)


def test_a_wrong_path_to_the_answer_stops_the_rule_and_settles_nothing(traces):
    traces.log(*(trace(n) for n in range(20)))
    wrong = {"mapping": {**MAPPING, "answer": "outputs.text"}}
    said = (
        f"{traces.folder}/r.yaml:2: mapping.answer: none of the 20 sampled traces has anything at 'outputs.text'; "
        "write where the answer of a trace is"
    )
    assert refusal(traces.run, **wrong) == said
    assert not traces.home.warehouse.exists()
    assert traces.counts() == "20 seen, 20 scored, 20 measured"
    assert refusal(traces.run, days("2026-11-01/"), **wrong) == said
    # By a path that led somewhere before, one trace without an answer is one that failed; null is an answer.
    traces.log({key: value for key, value in trace(20).items() if key != "output"})
    assert traces.counts() == "1 seen, 1 scored, 1 measured"
    traces.log(trace(21, output=None))
    assert traces.counts(name="other", start="2026-11-01T00:21Z") == "1 seen, 1 scored, 1 measured"


def test_nothing_is_half_committed(traces, monkeypatch):
    traces.log(*(trace(n) for n in range(5)))
    given = rule(traces.folder)
    n_rows = {"measurements": 5, "trace_outcomes": 5, "trace_funnels": 1, "trace_rules": 1, "quarantine": 0}

    def there():
        return {name: traces.query(f"SELECT count(*) FROM {name}")[0][0] for name in n_rows}

    def full_disk(*_):
        raise OSError("no space left")

    with traces.home.warehouse.writing():
        pass
    with monkeypatch.context() as patched:
        patched.setattr(funnels, "estimate_of", full_disk)
        with pytest.raises(OSError, match="no space left"):
            run(traces.folder, given)
    assert there() == dict.fromkeys(n_rows, 0)
    # The same again finishes it
    assert traces.counts() == "5 seen, 5 scored, 5 measured"
    assert there() == n_rows


# Two runs of one rule at once, and a run that is killed between its last score and its commit.


def test_the_second_run_waits_says_so_and_finds_nothing_left(tmp_path):
    jsonl(tmp_path / "log.jsonl", [trace(n) for n in range(5)])
    given, said, found = rule(tmp_path), [], []
    told, scored = threading.Event(), threading.Event()

    def say(line):
        said.append(line)
        told.set()

    def second():
        scored.wait(FAULT_S)
        with alone(Home(tmp_path), ["other", "r"], say):
            found.append(counts(run(tmp_path, given)))

    def wait_for_the_second():
        scored.set()
        assert told.wait(FAULT_S)

    thread = threading.Thread(target=second)
    thread.start()
    # A rule of another name does not wait.
    with alone(Home(tmp_path), ["another"], pytest.fail), alone(Home(tmp_path), ["r"], said.append):
        first = run(tmp_path, given, before_commit=wait_for_the_second)
    thread.join(FAULT_S)
    assert (counts(first), found) == ("5 seen, 5 scored, 5 measured", [""])
    assert said == ["r: another run is at work on this rule; waiting until it is done"]
    assert query(tmp_path, "SELECT count(*) FROM measurements") == [(5,)]


SCRIPT = """
import sys
from pathlib import Path
from answerkey.tasks.traces.funnel import alone
from answerkey.tasks.traces.rules import load_rules
from answerkey.tasks.warehouse.home import Home
from tests.tasks.judging_help import judged
from tests.tasks.traces.tracing_help import run

home, url = Path(sys.argv[1]), sys.argv[2]
def wait():
    print("scored", flush=True)
    sys.stdin.readline()
[rule] = load_rules([str(home / "r.yaml")])
with alone(Home(home), ["r"], print):
    run(home, rule, options=judged(url), before_commit=wait)
"""


@pytest.mark.nightly
def test_a_run_that_is_killed_before_its_commit_loses_nothing_and_pays_nothing_twice(tmp_path):
    jsonl(tmp_path / "log.jsonl", [*(trace(n) for n in range(5)), "no json"])
    given = rule(tmp_path, metric="meaning_match", judge="openai/some-model")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ['PYTHONPATH']}"}
    with JudgeServer(wordy) as judge:
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(tmp_path), judge.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, cwd=ROOT, env=environment,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "scored\n"
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=FAULT_S)
        assert judge.n_requests == 5
        assert not (tmp_path / "answerkey.duckdb").exists()
        with alone(Home(tmp_path), ["r"], pytest.fail):
            again = run(tmp_path, given, options=judged(judge.url))
        assert judge.n_requests == 5
    assert counts(again) == "6 seen, 1 quarantined, 5 scored, 5 measured"
    assert query(tmp_path, "SELECT DISTINCT from_ledger, cost_usd FROM measurements") == [(True, 0.0)]
    assert query(tmp_path, "SELECT count(*) FROM judge_calls") == [(5,)]
