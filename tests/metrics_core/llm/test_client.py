"""The judges' client against what servers do, over real HTTP: waits, limits, formats, keys; and its one loop."""

import asyncio
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from concurrent.futures import CancelledError, ThreadPoolExecutor
from urllib.parse import quote

import pytest

from answerkey.metrics_core.llm import limiter
from answerkey.metrics_core.llm import loop as runtime
from answerkey.metrics_core.llm.access import CallLimits
from answerkey.metrics_core.llm.client import limiter_of
from answerkey.metrics_core.llm.model import ModelRef
from tests import judge_faults
from tests.conftest import ROOT
from tests.judge_server import Reply
from tests.kit.processes import finished
from tests.kit.waiting import FAULT_S, wait_until
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
    statuses,
)

pytestmark = pytest.mark.usefixtures("first_call_made")


def assert_right(found):
    """Every sample has its own verdict, in its own place."""
    assert [(one.sample_id, one.reason, one.values) for one in found] == [
        (f"s{n}", f"this is {n}", {"match": float(n % 3 == 0)}) for n in range(len(found))
    ]


# Waiting, within the deadline of one question. The clock can stop a call before the server has seen it, so what the
# server saw is at most what the ledger says.


@pytest.mark.parametrize("kind", ["hang", "trickle"])
def test_a_call_that_takes_too_long_is_made_once_more(kind, judge_server, tmp_path):
    def check(timeout_s):
        server = judge_server(match, faults=at_first(kind), trickle_seconds=10 * timeout_s)
        ledger = tmp_path / str(timeout_s)
        [found] = ask(samples(1), options(server, ledger=str(ledger), timeout_s=timeout_s))
        assert (found.status, found.values, server.n_requests) == ("scored", {"match": 1.0}, 2)
        assert rows(ledger) == [("ask", "error", "timeout", 1), ("ask", "usable", None, 2)]

    patiently(check, 0.5, 5.0, 50.0)


@pytest.mark.parametrize(("kind", "least"), [("rate_limit_after", 1.5), ("rate_limit", 0.2)])
def test_a_rate_limit_is_waited_for(kind, least, judge_server, monkeypatch):
    admitted, pauses, release = [], [], limiter.Limiter.release

    def noted(self, started, load, retry_after=None):
        ended = asyncio.get_running_loop().time()
        release(self, started, load, retry_after)
        admitted.append(started)
        pauses.append((load, self._paused_until, self._paused_until - ended))

    monkeypatch.setattr(limiter.Limiter, "release", noted)
    server = judge_server(match, faults=at_first(kind), retry_after=1.5)
    assert statuses(ask(samples(4), options(server, concurrency=1))) == {"scored": 4}
    load, paused_until, pause = pauses[0]
    assert load == "limited"
    assert pause >= least
    assert admitted[1] >= paused_until
    # The refused caller goes first: its clock is running.
    first, again, *others = [number_of(request.body) for request in server.requests]
    assert first == again
    assert sorted([again, *others]) == [0, 1, 2, 3]


def test_a_judge_that_only_limits_fails_the_row_at_its_deadline(judge_server, tmp_path):
    def check(deadline_s):
        server = judge_server(match, faults=always("rate_limit_after"), retry_after=0.3)
        ledger = tmp_path / str(deadline_s)
        [found] = ask(samples(1), options(server, ledger=str(ledger), deadline_s=deadline_s))
        limited, calls = count(ledger, "code = 'http_429'"), count(ledger)
        assert limited >= 2
        assert failure(found).code == "deadline"
        assert failure(found).message == (
            f"the {deadline_s:g} s of one question were over after {calls} calls: the judge limits the rate"
        )
        assert limited <= server.n_requests <= failure(found).attempts == calls <= limited + 1

    patiently(check, 1.5, 15.0, 60.0)


def test_a_judge_that_limits_everything_is_left_at_the_deadline_of_a_row(judge_server, tmp_path):
    def check(deadline_s):
        server, ledger = (
            judge_server(match, faults=always("rate_limit_after"), retry_after=0.3),
            tmp_path / f"{deadline_s}",
        )
        found = ask(samples(50), options(server, ledger=str(ledger), deadline_s=deadline_s, concurrency=4))
        assert statuses(found) == {"skipped": 50}
        [reason] = {one.reason for one in found}
        assert reason.startswith("the judge has refused every call for ")
        # The deadline may cut calls in flight short.
        limited = count(ledger, "code = 'http_429'")
        assert 2 <= limited <= server.n_requests <= count(ledger) <= limited + 4

    patiently(check, 2.0, 20.0, 80.0)


