"""Whole runs of the judges' client: deadlines, budgets, concurrency, threads, interruption. Real HTTP, real litellm."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from answerkey.metrics_core import Measurement, Sample
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.ledger import open_ledger
from answerkey.metrics_core.llm.provider import abilities
from tests.judge_server import Body, JudgeServer, Reply
from tests.metrics_core.judges.asking import (
    always,
    ask,
    at_first,
    count,
    every_third_match,
    failure,
    match,
    number_of,
    options,
    patiently,
    rows,
    samples,
    setup,
)

Serve = Callable[..., JudgeServer]

pytestmark = pytest.mark.usefixtures("first_call_made")

PRICED = "openai/gpt-4o-mini"


def statuses(found: list[Measurement]) -> Counter[str]:
    return Counter(one.status for one in found)


def assert_right(found: list[Measurement]) -> None:
    """Every sample has its own verdict, in its own place."""
    assert [one.sample_id for one in found] == [f"s{n}" for n in range(len(found))]
    assert [one.reason for one in found] == [f"this is {n}" for n in range(len(found))]
    assert [one.values for one in found] == [{"match": float(n % 3 == 0)} for n in range(len(found))]


# The deadline of one question. The clock can stop a call before the server has seen it, so what the server saw is at
# most what the ledger says.


def test_a_judge_that_only_limits_fails_the_row_at_its_deadline(judge_server: Serve, tmp_path: Path) -> None:
    def check(deadline_s: float) -> None:
        server, ledger = (
            judge_server(match, faults=always("rate_limit_after"), retry_after=0.3),
            tmp_path / str(deadline_s),
        )
        [found] = ask(samples(1), options(server, ledger=str(ledger), deadline_s=deadline_s))
        limited, calls = count(ledger, "code = 'http_429'"), count(ledger)
        assert limited >= 2
        assert failure(found).code == "deadline"
        assert failure(found).message == (
            f"the {deadline_s:g} s of one question were over after {calls} calls: the judge limits the rate"
        )
        assert limited <= server.n_requests <= failure(found).attempts == calls <= limited + 1

    patiently(check, 1.5, 15.0, 60.0)


def test_a_judge_that_limits_everything_is_left_at_the_deadline_of_a_row(judge_server: Serve, tmp_path: Path) -> None:
    server = judge_server(match, faults=always("rate_limit_after"), retry_after=0.3)
    found = ask(samples(50), options(server, ledger=str(tmp_path), deadline_s=2.0, concurrency=4))
    assert statuses(found) == {"skipped": 50}
    [reason] = {one.reason for one in found}
    assert (reason or "").startswith("the judge has refused every call for ")
    assert count(tmp_path, "code = 'http_429'") == count(tmp_path) >= server.n_requests >= 2


def test_trouble_is_not_waited_for_beyond_the_deadline(judge_server: Serve, tmp_path: Path) -> None:
    def check(deadline_s: float) -> None:
        server, ledger = judge_server(match, faults=always("error_500")), tmp_path / str(deadline_s)
        [found] = ask(samples(1), options(server, ledger=str(ledger), deadline_s=deadline_s))
        in_trouble, calls = count(ledger, "code = 'http_500'"), count(ledger)
        assert in_trouble >= 1
        # Whether or not the deadline cut one more call short.
        assert failure(found).code == "http_500"
        assert in_trouble <= server.n_requests <= failure(found).attempts == calls <= in_trouble + 1
        # The fifth would come after waits of 3.75 s at least, and the sixth would be the last anyhow.
        assert calls <= (4 if deadline_s <= 3.75 else 5)

    patiently(check, 2.0, 7.5)


def test_a_call_cut_short_by_the_deadline_does_not_hide_what_was_wrong(judge_server: Serve, tmp_path: Path) -> None:
    def check(deadline_s: float) -> None:
        server = judge_server(match, faults=lambda number, _body: "hang" if number else "error_500")
        ledger = tmp_path / str(deadline_s)
        [found] = ask(samples(1), options(server, ledger=str(ledger), timeout_s=600.0, deadline_s=deadline_s))
        assert rows(ledger) == [("ask", "error", "http_500", 1), ("ask", "error", "timeout", 2)]
        assert (failure(found).code, failure(found).attempts) == ("http_500", 2)
        assert "The server had an error." in failure(found).message
        assert failure(found).message.endswith(f" (call 1; the deadline of {deadline_s:g} s cut call 2 short)")

    patiently(check, 1.5, 15.0, 60.0)


def test_the_deadline_cuts_a_call_short(judge_server: Serve, tmp_path: Path) -> None:
    server = judge_server(match, faults=always("hang"))
    began = time.monotonic()
    [found] = ask(samples(1), options(server, ledger=str(tmp_path), timeout_s=250.0, deadline_s=1.0))
    assert time.monotonic() - began < 100.0
    assert (failure(found).code, failure(found).attempts) == ("timeout", 1)
    assert rows(tmp_path) == [("ask", "error", "timeout", 1)]


# Budgets.


def test_max_calls_is_kept_to_the_call_and_the_rest_is_skipped(judge_server: Serve, tmp_path: Path) -> None:
    server = judge_server(every_third_match, latency=0.01)
    judge = options(server, ledger=str(tmp_path), max_calls=37)
    found = ask(samples(120), judge)
    assert statuses(found) == {"scored": 37, "skipped": 83}
    assert {one.reason for one in found if one.status == "skipped"} == {"budget used up: 37 calls (max_calls)"}
    assert server.n_requests == count(tmp_path) == 37
    [name] = judge.judge.judges
    rest = options(server, name.partition("@")[0], ledger=str(tmp_path), max_calls=1_000)
    found = ask(samples(120), rest)
    assert_right(found)
    assert [one.from_ledger for one in found].count(True) == 37
    assert server.n_requests == 120
    assert set(server.count_by_user_message().values()) == {1}


def test_retries_count_as_calls(judge_server: Serve, tmp_path: Path) -> None:
    server = judge_server(match, faults=always("only_prose"))
    found = ask(samples(10), options(server, ledger=str(tmp_path), max_calls=7, concurrency=1))
    assert server.n_requests == count(tmp_path) == 7
    # Three questions had their call and their repair; the fourth lost its repair to the budget.
    assert statuses(found) == {"failed": 3, "skipped": 7}


def dear(body: Body) -> Reply:
    """1,000 tokens in, 100 out: about five times less than the client must expect at most."""
    return Reply(every_third_match(body), prompt_tokens=1_000, completion_tokens=100)


def price_of(tokens_in: int, tokens_out: int) -> float:
    price = abilities(PRICED).price
    assert price is not None
    return tokens_in * price[0] + tokens_out * price[2]


def test_max_cost_is_never_exceeded_and_nearly_used(judge_server: Serve, tmp_path: Path) -> None:
    server = judge_server(dear, latency=0.02)
    most = price_of(1_000, 100) * 40.5
    found = ask(samples(120), options(server, PRICED, ledger=str(tmp_path), max_cost_usd=most))
    spent = sum(one.usage.cost_usd or 0.0 for one in found)
    assert spent == pytest.approx(price_of(1_000, 100) * server.n_requests)
    # The last call that does not fit is one that may cost 4,000 tokens in and all that it may say.
    assert most - price_of(4_000, 1_024) < spent <= most
    assert statuses(found) == {"scored": server.n_requests, "skipped": 120 - server.n_requests}
    assert {one.reason for one in found if one.status == "skipped"} == {f"budget used up: ${most:g} (max_cost)"}
    found = ask(samples(120), options(server, PRICED, ledger=str(tmp_path), max_cost_usd=1.0))
    assert_right(found)
    assert server.n_requests == count(tmp_path) == 120
    assert set(server.count_by_user_message().values()) == {1}


def test_max_cost_holds_for_scripts_with_more_than_one_token_a_character(judge_server: Serve) -> None:
    def counted(body: Body) -> Reply:
        text = "".join(message["content"] for message in body["messages"])
        narrow = len(text.encode("ascii", "ignore"))
        return Reply(match(body), prompt_tokens=round(narrow / 4 + (len(text) - narrow) * 1.3), completion_tokens=20)

    server = judge_server(counted, latency=0.02)
    # By texts in English, six of the long ones would fit.
    ask(samples(200), options(server, PRICED))
    asked = server.n_requests
    long = [Sample(f"s{n}", "渡辺さんは東京に住んでいます。" * 1_500 + str(n), ["r"], "q") for n in range(12)]
    # One fits by its bytes, and two would not.
    most = price_of(120_000, 0)
    found = ask(long, options(server, PRICED, max_cost_usd=most))
    assert sum(one.usage.cost_usd or 0.0 for one in found) <= most
    assert statuses(found)["scored"] == server.n_requests - asked >= 1


def test_replies_that_say_nothing_are_paid_for_too(judge_server: Serve, tmp_path: Path) -> None:
    server = judge_server(dear, faults=at_first("empty", times=2))
    [found] = ask(samples(1), options(server, PRICED, ledger=str(tmp_path), run="one"))
    assert (found.status, server.n_requests) == ("scored", 3)
    assert found.usage.cost_usd == pytest.approx(3 * price_of(1_000, 100))
    ledger = open_ledger(str(tmp_path))
    assert ledger.spent("one").cost_usd == pytest.approx(3 * price_of(1_000, 100))
    ledger.close()


def test_a_cost_cannot_be_limited_where_the_price_is_unknown(judge_server: Serve) -> None:
    server = judge_server(match)
    judge = options(server, "openai/nobody-sells-this", max_cost_usd=1.0)
    with pytest.raises(UserError, match=r"openai/nobody-sells-this@.*: its price is not known, so its cost cannot"):
        ask(samples(1), judge)
    assert server.n_requests == 0


def test_a_missing_key_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_API_BASE", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError, match="judge openai/gpt-4o-mini: no key; set OPENAI_API_KEY or ANSWERKEY_JUDGE_KEY"):
        ask(samples(1), setup("openai/gpt-4o-mini", api_key=None))


def test_a_key_in_the_environment_does_not_go_to_an_address_that_was_named(
    monkeypatch: pytest.MonkeyPatch, judge_server: Serve
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-the-provider-alone-may-see-this")
    server = judge_server(match)
    judge = setup(f"openai/named-address@{server.url}", api_key=None)
    [found] = ask(samples(1), judge)
    assert found.status == "scored"
    assert [request.headers["authorization"] for request in server.requests] == ["Bearer no-key-needed"]


# Concurrency.


@pytest.mark.parametrize(("concurrency", "calls"), [(1, 8), (5, 40), (24, 240)])
def test_concurrency_is_reached_and_not_exceeded(concurrency: int, calls: int, judge_server: Serve) -> None:
    def more_to_come(server: JudgeServer) -> bool:
        # The limit starts at 2, is 16 after the first answer, and grows by one with each other.
        limit = 15 + server.answered if server.answered else 2
        return server.held < min(concurrency, limit, calls - server.answered)

    server = judge_server(every_third_match, holds=more_to_come)
    # So much time that each answer is quick.
    assert_right(ask(samples(calls), options(server, concurrency=concurrency, timeout_s=1e4, deadline_s=1e4)))
    assert (server.n_requests, server.max_in_flight) == (calls, concurrency)


@pytest.mark.slow
def test_a_server_with_little_capacity_is_detected(judge_server: Serve, tmp_path: Path) -> None:
    def not_yet_refused(server: JudgeServer) -> bool:
        # The first answer says that there may be room for more.
        return server.answered > 0 and not server.fault_counts["over_limit"]

    server = judge_server(every_third_match, latency=0.05, concurrency_limit=4, holds=not_yet_refused)
    assert_right(ask(samples(150), options(server, ledger=str(tmp_path))))
    refused = server.fault_counts["over_limit"]
    assert refused > 0
    assert server.max_in_flight == 4
    assert server.n_requests == count(tmp_path) == 150 + refused
    assert count(tmp_path, "code = 'http_429'") == refused


def test_equal_samples_are_asked_once(judge_server: Serve, tmp_path: Path) -> None:
    server = judge_server(match, latency=0.1)
    equal = [Sample(f"id{n}", f"answer {n % 3}", ["reference"], "question?") for n in range(30)]
    found = ask(equal, options(server, ledger=str(tmp_path)))
    assert [one.sample_id for one in found] == [f"id{n}" for n in range(30)]
    assert statuses(found) == {"scored": 30}
    assert server.n_requests == count(tmp_path) == 3
    assert len({one.requests for one in found}) == 3
    assert sorted(one.from_ledger for one in found) == [False] * 3 + [True] * 27


def test_equal_samples_fail_together(judge_server: Serve) -> None:
    server = judge_server(match, faults=always("only_prose"), latency=0.05)
    equal = [Sample(f"id{n}", "answer 0", ["reference"], "question?") for n in range(20)]
    found = ask(equal, options(server))
    assert {failure(one).code for one in found} == {"not_json"}
    assert server.n_requests == 2


# Who calls.


def test_inside_a_running_event_loop(judge_server: Serve) -> None:
    server = judge_server(every_third_match)

    async def cell() -> tuple[list[Measurement], list[Measurement]]:
        here = ask(samples(20), options(server))
        return here, await asyncio.to_thread(ask, samples(20), options(server))

    for found in asyncio.run(cell()):
        assert_right(found)
    assert server.n_requests == 40


def test_several_threads_at_once_share_the_ledger_and_the_pacing(judge_server: Serve, tmp_path: Path) -> None:
    # The first answer says that there may be room for more.
    server = judge_server(
        every_third_match, latency=0.01, holds=lambda server: server.answered > 0 and server.max_in_flight < 8
    )
    judge = options(server, ledger=str(tmp_path), concurrency=8)
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda _: ask(samples(60), judge), range(6)))
    for found in together:
        assert_right(found)
    assert server.n_requests == count(tmp_path) == 60
    assert server.max_in_flight == 8


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_stops_the_calls_and_leaves_the_ledger_usable(judge_server: Serve, tmp_path: Path) -> None:
    forty = threading.Event()

    def fortieth(server: JudgeServer) -> bool:
        if server.n_requests >= 40:
            forty.set()
        return forty.is_set()

    server = judge_server(every_third_match, holds=fortieth)
    judge = options(server, ledger=str(tmp_path), concurrency=8)

    def interrupt_at_forty() -> None:
        forty.wait()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt_at_forty, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        ask(samples(200), judge)
    usable, cancelled = count(tmp_path, "status = 'usable'"), count(tmp_path, "code = 'cancelled'")
    assert count(tmp_path) == usable + cancelled
    assert 40 <= usable + cancelled <= 40 + 8
    time.sleep(0.5)
    # Nothing goes on. One that was written down and not yet sent may be among the cancelled.
    assert usable <= server.n_requests <= usable + cancelled == count(tmp_path)
    assert cancelled <= 8
    server.release()
    assert_right(ask(samples(200), judge))
    assert 200 <= server.n_requests <= 200 + cancelled == count(tmp_path)
    assert max(Counter(number_of(request.body) for request in server.requests).values()) <= 2


def test_a_ledger_that_cannot_be_written_ends_the_run_before_any_call(judge_server: Serve, tmp_path: Path) -> None:
    server = judge_server(match)
    (tmp_path / "judge.sqlite").write_text(json.dumps("this is no database") * 100)
    with pytest.raises(OSError, match=r"the ledger .*judge\.sqlite cannot be used \(file is not a database\)"):
        ask(samples(3), options(server, ledger=str(tmp_path)))
    assert server.n_requests == 0
