"""What each command does. The heavy imports are inside, each where it is needed."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from typing import TYPE_CHECKING, cast

from flows import environment
from flows.arguments import check_files, forms, judging
from flows.comparison_commands import compare, diff, history, print_compared_reports
from metrics_core.errors import BadInput
from tasks.server import has_server

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from metrics_core.judge.foresight import Estimate

__all__ = ["compare", "diff", "doctor", "evaluate", "history", "judge", "metrics", "report"]


def evaluate(chosen: argparse.Namespace) -> int:
    """`answerkey evaluate`: run the flow and print the reports, or what the judges would cost."""
    check_files(chosen)
    environment.prepare(chosen.home)
    # Our own lines tell the user what happens; Prefect's go to its server, where they belong.
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    _show_progress(quiet=chosen.quiet)
    given = forms(chosen)
    if not has_server():
        logging.getLogger("answerkey").info(
            "starting a temporary Prefect server (10 to 20 seconds; PREFECT_API_URL names one that runs)"
        )
    from flows.evaluate_release import evaluate_release
    from flows.terminal import print_reports
    from flows.terminal_judge import print_estimates
    from tasks.report import read_reports

    found = evaluate_release(given.data, given.scoring, given.judging, given.limits, str(chosen.home), chosen.baseline)
    if given.judging.dry_run:
        print_estimates(cast("list[Estimate]", found), as_json=chosen.json)
    elif chosen.baseline:
        print_compared_reports(chosen.home, cast(list[str], found), as_json=chosen.json)
    else:
        print_reports(read_reports(chosen.home, cast(list[str], found)), as_json=chosen.json)
    return 0


def _show_progress(*, quiet: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    handler.setLevel(logging.WARNING if quiet else logging.INFO)
    logger = logging.getLogger("answerkey")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


def judge(chosen: argparse.Namespace) -> int:
    """`answerkey judge`: try a judge on one answer."""
    from flows.terminal_judge import print_trials
    from flows.trial import ask_about, metrics_of

    references = [chosen.reference, *chosen.more_references]
    trials = ask_about(
        chosen.question, references, chosen.answer, metrics_of(chosen.metric), judging(chosen), chosen.home
    )
    print_trials(trials, references, as_json=chosen.json)
    return 0 if all(trial.measurement.status in ("scored", "undefined") for trial in trials) else 1


def report(chosen: argparse.Namespace) -> int:
    """`answerkey report`: print reports from the warehouse."""
    from flows.terminal import print_list, print_reports
    from tasks.report import latest_run, list_reports, read_reports

    if chosen.list:
        rows = [row for prefix in chosen.report_id or [""] for row in list_reports(chosen.home, prefix)]
        print_list(rows, as_json=chosen.json)
        return 0
    report_ids = chosen.report_id or latest_run(chosen.home)
    if not report_ids:
        raise BadInput(f"{chosen.home}: no reports yet; run `answerkey evaluate` first")
    if chosen.html:
        return _page(chosen.home, report_ids, chosen.html, chosen.by)
    print_reports(read_reports(chosen.home, report_ids), as_json=chosen.json, with_checks=True, by=chosen.by)
    return 0


def gate(chosen: argparse.Namespace) -> int:
    """`answerkey gate`: decide whether a release may ship."""
    from flows.gate_command import gate as decide

    return decide(chosen)


def calibrate(chosen: argparse.Namespace) -> int:
    """`answerkey calibrate`: compare a metric with labels of people."""
    from flows.gate_command import calibrate as compare_with_people

    return compare_with_people(chosen)


def _page(home: Path, report_ids: Sequence[str], file: Path, primary: str | None) -> int:
    """Write a page about reports, each compared with the one before it."""
    from itertools import pairwise

    from tasks.compare import compare
    from tasks.page.build import build_page
    from tasks.page.html import write

    pairs = [compare(home, old, new) for old, new in pairwise(dict.fromkeys(report_ids))]
    print(write(build_page(home, report_ids, pairs=pairs, primary=primary), file))
    return 0


def metrics(chosen: argparse.Namespace) -> int:
    """`answerkey metrics`: the catalogue."""
    from flows.terminal import print_metrics
    from metrics_core.registry import METRICS, Options

    catalogue = [(name, info.summary, info.build(Options())) for name, info in METRICS.items()]
    if chosen.json:
        rows = [
            {
                "metric": name,
                "summary": summary,
                "needs": sorted(metric.needs),
                "fields": [
                    {"name": f.name, "description": f.description, "low": f.low, "high": f.high} for f in metric.fields
                ],
                "signature": metric.signature,
            }
            for name, summary, metric in catalogue
        ]
        print(json.dumps(rows, indent=2, ensure_ascii=False))
    else:
        print_metrics(catalogue)
    return 0


def doctor(chosen: argparse.Namespace) -> int:
    """`answerkey doctor`: is everything there that a run needs?"""
    environment.prepare(chosen.home)
    from flows.doctor import examine
    from flows.terminal import print_findings

    findings = examine(chosen.home)
    print_findings(findings)
    return 0 if all(finding.ok for finding in findings) else 1
