"""A judge against labels: by hand, against published formulas, under symmetries, on labelled data, and in clusters."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from answerkey.metrics_core.decide.agreement import Confusion, agreement, auroc, best_threshold
from answerkey.metrics_core.decide.intervals import Estimate, clopper_pearson, paired_proportions
from tests.metrics_core.decide.simulations import held

COUNTS = st.tuples(*[st.integers(0, 12)] * 4).filter(any)


def rows_of(counts):
    """Verdicts and labels with these counts of (1, 1), (1, 0), (0, 1), (0, 0)."""
    return np.repeat([1.0, 1.0, 0.0, 0.0], counts), np.repeat([1.0, 0.0, 1.0, 0.0], counts)


def kappa_of(p):
    verdict, label = p[0] + p[1], p[0] + p[2]
    chance = verdict * label + (1 - verdict) * (1 - label)
    return (p[0] + p[3] - chance) / (1 - chance)


def ac1_of(p):
    share = (2 * p[0] + p[1] + p[2]) / 2
    chance = 2 * share * (1 - share)
    return (p[0] + p[3] - chance) / (1 - chance)


def by_delta_method(statistic, counts):
    """The standard error of a statistic of four shares, by numeric derivatives and the multinomial's covariance."""
    n = sum(counts)
    p = np.array(counts) / n
    slope = np.array([(statistic(p + 1e-6 * e) - statistic(p - 1e-6 * e)) / 2e-6 for e in np.eye(4)])
    return math.sqrt((slope**2 @ p - (slope @ p) ** 2) / n)


def by_fleiss(counts):
    """Kappa's standard error as Fleiss, Cohen and Everitt (1969) write it."""
    n = sum(counts)
    p = np.array(counts).reshape(2, 2) / n
    rows, columns = p.sum(1), p.sum(0)
    chance = float(rows @ columns)
    kappa = (np.trace(p) - chance) / (1 - chance)
    total = sum(p[i, i] * (1 - (rows[i] + columns[i]) * (1 - kappa)) ** 2 for i in range(2))
    total += (1 - kappa) ** 2 * sum(p[i, j] * (columns[i] + rows[j]) ** 2 for i, j in ((0, 1), (1, 0)))
    return math.sqrt((total - (kappa - chance * (1 - kappa)) ** 2) / n) / (1 - chance)


def test_the_textbook_case():
    result = agreement(*rows_of((20, 5, 10, 15)))
    assert result.confusion == Confusion(20, 5, 10, 15)
    assert (result.n, result.base_rate) == (50, 0.6)
    assert result.kappa.value == pytest.approx(0.4)
    assert result.accuracy == Estimate(0.7, clopper_pearson(35, 50))
    assert result.sensitivity == Estimate(pytest.approx(20 / 30), clopper_pearson(20, 30))
    assert result.specificity == Estimate(0.75, clopper_pearson(15, 20))
    assert result.bias == Estimate(pytest.approx(-0.1), paired_proportions(5, 10, 50))


def test_gwets_own_case_where_kappa_fails():
    result = agreement(*rows_of((118, 5, 2, 0)))
    assert (result.kappa.value, result.ac1.value) == pytest.approx((-0.0234, 0.9408), abs=1e-4)


@given(st.tuples(*[st.integers(1, 30)] * 4))
def test_kappas_and_ac1s_errors_are_the_published_ones(counts):
    n, result = sum(counts), agreement(*rows_of(counts))
    assert by_fleiss(counts) == pytest.approx(by_delta_method(kappa_of, counts), rel=1e-4)
    for estimate, error in ((result.kappa, by_fleiss(counts)), (result.ac1, by_delta_method(ac1_of, counts))):
        margin = scipy.stats.t.ppf(0.975, n - 1) * error * math.sqrt(n / (n - 1)) / (1 - estimate.value)
        low, high = (1 - (1 - estimate.value) * math.exp(side * margin) for side in (1, -1))
        assert estimate.interval[:2] == pytest.approx((max(-1, low), min(1, high)), abs=1e-4)
        assert estimate.interval.method == "delta-log-t"


