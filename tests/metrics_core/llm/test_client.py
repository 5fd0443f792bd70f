"""The judges' client against what servers do: over real HTTP, through the real litellm."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

import pytest

from answerkey.metrics_core.llm.request import CallError
from answerkey.metrics_core.llm.response import FormatNegotiation, ResponseFormat
from tests.judge_server import Body, JudgeServer, Reply
from tests.metrics_core.judges.asking import (
    KEY,
    always,
    ask,
    at_first,
    count,
    failure,
    match,
    number_of,
    options,
    patiently,
    rows,
    samples,
)

Serve = Callable[..., JudgeServer]

pytestmark = pytest.mark.usefixtures("first_call_made")

USABLE = ("usable", None)

# A fault of the first request, what the ledger says of it, and how the second one is asked.
MENDED = {
    "rate_limit": ("error", "http_429", "ask"),
    "rate_limit_after": ("error", "http_429", "ask"),
    "error_500": ("error", "http_500", "ask"),
    "error_503": ("error", "http_503", "ask"),
    "hang": ("error", "timeout", "ask"),
    "trickle": ("error", "timeout", "ask"),
    "drop": ("error", "disconnected", "ask"),
    "not_json_body": ("error", "garbled", "ask"),
    "empty": ("error", "empty_reply", "ask"),
    "null": ("error", "empty_reply", "ask"),
    "only_prose": ("unreadable", "not_json", "repair"),
    "wrong_types": ("unreadable", "unreadable", "repair"),
    "cut_off": ("unreadable", "truncated", "longer"),
    "cut_off_stop": ("unreadable", "truncated", "longer"),
}


LATE = ("hang", "trickle")
"""The faults that a client only ends by its time-out."""


@pytest.mark.parametrize("kind", MENDED)
def test_one_fault_costs_one_more_call(kind: str, judge_server: Serve, tmp_path: Path) -> None:
    def check(timeout_s: float) -> None:
        server = judge_server(match, faults=at_first(kind), trickle_seconds=10 * timeout_s)
        ledger = tmp_path / str(timeout_s)
        [found] = ask(samples(1), options(server, ledger=str(ledger), timeout_s=timeout_s))
        status, code, remedy = MENDED[kind]
        assert (found.status, found.values, found.reason) == ("scored", {"match": 1.0}, "the same")
        assert server.n_requests == 2
        assert rows(ledger) == [("ask", status, code, 1), (remedy, *USABLE, 2)]
        assert (found.usage.tokens_out > 0, found.usage.cost_usd, found.from_ledger) == (True, None, False)

    patiently(check, *((0.5, 5.0, 50.0) if kind in LATE else (200.0,)))


@pytest.mark.parametrize("kind", ["prose", "wrong_finish_reason"])
def test_what_can_be_read_needs_no_second_call(kind: str, judge_server: Serve, tmp_path: Path) -> None:
    server = judge_server(match, faults=always(kind))
    [found] = ask(samples(1), options(server, ledger=str(tmp_path)))
    assert (found.status, found.reason, server.n_requests) == ("scored", "the same", 1)
    assert rows(tmp_path) == [("ask", *USABLE, 1)]


# A fault that no second call would mend, and what is said of it.
FINAL = {
    "conflict": ("unreadable", "conflict", "the reply holds several JSON objects that differ"),
    "content_filter": ("error", "content_filter", "the provider's filter stopped the reply"),
    "context": ("error", "too_long", "maximum context length is 4096 tokens"),
    "unauthorized": ("error", "http_401", "Incorrect API key provided: ***"),
    "not_found": ("error", "http_404", "The model does not exist."),
}


@pytest.mark.parametrize("kind", FINAL)
def test_a_final_fault_fails_at_once(kind: str, judge_server: Serve, tmp_path: Path) -> None:
    server = judge_server(match, faults=at_first(kind))
    [found] = ask(samples(1), options(server, ledger=str(tmp_path)))
    status, code, message = FINAL[kind]
    assert (failure(found).code, failure(found).attempts, server.n_requests) == (code, 1, 1)
    assert message in failure(found).message
    assert rows(tmp_path) == [("ask", status, code, 1)]


LASTING = {"error_500": 6, "error_503": 6, "drop": 6, "not_json_body": 3, "empty": 3, "null": 3, "hang": 6}
"""How many calls a fault is given that lasts."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", LASTING)
def test_a_fault_that_lasts_fails_after_some_calls_and_says_so(
    kind: str, judge_server: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("answerkey.metrics_core.llm.client._FIRST_WAIT_S", 0.01)

    def check(timeout_s: float) -> None:
        server = judge_server(match, faults=always(kind))
        ledger = tmp_path / str(timeout_s)
        [found] = ask(samples(1), options(server, ledger=str(ledger), timeout_s=timeout_s))
        code, calls = MENDED[kind][1], LASTING[kind]
        assert (failure(found).code, failure(found).attempts, server.n_requests) == (code, calls, calls)
        assert failure(found).message.endswith(f"(the last of {calls} calls)")
        assert rows(ledger) == [("ask", "error", code, number) for number in range(1, calls + 1)]

    patiently(check, *((0.5, 5.0, 20.0) if kind in LATE else (200.0,)))


@pytest.mark.parametrize("kind", ["only_prose", "wrong_types"])
def test_one_repair_and_no_second(kind: str, judge_server: Serve, tmp_path: Path) -> None:
    server = judge_server(match, faults=always(kind))
    [found] = ask(samples(1), options(server, ledger=str(tmp_path)))
    _, code, _ = MENDED[kind]
    assert (failure(found).code, failure(found).attempts, server.n_requests) == (code, 2, 2)
    assert rows(tmp_path) == [("ask", "unreadable", code, 1), ("repair", "unreadable", code, 2)]
    first, second = (request.body["messages"] for request in server.requests)
    assert [message["role"] for message in second] == ["system", "user", "assistant", "user"]
    assert second[:2] == first
    assert second[3]["content"].startswith("This reply cannot be used: ")


@pytest.mark.parametrize("kind", ["cut_off", "cut_off_stop"])
def test_a_reply_without_an_end_gets_four_times_the_room(kind: str, judge_server: Serve, tmp_path: Path) -> None:
    server = judge_server(match, faults=always(kind))
    [found] = ask(samples(1), options(server, ledger=str(tmp_path)))
    assert (failure(found).code, failure(found).attempts) == ("truncated", server.n_requests)
    assert [request.body["max_tokens"] for request in server.requests][:2] == [1_024, 4_096]
    first, second = (request.body["messages"] for request in server.requests[:2])
    assert first == second  # more room, and no word about it
    assert rows(tmp_path)[:2] == [("ask", "unreadable", "truncated", 1), ("longer", "unreadable", "truncated", 2)]
    assert Counter(kind for kind, *_ in rows(tmp_path)).most_common(1)[0][1] == 1


@pytest.mark.parametrize(("kind", "least"), [("rate_limit_after", 1.5), ("rate_limit", 0.2)])
def test_a_rate_limit_is_waited_for(kind: str, least: float, judge_server: Serve) -> None:
    server = judge_server(match, faults=at_first(kind), retry_after=1.5)
    found = ask(samples(4), options(server, concurrency=1))
    assert [one.status for one in found] == ["scored"] * 4
    assert server.n_requests == 5
    times = [request.at for request in server.requests]
    assert least <= times[1] - times[0] < 60.0
    # The refused caller goes first: its clock is running.
    assert [number_of(request.body) for request in server.requests] == [0, 0, 1, 2, 3]


@pytest.mark.slow
def test_trouble_is_waited_for_longer_each_time(judge_server: Serve) -> None:
    server = judge_server(match, faults=at_first("error_500", times=3))
    [found] = ask(samples(1), options(server))
    times = [request.at for request in server.requests]
    waits = [later - earlier for earlier, later in pairwise(times)]
    assert (found.status, len(waits)) == ("scored", 3)
    for wait, base in zip(waits, [0.5, 1.0, 2.0], strict=True):
        # It may take a busy machine a while to come back, but never less.
        assert base * 0.5 <= wait < base * 1.5 + 25.0


@pytest.mark.parametrize("kind", ["unauthorized", "not_found"])
def test_a_judge_that_refuses_every_call_is_not_asked_again(kind: str, judge_server: Serve, tmp_path: Path) -> None:
    server = judge_server(match, faults=always(kind), latency=0.05)
    found = ask(samples(300), options(server, ledger=str(tmp_path)))
    code = FINAL[kind][1]
    assert Counter(failure(one).code for one in found) == {code: 300}
    asked = [one for one in found if failure(one).attempts]
    assert len(asked) == server.n_requests == count(tmp_path) <= 16
    others = [failure(one).message for one in found if not failure(one).attempts]
    assert all(message.startswith("not asked, since the judge refuses every call: ") for message in others)


def test_a_judge_whose_quota_is_used_up_is_left_and_the_next_run_asks_the_rest(
    judge_server: Serve, tmp_path: Path
) -> None:
    server = judge_server(match, faults=lambda number, _body: "quota" if number >= 100 else None)
    judge = options(server, ledger=str(tmp_path), concurrency=4)
    found = ask(samples(300), judge)
    assert Counter(one.status for one in found) == {"scored": 100, "skipped": 200}
    [reason] = {one.reason for one in found if one.status == "skipped"}
    assert reason is not None
    assert reason.startswith(
        "the judge's quota is used up, and its server does not say until when; the next run continues there: "
    )
    assert server.n_requests == count(tmp_path) <= 104
    asked, server.faults = server.n_requests, None
    found = ask(samples(300), judge)
    assert {one.status for one in found} == {"scored"}
    assert (sum(one.from_ledger for one in found), server.n_requests) == (100, asked + 200)


def test_the_key_is_in_no_message_and_no_file(judge_server: Serve, tmp_path: Path) -> None:
    server = judge_server(match, faults=always("unauthorized"))
    judge = options(server, ledger=str(tmp_path))
    found = ask(samples(3), judge)
    assert all(request.headers["authorization"] == f"Bearer {KEY}" for request in server.requests)
    assert KEY not in repr(found) + repr(judge)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not any(KEY.encode() in path.read_bytes() for path in files)


def test_a_key_that_a_server_says_back_is_not_kept(judge_server: Serve, tmp_path: Path) -> None:
    """Neither as it stands, nor as an address has it."""
    key = "sk-a+key/that?is>nowhere=9f27~"
    address = quote(key, safe="")

    def say(body: Body) -> Reply:
        reason = f"The key is {key}, or ?k={address} or ?k={address.lower()}."
        return Reply(json.dumps(json.loads(match(body)) | {"reason": reason}), model=key)

    server = judge_server(say, faults=at_first("says_key"))
    [found] = ask(samples(1), options(server, ledger=str(tmp_path), api_key=key))
    assert (found.status, found.reason) == ("scored", "The key is ***, or ?k=*** or ?k=***.")
    [(failed, _), (usable, model)] = rows(tmp_path, "message, model")
    assert ("The key *** was seen." in failed, usable, model, server.n_requests) == (True, None, "***", 2)
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(form.encode() in file for form in (key, address, address.lower()) for file in files)


# How the reply's format is asked for.


@pytest.mark.parametrize(
    ("refused", "status", "accepted"),
    [
        ({"json_schema"}, 400, {"type": "json_object"}),
        ({"json_schema"}, 422, {"type": "json_object"}),
        ({"json_schema", "json_object"}, 400, None),
        ({"json_schema", "json_object"}, 422, None),
    ],
)
def test_a_refused_format_costs_no_sample_and_is_remembered(
    refused: Collection[str], status: int, accepted: object, judge_server: Serve, tmp_path: Path
) -> None:
    server = judge_server(match, refuse_formats=refused, refuse_status=status)
    judge = options(server, ledger=str(tmp_path))
    assert {one.status for one in ask(samples(60), judge)} == {"scored"}
    steps = server.fault_counts["refused_format"]
    # Only the calls before the first success can be refused: 16 at once, and the one or two that take their places.
    assert len(refused) <= steps <= 20 * len(refused)
    assert server.n_requests == count(tmp_path) == 60 + steps
    assert count(tmp_path, f"status = 'error' AND code = 'http_{status}'") == steps
    server.reset()
    assert {one.status for one in ask(samples(20, "another"), judge)} == {"scored"}
    assert [request.body.get("response_format") for request in server.requests] == [accepted] * 20


def test_a_late_refusal_falls_back_to_the_format_that_others_agreed_on() -> None:
    negotiation = FormatNegotiation(takes_format=True)
    wordless = CallError("refused", "http_400", "Bad request")
    early, late = negotiation.best, negotiation.best
    negotiation.accepted(negotiation.after_refusal(early, wordless) or early)
    assert negotiation.after_refusal(late, wordless) == negotiation.best == ResponseFormat("json_object")
    # From now on such a refusal is about the request.
    assert negotiation.after_refusal(negotiation.best, wordless) is None


def test_a_strict_schema_is_asked_for_first(judge_server: Serve, tmp_path: Path) -> None:
    server = judge_server(match)
    ask(samples(1), options(server, ledger=str(tmp_path)))
    [request] = server.requests
    asked = request.body["response_format"]
    assert (asked["type"], asked["json_schema"]["strict"]) == ("json_schema", True)
    assert asked["json_schema"]["schema"]["additionalProperties"] is False
    assert (request.body["temperature"], request.body["seed"], request.body["max_tokens"]) == (0.0, 0, 1_024)
    assert rows(tmp_path, "format, status") == [("json_schema", "usable")]


def test_a_refused_parameter_is_left_out_and_the_format_stays(judge_server: Serve) -> None:
    server = judge_server(match, refuse_parameters={"seed"})
    judge = options(server)
    assert {one.status for one in ask(samples(60), judge)} == {"scored"}
    assert 1 <= server.fault_counts["refused_parameter"] <= 20
    server.reset()
    assert {one.status for one in ask(samples(10, "another"), judge)} == {"scored"}
    assert [("seed" in request.body, request.body["response_format"]["type"]) for request in server.requests] == [
        (False, "json_schema")
    ] * 10


def test_a_request_that_is_too_long_does_not_change_how_the_others_are_asked(judge_server: Serve) -> None:
    def too_long(_number: int, body: Body) -> str | None:
        return "context" if number_of(body) == 7 else None

    server = judge_server(match, faults=too_long)
    found = ask(samples(20), options(server))
    assert [one.sample_id for one in found if one.status == "failed"] == ["s7"]
    assert server.n_requests == 20
    assert {request.body["response_format"]["type"] for request in server.requests} == {"json_schema"}
