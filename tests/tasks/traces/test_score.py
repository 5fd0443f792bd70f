"""A rule's run from the log to the warehouse: what is new, what is scored, where every other trace went."""

import json
from datetime import datetime
from typing import Any

import duckdb
import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.load import Source
from answerkey.tasks.score.score import score
from answerkey.tasks.traces import score as scoring
from answerkey.tasks.traces import select as selecting
from answerkey.tasks.traces.select import Window, sampled
from answerkey.tasks.traces.summary import Funnel
from answerkey.tasks.warehouse.home import Home
from tests.tasks import staging_help
from tests.tasks.staging_help import jsonl, query, served
from tests.tasks.traces.tracing_help import MAPPING, counts, prepared, rule, run, trace

Outcomes = dict[str, str]


def outcomes(home, name="r"):
    return dict(query(home, "SELECT trace_id, outcome FROM trace_outcomes WHERE rule = ?", [name]))


def days(text):
    """A window as `SINCE/UNTIL`, in UTC; an empty end is open."""
    since, until = (datetime.fromisoformat(f"{end}T00:00:00Z"[:20]) if end else None for end in text.split("/"))
    return Window(since, until)


def test_every_trace_ends_somewhere_and_the_counts_add_up(tmp_path):
    jsonl(tmp_path / "log.jsonl", [
        *(trace(n) for n in range(10)),
        *(trace(n, env="staging") for n in range(10, 14)),
        trace(14, expected=None), trace(15, output=""), trace(16, output="bro\ufffdken"), trace(17, id=None),
        trace(18, start_time="soon"), trace(19, output=["a", "list"]), "no json",
    ])  # fmt: skip
    funnel = run(tmp_path, rule(tmp_path, where="env = 'production'", sampling=1))
    assert counts(funnel) == {"seen": 21, "filtered": 4, "quarantined": 5, "scored": 11, "undefined": 1, "measured": 12}
    # "7 indeed" does not stand in "It is 7": all 0, and so is a blank answer.
    assert (funnel.field, funnel.mean, funnel.low) == ("match", 0.0, 0.0)
    assert query(tmp_path, "SELECT * EXCLUDE (run_id, created_at, watermark) FROM trace_funnels") == [
        ("r", None, None, 21, 0, 4, 0, 5, 11, 1, 0, 0, 0, 12, 1.0, "contains", funnel.signature)
    ]
    found = outcomes(tmp_path)
    assert (found["t3"], found["t12"], found["t14"], found["t15"], found["t16"]) == (
        "scored", "filtered", "undefined", "scored", "quarantined",
    )  # fmt: skip
    reasons = dict(query(tmp_path, "SELECT trace_id, reason FROM trace_outcomes WHERE reason IS NOT NULL"))
    assert reasons["t12"] == "env = 'production'"
    assert reasons["t14"] == "no reference: every reference is missing or blank"
    scores = query(tmp_path, "SELECT trace_id, field, \"value\" FROM trace_scores WHERE trace_id = 't3'")
    assert scores == [("t3", "match", 0.0)]


