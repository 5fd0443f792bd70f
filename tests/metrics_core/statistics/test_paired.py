"""Paired differences: by hand, against SciPy's tests, under reordering and exchange, and their coverage."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from answerkey.metrics_core.metrics.bleu import bleu_extremes, corpus_bleu
from answerkey.metrics_core.statistics.bounded_mean import bounded_mean
from answerkey.metrics_core.statistics.intervals import SumStatistic, paired_proportions
from answerkey.metrics_core.statistics.paired import (
    exchange,
    mcnemar,
    paired_difference,
    pooled_difference,
    sign_flip,
)
from tests.metrics_core.statistics.simulations import held, remembered, share

EIGHTHS = st.integers(0, 8).map(lambda eighths: eighths / 8)
ROWS = st.lists(st.tuples(EIGHTHS, EIGHTHS, st.sampled_from("abcd")), min_size=1, max_size=30)
BITS = st.lists(st.tuples(st.booleans(), st.booleans(), st.sampled_from("abcd")), min_size=1, max_size=30)


def compared(rows, clustered, binary=False):
    old, new, clusters = zip(*rows, strict=True)
    return paired_difference(old, new, binary=binary, clusters=clusters if clustered else None, permutations=200)


def ends(found):
    return (math.nan, math.nan) if found.interval is None else found.interval[:2]


def test_graded_scores_by_hand():
    old, new = [0.5, 0.25, 1.0, 0.0, 0.5], [0.75, 0.5, 1.0, 0.5, 0.25]
    found = paired_difference(old, new)
    assert (found.n, found.units, found.test, found.design_effect) == (5, 5, "sign-flip", 1.0)
    assert (found.old, found.new, found.difference) == pytest.approx((0.45, 0.6, 0.15))
    # The differences are .25, .25, 0, .5, -.25: of 16 sign patterns, 8 reach a sum of .75 either way.
    assert found.p == 8 / 16
    assert (found.fixed, found.broken) == (None, None)
    assert found.sd == pytest.approx(math.sqrt(0.325 / 4))
    assert found.interval == bounded_mean([0.25, 0.25, 0.0, 0.5, -0.25], low=-1.0)
    # Student's t, as SciPy has it, is far narrower, and right only if no difference of -1 can come up.
    oracle = scipy.stats.ttest_rel(new, old).confidence_interval(0.95)
    assert ends(found)[0] < oracle.low - 0.2


def test_binary_scores_by_hand():
    old, new = [1, 1, 0, 0, 0, 0, 0, 1], [1, 0, 1, 1, 1, 1, 0, 1]
    found = paired_difference(old, new, binary=True)
    assert (found.n, found.fixed, found.broken, found.test) == (8, 4, 1, "mcnemar")
    assert (found.old, found.new, found.difference) == (3 / 8, 6 / 8, 3 / 8)
    # 2 (1 + 5) / 32.
    assert found.p == pytest.approx(0.375)
    assert found.interval == paired_proportions(4, 1, 8)


def test_clustered_scores_by_hand():
    old, new = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.5, 0.5, 0.25, 0.0]
    found = paired_difference(old, new, clusters=["a", "a", "b", "b", "c", "c"])
    assert (found.n, found.units, found.test) == (6, 3, "cluster sign-flip")
    assert found.p == 2 / 8
    sums = [1 - 0.75, 1 - 0.75, 0.25 - 0.75]
    error = math.sqrt(3 / 2 * sum(s * s for s in sums)) / 6
    oracle = bounded_mean([1.0, 1.0, 0.25], 2, low=-1.0)
    assert found.interval == oracle._replace(method="cluster-bounded-mean")
    assert found.design_effect == pytest.approx(error**2 / (np.var(new, ddof=1) / 6))


def test_clustered_binary_scores_are_flipped_whole_and_still_counted():
    found = paired_difference([0, 0, 1, 0], [1, 1, 0, 1], binary=True, clusters=["a", "a", "b", None])
    assert (found.fixed, found.broken, found.test, found.units) == (3, 1, "cluster sign-flip", 3)
    # Sums 2, -1, 1: of 8 sign patterns all but the two with 0 reach 2, and those with 4 and 2 count.
    assert found.p == 6 / 8


@given(st.integers(0, 300), st.integers(0, 300))
def test_mcnemar_is_the_binomial_test(fixed, broken):
    oracle = scipy.stats.binom.cdf(min(fixed, broken), fixed + broken, 0.5) * 2
    assert mcnemar(fixed, broken) == pytest.approx(min(1.0, oracle), rel=1e-9)


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("binary", [False, True])
@given(data=st.data())
def test_exchanging_the_releases_turns_the_difference_around(data, binary, clustered):
    rows = data.draw(BITS if binary else ROWS)
    there = compared(rows, clustered, binary)
    back = compared([(new, old, cluster) for old, new, cluster in rows], clustered, binary)
    assert (back.old, back.new, back.p) == (there.new, there.old, there.p)
    assert (back.fixed, back.broken, back.difference) == (there.broken, there.fixed, -there.difference)
    assert ends(back) == pytest.approx((-ends(there)[1], -ends(there)[0]), abs=1e-6, nan_ok=True)


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("binary", [False, True])
@given(data=st.data())
def test_the_order_of_rows_and_the_names_of_clusters_do_not_matter(data, binary, clustered):
    rows = data.draw(BITS if binary else ROWS)
    shuffled = [(old, new, "x" + cluster) for old, new, cluster in data.draw(st.permutations(rows))]
    one, other = compared(rows, clustered, binary), compared(shuffled, clustered, binary)
    assert (one.difference, one.p, one.fixed, one.units) == (other.difference, other.p, other.fixed, other.units)
    assert ends(one) == pytest.approx(ends(other), abs=1e-9, nan_ok=True)


@given(ROWS)
def test_every_number_is_finite_and_the_interval_holds_the_difference(rows):
    for clustered in (False, True):
        found = compared(rows, clustered)
        assert 0 < found.p <= 1
        assert found.design_effect >= 0
        assert (found.interval is None) == (found.units < 2)
        if found.interval is not None:
            assert -1 <= found.interval.low <= found.difference <= found.interval.high <= 1
            assert found.interval.low < found.interval.high


def test_one_row_has_no_interval_and_shows_nothing():
    found = paired_difference([0], [1], binary=True)
    assert (found.interval, found.p, found.sd, found.difference) == (None, 1.0, None, 1.0)
    assert paired_difference([0.2, 0.4], [0.3, 0.3], clusters=["a", "a"]).interval is None


def test_releases_that_are_the_same_are_not_known_to_be_the_same_for_ever():
    scores = np.random.default_rng(1).random(100)
    found = paired_difference(scores, scores)
    assert (found.difference, found.p, found.sd) == (0.0, 1.0, 0.0)
    # As for 100 rows that are all right: at 2.5 % the loss that went unseen is up to 1 - .025^(1/100).
    assert ends(found) == pytest.approx((0.025**0.01 - 1, 1 - 0.025**0.01), abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("n", [12, 40, 200])
def test_a_graded_difference_is_held_19_times_in_20(n):
    rng = np.random.default_rng(2)
    hard = rng.normal(0, 0.3, (300, n))
    old, new = hard + rng.normal(0.5, 0.15, (300, n)), hard + rng.normal(0.53, 0.15, (300, n))
    found = [paired_difference(a, b, permutations=1).interval for a, b in zip(old, new, strict=True)]
    assert held(found, 0.03) >= 0.94
    # The price of a guaranteed level, in widths of the t interval: it falls with the rows.
    t = 2 * scipy.stats.t.ppf(0.975, n - 1) * 0.15 * math.sqrt(2 / n)
    assert np.mean([i.high - i.low for i in found if i]) / t < {12: 2.2, 40: 1.7, 200: 1.25}[n]


@pytest.mark.slow
@pytest.mark.parametrize("binary", [False, True])
def test_a_clustered_difference_is_held_19_times_in_20(binary):
    rng, clusters = np.random.default_rng(3), np.repeat(np.arange(40), 5).tolist()
    if binary:
        better = rng.beta(2, 6, (300, 40, 1))
        change = (rng.random((300, 40, 5)) < better).astype(float).reshape(300, 200)
        old, truth = np.zeros(200), 0.25
    else:
        change = (rng.normal(0.05, 0.1, (300, 40, 1)) + rng.normal(0, 0.1, (300, 40, 5))).reshape(300, 200)
        old, truth = np.full(200, 0.5), 0.05
    found = [paired_difference(old, old + row, binary=binary, clusters=clusters, permutations=1) for row in change]
    assert held((one.interval for one in found), truth) >= 0.95
    plain = [paired_difference(old, old + row, binary=binary, permutations=1).interval for row in change]
    assert held(plain, truth) < 0.945
    assert np.mean([one.design_effect for one in found]) > 1.2


def test_rare_changes_of_graded_scores_are_held_at_least_19_times_in_20():
    rng = np.random.default_rng(4)
    change = (rng.random((300, 200)) < 3 / 200) * rng.choice([-1.0, 1.0, 0.5], (300, 200))
    assert held((paired_difference(np.zeros(200), row, permutations=1).interval for row in change), 0.0025) >= 0.95


def test_mcnemar_rejects_equal_releases_at_most_1_time_in_20():
    p = remembered(mcnemar)
    for changed in (0.02, 0.1, 0.4):
        draws = np.random.default_rng(5).multinomial(300, [changed / 2, changed / 2, 1 - changed], 4000)
        assert 0.005 < share(p(a, b) <= 0.05 for a, b, _ in draws) <= 0.05


RATIO = SumStatistic(lambda s: s[..., 0] / s[..., 1], lambda mean: (mean * [0, 1], mean[[1, 1]]))
"""From (sum, count) to the mean, of values in 0 to 1."""
BLEU = SumStatistic(corpus_bleu, bleu_extremes)


def test_a_pooled_difference_of_means_is_that_of_the_rows():
    rng = np.random.default_rng(6)
    old = rng.random(120)
    new = old + rng.normal(0.02, 0.1, 120)
    stats = [np.column_stack([scores, np.ones(120)]) for scores in (old, new)]
    found = pooled_difference(*stats, RATIO, permutations=4000, resamples=4000)
    rows = paired_difference(old, new)
    assert (found.n, found.units, found.test, found.sd) == (120, 120, "exchange", None)
    assert (found.old, found.new, found.difference) == pytest.approx((rows.old, rows.new, rows.difference))
    assert found.p == pytest.approx(rows.p, abs=0.03)
    # It adds a row as well, and so is wider than t and about as wide as that of the rows.
    oracle = scipy.stats.ttest_rel(new, old).confidence_interval(0.95)
    low, high = ends(found)
    assert low < oracle.low < oracle.high < high
    assert (low, high) == pytest.approx(rows.interval[:2], abs=0.1 * (oracle.high - oracle.low))


def test_corpus_bleu_of_two_releases_is_compared():
    good = [5, 5, 5, 4, 3, 2, 5, 4, 3, 2]
    poor = [5, 5, 4, 2, 1, 0, 5, 4, 3, 2]
    old, new = np.array([good, poor, poor] * 20), np.array([good, good, poor] * 20)
    found = pooled_difference(old, new, BLEU, resamples=200)
    assert found.difference == pytest.approx(corpus_bleu(new.sum(0)) - corpus_bleu(old.sum(0)))
    assert 0 < found.interval.low < found.difference < found.interval.high
    assert found.p == 1 / 1000
    clustered = pooled_difference(old, new, BLEU, clusters=[i // 3 for i in range(60)], resamples=200)
    assert clustered.units == 20
    same = pooled_difference(old, old, BLEU, resamples=50)
    assert (same.difference, same.p) == (0.0, 1.0)


def test_a_pooled_difference_does_not_know_the_order_and_follows_its_seed():
    rng = np.random.default_rng(7)
    old, new = rng.integers(1, 9, (40, 2)), rng.integers(1, 9, (40, 2))
    order = rng.permutation(40)

    found = pooled_difference(old, new, RATIO, resamples=200)
    assert pooled_difference(old[order], new[order], RATIO, resamples=200) == found
    assert pooled_difference(old, new, RATIO, resamples=200, seed=1).interval != found.interval
    assert pooled_difference(old[:1], new[:1], RATIO).interval is None


def test_a_pooled_difference_is_held_19_times_in_20():
    rng = np.random.default_rng(8)
    size = rng.integers(1, 9, (250, 80)).astype(float)
    hits = [rng.binomial(size.astype(int), share_) for share_ in (0.5, 0.6)]
    found = [
        pooled_difference(
            np.column_stack([a, s]),
            np.column_stack([b, s]),
            RATIO,
            resamples=300,
            permutations=1,
        ).interval
        for a, b, s in zip(*hits, size, strict=True)
    ]
    assert 0.92 <= held(found, 0.1) <= 0.98


CHANGES = st.lists(st.integers(-8, 8).map(lambda eighths: eighths / 8), min_size=1, max_size=9)


def by_hand(changes):
    """The share of sign flips whose sum is as far from 0 as the observed one."""
    observed = abs(sum(changes))
    sums = [
        abs(sum(s * c for s, c in zip(signs, changes, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(changes))
    ]
    return sum(s >= observed - 1e-9 for s in sums) / len(sums)


@given(CHANGES)
def test_few_units_are_flipped_in_every_way(changes):
    assert sign_flip(np.array(changes)) == pytest.approx(by_hand(changes), abs=1e-12)


def test_a_small_case_by_hand():
    # Of 8 sign patterns only +++ and --- are as far from 0 as 6.
    assert sign_flip(np.array([1.0, 2.0, 3.0])) == 2 / 8
    assert sign_flip(np.array([0.0, 0.0])) == 1.0
    assert sign_flip(np.array([0.0, 1.0, 2.0, 0.0, 3.0])) == 2 / 8


def test_many_units_agree_with_scipys_sample_of_flips():
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
def test_order_and_direction_do_not_matter(changes, seed):
    values = np.array(changes)
    p = sign_flip(values, permutations=300, seed=seed)
    assert 1 / 301 <= p <= 1
    assert sign_flip(np.sort(values), permutations=300, seed=seed) == p
    assert sign_flip(-values, permutations=300, seed=seed) == p


def test_the_seed_decides_and_batches_do_not_show(monkeypatch):
    changes = np.random.default_rng(1).normal(0.02, 0.2, 64)
    first = sign_flip(changes, permutations=500)
    assert sign_flip(changes, permutations=500) == first
    assert len({sign_flip(changes, permutations=500, seed=seed) for seed in range(5)}) > 1
    monkeypatch.setattr("answerkey.metrics_core.statistics.paired._CELLS", 64 * 32)
    assert sign_flip(changes, permutations=500) == first
    assert sign_flip(changes[:8]) == pytest.approx(by_hand(changes[:8].tolist()))


def test_a_sampled_p_is_never_zero():
    assert sign_flip(np.ones(100), permutations=99) == 1 / 100


def test_an_exchange_of_a_ratio_is_tried_in_every_way():
    rng = np.random.default_rng(3)
    old, new = rng.integers(1, 9, (6, 2)).astype(float), rng.integers(1, 9, (6, 2)).astype(float)

    def ratio(total):
        return np.asarray(total[..., 0] / total[..., 1])

    observed, extreme = abs(ratio(new.sum(0)) - ratio(old.sum(0))), 0
    for picks in itertools.product((False, True), repeat=6):
        swapped = np.array(picks)[:, None]
        a, b = np.where(swapped, new, old), np.where(swapped, old, new)
        extreme += abs(ratio(b.sum(0)) - ratio(a.sum(0))) >= observed - 1e-12
    assert exchange(old, new, ratio) == extreme / 64


def test_an_exchange_of_sums_is_a_sign_flip():
    rng = np.random.default_rng(4)
    old, new = rng.random((40, 1)), rng.random((40, 1)) + 0.1
    flipped = sign_flip((new - old)[:, 0], permutations=5000)
    assert exchange(old, new, lambda totals: totals[..., 0], permutations=5000) == pytest.approx(flipped, abs=0.02)


def test_no_difference_is_called_one_1_time_in_20():
    rows = np.random.default_rng(5).normal(0, 0.2, (1500, 30))
    skewed = np.random.default_rng(6).exponential(1, (1500, 30)) * np.random.default_rng(7).choice([-1, 1], (1500, 30))
    for draws in (rows, skewed):
        assert 0.035 <= share(sign_flip(row, permutations=199, seed=i) <= 0.05 for i, row in enumerate(draws)) <= 0.065


def test_clusters_must_be_flipped_whole():
    rng = np.random.default_rng(8)
    rows = rng.normal(0, 0.2, (800, 15, 1)) + rng.normal(0, 0.2, (800, 15, 6))
    whole = share(sign_flip(row.sum(1), permutations=199, seed=i) <= 0.05 for i, row in enumerate(rows))
    apart = share(sign_flip(row.ravel(), permutations=199, seed=i) <= 0.05 for i, row in enumerate(rows))
    assert 0.03 <= whole <= 0.07
    assert apart > 0.2
