"""A report is complete when enough rows have a score, and says which have none and why."""

import pytest

from answerkey.metrics_core import METRICS
from answerkey.metrics_core.measurement import Failed, Measurement, Scored, Skipped, Undefined
from answerkey.tasks.publish.page.build import build_page
from answerkey.tasks.publish.page.markdown import as_markdown
from answerkey.tasks.reports.report import read_reports
from answerkey.tasks.warehouse.home import Home
from tests.tasks.staging_help import run

GOOD = Scored({"match": 1.0})
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
    done = run(home, rows, [says(*one) for one in outcomes.items()], **options)
    reports = read_reports(home, done.ids)
    assert [(ref.status, ref.message) for ref in done.reports] == [(one.status, one.message) for one in reports]
    page = as_markdown(build_page(home, done.ids, most_samples=0))
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


@pytest.mark.slow
def test_the_weakest_metric_decides_and_each_is_named(home, tmp_path):
    outcomes = {
        "exact_match": [GOOD] * 40,
        "contains": [GOOD] * 39 + [failed("timeout")],
        "rouge_l": [Scored({"precision": 1.0, "recall": 1.0, "f1": 1.0})] * 30 + [failed("http_503")] * 10,
    }
    message = "contains: 1 of 40 not scored: 1 timeout; rouge_l: 10 of 40 not scored: 10 http_503"
    assert reported(home, outcomes) == {"r": ("PARTIAL", message)}
    # Exactly as much as is asked for is enough; nothing makes up for a skipped row.
    assert reported(home, outcomes, min_coverage=0.75) == {"r": ("COMPLETE", message)}
    assert reported(home, outcomes, min_coverage=0.76) == {"r": ("PARTIAL", message)}
    skipped = {"contains": [GOOD] * 39 + [BUDGET]}
    assert reported(Home(tmp_path / "skipped"), skipped, min_coverage=0.0)["r"][0] == "PARTIAL"


@pytest.mark.slow
def test_what_is_skipped_and_what_another_run_has_failed_to_score_is_counted_by_release(home):
    rows = [{"id": str(i), "answer": f"{i}", "reference": "x", "release": "ab"[i % 2]} for i in range(4)]
    run(home, rows[::2], ["contains"])
    done = run(home, rows, ["contains"], failing={"contains"})
    assert [(ref.release, ref.status, ref.message) for ref in done.reports] == [
        ("a", "COMPLETE", None),
        ("b", "PARTIAL", "contains: 2 of 2 not scored: 2 task"),
    ]
    again = run(home, [*rows, {**rows[0], "id": "new", "answer": "?"}], ["contains"], only_failed=True)
    assert [(ref.release, ref.status, ref.message) for ref in again.reports] == [
        ("a", "PARTIAL", "contains: 1 of 3 not scored: 1 not scored yet: only failed rows were asked for"),
        ("b", "COMPLETE", None),
    ]
