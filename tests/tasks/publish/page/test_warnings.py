"""Warnings and the sentence on top."""

from dataclasses import replace

from answerkey.metrics_core.comparison import Comparison
from answerkey.tasks.publish.page.model import Warning
from answerkey.tasks.publish.page.warnings import summary, warnings
from answerkey.tasks.validate.validate import Check
from tests.tasks.publish.page.page_help import FIELDS, SIGNATURES, VERDICT, field_comparison, release, report, score

PRIMARY = FIELDS[0]


def titles(*releases, comparisons=(), checks=(), n=0):
    return [warning.title for warning in warnings(releases, comparisons, checks, n)]


def changed(one, **manifest):
    return replace(one, report=replace(one.report, manifest={**one.report.manifest, **manifest}))


def test_signatures_that_differ_are_named_with_their_releases():
    assert titles(release("a"), release("b")) == []
    other = changed(release("b"), signatures={**SIGNATURES, "rouge_l": "rouge_l|v2"})
    assert warnings([release("a"), other], (), (), 0) == (
        Warning(
            True,
            "rouge_l is not compared: computed in different ways",
            ("a: rouge_l|v1|refs:best", "b: rouge_l|v2"),
        ),
    )


def test_another_version_of_the_data_set_is_serious():
    [warning] = warnings([release("a"), release("b", dataset_version="ffff")], (), (), 0)
    assert warning.serious and warning.details == ("0123456789ab: a", "ffff: b")


def test_partial_reports_and_unequal_coverage_come_with_counts():
    gaps = tuple(score(name, 0.5, failed=2) for name in FIELDS[:2])
    partial = replace(release("b"), report=report("b", status="PARTIAL", message="rouge_l: 2 of 10", scores=gaps))
    warnings_shown = warnings([release("a"), partial], (), (), 0)
    assert [warning.details for warning in warnings_shown] == [
        ("a: 10 of 10", "b: 8 of 10"),
        ("b: rouge_l: 2 of 10",),
    ]
    assert "rouge_l: scored on different shares of the rows" in warnings_shown[0].title


def test_a_shift_of_answer_length_says_from_where_to_where():
    drift = Check("length_drift", "warning", False, 1, 1, "b is longer", "b")
    long = replace(release("b"), median_length=1234.0)
    [warning] = warnings([release("a"), long], (), (drift, drift), 0)
    assert "(median of 20 characters in a, 1,234 in b)" in warning.title
    assert warning.serious and warning.details == ("b is longer",)


def test_of_the_checks_only_those_that_move_a_comparison_are_warnings():
    checks = (
        Check("same_samples", "warning", False, 9, 1, "one", "a"),
        Check("mojibake", "warning", False, 9, 2, "two"),
        Check("same_samples", "warning", False, 9, 1, "three", "b"),
        Check("same_samples", "warning", True, 9, 0, "none", "c"),
    )
    assert warnings([release("a")], (), checks, 0) == (
        Warning(True, "The releases do not have the same samples", ("one", "three")),
    )


def test_quarantine_is_serious_when_it_is_large():
    [small], [large] = (warnings([release("a")], (), (), n) for n in (1, 2))
    assert (small.serious, small.title) == (False, "1 row was put in quarantine and not scored: 5 % of those read")
    assert (large.serious, large.title) == (
        True,
        "2 rows were put in quarantine and not scored: 10 % of those read",
    )


def test_rows_that_only_some_releases_have():
    other = changed(release("b"), n_rows=9)
    assert titles(release("a"), other) == ["The releases do not have the same number of answers"]


def test_what_a_comparison_says_stands_for_what_the_reports_show():
    compared = Comparison("a", "b", (), ("answers are longer",), None, "signatures differ")
    drift = Check("length_drift", "warning", False, 1, 1, "b is longer", "b")
    blank = Check("blank_answer", "warning", False, 20, 1, "1 row")
    other = changed(release("b", dataset_version="ffff"), n_rows=9, signatures={"rouge_l": "rouge_l|v2"})
    assert titles(release("a"), other, comparisons=(compared,), checks=(drift, blank)) == [
        "b against a: signatures differ",
        "b against a: answers are longer",
    ]


def test_of_several_comparisons_the_last_one_is_on_top():
    others = "There are warnings about b too"
    comparisons = (Comparison("a", "b", (), ("one",)), Comparison("b", "c", (), ("two",)))
    three = [release(name) for name in "abc"]
    assert titles(*three, comparisons=comparisons) == ["c against b: two", others]
    assert warnings(three, comparisons, (), 0)[1] == Warning(True, others, ("b against a: one",))
    assert titles(*three, comparisons=(Comparison("a", "b", ()), comparisons[1])) == ["c against b: two"]
    # With more than two releases, what sets the others apart is in no comparison.
    three[0] = release("a", dataset_version="ffff")
    assert titles(*three, comparisons=comparisons) == [
        "c against b: two",
        others,
        "The releases answered different versions of the data set",
    ]
    # How long answers are is said by each comparison of its own two.
    drift = Check("length_drift", "warning", False, 1, 1, "b is longer", "b")
    assert titles(*map(release, "abc"), comparisons=comparisons, checks=(drift,)) == ["c against b: two", others]


def test_the_sentence_of_a_comparison_with_what_the_gate_says_of_it():
    compared = (Comparison("a", "old", ()), Comparison("old", "new", (field_comparison(),)))
    found = (
        "new is better than old: rouge_l.recall went from 0.500 to 0.600 (+0.100, 95 % interval +0.050 to +0.150, 10"
    )
    assert summary([release("a")], compared, [], PRIMARY) == f"{found} samples)."
    assert summary([release("a")], compared, [VERDICT], PRIMARY) == "new is better than old in rouge_l.recall."
    assert summary([release("a")], compared, [replace(VERDICT, old="a")], PRIMARY) == f"{found} samples)."


def test_without_a_comparison_nothing_is_claimed():
    one, two = release("a", (0.5, 0.4, 0.3)), release("b", (0.6, 0.4, 0.3))
    at = "(95 % interval 0.400 to 0.600)"
    assert summary([one], [], [], PRIMARY) == f"rouge_l.recall: a 0.500 {at}."
    assert summary([one, two], [], [], PRIMARY).endswith(
        "b 0.600 (95 % interval 0.500 to 0.700). No difference was tested."
    )
    four = [release(name, (mean, 0.4, 0.3)) for name, mean in zip("abcd", (0.1, 0.9, 0.2, 0.3), strict=True)]
    assert summary(four, [], [], PRIMARY) == (
        "The highest rouge_l.recall of 4 releases: b 0.900 (95 % interval 0.800 to 1.000). "
        "The last one is d 0.300 (95 % interval 0.200 to 0.400). No difference was tested."
    )
    assert summary([release("a", (None, 0.4, 0.3))], [], [], PRIMARY) == (
        "No release has a mean of rouge_l.recall: too few answers have a score."
    )
