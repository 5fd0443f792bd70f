import heapq
import math
import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.metrics_core.llm.rate_limit import AdaptiveLimit, Change, Signal, Ticket


def fill(pacing: AdaptiveLimit, now: float) -> list[Ticket]:
    """Start as many calls as there is room for."""
    tickets = []
    while pacing.ready_in(now) == 0.0:
        tickets.append(pacing.start(now))
    return tickets


def end_all(pacing: AdaptiveLimit, tickets: list[Ticket], now: float, signal: Signal = "ok") -> None:
    for ticket in tickets:
        pacing.end(ticket, now, signal)


def clean_round(pacing: AdaptiveLimit, now: float) -> int:
    """The limit after a full round of successes."""
    end_all(pacing, fill(pacing, now), now)
    return pacing.limit


def refused_once(ceiling: int, start: int) -> AdaptiveLimit:
    """A pacing that was refused at `start` at time 0 and has nothing in flight; it may start again at 1.0."""
    pacing = AdaptiveLimit(ceiling, start)
    tickets = fill(pacing, 0.0)
    pacing.end(tickets.pop(), 0.0, "limited")
    end_all(pacing, tickets, 0.0, "neutral")
    return pacing


# The bounds and the count.


@pytest.mark.parametrize(("start", "floor", "limit"), [(16, 1, 8), (3, 1, 3), (0, 2, 2), (8, 8, 8)])
def test_start_is_clipped_into_the_bounds(start: int, floor: int, limit: int) -> None:
    assert AdaptiveLimit(8, start, floor).limit == limit


@pytest.mark.parametrize(
    ("ceiling", "floor", "gap"), [(0, 1, 0.0), (4, 5, 0.0), (4, 0, 0.0), (4, 1, -0.1), (4, 1, math.nan)]
)
def test_impossible_bounds_are_refused(ceiling: int, floor: int, gap: float) -> None:
    with pytest.raises(ValueError, match=f"not floor={floor}, ceiling={ceiling}, gap={gap}"):
        AdaptiveLimit(ceiling, floor=floor, gap=gap)


def test_a_full_endpoint_is_never_ready_until_a_call_ends() -> None:
    pacing = AdaptiveLimit(2)
    first, _ = fill(pacing, 0.0)
    assert (pacing.in_flight, pacing.ready_in(0.0), pacing.ready_in(1e9)) == (2, None, None)
    pacing.end(first, 1.0, "neutral")
    assert (pacing.in_flight, pacing.ready_in(1.0)) == (1, 0.0)


def test_starting_without_room_raises() -> None:
    pacing = AdaptiveLimit(1)
    pacing.start(0.0)
    with pytest.raises(RuntimeError, match="ask ready_in first"):
        pacing.start(0.0)
    assert pacing.in_flight == 1


def test_a_ticket_ends_once_and_where_it_was_started() -> None:
    pacing, other = AdaptiveLimit(4), AdaptiveLimit(4)
    ticket, twin = pacing.start(0.0), pacing.start(0.0)
    pacing.end(ticket, 1.0, "ok")
    for wrong in (ticket, other.start(0.0)):
        with pytest.raises(ValueError, match="ended before, or was not started here"):
            pacing.end(wrong, 1.0, "ok")
    assert pacing.in_flight == 1
    pacing.end(twin, 1.0, "ok")
    assert pacing.in_flight == 0


def test_the_gap_lies_between_two_starts() -> None:
    pacing = AdaptiveLimit(4, gap=0.25)
    pacing.start(10.0)
    assert (pacing.ready_in(10.0), pacing.ready_in(10.125), pacing.ready_in(10.25)) == (0.25, 0.125, 0.0)


# Slow start.


def test_slow_start_doubles_the_limit_each_round_up_to_the_ceiling() -> None:
    pacing = AdaptiveLimit(100, start=16)
    assert [clean_round(pacing, float(second)) for second in range(4)] == [32, 64, 100, 100]
    assert pacing.history[:2] == [Change(0.0, 17, "slow start"), Change(0.0, 18, "slow start")]
    assert len(pacing.history) == 84


def test_the_history_keeps_the_last_200_changes() -> None:
    pacing = AdaptiveLimit(1000, start=16)
    for second in range(6):
        clean_round(pacing, float(second))
    assert [change.limit for change in pacing.history] == list(range(801, 1001))


