"""Batches at a provider: what is sent, what is paid, and what a killed run leaves. Judges are over HTTP."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from answerkey.metrics_core.judges.estimate import estimate_cost
from answerkey.metrics_core.llm.async_ledger import AsyncLedger
from answerkey.metrics_core.llm.batch import Batches, BatchState, Line
from answerkey.metrics_core.llm.http import Answer
from answerkey.metrics_core.llm.ledger import LedgerError
from answerkey.metrics_core.llm.ledger_place import copy_ledger, open_ledger
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.transport import Reply
from answerkey.metrics_core.measurement import Measurement, Skipped
from answerkey.metrics_core.metrics.ground_truth_similarity import GroundTruthSimilarity
from answerkey.metrics_core.metrics.meaning_match import MeaningMatch
from tests.judge_batches import BatchServer
from tests.judge_brains import agreeable
from tests.metrics_core.judges.asking import Setup, ask, every_third_match, failure, rows, samples, setup
from tests.metrics_core.llm import virtual_time

ROOT = Path(__file__).resolve().parents[3]
OPENAI, ANTHROPIC = "openai/gpt-4o-mini", "anthropic/claude-haiku-4-5"
POLL_S = 0.02


@pytest.fixture(params=["folder", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place that processes can share."""
    return f"postgresql:{request.getfixturevalue('postgres')}" if request.param == "postgres" else str(tmp_path)


def judge(server: BatchServer, ledger: object, model: str = OPENAI, **changes: Any) -> Setup:
    url = server.url.removesuffix("/v1") if model == ANTHROPIC else server.url
    options = {"run": "run", "batch": True, "batch_poll_s": POLL_S, **changes}
    return setup(f"{model}@{url}", ledger=str(ledger), **options)


def statuses(found: list[Measurement]) -> list[str]:
    return [one.status for one in found]


def why_skipped(measurement: Measurement) -> str:
    assert isinstance(measurement.outcome, Skipped), measurement
    return measurement.outcome.reason


# What is sent and what it costs.


@pytest.mark.parametrize("model", [OPENAI, ANTHROPIC])
def test_everything_goes_in_one_batch_at_half_the_price(model: str, tmp_path: Path) -> None:
    with BatchServer(every_third_match) as server:
        expected = estimate_cost(judge(server, tmp_path, model).metric(MeaningMatch), samples(7))
        alone = estimate_cost(judge(server, tmp_path, model, batch=False).metric(MeaningMatch), samples(7))
        found = ask(samples(7), judge(server, tmp_path, model))
        again = ask(samples(7), judge(server, tmp_path, model, run="again"))
    assert [one.values["match"] for one in found] == [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0]
    assert [one.reason for one in found] == [f"this is {number}" for number in range(7)]
    assert (len(server.batches), server.worked_on, server.direct) == (1, 7, [])
    prices = {OPENAI: (0.075e-6, 0.3e-6), ANTHROPIC: (0.5e-6, 2.5e-6)}[model]
    for one in found:
        paid = one.usage.tokens_in * prices[0] + one.usage.tokens_out * prices[1]
        assert one.usage.cost_usd == pytest.approx(paid)
    assert [one.from_ledger for one in again] == [True] * 7
    assert expected.cost_usd is not None
    assert expected.cost_usd * 2 == pytest.approx(alone.cost_usd)


def test_what_depends_on_replies_goes_in_the_next_batch(tmp_path: Path) -> None:
    with BatchServer(agreeable) as server:
        metric = judge(server, tmp_path).metric(GroundTruthSimilarity)
        found = metric.measure(samples(4))
    assert statuses(found) == ["scored"] * 4
    assert (server.worked_on, server.direct) == (8, [])
    assert len(server.batches) >= 2


def test_probes_are_asked_before_and_not_in_the_batch(tmp_path: Path) -> None:
    with BatchServer(agreeable) as server:
        found = ask(samples(3), judge(server, tmp_path, probes="always"))
    assert "judge stopped" in why_skipped(found[0])
    assert (len(server.direct), server.batches) == (12, {})


@pytest.mark.parametrize("cap", [{"max_calls": 3}, {"max_cost_usd": 0.003}, {"max_cost_total_usd": 0.003}])
def test_a_cap_holds_for_a_batch_as_a_whole(cap: dict[str, float], tmp_path: Path) -> None:
    with BatchServer(every_third_match) as server:
        found = ask(samples(7), judge(server, tmp_path, **cap))
        n_paid = statuses(found).count("scored")
        assert server.worked_on == n_paid == {"max_calls": 3}.get(*cap, n_paid) < 7
        assert n_paid > 0
        assert "budget used up" in why_skipped(next(one for one in found if one.status != "scored"))
        assert statuses(ask(samples(7), judge(server, tmp_path, run="next"))) == ["scored"] * 7
    assert (server.worked_on, server.direct) == (7, [])


