"""What runs say: the lines of their log, and the message of their final state."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from answerkey.flows.environment import DETAIL
from answerkey.flows.runs import Run, log
from answerkey.metrics_core.comparison import Comparison
from answerkey.tasks.gate.verdicts import ReleaseVerdict, stored_verdicts
from answerkey.tasks.load.load import Loaded
from answerkey.tasks.publish.artifacts import in_one_line
from answerkey.tasks.publish.text import headline
from answerkey.tasks.reports.report import Report, read_reports
from answerkey.tasks.score.plan import Plan
from answerkey.tasks.validate.validate import Check, Validation
from answerkey.tasks.warehouse.home import Home

_MOST_REASONS = 3


def log_validation(loaded: Loaded, validated: Validation) -> None:
    """Log how many rows there are, and each check that failed; releases that fail alike share a line."""
    for note in loaded.notes:
        log.info(note)
    log.info(
        f"{loaded.dataset}: {validated.n_rows:,} rows read, {validated.n_accepted:,} accepted, "
        f"{validated.n_quarantined:,} quarantined"
    )
    failed_checks: dict[str, list[Check]] = {}
    for check in validated.checks:
        if not check.success and check.message != validated.broken:
            failed_checks.setdefault(check.rule if check.release else check.message, []).append(check)
    for first, *others in failed_checks.values():
        more_releases = f"; so it is with {', '.join(check.release or '' for check in others)}" if others else ""
        log.warning(f"{first.message}{more_releases}")


def log_plan(plan: Plan) -> None:
    """Log what is left to score."""
    n_todo = dict(plan.n_todo)
    metrics = [f"{metric} ({n_todo[metric]:,} new, {n_known:,} known)" for metric, n_known in plan.n_known]
    is_any_known = any(n_known for _, n_known in plan.n_known)
    n_metrics = f"with {len(metrics)} metric{'s' * (len(metrics) > 1)}"
    log.info(f"scoring {', '.join(metrics) if is_any_known else n_metrics}")


def log_verdicts(run: Run, verdicts: Sequence[ReleaseVerdict]) -> None:
    """Log verdicts, and tag the run, so that the page of runs filters by outcome and basis."""
    for gated in verdicts:
        outcome = gated.verdict.outcome
        level = logging.INFO if outcome == "PASS" else logging.WARNING
        log.log(level, f"{outcome}: {gated.verdict.sentence}", extra=DETAIL)
    if verdicts:
        bases = [gated.verdict.basis or "none" for gated in verdicts]
        run.describe({"verdict": [gated.verdict.outcome for gated in verdicts], "basis": bases})


def log_comparisons(comparisons: Sequence[Comparison]) -> str:
    """Log what each comparison has found about its primary field, and return it for the final state."""
    sentences = [headline(comparison, comparison.primary) for comparison in comparisons if comparison.primary]
    for sentence in sentences:
        log.info(sentence, extra=DETAIL)
    return " ".join(sentences)


def log_page(publish: Callable[[], str]) -> None:
    """Log where the page is. If it could not be written, nothing is lost: everything on it is in the warehouse."""
    try:
        page = publish()
    except Exception as error:
        log.warning(f"the page could not be made: {error}; `answerkey report --html FILE` makes it again")
        return
    if page:
        log.info(f"report: {page}")


def how_it_ended(
    reports: Sequence[Report], verdicts: Sequence[ReleaseVerdict] = (), result: str = ""
) -> tuple[str, str]:
    """The message and the name of the final state of a run.

    The page of a run shows some 65 characters, so what has no score, and why, comes first, and then what the gate has
    decided. Where there is neither, it is the result: what was compared, else the means.
    """
    reasons: dict[str, list[str]] = {}
    for report in reports:
        if report.status == "PARTIAL":
            reasons.setdefault(report.message or "", []).append(report.report_id)
    partial = [
        f"{message} ({', '.join(ids)} {'is' if len(ids) == 1 else 'are'} PARTIAL)" for message, ids in reasons.items()
    ]
    more_partial = [f"{len(partial) - _MOST_REASONS} more are PARTIAL"] if len(partial) > _MOST_REASONS else []
    decisions = [
        f"{gated.verdict.outcome}: {gated.verdict.sentence} Basis: {gated.verdict.basis or 'none'}."
        for gated in verdicts
    ]
    sentences = [*partial[:_MOST_REASONS], *more_partial, *decisions]
    return "; ".join(sentences) or result, "Partial" if partial else "Completed"


def how_they_ended(home: Home, report_ids: Sequence[str]) -> tuple[str, str]:
    """The same of reports that are kept already, with the verdicts about them."""
    reports = read_reports(home, report_ids)
    return how_it_ended(reports, stored_verdicts(home, report_ids), in_one_line(reports))