def test_slow_start_goes_only_as_far_as_the_limit_is_used() -> None:
    pacing = AdaptiveLimit(100, start=10)
    for second in range(50):  # 10 calls at once are all the work there is
        end_all(pacing, [pacing.start(float(second)) for _ in range(10)], float(second))
    assert pacing.limit == 20  # the first round used its 10, no later one 16 of 20
    for second in range(50, 100):
        end_all(pacing, [pacing.start(float(second)) for _ in range(16)], float(second))
    assert pacing.limit == 30  # 10 successes were left of the round of 20; no round of 30 was used


def test_trouble_in_slow_start_holds_growth_for_a_round() -> None:
    pacing = AdaptiveLimit(100, start=4)
    first, second, *others = fill(pacing, 0.0)
    pacing.end(first, 0.0, "ok")
    assert pacing.limit == 5
    pacing.end(second, 0.0, "trouble")
    end_all(pacing, others, 0.0)
    end_all(pacing, fill(pacing, 1.0)[:2], 1.0)
    assert pacing.limit == 5  # four successes since
    end_all(pacing, fill(pacing, 2.0)[:2], 2.0)
    assert pacing.limit == 6  # the fifth ended the round, the sixth counted


# Cuts.


@pytest.mark.parametrize(("start", "floor", "limit"), [(100, 1, 70), (64, 1, 44), (5, 1, 3), (2, 1, 1), (10, 9, 9)])
def test_a_refusal_cuts_to_seven_tenths_rounded_down_but_not_below_the_floor(
    start: int, floor: int, limit: int
) -> None:
    pacing = AdaptiveLimit(100, start, floor)
    pacing.end(pacing.start(5.0), 5.0, "limited")
    assert pacing.limit == limit
    assert pacing.history == [Change(5.0, limit, "limited, pause 1 s")]


def test_a_refusal_at_the_floor_is_noted_too() -> None:
    pacing = AdaptiveLimit(1)
    pacing.end(pacing.start(0.0), 0.0, "limited", 7.5)
    assert pacing.history == [Change(0.0, 1, "limited, pause 7.5 s")]


def test_calls_from_before_the_cut_do_not_cut_again() -> None:
    pacing = AdaptiveLimit(100, start=100)
    tickets = fill(pacing, 0.0)
    end_all(pacing, tickets[:40], 0.5, "limited")
    assert (pacing.limit, pacing.in_flight, len(pacing.history)) == (70, 60, 1)
    young = fill(pacing, 1.5)
    assert len(young) == 10
    pacing.end(tickets[40], 1.5, "limited")
    assert pacing.limit == 70
    pacing.end(young[0], 1.5, "limited")
    assert pacing.limit == 49


def test_after_a_cut_the_calls_too_many_run_out() -> None:
    pacing = AdaptiveLimit(10, start=10)
    tickets = fill(pacing, 0.0)
    pacing.end(tickets.pop(), 0.0, "limited")
    assert (pacing.limit, pacing.in_flight, pacing.ready_in(5.0)) == (7, 9, None)
    end_all(pacing, tickets[:2], 5.0)
    assert pacing.ready_in(5.0) is None
    pacing.end(tickets[2], 5.0, "ok")
    assert pacing.ready_in(5.0) == 0.0


def test_trouble_and_neutral_never_cut() -> None:
    pacing = AdaptiveLimit(16)
    end_all(pacing, fill(pacing, 0.0), 0.0, "trouble")
    end_all(pacing, fill(pacing, 0.0), 0.0, "neutral")
    assert (pacing.limit, pacing.in_flight, pacing.ready_in(0.0), pacing.history) == (16, 0, 0.0, [])


