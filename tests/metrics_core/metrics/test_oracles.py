"""Equal to 1e-12 with the libraries that define the metrics, where the definitions agree."""

import json
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer
from rouge_score.tokenizers import DefaultTokenizer, Tokenizer
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from answerkey import Sample, evaluate
from answerkey.metrics_core.metrics.bleu import bleu_tokens, corpus_bleu
from answerkey.metrics_core.text import normalise, words
from tests.metrics_core.metrics_help import read_jsonl, scored

many = settings(max_examples=50)


def exactly(expected):
    return pytest.approx(expected, rel=0, abs=1e-12)


PRINTABLE = st.characters(min_codepoint=32, max_codepoint=126)
VOCABULARY = [
    *("the", "cat", "sat", "on", "a", "mat", "not", "don't", "-5", "3.14", "1,000", "$5", "5%", "10²", "½", "№"),
    *("кошка", "не", "ёж", "«да»", "العاصمة", "ليست", "नई", "दिल्ली", "서울은", "수도다", "北京是首都", "ไม่ใช่กรุงเทพ"),
]


@st.composite
def prose(draw):
    """An answer and references of a few words in common, in several scripts."""
    vocabulary = st.sampled_from(draw(st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=8)))
    text = st.builds(
        lambda parts, end: " ".join(parts) + end, st.lists(vocabulary, max_size=14), st.sampled_from(".? ")
    )
    return draw(text), draw(st.lists(text, min_size=1, max_size=4))


@st.composite
def soup(draw):
    """Mostly punctuation, with a reference near the answer now and then."""
    piece = st.sampled_from([*"ab1 .,-&;'\"<>$%/", "&amp;", "&quot;", "&lt;", "<skipped>", "1.5", ".5", "a-b"])
    text = st.lists(piece | PRINTABLE, max_size=16).map("".join)
    answer = draw(text)
    references = draw(st.lists(text | text.map(lambda end: answer + end), min_size=1, max_size=4))
    return answer, references


def value(metric, answer, references):
    """The values of one metric, for a sample that has some."""
    measurement = scored(metric, answer, references)
    assert measurement.status == "scored", measurement.reason
    return dict(measurement.values)


def usable(references):
    found = [reference for reference in references if normalise(reference)]
    assume(found)
    return found


class OurTokenizer(Tokenizer):
    """Our words for rouge-score."""

    def tokenize(self, text):
        return list(words(text))


def rouge_scores(answer, references, tokenizer):
    scorer = RougeScorer(["rougeL"], tokenizer=tokenizer)
    scores = [scorer.score(reference, answer)["rougeL"] for reference in references]
    best = max(scores, key=lambda score: (score.fmeasure, score.recall, score.precision))
    return {"precision": best.precision, "recall": best.recall, "f1": best.fmeasure}


@many
@given(prose() | soup())
def test_rouge_l_is_rouge_scores_on_our_words(case):
    answer, references = case[0], usable(case[1])
    # A text without a word has no subsequence; that it equals itself is our addition.
    assume(words(answer))
    assert value("rouge_l", answer, references) == exactly(rouge_scores(answer, references, OurTokenizer()))


@many
@given(*[st.text("abc019 ", min_size=1, max_size=30).filter(str.strip)] * 2)
def test_rouge_l_is_rouge_scores_own_on_lower_case_ascii(answer, reference):
    assert list(words(answer)) == DefaultTokenizer(use_stemmer=False).tokenize(answer)
    assert value("rouge_l", answer, [reference]) == exactly(
        rouge_scores(answer, [reference], DefaultTokenizer(use_stemmer=False))
    )


@pytest.mark.parametrize("alphabet", [2, 30, 2000])
def test_rouge_l_of_long_texts(alphabet):
    rng = random.Random(alphabet)
    vocabulary = [f"w{i}" for i in range(alphabet)]
    for size in (63, 64, 65, 400):
        answer, reference = (" ".join(rng.choices(vocabulary, k=k)) for k in (size, 300))
        assert value("rouge_l", answer, [reference]) == exactly(rouge_scores(answer, [reference], OurTokenizer()))


def overlap(answer, reference):
    """F1, recall and precision of two bags of words, by the book."""
    given_, expected = Counter(words(answer)), Counter(words(reference))
    common = sum((given_ & expected).values())
    precision = common / given_.total() if given_ else 0.0
    recall = common / expected.total() if expected else 0.0
    return 2 * precision * recall / (precision + recall) if common else 0.0, recall, precision


@many
@given(prose() | soup())
def test_token_overlap_is_the_overlap_of_bags_of_words(case):
    answer, references = case[0], usable(case[1])
    assume(words(answer))
    f1, recall, precision = max(overlap(answer, reference) for reference in references)
    assert value("token_overlap", answer, references) == exactly({"precision": precision, "recall": recall, "f1": f1})


@many
@given(soup())
@example(("It's 3.14, isn't it?", ["It is 3.14 -- is it not?", "it's 3.14"]))
@example(("a", ["a b c d e", "a a"]))
@example(("&amp; &quot;a&quot;", ['& "a"']))
@example(("<skipped>", ["<skipped> a"]))
def test_bleu_is_sacrebleus_on_ascii(case):
    answer, references = case[0], usable(case[1])
    assume(normalise(answer))
    oracle = BLEU(lowercase=True, effective_order=True).sentence_score(answer, references).score / 100
    if normalise(answer) in map(normalise, references) and not bleu_tokens(normalise(answer)).strip():
        oracle = 1.0  # "<skipped>" is nothing to the tokenizer, and still it equals itself
    assert value("bleu", answer, references)["bleu"] == exactly(oracle)


