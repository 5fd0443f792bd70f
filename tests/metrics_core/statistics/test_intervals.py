"""Intervals against SciPy's and against explicit loops, and what they promise: 95 % of them hold the truth."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from answerkey.metrics_core.metrics.bleu import BleuStats, corpus_bleu
from answerkey.metrics_core.statistics.intervals import Interval, bootstrap, cluster_t, student_t, tango, wilson

LEVELS = st.sampled_from([0.8, 0.9, 0.95, 0.99])
SCORE = st.integers(0, 1000).map(lambda thousandths: thousandths / 1000)
SCORES = st.lists(SCORE, min_size=2, max_size=40)


def residuals(clusters: Sequence[Sequence[float]], mean: float) -> float:
    """Sum over clusters of the squared sum of deviations, by the book."""
    total = 0.0
    for rows in clusters:
        deviation = 0.0
        for value in rows:
            deviation += value - mean
        total += deviation * deviation
    return total


@given(st.integers(2, 500), st.data(), LEVELS)
def test_wilson_is_scipys(n: int, data: st.DataObject, level: float) -> None:
    successes = data.draw(st.integers(0, n))
    oracle = scipy.stats.binomtest(successes, n).proportion_ci(level, method="wilson")
    interval = wilson(successes, n, level)
    assert interval is not None
    assert interval.method == "wilson"
    assert (interval.low, interval.high) == pytest.approx((oracle.low, oracle.high), rel=0, abs=1e-12)
    assert 0 <= interval.low <= successes / n <= interval.high <= 1


def test_wilson_at_the_ends_is_exact_and_not_of_zero_width() -> None:
    none, all_ = wilson(0, 10), wilson(10, 10)
    assert none is not None
    assert all_ is not None
    assert (none.low, all_.high) == (0.0, 1.0)
    assert none.high == pytest.approx(0.2775327998628, abs=1e-12)
    assert all_.low == pytest.approx(1 - none.high, abs=1e-12)


@given(SCORES, LEVELS)
def test_student_t_is_scipys(scores: list[float], level: float) -> None:
    n, mean, sd = len(scores), float(np.mean(scores)), float(np.std(scores, ddof=1))
    interval = student_t(mean, sd, n, level)
    assert interval is not None
    assert interval.method == "t"
    if sd == 0:
        assert (interval.low, interval.high) == (mean, mean)
    else:
        oracle = scipy.stats.t.interval(level, n - 1, loc=mean, scale=scipy.stats.sem(scores))
        assert (interval.low, interval.high) == pytest.approx(oracle, rel=1e-9, abs=1e-9)


@given(st.lists(st.lists(SCORE, min_size=1, max_size=5), min_size=2, max_size=12), LEVELS)
def test_cluster_t_is_the_formula_written_out(clusters: list[list[float]], level: float) -> None:
    rows = [value for cluster in clusters for value in cluster]
    mean, count = math.fsum(rows) / len(rows), len(clusters)
    error = math.sqrt(count / (count - 1) * residuals(clusters, mean) / len(rows) ** 2)
    margin = scipy.stats.t.ppf((1 + level) / 2, count - 1) * error
    interval = cluster_t(mean, residuals(clusters, mean), len(rows), count, level)
    assert interval is not None
    assert interval.method == "cluster-t"
    assert (interval.low, interval.high) == pytest.approx((mean - margin, mean + margin), rel=1e-9, abs=1e-12)


@given(SCORES)
def test_clusters_of_one_row_give_students_interval(scores: list[float]) -> None:
    n, mean = len(scores), float(np.mean(scores))
    plain = student_t(mean, float(np.std(scores, ddof=1)), n)
    clustered = cluster_t(mean, residuals([[score] for score in scores], mean), n, n)
    assert plain is not None
    assert clustered is not None
    assert (clustered.low, clustered.high) == pytest.approx((plain.low, plain.high), rel=1e-9, abs=1e-9)


def test_rows_that_repeat_one_another_widen_the_interval() -> None:
    scores = [0.0, 1.0, 1.0, 0.5, 0.25, 0.75]
    mean = float(np.mean(scores))
    once = cluster_t(mean, residuals([[score] for score in scores], mean), 6, 6)
    tenfold = cluster_t(mean, residuals([[score] * 10 for score in scores], mean), 60, 6)
    assert once is not None
    # Ten copies of a row say what one says.
    assert tenfold == pytest.approx(once)


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_observations_have_no_interval(n: int) -> None:
    assert wilson(n, n) is None
    assert student_t(0.5, 0.0, n) is None
    assert cluster_t(0.5, 0.0, 10, n) is None
    assert bootstrap(np.ones((n, 2)), lambda total: float(total[0]), seed=1) is None


def test_a_higher_level_makes_a_wider_interval() -> None:
    for narrow, wide in (
        (wilson(3, 10, 0.9), wilson(3, 10, 0.99)),
        (student_t(0.5, 0.2, 10, 0.9), student_t(0.5, 0.2, 10, 0.99)),
        (cluster_t(0.5, 0.2, 10, 5, 0.9), cluster_t(0.5, 0.2, 10, 5, 0.99)),
    ):
        assert narrow is not None
        assert wide is not None
        assert wide.low < narrow.low < narrow.high < wide.high


def test_an_interval_is_cut_to_the_range_of_its_field() -> None:
    assert Interval(-0.1, 1.2, "t").clipped(0, 1) == Interval(0, 1, "t")
    assert Interval(0.2, 0.3, "t").clipped(0, 1) == Interval(0.2, 0.3, "t")


def mean_of(total: np.ndarray) -> float:
    """From (sum, count) to the mean."""
    return float(total[0] / total[1])


def test_the_bootstrap_agrees_with_scipys() -> None:
    scores = np.random.default_rng(7).beta(2, 1, 200)
    interval = bootstrap(np.column_stack([scores, np.ones(200)]), mean_of, seed=1, resamples=4000)
    assert interval is not None
    assert interval.method == "bootstrap"
    oracle = scipy.stats.bootstrap(
        (scores,), np.mean, n_resamples=4000, method="percentile", rng=np.random.default_rng(2)
    ).confidence_interval
    # Two sets of resamples differ by a few hundredths of the width.
    assert (interval.low, interval.high) == pytest.approx(oracle, abs=0.05 * (oracle.high - oracle.low))


def test_the_bootstrap_is_repeatable_and_follows_its_seed_and_level() -> None:
    stats = np.column_stack([np.random.default_rng(7).random(30), np.ones(30)])
    first = bootstrap(stats, mean_of, seed=1)
    assert first == bootstrap(stats, mean_of, seed=1) != bootstrap(stats, mean_of, seed=2)
    narrow = bootstrap(stats, mean_of, seed=1, level=0.5)
    assert first is not None
    assert narrow is not None
    assert first.low < narrow.low < narrow.high < first.high


def test_the_bootstrap_resamples_rows_of_statistics() -> None:
    good = BleuStats(5, 5, (5, 4, 3, 2), (5, 4, 3, 2)).flat
    poor = BleuStats(5, 5, (2, 1, 0, 0), (5, 4, 3, 2)).flat
    stats = np.array([good, poor] * 20)

    def bleu(total: np.ndarray) -> float:
        return corpus_bleu(BleuStats.of_flat(total.tolist()))

    interval = bootstrap(stats, bleu, seed=1, resamples=300)
    assert interval is not None
    assert 0.3 < interval.low < bleu(stats.sum(0)) < interval.high < 0.9
    same = bootstrap(np.array([good] * 20), bleu, seed=1, resamples=50)
    assert same == Interval(1.0, 1.0, "bootstrap")


REPEATS = 3000


def coverage(intervals: Sequence[Interval | None], truth: float) -> float:
    assert None not in intervals
    return sum(interval is not None and interval.low <= truth <= interval.high for interval in intervals) / len(
        intervals
    )


@pytest.mark.parametrize(("p", "n"), [(0.5, 40), (0.3, 60), (0.9, 80), (0.73, 500)])
def test_wilson_holds_the_truth_19_times_in_20(p: float, n: int) -> None:
    successes = np.random.default_rng(1).binomial(n, p, REPEATS)
    assert 0.93 <= coverage([wilson(int(k), n) for k in successes], p) <= 0.97


@pytest.mark.parametrize("n", [5, 30, 300])
def test_student_t_holds_the_truth_19_times_in_20(n: int) -> None:
    rows = np.random.default_rng(2).normal(0.6, 0.2, (REPEATS, n))
    found = [
        student_t(mean, sd, n) for mean, sd in zip(rows.mean(1).tolist(), rows.std(1, ddof=1).tolist(), strict=True)
    ]
    assert 0.93 <= coverage(found, 0.6) <= 0.97


def test_student_t_holds_the_truth_for_skewed_scores() -> None:
    rows = np.random.default_rng(3).beta(4, 1, (REPEATS, 100))
    found = [
        student_t(mean, sd, 100) for mean, sd in zip(rows.mean(1).tolist(), rows.std(1, ddof=1).tolist(), strict=True)
    ]
    assert 0.93 <= coverage(found, 0.8) <= 0.97


@pytest.mark.parametrize("clusters", [8, 40])
def test_cluster_t_holds_the_truth_where_the_plain_interval_does_not(clusters: int) -> None:
    rng, size = np.random.default_rng(4), 6
    shared = rng.normal(0, 0.2, (REPEATS, clusters, 1))
    rows = 0.6 + shared + rng.normal(0, 0.2, (REPEATS, clusters, size))
    n = clusters * size
    mean = rows.mean((1, 2))
    squared = ((rows - mean[:, None, None]).sum(2) ** 2).sum(1)
    found = [cluster_t(m, r, n, clusters) for m, r in zip(mean.tolist(), squared.tolist(), strict=True)]
    assert 0.93 <= coverage(found, 0.6) <= 0.97
    sd = rows.reshape(REPEATS, n).std(1, ddof=1)
    plain = [student_t(m, s, n) for m, s in zip(mean.tolist(), sd.tolist(), strict=True)]
    assert coverage(plain, 0.6) < 0.8


def test_the_bootstrap_holds_the_truth_19_times_in_20() -> None:
    rows = np.random.default_rng(5).beta(2, 1, (600, 100))
    found = [
        bootstrap(np.column_stack([scores, np.ones(100)]), mean_of, seed=i, resamples=400)
        for i, scores in enumerate(rows)
    ]
    assert 0.93 <= coverage(found, 2 / 3) <= 0.97


def likeliest(fixed: int, broken: int, n: int, difference: float) -> tuple[float, float]:
    """The likeliest shares of fixed and broken rows with the given difference, found by search."""

    def unlikely(share: float) -> float:
        parts = ((fixed, share + difference), (broken, share), (n - fixed - broken, 1 - 2 * share - difference))
        return -sum(count * math.log(max(part, 1e-300)) for count, part in parts if count)

    bounds = (max(0.0, -difference), (1 - difference) / 2)
    share = scipy.optimize.minimize_scalar(unlikely, bounds=bounds, method="bounded", options={"xatol": 1e-12}).x
    return share + difference, share


@given(st.integers(2, 60), st.data())
def test_the_ends_of_tangos_interval_lie_z_standard_errors_away(n: int, data: st.DataObject) -> None:
    fixed = data.draw(st.integers(0, n))
    broken = data.draw(st.integers(0, n - fixed))
    interval = tango(fixed, broken, n)
    assert interval is not None
    assert interval.method == "tango"
    observed = (fixed - broken) / n
    assert -1 <= interval.low <= observed <= interval.high <= 1
    for end in interval[:2]:
        if abs(end) < 1:
            up, down = likeliest(fixed, broken, n, end)
            error = math.sqrt((up + down - end * end) / n)
            assert abs(end - observed) / error == pytest.approx(1.959964, rel=2e-3)


def test_tangos_interval_where_the_formula_is_simple() -> None:
    z2 = scipy.stats.norm.ppf(0.975) ** 2
    nothing, everything = tango(0, 0, 50), tango(50, 0, 50)
    assert nothing is not None
    assert everything is not None
    assert (nothing.low, nothing.high) == pytest.approx((-z2 / (50 + z2), z2 / (50 + z2)), abs=1e-9)
    assert (everything.low, everything.high) == pytest.approx(((50 - z2) / (50 + z2), 1), abs=1e-9)
    assert tango(0, 0, 1) is None


@given(st.integers(0, 40), st.integers(0, 40), st.integers(2, 100), LEVELS)
def test_tangos_interval_is_mirrored_with_the_releases(fixed: int, broken: int, rest: int, level: float) -> None:
    n = fixed + broken + rest
    there, back = tango(fixed, broken, n, level), tango(broken, fixed, n, level)
    assert there is not None
    assert back is not None
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low), abs=1e-9)


@pytest.mark.parametrize(("n", "fixed", "broken"), [(60, 0.12, 0.1), (100, 0.1, 0.03), (400, 0.03, 0.03)])
def test_tango_holds_the_truth_19_times_in_20(n: int, fixed: float, broken: float) -> None:
    draws = np.random.default_rng(6).multinomial(n, [fixed, broken, 1 - fixed - broken], REPEATS)
    assert 0.93 <= coverage([tango(int(a), int(b), n) for a, b, _ in draws], fixed - broken) <= 0.97


def test_tango_holds_the_truth_where_a_t_interval_does_not() -> None:
    draws = np.random.default_rng(7).multinomial(100, [0.03, 0.0, 0.97], REPEATS)
    assert coverage([tango(int(a), int(b), 100) for a, b, _ in draws], 0.03) >= 0.95
    rows = [np.repeat([1.0, 0.0], [a, 100 - a]) for a, _, _ in draws]
    assert coverage([student_t(float(d.mean()), float(d.std(ddof=1)), 100) for d in rows], 0.03) < 0.85
