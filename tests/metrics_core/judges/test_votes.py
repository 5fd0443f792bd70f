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


def votes(*outcomes):
    return [Vote(f"openai/j{place}", 0, outcome) for place, outcome in enumerate(outcomes)]


def of(values):
    """One vote per value; None: the judge gave none. Each has a second field, which tells whose vote it is."""
    return votes(*(LOST if value is None else scored(value, other=place / 10) for place, value in enumerate(values)))


def combined(values, jury):
    """The definition, for votes that are all there."""
    return {"majority": median, "unanimous": min, "mean": fmean}[jury](values)


def possible(values, jury, fillings):
    """What could come out, depending on what the missing votes would have been."""
    places = [fillings if value is None else (value,) for value in values]
    return {combined(filled, jury) for filled in product(*places)}


TABLE = [values for seats in (2, 3, 4) for values in product((0.0, 1.0, None), repeat=seats)]


@pytest.mark.parametrize("jury", JURIES)
@pytest.mark.parametrize("values", TABLE, ids=lambda values: "".join("-" if v is None else f"{v:g}" for v in values))
def test_yes_and_no(values, jury):
    outcome = combine(of(values), jury, "match", binary=True)
    outcomes = possible(values, jury, (0.0, 1.0))
    if len(outcomes) > 1:
        assert isinstance(outcome, Failed)
        assert outcome.code == "missing_votes"
        n_missing, first = values.count(None), values.index(None)
        assert outcome.message == (
            f"{n_missing} of {len(values)} votes are missing; openai/j{first}: http_500: the server had an error"
        )
        assert outcome.attempts == 6 * n_missing + len(values) - n_missing
    elif jury == "majority" and outcomes == {0.5}:
        assert outcome == Failed("tie", f"{len(values) // 2} of {len(values)} votes are yes", len(values))
    else:
        assert isinstance(outcome, Scored)
        assert outcome.values["match"] == outcomes.pop()
        there = [value for value in values if value is not None]
        assert outcome.values[SPREAD] == max(there) - min(there)


@pytest.mark.parametrize("jury", JURIES)
@pytest.mark.parametrize("outcome", [scored(1.0), scored(0.25), LOST, Undefined("no facts"), Skipped("budget used up")])
def test_a_single_vote_is_the_outcome(outcome, jury):
    assert combine(votes(outcome), jury, "match", binary=False) is outcome


SHARES = st.sampled_from([0.0, 0.25, 0.3, 0.5, 0.75, 1.0])


@pytest.mark.parametrize("jury", JURIES)
@given(values=st.lists(st.none() | SHARES, min_size=2, max_size=7))
def test_shares_are_decided_where_no_missing_vote_could_change_them(values, jury):
    # Each way of combining rises with every vote, so the ends say what lies between them.
    low, high = (possible(values, jury, [end]) for end in (0.0, 1.0))
    outcome = combine(of(values), jury, "match", binary=False)
    if low == high:
        assert isinstance(outcome, Scored)
        assert outcome.values["match"] == pytest.approx(low.pop(), abs=1e-15)
    else:
        assert isinstance(outcome, Failed)
        assert outcome.code == "missing_votes"


@given(values=st.lists(st.floats(0.0, 1.0), min_size=2, max_size=7), jury=st.sampled_from(JURIES))
def test_all_fields_come_from_the_votes_that_decided(values, jury):
    outcome = combine(of(values), jury, "match", binary=False)
    assert isinstance(outcome, Scored)
    assert 0.0 <= outcome.values["match"] <= 1.0
    pairs = sorted((value, place / 10) for place, value in enumerate(values))
    middle = len(pairs) // 2
    deciding = {
        "majority": [pairs[middle]] if len(pairs) % 2 else pairs[middle - 1 : middle + 1],
        "unanimous": pairs[:1],
        "mean": pairs,
    }[jury]
    assert outcome.values["match"] == pytest.approx(fmean(value for value, _ in deciding))
    assert outcome.values["other"] == pytest.approx(fmean(other for _, other in deciding))
    assert outcome.values[SPREAD] == pairs[-1][0] - pairs[0][0]


@given(values=st.lists(st.none() | SHARES, min_size=2, max_size=5), jury=st.sampled_from(JURIES), data=st.data())
def test_the_order_of_the_votes_does_not_change_the_number(values, jury, data):
    def number(some):
        outcome = combine(of(some), jury, "match", binary=False)
        return outcome.code if isinstance(outcome, Failed) else outcome.values["match"]

    assert number(data.draw(st.permutations(values))) == number(values)


def test_the_vote_that_decided_gives_reason_and_evidence_and_all_votes_are_shown():
    outcome = combine(votes(scored(1.0), LOST, scored(0.0), scored(0.0)), "unanimous", "match", binary=True)
    assert isinstance(outcome, Scored)
    assert outcome.reason == "unanimous of 4 votes: because 0"
    assert outcome.details == {
        "evidence": 0.0,
        "jury": "unanimous",
        "votes": [
            {"judge": "openai/j0", "repeat": 0, "vote": 1.0, "reason": "because 1"},
            {"judge": "openai/j1", "repeat": 0, "vote": None, "reason": "http_500: the server had an error"},
            {"judge": "openai/j2", "repeat": 0, "vote": 0.0, "reason": "because 0"},
            {"judge": "openai/j3", "repeat": 0, "vote": 0.0, "reason": "because 0"},
        ],
    }


def test_the_vote_nearest_to_a_mean_speaks_for_it():
    outcome = combine(votes(scored(0.0), scored(0.5), scored(0.75)), "mean", "match", binary=False)
    assert isinstance(outcome, Scored)
    assert (outcome.details["evidence"], outcome.reason) == (0.5, "mean of 3 votes: because 0.5")


@pytest.mark.parametrize("jury", JURIES)
def test_a_vote_that_the_budget_forbade_leaves_the_sample_for_a_later_run(jury):
    skipped = Skipped("budget used up: 3 calls (max_calls)")
    assert combine(votes(scored(0.0), skipped, scored(0.0), LOST), jury, "match", binary=True) is skipped


def test_no_number_is_made_where_there_is_nothing_to_judge():
    nothing = Undefined("no facts")
    assert combine(votes(nothing, nothing), "majority", "match", binary=False) is nothing
    half = combine(votes(nothing, scored(1.0)), "majority", "match", binary=False)
    assert half == Failed("missing_votes", "1 of 2 votes are missing; openai/j0: no facts", 2)
    assert isinstance(combine(votes(nothing, LOST), "mean", "match", binary=False), Failed)
    # Three others agree without it.
    most = combine(votes(nothing, *[scored(1.0)] * 3), "majority", "match", binary=True)
    assert most.values == {"match": 1.0, SPREAD: 0.0}
