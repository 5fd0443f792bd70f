"""What calls are counted at, and what they leave behind when something goes wrong around them, over HTTP."""

import asyncio
import itertools
import random
import threading
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest

from answerkey import Sample
from answerkey.metrics_core.llm import loop as runtime
from answerkey.metrics_core.llm.access import CallLimits
from answerkey.metrics_core.llm.cost import Bill, most_tokens
from answerkey.metrics_core.llm.ledger import Spent, open_ledger
from answerkey.metrics_core.llm.provider import abilities, litellm
from answerkey.metrics_core.llm.request import CallFailed, Request
from answerkey.metrics_core.llm.response import every
from tests.judge_server import JudgeServer, Reply
from tests.kit.ports import free_port
from tests.kit.waiting import FAULT_S, wait_until
from tests.metrics_core.judges.asking import (
    Setup,
    always,
    ask,
    call,
    count,
    every_third_match,
    match,
    options,
    rows,
    samples,
    setup,
    spent,
)

pytestmark = pytest.mark.usefixtures("first_call_made")

PRICED = "openai/gpt-4o-mini"


def price_of(tokens_in, tokens_out):
    price = abilities(PRICED).price
    return tokens_in * price[0] + tokens_out * price[2]


MOST_USD = 1_024 * 0.6e-6
"""Of a reply: with what was sent, at two bytes a token, a call of unknown length counts more, but not twice as much."""


# What a call is counted at.


def test_the_price_is_that_of_the_model_that_was_asked(judge_server, tmp_path):
    for named in ("gpt-4.1-nano", "gpt-5-pro", "nobody-sells-this"):
        server = judge_server(lambda body, named=named: Reply(match(body), "stop", 1_000, 100, named))
        [found] = ask(samples(1), options(server, PRICED, ledger=str(tmp_path / named), run="run"))
        assert found.usage.cost_usd == pytest.approx(price_of(1_000, 100))
        assert spent(tmp_path / named) == Spent(1, pytest.approx(price_of(1_000, 100)))
        assert rows(tmp_path / named, "model") == [(named,)]


def test_tokens_from_a_cache_have_their_own_price(judge_server, tmp_path):
    price = abilities(PRICED).price
    assert price[1] < price[0]
    # No more of it can come from a cache than there is.
    for cached, expected in ((0, 0), (600, 600), (5_000, 1_000)):
        usage = {"prompt_tokens": 1_000, "completion_tokens": 60, "prompt_tokens_details": {"cached_tokens": cached}}
        server = judge_server(lambda body, usage=usage: Reply(match(body), usage=usage))
        [found] = ask(samples(1), options(server, PRICED, ledger=str(tmp_path / str(cached)), run="run"))
        assert found.usage.cost_usd == pytest.approx(price_of(1_000 - expected, 60) + expected * price[1])


def test_a_time_out_is_counted_at_the_most_that_it_may_cost(judge_server, tmp_path):
    server = judge_server(match, faults=always("hang"))
    cap = 5 * MOST_USD
    judge = options(server, PRICED, ledger=str(tmp_path), run="run", max_cost_usd=cap, concurrency=2, timeout_s=0.2)
    found = ask(samples(40), judge)
    assert {(one.status, one.reason) for one in found} == {("skipped", f"budget used up: ${cap:g} (max_cost)")}
    assert all(MOST_USD < cost < 2 * MOST_USD for (cost,) in rows(tmp_path, "cost_usd"))
    assert server.n_requests <= count(tmp_path, "code = 'timeout'") == count(tmp_path) <= 4
    assert 3 * MOST_USD <= spent(tmp_path).cost_usd <= cap


