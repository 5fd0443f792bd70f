"""Every ledger, in memory, in a folder and in PostgreSQL: what is served, what is counted, and who may ask."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from answerkey.metrics_core.llm.ledger import (
    COLUMNS,
    UNSENT,
    Budget,
    CallStatus,
    ClaimLost,
    JudgeSpent,
    Ledger,
    Permit,
    Spent,
    copy_ledger,
    open_ledger,
)

FREE = Budget("run")


@pytest.fixture(params=["folder", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place that processes can share."""
    return f"postgresql:{request.getfixturevalue('postgres')}" if request.param == "postgres" else str(tmp_path)


@pytest.fixture(params=["memory", "folder", "postgres"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    database = f"postgresql:{request.getfixturevalue('postgres')}" if request.param == "postgres" else None
    found = open_ledger({"memory": None, "folder": str(tmp_path), "postgres": database}[request.param])
    yield found
    found.close()


def call(key: str = "k", attempt: int = 1) -> dict[str, Any]:
    return {
        "request_key": key, "judge": "openai/j", "prompt": "p@1", "kind": "ask", "attempt": attempt, "format": "text",
    }  # fmt: skip


def start(ledger: Ledger, budget: Budget, call: dict[str, Any], most_usd: float | None) -> tuple[Permit, str]:
    assert ledger.claim(call["request_key"])
    return ledger.start(budget, call, most_usd)


def write(ledger: Ledger, key: str, status: CallStatus, reply: str | None, **result: Any) -> str:
    permit, call_id = start(ledger, FREE, call(key), None)
    assert permit == "go"
    ledger.finish(call_id, status, {"reply": reply, **result})
    return call_id


# What is served.


def test_nothing_is_known_of_a_request_that_was_never_sent(ledger: Ledger) -> None:
    assert ledger.reply("k") is None


def test_what_was_forgotten_is_asked_again_and_stays_paid(ledger: Ledger) -> None:
    for key, reply in (("a", "first"), ("a", "second"), ("b", "other")):
        write(ledger, key, "usable", reply)
    spent = ledger.spent("run")
    assert (ledger.forget(["a", "never sent"]), ledger.forget([])) == (2, 0)
    assert (ledger.reply("a"), ledger.reply("b")) == (None, "other")
    assert [row[COLUMNS.index("request_key")] for row in ledger.calls()] == ["b"]
    assert spent.calls == 3
    assert ledger.spent("run") == spent


def test_a_usable_reply_is_served_and_the_newest_one(ledger: Ledger) -> None:
    write(ledger, "k", "usable", "first")
    time.sleep(0.002)
    write(ledger, "k", "usable", "second")
    write(ledger, "other", "usable", "of another")
    assert ledger.reply("k") == "second"


def test_a_clock_that_runs_backwards_does_not_make_an_older_reply_the_newest(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(ledger, "k", "usable", "first")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 3_600.0)
    write(ledger, "k", "usable", "second")
    assert ledger.reply("k") == "second"


@pytest.mark.parametrize("status", ["unreadable", "error"])
def test_what_failed_is_recorded_and_never_served(ledger: Ledger, status: CallStatus) -> None:
    write(ledger, "k", status, "I would rather not say", code="not_json", message="no JSON")
    assert ledger.reply("k") is None
    [row] = ledger.calls(["k"])
    found = dict(zip(COLUMNS, row, strict=True))
    assert (found["status"], found["code"], found["reply"]) == (status, "not_json", "I would rather not say")


def test_what_is_still_in_flight_is_recorded_and_not_served(ledger: Ledger) -> None:
    start(ledger, FREE, call(), None)
    assert ledger.reply("k") is None
    [row] = ledger.calls(["k"])
    assert dict(zip(COLUMNS, row, strict=True))["status"] == "sent"


def test_an_earlier_usable_reply_is_served_after_a_later_failure(ledger: Ledger) -> None:
    write(ledger, "k", "usable", "good")
    write(ledger, "k", "error", None)
    assert ledger.reply("k") == "good"


def test_a_row_says_everything_about_its_call(ledger: Ledger) -> None:
    result = {
        "seconds": 0.5, "tokens_in": 7, "tokens_out": 3, "cost_usd": 0.25, "model": "j-2026", "fingerprint": "fp",
        "finish_reason": "stop", "reply": "{}",
    }  # fmt: skip
    before = time.time()
    permit, call_id = start(ledger, FREE, call(attempt=4), 1.0)
    ledger.finish(call_id, "usable", result)
    [row] = ledger.calls(["k"])
    found = dict(zip(COLUMNS, row, strict=True))
    assert permit == "go"
    assert before <= found.pop("started_at") <= time.time()
    expected = {**call(attempt=4), **result, "call_id": call_id, "run": "run", "status": "usable"}
    assert found == {**expected, "code": None, "message": None}


def test_calls_are_found_for_any_number_of_requests_and_each_once(ledger: Ledger) -> None:
    keys = [f"k{number}" for number in range(1_203)]
    ids = [start(ledger, FREE, call(key), None)[1] for key in keys]
    assert Counter(row[0] for row in ledger.calls(keys)) == Counter(ids)
    assert list(ledger.calls([])) == []


def test_a_call_ends_once_and_one_that_never_was_does_not(ledger: Ledger) -> None:
    _, call_id = start(ledger, FREE, call(), 0.5)
    ledger.finish(call_id, "usable", {"reply": "first", "cost_usd": 0.25})
    ledger.finish(call_id, "error", {"code": UNSENT, "cost_usd": 0.0})
    assert (ledger.reply("k"), ledger.spent("run")) == ("first", Spent(1, 0.25))
    with pytest.raises(KeyError):
        ledger.finish("a call that was never made", "usable", {"reply": "lost"})


def test_a_call_needs_the_claim_of_its_request(ledger: Ledger) -> None:
    with pytest.raises(ClaimLost):
        ledger.start(FREE, call(), 0.5)
    assert ledger.claim("k")
    ledger.release("k")
    with pytest.raises(ClaimLost):
        ledger.start(FREE, call(), 0.5)
    assert (list(ledger.calls()), ledger.spent("run")) == ([], Spent())


def test_a_ledger_in_memory_writes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    memory = open_ledger(None)
    assert memory.claim("k")
    write(memory, "k", "usable", "yes")
    assert memory.reply("k") == "yes"
    memory.close()
    assert list(tmp_path.iterdir()) == []


# Budgets.


def test_the_calls_of_a_run_are_limited_and_those_of_another_are_not(ledger: Ledger) -> None:
    three = Budget("run", max_calls=3)
    assert [start(ledger, three, call(), None)[0] for _ in range(5)] == ["go"] * 3 + ["wait"] * 2
    assert start(ledger, Budget("another", max_calls=1), call(), None)[0] == "go"
    assert (ledger.spent("run"), ledger.spent("never")) == (Spent(calls=3, unpriced=3), Spent())


def test_a_run_with_more_budget_goes_on_where_it_stopped(ledger: Ledger) -> None:
    assert [start(ledger, Budget("run", max_calls=2), call(), None)[0] for _ in range(3)][-1] == "wait"
    assert [start(ledger, Budget("run", max_calls=3), call(), None)[0] for _ in range(2)] == ["go", "wait"]


def test_a_call_that_was_never_sent_is_given_back_once(ledger: Ledger) -> None:
    one = Budget("run", max_calls=1, max_cost_usd=1.0, max_cost_total_usd=1.0)
    permit, call_id = start(ledger, one, call(), 1.0)
    assert (permit, start(ledger, one, call(), 1.0)[0]) == ("go", "wait")
    ledger.finish(call_id, "error", {"code": UNSENT, "message": "no connection: refused", "cost_usd": 0.0})
    assert (ledger.spent("run"), ledger.spent_by_judge("run")) == (Spent(), [JudgeSpent("openai/j", 0, 0, 0, 0.0, 0.0)])
    assert [start(ledger, one, call(attempt=2), 1.0)[0] for _ in range(2)] == ["go", "wait"]
    assert [(row[COLUMNS.index("status")], row[COLUMNS.index("code")]) for row in ledger.calls(["k"])] == [
        ("error", UNSENT), ("sent", None)
    ]  # fmt: skip


def test_a_refused_call_leaves_no_row(ledger: Ledger) -> None:
    assert start(ledger, Budget("run", max_calls=0), call(), None) == ("max_calls", "")
    assert list(ledger.calls(["k"])) == []


def test_money_in_flight_is_reserved_and_given_back(ledger: Ledger) -> None:
    dollar = Budget("run", max_cost_usd=1.0)
    permit, first = start(ledger, dollar, call(), 0.75)
    assert (permit, start(ledger, dollar, call(), 0.5)) == ("go", ("wait", ""))
    ledger.finish(first, "usable", {"reply": "", "cost_usd": 0.125})
    permit, second = start(ledger, dollar, call(), 0.5)
    ledger.finish(second, "error", {"code": "http_500"})
    assert (permit, ledger.spent("run")) == ("go", Spent(calls=2, cost_usd=0.125))
    # Nothing is in flight, so there is nothing to wait for.
    assert start(ledger, dollar, call(), 0.9)[0] == "max_cost"
    assert start(ledger, dollar, call(), 0.875)[0] == "go"


def test_replies_without_a_price_are_counted_apart(ledger: Ledger) -> None:
    write(ledger, "a", "usable", "x", cost_usd=None)
    write(ledger, "b", "unreadable", "x", cost_usd=None)
    write(ledger, "c", "usable", "x", cost_usd=0.5)
    # A reply of which nothing can be made has to be paid all the same; a call without a reply has no price to miss.
    write(ledger, "d", "error", "", cost_usd=None)
    write(ledger, "e", "error", None)
    assert ledger.spent("run") == Spent(calls=5, cost_usd=0.5, unpriced=3)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 8), st.integers(0, 8)), max_size=30))
