"""The trained model (boosted trees, calibration), read from a JSON file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

FILE = Path(__file__).with_name("model.json")
"""Written by `benchmarks/studies/train_matcher.py`."""

_ROWS_AT_ONCE = 1_024
_FARTHEST = 5.0


class _Stored:
    __slots__ = ()

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Self:
        """From numbers and lists of them, as in the file."""
        fields = {}
        for name in cls.__annotations__:
            fields[name] = np.array(stored[name]) if np.ndim(stored[name]) else stored[name]
        return cls(**fields)


@dataclass(frozen=True, slots=True, eq=False)
class Trees(_Stored):
    """Boosted regression trees on the logit scale, with all nodes in one list.

    A row goes to the left child where its feature is at most the threshold. A leaf is its own child on both sides.

    Attributes:
        roots: by tree, the index of its first node.
        feature, threshold, value: by node.
        children: the left child of node `n` at `2 n`, the right one at `2 n + 1`.
        depth: the largest number of steps from a root to a leaf.

    >>> load().trees.sums(np.zeros((3, len(load().features)))).shape
    (3,)
    """

    roots: npt.NDArray[np.intp]
    feature: npt.NDArray[np.intp]
    threshold: npt.NDArray[np.float64]
    children: npt.NDArray[np.intp]
    value: npt.NDArray[np.float64]
    depth: int

    def sums(self, rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Sum of the values of the leaves that each row ends in: shape (rows,)."""
        total = np.empty(len(rows))
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            # Rows in a chunk fit into the cache of a processor. Each is in one node of each tree.
            chunk = rows[start : start + _ROWS_AT_ONCE]
            row_starts = np.arange(0, chunk.size, chunk.shape[1])[:, None]
            node = np.tile(self.roots, (len(chunk), 1))
            for _ in range(self.depth):
                goes_right = chunk.take(row_starts + self.feature.take(node)) > self.threshold.take(node)
                node = self.children.take(2 * node + goes_right)
            total[start : start + _ROWS_AT_ONCE] = self.value.take(node).sum(axis=1)
        return total


@dataclass(frozen=True, slots=True, eq=False)
class Centroids(_Stored):
    """The region of the training data: centroids (k-means) of the standardised features of its answers.

    Attributes:
        mean, spread: of each feature in training, (features,). Features are clipped at five times the spread from the
            mean.
        points: (centroids, features), standardised.
        limit: Euclidean distance from the nearest centroid that few answers of the training data exceed.
    """

    mean: npt.NDArray[np.float64]
    spread: npt.NDArray[np.float64]
    points: npt.NDArray[np.float64]
    limit: float

    def standardised(self, rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Features in units of their spread in training, of the same shape."""
        result: npt.NDArray[np.float64] = np.clip((rows - self.mean) / self.spread, -_FARTHEST, _FARTHEST)
        return result

    def distances(self, rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The distances of rows of features from the nearest centroid: shape (rows,).

        >>> two = Centroids(np.zeros(2), np.ones(2), np.array([[0.0, 0.0], [3.0, 4.0]]), 1.0)
        >>> two.distances(np.array([[0.0, 1.0], [3.0, 4.0]])).tolist()
        [1.0, 0.0]
        """
        result = np.empty(len(rows))
        lengths = (self.points**2).sum(axis=1)
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            chunk = self.standardised(rows[start : start + _ROWS_AT_ONCE])
            # The square of a distance is |point|² - 2 row · point + |row|²
            nearest = (lengths - 2 * (chunk @ self.points.T)).min(axis=1)
            result[start : start + _ROWS_AT_ONCE] = np.sqrt(np.maximum(nearest + (chunk**2).sum(axis=1), 0))
        return result

    def far(self, rows: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        """Whether rows of features are farther from all centroids than the limit: shape (rows,)."""
        return self.distances(rows) > self.limit


@dataclass(frozen=True, slots=True, eq=False)
class MatcherModel:
    """The content of `model.json`.

    Attributes:
        features: names, in the order of the columns.
        base, scale: the mean logit, and the factor of the sum of the leaves.
        slope, offset: calibration: logit -> slope * logit + offset (Platt 1999).
        rules: by rule, the calibrated probability of a match if it decided.
        against: for samples with answers known to be wrong: the offset of a logistic regression, and a weight for each
            of `matcher.AGAINST`.
        against_trees, against_base: trees for the same samples, and the mean logit.
        agreement: kappa with people by kind of data, on questions not seen in training.
        words: how rare stems are in training, 0..1; see `features.features`.
        limits: the lengths of texts in training, in words.
        centroids: the region of the training data.
        trained_on: a description of the training, for reports.
        revision: the first six digits of the file's SHA-256.
    """

    features: list[str]
    trees: Trees
    base: float
    scale: float
    slope: float
    offset: float
    rules: dict[str, float]
    against: list[float]
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

    def outweighs(
        self, linear_inputs: npt.NDArray[np.float64], tree_inputs: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        """The probability of a match, 0..1, if right and wrong answers are known.

        >>> model = load()
        >>> model.outweighs(np.zeros((2, len(model.against) - 1)), np.zeros((2, 24 + 3 * len(model.features)))).shape
        (2,)
        """
        return weigher(
            curve=self.against,
            trees=self.against_trees,
            base=self.against_base,
            scale=self.scale,
            linear_inputs=linear_inputs,
            tree_inputs=tree_inputs,
        )


def weigher(
    curve: Sequence[float],
    trees: Trees,
    base: float,
    scale: float,
    linear_inputs: npt.NDArray[np.float64],
    tree_inputs: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """The probability of a match if right and wrong answers are known: the mean logit of a regression and of trees.

    Args:
        curve: the offset, and a weight for each column of `linear_inputs`.
        base, scale: the mean logit of the trees, and the factor of their sums.
        linear_inputs, tree_inputs: the inputs of the regression and of the trees (see `matcher.both_sides`).

    >>> leaf = {"roots": [0], "feature": [0], "threshold": [0], "children": [0, 0], "value": [0], "depth": 0}
    >>> weigher([0, 2, -2], Trees.of(leaf), 0, 1, np.array([[0.5, 0.5]]), np.zeros((1, 9))).tolist()
    [0.5]
    """
    regression = curve[0] + linear_inputs @ np.array(curve[1:])
    logits = (regression + base + scale * trees.sums(tree_inputs)) / 2
    result: npt.NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(logits, -30, 30)))
    return result


@cache
def load() -> MatcherModel:
    """The model of this version, read once.

    >>> len(load().features), len(load().revision)
    (43, 6)
    """
    content = FILE.read_bytes()
    return parse(json.loads(content), hashlib.sha256(content).hexdigest()[:6])


def parse(data: dict[str, Any], revision: str = "") -> MatcherModel:
    """A model from the content of its file.

    >>> parse(json.loads(FILE.read_bytes())).features == load().features
    True
    """
    stored = {name: data[name] for name in MatcherModel.__dataclass_fields__ if name != "revision"}
    stored |= {name: Trees.of(data[name]) for name in ("trees", "against_trees")}
    return MatcherModel(**stored | {"centroids": Centroids.of(data["centroids"])}, revision=revision)
