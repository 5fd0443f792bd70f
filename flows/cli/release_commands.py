"""What the commands about registered releases and reruns do. None of them needs a server of the user's own."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from typing import TYPE_CHECKING, Any, cast

from answerkey.flows.cli.arguments import absolute, bad_argument, check_files, how_to_score, names, policy_given
from answerkey.flows.cli.comparison_commands import print_compared_reports
from answerkey.flows.cli.run import prepare_run, started_here
from answerkey.metrics_core.errors import UserError
from answerkey.tasks.publish.server import has_server

if TYPE_CHECKING:
    from answerkey.flows.forms.rerunning import Rerunning
    from answerkey.metrics_core.judges.estimate import Estimate


def register_release(chosen: argparse.Namespace) -> int:
    """`answerkey register-release`: keep the answers of a release."""
    from dataclasses import asdict

    from answerkey.tasks.load.columns import parse_map
    from answerkey.tasks.load.load import Source
    from answerkey.tasks.releases.register import register

    check_files(chosen)
    source = Source(
        absolute(chosen.answers), absolute(chosen.references) or None, chosen.dataset, chosen.release,
        parse_map(chosen.map), parse_map(chosen.map_references), tuple(chosen.slice),
    )  # fmt: skip
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    made = register(chosen.home, source)
    if chosen.json:
        print(json.dumps(asdict(made), indent=2, ensure_ascii=False))
        return 0
    state = f"has the report {made.report_id}" if made.report_id else "waits for its evaluation"
    print(f"{made.name} is registered as {made.registration} and {state}")
    if not made.report_id and not has_server():
        print(f"evaluate it with: answerkey evaluate-registered {made.name} --home {chosen.home}")
    return 0


def evaluate_registered(chosen: argparse.Namespace) -> int:
    """`answerkey evaluate-registered`: evaluate what is registered and has no report."""
    from answerkey.tasks.releases.registered import pending

    prepare_run(chosen.home, quiet=chosen.quiet)
    scoring, limits, judging = how_to_score(chosen)
    policy = policy_given(chosen)
    if chosen.at_most < 1:
        raise UserError(f"--at-most {chosen.at_most}: give a count from 1 on")
    pending(chosen.home, chosen.release)
    with started_here():
        from answerkey.flows.evaluate_registered import Waiting
        from answerkey.flows.evaluate_registered import evaluate_registered as flow

        waiting = Waiting(release=chosen.release, at_most=chosen.at_most)
        found = flow(
            waiting, scoring, judging, limits, str(chosen.home), chosen.baseline, policy, page=not chosen.no_page
        )  # fmt: skip
    return print_found(chosen, found, dry_run=judging.dry_run, baseline=chosen.baseline, policy=policy)


def rerun(chosen: argparse.Namespace) -> int:
    """`answerkey rerun`: make a report again with other parameters."""
    prepare_run(chosen.home, quiet=chosen.quiet)
    from answerkey.flows.forms.rerunning import again
    from answerkey.tasks.reports.names import report_named
    from answerkey.tasks.reports.report import read_reports

    wanted = _rerunning(chosen)
    # Whatever is wrong is said before a server is started for it.
    [report] = read_reports(chosen.home, [report_named(chosen.home, wanted.report)])
    again(report.manifest, wanted)
    with started_here():
        from answerkey.flows.rerun_report import rerun_report

        found = rerun_report(wanted, str(chosen.home))
    return print_found(chosen, found, dry_run=wanted.dry_run)


def _rerunning(chosen: argparse.Namespace) -> Rerunning:
    from pydantic import ValidationError

    from answerkey.flows.forms.rerunning import Rerunning

    given: dict[str, Any] = {} if chosen.threshold is None else {"threshold": chosen.threshold}
    try:
        return Rerunning(
            report=chosen.report,
            metrics=cast(Any, names(chosen.metrics)),
            only_failed=chosen.only_failed,
            judges=names(chosen.judge),
            api_base=chosen.judge_base,
            key_from=chosen.judge_key_from,
            max_calls=chosen.max_calls,
            max_cost_usd=chosen.max_cost,
            dry_run=chosen.dry_run,
            **given,
        )
    except ValidationError as error:
        # Not as the cause: a traceback of it could show what was typed.
        problem = bad_argument(error.errors()[0])
    raise problem


def print_found(chosen: argparse.Namespace, found: Any, *, dry_run: bool, baseline: str = "", policy: str = "") -> int:
    """What a run has found: its reports, how they compare, or what it would have asked; the exit code."""
    from answerkey.flows.terminal.judges import print_estimates
    from answerkey.flows.terminal.reports import print_reports
    from answerkey.tasks.reports.report import read_reports

    if dry_run:
        print_estimates(cast("list[Estimate]", found), as_json=chosen.json)
    elif found and baseline:
        return print_compared_reports(chosen.home, found, as_json=chosen.json, gated=bool(policy))
    elif found or chosen.json:
        print_reports(read_reports(chosen.home, found) if found else [], as_json=chosen.json)
    return 0