def test_no_order_of_calls_spends_more_than_was_allowed(steps: list[tuple[bool, int, int]]) -> None:
    """In eighths of a dollar, which are exact. No call costs more than it was said to cost at most."""
    memory, limit = open_ledger(None), Budget("run", max_calls=9, max_cost_usd=2.0)
    flying: list[tuple[str, float]] = []
    spent, n_calls = 0.0, 0
    for starts, most, cost in steps:
        if starts:
            permit, call_id = start(memory, limit, call(), most / 8)
            reserved = sum(amount for _, amount in flying)
            fits = spent + reserved + most / 8 <= 2.0
            expected = (
                "go" if fits and n_calls < 9 else "wait" if flying else "max_calls" if n_calls == 9 else "max_cost"
            )
            assert permit == expected
            if permit == "go":
                flying.append((call_id, most / 8))
                n_calls += 1
        elif flying:
            call_id, amount = flying.pop(0)
            paid = min(cost / 8, amount)
            memory.finish(call_id, "usable", {"cost_usd": paid, "reply": ""})
            spent += paid
        assert memory.spent("run") == Spent(n_calls, spent + sum(amount for _, amount in flying))
        assert memory.spent("run").cost_usd <= 2.0
    memory.close()


def test_runs_that_share_a_budget_at_once_stop_at_its_last_call(place: str) -> None:
    def spend(number: int) -> list[str]:
        mine = open_ledger(place)
        permits: list[str] = []
        while len(permits) < 40:
            permit, _ = start(mine, Budget("run", max_calls=100), call(f"{number}"), None)
            permits.append(permit)
        mine.close()
        return permits

    with ThreadPoolExecutor(4) as threads:
        permits = [permit for some in threads.map(spend, range(4)) for permit in some]
    # Who comes late waits while calls of the others are in flight, and is refused once these have closed the ledger.
    assert (permits.count("go"), len(permits)) == (100, 160)