def test_rows_that_cannot_be_scored_are_kept_whole_with_the_reason(tmp_path):
    hostile: list[Any] = [
        trace(0), trace(1, id=None), trace(2, id=["x"]), trace(3, id="  "), trace(4, id="x" * 1001),
        trace(5, start_time=None), trace(6, start_time="2026-13-01"), trace(7, start_time=True),
        trace(8, output={"a": "b", "c": "d"}), trace(9, output="a\x00b"), trace(10, expected="x" * 100_001),
        "[1]", '"text"', "null", "{", '{"id": "half',
    ]  # fmt: skip
    jsonl(tmp_path / "log.jsonl", hostile)
    funnel = run(tmp_path, rule(tmp_path))
    assert counts(funnel) == {"seen": 16, "quarantined": 15, "scored": 1, "measured": 1}
    kept = query(
        tmp_path, 'SELECT "row", rule, split_part(reason, \';\', 1), raw FROM quarantine ORDER BY "row", reason'
    )
    reasons = [(row, rule_, reason) for row, rule_, reason, _ in kept]
    nameless = "the id (id) is missing, or is no text or number of a usual length"
    timeless = "the time (start_time) is missing, or is neither ISO 8601 nor seconds since 1970"
    assert reasons[:8] == [
        *((row, "unreadable", f"log.jsonl: {nameless}") for row in (2, 3, 4, 5)),
        *((row, "unreadable", f"log.jsonl: {timeless}") for row in (6, 7, 8)),
        (9, "unreadable", "log.jsonl: answer (output) is an object with a, c"),
    ]
    assert [(row, rule_) for row, rule_, _ in reasons[8:10]] == [(10, "encoding"), (11, "length_reference")]
    assert [reason for _, _, reason in reasons[10:13]] == [
        f"log.jsonl: the row is a JSON {kind}, not an object" for kind in ("array", "varchar", "null")
    ]
    assert [reason.split(":")[1] for _, _, reason in reasons[13:]] == [" line 15 is not JSON", " line 16 is not JSON"]
    raws = {row: raw for row, _, _, raw in kept}
    assert json.loads(raws[2]) == trace(1, id=None) and (raws[15], raws[16]) == ("{", '{"id": "half')
    # They are known by a hash of the row, so they are not looked at again.
    assert counts(run(tmp_path, rule(tmp_path))) == {}


def test_rows_that_only_one_of_two_parsers_can_read_fail_no_run(tmp_path):
    whole = json.dumps(trace(0))
    deep, long = "[" * 50_000 + "]" * 50_000, "9" * 5_000
    jsonl(tmp_path / "log.jsonl", [
        trace(1), whole[:-1] + f', "x": {deep}}}', whole.replace("t0", "t2")[:-1] + f', "x": {long}}}',
        whole.replace("t0", "t3")[:-1] + ', "x": NaN, "y": 1e999}',
        whole.replace("t0", "t4")[:-1] + ', "id": "t5", "output": "twice"}',
    ])  # fmt: skip
    funnel = run(tmp_path, rule(tmp_path))
    assert (funnel.seen, funnel.quarantined, funnel.scored) == (5, 3, 2)
    kept = dict(query(tmp_path, 'SELECT "row", reason FROM quarantine'))
    assert "maximum recursion depth exceeded" in kept[2] and "integer string conversion" in kept[3]
    assert "line 5: an object has the key 'id' twice; keep one of them" in kept[5]


def test_only_what_is_new_is_looked_at_however_late_it_comes(tmp_path):
    given = rule(tmp_path)
    jsonl(tmp_path / "log.jsonl", [trace(n) for n in range(100, 110)])
    first = run(tmp_path, given)
    assert (counts(first), first.watermark) == ({"seen": 10, "scored": 10, "measured": 10}, "2026-11-01T01:49:00+00:00")
    assert counts(run(tmp_path, given)) == {}
    # One is newer, one has the very time of the watermark, one is older than everything.
    new = [trace(200), trace(300, start_time="2026-11-01T01:49:00Z"), trace(400, start_time="2020-01-01T00:00:00Z")]
    jsonl(tmp_path / "log.jsonl", new, mode="a")
    second = run(tmp_path, given)
    assert (counts(second), second.watermark) == ({"seen": 3, "scored": 3, "measured": 3}, "2026-11-01T03:20:00+00:00")
    assert len(outcomes(tmp_path)) == 13 and counts(run(tmp_path, given)) == {}
    assert query(tmp_path, "SELECT count(*) FROM measurements") == [(13,)]


