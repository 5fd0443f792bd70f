"""The last steps of an evaluation and of a comparison: compare, gate, publish, announce. It only wires them."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from prefect.client.schemas.objects import State

from answerkey.flows.run_log import log
from answerkey.metrics_core.comparison import Comparison
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.gate.policy import Policy
from answerkey.metrics_core.metric import Metric
from answerkey.tasks import steps
from answerkey.tasks.compare.compare import primary_field
from answerkey.tasks.gate.gate import check_fields, read_policy
from answerkey.tasks.gate.verdicts import ReleaseVerdict
from answerkey.tasks.reports.report import report_named
from answerkey.tasks.warehouse.home import Home


def policy_of(text: str, baseline: str, metrics: Sequence[Metric]) -> Policy | None:
    """The policy that was given as a path or as its text, before anything is loaded; None where there is none.

    Raises:
        UserError: it cannot be read, there is no baseline, or it names a field that this run will not have.
    """
    if not text:
        return None
    if not baseline:
        raise UserError("a policy needs a baseline: name the release that the new one is to replace")
    policy = read_policy(text)
    check_fields(policy, metrics)
    return policy


def conclude(
    home: Home, dataset: str, report_ids: Sequence[str], *, baseline: str, policy: Policy | None, page: bool
) -> None:
    """Compare every new report with the baseline, which may be one of them, decide, and show all of it."""
    old = report_named(home, baseline, dataset) if baseline else ""
    news = [new for new in report_ids if new != old]
    pairs: list[Comparison] = []
    gates: list[ReleaseVerdict] = []
    for new in news if old else ():
        primary = primary_field(home, (old, new), policy.primary.field) if policy else ""
        pairs.append(steps.compare_step(home, old, new, primary=primary))
        steps.publish_comparison_step(pairs[-1])
        if policy:
            gates.append(decide(home, old, new, policy))
    if old and not news:
        log.warning(f"{baseline}: there is no other release to compare it with")
    shown = [old, *news] if old else news
    told(steps.publish_run_step(home, shown, pairs, gates, drawn=page, return_state=True))
    steps.announce_step(home, report_ids, gates)


def decide(home: Home, old: str, new: str, policy: Policy) -> ReleaseVerdict:
    """What the gate says about two reports. No verdict fails the run: that the release is bad is a result."""
    gated = steps.gate_step(home, old, new, policy)
    outcome = gated.verdict.outcome
    log.log(logging.INFO if outcome == "PASS" else logging.WARNING, f"{outcome}: {gated.verdict.sentence}")
    return gated


def told(state: State[str]) -> None:
    """Say where the page is. One that could not be made loses nothing: everything on it is in the warehouse."""
    found: object = state.result(raise_on_failure=False)
    if not isinstance(found, str):
        log.warning(f"the page could not be made: {found}; `answerkey report --html FILE` makes it again")
    elif found:
        log.info(f"page: {found}")
