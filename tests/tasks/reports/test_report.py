"""Reports are read back whole, by any name that a release can have."""

from dataclasses import astuple

import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.reports.report import latest_run, list_reports, read_pair, read_reports
from answerkey.tasks.warehouse.home import Home
from tests.tasks.staging_help import query, run, source_of

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
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def done(home):
    source = source_of(home, [*ROWS, *BROKEN], "odd", slices=("kind",))
    return run(home, source, ["rouge_l", "bleu", "exact_match"], failing={"exact_match"})


def test_ids_hold_the_names_of_releases_as_they_are(home, done):
    assert done.ids == [f"odd/{release}/v1" for release in ODD]
    reports = read_reports(Home(home), done.ids[::-1])
    assert [report.release for report in reports] == ODD[::-1]
    assert {(report.dataset, report.version, report.status, report.n_total) for report in reports} == {
        ("odd", 1, "PARTIAL", 3)
    }


def test_a_report_holds_what_the_tables_hold(home, done):
    for report in read_reports(Home(home), done.ids):
        stored = query(
            home, "SELECT * EXCLUDE (report_id, release) FROM report_scores WHERE report_id = ?", [report.report_id]
        )
        assert sorted(map(str, map(astuple, report.scores))) == sorted(map(str, stored))
        assert report.dataset_version == done.committed.dataset_version
        assert report.created_at.endswith(" UTC")
        assert report.manifest["run_id"] == done.run_id


def test_scores_stand_in_the_order_that_was_asked_for(home, done):
    [report] = read_reports(Home(home), [done.ids[3]])
    fields = [
        ("rouge_l", "precision"), ("rouge_l", "recall"), ("rouge_l", "f1"),
        ("bleu", "bleu"), ("bleu", "corpus_bleu"), ("exact_match", "match"),
    ]  # fmt: skip
    assert [(score.metric, score.field) for score in report.overall] == fields
    sliced = [score for score in report.scores if score.slice == "kind=k/1"]
    assert [(score.metric, score.field) for score in sliced] == fields
    assert len(report.scores) == 2 * len(fields)


def test_a_report_has_the_checks_and_the_quarantine_of_its_release(home, done):
    one, other = read_reports(Home(home), ["odd/x/v1/v1", "odd/../up/v1"])
    # A row that could not be read has no release yet, so every report of the run shows it.
    assert one.quarantined == (("references_present", 1), ("unreadable", 1))
    assert other.quarantined == (("unreadable", 1),)
    checks = {(check.rule, check.severity, check.success, check.message) for check in done.validation.checks}
    for report, release in ((one, "x/v1"), (other, "../up")):
        assert set(report.checks) <= checks
        own = [message for rule, _, _, message in report.checks if rule in ("same_samples", "length_drift")]
        assert len(own) == 2 and all(repr(release) in message for message in own)


def test_lists_and_latest(home, done):
    assert latest_run(Home(home)) == done.ids
    newer = run(home, source_of(home, ROWS[:1], dataset="odd2"), ["bleu"])
    assert latest_run(Home(home)) == newer.ids == ["odd2/gpt 4/turbo/v1"]
    listed = list_reports(Home(home))
    assert [report_id for report_id, *_ in listed] == done.ids + newer.ids
    assert {status for _, _, _, status in listed} == {"PARTIAL", "COMPLETE"}
    assert [report_id for report_id, *_ in list_reports(Home(home), "odd/")] == done.ids
    assert list_reports(Home(home), "odd/100%") == [row for row in listed if row[0] == "odd/100%_*?/v1"]
    assert list_reports(Home(home), "nothing") == []


def test_a_report_that_is_not_there(home, done):
    with pytest.raises(UserError) as error:
        read_reports(Home(home), [done.ids[0], "odd/none/v1"])
    message = f"odd/none/v1: no such report in {home}; `answerkey report --list` shows what there is"
    assert str(error.value) == message


def test_two_reports_that_can_be_compared_are_about_one_data_set(home, done):
    assert [report.release for report in read_pair(Home(home), *done.ids[:2])] == ODD[:2]
    other = run(home, source_of(home, ROWS[:1], "other"), ["exact_match"]).ids[0]
    with pytest.raises(UserError, match=r"odd/gpt 4/turbo/v1 is about odd, and other/gpt 4/turbo/v1 about other"):
        read_pair(Home(home), done.ids[0], other)
    with pytest.raises(UserError, match="a report cannot be compared with itself"):
        read_pair(Home(home), other, other)
