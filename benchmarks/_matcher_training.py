"""How the offline matcher is trained: for `train_matcher.py`, which writes the model, and `matcher.py`.

The data are human-labelled answers in ../shared/data; see its README and docs/offline_judge.md.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from answerkey.metrics_core.offline_judge.matcher import HALF, Pair, final_ruling, look, matrix  # noqa: E402  # noqa: E402
from answerkey.metrics_core.offline_judge.rules import (  # noqa: E402
    FOR_A_MATCH,
    RuleId,
    Ruling,
)
from answerkey.metrics_core.offline_judge.vocabulary import word_set  # noqa: E402

DATA = ROOT.parent / "shared" / "data"
FOLDS, SEEDS, ROUNDS = 5, 4, 1
BY_DOCUMENT = dict.fromkeys(("hedged", "alternatives", "negated", "opposite", "other_list"), 0.05)
"""The metric's definition rejects these, whatever the training labels say, so their probability is set, not learned."""

# Features of which more can only speak for a match, or against one: monotonic trees generalise better.
RISING = word_set(
    "recall recall_rare recall_soft recall_all recall_head recall_focus first_hit last_hit whole "
    "rouge_recall numbers_found numbers_found_head near_head near_focus near_asked_head near_asked_focus "
    "near_stated near_stated_head near_span near_best near_asked_span near_asked_gain near_residue "
    "near_words near_word_least characters_head characters_part characters_tokens characters_residue "
    "date_state date_head precision_residue polarity best_span best_asked"
)
FALLING = word_set("missing missing_rarest missing_numbers missing_names number_gap year_gap refusal hedge")
SETTINGS: Mapping[str, Any] = {
    "learning_rate": 0.05, "max_iter": 180, "max_leaf_nodes": 12, "min_samples_leaf": 30, "l2_regularization": 5.0,
    "max_features": 0.3,
}  # fmt: skip


def read_rows(name: str) -> list[dict[str, Any]]:
    """Labelled rows with an answer of `evouna_nq` or `nq301`."""
    path = {"evouna_nq": "evouna_nq/evouna_nq_dev.jsonl", "nq301": "nq301/nq301.jsonl"}[name]
    rows = [json.loads(line) for line in (DATA / path).read_text(encoding="utf-8").splitlines()]
    return [
        row
        for row in rows
        if row["human_label"] is not None and (row["answer"] or "").strip() and row["meta"].get("usable", True)
    ]


def question_key(row: Mapping[str, Any]) -> str:
    """Equal for questions that differ in case and punctuation only."""
    return " ".join(re.findall(r"\w+", row["question"].lower()))


@dataclass(frozen=True, eq=False)
class Table:
    """Answers as the model sees them.

    `x`: (references, features); `source`: which answer each row of `x` belongs to; the rest by answer.
    """

    names: tuple[str, ...]
    x: np.ndarray
    source: np.ndarray
    labels: np.ndarray
    questions: np.ndarray
    releases: np.ndarray
    rulings: tuple[tuple[Ruling | None, ...], ...]

    def __len__(self) -> int:
        return len(self.labels)

    def best(self, scores: np.ndarray) -> np.ndarray:
        """For each answer, the row of `x` with the highest score."""
        order = np.lexsort((scores, self.source))
        last = np.r_[self.source[order][1:] != self.source[order][:-1], True]
        return order[last]


def table(rows: Sequence[Mapping[str, Any]], cache: str) -> Table:
    """Features of labelled rows."""
    pairs = [pair_of(row) for row in rows]
    seen = look(pairs, cache)
    names = tuple(seen[0].values[0])
    return Table(
        names,
        matrix(seen, names),
        np.repeat(np.arange(len(rows)), [len(one.values) for one in seen]),
        np.array([float(bool(row["human_label"])) for row in rows]),
        np.array([question_key(row) for row in rows]),
        np.array([row["model"] for row in rows]),
        tuple(one.rulings for one in seen),
    )


def pair_of(row: Mapping[str, Any]) -> Pair:
    return Pair(row["question"], row["answer"], tuple(text for text in row["references"] if text and text.strip()))


