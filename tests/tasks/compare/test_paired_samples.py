"""Many rows are tested as few groups: as valid, as sharp, and much quicker."""

import json

import numpy as np
import pytest

from answerkey.metrics_core.decide.paired import paired_difference
from answerkey.tasks.compare.compare import compare
from answerkey.tasks.compare.paired_samples import groups

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
    signatures = {"rouge_l": "rouge_l|v1"}
    with home.warehouse.writing() as warehouse:
        for name, values in zip(("old", "new"), scores, strict=True):
            report, manifest = f"d/{name}/v1", {"answers_version": "a", "signatures": signatures, "run_id": "r"}
            about = [report, name, json.dumps(manifest)]
            warehouse.execute(
                "INSERT INTO reports BY NAME SELECT ? AS report_id, 'd' AS dataset, 'v' AS dataset_version, "
                "? AS release, 1 AS version, now() AS created_at, 'COMPLETE' AS status, ? AS manifest, "
                "'a' AS answers_version, 'r' AS run_id",
                about,
            )
            warehouse.execute(
                "INSERT INTO report_scores BY NAME SELECT ? AS report_id, ? AS release, 'rouge_l' AS metric, "
                "'f1' AS field, 'all' AS slice, ? AS n_total, ? AS n_scored, 0 AS n_failed, 0 AS n_undefined, "
                "0 AS n_skipped, 1 AS coverage, 0 AS mean",
                [report, name, N, N],
            )
            ids = [f"s{i:05}" for i in range(N)]
            warehouse.execute(
                "INSERT INTO answers "
                "SELECT 'd', ?, 'a', unnest(?), 'k', 'x', NULL, NULL, MAP {'kind': 'one'}, NULL, 1, NULL, NULL, NULL",
                [name, ids],
            )
            warehouse.execute(
                "INSERT INTO scores "
                "SELECT ?, 'd', 'v', ?, unnest(?), 'rouge_l', 'f1', unnest(?), 'scored', NULL, 'x', 1",
                [report, name, ids, values.tolist()],
            )
    overall, slice_ = compare(home, "d/old/v1", "d/new/v1").rows
    exact = paired_difference(*scores, permutations=9999)
    assert (overall.n_common, overall.test, slice_.slice) == (N, "sign-flip", "kind=one")
    assert overall.difference == pytest.approx(exact.difference)
    assert 0.001 < exact.p < 0.1
    # A thousand exchanges know such a p to about a percent.
    for row in (overall, slice_):
        assert row.p == pytest.approx(exact.p, abs=0.02)
    assert (overall.low, overall.high) == pytest.approx(exact.interval[:2] if exact.interval else ())
