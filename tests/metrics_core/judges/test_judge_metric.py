"""The laws of all metrics, for those that ask judges: what needs no judge asks none, in every script.

The judge of these tests is at an address where nothing listens: a sample that needed it would be no score.
"""

import unicodedata

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from answerkey.metrics_core import METRICS, JudgeOptions, Sample, Scored, create
from answerkey.metrics_core.llm import client
from answerkey.metrics_core.text import is_blank, normalise
from tests.metrics_core.test_laws import MEANINGFUL, SCRIPTS, WHITE, cases

JUDGED = [name for name, info in METRICS.items() if info.kind == "judge"]
NOBODY = "@http://127.0.0.1:9/v1"
ALONE = JudgeOptions(judges=(f"openai/m{NOBODY}",))
JURY = JudgeOptions(judges=(f"openai/m{NOBODY}", f"openai/n{NOBODY}"), jury="mean", repeats=2)

in_every_script = pytest.mark.parametrize("script", SCRIPTS)


def metrics(options):
    return create(JUDGED, dict(judge=options))


def measured(options, answer, references):
    return [metric.measure([Sample("1", answer, references, "?")])[0] for metric in metrics(options)]


def test_the_laws_hold_for_both_metrics():
    assert JUDGED == ["meaning_match", "ground_truth_similarity"]


@in_every_script
@settings(max_examples=20)
@given(data=st.data(), before=WHITE, after=WHITE)
def test_a_text_against_itself_scores_one_and_asks_no_judge(script, data, before, after):
    text, others = data.draw(cases(SCRIPTS[script]))
    assume(not is_blank(text))
    for form in ("NFC", "NFD"):
        answer = before + unicodedata.normalize(form, text) + after
        for options in (ALONE, JURY):
            for one in measured(options, answer, [*others, text]):
                expected = {name: 0.0 if name == "spread" else 1.0 for name in one.values}
                assert (one.status, one.values) == ("scored", expected)
                assert one.requests == ()
                assert normalise([*others, text][one.details["reference"]]) == normalise(text)


@in_every_script
@settings(max_examples=20)
@given(data=st.data(), blank=WHITE | st.none())
def test_a_blank_answer_scores_zero_in_every_field(script, data, blank):
    _, references = data.draw(cases(SCRIPTS[script]))
    assume(not all(map(is_blank, references)))
    for options in (ALONE, JURY):
        for one, metric in zip(measured(options, blank, references), metrics(options), strict=True):
            assert one.outcome == Scored({field.name: 0.0 for field in metric.fields}, "blank answer")


@pytest.mark.parametrize(("said", "other"), MEANINGFUL)
@settings(max_examples=8)
@given(data=st.data())
@example(data=None)
def test_what_differs_in_a_negation_a_number_or_a_sign_is_for_the_judge(said, other, data):
    word = st.text(st.one_of([SCRIPTS[name] for name in SCRIPTS if name != "anything"]), max_size=4)
    before, after = (data.draw(word), data.draw(word)) if data else ("", "Paris")
    full, changed = f"{before} {said} {after}", f"{before} {other} {after}"
    assume(not is_blank(changed))
    for metric in metrics(ALONE):
        for answer, reference in ((full, changed), (changed, full)):
            assert metric.without_judge(Sample("1", answer, [reference], "?")) is None


def test_a_judge_that_is_not_there_is_a_failure_and_no_number(monkeypatch):
    monkeypatch.setattr(client, "_FIRST_WAIT_S", 0.001)
    for one in measured(ALONE, "It is Bern.", ["Bern"]):
        assert (one.status, one.values) == ("failed", {})
