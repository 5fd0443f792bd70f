"""Adjusted p-values against their definitions, and the errors that they promise to hold."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.metrics_core.statistics.multiple_testing import benjamini_hochberg, holm, shared_level

PS = st.lists(st.floats(0, 1), min_size=1, max_size=6)


def closed(p: list[float], test: int) -> float:
    """The closure principle: the largest Bonferroni p of all families that hold the test."""
    families = (family for size in range(1, len(p) + 1) for family in itertools.combinations(range(len(p)), size))
    return max(min(1.0, len(f) * min(p[i] for i in f)) for f in families if test in f)


def step_up(p: list[float], test: int) -> float:
    """The smallest q at which the test is among those that the step-up procedure rejects."""
    n, order = len(p), sorted(p)
    return min(min(1.0, n * order[k] / (k + 1)) for k in range(n) if order[k] >= p[test])


def test_a_case_by_hand() -> None:
    p = [0.01, 0.04, 0.03, 0.005]
    assert holm(p) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert benjamini_hochberg(p) == pytest.approx([0.02, 0.04, 0.04, 0.02])


@given(PS)
def test_holm_is_the_closed_test_of_bonferronis(p: list[float]) -> None:
    assert holm(p) == pytest.approx([closed(p, i) for i in range(len(p))], abs=1e-12)


@given(PS)
def test_benjamini_hochberg_is_the_step_up_procedure(p: list[float]) -> None:
    assert benjamini_hochberg(p) == pytest.approx([step_up(p, i) for i in range(len(p))], abs=1e-12)


@given(PS, st.permutations(range(6)))
def test_each_p_keeps_its_place(p: list[float], order: list[int]) -> None:
    places = [i for i in order if i < len(p)]
    for adjust in (holm, benjamini_hochberg):
        adjusted = adjust(p)
        assert adjust([p[i] for i in places]) == pytest.approx([adjusted[i] for i in places], abs=1e-12)
        assert all(raw <= new <= 1 for raw, new in zip(p, adjusted, strict=True))


def test_no_test_and_one_test_stay_as_they_are() -> None:
    assert holm([]) == benjamini_hochberg([]) == []
    assert holm([0.3]) == benjamini_hochberg([0.3]) == [0.3]


@pytest.mark.parametrize("p", [[0.5, 1.1], [-0.1], [math.nan]])
def test_what_is_no_p_is_refused(p: list[float]) -> None:
    for adjust in (holm, benjamini_hochberg):
        with pytest.raises(ValueError, match="p: "):
            adjust(p)


def test_holm_rejects_something_true_at_most_1_time_in_20() -> None:
    p = np.random.default_rng(1).random((2000, 12))
    p[:, :3] /= 1000
    assert 0.03 <= np.mean([min(holm(row)[3:]) <= 0.05 for row in p]) <= 0.055


def test_of_what_benjamini_hochberg_rejects_at_most_1_in_20_is_true() -> None:
    p = np.random.default_rng(2).random((2000, 12))
    p[:, :6] /= 300
    found = [np.array(benjamini_hochberg(row)) <= 0.05 for row in p]
    false = np.mean([row[6:].sum() / max(1, row.sum()) for row in found])
    # It holds the share of true ones below q times their share of all tests, here a half.
    assert 0.015 <= false <= 0.05


def test_looks_and_candidates_share_one_error() -> None:
    looks = [1 - shared_level(look=look) for look in range(1, 100_000)]
    assert looks[:3] == pytest.approx([0.05 / 2, 0.05 / 6, 0.05 / 12])
    assert 0.0499 < math.fsum(looks) < 0.05
    assert [1 - shared_level(look=2, candidates=k) for k in (1, 4)] == pytest.approx([0.05 / 6, 0.05 / 24])
    assert shared_level(level=0.9) == 0.9
    for wrong in ({"look": 0}, {"candidates": 0}, {"level": 1.0}):
        with pytest.raises(ValueError, match="look and candidates of at least 1"):
            shared_level(**wrong)  # type: ignore[arg-type]
