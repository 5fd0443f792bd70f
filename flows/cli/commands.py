"""What each command does. The heavy imports are inside, each where it is needed."""

from __future__ import annotations

import argparse
import json

from answerkey.flows import environment
from answerkey.flows.cli.arguments import check_files, forms, judging, policy_given
from answerkey.flows.cli.comparison_commands import against, compare, diff, history, print_against, write_page
from answerkey.flows.cli.release_commands import evaluate_registered, print_found, register_release, rerun
from answerkey.flows.cli.run import prepare_run, started_here
from answerkey.flows.cli.server_commands import deploy, serve
from answerkey.flows.cli.trace_commands import score_traces
from answerkey.metrics_core.errors import UserError

__all__ = [
    "compare", "deploy", "diff", "doctor", "evaluate", "evaluate_registered", "history", "judge", "metrics",
    "register_release", "report", "rerun", "score_traces", "serve",
]  # fmt: skip


def evaluate(chosen: argparse.Namespace) -> int:
    """`answerkey evaluate`: run the flow and print the reports, or what the judges would cost."""
    check_files(chosen)
    prepare_run(chosen.home, quiet=chosen.quiet)
    given, policy = forms(chosen), policy_given(chosen)
    with started_here():
        from answerkey.flows.evaluate_release import evaluate_release

        found = evaluate_release(
            given.data, given.scoring, given.judging, given.limits, str(chosen.home), chosen.baseline, policy,
            page=not chosen.no_page,
        )  # fmt: skip
    return print_found(chosen, found, dry_run=given.judging.dry_run, baseline=chosen.baseline, policy=policy)


def judge(chosen: argparse.Namespace) -> int:
    """`answerkey judge`: try a judge on one answer."""
    from answerkey.flows.cli.trial import ask_about, metrics_of
    from answerkey.flows.terminal.judges import print_trials

    references = [chosen.reference, *chosen.more_references]
    trials = ask_about(
        chosen.question, references, chosen.answer, metrics_of(chosen.metric), judging(chosen), chosen.home
    )
    print_trials(trials, references, as_json=chosen.json)
    return 0 if all(trial.measurement.status in ("scored", "undefined") for trial in trials) else 1


def report(chosen: argparse.Namespace) -> int:
    """`answerkey report`: print reports from the warehouse."""
    from answerkey.flows.terminal.reports import print_list, print_reports
    from answerkey.tasks.gate.verdicts import exit_code
    from answerkey.tasks.reports.names import report_named
    from answerkey.tasks.reports.report import latest_run, list_reports, read_reports

    if chosen.list:
        rows = [row for prefix in chosen.report_id or [""] for row in list_reports(chosen.home, prefix)]
        print_list(rows, as_json=chosen.json)
        return 0
    report_ids = [report_named(chosen.home, one) for one in chosen.report_id] or latest_run(chosen.home)
    if not report_ids:
        raise UserError(f"{chosen.home}: no reports yet; run `answerkey evaluate` first")
    if not (chosen.html or chosen.baseline or chosen.policy):
        print_reports(read_reports(chosen.home, report_ids), as_json=chosen.json, with_checks=True, by=chosen.by)
        return 0
    ids, pairs, gates = against(chosen.home, report_ids, chosen.baseline, chosen.policy)
    if chosen.html:
        write_page(chosen.home, ids, chosen.html, pairs, gates, chosen.by)
        print(chosen.html)
    else:
        print_against(read_reports(chosen.home, ids), pairs, gates, as_json=chosen.json, by=chosen.by)
    return exit_code(gates)


def gate(chosen: argparse.Namespace) -> int:
    """`answerkey gate`: decide whether a release may ship."""
    from answerkey.flows.cli.gate_commands import gate as decide

    return decide(chosen)


def calibrate(chosen: argparse.Namespace) -> int:
    """`answerkey calibrate`: compare a metric with labels of people."""
    from answerkey.flows.cli.gate_commands import calibrate as compare_with_people

    return compare_with_people(chosen)


def generate(chosen: argparse.Namespace) -> int:
    """`answerkey generate`: ask a model all questions of a data set."""
    from answerkey.flows.cli.generate_command import generate as ask

    return ask(chosen)


def metrics(chosen: argparse.Namespace) -> int:
    """`answerkey metrics`: the catalogue."""
    from answerkey.flows.terminal.reports import print_metrics
    from answerkey.metrics_core.registry import METRICS

    catalogue = [(name, cls.described(), cls()) for name, cls in METRICS.items()]
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
    from answerkey.flows.cli.doctor import examine
    from answerkey.flows.terminal.reports import print_findings

    findings = examine(chosen.home)
    print_findings(findings)
    return 0 if all(finding.ok for finding in findings) else 1
