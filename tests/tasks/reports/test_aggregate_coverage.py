"""What reports say of few, clustered, unscored and labelled rows, of models that answered, and of kills."""

import sys
from itertools import count

import numpy as np
import pytest

from answerkey import METRICS
from answerkey.metrics_core.decide.clustered import codes_of, mean_interval
from answerkey.metrics_core.decide.intervals import clopper_pearson
from answerkey.metrics_core.measurement import Failed, Measurement, Scored, Skipped, Undefined
from answerkey.tasks.compare.compare import compare
from answerkey.tasks.load.load import Source
from answerkey.tasks.publish.page.build import build_page
from answerkey.tasks.publish.page.markdown import as_markdown
from answerkey.tasks.reports.report import list_reports, read_reports
from answerkey.tasks.warehouse.home import Home
from tests.judge_server import JudgeServer, Reply
from tests.kit.processes import finished
from tests.tasks.comparing_help import answer, release
from tests.tasks.judging_help import MODEL, judged, wordy
from tests.tasks.staging_help import check_whole, jsonl, query, run, source_of

GOOD, BAD = Scored({"match": 1.0}), Scored({"match": 0.0})
NOTHING = Undefined("no reference")
BUDGET = Skipped("budget used up: 80 calls (max_calls)")


def failed(code, message="the server had an error: 5"):
    return Failed(code, message, 6)


def says(name, outcomes):
    """The metric called `name`, which gives each sample the outcome that its answer numbers."""

    class Says(METRICS[name]):
        def measure(self, samples):
            return [
                Measurement(sample.sample_id, self.name, self.signature, outcomes[int(sample.answer)])
                for sample in samples
            ]

    return Says()


def reported(home, outcomes, releases=None, **options):
    """Run with these outcomes by metric, in parts called after `releases`; the reports, in whose pages is the same."""
    names = releases or ["r"] * max(map(len, outcomes.values()))
    rows = [{"id": str(i), "answer": str(i), "reference": "x", "release": name} for i, name in enumerate(names)]
    completed = run(home, rows, [says(*one) for one in outcomes.items()], **options)
    reports = read_reports(home, completed.ids)
    assert [(ref.status, ref.message) for ref in completed.reports] == [(one.status, one.message) for one in reports]
    page = as_markdown(build_page(home, completed.ids, most_samples=0))
    for one in reports:
        assert not one.message or f"- {one.release}: {one.message.replace('_', chr(92) + '_')}\n" in page
    return {one.release: (one.status, one.message) for one in reports}


CASES = {
    "all": ([GOOD] * 20, "COMPLETE", None),
    "enough": ([GOOD] * 19 + [failed("timeout")], "COMPLETE", "contains: 1 of 20 not scored: 1 timeout"),
    "too few": ([GOOD] * 18 + [failed("timeout")] * 2, "PARTIAL", "contains: 2 of 20 not scored: 2 timeout"),
    "undefined rows need no score": ([GOOD] * 3 + [NOTHING] * 17, "COMPLETE", None),
    "nor do they count": (
        [GOOD] * 18 + [NOTHING] * 10 + [failed("http_500"), failed("http_500", "another: text")],
        "PARTIAL",
        "contains: 2 of 20 not scored: 2 http_500",
    ),
    "no row to cover": ([NOTHING] * 4, "COMPLETE", None),
    "one skipped row": (
        [GOOD] * 99 + [BUDGET],
        "PARTIAL",
        "contains: 1 of 100 not scored: 1 budget used up: 80 calls (max_calls)",
    ),
    "several reasons": (
        [GOOD] * 20 + [failed("http_500")] * 2 + [BUDGET] * 30 + [failed(code) for code in "dcba"],
        "PARTIAL",
        "contains: 36 of 56 not scored: 30 budget used up: 80 calls (max_calls), 2 http_500, 1 a, 3 for other reasons",
    ),
}


def test_status_and_message_of_each_release(home):
    outcomes = [one for case, _, _ in CASES.values() for one in case]
    releases = [name for name, (case, _, _) in CASES.items() for _ in case]
    assert reported(home, {"contains": outcomes}, releases) == {name: tuple(rest) for name, (_, *rest) in CASES.items()}


