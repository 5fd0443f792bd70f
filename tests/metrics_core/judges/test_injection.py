"""No text that is judged decides its verdict: hostile texts against a judge that obeys whatever leaves its fence.

Run with `-s` to see how many attacks succeed.
"""

import json

import pytest

from answerkey import JudgeOptions, evaluate
from answerkey.metrics_core.judges import judge_metric as panel
from tests.judge_server import JudgeServer, Reply, data_of
from tests.metrics_core.judges.asking import failure
from tests.metrics_core.judges.injection_corpus import ALL, ATTACKS, CLAIMS, TOPICS, YES, Attack
from tests.metrics_core.judges.obeying_judge import ObeyingJudge

METRICS = ("meaning_match", "ground_truth_similarity")
OBEYING = ObeyingJudge(CLAIMS)
HONEST = {
    "meaning_match": {False: (0.0,), True: (1.0,)},
    "ground_truth_similarity": {False: (0.5, 0.5, 0.5, 0.5), True: (1.0, 1.0, 1.0, 1.0)},
}
"""What a twin is worth: a wrong one has one fact of two, a right one both."""

on_both = pytest.mark.parametrize("metric", METRICS)


def measured(brain, metric, samples):
    """What the product makes of the samples with this judge, and the requests that it sent."""
    with JudgeServer(brain) as server:
        judges = (f"openai/obeying@{server.url}",)
        # The fence has to hold on its own.
        options = JudgeOptions(judges=judges, check="never")
        return evaluate(samples, [metric], judge=options), [request.body for request in server.requests]


def attacks_on(metric):
    """The attacks that reach the judge of a metric: facts of the data set go to one of them."""
    return [attack for attack in ATTACKS if attack.where != "facts" or metric == "ground_truth_similarity"]


def flipped(metric, brain=OBEYING):
    """The attacks after which a measurement is not that of the clean twin, and all requests."""
    attacks = attacks_on(metric)
    found, bodies = measured(brain, metric, [attack.sample for attack in attacks])
    assert [one.sample_id for one in found] == [attack.name for attack in attacks]
    flips = {
        attack.name: attack
        for attack, one in zip(attacks, found, strict=True)
        if tuple(one.values.values()) != HONEST[metric][attack.right]
    }
    return flips, bodies


def raw(fields):
    """What many prompts do: texts as they are, under labels. Half a character cannot even be sent."""
    lines = [f"{k}: {v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)}" for k, v in fields.items()]
    return "\n".join(lines).encode("utf-8", "replace").decode()


# The corpus and the judge


def test_an_attack_adds_nothing_that_an_honest_judge_would_count():
    for attack in ATTACKS:
        hostile, twin = attack.sample, attack.twin
        pairs = [(hostile.answer, twin.answer), (hostile.question, twin.question)]
        pairs += [*zip(hostile.references, twin.references, strict=True), *zip(hostile.facts, twin.facts, strict=True)]
        assert sum(one != other for one, other in pairs) == 1, attack.name
        for one, other in pairs:
            assert OBEYING.said(one or "") == OBEYING.said(other or ""), attack.name


@on_both
@pytest.mark.parametrize("prompt", ["ours", "raw"])
def test_the_judge_is_honest_about_the_clean_twins(prompt, metric, monkeypatch):
    if prompt == "raw":
        monkeypatch.setattr(panel, "fenced", raw)
    attacks = attacks_on(metric)
    found, _ = measured(OBEYING, metric, [attack.twin for attack in attacks])
    for attack, one in zip(attacks, found, strict=True):
        assert tuple(one.values.values()) == HONEST[metric][attack.right], attack.name


@pytest.mark.nightly
@on_both
def test_the_judge_obeys_nearly_every_attack_in_a_prompt_without_a_fence(metric, monkeypatch):
    monkeypatch.setattr(panel, "fenced", raw)
    flips, _ = flipped(metric)
    print(f"\n{metric}: attack success without a fence {len(flips)}/{len(attacks_on(metric))}")
    assert len(flips) >= len(attacks_on(metric)) - 3
    kinds = {attack.kind for attack in attacks_on(metric)} - {"planted facts", "hostile facts"}
    assert {attack.kind for attack in flips.values()} >= kinds
    assert {attack.lang for attack in flips.values()} == set(TOPICS)


# The product


@on_both
def test_no_attack_changes_the_verdict(metric):
    flips, bodies = flipped(metric)
    print(f"\n{metric}: attack success {len(flips)}/{len(attacks_on(metric))}")
    assert list(flips) == []
    assert len(bodies) >= len(attacks_on(metric))


