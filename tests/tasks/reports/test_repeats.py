"""Several answers of one release to one question, through the steps of a run."""

import pytest

from answerkey.metrics_core.decide.intervals import clopper_pearson
from answerkey.metrics_core.policy_file import parse_policy
from answerkey.tasks.compare.compare import compare
from answerkey.tasks.compare.examples import largest_changes
from answerkey.tasks.gate.gate import gate
from answerkey.tasks.publish.page.build import build_page
from answerkey.tasks.reports.report import read_reports
from answerkey.tasks.validate.contract import Contract
from tests.tasks.comparing_help import row_of
from tests.tasks.staging_help import query, run, source_of

RIGHT = {0: 3, 1: 3, 2: 2, 3: 1, 4: 0}
"""How many of three answers are right, by the question's number modulo 5."""


def answers(release, names=(1, 2, 3), n=20):
    """`n` questions with an answer for each of `names`."""
    return [
        {
            "id": f"q{question:02}", "question": f"Question {question}?", "reference": "yes", "release": release,
            "repeat": name, "answer": "yes" if place < RIGHT[question % 5] else f"no {place}",
        }
        for question in range(n)
        for place, name in enumerate(names)
    ]  # fmt: skip


def made(home, rows, **more):
    return run(home, source_of(home, rows, dataset="d"), ["exact_match"], **more)


def test_repeats_are_kept_scored_once_and_belong_to_one_sample(home, tmp_path):
    completed = made(home, answers("v1"))
    [release] = completed.committed.releases
    assert (release.n_rows, release.n_questions, release.repeats) == (60, 20, 3)
    assert query(home, "SELECT count(*) FROM quarantine") == [(0,)]
    assert query(home, "SELECT count(*), count(DISTINCT sample_id) FROM samples") == [(20, 20)]
    by_repeat = "SELECT repeat, count(*), sum(value) FROM scores WHERE field = 'match' GROUP BY repeat ORDER BY repeat"
    rows = query(home, by_repeat)
    assert rows == [(1, 20, 16.0), (2, 20, 12.0), (3, 20, 8.0)]
    # Equal answers to one question are measured once: 1, 1, 2, 3 and 3 different ones.
    assert query(home, "SELECT count(*) FROM measurements") == [(4 * (1 + 1 + 2 + 3 + 3),)]
    [(version,)] = query(home, "SELECT version FROM datasets")
    one = made(tmp_path / "one", [row for row in answers("v1") if row["repeat"] == 1])
    assert one.committed.dataset_version == version
    repeated = made(home, answers("v1"))
    assert repeated.plan.n_todo == (("exact_match", 0),)
    assert repeated.committed == completed.committed
    assert query(home, "SELECT count(*) FROM answers") == [(60,)]


def test_one_repeat_is_a_release_without_repeats(tmp_path):
    with_column = made(tmp_path / "a", answers("v1", [1]))
    rows = [{name: value for name, value in row.items() if name != "repeat"} for row in answers("v1", [1])]
    assert with_column.committed == made(tmp_path / "b", rows).committed


SCORES = """
SELECT n_total, n_scored, n_failed, n_questions, mean, within_variance, bound_low, bound_high, ci_low, ci_high
FROM report_scores WHERE field = ? AND slice = 'all' AND report_id = ?
"""


def test_a_report_has_means_per_question_variance_within_and_passes(home):
    completed = made(home, answers("v1"))
    [report] = completed.ids
    [(*counts, mean, within, bound_low, bound_high, low, high)] = query(home, SCORES, ["match", report])
    # Of 3, 3, 2, 1 and 0 of 3 right: the means, and the variances (3/2 p (1 - p)) of three zeros and ones.
    assert counts == [60, 60, 0, 20]
    assert mean == pytest.approx((1 + 1 + 2 / 3 + 1 / 3 + 0) / 5)
    assert within == pytest.approx((0 + 0 + 1 / 3 + 1 / 3 + 0) / 5)
    assert bound_low == bound_high == pytest.approx(mean)
    # The interval is that of twenty means, and wider than that of sixty answers, which are not independent.
    of_sixty = clopper_pearson(36, 60)
    assert low < of_sixty.low < 0.6 < of_sixty.high < high
    for field, share in (("match_pass@3", 4 / 5), ("match_pass^3", 2 / 5)):
        [(*counts, mean, within, _, _, low, high)] = query(home, SCORES, [field, report])
        assert (counts, within) == ([20, 20, 0, 20], None)
        assert mean == pytest.approx(share) and low < share < high
    fields = query(home, "SELECT field FROM report_scores WHERE slice = 'all' ORDER BY rowid")
    assert fields == [("match",), ("match_pass@3",), ("match_pass^3",)]
    [found] = read_reports(home, [report])
    assert (found.n_total, found.manifest["n_questions"], found.manifest["repeats"]) == (60, 20, 3)


