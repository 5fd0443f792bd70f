"""The form for making a report again with other parameters, merged with the report's own."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from answerkey.flows.forms import Form, names_of
from answerkey.flows.parameters import (
    METRIC_OPTIONS,
    NO_SUCH_OPTION,
    JudgeName,
    Judging,
    Limits,
    MetricChoice,
    Scoring,
)
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.options import OFFLINE
from answerkey.metrics_core.validation import InvalidValue, Option

_AS_IN_THE_REPORT = -1.0
_THRESHOLD = Scoring.model_fields["threshold"]


def _as_in(form: type[BaseModel], name: str, description: str = "") -> Any:
    """The field of another form, with its limits; `description` says what is different here."""
    field = copy(form.model_fields[name])
    field.description = description or field.description
    return field


class Rerunning(Form):
    """Which report to make again, and what to change. Everything else stays as in the report."""

    usual = ("report", "metrics", "judges", "key_from", "only_failed", "dry_run")
    # As in the form for judges: whatever was typed into the wrong field is in no message.
    model_config = ConfigDict(title="Rerun", hide_input_in_errors=True, allow_inf_nan=False)

    report: Annotated[str, Option("REPORT")] = Field(
        min_length=1,
        title="Report",
        description="A report (faq/gpt-4/v2) or a release (gpt-4), which stands for its newest report.",
        examples=["faq/gpt-4/v2"],
        json_schema_extra=names_of("releases"),
    )
    metrics: list[MetricChoice] = Field(
        default_factory=list,
        title="Metrics",
        description="The metrics of the new report. Empty: those of the old one.",
    )
    own_metrics: list[str] = _as_in(Scoring, "own_metrics")
    only_failed: bool = Field(
        False,
        title="Only failed",
        description="Score again what failed, and ask the judges again about what a fallback judged; nothing else.",
    )
    threshold: float = Field(
        _AS_IN_THE_REPORT,
        ge=_AS_IN_THE_REPORT,
        le=1.0,
        title=_THRESHOLD.title,
        description=f"{_THRESHOLD.description} -1: as in the report.",
    )
    judges: tuple[JudgeName, ...] = _as_in(
        Judging, "judges", "offline, PROVIDER/MODEL or PROVIDER/MODEL@ADDRESS. Empty: those of the report."
    )
    api_base: str = _as_in(
        Judging,
        "api_base",
        "http://... of an OpenAI-compatible server, for the judges above without an address of their own.",
    )
    key_from: str = _as_in(
        Judging,
        "key_from",
        "Where the key is: env:NAME, secret:BLOCK or variable:NAME; never the key itself. Empty: as in the report.",
    )
    max_calls: int = _as_in(Judging, "max_calls")
    max_cost_usd: float = _as_in(Judging, "max_cost_usd")
    max_cost_total_usd: float = _as_in(Judging, "max_cost_total_usd")
    dry_run: bool = _as_in(Judging, "dry_run")


@dataclass(frozen=True, slots=True)
class Again:
    """The forms of the new run."""

    scoring: Scoring
    judging: Judging
    limits: Limits


def again(manifest: Mapping[str, Any], wanted: Rerunning) -> Again:
    """The parameters of a report, with what is wanted changed in them.

    Raises:
        UserError: the parameters cannot be used any more, failed rows are to be scored by another judge, or none of
            the metrics has a threshold.
    """
    old = manifest["parameters"]
    try:
        scored_with = dict(old["scoring"])
        # As the option was called before.
        if "embedding_models" in scored_with:
            scored_with["models"] = scored_with.pop("embedding_models")
        scoring, judging = Scoring(**scored_with), Judging(**old["judging"])
        # The suite that was checked, wherever its file is now.
        limits = Limits(
            **{**old["limits"], **({"expectations": suite} if (suite := manifest.get("expectations")) else {})}
        )
    except (InvalidValue, KeyError) as error:
        raise UserError(
            f"{wanted.report}: it was made by another version of answerkey, with unknown parameters; "
            "evaluate its answers again"
        ) from error
    if wanted.only_failed and (wanted.judges or wanted.threshold != _AS_IN_THE_REPORT):
        raise UserError("only failed rows: nothing has failed yet with another judge or threshold; drop one of the two")
    changes: dict[str, Any] = {"only_failed": wanted.only_failed}
    if wanted.metrics or wanted.own_metrics:
        changes["metrics"] = [*(wanted.metrics or scoring.metrics), *wanted.own_metrics]
    if wanted.threshold != _AS_IN_THE_REPORT:
        changes["threshold"] = wanted.threshold
    scoring = scoring.model_copy(update=changes)
    # What the report was made with, and the metrics of the new one do not have.
    dropped = {name: METRIC_OPTIONS[name][1].default for name in scoring.unused if name not in changes}
    scoring = scoring.model_copy(update=dropped)
    if scoring.unused:
        raise UserError(f"{scoring.unused[0]}: {NO_SUCH_OPTION}")
    return Again(scoring, _judging(manifest, judging, wanted, asked=scoring.asks_judges), limits)


def _judging(manifest: Mapping[str, Any], old: Judging, wanted: Rerunning, *, asked: bool) -> Judging:
    changes = wanted.model_dump(include={"max_calls", "max_cost_usd", "max_cost_total_usd", "dry_run"})
    if wanted.key_from:
        changes["key_from"] = wanted.key_from
    if wanted.judges:
        kept = () if OFFLINE in wanted.judges else old.fallbacks
        changes["fallbacks"] = tuple(judge for judge in kept if judge not in wanted.judges)
        return old.model_copy(update={**changes, "judges": wanted.judges, "api_base": wanted.api_base})
    if asked and not old.judges:
        _check_same_judges(manifest, old)
    return old.model_copy(update=changes)


def _check_same_judges(manifest: Mapping[str, Any], old: Judging) -> None:
    """A report whose judges were named outside of it is not made again with others by accident."""
    then = (manifest.get("judge") or {}).get("judges")
    now = list(old.options().labels)
    if then and then != now:
        raise UserError(
            f"the report asked {', '.join(then)}, which were not named in it; now it would ask "
            f"{', '.join(now)}; name the ones you want"
        )