@pytest.mark.parametrize(("start", "late", "limit"), [(40, 4, 40), (40, 5, 20), (9, 1, 4), (1, 1, 1)])
def test_time_outs_halve_the_limit_when_more_than_one_in_ten_comes_late(start: int, late: int, limit: int) -> None:
    pacing = AdaptiveLimit(64, start=start)
    tickets = fill(pacing, 0.0)
    end_all(pacing, tickets[:late], 60.0, "late")
    assert (pacing.limit, pacing.in_flight) == (limit, start - late)
    # Nothing is to be waited for: that took long enough.
    end_all(pacing, tickets[late:], 60.0, "late")
    assert pacing.ready_in(60.0) == 0.0
    # Those from before the cut were too many, and say nothing of what is left.
    assert pacing.limit == max(1, start // 2)


# A server of unknown size.


@pytest.mark.parametrize(("seconds", "limit"), [(0.2, 16), (3.0, 10), (20.0, 2)])
def test_the_first_reply_says_how_many_may_come(seconds: float, limit: int) -> None:
    pacing = AdaptiveLimit(64, patience=60.0)
    first, _ = fill(pacing, 0.0)
    assert pacing.limit == 2
    pacing.end(first, seconds, "ok")
    assert pacing.limit == limit


def test_calls_that_wait_for_each_other_are_no_reason_to_make_more() -> None:
    pacing = AdaptiveLimit(64, patience=60.0)
    open_, now = fill(pacing, 0.0), 0.0
    for _ in range(50):  # a single slot of 20 s
        now += 20.0
        pacing.end(open_.pop(0), now, "ok")
        open_ += fill(pacing, now)
    assert pacing.limit == 2


# Refusals that have nothing to do with load.


def test_what_lone_calls_are_refused_is_no_reason_for_a_cut() -> None:
    pacing, now = AdaptiveLimit(64, start=1), 0.0
    while not pacing.tolerant:
        now += 1_000.0
        pacing.end(pacing.start(now), now, "limited" if now % 10_000.0 == 0.0 else "ok")
        assert pacing.limit <= 2
        assert now < 100_000.0
    while pacing.limit < 20:
        tickets, now = fill(pacing, now), now + 1.0
        end_all(pacing, tickets, now)
    before = pacing.limit
    for _ in range(50):
        *tickets, refused = fill(pacing, now)
        end_all(pacing, tickets, now)
        pacing.end(refused, now, "limited")
    assert pacing.limit > before
    before = pacing.limit
    # More than that is a limit, as ever.
    end_all(pacing, fill(pacing, now), now, "limited")
    assert pacing.limit < before


# Pauses.


def test_the_pause_doubles_up_to_a_minute_while_everything_is_refused() -> None:
    pacing, now, pauses = AdaptiveLimit(16), 0.0, []
    for _ in range(9):
        pacing.end(pacing.start(now), now, "limited")
        pauses.append(pacing.ready_in(now))
        now += 1000.0
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]


def test_a_success_of_a_younger_call_begins_the_pauses_anew() -> None:
    pacing = refused_once(100, 100)
    young, other, third = (pacing.start(1.0) for _ in range(3))
    pacing.end(other, 1.0, "limited")
    assert pacing.ready_in(1.0) == 2.0
    pacing.end(young, 1.5, "ok")  # started after the first cut of the row, answered after the second
    assert pacing.ready_in(1.5) == 1.5  # but the pause in force stays
    pacing.end(pacing.start(3.0), 3.0, "limited")
    assert pacing.ready_in(3.0) == 1.0
    pacing.end(third, 3.0, "ok")  # from before this row: it says nothing
    pacing.end(pacing.start(4.0), 4.0, "limited")
    assert pacing.ready_in(4.0) == 2.0


@pytest.mark.parametrize(
    ("retry_after", "pause"),
    [
        *((None, 1.0), (0.25, 0.25), (0.0, 0.0), (20.0, 20.0), (300.0, 300.0), (86400.0, 300.0), (math.inf, 300.0)),
        *((-1.0, 1.0), (math.nan, 1.0), (-math.inf, 1.0)),
    ],
)
def test_retry_after_is_followed_within_reason(retry_after: float | None, pause: float) -> None:
    pacing = AdaptiveLimit(16)
    pacing.end(pacing.start(0.0), 0.0, "limited", retry_after)
    assert pacing.ready_in(0.0) == pause


def test_retry_after_that_did_not_help_does_not_shorten_the_pause() -> None:
    pacing, now, pauses = AdaptiveLimit(16), 0.0, []
    for retry_after in (0.0, 0.0, 3.0, 10.0):
        pacing.end(pacing.start(now), now, "limited", retry_after)
        pauses.append(pacing.ready_in(now))
        now += 100.0
    assert pauses == [0.0, 2.0, 4.0, 10.0]


