"""Evaluate every registered release that has no report yet: on a schedule, on an event, or by hand."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from answerkey.flows.evaluate_release import announce_reports, decide, evaluate_release
from answerkey.flows.findings import how_they_ended, log_page
from answerkey.flows.parameters import Data, Judging, Limits, Scoring, Waiting, checked
from answerkey.flows.prefect_or_local import flow, tagged
from answerkey.flows.runs import complete_queued, completed, crash_unfinished_subflows, form_of, log, queued_alike
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.cost import Cost
from answerkey.tasks.gate.gate import policy_for
from answerkey.tasks.gate.verdicts import ReleaseVerdict
from answerkey.tasks.publish.artifacts import publish_verdict
from answerkey.tasks.releases.kept_gate import never_gated
from answerkey.tasks.releases.register import Registration, claimed, note_attempt, pending, registrations
from answerkey.tasks.warehouse.home import Home

_WAITING, _SCORING, _JUDGING, _LIMITS = Waiting(), Scoring(), Judging(), Limits()


def _run_name() -> str:
    release = form_of("waiting", Waiting).release
    return f"evaluate registered {release}" if release else "evaluate what is registered"


@flow(
    name="evaluate-registered",
    description="Evaluate every registered release that has no report yet.",
    flow_run_name=_run_name,
    persist_result=True,
)
def evaluate_registered(
    waiting: Waiting = _WAITING,
    scoring: Scoring = _SCORING,
    judging: Judging = _JUDGING,
    limits: Limits = _LIMITS,
    home: str = ".answerkey",
    baseline: str = "",
    policy: str = "",
    page: bool = True,
) -> list[str] | list[Cost]:
    """Evaluate what is registered and has no report, one release after the other; return the ids of the reports.

    The newest release of a data set that has a report, and on which the gate that is kept for the data set has not
    decided, is decided on.

    Starting it twice does nothing twice: a release that has a report, or that another run is evaluating, is skipped.

    Args:
        waiting: Which of the registered releases.
        scoring: How to score them.
        judging: Which judges to ask, where the key is, and what each may cost.
        limits: When the data are too bad to score, and the scores too few to trust.
        home: Where everything is kept: a folder of the machine that runs this, or s3://BUCKET/PREFIX.
        baseline: A release, or a report, that each is compared with. Empty: that of the gate of its data set.
        policy: What must hold for a release to ship: a YAML file, or its text, as in {primary: meaning_match.match,
            margin: 0.02}. Empty: that of the gate of its data set, if no baseline is named either.
        page: Write a page for the browser into the folder pages of the warehouse.
    """
    place = Home.parse(home)
    policy_for(policy, baseline, checked(scoring, judging)[1])
    crash_unfinished_subflows()
    _say_what_is_left_out(place, waiting.release)
    found: list[str] | list[Cost] = []
    problems: list[str] = []
    n_tried = 0
    for registration in _waiting(place, waiting):
        n_tried += 1
        with claimed(place, registration) as mine:
            if mine is None:
                log.info(f"{registration.name}: another run is evaluating it")
                continue
            if mine.report_id:
                log.info(f"{mine.name}: has the report {mine.report_id}")
                continue
            made: list[str] | list[Cost] = []
            problem = None
            try:
                # A run within a run does not get its tags by itself.
                with tagged():
                    data = Data(answers=mine.address, dataset=mine.dataset, release=mine.release)
                    made = evaluate_release(data, scoring, judging, limits, home, baseline, policy, page)
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
            if not judging.dry_run:
                note_attempt(place, mine, report_id=str(made[0]) if made else None, message=problem)
            found = [*found, *made]
            problems += [f"{mine.name}: {problem}"] if problem else []
    gates = [] if waiting.release or judging.dry_run else _decide_on_what_has_a_report(place)
    if problems:
        raise UserError(f"{len(problems)} of {n_tried} could not be evaluated; {'; '.join(problems)}")
    if not n_tried and not gates:
        log.info(message := f"nothing new: {waiting.release or 'every registered release'} has a report")
        return completed([], message)
    about = [one for one in found if isinstance(one, str)] + [gated.new for gated in gates]
    return completed(found, *how_they_ended(place, about))


def _decide_on_what_has_a_report(home: Home) -> list[ReleaseVerdict]:
    gates = [decide(home, baseline, report, policy) for report, baseline, policy in never_gated(home)]
    for gated in gates:
        log.info(f"{gated.verdict.outcome}: {gated.verdict.sentence}")
        log_page(partial(publish_verdict, home, gated))
    announce_reports(home, [], gates)
    return gates


def _waiting(home: Home, waiting: Waiting) -> Iterator[Registration]:
    """What to evaluate, in the order of registration.

    Of a storm of registrations each has an event, and a run that is queued: this one looks again until nothing is left,
    and then completes the runs that were queued before its last look.
    """
    tried: set[str] = set()
    while True:
        queued = queued_alike()
        left = [
            one
            for one in pending(home, waiting.release)
            if one.registration not in tried and (waiting.retry_failed or not one.attempts)
        ]
        todo = left[: waiting.at_most - len(tried)]
        if not todo:
            break
        tried |= {one.registration for one in todo}
        yield from todo
    if queued and not left:
        # One that has started meanwhile ends by itself.
        complete_queued({*queued} & {*queued_alike()})


def _say_what_is_left_out(home: Home, release: str) -> None:
    for one in registrations(home, release):
        if one.report_id is None and one.superseded and one.registration != release:
            log.info(f"{one.name}: registration {one.registration} is left out, since the release has newer answers")
