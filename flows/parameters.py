"""What a user can set. These models are the forms of the Prefect UI and the arguments of the command line."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import Field as DataclassField
from functools import cache
from itertools import chain
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    WithJsonSchema,
    create_model,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from answerkey.flows.forms import Form, show_fields
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.judge_metric import check
from answerkey.metrics_core.judges.options import OFFLINE_JUDGE, JudgeOptions
from answerkey.metrics_core.llm.access import NO_ACCESS, Access
from answerkey.metrics_core.llm.model import KEY_SHAPE, NoKey
from answerkey.metrics_core.llm.provider_options import (
    EXTRA_BODY,
    EXTRA_HEADERS,
    Headers,
    JsonObject,
)
from answerkey.metrics_core.metric import LIMITS, Metric
from answerkey.metrics_core.registry import ASKED, DEFAULT_METRICS, METRICS, create
from answerkey.metrics_core.validation import NO_OPTION, Option
from answerkey.tasks.load.columns import parse_map
from answerkey.tasks.load.formats.registry import FORMATS
from answerkey.tasks.load.load import Source
from answerkey.tasks.score.keys import key, settings
from answerkey.tasks.validate.contract import Contract, Thresholds

PAIRS = r",(?=[\w-]+=)"
"""What separates KEY=PATH from the next one: a path may have commas."""

NO_SUCH_OPTION = "none of these metrics has such an option"


FormatChoice = Annotated[str, WithJsonSchema({"type": "string", "enum": ["", *FORMATS]})]


class Data(Form):
    """What to evaluate."""

    model_config = ConfigDict(
        json_schema_extra=show_fields("answers", "references", "dataset", "release", "columns", "slices")
    )

    answers: Annotated[str, Option("FILE", several=True)] = Field(
        description="CSV, TSV, JSON(L), Parquet, Excel or Arrow, also .gz or .zst; FILE.duckdb::TABLE, a URL, a "
        "folder, a pattern, or registered:RELEASE. Several: one per line.",
        examples=["examples/helpdesk/v1.csv"],
    )
    references: str = Field(
        "",
        description="A second file with the right answers, joined by id. Empty: they are in the answers.",
    )
    dataset: str = Field(
        "",
        title="Data set",
        description="Name of the data set. Empty: the name of the file.",
    )
    release: str = Field(
        "",
        description="The release that gave all these answers. Empty: a column names it for each row.",
    )
    columns: Annotated[list[str], Option("--map", separator=PAIRS)] = Field(
        default_factory=list,
        title="Columns of the answers",
        description="KEY=PATH, for instance id=meta.question_id. Common names are recognised without it.",
    )
    reference_columns: Annotated[list[str], Option("--map-references", separator=PAIRS)] = Field(
        default_factory=list,
        title="Columns of the references",
        description="KEY=PATH, as above, for the references file.",
    )
    wide: list[str] = Field(
        default_factory=list,
        title="One column per release",
        description="Columns that each have the answers of one release, for instance gpt-4o,claude.",
    )
    slices: Annotated[list[str], Option("--slice")] = Field(
        default_factory=list,
        description="Columns to report separately, for instance lang.",
    )
    encoding: str = Field(
        "",
        description="Encoding of text files that are not UTF-8, for instance windows-1251. Empty: it is detected.",
    )

    format: FormatChoice = Field(
        "",
        description="Format of the answers, if several fit; `plain` reads the rows as they are. Empty: "
        "it is recognised.",
    )

    @field_validator("answers", mode="before")
    @classmethod
    def _one_per_line(cls, answers: Any) -> Any:
        return "\n".join(map(str, answers)) if isinstance(answers, list | tuple) else answers

    @field_validator("format")
    @classmethod
    def _known(cls, format: str) -> str:
        if format and format not in FORMATS:
            raise UserError(f"--format {format}: choose from {', '.join(FORMATS)}")
        return format

    def source(self) -> Source:
        """As the loader takes it.

        Raises:
            UserError: a column is not KEY=PATH.
        """
        return Source(
            answers=self.answers,
            references=self.references or None,
            dataset=self.dataset,
            release=self.release,
            paths=parse_map(self.columns),
            reference_paths=parse_map(self.reference_columns),
            slices=tuple(self.slices),
            encoding=self.encoding,
            format=self.format,
            wide=tuple(self.wide),
        )


FROM_THE_RUN = ("judge", "embedding_cache")
"""Options of metrics that a run gives them, so that they are not in the form."""

_METRIC_FLAGS = ("models", "threshold")
"""Options of metrics that have a flag on the command line. All others are set in a form, or by `--config`."""


def metric_options(metrics: Iterable[type[Metric]]) -> dict[str, tuple[Any, FieldInfo]]:
    """The options that metrics declare, as fields of a form; where several have one, as the first declares it.

    The description of an option that only one of several metrics has starts with the name of that metric.
    """
    classes = list(metrics)
    owners: Counter[str] = Counter()
    for cls in classes:
        owners.update(option.name for option in cls.options())
    options: dict[str, tuple[Any, FieldInfo]] = {}
    for cls in classes:
        hints = get_type_hints(cls, include_extras=True)
        for option in cls.options():
            if option.name in (*FROM_THE_RUN, *options):
                continue
            kind, field = _form_field(option, hints[option.name])
            if option.name not in _METRIC_FLAGS:
                kind = Annotated[kind, NO_OPTION]
            if owners[option.name] == 1 and len(classes) > 1:
                description = field.description or ""
                field.description = f"{cls.name}: {description[:1].lower()}{description[1:]}"
            options[option.name] = kind, field
    return options


def _form_field(declared: DataclassField[Any], hint: Any) -> tuple[Any, FieldInfo]:
    """An option as a field of a form.

    A form and a command line have no None: where an option may be None, `default`, 0 or nothing stands for it; an
    empty list stands for the option's default.
    """
    default: Any = declared.default
    title = declared.metadata["title"]
    description = declared.metadata["description"]
    limits = {name: declared.metadata[name] for name in declared.metadata.keys() & LIMITS}
    if get_origin(hint) in (list, tuple, Sequence):
        kind = get_args(hint)[0]
        hint = list[str if str in get_args(kind) else kind]  # type: ignore[misc]
        description = f"{description} Empty: {', '.join(map(str, default)) or 'none'}."
        default = []
        limits = {}
    elif default is None:
        hint = next(kind for kind in get_args(hint) if kind is not type(None))
        if get_origin(hint) is Literal:
            hint = Literal["default", *get_args(hint)]
            default = "default"
        elif hint in (int, float):
            default = hint(0)
            description = f"{description} 0: no {title.lower()}."
            if lowest := [limits.pop(name) for name in ("ge", "gt") if name in limits]:
                limits["ge"] = min(0, *lowest)
        else:
            default = hint()
            limits = {}
    field: Any = Field(default, title=title, description=description, **limits)
    return hint, field


METRIC_OPTIONS = metric_options(METRICS.values())
"""The fields of `Scoring` that are options of the metrics of answerkey: their type and the rest."""

_Form = TypeVar("_Form", bound=Form)


def _with_metric_options(form: type[_Form]) -> type[_Form]:
    # pydantic types the fields as a mapping to Any.
    fields: dict[str, Any] = dict(METRIC_OPTIONS)
    return create_model(form.__name__, __base__=form, __module__=form.__module__, **fields)


MetricChoice = Annotated[str, WithJsonSchema({"type": "string", "enum": [*METRICS, *ASKED]})]
"""A metric or rubric of answerkey, for a form, which offers them; a command line takes any other too."""


@_with_metric_options
class _MetricOptions(Form):
    metrics: list[MetricChoice] = Field(
        list(DEFAULT_METRICS),
        description="By default answer_correctness, semantic_similarity and, by the free offline judge, meaning_match "
        "and ground_truth_similarity.",
    )
    own_metrics: Annotated[list[str], NO_OPTION] = Field(
        default_factory=list,
        title="Metrics of your own",
        description="Computed as well: metrics by import path, like my_package.metrics:Politeness(threshold=0.9), by "
        "the name that an installed package gives them, or a judge's rubric by its path, like judges/tone.yaml.",
    )

    @model_validator(mode="before")
    @classmethod
    def _joined(cls, values: Any) -> Any:
        # The form offers the metrics of answerkey as a choice, so those of one's own have a field to be typed in.
        # What is no list is refused where the fields are checked.
        own_metrics = values.get("own_metrics") if isinstance(values, dict) else None
        metrics = values.get("metrics", DEFAULT_METRICS) if own_metrics else None
        if not (isinstance(own_metrics, list | tuple) and isinstance(metrics, list | tuple)):
            return values
        return {**values, "metrics": [*metrics, *own_metrics], "own_metrics": []}

    @field_validator("metrics", mode="before")
    @classmethod
    def _known(cls, metrics: Any) -> Any:
        # A UserError passes through pydantic as it is: its message is better than "invalid"
        if isinstance(metrics, list | tuple):
            if not metrics:
                raise UserError("metrics: choose at least one")
            _as_declared(tuple(map(str, metrics)))
        return metrics


@cache
def _as_declared(metrics: tuple[str, ...]) -> tuple[Metric, ...]:
    """The metrics with the options that their names say."""
    return tuple(create(metrics))


RUNNER_PATTERN = r"^(tcp://[\w.:\[\]-]+:[0-9]{1,5})?$"


class Scoring(_MetricOptions):
    """How to score: the metrics, their options as the metrics declare them, and which rows."""

    model_config = ConfigDict(
        json_schema_extra=show_fields("metrics", "own_metrics", "threshold", "only_failed", "runner")
    )

    only_failed: bool = Field(
        False,
        description="Score again what failed in earlier runs, and ask the judges again about what a fallback judged; "
        "nothing else.",
    )
    runner: Annotated[str, NO_OPTION] = Field(
        "",
        pattern=RUNNER_PATTERN,
        description="Address of a Dask scheduler, tcp://HOST:PORT, whose workers score. Empty: the machine of the run.",
        examples=["tcp://scheduler:8786"],
    )

    @property
    def asks_judges(self) -> bool:
        """Whether any of the metrics needs a judge; the offline judge counts."""
        return any(metric.kind == "judge" for metric in _as_declared(tuple(self.metrics)))

    @property
    def needs_references(self) -> bool:
        """Whether any of the metrics does."""
        return any("references" in metric.needs for metric in _as_declared(tuple(self.metrics)))

    @property
    def columns(self) -> tuple[str, ...]:
        """The other columns of the answers that the metrics are about."""
        return tuple(chain.from_iterable(metric.columns for metric in _as_declared(tuple(self.metrics))))

    @property
    def options(self) -> dict[str, object]:
        """The options that are set to something other than their default."""
        values = {name: getattr(self, name) for name in METRIC_OPTIONS}
        return {name: value for name, value in values.items() if value != METRIC_OPTIONS[name][1].default}

    @property
    def unused(self) -> list[str]:
        """The options that are set and that none of the metrics has."""
        used: set[str] = set()
        for metric in _as_declared(tuple(self.metrics)):
            used.update(option.name for option in metric.options())
        return [name for name in self.options if name not in used]

    def create(
        self, embedding_cache: str = "", judge: JudgeOptions = OFFLINE_JUDGE, access: Access = NO_ACCESS
    ) -> list[Metric]:
        """The metrics, each with those of the options that it has.

        Raises:
            UserError: a metric is not known or cannot be loaded, an option does not fit one, or none has it.
        """
        if unused := self.unused:
            raise UserError(f"{unused[0]}: {NO_SUCH_OPTION}")
        options = self.options
        for name, value in options.items():
            if isinstance(value, list):
                options[name] = tuple(value)
        from_the_run = {"embedding_cache": embedding_cache or None, "judge": judge, "access": access}
        return create(self.metrics, {**options, **from_the_run})


# What people may paste by mistake (a key, an address with a password in it) fits none of these, so the form
# refuses it before anything stores it.
MODEL_PATTERN = r"^[^\s/@]+/[^\s@?#]+(@[^\s@/:?#]+)?(@https?://[^\s@?#]+)?$"
ADDRESS_PATTERN = r"^(https?://[^\s@?#]+)?$"


def _pattern_schema(pattern: str) -> WithJsonSchema:
    """For forms, one pattern says that a text fits another one, and that no part of it looks like a key."""
    return WithJsonSchema({"type": "string", "pattern": rf"^(?!.*{KEY_SHAPE})(?:{pattern})"})


JUDGE_PATTERN = rf"^offline$|{MODEL_PATTERN}"
JudgeName = Annotated[str, Field(pattern=JUDGE_PATTERN), NoKey, _pattern_schema(JUDGE_PATTERN)]
ModelName = Annotated[str, Field(pattern=MODEL_PATTERN), NoKey, _pattern_schema(MODEL_PATTERN)]
Address = Annotated[str, Field(pattern=ADDRESS_PATTERN), NoKey, _pattern_schema(ADDRESS_PATTERN)]
PLACE_PATTERN = r"^(env:[A-Za-z_][A-Za-z0-9_]*|secret:[a-z0-9-]+|variable:[a-z0-9_-]+)?$"


class Judging(Form, JudgeOptions):
    """Which judges to ask, where the key is, and what it may cost.

    Every field of `JudgeOptions` is one of the form. The two below also look in the environment and in Prefect, and
    refuse what may contain a password, since the server stores what is typed.
    """

    model_config = ConfigDict(
        json_schema_extra=show_fields("judges", "api_base", "key_from", "max_calls", "max_cost_usd")
    )

    judges: Annotated[tuple[JudgeName, ...], Option("--judge")] = Field(
        (),
        description="offline (free) or PROVIDER/MODEL[@ADDRESS]. Empty: ANSWERKEY_JUDGE, or Prefect's "
        "answerkey_judge, else offline.",
        examples=[["openai/gpt-4o-mini"]],
    )
    api_base: Annotated[Address, Option("--judge-base")] = Field(
        "",
        title="Address",
        description="http://... of an OpenAI-compatible server, for judges without an address of their own. Empty: "
        "ANSWERKEY_JUDGE_BASE, the Prefect variable answerkey_judge_base, or the provider's own.",
    )
    key_from: Annotated[str, Option("--judge-key-from")] = Field(
        "",
        pattern=PLACE_PATTERN,
        title="Key",
        description="Where the key is: env:NAME, secret:BLOCK or variable:NAME; never the key itself. Empty: "
        "ANSWERKEY_JUDGE_KEY, the secret answerkey-judge-key, or the provider's own variable.",
        examples=["secret:judge-key"],
    )

    @field_validator("judges")
    @classmethod
    def _offline_if_empty(cls, judges: tuple[str, ...]) -> tuple[str, ...]:
        # In place of the validator of `JudgeOptions`, which would put in the offline judge: `options` looks for a judge
        # of the environment first
        return judges

    @model_validator(mode="after")
    def _consistent(self) -> Judging:
        # In place of that of `JudgeOptions`, which `options` runs once it is known which judges are meant
        return self

    def options(self) -> JudgeOptions:
        """The options of the scoring library, with the judges that the environment or Prefect names, else the offline
        one.

        Raises:
            UserError: a judge is named twice, or the options contradict each other.
        """
        judges, api_base = settings(self.judges, self.api_base)
        fields = {name: getattr(self, name) for name in JudgeOptions.model_fields}
        options = JudgeOptions(**{**fields, "judges": judges, "api_base": api_base})
        options.models()
        return options


class Estimating(Judging):
    """Which judges to ask, or what that would cost."""

    dry_run: bool = Field(
        False,
        description="Estimate the cost and stop before any judge is asked.",
    )

    @property
    def judging(self) -> Judging:
        """The judges alone, as runs keep them."""
        return Judging(**self.model_dump(exclude={"dry_run"}))


def preflight(options: JudgeOptions, key_from: str, *, needs_key: bool = True) -> None:
    """Check before anything is paid, or even loaded, that the judges can be asked. No call is made.

    Raises:
        UserError: the provider of a judge is unknown, a key is missing, or the cost is to be limited and a price is
            unknown.
    """
    if options.offline:
        return
    check(options, key(key_from) if needs_key else None, needs_key=needs_key)
    votes = len(options.judges) * options.repeats
    if options.jury == "majority" and votes % 2 == 0:
        logging.getLogger("answerkey").warning(
            f"{votes} votes on each answer can be a tie, which is no score; ask for an odd number of votes, or choose "
            "the jury unanimous or mean"
        )


def checked(
    scoring: Scoring,
    judging: Judging,
    embedding_cache: str = "",
    access: Access = NO_ACCESS,
    *,
    needs_key: bool = True,
) -> tuple[JudgeOptions, list[Metric]]:
    """The judges, the offline one where no metric asks any, and the metrics. Nothing is loaded or asked.

    Raises:
        UserError: a metric, its model or a judge cannot be used.
    """
    judge = OFFLINE_JUDGE
    if scoring.asks_judges:
        judge = judging.options()
        preflight(judge, judging.key_from, needs_key=needs_key)
    metrics = scoring.create(embedding_cache, judge, access)
    # A signature names the model, so one that is not there is found here.
    _ = [metric.signature for metric in metrics]
    return judge, metrics


NOTHING = "none"
"""As a baseline: nothing is compared."""


class Limits(Form, Thresholds):
    """When the data are too bad to score, and the scores too few to trust."""

    min_coverage: float = Field(
        0.95,
        ge=0.0,
        le=1.0,
        title="Scored at least",
        description="Share of rows that every metric must score for a report to be COMPLETE, and not PARTIAL.",
    )

    def contract(self, *, needs_references: bool = True) -> Contract:
        """As validation takes it."""
        references = "required" if needs_references else "unused"
        return Contract(**self.model_dump(exclude={"min_coverage"}), references=references)


class Comparing(Form):
    """Which two reports, and what to look at."""

    old: Annotated[str, Option("OLD")] = Field(
        description="A report (faq/gpt-4/v2) or a release (gpt-4), which stands for its newest report; or a file with "
        "ids and scores of another tool, for one release or for both.",
        examples=["gpt-4"],
    )
    new: Annotated[str, Option("NEW")] = Field(
        "",
        description="The report, release or file of scores to compare with the old one.",
        examples=["gpt-5"],
    )
    dataset: str = Field(
        "",
        title="Data set",
        description="Needed only if both releases have reports on several data sets. Scores from files are kept under "
        "this name.",
    )
    fields: list[str] = Field(
        default_factory=list,
        description="METRIC.FIELD to compare: with fewer fields, each test has more power. Empty: one per metric.",
        examples=[["meaning_match.match"]],
    )
    primary: str = Field(
        "",
        title="Primary field",
        description="The METRIC.FIELD that decides, chosen before the results are known. Empty: label.correct where "
        "at least half of the answers have labels, else meaning_match.match.",
    )
    all_fields: bool = Field(
        False,
        description="Compare every field that both have, with a correction for all of them.",
    )


def as_in(form: type[BaseModel], name: str, description: str = "", default: object = None) -> Any:
    """The field of another form, with its limits; `description` and `default` say what is different here."""
    field = copy(form.model_fields[name])
    field.description = description or field.description
    field.default = field.default if default is None else default
    return field


class Rerunning(Form):
    """Which report to make again, and what to change. Everything else stays as in the report."""

    # As in the form for judges: whatever was typed into the wrong field is in no message.
    model_config = ConfigDict(title="Rerun", hide_input_in_errors=True, allow_inf_nan=False)

    report: Annotated[str, Option("REPORT")] = Field(
        min_length=1,
        description="A report (faq/gpt-4/v2) or a release (gpt-4), which stands for its newest report.",
        examples=["faq/gpt-4/v2"],
    )
    against: str = Field(
        "",
        description="The old release or report of a pair: it is made again with the same changes first, and the new "
        "version of the other is compared with it. Empty: the gate of the data set decides, if there is one.",
    )
    policy: str = Field(
        "",
        description="What must hold to ship in place of that: the path of a YAML file, or its text. Empty: as the gate "
        "of the data set says.",
    )
    metrics: list[MetricChoice] = Field(
        default_factory=list,
        description="The metrics of the new report. Empty: those of the old one.",
    )
    own_metrics: list[str] = as_in(Scoring, "own_metrics")
    only_failed: bool = Field(
        False,
        description="Score again what failed, and ask the judges again about what a fallback judged; nothing else.",
    )
    threshold: Annotated[float, Field(ge=0.0, le=1.0)] | None = Field(
        None,
        title=Scoring.model_fields["threshold"].title,
        description=f"{Scoring.model_fields['threshold'].description} Empty: as in the report.",
    )
    judges: tuple[JudgeName, ...] = as_in(
        Judging, "judges", "offline, PROVIDER/MODEL or PROVIDER/MODEL@ADDRESS. Empty: those of the report."
    )
    api_base: str = as_in(
        Judging,
        "api_base",
        "http://... of an OpenAI-compatible server, for the judges above without an address of their own.",
    )
    key_from: str = as_in(
        Judging,
        "key_from",
        "Where the key is: env:NAME, secret:BLOCK or variable:NAME; never the key itself. Empty: as in the report.",
    )
    max_calls: int = as_in(Judging, "max_calls")
    max_cost_usd: float = as_in(Judging, "max_cost_usd")
    max_cost_total_usd: float = as_in(Judging, "max_cost_total_usd")
    dry_run: bool = as_in(Estimating, "dry_run")


class Questions(Form):
    """Which questions to ask."""

    dataset: str = Field(
        min_length=1,
        title="Data set",
        description="A file with questions and known answers (CSV, TSV, JSONL, JSON, Parquet, FILE.duckdb::TABLE or a "
        "URL), or the name of a data set that was evaluated before.",
        examples=["examples/helpdesk/questions.jsonl"],
    )
    name: Annotated[str, Option("--dataset-name")] = Field(
        "",
        description="Name of the data set in a file. Empty: the name of the file.",
    )
    columns: Annotated[list[str], Option("--map", separator=PAIRS)] = Field(
        default_factory=list,
        description="For a file: KEY=PATH, for instance question=meta.prompt. Common names are recognised without it.",
    )
    slices: Annotated[list[str], Option("--slice")] = Field(
        default_factory=list,
        description="Columns of a file to report separately, for instance lang.",
    )


class Generating(Form):
    """Which model to ask, how, and what it may cost."""

    # Whatever was typed into the wrong field is in no message.
    model_config = ConfigDict(
        title="Model",
        hide_input_in_errors=True,
        allow_inf_nan=False,
        json_schema_extra=show_fields(
            "release", "model", "key_from", "system", "template", "temperature", "repeats", "max_tokens", "max_calls",
            "max_cost_usd", "dry_run",
        ),
    )  # fmt: skip

    release: str = Field(
        min_length=1,
        pattern=r"^[^\r\n]*[^\s][^\r\n]*$",
        description="The name under which the answers are registered and compared.",
        examples=["gpt-4o-mini, short prompt"],
    )
    model: ModelName = Field(
        description="PROVIDER/MODEL, or PROVIDER/MODEL@http://address of an OpenAI-compatible server.",
        examples=["openai/gpt-4o-mini"],
    )
    key_from: str = Field(
        "",
        pattern=PLACE_PATTERN,
        title="Key",
        description="Where the key is: env:NAME, secret:BLOCK or variable:NAME; never the key itself. Empty: "
        "ANSWERKEY_MODEL_KEY, the secret answerkey-model-key, or the provider's own variable.",
        examples=["secret:model-key"],
    )
    system: str = Field(
        "",
        title="System prompt",
        description="The instructions, or a text file (.txt, .md) with them. Empty: none.",
        examples=["Answer in one sentence."],
    )
    template: str = Field(
        "{question}",
        min_length=1,
        description="The prompt, or a text file with it: {question} and other columns of the data set in braces.",
        examples=["{question}\nAnswer in the language {lang}."],
    )
    temperature: float = Field(
        0.0,
        ge=0.0,
        le=2.0,
        description="0: the most probable answer, if the provider honours it.",
    )
    repeats: int = Field(
        1,
        ge=1,
        title="Answers per question",
        description="How often the model answers each question. The mean of a question's answers is its score. Above "
        "1, set a temperature above 0.",
    )
    max_tokens: int = Field(
        1_024,
        ge=1,
        title="Tokens at most",
        description="The longest answer, in tokens; a longer one is cut off there.",
    )
    seed: Annotated[int, NO_OPTION] = Field(0, description="A different seed asks everything again.")
    max_calls: int = as_in(JudgeOptions, "max_calls")
    max_cost_usd: float = as_in(JudgeOptions, "max_cost_usd")
    max_cost_total_usd: float = as_in(JudgeOptions, "max_cost_total_usd")
    dry_run: bool = Field(
        False,
        description="Estimate the cost and stop before the model is asked.",
    )
    min_answered: float = Field(
        0.95,
        ge=0.0,
        le=1.0,
        title="Answered at least",
        description="The share of questions that must be answered for the release to be registered.",
    )
    concurrency: int = as_in(JudgeOptions, "concurrency")
    timeout_s: float = as_in(JudgeOptions, "timeout_s", default=120.0)
    deadline_s: float = as_in(JudgeOptions, "deadline_s", default=300.0)
    extra_headers: Headers = EXTRA_HEADERS
    extra_body: JsonObject = EXTRA_BODY


_DAY = r"^(\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2})?(Z|[+-]\d{2}:\d{2})?)?)?$"


class Tracing(Form):
    """Which rules to run, and on which traces."""

    model_config = ConfigDict(title="Traces")

    rules: Annotated[list[str], Option("RULES")] = Field(
        default_factory=lambda: ["rules"],
        min_length=1,
        description="YAML files, or folders of them.",
        examples=[["examples/rules"]],
    )
    only: Annotated[list[str], Option("--rule")] = Field(
        default_factory=list,
        description="Names of rules. Empty: all in these files.",
    )
    since: str = Field(
        "",
        pattern=_DAY,
        description="Backfill: traces from this day or time on (UTC). Both empty: new traces only.",
        examples=["2026-11-01"],
    )
    until: str = Field(
        "",
        pattern=_DAY,
        description="Backfill: traces before this day or time (UTC).",
        examples=["2026-12-01"],
    )
    dry_run: bool = Field(
        False,
        description="Show which traces would be scored, estimate the cost, and stop before any judge is asked.",
    )