def test_a_call_that_never_left_costs_nothing(tmp_path, monkeypatch):
    # All attempts are made before the deadline, which could cut one short that nobody would know to be unsent.
    monkeypatch.setattr("answerkey.metrics_core.llm.client._FIRST_WAIT_S", 0.001)
    asked = {"ledger": str(tmp_path), "run": "run", "max_cost_usd": 1.0, "deadline_s": FAULT_S}
    judge = setup(f"{PRICED}@http://127.0.0.1:9/v1", **asked)
    [found] = ask(samples(1), judge)
    assert (found.status, (found.reason or "").partition(":")[0]) == ("failed", "connection")
    assert set(rows(tmp_path, "status, code, cost_usd")) == {("error", "unsent", 0.0)}
    [(message,)] = set(rows(tmp_path, "message"))
    assert message.startswith("no connection: ")
    assert spent(tmp_path) == Spent()


def test_connections_that_are_refused_use_up_no_calls(tmp_path):
    down = JudgeServer(match, port=free_port())
    open_ledger(str(tmp_path)).close()
    judge = options(down, ledger=str(tmp_path), run="run", max_calls=3, concurrency=4)
    found = []
    thread = threading.Thread(target=lambda: found.extend(ask(samples(6), judge)), daemon=True)
    thread.start()
    wait_until(lambda: count(tmp_path, "code = 'unsent' AND status = 'error'") > 6, "calls that were never sent")
    with down as server:
        thread.join(FAULT_S)
        assert (server.n_requests, count(tmp_path, "status = 'usable'")) == (3, 3)
    assert sorted((one.status, one.reason) for one in found) == (
        [("scored", "the same")] * 3 + [("skipped", "budget used up: 3 calls (max_calls)")] * 3
    )
    assert spent(tmp_path).calls == 3


# Caps.


def test_max_calls_is_kept_to_the_call_and_the_next_run_asks_the_rest(judge_server, tmp_path):
    server = judge_server(every_third_match, latency=0.01)
    judge = options(server, "openai/limited", ledger=str(tmp_path), max_calls=37)
    found = ask(samples(60), judge)
    assert Counter(one.status for one in found) == {"scored": 37, "skipped": 23}
    assert {one.reason for one in found if one.status == "skipped"} == {"budget used up: 37 calls (max_calls)"}
    assert server.n_requests == count(tmp_path) == 37
    # No server was asked about the rest, so no ledger knew it either.
    assert (any(one.from_ledger for one in found), count(tmp_path, table="claims")) == (False, 0)
    found = ask(samples(60), options(server, "openai/limited", ledger=str(tmp_path), max_calls=1_000))
    assert [(one.sample_id, one.reason) for one in found] == [(f"s{n}", f"this is {n}") for n in range(60)]
    assert [one.from_ledger for one in found].count(True) == 37
    assert set(server.count_by_user_message().values()) == {1}


def test_a_server_that_ignores_max_tokens_spends_what_is_in_flight_and_no_more(judge_server, tmp_path):
    server = judge_server(lambda body: Reply(match(body), "stop", 1_000, 60_000))
    found = ask(samples(300), options(server, PRICED, ledger=str(tmp_path), run="run", max_cost_usd=0.01))
    # Two calls are the first to a server that nobody knows; each costs $0.036.
    assert 1 <= server.n_requests <= 2
    assert Counter(one.status for one in found) == {"scored": server.n_requests, "skipped": 300 - server.n_requests}
    assert spent(tmp_path).cost_usd == pytest.approx(server.n_requests * price_of(1_000, 60_000))


@pytest.mark.parametrize("calls", [12, 60])
def test_a_cap_can_be_used_with_many_calls_at_once_and_holds(calls, judge_server, tmp_path):
    draws = random.Random(7)
    server = judge_server(
        lambda body: Reply(match(body), "stop", draws.randint(900, 1_100), draws.randint(40, 120)), latency=0.02
    )
    # Replies are about a tenth as long as they may be.
    most = calls * price_of(1_000, 80)
    found = ask(samples(2 * calls), options(server, PRICED, ledger=str(tmp_path), run="run", max_cost_usd=most))
    # A call waits for those in flight, so that what is left at the end is less than one is counted at.
    assert most - 2 * MOST_USD < spent(tmp_path).cost_usd <= most
    scored = server.n_requests
    assert Counter(one.status for one in found) == {"scored": scored, "skipped": 2 * calls - scored}
    assert {one.reason for one in found if one.status == "skipped"} == {f"budget used up: ${most:g} (max_cost)"}