def test_trouble_is_not_waited_for_beyond_the_deadline(judge_server, tmp_path):
    def check(deadline_s):
        server, ledger = judge_server(match, faults=always("error_500")), tmp_path / str(deadline_s)
        [found] = ask(samples(1), options(server, ledger=str(ledger), deadline_s=deadline_s))
        in_trouble, calls = count(ledger, "code = 'http_500'"), count(ledger)
        # Whether or not the deadline cut one more call short.
        assert failure(found).code == "http_500"
        assert 1 <= in_trouble <= server.n_requests <= failure(found).attempts == calls <= in_trouble + 1
        # The fifth would come after waits of 3.75 s at least, and the sixth would be the last anyhow.
        assert calls <= (4 if deadline_s <= 3.75 else 5)

    patiently(check, 2.0, 7.5)


@pytest.mark.parametrize("first", ["error_500", "hang"])
def test_the_deadline_cuts_a_call_short_and_does_not_hide_what_was_wrong_before(first, judge_server, tmp_path):
    def check(deadline_s):
        server = judge_server(match, faults=lambda number, _body: "hang" if number else first)
        ledger = tmp_path / str(deadline_s)
        # The server never answers: nothing but the deadline ends the call before that time-out.
        asked = options(server, ledger=str(ledger), timeout_s=10 * FAULT_S, deadline_s=deadline_s)
        [found] = ask(samples(1), asked)
        late = ("ask", "error", "timeout")
        if first == "hang":
            assert (failure(found).code, failure(found).attempts, rows(ledger)) == ("timeout", 1, [(*late, 1)])
        else:
            assert rows(ledger) == [("ask", "error", "http_500", 1), (*late, 2)]
            assert (failure(found).code, failure(found).attempts) == ("http_500", 2)
            assert "The server had an error." in failure(found).message
            assert failure(found).message.endswith(f" (call 1; the deadline of {deadline_s:g} s cut call 2 short)")

    patiently(check, 1.5, 15.0, 60.0)


# When a judge is asked nothing more.


def test_a_judge_whose_quota_is_used_up_is_left_and_the_next_run_asks_the_rest(judge_server, tmp_path):
    server = judge_server(match, faults=lambda number, _body: "quota" if number >= 30 else None)
    judge = options(server, ledger=str(tmp_path), concurrency=4)
    found = ask(samples(90), judge)
    assert statuses(found) == {"scored": 30, "skipped": 60}
    [reason] = {one.reason for one in found if one.status == "skipped"}
    assert reason.startswith(
        "the judge's quota is used up, and its server does not say until when; the next run continues there: "
    )
    assert server.n_requests == count(tmp_path) <= 34
    asked, server.faults = server.n_requests, None
    found = ask(samples(90), judge)
    assert statuses(found) == {"scored": 90}
    assert (sum(one.from_ledger for one in found), server.n_requests) == (30, asked + 60)


def test_a_filter_that_refuses_one_text_does_not_end_the_run(judge_server):
    """A firewall says 403 or 404 to one hostile answer, and the judge is as good as before."""
    server = judge_server(match, faults=lambda number, _body: "not_found" if number == 3 else None)
    found = ask(samples(12), options(server, concurrency=1))
    [refused] = [one for one in found if one.status != "scored"]
    assert (failure(refused).code, server.n_requests) == ("http_404", 12)


@pytest.mark.nightly
def test_a_judge_that_is_not_there_is_given_up(judge_server, monkeypatch):
    monkeypatch.setattr("answerkey.metrics_core.llm.client._FIRST_WAIT_S", 0.001)
    server = judge_server(match, faults=always("error_503"))
    found = ask(samples(400), options(server, concurrency=2))
    assert {failure(one).code for one in found} == {"http_503"}
    assert sum(failure(one).attempts for one in found) == server.n_requests < 200
    assert failure(found[-1]).message.startswith("not asked, since the judge never replies: ")
    assert failure(found[-1]).attempts == 0