def test_a_mean_of_the_rows_with_a_score_holds_for_all_rows_or_is_not_given(home):
    cases = {
        # The outcomes, and the mean with its interval: the exact one of the scored rows, with 0 and 1 for the others.
        "19 of 20": ([GOOD] * 19 + [failed("timeout")], (1.0, 0.824, 1.0)),
        "18 of 20": ([GOOD] * 18 + [failed("timeout")] * 2, (1.0, 0.9 * 0.815, 1.0)),
        "12 of 20": ([GOOD] * 12 + [BUDGET] * 8, (1.0, 0.6 * 0.735, 1.0)),
        "half are bad": ([GOOD, BAD] * 6 + [BUDGET] * 8, (0.5, 0.6 * 0.211, 0.6 * 0.789 + 0.4)),
        "4 of 20": ([GOOD] * 4 + [failed("timeout")] * 16, (None, 0.2 * 0.398, 1.0)),
        "blank, so free": ([BAD] * 9 + [BUDGET] * 224, (None, 0.0, 9 / 233 * 0.336 + 224 / 233)),
        "none of 4": ([failed("timeout")] * 4, (None, None, None)),
        "undefined": ([GOOD] * 4 + [NOTHING] * 96, (1.0, 0.398, 1.0)),
    }
    outcomes = [one for case, _ in cases.values() for one in case]
    reported(home, {"contains": outcomes}, [name for name, (case, _) in cases.items() for _ in case])
    shown = "SELECT release, mean, ci_low, ci_high FROM report_scores WHERE slice = 'all'"
    found = {release: tuple(rest) for release, *rest in home.rows(shown)}
    assert found == {
        name: tuple(None if one is None else pytest.approx(one, abs=0.001) for one in expected)
        for name, (_, expected) in cases.items()
    }


