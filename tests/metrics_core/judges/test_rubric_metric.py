"""Rubrics as metrics: over HTTP, with a judge that knows what is polite."""

import json
import pickle
from pathlib import Path

import pytest

from answerkey.metrics_core import Sample, create, evaluate
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.rubric import RubricMetric
from answerkey.metrics_core.measurement import Failed, Skipped, Undefined
from tests.judge_server import JudgeServer, data_of
from tests.metrics_core.judges.asking import count, options

RUBRIC = """\
name: politeness
inputs: [question, answer]
field: polite
criterion: The answer is polite.
scale: {rude: 0, plain: 0.5, polite: 1}
examples:
  - {question: Q, answer: Go away., verdict: rude}
  - {question: Q, answer: Gladly., verdict: polite}
"""
SAMPLES = [
    Sample("1", "Please sit down.", question="Where?"),
    Sample("2", "Sit down, fool.", question="Where?"),
    Sample("3", "There.", question="Where?"),
    Sample("4", " ", question="Where?"),
    Sample("5", "There.", question=None),
]


def brain(body):
    said = data_of(body)["answer"]
    verdict = (
        "polite" if "Please" in said or "Gladly" in said else "rude" if "fool" in said or "away" in said else "plain"
    )
    return json.dumps({"reason": f"{said} is {verdict}", "verdict": verdict})


@pytest.fixture
def rubric(tmp_path):
    file = tmp_path / "politeness.yaml"
    file.write_text(RUBRIC)
    return str(file)


def test_a_rubric_is_a_metric_and_its_replies_are_paid_once(rubric, tmp_path):
    with JudgeServer(brain) as server:
        asked = options(server, ledger=str(tmp_path))._asdict()
        found = evaluate(SAMPLES, [rubric], **asked)
        again = evaluate(SAMPLES, [f"manners={rubric}"], **asked)
        assert server.n_requests == count(tmp_path) == 3
    assert [dict(one.values) for one in found] == [
        {"polite": 1.0}, {"polite": 0.0}, {"polite": 0.5}, {"polite": 0.0}, {},
    ]  # fmt: skip
    assert [one.outcome for one in again] == [one.outcome for one in found]
    assert isinstance(found[4].outcome, Undefined)
    assert (found[0].reason, dict(found[0].details)) == ("Please sit down. is polite", {"verdict": "polite"})
    assert found[0].signature.startswith("politeness|v1|judge:openai/judge-")
    assert found[0].signature.endswith("|scale:plain=0.5,polite=1,rude=0|blank:zero")
    assert again[0].metric == "manners"


def test_only_what_the_rubric_is_about_is_sent(rubric):
    sample = Sample("id-7", "Please.", ["the reference"], "Where?", ["a fact"], context=["a passage"])
    with JudgeServer(brain) as server:
        evaluate([sample], [rubric], **options(server)._asdict())
        [request] = server.requests
    assert data_of(request.body) == {"question": "Where?", "answer": "Please."}


def test_a_rubric_about_the_context_is_undefined_where_there_is_none():
    with JudgeServer(lambda _body: '{"reason": "so", "verdict": "yes"}') as server:
        samples = [Sample("1", "A", question="Q", context=["C", " "]), Sample("2", "A", question="Q")]
        found = evaluate(samples, ["faithfulness"], **options(server)._asdict())
        [request] = server.requests
    assert [one.status for one in found] == ["scored", "undefined"]
    assert found[1].reason == "no context: every passage is missing or blank"
    assert data_of(request.body)["context"] == ["C"]


def test_a_jury_a_budget_and_an_unreadable_judge_are_as_for_every_judge(rubric):
    with JudgeServer(brain) as server:
        limited = evaluate(SAMPLES[:3], [rubric], **options(server, max_calls=1)._asdict())
        assert sum(isinstance(one.outcome, Skipped) for one in limited) == 2
    with JudgeServer(lambda _body: "I would say that it is polite.") as server:
        [failed] = evaluate(SAMPLES[:1], [rubric], **options(server)._asdict())
        assert isinstance(failed.outcome, Failed)
        assert server.n_requests == 2  # one repair


def test_the_version_and_the_values_are_in_the_signature_and_only_what_is_sent_is_asked_anew(rubric, tmp_path):
    file = Path(rubric)
    with JudgeServer(brain) as server:
        asked = options(server, ledger=str(tmp_path))._asdict()
        signatures = []
        for text in (RUBRIC, RUBRIC.replace("plain: 0.5", "plain: 0.7"), f"version: 2\n{RUBRIC}"):
            file.write_text(text)
            signatures += [one.signature for one in evaluate(SAMPLES[:1], [rubric], **asked)]
            assert server.n_requests == 1
        file.write_text(RUBRIC.replace("is polite", "is kind"))
        signatures += [one.signature for one in evaluate(SAMPLES[:1], [rubric], **asked)]
        assert server.n_requests == 2
    assert len(set(signatures)) == 4


def test_the_examples_are_its_probes(rubric):
    [metric] = create([rubric])
    assert isinstance(metric, RubricMetric)
    assert [(one.sample.answer, one.least, one.most) for one in metric.probes] == [
        ("Go away.", 0.0, 0.0), ("Gladly.", 1.0, 1.0),
    ]  # fmt: skip


def test_it_travels_without_its_file(rubric):
    [metric] = create([f"nice={rubric}"])
    sent = pickle.dumps(metric)
    Path(rubric).unlink()
    assert pickle.loads(sent) == metric
    assert (metric.spec, metric.summary) == (f"nice={rubric}", "a judge: The answer is polite.")


def test_the_offline_judge_knows_no_rubrics():
    with pytest.raises(UserError, match="politeness: the offline judge cannot judge this; name a language model"):
        evaluate(SAMPLES, ["politeness"])


def test_a_name_of_a_metric_is_not_taken_over(tmp_path):
    file = tmp_path / "x.yaml"
    file.write_text(RUBRIC.replace("politeness", "contains"))
    with pytest.raises(UserError, match="contains is the name of another metric"):
        create([str(file)])
    with pytest.raises(UserError, match="metric 'politenes' is not known: did you mean politeness"):
        create(["politenes"])
