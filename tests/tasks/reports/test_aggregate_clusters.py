"""Intervals where rows are few, or come in clusters and do not count as independent."""

import numpy as np
import pytest

from answerkey.metrics_core.statistics.clustered import codes_of, mean_interval
from tests.tasks.staging_help import query, run, source_of

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
# Rows and clusters: 4 of "a", 3 of "b", 2 of "1", and three rows alone, one of which has the id "1".
CLUSTERS = ["a"] * 4 + ["b"] * 3 + ["1"] * 2 + [None] * 3
IDS = ["x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "1", "y", "z"]


def rows(clusters):
    return [
        {
            "id": sample_id,
            "answer": " ".join(WORDS[: 1 + (i * 7) % 10]),
            "references": " ".join(WORDS),
            "cluster": cluster,
            "half": "ab"[i % 2],
        }
        for i, (sample_id, cluster) in enumerate(zip(IDS, clusters, strict=True))
    ]


def aggregates(home, clusters):
    source = source_of(home, rows(clusters), slices=("half",))
    done = run(home, source, ["rouge_l", "exact_match"])
    found = query(
        home,
        "SELECT field, slice, mean, ci_low, ci_high, ci_method FROM report_scores WHERE report_id = ?",
        [done.ids[0]],
    )
    return {(field, slice_): tuple(rest) for field, slice_, *rest in found}


def test_clusters_widen_the_interval(home):
    found = aggregates(home, CLUSTERS)
    for slice_ in ("all", "half=a", "half=b"):
        chosen = [i for i in range(12) if slice_ in ("all", f"half={'ab'[i % 2]}")]
        recall = np.array([(1 + (i * 7) % 10) / 10 for i in chosen])
        matches = np.array([float((i * 7) % 10 == 9) for i in chosen])
        names = [f"cluster {CLUSTERS[i]}" if CLUSTERS[i] else f"row {IDS[i]}" for i in chosen]
        for field, x in (("recall", recall), ("match", matches)):
            mean, low, high, method = found[field, slice_]
            assert mean == pytest.approx(x.mean(), abs=1e-13)
            # What comparisons and gates take of the same values.
            expected = mean_interval(x, codes_of(names, len(names)))
            assert method == expected.method == "cluster-bounded-mean"
            assert (low, high) == pytest.approx(expected[:2], abs=1e-6)


def test_clusters_of_one_row_are_no_clusters(tmp_path):
    """With one row per cluster the two formulas are the same."""
    single = aggregates(tmp_path / "single", [f"c{i}" for i in range(12)])
    plain = aggregates(tmp_path / "plain", [None] * 12)
    assert (single["recall", "all"][3], plain["recall", "all"][3]) == ("cluster-bounded-mean", "bounded-mean")
    assert single["recall", "all"][:3] == pytest.approx(plain["recall", "all"][:3], abs=1e-6)
    assert plain["match", "all"][3] == "clopper-pearson"


def test_one_cluster_has_no_interval(home):
    mean, *interval = aggregates(home, ["a"] * 12)["recall", "all"]
    assert mean == pytest.approx(np.mean([(1 + (i * 7) % 10) / 10 for i in range(12)]), abs=1e-13)
    assert interval == [None, None, None]


def test_one_row_has_no_interval(home):
    row = {"id": "1", "answer": "a b", "references": "a c"}
    done = run(home, [row], ["rouge_l", "exact_match", "bleu"])
    found = query(
        home,
        "SELECT field, n_scored, ci_low, ci_high, ci_method FROM report_scores WHERE report_id = ?",
        [done.ids[0]],
    )
    fields = ["bleu", "corpus_bleu", "f1", "match", "precision", "recall"]
    assert sorted(found) == [(field, 1, None, None, None) for field in fields]


def test_a_release_without_a_single_number(home):
    rows = [{"id": str(i), "answer": "a", "references": "a"} for i in range(3)]
    source = source_of(home, rows)
    done = run(home, source, ["rouge_l", "bleu"], failing={"rouge_l", "bleu"})
    found = query(home, "SELECT DISTINCT * EXCLUDE (metric, field) FROM report_scores")
    # What the failed rows could do is everything: from 0 to 1.
    nothing = (None, None, None, None)
    assert found == [(done.ids[0], "d", "all", 3, 0, 3, 0, 0, 0.0, *nothing, 0.0, 1.0, None, None, None)]
    assert query(home, "SELECT metric, field FROM report_scores ORDER BY ALL") == [
        ("bleu", "bleu"), ("rouge_l", "f1"), ("rouge_l", "precision"), ("rouge_l", "recall"),
    ]  # fmt: skip


def test_rows_that_were_not_scored_are_skipped_and_counted(home):
    old = [{"id": str(i), "answer": f"a {i}", "references": f"a {i} b"} for i in range(3)]
    run(home, old, ["bleu"], failing={"bleu"})
    new = [*old, {"id": "new", "answer": "x", "references": "x"}]
    done = run(home, new, ["bleu"], only_failed=True)
    assert [report.status for report in done.reports] == ["PARTIAL"]
    found = query(home, "SELECT sample_id, value IS NULL, status, reason FROM scores WHERE report_id = ?", done.ids)
    reason = "not scored yet: only failed rows were asked for"
    assert sorted(found) == [*((str(i), False, "scored", None) for i in range(3)), ("new", True, "skipped", reason)]
    counts = query(
        home,
        "SELECT n_total, n_scored, n_failed, n_undefined, n_skipped, coverage FROM report_scores WHERE report_id = ?",
        done.ids,
    )
    assert counts == [(4, 3, 0, 0, 1, 0.75)] * 2
    [(mean, low, high)] = query(
        home,
        "SELECT mean, bound_low, bound_high FROM report_scores WHERE report_id = ? AND field = 'bleu'",
        done.ids,
    )
    assert 0 < mean < 1
    assert (low, high) == pytest.approx((3 * mean / 4, (3 * mean + 1) / 4), abs=1e-12)
