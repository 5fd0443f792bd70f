"""The self-test of the gate on made-up scores: clusters, graded scores, several rules."""

import numpy as np
import pytest

from answerkey.metrics_core.gate.evidence import Coverage, Evidence, PairedScores
from answerkey.metrics_core.gate.policy import parse_policy
from answerkey.metrics_core.gate.simulate import self_test

pytestmark = pytest.mark.nightly


def self_tested(n, *, clusters, runs=500, rules=(), seed=0):
    """Graded scores in clusters of five that share most of their difference."""
    rng = np.random.default_rng(9)
    shared = np.repeat(rng.normal(0, 0.1, n // 5), 5)
    old = rng.uniform(0.3, 0.7, n)
    new = np.clip(old + shared + rng.normal(0, 0.02, n), 0, 1)
    column = PairedScores(old, new, binary=False)
    policy = parse_policy({"primary": "m.f", "margin": 0.01, "rules": list(rules)}, "x")
    fields = {(name, "all"): column for name in policy.fields}
    coverage = {name: (Coverage("new", n, n),) for name in policy.fields}
    codes = np.arange(n) // 5 if clusters else None
    return self_test(policy, Evidence("old", "new", fields, coverage, clusters=codes), seed=seed, runs=runs)


def test_clusters_are_drawn_and_exchanged_whole():
    found = self_tested(600, clusters=True)
    assert (found.n, found.units) == (600, 120)
    assert [point.name for point in found.trials] == [
        "equal", "margin", "loss", "enough", "dropped", "documents", "rare", "noise",
    ]  # fmt: skip
    # Intervals that took the rows as independent would make about 20 % wrong passes at the margin.
    assert_seldom_wrong(found)


def assert_seldom_wrong(found):
    """At most 2.5 % in every scenario, and two standard errors."""
    for point in found.trials:
        rates = {"PASS": point.passed.value, "FAIL": point.failed.value}
        most = 0.025 + 2 * (0.025 * 0.975 / point.n_runs) ** 0.5
        assert all(rates[outcome] <= most for outcome in point.wrong), point


@pytest.mark.parametrize(("n", "clusters"), [(60, 12), (300, 100), (100, 0)])
@pytest.mark.parametrize("graded", [False, True])
def test_adverse_releases_are_seldom_passed_and_never_blamed(n, clusters, graded):
    """Answers left out, clusters that break, rare large losses, noise: what resampling the data does not contain."""
    rng = np.random.default_rng(5)
    old = rng.uniform(0.7, 1.0, n) if graded else (rng.random(n) < 0.9).astype(float)
    new = np.clip(old + rng.normal(0, 0.01, n), 0, 1) if graded else np.where(rng.random(n) < 0.1, 1 - old, old)
    column = PairedScores(old, new, binary=not graded)
    policy = parse_policy({"primary": "m.f", "margin": 0.1 if clusters == 12 else 0.03}, "x")
    codes = np.arange(n) % clusters if clusters else None
    evidence = Evidence("old", "new", {("m.f", "all"): column}, {}, clusters=codes)
    found = self_test(policy, evidence, runs=250)
    assert_seldom_wrong(found)
    names = {point.name for point in found.trials}
    assert {"rare", "noise"} | ({"documents"} if clusters else set()) <= names
    assert found.worst("PASS") is not None


def test_what_is_wrong_depends_on_what_is_true():
    by_name = {point.name: point for point in self_tested(600, clusters=True, runs=20).trials}
    assert {name: point.wrong for name, point in by_name.items()} == {
        "equal": ("FAIL",), "margin": ("PASS", "FAIL"), "loss": ("PASS",), "enough": ("FAIL",),
        "dropped": ("PASS",), "documents": ("PASS", "FAIL"), "rare": ("PASS", "FAIL"), "noise": ("FAIL",),
    }  # fmt: skip
    assert [by_name[name].loss for name in ("margin", "dropped", "documents", "rare", "noise")] == [0.01] * 4 + [0]


def test_the_seed_makes_it_repeatable():
    assert self_tested(100, clusters=True, runs=20) == self_tested(100, clusters=True, runs=20)
    assert self_tested(600, clusters=True, runs=60) != self_tested(600, clusters=True, runs=60, seed=1)


def test_all_rules_about_differences_are_tried_together():
    rules = ("m.g >= 0", "m.h >= 0", "level m.f >= 0.9", "kappa m.f >= 0.6")
    found = self_tested(600, clusters=False, rules=rules)
    assert found.rules == ("m.f >= -0.01", "m.g >= 0", "m.h >= 0")
    # The same scores three times: one alarm is the others' alarm too, and Holm is then stricter than it had to be.
    assert found.trials[0].failed.value <= 0.03


def test_power_is_stated_right_also_where_the_releases_differ_much():
    """Nearly all changes are losses here, so their spread is smaller than that of changes to both sides."""
    old = np.repeat([1.0, 1.0, 0.0, 0.0], [250, 350, 20, 380])
    new = np.repeat([1.0, 0.0, 1.0, 0.0], [250, 350, 20, 380])
    column = PairedScores(old, new, binary=True)
    policy = parse_policy({"primary": "m.f", "margin": 0.03}, "x")
    evidence = Evidence("old", "new", {("m.f", "all"): column}, {"m.f": (Coverage("new", 1000, 1000),)})
    by_name = {point.name: point for point in self_test(policy, evidence, runs=1000).trials}
    # 1.96 + .84 standard errors of sqrt(.37 / 1000) below the margin.
    assert by_name["loss"].loss == pytest.approx(0.03 + 2.8016 * (0.37 / 1000) ** 0.5, rel=0.01)
    assert by_name["loss"].failed.value == pytest.approx(0.8, abs=0.04)
    assert by_name["enough"].passed.value == pytest.approx(0.8, abs=0.04)