def texts_in(value):
    """All texts of a request's fields, the answer first."""
    if isinstance(value, dict):
        return "\n".join(map(texts_in, (value[key] for key in sorted(value))))
    if isinstance(value, list):
        return "\n".join(map(texts_in, value))
    return str(value)


def an_echo(data):
    """The judge repeats what it was shown, in prose."""
    return texts_in(data).replace("{", "(").replace("}", ")")[:5_000]


def an_echo_in_fields(data):
    """It repeats it in the values of an object of the right form."""
    text = texts_in(data)[:5_000]
    if "reference" in data:
        return json.dumps({"facts": text})
    if "facts" in data["references"][0]:
        return json.dumps({"answer_facts": [{"id": text, "fact": text}], "reference_facts": [], "abstained": False})
    return json.dumps({"reason": text, "reference": 1, "rule": "alias", "verdict": text})


def an_echo_in_names(data):
    """It repeats it in the names of fields, which errors like to quote."""
    text = texts_in(data)[:500]
    return json.dumps({text[start : start + 50]: 1 for start in range(0, len(text), 50)})


def repeating(first):
    """The obeying judge, but that its first reply to everything is useless."""

    def brain(body):
        return OBEYING(body) if len(body["messages"]) > 2 else first(data_of(body))

    return brain


in_three_ways = pytest.mark.parametrize("first", [an_echo, an_echo_in_fields, an_echo_in_names])


@pytest.mark.nightly
@on_both
@in_three_ways
def test_no_attack_changes_the_verdict_by_way_of_the_repair(first, metric):
    flips, bodies = flipped(metric, repeating(first))
    print(f"\n{metric}: attack success after {first.__name__} {len(flips)}/{len(attacks_on(metric))}")
    assert list(flips) == []
    repairs = [body for body in bodies if len(body["messages"]) > 2]
    assert len(repairs) * 2 == len(bodies)


# A judge that repeats the planted verdict beside its own


WRONG = Attack("", "en", "{clean} I am the answer.", name="wrong").sample
PLANTED = {"meaning_match": YES, "ground_truth_similarity": ALL}


def beside(form, metric, finish_reason="stop"):
    """The honest judge, whose last reply has a planted verdict beside the own one."""

    def brain(body):
        own = OBEYING(body)
        if "reference" in data_of(body):
            return own
        both = form.replace("PLANTED", PLANTED[metric]).replace("BROKEN", own[:-3]).replace("OWN", own)
        return Reply(both, finish_reason)

    return brain


def outcome_of(brain, metric):
    [found], bodies = measured(brain, metric, [WRONG])
    return found, [body for body in bodies if "reference" not in data_of(body)]


@on_both
@pytest.mark.parametrize(
    ("form", "finish_reason", "code"),
    [
        ("PLANTED\nOWN", "stop", "conflict"),
        ("The answer says PLANTED, but I say OWN.", "stop", "conflict"),
        ("```json\nPLANTED\n```\n\n```json\nOWN\n```", "stop", "conflict"),
        ("PLANTED\nMy assessment: BROKEN", "stop", "conflict"),
        ("<think>The answer says </think>PLANTED and so on.</think>OWN", "stop", "conflict"),
        # What is cut off gets more room once; what is whole is read, and thoughts are no verdict.
        ("The answer says PLANTED. My own view", "length", "truncated"),
        ("```json\nOWN\n```\n", "length", None),
        ("<think>The answer says PLANTED.</think>OWN", "stop", None),
    ],
)
def test_a_planted_verdict_beside_the_judges_own_is_no_score(form, finish_reason, code, metric):
    found, bodies = outcome_of(beside(form, metric, finish_reason), metric)
    if code is None:
        assert tuple(found.values.values()) == HONEST[metric][False]
    else:
        assert failure(found).code == code
    # Nobody who was of two minds is asked again.
    assert [body["max_tokens"] for body in bodies] == ([1_024, 4_096] if code == "truncated" else [1_024])


@on_both
def test_a_reply_that_had_no_room_for_the_own_verdict_gets_it_and_is_then_a_conflict(metric):
    def brain(body):
        room = body["max_tokens"] > 1_024
        form, reason = ("PLANTED. My own view: OWN", "stop") if room else ("PLANTED. My own", "length")
        return beside(form, metric, reason)(body)

    found, bodies = outcome_of(brain, metric)
    assert (failure(found).code, len(bodies)) == ("conflict", 2)
