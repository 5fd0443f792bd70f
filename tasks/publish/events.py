"""Events for the automations of a Prefect server. Nothing here waits for what an automation does."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from answerkey.tasks.reports.report import Report, read_reports
from answerkey.tasks.server import on_server
from answerkey.tasks.warehouse.home import Home

if TYPE_CHECKING:
    from answerkey.metrics_core.decide.verdict import GateOutcome
    from answerkey.tasks.gate.verdicts import ReleaseVerdict

RELEASE_REGISTERED = "answerkey.release.registered"
GATE_EVENTS: dict[GateOutcome, str] = {
    "PASS": "answerkey.gate.passed",
    "FAIL": "answerkey.gate.failed",
    "INCONCLUSIVE": "answerkey.gate.inconclusive",
    "INCOMPLETE": "answerkey.gate.incomplete",
}
RUN_INCOMPLETE = "answerkey.run.incomplete"
"""A report is PARTIAL: rows of some metric have no score."""
LABELS_DECIDED = "answerkey.labels.decided"
"""Labels of people decide about two releases, or all questions of their queue are labelled."""

_log = logging.getLogger("answerkey")


def emit(event: str, resource_id: str, payload: Mapping[str, object]) -> bool:
    """Send an event, and return whether a server has it. Without a server nothing happens.

    Delivery is at most once: what must not be missed is found by a schedule as well.

    Args:
        event: its name, for instance `answerkey.release.registered`.
        resource_id: what it is about, for instance `answerkey.release.faq.gpt-5`.
        payload: what automations may use as parameters. It holds no answers and no keys.
    """
    if not on_server():
        return False
    # Prefect is imported only where a server is told something
    import httpx
    from prefect.client.orchestration import get_client
    from prefect.events.schemas.events import Event

    content = Event.model_validate(
        {"event": event, "resource": {"prefect.resource.id": resource_id}, "payload": payload}
    )
    try:
        # Not through Prefect's queue, which a short command would have to wait for at its end.
        with get_client(sync_client=True) as client:
            client.request("POST", "/events", json=[content.model_dump(mode="json")])
    except httpx.HTTPError as error:
        _log.warning(f"the event {event} did not reach the Prefect server: {error}")
        return False
    return True


def announce(home: Home, report_ids: Sequence[str], gates: Iterable[ReleaseVerdict] = ()) -> list[str]:
    """Emit an event for each verdict, and one for each report that is PARTIAL; return the names of those sent.

    The resource is `answerkey.release.DATASET.RELEASE`. Every payload has dataset, release and report; that of a
    verdict also baseline, outcome, sentence and basis, that of a report also status and message.
    """
    if not on_server():
        return []
    # Verdicts may be about reports of earlier runs
    gates = tuple(gates)
    reports = read_reports(home, [*report_ids, *(gated.new for gated in gates)])
    by_id = {report.report_id: report for report in reports}
    sent = []
    for gated in gates:
        sent += _emit(GATE_EVENTS[gated.verdict.outcome], by_id[gated.new], _verdict_payload(gated))
    for report_id in report_ids:
        report = by_id[report_id]
        if report.status == "PARTIAL":
            sent += _emit(RUN_INCOMPLETE, report, {"status": report.status, "message": report.message or ""})
    return sent


def announce_labels(home: Home, queue: str, gated: ReleaseVerdict) -> list[str]:
    """Emit the event that the labels of a queue decide, or that there are no more to give. As `announce`.

    The payload is that of a verdict, and `queue`.
    """
    [report] = read_reports(home, [gated.new])
    return _emit(LABELS_DECIDED, report, _verdict_payload(gated) | {"queue": queue})


def _verdict_payload(gated: ReleaseVerdict) -> dict[str, str]:
    verdict = gated.verdict
    outcome = {"outcome": verdict.outcome, "sentence": verdict.sentence, "basis": verdict.basis or ""}
    return {"baseline": gated.old, **outcome}


def _emit(event: str, report: Report, payload: dict[str, str]) -> list[str]:
    subject = {"dataset": report.dataset, "release": report.release, "report": report.report_id}
    resource_id = f"answerkey.release.{report.dataset}.{report.release}"
    return [event] if emit(event, resource_id, subject | payload) else []
