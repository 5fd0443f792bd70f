"""What calls are counted at, over HTTP: whatever a server says of them, a cap holds and can be used."""

from __future__ import annotations

import itertools
import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from answerkey.metrics_core.llm.ledger import Budget, Spent, open_ledger
from answerkey.metrics_core.llm.provider import abilities, litellm
from answerkey.metrics_core.sample import Sample
from tests.judge_server import JudgeServer, Reply
from tests.metrics_core.judges.asking import Setup, always, ask, count, match, options, rows, samples, setup

Serve = Callable[..., JudgeServer]

pytestmark = pytest.mark.usefixtures("first_call_made")

PRICED = "openai/gpt-4o-mini"


def price_of(tokens_in: int, tokens_out: int) -> float:
    price = abilities(PRICED).price
    assert price is not None
    return tokens_in * price[0] + tokens_out * price[2]


def spent(folder: Path, run: str = "run") -> Spent:
    ledger = open_ledger(str(folder))
    try:
        return ledger.spent(run)
    finally:
        ledger.close()


def costs(folder: Path) -> list[float]:
    return [cost for (cost,) in rows(folder, "cost_usd")]


def test_the_price_is_that_of_the_model_that_was_asked(judge_server: Serve, tmp_path: Path) -> None:
    for number, named in enumerate(("gpt-4.1-nano", "gpt-5-pro", "nobody-sells-this")):
        server = judge_server(lambda body, named=named: Reply(match(body), "stop", 1_000, 100, named))
        folder = tmp_path / str(number)
        [found] = ask(samples(1), options(server, PRICED, ledger=str(folder), run="run"))
        assert found.usage.cost_usd == pytest.approx(price_of(1_000, 100))
        assert (spent(folder).calls, spent(folder).unpriced) == (1, 0)
        assert spent(folder).cost_usd == pytest.approx(price_of(1_000, 100))
        assert rows(folder, "model") == [(named,)]


IMPOSSIBLE: dict[str, dict[str, Any] | None] = {
    "none": None,
    "empty": {},
    "zeros": {"prompt_tokens": 0, "completion_tokens": 0},
    "negative": {"prompt_tokens": -1_000_000, "completion_tokens": -1_000},
    "half": {"prompt_tokens": 1_000},
    "huge": {"prompt_tokens": 1e30, "completion_tokens": 10},
    "more than was sent": {"prompt_tokens": 400_000, "completion_tokens": 10},
    "words": {"prompt_tokens": "many", "completion_tokens": [3]},
    "no reply": {"prompt_tokens": 1_000, "completion_tokens": 0},
    "too small": {"prompt_tokens": 1, "completion_tokens": 1},
}


