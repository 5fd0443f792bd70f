"""Intervals against SciPy's, published tables and explicit loops; and 95 % of them hold the truth."""

import itertools
import math

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from answerkey.metrics_core.metrics.bleu import corpus_bleu
from answerkey.metrics_core.statistics.bounded_mean import bounded_mean
from answerkey.metrics_core.statistics.intervals import (
    Estimate,
    Interval,
    bootstrap,
    clopper_pearson,
    independent_difference,
    normal_quantile,
    paired_proportions,
    pass_at_k,
    pass_hat_k,
    tango,
)
from tests.metrics_core.statistics.simulations import BLEU, RATIO, width

LEVELS = st.sampled_from([0.8, 0.9, 0.95, 0.99])


@given(st.integers(2, 500), st.data(), LEVELS)
def test_the_interval_of_a_share_is_scipys_exact_one(n, data, level):
    successes = data.draw(st.integers(0, n))
    oracle = scipy.stats.binomtest(successes, n).proportion_ci(level, method="exact")
    interval = clopper_pearson(successes, n, level)
    assert interval == (*(pytest.approx(end, rel=0, abs=1e-12) for end in oracle), "clopper-pearson")


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_observations_have_no_interval(n):
    assert clopper_pearson(n, n) is paired_proportions(0, 0, n) is tango(0, 0, n) is None
    assert bootstrap(np.ones((n, 2)), RATIO, seed=1) is None
    assert independent_difference(Estimate(0.5, None), wilson(1, 2)) is None


def bootstrapped(scores, **options):
    return bootstrap(np.column_stack([scores, np.ones(len(scores))]), RATIO, seed=1, **options)


@pytest.mark.parametrize(("ones", "n"), [(0, 12), (3, 12), (40, 40), (70, 100), (None, 40)])
def test_the_bootstrap_of_a_mean_is_its_bounded_mean(ones, n):
    scores = np.random.default_rng(7).beta(2, 1, n) if ones is None else np.repeat([1.0, 0.0], [ones, n - ones])
    interval, exact = bootstrapped(scores, resamples=20_000), bounded_mean(scores)
    assert interval.method == "bounded-bootstrap"
    assert interval[:2] == pytest.approx(exact[:2], abs=0.04 * width(exact))


def test_the_bootstrap_is_repeatable_and_follows_its_seed_and_level():
    scores = np.random.default_rng(7).random(30)
    first, narrow, wide = (bootstrapped(scores, level=level) for level in (0.95, 0.5, 0.999))
    assert first == bootstrapped(scores)
    assert first != bootstrap(np.column_stack([scores, np.ones(30)]), RATIO, seed=2)
    assert wide.low < first.low < narrow.low < narrow.high < first.high < wide.high


def test_the_bootstrap_resamples_rows_of_statistics():
    good = [5, 5, 5, 4, 3, 2, 5, 4, 3, 2]
    poor = [5, 5, 2, 1, 0, 0, 5, 4, 3, 2]
    stats = np.array([good, poor] * 20)
    interval = bootstrap(stats, BLEU, seed=1, resamples=300)
    assert 0.3 < interval.low < corpus_bleu(stats.sum(0)) < interval.high < 0.9
    # Twenty perfect answers do not show that all are.
    same = bootstrap(np.array([good] * 20), BLEU, seed=1)
    assert same.high == 1
    assert 0.7 < same.low < 0.95


def likeliest(fixed, broken, n, difference):
    """The likeliest shares of fixed and broken rows with the given difference, found by search."""

    def unlikely(share):
        parts = ((fixed, share + difference), (broken, share), (n - fixed - broken, 1 - 2 * share - difference))
        return -sum(count * math.log(max(part, 1e-300)) for count, part in parts if count)

    bounds = (max(0.0, -difference), (1 - difference) / 2)
    share = scipy.optimize.minimize_scalar(unlikely, bounds=bounds, method="bounded", options={"xatol": 1e-12}).x
    return share + difference, share


@given(st.integers(2, 60), st.data())
def test_the_ends_of_tangos_interval_lie_z_standard_errors_away(n, data):
    fixed = data.draw(st.integers(0, n))
    broken = data.draw(st.integers(0, n - fixed))
    interval = tango(fixed, broken, n)
    assert interval.method == "tango"
    observed = (fixed - broken) / n
    assert -1 <= interval.low <= observed <= interval.high <= 1
    for end in interval[:2]:
        if abs(end) < 1:
            up, down = likeliest(fixed, broken, n, end)
            error = math.sqrt((up + down - end * end) / n)
            assert abs(end - observed) / error == pytest.approx(1.959964, rel=2e-3)


