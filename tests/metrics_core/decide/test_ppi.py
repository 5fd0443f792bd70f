"""Corrected means: their formulas, that they mend the judge's bias, and that their intervals hold the truth."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from answerkey.metrics_core.decide.agreement import Confusion
from answerkey.metrics_core.decide.bounded_mean import bounded_mean
from answerkey.metrics_core.decide.clustered import mean_interval
from answerkey.metrics_core.decide.paired import paired_difference
from answerkey.metrics_core.decide.ppi import ppi_difference, ppi_mean, rogan_gladen
from tests.metrics_core.decide.simulations import width

ROWS = st.lists(
    st.tuples(st.integers(0, 4).map(lambda q: q / 4), st.sampled_from([None, 0.0, 0.25, 1.0]), st.sampled_from("abcd")),
    min_size=1,
    max_size=30,
).filter(lambda rows: any(label is not None for _, label, _ in rows))


def where(known, truth):
    """The labels of the known rows, None for the rest."""
    return [float(label) if there else None for label, there in zip(truth, known, strict=True)]


def labelled(truth, n):
    """The first `n` labels, None for the rest."""
    return where(np.arange(len(truth)) < n, truth)


def judged(rng, truth, sensitivity, specificity):
    right = rng.random(truth.shape) < np.where(truth == 1, sensitivity, specificity)
    return np.where(right, truth, 1 - truth)


def test_the_estimate_by_hand():
    known, rest = np.array([1.0, 1, 0, 0] * 30), np.array([1.0, 0, 1, 1, 1, 0] * 30)
    truth = np.array([1.0, 1, 0, 0, 1, 1, 0, 1] * 15)
    result = ppi_mean([*known, *rest], [*truth.tolist(), *[None] * 180])
    slope = scipy.stats.linregress(known, truth).slope
    weight = slope / (1 + 120 / 180)
    assert result.weight == pytest.approx(weight)
    assert (result.labelled, result.unlabelled) == (120, 180)
    corrections = truth - slope * known
    assert result.value == pytest.approx((truth - weight * known).mean() + (weight * rest).mean())
    # One number a row: slope * score, and for the 120 of 300 rows with a label 300 / 120 times the correction.
    rows = slope * np.r_[known, rest] + corrections.mean()
    rows[:120] += (corrections - corrections.mean()) * 300 / 120
    worst = slope + corrections.mean() + (-slope - corrections.mean()) * 300 / 120
    best = corrections.mean() + (1 - corrections.mean()) * 300 / 120
    interval = bounded_mean(rows, low=worst, high=best)
    assert result.interval == (pytest.approx(interval.low), pytest.approx(interval.high), "ppi")


TRUTH = np.random.default_rng(1).random(30)


@pytest.mark.parametrize(
    ("scores", "labels"),
    [([0.5] * 30, 20), ([0.9 - 0.02 * i for i in range(30)], 20), (TRUTH**2, 30)],
    ids=["constant", "reversed", "all labelled"],
)
def test_where_the_judge_adds_nothing_the_labels_count_alone(scores, labels):
    truth = TRUTH if labels == 30 else np.arange(30) * 0.05
    result = ppi_mean(scores, labelled(truth, labels))
    assert (result.weight, result.unlabelled) == (0.0, 30 - labels)
    assert result.value == pytest.approx(truth[:labels].mean())
    assert result.interval[:2] == pytest.approx(mean_interval(truth[:labels], None)[:2], abs=1e-9)


@given(ROWS, st.data())
def test_order_and_cluster_names_do_not_matter(rows, data):
    def numbers_of(rows, prefix):
        scores, labels, names = zip(*rows, strict=True)
        result = ppi_mean(scores, labels, clusters=None if prefix is None else [prefix + name for name in names])
        shared = prefix is not None and len(set(names)) < len(names)
        units = len({name for _, label, name in rows if label is not None}) if shared else result.labelled
        assert (result.interval is None) == (units < 2)
        assert math.isfinite(result.value)
        assert 0 <= result.weight <= 1
        return [result.value, result.weight, *(result.interval[:2] if result.interval else (-9.0, -9.0))]

    shuffled = data.draw(st.permutations(rows))
    assert numbers_of(rows, None) == pytest.approx(numbers_of(shuffled, None), abs=1e-9)
    assert numbers_of(rows, "x") == pytest.approx(numbers_of(shuffled, "y"), abs=1e-9)


def test_only_rows_labelled_in_both_releases_count_as_labelled():
    old, new, old_labels, new_labels = [0, 1, 0, 1], [1, 1, 0, 0], [0, 1, None, 1], [1, 1, 0, None]
    result = ppi_difference(old, new, old_labels, new_labels)
    assert (result.labelled, result.unlabelled) == (2, 2)
    back = ppi_difference(new, old, new_labels, old_labels)
    assert (back.value, back.weight) == (-result.value, result.weight)


def misjudged_clusters(rng, n, size, share, whole, rows):
    """Rows of which .8 are right, and .3 in the `share` of clusters where the judge calls every row right.

    Labelled are `whole` random clusters, or `rows` random rows of any cluster.

    Returns:
        The interval and the true mean.
    """
    bad = rng.random(n) < share
    truth = (rng.random((n, size)) < np.where(bad, 0.3, 0.8)[:, None]).astype(float)
    verdicts = np.where(bad[:, None], 1.0, judged(rng, truth, 0.97, 0.97))
    known = np.zeros((n, size), bool)
    if whole:
        known[rng.permutation(n)[:whole]] = True
    else:
        known.ravel()[rng.permutation(n * size)[:rows]] = True
    clusters = np.repeat(np.arange(n), size).tolist()
    result = ppi_mean(verdicts.ravel(), where(known.ravel(), truth.ravel()), clusters=clusters)
    return result.interval, share * 0.3 + (1 - share) * 0.8


def one_sided(intervals):
    """How often the lower end is too high, and the upper end too low, of intervals with their true values."""
    return (
        np.mean([interval.low > true for interval, true in intervals]),
        np.mean([interval.high < true for interval, true in intervals]),
    )


@pytest.mark.parametrize(
    ("cell", "times"),
    [
        ((100, 10, 0.05, 10, 0), 60),
        *(
            pytest.param(cell, 400, marks=pytest.mark.nightly)
            for cell in ((100, 10, 0.05, 6, 0), (100, 10, 0.05, 20, 0), (300, 5, 0.03, 30, 0), (100, 10, 0.05, 0, 100))
        ),
    ],
)
def test_clusters_that_the_judge_misjudges_as_a_whole(cell, times):
    rng = np.random.default_rng(12 if times == 400 else 11)
    errors = one_sided([misjudged_clusters(rng, *cell) for _ in range(times)])
    # With t intervals, .15 to .17 of the lower ends were too high.
    assert sum(errors) <= 0.06
    assert max(errors) <= (0.03 if times == 400 else 0.04)


def releases(rng, rows, *, broken, fixed, old, new):
    """Scores and labels of an old release that is right on .8, and of a new one; `old`, `new`: the judge's errors."""
    before = (rng.random(rows) < 0.8).astype(float)
    change = rng.random(rows)
    after = np.where(before == 1, change >= broken / 0.8, change < fixed / 0.2).astype(float)
    return [judged(rng, before, *old), judged(rng, after, *new), before, after]


