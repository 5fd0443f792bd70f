"""How the offline matcher is trained: trees, calibration, what wrong answers weigh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import numpy as np
from _matcher_data import MADE, Side, Table

from answerkey.metrics_core.offline_judge.depth import has_nothing_of, lacks_question
from answerkey.metrics_core.offline_judge.matcher import (
    HALF,
    SAME_QUANTITY,
    Judgement,
    asks_for_value,
    beside_wrong,
    both_sides,
    final_ruling,
)
from answerkey.metrics_core.offline_judge.model import Centroids, Trees, weigher
from answerkey.metrics_core.offline_judge.reading import Text
from answerkey.metrics_core.offline_judge.rules import RULES, RuleId, Ruling

FOLDS, SEEDS = 5, 3
WEIGHT_OF_MADE = 0.3
BY_DOCUMENT = dict.fromkeys(("refusal", "hedged", "negated", "opposite", "other_list"), 0.05)
"""The metric's definition rejects these, whatever the training labels say, so their probability is set, not learned."""

UNTAUGHT: Mapping[str, Any] = {
    "against": [0.0, 2.0, -2.0, 0.0, 0.0, 0.0],
    "against_trees": {"roots": [0], "feature": [0], "threshold": [0], "children": [0, 0], "value": [0], "depth": 0},
    "against_base": 0.0,
}
"""What known wrong answers weigh where there is no data with any to learn from: the difference of the logits."""

SETTINGS: Mapping[str, Any] = {
    "learning_rate": 0.15, "max_iter": 60, "max_leaf_nodes": 31, "max_depth": 6, "min_samples_leaf": 20,
    "l2_regularization": 5.0, "max_features": 0.2,
}  # fmt: skip

SETTINGS_AGAINST: Mapping[str, Any] = {
    "learning_rate": 0.1, "max_iter": 60, "max_leaf_nodes": 16, "max_depth": 6, "min_samples_leaf": 30,
    "l2_regularization": 10.0, "max_features": 0.3,
}  # fmt: skip


CENTROIDS = 300
FAR = 0.05
"""The share of the answers of the training that lies farther from all centroids than the limit."""


def best(side: Side, scores: np.ndarray) -> np.ndarray:
    """For each answer of a side, the row of `x` with the highest score, by ascending answer."""
    order = np.lexsort((scores, side.source))
    last = np.r_[side.source[order][1:] != side.source[order][:-1], True]
    return order[last]


def train(data: Table, answers: np.ndarray, seeds: int = SEEDS) -> list[Any]:
    """Boosted trees on some answers. A label is about the reference that the model itself finds nearest.

    The first round has no model to ask and takes the reference with the most words and characters in common. An answer
    that people call right does not say what a known wrong answer says: it is trained on with its nearest one as well.
    """
    nearest, nearest_wrong = guess(data, data.right), guess(data, data.wrong)
    first = _fitted(data, answers, best(data.right, nearest)[answers], nearest_wrong, 1)
    scores = logits(first, data.right.x) + 1e-3 * nearest
    return _fitted(data, answers, best(data.right, scores)[answers], nearest_wrong, seeds)


def guess(data: Table, side: Side) -> np.ndarray:
    """How near each reference looks before there is a model: shape (references,)."""
    column = {name: side.x[:, i] for i, name in enumerate(data.names)}
    return np.asarray(column["soft_idf"] - 0.6 * column["echo"] + 0.5 * column["characters_part"])


def _fitted(data: Table, answers: np.ndarray, chosen: np.ndarray, nearest_wrong: np.ndarray, seeds: int) -> list[Any]:
    from sklearn.ensemble import HistGradientBoostingClassifier

    x, y, weight = examples(data, answers, chosen, nearest_wrong)
    return [
        HistGradientBoostingClassifier(**SETTINGS, random_state=seed).fit(x, y, sample_weight=weight)
        for seed in range(seeds)
    ]


