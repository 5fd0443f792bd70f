"""The two models that come with the package: their files, their quality, their limits."""

import json
import random
import threading
from pathlib import Path

import pytest

from answerkey import Sample, Undefined
from answerkey.metrics_core.embeddings.encoder import EncoderError
from answerkey.metrics_core.embeddings.models import MINILM, ModelPackage, TransformerEncoder, load_encoder
from answerkey.metrics_core.metrics.semantic_similarity import SemanticSimilarity

MODELS = ("minilm", "use-multilingual")
GOLDEN = json.loads((Path(__file__).parents[1] / "metrics/data/semantic_similarity.json").read_text(encoding="utf-8"))


def similarities(model, *pairs):
    samples = [Sample(str(i), answer, [reference]) for i, (answer, reference) in enumerate(pairs)]
    return [m.values["similarity"] for m in SemanticSimilarity([model]).measure(samples)]


# The document


RUSSIAN = [
    ("Столица Российской Федерации — город Москва.", "Москва является столицей России."),
    ("Россия — самая большая страна в мире по площади.", "Москва является столицей России."),
    ("Искусственный интеллект — это область компьютерных наук.", "Москва является столицей России."),
]


def test_the_three_russian_examples_come_out_in_order_and_well_apart():
    # The document prints .95, .65 and .25, which no model is named for.
    [same, related, other] = similarities("use-multilingual", *RUSSIAN)
    assert [same, related, other] == pytest.approx([0.654397, 0.352474, 0.114365], abs=2e-6)
    assert same - related > 0.2
    assert related - other > 0.2


MISSED = {
    # The original's bounds were set with other models. What these two measure instead:
    ("use-multilingual", "Столицей Российской Федерации является город Москва."): 0.728083,
    ("use-multilingual", "France is a country in Western Europe."): 0.492971,
    ("use-multilingual", "The photosynthesis process converts solar radiation into chemical energy."): 0.493,
    ("use-multilingual", "Процесс фотосинтеза преобразует солнечную радиацию в химическую энергию."): 0.44957,
    ("minilm", "France is a country in Western Europe."): 0.4967,
    ("minilm", "Искусственный интеллект - это область компьютерных наук."): 0.602,
}


@pytest.mark.nightly
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("case", GOLDEN["bounds_with_real_models"], ids=lambda case: case["response"][:20])
def test_bounds_with_real_models(model, case):
    [value] = similarities(model, (case["response"], case["reference"]))
    inside = case.get("min", -1) <= value <= case.get("max", 1)
    missed = MISSED.get((model, case["response"]))
    assert inside is (missed is None)
    if missed is not None:
        assert value == pytest.approx(missed, abs=1e-3)


# Behaviour


@pytest.mark.parametrize("model", [pytest.param("minilm", marks=pytest.mark.nightly), "use-multilingual"])
def test_which_texts_share_a_call_changes_less_than_the_last_digit(model):
    rng = random.Random(3)
    words = [
        "the",
        "capital",
        "of",
        "France",
        "is",
        "Paris",
        "a",
        "river",
        "runs",
        "slowly",
        "Москва",
        "город",
    ]
    samples = [
        Sample(str(i), " ".join(rng.choices(words, k=rng.randint(1, 20))), [" ".join(rng.choices(words, k=5))])
        for i in range(40)
    ]
    metric = SemanticSimilarity([model])
    together = {m.sample_id: m.values["similarity"] for m in metric.measure(samples)}
    shuffled = {m.sample_id: m.values["similarity"] for m in metric.measure(rng.sample(samples, len(samples)))}
    assert shuffled == together
    alone = {sample.sample_id: metric.measure([sample])[0].values["similarity"] for sample in samples[:8]}
    assert alone == pytest.approx({name: together[name] for name in alone}, abs=1.1e-6)


@pytest.mark.nightly
def test_threads_share_the_models():
    samples = [Sample(str(i), answer, [reference]) for i, (answer, reference) in enumerate(RUSSIAN * 4)]
    metric = SemanticSimilarity(MODELS, "mean")
    expected = [m.values for m in metric.measure(samples)]
    results = [None] * 4

    def work(i):
        results[i] = [m.values for m in metric.measure(samples)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4
    assert load_encoder("minilm") is load_encoder("minilm")


@pytest.mark.parametrize(
    ("model", "answer", "reference"),
    [
        pytest.param("minilm", "საქართველო", "አማርኛ", marks=pytest.mark.real),
        pytest.param("minilm", "🙂", "Paris", marks=pytest.mark.real),
        ("use-multilingual", "አማርኛ ነው።", "ኢትዮጵያ"),
    ],
)
def test_scripts_that_a_model_does_not_know(model, answer, reference):
    # Both texts are rows of "unknown" to the model: without the check their cosine is 1, or near it.
    [measurement] = SemanticSimilarity([model]).measure([Sample("1", answer, [reference])])
    assert measurement.outcome == Undefined(f"answer: {model} knows less than half of its characters")


@pytest.mark.parametrize("model", [pytest.param("minilm", marks=pytest.mark.real), "use-multilingual"])
def test_long_texts_are_read_to_the_end(model):
    encoder = load_encoder(model)
    assert encoder.max_pieces == 254
    filler = "The committee met on Monday and talked about the budget of the town. " * 40
    end = "The volcano erupted and the island was evacuated by ships. " * 30
    samples = [
        Sample("long", filler + end, ["A volcano erupted on the island."]),
        Sample("cut", filler, ["A volcano erupted on the island."]),
    ]
    long, cut = SemanticSimilarity([model]).measure(samples)
    assert long.details["chunks"][model]["answer"] > cut.details["chunks"][model]["answer"] >= 2
    # A model that reads only the beginning gives both texts the same number.
    assert long.values["similarity"] > cut.values["similarity"] + 0.15
    assert all(len(encoder.pieces(text)) > 254 for text in (filler, filler + end))


# Files


def test_other_weights_are_refused():
    package = ModelPackage("minilm", MINILM.distribution, MINILM.module, {"model/config.json": "0" * 64})
    with pytest.raises(EncoderError, match=r"config\.json is missing or not the expected file"):
        package.folder()


@pytest.mark.real
def test_a_static_model_in_a_folder(tmp_path):
    # Another kind of tokenizer, and no limit of length.
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import StaticEmbedding
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(MINILM.folder() / "model" / "tokenizer.json"))
    tokenizer.no_truncation()
    SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=16)]).save(str(tmp_path / "static"))
    metric = SemanticSimilarity([str(tmp_path / "static")])
    samples = [Sample("1", "Paris is a city", ["a city is Paris", "Rome"]), Sample("2", "city " * 600, ["a city"])]
    same_words, long = metric.measure(samples)
    assert same_words.values == {"similarity": 1.0}
    assert long.details["chunks"] == {str(tmp_path / "static"): {"answer": 2}}


@pytest.mark.real
def test_a_folder_without_a_model_is_bad_input(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(EncoderError, match="cannot be loaded from") as caught:
        SemanticSimilarity([str(tmp_path)]).measure([Sample("1", "a", ["b"])])
    assert "\n" not in str(caught.value)


@pytest.mark.real
def test_loading_prints_nothing(capfd):
    TransformerEncoder(MINILM.folder() / "model", "again", "1", device="cpu")
    assert capfd.readouterr() == ("", "")
