"""What a judge is sent beside the question, what its signature says of that, and who answers where it fails."""

from collections.abc import Callable

import pytest

from answerkey.metrics_core import Sample
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.judge_metric import check
from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.measurement import Scored
from answerkey.metrics_core.metrics.ground_truth_similarity import GroundTruthSimilarity
from answerkey.metrics_core.metrics.meaning_match import MeaningMatch
from tests.judge_server import JudgeServer, agreeable
from tests.metrics_core.judges.asking import always, ask, failure, match, options, rows, samples, setup

Serve = Callable[..., JudgeServer]

pytestmark = pytest.mark.usefixtures("first_call_made")


def signature(*judges, **changes):
    """The part that says how judges are asked, of meaning match."""
    return MeaningMatch(judge=JudgeOptions(judges=judges, **changes)).signature.partition("|parser:1")[2]


@pytest.mark.parametrize(
    ("judges", "changes", "expected"),
    [
        (["openai/gpt-4o-mini"], {}, "|t:0|seed:0|blank:zero"),
        (["openai/a-model-of-our-own@http://127.0.0.1:1/v1"], {}, "|t:0|seed:0|blank:zero"),
        (["nobody/x"], {}, "|t:0|seed:0|blank:zero"),
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
    assert signature(*judges, **changes) == expected


def test_what_is_set_is_sent(judge_server, tmp_path):
    server = judge_server(match)
    ask(samples(1), options(server, temperature=0.7, max_tokens=300, reasoning_effort="low", ledger=str(tmp_path)))
    sent = server.requests[0].body
    assert (sent["temperature"], sent["max_tokens"], sent["reasoning_effort"], sent["seed"]) == (0.7, 300, "low", 0)
    server.reset()
    ask(samples(1), options(server))
    sent = server.requests[0].body
    assert (sent["temperature"], sent["max_tokens"], sent.get("reasoning_effort")) == (0.0, 1_024, None)


def test_what_is_asked_otherwise_is_another_question(judge_server, tmp_path):
    server = judge_server(match)
    for changes in ({}, {"temperature": 0.5}, {"max_tokens": 99}, {"reasoning_effort": "high"}, {}):
        ask(samples(1), options(server, "openai/gpt-9-of-ours", ledger=str(tmp_path), **changes))
    assert server.n_requests == 4


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


# Fallbacks


def failing(server, other, tmp_path, **changes):
    return setup(
        f"openai/first@{server.url}", fallbacks=(f"openai/second@{other.url}",), ledger=str(tmp_path), **changes
    )


def test_a_fallback_answers_what_the_judge_failed_on_for_good(judge_server, tmp_path):
    first = judge_server(match, faults=lambda number, _body: "content_filter" if number % 2 else None)
    second = judge_server(match)
    found = ask(samples(8), failing(first, second, tmp_path, concurrency=1))
    assert [one.status for one in found] == ["scored"] * 8
    label = f"openai/second@127.0.0.1:{second.port}/v1"
    details = [one.outcome.details.get("answered_by") for one in found if isinstance(one.outcome, Scored)]
    assert sorted(details, key=str) == [None] * 4 + [label] * 4
    # Each answer stands in the ledger under the model that gave it.
    written = rows(tmp_path, "judge, status")
    assert written.count((label, "usable")) == second.n_requests == 4
    assert first.n_requests == 8


def test_a_fallback_is_not_asked_while_the_judge_may_still_answer(judge_server, tmp_path):
    first = judge_server(match, faults=lambda number, _body: "error_500" if number < 2 else None)
    second = judge_server(match)
    found = ask(samples(1), failing(first, second, tmp_path))
    assert (found[0].status, first.n_requests, second.n_requests) == ("scored", 3, 0)


def test_where_all_fail_each_is_heard(judge_server, tmp_path):
    first = judge_server(match, faults=always("content_filter"))
    second = judge_server(match, faults=always("context"))
    [found] = ask(samples(1), failing(first, second, tmp_path))
    assert failure(found).code == "content_filter"
    assert f"; openai/second@127.0.0.1:{second.port}/v1: too_long: " in failure(found).message


def test_a_fallback_takes_references_apart_itself(judge_server, tmp_path):
    first, second = judge_server(agreeable, faults=always("unauthorized")), judge_server(agreeable)
    metric = failing(first, second, tmp_path).metric(GroundTruthSimilarity)
    [found] = metric.measure([Sample("s", "It is Paris.", ["It is Paris, of course."], "What is it?")])
    assert (found.status, second.n_requests) == ("scored", 2)


def test_the_one_reply_of_a_fallback_is_one_vote(judge_server, tmp_path):
    down, other = judge_server(match, faults=always("unauthorized")), judge_server(match)
    [url, there] = [down.url, other.url]

    def asked_of(*judges, **changes):
        asked = setup(*judges, fallbacks=(f"openai/c@{there}",), ledger=str(tmp_path), **changes)
        [found] = ask(samples(1), asked)
        return found

    a, b, d = f"openai/a@{url}", f"openai/b@{url}", f"openai/d@{there}"
    alone = failure(asked_of(a, b))
    assert alone.code == "missing_votes"
    assert alone.message == (
        f"1 of 2 votes are missing; openai/c@127.0.0.1:{other.port}/v1: fallback_voted: the fallback has given its "
        "vote for another judge"
    )
    assert other.n_requests == 1
    # Two of three judges say yes: the fallback, once, and the one that is there.
    found = asked_of(a, b, d)
    assert found.values["match"] == 1.0
    assert [vote["vote"] for vote in found.details["votes"]] == [1.0, None, 1.0]
    # Each repeat is a reply of its own.
    assert asked_of(a, repeats=3).values["match"] == 1.0


def test_each_judge_that_is_down_has_a_fallback_of_its_own(judge_server, tmp_path):
    down, other = judge_server(match, faults=always("unauthorized")), judge_server(match)
    silent, last = judge_server(match, faults=always("content_filter")), judge_server(match)
    judges, (c, x, e) = [f"openai/{name}@{down.url}" for name in "ab"], (
        f"openai/{name}@{server.url}" for name, server in (("c", other), ("x", silent), ("e", last))
    )  # fmt: skip
    asked = setup(*judges, fallbacks=(c, x, e), ledger=str(tmp_path))
    for _ in range(2):
        [found] = ask(samples(1), asked)
        assert found.values == {"match": 1.0, "spread": 0.0}
        assert [(vote["judge"].partition("@")[0], vote["vote"]) for vote in found.details["votes"]] == [
            ("openai/c", 1.0), ("openai/e", 1.0),
        ]  # fmt: skip
    assert (other.n_requests, last.n_requests) == (1, 1)


@pytest.mark.parametrize("fallbacks", [("openai/a",), ("offline",), ("openai/b", "openai/b")])
def test_a_fallback_is_another_model(fallbacks):
    with pytest.raises(
        UserError, match="a fallback is a language model that is not a judge already, and is named once"
    ):
        JudgeOptions(judges=("openai/a",), fallbacks=fallbacks)