def estimates_of(result):
    return (result.accuracy, result.kappa, result.ac1, result.sensitivity, result.specificity, result.bias)


def numbers_of(result):
    """Everything that does not change when rows are reordered, in one list; -9 for what is not there."""
    values = [-9.0 if e is None else e.value for e in estimates_of(result)]
    ends = [end for e in estimates_of(result) for end in (e.interval[:2] if e and e.interval else (-9.0, -9.0))]
    return [result.base_rate, *values, *ends]


ROWS = st.lists(st.tuples(st.booleans(), st.booleans(), st.sampled_from("abcdef")), min_size=1, max_size=40)


@pytest.mark.parametrize("clustered", [False, True])
@given(data=st.data())
def test_order_of_rows_and_names_of_clusters_do_not_matter(data, clustered):
    def numbers(rows, prefix):
        verdicts, labels, names = zip(*rows, strict=True)
        clusters = [prefix + name for name in names] if clustered else None
        return numbers_of(agreement(verdicts, labels, clusters=clusters))

    rows = data.draw(ROWS)
    assert numbers(rows, "x") == pytest.approx(numbers(data.draw(st.permutations(rows)), "y"), abs=1e-9)


@given(COUNTS)
def test_every_number_is_finite_and_in_its_range(counts):
    for clusters in (None, [i // 2 for i in range(sum(counts))]):
        result = agreement(*rows_of(counts), clusters=clusters)
        assert result.confusion == counts
        assert all(map(math.isfinite, numbers_of(result)))
        for estimate in estimates_of(result):
            if estimate and estimate.interval:
                low, high, _ = estimate.interval
                assert -1 <= low <= estimate.value + 1e-12
                assert estimate.value - 1e-12 <= high <= 1
                assert low < high


def test_what_the_rows_do_not_define_is_missing():
    result = agreement([1, 1, 1], [1, 1, 1])
    assert (result.kappa, result.specificity, result.ac1.value) == (None, None, 1.0)
    assert agreement([1, 0], [0, 0]).sensitivity is None
    single = agreement([1], [0])
    assert (single.accuracy.interval, single.bias.interval, single.ac1.interval) == (None, None, None)


def test_perfect_agreement_is_not_certain():
    kappa = agreement(*rows_of((10, 0, 0, 10))).kappa
    # 3.84 / 23.84 of the rows may be unlike these, and each costs twice its share: chance agreement is a half.
    assert kappa == (1.0, (pytest.approx(1 - 2 * 0.1611, abs=1e-3), 1.0, "unseen"))


SCORED_ROWS = st.lists(
    st.tuples(st.integers(0, 10).map(lambda tenth: tenth / 10), st.booleans()), min_size=2, max_size=40
)


@given(SCORED_ROWS)
def test_auroc_is_the_statistic_of_mann_and_whitney(rows):
    scores, labels = (np.array(column, float) for column in zip(*rows, strict=True))
    ones, zeros = scores[labels == 1], scores[labels == 0]
    if not ones.size or not zeros.size:
        assert auroc(scores, labels) is None
        return
    value, interval = auroc(scores, labels)
    oracle = scipy.stats.mannwhitneyu(ones, zeros, method="asymptotic").statistic / (ones.size * zeros.size)
    assert value == pytest.approx(oracle, abs=1e-12)
    assert (interval is None) == (min(ones.size, zeros.size) < 2)
    if interval:
        assert 0 <= interval.low < interval.high <= 1
        turned = auroc(-scores, labels).interval
        assert turned[:2] == pytest.approx((1 - interval.high, 1 - interval.low), abs=1e-9)


def test_the_error_is_delongs():
    rng = np.random.default_rng(1)
    ones, zeros = rng.normal(1, 1, 30).round(1), rng.normal(0, 1, 30).round(1)
    wins = [[(one > zero) + 0.5 * (one == zero) for zero in zeros] for one in ones]
    value, of_ones, of_zeros = np.mean(wins), np.mean(wins, axis=1), np.mean(wins, axis=0)
    error = math.sqrt(of_ones.var(ddof=1) / 30 + of_zeros.var(ddof=1) / 30)
    reach = scipy.stats.t.ppf(0.975, 29) * error / (value * (1 - value))
    expected = scipy.special.expit(scipy.special.logit(value) + np.array([-reach, reach]))
    interval = auroc(np.concatenate([ones, zeros]), np.repeat([1, 0], 30)).interval
    assert interval == (*(pytest.approx(end, abs=1e-9) for end in expected), "delong-logit-t")


def test_scores_that_separate_the_labels_are_not_certain_to():
    # Of the 10 rows labelled 0, as the fewer, 3.84 / 13.84 may be unlike these.
    interval = auroc(np.arange(40), np.repeat([0, 1], [10, 30])).interval
    assert interval == (pytest.approx(1 - 0.27753, abs=1e-4), 1.0, "unseen")


def test_copies_of_rows_widen_nothing_when_they_are_clusters():
    labels = np.repeat([1.0, 0.0], 50)
    scores = np.random.default_rng(2).normal(labels, 1)
    copied = auroc(np.repeat(scores, 4), np.repeat(labels, 4), clusters=[i // 4 for i in range(400)]).interval
    assert copied[:2] == pytest.approx(auroc(scores, labels).interval[:2], abs=1e-9)
    assert copied.method == "cluster-delong-logit-t"


@given(SCORED_ROWS)
def test_no_threshold_agrees_better_than_the_best(rows):
    scores, labels = zip(*rows, strict=True)
    best = best_threshold(scores, labels, resamples=20)
    cuts = sorted(set(scores))
    if len(cuts) < 2 or len(set(labels)) < 2:
        assert best is None
        return
    kappas = [agreement([score >= cut for score in scores], labels).kappa for cut in cuts[1:]]
    highest = max(kappa.value for kappa in kappas if kappa)
    assert best.kappa == pytest.approx(highest, abs=1e-9)
    between = [(low + high) / 2 for low, high in itertools.pairwise(cuts)]
    at = kappas[between.index(pytest.approx(best.value))]
    assert at.value == pytest.approx(highest, abs=1e-9)
    assert min(scores) < best.interval.low <= best.interval.high < max(scores)


def test_a_threshold_of_one_cluster_has_no_interval():
    assert best_threshold([0.1, 0.9], [0, 1], clusters=["a", "a"]) == (0.5, None, 1.0)


def test_the_threshold_follows_its_clusters_but_not_the_order():
    rng = np.random.default_rng(5)
    labels = rng.random(120) < 0.6
    scores = rng.normal(1.5 * labels, 1)
    order = rng.permutation(120)
    best = best_threshold(scores, labels)
    assert best == best_threshold(scores[order], labels[order])
    copied = best_threshold(np.repeat(scores, 3), np.repeat(labels, 3), clusters=[i // 3 for i in range(360)])
    assert copied.value == best.value
    assert copied.interval[:2] == pytest.approx(best.interval[:2], abs=0.15)


def test_the_best_threshold_is_held_about_19_times_in_20():
    rng = np.random.default_rng(6)
    grid = np.linspace(-2, 4, 6001)
    hit, false = 0.7 * scipy.stats.norm.sf(grid - 2), 0.3 * scipy.stats.norm.sf(grid)
    chance = (hit + false) * 0.7 + (1 - hit - false) * 0.3
    truth = float(grid[np.argmax((hit + 0.3 - false - chance) / (1 - chance))])
    intervals = []
    for _ in range(300):
        labels = rng.random(200) < 0.7
        intervals.append(best_threshold(rng.normal(2.0 * labels, 1), labels, resamples=200).interval)
    assert 0.93 <= held(intervals, truth) <= 0.98