def test_tangos_interval_where_the_formula_is_simple():
    z2 = scipy.stats.norm.ppf(0.975) ** 2
    assert tango(0, 0, 50)[:2] == pytest.approx((-z2 / (50 + z2), z2 / (50 + z2)), abs=1e-9)
    assert tango(50, 0, 50)[:2] == pytest.approx(((50 - z2) / (50 + z2), 1), abs=1e-9)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(2, 100), LEVELS)
def test_intervals_of_paired_shares_are_mirrored_with_the_releases_and_widen_with_the_level(fixed, broken, rest, level):
    n = fixed + broken + rest
    for function in (tango, paired_proportions):
        there, back, wider = (
            function(fixed, broken, n, level),
            function(broken, fixed, n, level),
            function(fixed, broken, n, 0.995),
        )
        assert there[:2] == pytest.approx((-back.high, -back.low), abs=1e-9)
        assert wider.low < there.low < there.high < wider.high


SHARES = (0.0, 0.01, 0.03, 0.1, 0.3)


@pytest.mark.parametrize("n", [10, 30, 100])
def test_both_ends_of_the_widened_interval_keep_their_level(n):
    """By enumeration, exactly. Tango's alone is wrong up to 5 times in 100 on one side, where few rows changed."""
    counts = np.array(
        [(fixed, broken, n - fixed - broken) for fixed in range(n + 1) for broken in range(n + 1 - fixed)]
    )
    chances = {
        (fixed, broken): scipy.stats.multinomial.pmf(counts, n, [fixed, broken, 1 - fixed - broken])
        for fixed, broken in itertools.product(SHARES, SHARES)
    }
    # Only what can come up is computed.
    possible = np.max(list(chances.values()), axis=0) > 1e-6
    worst = {}
    for function in (tango, paired_proportions):
        lows = np.array([function(int(fixed), int(broken), n).low for fixed, broken, _ in counts[possible]])
        worst[function] = max(
            chance[possible][lows > fixed - broken + 1e-9].sum() for (fixed, broken), chance in chances.items()
        )
    assert worst[paired_proportions] <= 0.027 < worst[tango]


def test_the_widened_interval_costs_a_few_percent():
    for changed in ((0, 0, 100), (5, 5, 100), (30, 20, 100), (9, 3, 300), (100, 80, 1000)):
        wide, narrow = paired_proportions(*changed), tango(*changed)
        assert wide.low <= narrow.low <= narrow.high <= wide.high
        assert width(wide) / width(narrow) < 1.06


def wilson(successes, n):
    z, p = normal_quantile(0.95), successes / n
    centre, scale = p + z * z / (2 * n), 1 + z * z / n
    margin = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return Estimate(p, Interval(max(0.0, (centre - margin) / scale), min(1.0, (centre + margin) / scale), "wilson"))


@pytest.mark.parametrize(
    ("new", "old", "ends"),
    [
        ((56, 70), (48, 80), (0.0524, 0.3339)),
        ((9, 10), (3, 10), (0.1705, 0.8090)),
        ((6, 7), (2, 7), (0.0582, 0.8062)),
        ((5, 56), (0, 29), (-0.0381, 0.1926)),
        ((0, 10), (0, 20), (-0.1611, 0.2775)),
        ((0, 10), (0, 10), (-0.2775, 0.2775)),
        ((10, 10), (0, 20), (0.6791, 1.0)),
        ((10, 10), (0, 10), (0.6075, 1.0)),
    ],
)
def test_newcombes_table(new, old, ends):
    """Newcombe (1998), Interval estimation for the difference between independent proportions, table II, method 10."""
    assert independent_difference(wilson(*new), wilson(*old))[:2] == pytest.approx(ends, abs=6e-5)


@pytest.mark.parametrize("n", range(1, 7))
def test_pass_at_k_and_pass_hat_k_are_shares_of_all_subsets(n):
    for right, k in itertools.product(range(n + 1), range(1, n + 1)):
        subsets = list(itertools.combinations([True] * right + [False] * (n - right), k))
        assert pass_at_k(n, right, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))
        assert pass_hat_k(n, right, k) == pytest.approx(sum(map(all, subsets)) / len(subsets))


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize(("n", "k"), [(5, 5), (8, 3), (10, 1)])
def test_pass_at_k_and_pass_hat_k_are_unbiased(p, n, k):
    chances = scipy.stats.binom(n, p).pmf(range(n + 1))
    assert sum(c * pass_at_k(n, right, k) for right, c in enumerate(chances)) == pytest.approx(1 - (1 - p) ** k)
    assert sum(c * pass_hat_k(n, right, k) for right, c in enumerate(chances)) == pytest.approx(p**k)