def corrected(rng, labels, **about):
    """The corrected difference of 1,000 rows, the first `labels` of which have labels, and those labels."""
    old, new, before, after = releases(rng, 1000, **about)
    result = ppi_difference(old, new, labelled(before, labels), labelled(after, labels))
    return result.interval, (before[:labels], after[:labels])


def test_differences_are_never_wider_than_the_labels_alone_and_mostly_much_narrower():
    rng, widths = np.random.default_rng(15), []
    for _ in range(40):
        interval, labels = corrected(rng, 100, broken=0.08, fixed=0.06, old=(0.95, 0.9), new=(0.95, 0.9))
        widths.append((width(interval), width(paired_difference(*labels, binary=True).interval)))
    ours, alone = np.array(widths).T
    assert (ours <= alone).all()
    assert ours.mean() < 0.85 * alone.mean()


@pytest.mark.parametrize("clusters", [None, np.repeat(np.arange(30), 10)], ids=["rows", "documents"])
def test_a_label_on_every_row_makes_it_the_difference_of_the_labels(clusters):
    rng = np.random.default_rng(16)
    old, new, before, after = releases(rng, 300, broken=0.08, fixed=0.06, old=(0.9, 0.7), new=(0.7, 0.9))
    result = ppi_difference(old, new, before, after, clusters=clusters)
    expected = paired_difference(before, after, binary=True, clusters=clusters)
    assert (result.value, result.interval, result.weight) == (expected.difference, expected.interval, 0.0)


