"""The trained model: boosted trees, calibration and the undecided zone, read from a plain JSON file."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from answerkey.metrics_core.offline_judge.rules import Ruling

FILE = Path(__file__).with_name("model.json")
"""Written by `benchmarks/train_matcher.py`."""

_ROWS_AT_ONCE = 4_096
_LEAF = -1


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """Boosted regression trees on the logit scale, padded to one size: every array has the shape (trees, nodes).

    A row goes left where its feature is at most the threshold; `feature` is -1 in leaves.

    >>> load().trees.sums(np.zeros((3, len(load().features)))).shape
    (3,)
    """

    feature: npt.NDArray[np.intp]
    threshold: npt.NDArray[np.float64]
    left: npt.NDArray[np.intp]
    right: npt.NDArray[np.intp]
    value: npt.NDArray[np.float64]
    depth: int

    def sums(self, rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Sum of the values of the leaves that each row ends in: shape (rows,)."""
        parts = [self._sums(rows[at : at + _ROWS_AT_ONCE]) for at in range(0, len(rows), _ROWS_AT_ONCE)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _sums(self, rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        total = np.zeros(len(rows))
        for tree in range(len(self.feature)):
            feature, threshold = self.feature[tree], self.threshold[tree]
            node = np.zeros(len(rows), np.intp)
            for _ in range(self.depth):
                at = feature[node]
                # A leaf is its own child, so that a row which has arrived stays.
                goes_left = rows[np.arange(len(rows)), at] <= threshold[node]
                node = np.where(goes_left, self.left[tree][node], self.right[tree][node])
            total += self.value[tree][node]
        return total


@dataclass(frozen=True, slots=True, eq=False)
class MatcherModel:
    """The content of `model.json`.

    Attributes:
        features: names, in the order of the columns.
        base, scale: the mean logit, and what the sum of the leaves is multiplied with.
        slope, offset: calibration: logit -> slope * logit + offset (Platt 1999).
        rules: the calibrated probability of a match where a rule decided, by rule.
        errors, borders: the undecided zone: at accepted error `errors[i]` a verdict stands if its probability, of a
            match or of no match, is above `borders[i]`.
        limits: how long texts were in training, in words; `trained_on`: a description of the training, for reports.
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
    borders: tuple[float, ...]
    limits: dict[str, int]
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

    def ruled(self, ruling: Ruling, probability: float) -> float:
        """The probability of a match where a rule decided; a rule for a match never lowers that of the model."""
        known = self.rules[ruling.rule]
        return max(known, probability) if ruling.verdict == "match" else known

    def border(self, accepted_error: float) -> float:
        """The probability above which a verdict stands; 1 where the accepted error is below every one in the file.

        >>> load().border(0.05) < load().border(0.01) < 1
        True
        """
        known = [border for error, border in zip(self.errors, self.borders, strict=True) if error <= accepted_error]
        return known[-1] if known else 1.0


@cache
def load() -> MatcherModel:
    """The model of this version, read once.

    >>> len(load().features), len(load().revision)
    (81, 6)
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
        _trees(data["trees"]),
        float(data["base"]),
        float(data["scale"]),
        float(data["slope"]),
        float(data["offset"]),
        dict(data["rules"]),
        tuple(data["errors"]),
        tuple(data["borders"]),
        dict(data["limits"]),
        dict(data["trained_on"]),
        revision,
    )


def _trees(trees: list[dict[str, list[float]]]) -> Trees:
    """Trees as lists of nodes; the root is node 0, a leaf has the feature -1."""
    size = max(len(tree["feature"]) for tree in trees)

    def padded(name: str, dtype: Any) -> Any:
        table = np.zeros((len(trees), size), dtype)
        for i, tree in enumerate(trees):
            table[i, : len(tree[name])] = tree[name]
        return table

    feature, left, right = (padded(name, np.intp) for name in ("feature", "left", "right"))
    leaves = feature == _LEAF
    itself = np.broadcast_to(np.arange(size), feature.shape)
    left, right = np.where(leaves, itself, left), np.where(leaves, itself, right)
    value, threshold = padded("value", np.float64), padded("threshold", np.float64)
    return Trees(np.where(leaves, 0, feature), threshold, left, right, value, _depth(left, right))


def _depth(left: npt.NDArray[np.intp], right: npt.NDArray[np.intp]) -> int:
    level, depth = np.zeros(left.shape, bool), 0
    level[:, 0] = True
    rows = np.broadcast_to(np.arange(len(left))[:, None], left.shape)
    while True:
        below = np.zeros_like(level)
        inner = level & (left != right)
        below[rows[inner], left[inner]] = True
        below[rows[inner], right[inner]] = True
        if not below.any():
            return depth
        level, depth = below, depth + 1