@pytest.mark.slow
def test_a_trace_from_the_future_makes_no_other_late(tmp_path):
    given = rule(tmp_path, late_days=3)
    jsonl(tmp_path / "log.jsonl", [*(trace(n) for n in range(20)), trace(20, start_time="3000-01-01T00:00:00Z")])
    assert run(tmp_path, given).watermark == "2026-11-01T00:19:00+00:00"
    jsonl(tmp_path / "log.jsonl", [trace(1440 + n) for n in range(50)], mode="a")
    found = run(tmp_path, given)
    assert counts(found) == {"seen": 50, "scored": 50, "measured": 50}
    assert found.watermark == "2026-11-02T00:49:00+00:00"


@pytest.mark.slow
def test_traces_that_are_too_late_are_named_with_the_backfill_that_scores_them(tmp_path):
    given = rule(tmp_path, late_days=1, where="env = 'production'")
    # What is filtered is forgotten once it is old: it is no trace that came late.
    jsonl(tmp_path / "log.jsonl", [trace(0, env="staging"), trace(1440 * 6)])
    assert counts(run(tmp_path, given)) == {"seen": 2, "filtered": 1, "scored": 1, "measured": 1}
    jsonl(tmp_path / "log.jsonl", [trace(1440 * 2), trace(1440 * 3), trace(1440 * 3 + 1, env="staging")], mode="a")
    one, out, run_id = prepared(tmp_path, given)
    assert one.selection.notes == (
        "r: 2 traces are older than the newest one by more than late_days (1), and were left out; `--since 2026-11-03` "
        "scores them",
    )
    assert counts(scoring.commit(Home(tmp_path), run_id, one, [], out)) == {}
    assert run(tmp_path, given, days("2026-11-03/2026-11-06")).scored == 2
    assert prepared(tmp_path, given)[0].selection.notes == ()


@pytest.mark.slow
def test_a_rule_looks_back_as_far_as_it_says(tmp_path):
    given = rule(tmp_path, late_days=1, where="env = 'production'", start="2026-11-02")
    jsonl(
        tmp_path / "log.jsonl",
        [trace(0), trace(1440 * 2, env="staging"), trace(1440 * 5), trace(1440 * 5, id="b", env="x")],
    )
    # The first is before the rule's start.
    assert counts(run(tmp_path, given)) == {"seen": 3, "filtered": 2, "scored": 1, "measured": 1}
    # What was filtered and is too old to be looked at again is forgotten; scores never are.
    assert outcomes(tmp_path) == {"t7200": "scored", "b": "filtered"}
    jsonl(tmp_path / "log.jsonl", [trace(1440 * 4 + 1), trace(1440 * 4 - 1)], mode="a")
    assert counts(run(tmp_path, given)) == {"seen": 1, "scored": 1, "measured": 1}
    assert counts(run(tmp_path, given)) == {}


@pytest.mark.slow
def test_a_backfill_takes_a_range_of_dates_and_moves_nothing(tmp_path):
    given = rule(tmp_path)
    jsonl(tmp_path / "log.jsonl", [*(trace(n) for n in range(0, 2880, 60)), trace(1, start_time=None), "no json"])
    # Before any other run: it needs no watermark, and sets none. A row without a time is in no range.
    back = run(tmp_path, given, days("2026-11-02/2026-11-02T12:00:00Z"))
    assert (counts(back), back.watermark) == ({"seen": 12, "scored": 12, "measured": 12}, None)
    assert query(tmp_path, "SELECT since < until, watermark FROM trace_funnels") == [(True, None)]
    # The run about new traces leaves those out, and the next backfill scores none of them again.
    assert counts(run(tmp_path, given)) == {"seen": 38, "quarantined": 2, "scored": 36, "measured": 36}
    [watermark] = query(tmp_path, "SELECT watermark FROM trace_rules")
    again = run(tmp_path, given, days("2026-11-02/"))
    assert counts(again) == {"seen": 24, "scored": 24, "again": 24}
    assert counts(run(tmp_path, given, days("/2026-11-01T01:00:00Z"))) == {"seen": 1, "scored": 1, "again": 1}
    assert query(tmp_path, "SELECT watermark FROM trace_rules") == [watermark]
    assert query(tmp_path, "SELECT count(*), count(DISTINCT sample_key) FROM measurements") == [(48, 48)]


