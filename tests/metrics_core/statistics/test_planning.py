"""Planned units: the chance of both conditions at once, against drawn samples."""

import numpy as np
import pytest
import scipy.stats

from answerkey.metrics_core.statistics.bounded_mean import critical_means, rejects
from answerkey.metrics_core.statistics.paired import paired_difference
from answerkey.metrics_core.statistics.planning import PlannedUnits, critical_ratio


def test_the_chance_to_show_is_that_of_interval_and_test_in_one_sample() -> None:
    """30 rows and 14 fields, where both ask for about the same difference."""
    n, sd, family, effect = 30, 0.3, 14, 0.215
    # Normal quantiles: units with exactly this standard deviation, or nearly.
    unit = scipy.stats.norm.ppf((np.arange(n) + 0.5) / n)
    change = sd * unit / unit.std(ddof=1)
    plan = PlannedUnits.of(paired_difference(np.zeros(n), change, permutations=1))
    draws = np.random.default_rng(7).normal(effect, sd, (4000, n)).clip(-1, 1)
    bound = rejects(draws, 0.0, low=-1.0, high=1.0)
    test = scipy.stats.ttest_1samp(draws, 0.0, axis=1).pvalue < 0.05 / family
    both = float((bound & test).mean())
    assert plan.chance(effect, 1.0, family=family) == pytest.approx(both, abs=0.03)
    assert plan.chance(effect, 1.0) == pytest.approx(bound.mean(), abs=0.03)
    # Either alone is met clearly more often than both together.
    assert both < min(bound.mean(), test.mean()) - 0.01


def test_the_critical_mean_is_where_the_bound_meets_zero() -> None:
    deviations = np.random.default_rng(1).normal(0, 0.2, 40)
    deviations -= deviations.mean()
    for spread in (0.0, 0.5, 1.5):
        [least] = critical_means(spread * deviations[None], np.ones(40), np.ones(40), worst=-1.0)
        above, below = (spread * deviations + least * factor for factor in (1.005, 0.995))
        assert rejects(np.stack([above, below]), 0.0, low=-1.0, high=1.0).tolist() == [True, False]


@pytest.mark.parametrize(("units", "alpha", "never"), [(5, 0.05, True), (6, 0.05, False), (9, 0.05 / 14, True)])
def test_no_mean_is_large_enough_for_too_few_units(units: int, alpha: float, never: bool) -> None:
    assert (critical_ratio(units, alpha) == np.inf) == never
