"""Train the offline matcher on the human labels of evouna_nq, without the questions that nq301 shares with it.

    python benchmarks/train_matcher.py            # train, print its agreement with human labels, write nothing
    python benchmarks/train_matcher.py --write    # and write metrics_core/offline_judge/model.json

nq301 is not read but for the text of its questions. `make train-matcher` is the second line.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from typing import Any

import numpy as np
from _matcher_training import (
    DATA,
    SEEDS,
    SETTINGS,
    Table,
    border,
    decided,
    final,
    logits,
    out_of_fold,
    platt,
    question_key,
    read_rows,
    rule_probabilities,
    table,
    train,
)
from rapidfuzz import fuzz, process

from answerkey.metrics_core.offline_judge.features import ENCODER
from answerkey.metrics_core.offline_judge.model import FILE
from answerkey.metrics_core.offline_judge.rules import RULES_VERSION
from answerkey.metrics_core.statistics.agreement import agreement

ERRORS = (0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1)
ALIKE = 85
"""From this similarity (0..100, sorted words) on, a question is taken for one of nq301's."""
LIMITS = {"answer": 150, "reference": 15}
"""In words: nearly all of training is shorter."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"write {FILE.name}")
    parser.add_argument("--cache", help="a folder for embeddings, to train again faster")
    args = parser.parse_args()
    if not DATA.is_dir():
        sys.exit("training reads ../shared/data, which is not beside the repository")
    with tempfile.TemporaryDirectory() as folder:
        seen, unseen = split()
        data, rest = (table(rows, args.cache or folder) for rows in (seen, unseen))
    print(f"{len(data):,} answers to {len(set(data.questions)):,} questions, {len(data.names)} features")
    found = fitted(data, rest)
    text = json.dumps(found, separators=(",", ":")) + "\n"
    print(f"{len(text) / 1e3:.0f} kB; borders {dict(zip(found['errors'], found['borders'], strict=True))}")
    if args.write:
        FILE.write_text(text, encoding="utf-8")
        print(f"written to {FILE.name}")


def split() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """evouna_nq: what is trained on, and the answers to questions that nq301 has too, word for word or nearly."""
    theirs = sorted({question_key(row) for row in read_rows("nq301")})
    rows = read_rows("evouna_nq")
    shared = {
        key
        for key in {question_key(row) for row in rows}
        if process.extractOne(key, theirs, scorer=fuzz.token_sort_ratio, score_cutoff=ALIKE)
    }
    return (
        [row for row in rows if question_key(row) not in shared],
        [row for row in rows if question_key(row) in shared],
    )


def fitted(data: Table, rest: Table) -> dict[str, Any]:
    """The model file: trees from all answers; calibration, rules and borders from answers to unseen questions.

    Args:
        rest: answers that are not trained on. They count in the kappa that the file says.
    """
    scores, _ = out_of_fold(data)
    highest = np.full(len(data), -np.inf)
    np.maximum.at(highest, data.source, scores)
    slope, offset = platt(highest, data.labels)
    probabilities = 1 / (1 + np.exp(-(slope * scores + offset)))
    deciding = decided(data, probabilities)
    rules = rule_probabilities(data, deciding)
    probability, verdicts = final(deciding, rules)
    right = np.where(data.labels == 1, probability, 1 - probability)
    models = train(data, np.arange(len(data)))
    rest_logits = slope * logits(models, rest.x) + offset
    _, rest_verdicts = final(decided(rest, 1 / (1 + np.exp(-rest_logits))), rules)
    found = agreement(
        np.r_[verdicts, rest_verdicts].astype(float),
        np.r_[data.labels, rest.labels],
        clusters=np.r_[data.questions, rest.questions],
    )
    print(f"kappa with human labels on unseen questions: {found.kappa.value:.3f} {found.kappa.interval}")
    return {
        "format": 1,
        "trained_on": {
            "data": "evouna_nq without the questions of nq301",
            "answers": len(data),
            "questions": len(set(data.questions)),
            "judged_on": "evouna_nq, questions it had not seen",
            "kappa": round(found.kappa.value, 3),
            "encoder": ENCODER,
            "rules": RULES_VERSION,
            "settings": {**SETTINGS, "seeds": SEEDS},
        },
        "limits": LIMITS,
        "features": data.names,
        "slope": round(slope, 6),
        "offset": round(offset, 6),
        "rules": rules,
        "errors": ERRORS,
        "borders": [round(border(right, error), 4) for error in ERRORS],
        "base": round(float(np.mean([model._baseline_prediction.item() for model in models])), 6),
        "scale": 1 / len(models),
        "trees": [exported(stage[0].nodes) for model in models for stage in model._predictors],
    }


def exported(nodes: Any) -> dict[str, list[float]]:
    leaf = nodes["is_leaf"].astype(bool)
    return {
        "feature": np.where(leaf, -1, nodes["feature_idx"]).tolist(),
        "threshold": [0 if end else float(f"{t:.6g}") for end, t in zip(leaf, nodes["num_threshold"], strict=True)],
        "left": np.where(leaf, 0, nodes["left"]).tolist(),
        "right": np.where(leaf, 0, nodes["right"]).tolist(),
        "value": [round(float(v), 5) if end else 0 for end, v in zip(leaf, nodes["value"], strict=True)],
    }


if __name__ == "__main__":
    main()
