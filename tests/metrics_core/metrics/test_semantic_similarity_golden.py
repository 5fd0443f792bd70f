"""The conformance cases; where the original is wrong, the corrected value with the reason."""

import json
import math
from pathlib import Path

import pytest

from answerkey.metrics_core import Sample, Scored, Undefined
from answerkey.metrics_core.embeddings.embed import cosine, pack
from answerkey.metrics_core.metrics.semantic_similarity import SemanticSimilarity, aggregate
from tests.metrics_core.encoders import Scripted

GOLDEN = json.loads((Path(__file__).parent / "data/semantic_similarity.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", [case for case in GOLDEN["cosine"] if any(case["a"]) and "error" not in case])
def test_cosine(case):
    # The cases were computed from float32 vectors.
    assert cosine(case["a"], case["b"]) == pytest.approx(case["cos"], abs=1e-6)


def test_cosine_of_a_zero_vector_is_undefined_where_the_original_has_0():
    # 0 would say that the texts have nothing in common; the model has said nothing.
    [case] = [case for case in GOLDEN["cosine"] if not any(case["a"])]
    assert case["cos"] == 0.0
    with pytest.raises(ValueError, match="without a direction"):
        cosine(case["a"], case["b"])
    metric = SemanticSimilarity([Scripted({"a": case["a"], "b": case["b"]})])
    [measurement] = metric.measure([Sample("1", "a", ["b"])])
    assert measurement.outcome == Undefined("answer: scripted gives it a zero vector")


def test_a_dimension_mismatch_fails_the_sample_where_the_original_leaves_the_model_out():
    # A mean over the remaining models is another number under the same name.
    [case] = [case for case in GOLDEN["cosine"] if "error" in case]
    other = Scripted({"a": [1, 0], "b": [0, 1]}, "other")
    broken = Scripted({"a": case["a"], "b": case["b"]}, "broken", batch_size=1)
    [measurement] = SemanticSimilarity([other, broken]).measure([Sample("1", "a", ["b"])])
    assert measurement.status == "failed"
    assert measurement.reason == "encoder: broken: vectors of 2 and 3 numbers cannot be compared"


def _vector(cosine_with_x):
    return [cosine_with_x, math.sqrt(1 - cosine_with_x**2)]


def _measure(cosines, **options):
    models = [Scripted({"answer": [1, 0], "reference": _vector(value)}, f"m{i}") for i, value in enumerate(cosines)]
    [measurement] = SemanticSimilarity(models, **options).measure([Sample("1", "answer", ["reference"])])
    return measurement


@pytest.mark.parametrize("case", [case for case in GOLDEN["threshold"] if case["threshold"] in (None, 0.5, 0.8)])
def test_threshold(case):
    measurement = _measure([case["raw"]], threshold=case["threshold"])
    assert measurement.values["similarity"] == pytest.approx(case["raw"], abs=1e-6)
    if case["threshold"] is None:
        assert list(measurement.values) == ["similarity"]
    else:
        assert measurement.values["pass"] == case["score"]


@pytest.mark.parametrize("case", [case for case in GOLDEN["threshold"] if case["threshold"] in (0.0, -0.5)])
def test_a_threshold_from_0_down_is_refused_where_the_original_ignores_it(case):
    # Ignored, it silently returns raw cosines where 0 or 1 was asked for.
    with pytest.raises(ValueError, match=r"threshold is .*; it should be greater than 0"):
        SemanticSimilarity(threshold=case["threshold"])


@pytest.mark.parametrize("case", GOLDEN["multi_model"])
def test_several_models(case):
    measurement = _measure(case["raw"], threshold=case["threshold"])
    assert measurement.values["similarity"] == pytest.approx(0.8, abs=1e-6)
    assert measurement.values["similarity_m0"] == pytest.approx(case["raw"][0], abs=1e-6)
    assert measurement.values["similarity_m1"] == pytest.approx(case["raw"][1], abs=1e-6)
    if case["threshold"]:
        # The original compares each model with the threshold, then averages: .5, which is neither 0 nor 1.
        # Aggregated first, the two models together reach .8.
        assert case["score"] == 0.5
        assert measurement.values["pass"] == 1.0
    else:
        assert measurement.values["similarity"] == pytest.approx(case["score"], abs=1e-6)


@pytest.mark.parametrize("case", GOLDEN["blank"])
def test_blank(case):
    [measurement] = SemanticSimilarity().measure([Sample("1", case["response"], [case["reference"]])])
    if case["reference"].strip():
        assert measurement.outcome == Scored({"similarity": case["score"], "calibrated": 0.0}, reason="blank answer")
    else:
        # The original scores 0 here too, although the right answer is unknown.
        assert measurement.outcome == Undefined("no reference: every reference is missing or blank")


NAMES = {"AVERAGE": "mean", "MEDIAN": "median", "MIN": "min", "MAX": "max", "MAJORITY_VOTING": "vote"}


@pytest.mark.parametrize("case", GOLDEN["aggregators"], ids=lambda case: f"{case['name']}{case['scores']}")
def test_aggregators(case):
    kind, _, rest = case["name"].partition("(")
    tolerance = float(rest.rstrip(")") or 0.1)
    value = aggregate(case["scores"], NAMES.get(kind, "consensus"), threshold=None, tolerance=tolerance)
    assert value == case.get("value")


def test_aggregating_nothing_is_an_error_where_the_original_has_0():
    with pytest.raises(ValueError, match="nothing to aggregate"):
        aggregate([], "mean", threshold=None, tolerance=0.1)


@pytest.mark.parametrize("number", range(len(GOLDEN["chunker"])))
def test_chunker(number):
    case = GOLDEN["chunker"][number]
    source = GOLDEN["chunker"][number - 1]["text"] if case["text"] == "(same)" else case["text"]
    quoted, _, times = source.rpartition(" * ")
    text = quoted.strip("'") * int(times)
    parts = pack(text, lambda part: math.ceil(len(part) / case["chars_per_token"]) <= case["max_tokens"])
    assert len(parts) == case["chunks"]
    if "lengths" in case:
        assert [len(part) for part in parts] == case["lengths"]
