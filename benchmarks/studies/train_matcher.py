"""Train the offline matcher on human labels, and print the tables of docs/offline_judge_measured.md.

    python benchmarks/studies/train_matcher.py            # train, print all tables, write nothing
    python benchmarks/studies/train_matcher.py --write    # and write metrics_core/offline_judge/model.json

It takes five minutes on two idle cores. Nothing is learnt from nq301. `make train-matcher` is the second line.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from _matcher_data import (
    DATA,
    FILES,
    KINDS,
    LIMITS,
    MADE,
    TRAINED_ON,
    Row,
    Table,
    held_back,
    pair_of,
    question_key,
    rarities,
    read_rows,
    table,
)
from _matcher_made import taught
from _matcher_tables import Outcome, print_tables
from _matcher_training import (
    SEEDS,
    SETTINGS,
    SETTINGS_AGAINST,
    UNTAUGHT,
    Judged,
    base_of,
    centroids,
    exported,
    highest,
    logits,
    out_of_fold,
    platt,
    rule_probabilities,
    train,
)

from answerkey.metrics_core.decide.agreement import agreement
from answerkey.metrics_core.offline_judge.model import FILE
from answerkey.metrics_core.offline_judge.rules import RULES_VERSION

FAMILIES = {
    "evouna_nq": ("evouna_nq",),
    "evouna_tq": ("evouna_tq",),
    "efficientqa": ("efficientqa",),
    "truthfulqa": ("truthfulqa", "truthfulqa, five languages"),
}
"""What is left out together: the two files of truthfulqa share their questions."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"write {FILE.name}")
    args = parser.parse_args()
    if not DATA.is_dir():
        sys.exit("training reads ../shared/data, which is not beside the repository")
    rows = all_rows()
    words = rarities(texts_of(rows))
    found = {**fitted(table(rows, words), rows), "words": words}
    text = json.dumps(found, separators=(",", ":")) + "\n"
    print(f"\n{len(text) / 1e3:.0f} kB")
    if args.write:
        FILE.write_text(text, encoding="utf-8")
        print(f"written to {FILE.name}")


def all_rows() -> dict[str, list[dict[str, Any]]]:
    """The rows of all sets, and those made from gold answers that may be trained on."""
    rows = {name: read_rows(name) for name in FILES}
    english = [name for name in TRAINED_ON if not name.endswith("languages")]
    gold = [row for name in english for row in rows[name] if trainable(name, row)]
    return {**rows, MADE: taught(gold)}


def trainable(name: str, row: Row) -> bool:
    """Whether the model may see this answer."""
    return name != "nq301" and question_key(row) not in held_back()


def texts_of(rows: Mapping[str, list[dict[str, Any]]]) -> list[str]:
    """All questions and right answers that may be trained on, each once."""
    pairs = [pair_of(row) for name in TRAINED_ON for row in rows[name] if trainable(name, row)]
    return sorted({text for pair in pairs for text in (pair.question, *pair.references)})


def fitted(data: Table, rows: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """The model file: trees from all answers; the rest from answers to questions that the trees had not seen."""
    ours = np.array([trainable(name, row) for name, some in rows.items() for row in some])
    real = ours & (data.sets != MADE)
    right, wrong = out_of_fold(data, ours)
    slope, offset = platt(highest(data, right)[real], data.labels[real])
    within = Judged(data, slope * right + offset, slope * wrong + offset, real)
    left_out = without_the_set(data, ours, right, wrong, within)
    places = centroids(data, within, real)
    models = train(data, np.flatnonzero(ours), SEEDS)
    final = Judged(data, *(slope * logits(models, side.x) + offset for side in (data.right, data.wrong)), within.fitted)
    for judged in (within, final):
        judged.doubt(data, places)
    agreed = agreements(data, real, within, slope * right + offset)
    outcome = Outcome(data, rows, real, within, left_out, final)
    print_tables(outcome)
    return {
        "format": 7,
        "trained_on": {
            "data": ", ".join([*TRAINED_ON, "pairs made from them"]) + ", without the questions of nq301",
            "answers": int(real.sum()),
            "questions": len(set(data.questions[real])),
            "made": int((ours & ~real).sum()),
            "rules": RULES_VERSION,
            "settings": {**SETTINGS, "seeds": SEEDS, "against": SETTINGS_AGAINST},
        },
        "agreement": agreed,
        "limits": LIMITS,
        "centroids": places,
        "features": data.names,
        "slope": round(slope, 6),
        "offset": round(offset, 6),
        **within.fitted,
        "base": base_of(models),
        "scale": 1 / len(models),
        "trees": exported(models),
    }


def without_the_set(
    data: Table, ours: np.ndarray, right: np.ndarray, wrong: np.ndarray, within: Judged
) -> dict[str, Judged]:
    """For each family of sets, what a matcher says of it that was trained and calibrated on the others alone."""
    found = {}
    for name, family in FAMILIES.items():
        inside = np.isin(data.sets, family)
        others = ours & ~inside & ~np.isin(data.questions, data.questions[inside])
        models = train(data, np.flatnonzero(others))
        real = others & (data.sets != MADE)
        slope, offset = platt(highest(data, right)[real], data.labels[real])
        scores = [
            np.where(inside[side.source], logits(models, side.x), own)
            for side, own in ((data.right, right), (data.wrong, wrong))
        ]
        # Only one family has known wrong answers.
        against = UNTAUGHT if name == "truthfulqa" else within.fitted
        rules = rule_probabilities(data.labels[real], np.array(within.rules)[real])
        found[name] = Judged(data, *(slope * one + offset for one in scores), {**against, "rules": rules})
        found[name].doubt(data, centroids(data, found[name], real))
    return found


def agreements(data: Table, real: np.ndarray, within: Judged, right: np.ndarray) -> dict[str, float]:
    """Kappa by kind of data, of answers to questions that were not trained on."""
    alone = highest(data, right) >= 0
    groups = {kind: (within.verdicts, real & (data.kinds == kind)) for kind in KINDS}
    groups["claims without known wrong answers"] = (alone.astype(float), groups["claims"][1])
    return {
        kind: round(agreement(verdicts[own], data.labels[own]).kappa.value, 3)
        for kind, (verdicts, own) in groups.items()
    }


if __name__ == "__main__":
    main()
