"""Comparisons count every row, test what can be tested, and leave out what is not the same."""

import numpy as np
import pytest
from scipy import stats

from answerkey.metrics_core.decide.intervals import paired_proportions
from answerkey.metrics_core.decide.paired import paired_difference
from answerkey.metrics_core.decide.power import minimum_detectable, needed_to_show
from answerkey.metrics_core.decide.ppi import ppi_difference
from answerkey.metrics_core.errors import UserError
from answerkey.tasks.compare.compare import compare, compare_all, stored_comparisons
from answerkey.tasks.warehouse.home import Home
from tests.tasks.comparing_help import answer, release, releases, row_of
from tests.tasks.gating_help import Made, warehouse
from tests.tasks.staging_help import query, refusal

N = 60


def old_rows():
    """Of 60 answers 30 are right; every third one is of kind b."""
    return [answer(i, "yes" if i % 2 else "no", bool(i % 2), kind="b" if i % 3 == 0 else "a") for i in range(N)]


def new_rows():
    """As the old ones, but 14 of the wrong ones are right now, and 4 of the right ones wrong."""
    fixed, broken = set(range(0, 28, 2)), {1, 3, 5, 7}
    right = [(bool(i % 2) or i in fixed) and i not in broken for i in range(N)]
    return [answer(i, "yes" if right[i] else "no", right[i], kind="b" if i % 3 == 0 else "a") for i in range(N)]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    metrics = ("exact_match", "token_overlap", "bleu")
    releases(folder, {"old": old_rows(), "new": new_rows()}, metrics)
    return Home(folder)


@pytest.fixture(scope="module")
def pair(two):
    return compare(two, "d/old/v1", "d/new/v1", all_fields=True)


MATCH = "exact_match.match"


def matches(right, without=()):
    """Whether each answer of a release is right; the questions `without` have none."""
    return {MATCH: {f"q{i:03}": float(is_right) for i, is_right in enumerate(right) if i not in without}}


def test_a_binary_field_by_hand(pair):
    row = row_of(pair, "label.correct")
    assert (row.n_common, row.n_only_old, row.n_only_new) == (60, 0, 0)
    assert (row.fixed, row.broken, row.test) == (14, 4, "mcnemar")
    assert row.old == pytest.approx(30 / 60)
    assert row.new == pytest.approx(40 / 60)
    assert row.difference == pytest.approx(10 / 60)
    assert row.p == pytest.approx(stats.binomtest(4, 18).pvalue)
    interval = paired_proportions(14, 4, 60)
    assert (row.low, row.high) == pytest.approx(interval[:2])
    family = len(pair.overall)
    changes = np.repeat([[0, 1], [1, 0], [1, 1]], [14, 4, 42], axis=0)
    measured = paired_difference(*changes.T, binary=True)
    assert row.mde == minimum_detectable(measured, family=family)
    assert row.mde_note is None
    assert row.needed == needed_to_show(measured, family=family)
    # The label, the match and recall are 0 or 1 on every row, and they are the same on every row.
    assert {row_of(pair, name).fixed for name in ("exact_match.match", "token_overlap.recall")} == {14}


def test_everything_is_compared_once(pair):
    slices = ["all", "kind=a", "kind=b"]
    fields = [
        "label.correct", "exact_match.match", "token_overlap.precision", "token_overlap.recall", "token_overlap.f1",
        "bleu.bleu", "bleu.corpus_bleu",
    ]  # fmt: skip
    assert [(row.name, row.slice) for row in pair.rows] == [(name, slice_) for name in fields for slice_ in slices]
    assert (pair.n_common, pair.n_only_old, pair.n_only_new, pair.n_changed) == (60, 0, 0, 0)
    assert (pair.warnings, pair.not_comparable) == ((), None)


def test_one_field_per_metric_is_the_family_and_the_primary_comes_first(two, pair):
    comparison = compare(two, "d/old/v1", "d/new/v1")
    names = ["label.correct", "exact_match.match", "token_overlap.recall", "bleu.bleu"]
    assert (comparison.primary, [row.name for row in comparison.overall]) == ("label.correct", names)
    # All four are the same numbers here.
    assert [row.p_adjusted for row in comparison.overall] == pytest.approx([4 * comparison.overall[0].p] * 4)
    declared = compare(two, "d/old/v1", "d/new/v1", primary="token_overlap.f1")
    assert [row.name for row in declared.overall] == ["token_overlap.f1", *names[:2], names[3]]
    assert [row.p_adjusted for row in declared.overall[:2]] == pytest.approx([comparison.overall[0].p_adjusted] * 2)
    every = compare(two, "d/old/v1", "d/new/v1", all_fields=True, primary="token_overlap.f1")
    assert every.primary == "token_overlap.f1"
    assert {row.name for row in every.overall} == {row.name for row in pair.overall}


