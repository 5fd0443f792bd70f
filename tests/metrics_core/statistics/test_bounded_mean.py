"""The interval for the mean of bounded values: oracles, its level under attack, and the time of many rows."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from answerkey.metrics_core.statistics.bounded_mean import bounded_mean, minimum_clusters, rejects
from tests.metrics_core.metrics_help import seconds
from tests.metrics_core.statistics.simulations import width

ROWS = st.lists(st.floats(0, 1), min_size=3, max_size=30)


@pytest.mark.parametrize("n", [3, 10, 100, 1000])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_of_zeros_and_ones_it_is_clopper_and_pearsons(n, level):
    for ones in {0, 1, n // 2, n - 1, n}:
        oracle = stats.binomtest(ones, n).proportion_ci(level, method="exact")
        found = bounded_mean([1, 0], counts=[ones, n - ones], level=level)
        assert found[:2] == pytest.approx((oracle.low, oracle.high), abs=5e-6)


RNG = np.random.default_rng(8)
WEIGHTED = [RNG.beta(4, 1, 3), RNG.beta(4, 1, 12), RNG.random(60), np.r_[1.0, np.zeros(40)]]
WEIGHTED += [np.r_[np.ones(ones), np.zeros(zeros), np.full(n, 0.5)] for ones, zeros, n in ((2, 0, 28), (16, 0, 140))]


@pytest.mark.parametrize("values", WEIGHTED)
def test_the_bounds_are_quantiles_of_means_under_random_weights(values):
    weights = np.random.default_rng(0).dirichlet(np.ones(len(values) + 1), 50_000)
    ends_of = {end: np.sort(weights @ np.append(values, end)) for end in (0, 1)}
    low, high = bounded_mean(values)[:2]
    share = math.sqrt(0.025 / 50_000)
    assert np.searchsorted(ends_of[0], low) / 50_000 == pytest.approx(0.025, abs=4 * share)
    assert np.searchsorted(ends_of[1], high) / 50_000 == pytest.approx(0.975, abs=4 * share)


@pytest.mark.slow
@given(ROWS, st.data())
def test_no_bound_rises_where_a_score_falls(values, data):
    place = data.draw(st.integers(0, len(values) - 1))
    worse = list(values)
    worse[place] *= data.draw(st.floats(0, 1))
    before, after = bounded_mean(values)[:2], bounded_mean(worse)[:2]
    assert after[0] <= before[0] + 1e-6
    assert after[1] <= before[1] + 1e-6


@given(ROWS, st.randoms(use_true_random=False))
def test_order_and_scale_do_not_matter_and_the_mean_is_inside(values, random):
    low, high = bounded_mean(values)[:2]
    assert 0 <= low <= np.mean(values) + 1e-9 <= high + 2e-9 <= 1 + 2e-9
    assert low < high
    assert bounded_mean(values[::-1])[:2] == pytest.approx((low, high), abs=1e-9)
    moved = bounded_mean([4 * value - 3 for value in values], low=-3, high=1)
    assert moved[:2] == pytest.approx((4 * low - 3, 4 * high - 3), abs=5e-6)
    mirrored = bounded_mean([1 - value for value in values])[:2]
    assert mirrored == pytest.approx((1 - high, 1 - low), abs=5e-6)


def outcomes(n, kinds):
    """How often each of `kinds` values comes up among n draws, all the possibilities: shape (outcomes, kinds)."""
    several = [c for c in itertools.product(range(n + 1), repeat=kinds - 1) if sum(c) <= n]
    return np.array([(*c, n - sum(c)) for c in several])


@pytest.mark.parametrize("n", [2, 3, 5, 8, 12])
def test_no_distribution_breaks_the_bound(n):
    """By enumeration, exactly: three values with random shares, among them rare large losses and near-constant ones."""
    rng = np.random.default_rng(n)
    counts = outcomes(n, 3)
    worst = 0.0
    for attempt in range(60):
        values = np.array([0.0, *np.sort(rng.beta(0.5, 0.5, 2))])
        shares = (
            np.round(rng.dirichlet([0.3, 0.3, 0.3]) * (n + 1)) / (n + 1) if attempt % 2 else rng.dirichlet([0.3] * 3)
        )
        shares[0] = 1 - shares[1:].sum()
        samples = np.array([np.repeat(values, row) for row in counts])
        chances = stats.multinomial.pmf(counts, n, shares)
        # Equal to the last digits is not above: what is tested is "above the true mean".
        wrong = rejects(samples, float(values @ shares) + 1e-9)
        worst = max(worst, float(chances[wrong].sum()))
    assert 0.01 < worst <= 0.025


@pytest.mark.parametrize(("n", "share"), [(30, 0.02), (100, 0.02), (300, 0.05)])
def test_rare_large_losses_among_noise_are_not_missed(n, share):
    """Differences of two releases. That of t is the audit's figure: it passes them up to half of the time."""
    rng = np.random.default_rng(n)
    shape = (600, n)
    losses = rng.random(shape) < share
    changes = np.where(losses, -rng.random(shape), np.clip(0.01 * rng.standard_normal(shape), -1, 1))
    true = -share / 2
    by_t = changes.mean(1) - stats.t.ppf(0.975, n - 1) * changes.std(1, ddof=1) / math.sqrt(n) > true
    assert by_t.mean() > 0.05
    assert rejects(changes, true, low=-1.0).mean() <= 0.025


def test_many_samples_are_tested_at_once_as_one_is():
    rng = np.random.default_rng(3)
    sizes = rng.integers(1, 6, 20).astype(float)
    sums = rng.random((50, 20)) * sizes

    lows = [bounded_mean(row, sizes, low=-1.0)[:2][0] for row in sums]
    assert rejects(sums, 0.1, sizes, low=-1.0).tolist() == [low > 0.1 for low in lows]
    assert 0 < sum(low > 0.1 for low in lows) < 50


def test_one_cluster_of_all_rows_shows_nothing_and_fewer_than_two_units_have_no_interval():
    assert bounded_mean([40.0], sizes=50) is bounded_mean([]) is None
    assert width(bounded_mean([490.0, 1.0], sizes=[500, 1])) > 0.8


def test_without_width_only_where_the_range_has_none():
    assert bounded_mean([2.0, 2.0, 2.0], low=2.0, high=2.0)[:2] == (2.0, 2.0)
    low, high = bounded_mean(np.full(20, 0.3))[:2]
    assert low < 0.3 < high


@pytest.mark.parametrize("margin", [0.01, 0.02, 0.1, 0.5])
def test_fewer_clusters_cannot_rule_out_the_margin_and_as_many_can(margin):
    least = minimum_clusters(margin)
    for count in range(max(2, least - 1), least + 1):
        found = bounded_mean(np.zeros(count), np.full(count, 7.0), low=-1.0)
        assert (found.low > -margin) == (count == least)
    assert minimum_clusters(0.0) is None
    assert minimum_clusters(2 * margin, span=2.0) == least


def test_ten_times_as_many_rows_take_little_more_than_ten_times_as_long():
    values = np.random.default_rng(0).beta(4, 1, 1_000_000)
    assert seconds(lambda: bounded_mean(values)) < 30 * seconds(lambda: bounded_mean(values[:100_000]))
    oracle = stats.t.ppf(0.975, 999_999) * values.std(ddof=1) / 1000
    assert width(bounded_mean(values)) / 2 == pytest.approx(oracle, rel=0.01)