@pytest.mark.nightly
def test_a_judge_that_has_answered_is_not_given_up(judge_server):
    def check(deadline_s):
        server = judge_server(match, faults=lambda _n, body: "error_500" if 0 < number_of(body) < 13 else None)
        found = ask(samples(20), options(server, concurrency=8, deadline_s=deadline_s))
        assert [one.status for one in found] == ["scored"] + ["failed"] * 12 + ["scored"] * 7
        assert {failure(one).code for one in found[1:13]} == {"http_500"}

    patiently(check, 5.0, 20.0, 80.0)


@pytest.mark.nightly
def test_an_outage_costs_no_row_whose_deadline_is_later(judge_server):
    """The server fails from its 41st to its 60th request: more than the attempts of any row."""
    server = judge_server(match, latency=0.01, faults=lambda number, _body: "error_503" if 40 <= number < 60 else None)
    assert statuses(ask(samples(200), options(server, concurrency=8))) == {"scored": 200}
    # One at a time, once all calls fail.
    assert server.n_requests <= 200 + 20


# Keys.


def test_a_key_in_the_environment_does_not_go_to_an_address_that_was_named(monkeypatch, judge_server):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-the-provider-alone-may-see-this")
    server = judge_server(match)
    [found] = ask(samples(1), setup(f"openai/named-address@{server.url}", api_key=None))
    assert found.status == "scored"
    assert [request.headers["authorization"] for request in server.requests] == ["Bearer no-key-needed"]


def test_a_key_that_a_server_says_back_is_not_kept(judge_server, tmp_path):
    """Neither as it stands, nor as an address has it."""
    key = "sk-a+key/that?is>nowhere=9f27~"
    address = quote(key, safe="")

    def say(body):
        reason = f"The key is {key}, or ?k={address} or ?k={address.lower()}."
        return Reply(json.dumps(json.loads(match(body)) | {"reason": reason}), model=key)

    server = judge_server(say, faults=at_first("says_key"))
    [found] = ask(samples(1), options(server, ledger=str(tmp_path), api_key=key))
    assert (found.status, found.reason) == ("scored", "The key is ***, or ?k=*** or ?k=***.")
    [(failed, _), (usable, model)] = rows(tmp_path, "message, model")
    assert ("The key *** was seen." in failed, usable, model, server.n_requests) == (True, None, "***", 2)
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(form.encode() in file for form in (key, address, address.lower()) for file in files)


# What a server does not take.


@pytest.mark.parametrize(
    ("refused", "status", "accepted"),
    [
        ({"json_schema"}, 400, {"type": "json_object"}),
        ({"json_schema", "json_object"}, 422, None),
    ],
)
def test_a_refused_format_costs_no_sample_and_is_remembered(refused, status, accepted, judge_server, tmp_path):
    server = judge_server(match, refuse_formats=refused, refuse_status=status)
    judge = options(server, ledger=str(tmp_path))
    assert statuses(ask(samples(30), judge)) == {"scored": 30}
    steps = server.fault_counts["refused_format"]
    # Only the calls before the first success can be refused: 16 at once, and the one or two that take their places.
    assert len(refused) <= steps <= 20 * len(refused)
    assert server.n_requests == count(tmp_path) == 30 + steps
    assert count(tmp_path, f"status = 'error' AND code = 'http_{status}'") == steps
    server.reset()
    assert statuses(ask(samples(5, "another"), judge)) == {"scored": 5}
    assert [request.body.get("response_format") for request in server.requests] == [accepted] * 5


def roles(body):
    return [message["role"] for message in body["messages"]]


NO_SYSTEM_ROLE = {
    "Gemma's template": "System role not supported",
    "Mistral's template": "Conversation roles must alternate user/assistant/user/assistant/...",
    "another template": "jinja2 error: Only user and assistant roles are supported!",
    "o1": "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
    "Gemini's server": "Developer instruction is not enabled for models/gemma",
    "pydantic": "body.messages.0.role: Input should be 'user' or 'assistant'",
    "a gateway": "Invalid role: system",
}
PICKY = {
    **{name: (lambda body: "system" not in roles(body), says) for name, says in NO_SYSTEM_ROLE.items()},
    "seed": (lambda body: "seed" not in body, "Unsupported parameter: 'seed' is not supported with this model."),
    "max_completion_tokens": (
        lambda body: "max_tokens" not in body,
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    ),
    "reasoning_effort": (
        lambda body: "reasoning_effort" not in body,
        "Unsupported parameter: 'reasoning_effort' is not supported with this model.",
    ),
    "fewer": (
        lambda body: body.get("max_tokens", 0) <= 512,
        "max_tokens is too large: 4096. This model supports at most 512 completion tokens.",
    ),
}


