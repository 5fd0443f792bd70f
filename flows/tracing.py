"""The form for scoring traces, and the options, judges and time window of the rules that it names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from answerkey.flows.forms import Form
from answerkey.flows.parameters import Judging, Scoring, preflight
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.options import OFFLINE_JUDGE
from answerkey.metrics_core.llm.access import Access
from answerkey.metrics_core.metric import Metric
from answerkey.metrics_core.validation import InvalidValue, Option
from answerkey.tasks.traces.rules import Rule, load_rules
from answerkey.tasks.traces.score import newest_version
from answerkey.tasks.traces.select import Window
from answerkey.tasks.traces.source import check_source
from answerkey.tasks.warehouse.home import Home

_DAY = r"^(\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2})?(Z|[+-]\d{2}:\d{2})?)?)?$"


class Tracing(Form):
    """Which rules to run, and on which traces."""

    model_config = ConfigDict(title="Traces")

    rules: Annotated[list[str], Option("RULES")] = Field(
        default_factory=lambda: ["rules"],
        min_length=1,
        title="Rules",
        description="YAML files, or folders of them.",
        examples=[["examples/rules"]],
    )
    only: Annotated[list[str], Option("--rule")] = Field(
        default_factory=list,
        title="Only",
        description="Names of rules. Empty: all in these files.",
    )
    since: str = Field(
        "",
        pattern=_DAY,
        title="Since",
        description="Backfill: traces from this day or time on (UTC). Both empty: new traces only.",
        examples=["2026-11-01"],
    )
    until: str = Field(
        "",
        pattern=_DAY,
        title="Until",
        description="Backfill: traces before this day or time (UTC).",
        examples=["2026-12-01"],
    )
    dry_run: bool = Field(
        False,
        title="Dry run",
        description="Show which traces would be scored, estimate the cost, and stop before any judge is asked.",
    )

    def window(self) -> Window:
        """The traces of a backfill, or no window.

        Raises:
            UserError: a day does not exist, or nothing lies between the two.
        """
        since, until = _moment("since", self.since), _moment("until", self.until)
        if since and until and since >= until:
            raise UserError(f"--since {self.since} --until {self.until}: no time lies between them; until is exclusive")
        return Window(since, until)


def _moment(name: str, text: str) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UserError(f"--{name} {text}: write a day or a time, like 2026-11-01 or 2026-11-01T12:00Z") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Job:
    """A rule with everything needed to run it; `key_from` says where the key of its judges is."""

    rule: Rule
    metric: Metric
    key_from: str


def jobs(form: Tracing, home: Home, run_id: str) -> tuple[Job, ...]:
    """The rules of a form. Everything that can be checked before the traces are read is checked here.

    Raises:
        UserError: a rule, a source, a data set or a judge cannot be used; each line has file, line and key.
    """
    return tuple(_job(rule, home, run_id) for rule in load_rules(form.rules, form.only))


def _job(rule: Rule, home: Home, run_id: str) -> Job:
    with _located_at(rule, "source"):
        check_source(rule.source)
    if rule.dataset:
        _check_dataset(rule, home)
    scoring = _form(rule, "options", Scoring, rule.options, metrics=[rule.metric])
    judge, key_from = OFFLINE_JUDGE, ""
    if scoring.asks_judges:
        judging = _form(rule, "judge", Judging, rule.judge)
        with _located_at(rule, "judge"):
            judge, key_from = judging.options(), judging.key_from
            if rule.enabled:
                preflight(judge, key_from)
    # Each rule has a budget of its own.
    access = Access(ledger=home.ledger, run=f"{run_id}/{rule.name}")
    with _located_at(rule, "options"):
        [metric] = scoring.create(home.embeddings, judge, access)
        # A signature names the model, so a model that is not there is found before anything starts.
        _ = metric.signature
    return Job(rule, metric, key_from)


@contextmanager
def _located_at(rule: Rule, key: str) -> Iterator[None]:
    """Say where in its file the rule has what cannot be used."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{rule.located.where(key)}: {key}: {error}") from error


_Model = TypeVar("_Model", bound=BaseModel)
_NOT_IN_RULES = ("metrics", "own_metrics", "only_failed", "dry_run")


def _form(rule: Rule, key: str, form: type[_Model], given: Mapping[str, Any], **more: Any) -> _Model:
    known = [name for name in form.model_fields if name not in _NOT_IN_RULES]
    for name in given:
        if name not in known:
            place = f"{key}.{name}"
            raise UserError(
                f"{rule.located.where(place)}: {place}: there is no such key; choose from {', '.join(known)}"
            )
    try:
        return form(**given, **more)
    except InvalidValue as error:
        place = f"{key}.{error.field}" if error.field else key
        raise UserError(f"{rule.located.where(place)}: {place}: {error.problem}") from None


def _check_dataset(rule: Rule, home: Home) -> None:
    if not home.warehouse.exists():
        raise UserError(
            f"{rule.located.where('dataset')}: dataset: there is no warehouse in {home}; "
            "`answerkey evaluate` makes one, --home names another folder"
        )
    with home.warehouse.reading() as warehouse:
        newest_version(warehouse, rule)
