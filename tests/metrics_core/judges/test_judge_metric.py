"""Metrics that ask judges: what is sent and signed, who answers where one fails, how votes become one outcome."""

import json
import unicodedata
from itertools import product
from statistics import fmean, median
from typing import get_args

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from answerkey import METRICS, JudgeOptions, Sample, Scored, create
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.judge_metric import check
from answerkey.metrics_core.judges.options import Jury
from answerkey.metrics_core.judges.votes import SPREAD, Vote, combine
from answerkey.metrics_core.measurement import Failed, Skipped, Undefined
from answerkey.metrics_core.metrics.ground_truth_similarity import GroundTruthSimilarity
from answerkey.metrics_core.metrics.meaning_match import MeaningMatch
from answerkey.metrics_core.text import is_blank, normalise
from tests.judge_server import agreeable
from tests.metrics_core.judges.asking import always, ask, failure, match, mismatch, options, rows, samples, setup
from tests.metrics_core.test_laws import MEANINGFUL, SCRIPTS, WHITE, cases

# The laws of all metrics. The judge is at an address where nothing listens: a sample that needed it would be no score.

JUDGED = [name for name, info in METRICS.items() if info.kind == "judge"]
NOBODY = "@http://127.0.0.1:9/v1"
ALONE = JudgeOptions(judges=(f"openai/m{NOBODY}",))
JURY = JudgeOptions(judges=(f"openai/m{NOBODY}", f"openai/n{NOBODY}"), jury="mean", repeats=2)

in_every_script = pytest.mark.parametrize("script", SCRIPTS)


def measured(answer, references):
    """Each metric, alone and with a jury, and its measurement."""
    for judge in (ALONE, JURY):
        for metric in create(JUDGED, dict(judge=judge)):
            yield metric, metric.measure([Sample("1", answer, references, "?")])[0]


@in_every_script
@settings(max_examples=20)
@given(data=st.data(), before=WHITE, after=WHITE)
def test_a_text_against_itself_scores_one_and_asks_no_judge(script, data, before, after):
    assert JUDGED == ["meaning_match", "ground_truth_similarity"]
    text, others = data.draw(cases(SCRIPTS[script]))
    assume(not is_blank(text))
    for form in ("NFC", "NFD"):
        for _, one in measured(before + unicodedata.normalize(form, text) + after, [*others, text]):
            expected = {name: 0.0 if name == "spread" else 1.0 for name in one.values}
            assert (one.status, one.values, one.requests) == ("scored", expected, ())
            assert normalise([*others, text][one.details["reference"]]) == normalise(text)


@pytest.mark.parametrize(("said", "other"), MEANINGFUL)
@settings(max_examples=8)
@given(data=st.data())
@example(data=None)
def test_what_differs_in_a_negation_a_number_or_a_sign_is_for_the_judge(said, other, data):
    word = st.text(st.one_of([SCRIPTS[name] for name in SCRIPTS if name != "anything"]), max_size=4)
    before, after = (data.draw(word), data.draw(word)) if data else ("", "Paris")
    full, changed = f"{before} {said} {after}", f"{before} {other} {after}"
    assume(not is_blank(changed))
    for metric in create(JUDGED, dict(judge=ALONE)):
        for answer, reference in ((full, changed), (changed, full)):
            assert metric.without_judge(Sample("1", answer, [reference], "?")) is None


@pytest.mark.parametrize(
    ("answer", "reference", "asked"),
    [
        ("10 mg", "10 Mg", True), ("mW", "MW", True), ("US", "us", True), ("AIDS", "aids", True),
        ("OSLO", "Oslo", False), ("it is  Oslo", "It is Oslo", False), ("mW", "mW", False),
    ],
)  # fmt: skip
def test_a_case_that_may_mean_something_is_asked_about(answer, reference, asked, judge_server):
    server = judge_server(mismatch)
    sample = Sample("1", answer, [reference], "Which is it?")
    [found] = ask([sample], options(server))
    assert (server.n_requests, found.values["match"]) == ((1, 0.0) if asked else (0, 1.0))
    [offline] = MeaningMatch().measure([sample])
    assert offline.values["match"] == 1.0
    ask([Sample("2", answer, [reference, answer], "Which is it?")], options(server))
    assert server.n_requests == int(asked), "one of the references has the same case"


# What a judge is sent beside the question.