@pytest.mark.parametrize("kind", PICKY)
def test_what_a_server_does_not_take_is_learned_once_and_the_format_stays(kind, judge_server, monkeypatch):
    takes, says = PICKY[kind]
    monkeypatch.setitem(judge_faults.ERRORS, "picky", (400, says, "invalid_request_error", None))
    monkeypatch.setattr("tests.judge_server.KINDS", frozenset({"picky"}))
    server = judge_server(match, faults=lambda _number, body: None if takes(body) else "picky")
    # litellm sends an effort to models that its tables know to think.
    model = "openai/gpt-5-mini" if kind == "reasoning_effort" else ""
    effort = {"reasoning_effort": "low"} if kind == "reasoning_effort" else {}
    assert statuses(ask(samples(8), options(server, model, **effort))) == {"scored": 8}
    assert sum(server.fault_counts.values()) <= 4
    last = server.requests[-1].body
    assert last["response_format"]["type"] == "json_schema"
    assert roles(last) == (["user"] if kind in NO_SYSTEM_ROLE else ["system", "user"])


def test_without_a_system_role_the_instructions_are_the_users_and_roles_alternate_in_a_repair(
    judge_server, monkeypatch, tmp_path
):
    monkeypatch.setitem(judge_faults.ERRORS, "picky", (400, "roles must alternate", "BadRequestError", None))
    monkeypatch.setattr("tests.judge_server.KINDS", frozenset({"picky"}))
    replies = iter(["I see.", match({})])
    server = judge_server(
        lambda _body: next(replies), faults=lambda _number, body: "picky" if "system" in roles(body) else None
    )
    assert statuses(ask(samples(1), options(server, ledger=str(tmp_path)))) == {"scored": 1}
    refused, first, repair = (request.body["messages"] for request in server.requests)
    assert first[0]["content"] == f"{refused[0]['content']}\n\n{refused[1]['content']}"
    assert roles(server.requests[2].body) == ["user", "assistant", "user"]
    assert repair[0] == first[0]
    # The refused call is a call, and costs nothing
    calls = rows(tmp_path, "kind, status, cost_usd > 0")
    assert [(kind, status) for kind, status, _ in calls] == [
        ("ask", "error"),
        ("ask", "unreadable"),
        ("repair", "usable"),
    ]
    assert not calls[0][2]


def test_the_room_that_a_reply_needed_is_remembered(judge_server):
    def thinks(body):
        return Reply(match(body)) if body.get("max_tokens", 0) >= 4_096 else Reply("", "length")

    server = judge_server(thinks)
    assert statuses(ask(samples(20), options(server, concurrency=2))) == {"scored": 20}
    # Those in flight until the first has its reply.
    assert server.n_requests <= 26


def test_a_request_that_is_too_long_does_not_change_how_the_others_are_asked(judge_server):
    server = judge_server(match, faults=lambda _number, body: "context" if number_of(body) == 7 else None)
    found = ask(samples(20), options(server))
    assert [one.sample_id for one in found if one.status == "failed"] == ["s7"]
    assert server.n_requests == 20
    assert {request.body["response_format"]["type"] for request in server.requests} == {"json_schema"}


# How many calls at once, and who makes them.


@pytest.mark.nightly
def test_a_server_with_little_capacity_is_detected(judge_server, tmp_path):
    def not_yet_refused(server):
        # The first answer says that there may be room for more.
        return server.answered > 0 and not server.fault_counts["over_limit"]

    server = judge_server(every_third_match, latency=0.05, concurrency_limit=4, holds=not_yet_refused)
    assert_right(ask(samples(150), options(server, ledger=str(tmp_path), concurrency=32)))
    refused = server.fault_counts["over_limit"]
    # It goes to its ceiling at the first reply, and is refused there once; then it only touches the capacity.
    assert 0 < refused <= 150
    assert server.max_in_flight == 4
    assert server.n_requests == count(tmp_path) == 150 + refused
    assert count(tmp_path, "code = 'http_429'") == refused


def test_several_threads_at_once_share_the_ledger_and_the_pacing(judge_server, tmp_path):
    # The first answer says that there may be room for more.
    server = judge_server(
        every_third_match, latency=0.01, holds=lambda server: server.answered > 0 and server.max_in_flight < 8
    )
    judge = options(server, ledger=str(tmp_path), concurrency=8)
    with ThreadPoolExecutor(6) as pool:
        for found in pool.map(lambda _: ask(samples(60), judge), range(6)):
            assert_right(found)
    assert server.n_requests == count(tmp_path) == 60
    assert (server.max_in_flight, count(tmp_path, table="claims")) == (8, 0)


