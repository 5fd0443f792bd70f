"""Semantic similarity on encoders of known vectors: laws, references, failures, work, and the conformance cases."""

import json
import math
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey import Failed, Sample, Scored, Undefined, Usage
from answerkey.metrics_core.embeddings.embed import cosine, pack
from answerkey.metrics_core.embeddings.encoder import Encoded, EncodingFailed
from answerkey.metrics_core.metrics.semantic_similarity import SemanticSimilarity, aggregate
from tests.metrics_core.encoders import BagOfWords, Scripted

ALPHABETS = {
    "Latin": "abcdeéñß",
    "Cyrillic": "абвгдёйЙ",
    "CJK": "東京日本語中文",
    "Arabic": "ابتثجحخد",
    "Thai": "กขคงจฉชซ",
    "Hangul": "가각갂한글",
}
TEXTS = st.sampled_from(sorted(ALPHABETS)).flatmap(
    lambda script: st.text(ALPHABETS[script] + " 5.-", min_size=1, max_size=24).filter(
        lambda text: any(map(str.isalnum, text))
    )
)


def measured(models, answer, references, **options):
    models = models if isinstance(models, list) else [models]
    [measurement] = SemanticSimilarity(models, **options).measure([Sample("1", answer, references)])
    return measurement


def similarity(answer, reference):
    return measured(BagOfWords(), answer, [reference]).values["similarity"]


# Laws


@given(TEXTS, TEXTS)
def test_a_text_is_as_similar_to_itself_as_can_be(text, other):
    values = measured([BagOfWords("a"), BagOfWords("b")], text, [other, text], threshold=1.0).values
    assert values == {"similarity": 1, "similarity_a": 1, "similarity_b": 1, "pass": 1}


@given(TEXTS, TEXTS, st.sampled_from(["NFC", "NFD"]), st.sampled_from(["", " ", "\n\t", "\u00a0"]))
def test_range_symmetry_normal_form_and_outer_space(a, b, form, space):
    value = similarity(a, b)
    assert -1 <= value <= 1
    assert similarity(b, a) == value
    assert similarity(space + unicodedata.normalize(form, a) + space, b) == value


@given(st.lists(st.tuples(TEXTS, st.lists(TEXTS, min_size=1, max_size=4)), min_size=1, max_size=6), st.randoms())
def test_order_of_rows_and_references_changes_nothing(pairs, random):
    metric = SemanticSimilarity([BagOfWords("a"), BagOfWords("b")], aggregation="vote")
    straight = metric.measure([Sample(str(i), a, b) for i, (a, b) in enumerate(pairs)])
    mixed = [Sample(str(i), a, random.sample(b, len(b))) for i, (a, b) in enumerate(pairs)]
    random.shuffle(mixed)
    values = {measurement.sample_id: measurement.values for measurement in metric.measure(mixed)}
    assert values == {measurement.sample_id: measurement.values for measurement in straight}


@pytest.mark.parametrize(("answer", "reference"), [("-5", "5"), ("3.14", "not 3.14")])
def test_signs_and_decimals_reach_the_model(answer, reference):
    assert measured(Scripted({answer: [1, 0], reference: [0, 1]}), answer, [reference]).values == {"similarity": 0}


# References


def test_the_best_reference_is_named_and_all_fields_come_from_it():
    a = Scripted({"x": [1, 0], "r0": [0.6, 0.8], "r1": [1, 0], "r2": [0, 1]}, "a")
    b = Scripted({"x": [1, 0], "r0": [0.8, 0.6], "r1": [0.28, 0.96], "r2": [0, 1]}, "b")
    measurement = measured([a, b], "x", ["r2", " ", "r1", "r0"])
    assert measurement.values == {"similarity": 0.7, "similarity_a": 0.6, "similarity_b": 0.8}
    assert measurement.details == {"reference": 3}


def test_of_equal_references_the_first_is_named():
    measurement = measured(Scripted({"x": [1, 0], "r0": [0, 1], "r1": [3, 4], "r2": [6, 8]}), "x", ["r0", "r1", "r2"])
    assert (measurement.values["similarity"], measurement.details["reference"]) == (0.6, 1)


