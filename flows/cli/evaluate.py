"""`answerkey evaluate` and `answerkey metrics`, and what every command that evaluates shares."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated

from answerkey.flows.cli.main import print_json
from answerkey.flows.cli.options import (
    HOME,
    AllFields,
    AsJson,
    Baseline,
    Flags,
    HomeOption,
    PageOption,
    PolicyOption,
    Quiet,
    command,
    from_anywhere,
    pasted,
    with_files,
)
from answerkey.flows.environment import running
from answerkey.flows.parameters import NO_SUCH_OPTION, NOTHING, Data, Estimating, Limits, Scoring
from answerkey.metrics_core.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from answerkey.tasks.reports.report import Report
    from answerkey.tasks.warehouse.home import Home

_MARGIN = 0.02
"""Of the gate that is proposed."""


@command
def evaluate(  # noqa: PLR0913
    data: Annotated[Data, Flags("Data")],
    scoring: Annotated[Scoring, Flags("Scoring")],
    judging: Annotated[Estimating, Flags("Judge")],
    limits: Annotated[Limits, Flags("Limits")],
    *,
    baseline: Baseline = "",
    policy: PolicyOption = "",
    page: PageOption = True,
    all_fields: AllFields = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    home: HomeOption = HOME,
) -> int:
    """Score the answers of one or more releases and report.

    Examples:
        answerkey evaluate answers.csv
        answerkey evaluate answers.jsonl --references questions.jsonl --map release=model --slice lang
        answerkey evaluate answers.csv --judge openai/gpt-4o-mini --dry-run
    """
    # What is wrong with files and options is said before anything is imported that scores
    data = with_files(data)
    limits = limits.model_copy(update={"expectations": from_anywhere(limits.expectations)})
    # Options of no metric, a policy without a baseline, and options about judges that no metric asks have no effect
    if scoring.unused:
        raise UserError(f"--{scoring.unused[0].replace('_', '-')}: {NO_SUCH_OPTION}")
    if policy and not baseline:
        raise UserError("--policy: a gate needs a release to compare with; name one with --baseline")
    about_judges = {"--judge": judging.judges, "--cascade": judging.cascade, "--dry-run": judging.dry_run}
    option = next((name for name, value in about_judges.items() if value), None)
    if option and not scoring.asks_judges:
        raise UserError(f"{option}: none of the metrics needs a judge; add meaning_match or ground_truth_similarity")
    forms = (data, scoring, judging.judging, limits, str(home), baseline, from_anywhere(policy))

    # A dry run only asks what it would cost
    if judging.dry_run:
        from answerkey.flows.cli.tables import print_estimates

        with at_work(home, quiet=quiet):
            from answerkey.flows.estimate_release import estimate_release

            costs = estimate_release(*forms)
        print_estimates(costs, as_json=as_json)
        return 0
    with at_work(home, quiet=quiet):
        from answerkey.flows.evaluate_release import evaluate_release

        report_ids = evaluate_release(*forms, page=page)
    return print_result(
        report_ids,
        home,
        as_json=as_json,
        compared=baseline not in ("", NOTHING),
        gated=bool(policy),
        all_fields=all_fields,
        two_compared=not baseline and len(report_ids) == 2,
    )


@contextmanager
def at_work(home: Home, *, quiet: bool) -> Iterator[None]:
    """Around a command's import and call of a flow that scores or asks: see `running`, with bars of its progress."""
    from answerkey.flows.cli.progress import bars

    with running(home, quiet=quiet), bars(quiet=quiet):
        yield


def print_result(
    result: Sequence[str],
    home: Home,
    *,
    as_json: bool,
    compared: bool = False,
    gated: bool = False,
    all_fields: bool = False,
    two_compared: bool = False,
) -> int:
    """Print the result of a run: its reports, or how they compare. Returns the exit code.

    `two_compared`: whether the run has compared its two releases without being asked. JSON leaves that comparison out:
    its form does not depend on how many releases a file has.
    """
    from rich.markup import escape

    from answerkey.flows.cli.compare import print_against
    from answerkey.flows.cli.layout import show
    from answerkey.flows.cli.tables import print_reports
    from answerkey.tasks.compare.compare import compare_all, stored_comparisons
    from answerkey.tasks.gate.verdicts import EXIT_CODES, exit_code, stored_verdicts
    from answerkey.tasks.publish.text import first_is_old
    from answerkey.tasks.reports.report import read_reports

    # A dry run or a run that has nothing to do may have made no warehouse
    with home.warehouse.reading() if result else nullcontext():
        reports = read_reports(home, result) if result else []
        gates = stored_verdicts(home, result) if result else ()
    # By the gate that is kept for the data set too
    gated = gated or bool(gates)
    compared = compared or gated
    two_compared = two_compared and not gated
    if reports and (compared or (two_compared and not as_json)):
        pairs = stored_comparisons(home, result)
        if all_fields and pairs:
            # Once more, since more fields need a larger correction. What was stored about the headlines stays
            compared_ids = [(pair.old, pair.new) for pair in pairs]
            pairs = compare_all(home, compared_ids, all_fields=True, primary=pairs[0].primary)
        if pairs and two_compared:
            show(escape(first_is_old(*(report.release for report in reports))))
        # A run says first what was decided; `report` and `gate` have the numbers of each release, slice and rule
        in_pairs = {report_id for pair in pairs if pair.is_complete for report_id in (pair.old, pair.new)}
        brief = in_pairs == {report.report_id for report in reports if report.status == "COMPLETE"} == set(result)
        print_against(home, reports, pairs, gates, as_json=as_json, all_fields=all_fields, brief=brief)
    elif reports or as_json:
        print_reports(reports, as_json=as_json, all_fields=all_fields, home=home)
    if reports and not as_json:
        _print_next(home, reports, compared=compared, two_compared=two_compared, gated=gated)

    # A metric without a single score is a failure of its own
    code = exit_code(gates, asked=gated)
    for report in reports:
        unscored = [score.metric for score in report.overall if not score.n_scored and score.n_failed + score.n_skipped]
        if unscored:
            names = ", ".join(dict.fromkeys(unscored))
            print(f"answerkey: {report.report_id}: no answer has a score of {names}", file=sys.stderr)
            code = code or EXIT_CODES["INCOMPLETE"]
    return code