# Claims within one process.


def test_a_claim_keeps_others_out_until_it_is_given_back(place: str) -> None:
    ours, theirs = open_ledger(place), open_ledger(place)
    assert (ours.claim("k"), theirs.claim("k"), theirs.claim("other")) == (True, False, True)
    assert ours.claim("k")  # it holds it
    theirs.release("k")  # which is not theirs
    assert not theirs.claim("k")
    ours.release("k")
    assert theirs.claim("k")
    theirs.close()
    assert ours.claim("k")
    assert ours.claim("other")
    ours.close()


def test_of_many_that_claim_at_once_one_gets_each(place: str) -> None:
    keys = [f"k{number}" for number in range(100)]
    ledgers = [open_ledger(place) for _ in range(4)]
    everybody = threading.Barrier(4)

    def claim(mine: Ledger) -> list[str]:
        everybody.wait(timeout=60)
        return [key for key in keys if mine.claim(key)]

    with ThreadPoolExecutor(4) as threads:
        got = [key for some in threads.map(claim, ledgers) for key in some]
    assert sorted(got) == sorted(keys)
    for ledger in ledgers:
        ledger.close()


# What all runs may spend in a month.

MONTHLY = 1.0


def within(run: str, total: float = MONTHLY, **limits: Any) -> Budget:
    return Budget(run, max_cost_total_usd=total, **limits)


