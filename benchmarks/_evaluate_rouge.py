"""ROUGE-L as a metric of Hugging Face's evaluate, loaded from this file: rouge-score's, the best of all references."""

# mypy: disable-error-code="import-not-found"

from typing import Any

import datasets
import evaluate
from rouge_score.rouge_scorer import RougeScorer


class Rouge(evaluate.Metric):  # type: ignore[misc]
    """F1 of each row."""

    def _info(self) -> Any:
        text = datasets.Value("string")
        features = datasets.Features({"predictions": text, "references": datasets.Sequence(text)})
        return evaluate.MetricInfo(description="ROUGE-L", citation="", inputs_description="", features=features)

    def _compute(self, predictions: list[str], references: list[list[str]]) -> dict[str, list[float]]:
        scorer = RougeScorer(["rougeL"], use_stemmer=False)
        pairs = zip(predictions, references, strict=True)
        return {"rougeL": [scorer.score_multi(texts, answer)["rougeL"].fmeasure for answer, texts in pairs]}