def test_only_a_longer_retry_after_of_the_same_episode_moves_the_pause() -> None:
    pacing = AdaptiveLimit(16)
    first, second, third, fourth, *others = fill(pacing, 0.0)
    pacing.end(first, 0.0, "limited", 10.0)
    pacing.end(second, 1.0, "limited", 5.0)
    assert pacing.ready_in(1.0) is None  # 14 in flight, 11 allowed
    end_all(pacing, others[:8], 1.0, "neutral")
    assert pacing.ready_in(1.0) == 9.0
    pacing.end(third, 2.0, "limited")
    assert pacing.ready_in(2.0) == 8.0
    pacing.end(fourth, 3.0, "limited", 30.0)
    assert (pacing.ready_in(3.0), pacing.limit) == (30.0, 11)


def test_a_cut_does_not_shorten_a_pause_either() -> None:
    pacing = AdaptiveLimit(16)
    first, second, *others = fill(pacing, 0.0)
    pacing.end(first, 0.0, "limited")
    end_all(pacing, others, 0.0, "neutral")
    young = pacing.start(1.0)
    pacing.end(second, 1.5, "limited", 30.0)
    pacing.end(young, 2.0, "limited")
    assert (pacing.limit, pacing.ready_in(2.0)) == (7, 29.5)


# Growth after a cut.


def test_growth_after_a_cut_is_one_per_round_or_a_twentieth() -> None:
    pacing = refused_once(128, 90)
    assert [clean_round(pacing, 2.0) for _ in range(9)] == [66, 69, 72, 75, 78, 81, 85, 89, 89]
    pacing = refused_once(128, 20)
    assert [clean_round(pacing, 2.0) for _ in range(6)] == [15, 16, 17, 18, 19, 19]
    assert pacing.history[1] == Change(2.0, 15, "clean round")


def test_a_round_needs_as_many_successes_as_the_limit() -> None:
    pacing = refused_once(128, 20)
    end_all(pacing, fill(pacing, 1.0)[:13], 1.0)
    assert pacing.limit == 14
    end_all(pacing, fill(pacing, 1.0)[:1], 1.0)
    assert pacing.limit == 15


@pytest.mark.parametrize(("at_once", "limit"), [(11, 14), (12, 15)])
def test_a_round_that_used_less_than_four_fifths_does_not_grow(at_once: int, limit: int) -> None:
    pacing = refused_once(128, 20)
    assert pacing.limit == 14
    tickets = [pacing.start(1.0) for _ in range(at_once)]
    end_all(pacing, tickets, 1.0)
    for _ in range(14 - at_once):
        pacing.end(pacing.start(1.0), 1.0, "ok")
    assert pacing.limit == limit


def test_trouble_starts_the_round_anew_and_neutral_does_not() -> None:
    for signal, limit in (("trouble", 14), ("neutral", 15)):
        pacing = refused_once(128, 20)
        *most, last = fill(pacing, 1.0)
        end_all(pacing, most, 1.0)
        pacing.end(last, 1.0, signal)  # type: ignore[arg-type]
        end_all(pacing, fill(pacing, 1.0)[:1], 1.0)
        assert pacing.limit == limit


def test_the_round_after_trouble_counts_what_is_still_in_flight_as_used() -> None:
    pacing = refused_once(128, 20)
    first, *others = fill(pacing, 1.0)
    pacing.end(first, 1.0, "trouble")
    end_all(pacing, others, 1.0)
    pacing.end(pacing.start(1.0), 1.0, "ok")
    assert pacing.limit == 15


def test_successes_of_calls_from_before_the_cut_are_not_part_of_the_round() -> None:
    pacing = AdaptiveLimit(128, start=20)
    first, *old = fill(pacing, 0.0)
    pacing.end(first, 0.0, "limited")
    end_all(pacing, old[:6], 0.0, "neutral")
    young = pacing.start(1.0)  # with 13 old calls: the round is used
    end_all(pacing, [*old[6:], young], 1.0)
    assert pacing.limit == 14
    assert clean_round(pacing, 2.0) == 15


def test_what_was_refused_is_tried_again_once_the_episode_is_paid_for() -> None:
    # Paused until 1.0, so at rest until 9.0; one refusal, so 25 successes are owed.
    pacing = refused_once(128, 5)
    assert [clean_round(pacing, 8.5) for _ in range(20)] == [4] * 20  # 79 successes, too early
    pacing = refused_once(128, 5)
    # 3 + 5 x 4 = 23 successes are too few, 27 are enough.
    assert [clean_round(pacing, 9.0) for _ in range(7)] == [4, 4, 4, 4, 4, 4, 5]
    assert pacing.history[-1] == Change(9.0, 5, "refused before, tried again")