def test_an_answer_that_equals_a_reference_needs_no_model():
    model = Scripted({})
    measurement = measured(model, " PARIS ", ["Rome", "Paris"])
    assert measurement.outcome == Scored({"similarity": 1.0}, details={"reference": 1})
    assert (model.calls, measurement.usage) == ([], Usage())


# Undefined and failed

X = {"x": [1, 0], "r": [3, 4], "zero": [0, 0], "nan": [1, float("nan")]}


@pytest.mark.parametrize(
    ("models", "answer", "references", "outcome"),
    [
        (
            [Scripted(X)], "x", ["zero", "r"],
            Scored(
                {"similarity": 0.6},
                details={"reference": 1, "unusable_references": {"0": "scripted gives it a zero vector"}},
            ),
        ),
        ([Scripted(X)], "x", ["zero"], Undefined("references: scripted gives it a zero vector")),
        # Its vectors would be those of "unknown": the same for all such texts, with a cosine of 1.
        (
            [Scripted(X, unknown="ქ")], "ქართული", ["x"],
            Undefined("answer: scripted knows less than half of its characters"),
        ),
        # The failing reference could be the best one, and the remaining models would give another number.
        ([Scripted(X)], "x", ["r", "broken"], Failed("encoder", "scripted: ValueError: no vector for 'broken'")),
        (
            [Scripted(X, "good"), Scripted({}, "bad")], "x", ["r"],
            Failed("encoder", "bad: ValueError: no vector for 'x'"),
        ),
        ([Scripted(X)], "nan", ["r"], Failed("encoder", "scripted: the embedding holds NaN or infinity")),
    ],
)  # fmt: skip
def test_texts_that_a_model_cannot_read(models, answer, references, outcome):
    assert measured(models, answer, references).outcome == outcome


def test_no_consensus_is_undefined():
    a = Scripted({"x": [1, 0], "r": [1, 0], "s": [0, 1]}, "a")
    b = Scripted({"x": [1, 0], "r": [0.6, 0.8], "s": [0, 1]}, "b")
    # The models agree on `s`, but `r` is the better reference, and there they do not.
    assert measured([a, b], "x", ["r", "s"], aggregation="consensus", tolerance=0.25).outcome == Undefined(
        "no consensus: the cosines of the models differ by 0.4, more than 0.25"
    )
    assert measured([a, b], "x", ["r"], aggregation="consensus", tolerance=0.4).values["similarity"] == 0.8


def test_a_text_that_breaks_a_model_fails_its_own_sample_only():
    words = [f"w{i}" for i in range(9)]
    samples = [Sample(word, word, ["w0 "]) for word in words[1:]]
    samples.insert(3, Sample("bad", "broken", ["w0"]))
    measurements = SemanticSimilarity([Scripted({word: [1, i] for i, word in enumerate(words)})]).measure(samples)
    assert [m.sample_id for m in measurements if m.status != "scored"] == ["bad"]


def test_a_model_that_returns_too_few_vectors_is_a_failure():
    class Forgetful(Scripted):
        def encode(self, texts):
            return Encoded(super().encode(texts).vectors[:0])

    reason = "encoder: scripted: embeddings of 1 texts have the shape (0, 2)"
    assert measured(Forgetful(X), "x", ["r"]).reason == reason


def test_a_model_that_is_down_is_asked_twice_and_not_for_every_batch():
    class Down(Scripted):
        def encode(self, texts):
            self.calls.append(list(texts))
            raise EncodingFailed("http_503", "no answer", attempts=3, for_all=True)

    model = Down({}, batch_size=2)
    measurements = SemanticSimilarity([model]).measure([Sample(str(i), f"a{i}", ["r"]) for i in range(20)])
    assert len(model.calls) == 2
    # Sorted by length: the reference went first, so every sample lacks it.
    assert {m.reason for m in measurements} <= {
        "http_503: scripted: no answer",
        "encoder: scripted: not tried after 2 failures in a row",
    }
    assert {m.status for m in measurements} == {"failed"}


