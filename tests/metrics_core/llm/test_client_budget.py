"""Money, order and ends: what calls leave behind when something goes wrong around them."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from answerkey.metrics_core.llm import loop as runtime
from answerkey.metrics_core.llm.access import CallLimits
from answerkey.metrics_core.llm.budget import Bill
from answerkey.metrics_core.llm.ledger import FILE, open_ledger
from answerkey.metrics_core.llm.request import CallFailed, CallSkipped, Request
from answerkey.metrics_core.llm.response import every
from answerkey.metrics_core.measurement import Measurement
from tests.flows.conftest import free_port
from tests.judge_server import Body, JudgeServer, Reply
from tests.metrics_core.judges.asking import (
    Setup,
    always,
    ask,
    count,
    failure,
    match,
    number_of,
    options,
    rows,
    samples,
    setup,
)

Serve = Callable[..., JudgeServer]


def claims(folder: Path) -> int:
    database = sqlite3.connect(folder / FILE)
    [(found,)] = database.execute("SELECT count(*) FROM answerkey_claims").fetchall()
    database.close()
    return int(found)


def asked(judge: Setup, *reads: Callable[[str], object], limits: CallLimits | None = None) -> tuple[list[object], Bill]:
    """What becomes of one request for each reader, all at once; and what it cost together."""
    bill, [(who, _)] = Bill(), judge.judge.jurors(judge.access.api_key)

    async def work() -> list[object]:
        request = Request(who.label, "p@1", "Judge this.", "data", '{"type": "object"}')
        async with runtime.connect(judge.access, limits or judge.judge.limits, "judge", lambda: None) as client:
            return await asyncio.gather(
                *(client.ask(who, request, read, bill) for read in reads), return_exceptions=True
            )

    return runtime.run(work(), lambda: None), bill


# What was paid.


def test_a_reply_that_breaks_its_reader_is_paid_and_kept(judge_server: Serve, tmp_path: Path) -> None:
    server = judge_server(lambda _body: Reply("a reply", prompt_tokens=100, completion_tokens=10))
    judge = options(server, "openai/gpt-4o-mini", ledger=str(tmp_path), run="run")

    def broken(reply: str) -> None:
        raise RecursionError(f"cannot bear {reply}")

    [found], bill = asked(judge, broken)
    assert isinstance(found, RecursionError)
    [(status, code, message, reply, tokens, cost)] = rows(tmp_path, "status, code, message, reply, tokens_in, cost_usd")
    assert (status, code, message) == ("error", "defect", "RecursionError: cannot bear a reply")
    assert (reply, tokens, cost) == ("a reply", 100, pytest.approx(100 * 0.15e-6 + 10 * 0.6e-6))
    assert (bill.calls, bill.tokens_in, bill.cost_usd) == (1, 100, cost)
    assert claims(tmp_path) == 0
    # It was no reply that could be served.
    [found], _ = asked(judge, str.upper)
    assert (found, server.n_requests) == ("A REPLY", 2)


def test_a_caller_that_waited_for_a_broken_reader_asks_itself(judge_server: Serve) -> None:
    server = judge_server(lambda _body: "a reply", latency=0.1)

    def broken(_reply: str) -> None:
        raise KeyError("broken")

    found, _ = asked(options(server), broken, str.upper, str.lower)
    assert isinstance(found[0], KeyError)
    assert found[1:] == ["A REPLY", "a reply"]
    assert server.n_requests == 2


def test_two_readers_of_one_request_pay_once(judge_server: Serve) -> None:
    server = judge_server(lambda _body: "a reply", latency=0.1)
    found, bill = asked(options(server), *[str.upper] * 20)
    assert (found, server.n_requests, bill.calls) == (["A REPLY"] * 20, 1, 1)


def test_all_callers_that_waited_fail_with_the_one_that_asked(judge_server: Serve) -> None:
    server = judge_server(lambda _body: "no JSON", latency=0.05, faults=always("context"))
    found, bill = asked(options(server), *[str.upper] * 20)
    assert {type(one) for one in found} == {CallFailed}
    assert {one.code for one in found if isinstance(one, CallFailed)} == {"too_long"}
    assert server.n_requests == bill.calls == 1


@pytest.mark.slow
def test_two_runs_of_one_process_that_want_the_same_get_it_once(judge_server: Serve, tmp_path: Path) -> None:
    """Each has a ledger of its own to the same file, so one waits for the claim of the other."""
    server = judge_server(match, latency=0.3)
    judge = options(server, ledger=str(tmp_path))
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.extend(one.status for one in ask(samples(8), judge))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (Counter(found), server.n_requests, claims(tmp_path)) == ({"scored": 24}, 8, 0)


def test_no_call_at_all_is_a_budget_too(judge_server: Serve) -> None:
    server = judge_server(match)
    found, bill = asked(options(server), *[str.upper] * 5, limits=CallLimits(max_calls=0))
    assert ({type(one) for one in found}, server.n_requests, bill.calls) == ({CallSkipped}, 0, 0)


def test_a_question_beside_one_that_fails_at_once_is_waited_for_and_kept(judge_server: Serve, tmp_path: Path) -> None:
    server = judge_server(lambda _body: "a reply", latency=0.3)
    judge = options(server, ledger=str(tmp_path))
    [(who, _)] = judge.judge.jurors(judge.access.api_key)

    async def refused() -> str:
        raise CallFailed("too_long", "more than the model takes")

    async def ask_both() -> None:
        request = Request(who.label, "p@1", "Judge this.", "data", '{"type": "object"}')
        async with runtime.connect(judge.access, judge.judge.limits, "judge", lambda: None) as client:
            await every(client.ask(who, request, str.upper, Bill()), refused())

    with pytest.raises(CallFailed, match="too_long"):
        runtime.run(ask_both(), lambda: None)
    assert rows(tmp_path, "status, reply") == [("usable", "a reply")]
    assert (server.n_requests, claims(tmp_path)) == (1, 0)


# When to stop asking.


def test_a_filter_that_refuses_one_text_does_not_end_the_run(judge_server: Serve, tmp_path: Path) -> None:
    """A firewall says 403 or 404 to one hostile answer, and the judge is as good as before."""
    server = judge_server(match, faults=lambda _number, body: "not_found" if number_of(body) == 3 else None)
    found = ask(samples(12), options(server, ledger=str(tmp_path), concurrency=1))
    assert [one.status for one in found] == ["scored"] * 3 + ["failed"] + ["scored"] * 8
    assert (failure(found[3]).code, server.n_requests) == ("http_404", 12)


@pytest.mark.slow
def test_a_judge_that_is_not_there_is_given_up(
    judge_server: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("answerkey.metrics_core.llm.client._FIRST_WAIT_S", 0.001)
    server = judge_server(match, faults=always("error_503"))
    found = ask(samples(400), options(server, ledger=str(tmp_path), concurrency=2))
    assert {failure(one).code for one in found} == {"http_503"}
    assert sum(failure(one).attempts for one in found) == server.n_requests < 200
    assert failure(found[-1]).message.startswith("not asked, since the judge never replies: ")
    assert failure(found[-1]).attempts == 0


@pytest.mark.slow
def test_a_judge_that_has_answered_is_not_given_up(judge_server: Serve) -> None:
    server = judge_server(match, faults=lambda _n, body: "error_500" if 0 < number_of(body) < 13 else None)
    found = ask(samples(20), options(server, concurrency=8, deadline_s=5.0))
    assert [one.status for one in found] == ["scored"] + ["failed"] * 12 + ["scored"] * 7
    assert {failure(one).code for one in found[1:13]} == {"http_500"}


def test_many_that_cannot_be_asked_need_no_queue(judge_server: Serve, tmp_path: Path) -> None:
    server = judge_server(match)
    judge = options(server, ledger=str(tmp_path), max_calls=5, concurrency=4)
    found = ask(samples(800), judge)
    assert Counter(one.status for one in found) == {"scored": 5, "skipped": 795}
    assert {one.reason for one in found[20:]} == {"budget used up: 5 calls (max_calls)"}
    # No server was asked, so no ledger knew it either.
    assert not any(one.from_ledger for one in found)
    assert (server.n_requests, claims(tmp_path)) == (5, 0)


@pytest.mark.usefixtures("first_call_made")
def test_connections_that_are_refused_use_up_no_calls(tmp_path: Path) -> None:
    down = JudgeServer(match, port=free_port())
    open_ledger(str(tmp_path)).close()
    judge = options(down, ledger=str(tmp_path), run="run", max_calls=3, concurrency=4)
    found: list[Measurement] = []
    thread = threading.Thread(target=lambda: found.extend(ask(samples(6), judge)), daemon=True)
    thread.start()
    refused = "code = 'unsent' AND status = 'error'"
    deadline = time.monotonic() + 300.0
    while count(tmp_path, refused) <= 6:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with down as server:
        thread.join(300.0)
        assert (server.n_requests, count(tmp_path, "status = 'usable'")) == (3, 3)
    assert sorted((one.status, one.reason) for one in found) == (
        [("scored", "the same")] * 3 + [("skipped", "budget used up: 3 calls (max_calls)")] * 3
    )
    with closing(open_ledger(str(tmp_path))) as ledger:
        assert ledger.spent("run").calls == 3


def test_a_call_that_costs_too_much_does_not_stop_cheaper_ones(judge_server: Serve) -> None:
    server = judge_server(match)
    huge = samples(1, "word " * 40_000)
    found = ask([*huge, *samples(4)], options(server, "openai/gpt-4o-mini", max_cost_usd=0.01, concurrency=1))
    assert [one.status for one in found] == ["skipped", *["scored"] * 4]
    assert found[0].reason == "budget used up: $0.01 (max_cost)"


# How much at once.


def test_no_more_is_claimed_than_is_soon_asked(judge_server: Serve, tmp_path: Path) -> None:
    """A process that claimed all 200 at once would keep another one from all of them, and make it poll for each."""
    seen: list[int] = []

    def watching(body: Body) -> str:
        if (tmp_path / FILE).exists():
            seen.append(claims(tmp_path))
        return match(body)

    server = judge_server(watching, latency=0.01)
    ask(samples(200), options(server, ledger=str(tmp_path), concurrency=4))
    assert server.n_requests == 200
    assert 4 <= max(seen) <= 16


def test_a_jury_of_a_quick_and_a_slow_judge_asks_each_for_everything(judge_server: Serve, tmp_path: Path) -> None:
    quick, slow = judge_server(match), judge_server(match, latency=0.05)
    judges = setup(
        f"openai/quick@{quick.url}", f"openai/slow@{slow.url}", ledger=str(tmp_path), concurrency=4, jury="unanimous"
    )
    found = ask(samples(40), judges)
    assert {json.dumps(one.values) for one in found} == {'{"match": 1.0, "spread": 0.0}'}
    assert (quick.n_requests, slow.n_requests) == (40, 40)
    assert all(len(one.requests) == 2 for one in found)


def test_a_format_is_chosen_when_the_turn_comes(judge_server: Serve) -> None:
    """Callers in the queue profit from what earlier ones learned."""
    server = judge_server(match, refuse_formats={"json_schema", "json_object"})
    found = ask(samples(40), options(server, concurrency=1))
    assert {one.status for one in found} == {"scored"}
    # The caller at the head of the queue is let in between the steps of the first.
    assert 40 + 2 <= server.n_requests <= 40 + 2 * 2