def test_pairs_are_corrected_for_together(home):
    """Of 40 answers each new release gets seven more right: p = 2 / 2^7 = 0.0156 alone."""
    names = ["a", "b", "c", "d"]
    fixed = {"base": range(0)} | {name: range(20 + place, 27 + place) for place, name in enumerate(names)}
    made = [Made(name, matches(i < 20 or i in right for i in range(40))) for name, right in fixed.items()]
    warehouse(home, made, "d")
    alone = compare(home, "d/base/v1", "d/a/v1")
    assert (alone.overall[0].finding, alone.overall[0].p_adjusted, alone.n_pairs) == ("better", 2 / 2**7, 1)
    pairs = [("d/base/v1", f"d/{name}/v1") for name in names]
    together = compare_all(home, pairs)
    assert [(one.new, one.n_pairs) for one in together] == [(f"d/{name}/v1", 4) for name in names]
    assert {one.overall[0].p_adjusted for one in together} == {4 * 2 / 2**7}
    assert {one.overall[0].finding for one in together} == {"not shown to differ"}
    assert stored_comparisons(home, [new for _, new in pairs]) == together
    # What is declared and no pair has is a mistake; what one pair lacks is not.
    with pytest.raises(UserError, match=r"exact_match\.mach: .*did you mean exact_match\.match"):
        compare_all(home, pairs, primary="exact_match.mach")


def test_corpus_bleu_is_the_reports_own(two, pair):
    means = query(
        two, "SELECT mean FROM report_scores WHERE field = 'corpus_bleu' AND slice = 'all' ORDER BY report_id"
    )
    row = row_of(pair, "bleu.corpus_bleu")
    assert (row.new, row.old) == pytest.approx([mean for (mean,) in means])
    assert row.difference == pytest.approx(row.new - row.old)
    assert row.low <= row.difference <= row.high
    assert (row.test, row.mde, row.fixed) == ("exchange", None, None)


def test_the_table_has_it_all_and_keeps_the_newest(two):
    comparison = compare(two, "d/old/v1", "d/new/v1")
    assert stored_comparisons(two, ["d/new/v1"]) == (comparison,)
    assert stored_comparisons(two, ["d/old/v1"]) == ()
    again = compare(two, "d/old/v1", "d/new/v1", primary="bleu.bleu")
    assert again != comparison
    assert stored_comparisons(two, ["d/new/v1"]) == (again,)


def test_every_family_of_fields_is_kept_beside_the_others(two):
    pair = two, "d/old/v1", "d/new/v1"
    found, every, named = compare(*pair), compare(*pair, all_fields=True), compare(*pair, fields=["label.correct"])
    assert [one.family for one in (found, every, named)] == ["headlines", "all fields", "label.correct"]
    for one in (found, every, named):
        assert stored_comparisons(two, ["d/new/v1"], family=one.family) == (one,)
    rows = query(
        two,
        "SELECT metric, field, slice, difference, finding, fixed FROM comparisons "
        "WHERE family = 'label.correct' ORDER BY place",
    )
    assert rows[0] == ("label", "correct", "all", pytest.approx(1 / 6), "better", 14)
    assert len(rows) == 3


def test_the_order_of_the_rows_changes_nothing(home, two):
    reverse = {"new": new_rows()[::-1], "old": old_rows()[::-1]}
    releases(home, reverse, ("exact_match", "token_overlap", "bleu"))
    assert compare(home, "d/old/v1", "d/new/v1") == compare(two, "d/old/v1", "d/new/v1")


def test_rows_that_one_report_lacks_are_counted_with_the_reason(home):
    metrics = ("exact_match", "rouge_l")
    old = [answer(i, "yes", True) for i in range(20)]
    new = [answer(i, "no", None if i < 3 else False) for i in range(1, 22)]
    release(home, "old", old, metrics)
    release(home, "new", new, metrics, failing={"rouge_l"})
    pair = compare(home, "d/old/v1", "d/new/v1")
    assert (pair.n_common, pair.n_only_old, pair.n_only_new) == (19, 1, 2)
    label = row_of(pair, "label.correct")
    # Questions 1 and 2 are not labelled in the new report, question 0 is not in it, 20 and 21 are not in the old one.
    assert (label.n_common, label.n_only_old, label.n_only_new) == (17, 3, 2)
    assert (label.missing_new, label.missing_old) == ({"absent": 1, "undefined": 2}, {"absent": 2})
    rouge = row_of(pair, "rouge_l.recall")
    assert (rouge.n_common, rouge.n_only_old, rouge.difference, rouge.finding) == (0, 20, None, None)
    assert rouge.missing_new == {"absent": 1, "failed": 19}
    assert rouge.note == "no sample has a number in both reports"
    samples, coverage = pair.warnings
    assert samples == (
        "the reports do not have the same samples (only in old: 1, only in new: 2); the 19 samples that are the same "
        "in both are compared"
    )
    assert coverage.startswith("rouge_l: scored 20 of 20 and 0 of 21; rows without a score are not compared, ")


