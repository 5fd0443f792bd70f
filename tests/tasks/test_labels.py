"""Labels in the warehouse: draws, verdicts from them, history, carrying over, CSV, forgetting."""

import csv
from pathlib import Path

import numpy as np
import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.compare.compare import compare_all
from answerkey.tasks.forget import forget
from answerkey.tasks.gate.calibrate import calibrate
from answerkey.tasks.gate.gate import gate
from answerkey.tasks.gate.labelling import LabellingSession
from answerkey.tasks.gate.queue import LabelPlan, label_queue
from answerkey.tasks.label_files import export_labels, import_labels
from answerkey.tasks.labels import NewLabel, Queue, add_labels, drawn_labels, queued_answers
from answerkey.tasks.warehouse.home import Home
from tests.tasks.labelling_help import POLICY, PRIMARY, made_releases, verdict_of
from tests.tasks.staging_help import check_whole, query


def label(home: Home, queue: Queue, until: int, annotator: str = "AB") -> None:
    """Label every answer of a queue up to a place that has no label yet."""
    answers = [one for one in queued_answers(home, queue, until) if not one.complete and annotator not in one.labels]
    add_labels(home, [NewLabel(a.sample_key, annotator, verdict_of(a.answer or "")) for a in answers], queue.id)  # type: ignore[arg-type]


def queued(folder: Path, plan: LabelPlan, n: int, **how: int) -> tuple[Home, Queue]:
    """A home with the two releases, and a queue of their answers."""
    made_releases(folder, n, **how)
    return Home(folder), label_queue(Home(folder), "old", "new", POLICY, plan)


def test_a_queue_has_every_question_once_with_its_probability_at_each_analysis(tmp_path: Path) -> None:
    home, queue = queued(tmp_path, LabelPlan(seed=3, design="stratified"), 120, same=20, exact=4)
    assert (queue.design, queue.analyses) == ("stratified", (25, 35, 49, 69, 100))
    rows = query(tmp_path, "SELECT place, stratum, probabilities FROM label_questions ORDER BY place")
    assert [place for place, *_ in rows] == [0] * 20 + list(range(1, 101))
    assert {tuple(chances) for place, _, chances in rows if place == 0} == {(1.0,) * 5}
    drawn = [row for row in rows if row[0]]
    for analysis, until in enumerate(queue.analyses):
        for stratum in {stratum for _, stratum, _ in drawn}:
            own = [row for row in drawn if row[1] == stratum]
            share = sum(place <= until for place, *_ in own) / len(own)
            assert all(chances[analysis] == share for *_, chances in own)
    first = {stratum: chances[0] for _, stratum, chances in drawn}
    assert set(first) == {"worse", "same"} and first["worse"] > 1.6 * first["same"]
    assert label_queue(home, "old", "new", POLICY, LabelPlan()) == queue


def test_labels_decide_at_the_analyses_alone_and_the_verdict_says_how_they_came_about(tmp_path: Path) -> None:
    home, queue = queued(tmp_path, LabelPlan(seed=1), 120, same=20)
    label(home, queue, 24)
    assert drawn_labels(home, queue.old, queue.new) is None
    assert gate(home, "old", "new", POLICY).verdict.basis == "text"
    label(home, queue, 30)
    verdict = gate(home, "old", "new", POLICY).verdict
    assert (verdict.outcome, verdict.basis, verdict.rules[0].n_labelled) == ("FAIL", "people and judge", 25)
    [how, *_] = verdict.notes
    assert how.startswith("25 questions were drawn at random and labelled by AB")
    assert "20 more have the same answer in both releases" in how and "analysis 1 of 5 of the labels" in how
    # What is labelled beyond an analysis waits for the next one.
    assert drawn_labels(home, queue.old, queue.new).n_drawn == 25  # type: ignore[union-attr]
    check_whole(home)
    with pytest.raises(UserError, match="has been analysed: go on with it"):
        label_queue(home, "old", "new", POLICY, LabelPlan(labels=40))


def test_a_changed_label_is_a_new_row_and_people_who_differ_have_none_until_it_is_settled(tmp_path: Path) -> None:
    home, queue = queued(tmp_path, LabelPlan(labels=2, annotators=2), 40)
    [first, *_] = queued_answers(home, queue, 1)

    def now() -> list[tuple[object, ...]]:
        return query(tmp_path, "SELECT verdict, n_annotators, adjudicated FROM current_labels")

    add_labels(home, [NewLabel(first.sample_key, "Ann", "right")], queue.id)
    add_labels(home, [NewLabel(first.sample_key, "Ann", "wrong")], queue.id)
    assert now() == [("wrong", 1, False)]
    add_labels(home, [NewLabel(first.sample_key, "Bob", "right")], queue.id)
    assert now() == [(None, 2, False)]
    add_labels(home, [NewLabel(first.sample_key, "Bob", "cannot tell")], queue.id, adjudicates=True)
    assert now()[0][0] == "cannot tell"
    assert query(tmp_path, "SELECT count(*) FROM labels") == [(4,)]
    with pytest.raises(UserError, match="has this key"):
        add_labels(home, [NewLabel("none", "Ann", "right")], queue.id)


def test_labels_count_for_a_later_release_that_gives_the_same_answer(tmp_path: Path) -> None:
    home, queue = queued(tmp_path, LabelPlan(labels=30), 60)
    label(home, queue, 30)
    made_releases(tmp_path, 60, wrong=3, names=("old", "newer"))
    later = label_queue(home, "old", "newer", POLICY, LabelPlan())
    known = query(tmp_path, f"SELECT count(*) FROM label_questions WHERE queue = '{later.id}' AND place = 0")[0][0]
    # Of the labelled answers, the newer release repeats those that are right, or wrong, in both.
    assert 0 < known < 30
    asked = [one for one in queued_answers(home, later, later.analyses[-1]) if not one.complete]
    assert len(asked) < 2 * later.analyses[-1]


