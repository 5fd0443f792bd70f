"""When a run stops asking a judge, and how it asks one that is slow: the whole client on a clock that jumps."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from answerkey.metrics_core.llm.access import CallLimits
from answerkey.metrics_core.llm.availability import Availability, Unavailable
from answerkey.metrics_core.llm.rate_limit import AdaptiveLimit, Queue
from answerkey.metrics_core.llm.response import NoUsableReply
from answerkey.metrics_core.llm.transport import CallError
from tests.metrics_core.llm.virtual_time import Outcome, Server, about, ask

QUOTA_SPENT = CallError("limited", "http_429", "come back tomorrow", retry_after=3_600.0)
SLOW_DOWN = CallError("limited", "http_429", "slow down", retry_after=1.0)


def availability() -> Availability:
    return Availability(Queue(AdaptiveLimit(8)), "judge", 180.0)


# When to leave.


def test_one_refusal_for_hours_among_replies_says_nothing() -> None:
    judge = availability()
    for second in range(0, 1_000, 10):
        judge.failure(QUOTA_SPENT, "one", second, second + 1)
        judge.reply()
    assert judge.left == ""


def test_calls_made_before_the_first_refusal_for_hours_do_not_confirm_it() -> None:
    judge = availability()
    for number in range(16):
        judge.failure(QUOTA_SPENT, str(number), 0.0, 1.0)
    assert judge.left == ""
    judge.failure(QUOTA_SPENT, "1", 2.0, 3.0)
    assert judge.left == ""
    judge.failure(QUOTA_SPENT, "1", 4.0, 5.0)
    assert re.fullmatch(
        r"the judge's quota is used up, until \d{4}-\d\d-\d\d \d\d:\d\d UTC by its server; the next run continues "
        r"there: come back tomorrow",
        judge.left,
    )


def test_a_question_that_was_only_refused_leaves_the_judge_unless_another_was_answered_meanwhile() -> None:
    judge = availability()
    for question in ("1", "2"):
        judge.failure(SLOW_DOWN, question, 0.0, 1.0)
    judge.reply()
    judge.failure(SLOW_DOWN, "1", 101.0, 102.0)
    judge.failure(SLOW_DOWN, "2", 111.0, 112.0)
    judge.question_refused(SLOW_DOWN, 180.0)
    assert judge.left == ""
    judge.question_refused(SLOW_DOWN, 281.0)
    assert judge.left.startswith("the judge has refused every call for 179 s, until ")


def test_a_question_that_alone_is_refused_does_not_leave_the_judge() -> None:
    judge = availability()
    for second in range(300):
        judge.failure(SLOW_DOWN, "1", second, second)
    judge.question_refused(SLOW_DOWN, 300.0)
    assert judge.left == ""


def test_a_judge_that_falls_silent_is_left_after_two_deadlines() -> None:
    judge, hung = availability(), CallError("trouble", "timeout", "no reply within 60 s")
    judge.reply()
    for second in (100.0, 200.0, 300.0, 459.0):
        judge.failure(hung, "1", second - 60.0, second)
    assert judge.left == ""
    judge.failure(hung, "1", 400.0, 460.0)
    assert judge.left == "the judge has not replied for 360 s; the next run continues there: no reply within 60 s"


def test_a_judge_that_nobody_asked_was_not_silent() -> None:
    """A fallback is asked now and then, and may fail each time."""
    judge, trouble = availability(), CallError("trouble", "http_500", "the server had an error")
    judge.failure(trouble, "1", 60.0, 61.0)
    judge.failure(trouble, "2", 720.0, 721.0)
    assert judge.left == ""
    for second in (900.0, 1_080.0):
        judge.failure(trouble, "3", second - 60.0, second)
    assert judge.left == ""
    judge.failure(trouble, "3", 1_080.0, 1_081.0)
    assert judge.left.startswith("the judge has not replied for 360 s")


def left(outcome: Outcome) -> str:
    """The one reason why no question was answered."""
    assert outcome.count(Unavailable) == len(outcome.found)
    [reason] = {str(one) for one in outcome.found}
    return reason


@pytest.mark.parametrize("hosted", [True, False])
@pytest.mark.parametrize(
    ("retry_after", "seconds", "why"),
    [
        (3_600.0, 10.0, "the judge's quota is used up, until 2"),
        (170.0, 360.0, "the judge has refused every call for 180 s, until 2"),
        (20.0, 240.0, "the judge has refused every call for 180 s, until 2"),
        (True, 240.0, "the judge has refused every call for 180 s; the next run continues there: slow down"),
    ],
)
def test_a_judge_that_refuses_everything_is_left_within_minutes(
    retry_after: float | bool, seconds: float, why: str, hosted: bool
) -> None:
    outcome = ask(Server(about(1.0), refuses=lambda _server, _number: retry_after), 500, hosted=hosted)
    assert left(outcome).startswith(why)
    assert outcome.seconds <= seconds


def test_a_judge_that_hangs_in_the_middle_of_a_run_is_left() -> None:
    server = Server(lambda: 1.0 if server.calls <= 100 else 1e9)
    outcome = ask(server, 1_000, hosted=True)
    # Those that were in flight have used up their time.
    assert outcome.count(str) == 100
    assert outcome.count(Unavailable) >= 800
    assert outcome.seconds <= 600.0


@pytest.mark.parametrize("retry_after", [3_600.0, 20.0, True])
def test_the_next_run_asks_only_what_was_left(retry_after: float | bool, tmp_path: Path) -> None:
    def used_up(server: Server, number: int) -> float | bool:
        return retry_after if server.answered + server.busy >= 120 else False

    name = f"openai/resumed-{retry_after}"
    first = Server(about(1.0), refuses=used_up)
    outcome = ask(first, 500, ledger=str(tmp_path), name=name)
    assert (outcome.count(str), outcome.count(Unavailable)) == (120, 380)
    assert outcome.seconds <= 600.0
    second = Server(about(1.0))
    again = ask(second, 500, ledger=str(tmp_path), name=name, limits=CallLimits(32))
    assert (again.count(str), second.calls) == (500, 380)
    answered = {f"question {number}" for number, one in enumerate(outcome.found) if isinstance(one, str)}
    assert set(second.asked) == {f"question {number}" for number in range(500)} - answered


# Servers that never refuse, and let calls wait.


@pytest.mark.parametrize("works_on", [False, True], ids=["drops", "works on"])
@pytest.mark.parametrize(
    ("slots", "seconds", "most"), [(2, 10.0, 320.0), (1, 20.0, 1_260.0), (1, 30.0, 1_960.0), (4, 8.0, 135.0)]
)
def test_a_slow_server_scores_every_row(slots: int, seconds: float, most: float, works_on: bool) -> None:
    for service in (lambda: seconds, about(seconds)):
        server = Server(service, slots, works_on=works_on)
        outcome = ask(server, 60)
        assert (outcome.count(str), server.most_busy) == (60, slots)
        # Hardly more than with every slot busy all the time.
        assert outcome.seconds <= most
        assert server.calls <= 63


def test_a_slow_server_at_the_address_of_a_provider_is_found_by_time_outs() -> None:
    server = Server(about(10.0), 2)
    outcome = ask(server, 60, hosted=True)
    # What was in flight before the first cuts may have used up its time.
    assert outcome.count(str) >= 44
    assert outcome.count(str) + outcome.count(NoUsableReply) == 60
    assert outcome.seconds <= 480.0


@pytest.mark.parametrize(("seconds", "most"), [(0.2, 2.5), (12.0, 170.0), (25.0, 420.0)])
def test_a_server_of_unknown_size_that_has_room_gets_all_it_may(seconds: float, most: float) -> None:
    server = Server(about(seconds))
    assert ask(server, 500).seconds <= most
    assert server.most_busy == 64


# Refusals that have nothing to do with load.


@pytest.mark.parametrize("hosted", [True, False])
@pytest.mark.parametrize("share", [0.05, 0.1])
def test_a_steady_share_of_refusals_does_not_pin_the_run_at_one_call(share: float, hosted: bool) -> None:
    draws = random.Random(1)
    server = Server(about(0.2), refuses=lambda _server, _number: draws.random() < share)
    outcome = ask(server, 2_000, hosted=hosted)
    assert outcome.count(str) == 2_000
    # One call after the other would take 400 s, and 64 at once 7 s.
    assert outcome.seconds <= 40.0
    assert server.most_busy == 64


@pytest.mark.parametrize("hosted", [True, False])
@pytest.mark.parametrize(("capacity", "most"), [(5, 135.0), (20, 38.0), (50, 17.0)])
def test_a_capacity_is_still_found(capacity: int, most: float, hosted: bool) -> None:
    server = Server(about(0.2), refuses=lambda server, _number: server.accepted >= capacity)
    outcome = ask(server, 3_000, hosted=hosted)
    assert (outcome.count(str), server.most_busy) == (3_000, capacity)
    assert outcome.seconds <= most
    assert server.refused <= 0.03 * server.calls
