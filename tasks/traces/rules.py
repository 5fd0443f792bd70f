"""Rules and how they are read from YAML: all problems are reported at once, with file, line, key and remedy.

name: faq-meaning
source: ../logs/*.jsonl
id: trace_id
time: start_time
where: metadata.environment = 'production' AND metadata.duration_ms < 5000
sampling: 0.1
mapping:
  question: input.question
  answer: output.text
  references: metadata.expected_output
metric: meaning_match
judge: openai/gpt-4o-mini
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, ValidationError

from answerkey.metrics_core.document import Located, read_located
from answerkey.metrics_core.errors import UserError, choice
from answerkey.metrics_core.metrics.preference import Preference
from answerkey.metrics_core.registry import create
from answerkey.tasks.load.columns import steps
from answerkey.tasks.load.remote import URL, without_secrets
from answerkey.tasks.traces.condition import Condition, parse_condition

MAPPED = ("question", "answer", "references", "facts", "context", "key")
_DOCUMENT = {"input": "question", "output": "answer", "ground_truth": "references"}
"""The names that the document of the metric meaning match gives its variables."""
_UNITS = ((1e8, None), (1e11, 10**6), (1e14, 10**3), (1e17, 1), (2e20, Decimal("0.001")))
"""Of numbers below each limit, the microseconds in their unit. Durations and counters, which are small, have none."""


def instant(value: object) -> datetime | None:
    """Return a point in time in UTC: ISO 8601, or seconds to nanoseconds since 1970; None if it is neither.

    >>> instant("2026-11-01T12:00+02:00"), instant(1793500000), instant("soon")
    (datetime.datetime(2026, 11, 1, 10, 0, tzinfo=datetime.timezone.utc), \
datetime.datetime(2026, 11, 1, 2, 26, 40, tzinfo=datetime.timezone.utc), None)
    """
    text = "" if isinstance(value, bool) else str(value).strip().removesuffix(" UTC")
    if re.fullmatch(r"(19|20)[0-9]{12}", text):
        # Digits alone, like 20261101100000: as milliseconds they would be a time six centuries from now.
        text = f"{text[:8]}T{text[8:]}"
    try:
        number = Decimal(text)
    except InvalidOperation:
        with suppress(ValueError, OverflowError):
            moment = datetime.fromisoformat(text)
            moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
            # What has no end is often logged as the last day of all.
            return moment if moment.year < 9999 else None
        return None
    units = [unit for limit, unit in _UNITS if number < limit] if number.is_finite() else []
    if not units or units[0] is None:
        return None
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(number * units[0]))


def _start(value: object) -> datetime:
    if (moment := instant(value)) is None:
        raise ValueError(f"{value!r} must be a day or a time, like 2026-11-01")
    return moment


def _condition(text: object) -> Condition:
    try:
        return parse_condition(text)
    except UserError as error:
        raise ValueError(str(error)) from error


def _path(path: object) -> str:
    """Check a path as a user wrote it.

    Raises:
        ValueError: it is none; the message says what to write.
    """
    if not isinstance(path, str) or not path.strip():
        raise ValueError("a path is a text like metadata.user.id or messages[0].text")
    if ".." in path or "*" in path:
        raise ValueError(f"{path!r} names several values; write the path of one, like messages[0].text")
    # What follows the names and numbers is left of a bracket that is not closed, or holds no number.
    if not re.fullmatch(r"\$?\.?[^\[\]]+(\[-?\d+\][^\[\]]*)*", path.strip()) or not steps(path) or path.endswith("."):
        raise ValueError(
            f"{path!r} is not a path; write names with dots and numbers in brackets, like messages[0].text"
        )
    return path


def _metric(name: str) -> str:
    try:
        [metric] = create([name])
    except UserError as error:
        raise ValueError(str(error)) from error
    if isinstance(metric, Preference):
        raise ValueError(f"{metric.name} compares two releases, and traces have one; choose another metric")
    return name


def _conditions(conditions: object) -> tuple[object, ...]:
    return tuple(conditions) if isinstance(conditions, list) else (conditions,)


def _judge(judge: object) -> object:
    judge = [judge] if isinstance(judge, str) else judge
    return {"judges": judge} if isinstance(judge, list) else judge


_Path = Annotated[str, BeforeValidator(_path)]
_Text = Annotated[str, Field(min_length=1)]


class Rule(BaseModel):
    """Which traces to score, and how.

    Attributes:
        name: unique; part of the hash that samples, and the key of everything that is kept.
        source: what the loader reads; paths are absolute.
        mapping: paths into a trace: question, answer, references, facts, context, and the columns of the metric, such
            as messages; `key` joins the data set.
        id: path of the trace's id; `time`: of when it happened.
        enabled: False: its traces are counted, and not scored.
        where: conditions that must all hold.
        sampling: share of the traces that fit, 0 to 1.
        dataset: in the warehouse; its newest version has the references, joined by `mapping.key`. Empty: the trace has
            them.
        start: traces before are not looked at, but in a backfill. None: all are.
        late_days: traces that are older than the newest one by more are not looked at, but in a backfill. None: all
            are, however late they come.
        options: of the metric, as the form for scoring has them; `judge`: as the form for judges has them.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, arbitrary_types_allowed=True)

    name: Annotated[str, Field(pattern=r"^\w[\w.-]*$")]
    description: str = ""
    enabled: bool = True
    source: _Text
    id: _Path = "id"
    time: _Path = "start_time"
    start: Annotated[datetime | None, BeforeValidator(_start)] = None
    late_days: Annotated[float | None, Field(ge=0, le=36_500)] = None
    where: Annotated[tuple[Annotated[Condition, BeforeValidator(_condition)], ...], BeforeValidator(_conditions)] = ()
    sampling: Annotated[float, Field(ge=0, le=1)] = 1.0
    mapping: dict[str, _Path]
    dataset: str = ""
    metric: Annotated[_Text, AfterValidator(_metric)]
    options: dict[str, Any] = {}
    judge: Annotated[dict[str, Any], BeforeValidator(_judge)] = {}
    _located: Located = PrivateAttr()

    def line(self, key: str = "") -> str:
        """Return FILE:LINE of a key."""
        return self._located.where(key)

    @property
    def definition(self) -> dict[str, Any]:
        """What its file says, as JSON has it, without passwords and tokens in the address of the source."""
        content = {**self._located.content, "source": without_secrets(self._located.content["source"])}
        definition: dict[str, Any] = json.loads(json.dumps(content, default=str))
        return definition


