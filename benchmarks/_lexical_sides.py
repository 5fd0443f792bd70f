"""The process of one contestant of `lexical.py`: `python _lexical_sides.py LIBRARY`.

It runs in the environment of its library. Each function below takes the rows, and returns the function to time, which
gives a value from 0 to 1 for each row, or, where the library says nothing else, one mean of all rows. Every library
does what its authors would do: nothing is constructed for each row that can be constructed once, and each text is
tokenised once where the library lets the caller do so.
"""

# mypy: disable-error-code="import-not-found"
# Most of these libraries are in other environments.

from __future__ import annotations

import asyncio
import json
import re
import string
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from _turns import serve

Row = dict[str, Any]
Work = Callable[[], list[float]]
FIELDS = {"rouge_l": "f1", "token_overlap": "f1", "exact_match": "match"}
HERE = Path(__file__).resolve().parent


def answerkey(task: str, rows: list[Row]) -> Work:
    sys.path.insert(0, str(HERE.parent))
    from answerkey import Sample, evaluate
    from answerkey.metrics_core.metrics.continuous_eval import FIELDS as OLD
    from answerkey.metrics_core.metrics.continuous_eval import score

    if task == "continuous_eval":
        return lambda: [
            value
            for row in rows
            for field, value in score(row["answer"], row["references"], "continuous_eval_v0_3").items()
            if field in ("rouge_l_f1", OLD[-1])
        ]
    field = FIELDS[task]

    def work() -> list[float]:
        samples = [Sample(row["id"], row["answer"], row["references"]) for row in rows]
        return [one.values[field] for one in evaluate(samples, [task])]

    return work


def rouge_score(task: str, rows: list[Row]) -> Work:
    """With its own tokenizer."""
    from rouge_score.tokenizers import DefaultTokenizer

    return _rouge_score(rows, DefaultTokenizer(use_stemmer=False).tokenize)


def rouge_score_our_words(task: str, rows: list[Row]) -> Work:
    """With our words: the same definition, so that the values are the same."""
    sys.path.insert(0, str(HERE.parent))
    from answerkey.metrics_core.text import words

    return _rouge_score(rows, words)


def _rouge_score(rows: list[Row], tokenize: Callable[[str], Any]) -> Work:
    from rouge_score.rouge_scorer import RougeScorer

    # Each text is cut once.
    scorer = RougeScorer(["rougeL"], tokenizer=SimpleNamespace(tokenize=cache(tokenize)))
    return lambda: [
        max(scorer.score(reference, row["answer"])["rougeL"].fmeasure for reference in row["references"])
        for row in rows
    ]


def rouge(task: str, rows: list[Row]) -> Work:
    """The recipe of continuous-eval without its token overlap: less than what our profile does."""
    from nltk.translate.bleu_score import sentence_bleu
    from rouge import Rouge

    warnings.filterwarnings("ignore", message=r"\s*The hypothesis contains 0 counts")
    scorer = Rouge(metrics=["rouge-l"])

    def one(answer: str, reference: str) -> tuple[float, float]:
        found = scorer.get_scores(answer, reference)[0]["rouge-l"]["f"] if answer.strip(string.punctuation) else 0.0
        return found, sentence_bleu([reference], answer)

    return lambda: [
        max(values)
        for row in rows
        for values in zip(*(one(row["answer"], reference) for reference in row["references"]), strict=True)
    ]


def squad(task: str, rows: list[Row]) -> Work:
    """SQuAD's definition in our words: articles and ASCII punctuation fall out, then F1 of the bags of words."""
    articles = re.compile(r"\b(a|an|the)\b")
    without = str.maketrans("", "", string.punctuation)

    @cache
    def words(text: str) -> tuple[str, ...]:
        return tuple(articles.sub(" ", text.lower().translate(without)).split())

    def f1(given: tuple[str, ...], expected: tuple[str, ...]) -> float:
        if not given or not expected:
            return float(given == expected)
        shared = (Counter(given) & Counter(expected)).total()
        return 2 * shared / (len(given) + len(expected))

    def exact(given: tuple[str, ...], expected: tuple[str, ...]) -> float:
        return float(given == expected)

    compare = f1 if task == "token_overlap" else exact
    return lambda: [max(compare(words(row["answer"]), words(text)) for text in row["references"]) for row in rows]


