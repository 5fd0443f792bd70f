"""Planning: what is stated is about what the tests then do, and the formulas' own limits."""

import math

import numpy as np
import pytest
import scipy.stats

from answerkey.metrics_core.decide.intervals import Interval
from answerkey.metrics_core.decide.multiple_testing import holm
from answerkey.metrics_core.decide.paired import mcnemar, paired_difference
from answerkey.metrics_core.decide.power import (
    fewest_units,
    minimum_detectable,
    needed_by_width,
    needed_to_pass,
    needed_to_show,
    undetectable,
)


@pytest.mark.parametrize(("family", "least"), [(1, 6), (4, 8), (5, 8), (8, 9), (14, 10)])
def test_fewer_clusters_than_the_floor_of_sign_flips_never_show_anything(family, least):
    assert fewest_units(family) == least

    def largest(clusters):
        codes = np.repeat(np.arange(clusters), 3).tolist()
        return paired_difference(np.zeros(3 * clusters), np.ones(3 * clusters), clusters=codes)

    below, at = largest(least - 1), largest(least)
    assert holm([below.p] * family)[0] >= 0.05 > holm([at.p, *[1.0] * (family - 1)])[0]
    assert at.interval.low > 0
    fields = f" among {family} fields" if family > 1 else ""
    why = f"no difference can be shown with {least - 1} clusters{fields}; it takes at least {least}"
    assert undetectable(below, family=family) == why
    assert minimum_detectable(below, family=family) is undetectable(at, family=family) is None


def measured(fixed, broken, n, copies=1):
    """Of 0/1 rows, each in a cluster with its copies."""
    change = np.repeat([1.0, -1.0, 0.0], [fixed, broken, n - fixed - broken]).repeat(copies)
    clusters = np.repeat(np.arange(n), copies).tolist() if copies > 1 else None
    return paired_difference(change < 0, change > 0, binary=True, clusters=clusters, permutations=1)


@pytest.mark.parametrize("family", [1, 14])
@pytest.mark.parametrize(("n", "changed"), [(40, 0), (60, 12), (300, 6), (300, 30), (1000, 180)])
def test_the_power_stated_for_shares_is_about_the_true_power(n, changed, family):
    """The sum over the counts of changed rows, and of fixed ones among them, that are called better."""
    effect = minimum_detectable(measured(changed // 2, changed // 2, n), family=family)
    rows = max(changed / n, effect)
    power = 0.0
    for total in range(n + 1):
        fixed = np.arange(total + 1)
        rejects = (mcnemar(fixed, total - fixed) * family < 0.05) & (2 * fixed > total)
        better = scipy.stats.binom.pmf(fixed, total, (rows + effect) / 2 / rows) @ rejects
        power += scipy.stats.binom.pmf(total, n, rows) * better
    assert 0.7 <= power <= 0.9


def test_the_needed_rows_are_about_those_of_the_formula_for_large_samples():
    z, z_power = 1.959964, 0.841621
    # Miettinen (1968); a little below, because the exact test asks for more.
    n = needed_to_show(measured(108, 72, 1200))
    assert n == pytest.approx((z + z_power) ** 2 * 0.15 / 0.03**2, rel=0.1)
    rows = np.repeat([1.0, -1.0, 0.0], [54, 54, 492])
    n = needed_to_pass(rows, None, -0.03, 0.0, binary=True, bounds=(-1.0, 1.0))
    assert n == pytest.approx((z + z_power) ** 2 * 0.18 / 0.03**2, rel=0.1)


def test_the_rows_needed_for_a_level_lift_its_exact_interval_above_the_floor():
    def needed(floor):
        return needed_to_pass(np.repeat([1.0, 0.0], [450, 50]), None, floor, 0.9, binary=True, bounds=(0.0, 1.0))

    n = needed(0.85)
    right = np.arange(1, n + 1)
    lowest = scipy.stats.beta.ppf(0.025, right, n - right + 1)  # Clopper-Pearson
    assert scipy.stats.binom.pmf(right, n, 0.9) @ (lowest > 0.85) == pytest.approx(0.8, abs=0.1)
    assert needed(0.9) is None
    assert needed(0.8999) is None  # some seventy million: more than are reported


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (paired_difference([0.1], [0.4]), "no difference can be shown with 1 row; it takes at least 6"),
        (paired_difference([0.1, 0.5] * 3, [0.1, 0.5] * 3), "no score changed, so it is not known by how much"),
        (paired_difference([0, 1], [0, 1], binary=True), "no difference can be shown with 2 rows"),
        (paired_difference([0.1, 0.5], [0.3, 0.1], clusters=["a", "a"]), "no difference can be shown with 1 cluster;"),
    ],
)
def test_without_a_detectable_effect_the_reason_is_given(result, why):
    assert minimum_detectable(result) is None
    assert undetectable(result).startswith(why)


def test_the_needed_rows_follow_power_level_and_width():
    interval = Interval(-0.05, 0.05, "t")
    z, z_power = scipy.stats.norm.ppf(0.975), scipy.stats.norm.ppf(0.8)
    assert needed_by_width(interval, 0.05, 100) == math.ceil(100 * ((z + z_power) / z) ** 2)
    assert needed_by_width(Interval(-0.1, 0.1, "t"), 0.05, 100) == math.ceil(400 * ((z + z_power) / z) ** 2)
    assert needed_by_width(interval, 0.0, 100) is needed_by_width(None, 0.05, 1) is None
