"""The metric `rouge` is rouge-score, called as papers call it."""

import pytest
from rouge_score.rouge_scorer import RougeScorer

from answerkey.metrics_core import Sample, evaluate
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.text import words
from tests.metrics_core.metrics_help import read_jsonl, scored

TYPES = ["rouge1", "rouge2", "rougeL", "rougeLsum"]


class Words:
    def tokenize(self, text):
        return words(text)


def rouge(answer, references, **options):
    return scored("rouge", answer, references, **options)


@pytest.mark.parametrize(
    ("options", "scorer"),
    [
        ({}, RougeScorer(TYPES)),
        ({"stemmer": True}, RougeScorer(TYPES, use_stemmer=True)),
        ({"tokenizer": "words"}, RougeScorer(TYPES, tokenizer=Words())),
    ],
    ids=["plain", "stemmed", "words"],
)
@pytest.mark.parametrize(
    ("answer", "references"),
    [
        ("The cats were sitting\non the mats.", ["The cat sat.\nIt was on a mat.", "cats sit on mats"]),
        ("Paris", ["Paris"]),
        ("a b c d", ["a b c d e f g h", "a", "c d", "x"]),
        ("It's 3.14, isn't it?", ["it is 3.14"]),
        ("столица Paris", ["Paris — столица", "Rome"]),
        ("!", ["Paris"]),
    ],
)
def test_rouge_is_rouge_scores(options, scorer, answer, references):
    expected = scorer.score_multi(references, answer)
    assert rouge(answer, references, **options).values == {name.lower(): expected[name].fmeasure for name in TYPES}


def test_rouge_of_human_references_is_rouge_scores(shared):
    folder = shared / "data" / "e2e_nlg"
    references = {row["id"]: row["references"] for row in read_jsonl(folder / "e2e_references.jsonl")}
    outputs = read_jsonl(folder / "e2e_outputs.jsonl")[::400]
    assert len(outputs) > 30
    samples = [Sample(row["id"], row["answer"], references[row["meta"]["question_id"]]) for row in outputs]
    scorer = RougeScorer(TYPES)
    for sample, measurement in zip(samples, evaluate(samples, ["rouge"]), strict=True):
        expected = scorer.score_multi(sample.references, sample.answer)
        assert measurement.values == {name.lower(): expected[name].fmeasure for name in TYPES}


def test_signatures_name_the_tokenizer():
    def signature(**options):
        return rouge("a", ["a"], **options).signature

    assert signature() == "rouge|v1|tok:rouge_score|refs:max|blank:zero"
    assert signature(stemmer=True) == "rouge|v1|tok:rouge_score+porter|refs:max|blank:zero"
    assert signature(tokenizer="words") == "rouge|v1|tok:unicode1|refs:max|blank:zero"
    with pytest.raises(UserError, match="metric rouge: stemmer is for the tokenizer rouge_score"):
        signature(tokenizer="words", stemmer=True)


@pytest.mark.parametrize(
    ("answer", "references", "options", "reason"),
    [
        ("Париж", ["Париж"], {}, "no reference has a word that the tokenizer rouge_score reads"),
        ("?", ["?"], {"tokenizer": "words"}, "no reference has a word that the tokenizer words reads"),
        ("a " * 6_000, ["b " * 5_000], {}, "too long for rouge-score: 30,000,000 pairs of words"),
        ("a", [" "], {}, "no reference"),
    ],
)
def test_where_rouge_score_has_no_number_there_is_none(answer, references, options, reason):
    measurement = rouge(answer, references, **options)
    assert measurement.status == "undefined"
    assert (measurement.reason or "").startswith(reason)


def test_a_blank_answer_is_a_wrong_answer_or_left_out():
    assert rouge(None, ["Paris"]).values == dict.fromkeys(("rouge1", "rouge2", "rougel", "rougelsum"), 0.0)
    assert rouge(" ", ["Paris"], blank_answer="undefined").status == "undefined"
