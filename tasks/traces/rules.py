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
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from answerkey.metrics_core.document import Located, read_located
from answerkey.metrics_core.errors import UserError, choice
from answerkey.metrics_core.metrics.preference import Preference
from answerkey.metrics_core.registry import create
from answerkey.tasks.load.remote import without_secrets
from answerkey.tasks.traces.condition import Condition, names_in, parse_condition
from answerkey.tasks.traces.source import absolute, path_problem

MAPPED = ("question", "answer", "references", "facts", "context", "key")
_DOCUMENT = {"input": "question", "output": "answer", "ground_truth": "references"}
"""The names that the document of the metric meaning match gives its variables."""
KEYS = (
    "name", "description", "enabled", "source", "id", "time", "start", "late_days", "where", "sampling", "mapping",
    "dataset", "metric", "options", "judge",
)  # fmt: skip
"""What a rule may say."""

_NEEDED = ("name", "source", "mapping", "metric")


@dataclass(frozen=True, slots=True)
class Rule:
    """Which traces to score, and how.

    Attributes:
        name: unique; part of the hash that samples, and the key of everything that is kept.
        source: see `source.traces_in`; paths are absolute.
        metric: its name.
        mapping: paths into a trace: question, answer, references, facts, context; `key` joins the data set.
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
        located: where it stands.
    """

    name: str
    source: str
    metric: str
    mapping: Mapping[str, str]
    id: str = "id"
    time: str = "start_time"
    enabled: bool = True
    where: tuple[Condition, ...] = ()
    sampling: float = 1.0
    dataset: str = ""
    start: datetime | None = None
    late_days: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    judge: Mapping[str, Any] = field(default_factory=dict)
    located: Located = field(default=Located("", {}, {}), compare=False, repr=False)

    @property
    def definition(self) -> dict[str, Any]:
        """What its file says, as JSON has it, without passwords and tokens in the address of the source."""
        content = {**self.located.content, "source": without_secrets(self.located.content["source"])}
        read: dict[str, Any] = json.loads(json.dumps(content, default=str))
        return read


def load_rules(places: Sequence[str], only: Sequence[str] = ()) -> tuple[Rule, ...]:
    """The rules in files, and in all `*.yaml` and `*.yml` files of folders; those called `only`, where some are named.

    A file holds one rule, or several under the key `rules`.

    Raises:
        UserError: a rule is wrong, two have one name, or one that is asked for is not there; a line for each problem.
    """
    files = [file for place in places for file in _files(Path(place))]
    rules: list[Rule] = []
    problems: list[str] = []
    for located in [one for file in dict.fromkeys(files) for one in _documents(read_located(file))]:
        wrong = list(_problems(located))
        problems += [f"{located.where(place)}: {message}" for place, message in wrong]
        if not wrong:
            rules.append(_rule(located))
    problems += _twice(rules)
    if problems:
        raise UserError("\n".join(problems))
    for name in only:
        if all(rule.name != name for rule in rules):
            raise UserError(f"--rule {name}: there is no rule of this name; {choice(name, [r.name for r in rules])}")
    return tuple(rule for rule in rules if not only or rule.name in only)


def _files(place: Path) -> list[Path]:
    if place.is_file():
        return [place.resolve()]
    if not place.is_dir():
        raise UserError(f"{place}: there is no such file or folder of rules")
    found = sorted(file for ending in ("*.yaml", "*.yml") for file in place.resolve().glob(ending))
    if not found:
        raise UserError(f"{place}: no rules in this folder; a rule is a .yaml file")
    return found


def _documents(located: Located) -> list[Located]:
    content = located.content
    if isinstance(content, dict) and set(content) == {"rules"} and isinstance(content["rules"], list):
        return [located.inside(f"rules[{n}]") for n in range(len(content["rules"]))]
    return [located]


def _twice(rules: Sequence[Rule]) -> Iterator[str]:
    first: dict[str, Rule] = {}
    for rule in rules:
        other = first.setdefault(rule.name, rule)
        if other is not rule:
            where = other.located.where("name")
            yield f"{rule.located.where('name')}: name: {rule.name} is taken by the rule in {where}; rename one"


def _problems(located: Located) -> Iterator[tuple[str, str]]:
    """Place and message of everything that is wrong."""
    content = located.content
    if not isinstance(content, dict):
        yield "", f"a rule has the keys {', '.join(_NEEDED)} and more; this is {_kind(content)}"
        return
    for key in content:
        if key not in KEYS:
            yield key, f"{key}: a rule has no such key; {choice(key, KEYS)}"
    for key in _NEEDED:
        if content.get(key) in (None, ""):
            yield key, f"{key}: is missing"
    yield from _plain_problems(content)
    for key in ("id", "time"):
        if key in content and (wrong := path_problem(content[key])):
            yield key, f"{key}: {wrong}"
    yield from _where_problems(content)
    yield from _mapping_problems(content)
    yield from _metric_problems(content)


