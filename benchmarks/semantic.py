"""The embedded models of `semantic_similarity` against human judgements (STS-B), and their speed.

    python benchmarks/semantic.py

Prints, for each model and language, Pearson and Spearman correlation of the similarity with the mean
judgement of people on the 1,500 development pairs of STS-B (Russian: machine-translated), and texts
per second, measured on the same texts without a cache, model loaded. Then by how much sharing a batch changes a score.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import numpy as np
from scipy.stats import pearsonr, spearmanr

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from answerkey.metrics_core import Sample  # noqa: E402
from answerkey.metrics_core.embeddings.embed import cosine  # noqa: E402
from answerkey.metrics_core.embeddings.models import load_encoder  # noqa: E402
from answerkey.metrics_core.metrics.semantic_similarity import SemanticSimilarity  # noqa: E402

DATA = ROOT.parent / "shared" / "data" / "stsb"
MODELS = ("minilm", "use-multilingual")


def pairs(language: str) -> tuple[list[Sample], list[float]]:
    lines = (DATA / f"stsb_{language}_dev.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    samples = [Sample(row["id"], row["answer"], row["references"]) for row in rows]
    return samples, [float(row["human_label"]) for row in rows]


def quality_and_speed() -> None:
    print(f"{'model':18} {'lang':4} {'Pearson':>8} {'Spearman':>8} {'texts/s':>8}")
    for language in ("en", "ru"):
        samples, labels = pairs(language)
        texts = {text for sample in samples for text in (sample.answer, *sample.references)}
        for model in MODELS:
            load_encoder(model)
            start = time.perf_counter()
            measured = SemanticSimilarity((model,)).measure(samples)
            rate = len(texts) / (time.perf_counter() - start)
            values = [measurement.values["similarity"] for measurement in measured]
            pearson, spearman = pearsonr(values, labels)[0], spearmanr(values, labels)[0]
            print(f"{model:18} {language:4} {pearson:8.4f} {spearman:8.4f} {rate:8.0f}")


def loading() -> None:
    for model in MODELS:
        start = time.perf_counter()
        load_encoder(model)
        print(f"{model:18} import and load: {time.perf_counter() - start:.1f} s")


def batch_effect() -> None:
    samples, _ = pairs("en")
    texts = sorted({sample.answer or "" for sample in samples[:400]}, key=len)
    for model in MODELS:
        encoder = load_encoder(model)
        size = encoder.batch_size
        together = np.concatenate([encoder.encode(texts[i : i + size]).vectors for i in range(0, len(texts), size)])
        alone = np.concatenate([encoder.encode([text]).vectors for text in texts])
        apart = max(
            abs(cosine(together[i], together[i - 1]) - cosine(alone[i], alone[i - 1])) for i in range(len(texts))
        )
        print(f"{model:18} cosines differ by at most {apart:.1e} between one text and {size} a batch")


def main() -> None:
    if not DATA.is_dir():
        sys.exit("this benchmark reads ../shared/data/stsb, which is not beside the repository")
    print(f"{os.cpu_count()} cores, STS-B development pairs")
    loading()
    quality_and_speed()
    batch_effect()


if __name__ == "__main__":
    main()
