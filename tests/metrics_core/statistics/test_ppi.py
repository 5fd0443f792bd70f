"""Corrected means: their formulas, that they mend the judge's bias, and that their intervals hold the truth."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from answerkey.metrics_core.statistics.agreement import Confusion, agreement, confusion
from answerkey.metrics_core.statistics.bounded_mean import bounded_mean
from answerkey.metrics_core.statistics.clustered import mean_interval
from answerkey.metrics_core.statistics.paired import paired_difference
from answerkey.metrics_core.statistics.ppi import ppi_difference, ppi_mean, rogan_gladen
from tests.metrics_core.statistics.simulations import held

ROWS = st.lists(
    st.tuples(st.integers(0, 4).map(lambda q: q / 4), st.sampled_from([None, 0.0, 0.25, 1.0]), st.sampled_from("abcd")),
    min_size=1,
    max_size=30,
).filter(lambda rows: any(label is not None for _, label, _ in rows))


def labelled(truth, n):
    """The first `n` labels, None for the rest."""
    return [float(label) if row < n else None for row, label in enumerate(truth)]


def judged(rng, truth, sensitivity, specificity):
    right = rng.random(truth.shape) < np.where(truth == 1, sensitivity, specificity)
    return np.where(right, truth, 1 - truth)


def width(found):
    return found.interval.high - found.interval.low


def test_the_estimate_by_hand():
    known, rest = np.array([1.0, 1, 0, 0] * 30), np.array([1.0, 0, 1, 1, 1, 0] * 30)
    truth = np.array([1.0, 1, 0, 0, 1, 1, 0, 1] * 15)
    found = ppi_mean([*known, *rest], [*truth.tolist(), *[None] * 180])
    slope = scipy.stats.linregress(known, truth).slope
    weight = slope / (1 + 120 / 180)
    assert found.weight == pytest.approx(weight)
    assert (found.labelled, found.unlabelled) == (120, 180)
    corrections = truth - slope * known
    assert found.value == pytest.approx((truth - weight * known).mean() + (weight * rest).mean())
    # One number a row: slope * score, and for the 120 of 300 rows with a label 300 / 120 times the correction.
    rows = slope * np.r_[known, rest] + corrections.mean()
    rows[:120] += (corrections - corrections.mean()) * 300 / 120
    worst = slope + corrections.mean() + (-slope - corrections.mean()) * 300 / 120
    best = corrections.mean() + (1 - corrections.mean()) * 300 / 120
    interval = bounded_mean(rows, low=worst, high=best)
    assert found.interval == (pytest.approx(interval.low), pytest.approx(interval.high), "ppi")


@pytest.mark.slow
@pytest.mark.parametrize(("labels", "sensitivity", "specificity"), [(10, 0.95, 0.95), (30, 0.95, 0.95), (30, 0.8, 0.7)])
def test_a_few_labels_hold_the_truth_whatever_the_judge(labels, sensitivity, specificity):
    rng = np.random.default_rng(7)
    truth = (rng.random((300, 500)) < 0.8).astype(float)
    verdicts = judged(rng, truth, sensitivity, specificity)
    found = [ppi_mean(f, labelled(y, labels)) for f, y in zip(verdicts, truth, strict=True)]
    assert held((one.interval for one in found), 0.8) >= 0.95
    alone = [mean_interval(y[:labels], None) for y in truth]
    assert np.mean([width(one) for one in found]) <= np.mean([i.high - i.low for i in alone if i])


@pytest.mark.parametrize("scores", [[0.5] * 30, [0.9 - 0.02 * i for i in range(30)]])
def test_a_judge_that_says_nothing_leaves_the_labels_alone(scores):
    truth = [i * 0.05 for i in range(20)]
    found = ppi_mean(scores, [*truth, *[None] * 10])
    labels_only = mean_interval(np.array(truth), None)
    assert found.weight == 0.0
    assert found.value == pytest.approx(np.mean(truth))
    assert found.interval[:2] == pytest.approx(labels_only[:2], abs=1e-9)


def test_where_all_rows_are_labelled_the_judge_does_not_count():
    truth = np.random.default_rng(1).random(30)
    found = ppi_mean(truth**2, truth.tolist())
    oracle = mean_interval(truth, None)
    assert (found.weight, found.unlabelled) == (0.0, 0)
    assert found.interval[:2] == pytest.approx(oracle[:2], abs=1e-9)


def test_a_perfect_judge_makes_every_row_count():
    truth = (np.random.default_rng(2).random(2000) < 0.7).astype(float)
    found = ppi_mean(truth, labelled(truth, 100))
    assert found.weight == pytest.approx(1 / (1 + 100 / 1900), rel=1e-9)
    assert abs(found.value - truth.mean()) < 0.01
    alone = mean_interval(truth[:100], None)
    assert width(found) < 0.5 * (alone.high - alone.low)


@given(ROWS, st.data())
def test_order_and_cluster_names_do_not_matter(rows, data):
    shuffled = data.draw(st.permutations(rows))

    def numbers_of(rows, prefix):
        scores, labels, names = zip(*rows, strict=True)
        found = ppi_mean(scores, labels, clusters=None if prefix is None else [prefix + name for name in names])
        shared = prefix is not None and len(set(names)) < len(names)
        units = len({name for _, label, name in rows if label is not None}) if shared else found.labelled
        assert (found.interval is None) == (units < 2)
        low, high = found.interval[:2] if found.interval else (-9.0, -9.0)
        assert math.isfinite(found.value)
        assert 0 <= found.weight <= 1
        return [found.value, found.weight, low, high]

    assert numbers_of(rows, None) == pytest.approx(numbers_of(shuffled, None), abs=1e-9)
    assert numbers_of(rows, "x") == pytest.approx(numbers_of(shuffled, "y"), abs=1e-9)


def test_a_single_label_has_no_interval_and_none_is_refused():
    found = ppi_mean([1, 0, 1], [None, 1.0, None])
    assert (found.value, found.interval, found.weight) == (1.0, None, 0.0)
    assert ppi_mean([1, 0, 1], [0.0, 1.0, None], clusters=["a", "a", "b"]).interval is None


JUDGE = (0.95, 0.72)
"""Sensitivity and specificity; where 70 % are right, that is a kappa of .7."""


@pytest.mark.slow
def test_100_labels_of_1000_with_a_judge_of_kappa_7():
    rng = np.random.default_rng(3)
    truth = (rng.random((800, 1000)) < 0.7).astype(float)
    verdicts = judged(rng, truth, *JUDGE)
    pooled = agreement(verdicts[:100].ravel(), truth[:100].ravel()).kappa
    assert pooled.value == pytest.approx(0.7, abs=0.01)
    found = [ppi_mean(f, labelled(y, 100)) for f, y in zip(verdicts, truth, strict=True)]
    assert 0.93 <= held((one.interval for one in found), 0.7) <= 0.985
    alone = [mean_interval(np.asarray(y[:100], float), None) for y in truth]
    widths = [i.high - i.low for i in alone if i]
    assert np.mean([width(one) for one in found]) < 0.85 * np.mean(widths)
    assert np.mean([width(one) < w for one, w in zip(found, widths, strict=True)]) > 0.98
    # The judge alone is narrower still, and wrong.
    assert held((mean_interval(f, None) for f in verdicts), 0.7) < 0.2
    assert np.mean([one.value for one in found]) == pytest.approx(0.7, abs=0.004)


@pytest.mark.slow
def test_a_difference_of_releases_is_corrected_and_held():
    rng = np.random.default_rng(4)
    old = (rng.random((300, 800)) < 0.65).astype(float)
    new = np.where(rng.random((300, 800)) < 0.7, old, rng.random((300, 800)) < 0.8).astype(float)
    truth = 0.3 * (0.8 - 0.65)
    # The judge is kinder to the new release than to the old one.
    old_scores, new_scores = judged(rng, old, 0.85, 0.9), judged(rng, new, 0.95, 0.75)
    found = [
        ppi_difference(f, g, labelled(y, 150), labelled(z, 150))
        for f, g, y, z in zip(old_scores, new_scores, old, new, strict=True)
    ]
    assert 0.93 <= held((one.interval for one in found), truth) <= 0.985
    raw = [mean_interval(g - f, None, low=-1.0) for f, g in zip(old_scores, new_scores, strict=True)]
    assert held(raw, truth) < 0.1
    alone = [mean_interval((z - y)[:150], None, low=-1.0) for y, z in zip(old, new, strict=True)]
    assert np.mean([width(one) for one in found]) < np.mean([i.high - i.low for i in alone if i])


def test_only_rows_labelled_in_both_releases_count_as_labelled():
    found = ppi_difference([0, 1, 0, 1], [1, 1, 0, 0], [0, 1, None, 1], [1, 1, 0, None])
    assert (found.labelled, found.unlabelled) == (2, 2)
    back = ppi_difference([1, 1, 0, 0], [0, 1, 0, 1], [1, 1, 0, None], [0, 1, None, 1])
    assert (back.value, back.weight) == (-found.value, found.weight)


@pytest.mark.slow
def test_clustered_corrections_hold_the_truth_19_times_in_20():
    rng, clusters = np.random.default_rng(5), [i // 5 for i in range(500)]
    share_ = np.repeat(rng.beta(2, 1, (800, 100)), 5, axis=1)
    truth = (rng.random((800, 500)) < share_).astype(float)
    verdicts = judged(rng, truth, *JUDGE)
    found = [ppi_mean(f, labelled(y, 200), clusters=clusters) for f, y in zip(verdicts, truth, strict=True)]
    assert held((one.interval for one in found), 2 / 3) >= 0.95
    methods = {one.interval.method for one in found if one.interval}
    assert methods == {"cluster-ppi", "cluster-bounded-mean"}
    plain = [ppi_mean(f, labelled(y, 200)).interval for f, y in zip(verdicts, truth, strict=True)]
    assert held(plain, 2 / 3) < 0.92


def misjudged_clusters(rng, n, size, share, whole, rows):
    """Rows of which .8 are right, and .3 in the `share` of clusters where the judge calls every row right.

    Labelled are `whole` random clusters, or `rows` random rows of any cluster.

    Returns:
        The estimate and the true mean.
    """
    bad = rng.random(n) < share
    truth = (rng.random((n, size)) < np.where(bad, 0.3, 0.8)[:, None]).astype(float)
    verdicts = np.where(bad[:, None], 1.0, judged(rng, truth, 0.97, 0.97))
    known = np.zeros((n, size), bool)
    if whole:
        known[rng.permutation(n)[:whole]] = True
    else:
        known.ravel()[rng.permutation(n * size)[:rows]] = True
    labels = [float(label) if there else None for label, there in zip(truth.ravel(), known.ravel(), strict=True)]
    clusters = np.repeat(np.arange(n), size).tolist()
    return ppi_mean(verdicts.ravel(), labels, clusters=clusters), share * 0.3 + (1 - share) * 0.8


def one_sided(found):
    """How often the lower end is too high, and the upper end too low."""
    ends = [(one.interval, true) for one, true in found if one.interval]
    assert len(ends) == len(found)
    low = np.mean([interval.low > true for interval, true in ends])
    return float(low), float(np.mean([interval.high < true for interval, true in ends]))


CLUSTER_CELLS = [
    (100, 10, 0.05, 6, 0),
    (100, 10, 0.05, 10, 0),
    (100, 10, 0.05, 20, 0),
    (100, 10, 0.05, 40, 0),
    (300, 5, 0.03, 30, 0),
    (100, 10, 0.05, 0, 100),
    (100, 10, 0.05, 0, 200),
]


@pytest.mark.parametrize("cell", [CLUSTER_CELLS[1], CLUSTER_CELLS[2]])
def test_clusters_that_the_judge_misjudges_as_a_whole(cell):
    rng = np.random.default_rng(11)
    errors = one_sided([misjudged_clusters(rng, *cell) for _ in range(60)])
    # With t intervals, .15 to .17 of the lower ends were too high.
    assert max(errors) <= 0.04


@pytest.mark.slow
@pytest.mark.parametrize("cell", CLUSTER_CELLS)
def test_clusters_that_the_judge_misjudges_as_a_whole_often(cell):
    rng = np.random.default_rng(12)
    errors = one_sided([misjudged_clusters(rng, *cell) for _ in range(400)])
    assert sum(errors) <= 0.06
    assert max(errors) <= 0.03


def releases(
    rng,
    rows,
    *,
    broken,
    fixed,
    old,
    new,
):
    """Scores and labels of an old release that is right on .8, and of a new one; `old`, `new`: the judge's errors."""
    before = (rng.random(rows) < 0.8).astype(float)
    change = rng.random(rows)
    after = np.where(before == 1, change >= broken / 0.8, change < fixed / 0.2).astype(float)
    return [judged(rng, before, *old), judged(rng, after, *new), before, after]