def test_a_sample_with_other_references_is_another_sample(home):
    old = [answer(i, "yes") for i in range(10)]
    changed = {1: {"references": ["no"]}, 2: {"question": "Another question?"}, 3: {"references": ["yes", "yea"]}}
    release(home, "old", [answer(9, "yes") | {"references": ["yes", "sure"]}, *old[:9]])
    rows = [answer(i, "no") | changed.get(i, {}) for i in range(9)]
    release(home, "new", [*rows, answer(9, "no") | {"references": ["sure", "yes"]}])
    pair = compare(home, "d/old/v1", "d/new/v1")
    row = row_of(pair, "exact_match.match")
    # The references of question 9 only changed places.
    assert (pair.n_common, pair.n_changed, row.n_common, row.broken) == (10, 3, 7, 7)
    [warning] = pair.warnings
    assert warning.endswith(
        " (with a different question or different references: 3); the 7 samples that are the same in both are compared"
    )


def test_other_facts_matter_to_the_metric_that_reads_them(home):
    release(home, "old", [answer(i, "yes", facts=["it is so"]) for i in range(5)])
    release(home, "new", [answer(i, "yes", facts=["it is so"] if i else ["it is not"]) for i in range(5)])
    pair = compare(home, "d/old/v1", "d/new/v1")
    assert (pair.n_changed, row_of(pair, "exact_match.match").n_common) == (0, 5)
    assert "(with other facts, left out of ground_truth_similarity: 1); the 5 samples" in pair.warnings[0]


def test_what_people_would_find_is_predicted_from_the_labels_of_a_part(home):
    """The match errs on every tenth answer; people labelled the first 40 of 100 questions in both releases."""

    def rows(right):
        return [answer(i, "yes" if (i % 20 < right) != (i % 10 == 0) else "no", i % 20 < right if i < 40 else None)
                for i in range(100)]  # fmt: skip

    releases(home, {"old": rows(12), "new": rows(16)}, ("exact_match", "bleu"))
    pair = compare(home, "d/old/v1", "d/new/v1", all_fields=True)
    row = row_of(pair, "exact_match.match")
    known = [float(i % 20 < 16) if i < 40 else None for i in range(100)]
    before = [float(i % 20 < 12) if i < 40 else None for i in range(100)]
    scores = [[float((i % 20 < right) != (i % 10 == 0)) for i in range(100)] for right in (12, 16)]
    result = ppi_difference(*scores, before, known)
    assert (row.people, row.n_labelled) == (pytest.approx(result.value), 40)
    assert (row.people_low, row.people_high) == pytest.approx(result.interval[:2])
    assert row.people == pytest.approx(0.2, abs=0.05)
    assert {row_of(pair, name).people for name in ("label.correct", "bleu.corpus_bleu")} == {None}
    assert row_of(pair, "bleu.bleu").n_labelled == 40
    assert stored_comparisons(home, ["d/new/v1"], family="all fields") == (pair,)


def test_labels_of_half_of_the_rows_or_more_need_no_prediction(pair):
    assert {(row.people, row.n_labelled) for row in pair.rows} == {(None, None)}


def test_another_signature_is_not_compared(home):
    rows = [answer(i, "yes" if i else None, True) for i in range(6)]
    release(home, "old", rows)
    release(home, "new", rows, options=dict(blank_answer="undefined"))
    pair = compare(home, "d/old/v1", "d/new/v1")
    row = row_of(pair, "exact_match.match")
    assert (row.n_common, row.old, row.new, row.difference, row.p) == (0, None, None, None, None)
    assert row.note == "computed in a different way, blank zero → undefined"
    assert pair.warnings == ("exact_match is not compared: computed in a different way, blank zero → undefined",)
    assert row_of(pair, "label.correct").n_common == 6
    assert pair.not_comparable is None
    only = compare(home, "d/old/v1", "d/new/v1", fields=["exact_match.match"])
    assert only.not_comparable == "none of these metrics was computed in the same way in both reports"


def test_fields_of_one_report_only(home):
    rows = [answer(i, "yes") for i in range(4)]
    release(home, "old", rows, ["exact_match"])
    release(home, "new", rows, ["contains"])
    pair = compare(home, "d/old/v1", "d/new/v1")
    assert (pair.rows, pair.not_comparable) == ((), "the two reports have no field in common")
    [row] = compare(home, "d/old/v1", "d/new/v1", fields=["contains.match"]).rows
    assert row.note == "only d/new/v1 has it"