@pytest.mark.nightly
def test_rows_that_were_drawn_with_unequal_chances_are_weighted():
    rng, results = np.random.default_rng(17), []
    for _ in range(150):
        old, new, *truth = releases(rng, 800, broken=0.1, fixed=0.02, old=(0.97, 0.85), new=(0.97, 0.6))
        # Where the judge sees no change, which hides most of the loss, a row is drawn a fifth as often.
        chances = np.where(old == new, 0.1, 0.5)
        drawn = rng.random(800) < chances
        labels = [where(drawn, side) for side in truth]
        results.append(ppi_difference(old, new, *labels, probabilities=chances))
    assert max(one_sided([(result.interval, -0.08) for result in results])) <= 0.05
    assert np.mean([result.value for result in results]) == pytest.approx(-0.08, abs=0.006)
    # Without the chances, the drawn rows are taken for all.
    assert ppi_difference(old, new, *labels).value != pytest.approx(results[-1].value, abs=1e-6)


def test_rogan_and_gladens_estimate_by_hand():
    result = rogan_gladen(60, 100, Confusion(45, 10, 5, 40))
    assert result.value == pytest.approx((0.6 + 0.8 - 1) / (0.9 + 0.8 - 1))
    # The formula of Lang and Reiczigel, step by step.
    z2 = scipy.stats.norm.ppf(0.975) ** 2
    p, se, sp = (60 + z2 / 2) / (100 + z2), 46 / 52, 41 / 52
    theta = (p + sp - 1) / (se + sp - 1)
    shift = 2 * z2 * (theta * se * (1 - se) / 52 - (1 - theta) * sp * (1 - sp) / 52)
    variance = p * (1 - p) / (100 + z2) + theta**2 * se * (1 - se) / 52 + (1 - theta) ** 2 * sp * (1 - sp) / 52
    margin = math.sqrt(z2 * variance) / (se + sp - 1)
    ends = pytest.approx(theta + shift - margin), pytest.approx(theta + shift + margin)
    assert result.interval == (*ends, "lang-reiczigel")


@given(st.integers(0, 50), st.tuples(*[st.integers(0, 20)] * 4))
def test_the_correction_stays_in_its_range_or_is_left_out(positive, counts):
    result = rogan_gladen(positive, 50, Confusion(*counts))
    right, fooled, missed, caught = counts
    informed = right + missed and fooled + caught and right * caught > fooled * missed
    assert (result is None) == (not informed)
    if result:
        assert 0 <= result.value <= 1
        assert (result.interval is None) == (min(right + missed, fooled + caught) < 2)
        if result.interval:
            assert 0 <= result.interval.low <= result.interval.high <= 1


def test_ends_of_a_difference_by_hand():
    # Of 100 labels 3 and 1 differ from the scores, which call all answers of both releases right.
    before, after = [*[1.0] * 99, 0.0], [*[1.0] * 96, *[0.0] * 3, 1.0]
    rows, chances = np.ones(1000), np.array([0.2] * 500 + [0.1] * 500)
    known = [[*side[:50], *[None] * 450, *side[50:], *[None] * 450] for side in (before, after)]
    result = ppi_difference(rows, rows, *known, probabilities=chances)
    weights = np.repeat([2 / 3, 4 / 3], 50)
    changes = np.subtract(after, before)
    value = (weights * changes).mean()
    effects = weights * (changes - value)
    z, largest = scipy.stats.norm.ppf(0.975), 4 / 3
    skew, square, cube = (z**2 + 2) / 3, (effects**2).sum() * 100 / 99, (effects**3).sum()
    reach = math.hypot(z * math.sqrt(square), (math.log(40) - skew) * largest)
    skewed = [(skew - 0.25) * (2 * largest**3 + side * cube) / (square + 2 * largest**2) for side in (-1, 1)]
    ends = [value + side * (reach + part + largest / 4) / 100 for side, part in zip((-1, 1), skewed, strict=True)]
    assert (result.value, result.interval) == (pytest.approx(value), (*map(pytest.approx, ends), "ppi"))


def test_a_stratum_of_which_people_could_tell_nothing_may_have_any_mean():
    changes = [0.0] + [1.0] * 30
    labels = [*changes, *[None] * (134 - 31), *[None] * 23]
    result = ppi_difference(
        np.zeros(157), np.zeros(157), [None if change is None else 0.0 for change in labels], labels,
        probabilities=[0.25] * 134 + [0.5] * 23, level=0.999,
    )  # fmt: skip
    low, high = result.interval[:2]
    assert (low, high) == (pytest.approx(0.436, abs=0.001), 1.0)
    # Beyond what the labels say where all of these 23 got worse, and where all got better.
    assert low < (134 * 30 / 31 - 23) / 157 < (134 * 30 / 31 + 23) / 157 < high