LENIENT = [(0.97, 0.69), (0.985, 0.60)]
"""Sensitivity and specificity on a release that loses .05, which hide that loss, or more than it."""


@pytest.mark.parametrize("errors", LENIENT)
def test_a_judge_that_hides_the_loss_lets_nothing_pass(errors):
    rng, found = np.random.default_rng(13), []
    for _ in range(150):
        old, new, before, after = releases(rng, 1000, broken=0.09, fixed=0.04, old=(0.97, 0.85), new=errors)
        found.append((ppi_difference(old, new, labelled(before, 200), labelled(after, 200)), -0.05))
    assert np.mean([one.interval is not None and one.interval.low > -0.02 for one, _ in found]) <= 0.03
    assert max(one_sided(found)) <= 0.05
    # The labels alone have .107.
    assert np.mean([width(one) for one, _ in found]) < 0.095


@pytest.mark.slow
@pytest.mark.parametrize("errors", [*LENIENT, (0.97, 0.85), (1.0, 0.5)])
@pytest.mark.parametrize("labels", [20, 50, 100, 400])
def test_differences_hold_the_truth_whatever_the_judge(errors, labels):
    rng = np.random.default_rng([14, labels])
    for broken, fixed in ((0.09, 0.04), (0.02, 0.0)):
        found = []
        for _ in range(500):
            old, new, before, after = releases(rng, 1000, broken=broken, fixed=fixed, old=(0.97, 0.85), new=errors)
            found.append((ppi_difference(old, new, labelled(before, labels), labelled(after, labels)), fixed - broken))
        below, above = one_sided(found)
        assert below + above <= 0.06
        # .03, and two standard errors of 500 repetitions.
        assert max(below, above) <= 0.045