@pytest.mark.slow
def test_a_higher_rate_keeps_every_trace_of_the_lower_one(tmp_path):
    jsonl(tmp_path / "log.jsonl", [trace(n) for n in range(1000)])
    low = run(tmp_path, rule(tmp_path, sampling=0.1))
    taken = {one for one, outcome in outcomes(tmp_path).items() if outcome == "scored"}
    assert taken == {f"t{n}" for n in range(1000) if sampled("r", f"t{n}", 0.1)}
    assert counts(low) == {"seen": 1000, "sampled_out": 1000 - len(taken), "scored": len(taken), "measured": len(taken)}
    # Those that were left out are settled for runs about new traces; a backfill decides anew.
    assert counts(run(tmp_path, rule(tmp_path, sampling=0.2))) == {}
    high = run(tmp_path, rule(tmp_path, sampling=0.2), days("2026-11-01/"))
    more = {one for one, outcome in outcomes(tmp_path).items() if outcome == "scored"}
    assert taken < more and high.scored == len(more) and high.measured == len(more - taken)
    # A lower rate takes no score away.
    low = run(tmp_path, rule(tmp_path, sampling=0.01), days("2026-11-01/"))
    assert low.scored < 50 and low.measured == 0
    assert {one for one, outcome in outcomes(tmp_path).items() if outcome == "scored"} == more


def test_a_rule_that_is_switched_off_counts_and_scores_nothing(tmp_path):
    jsonl(tmp_path / "log.jsonl", [trace(0), trace(1, id=None), "no json"])
    assert counts(run(tmp_path, rule(tmp_path, enabled=False))) == {"seen": 3, "disabled": 3}
    # They went by while it was off; a backfill fetches them.
    assert counts(run(tmp_path, rule(tmp_path))) == {}
    assert counts(run(tmp_path, rule(tmp_path), days("2026-11-01/"))) == {
        "seen": 2, "quarantined": 1, "scored": 1, "again": 2, "measured": 1,
    }  # fmt: skip


def test_one_id_several_times(tmp_path):
    jsonl(tmp_path / "log.jsonl", [
        trace(0), trace(0), trace(1), trace(1, output="something else"), trace(2), trace(2, env="staging"),
    ])  # fmt: skip
    funnel = run(tmp_path, rule(tmp_path, where="env = 'production'"))
    # A second copy is dropped; of two that differ it is unknown which is right.
    assert counts(funnel) == {"seen": 6, "filtered": 1, "quarantined": 3, "scored": 2, "measured": 2}
    assert outcomes(tmp_path) == {"t0": "scored", "t1": "quarantined", "t2": "scored"}
    assert counts(run(tmp_path, rule(tmp_path, where="env = 'production'"))) == {}


def test_equal_answers_are_measured_once_and_shared_with_evaluations(tmp_path):
    same = {"input": "q", "output": "a", "expected": "a"}
    rows = [{"id": "1", "question": "q", "answer": "a", "reference": "a"}]
    staging_help.run(tmp_path, Source(staging_help.jsonl(tmp_path / "d.jsonl", rows), release="x"), ["contains"])
    jsonl(
        tmp_path / "log.jsonl",
        [
            trace(0, **same),
            trace(1, **same),
            trace(2, **same, more=1),
            trace(3),
            trace(4, output="It is 3", input="What is 3?", expected="3 indeed"),
        ],
    )
    assert counts(run(tmp_path, rule(tmp_path))) == {"seen": 5, "scored": 5, "measured": 1}


