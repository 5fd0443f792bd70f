"""Labels of people are a metric field like any other, where there are labels."""

from answerkey.metrics_core.statistics.intervals import clopper_pearson
from tests.tasks.comparing_help import answer, release
from tests.tasks.staging_help import query, run, source_of

SCORES = "SELECT sample_id, value, status, reason, signature FROM scores WHERE metric = 'label' AND field = 'correct'"


def test_labels_become_scores_and_aggregates(home):
    labels = [True, False, None, True]
    rows = [answer(i, "yes", kind="ab"[i % 2]) | {"correct": label} for i, label in enumerate(labels)]
    release(home, "one", rows)
    assert query(home, f"{SCORES} ORDER BY sample_id") == [
        ("q000", 1.0, "scored", None, "label|v1"),
        ("q001", 0.0, "scored", None, "label|v1"),
        ("q002", None, "undefined", "not labelled", "label|v1"),
        ("q003", 1.0, "scored", None, "label|v1"),
    ]
    counts = "slice, n_total, n_scored, n_failed, n_undefined, n_skipped, mean, ci_low, ci_high, ci_method"
    found = query(home, f"SELECT {counts} FROM report_scores WHERE metric = 'label' ORDER BY slice")
    low, high, _ = clopper_pearson(2, 3) or (0, 0, "")
    assert found[0] == ("all", 4, 3, 0, 1, 0, 2 / 3, low, high, "clopper-pearson")
    assert [row[:7] for row in found[1:]] == [("kind=a", 2, 1, 0, 1, 0, 1.0), ("kind=b", 2, 2, 0, 0, 0, 0.5)]
    # What is not labelled needs no score, so the report is complete; and the label is its first metric.
    assert query(home, "SELECT status, message FROM reports") == [("COMPLETE", None)]
    [(signatures,)] = query(home, "SELECT json_keys(manifest, '$.signatures') FROM reports")
    assert signatures == ["label", "exact_match"]


def test_without_labels_there_is_no_such_metric(home):
    release(home, "one", [answer(i, "yes") for i in range(3)])
    release(home, "two", [answer(i, "yes") | {"correct": None} for i in range(3)])
    assert query(home, SCORES) == []
    assert query(home, "SELECT DISTINCT metric FROM report_scores") == [("exact_match",)]


def test_a_release_without_labels_beside_one_with_them(home):
    rows = [answer(i, "yes", True, release="old") for i in range(3)]
    rows += [answer(i, "yes", release="new") | {"correct": None} for i in range(3)]
    source = source_of(home, rows, paths={"label": "correct"})
    run(home, source, ["exact_match"])
    found = query(
        home, "SELECT release, n_scored, n_undefined, mean FROM report_scores WHERE metric = 'label' ORDER BY ALL"
    )
    assert found == [("new", 0, 3, None), ("old", 3, 0, 1.0)]
