"""From the arguments of the command line to the forms of the flow, with one clear line for what is wrong."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.errors import UserError

if TYPE_CHECKING:
    from answerkey.flows.forms.judging import Judging
    from answerkey.flows.forms.parameters import Data, Limits, MetricName, Scoring

_OPTIONS = {
    "judges": "--judge",
    "api_base": "--judge-base",
    "key_from": "--judge-key-from",
    "concurrency": "--judge-concurrency",
    "timeout_s": "--judge-timeout",
    "deadline_s": "--judge-deadline",
    "max_cost_usd": "--max-cost",
}
"""Fields that the command line knows by another name."""

SILENT = {
    "judges": "write PROVIDER/MODEL or PROVIDER/MODEL@http://address, for instance openai/gpt-4o-mini; or offline",
    "api_base": "write the address of a server, for instance http://127.0.0.1:8080/v1, without a password",
    "model": "write PROVIDER/MODEL or PROVIDER/MODEL@http://address, for instance openai/gpt-4o-mini",
    "key_from": "say where the key is (env:NAME, secret:BLOCK or variable:NAME); never give the key itself",
}
"""What is said of fields that may hold a secret by mistake: nothing of what was typed."""


@dataclass(frozen=True, slots=True)
class Forms:
    """Everything that `answerkey evaluate` was told."""

    data: Data
    scoring: Scoring
    limits: Limits
    judging: Judging


def check_files(chosen: argparse.Namespace) -> None:
    """What can be known before anything is started.

    Raises:
        UserError: a file is not there.
    """
    for source in filter(None, (chosen.answers, chosen.references)):
        file = source.split("::", 1)[0]
        if "://" not in file and not Path(file).is_file():
            raise UserError(f"{file}: there is no such file")


def forms(chosen: argparse.Namespace) -> Forms:
    """The arguments of `answerkey evaluate`.

    Raises:
        UserError: one of them is wrong, or they contradict each other, or a judge cannot be asked.
    """
    from pydantic import ValidationError

    from answerkey.flows.forms.parameters import Data
    from answerkey.tasks.load.load import dataset_name

    try:
        data = Data(
            answers=absolute(chosen.answers),
            references=absolute(chosen.references),
            dataset=chosen.dataset,
            release=chosen.release,
            columns=chosen.map,
            reference_columns=chosen.map_references,
            slices=chosen.slice,
        )
    except ValidationError as error:
        raise bad_argument(error.errors()[0]) from error
    dataset_name(data.source())
    return Forms(data, *how_to_score(chosen))


def how_to_score(chosen: argparse.Namespace) -> tuple[Scoring, Limits, Judging]:
    """The arguments of an evaluation that are not about the data.

    Raises:
        UserError: one of them is wrong, or they contradict each other, or a judge cannot be asked.
    """
    from pydantic import ValidationError

    from answerkey.flows.forms.judging import preflight
    from answerkey.flows.forms.parameters import Limits, Scoring
    from answerkey.metrics_core.registry import create

    metrics = _metrics(chosen)
    create(metrics)
    try:
        scoring = Scoring(
            metrics=metrics,
            profile=chosen.profile,
            blank_answer=chosen.blank_answer,
            embedding_models=names(chosen.embedding_models),
            aggregation=chosen.aggregation,
            threshold=chosen.threshold,
            only_failed=chosen.only_failed,
        )
        limits = Limits(max_quarantined=chosen.max_quarantined, min_coverage=chosen.min_coverage)
    except ValidationError as error:
        raise bad_argument(error.errors()[0]) from error
    # A signature names the model, so a model that is not there is found before anything starts.
    _ = [metric.signature for metric in create(scoring.metrics, scoring.options(""))]
    asked = _judging_of_a_run(chosen, scoring)
    if scoring.asks_judges:
        preflight(asked.options(), asked.key_from)
    return scoring, limits, asked


def _metrics(chosen: argparse.Namespace) -> list[MetricName]:
    from answerkey.flows.forms.parameters import DEFAULT_METRICS

    given: list[Any] = names(chosen.metrics)
    return given or DEFAULT_METRICS


def _judging_of_a_run(chosen: argparse.Namespace, scoring: Scoring) -> Judging:
    if not scoring.asks_judges:
        given = {"--judge": chosen.judge, "--cascade": chosen.cascade, "--dry-run": chosen.dry_run}
        if option := next((name for name, value in given.items() if value), None):
            raise UserError(
                f"{option}: none of the metrics needs a judge; add meaning_match or ground_truth_similarity"
            )
    limits = {"max_calls": chosen.max_calls, "max_cost_usd": chosen.max_cost, "concurrency": chosen.judge_concurrency}
    return judging(chosen, dry_run=chosen.dry_run, **limits)


def policy_given(chosen: argparse.Namespace) -> str:
    """The policy of `--policy` as the flow takes it: a path that holds from any folder, or the text itself.

    Raises:
        UserError: it cannot be read, or there is no baseline to decide against.
    """
    from answerkey.tasks.gate.gate import is_text, read_policy

    text: str = chosen.policy
    if not text:
        return ""
    if not chosen.baseline:
        raise UserError("--policy: a gate needs a release to compare with; name it with --baseline")
    read_policy(text)
    return text if is_text(text) else absolute(text)


def judging(chosen: argparse.Namespace, **more: Any) -> Judging:
    """The arguments that say whom to ask, and `more` fields of the form.

    Raises:
        UserError: one of them is wrong. Nothing that may be a key is repeated.
    """
    from pydantic import ValidationError

    from answerkey.flows.forms.judging import Judging

    try:
        return Judging(
            judges=names(chosen.judge),
            api_base=chosen.judge_base,
            key_from=chosen.judge_key_from,
            cascade=chosen.cascade,
            jury=chosen.jury,
            repeats=chosen.repeats,
            timeout_s=chosen.judge_timeout,
            deadline_s=chosen.judge_deadline,
            **more,
        )
    except ValidationError as error:
        # Not as the cause: a traceback of it could show what was typed.
        problem = bad_argument(error.errors()[0])
    raise problem


def bad_argument(error: Mapping[str, Any], options: Mapping[str, str] = _OPTIONS) -> UserError:
    """One of pydantic's errors, as the command line says it; `options` are names that differ from their fields'."""
    field = str(error["loc"][0])
    option = options.get(field) or f"--{field.replace('_', '-')}"
    if field in SILENT:
        return UserError(f"{option}: {SILENT[field]}")
    return UserError(f"{option} {error['input']}: {wrong_value(error)}")


def wrong_value(error: Mapping[str, Any]) -> str:
    """What one of pydantic's errors says of a value."""
    if error["type"] == "literal_error":
        return f"choose from {error['ctx']['expected'].replace(' or ', ', ')}".replace("'", "")
    return str(error["msg"])


def names(text: str) -> list[str]:
    """A list as it is written on the command line: with commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def absolute(source: str) -> str:
    """Paths as the flow run can be repeated from another folder; URLs as they are."""
    return source if not source or "://" in source else os.path.abspath(source)
