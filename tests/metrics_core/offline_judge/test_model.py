"""The model file: small, plain, and evaluated as written."""

import json

import numpy as np
import pytest

from answerkey.metrics_core.offline_judge.matcher import AGAINST, Pair, look, matrix
from answerkey.metrics_core.offline_judge.model import FILE, load, parse

STUMPS = {
    "features": ["a", "b"],
    # a <= 1: -1; else b <= 5: 2, else 3. Then a constant.
    "trees": {"roots": [0, 5], "feature": [0, 0, 1, 0, 0, 0], "threshold": [1, 0, 5, 0, 0, 0],
              "children": [1, 2, 1, 1, 3, 4, 3, 3, 4, 4, 5, 5], "value": [0, -1, 0, 2, 3, 0.5], "depth": 2},
    "base": 0.0, "scale": 1.0, "slope": 1.0, "offset": 0.0, "rules": {},
    "against": [0.5, 1, -1], "agreement": {}, "limits": {}, "trained_on": {},
    "against_trees": {"roots": [0], "feature": [0, 0, 0], "threshold": [1, 0, 0], "children": [1, 2, 1, 1, 2, 2],
                      "value": [0, -4, 4], "depth": 1},
    "against_base": 0.5, "words": {"the": 0.1},
    "centroids": {"mean": [1.0, 0.0], "spread": [2.0, 1.0], "points": [[0.0, 0.0], [3.0, 4.0]], "limit": 1.5},
}  # fmt: skip


def test_trees_go_left_up_to_the_threshold():
    rows = np.array([[1.0, 9.0], [1.1, 5.0], [2.0, 5.1]])
    assert parse(STUMPS).trees.sums(rows).tolist() == [-0.5, 2.5, 3.5]
    assert parse(STUMPS).trees.sums(rows[:0]).tolist() == []


def test_probabilities_are_the_calibrated_logistic_of_the_sum():
    model = parse({**STUMPS, "base": 1.0, "scale": 2.0, "slope": 0.5, "offset": -0.25})
    assert model.probabilities(np.array([[1.0, 0.0]]))[0] == pytest.approx(1 / (1 + np.exp(0.25)))


def test_answers_are_as_far_from_training_as_from_the_nearest_centroid():
    known = parse(STUMPS).centroids
    # In units of the spread: the mean, the other point, one beside it, and one that counts as (5, 5).
    rows = np.array([[1.0, 0.0], [7.0, 4.0], [8.0, 4.0], [900.0, 70.0]])
    assert known.distances(rows).tolist() == pytest.approx([0.0, 0.0, 0.5, 5**0.5])
    assert known.distances(np.tile(rows, (2_500, 1)))[-4:].tolist() == pytest.approx([0.0, 0.0, 0.5, 5**0.5])
    assert known.far(rows).tolist() == [False, False, False, True]
    assert known.distances(rows[:0]).tolist() == []


def test_right_and_wrong_answers_are_weighed_by_a_curve_and_by_trees():
    few, many = np.array([[2.0, 1.0], [2.0, 1.0]]), np.array([[0.0], [2.0]])
    # The curve says 1.5, the trees .5 - 4 and .5 + 4.
    expected = [1 / (1 + np.exp(1.0)), 1 / (1 + np.exp(-3.0))]
    assert parse(STUMPS).outweighs(few, many).tolist() == pytest.approx(expected)


def test_the_file_is_small_and_plain_and_has_what_the_matcher_needs():
    assert FILE.stat().st_size < 1_200_000
    content = json.loads(FILE.read_text(encoding="utf-8"))
    model = load()
    seen = look([Pair("Who?", "It was Ada Brown.", ("Ada Brown", "Brown"))])
    assert set(model.features) == set(seen[0].values[0])
    rows = matrix(seen, model.features)
    assert rows.shape == (2, len(content["features"]))
    assert np.isfinite(rows).all()
    assert ((model.probabilities(rows) > 0) & (model.probabilities(rows) < 1)).all()
    assert len(model.against) == len(AGAINST) + 1