class Service:
    """A provider that keeps what it gets."""

    def __init__(self) -> None:
        self.sent: list[int] = []

    async def send(self, _batch: str, lines: Sequence[Line]) -> str:
        self.sent.append(len(lines))
        return "batch_0"

    async def find(self, _batch: str, _sent_at: float) -> tuple[str, bool]:
        return "", True

    async def look(self, _provider_id: str) -> BatchState:
        return BatchState("completed", True, sum(self.sent))

    async def results(self, _state: BatchState, _batch: str) -> dict[str, Answer]:
        return {name: Answer(200, {}, b"") for name in ("first", "second")}

    async def reply(self, line: Line, _answer: Answer) -> Reply:
        return Reply(line.call_id, "stop", 1, 1, "m", "")


def test_a_batch_waits_for_a_place_that_was_given(tmp_path: Path) -> None:
    service, model = Service(), ModelRef("openai/m")

    async def work() -> list[str]:
        async def services(_model: ModelRef) -> Service:
            return service

        ledger = await AsyncLedger.open(str(tmp_path))
        batches = Batches(ledger, services, wait=True, poll_s=1.0, stopped=None)
        lines = [Line(name, [{"role": "user", "content": "?"}], {}) for name in ("first", "second")]
        with batches.place(model) as first:
            first.take(lines[0])
        with batches.place(model) as second:
            # The budget is asked meanwhile.
            await asyncio.sleep(60.0)
            second.take(lines[1])
        replies = [await batches.reply(place, line) for place, line in zip((first, second), lines, strict=True)]
        await batches.close()
        await ledger.close()
        return [reply.text for reply in replies]

    assert virtual_time.run(work()) == ["first", "second"]
    assert service.sent == [2]


# What goes wrong at the provider.


@pytest.mark.parametrize("model", [OPENAI, ANTHROPIC])
def test_lines_that_fail_are_asked_alone_and_those_that_expire_can_be_asked_later(model: str, tmp_path: Path) -> None:
    faults = {1: "error_500", 4: "expired"}
    with BatchServer(every_third_match, line_fault=lambda number, _body: faults.get(number)) as server:
        found = ask(samples(6), judge(server, tmp_path, model))
        assert statuses(found) == ["scored"] * 4 + ["skipped"] + ["scored"]
        assert "did not work on it" in why_skipped(found[4])
        assert (server.worked_on, len(server.direct)) == (4, 1)
        faults.clear()
        assert statuses(ask(samples(6), judge(server, tmp_path, model))) == ["scored"] * 6
    assert (server.worked_on, len(server.direct)) == (5, 1)
    costs = {code: cost for code, cost in rows(tmp_path, "code, cost_usd") if code}
    assert costs["unsent"] == 0.0
    assert not costs["http_500"]


GARBAGE: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a list": lambda row: [row],
    "a word": lambda _row: "done",
    "another name": lambda row: {**row, "custom_id": "1"},
    "no name": lambda row: {**row, "custom_id": None},
}


@pytest.mark.parametrize("model", [OPENAI, ANTHROPIC])
@pytest.mark.parametrize("garbage", GARBAGE)
def test_results_that_belong_to_no_line_are_failures_that_count_as_paid(
    garbage: str, model: str, tmp_path: Path
) -> None:
    with BatchServer(every_third_match, show_row=lambda n, row: GARBAGE[garbage](row) if n == 1 else row) as server:
        found = ask(samples(3), judge(server, tmp_path, model))
        assert (server.worked_on, server.direct) == (3, [])
    assert statuses(found) == ["scored", "failed", "scored"]
    assert failure(found[1]).message == "the results of its batch cannot be read; it counts as paid"
    [cost] = [cost for code, cost in rows(tmp_path, "code, cost_usd") if code == "garbled"]
    assert cost > 0.0


@pytest.mark.parametrize("model", [OPENAI, ANTHROPIC])
@pytest.mark.parametrize("result", [[], "done", {"status_code": "ok", "type": 7}, {"status_code": 10**9, "type": []}])
def test_a_line_with_a_garbled_result_is_asked_alone(result: Any, model: str, tmp_path: Path) -> None:
    name = "response" if model == OPENAI else "result"
    with BatchServer(every_third_match, show_row=lambda n, row: {**row, name: result} if n == 1 else row) as server:
        assert statuses(ask(samples(3), judge(server, tmp_path, model))) == ["scored"] * 3
        assert (server.worked_on, len(server.direct)) == (3, 1)