def test_differences_are_never_wider_than_the_labels_alone_and_mostly_much_narrower():
    rng, widths = np.random.default_rng(15), []
    for _ in range(40):
        old, new, before, after = releases(rng, 1000, broken=0.08, fixed=0.06, old=(0.95, 0.9), new=(0.95, 0.9))
        found = ppi_difference(old, new, labelled(before, 100), labelled(after, 100))
        alone = paired_difference(before[:100], after[:100], binary=True).interval
        widths.append((width(found), alone.high - alone.low))
    assert all(mine <= labels for mine, labels in widths)
    assert np.mean([mine for mine, _ in widths]) < 0.85 * np.mean([labels for _, labels in widths])


def test_a_label_on_every_row_makes_it_the_difference_of_the_labels():
    rng = np.random.default_rng(16)
    old, new, before, after = releases(rng, 300, broken=0.08, fixed=0.06, old=(0.9, 0.7), new=(0.7, 0.9))
    found = ppi_difference(old, new, before.tolist(), after.tolist())
    expected = paired_difference(before, after, binary=True)
    assert (found.value, found.interval, found.weight) == (expected.difference, expected.interval, 0.0)


@pytest.mark.slow
def test_rows_that_were_drawn_with_unequal_chances_are_weighted():
    rng, found = np.random.default_rng(17), []
    for _ in range(150):
        old, new, before, after = releases(rng, 800, broken=0.1, fixed=0.02, old=(0.97, 0.85), new=(0.97, 0.6))
        # Where the judge sees no change, which hides most of the loss, a row is drawn a fifth as often.
        chances = np.where(old == new, 0.1, 0.5)
        drawn = rng.random(800) < chances
        labels = [
            [float(v) if there else None for v, there in zip(side, drawn, strict=True)] for side in (before, after)
        ]
        found.append((ppi_difference(old, new, *labels, probabilities=chances), -0.08))
    assert max(one_sided(found)) <= 0.05
    assert np.mean([one.value for one, _ in found]) == pytest.approx(-0.08, abs=0.006)
    # Without the chances, the drawn rows are taken for all.
    naive = ppi_difference(old, new, *labels)
    assert naive.value != pytest.approx(found[-1][0].value, abs=1e-6)


