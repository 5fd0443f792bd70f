"""A report is complete when enough rows have a score, and says which have none and why."""

import pytest

from answerkey.metrics_core import METRICS
from answerkey.metrics_core.measurement import Failed, Measurement, Scored, Skipped, Undefined
from answerkey.tasks.publish.page.build import build_page
from answerkey.tasks.publish.page.markdown import as_markdown
from answerkey.tasks.reports.report import read_reports
from answerkey.tasks.validate.contract import Contract
from answerkey.tasks.warehouse.home import Home
from tests.tasks.staging_help import query, run, source_of

GOOD = Scored({"match": 1.0})
NOTHING = Undefined("no reference")
BUDGET = Skipped("budget used up: 80 calls (max_calls)")


def says(name, outcomes):
    """The metric called `name`, which gives each sample the outcome that its answer numbers."""

    class Says(METRICS[name]):
        def measure(self, samples):
            return [
                Measurement(sample.sample_id, self.name, self.signature, outcomes[int(sample.answer or "")])
                for sample in samples
            ]

    return Says()


def reported(home, outcomes, min_coverage=0.95):
    """The status and the message of a report on these outcomes by metric."""
    rows = [{"id": str(i), "answer": str(i), "reference": "x"} for i in range(max(map(len, outcomes.values())))]

    source = source_of(home, rows, release="r")
    done = run(home, source, [says(*one) for one in outcomes.items()], min_coverage=min_coverage, contract=Contract())
    [ref] = done.reports
    [report] = read_reports(Home(home), done.ids)
    assert (ref.status, ref.message) == (report.status, report.message)
    assert query(home, "SELECT status, message FROM reports") == [(ref.status, ref.message)]
    if ref.message:
        page = as_markdown(build_page(Home(home), done.ids, most_samples=0))
        assert f"\n\n- r: {ref.message.replace('_', chr(92) + '_')}\n\n| metric" in page
    return ref.status, ref.message


def failed(code, message="the server had an error: 5"):
    return Failed(code, message, 6)


CASES = {
    "all": ([GOOD] * 20, "COMPLETE", None),
    "enough": ([GOOD] * 19 + [failed("timeout")], "COMPLETE", "contains: 1 of 20 not scored: 1 timeout"),
    "too few": (
        [GOOD] * 18 + [failed("timeout")] * 2,
        "PARTIAL",
        "contains: 2 of 20 not scored: 2 timeout",
    ),
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


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_status_and_message(tmp_path, name):
    outcomes, status, message = CASES[name]
    assert reported(tmp_path, {"contains": outcomes}) == (status, message)


@pytest.mark.slow
def test_the_weakest_metric_decides_and_each_is_named(tmp_path):
    outcomes = {
        "exact_match": [GOOD] * 40,
        "contains": [GOOD] * 39 + [failed("timeout")],
        "rouge_l": [Scored({"precision": 1.0, "recall": 1.0, "f1": 1.0})] * 30 + [failed("http_503")] * 10,
    }
    message = "contains: 1 of 40 not scored: 1 timeout; rouge_l: 10 of 40 not scored: 10 http_503"
    assert reported(tmp_path / "a", outcomes) == ("PARTIAL", message)
    # Exactly as much as is asked for is enough; nothing makes up for a skipped row.
    assert reported(tmp_path / "b", outcomes, 0.75) == ("COMPLETE", message)
    assert reported(tmp_path / "c", outcomes, 0.76) == ("PARTIAL", message)
    skipped = {"contains": [GOOD] * 39 + [BUDGET]}
    assert reported(tmp_path / "d", skipped, 0.0)[0] == "PARTIAL"


@pytest.mark.slow
def test_every_release_has_its_own(tmp_path):
    rows = [{"id": str(i), "answer": f"{i}", "reference": "x", "release": "ab"[i % 2]} for i in range(4)]
    source = source_of(tmp_path, [row for row in rows if row["release"] == "a"])
    run(tmp_path, source, ["contains"])
    source = source_of(tmp_path, rows)
    done = run(tmp_path, source, ["contains"], failing={"contains"})
    assert [(ref.release, ref.status, ref.message) for ref in done.reports] == [
        ("a", "COMPLETE", None),
        ("b", "PARTIAL", "contains: 2 of 2 not scored: 2 task"),
    ]
    again = run(tmp_path, [*rows, {**rows[0], "id": "new", "answer": "?"}],
                ["contains"], only_failed=True)  # fmt: skip
    assert [(ref.release, ref.status, ref.message) for ref in again.reports] == [
        ("a", "PARTIAL", "contains: 1 of 3 not scored: 1 not scored yet: only failed rows were asked for"),
        ("b", "COMPLETE", None),
    ]