def train(data: Table, answers: np.ndarray) -> list[Any]:
    """Boosted trees on some answers. A label is about the reference that the model itself finds nearest.

    The first round has no model to ask and takes the reference with the most words and the nearest meaning.
    """
    column = {name: data.x[:, i] for i, name in enumerate(data.names)}
    guess = column["recall_soft"] - 0.6 * column["echo"] + 0.5 * column["near_asked_focus"]
    guess = guess + 0.3 * column["characters_part"] + 0.1 * column["near_span"]
    scores, models = guess, []
    for round_ in range(ROUNDS + 1):
        chosen = data.best(scores)[answers]
        seeds = SEEDS if round_ == ROUNDS else 2
        models = [_boosted(data, seed).fit(data.x[chosen], data.labels[answers]) for seed in range(seeds)]
        if round_ < ROUNDS:
            scores = logits(models, data.x) + 1e-3 * guess
    return models


def _boosted(data: Table, seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    directions = [1 if name in RISING else -1 if name in FALLING else 0 for name in data.names]
    return HistGradientBoostingClassifier(**SETTINGS, monotonic_cst=directions, random_state=seed)


def logits(models: Sequence[Any], x: np.ndarray) -> np.ndarray:
    """Mean of the models' scores, row by row of `x`."""
    return np.asarray(np.mean([model.decision_function(x) for model in models], axis=0))


def out_of_fold(data: Table, folds: int = FOLDS) -> tuple[np.ndarray, np.ndarray]:
    """Logits of all rows of `x` by models that have not seen the question, and the fold of each answer."""
    from sklearn.model_selection import GroupKFold

    scores, fold_of = np.zeros(len(data.x)), np.zeros(len(data), int)
    splits = GroupKFold(folds, shuffle=True, random_state=1).split(data.labels, data.labels, data.questions)
    for fold, (seen, unseen) in enumerate(splits):
        rows = np.isin(data.source, unseen)
        scores[rows] = logits(train(data, seen), data.x[rows])
        fold_of[unseen] = fold
    return scores, fold_of


def platt(scores: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Slope and offset that make logits into calibrated ones."""
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=1e6).fit(scores[:, None], labels)
    return float(fitted.coef_[0, 0]), float(fitted.intercept_[0])


def rule_probabilities(data: Table, deciding: Sequence[tuple[float, Ruling | None]]) -> dict[str, float]:
    """For each rule, the share of labels 1 where it decided.

    Rules are written to be right, and some decide few answers of the training data, or no answer at all. So ten answers
    are added: nine matches for a rule that finds matches, half a match for the others.
    """
    found: dict[str, float] = {}
    for rule in get_args(RuleId):
        labels = [y for y, (_, f) in zip(data.labels, deciding, strict=True) if f and f.rule == rule]
        added = 9.0 if rule in FOR_A_MATCH else 0.5
        found[rule] = BY_DOCUMENT.get(rule, round((float(sum(labels)) + added) / (len(labels) + 10), 4))
    return found


def decided(data: Table, probabilities: np.ndarray) -> list[tuple[float, Ruling | None]]:
    """What decides each answer, as in the matcher: the model's probability and the rule, if one does.

    Args:
        probabilities: of every row of `x`.
    """
    starts = np.r_[0, np.flatnonzero(np.diff(data.source)) + 1, len(data.x)]
    found = []
    for i, rulings in enumerate(data.rulings):
        own = probabilities[starts[i] : starts[i + 1]].tolist()
        at, ruling = final_ruling(rulings, own)
        found.append((own[at] if ruling is None else max(own), ruling))
    return found


def final(deciding: Sequence[tuple[float, Ruling | None]], rules: Mapping[str, float]) -> tuple[np.ndarray, np.ndarray]:
    """Probability and verdict of each answer, as `answerkey.metrics_core.offline_judge.matcher` says them."""
    probabilities = np.array([p for p, _ in deciding])
    verdicts = probabilities >= HALF
    for i, (probability, ruling) in enumerate(deciding):
        if ruling is not None:
            verdicts[i] = ruling.verdict == "match"
            probabilities[i] = max(probability, rules[ruling.rule]) if verdicts[i] else rules[ruling.rule]
    return probabilities, verdicts


def border(right: np.ndarray, error: float) -> float:
    """The probability that the right verdict stays above in all but a share `error` of answers like these.

    Args:
        right: (answers,): the probability that was given to the right verdict.

    The finite-sample rank of split conformal prediction: floor(error (n + 1)) answers may lie below.
    """
    allowed = int(np.floor(error * (len(right) + 1)))
    # A verdict stands where the other one would be stranger than all but that share: 1 - p <= the quantile of `right`.
    return 1.0 if allowed < 1 else float(1 - np.sort(right)[allowed - 1])
