"""Plain functions as metrics."""

import pickle
import sys
from pathlib import Path

import pytest

from answerkey.metrics_core import Field, Sample, create, evaluate, metric
from answerkey.metrics_core.errors import UserError

DATA = Path(__file__).parent / "data"
SAMPLES = [Sample(str(i), text, ["r"]) for i, text in enumerate(["r", "a b c d", "", None])]


@pytest.fixture
def custom(monkeypatch):
    monkeypatch.syspath_prepend(str(DATA))
    import custom_metrics

    yield custom_metrics
    sys.modules.pop("custom_metrics")


def test_a_decorated_function_is_a_metric_with_options(custom):
    short, long = custom.short(), custom.short(words=9, alias="long")
    assert [m.values["score"] for m in short.measure(SAMPLES)] == [1.0, 0.0, 0.0, 0.0]
    assert [m.values["score"] for m in long.measure(SAMPLES)] == [1.0, 1.0, 0.0, 0.0]
    assert short.fields == (Field("score", "The answer is short.", binary=True),)
    assert short.signature == "short|v1|code:custom_metrics:short|words:3|blank:zero"
    assert (short.described(), long.spec) == ("The answer is short.", "long=custom_metrics:short(words=9)")


def test_a_plain_function_is_one_too(custom):
    [given] = create([custom.first_letter])
    [named] = create(["custom_metrics:first_letter"])
    assert given.signature == named.signature
    assert [m.values["score"] for m in given.measure(SAMPLES)] == [1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("one", ["custom_metrics:short(words=2)", "x=custom_metrics:first_letter"])
def test_they_travel_by_their_import_path(custom, one):
    [made] = create([one])
    again = pickle.loads(pickle.dumps(made))
    assert (again.signature, again.measure(SAMPLES)) == (made.signature, made.measure(SAMPLES))


def test_processes_score_them(custom):
    rows = SAMPLES * 5
    metrics = [custom.short(words=1), custom.first_letter, custom.Politeness(), "rouge_l"]
    assert evaluate(rows, metrics, workers=2) == evaluate(rows, metrics)


def test_a_function_that_no_process_can_import_is_refused_for_several_and_fine_for_one():
    @metric(name="local", fields=["a", "b"], needs=["answer"])
    def local(answer: str, references: object, *, scale: float) -> dict[str, float]:
        return {"a": scale, "b": len(answer) / 10}

    assert evaluate(SAMPLES, [local(scale=0.5)])[0].values == {"a": 0.5, "b": 0.1}
    with pytest.raises(UserError, match=r"metric local cannot be sent to another process .* top level of a module"):
        evaluate(SAMPLES, [local(scale=0.5)], workers=2)
    with pytest.raises(UserError, match=r"metric local: .*scale"):
        evaluate(SAMPLES, [local])


def test_what_is_no_metric_is_refused():
    with pytest.raises(TypeError, match="metric 'alone': the function must take an answer and references"):

        @metric
        def alone(answer: str) -> float:
            return 1.0

    with pytest.raises(UserError, match="is named '<lambda>': a name is made of"):
        create([lambda answer, references: 1.0])
    with pytest.raises(ValueError, match="field 'A': a name"):
        metric(fields=["A"])(lambda answer, references: 1.0)