@pytest.mark.parametrize(
    ("judges", "changes", "expected"),
    [
        (["openai/gpt-4o-mini"], {}, "|t:0|seed:0|blank:zero"),
        (["openai/a-model-of-our-own@http://127.0.0.1:1/v1"], {}, "|t:0|seed:0|blank:zero"),
        # litellm's tables: no temperature; no seed; neither.
        (["openai/gpt-5"], {}, "|seed:0|blank:zero"),
        (["anthropic/claude-sonnet-4-5"], {}, "|t:0|blank:zero"),
        (["anthropic/claude-opus-4-7"], {}, "|blank:zero"),
        (["openai/gpt-5", "openai/gpt-4o-mini"], {}, "|t:-,0|seed:0|jury:majority|repeats:1|blank:zero"),
        (["openai/gpt-4o-mini"], {"temperature": 0.7}, "|t:0.7|seed:0|blank:zero"),
        (["openai/gpt-4o-mini"], {"max_tokens": 4_096}, "|t:0|seed:0|max_tokens:4096|blank:zero"),
        (["openai/gpt-5"], {"reasoning_effort": "low"}, "|seed:0|effort:low|blank:zero"),
        (
            ["openai/gpt-4o-mini"],
            {"fallbacks": ["openai/gpt-5", "openai/q@http://h:1/v1"]},
            "|t:0|seed:0|else:openai/gpt-5,openai/q@h:1/v1|blank:zero",
        ),
    ],
)
def test_the_signature_says_what_is_sent(judges, changes, expected):
    signature = MeaningMatch(judge=JudgeOptions(judges=judges, **changes)).signature
    assert signature.partition("|parser:2")[2] == expected


def test_what_is_set_is_sent_and_is_another_question(judge_server, tmp_path):
    server = judge_server(match)
    settings = (
        {}, {"temperature": 0.5}, {"max_tokens": 99}, {"reasoning_effort": "high"}, {},
    )  # fmt: skip
    for changes in settings:
        ask(samples(1), options(server, "openai/gpt-9-of-ours", ledger=str(tmp_path), **changes))
    names = ("temperature", "max_tokens", "reasoning_effort", "seed")
    assert [tuple(request.body.get(name) for name in names) for request in server.requests] == [
        (0.0, 1_024, None, 0), (0.5, 1_024, None, 0), (0.0, 99, None, 0), (0.0, 1_024, "high", 0),
    ]  # fmt: skip
    asked = server.requests[0].body["response_format"]
    assert (asked["type"], asked["json_schema"]["strict"]) == ("json_schema", True)
    assert asked["json_schema"]["schema"]["additionalProperties"] is False
    assert set(rows(tmp_path, "format, status")) == {("json_schema", "usable")}


@pytest.mark.parametrize("provider", ["openai", "openrouter", "mistral"])
def test_headers_and_fields_of_the_body_arrive_and_are_another_question(judge_server, tmp_path, monkeypatch, provider):
    secret = "a-secret-of-the-gateway-77ab"
    monkeypatch.setenv("GATEWAY_TOKEN", f"{secret}\n")
    # It repeats what it was sent, once in an error and then in its reply.
    reply = json.dumps({**json.loads(match(None)), "reason": f"sent with {secret}"})
    server = judge_server(lambda _body: reply)
    extras = {
        "extra_headers": ["X-Via=nightly, all", "X-Gateway=env:GATEWAY_TOKEN"],
        "extra_body": {"provider": {"order": ["azure"]}},
    }
    some = samples(1)
    for changes in ({}, extras, {**extras, "extra_headers": ["X-Via=weekly"]}, extras):
        [judged] = ask(some, options(server, f"{provider}/m-of-ours", ledger=str(tmp_path), **changes))
        assert judged.values == {"match": 1.0}
    assert [
        (*(request.headers.get(name) for name in ("x-via", "x-gateway")), request.body.get("provider"))
        for request in server.requests
    ] == [
        (None, None, None),
        ("nightly, all", secret, {"order": ["azure"]}),
        ("weekly", None, {"order": ["azure"]}),
    ]
    assert judged.from_ledger and judged.reason == "sent with ***"
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"nightly" not in stored and secret.encode() not in stored


def test_a_variable_of_a_header_must_be_set(judge_server, monkeypatch):
    monkeypatch.delenv("GATEWAY_TOKEN", raising=False)
    server = judge_server(match)
    with pytest.raises(UserError, match=r"header X-G: export GATEWAY_TOKEN=\.\.\. where the run"):
        ask(samples(1), options(server, extra_headers=["X-G=env:GATEWAY_TOKEN"]))
    assert server.n_requests == 0


@pytest.mark.parametrize(
    ("judge", "changes", "message"),
    [
        ("anthropic/claude-sonnet-4-5", {"repeats": 3}, "takes no seed, so its repeats would be one question; set a"),
        ("anthropic/claude-opus-4-7", {"repeats": 3}, "takes no seed, .*; ask several judges instead"),
        ("openai/gpt-5", {"temperature": 0.7}, "judge openai/gpt-5 takes no temperature; leave it at 0"),
        ("openai/gpt-4o-mini", {"reasoning_effort": "low"}, "takes no reasoning effort; leave it at default"),
    ],
)
def test_what_would_not_reach_a_judge_is_refused(judge, changes, message):
    with pytest.raises(UserError, match=message):
        check(JudgeOptions(judges=(judge,), **changes), "a-key")


