"""Intervals against SciPy's, published tables and loops, of rows, clusters, bounded scores; 95 % hold the truth."""

import itertools
import math

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from answerkey.metrics_core.decide.bounded_mean import bounded_mean, minimum_clusters, rejects
from answerkey.metrics_core.decide.clustered import (
    codes_of,
    mean,
    mean_interval,
    standard_deviation,
    unit_sums,
)
from answerkey.metrics_core.decide.intervals import (
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
    unpaired_proportions,
    unseen,
)
from answerkey.metrics_core.metrics.bleu import corpus_bleu
from tests.metrics_core.decide.simulations import BLEU, RATIO, width

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
    # As many words in each row as to tell a product with them from a quotient.
    return bootstrap(np.column_stack([4 * scores, np.full(len(scores), 4.0)]), RATIO, seed=1, **options)


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


@pytest.mark.parametrize(("n_old", "n_new"), [(50, 5), (20, 20), (100, 20)])
def test_both_ends_of_an_unpaired_difference_keep_their_level(n_old, n_new):
    """By enumeration of all counts, for shares that differ by at most one half."""
    pairs = itertools.product(range(n_old + 1), range(n_new + 1))
    ends = np.array([unpaired_proportions((old, n_old), (new, n_new))[:2] for old, new in pairs])
    low, high = ends.reshape(n_old + 1, n_new + 1, 2).transpose(2, 0, 1)
    shares = (0.005, 0.01, 0.04, 0.1, 0.25, 0.35, 0.5, 0.75, 0.96, 0.99)
    worst = 0.0
    for old, new in itertools.product(shares, shares):
        if abs(new - old) <= 0.5:
            chances = np.outer(
                scipy.stats.binom.pmf(range(n_old + 1), n_old, old), scipy.stats.binom.pmf(range(n_new + 1), n_new, new)
            )
            wrong = [chances[low > new - old + 1e-9].sum(), chances[high < new - old - 1e-9].sum()]
            worst = max(worst, *wrong)
    assert 0.01 < worst <= 0.028


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
        ((0, 10), (0, 10), (-0.2775, 0.2775)),
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


# The shared ground of the statistics: clusters, and intervals of sums of row effects.


SCORE = st.integers(0, 1000).map(lambda thousandths: thousandths / 1000)


def test_clusters_are_numbered_and_a_row_without_one_is_on_its_own():
    codes = codes_of(["b", None, "a", "b", None, 1], 6)
    assert codes.tolist() == [0, 1, 2, 0, 3, 4]
    assert unit_sums(np.array([1.0, 2, 3, 4, 5, 6]), codes).tolist() == [5, 2, 3, 5, 6]
    assert codes_of(None, 3) is codes_of(["a", "b", None], 3) is None


@given(st.lists(SCORE, min_size=1, max_size=50))
def test_the_mean_does_not_know_the_order(scores):
    assert mean(np.array(scores)) == mean(np.array(sorted(scores))) == pytest.approx(np.mean(scores), abs=1e-12)


@given(st.lists(st.lists(SCORE, min_size=1, max_size=5), min_size=2, max_size=20))
def test_the_interval_of_a_clustered_mean_is_that_of_the_sums(clusters):
    values = np.array([score for cluster in clusters for score in cluster])
    names = [f"c{i}" for i, cluster in enumerate(clusters) for _ in cluster]
    interval = mean_interval(values, codes_of(names, len(values)), low=-1.0)
    oracle = bounded_mean([sum(cluster) for cluster in clusters], [len(cluster) for cluster in clusters], low=-1.0)
    assert interval[:2] == pytest.approx(oracle[:2], abs=1e-9)
    assert interval.method == ("bounded-mean" if len(values) == len(clusters) else "cluster-bounded-mean")


def test_fewer_than_two_units_have_no_interval():
    assert mean_interval(np.ones(1), None) is mean_interval(np.array([0.1, 0.2, 0.3]), np.zeros(3, np.intp)) is None
    for n in (0, 1):
        assert unseen(0.5, 1.0, n) is standard_deviation(np.ones(n)) is None


# The interval for the mean of bounded values: oracles, its level under attack, and the time of many rows.


ROWS = st.lists(st.floats(0, 1), min_size=3, max_size=30)


@pytest.mark.parametrize("n", [3, 10, 100, 1000])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_of_zeros_and_ones_it_is_clopper_and_pearsons(n, level):
    for ones in {0, 1, n // 2, n - 1, n}:
        oracle = stats.binomtest(ones, n).proportion_ci(level, method="exact")
        interval = bounded_mean([1, 0], counts=[ones, n - ones], level=level)
        assert interval[:2] == pytest.approx((oracle.low, oracle.high), abs=5e-6)


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


@pytest.mark.nightly
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


def test_many_samples_are_tested_at_once_as_one_is():
    rng = np.random.default_rng(3)
    sizes = rng.integers(1, 6, 20).astype(float)
    sums = rng.random((50, 20)) * sizes

    lows = [bounded_mean(row, sizes, low=-1.0)[:2][0] for row in sums]
    assert rejects(sums, 0.1, sizes, low=-1.0).tolist() == [low > 0.1 for low in lows]
    assert 0 < sum(low > 0.1 for low in lows) < 50


def test_one_cluster_of_all_rows_shows_nothing_and_fewer_than_two_units_have_no_interval():
    assert bounded_mean([40.0], sizes=50) is bounded_mean([]) is None
    assert bounded_mean([2.0, 2.0, 2.0], low=2.0, high=2.0)[:2] == (2.0, 2.0), "a range without width"
    assert width(bounded_mean([490.0, 1.0], sizes=[500, 1])) > 0.8


@pytest.mark.parametrize("margin", [0.01, 0.02, 0.1, 0.5])
def test_fewer_clusters_cannot_rule_out_the_margin_and_as_many_can(margin):
    least = minimum_clusters(margin)
    for count in range(max(2, least - 1), least + 1):
        interval = bounded_mean(np.zeros(count), np.full(count, 7.0), low=-1.0)
        assert (interval.low > -margin) == (count == least)
    assert minimum_clusters(0.0) is None
    assert minimum_clusters(2 * margin, span=2.0) == least


def test_of_a_million_rows_the_width_is_that_of_the_t_test():
    values = np.random.default_rng(0).beta(4, 1, 1_000_000)
    oracle = stats.t.ppf(0.975, 999_999) * values.std(ddof=1) / 1000
    assert width(bounded_mean(values)) / 2 == pytest.approx(oracle, rel=0.01)