def test_ground_truth_can_come_from_a_data_set(tmp_path):
    rows = [{"id": "q1", "question": "Capital?", "answer": "x", "reference": ["Paris", "city of Paris"]}]
    staging_help.run(tmp_path, Source(staging_help.jsonl(tmp_path / "faq.jsonl", rows), release="x"), ["contains"])
    jsonl(tmp_path / "log.jsonl", [
        trace(0, output="It is Paris.", meta={"qid": "q1"}), trace(1, output="Rome", meta={"qid": "q1"}),
        trace(2, meta={"qid": "other"}), trace(3), trace(4, input=None, output="Paris", meta={"qid": "q1"}),
    ])  # fmt: skip
    given = rule(tmp_path, mapping={"answer": "output", "question": "input", "key": "meta.qid"}, dataset="faq")
    funnel = run(tmp_path, given)
    assert counts(funnel) == {"seen": 5, "scored": 3, "undefined": 2, "measured": 5}
    assert funnel.mean == pytest.approx(2 / 3)
    assert dict(query(tmp_path, 'SELECT trace_id, "value" FROM trace_scores')) == {"t0": 1.0, "t1": 0.0, "t4": 1.0}
    with pytest.raises(UserError, match=r"r\.yaml:1: dataset: there is no data set 'fag'; there are faq$"):
        run(tmp_path, rule(tmp_path, mapping={"answer": "output", "key": "meta.qid"}, dataset="fag"))


@pytest.mark.slow
def test_what_failed_is_tried_again_and_counted_so(tmp_path):
    jsonl(tmp_path / "log.jsonl", [trace(n) for n in range(4)])
    one, out, run_id = prepared(tmp_path, rule(tmp_path))
    assert one.plan is not None
    failed = [staging_help.score_or_fail(shard, ["contains"]) for shard in one.plan.shards]
    funnel = scoring.commit(Home(tmp_path), run_id, one, failed, out)
    assert counts(funnel) == {"seen": 4, "failed": 4, "measured": 4}
    jsonl(tmp_path / "log.jsonl", [trace(4)], mode="a")
    assert counts(run(tmp_path, rule(tmp_path))) == {"seen": 5, "scored": 5, "again": 4, "measured": 5}
    assert counts(run(tmp_path, rule(tmp_path))) == {}


def test_a_path_that_matches_no_trace_is_a_mistake_in_the_rule(tmp_path):
    jsonl(tmp_path / "log.jsonl", [trace(0), trace(1), "no json"])
    for key, path in (("id", "trace_id"), ("time", "created")):
        with pytest.raises(UserError) as error:
            run(tmp_path, rule(tmp_path, **{key: path}))
        assert str(error.value) == (
            f"{tmp_path}/r.yaml:{1 if key == 'id' else 8}: {key}: none of the 2 rows in {tmp_path}/log.jsonl has "
            f"anything at '{path}'; write where the {key} of a trace is"
        )
    # Also where the range of a backfill would have hidden it.
    with pytest.raises(UserError, match="write where the time of a trace is"):
        run(tmp_path, rule(tmp_path, time="created"), days("2026-11-01/"))
    # A value that no trace has at a mapped path may come later: the run warns of it, and goes on.
    one, _, _ = prepared(
        tmp_path, rule(tmp_path, mapping={**MAPPING, "references": "expcted"}, where="environ IS DISTINCT FROM 'x'")
    )
    assert one.selection.notes == ("r: none of the 2 rows has anything at 'environ', which a condition looks at",)
    assert one.staged.notes[0].endswith(
        "none of the 2 sampled traces has anything at 'expcted', which is mapped to references"
    )


