"""AUROC and the best threshold: against SciPy, against search by hand, and their coverage."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from answerkey.metrics_core.statistics.agreement import agreement
from answerkey.metrics_core.statistics.intervals import Interval
from answerkey.metrics_core.statistics.thresholds import auroc, best_threshold
from tests.metrics_core.statistics.simulations import held

ROWS = st.lists(st.tuples(st.integers(0, 10).map(lambda tenth: tenth / 10), st.booleans()), min_size=2, max_size=40)


def auroc_interval(scores: np.ndarray, labels: np.ndarray, clusters: list[int] | None = None) -> Interval | None:
    found = auroc(scores, labels, clusters=clusters)
    assert found is not None
    return found.interval


@given(ROWS)
def test_auroc_is_the_statistic_of_mann_and_whitney(rows: list[tuple[float, bool]]) -> None:
    scores, labels = (np.array(column, float) for column in zip(*rows, strict=True))
    found = auroc(scores, labels)
    ones, zeros = scores[labels == 1], scores[labels == 0]
    if not ones.size or not zeros.size:
        assert found is None
        return
    assert found is not None
    oracle = scipy.stats.mannwhitneyu(ones, zeros, method="asymptotic").statistic / (ones.size * zeros.size)
    assert found.value == pytest.approx(oracle, abs=1e-12)
    turned = auroc(-scores, labels)
    assert turned is not None
    assert turned.value == pytest.approx(1 - found.value, abs=1e-12)
    assert (found.interval is None) == (min(ones.size, zeros.size) < 2)
    if found.interval is not None and turned.interval is not None:
        assert 0 <= found.interval.low < found.interval.high <= 1
        assert (turned.interval.low, turned.interval.high) == pytest.approx(
            (1 - found.interval.high, 1 - found.interval.low), abs=1e-9
        )


def test_the_error_is_delongs() -> None:
    rng = np.random.default_rng(1)
    ones, zeros = rng.normal(1, 1, 30).round(1), rng.normal(0, 1, 30).round(1)
    wins = [[(one > zero) + 0.5 * (one == zero) for zero in zeros] for one in ones]
    value, of_ones, of_zeros = np.mean(wins), np.mean(wins, axis=1), np.mean(wins, axis=0)
    error = math.sqrt(of_ones.var(ddof=1) / 30 + of_zeros.var(ddof=1) / 30)
    reach = scipy.stats.t.ppf(0.975, 29) * error / (value * (1 - value))
    expected = scipy.special.expit(scipy.special.logit(value) + np.array([-reach, reach]))
    interval = auroc_interval(np.concatenate([ones, zeros]), np.repeat([1, 0], 30))
    assert interval == (*(pytest.approx(end, abs=1e-9) for end in expected), "delong-logit-t")


def test_scores_that_part_the_labels_are_not_certain_to() -> None:
    interval = auroc_interval(np.arange(40), np.repeat([0, 1], [10, 30]))
    # Of the 10 rows labelled 0, as the fewer, 3.84 / 13.84 may be unlike these.
    assert interval == (pytest.approx(1 - 0.27753, abs=1e-4), 1.0, "unseen")


def test_copies_of_rows_widen_nothing_when_they_are_clusters() -> None:
    rng = np.random.default_rng(2)
    labels = np.repeat([1.0, 0.0], 50)
    scores = rng.normal(labels, 1)
    once = auroc_interval(scores, labels)
    copied = auroc_interval(np.repeat(scores, 4), np.repeat(labels, 4), [i // 4 for i in range(400)])
    assert once is not None
    assert copied is not None
    assert (copied.low, copied.high) == pytest.approx((once.low, once.high), abs=1e-9)
    assert copied.method == "cluster-delong-logit-t"


@pytest.mark.parametrize(
    ("n", "base", "shift", "repeats"), [(60, 0.5, 1.0, 2500), (100, 0.9, 1.5, 2500), (400, 0.7, 2.0, 1000)]
)
def test_auroc_holds_the_truth_19_times_in_20(n: int, base: float, shift: float, repeats: int) -> None:
    rng = np.random.default_rng(3)
    labels = (rng.random((repeats, n)) < base).astype(float)
    # Two rows of each label, without which there is no interval.
    labels[:, :4] = [0, 0, 1, 1]
    scores = rng.normal(shift * labels, 1)
    truth = scipy.stats.norm.cdf(shift / math.sqrt(2))
    found = [auroc_interval(s, y) for s, y in zip(scores, labels, strict=True)]
    assert 0.93 <= held(found, truth) <= 0.97


def test_clustered_auroc_holds_the_truth_19_times_in_20() -> None:
    rng, clusters = np.random.default_rng(4), [i // 5 for i in range(300)]
    labels = (rng.random((1000, 60, 5)) < 0.6).astype(float)
    scores = rng.normal(0, 0.8, (1000, 60, 1)) + rng.normal(1.2 * labels, 0.6)
    found = [auroc_interval(s.ravel(), y.ravel(), clusters) for s, y in zip(scores, labels, strict=True)]
    # A pair is seldom from one cluster, so the truth is that of independent rows, but for 1 pair in 60.
    apart, within = (scipy.stats.norm.cdf(1.2 / math.sqrt(2 * v)) for v in (1.0, 0.36))
    assert 0.93 <= held(found, apart + (within - apart) * 4 / 299) <= 0.97


def by_search(rows: list[tuple[float, bool]]) -> float:
    """The highest kappa of all thresholds."""
    labels = [label for _, label in rows]
    scores = sorted({score for score, _ in rows})
    kappas = [
        found.value
        for cut in scores[1:]
        if (found := agreement([score >= cut for score, _ in rows], labels).kappa) is not None
    ]
    return max(kappas)


@given(ROWS)
def test_no_threshold_agrees_better_than_the_best(rows: list[tuple[float, bool]]) -> None:
    scores, labels = zip(*rows, strict=True)
    found = best_threshold(scores, labels, resamples=20)
    if len(set(scores)) < 2 or len(set(labels)) < 2:
        assert found is None
        return
    assert found is not None
    at = agreement([score >= found.value for score in scores], labels).kappa
    assert at is not None
    assert found.kappa == pytest.approx(at.value, abs=1e-9) == pytest.approx(by_search(rows), abs=1e-9)
    assert found.interval is not None
    assert min(scores) < found.interval.low <= found.interval.high < max(scores)


def test_the_threshold_lies_half_way_between_the_labels() -> None:
    found = best_threshold([0.1, 0.2, 0.6, 0.9], [0, 0, 1, 1])
    assert found is not None
    assert (found.value, found.kappa) == (0.4, 1.0)
    assert best_threshold([0.1, 0.9], [0, 1], clusters=["a", "a"]) == (0.5, None, 1.0)


def test_the_threshold_follows_its_seed_and_clusters_but_not_the_order() -> None:
    rng = np.random.default_rng(5)
    labels = rng.random(120) < 0.6
    scores = rng.normal(1.5 * labels, 1)
    order = rng.permutation(120)
    found = best_threshold(scores, labels)
    assert found == best_threshold(scores[order], labels[order])
    assert found != best_threshold(scores, labels, seed=1)
    assert found is not None
    copied = best_threshold(np.repeat(scores, 3), np.repeat(labels, 3), clusters=[i // 3 for i in range(360)])
    assert copied is not None
    assert copied.value == found.value
    assert found.interval is not None
    assert copied.interval is not None
    assert copied.interval[:2] == pytest.approx(found.interval[:2], abs=0.15)


def test_the_best_threshold_is_held_about_19_times_in_20() -> None:
    rng = np.random.default_rng(6)
    grid = np.linspace(-2, 4, 6001)
    hit, false = 0.7 * scipy.stats.norm.sf(grid - 2), 0.3 * scipy.stats.norm.sf(grid)
    chance = (hit + false) * 0.7 + (1 - hit - false) * 0.3
    truth = float(grid[np.argmax((hit + 0.3 - false - chance) / (1 - chance))])
    intervals = []
    for seed in range(300):
        labels = rng.random(200) < 0.7
        found = best_threshold(rng.normal(2.0 * labels, 1), labels, resamples=200, seed=seed)
        intervals.append(found and found.interval)
    assert 0.93 <= held(intervals, truth) <= 0.98


@pytest.mark.parametrize("function", [auroc, best_threshold])
def test_unusable_rows_are_refused(function: object) -> None:
    assert callable(function)
    with pytest.raises(ValueError, match="scores and labels: 1 and 2 rows are not the same rows"):
        function([0.5], [1, 0])
    with pytest.raises(ValueError, match="scores: row 0 is no finite number"):
        function([math.nan, 0.5], [1, 0])
    with pytest.raises(ValueError, match=r"labels: only 0 and 1 are allowed, and there is 0\.5"):
        function([0.1, 0.2], [0.5, 1])
    with pytest.raises(ValueError, match="scores and labels: there is no row"):
        function([], [])
