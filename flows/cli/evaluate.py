"""`answerkey evaluate` and `answerkey metrics`, and what every command that evaluates shares."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from cyclopts import Parameter

from answerkey.flows.cli.main import print_json
from answerkey.flows.cli.options import (
    DATA,
    HOME,
    JUDGING,
    LIMITS,
    SCORING,
    AllFields,
    AsJson,
    Baseline,
    HomeOption,
    NoPage,
    PolicyOption,
    Quiet,
    absolute,
    command,
    pasted,
    with_files,
)
from answerkey.flows.environment import prepare_run, started_here
from answerkey.flows.parameters import LOCAL, NO_SUCH_OPTION, RUNNER, Data, Judging, Limits, Scoring, preflight
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.options import OFFLINE_JUDGE
from answerkey.tasks.command_line import option_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from answerkey.metrics_core.llm.cost import Cost
    from answerkey.metrics_core.metric import Metric
    from answerkey.tasks.warehouse.home import Home

RunnerOption = Annotated[str, Parameter("--runner", metavar="ADDRESS", help=RUNNER.description)]


@command
def evaluate(  # noqa: PLR0913
    data: Annotated[Data, DATA],
    /,
    scoring: Annotated[Scoring, SCORING],
    judging: Annotated[Judging, JUDGING],
    limits: Annotated[Limits, LIMITS],
    *,
    baseline: Baseline = "",
    policy: PolicyOption = "",
    no_page: NoPage = False,
    all_fields: AllFields = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    home: HomeOption = HOME,
    runner: RunnerOption = LOCAL,
) -> int:
    """Run the flow and print the reports, or what the judges would cost."""
    from answerkey.flows.cli.progress import bars
    from answerkey.tasks.load.load import check_columns, dataset_name

    data = with_files(data)
    dataset_name(data.source())
    with bars(quiet=quiet), tempfile.TemporaryDirectory(prefix="answerkey-") as work:
        limits = with_suite(limits, data.slices)
        check_columns(replace(data.source(), needs_references=scoring.needs_references), Path(work))
        policy = prepare(home, scoring, judging, policy, baseline, quiet=quiet, runner=runner)
        found = _evaluated(data, scoring, judging, limits, home, baseline, policy, page=not no_page, runner=runner)
    return print_result(
        found, home, dry_run=judging.dry_run, as_json=as_json, compared=bool(baseline), gated=bool(policy),
        all_fields=all_fields,
    )  # fmt: skip


def _evaluated(  # noqa: PLR0913
    data: Data,
    scoring: Scoring,
    judging: Judging,
    limits: Limits,
    home: Home,
    baseline: str,
    policy: str,
    *,
    page: bool,
    runner: str,
) -> Any:
    with started_here():
        from answerkey.flows.evaluate_release import evaluate_release

        return evaluate_release(
            data, scoring, judging, limits, str(home), baseline, policy, page=page, runner=runner
        )  # fmt: skip


def prepare(
    home: Home, scoring: Scoring, judging: Judging, policy: str, baseline: str, *, quiet: bool, runner: str = LOCAL
) -> str:
    """Set up what a run needs, and find out what is wrong before a server is started for it.

    Returns the policy as the flow takes it: a path that holds from any folder, or the text itself.

    Raises:
        UserError: a metric, a judge, the policy or the runner cannot be used.
    """
    prepare_run(home, quiet=quiet)
    _check_scoring(scoring, judging)
    policy = _checked_policy(policy, baseline)
    if not judging.dry_run:
        judge = judging.options() if scoring.asks_judges else OFFLINE_JUDGE
        check_runner(runner, home, ((metric, judging.key_from) for metric in scoring.create(judge=judge)))
    return policy


def with_suite(limits: Limits, slices: Sequence[str] | None = None) -> Limits:
    """The limits with a path of the expectations that holds from any folder, once it is known that they are a suite.

    Raises:
        UserError: they cannot be read, or are none.
    """
    if not limits.expectations:
        return limits
    from answerkey.metrics_core.document import is_text
    from answerkey.tasks.validate.expectations import read_suite

    read_suite(limits.expectations, slices)
    if is_text(limits.expectations):
        return limits
    return limits.model_copy(update={"expectations": absolute(limits.expectations)})


def check_runner(runner: str, home: Home, needs: Iterable[tuple[Metric, str]]) -> None:
    """See to it that a cluster can score these metrics; each comes with the place where the key of its judges is.

    Raises:
        UserError: it cannot.
    """
    if runner != LOCAL:
        from answerkey.flows.cluster import cluster_at

        if cluster := cluster_at(runner):
            cluster.check_ahead(home, needs)


def _check_scoring(scoring: Scoring, judging: Judging) -> None:
    if scoring.unused:
        raise UserError(f"{option_of('scoring', scoring.unused[0])}: {NO_SUCH_OPTION}")
    # A signature names the model, so a model that is not there is found before anything starts.
    judge = judging.options() if scoring.asks_judges else OFFLINE_JUDGE
    _ = [metric.signature for metric in scoring.create(judge=judge)]
    if scoring.asks_judges:
        preflight(judge, judging.key_from)
        return
    given = {"--judge": judging.judges, "--cascade": judging.cascade, "--dry-run": judging.dry_run}
    if option := next((name for name, value in given.items() if value), None):
        raise UserError(f"{option}: none of the metrics needs a judge; add meaning_match or ground_truth_similarity")


def _checked_policy(policy: str, baseline: str) -> str:
    from answerkey.metrics_core.document import is_text
    from answerkey.tasks.gate.gate import read_policy

    if not policy:
        return ""
    if not baseline:
        raise UserError("--policy: a gate needs a release to compare with; name one with --baseline")
    read_policy(policy)
    return policy if is_text(policy) else absolute(policy)


def print_result(
    result: Any,
    home: Home,
    *,
    dry_run: bool,
    as_json: bool,
    compared: bool = False,
    gated: bool = False,
    all_fields: bool = False,
) -> int:
    """Print the result of a run: its reports, how they compare, or what it would have asked. Returns the exit code."""
    from answerkey.flows.cli.compare import print_compared_reports
    from answerkey.flows.cli.tables import print_estimates, print_reports
    from answerkey.tasks.gate.verdicts import EXIT_CODES
    from answerkey.tasks.reports.report import read_reports

    if dry_run:
        print_estimates(cast("list[Cost]", result), as_json=as_json)
        return 0
    code = 0
    if result and compared:
        code = print_compared_reports(home, result, as_json=as_json, gated=gated, all_fields=all_fields)
    elif result or as_json:
        print_reports(read_reports(home, result) if result else [], as_json=as_json, all_fields=all_fields, home=home)
    if result and not as_json:
        _print_next(home, result, compared=compared, gated=gated)
    lacking = {
        report.report_id: list(
            dict.fromkeys(one.metric for one in report.overall if not one.n_scored and one.n_failed + one.n_skipped)
        )
        for report in (read_reports(home, result) if result else [])
    }
    for report_id, names in lacking.items():
        if names:
            print(f"answerkey: {report_id}: no answer has a score of {', '.join(names)}", file=sys.stderr)
    return code or (EXIT_CODES["INCOMPLETE"] if any(lacking.values()) else 0)


def _print_next(home: Home, report_ids: Sequence[str], *, compared: bool, gated: bool) -> None:
    """The commands that go on from these reports, as they can be pasted."""
    from answerkey.flows.cli.layout import show
    from answerkey.tasks.reports.headline import primary
    from answerkey.tasks.reports.report import newest_others, read_reports

    reports = read_reports(home, report_ids)
    newest = reports[-1]
    # Of one release, the last one that was evaluated before it on the same data set; of several, the first.
    others = [one.report_id for one in reports[:-1]] or newest_others(home, newest.report_id)
    failed = [one.report_id for one in reports if any(score.n_failed for score in one.overall)]
    commands = [("what failed is tried again", pasted(home, "rerun", one, "--only-failed")) for one in failed[:1]]
    if others and not compared:
        pair = (others[0], newest.report_id)
        rule = ("--primary", primary(reports[-1:]), "--margin", "0.02")
        commands += [("is it better?", pasted(home, "compare", *pair, "--samples", "5"))]
        commands += [] if gated else [("may it ship?", pasted(home, "gate", *pair, *rule))]
    commands.append(
        ("the samples behind the numbers, for a browser", pasted(home, "report", *report_ids, "--html", "report.html"))
    )
    if any(line for _, line in commands):
        show("", "next:")
    for why, line in commands:
        if line:
            show(f"  [dim]# {why}[/dim]")
            # Whatever the width: a command that is broken over lines would be several when it is pasted.
            print(f"  {line}")


def metrics(*, as_json: AsJson = False) -> int:
    """Print the catalogue of metrics and rubrics: those of answerkey, and those that other installed packages offer."""
    from answerkey.flows.cli.tables import print_metrics
    from answerkey.metrics_core.registry import ASKED, METRICS, create, entry_point_metrics

    catalogue = [(name, metric) for name in (*METRICS, *ASKED) for metric in create([name])]
    for name in entry_point_metrics():
        try:
            catalogue += [(name, metric) for metric in create([name])]
        except UserError as error:
            print(f"answerkey: {error}", file=sys.stderr)
    if not as_json:
        print_metrics(catalogue)
        return 0
    rows = [
        {
            "metric": name,
            "summary": metric.described(),
            "needs": sorted(metric.needs),
            "fields": [
                {"name": f.name, "description": f.description, "low": f.low, "high": f.high} for f in metric.fields
            ],
            "signature": metric.signature,
        }
        for name, metric in catalogue
    ]
    print_json(rows)
    return 0