@pytest.mark.slow
def test_a_condition_that_cannot_be_evaluated_is_no_condition_that_fails(tmp_path):
    jsonl(tmp_path / "log.jsonl", [trace(0, ms=5), trace(1, ms="5"), trace(2, ms=[]), trace(3), trace(4, ms=7)])
    one, _, _ = prepared(tmp_path, rule(tmp_path, where="ms < 6"))
    assert one.selection.notes == (
        "r: 'ms < 6' cannot be evaluated for 2 of 5 rows, which are filtered; give its values a type, like "
        "try_cast(metadata.duration_ms AS DOUBLE) < 5000",
    )
    assert counts(run(tmp_path, rule(tmp_path, where="ms < 6"))) == {
        "seen": 5, "filtered": 4, "scored": 1, "measured": 1,
    }  # fmt: skip
    reasons = "SELECT reason, count(*) FROM trace_outcomes WHERE outcome = 'filtered' GROUP BY reason ORDER BY reason"
    assert query(tmp_path, reasons) == [("cannot be evaluated: ms < 6", 2), ("ms < 6", 2)]
    with pytest.raises(UserError) as error:
        prepared(tmp_path, rule(tmp_path, name="wrong", where=["env = 'production'", "length(output) > 3"]))
    assert str(error.value) == (
        f"{tmp_path / 'wrong.yaml'}:8: where: 'length(output) > 3' cannot be evaluated for 5 of 5 rows; give its "
        "values a type, like try_cast(metadata.duration_ms AS DOUBLE) < 5000"
    )


@pytest.mark.slow
def test_what_is_distinct_is_so_in_thousands_of_traces(tmp_path):
    jsonl(tmp_path / "log.jsonl", [trace(n, env=("production", "staging", None)[n % 3]) for n in range(6_000)])
    taken = [
        prepared(tmp_path, rule(tmp_path, where=where))[0].selection.sampled
        for where in ("env IS DISTINCT FROM 'production'", "env IS NOT DISTINCT FROM 'production'")
    ]
    assert taken == [4_000, 2_000]


@pytest.mark.slow
def test_a_corrected_condition_is_tried_on_what_it_could_not_be_evaluated_for(tmp_path):
    jsonl(tmp_path / "log.jsonl", [trace(n, ref=n if n % 5 else "a long text") for n in range(100)])
    wrong = rule(tmp_path, where=["env = 'production'", "length(ref::INT::VARCHAR) > 1"])
    assert counts(run(tmp_path, wrong)) == {"seen": 100, "filtered": 28, "scored": 72, "measured": 72}
    # It cannot be evaluated for 20, which it has settled as long as it stays.
    assert counts(run(tmp_path, wrong)) == {}
    mended = rule(tmp_path, where=["env = 'production'", "length(ref::VARCHAR) > 1"])
    one, _, _ = prepared(tmp_path, mended)
    assert one.selection.notes == (
        "r: where changed since the last run; the 80 traces that earlier runs settled are not looked at again, but "
        "with `--since 2026-11-01`",
    )
    assert counts(run(tmp_path, mended)) == {"seen": 20, "scored": 20, "again": 20, "measured": 20}
    assert counts(run(tmp_path, mended)) == {}
    assert prepared(tmp_path, mended)[0].selection.notes == ()


def test_a_rule_that_changed_says_what_it_does_not_look_at_again(tmp_path):
    jsonl(tmp_path / "log.jsonl", [trace(n) for n in range(10)])
    assert counts(run(tmp_path, rule(tmp_path, sampling=0))) == {"seen": 10, "sampled_out": 10}
    notes = {
        key: prepared(tmp_path, rule(tmp_path, **{"sampling": 0, key: value}))[0].selection.notes
        for key, value in (("sampling", 1), ("metric", "bleu"), ("late_days", 90), ("description", "new"))
    }
    said = "since the last run; the 10 traces that earlier runs settled are not looked at again, but with `--since "
    assert notes == {
        "sampling": (f"r: sampling changed {said}2026-11-01`",),
        "metric": (f"r: metric changed {said}2026-11-01`",),
        "late_days": (),
        "description": (),
    }
    backfill, _, _ = prepared(tmp_path, rule(tmp_path, sampling=1), days("2026-11-01/"))
    assert (backfill.selection.notes, backfill.selection.sampled) == ((), 10)


