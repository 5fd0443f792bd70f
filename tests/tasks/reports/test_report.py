"""Reports are read back whole, in time and by any name that a release can have."""

from dataclasses import astuple

import duckdb
import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.reports.report import (
    check_baseline,
    history,
    latest_run,
    list_reports,
    pair_named,
    read_pair,
    read_reports,
    report_named,
)
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.warehouse import FILE
from tests.tasks.comparing_help import answer, release
from tests.tasks.gating_help import Made, warehouse
from tests.tasks.staging_help import query, refusal, run, source_of

FIELD = "exact_match.match"
ODD = ["gpt 4/turbo", "модель №2", "a'b\"c", "../up", "100%_*?", "x/v1", "北京 🚀", "a%2Fb", "' OR 1=1 --"]
ROWS = [
    {"id": str(i), "answer": f"{release} {i}", "references": f"right {i}", "release": release, "kind": "k/1"}
    for i in range(3)
    for release in ODD
]
BROKEN = [
    {"id": "4", "answer": "x", "references": "", "release": "x/v1"},
    {"id": ["5"], "answer": "x", "references": "y", "release": "x/v1"},
]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return Home(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def completed(home):
    source = source_of(home, [*ROWS, *BROKEN], "odd", slices=("kind",))
    return run(home, source, ["rouge_l", "bleu", "exact_match"], failing={"exact_match"})


def test_ids_hold_the_names_of_releases_as_they_are(home, completed):
    assert completed.ids == [f"odd/{release}/v1" for release in ODD]
    reports = read_reports(home, completed.ids[::-1])
    assert [report.release for report in reports] == ODD[::-1]
    assert {(report.dataset, report.version, report.status, report.n_total) for report in reports} == {
        ("odd", 1, "PARTIAL", 3)
    }


def test_a_report_holds_what_the_tables_hold(home, completed):
    for report in read_reports(home, completed.ids):
        stored = query(
            home, "SELECT * EXCLUDE (report_id, release) FROM report_scores WHERE report_id = ?", [report.report_id]
        )
        assert sorted(map(str, map(astuple, report.scores))) == sorted(map(str, stored))
        assert report.dataset_version == completed.committed.dataset_version
        assert report.created_at.endswith(" UTC")
        assert report.manifest["run_id"] == completed.run_id


def test_scores_stand_in_the_order_that_was_asked_for(home, completed):
    [report] = read_reports(home, [completed.ids[3]])
    fields = [
        ("rouge_l", "precision"), ("rouge_l", "recall"), ("rouge_l", "f1"),
        ("bleu", "bleu"), ("bleu", "corpus_bleu"), ("exact_match", "match"),
    ]  # fmt: skip
    assert [(score.metric, score.field) for score in report.overall] == fields
    sliced = [score for score in report.scores if score.slice == "kind=k/1"]
    assert [(score.metric, score.field) for score in sliced] == fields
    assert len(report.scores) == 2 * len(fields)


def test_a_report_has_the_checks_and_the_quarantine_of_its_release(home, completed):
    one, other = read_reports(home, ["odd/x/v1/v1", "odd/../up/v1"])
    # A row that could not be read has no release yet, so every report of the run shows it.
    assert one.quarantined == (("references_present", 1), ("unreadable", 1))
    assert other.quarantined == (("unreadable", 1),)
    checks = {(check.rule, check.severity, check.success, check.message) for check in completed.validation.checks}
    for report, name in ((one, "x/v1"), (other, "../up")):
        assert set(report.checks) <= checks
        own = [message for rule, _, _, message in report.checks if rule in ("same_samples", "length_drift")]
        assert len(own) == 2 and all(repr(name) in message for message in own)


def test_lists_and_latest(home, completed):
    assert latest_run(home) == completed.ids
    newer = run(home, source_of(home, ROWS[:1], dataset="odd2"), ["bleu"])
    assert latest_run(home) == newer.ids == ["odd2/gpt 4/turbo/v1"]
    listed = list_reports(home)
    assert [report_id for report_id, *_ in listed] == completed.ids + newer.ids
    assert {status for _, _, _, status in listed} == {"PARTIAL", "COMPLETE"}
    assert [report_id for report_id, *_ in list_reports(home, "odd/")] == completed.ids
    assert list_reports(home, "odd/100%") == [row for row in listed if row[0] == "odd/100%_*?/v1"]
    assert list_reports(home, "nothing") == []


def test_two_reports_that_can_be_compared_are_about_one_data_set(home, completed):
    assert [report.release for report in read_pair(home, *completed.ids[:2])] == ODD[:2]
    [other] = warehouse(home, [Made(ODD[0], {FIELD: {"0": 1.0}})], "other")
    assert "odd/gpt 4/turbo/v1 is about odd, and other/gpt 4/turbo/v1 about other" in refusal(
        read_pair, home, completed.ids[0], other
    )
    assert "a report cannot be compared with itself" in refusal(read_pair, home, other, other)


@pytest.fixture(scope="module")
def dated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("history")
    release(folder, "old", [answer(i, "yes" if i else None, True) for i in range(4)])
    release(folder, "new", [answer(i, "yes") for i in range(4)])
    release(folder, "old", [answer(i, "yes" if i else None) for i in range(4)], options=dict(blank_answer="undefined"))
    return Home(folder)


def test_reports_in_the_order_of_their_making(dated):
    moments = history(dated, "exact_match.match")
    assert list(moments) == ["d"]
    assert [(one.report_id, one.mean, one.n_scored, one.n_total, one.methods) for one in moments["d"]] == [
        ("d/old/v1", 0.75, 4, 4, 1),
        ("d/new/v1", 1.0, 4, 4, 1),
        ("d/old/v2", 1.0, 3, 4, 2),
    ]
    assert all(one.low <= 1.0 <= one.high for one in moments["d"][1:])


def test_only_reports_that_have_the_field_and_only_the_newest(dated, monkeypatch):
    assert [one.report_id for one in history(dated, "label.correct")["d"]] == ["d/old/v1"]
    monkeypatch.setattr("answerkey.tasks.reports.report.MOST_REPORTS", 2)
    assert [one.report_id for one in history(dated, "exact_match.match")["d"]] == ["d/new/v1", "d/old/v2"]


def test_what_is_not_there(dated):
    with pytest.raises(UserError, match=r"^label\.wrong: the reports in .* have exact_match\.match, label\.correct$"):
        history(dated, "label.wrong")
    with pytest.raises(UserError, match=r"^label\.correct: the reports on e in .* have no numbers$"):
        history(dated, "label.correct", "e")


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """Releases a (v1, v2) and b on data set d, release a on data set e, and one whose name looks like an id."""
    folder = tmp_path_factory.mktemp("names")
    with Home(folder).warehouse.writing() as warehouse:
        for dataset, name, version in (("d", "a", 1), ("d", "a", 2), ("d", "b", 1), ("e", "a", 1), ("e", "d/a/v1", 1)):
            warehouse.execute(
                "INSERT INTO reports BY NAME SELECT ? AS report_id, ? AS dataset, 'x' AS dataset_version, "
                "? AS release, ? AS version, now() AS created_at, 'COMPLETE' AS status, '{}' AS manifest",
                [f"{dataset}/{name}/v{version}", dataset, name, version],
            )
    return Home(folder)


def test_names(named):
    assert report_named(named, "d/a/v1") == "d/a/v1"
    assert report_named(named, "b") == "d/b/v1"
    assert report_named(named, "d/a") == "d/a/v2"
    assert report_named(named, "a", "e") == "e/a/v1"
    assert refusal(report_named, named, "a") == "a: has reports on d, e; write DATASET/a"
    assert refusal(report_named, named, "c").startswith("c: no such report or release in ")
    assert refusal(report_named, named, "b", "e").startswith("b: no such report or release on e in ")


def test_one_name_says_which_data_set_the_other_is_about(named):
    assert pair_named(named, "a", "b") == ("d/a/v2", "d/b/v1")
    assert pair_named(named, "e/a/v1", "a") == ("e/a/v1", "e/a/v1")
    assert pair_named(named, "d/a/v1", "a", "d") == ("d/a/v1", "d/a/v2")
    assert "has reports on d, e" in refusal(pair_named, named, "a", "a")


def test_a_baseline_is_found_before_anything_is_scored(named, tmp_path):
    accepted = str(tmp_path / "accepted.parquet")
    duckdb.sql("SELECT unnest(['x', 'y']) AS release").write_parquet(accepted)
    for name in ("x", "b", "d/a/v1"):
        check_baseline(named, name, "d", accepted)
    assert refusal(check_baseline, named, "z", "d", accepted).startswith("z: no such report or release on d")
    assert refusal(check_baseline, named, "e/a/v1", "d", accepted).startswith("e/a/v1: no such report or release on d")
    with pytest.raises(UserError, match=r"^b: nothing to compare with; this run has x, y, and .* no reports$"):
        check_baseline(Home(tmp_path), "b", "d", accepted)
    assert not (tmp_path / FILE).exists()


def test_a_name_that_is_nearly_right_is_suggested(named):
    with pytest.raises(UserError, match=r"^d/a/v9: no such report .*; did you mean d/a/v[12]\?$"):
        report_named(named, "d/a/v9")
    assert refusal(report_named, named, "gone").endswith("; `answerkey report --list` shows them")