@many
@given(prose())
def test_bleu_is_sacrebleus_on_our_tokens_in_every_script(case):
    answer, references = case[0], usable(case[1])
    assume(normalise(answer))
    cut, *split_references = (bleu_tokens(normalise(text)) for text in (answer, *references))
    oracle = BLEU(tokenize="none", effective_order=True).sentence_score(cut, split_references).score / 100
    assert value("bleu", answer, references)["bleu"] == exactly(oracle)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("北京，是首都", "北 京 , 是 首 都"),
        ("ก็ไม่ใช่", "ก็ ไ ม่ ใ ช่"),
        ("不是-5度", "不 是 -5 度"),
        ("не 3.14, а 5%.", "не 3.14 , а 5 % ."),
        ("it's 1,000.5-6", "it's 1,000.5 - 6"),
    ],
)
def test_what_bleu_counts(text, tokens):
    assert bleu_tokens(normalise(text)) == tokens


@settings(max_examples=75)
@given(st.lists(st.sampled_from([*"ab19.,-&;'\" <>$%/é", "&amp;", "&lt", "<skipped>", "-\n"]) | PRINTABLE).map("".join))
def test_the_short_way_to_13a_tokens_ends_where_sacrebleus_does(text):
    normalised = normalise(text)
    assert bleu_tokens(normalised).split() == Tokenizer13a()(normalised).split()


@many
@given(prose() | soup())
def test_chrf_is_sacrebleus(case):
    answer, references = case[0], usable(case[1])
    assume(normalise(answer))
    normalised, *normalised_references = map(normalise, [answer, *references])
    # Best of the references, found one by one.
    oracle = max(CHRF().sentence_score(normalised, [reference]).score for reference in normalised_references) / 100
    if normalised in normalised_references:
        oracle = 1.0
    assert value("chrf", answer, references)["chrf"] == exactly(oracle)
    if answer.isascii() and all(map(str.isascii, references)) and oracle < 1:
        raw = CHRF(lowercase=True).sentence_score(answer, references).score / 100
        assert value("chrf", answer, references)["chrf"] == exactly(raw)


@pytest.mark.parametrize("alphabet", ["ab ", "abcdef gh", "aж日é "])
def test_chrf_of_many_long_and_repetitive_references_is_sacrebleus_to_the_last_bit(alphabet):
    rng = random.Random(alphabet)
    for size in (5, 60, 700):
        texts = [normalise("".join(rng.choices(alphabet, k=size))) for _ in range(6)]
        texts[1] = normalise(texts[0][: size // 2] + texts[1])
        oracle = CHRF().sentence_score(texts[0], texts[1:]).score / 100
        assert value("chrf", texts[0], texts[1:])["chrf"] == min(1.0, oracle) or texts[0] in texts[1:]


# Corpus BLEU from the statistics that metric `bleu` leaves in its details

SENTENCES = st.lists(st.sampled_from([*"abcde", "-5", "3.14", "не", "A,", "d."]), min_size=1, max_size=9).map(" ".join)


def summed(samples):
    """The statistics of `samples`, as the report adds them up."""
    return np.sum([measurement.details["stats"] for measurement in evaluate(samples, ["bleu"])], axis=0)


@pytest.mark.nightly
def test_the_21_systems_of_the_e2e_challenge(shared):
    folder = shared / "data" / "e2e_nlg"
    references = {row["id"]: row["references"] for row in read_jsonl(folder / "e2e_references.jsonl")}
    published = json.loads((folder / "e2e_bleu_rouge.json").read_text(encoding="utf-8"))["systems"]
    systems = {}
    for row in read_jsonl(folder / "e2e_outputs.jsonl"):
        sample = Sample(row["id"], row["answer"], references[row["meta"]["question_id"]])
        systems.setdefault(row["model"], []).append(sample)
    assert [len(samples) for samples in systems.values()] == [630] * 21
    assert {name: round(float(corpus_bleu(summed(samples))), 4) for name, samples in systems.items()} == {
        name: system["bleu_published_and_reproduced"] for name, system in published.items()
    }


@given(st.data(), st.integers(1, 3))
def test_corpus_bleu_is_sacrebleus_and_counts_missing_answers(data, n_references):
    row = st.tuples(SENTENCES | st.just(""), *[SENTENCES] * n_references)
    rows = data.draw(st.lists(row, min_size=1, max_size=8).filter(lambda rows: any(answer for answer, *_ in rows)))
    streams = [list(column) for column in zip(*rows, strict=True)]
    oracle = BLEU(lowercase=True).corpus_score(streams[0], streams[1:])
    stats = summed(Sample(str(i), answer or None, references) for i, (answer, *references) in enumerate(rows))
    assert stats.tolist() == [oracle.sys_len, oracle.ref_len, *oracle.counts, *oracle.totals]
    assert corpus_bleu(stats) == exactly(min(1.0, oracle.score / 100))


def test_a_release_that_says_nothing_scores_zero():
    assert corpus_bleu(summed([Sample("1", None, ["a b"]), Sample("2", "", ["c"])])) == 0
    # Without a single run of four words the plain definition has nothing to multiply.
    assert corpus_bleu(summed([Sample("1", "a b c", ["a b c"])])) == 0


def test_sentences_are_lower_cased_and_normalised_first():
    assert normalise("A “B” c D.") == 'a "b" c d.'
    assert corpus_bleu(summed([Sample("1", "A “B” c D.", ['a "b" C d.'])])) == 1