@pytest.mark.slow
def test_many_different_chances_are_weighted_row_by_row():
    rng, found = np.random.default_rng(18), []
    for _ in range(100):
        truth = (rng.random(600) < 0.7).astype(float)
        verdicts = judged(rng, truth, 0.95, 0.8)
        # Right answers are drawn more often, through something that the judge does not see.
        chances = 0.1 + 0.3 * rng.random(600) + 0.3 * truth
        drawn = rng.random(600) < chances
        labels = [float(v) if there else None for v, there in zip(truth, drawn, strict=True)]
        found.append((ppi_mean(verdicts, labels, probabilities=chances), 0.7))
    assert max(one_sided(found)) <= 0.05
    assert np.mean([one.value for one, _ in found]) == pytest.approx(0.7, abs=0.01)


def test_rogan_and_gladens_estimate_by_hand():
    found = rogan_gladen(60, 100, Confusion(45, 10, 5, 40))
    assert found.value == pytest.approx((0.6 + 0.8 - 1) / (0.9 + 0.8 - 1))
    # The formula of Lang and Reiczigel, step by step.
    z2 = scipy.stats.norm.ppf(0.975) ** 2
    p, se, sp = (60 + z2 / 2) / (100 + z2), 46 / 52, 41 / 52
    theta = (p + sp - 1) / (se + sp - 1)
    shift = 2 * z2 * (theta * se * (1 - se) / 52 - (1 - theta) * sp * (1 - sp) / 52)
    variance = p * (1 - p) / (100 + z2) + theta**2 * se * (1 - se) / 52 + (1 - theta) ** 2 * sp * (1 - sp) / 52
    margin = math.sqrt(z2 * variance) / (se + sp - 1)
    ends = pytest.approx(theta + shift - margin), pytest.approx(theta + shift + margin)
    assert found.interval == (*ends, "lang-reiczigel")


