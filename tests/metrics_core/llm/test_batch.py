"""Batches at a provider: what is sent, what is paid, and what a killed run leaves. Judges are over HTTP."""

import logging
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from answerkey.metrics_core.judges.check import estimate_cost
from answerkey.metrics_core.llm.ledger import COLUMNS, open_ledger
from answerkey.metrics_core.measurement import Skipped
from answerkey.metrics_core.metrics.ground_truth_similarity import GroundTruthSimilarity
from answerkey.metrics_core.metrics.meaning_match import MeaningMatch
from tests.conftest import ROOT
from tests.judge_batches import BatchServer
from tests.judge_brains import agreeable
from tests.kit.waiting import FAULT_S
from tests.metrics_core.judges.asking import ask, every_third_match, failure, lapse, rows, samples, setup

MODEL = "openai/gpt-4o-mini"
POLL_S = 0.02


def judge(server, ledger, **changes):
    options = {"run": "run", "batch": True, "batch_poll_s": POLL_S, **changes}
    return setup(f"{MODEL}@{server.url}", ledger=str(ledger), **options)


def statuses(found):
    return [one.status for one in found]


def why_skipped(measurement):
    assert isinstance(measurement.outcome, Skipped), measurement
    return measurement.outcome.reason


# What is sent and what it costs.


def test_everything_goes_in_one_batch_at_half_the_price(tmp_path):
    with BatchServer(every_third_match) as server:
        expected = estimate_cost(judge(server, tmp_path).metric(MeaningMatch), samples(7))
        alone = estimate_cost(judge(server, tmp_path, batch=False).metric(MeaningMatch), samples(7))
        found = ask(samples(7), judge(server, tmp_path))
        again = ask(samples(7), judge(server, tmp_path, run="again"))
    assert [one.values["match"] for one in found] == [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0]
    assert [one.reason for one in found] == [f"this is {number}" for number in range(7)]
    assert (len(server.batches), server.worked_on, server.direct) == (1, 7, [])
    prices = (0.075e-6, 0.3e-6)
    for one in found:
        paid = one.usage.tokens_in * prices[0] + one.usage.tokens_out * prices[1]
        assert one.usage.cost_usd == pytest.approx(paid)
    assert [one.from_ledger for one in again] == [True] * 7
    assert expected.cost_usd is not None
    assert expected.cost_usd * 2 == pytest.approx(alone.cost_usd)


def test_what_depends_on_replies_goes_in_the_next_batch(tmp_path):
    with BatchServer(agreeable) as server:
        metric = judge(server, tmp_path).metric(GroundTruthSimilarity)
        found = metric.measure(samples(4))
    assert statuses(found) == ["scored"] * 4
    assert (server.worked_on, server.direct) == (8, [])
    assert len(server.batches) >= 2


def test_the_check_comes_before_the_batch_and_is_not_in_it(tmp_path):
    with BatchServer(agreeable) as server:
        found = ask(samples(3), judge(server, tmp_path, check="always"))
    assert "judge stopped" in why_skipped(found[0])
    assert (len(server.direct), server.batches) == (40, {})


@pytest.mark.parametrize("cap", [{"max_calls": 3}, {"max_cost_usd": 0.003}, {"max_cost_total_usd": 0.003}])
def test_a_cap_holds_for_a_batch_as_a_whole(cap, tmp_path):
    with BatchServer(every_third_match) as server:
        found = ask(samples(7), judge(server, tmp_path, **cap))
        n_paid = statuses(found).count("scored")
        assert server.worked_on == n_paid == {"max_calls": 3}.get(*cap, n_paid) < 7
        assert n_paid > 0
        assert "budget used up" in why_skipped(next(one for one in found if one.status != "scored"))
        assert statuses(ask(samples(7), judge(server, tmp_path, run="next"))) == ["scored"] * 7
    assert (server.worked_on, server.direct) == (7, [])


# What goes wrong at the provider.


def test_lines_that_fail_are_asked_alone_and_those_that_expire_can_be_asked_later(tmp_path):
    faults = {1: "error_500", 4: "expired"}
    with BatchServer(every_third_match, line_fault=lambda number, _body: faults.get(number)) as server:
        found = ask(samples(6), judge(server, tmp_path))
        assert statuses(found) == ["scored"] * 4 + ["skipped"] + ["scored"]
        assert "did not process it" in why_skipped(found[4])
        assert (server.worked_on, len(server.direct)) == (4, 1)
        faults.clear()
        assert statuses(ask(samples(6), judge(server, tmp_path))) == ["scored"] * 6
    assert (server.worked_on, len(server.direct)) == (5, 1)
    costs = {code: cost for code, cost in rows(tmp_path, "code, cost_usd") if code}
    assert costs["unsent"] == 0.0
    assert not costs["http_500"]


def test_a_line_beyond_the_quota_is_skipped_in_the_words_of_the_provider(tmp_path):
    with BatchServer(every_third_match, line_fault=lambda number, _body: "quota" if number == 1 else None) as server:
        found = ask(samples(3), judge(server, tmp_path))
        assert (statuses(found), server.direct) == (["scored", "skipped", "scored"], [])
    assert "You exceeded your quota." in why_skipped(found[1])


