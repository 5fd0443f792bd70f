"""A second opinion: a verdict of a language model with which the offline judge disagrees is no number."""

import json
from collections.abc import Callable

import pytest

from answerkey.metrics_core import Sample, evaluate
from tests.judge_server import JudgeServer, agreeable
from tests.metrics_core.judges.asking import match, options

Serve = Callable[..., JudgeServer]
WRONG = Sample("wrong", "The capital is Bergen.", ["Oslo"], "Capital of Norway?")
RIGHT = Sample("right", "The capital is Oslo.", ["Oslo"], "Capital of Norway?")


def judged(server, *samples, metric="meaning_match", **changes):
    asked = options(server, **changes)
    return evaluate(samples, [metric], judge=asked.judge, access=asked.access)


def mismatch(_body):
    return json.dumps({"reason": "no", "reference": None, "rule": "factual_equivalence", "verdict": "mismatch"})


@pytest.mark.parametrize(("brain", "statuses"), [(match, ["failed", "scored"]), (mismatch, ["scored", "failed"])])
def test_where_the_offline_judge_disagrees_the_answer_is_disputed(judge_server, brain, statuses):
    found = judged(judge_server(brain), WRONG, RIGHT, second_opinion="always")
    assert [one.status for one in found] == statuses
    [disputed] = [one.reason or "" for one in found if one.status == "failed"]
    verdicts = ["match", "mismatch"] if brain is match else ["mismatch", "match"]
    assert disputed.startswith(f"disputed: the judge says {verdicts[0]} (")
    assert f"and the offline judge {verdicts[1]}, with a probability of 0." in disputed or "of 1." in disputed
    assert "|second:offline@" in found[0].signature


def test_it_is_not_asked_unless_that_is_wanted(judge_server):
    found = judged(judge_server(match), WRONG, RIGHT)
    assert [(one.values["match"], "|second:" in one.signature) for one in found] == [(1.0, False)] * 2


def test_a_metric_that_it_cannot_check_is_left_alone(judge_server):
    found = judged(judge_server(agreeable), WRONG, metric="faithfulness", second_opinion="always")
    assert "|second:" not in found[0].signature


def test_units_that_differ_in_case_alone_are_left_to_the_judge(judge_server):
    pairs = [("10 mg", "10 Mg"), ("2 MW", "2 mW"), ("5 Mb", "5 MB")]
    found = judged(
        judge_server(mismatch),
        *(Sample(answer, answer, [reference], "How much is it?") for answer, reference in pairs),
        second_opinion="always",
    )
    assert [one.values for one in found] == [{"match": 0.0}] * 3