@pytest.mark.parametrize("model", [OPENAI, ANTHROPIC])
def test_a_state_of_a_batch_that_is_garbled_stops_nothing(model: str, tmp_path: Path) -> None:
    changes = {"request_counts": ["many"], "errors": "none", "metadata": ["a"], "created_at": "0001-01-01"}
    with BatchServer(every_third_match, show_state=lambda shown: {**shown, **changes}) as server:
        assert statuses(ask(samples(2), judge(server, tmp_path, model))) == ["scored"] * 2
    assert (server.worked_on, server.direct) == (2, [])


def test_an_unreadable_line_is_sent_back_for_repair_alone(tmp_path: Path) -> None:
    with BatchServer(lambda body: "I cannot say" if len(body["messages"]) < 3 else every_third_match(body)) as server:
        assert statuses(ask(samples(2), judge(server, tmp_path))) == ["scored"] * 2
    assert (server.worked_on, len(server.direct)) == (2, 2)
    assert sorted(rows(tmp_path)) == sorted([("ask", "unreadable", "not_json", 1), ("repair", "usable", None, 2)] * 2)


def test_a_batch_that_is_refused_costs_nothing(tmp_path: Path) -> None:
    with BatchServer(every_third_match, finishes=False) as server:
        server.fails["look"] = 1
        done = in_background(lambda: ask(samples(2), judge(server, tmp_path)))
        server.wait_for("look asked", 2)
        for batch in server.batches.values():
            batch.status = "failed"
        [first, _] = done()
    assert "refused the batch batch_0: Line 1 is too long." in why_skipped(first)
    assert rows(tmp_path, "code, cost_usd") == [("unsent", 0.0)] * 2


def test_a_server_without_batches_is_asked_nothing(tmp_path: Path) -> None:
    with BatchServer(every_third_match, without=True) as server:
        [found] = ask(samples(1), judge(server, tmp_path))
    assert "the batch could not be sent" in why_skipped(found)
    assert (server.direct, rows(tmp_path, "cost_usd")) == ([], [(0.0,)])


@pytest.mark.parametrize(("model", "kind"), [
    (OPENAI, "upload"), (OPENAI, "create"), (OPENAI, "created"), (ANTHROPIC, "created"), (OPENAI, "look"),
    (OPENAI, "results"),
])  # fmt: skip
def test_a_provider_in_trouble_is_asked_again_and_makes_one_batch(model: str, kind: str, tmp_path: Path) -> None:
    with BatchServer(every_third_match, fails={kind: 1}) as server:
        if model == ANTHROPIC:
            # Which batch it is, only its results say.
            in_background(lambda: (server.wait_for("find"), server.finish()))
        assert statuses(ask(samples(3), judge(server, tmp_path, model))) == ["scored"] * 3
    assert (len(server.batches), server.worked_on, server.direct) == (1, 3, [])


# A run that ends before its batch.

KILLED = """
import os, sys
from answerkey.metrics_core.llm.litellm import abilities
from tests.metrics_core.judges.asking import ask, samples, setup

abilities("openai/gpt-4o-mini")
print(flush=True)
for line in sys.stdin:
    if not (process := os.fork()):
        url, ledger, model, count, passwords = line.rstrip("\\n").split("\\t")
        os.environ["PGPASSFILE"] = passwords
        judge = setup(f"{model}@{url}", ledger=ledger, run="killed", batch=True, batch_poll_s=0.02)
        ask(samples(int(count)), judge)
        os._exit(0)
    print(process, flush=True)
    print(os.waitpid(process, 0)[1], flush=True)
"""


@pytest.fixture(scope="module")
def nursery() -> Iterator[subprocess.Popen[str]]:
    """A process that starts others which ask a judge: what takes long is imported once."""
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert process.stdout
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def kill_one(nursery: subprocess.Popen[str], server: BatchServer, ledger: str, model: str, moment: str) -> None:
    """Have a process ask about five samples, and kill it once the server has seen that moment."""
    assert nursery.stdin
    assert nursery.stdout
    url = server.url.removesuffix("/v1") if model == ANTHROPIC else server.url
    nursery.stdin.write(f"{url}\t{ledger}\t{model}\t5\t{os.environ.get('PGPASSFILE', '')}\n")
    child = int(nursery.stdout.readline())
    server.wait_for(moment)
    os.kill(child, signal.SIGKILL)
    assert int(nursery.stdout.readline()) == signal.SIGKILL


