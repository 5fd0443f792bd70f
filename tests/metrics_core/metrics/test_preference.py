"""Preference: two answers in both orders, before judges over HTTP."""

import json

import pytest

from answerkey import Sample, create
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.check import checked
from answerkey.metrics_core.judges.known_answer import shipped
from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.metrics.preference import Preference
from tests.judge_server import data_of
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
    metric = Preference(judge=asked.judge, access=asked.access, baseline_answers=RIVALS, against="abc")
    return checked(metric, samples).measure(samples)


def test_both_orders_are_asked_and_only_where_there_is_something_to_choose(judge_server):
    server = judge_server(fair)
    found = judged(server)
    data = [data_of(one.body) for one in server.requests]
    assert data[0].keys() == {"question", "references", "first", "second"}
    lyon, paris = "It is Lyon.", "It is Paris."
    assert sorted((one["first"], one["second"]) for one in data) == [(lyon, paris)] * 2 + [(paris, lyon)] * 2
    assert [one.values.get("preferred") for one in found] == [1.0, 0.0, 0.5, 1.0, 0.0, None, None]
    assert [one.reason for one in found[2:]] == [
        "both answers are the same", "the baseline's answer is blank", "blank answer",
        "the baseline has no answer to this question", "no question: it is missing or blank",
    ]  # fmt: skip
    assert dict(found[1].details) == {"verdict": "baseline preferred"}
    assert "|against:abc|blank:zero" in found[0].signature


PAIRS = shipped("preference").items()
BETTER = {known.sample.question: known.sample.answer if known.most == 1 else other for known, other in PAIRS}


def choosing(better, worse):
    """A judge that says `better` where the better answer is shown first, else `worse`."""

    def brain(body):
        data = data_of(body)
        return say(better if BETTER.get(data["question"], "It is Paris.") == data["first"] else worse)

    return brain


@pytest.mark.parametrize(
    ("brain", "why"),
    [
        (choosing("first", "second"), None),
        (choosing("second", "first"), f"was right on 0 of {len(PAIRS) // 2} questions"),
        (choosing("first", "first"), f"no verdict on {len(PAIRS)} of {len(PAIRS)} questions; the first: order_decided"),
    ],
    ids=["good", "worse", "swayed by the order"],
)
def test_a_judge_that_prefers_the_worse_answers_or_that_the_order_sways_is_stopped(brain, why, judge_server):
    server = judge_server(brain)
    found = judged(server, SAMPLES[:2], check="always")
    assert server.n_requests == 2 * len(PAIRS) + (0 if why else 4)
    if why:
        assert all("judge stopped" in entry.reason and why in entry.reason for entry in found)
    else:
        assert [entry.values["preferred"] for entry in found] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("verdicts", "why"),
    [
        (("first", "first"), "order_decided: the answer shown first was preferred in both orders"),
        (("second", "second"), "order_decided: the answer shown second was preferred in both orders"),
        (("tie", "second"), "order_decided: a tie in one order only"),
        (("first", "whichever"), "unreadable: "),
    ],
)
def test_a_pair_that_the_order_decides_or_a_verdict_that_cannot_be_read_has_no_number(verdicts, why, judge_server):
    by_first = dict(zip(("It is Paris.", "It is Lyon."), verdicts, strict=True))
    [measurement] = judged(judge_server(lambda body: say(by_first[data_of(body)["first"]])), SAMPLES[:1])
    assert measurement.status == "failed"
    assert measurement.reason.startswith(why)


def test_repeats_have_a_spread(judge_server):
    found = judged(judge_server(fair), SAMPLES[:3], repeats=3)
    assert [entry.values.get("spread") for entry in found] == [0.0] * 3
    assert [entry.values["preferred"] for entry in found] == [1.0, 0.0, 0.5]


def test_it_goes_by_its_name_and_needs_a_language_model():
    [metric] = create(["better=preference"])
    assert (metric.name, metric.target, metric.headline) == ("better", "preference", "preferred")
    with pytest.raises(UserError, match="preference: the offline judge cannot judge this"):
        create(["preference"], {"judge": JudgeOptions()})