def buy(ledger: Ledger, budget: Budget, key: str, most: float, cost: float) -> str:
    """Make a call, if the budget allows it."""
    permit, call_id = start(ledger, budget, call(key), most)
    if permit == "go":
        ledger.finish(call_id, "usable", {"reply": "yes", "cost_usd": cost})
    return permit


def test_a_limit_for_the_month_spans_runs(ledger: Ledger) -> None:
    assert [buy(ledger, within("one"), f"a{n}", 0.2, 0.1) for n in range(6)] == ["go"] * 6
    # $0.60 is spent, whatever run it was.
    assert [buy(ledger, within("two"), f"b{n}", 0.2, 0.1) for n in range(4)] == ["go"] * 3 + ["max_cost_total"]
    assert buy(ledger, within("two"), "cheap", 0.09, 0.05) == "go"
    assert buy(ledger, within("three", total=2.0), "more", 0.2, 0.1) == "go"
    assert buy(ledger, Budget("four"), "free", 5.0, 5.0) == "go"
    assert buy(ledger, within("three", total=6.0), "late", 0.2, 0.1) == "max_cost_total"
    assert ledger.spent("one").cost_usd == pytest.approx(0.6)


def test_what_was_spent_before_there_was_a_limit_counts(ledger: Ledger) -> None:
    for n in range(3):
        buy(ledger, Budget("before"), f"a{n}", 0.3, 0.3)
    permit, call_id = start(ledger, Budget("before"), call("in flight"), 0.05)
    assert permit == "go"
    # $0.90 spent and $0.05 reserved.
    assert start(ledger, within("after"), call("b"), 0.1) == ("wait", "")
    ledger.finish(call_id, "usable", {"reply": "yes", "cost_usd": 0.02})
    assert start(ledger, within("after"), call("b"), 0.1) == ("max_cost_total", "")
    assert buy(ledger, within("after"), "c", 0.07, 0.01) == "go"


def test_the_own_limit_of_a_run_comes_first(ledger: Ledger) -> None:
    budget = within("run", max_cost_usd=0.25, max_calls=2)
    assert [buy(ledger, budget, f"a{n}", 0.1, 0.1) for n in range(3)] == ["go", "go", "max_calls"]
    assert buy(ledger, within("run", max_cost_usd=0.25), "b", 0.1, 0.1) == "max_cost"


def test_a_limit_for_the_month_is_exact_over_processes(place: str) -> None:
    ledgers = [open_ledger(place) for _ in range(4)]
    try:

        def spend(number: int) -> int:
            permits = [buy(ledgers[number], within(f"run{number}"), f"{number}-{n}", 0.03, 0.03) for n in range(20)]
            return permits.count("go")

        with ThreadPoolExecutor(4) as pool:
            made = sum(pool.map(spend, range(4)))
        # $1 is enough for 33. One that would have to wait for the others gives up here.
        assert 30 <= made <= 33
        spent = sum(ledger.spent(f"run{n}").cost_usd for n, ledger in enumerate(ledgers))
        assert spent == pytest.approx(0.03 * made)
        assert buy(ledgers[1], within("last", total=spent + 0.02), "x", 0.03, 0.03) == "max_cost_total"
        assert buy(ledgers[1], within("last", total=spent + 0.04), "x", 0.03, 0.03) == "go"
    finally:
        for one in ledgers:
            one.close()


