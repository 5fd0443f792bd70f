"""Several answers of one release to one question, through the steps of a run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from answerkey.metrics_core.gate.policy import parse_policy
from answerkey.tasks.compare.compare import compare
from answerkey.tasks.compare.examples import largest_changes
from answerkey.tasks.gate.gate import gate
from answerkey.tasks.load.load import Source
from answerkey.tasks.releases.export import stored_source
from answerkey.tasks.validate.contract import Contract
from answerkey.tasks.warehouse.home import Home
from tests.tasks.comparing_help import row_of
from tests.tasks.staging_help import Done, Row, jsonl, query, run

RIGHT = {0: 3, 1: 3, 2: 2, 3: 1, 4: 0}
"""How many of three answers are right, by the question's number modulo 5."""


def answers(release: str, names: Sequence[object] = (1, 2, 3), n: int = 20) -> list[Row]:
    """`n` questions with an answer for each of `names`."""
    return [
        {
            "id": f"q{question:02}", "question": f"Question {question}?", "reference": "yes", "release": release,
            "repeat": name, "answer": "yes" if place < RIGHT[question % 5] else f"no {place}",
        }
        for question in range(n)
        for place, name in enumerate(names)
    ]  # fmt: skip


def made(home: Path, rows: Sequence[Row], **more: Any) -> Done:
    return run(home, Source(jsonl(home / "d.jsonl", rows), dataset="d"), ["exact_match"], **more)


def test_repeats_are_kept_scored_once_and_belong_to_one_sample(tmp_path: Path) -> None:
    done = made(tmp_path, answers("v1"))
    [release] = done.committed.releases
    assert (release.n_rows, release.n_questions, release.repeats) == (60, 20, 3)
    assert query(tmp_path, "SELECT count(*) FROM quarantine") == [(0,)]
    assert query(tmp_path, "SELECT count(*), count(DISTINCT sample_id) FROM samples") == [(20, 20)]
    assert query(tmp_path, "SELECT repeat, count(*), sum(value) FROM scores GROUP BY ALL ORDER BY ALL") == [
        (1, 20, 16.0), (2, 20, 12.0), (3, 20, 8.0),
    ]  # fmt: skip
    # Equal answers to one question are measured once: 1, 1, 2, 3 and 3 different ones.
    assert query(tmp_path, "SELECT count(*) FROM measurements") == [(4 * (1 + 1 + 2 + 3 + 3),)]
    [(version,)] = query(tmp_path, "SELECT version FROM datasets")
    one = made(tmp_path / "one", [row for row in answers("v1") if row["repeat"] == 1])
    assert one.committed.dataset_version == version
    again = made(tmp_path, answers("v1"))
    assert again.plan.n_todo == (("exact_match", 0),)
    assert again.committed == done.committed
    assert query(tmp_path, "SELECT count(*) FROM answers") == [(60,)]


def test_one_repeat_is_a_release_without_repeats(tmp_path: Path) -> None:
    with_column = made(tmp_path / "a", answers("v1", [1]))
    rows = [{name: value for name, value in row.items() if name != "repeat"} for row in answers("v1", [1])]
    assert with_column.committed == made(tmp_path / "b", rows).committed


def test_repeats_with_any_names_are_numbered_in_their_order(tmp_path: Path) -> None:
    named = made(tmp_path / "a", answers("v1", ["a", 10, 9]))
    found = query(tmp_path / "a", "SELECT repeat, answer FROM answers WHERE sample_id = 'q03' ORDER BY repeat")
    assert found == [(1, "no 2"), (2, "no 1"), (3, "yes")]
    assert named.committed.releases[0].repeats == 3
    # Numbers from 1 stay what they are, also where one is missing.
    made(tmp_path / "b", [row for row in answers("v1") if (row["id"], row["repeat"]) != ("q03", 1)])
    found = query(tmp_path / "b", "SELECT repeat, answer FROM answers WHERE sample_id = 'q03' ORDER BY repeat")
    assert found == [(2, "no 1"), (3, "no 2")]


def test_a_report_with_repeats_is_made_again_from_the_warehouse(tmp_path: Path) -> None:
    done = made(tmp_path, answers("v1"))
    again = run(tmp_path, stored_source(Home(tmp_path), done.ids[0], tmp_path / "stored"), ["exact_match"])
    assert again.committed == done.committed
    assert again.ids == ["d/v1/v2"]


def test_releases_with_other_numbers_of_answers_are_compared_by_question(tmp_path: Path) -> None:
    once = answers("old", [1])
    done = made(tmp_path, [*once, *answers("new")])
    pair = compare(Home(tmp_path), *done.ids)
    row = row_of(pair, "exact_match.match")
    # Means per question: 1, 1, 1, 1, 0 before, and 1, 1, 2/3, 1/3, 0 after.
    assert (row.n_common, row.old, round(row.new or 0, 12), row.fixed) == (20, 0.8, 0.6, None)
    assert row.low is not None and row.high is not None and row.low < -0.2 < row.high
    worst, *_ = largest_changes(Home(tmp_path), *done.ids, "exact_match.match")
    assert (worst.sample_id, worst.old, round(worst.new, 6)) == ("q03", 1.0, 0.333333)
    assert (worst.old_answer, worst.new_answer) == ("yes", "[1] yes\n[2] no 1\n[3] no 2")


def test_answers_left_out_of_a_question_do_not_pay(tmp_path: Path) -> None:
    policy = parse_policy({"primary": "exact_match.match", "margin": 0.05}, "policy")
    # The same answers, with the wrong ones left out, not given, or not readable: each question keeps its right ones.
    right = [row for row in answers("dropper") if row["answer"] == "yes" or row["repeat"] == 1]
    unanswered = [
        {**row, "answer": None, "missing_because": "timeout"} if row["answer"] != "yes" and row["repeat"] > 1 else row
        for row in answers("unanswered")
    ]
    damaged = [
        {**row, "answer": "\x00"} if row["answer"] != "yes" and row["repeat"] > 1 else row for row in answers("damaged")
    ]
    honest = answers("honest")
    old = [{**row, "answer": "yes"} for row in answers("old")]
    done = made(tmp_path, [*old, *honest, *right, *unanswered, *damaged], contract=Contract(max_quarantined=1))
    decided = {}
    for report in done.ids[1:]:
        [rule, *_] = gate(Home(tmp_path), done.ids[0], report, policy).verdict.rules
        decided[report.split("/")[1]] = (rule.outcome, round(rule.value or 0, 12))
    # 3, 3, 2, 1 and 0 of 3 right: a mean of 0.6 against 1.
    assert decided == dict.fromkeys(("honest", "dropper", "unanswered", "damaged"), ("FAIL", -0.4))
