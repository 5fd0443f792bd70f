"""Verdicts weighed by the log-probabilities of their tokens, from the server's answer to the score."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from answerkey.metrics_core import evaluate
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.judge_metric import check
from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.measurement import Scored
from answerkey.metrics_core.metrics.ground_truth_similarity import GroundTruthSimilarity
from answerkey.metrics_core.metrics.meaning_match import MeaningMatch
from tests.judge_brains import spelled
from tests.judge_server import JudgeServer, Reply, data_of
from tests.metrics_core.judges.asking import failure, number_of, options, rows, samples, setup

Serve = Callable[..., JudgeServer]

pytestmark = pytest.mark.usefixtures("first_call_made")

SURE = {"match": 0.7, "mis": 0.2, "part": 0.06, "multiple": 0.04}


def weighed(instead=SURE, verdict="match"):
    """A judge that is of this opinion with these probabilities; its reason names the verdict as well."""
    said = {"reference": 1} if verdict == "match" else {"reference": None}
    text = json.dumps({"reason": f'a "{verdict}"', **said, "rule": "factual_equivalence", "verdict": verdict})
    return lambda _body: Reply(text, logprobs=spelled(text, {verdict.partition("_")[0]: instead}))


def judged(server, count=1, *, metric="meaning_match", **changes):
    asked = options(server, log_probabilities=True, **changes)
    return evaluate(samples(count), [metric], judge=asked.judge, access=asked.access)


def scored(measurement):
    assert isinstance(measurement.outcome, Scored), measurement
    return measurement.outcome


def test_the_score_is_the_probability_of_a_match_and_it_is_paid_once(judge_server, tmp_path):
    server = judge_server(weighed())
    asked = options(server, log_probabilities=True, ledger=str(tmp_path))
    for from_ledger in (False, True):
        [found] = evaluate(samples(1), ["meaning_match"], judge=asked.judge, access=asked.access)
        outcome = scored(found)
        assert outcome.values == {"match": pytest.approx(0.7)}
        assert outcome.details["verdict"] == "match"
        assert outcome.details["weights"] == {
            "match": 0.7, "mismatch": 0.2, "partial": 0.06, "multiple_alternatives": 0.04,
        }  # fmt: skip
        assert found.from_ledger == from_ledger
    [request] = server.requests
    assert (request.body["logprobs"], request.body["top_logprobs"]) == (True, 5)
    [(stored, reply)] = rows(tmp_path, "weights, reply")
    # Of the reply's tokens, those of the verdict.
    assert [text for text, _ in json.loads(stored)[0]] == ["match", "mis", "part", "multiple"]
    assert json.loads(reply)["verdict"] == "match"


def test_where_it_is_not_asked_for_nothing_changes(judge_server, tmp_path):
    server = judge_server(weighed())
    asked = options(server, ledger=str(tmp_path))
    [found] = evaluate(samples(1), ["meaning_match"], judge=asked.judge, access=asked.access)
    assert (scored(found).values, "weights" in scored(found).details) == ({"match": 1.0}, False)
    assert not {"logprobs", "top_logprobs"} & server.requests[0].body.keys()
    assert rows(tmp_path, "weights") == [(None,)]
    plain, other = (MeaningMatch(judge=JudgeOptions(judges=["openai/m"], log_probabilities=on)) for on in (False, True))
    assert other.signature == plain.signature.replace("|blank:", "|verdicts:weighed|blank:")
    assert [one.fields[0].binary for one in (plain, other)] == [True, False]


def test_what_cannot_be_weighed_is_asked_as_ever():
    on = GroundTruthSimilarity(judge=JudgeOptions(judges=["openai/m"], log_probabilities=True))
    off = GroundTruthSimilarity(judge=JudgeOptions(judges=["openai/m"]))
    assert (on.signature, on.fields) == (off.signature, off.fields)


def test_a_judge_that_was_not_sure_scores_what_its_verdict_is_worth(judge_server):
    [found] = judged(judge_server(weighed({"mis": 0.6, "match": 0.4}, "mismatch")))
    # The token that was said is the whole word, which is no alternative of its own here.
    assert scored(found).values["match"] == pytest.approx(0.2, abs=0.01)


RUBRIC = """\
name: clarity
inputs: [answer]
criterion: The answer is clear.
scale: {scale}
"""


@pytest.mark.parametrize(
    ("scale", "said", "instead", "expected"),
    [
        ("1-5", '"4"', {"4": 0.5, "5": 0.25, "3": 0.25}, 0.75),
        ("0-10", '"10"', {"10": 0.75, "1": 0.25}, 1.0),
        ("yes/no", '"yes"', {"yes": 0.5, "Yes": 0.25, "no": 0.25}, 0.75),
        ("yes/no", "true", {"true": 0.75, "false": 0.25}, 0.75),
        ("{muddled: 0, plain: 0.4, clear: 1}", '"plain"', {"plain": 0.5, "clear": 0.25, "mud": 0.25}, 0.45),
    ],
)
def test_a_judge_of_ones_own_has_the_mean_of_its_scale(scale, said, instead, expected, judge_server, tmp_path):
    (tmp_path / "clarity.yaml").write_text(RUBRIC.format(scale=scale))
    text = f'{{"reason": "so", "verdict": {said}}}'
    server = judge_server(lambda _: Reply(text, logprobs=spelled(text, {said.strip('"'): instead})))
    [found] = judged(server, metric=str(tmp_path / "clarity.yaml"))
    assert scored(found).values == {"score": pytest.approx(expected, abs=1e-6)}


def test_a_server_that_sends_none_is_named_once_and_no_verdict_is_believed(judge_server, tmp_path):
    server = judge_server(lambda body: replace(weighed()(body), logprobs=None))
    found = judged(server, 20, ledger=str(tmp_path))
    # Those in flight when the first answer came.
    assert server.n_requests <= 2
    assert {failure(one).code for one in found} == {"no_log_probabilities"}
    messages = {failure(one).message for one in found}
    assert "its replies come without the log-probabilities of tokens" in messages
    assert messages <= {
        "its replies come without the log-probabilities of tokens",
        "not asked, since the judge is of no use here: its replies come without the log-probabilities of tokens",
    }
    assert {code for (code,) in rows(tmp_path, "code")} == {"no_log_probabilities"}


def test_a_server_that_refuses_to_send_them_is_told_from_one_that_refuses_a_format(judge_server):
    server = judge_server(weighed(), refuse_parameters=["logprobs"])
    [found] = judged(server)
    assert failure(found).code == "no_log_probabilities"
    assert [request.fault for request in server.requests] == ["refused_parameter", None]
    assert server.requests[1].body["response_format"]["type"] == "json_schema"


def test_a_verdict_that_its_log_probabilities_do_not_spell_fails(judge_server):
    text = weighed()({}).text or ""
    for logprobs in (
        # Of another text; and of none of the labels.
        spelled("A match.", {"match": {"match": 0.5, "no": 0.5}}),
        spelled(text.replace('"match"', '"perhaps"'), {"perhaps": {"perhaps": 0.5, "surely": 0.5}}),
    ):
        [found] = judged(judge_server(lambda _, sent=logprobs: Reply(text, logprobs=sent)))
        assert failure(found).code == "no_weights"


def test_probes_are_about_the_nearest_verdict(judge_server):
    def unsure(body):
        right = data_of(body)["answer"].startswith("answer")
        return weighed({"match": 0.55, "mis": 0.45})(body) if right else weighed({"mis": 0.1, "match": 0.1})(body)

    server = judge_server(unsure)
    found = judged(server, 3, probes="always")
    # Every probe is called a match, half of them rightly.
    assert {one.status for one in found} == {"skipped"}
    assert "right on" in (found[0].reason or "") and "of 12 probes" in (found[0].reason or "")

    metric = MeaningMatch(judge=JudgeOptions(judges=["openai/m"], log_probabilities=True))
    for worth, nearest in ((0.0, 0.0), (0.49, 0.0), (0.5, 1.0), (0.93, 1.0)):
        assert metric.rounded(Scored({"match": worth})) == Scored({"match": nearest})


def test_votes_that_are_weighed_are_never_a_tie(judge_server):
    server = judge_server(weighed())
    [found] = judged(server, repeats=2)
    assert scored(found).values == {"match": pytest.approx(0.7), "spread": pytest.approx(0.0)}


def test_a_provider_that_has_none_is_refused_before_anything_is_sent():
    asked = setup("anthropic/claude-sonnet-4-5", log_probabilities=True)
    with pytest.raises(UserError, match="sends no log-probabilities, so its verdicts cannot be weighed; leave"):
        check(asked.judge, "key")
    with pytest.raises(UserError, match="the offline judge sends no log-probabilities"):
        JudgeOptions(log_probabilities=True)


def test_one_answer_without_them_among_others_fails_by_itself(judge_server):
    def forgetful(body):
        said = weighed()(body)
        return replace(said, logprobs=None) if number_of(body) == 3 else said

    server = judge_server(forgetful)
    found = judged(server, 8, concurrency=1)
    assert server.n_requests == 8
    assert [one.status for one in found] == ["scored"] * 3 + ["failed"] + ["scored"] * 4
