"""Tell automations what became of an evaluation: what the gate said, and what is not complete."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from answerkey.metrics_core.gate.gate import Outcome
from answerkey.tasks.gate.verdicts import ReleaseVerdict
from answerkey.tasks.publish.events import emit
from answerkey.tasks.reports.report import Report, read_reports
from answerkey.tasks.warehouse.home import Home

GATE: dict[Outcome, str] = {
    "PASS": "answerkey.gate.passed",
    "FAIL": "answerkey.gate.failed",
    "INCONCLUSIVE": "answerkey.gate.inconclusive",
    "INCOMPLETE": "answerkey.gate.incomplete",
}
RUN_INCOMPLETE = "answerkey.run.incomplete"
"""A report is PARTIAL: rows of some metric have no score."""


def announce(home: Home, report_ids: Sequence[str], gates: Iterable[ReleaseVerdict] = ()) -> list[str]:
    """Emit an event for each verdict, and one for each report that is PARTIAL; return the names of those sent.

    The resource is `answerkey.release.DATASET.RELEASE`. Every payload has dataset, release and report; that of a
    verdict also baseline, outcome and sentence, that of a report also status and message.
    """
    gates = tuple(gates)
    by_id = {one.report_id: one for one in read_reports(home, [*report_ids, *(gated.new for gated in gates)])}
    sent = []
    for gated in gates:
        said = gated.verdict
        more = {"baseline": gated.old, "outcome": said.outcome, "sentence": said.sentence}
        sent += _emit(GATE[said.outcome], by_id[gated.new], more)
    for report_id in report_ids:
        report = by_id[report_id]
        if report.status == "PARTIAL":
            sent += _emit(RUN_INCOMPLETE, report, {"status": report.status, "message": report.message or ""})
    return sent


def _emit(event: str, report: Report, more: dict[str, str]) -> list[str]:
    about = {"dataset": report.dataset, "release": report.release, "report": report.report_id}
    there = emit(event, f"answerkey.release.{report.dataset}.{report.release}", about | more)
    return [event] if there else []
