"""Many rows are tested as few groups: as valid, as sharp, and much quicker."""

import numpy as np
import pytest

from answerkey.metrics_core.decide.paired import paired_difference
from answerkey.tasks.compare.compare import compare
from answerkey.tasks.compare.paired_samples import groups
from tests.tasks.gating_help import Made, warehouse

N = 12_000


def test_few_rows_are_their_own_groups():
    assert groups(5, None, 5).tolist() == [0, 1, 2, 3, 4]
    assert groups(5, np.array([7, 3, 7, 9, 3]), 3).tolist() == [1, 0, 1, 2, 0]


def test_many_rows_are_spread_evenly_and_clusters_stay_whole():
    found = groups(1000, None, 64)
    assert set(np.bincount(found)) == {15, 16}
    assert (found == groups(1000, None, 64)).all()
    clusters = np.arange(1000) // 4
    of_clusters = groups(1000, clusters, 64)
    assert of_clusters.max() == 63
    assert all(len(set(of_clusters[clusters == one])) == 1 for one in range(250))


@pytest.fixture(scope="module")
def scores():
    rng = np.random.default_rng(3)
    old = rng.random(N)
    return old, np.clip(old + rng.normal(0.002, 0.2, N), 0, 1)


def test_a_comparison_of_many_rows(home, scores):
    ids = [f"s{i:05}" for i in range(N)]
    slices = {name: {"kind": "one"} for name in ids}
    old, new = ({"rouge_l.f1": dict(zip(ids, values.tolist(), strict=True))} for values in scores)
    warehouse(home, [Made("old", old, slices=slices), Made("new", new, slices=slices)], "d")
    overall, slice_ = compare(home, "d/old/v1", "d/new/v1").rows
    exact = paired_difference(*scores, permutations=9999)
    assert (overall.n_common, overall.test, slice_.slice) == (N, "sign-flip", "kind=one")
    assert overall.difference == pytest.approx(exact.difference)
    assert 0.001 < exact.p < 0.1
    # A thousand exchanges know such a p to about a percent.
    for row in (overall, slice_):
        assert row.p == pytest.approx(exact.p, abs=0.02)
    assert (overall.low, overall.high) == pytest.approx(exact.interval[:2] if exact.interval else ())
