"""Rankings by pairwise preference: the known order, intervals that cover, position bias, and what says nothing."""

import math
from collections import Counter

import numpy as np
import pytest

from answerkey.metrics_core.statistics.ranking import Shown, opponents_of, rank

TRUTH = {"a": 0.9, "b": 0.3, "c": -0.3, "d": -0.9}


def verdicts(seed, questions=60, bias=1.0, opponents=0):
    rng, found = np.random.default_rng(seed), []
    for question in range(questions):
        for first, strength in TRUTH.items():
            for second in opponents_of(f"q{question}", first, list(TRUTH), opponents):
                one, other = math.exp(strength + bias), math.exp(TRUTH[second])
                total = one + other + 0.5 * math.sqrt(one * other)
                drawn = rng.random() * total
                found.append(
                    Shown(first, second, 1.0 if drawn < one else 0.0 if drawn < one + other else 0.5, question)
                )
    return found


@pytest.mark.parametrize("opponents", [0, 1])
def test_a_biased_judge_ranks_in_the_right_order_and_intervals_cover(opponents):
    covered = effects = 0
    for seed in range(60):
        found = rank(verdicts(seed, 100, opponents=opponents))
        assert found.releases[0].release == "a"
        covered += sum(one.interval.low <= TRUTH[one.release] <= one.interval.high for one in found.releases)
        effects += found.first_interval.low <= 1 / (1 + math.exp(-1)) <= found.first_interval.high
    assert 0.91 <= covered / 240 <= 0.99
    assert 52 <= effects <= 60


def test_strengths_are_those_of_maximum_likelihood():
    """By hand: two releases, 75 of 100 decided verdicts for one, in both orders alike."""
    shown = [Shown("a", "b", float(n % 4 > 0), n) for n in range(4_000)]
    shown += [Shown("b", "a", float(n % 4 == 0), n) for n in range(4_000)]
    found = rank(shown)
    assert found.releases[0].strength - found.releases[1].strength == pytest.approx(math.log(3), abs=0.01)
    assert (found.releases[0].wins, found.first) == (0.75, pytest.approx(0.5, abs=1e-6))


def test_a_judge_that_always_takes_the_first_ranks_nobody():
    found = rank([Shown(one, two, 1.0, n) for n in range(300) for one in "abc" for two in "abc" if one != two])
    assert [(one.best, one.worst) for one in found.releases] == [(1, 3)] * 3
    assert found.first > 0.99
    assert all(one.interval.low < -0.5 and one.interval.high > 0.5 for one in found.releases)


def test_a_release_that_always_wins_has_a_finite_strength():
    found = rank([Shown(*pair, float(pair[0] == "a"), n) for n in range(200) for pair in ("ab", "ba")])
    assert [(one.release, one.best, one.worst) for one in found.releases] == [("a", 1, 1), ("b", 2, 2)]
    assert math.isfinite(found.releases[0].strength)


@pytest.mark.parametrize("n", [3, 4, 5, 8])
def test_a_round_robin_is_symmetric_and_asks_about_all_pairs_alike(n):
    names, met = [f"r{number}" for number in range(n)], Counter()
    for question in range(2_000):
        played = {name: opponents_of(f"q{question}", name, names, 1) for name in names}
        assert all(played[other] == [name] for name, others in played.items() for other in others)
        met.update((name, other) for name, others in played.items() for other in others)
    assert len(met) == n * (n - 1)
    assert max(met.values()) < 1.5 * min(met.values())
    assert opponents_of("q", "r0", names, n) == names[1:]


def test_too_little_ranks_nothing():
    assert rank([]) is None
    assert rank([Shown("a", "b", 1.0, "q"), Shown("b", "a", 0.0, "q")]) is None