def test_a_mistake_in_an_encoder_is_not_turned_into_a_failed_row():
    class Mistaken(Scripted):
        def encode(self, texts):
            raise AttributeError("a bug")

    with pytest.raises(AttributeError, match="a bug"):
        measured(Mistaken({}), "x", ["r"])


# Work


def test_each_text_is_encoded_once_per_call_sorted_in_batches():
    texts = ["ccc", "a", "bb", "dddd", "eeeee"]
    model = Scripted({text: [1, i] for i, text in enumerate(texts)}, batch_size=3)
    samples = [Sample(str(i), text, ["a", "bb", " a"]) for i, text in enumerate(texts * 3)]
    measurements = SemanticSimilarity([model]).measure(samples)
    assert model.calls == [["a", "bb", "ccc"], ["dddd", "eeeee"]]
    assert [m.sample_id for m in measurements] == [str(i) for i in range(15)]


def test_usage_adds_up_over_the_samples_that_needed_a_model():
    class Paid(Scripted):
        def encode(self, texts):
            return Encoded(super().encode(texts).vectors, tokens=10 * len(texts), cost_usd=0.5)

    vectors = {"a": [1, 0], "b": [1, 1], "r": [0, 1]}
    samples = [Sample(str(i), answer, ["r"]) for i, answer in enumerate(["a", "b", "r", None])]
    measurements = SemanticSimilarity([Paid(vectors, batch_size=2)]).measure(samples)
    usage = [(m.usage.tokens_in, m.usage.cost_usd) for m in measurements]
    assert usage == [(15, 0.5), (15, 0.5), (0, 0), (0, 0)]
    assert measurements[0].usage.seconds > 0


def test_chunks_are_noted_and_weighted_by_length():
    long = "One two three. Four."
    model = Scripted({"One two three.": [5, 0], "Four.": [0, 2], "r": [3, 1]}, max_pieces=3)
    measurement = measured(model, long, ["r"])
    # Directions (1, 0) with weight 3 and (0, 1) with weight 1: (3, 1).
    assert measurement.values == {"similarity": 1.0}
    assert measurement.details == {"reference": 0, "chunks": {"scripted": {"answer": 2}}}
    assert measured(model, "r", ["Four.", long]).details["chunks"] == {"scripted": {"references": {"1": 2}}}


# What it says of itself


def test_the_share_that_reaches_a_threshold_speaks_for_a_report_where_one_was_asked_for():
    assert [SemanticSimilarity(threshold=at).headline for at in (None, 0.8)] == ["similarity", "pass"]


def test_fields():
    fields = SemanticSimilarity(["minilm", "use-multilingual"], "vote", threshold=0.7).fields
    assert [(f.name, f.low, f.high, f.binary) for f in fields] == [
        ("similarity", 0, 1, True),
        ("similarity_minilm", -1, 1, False),
        ("similarity_use_multilingual", -1, 1, False),
        ("calibrated", 0, 1, False),
        ("pass", 0, 1, True),
    ]
    assert [(f.name, f.low) for f in SemanticSimilarity("minilm").fields] == [("similarity", -1), ("calibrated", 0)]
    assert [f.name for f in SemanticSimilarity("openai/text-embedding-3-small").fields] == ["similarity"]