KEYS = tuple(Rule.model_fields)
"""What a rule may say."""
_NEEDED = tuple(key for key, field in Rule.model_fields.items() if field.is_required())
_REMEDIES = {
    "name": "letters, digits, dots, dashes and underscores",
    "enabled": "true or false",
    "late_days": "a number of days",
    "sampling": "a share between 0 (none) and 1 (all)",
    "mapping": "names and paths, like answer: output.text",
    "options": "keys and values",
    "judge": "PROVIDER/MODEL, or keys and values",
}
"""What a key must be; others are texts."""


def load_rules(places: Sequence[str], only: Sequence[str] = ()) -> tuple[Rule, ...]:
    """Read the rules in files, and in all `*.yaml` and `*.yml` files of folders; those called `only`, if some are.

    A file holds one rule, or several under the key `rules`.

    Raises:
        UserError: a rule is wrong, two have one name, or one that is asked for is not there; a line for each problem.
    """
    # The files
    files = []
    for path in map(Path, places):
        if not path.exists():
            raise UserError(f"{path}: there is no such file or folder of rules")
        in_folder = sorted(file for file in path.resolve().glob("*") if file.name.endswith((".yaml", ".yml")))
        if path.is_dir() and not in_folder:
            raise UserError(f"{path}: no rules in this folder; a rule is a .yaml file")
        files += in_folder or [path.resolve()]

    # The rules in them
    documents = []
    for file in dict.fromkeys(files):
        located = read_located(file)
        content = located.content
        if isinstance(content, dict) and set(content) == {"rules"} and isinstance(content["rules"], list):
            documents += [located.inside(f"rules[{n}]") for n in range(len(content["rules"]))]
        else:
            documents.append(located)

    # All problems at once
    rules: dict[str, Rule] = {}
    problems = []
    for located in documents:
        try:
            rule = _rule(located)
        except UserError as error:
            problems.append(str(error))
            continue
        namesake = rules.setdefault(rule.name, rule)
        if namesake is not rule:
            line = rule.line("name")
            other_line = namesake.line("name")
            problems.append(f"{line}: name: {rule.name} is taken by the rule in {other_line}; rename one")
    if problems:
        raise UserError("\n".join(problems))
    for name in only:
        if name not in rules:
            raise UserError(f"--rule {name}: there is no rule of this name; {choice(name, [*rules])}")
    return tuple(rule for rule in rules.values() if not only or rule.name in only)