def test_each_refusal_of_an_episode_is_paid_for() -> None:
    pacing = AdaptiveLimit(128, 5)
    *refused, last = fill(pacing, 0.0)
    end_all(pacing, refused, 0.0, "limited")
    pacing.end(last, 0.0, "neutral")
    # Four refusals, 100 successes: 3 + 24 x 4 = 99 are too few.
    assert [clean_round(pacing, 50.0) for _ in range(26)] == [4] * 25 + [5]


def test_growth_goes_on_when_the_wall_has_held_for_two_rounds() -> None:
    pacing = refused_once(128, 5)
    while pacing.limit < 5:
        clean_round(pacing, 9.0)
    assert [clean_round(pacing, 9.0) for _ in range(4)] == [5, 6, 7, 8]


def test_a_wall_that_stands_cuts_again() -> None:
    pacing = refused_once(128, 5)
    while pacing.limit < 5:
        clean_round(pacing, 9.0)
    pacing.end(pacing.start(9.0), 9.0, "limited")
    assert (pacing.limit, pacing.ready_in(9.0)) == (3, 1.0)
    assert [clean_round(pacing, 17.5) for _ in range(20)] == [4] * 20


def test_an_endpoint_that_refuses_everything_for_a_while_does_not_lower_the_wall() -> None:
    pacing = AdaptiveLimit(128, start=64)
    for now in (0.0, 1.0, 3.0):
        pacing.end(pacing.start(now), now, "limited")
    assert pacing.limit == 21
    limits = [clean_round(pacing, 8.0) for _ in range(40)]
    assert (limits[0], limits[-1]) == (22, 63)  # just below 64, where the row began


def test_growth_stops_at_the_ceiling() -> None:
    pacing = refused_once(5, 5)
    assert [clean_round(pacing, 100.0) for _ in range(20)][-3:] == [5, 5, 5]
    assert max(change.limit for change in pacing.history) == 5


# A provider with a hidden capacity, on a virtual clock.


@dataclass(frozen=True)
class Answer:
    at: float
    signal: Signal
    seconds: float  # of service; 0 when refused
    limit: int


@dataclass(frozen=True)
class Provider:
    """Serves up to `capacity(now)` calls at once and refuses the others."""

    capacity: Callable[[float], int]
    latency: float = 0.2
    refusal: float = 0.2
    retry_after: float | None = None

    def answers(self, pacing: AdaptiveLimit, until: float, seed: int = 0) -> list[Answer]:
        """What it says to a caller that never runs out of work."""
        rng = random.Random(seed)
        events: list[tuple[float, int, Ticket | None, Signal, float]] = []
        answers: list[Answer] = []
        now, number, busy = 0.0, 0, 0
        while now < until:
            while (wait := pacing.ready_in(now)) == 0.0:
                ticket, number = pacing.start(now), number + 1
                if busy < self.capacity(now):
                    busy += 1
                    seconds = self.latency * rng.uniform(0.8, 1.2)
                    heapq.heappush(events, (now + seconds, number, ticket, "ok", seconds))
                else:
                    heapq.heappush(events, (now + self.refusal, number, ticket, "limited", 0.0))
            if wait is not None:
                number += 1
                heapq.heappush(events, (now + wait, number, None, "neutral", 0.0))
            now, _, done, signal, seconds = heapq.heappop(events)
            if done is not None:
                busy -= signal == "ok"
                pacing.end(done, now, signal, self.retry_after if signal == "limited" else None)
                answers.append(Answer(now, signal, seconds, pacing.limit))
        return answers


def utilisation(answers: list[Answer], since: float, until: float, capacity: int) -> float:
    return sum(a.seconds for a in answers if since <= a.at < until) / (until - since) / capacity


def refusals(answers: list[Answer], since: float, until: float) -> float:
    signals = [a.signal for a in answers if since <= a.at < until]
    return signals.count("limited") / len(signals)


