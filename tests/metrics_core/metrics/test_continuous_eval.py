"""The compatibility profiles against golden numbers and against the libraries that the original used."""

import json
import math
import random
import re
import string
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.tokenize.destructive import MacIntyreContractions
from nltk.tokenize.treebank import TreebankWordTokenizer
from nltk.translate.bleu_score import sentence_bleu
from rouge import Rouge

from answerkey.metrics_core.metrics.continuous_eval import (
    FIELDS,
    PROFILES,
    STOP_WORDS,
    score,
    sentences,
    words_v0_2,
    words_v0_3,
)

CASES = json.loads((Path(__file__).parent / "data" / "continuous_eval_cases.json").read_text(encoding="utf-8"))
V2, V3 = PROFILES
EXPECTED_KEYS = {V2: "expected_v0_2_0", V3: "expected_v0_3"}
ZERO = dict.fromkeys(FIELDS, 0.0)


def score_pair(answer, reference, profile):
    return score(answer, [reference], profile)


# ---- the numbers that must come out ----


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_golden_case(case, profile):
    got = score(case["answer"], case["ground_truth_answers"], profile)
    assert got == pytest.approx(case[EXPECTED_KEYS[profile]], rel=0, abs=1e-9)
    assert tuple(got) == FIELDS


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_golden_case_for_each_reference(case):
    for reference, expected in zip(case["ground_truth_answers"], case["per_reference_v0_3"], strict=True):
        assert score_pair(case["answer"], reference, V3) == pytest.approx(expected, rel=0, abs=1e-9)


def test_tiny_scores_are_the_original_ones_too():
    # To 1e-9 a BLEU of 1.49e-154 would pass as 0, so the relative difference is looked at here.
    assert score_pair("42", "42", V3)["bleu_score"] == pytest.approx(1.491668146240062e-154, rel=1e-12, abs=0)
    assert score_pair("-5", "5", V2)["bleu_score"] == pytest.approx(1.5319719891192393e-231, rel=1e-12, abs=0)


@pytest.mark.parametrize(
    ("answer", "reference", "profile", "field", "expected"),
    [
        ("Paris. ", "Paris", V2, "rouge_l_precision", 0.5),  # the blank after the period is a sentence
        ("3.5", "5.3", V2, "rouge_l_recall", 1.0),  # two sentences per side, so the order is lost
        ("a b c a", "a c b a", V2, "rouge_l_precision", 2 / 3),
        ("we cannot", "can not", V3, "token_overlap_recall", 0.0),  # "can not" consists of stop words
        ("we cannot", "cannot", V3, "token_overlap_recall", 1.0),
        ("007", "7", V3, "token_overlap_f1", 1.0),  # numbers are compared as floats
        ("1e2", "100", V3, "token_overlap_f1", 1.0),
        ("Shakespeare’s", "Shakespeare", V2, "token_overlap_precision", 1 / 3),
    ],
)
def test_oddity_kept_on_purpose(answer, reference, profile, field, expected):
    assert score_pair(answer, reference, profile)[field] == pytest.approx(expected, rel=0, abs=1e-12)


def test_answer_of_punctuation_is_empty_only_in_v0_3():
    assert score_pair("?", "?", V2)["rouge_l_recall"] == 1.0
    assert score_pair("?", "?", V3)["rouge_l_recall"] == 0.0


# ---- what cannot be scored ----


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("reference", ["", ".", "..."])
def test_blank_reference_raises(reference, profile):
    with pytest.raises(ValueError, match=rf"{profile}: the reference '.*' is blank \(empty or periods only\)"):
        score("Paris", ["Paris", reference], profile)


@pytest.mark.parametrize("profile", PROFILES)
def test_empty_answer_is_zero_before_the_reference_is_looked_at(profile):
    assert score_pair("", "", profile) == ZERO
    assert score_pair("...", "", profile) == ZERO


@pytest.mark.parametrize("profile", PROFILES)
def test_reference_of_blanks_is_scored_as_in_the_original(profile):
    assert score_pair("Paris", " ", profile) == ZERO
    assert score_pair("Paris. ", " ", profile)["rouge_l_recall"] == 1.0


# ---- against the libraries ----


def _random_pairs(seed, count):
    """Pairs of texts with repeated tokens, periods and blanks of every kind."""
    rng = random.Random(seed)
    gaps = [" "] * 8 + [". ", ".", " . ", "  ", "\n", ".. "]
    for _ in range(count):
        alphabet = "abcdefghi"[: rng.choice([2, 3, 5, 9])]

        def text(alphabet=alphabet):
            length = rng.randint(1, rng.choice([4, 12, 45]))
            return "".join(rng.choice(alphabet) + rng.choice(gaps) for _ in range(length))

        yield text(), text()


def test_rouge_l_equals_the_rouge_package():
    oracle = Rouge(metrics=["rouge-l"])
    for answer, reference in _random_pairs(seed=1, count=1000):
        expected = oracle.get_scores(answer, reference)[0]["rouge-l"]
        got = score_pair(answer, reference, V2)
        assert [got[f"rouge_l_{name}"] for name in ("precision", "recall", "f1")] == [expected[n] for n in "prf"], (
            answer
        )