def _rule(located: Located) -> Rule:
    """Read a rule.

    Raises:
        UserError: something in it is wrong; a line for each problem.
    """
    if not isinstance(located.content, dict):
        raise UserError(f"{located.where()}: a rule has the keys {', '.join(_NEEDED)} and more; this is none")
    # A key without a value says nothing.
    content = {key: value for key, value in located.content.items() if value is not None}
    problems = [*_mapping_problems(content)]
    try:
        rule = Rule.model_validate(content)
    except ValidationError as error:
        problems = [*map(_problem, error.errors()), *problems]
    # The first problem of each key
    problem_by_key = dict(reversed(problems))
    if problem_by_key:
        raise UserError(
            "\n".join(f"{located.where(key)}: {problem}" for key, problem in reversed(problem_by_key.items()))
        )
    if rule.judge and create([rule.metric])[0].kind != "judge":
        problem = f"judge: {rule.metric} asks none; remove it, or choose a metric that does"
        raise UserError(f"{located.where('judge')}: {problem}")

    # Paths are relative to the file of the rule, and keys have the names of the loader
    source = rule.source
    if not URL.match(source):
        source = os.path.normpath(Path(located.file).parent / Path(source).expanduser())
    mapping = {_DOCUMENT.get(key, key): path for key, path in rule.mapping.items()}
    rule = rule.model_copy(update={"source": source, "mapping": mapping})
    rule._located = located
    return rule


def _problem(error: Any) -> tuple[str, str]:
    """Return the path and the description of what pydantic found."""
    key, *inside = error["loc"]
    path = f"where[{inside[0]}]" if key == "where" else ".".join(error["loc"])
    if error["type"] == "extra_forbidden":
        return path, f"{key}: a rule has no such key; {choice(key, KEYS)}"
    if error["type"] == "missing" or error["input"] == "":
        return path, f"{key}: is missing"
    if error["type"] == "value_error":
        return path, f"{key if key == 'where' else path}: {error['ctx']['error']}"
    return path, f"{key}: {error['input']!r} must be {_REMEDIES.get(key, 'a text')}"


def _mapping_problems(content: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the path and the description of what is wrong with a mapping as a whole."""
    mapping = content.get("mapping")
    dataset = content.get("dataset")
    if not isinstance(mapping, dict):
        return
    # What the metric needs; one that cannot be used has a problem of its own
    columns: tuple[str, ...] = ()
    needs_references = True
    with suppress(UserError):
        [metric] = create([str(content.get("metric"))])
        columns = metric.columns
        needs_references = "references" in metric.needs
    # Each key, by the name that it stands for
    keys: dict[str, str] = {}
    for key in mapping:
        path = f"mapping.{key}"
        name = _DOCUMENT.get(key, key)
        if name not in (*MAPPED, *columns):
            yield path, f"{path}: is not to be mapped; {choice(key, (*MAPPED, *_DOCUMENT, *columns))}"
        elif name in keys:
            yield path, f"{path}: is the same as {keys[name]}; keep one"
        keys.setdefault(str(name), key)

    # All of them together, and a data set
    if "answer" not in keys:
        yield "mapping", "mapping: answer (or output) is missing: where the answer is in a trace"
    if dataset and "key" not in keys:
        yield "dataset", "dataset: its rows are joined by id; say with mapping.key where the id is in a trace"
    if dataset and "references" in keys:
        path = f"mapping.{keys['references']}"
        yield path, f"{path}: the data set has them; keep one of both"
    if not dataset and "key" in keys:
        yield "mapping.key", "mapping.key: joins a data set; name it with dataset"
    if not dataset and "references" not in keys and needs_references:
        yield "mapping", "mapping: references (or ground_truth) is missing; map it, or name a dataset that has them"