def second_row(change):
    """Something else is shown of the second result."""
    return {"show_row": lambda number, row: change(row) if number == 1 else row}


def lines(change):
    """Other lines are shown of the results."""
    return {"show_results": lambda shown: b"".join(map(change, shown.splitlines(keepends=True)))}


GARBLED, ALONE = "the results of its batch cannot be read; it counts as paid", 1
ODD_STATE = {"request_counts": ["many"], "errors": "none", "metadata": ["a"], "created_at": "0001-01-01"}
ODD = {
    # How the server differs, why the second row fails, and how many calls are made alone. The last are in trouble once.
    "a list": (second_row(lambda row: [row]), GARBLED, 0),
    "another name": (second_row(lambda row: {**row, "custom_id": "1"}), GARBLED, 0),
    "a list for a response": (second_row(lambda row: {**row, "response": []}), "", ALONE),
    "an odd status": (second_row(lambda row: {**row, "response": {"status_code": 10**9, "type": []}}), "", ALONE),
    "a byte order mark": ({"show_results": lambda shown: b"\xef\xbb\xbf" + shown}, "", 0),
    "each line twice": (lines(lambda line: line + line), "", 0),
    "two that contradict each other": (
        lines(lambda line: line + line.replace(b"this is 1", b"it is not 1")),
        "its batch has several results for it, which contradict",
        0,
    ),
    "a line is missing": (
        lines(lambda line: b"" if b"this is 1" in line else line),
        "it is missing from the results of its batch, which was completed; it counts as paid",
        0,
    ),
    "an odd state": ({"show_state": lambda shown: {**shown, **ODD_STATE}}, "", 0),
    **{
        f"trouble: {kind}": ({"fails": {kind: 1}}, "", 0) for kind in ("upload", "create", "created", "look", "results")
    },
}


@pytest.mark.parametrize("kind", ODD)
def test_each_line_gets_its_own_result_or_fails_and_counts_as_paid(kind, tmp_path):
    changes, message, n_alone = ODD[kind]
    with BatchServer(every_third_match, **changes) as server:
        found = ask(samples(3), judge(server, tmp_path))
        assert (server.worked_on, len(server.direct), len(server.batches)) == (3, n_alone, 1)
    assert statuses(found) == ["scored", "failed" if message else "scored", "scored"]
    assert [one.values.get("match") for one in found] == [1.0, None if message else 0.0, 0.0]
    if message:
        assert message in failure(found[1]).message
        [cost] = [cost for code, cost in rows(tmp_path, "code, cost_usd") if code == "garbled"]
        assert cost > 0.0


def test_a_batch_of_which_nothing_can_be_known_counts_as_paid(tmp_path):
    """It was made, the answer was lost, and the server has no list of batches."""
    with BatchServer(every_third_match, fails={"created": 1}, unlisted=True) as server:
        found = ask(samples(2), judge(server, tmp_path))
        assert (len(server.batches), server.seen["find asked"], server.direct) == (1, 1, [])
    assert statuses(found) == ["failed"] * 2
    assert "it counts as paid" in failure(found[0]).message
    assert [(code, cost > 0.0) for code, cost in rows(tmp_path, "code, cost_usd")] == [("batch_gone", True)] * 2


def test_an_unreadable_line_is_sent_back_for_repair_alone(tmp_path):
    with BatchServer(lambda body: "I cannot say" if len(body["messages"]) < 3 else every_third_match(body)) as server:
        assert statuses(ask(samples(2), judge(server, tmp_path))) == ["scored"] * 2
    assert (server.worked_on, len(server.direct)) == (2, 2)
    assert sorted(rows(tmp_path)) == sorted([("ask", "unreadable", "not_json", 1), ("repair", "usable", None, 2)] * 2)


def test_a_batch_that_is_refused_costs_nothing(tmp_path):
    with BatchServer(every_third_match, finishes=False) as server:
        server.fails["look"] = 1
        done = in_background(lambda: ask(samples(2), judge(server, tmp_path)))
        server.wait_for("look asked", 2)
        for batch in server.batches.values():
            batch.status = "failed"
        [first, _] = done()
    assert "refused the batch batch_0: Line 1 is too long." in why_skipped(first)
    assert rows(tmp_path, "code, cost_usd") == [("unsent", 0.0)] * 2


def test_a_server_without_batches_is_asked_nothing(tmp_path):
    with BatchServer(every_third_match, without=True) as server:
        [found] = ask(samples(1), judge(server, tmp_path))
    assert "the batch could not be sent" in why_skipped(found)
    assert (server.direct, rows(tmp_path, "cost_usd")) == ([], [(0.0,)])


# A run that ends before its batch.