@pytest.mark.parametrize("retry_after", [None, 0.0, 5.0])
@pytest.mark.parametrize("refusal", [0.2, 0.02])
@pytest.mark.parametrize("capacity", [1, 4, 20, 64, 200])
def test_a_hidden_capacity_is_found_and_used(capacity: int, refusal: float, retry_after: float | None) -> None:
    provider = Provider(lambda now: capacity, refusal=refusal, retry_after=retry_after)
    answers = provider.answers(AdaptiveLimit(128), 120.0)
    assert utilisation(answers, 30.0, 120.0, min(capacity, 128)) >= 0.8
    assert refusals(answers, 30.0, 120.0) <= 0.045


def test_slow_answers_change_nothing() -> None:
    answers = Provider(lambda now: 20, latency=5.0, refusal=0.05).answers(AdaptiveLimit(128), 3000.0)
    assert utilisation(answers, 500.0, 3000.0, 20) >= 0.8
    assert refusals(answers, 500.0, 3000.0) <= 0.045


@pytest.mark.parametrize("refusal", [0.2, 0.02])
def test_a_capacity_that_falls_and_comes_back_is_followed(refusal: float) -> None:
    provider = Provider(lambda now: 8 if 60.0 <= now < 120.0 else 64, refusal=refusal)
    answers = provider.answers(AdaptiveLimit(128), 200.0)
    assert max(a.limit for a in answers if 75.0 <= a.at < 120.0) <= 16
    assert utilisation(answers, 75.0, 120.0, 8) >= 0.75
    assert refusals(answers, 75.0, 120.0) <= 0.05
    assert max(a.limit for a in answers if 120.0 <= a.at < 140.0) >= 64
    assert utilisation(answers, 140.0, 200.0, 64) >= 0.75
    assert refusals(answers, 140.0, 200.0) <= 0.05


def test_an_outage_of_refusals_is_survived() -> None:
    answers = Provider(lambda now: 0 if 60.0 <= now < 90.0 else 64).answers(AdaptiveLimit(128), 200.0)
    assert sum(a.signal == "limited" for a in answers if 61.0 <= a.at < 90.0) <= 250
    assert utilisation(answers, 140.0, 200.0, 64) >= 0.75


# Any sequence of events.

SIGNALS: tuple[Signal, ...] = ("ok", "ok", "ok", "limited", "late", "trouble", "neutral")
ADVICE = st.none() | st.floats(allow_nan=True, allow_infinity=True)
STEPS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.0, 0.01, 0.5, 3.0, 70.0]),
        st.integers(0, 20),
        st.lists(st.tuples(st.integers(0, 1000), st.sampled_from(SIGNALS), ADVICE), max_size=12),
    ),
    max_size=30,
)


@given(
    ceiling=st.integers(1, 40),
    floor=st.integers(1, 40),
    start=st.integers(-5, 60),
    gap=st.sampled_from([0.0, 0.1]),
    steps=STEPS,
)
def test_the_laws_hold_for_any_sequence(
    ceiling: int,
    floor: int,
    start: int,
    gap: float,
    steps: list[tuple[float, int, list[tuple[int, Signal, float | None]]]],
) -> None:
    floor = min(floor, ceiling)
    pacing, now, open_, pause, started = AdaptiveLimit(ceiling, start, floor, gap), 0.0, list[Ticket](), 0.0, -1.0
    for wait, starts, ends in steps:
        now += wait
        for _ in range(starts):
            if pacing.ready_in(now) != 0.0:
                break
            open_.append(pacing.start(now))
            assert len(open_) == pacing.in_flight <= pacing.limit
            assert now >= pause
            assert now >= started + gap
            started = now
        for index, signal, advice in ends[: len(open_)]:
            pacing.end(open_.pop(index % len(open_)), now, signal, advice)
            if signal == "limited" and advice is not None and advice >= 0.0:
                pause = max(pause, now + min(advice, 300.0))
            assert floor <= pacing.limit <= ceiling
            assert pacing.in_flight == len(open_)
    # Progress: with nothing in flight, a finite wait leads to a start.
    for ticket in open_:
        pacing.end(ticket, now, "trouble")
    for _ in range(3):  # a sum of floats may fall short of the end of the pause by its last bit
        left = pacing.ready_in(now)
        assert left is not None
        assert 0.0 <= left <= 300.0
        now += left
    assert pacing.ready_in(now) == 0.0
    pacing.end(pacing.start(now), now, "ok")