OTHER_TEXTS = (
    "1 2 3 5 8 7 ", "9f27c04be1d8", "Sk9tZQ8wVx3z", '{"x": 0.73, "y": [1, 2]} ', "\u7530\u4e2d\u3055\u3093\u306f",
    "\u12f5\u120d\u12f5\u12ed ", "\U00013000\U00013051",
)  # fmt: skip


@pytest.mark.parametrize("text", OTHER_TEXTS)
def test_no_text_has_more_tokens_than_are_reserved(text):
    long = text * (3_000 // len(text))
    assert litellm().token_counter(model=PRICED, text=long) <= most_tokens(long)


def test_a_cap_holds_where_texts_of_another_kind_follow_prose(judge_server, tmp_path):
    count_tokens = litellm().token_counter
    server = judge_server(
        lambda body: Reply(match(body), "stop", count_tokens(model=PRICED, messages=body["messages"]), 40), latency=0.02
    )
    prose = [
        replace(one, answer=f"{one.answer} The river is long, and it was there before. " * 40) for one in samples(30)
    ]
    others = [replace(one, answer=f"{one.sample_id} {OTHER_TEXTS[1] * 250}") for one in samples(300, "another")]

    def spend(some, run, most):
        ask(some, options(server, PRICED, ledger=str(tmp_path), run=run, max_cost_usd=most))
        return spent(tmp_path, run).cost_usd

    a_row = spend(prose, "prose", 1.0) / 30
    # The ledger, and this process, know calls with prose alone.
    most = 40 * a_row
    assert 0.75 * most <= spend(others, "run", most) <= most


def test_a_call_that_costs_too_much_does_not_stop_cheaper_ones(judge_server):
    server = judge_server(match)
    huge = samples(1, "word " * 40_000)
    found = ask([*huge, *samples(4)], options(server, PRICED, max_cost_usd=0.01, concurrency=1))
    assert [one.status for one in found] == ["skipped", *["scored"] * 4]
    assert found[0].reason == "budget used up: $0.01 (max_cost)"


@contextmanager
def in_flight(folder, dollars):
    """Another run has a call in flight that may cost as much."""
    with closing(open_ledger(str(folder))) as ledger:
        assert ledger.claim("k")
        assert ledger.start(CallLimits(run="other", max_cost_total_usd=dollars), call(), dollars)[0] == "go"
        yield


def test_who_waits_in_vain_for_the_month_is_told_so(judge_server, tmp_path):
    server = judge_server(match)
    judge = options(server, PRICED, ledger=str(tmp_path), run="run", max_cost_total_usd=1.0, deadline_s=0.3)
    with in_flight(tmp_path, 1.0):
        [found] = ask(samples(1), judge)
        [other] = ask(samples(1), Setup(judge.judge.model_copy(update={"max_cost_usd": 5.0}), judge.access))
    month = "$1 a month for all runs together (max_cost_total)"
    assert (found.status, found.reason) == ("skipped", f"budget used up: {month}")
    assert other.reason == f"budget used up: $5 (max_cost) or {month}"
    assert server.n_requests == 0


def test_who_waits_for_the_budget_sees_that_the_run_was_stopped(judge_server, tmp_path):
    server = judge_server(match)
    judge = options(server, PRICED, ledger=str(tmp_path), run="run", max_cost_total_usd=1.0, deadline_s=10_000.0)
    looks = itertools.count()
    access = replace(judge.access, stopped=lambda: next(looks) > 10)
    with in_flight(tmp_path, 1.0):
        [found] = ask(samples(1), Setup(judge.judge, access))
    assert (found.status, found.reason) == ("skipped", "not asked, since the run was cancelled")
    assert server.n_requests == 0


# Several who ask at once.


def test_equal_samples_are_asked_once(judge_server, tmp_path):
    server = judge_server(match, latency=0.1)
    equal = [Sample(f"id{n}", f"answer {n % 3}", ["reference"], "question?") for n in range(30)]
    found = ask(equal, options(server, ledger=str(tmp_path)))
    assert [(one.sample_id, one.status) for one in found] == [(f"id{n}", "scored") for n in range(30)]
    assert server.n_requests == count(tmp_path) == 3
    assert len({one.requests for one in found}) == 3
    assert sorted(one.from_ledger for one in found) == [False] * 3 + [True] * 27


def test_equal_samples_fail_together(judge_server):
    server = judge_server(match, faults=always("only_prose"), latency=0.05)
    found = ask([Sample(f"id{n}", "answer 0", ["reference"], "question?") for n in range(20)], options(server))
    assert {(one.reason or "").partition(":")[0] for one in found} == {"not_json"}
    assert server.n_requests == 2


def asked(judge, *questions):
    """What becomes of one request for each of some readers, or of something else that is awaited, and what it cost."""
    bill, [who] = Bill(), judge.judge.models(judge.access.api_key)
    request = Request(who.label, "p@1", "Judge this.", "data", '{"type": "object"}')

    async def work(client):
        return await asyncio.gather(
            *(client.ask(who, request, read, bill) for read in questions), return_exceptions=True
        )

    return connected(judge, work), bill


def connected(judge, work):
    """The result of some work with a client."""
    progress = runtime.Progress("", "", 1)
    return runtime.ask(work, judge.access, judge.judge.limits, "judge", lambda: None, progress)


def raising(error):
    def read(_reply):
        raise error

    return read


def test_a_reply_that_breaks_its_reader_is_paid_and_kept(judge_server, tmp_path):
    server = judge_server(lambda _body: Reply("a reply", prompt_tokens=100, completion_tokens=10))
    judge = options(server, PRICED, ledger=str(tmp_path), run="run")
    [found], bill = asked(judge, raising(RecursionError("cannot bear it")))
    assert isinstance(found, RecursionError)
    [row] = rows(tmp_path, "status, code, message, reply, tokens_in, cost_usd")
    cost = pytest.approx(price_of(100, 10))
    assert row == ("error", "defect", "RecursionError: cannot bear it", "a reply", 100, cost)
    assert (bill.calls, bill.tokens_in, bill.cost_usd, count(tmp_path, table="claims")) == (1, 100, cost, 0)
    # It was no reply that could be served.
    [found], _ = asked(judge, str.upper)
    assert (found, server.n_requests) == ("A REPLY", 2)


def test_a_caller_that_waited_for_a_broken_reader_asks_itself(judge_server):
    server = judge_server(lambda _body: "a reply", latency=0.1)
    found, _ = asked(options(server), raising(KeyError("broken")), str.upper, str.lower)
    assert isinstance(found[0], KeyError)
    assert (found[1:], server.n_requests) == (["A REPLY", "a reply"], 2)


def test_a_question_beside_one_that_fails_at_once_is_waited_for_and_kept(judge_server, tmp_path):
    server = judge_server(lambda _body: "a reply", latency=0.3)
    judge = options(server, ledger=str(tmp_path))
    [who] = judge.judge.models(judge.access.api_key)

    async def refused():
        raise CallFailed("too_long", "more than the model takes")

    async def ask_both(client):
        request = Request(who.label, "p@1", "Judge this.", "data", '{"type": "object"}')
        await every(client.ask(who, request, str.upper, Bill()), refused())

    with pytest.raises(CallFailed, match="too_long"):
        connected(judge, ask_both)
    assert rows(tmp_path, "status, reply") == [("usable", "a reply")]
    assert (server.n_requests, count(tmp_path, table="claims")) == (1, 0)


def test_no_more_is_claimed_than_is_soon_asked(judge_server, tmp_path):
    """A process that claimed all 60 at once would keep another one from all of them, and make it poll for each."""
    claims = []

    def watching(body):
        claims.append(count(tmp_path, table="claims"))
        return match(body)

    server = judge_server(watching, latency=0.01)
    ask(samples(60), options(server, ledger=str(tmp_path), concurrency=4))
    assert server.n_requests == 60
    assert 4 <= max(claims) <= 16