# What was spent on each judge.


def test_what_was_spent_on_each_judge(ledger: Ledger) -> None:
    def one(judge: str, **result: Any) -> None:
        _, call_id = start(ledger, FREE, {**call(), "judge": judge}, 0.5)
        ledger.finish(call_id, "error" if "code" in result else "usable", result)

    for cost in (0.1, 0.2):
        one("openai/a", reply="yes", tokens_in=100, tokens_out=10, cost_usd=cost)
    one("openai/a", code="timeout", cost_usd=0.5)
    one("openai/a", code="http_429")
    one("openai/b", reply="yes", tokens_in=7, tokens_out=1, cost_usd=None)
    one("openai/c", code="timeout", cost_usd=None)
    one("openai/d", code="http_500")
    assert ledger.spent_by_judge("run") == [
        JudgeSpent("openai/a", 4, 200, 20, pytest.approx(0.8), 0.5),  # type: ignore[arg-type]
        JudgeSpent("openai/b", 1, 7, 1, None, 0.0),
        JudgeSpent("openai/c", 1, 0, 0, None, 0.0),
        JudgeSpent("openai/d", 1, 0, 0, 0.0, 0.0),
    ]
    assert ledger.spent_by_judge("another") == []


# Calls in batches.


def test_a_call_in_a_batch_is_found_by_who_asks_next_and_charged_to_them(place: str) -> None:
    first = open_ledger(place)
    assert first.claim("k")
    assert start(first, Budget("monday", max_cost_usd=1.0), {**call(), "batch": "b"}, 0.5)[0] == "go"
    first.send_batch("b", "openai/j")
    first.name_batch("b", "batch_7")
    first.close()

    second = open_ledger(place)
    assert second.claim("k")
    adopted = second.adopt("k", "tuesday")
    assert adopted is not None
    assert (adopted.batch, adopted.provider_id, adopted.most_usd, adopted.format) == ("b", "batch_7", 0.5, "text")
    assert second.adopt("k", "tuesday") == adopted
    assert second.adopt("other", "tuesday") is None
    assert (second.spent("monday"), second.spent("tuesday")) == (Spent(), Spent(1, 0.5))
    second.finish(adopted.call_id, "usable", {"reply": "yes", "cost_usd": 0.125})
    assert (second.reply("k"), second.adopt("k", "tuesday")) == ("yes", None)
    assert (second.spent("monday"), second.spent("tuesday")) == (Spent(), Spent(1, 0.125))
    second.release("k")
    second.close()


def test_a_batch_that_never_began_to_be_sent_is_told_from_one_that_did(place: str) -> None:
    ledger = open_ledger(place)
    for key, batch in (("a", "collected"), ("b", "sent")):
        ledger.claim(key)
        start(ledger, FREE, {**call(key), "batch": batch}, None)
    ledger.send_batch("sent", "openai/j")
    collected, sent = ledger.adopt("a", "run"), ledger.adopt("b", "run")
    assert collected is not None
    assert collected.sent_at is None
    assert sent is not None
    assert sent.sent_at == pytest.approx(time.time(), abs=60)
    assert sent.provider_id is None
    ledger.close()


def test_a_copy_has_the_weights_of_verdicts(place: str, tmp_path: Path) -> None:
    with closing(open_ledger(place)) as there:
        _, call_id = start(there, FREE, {**call("k"), "size": 40}, None)
        there.finish(call_id, "usable", {"reply": "yes", "weights": '[[["yes", -0.5]]]'})
        expected = there.origin("k")
        assert expected.weights == '[[["yes", -0.5]]]'
    assert copy_ledger(place, str(tmp_path / "middle")) == 1
    with closing(open_ledger(str(tmp_path / "middle"))) as here:
        assert (here.reply("k"), here.origin("k")) == ("yes", expected)