def _print_next(home: Home, reports: Sequence[Report], *, compared: bool, two_compared: bool, gated: bool) -> None:
    """The commands that go on from these reports, as they can be pasted."""
    from answerkey.flows.cli.layout import show
    from answerkey.metrics_core.llm.untrusted import one_line
    from answerkey.tasks.reports.headline import primary
    from answerkey.tasks.reports.report import labels, newest_others, read_reports

    report_ids = [report.report_id for report in reports]
    newest = reports[-1]
    commands = []
    failed = [report.report_id for report in reports if any(score.n_failed for score in report.overall)]
    if failed:
        commands.append(("what failed is tried again", pasted(home, "rerun", failed[0], "--only-failed")))

    # How it compares: with the last release that was evaluated before it on the data set; of several, with the first
    older = report_ids[:-1] or newest_others(home, newest.report_id)
    if older and not compared:
        pair = (older[0], newest.report_id)
        old, new = labels(read_reports(home, pair)).values()
        better = "which answers changed most?" if two_compared else f"is {new} better than {old}?"
        commands.append((better, pasted(home, "compare", *pair, "--samples", "5")))
        if len(reports) > 2:
            each_better = f"is each of the {len(reports) - 1} others better than {old}?"
            commands.append((each_better, pasted(home, "report", *report_ids, "--baseline", older[0])))
        if not gated:
            ships = f"may {new} replace {old}, if you accept a loss of at most {_MARGIN:g}?"
            policy = ("--primary", primary(reports[-1:]), "--margin", f"{_MARGIN:g}")
            commands.append((ships, pasted(home, "gate", *pair, *policy)))
    if older and compared:
        commands.append(("better or worse in each field", pasted(home, "compare", older[0], newest.report_id)))
    else:
        commands.append(("slices and samples as a page", pasted(home, "report", *report_ids, "--html", "report.html")))

    # Whatever the width: a command that is broken over lines would be several when it is pasted
    commands = [(one_line(purpose), line) for purpose, line in commands if line]
    if commands and not compared:
        show("", "next:")
    for purpose, line in commands:
        print(f"{purpose}: {line}" if compared else f"  # {purpose}\n  {line}")


def metrics(*, as_json: AsJson = False) -> int:
    """What each metric is, its fields and what it needs.

    Examples:
        answerkey metrics --json
    """
    from answerkey.flows.cli.layout import show
    from answerkey.metrics_core.registry import ASKED, METRICS, create, entry_point_metrics
    from answerkey.tasks.publish.table import Table

    # Those of this package, then those of others, which may be broken
    catalogue = []
    for name in (*METRICS, *ASKED):
        catalogue += [(name, metric) for metric in create([name])]
    for name in entry_point_metrics():
        try:
            catalogue += [(name, metric) for metric in create([name])]
        except UserError as error:
            print(f"answerkey: {error}", file=sys.stderr)
    if not as_json:
        head = ("metric", "what it is", "fields", "needs")
        lines = []
        for name, metric in catalogue:
            field_names = ", ".join(field.name for field in metric.fields)
            lines.append((name, metric.described(), field_names, ", ".join(sorted(metric.needs))))
        show(Table("", head, lines, left=head, wrapped={"what it is": 24, "fields": 24, "needs": 11}))
        return 0
    rows = []
    for name, metric in catalogue:
        fields = [field.as_dict() for field in metric.fields]
        for field in fields:
            field.pop("binary", None)
            field.pop("lower_is_better", None)
        row = {"metric": name, "summary": metric.described(), "needs": sorted(metric.needs), "fields": fields}
        rows.append({**row, "signature": metric.signature})
    print_json(rows)
    return 0
