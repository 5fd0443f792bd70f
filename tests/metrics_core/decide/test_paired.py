"""Paired differences and adjusted p-values: SciPy's tests, their definitions, reordering and exchange."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from answerkey.metrics_core.decide.bounded_mean import bounded_mean
from answerkey.metrics_core.decide.multiple_testing import benjamini_hochberg, holm, planned_level
from answerkey.metrics_core.decide.paired import exchange, mcnemar, paired_difference, pooled_difference, sign_flip
from answerkey.metrics_core.metrics.bleu import corpus_bleu
from tests.metrics_core.decide.simulations import BLEU, RATIO, width

EIGHTHS = st.integers(0, 8).map(lambda eighths: eighths / 8)
ROWS = st.lists(st.tuples(EIGHTHS, EIGHTHS, st.sampled_from("abcd")), min_size=1, max_size=30)
BITS = st.lists(st.tuples(st.booleans(), st.booleans(), st.sampled_from("abcd")), min_size=1, max_size=30)


def compared(rows, clustered, binary=False):
    old, new, clusters = zip(*rows, strict=True)
    return paired_difference(old, new, binary=binary, clusters=clusters if clustered else None, permutations=200)


def ends(result):
    return result.interval[:2] if result.interval else (math.nan, math.nan)


def test_clustered_scores_by_hand():
    old, new = np.zeros(6), [1.0, 0.0, 0.5, 0.5, 0.25, 0.0]
    result = paired_difference(old, new, clusters=["a", "a", "b", "b", "c", "c"])
    assert (result.n, result.units, result.test, result.p) == (6, 3, "cluster sign-flip", 2 / 8)
    # The means of the clusters are .5, .5 and .125. With fewer than 50, gains may be sqrt(50 / 3) times .5 as far away.
    high = 0.375 + 0.5 * math.sqrt(50 / 3) * 0.25
    assert ends(result) == pytest.approx(bounded_mean([1.0, 1.0, 0.25], 2, low=-1.0, high=high)[:2], abs=1e-9)
    assert result.interval.method == "cluster-bounded-mean"
    sums = [1 - 0.75, 1 - 0.75, 0.25 - 0.75]
    variance = 3 / 2 * sum(s * s for s in sums) / 36
    assert result.design_effect == pytest.approx(variance / (np.var(new, ddof=1) / 6))


@given(st.integers(0, 300), st.integers(0, 300))
def test_mcnemar_is_the_binomial_test(fixed, broken):
    oracle = scipy.stats.binom.cdf(min(fixed, broken), fixed + broken, 0.5) * 2
    assert mcnemar(fixed, broken) == pytest.approx(min(1.0, oracle), rel=1e-9)


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("binary", [False, True])
@given(data=st.data())
def test_exchanging_the_releases_turns_the_difference_around_and_reordering_nothing(data, binary, clustered):
    """Of graded and of clustered rows, the end that shows a loss may be nearer than the end that shows a gain."""
    rows = data.draw(BITS if binary else ROWS)
    result = compared(rows, clustered, binary)
    back = compared([(new, old, cluster) for old, new, cluster in rows], clustered, binary)
    assert (back.old, back.new, back.p) == (result.new, result.old, result.p)
    assert (back.fixed, back.broken, back.difference) == (result.broken, result.fixed, -result.difference)
    if binary and not clustered:
        assert ends(back) == pytest.approx((-ends(result)[1], -ends(result)[0]), abs=1e-6, nan_ok=True)
    elif result.interval and back.interval:
        assert back.interval.low <= -result.interval.high + 1e-6
        assert result.interval.low <= -back.interval.high + 1e-6
    shuffled = [(old, new, "x" + cluster) for old, new, cluster in data.draw(st.permutations(rows))]
    other = compared(shuffled, clustered, binary)
    assert (other.difference, other.p, other.fixed, other.units) == (
        result.difference, result.p, result.fixed, result.units,
    )  # fmt: skip
    assert ends(other) == pytest.approx(ends(result), abs=1e-9, nan_ok=True)


@given(ROWS)
def test_every_number_is_that_of_its_definition_and_the_interval_holds_the_difference(rows):
    old, new, clusters = (np.array(column) for column in zip(*rows, strict=True))
    for clustered in (False, True):
        result = compared(rows, clustered)
        units = len(set(clusters)) if clustered else len(rows)
        assert (result.n, result.units) == (len(rows), units)
        assert (result.old, result.new, result.difference) == pytest.approx(
            (old.mean(), new.mean(), (new - old).mean()), abs=1e-12
        )
        assert result.sd == (pytest.approx(np.std(new - old, ddof=1)) if len(rows) > 1 else None)
        assert 0 < result.p <= 1
        assert result.design_effect >= 0
        assert (result.interval is None) == (units < 2)
        if result.interval:
            assert -1 <= result.interval.low <= result.difference <= result.interval.high <= 1
            assert width(result.interval) > 0
        if not clustered:
            whole = bounded_mean(new - old, low=-1.0)
            assert ends(result)[0] == pytest.approx(whole.low if whole else math.nan, nan_ok=True)
            assert whole is None or result.interval.high <= whole.high + 1e-9


def test_releases_that_are_the_same_are_not_known_to_be_the_same_for_ever():
    scores = np.random.default_rng(1).random(100)
    result = paired_difference(scores, scores)
    assert (result.difference, result.p, result.sd) == (0.0, 1.0, 0.0)
    # As for 100 rows that are all right: at 2.5 % the loss that went unseen is up to 1 - .025^(1/100).
    assert ends(result) == pytest.approx((0.025**0.01 - 1, 1 - 0.025**0.01), abs=1e-6)


def test_a_pooled_difference_of_means_is_that_of_the_rows():
    rng = np.random.default_rng(6)
    old = rng.random(120)
    new = old + rng.normal(0.02, 0.1, 120)
    stats = [np.column_stack([scores, np.ones(120)]) for scores in (old, new)]
    result = pooled_difference(*stats, RATIO, permutations=4000, resamples=4000)
    rows = paired_difference(old, new)
    assert (result.n, result.units, result.test, result.sd) == (120, 120, "exchange", None)
    assert (result.old, result.new, result.difference) == pytest.approx((rows.old, rows.new, rows.difference))
    assert result.p == pytest.approx(rows.p, abs=0.03)
    # It adds a row as well, and so is wider than t and about as wide as that of the rows.
    oracle = scipy.stats.ttest_rel(new, old).confidence_interval(0.95)
    low, high = ends(result)
    assert low < oracle.low < oracle.high < rows.interval.high < high
    assert low == pytest.approx(rows.interval.low, abs=0.1 * (oracle.high - oracle.low))


def test_corpus_bleu_of_two_releases_is_compared():
    good = [5, 5, 5, 4, 3, 2, 5, 4, 3, 2]
    poor = [5, 5, 4, 2, 1, 0, 5, 4, 3, 2]
    old, new = np.array([good, poor, poor] * 20), np.array([good, good, poor] * 20)
    result = pooled_difference(old, new, BLEU, resamples=200)
    assert result.difference == pytest.approx(corpus_bleu(new.sum(0)) - corpus_bleu(old.sum(0)))
    assert 0 < result.interval.low < result.difference < result.interval.high
    assert result.p == 1 / 1000
    assert pooled_difference(old, new, BLEU, clusters=[i // 3 for i in range(60)], resamples=200).units == 20
    same = pooled_difference(old, old, BLEU, resamples=50)
    assert (same.difference, same.p) == (0.0, 1.0)


def test_a_pooled_difference_does_not_know_the_order_and_follows_its_seed():
    rng = np.random.default_rng(7)
    old, new = rng.integers(1, 9, (40, 2)), rng.integers(1, 9, (40, 2))
    order = rng.permutation(40)
    result = pooled_difference(old, new, RATIO, resamples=200)
    assert pooled_difference(old[order], new[order], RATIO, resamples=200) == result
    assert pooled_difference(old, new, RATIO, resamples=200, seed=1).interval != result.interval
    assert pooled_difference(old[:1], new[:1], RATIO).interval is None


def by_hand(changes):
    """The share of sign flips whose sum is as far from 0 as the observed one."""
    signs = np.array(list(itertools.product((1, -1), repeat=len(changes))))
    return float((np.abs(signs @ changes) >= abs(sum(changes)) - 1e-9).mean())


@given(st.lists(st.integers(-8, 8).map(lambda eighths: eighths / 8), min_size=1, max_size=9))
def test_few_units_are_flipped_in_every_way(changes):
    assert sign_flip(np.array(changes)) == pytest.approx(by_hand(changes), abs=1e-12)


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


@given(st.lists(st.floats(-1, 1), min_size=15, max_size=40))
def test_order_and_direction_do_not_matter(changes):
    values = np.array(changes)
    p = sign_flip(values, permutations=300)
    assert 1 / 301 <= p <= 1
    assert sign_flip(np.sort(values), permutations=300) == p
    assert sign_flip(-values, permutations=300) == p


def test_an_exchange_of_a_ratio_is_tried_in_every_way():
    rng = np.random.default_rng(3)
    old, new = rng.integers(1, 9, (6, 2)).astype(float), rng.integers(1, 9, (6, 2)).astype(float)
    swapped = np.array(list(itertools.product((False, True), repeat=6)))[..., None]
    a, b = (np.where(swapped, *sides).sum(axis=1) for sides in ((new, old), (old, new)))
    apart = np.abs(RATIO.value(b) - RATIO.value(a))
    assert exchange(old, new, RATIO.value) == (apart >= apart[0] - 1e-12).mean()


# Adjusted p-values against their definitions, and the errors that they promise to hold.


PS = st.lists(st.floats(0, 1), max_size=6)


def closed(p, test):
    """The closure principle: the largest Bonferroni p of all families that hold the test."""
    families = (family for size in range(1, len(p) + 1) for family in itertools.combinations(range(len(p)), size))
    return max(min(1.0, len(f) * min(p[i] for i in f)) for f in families if test in f)


def step_up(p, test):
    """The smallest q at which the test is among those that the step-up procedure rejects."""
    n, order = len(p), sorted(p)
    return min(min(1.0, n * order[k] / (k + 1)) for k in range(n) if order[k] >= p[test])


@pytest.mark.parametrize(("adjust", "definition"), [(holm, closed), (benjamini_hochberg, step_up)])
@given(p=PS)
def test_adjusted_p_values_are_those_of_the_definition(adjust, definition, p):
    assert adjust(p) == pytest.approx([definition(p, i) for i in range(len(p))], abs=1e-12)


EQUAL = [k / 5 for k in range(1, 6)]


def bounds(fractions, spent):
    levels = [planned_level(fractions[:last], spent=spent[:last]) for last in range(1, len(fractions) + 1)]
    return np.array([scipy.stats.norm.isf((1 - level) / 2) for level in levels])


def test_planned_levels_are_those_of_the_literature():
    # Five equal steps that spend as O'Brien and Fleming do; Jennison and Turnbull (2000) and Lan and DeMets (1983).
    z = scipy.stats.norm.isf(0.025 / 2)
    spent = 2 * scipy.stats.norm.sf(z / np.sqrt(EQUAL)) / 0.025
    assert bounds(EQUAL, spent.tolist()) == pytest.approx([4.877, 3.357, 2.680, 2.290, 2.031], abs=1e-3)
    assert planned_level([1.0], spent=[1.0]) == pytest.approx(0.95)
