"""The page says what the warehouse holds, and changes nothing there."""

import json
from dataclasses import replace

import pytest

from answerkey.metrics_core.comparison import Comparison
from answerkey.metrics_core.decide.ppi import ppi_mean
from answerkey.metrics_core.decide.verdict import Verdict
from answerkey.metrics_core.policy_file import parse_policy
from answerkey.tasks.gate.calibrate import calibrate, store_calibration
from answerkey.tasks.gate.verdicts import ReleaseVerdict
from answerkey.tasks.publish.page.build import build_page
from answerkey.tasks.publish.page.html import render
from answerkey.tasks.publish.page.samples import _CAPS, MOST_CHARS
from answerkey.tasks.publish.tables import estimated
from answerkey.tasks.warehouse.home import Home
from tests.judge_server import JudgeServer
from tests.tasks.gating_help import Made, warehouse
from tests.tasks.judging_help import judged, wordy
from tests.tasks.publish.page.page_help import field_comparison
from tests.tasks.staging_help import query, refusal, run, source_of

METRICS = ["rouge_l", "exact_match", "bleu"]
LONG = "it seems so " * 50


def rows():
    """Eight samples in two releases; the new one lacks the last, and repeats the first answer wrongly."""
    found = []
    for release in ("old", "new"):
        for place in range(8 if release == "old" else 7):
            right = place % 2 == 0 if release == "old" else place > 1
            found.append(
                {"id": f"s{place}", "question": f"what is {place}?", "references": [f"it is {place}", f"{place}"],
                 "answer": f"it is {place}" if right else None if place == 1 else LONG, "release": release,
                 "correct": right if place else None, "kind": f"k{place % 2}"}
            )  # fmt: skip
    return [*found, {"id": "s9", "question": "?", "references": [], "answer": "x", "release": "new"}]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return Home(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def completed(small):
    parameters = {"data": {"answers": "a.jsonl", "dataset": "small"}}
    source = source_of(small, rows(), "small", slices=("kind",), paths={"label": "correct"})
    return run(small, source, METRICS, failing={"exact_match"}, parameters=parameters)


@pytest.fixture(scope="module")
def page(small, completed):
    return build_page(small, completed.ids)


def test_releases_stand_in_the_order_that_was_asked_for(small, completed, page):
    assert [release.label for release in page.releases] == ["old", "new"]
    assert [release.label for release in build_page(small, completed.ids[::-1]).releases] == ["new", "old"]
    assert [r.median_length for r in page.releases] == [7.0, 7.0]


def test_the_field_that_decides_and_one_of_each_metric(page):
    assert page.primary == "label.correct"
    assert page.why_primary == (
        "No primary field was declared. label.correct decides because most answers have a human label."
    )
    assert page.headlines == ("label.correct", "rouge_l.recall", "exact_match.match", "bleu.bleu")
    assert [field.name for field in page.fields] == [
        "label.correct", "rouge_l.precision", "rouge_l.recall", "rouge_l.f1", "exact_match.match", "bleu.bleu",
        "bleu.corpus_bleu",
    ]  # fmt: skip
    assert page.fields[0].signatures == ("label|v1",)
    assert page.fields[1].summary.startswith("longest common subsequence")


def test_scores_of_samples_are_those_of_the_warehouse(small, completed, page):
    stored = query(small, "SELECT release, sample_id, metric || '.' || field, \"value\" FROM scores")
    assert page.samples.ids == tuple(f"s{place}" for place in range(8))
    found = {
        (answers.release, page.samples.ids[place], name): value
        for answers in page.samples.answers
        for name, column in answers.values.items()
        for place, value in enumerate(column)
        if place not in answers.absent
    }
    assert found == {(r, i, n): None if v is None else pytest.approx(v, abs=5e-5) for r, i, n, v in stored}


def test_texts_labels_and_slices_stand_at_the_place_of_their_sample(page):
    old, new = page.samples.answers
    assert page.samples.questions[3] == "what is 3?"
    assert page.samples.references[3] == ("it is 3", "3")
    assert page.samples.slices == {"kind": ("k0", "k1") * 4}
    assert old.texts[:4] == ("it is 0", None, "it is 2", LONG)
    assert (old.correct[:3], new.correct[:3]) == ((None, False, True), (None, False, True))
    assert (old.absent, new.absent, new.texts[7]) == ((), (7,), None)
    assert (page.samples.n_total, old.cut) == (8, {})


def test_rows_without_a_score_say_why(page):
    old = page.samples.answers[0]
    assert old.unscored["label"] == {0: ("undefined", "not labelled")}
    assert {place: status for place, (status, _) in old.unscored["exact_match"].items()} == dict.fromkeys(
        range(8), "failed"
    )
    assert "TimeoutError: no answer" in old.unscored["exact_match"][0][1]
    assert old.reasons["rouge_l"] == {1: "blank answer"}
    assert [tuple(row[:4]) for row in page.failures.rows if row[0] != "label"] == [
        ("exact_match", "old", "failed", "8"),
        ("exact_match", "new", "failed", "7"),
    ]


def test_checks_and_quarantine_are_those_of_the_run(small, page):
    assert not page.checks[0].success
    assert len(page.checks) == query(small, "SELECT count(*) FROM validations")[0][0]
    assert page.n_quarantined == 1
    [(_, sample_id, release, rule, _, raw)] = page.quarantine.rows
    assert (sample_id, release, rule) == ("s9", "new", "references_present")
    assert '"answer": "x"' in str(raw)


def test_many_samples_are_cut_to_those_that_move_most(small, completed):
    made = build_page(small, completed.ids, primary="rouge_l.f1", most_samples=2)
    spread = "SELECT sample_id FROM scores WHERE metric = 'rouge_l' AND field = 'f1' GROUP BY ALL "
    order = 'ORDER BY max("value") - min("value") DESC, sample_id LIMIT 2'
    assert set(made.samples.ids) == {row[0] for row in query(small, spread + order)}
    assert made.samples.n_total == 8
    assert len(made.samples.answers[0].texts) == 2


def test_long_texts_are_cut_when_all_of_them_do_not_fit(small, completed, monkeypatch):
    monkeypatch.setattr("answerkey.tasks.publish.page.samples.MOST_CHARS", 900)
    old = build_page(small, completed.ids).samples.answers[0]
    assert MOST_CHARS > 900
    assert {len(text) for text in old.texts if text} == {7, _CAPS[-1]}
    assert old.cut == dict.fromkeys((3, 5, 7), len(LONG))


def test_pairs_and_verdict_pass_through_under_the_names_of_the_page(small, completed):
    compared = Comparison(*completed.ids, (field_comparison("label.correct"),), ("careful",))
    gated = ReleaseVerdict(
        *completed.ids, parse_policy({"primary": "label.correct", "margin": 0.05}, "x"), Verdict("PASS", "It may ship.")
    )
    made = build_page(small, completed.ids, comparisons=[compared], gates=[gated])
    assert (made.comparisons[0].old, made.comparisons[0].new, made.comparisons[0].margin) == ("old", "new", 0.05)
    assert made.gates == (replace(gated, old="old", new="new"),)
    other = replace(gated, policy=parse_policy({"primary": "rouge_l.f1", "margin": 0.05}, "x"), old="gone")
    made = build_page(small, completed.ids, comparisons=[compared], gates=[other])
    assert (made.primary, made.gates[0].old, made.comparisons[0].margin) == ("rouge_l.f1", "gone", None)
    assert made.why_primary == ""
    made = build_page(small, completed.ids, comparisons=[compared], gates=[gated])
    assert (made.title, made.summary) == ("Ship new", "new is better than old in label.correct.")
    assert "new against old: careful" in [warning.title for warning in made.warnings]


def test_wrong_requests_say_what_is_wrong(small, completed):
    assert "rouge_l.f2: these reports have label.correct, rouge_l.precision" in refusal(
        build_page, small, completed.ids, primary="rouge_l.f2"
    )
    assert "about none" in refusal(build_page, small, [])
    assert "small/old/v1: compared, but not on the page" in refusal(
        build_page, small, completed.ids[1:], comparisons=[Comparison(*completed.ids, ())]
    )


def test_two_data_sets_are_two_pages(small, completed):
    other = warehouse(small, [Made("old", {"rouge_l.recall": {"s0": 1.0}})], "other")
    assert "about one data set, and these reports are about small, other" in refusal(
        build_page, small, [*completed.ids, *other]
    )


def test_history_counts_signatures_and_two_reports_of_a_release_carry_their_version(home):
    source = source_of(home, rows()[:4], "again")
    first = run(home, source, ["rouge_l", "answer_correctness"])
    second = run(home, source, ["rouge_l"])
    made = build_page(home, [*first.ids, *second.ids])
    assert [release.label for release in made.releases] == ["old v1", "old v2"]
    # A field of all reports is preferred to one that only some have.
    assert made.primary == "rouge_l.recall"
    assert made.why_primary.startswith(
        "No primary field was declared. rouge_l.recall decides because there are neither"
    )
    assert [(m.report_id, m.field, m.methods) for m in made.history if m.field.startswith("rouge")] == [
        ("again/old/v1", "rouge_l.recall", 1),
        ("again/old/v2", "rouge_l.recall", 1),
    ]


def test_agreement_with_people_is_that_of_the_newest_calibration(small, completed):
    store_calibration(small, calibrate(small, "rouge_l.recall", reports=completed.ids))
    store_calibration(small, calibration := calibrate(small, "rouge_l.recall", reports=completed.ids))
    made = build_page(small, completed.ids)
    assert [tuple(row[:3]) for row in made.agreements.rows] == [
        ("rouge_l.recall", "all", "13"),
        ("rouge_l.recall", "old", "7"),
        ("rouge_l.recall", "new", "6"),
    ]
    assert made.agreements.rows[0][3] == estimated(calibration.parts[0].agreement.kappa)
    assert [(row[1], *row[4:]) for row in made.corrected.rows] == [
        ("old", "7", "1", "PPI++"), ("new", "6", "1", "PPI++"),
    ]  # fmt: skip
    assert made.corrected.rows[0][3] == estimated(calibration.corrected[0].corrected)
    alone = build_page(small, completed.ids[:1])
    assert [row[1] for row in alone.agreements.rows] == ["all", "old"]
    assert [row[1] for row in alone.corrected.rows] == ["old"]


def test_where_people_labelled_a_part_the_mean_that_they_would_give_is_there_without_a_calibration(
    home,
):
    """exact_match of 100 answers, 20 of them labelled: people call 3 of the 20 wrong that the metric calls right."""
    rows = [
        {"id": f"{i:03}", "references": ["yes"], "answer": "yes" if i % 4 else "no", "release": name,
         "correct": (i % 4 > 0 and i > 12) if i < 20 and name == "part" else True if name == "all" else None}
        for name in ("part", "all", "none") for i in range(100)
    ]  # fmt: skip
    completed = run(home, source_of(home, rows, "part", paths={"label": "correct"}), ["exact_match"])
    made = build_page(home, completed.ids)
    scores = [float(i % 4 > 0) for i in range(100)]
    expected = ppi_mean(scores, [float(i % 4 > 0 and i > 12) if i < 20 else None for i in range(100)])
    [(field, name, as_scored, by_people, *others)] = made.corrected.rows
    assert (field, name, as_scored.text, *others) == ("exact_match.match", "part", "0.750", "20", "80", "PPI++")
    assert by_people == estimated(expected) and expected.value < 0.5
    assert made.agreements.rows == []
    html = render(made)
    assert "Estimated means of the human labels" in html and 'aria-label="Agreement with human labels"' not in html
    # A calibration of the same report says the same, once.
    store_calibration(home, calibrate(home, "exact_match.match", reports=["part"]))
    again = build_page(home, completed.ids)
    assert again.corrected.rows == made.corrected.rows


def judged_run(home, rows, metrics=("meaning_match",), brain=wordy, **how):
    """A run whose judge is `brain`, and the answers on its page."""
    with JudgeServer(brain) as server:
        completed = run(home, rows, metrics, options=judged(server.url, **how))
    return completed, build_page(home, completed.ids).samples.answers[0]


def test_facts_and_reasons_of_a_judge_are_evidence(home):
    asked = [{"id": "a", "question": "?", "references": ["Born in 1867. Polish woman."], "answer": "Born in 1866."}]
    _, answers = judged_run(home, asked, ["ground_truth_similarity", "meaning_match"])
    facts = answers.evidence["ground_truth_similarity"][0]["facts"]
    assert [(fact["side"], fact["status"]) for fact in facts] == [
        ("reference", "contradicted"), ("reference", "missing"), ("answer", "contradicted"),
    ]  # fmt: skip
    assert answers.evidence["meaning_match"][0]["rule"] == "factual_equivalence"
    assert answers.reasons["meaning_match"] == {0: "I say match."}
    assert json.dumps(answers.evidence)


def test_what_answers_rest_on_is_shown(home, monkeypatch):
    norway = {"question": "Capital of Norway?", "references": ["Oslo"]}
    passages = ("A short passage.", "A long passage. " * 40)
    asked = [
        {**norway, "id": "b", "answer": "It is Bergen.", "contexts": passages},
        {**norway, "id": "c", "answer": "It is Oslo."},
    ]
    completed, answers = judged_run(home, asked)
    assert answers.reasons["meaning_match"] == {0: "I say match.", 1: "I say match."}
    assert answers.contexts == {0: passages}
    monkeypatch.setattr("answerkey.tasks.publish.page.samples.MOST_CONTEXT_CHARS", 300)
    [answers] = build_page(home, completed.ids).samples.answers
    assert answers.contexts[0][1] == passages[1][:200] + " …"
