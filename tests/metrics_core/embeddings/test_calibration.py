"""What people say of texts with a cosine: the maps are those of the ratings, and the bands hold for other pairs."""

from pathlib import Path

import pytest

from answerkey.metrics_core.embeddings.calibration import BANDS, BOTH, ENGLISH, KNOTS, RUSSIAN, pairs_for, rating
from answerkey.metrics_core.metrics.semantic_similarity import SemanticSimilarity
from answerkey.metrics_core.sample import Sample
from benchmarks.semantic import bands, knots
from tests.metrics_core.metrics_help import read_jsonl

RATED = Path(__file__).resolve().parents[4] / "shared/data/stsb"
PAIRS = {ENGLISH: ("en",), RUSSIAN: ("ru",), BOTH: ("en", "ru")}


@pytest.mark.nightly
@pytest.mark.skipif(not RATED.is_dir(), reason="the rated pairs of STS-B are not here")
def test_the_maps_are_made_of_the_ratings_and_the_bands_hold_for_other_pairs():
    """Of the packaged model; `benchmarks/semantic.py` has both, and torch takes minutes for as many pairs."""
    known, model = {}, "use-multilingual"
    for language in ("en", "ru"):
        rows = read_jsonl(RATED / f"stsb_{language}_dev.jsonl")
        samples = [Sample(row["id"], row["answer"], row["references"]) for row in rows]
        found = SemanticSimilarity(model).measure(samples)
        known[language] = [one.values["similarity"] for one in found], [row["human_label"] / 5 for row in rows]
    for pairs, languages in PAIRS.items():
        cosines, ratings = ([n for one in languages for n in known[one][part]] for part in (0, 1))
        for (x, y), (x_again, y_again) in zip(KNOTS[model][pairs], knots(cosines, ratings), strict=True):
            assert (x, y) == (pytest.approx(x_again, abs=0.002), pytest.approx(y_again, abs=0.002))
        by_band = bands(cosines, ratings)
        for (least, name), below in zip(BANDS, (1.01, 0.9, 0.7, 0.5), strict=True):
            n, mean = by_band[name]
            assert n >= 20 and least <= mean < below, (pairs, name, n, mean)


def test_a_higher_cosine_never_has_a_lower_rating():
    for model, maps in KNOTS.items():
        for pairs in maps:
            ratings = [rating(model, pairs, cosine / 500) for cosine in range(-500, 501)]
            assert ratings == sorted(ratings) and (ratings[0], ratings[-1]) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("texts", "pairs"),
    [
        (("It is Paris.", "Paris"), ENGLISH), (("Ça coûte 5 €", "œuvre"), ENGLISH), (("Это Париж.", "Париж"), RUSSIAN),
        (("Это GPT-4.", "GPT-4 от OpenAI"), ENGLISH), (("巴黎", "巴黎。"), BOTH), (("42", "42.0"), BOTH),
        (("Париж Paris",), BOTH),
    ],
)  # fmt: skip
def test_the_script_of_most_letters_decides(texts, pairs):
    assert pairs_for(*texts) == pairs