@pytest.mark.slow
def test_a_wrong_path_to_the_answer_stops_the_rule_and_settles_nothing(tmp_path):
    jsonl(tmp_path / "log.jsonl", [trace(n) for n in range(20)])
    wrong = rule(tmp_path, mapping={**MAPPING, "answer": "outputs.text"})
    with pytest.raises(UserError) as error:
        run(tmp_path, wrong)
    assert str(error.value) == (
        f"{tmp_path}/r.yaml:2: mapping.answer: none of the 20 sampled traces has anything at 'outputs.text'; write "
        "where the answer of a trace is"
    )
    assert not Home(tmp_path).warehouse.exists()
    right = rule(tmp_path)
    assert counts(run(tmp_path, right)) == {"seen": 20, "scored": 20, "measured": 20}
    with pytest.raises(UserError, match=r"has anything at 'outputs\.text'; write where the answer of a trace is"):
        run(tmp_path, wrong, days("2026-11-01/"))
    # By a path that led somewhere before, one trace without an answer is one that failed.
    failed = {key: value for key, value in trace(20).items() if key != "output"}
    jsonl(tmp_path / "log.jsonl", [failed], mode="a")
    assert counts(run(tmp_path, right)) == {"seen": 1, "scored": 1, "measured": 1}


def test_answers_that_are_all_null_are_no_wrong_path(tmp_path):
    jsonl(tmp_path / "log.jsonl", [trace(n, output=None) for n in range(3)])
    assert counts(run(tmp_path, rule(tmp_path))) == {"seen": 3, "scored": 3, "measured": 3}


def test_a_condition_that_takes_too_long_stops_the_rule(tmp_path, monkeypatch):
    jsonl(tmp_path / "log.jsonl", [trace(n, output="a" * 2_000) for n in range(100)])
    monkeypatch.setattr(selecting, "_LIMIT_S", 0.1)
    # Slow in small pieces: each pair of characters of each trace.
    slow = "output ILIKE '%a%b'"
    with pytest.raises(UserError, match=r"r.yaml:\d+: where: not done after 0 s; simplify the condition, or split the"):
        prepared(tmp_path, rule(tmp_path, where=slow))


def test_a_path_that_must_be_empty_may_lead_nowhere(tmp_path):
    jsonl(tmp_path / "log.jsonl", [trace(0)])
    one, _, _ = prepared(tmp_path, rule(tmp_path, where=["error IS NULL", "eror <> ''"]))
    assert one.selection.notes == ("r: none of the 1 rows has anything at 'eror', which a condition looks at",)


def test_a_row_too_long_for_the_reader_is_reported_with_its_file(tmp_path):
    jsonl(tmp_path / "log.jsonl", [trace(0), trace(1, output="x" * (34 << 20))])
    with pytest.raises(UserError) as error:
        run(tmp_path, rule(tmp_path))
    assert str(error.value).startswith(f"{tmp_path}/log.jsonl: cannot be read: ")
    assert str(error.value).endswith("; no trace is as long, so split or remove that row")


def test_two_rules_that_score_the_same_traces_share_the_work(tmp_path):
    jsonl(tmp_path / "log.jsonl", [trace(n) for n in range(3)])
    found = [prepared(tmp_path, rule(tmp_path, name=name)) for name in ("one", "other")]
    shards = [one.plan.shards for one, _, _ in found if one.plan]
    assert [shard.part for shard in shards[0]] == [shard.part for shard in shards[1]]
    parts = [[score(shard, spawn=False) for shard in some] for some in shards]
    funnels = [
        scoring.commit(Home(tmp_path), run_id, one, own, out)
        for (one, out, run_id), own in zip(found, parts, strict=True)
    ]
    assert [counts(funnel) for funnel in funnels] == [{"seen": 3, "scored": 3, "measured": 3}] * 2
    assert query(tmp_path, "SELECT count(*) FROM measurements") == [(3,)]


