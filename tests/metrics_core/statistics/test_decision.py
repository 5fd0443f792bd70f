"""The gate's decision: its definition, and how often it is wrong."""

import math
from functools import cache

import numpy as np
import pytest
import scipy.stats

from answerkey.metrics_core.statistics.decision import decide, needed_to_decide
from answerkey.metrics_core.statistics.intervals import Interval, tango
from answerkey.metrics_core.statistics.paired import paired_difference
from tests.metrics_core.statistics.simulations import share


@cache
def gate(fixed: int, broken: int, n: int, margin: float) -> str:
    return decide(tango(fixed, broken, n), margin)


def decisions(n: int, fixed: float, broken: float, margin: float, seed: int) -> list[str]:
    draws = np.random.default_rng(seed).multinomial(n, [fixed, broken, 1 - fixed - broken], 6000)
    return [gate(int(a), int(b), n, margin) for a, b, _ in draws]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-0.019, 0.03, "PASS"),
        (0.01, 0.03, "PASS"),
        (-0.05, -0.021, "FAIL"),
        (-0.03, -0.01, "INCONCLUSIVE"),
        (-0.03, 0.05, "INCONCLUSIVE"),
        (-0.02, 0.05, "INCONCLUSIVE"),
        (-0.05, -0.02, "INCONCLUSIVE"),
    ],
)
def test_the_definition(low: float, high: float, expected: str) -> None:
    assert decide(Interval(low, high, "t"), 0.02) == expected


def test_no_interval_is_no_pass() -> None:
    assert decide(None, 0.5) == "INCONCLUSIVE"


def test_unusable_margins_are_refused() -> None:
    for margin in (-0.01, math.nan, math.inf):
        with pytest.raises(ValueError, match="margin: a finite number of at least 0 is needed"):
            decide(None, margin)
        with pytest.raises(ValueError, match="margin: "):
            needed_to_decide(None, margin, 10)
    with pytest.raises(ValueError, match="n: at least one row is needed, not 0"):
        needed_to_decide(None, 0.1, 0)


@pytest.mark.parametrize("changed", [0.05, 0.18, 0.4])
def test_at_a_margin_of_0_equal_releases_rarely_get_an_answer(changed: float) -> None:
    found = decisions(400, changed / 2, changed / 2, 0.0, seed=1)
    # Each false answer has a nominal chance of 2.5 %.
    assert share(decision == "FAIL" for decision in found) <= 0.035
    assert share(decision == "PASS" for decision in found) <= 0.035
    assert share(decision == "INCONCLUSIVE" for decision in found) >= 0.94


def test_graded_scores_at_a_margin_of_0() -> None:
    rng = np.random.default_rng(2)
    old, new = rng.beta(4, 2, (2000, 100)), rng.beta(4, 2, (2000, 100))
    found = [decide(paired_difference(a, b, permutations=1).interval, 0.0) for a, b in zip(old, new, strict=True)]
    assert share(decision == "FAIL" for decision in found) <= 0.035
    assert share(decision == "PASS" for decision in found) <= 0.035


def test_a_release_that_is_worse_by_the_margin_passes_1_time_in_40() -> None:
    found = decisions(1000, 0.08, 0.10, 0.02, seed=3)
    assert 0.015 <= share(decision == "PASS" for decision in found) <= 0.035
    assert 0.015 <= share(decision == "FAIL" for decision in found) <= 0.035


def test_the_needed_rows_bring_the_stated_chance_to_pass() -> None:
    interval = tango(54, 54, 600)
    needed = needed_to_decide(interval, 0.03, 600)
    assert needed is not None
    # Planned by the textbook: (1.96 + .84)^2 * .18 / .03^2.
    assert needed == pytest.approx((1.959964 + 0.841621) ** 2 * 0.18 / 0.03**2, rel=0.05)
    found = decisions(needed, 0.09, 0.09, 0.03, seed=4)
    assert share(decision == "PASS" for decision in found) == pytest.approx(0.8, abs=0.03)


def test_the_needed_rows_follow_power_level_and_width() -> None:
    interval = Interval(-0.05, 0.05, "t")
    z, z_power = scipy.stats.norm.ppf(0.975), scipy.stats.norm.ppf(0.8)
    assert needed_to_decide(interval, 0.05, 100) == math.ceil(100 * ((z + z_power) / z) ** 2)
    assert needed_to_decide(interval, 0.05, 100, power=0.5) == 100
    assert needed_to_decide(Interval(-0.1, 0.1, "t"), 0.05, 100, power=0.5) == 400
    assert needed_to_decide(interval, 0.0, 100) is None
    assert needed_to_decide(None, 0.05, 1) is None
