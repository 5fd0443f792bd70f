"""The trained model: boosted trees, calibration and the undecided zone, read from a plain JSON file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

FILE = Path(__file__).with_name("model.json")
"""Written by `benchmarks/train_matcher.py`."""

_ROWS_AT_ONCE = 4_096
_LEAF = -1
_MOST_LEAVES = 32
_FARTHEST = 5.0


@dataclass(frozen=True, slots=True, eq=False)
class _Tree:
    """One boosted regression tree, flattened: its inner nodes in any order, its leaves from left to right.

    A row goes left where its feature is at most the threshold. A row that goes right at a node can no longer end in the
    leaves on the node's left: `gone` has a bit for each of these. The leaf that a row ends in is the lowest bit that is
    left after all nodes, so no row is followed from node to node (QuickScorer, Lucchese et al. 2015).

    Attributes:
        feature, threshold, gone: by inner node; the last two of shape (nodes, 1).
        value: by leaf.
    """

    feature: npt.NDArray[np.intp]
    threshold: npt.NDArray[np.float64]
    gone: npt.NDArray[np.uint32]
    value: npt.NDArray[np.float64]

    def values(self, columns: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The value of the leaf that each row ends in. Shapes: (features, rows) -> (rows,)."""
        right = columns[self.feature] > self.threshold
        # A product takes a seventh of the time of a choice between two numbers.
        left_over = ~np.bitwise_or.reduce(right * self.gone, axis=0)
        # A power of two is 1 times that in floating point, so the place of its bit is the exponent.
        _, exponent = np.frexp((left_over & -left_over).astype(np.float64))
        found: npt.NDArray[np.float64] = self.value[exponent - 1]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """Boosted regression trees on the logit scale.

    >>> load().trees.sums(np.zeros((3, len(load().features)))).shape
    (3,)
    """

    trees: tuple[_Tree, ...]

    def sums(self, rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Sum of the values of the leaves that each row ends in: shape (rows,)."""
        total = np.zeros(len(rows))
        for at in range(0, len(rows), _ROWS_AT_ONCE):
            columns = np.ascontiguousarray(rows[at : at + _ROWS_AT_ONCE].T)
            for tree in self.trees:
                total[at : at + _ROWS_AT_ONCE] += tree.values(columns)
        return total


@dataclass(frozen=True, slots=True, eq=False)
class Centroids:
    """Where the answers lie that the model was trained on: centroids (k-means) of their standardised features.

    Attributes:
        mean, spread: of each feature in training, (features,). A feature counts as at most five times its spread away
            from its mean.
        points: (centroids, features), standardised.
        limit: Euclidean distance from the nearest centroid that few answers of the training exceed.
    """

    mean: npt.NDArray[np.float64]
    spread: npt.NDArray[np.float64]
    points: npt.NDArray[np.float64]
    limit: float

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Centroids:
        """From lists of numbers, as in the file."""
        mean, spread, points = (np.array(stored[name], np.float64) for name in ("mean", "spread", "points"))
        return cls(mean, spread, points, float(stored["limit"]))

    def standardised(self, rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Features in units of their spread in training; the shape stays."""
        found: npt.NDArray[np.float64] = np.clip((rows - self.mean) / self.spread, -_FARTHEST, _FARTHEST)
        return found

    def distances(self, rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """How far the rows of features are from the nearest centroid: shape (rows,).

        >>> two = Centroids(np.zeros(2), np.ones(2), np.array([[0.0, 0.0], [3.0, 4.0]]), 1.0)
        >>> two.distances(np.array([[0.0, 1.0], [3.0, 4.0]])).tolist()
        [1.0, 0.0]
        """
        found = np.empty(len(rows))
        lengths = (self.points**2).sum(axis=1)
        for at in range(0, len(rows), _ROWS_AT_ONCE):
            some = self.standardised(rows[at : at + _ROWS_AT_ONCE])
            nearest = (lengths - 2 * (some @ self.points.T)).min(axis=1)
            found[at : at + _ROWS_AT_ONCE] = np.sqrt(np.maximum(nearest + (some**2).sum(axis=1), 0))
        return found

    def far(self, rows: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        """Whether the rows of features are farther from all centroids than the limit: shape (rows,)."""
        return self.distances(rows) > self.limit


@dataclass(frozen=True, slots=True, eq=False)
class MatcherModel:
    """The content of `model.json`.

    Attributes:
        features: names, in the order of the columns.
        base, scale: the mean logit, and what the sum of the leaves is multiplied with.
        slope, offset: calibration: logit -> slope * logit + offset (Platt 1999).
        rules: the calibrated probability of a match where a rule decided, by rule.
        errors, borders: the undecided zone: at accepted error `errors[i]` a verdict stands if its probability, of a
            match or of no match, is above `borders[kind][i]`.
        against: where there are answers known to be wrong: the offset, and a weight for each of `matcher.AGAINST`.
        against_trees, against_base: the trees that weigh them too, and the mean logit.
        agreement: kappa with people by kind of data, on questions that were not seen in training.
        words: how rare stems are in training, 0..1; see `features.rarities`.
        limits: how long texts were in training, in words.
        centroids: where the answers of the training lie.
        trained_on: a description of the training, for reports.
        revision: the first six digits of the file's SHA-256.
    """

    features: tuple[str, ...]
    trees: Trees
    base: float
    scale: float
    slope: float
    offset: float
    rules: dict[str, float]
    errors: tuple[float, ...]
    borders: dict[str, tuple[float, ...]]
    against: tuple[float, ...]
    against_trees: Trees
    against_base: float
    agreement: dict[str, float]
    words: dict[str, float]
    limits: dict[str, int]
    centroids: Centroids
    trained_on: dict[str, Any]
    revision: str

    def probabilities(self, rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Calibrated probability of a match: shape (rows,), 0..1.

        >>> load().probabilities(np.zeros((2, len(load().features)))).shape
        (2,)
        """
        logit = self.slope * (self.base + self.scale * self.trees.sums(rows)) + self.offset
        calibrated: npt.NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(logit, -30, 30)))
        return calibrated

    def outweighs(self, few: npt.NDArray[np.float64], many: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The probability of a match, 0..1, where right and wrong answers are known; see `weigher`.

        >>> model = load()
        >>> model.outweighs(np.zeros((2, len(model.against) - 1)), np.zeros((2, 28 + 3 * len(model.features)))).shape
        (2,)
        """
        return weigher(self.against, self.against_trees, self.against_base, self.scale, few, many)

    def border(self, kind: str, accepted_error: float) -> float:
        """The probability above which a verdict stands; 1 where the accepted error is below every one in the file.

        >>> load().border("short answers", 0.05) < load().border("short answers", 0.01)
        True
        """
        known = [
            border for error, border in zip(self.errors, self.borders[kind], strict=True) if error <= accepted_error
        ]
        return known[-1] if known else 1.0


def weigher(
    curve: Sequence[float],
    trees: Trees,
    base: float,
    scale: float,
    few: npt.NDArray[np.float64],
    many: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """The probability of a match where right and wrong answers are known: the mean logit of a curve and of trees.

    Args:
        curve: the offset, and a weight for each column of `few`; `base`, `scale`: see `MatcherModel`.
        few, many: see `matcher.both_sides`.

    >>> weigher([0, 2, -2], Trees(()), 0, 1, np.array([[0.5, 0.5]]), np.zeros((1, 9))).tolist()
    [0.5]
    """
    said = curve[0] + few @ np.array(curve[1:])
    logits = (said + base + scale * trees.sums(many)) / 2
    found: npt.NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(logits, -30, 30)))
    return found


@cache
def load() -> MatcherModel:
    """The model of this version, read once.

    >>> len(load().features), len(load().revision)
    (103, 6)
    """
    data = FILE.read_bytes()
    return parse(json.loads(data), hashlib.sha256(data).hexdigest()[:6])


def parse(data: dict[str, Any], revision: str = "") -> MatcherModel:
    """A model from the content of its file.

    >>> parse(json.loads(FILE.read_bytes())).features == load().features
    True
    """
    return MatcherModel(
        tuple(data["features"]),
        trees_of(data["trees"]),
        float(data["base"]),
        float(data["scale"]),
        float(data["slope"]),
        float(data["offset"]),
        dict(data["rules"]),
        tuple(data["errors"]),
        {kind: tuple(borders) for kind, borders in data["borders"].items()},
        tuple(data["against"]),
        trees_of(data["against_trees"]),
        float(data["against_base"]),
        dict(data["agreement"]),
        dict(data["words"]),
        dict(data["limits"]),
        Centroids.of(data["centroids"]),
        dict(data["trained_on"]),
        revision,
    )


def trees_of(stored: Sequence[Mapping[str, Sequence[float]]]) -> Trees:
    """Trees from lists of nodes, as in the file.

    >>> trees_of([]).sums(np.zeros((1, 3))).tolist()
    [0.0]
    """
    return Trees(tuple(map(_tree, stored)))


def _tree(nodes: Mapping[str, Sequence[float]]) -> _Tree:
    """A tree as lists of nodes; the root is node 0, a leaf has the feature -1.

    Raises:
        ValueError: it has more leaves than there are bits for.
    """
    feature, left, right = ([int(v) for v in nodes[name]] for name in ("feature", "left", "right"))
    inner: list[tuple[int, float, int]] = []
    leaves: list[float] = []

    def walk(node: int) -> None:
        if feature[node] == _LEAF:
            leaves.append(nodes["value"][node])
            return
        first = len(leaves)
        walk(left[node])
        behind = len(leaves)
        walk(right[node])
        inner.append((feature[node], nodes["threshold"][node], (1 << behind) - (1 << first)))

    walk(0)
    if len(leaves) > _MOST_LEAVES:
        raise ValueError(f"a tree has {len(leaves)} leaves, at most {_MOST_LEAVES} are expected")
    return _Tree(
        np.array([one[0] for one in inner], np.intp),
        np.array([[one[1]] for one in inner], np.float64).reshape(-1, 1),
        np.array([one[2] for one in inner], np.uint32).reshape(-1, 1),
        np.array(leaves, np.float64),
    )