def test_answers_without_a_number_are_counted_and_bound_the_mean(home):
    rows = answers("v1")
    rows[0] |= {"answer": None, "missing_because": "timeout"}
    completed = made(home, rows)
    [(*counts, mean, _, bound_low, bound_high, _, _)] = query(home, SCORES, ["match", completed.ids[0]])
    assert counts == [60, 59, 1, 20]
    # The other two answers to the question are right.
    assert mean == pytest.approx(0.6)
    assert (bound_low, bound_high) == (pytest.approx(0.6 - 1 / 60), pytest.approx(0.6))
    [(*counts, mean, _, bound_low, bound_high, _, _)] = query(home, SCORES, ["match_pass^3", completed.ids[0]])
    assert counts == [20, 19, 1, 19]
    assert (mean, bound_low, bound_high) == tuple(pytest.approx(n) for n in (7 / 19, 7 / 20, 8 / 20))
    reason = query(home, "SELECT status, reason FROM scores WHERE field = 'match_pass^3' AND sample_id = 'q00'")
    assert reason == [("failed", "2 of 3 answers have a number")]


def test_with_more_answers_to_some_questions_passes_are_shares_of_subsets(home):
    extra = [{**row, "repeat": 4, "answer": "no 4"} for row in answers("v1", [1])[:5]]
    completed = made(home, [*answers("v1"), *extra])
    rows = query(home, "SELECT sample_id, value FROM scores WHERE field = 'match_pass@3' ORDER BY sample_id LIMIT 5")
    # k stays 3: with 3, 3, 2, 1 and 0 of 4 right, 1 - C(n - c, 3) / C(n, 3).
    assert rows == [("q00", 1.0), ("q01", 1.0), ("q02", 1.0), ("q03", 0.75), ("q04", 0.0)]
    [(*counts, mean, _, _, _, _, _)] = query(home, SCORES, ["match", completed.ids[0]])
    assert counts == [65, 65, 0, 20]
    assert mean == pytest.approx((15 * 0.6 + 3 / 4 + 3 / 4 + 2 / 4 + 1 / 4) / 20)


def test_clusters_are_clusters_of_questions(home):
    rows = [{**row, "cluster": f"c{int(row['id'][1:]) // 4}"} for row in answers("v1")]
    made(home, rows)
    found = query(home, "SELECT DISTINCT n_clusters, n_questions FROM report_scores")
    assert found == [(5, 20)]


@pytest.mark.nightly
def test_releases_with_other_numbers_of_answers_are_compared_by_question(home):
    once = answers("old", [1])
    completed = made(home, [*once, *answers("new")])
    pair = compare(home, *completed.ids)
    row = row_of(pair, "exact_match.match")
    # Means per question: 1, 1, 1, 1, 0 before, and 1, 1, 2/3, 1/3, 0 after.
    assert (row.n_common, row.old, round(row.new, 12), row.fixed) == (20, 0.8, 0.6, None)
    assert row.low < -0.2 < row.high
    worst, *_ = largest_changes(home, *completed.ids, "exact_match.match")
    assert (worst.sample_id, worst.old, round(worst.new, 6)) == ("q03", 1.0, 0.333333)
    assert (worst.old_answer, worst.new_answer) == ("yes", "[1] yes\n[2] no 1\n[3] no 2")


@pytest.mark.nightly
def test_answers_left_out_of_a_question_do_not_pay(home):
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
    # From the first row on, so that the column is known.
    old = [{**row, "answer": "yes", "missing_because": None} for row in answers("old")]
    completed = made(home, [*old, *honest, *right, *unanswered, *damaged], contract=Contract(max_quarantined=1))
    decided = {}
    for report in completed.ids[1:]:
        [rule, *_] = gate(home, completed.ids[0], report, policy).verdict.rules
        release = report.split("/")[1]
        decided[release] = (rule.outcome, round(rule.value, 12))
        # Of five questions, three have 1, 2 and 2 wrong answers after their first one.
        left_out = f"20 samples, 20 single answers to 12 of them not given by {release} and counted as 0)"
        assert (left_out in rule.sentence) == (release != "honest"), rule.sentence
    # 3, 3, 2, 1 and 0 of 3 right: a mean of 0.6 against 1.
    assert decided == dict.fromkeys(("honest", "dropper", "unanswered", "damaged"), ("FAIL", -0.4))


def test_a_page_shows_all_answers_to_a_question(home):
    completed = made(home, [*answers("old", [1]), *answers("new")])
    old, new = build_page(home, completed.ids).samples.answers
    assert (old.more, old.each, len(old.texts)) == ({}, {}, 20)
    # The first answer has the place of its question, the others come behind all places.
    assert new.more[3] == (26, 27)
    assert [new.texts[slot] for slot in (3, 26, 27)] == ["yes", "no 1", "no 2"]
    assert [new.each["exact_match.match"][slot] for slot in (3, 26, 27)] == [1.0, 0.0, 0.0]
    assert (old.values["exact_match.match"][3], new.values["exact_match.match"][3]) == (1.0, 0.3333)
    assert new.values["exact_match.match_pass@3"][3] == 1.0
