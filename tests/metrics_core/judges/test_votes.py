"""Votes become one outcome: all small cases against the definition in its plainest form, and the rest by properties."""

from itertools import product
from statistics import fmean, median
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.metrics_core.judges.options import Jury
from answerkey.metrics_core.judges.votes import SPREAD, Vote, combine
from answerkey.metrics_core.measurement import Failed, Scored, Skipped, Undefined

JURIES = get_args(Jury)
LOST = Failed("http_500", "the server had an error", 6)


def scored(value, **others):
    return Scored({"match": value, **others}, f"because {value:g}", {"evidence": value})


def combined(outcomes, jury, *, binary=False):
    votes = [Vote(f"openai/j{index}", 0, outcome) for index, outcome in enumerate(outcomes)]
    return combine(votes, jury, "match", binary=binary)


def of(values, jury, *, binary=False):
    """The outcome of one vote per value; None: the judge gave none. A second field tells whose vote it is."""
    outcomes = [LOST if value is None else scored(value, other=index / 10) for index, value in enumerate(values)]
    return combined(outcomes, jury, binary=binary)


def possible(values, jury, fillings):
    """What could come out, depending on what the missing votes would have been."""
    ballots = product(*(fillings if value is None else (value,) for value in values))
    return {{"majority": median, "unanimous": min, "mean": fmean}[jury](filled) for filled in ballots}


TABLE = [values for n in (2, 3, 4) for values in product((0.0, 1.0, None), repeat=n)]


@pytest.mark.parametrize("jury", JURIES)
def test_yes_and_no(jury):
    for values in TABLE:
        outcome, outcomes = of(values, jury, binary=True), possible(values, jury, (0.0, 1.0))
        if len(outcomes) > 1:
            n_missing, first = values.count(None), values.index(None)
            message = f"{n_missing} of {len(values)} votes are missing; openai/j{first}: {LOST.code}: {LOST.message}"
            assert outcome == Failed("missing_votes", message, 6 * n_missing + len(values) - n_missing), values
        elif jury == "majority" and outcomes == {0.5}:
            expected = Failed("tie", f"{len(values) // 2} of {len(values)} votes are yes", len(values))
            assert outcome == expected, values
        else:
            there = [value for value in values if value is not None]
            assert outcome.values["match"] == outcomes.pop(), values
            assert outcome.values[SPREAD] == max(there) - min(there), values


@pytest.mark.parametrize("jury", JURIES)
@pytest.mark.parametrize("outcome", [scored(0.25), LOST, Undefined("no facts"), Skipped("budget used up")])
def test_a_single_vote_is_the_outcome(outcome, jury):
    assert combined([outcome], jury) is outcome


SHARES = st.sampled_from([0.0, 0.25, 0.3, 0.5, 0.75, 1.0])


@pytest.mark.parametrize("jury", JURIES)
@given(values=st.lists(st.none() | SHARES, min_size=2, max_size=7), data=st.data())
def test_shares_are_decided_where_no_missing_vote_could_change_them_in_any_order(values, data, jury):
    # Each way of combining rises with every vote, so the ends say what lies between them.
    low, high = (possible(values, jury, [end]) for end in (0.0, 1.0))
    for outcome in (of(values, jury), of(data.draw(st.permutations(values)), jury)):
        if low == high:
            assert outcome.values["match"] == pytest.approx(*low, abs=1e-15)
        else:
            assert outcome.code == "missing_votes"


@given(values=st.lists(st.floats(0.0, 1.0), min_size=2, max_size=7), jury=st.sampled_from(JURIES))
def test_all_fields_come_from_the_votes_that_decided(values, jury):
    outcome = of(values, jury)
    pairs = sorted((value, index / 10) for index, value in enumerate(values))
    middle = len(pairs) // 2
    deciding = {
        "majority": [pairs[middle]] if len(pairs) % 2 else pairs[middle - 1 : middle + 1],
        "unanimous": pairs[:1],
        "mean": pairs,
    }[jury]
    assert outcome.values == {
        "match": pytest.approx(fmean(value for value, _ in deciding)),
        "other": pytest.approx(fmean(other for _, other in deciding)),
        SPREAD: pairs[-1][0] - pairs[0][0],
    }


def test_the_vote_that_decided_gives_reason_and_evidence_and_all_votes_are_shown():
    outcome = combined([scored(1.0), LOST, scored(0.0), scored(0.0)], "unanimous", binary=True)
    assert outcome.reason == "unanimous of 4 votes: because 0"
    assert outcome.details == {
        "evidence": 0.0,
        "jury": "unanimous",
        "votes": [
            {"judge": f"openai/j{index}", "repeat": 0, "vote": vote, "reason": reason}
            for index, (vote, reason) in enumerate(
                [(1.0, "because 1"), (None, f"{LOST.code}: {LOST.message}"), (0.0, "because 0"), (0.0, "because 0")]
            )
        ],
    }
    # The vote nearest to a mean speaks for it.
    mean = combined([scored(0.0), scored(0.5), scored(0.75)], "mean")
    assert (mean.details["evidence"], mean.reason) == (0.5, "mean of 3 votes: because 0.5")


@pytest.mark.parametrize("jury", JURIES)
def test_a_vote_that_the_budget_forbade_leaves_the_sample_for_a_later_run(jury):
    skipped = Skipped("budget used up: 3 calls (max_calls)")
    assert combined([scored(0.0), skipped, scored(0.0), LOST], jury, binary=True) is skipped


def test_no_number_is_made_where_there_is_nothing_to_judge():
    nothing = Undefined("no facts")
    assert combined([nothing, nothing], "majority") is nothing
    half = combined([nothing, scored(1.0)], "majority")
    assert half == Failed("missing_votes", "1 of 2 votes are missing; openai/j0: no facts", 2)
    assert isinstance(combined([nothing, LOST], "mean"), Failed)
    # Three others agree without it.
    most = combined([nothing, *[scored(1.0)] * 3], "majority", binary=True)
    assert most.values == {"match": 1.0, SPREAD: 0.0}