@pytest.mark.parametrize("kind", IMPOSSIBLE)
def test_a_call_of_unknown_length_is_counted_at_the_most_that_it_may_cost(
    kind: str, judge_server: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = judge_server(lambda body: Reply(match(body), usage=IMPOSSIBLE[kind]))
    most = price_of(0, 1_024)
    with caplog.at_level(logging.WARNING, "answerkey"):
        judge = options(server, PRICED, ledger=str(tmp_path), run="run", max_cost_usd=5 * most, concurrency=1)
        found = ask(samples(40), judge)
    # At least its 1,024 tokens out, and what was sent, at two bytes a token.
    assert all(most < cost < 2 * most for cost in costs(tmp_path))
    assert spent(tmp_path).cost_usd == pytest.approx(sum(costs(tmp_path)))
    assert 2 <= server.n_requests == count(tmp_path) <= 4
    assert Counter(one.status for one in found) == {"scored": server.n_requests, "skipped": 40 - server.n_requests}
    said = [record.message for record in caplog.records if "does not say how many tokens" in record.message]
    assert len(said) == 1
    assert said[0].endswith("it is counted at the most that it may cost")


def test_a_time_out_is_counted_at_the_most_that_it_may_cost(judge_server: Serve, tmp_path: Path) -> None:
    server = judge_server(match, faults=always("hang"))
    most = price_of(0, 1_024)
    judge = options(
        server, PRICED, ledger=str(tmp_path), run="run", max_cost_usd=5 * most, concurrency=2, timeout_s=0.2
    )
    found = ask(samples(40), judge)
    assert {one.status for one in found} == {"skipped"}
    assert {one.reason for one in found} == {f"budget used up: ${5 * most:g} (max_cost)"}
    assert all(most < cost < 2 * most for cost in costs(tmp_path))
    assert server.n_requests <= count(tmp_path, "code = 'timeout'") == count(tmp_path) <= 4
    assert 3 * most <= spent(tmp_path).cost_usd <= 5 * most


@pytest.mark.parametrize(("kind", "code"), [("drop", "disconnected"), ("too long", "too_large")])
def test_a_call_that_may_have_been_answered_is_counted_at_the_most_that_it_may_cost(
    kind: str, code: str, judge_server: Serve, tmp_path: Path
) -> None:
    faults = always("drop") if kind == "drop" else None
    server = judge_server(lambda body: match(body) if faults else "x" * (5 * 2**20), faults=faults)
    most = price_of(0, 1_024)
    judge = options(server, PRICED, ledger=str(tmp_path), run="run", max_cost_usd=5 * most, concurrency=1)
    ask(samples(10), judge)
    assert rows(tmp_path, "DISTINCT code") == [(code,)]
    assert all(most < cost < 2 * most for cost in costs(tmp_path))
    assert server.n_requests == count(tmp_path) <= 4
    assert spent(tmp_path).cost_usd == pytest.approx(sum(costs(tmp_path)))


def test_a_call_that_never_left_costs_nothing(tmp_path: Path) -> None:
    judge = setup(f"{PRICED}@http://127.0.0.1:9/v1", ledger=str(tmp_path), run="run", max_cost_usd=1.0, deadline_s=0.5)
    [found] = ask(samples(1), judge)
    assert (found.status, (found.reason or "").partition(":")[0]) == ("failed", "connection")
    assert set(rows(tmp_path, "status, code, cost_usd")) == {("error", "unsent", 0.0)}
    [said] = set(rows(tmp_path, "message"))
    assert said[0].startswith("no connection: ")
    assert spent(tmp_path) == Spent()


def test_a_server_that_ignores_max_tokens_spends_what_is_in_flight_and_no_more(
    judge_server: Serve, tmp_path: Path
) -> None:
    server = judge_server(lambda body: Reply(match(body), "stop", 1_000, 60_000))
    found = ask(samples(300), options(server, PRICED, ledger=str(tmp_path), run="run", max_cost_usd=0.01))
    # Two calls are the first to a server that nobody knows; each costs $0.036.
    assert 1 <= server.n_requests <= 2
    assert Counter(one.status for one in found) == {"scored": server.n_requests, "skipped": 300 - server.n_requests}
    assert spent(tmp_path).cost_usd == pytest.approx(server.n_requests * price_of(1_000, 60_000))


@pytest.mark.parametrize("calls", [12, 200])
def test_a_cap_can_be_used_with_many_calls_at_once(calls: int, judge_server: Serve, tmp_path: Path) -> None:
    draws = random.Random(7)
    server = judge_server(
        lambda body: Reply(match(body), "stop", draws.randint(900, 1_100), draws.randint(40, 120)), latency=0.02
    )
    # Replies are about a tenth as long as they may be.
    most = calls * price_of(1_000, 80)
    found = ask(samples(2 * calls), options(server, PRICED, ledger=str(tmp_path), run="run", max_cost_usd=most))
    # The last call that does not fit is a large part of a cap for a dozen.
    assert (0.9 if calls > 100 else 0.6) * most <= spent(tmp_path).cost_usd <= most
    scored = server.n_requests
    assert Counter(one.status for one in found) == {"scored": scored, "skipped": 2 * calls - scored}


@pytest.mark.parametrize("text", [
    "1 2 3 5 8 7 ", "9f27c04be1d8", "Sk9tZQ8wVx3z", '{"x": 0.73, "y": [1, 2]} ', "\u7530\u4e2d\u3055\u3093\u306f",
    "\u12f5\u120d\u12f5\u12ed ", "\U00013000\U00013051",
])  # fmt: skip
def test_a_cap_holds_where_texts_of_another_kind_follow_prose(text: str, judge_server: Serve, tmp_path: Path) -> None:
    count_tokens = litellm().token_counter
    server = judge_server(
        lambda body: Reply(match(body), "stop", count_tokens(model=PRICED, messages=body["messages"]), 40), latency=0.02
    )
    prose = [
        replace(one, answer=f"{one.answer} The river is long, and it was there before. " * 40) for one in samples(30)
    ]
    others = [replace(one, answer=f"{one.sample_id} {text * (3_000 // len(text))}") for one in samples(300, "another")]

    def spend(some: list[Sample], run: str, most: float) -> float:
        ask(some, options(server, PRICED, ledger=str(tmp_path), run=run, max_cost_usd=most))
        return spent(tmp_path, run).cost_usd

    a_row = spend(prose, "prose", 1.0) / 30
    # The ledger, and this process, know calls with prose alone.
    most = 40 * a_row
    assert 0.75 * most <= spend(others, "run", most) <= most


def test_tokens_from_a_cache_have_their_own_price(judge_server: Serve, tmp_path: Path) -> None:
    price = abilities(PRICED).price
    assert price is not None
    assert price[1] < price[0]
    # No more of it can come from a cache than there is.
    for cached, expected in ((0, 0), (600, 600), (5_000, 1_000)):
        usage = {"prompt_tokens": 1_000, "completion_tokens": 60, "prompt_tokens_details": {"cached_tokens": cached}}
        server = judge_server(lambda body, usage=usage: Reply(match(body), usage=usage))
        [found] = ask(samples(1), options(server, PRICED, ledger=str(tmp_path / str(cached)), run="run"))
        assert found.usage.cost_usd == pytest.approx(price_of(1_000 - expected, 60) + expected * price[1])


def test_a_limit_for_the_month_stops_the_third_run(judge_server: Serve, tmp_path: Path) -> None:
    server = judge_server(lambda body: Reply(match(body), "stop", 1_000, 80))
    each = price_of(1_000, 80)

    def run(name: str) -> list[str]:
        # With little room for a reply, what is reserved for a call is about twice what it costs.
        limits: dict[str, Any] = {"max_cost_total_usd": 25.5 * each, "max_tokens": 100, "concurrency": 1}
        judge = options(server, PRICED, ledger=str(tmp_path), run=name, **limits)
        found = ask(samples(10, name), judge)
        assert {one.reason for one in found if one.status == "skipped"} <= {
            f"budget used up: ${25.5 * each:g} a month for all runs together (max_cost_total)"
        }
        return [one.status for one in found]

    assert run("one") == run("two") == ["scored"] * 10
    last = run("three")
    # What is reserved has a margin.
    assert 3 <= last.count("scored") <= 5
    assert run("four") == ["skipped"] * 10


@contextmanager
def in_flight(folder: Path, dollars: float) -> Iterator[None]:
    """Another run has a call in flight that may cost as much."""
    ledger = open_ledger(str(folder))
    call = {"request_key": "k", "judge": "j", "prompt": "p", "kind": "ask", "attempt": 1, "format": "text"}
    try:
        assert ledger.claim("k")
        assert ledger.start(Budget("other", max_cost_total_usd=dollars), call, dollars)[0] == "go"
        yield
    finally:
        ledger.close()


def test_who_waits_in_vain_for_the_month_is_told_so(judge_server: Serve, tmp_path: Path) -> None:
    server = judge_server(match)
    judge = options(server, PRICED, ledger=str(tmp_path), run="run", max_cost_total_usd=1.0, deadline_s=0.3)
    with in_flight(tmp_path, 1.0):
        [found] = ask(samples(1), judge)
        both = Setup(judge.judge.model_copy(update={"max_cost_usd": 5.0}), judge.access)
        [other] = ask(samples(1), both)
    month = "$1 a month for all runs together (max_cost_total)"
    assert (found.status, found.reason) == ("skipped", f"budget used up: {month}")
    assert other.reason == f"budget used up: $5 (max_cost) or {month}"
    assert server.n_requests == 0


def test_who_waits_for_the_budget_sees_that_the_run_was_stopped(judge_server: Serve, tmp_path: Path) -> None:
    server = judge_server(match)
    judge = options(server, PRICED, ledger=str(tmp_path), run="run", max_cost_total_usd=1.0, deadline_s=10_000.0)
    looks = itertools.count()
    access = replace(judge.access, stopped=lambda: next(looks) > 10)
    with in_flight(tmp_path, 1.0):
        [found] = ask(samples(1), Setup(judge.judge, access))
    assert (found.status, found.reason) == ("skipped", "not asked, since the run was cancelled")
    assert server.n_requests == 0