def test_a_token_in_the_address_of_a_source_is_in_no_file(tmp_path):
    jsonl(tmp_path / "log.jsonl", [trace(0), trace(1, output=["no", "text"]), trace(2, id=None), "no json"])
    with served(tmp_path) as site:
        address = f"{site}/log.jsonl"
        given = rule(tmp_path / "rules", source=f"{address}?token=canary")
        funnel = run(tmp_path / "home", given)
        with pytest.raises(UserError) as error:
            run(tmp_path / "home", rule(tmp_path / "rules", source=f"{address}x.jsonl?token=canary"))
    assert counts(funnel) == {"seen": 4, "quarantined": 3, "scored": 1, "measured": 1}
    assert str(error.value) == (
        f"{address}x.jsonl?…: cannot be read: HTTP Error: HTTP GET error on '{address}x.jsonl?…' (HTTP 404 Not Found)"
    )
    assert {file for (file,) in query(tmp_path / "home", "SELECT DISTINCT source FROM quarantine")} == {f"{address}?…"}
    assert query(tmp_path / "home", "SELECT definition ->> 'source' FROM trace_rules") == [(f"{address}?…",)]
    assert b"canary" not in (tmp_path / "home" / "answerkey.duckdb").read_bytes()


def test_a_view_of_a_duckdb_source_reads_no_other_files(tmp_path):
    secret, file = tmp_path / "secret.txt", tmp_path / "logged.duckdb"
    secret.write_text("the key is 7")
    with duckdb.connect(str(file)) as connection:
        connection.execute(f"CREATE VIEW traces AS SELECT 't1' AS id, content AS output FROM read_text('{secret}')")
    with pytest.raises(UserError) as error:
        run(tmp_path / "home", rule(tmp_path / "rules", source=f"{file}::traces"))
    assert str(error.value).startswith(f"{file}::traces: cannot be read: Permission Error: ")
    assert "key is" not in str(error.value) and "\n" not in str(error.value)


def test_a_view_of_a_duckdb_source_whose_values_do_not_fit_is_one_line(tmp_path):
    file = tmp_path / "logged.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE TABLE calls AS SELECT 't1' AS id, 'soon' AS began")
        connection.execute("CREATE VIEW traces AS SELECT id, began::TIMESTAMP AS start_time FROM calls")
    with pytest.raises(UserError) as error:
        run(tmp_path / "home", rule(tmp_path / "rules", source=f"{file}::traces"))
    assert str(error.value).startswith(f"{file}::traces: cannot be read: Conversion Error: ")
    assert "\n" not in str(error.value)


def test_nothing_is_half_committed(tmp_path, monkeypatch):
    jsonl(tmp_path / "log.jsonl", [trace(n) for n in range(5)])
    one, out, run_id = prepared(tmp_path, rule(tmp_path))
    assert one.plan is not None
    parts = [score(shard, spawn=False) for shard in one.plan.shards]

    def full_disk(*_):
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(scoring, "_insert_funnel", full_disk)
        with pytest.raises(OSError, match="no space left"):
            scoring.commit(Home(tmp_path), run_id, one, parts, out)
    tables = "measurements", "trace_outcomes", "trace_funnels", "trace_rules", "quarantine"
    with duckdb.connect(str(tmp_path / "answerkey.duckdb"), read_only=True) as warehouse:
        there = {name for (name,) in warehouse.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    assert there.isdisjoint(tables)
    # The same again finishes it, and once more changes nothing.
    funnel = scoring.commit(Home(tmp_path), run_id, one, parts, out)
    assert scoring.commit(Home(tmp_path), run_id, one, parts, out) == funnel
    assert counts(funnel) == {"seen": 5, "scored": 5, "measured": 5}
    assert [query(tmp_path, f"SELECT count(*) FROM {name}") for name in tables] == [
        [(5,)],
        [(5,)],
        [(1,)],
        [(1,)],
        [(0,)],
    ]


def test_a_funnel_that_does_not_add_up_is_an_error():
    with pytest.raises(RuntimeError, match="r: the funnel does not add up: seen 3, disabled 0, filtered 1, "):
        Funnel("r", "contains", "s", 3, 0, 1, 0, 0, 1, 0, 0, 0, 0, 1, "match")