@pytest.mark.nightly
def test_a_session_stops_where_too_many_labels_would_be_needed_and_may_go_on(tmp_path: Path) -> None:
    home, queue = queued(tmp_path, LabelPlan(), 120, wrong=1000)
    label(home, queue, 49)
    assert LabellingSession(home, queue).state("AB")["place"] == 50
    label(home, queue, 69)
    session = LabellingSession(home, queue)
    stopped = session.state("AB")
    assert (stopped["kind"], stopped["analysed"], stopped["outcome"]) == ("stopped", 69, "INCONCLUSIVE")
    assert stopped["more"] > 120 - 69
    session.go_on()
    assert session.state("AB")["place"] == 70
    label(home, queue, 120)
    assert LabellingSession(home, queue).state("AB")["analysed"] == 120


@pytest.mark.nightly
def test_people_who_cannot_tell_leave_a_verdict_incomplete(tmp_path: Path) -> None:
    home, queue = queued(tmp_path, LabelPlan(labels=30), 60)
    untold = [one.sample_key for one in queued_answers(home, queue, 3)]
    add_labels(home, [NewLabel(key, "AB", "cannot tell") for key in untold], queue.id)
    label(home, queue, 30)
    verdict = gate(home, "old", "new", POLICY).verdict
    assert (verdict.outcome, verdict.rules[0].n_labelled) == ("INCOMPLETE", 27)
    assert "people cannot judge 3 of 30 drawn questions" in verdict.sentence
    assert "of 3 people cannot tell, and these are left out" in verdict.notes[0]


@pytest.mark.nightly
def test_comparisons_and_calibrations_read_drawn_labels(tmp_path: Path) -> None:
    home, queue = queued(tmp_path, LabelPlan(labels=30, design="random"), 60)
    label(home, queue, 30)
    [compared] = compare_all(home, [(queue.old, queue.new)])
    [row] = [row for row in compared.rows if row.name == PRIMARY and row.slice == "all"]
    assert (row.n_labelled, row.difference) == (30, 0.0)
    assert row.people is not None and row.people_high is not None and row.people < -0.2 and row.people_high < 0
    calibration = calibrate(home, PRIMARY, reports=[queue.old, queue.new])
    assert [part.n for part in calibration.parts] == [60, 30, 30]


def test_csv_goes_out_blind_and_comes_back_whole_or_not_at_all(tmp_path: Path) -> None:
    made_releases(tmp_path, 60)
    home, file = Home(tmp_path), tmp_path / "labels.csv"
    with pytest.raises(UserError, match="there is no queue"):
        export_labels(home, "old", "new", file)
    label_queue(home, "old", "new", POLICY, LabelPlan())
    assert export_labels(home, "old", "new", file) == (50, 0)
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert not {"old", "new"} & {value for row in rows for value in row.values()}
    for row in rows:
        row["verdict"] = verdict_of(row["answer"])

    def written(changed: dict[str, str], at: int = 7) -> Path:
        with file.open("w", encoding="utf-8", newline="") as out:
            writer = csv.DictWriter(out, rows[0])
            writer.writeheader()
            writer.writerows(row | changed if number == at else row for number, row in enumerate(rows, 1))
        return file

    for changed, why in (
        ({"verdict": "maybe"}, "row 7, verdict: 'maybe'; write right, wrong, cannot tell"),
        ({"sample_key": "x"}, "row 7: sample_key belongs to no answer that queue"),
    ):
        with pytest.raises(UserError, match=why):
            import_labels(home, written(changed), "AB")
    with pytest.raises(UserError, match="row 1, annotator: no name"):
        import_labels(home, written({}))
    assert query(tmp_path, "SELECT count(*) FROM labels") == [(0,)]
    assert import_labels(home, written({}), "=AB") == 50
    assert import_labels(home, file, "=AB") == 0
    # A spreadsheet would run the name; it comes back as it was.
    export_labels(home, "old", "new", file)
    assert file.read_text(encoding="utf-8").count(",'=AB,") == 50
    assert import_labels(home, file) == 0
    assert gate(home, "old", "new", POLICY).verdict.basis == "people and judge"


def test_forgetting_takes_labels_and_questions_along(tmp_path: Path) -> None:
    home, queue = queued(tmp_path, LabelPlan(labels=30), 30)
    label(home, queue, 30)
    before = query(tmp_path, "SELECT count(*) FROM labels")[0][0]
    forget(home, "d", sample="q003")
    assert query(tmp_path, "SELECT count(*) FROM labels")[0][0] == before - 2
    assert query(tmp_path, "SELECT count(*) FROM label_questions") == [(29,)]
    forget(home, "d", release="new")
    assert query(tmp_path, "SELECT count(*) FROM label_queues") == [(0,)]
    assert query(tmp_path, "SELECT count(*) FROM label_questions") == [(0,)]
    assert query(tmp_path, "SELECT count(*) FROM labels")[0][0] == 29
    check_whole(home)


def test_nothing_to_label_and_fields_that_cannot_be_checked_are_one_line(tmp_path: Path) -> None:
    made_releases(tmp_path, 30, same=29)
    with pytest.raises(UserError, match="every question has its labels"):
        label_queue(Home(tmp_path), "old", "new", POLICY, LabelPlan())
    with pytest.raises(UserError, match="at least 2 questions and 1 annotator"):
        label_queue(Home(tmp_path), "old", "new", POLICY, LabelPlan(labels=1))
    assert np.array_equal(query(tmp_path, "SELECT count(*) FROM label_queues"), [(0,)])