def test_a_name_cannot_end_a_part_of_the_signature():
    assert "|models:a_b_c@1|" in SemanticSimilarity([Scripted({}, "a|b,c")]).signature


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"models": []}, "models is .*at least 1 item"),
        ({"models": ["minilm", "minilm"]}, "must have different names, got minilm, minilm"),
        ({"aggregation": "best"}, "aggregation is 'best', expected mean, median, min, max, vote or consensus"),
        ({"threshold": 1.5}, "threshold is 1.5; it should be less than or equal to 1"),
        ({"threshold": float("nan")}, "threshold is nan; it should be less than or equal to 1"),
        ({"tolerance": -0.1}, "tolerance is -0.1; it should be greater than or equal to 0"),
        ({"tolerance": float("nan")}, "tolerance nan"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        SemanticSimilarity(**options)


# The conformance cases; where the original is wrong, the corrected value with the reason

GOLDEN = json.loads((Path(__file__).parent / "data/semantic_similarity.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", GOLDEN["cosine"])
def test_golden_cosine(case):
    models = [Scripted({"x": case["a"], "y": case["b"]}, batch_size=1)]
    if "error" in case:
        # The original leaves the model out. A mean over the remaining ones is another number under the same name.
        models.append(Scripted({"x": [1, 0], "y": [0, 1]}, "other"))
        reason = "scripted: vectors of 2 and 3 numbers cannot be compared"
        assert measured(models, "x", ["y"]).outcome == Failed("encoder", reason)
    elif any(case["a"]):
        # The cases were computed from float32 vectors.
        assert cosine(case["a"], case["b"]) == pytest.approx(case["cos"], abs=1e-6)
    else:
        # 0 would say that the texts have nothing in common; the model has said nothing.
        assert case["cos"] == 0.0
        assert measured(models, "x", ["y"]).outcome == Undefined("answer: scripted gives it a zero vector")


def with_cosines(cosines, **options):
    vectors = [{"x": [1, 0], "y": [value, math.sqrt(1 - value**2)]} for value in cosines]
    return measured([Scripted(one, f"m{i}") for i, one in enumerate(vectors)], "x", ["y"], **options).values


@pytest.mark.parametrize("case", GOLDEN["threshold"])
def test_golden_threshold(case):
    threshold = case["threshold"]
    if threshold in (0.0, -0.5):
        # Ignored as in the original, it silently returns raw cosines where 0 or 1 was asked for.
        with pytest.raises(ValueError, match=r"threshold is .*; it should be greater than 0"):
            SemanticSimilarity(threshold=threshold)
        return
    values = with_cosines([case["raw"]], threshold=threshold)
    assert values.pop("similarity") == pytest.approx(case["raw"], abs=1e-6)
    assert values == ({} if threshold is None else {"pass": case["score"]})


@pytest.mark.parametrize("case", GOLDEN["multi_model"])
def test_golden_models(case):
    values = with_cosines(case["raw"], threshold=case["threshold"])
    numbers = [values[name] for name in ("similarity", "similarity_m0", "similarity_m1")]
    assert numbers == pytest.approx([0.8, *case["raw"]], abs=1e-6)
    # The original compares each model with the threshold, then averages: .5, which is neither 0 nor 1.
    # Aggregated first, the two models together reach .8.
    assert case["score"] == (0.5 if case["threshold"] else pytest.approx(0.8))
    assert values.get("pass") == (1.0 if case["threshold"] else None)


@pytest.mark.parametrize("case", GOLDEN["blank"])
def test_golden_blank(case):
    outcome = measured(["use-multilingual"], case["response"], [case["reference"]]).outcome
    if case["reference"].strip():
        assert outcome == Scored({"similarity": case["score"], "calibrated": 0.0}, reason="blank answer")
    else:
        # The original scores 0 here too, although the right answer is unknown.
        assert outcome == Undefined("no reference: every reference is missing or blank")


NAMES = {"AVERAGE": "mean", "MEDIAN": "median", "MIN": "min", "MAX": "max", "MAJORITY_VOTING": "vote"}


@pytest.mark.parametrize("case", GOLDEN["aggregators"], ids=lambda case: f"{case['name']}{case['scores']}")
def test_golden_aggregators(case):
    kind, _, rest = case["name"].partition("(")
    tolerance = float(rest.rstrip(")") or 0.1)
    value = aggregate(case["scores"], NAMES.get(kind, "consensus"), threshold=None, tolerance=tolerance)
    assert value == case.get("value")


@pytest.mark.parametrize("number", range(len(GOLDEN["chunker"])))
def test_golden_chunker(number):
    case = GOLDEN["chunker"][number]
    source = GOLDEN["chunker"][number - 1]["text"] if case["text"] == "(same)" else case["text"]
    quoted, _, times = source.rpartition(" * ")
    text = quoted.strip("'") * int(times)
    parts = pack(text, lambda part: math.ceil(len(part) / case["chars_per_token"]) <= case["max_tokens"])
    assert len(parts) == case["chunks"]
    assert [len(part) for part in parts] == case.get("lengths", [len(part) for part in parts])