def test_a_perfect_judge_needs_no_correction():
    found = rogan_gladen(30, 100, Confusion(50, 0, 0, 50))
    assert found.value == pytest.approx(0.3)
    assert 0.1 < found.interval.low < 0.3 < found.interval.high < 0.5


@given(st.integers(0, 50), st.tuples(*[st.integers(0, 20)] * 4))
def test_the_correction_stays_in_its_range_or_is_left_out(positive, counts):
    calibration = Confusion(*counts)
    found = rogan_gladen(positive, 50, calibration)
    right, fooled, missed, caught = counts
    informed = right + missed and fooled + caught and right * caught > fooled * missed
    assert (found is None) == (not informed)
    if found is not None:
        assert 0 <= found.value <= 1
        assert (found.interval is None) == (min(right + missed, fooled + caught) < 2)
        if found.interval is not None:
            assert 0 <= found.interval.low <= found.interval.high <= 1


@pytest.mark.parametrize(("share_", "n", "labels"), [(0.6, 1000, 100), (0.8, 500, 150), (0.3, 500, 200)])
def test_rogan_gladen_holds_the_truth_19_times_in_20(share_, n, labels):
    rng = np.random.default_rng(6)
    elsewhere = (rng.random((1500, labels)) < 0.5).astype(float)
    verdicts = judged(rng, elsewhere, *JUDGE)
    positive = rng.binomial(n, share_ * JUDGE[0] + (1 - share_) * (1 - JUDGE[1]), 1500)
    found = [rogan_gladen(int(k), n, confusion(v, y)) for k, v, y in zip(positive, verdicts, elsewhere, strict=True)]
    assert 0.93 <= held((one and one.interval for one in found), share_) <= 0.975
