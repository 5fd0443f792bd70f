"""Preference: two answers in both orders, before judges over HTTP."""

import json

import pytest

from answerkey.metrics_core import Sample, create
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.judges.probes import known_answers
from answerkey.metrics_core.measurement import Failed
from answerkey.metrics_core.metrics.preference import Preference
from tests.judge_server import JudgeServer, data_of
from tests.metrics_core.judges.asking import options

RIVALS = {"1": "It is Lyon.", "2": "It is Paris.", "3": "Paris", "4": "", "5": "It is Rome."}
SAMPLES = [
    Sample("1", "It is Paris.", ["Paris"], "Capital?"),
    Sample("2", "It is Lyon.", ["Paris"], "Which city?"),
    Sample("3", "paris", ["Paris"], "Capital?"),
    Sample("4", "It is Paris.", ["Paris"], "Capital?"),
    Sample("5", None, ["Paris"], "Capital?"),
    Sample("6", "It is Paris.", ["Paris"], "Capital?"),
    Sample("7", "It is Paris.", ["Paris"]),
]


def say(verdict):
    return json.dumps({"reason": f"I say {verdict}.", "verdict": verdict})


def fair(body):
    """Whoever says Paris."""
    right = ["Paris" in data_of(body)[side] for side in ("first", "second")]
    return say("tie" if right[0] == right[1] else "first" if right[0] else "second")


def judged(server, samples=SAMPLES, **changes):
    asked = options(server, **changes)
    return Preference(judge=asked.judge, access=asked.access, baseline_answers=RIVALS, against="abc").measure(samples)


def test_both_orders_are_asked_and_only_where_there_is_something_to_choose():
    with JudgeServer(fair) as server:
        found = judged(server)
        pairs = [(data_of(one.body)["first"], data_of(one.body)["second"]) for one in server.requests]
        assert data_of(server.requests[0].body).keys() == {"question", "references", "first", "second"}
    lyon, paris = "It is Lyon.", "It is Paris."
    assert sorted(pairs) == [(lyon, paris), (lyon, paris), (paris, lyon), (paris, lyon)]
    assert [one.values.get("preferred") for one in found] == [1.0, 0.0, 0.5, 1.0, 0.0, None, None]
    assert [one.reason for one in found[2:]] == [
        "both answers are the same", "the baseline's answer is blank", "blank answer",
        "the baseline has no answer to this question", "no question: it is missing or blank",
    ]  # fmt: skip
    assert dict(found[1].details) == {"verdict": "baseline preferred"}
    assert "|against:abc|blank:zero" in found[0].signature


def test_a_judge_that_prefers_the_worse_answers_is_stopped_and_so_is_one_that_the_order_sways():
    pairs = known_answers("preference").items()
    better = {probe.sample.question: probe.sample.answer if probe.most == 1 else other for probe, other in pairs}

    def brain(right, wrong):
        def choose(body):
            data = data_of(body)
            return say(right if better.get(data["question"], "It is Paris.") == data["first"] else wrong)

        return choose

    with JudgeServer(brain("first", "second")) as server:
        found = judged(server, SAMPLES[:2], probes="always")
        assert [one.values["preferred"] for one in found] == [1.0, 0.0]
        assert server.n_requests == 2 * len(pairs) + 4
    with JudgeServer(brain("second", "first")) as server:
        found = judged(server, SAMPLES[:2], probes="always")
        assert server.n_requests == 2 * len(pairs)
    for one in found:
        assert "judge stopped" in str(one.outcome)
        assert f"was right on 0 of {len(pairs)} probes" in str(one.outcome)
    with JudgeServer(lambda _body: say("first")) as server:
        found = judged(server, SAMPLES[:2], probes="always")
        assert server.n_requests == 2 * len(pairs)
    for one in found:
        assert f"gave no verdict on {len(pairs)} of {len(pairs)} probes; the first: order_decided" in str(one.outcome)


def test_what_is_set_is_sent():
    with JudgeServer(fair) as server:
        judged(server, SAMPLES[:1], temperature=0.7, max_tokens=300, reasoning_effort="low")
        judged(server, SAMPLES[:1])
        sent = [(one.body["temperature"], one.body["max_tokens"]) for one in server.requests]
        assert [one.body.get("reasoning_effort") for one in server.requests] == ["low", "low", None, None]
    assert sent == [(0.7, 300)] * 2 + [(0.0, 1_024)] * 2


@pytest.mark.parametrize(
    ("verdicts", "why"),
    [
        ({"It is Paris.": "first", "It is Lyon.": "first"}, "the answer shown first was preferred in both orders"),
        ({"It is Paris.": "second", "It is Lyon.": "second"}, "the answer shown second was preferred in both orders"),
        ({"It is Paris.": "tie", "It is Lyon.": "second"}, "a tie in one order only"),
    ],
)
def test_a_pair_that_the_order_decides_has_no_number(verdicts, why):
    with JudgeServer(lambda body: say(verdicts[data_of(body)["first"]])) as server:
        [found] = judged(server, SAMPLES[:1])
    assert found.outcome == Failed("order_decided", why, 2)


def test_a_judge_that_cannot_be_read_in_one_order_fails():
    def half(body):
        return say("first") if data_of(body)["first"] == "It is Paris." else "Whichever."

    with JudgeServer(half) as server:
        [found] = judged(server, SAMPLES[:1])
    assert isinstance(found.outcome, Failed)


def test_repeats_have_a_spread():
    with JudgeServer(fair) as server:
        found = judged(server, SAMPLES[:3], repeats=3)
    assert [found[place].values["spread"] for place in (0, 2)] == [0.0, 0.0]
    assert [one.values["preferred"] for one in found] == [1.0, 0.0, 0.5]


def test_it_goes_by_its_name_and_needs_a_language_model():
    [metric] = create(["better=preference"])
    assert (metric.name, metric.target, metric.headline) == ("better", "preference", "preferred")
    with pytest.raises(UserError, match="preference: the offline judge cannot judge this"):
        create(["preference"], {"judge": JudgeOptions()})