def test_a_row_in_another_slice_is_in_neither(home):
    halves = {"old": ("yes", 4), "new": ("no", 5)}
    rows = {name: [answer(i, text, half="xy"[i >= n]) for i in range(8)] for name, (text, n) in halves.items()}
    releases(home, rows)
    pair = compare(home, "d/old/v1", "d/new/v1")
    x, y = row_of(pair, "exact_match.match", "half=x"), row_of(pair, "exact_match.match", "half=y")
    assert (x.n_common, x.n_only_old, x.n_only_new, x.missing_old) == (4, 0, 1, {"other slice": 1})
    assert (y.n_common, y.n_only_old, y.n_only_new, y.missing_new) == (3, 1, 0, {"other slice": 1})


def test_clusters_are_exchanged_whole(home):
    # Ten clusters of ten rows that all change alike are ten observations and not a hundred.
    clusters = {f"q{i:03}": f"c{i // 10}" for i in range(100)}
    right = {"old": [False] * 100, "new": [i < 80 for i in range(100)]}
    warehouse(home, [Made(name, matches(rights), clusters=clusters) for name, rights in right.items()], "d")
    row = row_of(compare(home, "d/old/v1", "d/new/v1"), "exact_match.match")
    assert (row.test, row.fixed, row.broken) == ("cluster sign-flip", 80, 0)
    assert row.p == pytest.approx(2 / 2**8)
    assert row.mde > 0.3


def test_what_has_no_answer(two, home):
    assert "d/old/v1: a report cannot be compared with itself" in refusal(compare, two, "d/old/v1", "d/old/v1")
    assert "d/old/v2: no such report" in refusal(compare, two, "d/old/v1", "d/old/v2")
    assert "label.right: these reports have label.correct, exact_match.match" in refusal(
        compare, two, "d/old/v1", "d/new/v1", fields=["label.right"]
    )
    assert "label.right" in refusal(compare, two, "d/old/v1", "d/new/v1", primary="label.right")
    releases(home, {"one": [answer(1, "yes")], "two": [answer(1, "no")]})
    row = row_of(compare(home, "d/one/v1", "d/two/v1"), "exact_match.match")
    assert (row.difference, row.low, row.p, row.mde, row.finding) == (-1.0, None, 1.0, None, "not shown to differ")


def test_length_warns_above_half_as_much_again(home):
    lengths = {"old": 10, "near": 15, "far": 16}
    releases(home, {name: [answer(i, "y" * length) for i in range(3)] for name, length in lengths.items()})
    assert compare(home, "d/old/v1", "d/near/v1").warnings == ()
    [warning] = compare(home, "d/old/v1", "d/far/v1").warnings
    assert warning.startswith("answers are 1.6 times longer: the median went from 10 to 16 characters.")
    assert "rely on recall, judges and human labels" in warning
    [back] = compare(home, "d/far/v1", "d/old/v1").warnings
    assert back.startswith("answers are 1.6 times shorter")


def test_a_release_is_not_better_for_leaving_out_what_it_does_not_know(home):
    """60 of 400 answers fixed; of 60 others the new release gives the same wrong answers, or none at all."""
    old, fixed = [i < 200 for i in range(400)], [i < 260 for i in range(400)]
    made = {
        "old": matches(old),
        "fixed": matches(fixed),
        "some": matches(fixed, without=range(10)),
        "many": matches(fixed, without=range(100, 155)),
    }
    warehouse(home, [Made(name, scores) for name, scores in made.items()], "d")
    pairs = {name: compare(home, "d/old/v1", f"d/{name}/v1") for name in ("fixed", "some", "many")}
    rows = {name: row_of(pair, "exact_match.match") for name, pair in pairs.items()}
    findings = {name: (row.finding, row.n_unanswered) for name, row in rows.items()}
    assert findings == {"fixed": ("better", 0), "some": ("better", 10), "many": ("not shown to differ", 55)}
    hidden = rows["many"]
    assert hidden.low > 0.1 and hidden.low_with_unanswered < 0
    # Nor is it in the table, from which `evaluate --baseline` prints it.
    [stored] = stored_comparisons(home, ["d/many/v1"])
    assert row_of(stored, "exact_match.match") == hidden
    assert query(home, "SELECT finding, n_unanswered FROM comparisons WHERE new_report = 'd/many/v1'") == [
        ("not shown to differ", 55)
    ]
    [warning] = [warning for warning in pairs["many"].warnings if "not called better" in warning]
    assert warning.startswith(
        "exact_match.match is not called better: many did not answer 55 samples that have a score"
    )
