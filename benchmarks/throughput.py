"""`answer_correctness` against rouge-score and sacreBLEU called row by row: same rows, same tokens, one run.

    python benchmarks/throughput.py [--shared ../shared/data]

Prints seconds of one process and of two, ratios, and the largest difference between the numbers.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import regex

from answerkey.metrics_core import Measurement, Sample, evaluate
from answerkey.metrics_core.text import normalise, words

if TYPE_CHECKING:
    # Spawned workers import this module again, and must not pay for what only the comparison needs.
    from rouge_score.rouge_scorer import RougeScorer
    from sacrebleu.metrics.bleu import BLEU

METRIC = "answer_correctness"
# Scripts without spaces are cut into characters by us and not by 13a: the numbers differ on purpose there.
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")
Result = TypeVar("Result")


class Tokenizer:
    """Our tokens, for rouge-score."""

    def tokenize(self, text: str) -> list[str]:
        """Word tokens."""
        return list(words(text))


def row_by_row(samples: list[Sample]) -> list[dict[str, float]]:
    """What a careful user writes: two libraries and a counter for every answer and reference."""
    from rouge_score.rouge_scorer import RougeScorer
    from sacrebleu.metrics.bleu import BLEU

    rouge = RougeScorer(["rougeL"], tokenizer=Tokenizer())
    bleu = BLEU(lowercase=True, effective_order=True)
    return [_maxima(sample, rouge, bleu) for sample in samples]


def _maxima(sample: Sample, rouge: RougeScorer, bleu: BLEU) -> dict[str, float]:
    best: dict[str, float] = {}
    answer = sample.answer or ""
    for _, reference in sample.usable_references:
        score = rouge.score(reference, answer)["rougeL"]
        left, right = Counter(words(answer)), Counter(words(reference))
        shared = (left & right).total()
        precision, recall = shared / max(1, left.total()), shared / max(1, right.total())
        pair = {
            "rouge_l_precision": score.precision,
            "rouge_l_recall": score.recall,
            "rouge_l_f1": score.fmeasure,
            "token_overlap_precision": precision,
            "token_overlap_recall": recall,
            "token_overlap_f1": 2 * precision * recall / (precision + recall) if shared else 0.0,
            "bleu_score": bleu.sentence_score(normalise(answer), [normalise(reference)]).score / 100,
        }
        best = {field: max(value, best.get(field, 0.0)) for field, value in pair.items()}
    return best


def timed(function: Callable[[], Result]) -> tuple[float, Result]:
    """Seconds and result of a call."""
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def largest_difference(ours: list[Measurement], theirs: list[dict[str, float]]) -> float:
    """Over all fields of all answers."""
    return max(
        abs(value - other[field])
        for measurement, other in zip(ours, theirs, strict=True)
        for field, value in measurement.values.items()
    )


def _rows(file: Path) -> Iterator[dict[str, object]]:
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _samples(folder: Path, name: str) -> list[Sample]:
    if name == "e2e_nlg":
        references = {row["id"]: row["references"] for row in _rows(folder / "e2e_nlg/e2e_references.jsonl")}
        rows = [
            {**row, "references": references[row["meta"]["question_id"]]}  # type: ignore[index]
            for row in _rows(folder / "e2e_nlg/e2e_outputs.jsonl")
        ]
    else:
        rows = list(_rows(next((folder / name).glob("*.jsonl"))))
    return [
        Sample(str(row["id"]), str(row["answer"]), row["references"])  # type: ignore[arg-type]
        for row in rows
        if row["answer"] and row["references"] and not _UNSPACED.search(f"{row['answer']} {row['references']}")
    ]


def _compare(name: str, samples: list[Sample]) -> str:
    pairs = sum(len(sample.usable_references) for sample in samples)
    one, ours = timed(lambda: evaluate(samples, [METRIC]))
    base, theirs = timed(lambda: row_by_row(samples))
    two, _ = timed(lambda: evaluate(samples, [METRIC], workers=2))
    return (
        f"{name:<12}{len(samples):>9,}{pairs:>9,}{base:>10.2f}s{one:>7.2f}s{base / one:>7.1f}"
        f"{two:>7.2f}s{base / two:>7.1f}  {largest_difference(ours, theirs):.1e}"
    )


def main() -> int:
    """Run the comparison and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=Path, default=Path("../shared/data"))
    folder = parser.parse_args().shared
    if not folder.is_dir():
        print(f"{folder} is not there: nothing to measure on")
        return 0
    evaluate([Sample("warm", "warm up, now", ["warm", "up.. now"])], [METRIC])
    print(
        f"{'data':<12}{'answers':>9}{'pairs':>9}{'libraries':>11}{'one':>8}{'ratio':>7}{'two':>8}{'ratio':>7}"
        "  largest difference"
    )
    sets = {name: _samples(folder, name) for name in ("evouna_nq", "nq301", "e2e_nlg")}
    sets["all three"] = [sample for samples in sets.values() for sample in samples]
    for name, samples in sets.items():
        print(_compare(name, samples))
    return 0


if __name__ == "__main__":
    sys.exit(main())