# Intervals where rows are few, or come in clusters and do not count as independent.


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
    completed = run(home, source, ["rouge_l", "exact_match"])
    found = query(
        home,
        "SELECT field, slice, mean, ci_low, ci_high, ci_method FROM report_scores WHERE report_id = ?",
        [completed.ids[0]],
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


def test_a_release_without_a_single_number(home):
    rows = [{"id": str(i), "answer": "a", "references": "a"} for i in range(3)]
    source = source_of(home, rows)
    completed = run(home, source, ["rouge_l", "bleu"], failing={"rouge_l", "bleu"})
    found = query(home, "SELECT DISTINCT * EXCLUDE (metric, field) FROM report_scores")
    # What the failed rows could do is everything: from 0 to 1.
    nothing = (None, None, None, None)
    assert found == [(completed.ids[0], "d", "all", 3, 0, 3, 0, 0, 0.0, *nothing, 0.0, 1.0, None, None, None)]
    assert query(home, "SELECT metric, field FROM report_scores ORDER BY ALL") == [
        ("bleu", "bleu"), ("rouge_l", "f1"), ("rouge_l", "precision"), ("rouge_l", "recall"),
    ]  # fmt: skip


def test_rows_that_were_not_scored_are_skipped_and_counted(home):
    old = [{"id": str(i), "answer": f"a {i}", "references": f"a {i} b"} for i in range(3)]
    run(home, old, ["bleu"], failing={"bleu"})
    new = [*old, {"id": "new", "answer": "x", "references": "x"}]
    completed = run(home, new, ["bleu"], only_failed=True)
    assert [report.status for report in completed.reports] == ["PARTIAL"]
    found = query(
        home, "SELECT sample_id, value IS NULL, status, reason FROM scores WHERE report_id = ?", completed.ids
    )
    reason = "not scored yet: only failed rows were asked for"
    assert sorted(found) == [*((str(i), False, "scored", None) for i in range(3)), ("new", True, "skipped", reason)]
    counts = query(
        home,
        "SELECT n_total, n_scored, n_failed, n_undefined, n_skipped, coverage FROM report_scores WHERE report_id = ?",
        completed.ids,
    )
    assert counts == [(4, 3, 0, 0, 1, 0.75)] * 2
    [(mean, low, high)] = query(
        home,
        "SELECT mean, bound_low, bound_high FROM report_scores WHERE report_id = ? AND field = 'bleu'",
        completed.ids,
    )
    assert 0 < mean < 1
    assert (low, high) == pytest.approx((3 * mean / 4, (3 * mean + 1) / 4), abs=1e-12)


# Labels of people are a metric field like any other, where there are labels.


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


def test_a_release_without_labels_beside_one_with_them(home):
    rows = [answer(i, "yes", True, release="old") for i in range(3)]
    rows += [answer(i, "yes", release="new") | {"correct": None} for i in range(3)]
    source = source_of(home, rows, paths={"label": "correct"})
    run(home, source, ["exact_match"])
    found = query(
        home, "SELECT release, n_scored, n_undefined, mean FROM report_scores WHERE metric = 'label' ORDER BY ALL"
    )
    assert found == [("new", 0, 3, None), ("old", 3, 0, 1.0)]


# Which models answered for a judge: in the manifest, on the page where they were several, and between two reports.


def rows_of_models(release):
    return [
        {"id": f"q{i:02}", "question": f"Q{i}?", "answer": f"It is {i}, says {release}.", "release": release}
        | {"references": [f"It is {i}."]}
        for i in range(12)
    ]


@pytest.mark.nightly
def test_models_that_answered_are_recorded_and_a_change_is_told(tmp_path):
    served = count()

    def changing(body):
        """The provider moves its name to another model after nine answers about the old release."""
        return Reply(wordy(body), model="m-2026-05" if next(served) < 9 else "m-2026-08")

    home = Home(tmp_path)
    with JudgeServer(changing) as server:
        asked = judged(server.url, concurrency=1)
        label = f"{MODEL}@127.0.0.1:{server.port}/v1"
        old = run(tmp_path, rows_of_models("old"), ["meaning_match"], options=asked)
        new = run(tmp_path, rows_of_models("new"), ["meaning_match"], options=asked)
    before, after = (one.reports[0].report_id for one in (old, new))
    noted = [
        report.manifest["judge"]["answered"]["meaning_match"][label] for report in read_reports(home, [before, after])
    ]
    fingerprints = {"fp_judge_server": 12}
    assert noted == [
        {"models": {"m-2026-05": 9, "m-2026-08": 3}, "fingerprints": fingerprints},
        {"models": {"m-2026-08": 12}, "fingerprints": fingerprints},
    ]
    page = as_markdown(build_page(home, [before]))
    assert "A judge was several models within one report: its scores mix theirs" in page
    assert f"several models answered for {label}: m-2026-05 (9 replies), m-2026-08 (3 replies)" in page.replace(
        "&#8203;", ""
    )
    assert "A judge was several models" not in as_markdown(build_page(home, [after]))
    told = f"meaning_match: for the judge {label}, m-2026-05, m-2026-08 answered before and m-2026-08 does now"
    assert told in compare(home, before, after).warnings


# A process that is killed within the transaction of a report leaves everything as it was.


COUNTS = "SELECT (SELECT count(*) FROM reports), (SELECT count(*) FROM scores), (SELECT count(*) FROM report_scores)"
KILLS = 18
SCRIPT = """
import os, sys
from pathlib import Path
from answerkey.tasks.reports import aggregate
from answerkey.tasks.load.load import Source
from answerkey.tasks.warehouse.home import Home
from tests.tasks.staging_help import query, run

home, file = Path(sys.argv[1]), sys.argv[2]
real = aggregate.aggregate

class Killing(dict):
    left = 0
    def __getitem__(self, name):
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), 9)
        return super().__getitem__(name)

def killed(given, kills):
    def again(*arguments, **named):
        # The process that imports has no connection, so that each of its children can have one.
        for kill in range(1, kills + 1):
            child = os.fork()
            if not child:
                aggregate._SQL = Killing(aggregate._SQL)
                aggregate._SQL.left = kill
                real(*arguments, **named)
                os._exit(0)
            print(os.waitpid(child, 0)[1], *query(home, given)[0], flush=True)
        return real(*arguments, **named)
    return again

import tests.tasks.staging_help as steps
steps.aggregate = killed(sys.argv[3], int(sys.argv[4]))
run(home, Source(file), ["exact_match", "bleu"])
"""


@pytest.mark.nightly
def test_a_kill_at_any_statement_of_the_transaction_of_a_report_loses_nothing(tmp_path):
    home, rows = Home(tmp_path / "home"), [
        {"id": str(i), "answer": f"a {i % 3}", "reference": f"a {i % 2}", "release": "r", "repeat": repeat}
        for i in range(30) for repeat in (1, 2)
    ]  # fmt: skip
    file = jsonl(tmp_path / "d.jsonl", rows)
    run(home, Source(file), ["exact_match", "bleu"])
    [before] = query(home, COUNTS)
    command = [sys.executable, "-c", SCRIPT, str(home), file, COUNTS, str(KILLS)]
    process = finished(command, check=True)
    lines = [tuple(map(int, line.split())) for line in process.stdout.splitlines()]
    assert lines == [(9, *before)] * KILLS
    assert [report_id for report_id, *_ in list_reports(home)] == ["d/r/v1", "d/r/v2"]
    assert query(home, COUNTS) == [tuple(2 * n for n in before)]
    check_whole(home)
