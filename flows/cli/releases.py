"""`answerkey register-release`, `evaluate-registered` and `rerun`."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

from answerkey.flows.cli.evaluate import RunnerOption, check_runner, prepare, print_result, with_suite
from answerkey.flows.cli.main import print_json
from answerkey.flows.cli.options import (
    DATA,
    HOME,
    JUDGING,
    LIMITS,
    SCORING,
    AsJson,
    Baseline,
    Flags,
    HomeOption,
    NoPage,
    PolicyOption,
    Quiet,
    command,
    pasted,
    with_files,
)
from answerkey.flows.environment import prepare_run, printable, started_here, use_kept_server
from answerkey.flows.parameters import LOCAL, Data, Judging, Limits, Scoring, Waiting
from answerkey.flows.rerunning import Rerunning, again
from answerkey.metrics_core.judges.options import OFFLINE_JUDGE
from answerkey.tasks.server import has_server


@command
def register_release(
    data: Annotated[
        Data,
        Flags(
            "Data",
            DATA.names,
            {"release": "NAME"},
            repeated=DATA.repeated,
            required=("release", "dataset"),
        ),
    ],
    /,
    *,
    as_json: AsJson = False,
    home: HomeOption = HOME,
) -> int:
    """Keep the answers of a release and what its evaluation needs, and notify the Prefect server, if there is one.

    Registering the same release again changes nothing. Without references, those of the data set's newest evaluation
    are taken.
    """
    from dataclasses import asdict

    from answerkey.tasks.releases.register import register

    data = with_files(data)
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    use_kept_server(home)
    made = register(home, data.source())
    if as_json:
        print_json(asdict(made))
        return 0
    state = f"has the report {made.report_id}" if made.report_id else "waits for its evaluation"
    print(printable(f"{made.name} is registered as {made.registration} and {state}"))
    how = pasted(home, "evaluate-registered", made.name)
    if how and not made.report_id and not has_server():
        print(f"evaluate it with: {how}")
    return 0


@command
def evaluate_registered(  # noqa: PLR0913
    waiting: Annotated[Waiting, Flags("Releases", positional={"release": "NAME"})],
    /,
    scoring: Annotated[Scoring, SCORING],
    judging: Annotated[Judging, JUDGING],
    limits: Annotated[Limits, LIMITS],
    *,
    baseline: Baseline = "",
    policy: PolicyOption = "",
    no_page: NoPage = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    home: HomeOption = HOME,
    runner: RunnerOption = LOCAL,
) -> int:
    """Evaluate every registered release that has no report yet. A second time does nothing."""
    from answerkey.flows.cli.progress import bars
    from answerkey.tasks.releases.register import pending

    limits = with_suite(limits)
    policy = prepare(home, scoring, judging, policy, baseline, quiet=quiet, runner=runner)
    pending(home, waiting.release)
    with bars(quiet=quiet), started_here():
        from answerkey.flows.evaluate_registered import evaluate_registered as flow

        result = flow(waiting, scoring, judging, limits, str(home), baseline, policy, page=not no_page, runner=runner)
    return print_result(
        result, home, dry_run=judging.dry_run, as_json=as_json, compared=bool(baseline), gated=bool(policy)
    )


@command
def rerun(
    rerunning: Annotated[Rerunning, Flags("Rerun", JUDGING.names, {"report": "REPORT"}, omit=SCORING.omit)],
    /,
    *,
    as_json: AsJson = False,
    quiet: Quiet = False,
    home: HomeOption = HOME,
    runner: RunnerOption = LOCAL,
) -> int:
    """Make the next version of a report from the same answers. What is not given stays as in the report."""
    from answerkey.flows.cli.progress import bars
    from answerkey.tasks.reports.report import read_reports, report_named

    prepare_run(home, quiet=quiet)
    # Whatever is wrong is said before a server is started for it.
    [report] = read_reports(home, [report_named(home, rerunning.report)])
    forms = again(report.manifest, rerunning)
    if runner != LOCAL and not rerunning.dry_run:
        judge = forms.judging.options() if forms.scoring.asks_judges else OFFLINE_JUDGE
        needs = ((metric, forms.judging.key_from) for metric in forms.scoring.create(judge=judge))
        check_runner(runner, home, needs)
    with bars(quiet=quiet), started_here():
        from answerkey.flows.rerun_report import rerun_report

        result = rerun_report(rerunning, str(home), runner=runner)
    return print_result(result, home, dry_run=rerunning.dry_run, as_json=as_json)
