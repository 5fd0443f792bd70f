"""Decisions on two columns of scores, as the package `answerkey-decide` has them."""

import numpy as np
import pytest

from answerkey.metrics_core.decide import compare, gate, rows_needed

OLD = np.repeat([1.0, 0.0], [160, 40])
WORSE = np.repeat([1.0, 0.0], [100, 100])


@pytest.mark.parametrize(
    ("new", "options", "outcome", "words"),
    [
        (OLD, {}, "PASS", "new may ship in place of old"),
        (WORSE, {}, "FAIL", "given.score went from 0.800 to 0.500 (-0.300"),
        (OLD, {"rules": ["level given.score >= 0.9"]}, "FAIL", "it is below 0.9"),
        (np.where(OLD == 1, np.nan, 0), {}, "INCOMPLETE", "only 40 of 200 samples of new (160 missing)"),
        # Twenty documents, of which each is one observation
        (OLD, {"clusters": np.arange(200) // 10}, "INCONCLUSIVE", "with 20 clusters it could not be"),
        # The scores hide the loss that people see
        (OLD, {"labels": (OLD, WORSE)}, "FAIL", "human labels went from 0.800 to 0.500"),
        # The second half of the answers stands in another order
        (np.repeat([0.0, 1.0], [40, 160]), {"ids": (range(200), [*range(160, 200), *range(160)])}, "PASS", "+0.000"),
    ],
)
def test_a_gate_on_two_columns(new, options, outcome, words):
    verdict = gate(OLD, new, margin=0.05, **options)
    assert (verdict.outcome, words in f"{verdict.sentence} {verdict.rules[-2].sentence}") == (outcome, True), verdict


def test_several_answers_to_a_question_are_one_observation():
    result = compare([1, 0, 1, 1], [0, 1, 1, 1], ids=(["a", "a", "b", "b"], ["b", "a", "a", "c"]))
    assert (result.n, result.old, result.new) == (2, 0.75, 0.5)
    assert compare([3.0, 9.0], [4.0, 8.0], high=10.0).difference == 0.0


def test_rows_that_share_a_cluster_are_fewer():
    new, clusters = np.where(np.arange(200) < 10, 1 - OLD, OLD), np.arange(200) // 10
    assert rows_needed(OLD, new, margin=0.05) < rows_needed(OLD, new, margin=0.05, clusters=clusters)


@pytest.mark.parametrize(
    ("old", "options", "problem"),
    [
        ([2.0], {}, "the score 2 is not 0 to 1; name the range: low=, high="),
        ([1.0, 0.0], {"clusters": ["a"]}, "2 and 1 rows; give ids or clusters of as many"),
        ([1.0], {"clusters": []}, "1 and 1 rows; give ids or clusters of as many"),
        ([1.0], {"labels": ([0.5], [1])}, "labels are 0 or 1"),
        ([1.0], {"margin": -0.1}, "given.score >= 0.1: write the loss that is accepted, 0 or more"),
        ([1.0], {"margin": 0.9}, "given.score >= -0.9: a release that is far worse would pass"),
        ([1.0], {"rules": ["bleu.bleu >= 0"]}, "bleu.bleu >= 0: the scores are called given.score, and have no slices"),
    ],
)
def test_what_cannot_be_decided_is_said(old, options, problem):
    with pytest.raises(ValueError, match="^" + problem):
        gate(old, [1.0], **{"margin": 0.05, **options})