def torchmetrics(task: str, rows: list[Row]) -> Work:
    from torchmetrics.functional import text as metrics

    answers, references = [row["answer"] for row in rows], [row["references"] for row in rows]
    if task == "rouge_l":
        cut = lru_cache(maxsize=None)(lambda text: re.findall("[a-z0-9]+", text))
        lower = lru_cache(maxsize=None)(str.lower)
        return lambda: [
            float(
                metrics.rouge_score(
                    answers, references, accumulate="best", rouge_keys="rougeL", tokenizer=cut, normalizer=lower
                )["rougeL_fmeasure"]
            )
        ]
    name = "f1" if task == "token_overlap" else "exact_match"
    given = [{"prediction_text": answer, "id": str(i)} for i, answer in enumerate(answers)]
    expected = [
        {"answers": {"answer_start": [0] * len(texts), "text": texts}, "id": str(i)}
        for i, texts in enumerate(references)
    ]
    return lambda: [float(metrics.squad(given, expected)[name]) / 100]


def evaluate(task: str, rows: list[Row]) -> Work:
    """Its own metrics are downloaded when they are used; this one, in our words, calls rouge-score as its own does."""
    from evaluate import load

    metric = load(str(HERE / "_evaluate_rouge.py"), cache_dir="cache")
    answers, references = [row["answer"] for row in rows], [row["references"] for row in rows]
    return lambda: metric.compute(predictions=answers, references=references)["rougeL"]


def ragas(task: str, rows: list[Row]) -> Work:
    """One event loop for all pairs of an answer and a reference; the best of these."""
    from ragas.dataset_schema import SingleTurnSample
    from ragas.metrics import ExactMatch, RougeScore

    metric = {
        "rouge_l": lambda: RougeScore(rouge_type="rougeL", mode="fmeasure"),
        "exact_match": ExactMatch,
    }[task]()
    pairs = [
        [SingleTurnSample(response=row["answer"], reference=reference) for reference in row["references"]]
        for row in rows
    ]

    async def all_of_them() -> list[float]:
        return [max([float(await metric._single_turn_ascore(one, None)) for one in samples]) for samples in pairs]

    return lambda: asyncio.run(all_of_them())


def deepeval(task: str, rows: list[Row]) -> Work:
    if task == "exact_match":
        from deepeval.metrics import ExactMatchMetric
        from deepeval.test_case import LLMTestCase

        metric = ExactMatchMetric()
        cases = [
            [LLMTestCase(input="?", actual_output=row["answer"], expected_output=text) for text in row["references"]]
            for row in rows
        ]
        return lambda: [max(float(metric.measure(case, _show_indicator=False)) for case in one) for one in cases]
    from deepeval.scorer import Scorer

    return lambda: [
        max(float(Scorer.rouge_score(text, row["answer"], "rougeL")) for text in row["references"]) for row in rows
    ]


WARM = [
    {"id": "0", "answer": "It is, well.. 10² & more: “Paris”", "references": ["Paris", "Rome &amp; 1,000.50 кг"]},
    {"id": "1", "answer": "An answer of some eight or nine words is here.", "references": ["北京", "some eight words"]},
]
"""What is imported, compiled or looked up at the first use is not timed."""
WHO: dict[str, tuple[Callable[[str, list[Row]], Work], tuple[str, ...]]] = {
    "answerkey": (answerkey, ("answerkey", "rapidfuzz", "regex")),
    "rouge-score": (rouge_score, ("rouge-score",)),
    "rouge-score, our words": (rouge_score_our_words, ("rouge-score",)),
    "rouge + NLTK": (rouge, ("rouge", "nltk")),
    "SQuAD's definition": (squad, ()),
    "torchmetrics": (torchmetrics, ("torchmetrics", "torch")),
    "evaluate": (evaluate, ("evaluate",)),
    "ragas": (ragas, ("ragas",)),
    "DeepEval": (deepeval, ("deepeval",)),
}

if __name__ == "__main__":
    contestant, names = WHO[sys.argv[1]]

    def prepare(task: str, file: str) -> Work:
        rows = [json.loads(line) for line in Path(file).read_text(encoding="utf-8").splitlines()]
        contestant(task, WARM)()
        return contestant(task, rows)

    serve(prepare, *names)