@pytest.mark.parametrize(("model", "moment", "known"), [
    (OPENAI, "upload reached", False), (OPENAI, "create reached", False), (OPENAI, "created reached", False),
    (OPENAI, "look", True), (ANTHROPIC, "created reached", False),
])  # fmt: skip
def test_what_a_killed_run_sent_is_found_and_nothing_is_paid_twice(
    model: str, moment: str, known: bool, place: str, nursery: subprocess.Popen[str]
) -> None:
    hold: Any = frozenset([moment.removesuffix(" reached")] if not known else [])
    with BatchServer(every_third_match, finishes=False, hold=hold) as server:
        kill_one(nursery, server, place, model, moment)
        # A batch that was asked for is made, also if who asked is gone by then.
        server.release()
        if moment.startswith("create"):
            server.wait_for("create")
        if model == ANTHROPIC:
            server.finish()
        server.finishes = True
        found = ask(samples(7), judge(server, place, model))
        assert statuses(found) == ["scored"] * 7
        assert (server.worked_on, server.direct) == (7, [])
        # What was never sent goes with the rest, unless it is free only after that has gone: in PostgreSQL, seconds.
        assert len(server.batches) in ((1, 2) if moment == "upload reached" else (2,))
    ledger = open_ledger(place)
    spent = {run: (one.calls, one.cost_usd) for run, one in ledger.budgets() if one.calls and not run.startswith("m")}
    assert list(spent) == ["run"]
    assert spent["run"][1] == pytest.approx(sum(one.usage.cost_usd or 0.0 for one in found))
    assert ledger.in_batches() == 0
    ledger.close()


def test_a_cancelled_run_says_what_goes_on_and_the_next_one_fetches_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with BatchServer(every_third_match, finishes=False) as server:
        found = left(server, tmp_path)
        assert "the batch batch_0 goes on at openai/gpt-4o-mini" in why_skipped(found[0])
        assert "run the same again with --batch" in caplog.text
        assert [row[0] for row in rows(tmp_path, "status")] == ["sent"] * 3

        # Without the option it is looked at, and not waited for; and a ledger that lacks the replies is not copied.
        caplog.set_level(logging.INFO, logger="answerkey")
        found = ask(samples(3), judge(server, tmp_path, batch=False))
        assert "the batch batch_0 goes on" in why_skipped(found[0])
        with pytest.raises(LedgerError, match="3 calls in the ledger wait in batches"):
            copy_ledger(str(tmp_path), str(tmp_path / "other"))
        server.finish()
        assert statuses(ask(samples(3), judge(server, tmp_path, batch=False))) == ["scored"] * 3
    assert (len(server.batches), server.worked_on, server.direct) == (1, 3, [])


def test_lines_that_were_left_and_not_worked_on_count_as_no_calls(place: str) -> None:
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


def test_what_was_left_and_not_worked_on_makes_room_for_new_questions(place: str) -> None:
    with BatchServer(every_third_match, finishes=False, line_fault=lambda *_: "expired") as server:
        left(server, place)
        server.finish("expired")
        found = ask(samples(6), judge(server, place, batch=False, run="next", max_calls=3))
        assert (statuses(found).count("scored"), len(server.direct), server.worked_on) == (3, 3, 0)
    with closing(open_ledger(place)) as ledger:
        assert ledger.spent("next").calls == 3


def test_a_batch_that_the_provider_has_no_more_counts_as_paid(tmp_path: Path) -> None:
    with BatchServer(every_third_match, finishes=False) as server:
        done = in_background(lambda: ask(samples(1), judge(server, tmp_path)))
        server.wait_for("look")
        server.batches.clear()
        [found] = done()
    assert "has no batch batch_0 any more; it counts as paid" in failure(found).message
    [(code, cost)] = rows(tmp_path, "code, cost_usd")
    assert (code, cost > 0.0) == ("timeout", True)


def left(server: BatchServer, place: Path | str) -> list[Measurement]:
    """What a run says of three questions that is stopped as soon as it has looked at their batch."""
    stop: list[bool] = []
    asked = judge(server, place)
    stopping = asked._replace(access=replace(asked.access, stopped=lambda: bool(stop)))
    done = in_background(lambda: ask(samples(3), stopping))
    server.wait_for("look")
    stop.append(True)
    found: list[Measurement] = done()
    return found


def in_background(work: Callable[[], Any]) -> Callable[[], Any]:
    """Start work in a thread; the result waits for it."""
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(1)
    future = pool.submit(work)
    pool.shutdown(wait=False)
    return lambda: future.result(timeout=200)