def _where_problems(content: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    given = content.get("where")
    conditions = []
    for place, one in enumerate(given if isinstance(given, list) else [] if given is None else [given]):
        try:
            conditions.append(parse_condition(one))
        except UserError as error:
            yield f"where[{place}]", f"where: {error}"
    try:
        names_in(conditions)
    except UserError as error:
        yield "where", f"where: {error}"


def _plain_problems(content: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    kinds: Mapping[str, tuple[type, str]] = {
        "name": (str, "a text"), "description": (str, "a text"), "source": (str, "a text"), "dataset": (str, "a text"),
        "enabled": (bool, "true or false"), "options": (dict, "keys and values"),
    }  # fmt: skip
    for key, (kind, called) in kinds.items():
        if content.get(key) is not None and not isinstance(content[key], kind):
            yield key, f"{key}: must be {called}, not {_kind(content[key])}"
    name = content.get("name")
    if isinstance(name, str) and name and not re.fullmatch(r"\w[\w.-]*", name):
        yield "name", f"name: {name!r} must be letters, digits, dots, dashes and underscores"
    if not _is_number(rate := content.get("sampling", 1.0)) or not 0 <= rate <= 1:
        yield "sampling", f"sampling: {rate!r} must be a share between 0 (none) and 1 (all)"
    if (late := content.get("late_days")) is not None and (not _is_number(late) or not 0 <= late <= 36_500):
        yield "late_days", f"late_days: {late!r} must be a number of days"
    if content.get("start") is not None and _instant(content["start"]) is None:
        yield "start", f"start: {content['start']!r} must be a day or a time, like 2026-11-01"


def _mapping_problems(content: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    mapping, dataset = content.get("mapping"), content.get("dataset")
    if mapping is None:
        return
    if not isinstance(mapping, dict):
        yield "mapping", f"mapping: must be names and paths, like answer: output.text, not {_kind(mapping)}"
        return
    named: dict[str, str] = {}
    for key, path in mapping.items():
        place, name = f"mapping.{key}", _DOCUMENT.get(key, key)
        if name not in MAPPED:
            yield place, f"{place}: is not to be mapped; {choice(key, (*MAPPED, *_DOCUMENT))}"
        elif name in named:
            yield place, f"{place}: is the same as {named[name]}; keep one"
        elif wrong := path_problem(path):
            yield place, f"{place}: {wrong}"
        named.setdefault(str(name), key)
    if "answer" not in named:
        yield "mapping", "mapping: answer (or output) is missing: where the answer is in a trace"
    if dataset and "key" not in named:
        yield "dataset", "dataset: its rows are joined by id; say with mapping.key where the id is in a trace"
    if dataset and "references" in named:
        yield (
            f"mapping.{named['references']}",
            f"mapping.{named['references']}: the data set has them; keep one of both",
        )
    if not dataset:
        if "key" in named:
            yield "mapping.key", "mapping.key: joins a data set; name it with dataset"
        if "references" not in named:
            yield "mapping", "mapping: references (or ground_truth) is missing; map it, or name a dataset that has them"


def _metric_problems(content: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    metric, judge = content.get("metric"), content.get("judge")
    if not metric:
        return
    try:
        [made] = create([str(metric)])
        if isinstance(made, Preference):
            raise UserError(f"{made.name} compares two releases, and traces have one; choose another metric")
    except UserError as error:
        yield "metric", f"metric: {error}"
        return
    if judge is not None and made.kind != "judge":
        yield "judge", f"judge: {metric} asks none; remove it, or choose a metric that does"
    if judge is not None and not isinstance(judge, str | list | dict):
        yield "judge", f"judge: must be PROVIDER/MODEL, or keys and values, not {_kind(judge)}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _kind(value: object) -> str:
    names = {dict: "keys and values", list: "a list", str: "a text", bool: "true or false", type(None): "nothing"}
    return names.get(type(value), "a number" if _is_number(value) else f"a {type(value).__name__}")


def _rule(located: Located) -> Rule:
    given = {key: value for key, value in located.content.items() if value is not None and key != "description"}
    judge, where = given.get("judge", {}), given.get("where", ())
    given |= {
        "start": _instant(given.get("start")),
        "source": absolute(given["source"], Path(located.file).parent),
        "mapping": {_DOCUMENT.get(key, key): path for key, path in given["mapping"].items()},
        "where": tuple(map(parse_condition, [where] if isinstance(where, str) else where)),
        "judge": judge if isinstance(judge, dict) else {"judges": [judge] if isinstance(judge, str) else judge},
    }
    return Rule(**given, located=located)


def _instant(value: object) -> datetime | None:
    """A day or a time, as YAML or a text has it, in UTC where it names no zone."""
    if isinstance(value, date) and not isinstance(value, datetime):
        value = value.isoformat()
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo else value.replace(tzinfo=UTC)
