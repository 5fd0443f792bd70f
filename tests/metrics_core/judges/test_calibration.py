"""A metric against labels: verdicts, graded scores with a learned threshold, annotators."""

import numpy as np
import pytest

from answerkey.metrics_core.decide.agreement import agreement, auroc, best_threshold
from answerkey.metrics_core.judges.calibration import Labelled, human_agreement


def graded(n, signal, seed=0):
    """Two releases that answer the same questions; right answers score higher by `signal` standard deviations."""
    rng = np.random.default_rng(seed)
    truth = rng.random(n) < 0.6
    scores = rng.normal(0, 1, n) + signal * truth
    releases = ["a" if i % 2 else "b" for i in range(n)]
    return Labelled(scores.tolist(), truth.tolist(), releases, [i // 2 for i in range(n)])


def test_verdicts_are_compared_as_they_are():
    rows = Labelled([1.0, 1.0, 0.0, 0.0] * 10, [True, False, False, True] * 5 + [True, True, False, False] * 5,
                    ["a"] * 20 + ["b"] * 20, list(range(20)) * 2)  # fmt: skip
    whole, first, second = human_agreement(rows)
    assert (whole.release, first.release, second.release) == (None, "a", "b")
    assert (whole.n, whole.clusters, whole.auroc, whole.threshold) == (40, 20, None, None)
    assert whole.agreement == agreement(rows.scores, rows.labels, clusters=rows.clusters)
    assert first.agreement
    assert second.agreement
    assert (first.agreement.accuracy.value, second.agreement.accuracy.value) == (0.5, 1.0)
    assert whole.ceiling is None


def test_graded_scores_get_a_threshold_that_their_question_did_not_teach():
    rows = graded(1000, 2.0)
    whole = human_agreement(rows)[0]
    assert whole.auroc == auroc(rows.scores, rows.labels, clusters=rows.clusters)
    assert whole.threshold == best_threshold(rows.scores, rows.labels, clusters=rows.clusters)
    assert whole.threshold
    assert whole.agreement
    assert whole.agreement.kappa
    assert whole.threshold.kappa - 0.06 < whole.agreement.kappa.value < whole.threshold.kappa


@pytest.mark.parametrize("labels", [[True] * 4, [False] * 4])
def test_labels_that_are_all_the_same_define_no_threshold(labels):
    found = human_agreement(Labelled([0.1, 0.2, 0.3, 0.4], labels, ["a"] * 4, list("wxyz")))[0]
    assert (found.agreement, found.auroc, found.threshold) == (None, None, None)


def test_the_ceiling_is_what_two_people_reach():
    rows = Labelled([1.0] * 6, [True, True, False, False, True, True], ["a"] * 6, list(range(6)),
                    [True, False, False, False, None, None])  # fmt: skip
    ceiling = human_agreement(rows)[0].ceiling
    assert ceiling
    assert (ceiling.n, ceiling.accuracy.value) == (4, 0.75)
