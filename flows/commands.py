"""What each command does. The heavy imports are inside, each where it is needed."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows import environment
from metrics_core.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flows.parameters import Data, Limits, Scoring


def evaluate(chosen: argparse.Namespace) -> int:
    """`answerkey evaluate`: run the flow and print the reports."""
    _check_files(chosen)
    environment.prepare(chosen.home)
    # Our own lines tell the user what happens; Prefect's go to its server, where they belong.
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    _show_progress(quiet=chosen.quiet)
    data, scoring, limits = _parameters(chosen)
    if not environment.has_server():
        logging.getLogger("answerkey").info(
            "starting a temporary Prefect server (10 to 20 seconds; PREFECT_API_URL names one that runs)"
        )
    from flows.evaluate_release import evaluate_release
    from flows.terminal import print_reports
    from tasks.report import read_reports

    report_ids = evaluate_release(data, scoring, limits, str(chosen.home))
    print_reports(read_reports(chosen.home, report_ids), as_json=chosen.json)
    return 0


def _check_files(chosen: argparse.Namespace) -> None:
    """What can be known before anything is started."""
    for source in filter(None, (chosen.answers, chosen.references)):
        file = source.split("::", 1)[0]
        if "://" not in file and not Path(file).is_file():
            raise BadInput(f"{file}: there is no such file")


def _parameters(chosen: argparse.Namespace) -> tuple[Data, Scoring, Limits]:
    from pydantic import ValidationError

    from flows.parameters import ALL_METRICS, Data, Limits, Scoring
    from metrics_core.registry import create
    from tasks.load import dataset_name

    metrics = _names(chosen.metrics) or list(ALL_METRICS)
    create(metrics)
    try:
        data = Data(
            answers=_absolute(chosen.answers),
            references=_absolute(chosen.references),
            dataset=chosen.dataset,
            release=chosen.release,
            columns=chosen.map,
            reference_columns=chosen.map_references,
            slices=chosen.slice,
        )
        scoring = Scoring(
            metrics=metrics,
            profile=chosen.profile,
            blank_answer=chosen.blank_answer,
            embedding_models=_names(chosen.embedding_models),
            aggregation=chosen.aggregation,
            threshold=chosen.threshold,
            only_failed=chosen.only_failed,
        )
        limits = Limits(max_quarantined=chosen.max_quarantined)
    except ValidationError as error:
        raise BadInput(_first_problem(error.errors()[0])) from error
    dataset_name(data.source())
    # A signature names the model, so a model that is not there is found before anything starts.
    _ = [metric.signature for metric in create(scoring.metrics, scoring.options(""))]
    return data, scoring, limits


def _first_problem(error: Mapping[str, Any]) -> str:
    option = "--" + str(error["loc"][0]).replace("_", "-")
    message = error["msg"]
    if error["type"] == "literal_error":
        message = f"choose from {error['ctx']['expected'].replace(' or ', ', ')}".replace("'", "")
    return f"{option} {error['input']}: {message}"


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _absolute(source: str) -> str:
    """Paths as the flow run can be repeated from another folder; URLs as they are."""
    return source if not source or "://" in source else os.path.abspath(source)


def _show_progress(*, quiet: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    handler.setLevel(logging.WARNING if quiet else logging.INFO)
    logger = logging.getLogger("answerkey")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


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
    print_reports(read_reports(chosen.home, report_ids), as_json=chosen.json, with_checks=True, by=chosen.by)
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