KILLED = """
import os, sys
from answerkey.metrics_core.llm.provider import abilities
from tests.metrics_core.judges.asking import ask, samples, setup

abilities("openai/gpt-4o-mini")
print(flush=True)
for line in sys.stdin:
    if not (process := os.fork()):
        url, ledger, count, passwords = line.rstrip("\\n").split("\\t")
        os.environ["PGPASSFILE"] = passwords
        judge = setup(f"openai/gpt-4o-mini@{url}", ledger=ledger, run="killed", batch=True, batch_poll_s=0.02)
        ask(samples(int(count)), judge)
        os._exit(0)
    print(process, flush=True)
    print(os.waitpid(process, 0)[1], flush=True)
"""


@pytest.fixture(scope="module")
def nursery():
    """A process that starts others which ask a judge: what takes long is imported once."""
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert process.stdout
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def kill_one(nursery, server, ledger, moment):
    """Have a process ask about five samples, and kill it once the server has seen that moment."""
    assert nursery.stdin
    assert nursery.stdout
    nursery.stdin.write(f"{server.url}\t{ledger}\t5\t{os.environ.get('PGPASSFILE', '')}\n")
    child = int(nursery.stdout.readline())
    server.wait_for(moment)
    os.kill(child, signal.SIGKILL)
    assert int(nursery.stdout.readline()) == signal.SIGKILL


@pytest.mark.nightly
@pytest.mark.parametrize("moment", ["upload reached", "create reached", "created reached", "look"])
def test_what_a_killed_run_sent_is_found_and_nothing_is_paid_twice(moment, place, nursery):
    hold = frozenset([moment.removesuffix(" reached")] if moment != "look" else [])
    with BatchServer(every_third_match, finishes=False, hold=hold) as server:
        kill_one(nursery, server, place, moment)
        lapse(place)
        # A batch that was asked for is made, also if who asked is gone by then.
        server.release()
        if moment.startswith("create"):
            server.wait_for("create")
        server.finishes = True
        found = ask(samples(7), judge(server, place))
        assert statuses(found) == ["scored"] * 7
        assert (server.worked_on, server.direct) == (7, [])
        # What was never sent goes with the rest, unless its claims lapse only after that has gone.
        assert len(server.batches) in ((1, 2) if moment == "upload reached" else (2,))
    ledger = open_ledger(place)
    assert ledger.spent("run").cost_usd == pytest.approx(sum(one.usage.cost_usd or 0.0 for one in found))
    assert {row[COLUMNS.index("status")] for row in ledger.calls()} <= {"usable", "error"}
    ledger.close()


def test_a_cancelled_run_says_what_goes_on_and_the_next_one_fetches_it(tmp_path, caplog):
    with BatchServer(every_third_match, finishes=False) as server:
        found = left(server, tmp_path)
        assert "the batch batch_0 goes on at openai/gpt-4o-mini" in why_skipped(found[0])
        assert "run the same command again with --batch" in caplog.text
        assert [row[0] for row in rows(tmp_path, "status")] == ["sent"] * 3

        # Without the option it is looked at, and not waited for.
        caplog.set_level(logging.INFO, logger="answerkey")
        found = ask(samples(3), judge(server, tmp_path, batch=False))
        assert "the batch batch_0 goes on" in why_skipped(found[0])
        server.finish()
        assert statuses(ask(samples(3), judge(server, tmp_path, batch=False))) == ["scored"] * 3
    assert (len(server.batches), server.worked_on, server.direct) == (1, 3, [])


def test_lines_that_were_left_and_not_worked_on_count_as_no_calls(place):
    with BatchServer(every_third_match, finishes=False, line_fault=lambda *_: "expired") as server:
        left(server, place)
        server.finish("expired")
        found = ask(samples(3), judge(server, place, batch=False, run="next", max_calls=3))
        assert statuses(found) == ["scored"] * 3
        assert (server.worked_on, len(server.direct)) == (0, 3)
    ledger = open_ledger(place)
    assert [ledger.spent(run).calls for run in ("run", "next")] == [0, 3]
    assert [one.calls for one in ledger.spent_by_judge("next")] == [3]
    ledger.close()


def test_a_batch_that_the_provider_has_no_more_counts_as_paid(tmp_path):
    with BatchServer(every_third_match, finishes=False) as server:
        done = in_background(lambda: ask(samples(1), judge(server, tmp_path)))
        server.wait_for("look")
        server.batches.clear()
        [found] = done()
    assert "has no batch batch_0 (any more); it counts as paid" in failure(found).message
    [(code, cost)] = rows(tmp_path, "code, cost_usd")
    assert (code, cost > 0.0) == ("batch_gone", True)


def left(server, place):
    """What a run says of three questions that is stopped as soon as it has looked at their batch."""
    stop = []
    asked = judge(server, place)
    stopping = asked._replace(access=replace(asked.access, stopped=lambda: bool(stop)))
    done = in_background(lambda: ask(samples(3), stopping))
    server.wait_for("look")
    stop.append(True)
    found = done()
    return found


def in_background(work):
    """Start work in a thread; the result waits for it."""
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(1)
    future = pool.submit(work)
    pool.shutdown(wait=False)
    return lambda: future.result(timeout=FAULT_S)