def examples(
    data: Table, answers: np.ndarray, chosen: np.ndarray, nearest_wrong: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, labels and weights to train on: the `chosen` rows, and right answers beside their nearest wrong one."""
    trained = np.zeros(len(data), bool)
    trained[answers] = True
    near = best(data.wrong, nearest_wrong)
    of = data.wrong.source[near]
    near = near[trained[of] & (data.labels[of] == 1)]
    x = np.r_[data.right.x[chosen], data.wrong.x[near]]
    y = np.r_[data.labels[answers], np.zeros(len(near))]
    return x, y, np.r_[np.where(data.sets[answers] == MADE, WEIGHT_OF_MADE, 1.0), np.full(len(near), 0.5)]


def logits(models: Sequence[Any], x: np.ndarray) -> np.ndarray:
    """Mean of the models' scores, row by row of `x`."""
    return np.asarray(np.mean([model.decision_function(x) for model in models], axis=0)) if len(x) else np.zeros(0)


def out_of_fold(data: Table, trainable: np.ndarray, folds: int = FOLDS) -> tuple[np.ndarray, np.ndarray]:
    """Logits of all rows of both sides by models that have not seen the question.

    Args:
        trainable: by answer, whether it may be trained on; the others are scored all the same.
    """
    from sklearn.model_selection import GroupKFold

    scores, against_ = np.zeros(len(data.right.x)), np.zeros(len(data.wrong.x))
    splits = GroupKFold(folds, shuffle=True, random_state=1).split(data.labels, data.labels, data.questions)
    for seen, unseen in splits:
        models = train(data, seen[trainable[seen]])
        for side, found in ((data.right, scores), (data.wrong, against_)):
            rows = np.isin(side.source, unseen)
            found[rows] = logits(models, side.x[rows])
    return scores, against_


def platt(scores: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Slope and offset that make logits into calibrated ones."""
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=1e6).fit(scores[:, None], labels)
    return float(fitted.coef_[0, 0]), float(fitted.intercept_[0])


def highest(data: Table, scores: np.ndarray) -> np.ndarray:
    """The score of the nearest right reference of each answer."""
    found = np.full(len(data), -np.inf)
    np.maximum.at(found, data.right.source, scores)
    return found


class Judged:
    """What the matcher says of the answers of a table: probability, verdict, and the rule that decided."""

    def __init__(self, data: Table, right: np.ndarray, wrong: np.ndarray, learnt: np.ndarray | Mapping[str, Any]):
        """Judge all of `data`. `right`, `wrong`: calibrated logits.

        Args:
            learnt: what rules and known wrong answers weigh; or by answer, whether that may be learnt from it.
        """
        self.right, self.wrong = (1 / (1 + np.exp(-scores)) for scores in (right, wrong))
        self.of = [_slices(side, len(data)) for side in (data.right, data.wrong)]
        decided = [self._decided(seen, 0, at) for at, seen in enumerate(data.right.seen)]
        self.rules: list[Ruling | None] = [ruling for *_, ruling in decided]
        self.by_model = np.array([ruling is None for ruling in self.rules])
        self.flagged = data.long
        # Of the reference that decided, the row of `data.right.x`.
        self.rows = np.array([own.start + place for own, (place, *_) in zip(self.of[0], decided, strict=True)])
        own = learnt if isinstance(learnt, np.ndarray) else np.zeros(len(data), bool)
        given = {} if isinstance(learnt, np.ndarray) else learnt
        self.fitted = dict(given or {"rules": rule_probabilities(data.labels[own], np.array(self.rules)[own])})
        self.probabilities = np.array([self._probability(p, ruling) for _, p, ruling in decided])
        self.verdicts = np.array(
            [ruling.verdict == "match" if ruling else p >= HALF for _, p, ruling in decided], np.float64
        )
        doubted = np.array([at for at, seen in enumerate(data.wrong.seen) if seen])
        weighed = both_sides([self._sides(data, at) for at in doubted], data.names)
        if given:
            found = outweighed(self.fitted, *weighed)
        else:
            known = own[doubted]
            labels, questions = data.labels[doubted], data.questions[doubted]
            self.fitted |= weighing(weighed, labels, known) if known.any() else UNTAUGHT
            found = _across(weighed, labels, questions, known) if known.any() else outweighed(UNTAUGHT, *weighed)
        for at, probability in zip(doubted, found, strict=True):
            self._settle(data, at, float(probability))

    def doubt(self, data: Table, stored: Mapping[str, Any]) -> None:
        """Flag also sentences without a question, and what the model decides in another language or far from its
        training."""
        far = Centroids.of(stored).far(data.right.x[self.rows])
        lacking = np.array([self._lacks_question(data, at) for at in range(len(data))])
        doubted = np.array([self._doubted(data, at) for at in range(len(data))])
        self.flagged = data.long | lacking | (self.by_model & (far | doubted))

    def _nearest(self, data: Table, at: int) -> Text:
        place = self.rows[at] - self.of[0][at].start
        return data.texts[at][2][data.right.seen[at].indices[place]]

    def _lacks_question(self, data: Table, at: int) -> bool:
        ruling = self.rules[at]
        if ruling is not None and ruling.rule in SAME_QUANTITY:
            return False
        return bool(lacks_question(data.texts[at][0], [self._nearest(data, at)]))

    def _doubted(self, data: Table, at: int) -> bool:
        matched = self.right[self.rows[at]] >= HALF
        return bool(data.unfamiliar[at]) and (matched or not has_nothing_of(data.texts[at][1], self._nearest(data, at)))

    def _decided(self, seen: Any, side: int, at: int) -> tuple[int, float, Ruling | None]:
        own = self._own(side, at)
        place, ruling = final_ruling(seen.rulings, own)
        return place, (own[place] if ruling is None else max(own)), ruling

    def _own(self, side: int, at: int) -> list[float]:
        found: list[float] = (self.right, self.wrong)[side][self.of[side][at]].tolist()
        return found

    def _probability(self, probability: float, ruling: Ruling | None) -> float:
        return float(self.fitted["rules"][ruling.rule]) if ruling else probability

    def _sides(self, data: Table, at: int) -> tuple[Judgement, Judgement]:
        right, wrong = data.right.seen[at], data.wrong.seen[at]
        return (right, self._own(0, at)), (wrong, self._own(1, at))

    def _settle(self, data: Table, at: int, probability: float) -> None:
        _, own, ruling = self._decided(data.wrong.seen[at], 1, at)
        other = (ruling.rule if ruling else "model", self._probability(own, ruling))
        mine = self.rules[at]
        rule = mine.rule if mine else "model"
        of_value = asks_for_value(data.texts[at][2])
        probability = beside_wrong(rule, float(self.probabilities[at]), other, probability, of_value=of_value)
        self.probabilities[at], self.verdicts[at] = probability, probability >= HALF


def _slices(side: Side, n: int) -> list[slice]:
    counts = np.bincount(side.source, minlength=n)
    ends = np.cumsum(counts)
    return [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]


Weighed = tuple[np.ndarray, np.ndarray]


def weighing(weighed: Weighed, labels: np.ndarray, known: np.ndarray) -> dict[str, Any]:
    """What right and known wrong answers weigh, learnt from the `known` answers: a logistic curve, and trees."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    few, many = (side[known] for side in weighed)
    curve = LogisticRegression(C=1.0, max_iter=1_000).fit(few, labels[known])
    models = [
        HistGradientBoostingClassifier(**SETTINGS_AGAINST, random_state=seed).fit(many, labels[known])
        for seed in range(SEEDS)
    ]
    return {
        "against": [round(float(v), 4) for v in (curve.intercept_[0], *curve.coef_[0])],
        "against_trees": exported(models),
        "against_base": base_of(models),
    }


def outweighed(fitted: Mapping[str, Any], few: np.ndarray, many: np.ndarray) -> np.ndarray:
    """The probability of a match where right and wrong answers are known: shape (answers,)."""
    return weigher(fitted["against"], Trees.of(fitted["against_trees"]), fitted["against_base"], 1 / SEEDS, few, many)


def _across(weighed: Weighed, labels: np.ndarray, questions: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The same by what was learnt from the other questions."""
    from sklearn.model_selection import GroupKFold

    found = np.zeros(len(labels))
    for seen, unseen in GroupKFold(FOLDS, shuffle=True, random_state=1).split(labels, labels, questions):
        own = np.isin(np.arange(len(labels)), seen) & known
        found[unseen] = outweighed(weighing(weighed, labels, own), *(side[unseen] for side in weighed))
    return found


def centroids(data: Table, judged: Judged, answers: np.ndarray) -> dict[str, Any]:
    """Where those of the `answers` lie that the model decides, as in the model file."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    x = data.right.x[judged.rows[answers & judged.by_model]]
    spreads = x.std(axis=0)
    mean, spread = (
        [float(f"{v:.6g}") for v in values] for values in (x.mean(axis=0), np.where(spreads > 1e-6, spreads, 1.0))
    )
    raw = Centroids.of({"mean": mean, "spread": spread, "points": [], "limit": 0})
    # With more threads, sums are rounded in another order.
    with threadpool_limits(1):
        found = KMeans(CENTROIDS, n_init=1, random_state=0).fit(raw.standardised(x)).cluster_centers_
    stored = {"mean": mean, "spread": spread, "points": [[round(float(v), 2) for v in row] for row in found]}
    distances = Centroids.of({**stored, "limit": 0}).distances(x)
    return {**stored, "limit": round(float(np.quantile(distances, 1 - FAR)), 3)}


def exported(models: Sequence[Any]) -> dict[str, Any]:
    """The trees of some models of scikit-learn, as in the model file."""
    trees = [stage[0].nodes for model in models for stage in model._predictors]
    stored: dict[str, Any] = {"roots": [], "feature": [], "threshold": [], "children": [], "value": []}
    for nodes in trees:
        first = len(stored["feature"])
        leaf, own = nodes["is_leaf"].astype(bool), np.arange(len(nodes))
        children = np.where(leaf, [own, own], [nodes["left"], nodes["right"]]) + first
        stored["roots"].append(first)
        stored["feature"] += np.where(leaf, 0, nodes["feature_idx"]).tolist()
        stored["threshold"] += [float(f"{t:.6g}") for t in np.where(leaf, 0, nodes["num_threshold"])]
        stored["children"] += children.T.ravel().tolist()
        stored["value"] += [round(float(v), 5) for v in np.where(leaf, nodes["value"], 0)]
    return {**stored, "depth": max(int(nodes["depth"].max()) for nodes in trees)}


def base_of(models: Sequence[Any]) -> float:
    """The mean logit that the trees of some models are added to."""
    return round(float(np.mean([model._baseline_prediction.item() for model in models])), 6)


def rule_probabilities(labels: np.ndarray, rulings: Sequence[Ruling | None]) -> dict[str, float]:
    """For each rule, the share of labels 1 where it decided.

    Rules are written to be right, and some decide few answers of the training data, or no answer at all. So ten answers
    are added: nine matches for a rule that finds matches, half a match for the others.
    """
    found: dict[str, float] = {}
    for_a_match = {ruling.rule for ruling in RULES.values() if ruling.verdict == "match"}
    for rule in get_args(RuleId):
        own = [y for y, ruling in zip(labels, rulings, strict=True) if ruling and ruling.rule == rule]
        added = 9.0 if rule in for_a_match else 0.5
        found[rule] = BY_DOCUMENT.get(rule, round((float(sum(own)) + added) / (len(own) + 10), 4))
    return found