def _nltk_bleu(answer, reference):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(sentence_bleu([reference], answer))


@settings(max_examples=100)
@given(
    st.text(st.sampled_from("aaab é中я😀"), max_size=90),
    st.text(st.sampled_from("aaab é中я😀"), min_size=1, max_size=90),
)
def test_bleu_equals_nltk_on_characters_in_any_script_and_length(answer, reference):
    assert score_pair(answer, reference, V3)["bleu_score"] == _nltk_bleu(answer, reference)


PIECE_LIST = """
    paris london isn't can't Bob's we'll they've I'm cannot gonna gotta wanna lemme don't 'tis 'Romeo Juliet' (yes)
    [no] 'xy, z; 1,000 $5 50% A&B "quoted" -- well-known 3.14 u.s.a one:two three: dogs' #1 a@b.c <b> {c} more'n d'ye
"""
PIECES = PIECE_LIST.split()


def test_v0_2_words_equal_the_treebank_tokenizer():
    oracle = TreebankWordTokenizer()
    rng = random.Random(3)
    for _ in range(1000):
        text = " ".join(rng.choices(PIECES, k=rng.randint(1, 12))) + rng.choice(["", ".", "?", "!", ".)", '."', "..."])
        assert words_v0_2(text) == oracle.tokenize(text), text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # The first rows are where NLTK 3.8.1, which is reproduced, differs from the Treebank tokenizer.
        ("Shakespeare’s “Hamlet”", ["Shakespeare", "’", "s", "“", "Hamlet", "”"]),
        ("«да» „ja‘", ["«", "да", "»", "„", "ja", "‘"]),
        ("5*3", ["5", "*", "3"]),
        ("```x", ["``", "`", "x"]),
        ("a,,b", ["a", ",", ",b"]),
        ("It ended. Then he left.", ["It", "ended", ".", "Then", "he", "left", "."]),
        ("Dr. J. Smith of the U.S. Army", ["Dr.", "J.", "Smith", "of", "the", "U.S.", "Army"]),
        (" \n", []),
    ],
)
def test_v0_2_words(text, expected):
    assert words_v0_2(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mr. Smith left. He was 5.", ["Mr. Smith left.", "He was 5."]),
        ("No. 5 of 3. and", ["No.", "5 of 3. and"]),
        ("in the U.S. The law", ["in the U.S.", "The law"]),
        ("in the U. S. Congress", ["in the U. S. Congress"]),
        ('He said "yes." Then no!) Ok?', ['He said "yes."', "Then no!)", "Ok?"]),
        ("Wait... what? Yes", ["Wait... what?", "Yes"]),
        ("end.Next one", ["end.Next one"]),
        (" It.\n\n b. ", [" It.", "b."]),
    ],
)
def test_sentences(text, expected):
    assert sentences(text) == expected


def _plain_words(text):
    """The tokenizer of v0.3 as its description reads, with NLTK's contractions."""
    bare = "".join(character for character in text.lower() if character not in string.punctuation)
    bare = f" {' '.join(word for word in bare.split() if word not in STOP_WORDS)} "
    for pattern in MacIntyreContractions.CONTRACTIONS2:
        bare = re.sub(pattern, r" \1 \2 ", bare)
    return [float(word) if word.isdecimal() else word for word in bare.split()]


def test_v0_3_words_equal_their_description():
    rng = random.Random(4)
    pieces = [*PIECES, *sorted(STOP_WORDS), "Москва", "北京", "١٢", "No", "-5", "12.50"]
    for _ in range(1000):
        text = " ".join(rng.choices(pieces, k=rng.randint(0, 12)))
        assert words_v0_3(text) == _plain_words(text), text


def test_v0_3_words_around_a_sentence_end_without_a_blank():
    assert words_v0_3('He said."Then left') == ["said", "left"]
    assert words_v0_3("U.S.-based") == ["usbased"]


def test_stop_words_are_the_153_without_an_apostrophe():
    assert len(STOP_WORDS) == 153
    assert {"no", "not", "nor", "a", "who", "all", "more", "don", "s", "wouldn"} <= STOP_WORDS
    assert all(word.isalpha() and word.islower() for word in STOP_WORDS)


# ---- long texts ----


# ---- laws ----


@pytest.mark.parametrize("profile", PROFILES)
@given(answer=st.text(max_size=80), references=st.lists(st.text(max_size=80), min_size=1, max_size=4))
def test_scores_are_the_maxima_over_the_references_from_0_to_1(profile, answer, references):
    references = [reference for reference in references if reference.strip(".")] or ["Paris"]
    got = score(answer, references, profile)
    assert all(math.isfinite(value) and 0 <= value <= 1 for value in got.values())
    single = [score_pair(answer, reference, profile) for reference in references]
    assert got == {field: max(values[field] for values in single) for field in FIELDS}
