"""Exchange tests against SciPy's, against all exchanges by hand, and their rate of false alarms."""

import itertools

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from answerkey.metrics_core.statistics.permutation import exchange, sign_flip
from tests.metrics_core.statistics.simulations import share

CHANGES = st.lists(st.integers(-8, 8).map(lambda eighths: eighths / 8), min_size=1, max_size=9)


def by_hand(changes: list[float]) -> float:
    """The share of sign flips whose sum is as far from 0 as the observed one."""
    observed = abs(sum(changes))
    sums = [
        abs(sum(s * c for s, c in zip(signs, changes, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(changes))
    ]
    return sum(s >= observed - 1e-9 for s in sums) / len(sums)


@given(CHANGES)
def test_few_units_are_flipped_in_every_way(changes: list[float]) -> None:
    assert sign_flip(np.array(changes)) == pytest.approx(by_hand(changes), abs=1e-12)


def test_a_small_case_by_hand() -> None:
    # Of 8 sign patterns only +++ and --- are as far from 0 as 6.
    assert sign_flip(np.array([1.0, 2.0, 3.0])) == 2 / 8
    assert sign_flip(np.array([0.0, 0.0])) == 1.0
    assert sign_flip(np.array([0.0, 1.0, 2.0, 0.0, 3.0])) == 2 / 8


def test_many_units_agree_with_scipys_sample_of_flips() -> None:
    changes = np.random.default_rng(1).normal(0.045, 0.2, 150)
    oracle = scipy.stats.permutation_test(
        (changes,),
        lambda x, axis: np.abs(x.mean(axis)),
        permutation_type="samples",
        alternative="greater",
        n_resamples=9999,
        vectorized=True,
        batch=500,
        rng=np.random.default_rng(2),
    ).pvalue
    p = sign_flip(changes)
    assert 0.01 < p < 0.2
    assert p == pytest.approx(oracle, abs=4 * (p * (1 - p) / 9999) ** 0.5 * 2**0.5)


@given(st.lists(st.floats(-1, 1), min_size=15, max_size=40), st.integers(0, 3))
def test_order_and_direction_do_not_matter(changes: list[float], seed: int) -> None:
    values = np.array(changes)
    p = sign_flip(values, permutations=300, seed=seed)
    assert 1 / 301 <= p <= 1
    assert sign_flip(np.sort(values), permutations=300, seed=seed) == p
    assert sign_flip(-values, permutations=300, seed=seed) == p


def test_the_seed_decides_and_batches_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = np.random.default_rng(1).normal(0.02, 0.2, 64)
    first = sign_flip(changes, permutations=500)
    assert sign_flip(changes, permutations=500) == first
    assert len({sign_flip(changes, permutations=500, seed=seed) for seed in range(5)}) > 1
    monkeypatch.setattr("answerkey.metrics_core.statistics.permutation._CELLS", 64 * 32)
    assert sign_flip(changes, permutations=500) == first
    assert sign_flip(changes[:8]) == pytest.approx(by_hand(changes[:8].tolist()))


def test_a_sampled_p_is_never_zero() -> None:
    assert sign_flip(np.ones(100), permutations=99) == 1 / 100
    with pytest.raises(ValueError, match="permutations: at least 1 is needed, not 0"):
        sign_flip(np.ones(3), permutations=0)


def test_an_exchange_of_a_ratio_is_tried_in_every_way() -> None:
    rng = np.random.default_rng(3)
    old, new = rng.integers(1, 9, (6, 2)).astype(float), rng.integers(1, 9, (6, 2)).astype(float)

    def ratio(total: np.ndarray) -> float:
        return float(total[0] / total[1])

    observed, extreme = abs(ratio(new.sum(0)) - ratio(old.sum(0))), 0
    for picks in itertools.product((False, True), repeat=6):
        swapped = np.array(picks)[:, None]
        a, b = np.where(swapped, new, old), np.where(swapped, old, new)
        extreme += abs(ratio(b.sum(0)) - ratio(a.sum(0))) >= observed - 1e-12
    assert exchange(old, new, ratio) == extreme / 64


def test_an_exchange_of_sums_is_a_sign_flip() -> None:
    rng = np.random.default_rng(4)
    old, new = rng.random((40, 1)), rng.random((40, 1)) + 0.1
    flipped = sign_flip((new - old)[:, 0], permutations=5000)
    assert exchange(old, new, lambda total: float(total[0]), permutations=5000) == pytest.approx(flipped, abs=0.02)


def test_no_difference_is_called_one_1_time_in_20() -> None:
    rows = np.random.default_rng(5).normal(0, 0.2, (1500, 30))
    skewed = np.random.default_rng(6).exponential(1, (1500, 30)) * np.random.default_rng(7).choice([-1, 1], (1500, 30))
    for draws in (rows, skewed):
        assert 0.035 <= share(sign_flip(row, permutations=199, seed=i) <= 0.05 for i, row in enumerate(draws)) <= 0.065


def test_clusters_must_be_flipped_whole() -> None:
    rng = np.random.default_rng(8)
    rows = rng.normal(0, 0.2, (800, 15, 1)) + rng.normal(0, 0.2, (800, 15, 6))
    whole = share(sign_flip(row.sum(1), permutations=199, seed=i) <= 0.05 for i, row in enumerate(rows))
    apart = share(sign_flip(row.ravel(), permutations=199, seed=i) <= 0.05 for i, row in enumerate(rows))
    assert 0.03 <= whole <= 0.07
    assert apart > 0.2