def test_repeats_of_a_judge_without_a_seed_are_drawn_at_a_temperature():
    check(JudgeOptions(judges=("anthropic/claude-sonnet-4-5",), repeats=3, temperature=0.7), "a-key")


# Fallbacks.


def with_fallback(server, other, **changes):
    return setup(f"openai/first@{server.url}", fallbacks=(f"openai/second@{other.url}",), **changes)


def test_a_fallback_answers_what_the_judge_failed_on_for_good(judge_server, tmp_path):
    first = judge_server(match, faults=lambda number, _body: "content_filter" if number % 2 else None)
    second = judge_server(match)
    found = ask(samples(8), with_fallback(first, second, ledger=str(tmp_path), concurrency=1))
    assert [one.status for one in found] == ["scored"] * 8
    label = f"openai/second@127.0.0.1:{second.port}/v1"
    assert sorted((one.details.get("answered_by") for one in found), key=str) == [None] * 4 + [label] * 4
    # Each answer stands in the ledger under the model that gave it.
    assert rows(tmp_path, "judge, status").count((label, "usable")) == second.n_requests == 4
    assert first.n_requests == 8


def test_a_fallback_is_not_asked_while_the_judge_may_still_answer(judge_server):
    first = judge_server(match, faults=lambda number, _body: "error_500" if number < 2 else None)
    second = judge_server(match)
    [found] = ask(samples(1), with_fallback(first, second))
    assert (found.status, first.n_requests, second.n_requests) == ("scored", 3, 0)


def test_where_all_fail_each_is_heard(judge_server):
    first = judge_server(match, faults=always("content_filter"))
    second = judge_server(match, faults=always("context"))
    [found] = ask(samples(1), with_fallback(first, second))
    assert failure(found).code == "content_filter"
    assert f"; openai/second@127.0.0.1:{second.port}/v1: too_long: " in failure(found).message


def test_a_fallback_takes_references_apart_itself(judge_server):
    first, second = judge_server(agreeable, faults=always("unauthorized")), judge_server(agreeable)
    metric = with_fallback(first, second).metric(GroundTruthSimilarity)
    [found] = metric.measure([Sample("s", "It is Paris.", ["It is Paris, of course."], "What is it?")])
    assert (found.status, second.n_requests) == ("scored", 2)


def test_the_one_reply_of_a_fallback_is_one_vote(judge_server, tmp_path):
    down, other = judge_server(match, faults=always("unauthorized")), judge_server(match)
    a, b, d = f"openai/a@{down.url}", f"openai/b@{down.url}", f"openai/d@{other.url}"

    def asked_of(*judges, **changes):
        fallbacks = (f"openai/c@{other.url}",)
        [found] = ask(samples(1), setup(*judges, fallbacks=fallbacks, ledger=str(tmp_path), **changes))
        return found

    alone = failure(asked_of(a, b))
    assert (alone.code, alone.message) == (
        "missing_votes",
        f"1 of 2 votes are missing; openai/c@127.0.0.1:{other.port}/v1: fallback_voted: the fallback has given its "
        "vote for another judge",
    )
    assert other.n_requests == 1
    # Two of three judges say yes: the fallback, once, and the one that is there.
    found = asked_of(a, b, d)
    assert found.values["match"] == 1.0
    assert [vote["vote"] for vote in found.details["votes"]] == [1.0, None, 1.0]
    # Each repeat is a reply of its own.
    assert asked_of(a, repeats=3).values["match"] == 1.0


def test_each_judge_that_is_down_has_a_fallback_of_its_own(judge_server, tmp_path):
    down, silent = (judge_server(match, faults=always(kind)) for kind in ("unauthorized", "content_filter"))
    other, last = judge_server(match), judge_server(match)
    fallbacks = tuple(f"openai/{name}@{server.url}" for name, server in (("c", other), ("x", silent), ("e", last)))
    asked = setup(*(f"openai/{name}@{down.url}" for name in "ab"), fallbacks=fallbacks, ledger=str(tmp_path))
    for _ in range(2):
        [found] = ask(samples(1), asked)
        assert found.values == {"match": 1.0, "spread": 0.0}
        assert [(vote["judge"].partition("@")[0], vote["vote"]) for vote in found.details["votes"]] == [
            ("openai/c", 1.0), ("openai/e", 1.0),
        ]  # fmt: skip
    assert (other.n_requests, last.n_requests) == (1, 1)


# Votes become one outcome: all small cases against the definition in its plainest form, and the rest by properties.


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