@pytest.mark.nightly
@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_stops_the_calls_and_leaves_the_ledger_usable(judge_server, tmp_path):
    forty = threading.Event()

    def fortieth(server):
        if server.n_requests >= 40:
            forty.set()
        return forty.is_set()

    server = judge_server(every_third_match, holds=fortieth)
    judge = options(server, ledger=str(tmp_path), concurrency=8)

    def interrupt_at_forty():
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


# The one event loop for all judges of a process, and the threads that wait for it.


def never():
    raise AssertionError("ticked")


async def where():
    await asyncio.sleep(0.01)
    return id(asyncio.get_running_loop()), threading.current_thread().name


def test_one_loop_does_the_work_of_scripts_threads_and_those_with_a_loop_of_their_own():
    async def inside():
        return runtime.run(where(), never)

    with ThreadPoolExecutor(8) as threads:
        found = {runtime.run(where(), never), asyncio.run(inside())}
        found |= set(threads.map(lambda _: runtime.run(where(), never), range(8)))
    [(_, name)] = found
    assert name == "models"


def test_work_that_gives_up_by_itself_does_not_hold_its_caller(monkeypatch):
    monkeypatch.setattr("answerkey.metrics_core.llm.loop._CLEAN_UP_S", 10 * FAULT_S)

    async def work():
        raise asyncio.CancelledError

    with pytest.raises(CancelledError):
        runtime.run(work(), never)


def test_a_caller_that_fails_while_waiting_ends_the_work_first():
    ended = []

    async def work():
        try:
            await asyncio.sleep(10 * FAULT_S)
        finally:
            await asyncio.sleep(0.2)
            ended.append("cleaned up")

    def tick():
        raise OSError("the log is full")

    with pytest.raises(OSError, match="the log is full"):
        runtime.run(work(), tick, every_s=0.05)
    assert ended == ["cleaned up"]


FIRST_AT_ONCE = """
import asyncio, sys, threading
from answerkey.metrics_core.llm import loop as runtime
sys.setswitchinterval(1e-6)
start, found = threading.Barrier(24), set()
async def where():
    return id(asyncio.get_running_loop())
def first():
    start.wait()
    found.add(runtime.run(where(), lambda: None))
threads = [threading.Thread(target=first) for _ in range(24)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(found), sum(thread.name == "models" for thread in threading.enumerate()))
"""


def test_threads_that_come_first_at_once_get_the_same_loop():
    command = [sys.executable, "-c", FIRST_AT_ONCE]
    run = finished(command, cwd=ROOT, check=True)
    assert (run.stdout, run.stderr) == ("1 1\n", "")


def test_all_callers_with_the_same_judge_and_key_share_one_limiter():
    def limiter(model="openai/j", host="h", key="sk-first-key", calls=8, **limits):
        return limiter_of(ModelRef(model, f"http://{host}/v1", key), CallLimits(calls, **limits))

    assert limiter(max_calls=3) is limiter()
    others = [limiter(key="sk-second-key"), limiter(host="g"), limiter(model="openai/k"), limiter(calls=9)]
    assert len({id(one) for one in (limiter(), *others)}) == 5


@pytest.mark.parametrize("run", ["a run that is stopped", "one of several rules/whose run is stopped"])
def test_what_a_run_asks_in_any_thread_ends_when_it_is_stopped(run, judge_server, tmp_path):
    server = judge_server(match, holds=lambda _server: True)
    asked = options(server, ledger=str(tmp_path), run=run, timeout_s=1_000.0)
    with ThreadPoolExecutor(2) as threads:
        asking = [threads.submit(ask, samples(3, what), asked) for what in ("one", "two")]
        wait_until(lambda: server.n_requests >= 2, "a question of each thread")
        runtime.stop(run.partition("/")[0])
        assert [type(future.exception()) for future in asking] == [runtime.Stopped] * 2
    with pytest.raises(runtime.Stopped):
        ask(samples(1, "three"), asked)
    assert (server.n_requests, count(tmp_path, table="claims")) == (2, 0)
    assert rows(tmp_path, "status, code") == [("error", "cancelled")] * 2
