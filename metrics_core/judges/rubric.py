"""Rubrics: judges that users write as a file, with criteria in words, scales and examples; each is a metric.

name: politeness
version: 1
inputs: [question, answer]
criterion: The answer is polite. It may be short, and it may say no, but it does not mock or blame the person who asks.
scale: yes/no
examples:
  - question: Where is my parcel?
    answer: How should I know?
    verdict: no
    reason: It snubs the person who asks.

Several criteria, each with a scale and a number of its own, are asked about in one call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model

from answerkey.metrics_core.conversation import COLUMN, turns
from answerkey.metrics_core.errors import UserError, choice
from answerkey.metrics_core.judges.judge_metric import ModelMetric, request
from answerkey.metrics_core.judges.known_answer import KnownAnswer
from answerkey.metrics_core.judges.prompt import Prompt, closed, prompt_text
from answerkey.metrics_core.judges.votes import Vote, combine
from answerkey.metrics_core.llm.client import Client
from answerkey.metrics_core.llm.cost import Bill
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.reply import Unreadable, read_object, reason_of
from answerkey.metrics_core.llm.request import Request
from answerkey.metrics_core.llm.untrusted import cut, encoded, one_line, quoted
from answerkey.metrics_core.measurement import Failed, Outcome, Scored
from answerkey.metrics_core.metric import NAME, Metric
from answerkey.metrics_core.metric import Field as MetricField
from answerkey.metrics_core.sample import Sample
from answerkey.metrics_core.text import is_blank

if TYPE_CHECKING:
    from answerkey.metrics_core.document import Located

Input = Literal["question", "answer", "references", "context", "messages"]
"""What a rubric can be about."""

INPUTS: Mapping[Input, str] = {
    "question": '"question", a text',
    "answer": '"answer", the text to judge',
    "references": '"references", a list of answers that are right by definition',
    "context": '"context", a list of passages that the answer was to rest on',
    "messages": '"messages", a conversation: a list of messages in order, each with a "role", a "content" and perhaps '
    '"tool_calls"',
}
"""The inputs in the order in which they are named, as the prompt describes them."""

SHIPPED = ("faithfulness", "answer_relevance", "completeness", "politeness", "refusal", "same_meaning")
"""The rubrics of this package, which go by their names."""

ENDINGS = (".yaml", ".yml")

MOST_EXAMPLES = 50
"""Examples that a rubric may have."""

_COLUMN = re.compile(r"\{\{\s*([^{}\n]*?)\s*\}\}")
"""How a criterion or a step speaks of a field of the sample: an input, or another column of its row."""
_LABEL = re.compile(r"[\w-]{1,40}")
_RANGE = re.compile(r"(\d{1,3})\s*-\s*(\d{1,3})")
_MOST_LEVELS = 11
_MOST_CRITERIA = 10
_TOKENS_OUT = 60
"""Tokens of a usual verdict with its reason, for estimates."""
_LONGEST_TEXT = 20_000
_SCALES = "yes/no, a range like 1-5, or labels with their values from 0 to 1, like {rude: 0, polite: 1}"
_YES_NO = (("yes", 1.0), ("no", 0.0))
_UNEXPLAINED = "As a person judged it."
"""The reason in an example that gives none."""

_LONGEST_DESCRIPTION = 100

M = TypeVar("M", bound=BaseModel)
V = TypeVar("V")

Scale = tuple[tuple[str, float], ...]
"""Labels with their values from 0 to 1: the higher, the better."""


@dataclass(frozen=True, slots=True)
class Example:
    """A sample with the verdicts that are right for it: for each criterion one of the labels of its scale."""

    sample: Sample
    verdicts: tuple[str, ...]
    reason: str = ""

    @property
    def verdict(self) -> str:
        """The verdict by the first criterion."""
        return self.verdicts[0]


@dataclass(frozen=True, slots=True)
class Criterion:
    """What a judge goes by, and the number that comes of it.

    Attributes:
        text: what it says.
        scale: the verdicts that a judge can choose from, with their values.
        field: the name of the number.
    """

    text: str
    scale: Scale
    field: str = "score"

    @property
    def binary(self) -> bool:
        """Whether every verdict scores 0 or 1."""
        return {value for _, value in self.scale} <= {0.0, 1.0}

    @property
    def is_yes_no(self) -> bool:
        """Whether the verdicts are yes and no."""
        return self.scale == _YES_NO

    @property
    def is_range(self) -> bool:
        """Whether the verdicts are whole numbers."""
        return all(label.isdecimal() for label, _ in self.scale)

    def label(self, verdict: object) -> str | None:
        """The label that a verdict means: in any case, true for yes, 4 for "4"; None if it is none of them."""
        if isinstance(verdict, bool):
            verdict = "yes" if verdict else "no"
        if isinstance(verdict, float) and verdict.is_integer():
            verdict = int(verdict)
        if not isinstance(verdict, str | int):
            return None
        text = str(verdict).strip().casefold()
        return next((label for label, _ in self.scale if label.casefold() == text), None)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judge says by one criterion: a label of its scale, the value of that, and why."""

    label: str
    value: float
    reason: str


@dataclass(frozen=True, slots=True)
class Rubric:
    """A judge as its file describes it.

    Attributes:
        name: of the metric.
        version: in the signature; raise it to have everything judged again.
        inputs: what the judge is shown.
        criteria: what it goes by; the number of the first is the metric's main one.
        steps: how it is to go about it, in order.
        examples: for the prompt, and to test the judge with.
        source: what users name it by: its path, or the name of one of this package.
    """

    name: str
    version: int
    inputs: tuple[Input, ...]
    criteria: tuple[Criterion, ...]
    steps: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()
    summary: str = ""
    source: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """The other columns of a row that its criteria and steps name as `{{column}}`, in order."""
        names: list[str] = []
        for text in (*(criterion.text for criterion in self.criteria), *self.steps):
            names += _COLUMN.findall(text)
        return tuple(name for name in dict.fromkeys(names) if name not in INPUTS)

    @property
    def scale(self) -> Scale:
        """The scale of the first criterion."""
        return self.criteria[0].scale

    @property
    def text(self) -> str:
        """The rubric as a file: `read_rubric` reads the same from it."""
        import yaml

        return str(yaml.safe_dump(self._content, allow_unicode=True, sort_keys=False, width=100))

    @property
    def braces(self) -> str:
        """The rubric in one line, in braces: `read_rubric` reads the same from it."""
        return json.dumps(self._content, ensure_ascii=False)

    @property
    def _content(self) -> dict[str, object]:
        # As the keys of the file have it, of which empty ones are left out
        criteria = []
        for criterion in self.criteria:
            scale = "yes/no" if criterion.is_yes_no else dict(criterion.scale)
            criteria.append({"field": criterion.field, "scale": scale, "criterion": criterion.text})
        examples = []
        for example in self.examples:
            reason = {"reason": example.reason} if example.reason else {}
            examples.append({**self.shown(example.sample), "verdict": self.by_field(example.verdicts), **reason})
        content = {
            "name": self.name,
            "version": self.version,
            "summary": self.summary,
            "inputs": list(self.inputs),
            **(criteria[0] if len(criteria) == 1 else {"criteria": criteria}),
            "steps": list(self.steps),
            "examples": examples,
        }
        return {key: value for key, value in content.items() if value}

    def by_field(self, values: Sequence[V]) -> dict[str, V] | V:
        """The values of the criteria by their fields; of a single criterion the value itself."""
        names = [criterion.field for criterion in self.criteria]
        return dict(zip(names, values, strict=True)) if len(names) > 1 else values[0]

    def shown(self, sample: Sample) -> dict[str, object]:
        """The fields of a sample that the judge is shown.

        Raises:
            ValueError: its conversation is none.
        """
        conversation = sample.columns.get(COLUMN)
        texts: Mapping[str, object] = {
            **sample.column_texts,
            "question": sample.question,
            "answer": sample.answer,
            "references": [text for _, text in sample.usable_references],
            "context": [text for text in sample.context if not is_blank(text)],
            "messages": turns(conversation) if "messages" in self.inputs and conversation else [],
        }
        return {name: texts.get(name) for name in (*self.inputs, *self.columns)}

    def prompt(self, sample: Sample | None = None) -> Prompt:
        """What the judge is told about `sample`: everything but an example that is this very sample, which it could
        copy. So an example tests the judge as any other sample would. None: everything.
        """
        if sample is None:
            return _prompt(self)
        fields = self.shown(sample)
        examples = tuple(example for example in self.examples if self.shown(example.sample) != fields)
        return _prompt(replace(self, examples=examples))

    def read(self, reply: str) -> tuple[Verdict, ...]:
        """The verdicts of a reply, by criterion.

        Raises:
            Unreadable: as `read_object`; "unreadable" for a verdict that is missing or not on its scale.

        >>> rubric = Rubric("short", 1, ("answer",), (Criterion("It is short.", (("yes", 1.0), ("no", 0.0))),))
        >>> rubric.read('{"reason": "One word.", "verdict": "Yes"}')
        (Verdict(label='yes', value=1.0, reason='One word.'),)
        """
        # A single verdict is the object itself; of several, each is an object under the name of its field
        reply_object = read_object(reply)
        several = len(self.criteria) > 1
        verdicts = []
        for criterion in self.criteria:
            values = dict(criterion.scale)
            of_criterion = reply_object.get(criterion.field.lower()) if several else reply_object
            verdict = of_criterion if isinstance(of_criterion, dict) else {}
            label = criterion.label(verdict.get("verdict"))
            if label is None:
                field = f" of {criterion.field}" if several else ""
                raise Unreadable("unreadable", f"verdict{field} must be one of {', '.join(values)}")
            verdicts.append(Verdict(label, values[label], reason_of(verdict)))
        return tuple(verdicts)

    def reply(self, verdicts: Sequence[str], reason: str) -> Mapping[str, object]:
        """The object that a judge replies with, for these verdicts and one reason."""
        return self.by_field([{"reason": reason, "verdict": verdict} for verdict in verdicts])


@cache
def _prompt(rubric: Rubric) -> Prompt:
    from jinja2 import Environment

    # What a judge replies with
    schemas = {}
    for criterion in rubric.criteria:
        verdict = {"type": "string", "enum": [label for label, _ in criterion.scale]}
        schemas[criterion.field] = closed(reason={"type": "string"}, verdict=verdict)
    several = len(schemas) > 1
    schema = closed(**schemas) if several else next(iter(schemas.values()))
    reply = rubric.reply([criterion.scale[0][0] for criterion in rubric.criteria], "one short sentence")

    # What it is told
    environment = Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["named"] = partial(_COLUMN.sub, r'"\1"')
    examples = []
    for example in rubric.examples:
        example_reply = rubric.reply(example.verdicts, example.reason or _UNEXPLAINED)
        examples.append((encoded(rubric.shown(example.sample)), json.dumps(example_reply, ensure_ascii=False)))
    text = environment.from_string(prompt_text("rubric")).render(
        several=several,
        criteria=rubric.criteria,
        fields=[INPUTS[name] for name in rubric.inputs] + [f'"{name}", a text' for name in rubric.columns],
        steps=rubric.steps,
        reply=json.dumps(reply),
        examples=examples,
    )
    return Prompt(rubric.name, text.rstrip(), schema)


def read_rubric(target: str) -> Rubric:
    """A rubric by the path of its file, by its name if it is one of `SHIPPED`, or from its content in braces.

    Raises:
        UserError: the file cannot be read, or something in it is wrong; a line for each problem.

    >>> read_rubric("politeness").criteria[0].scale
    (('yes', 1.0), ('no', 0.0))
    """
    from answerkey.metrics_core.document import is_text, read_located, read_yaml

    if target in SHIPPED:
        folder = resources.files("answerkey.metrics_core.judges.rubrics")
        located = read_located(folder.joinpath(f"{target}.yaml"))
    elif is_text(target) or Path(target).is_file():
        located = read_yaml(target, "rubric")
    else:
        raise UserError(f"{target}: there is no such rubric; write its path as seen from {Path.cwd()}")

    # The keys of the file, and its criteria
    content = located.content
    if isinstance(content, dict):
        content = {key: value for key, value in content.items() if value not in (None, "", [], {})}
    rubric_file: _OneCriterion | _SeveralCriteria
    if isinstance(content, dict) and "criteria" in content:
        rubric_file = _checked(_SeveralCriteria, content, located)
        rows = rubric_file.criteria
        criteria = [_checked(_Criterion, row, located, f"criteria[{n}]") for n, row in enumerate(rows)]
    else:
        rubric_file = _checked(_OneCriterion, content, located)
        criteria = [rubric_file]
    names = [criterion.field for criterion in criteria]
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise UserError(
            f"{located.where('criteria')}: criteria: two have the field {repeated[0]}; give each one of its own"
        )
    bare = Rubric(
        name=rubric_file.name,
        version=rubric_file.version,
        inputs=rubric_file.inputs,
        criteria=tuple(Criterion(row.criterion.strip(), row.scale, row.field) for row in criteria),
        steps=tuple(step.strip() for step in rubric_file.steps),
        summary=rubric_file.summary,
        source=target,
    )
    if reserved := {"verdict", "reason", ""} & {*bare.columns}:
        placeholder = f"{{{{{reserved.pop()}}}}}"
        raise UserError(f"{located.where('')}: {placeholder} names no column that can be judged; rename the column")

    # The examples, which have the fields that the criteria speak of
    model = _model_of_examples(bare)
    examples = []
    for number, row in enumerate(rubric_file.examples):
        fields = _checked(model, row, located, f"examples[{number}]").model_dump(by_alias=True)
        verdicts = fields.pop("verdict")
        reason = fields.pop("reason")
        columns = {name: fields.pop(name) for name in (*bare.columns, COLUMN) if name in fields}
        sample = Sample(f"example {number + 1}", columns=columns, **{"answer": None, **fields})
        examples.append(Example(sample, verdicts, reason))
    return replace(bare, examples=tuple(examples))


def _checked(model: type[M], content: object, located: Located, key_path: str = "") -> M:
    try:
        return model.model_validate(content)
    except ValidationError as error:
        lines = []
        fields = {field.alias or name: field for name, field in model.model_fields.items()}
        # A line for each problem, with what should be there: the description of the field
        for problem in error.errors():
            key = str(*problem["loc"][:1])
            if problem["type"] == "extra_forbidden":
                message = f"{model.__doc__} has no such key; {choice(key, fields)}"
            elif problem["type"] == "value_error":
                message = str(problem["ctx"]["error"])
            else:
                start = "is missing; write" if problem["type"] == "missing" else f"{quoted(problem['input'])} must be"
                expected = fields[key].description if key else f"{model.__doc__} with the keys {', '.join(fields)}"
                message = f"{start} {expected}"
            path = ".".join(filter(None, (key_path, key)))
            label = f"{path}: " if path else ""
            lines.append(f"{located.where(path)}: {label}{message}")
        raise UserError("\n".join(lines)) from None


def _name(value: object) -> object:
    if not (isinstance(value, str) and NAME.fullmatch(value)):
        raise ValueError(f"{quoted(value)} must be made of a-z, 0-9 and _, and start with a letter")
    return value


def _inputs(value: object) -> tuple[Input, ...]:
    names = value if isinstance(value, list) else [value]
    for name in names:
        if not (isinstance(name, str) and name in INPUTS):
            raise ValueError(f"{quoted(name)} cannot be judged; choose from {', '.join(INPUTS)}")
    return tuple(name for name in INPUTS if name in names)


def _scale(value: object) -> Scale:
    if value == "yes/no":
        return _YES_NO
    if isinstance(value, str) and (bounds := _RANGE.fullmatch(value.strip())):
        low = int(bounds[1])
        high = int(bounds[2])
        scale = {str(level): (level - low) / max(high - low, 1) for level in range(low, high + 1)}
    else:
        scale = value if isinstance(value, dict) else {}
    # A scale with anything else in it is none
    for label, score in scale.items():
        if not (_LABEL.fullmatch(label) and type(score) in (int, float) and 0 <= score <= 1):
            scale = {}
            break
    if not 1 < len({label.casefold() for label in scale}) == len(scale) <= _MOST_LEVELS:
        raise ValueError(f"{quoted(value)} is not a scale; write {_SCALES}")
    if len(set(scale.values())) == 1:
        raise ValueError(f"every label is worth {next(iter(scale.values())):g}; write {_SCALES}")
    return tuple((label, float(score)) for label, score in scale.items())


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Criterion(_Strict):
    """a criterion"""

    criterion: str = Field(
        max_length=_LONGEST_TEXT,
        description="a text of at most 20,000 characters that says what an answer must be like, in quotes or after a |",
    )
    scale: Annotated[Scale, BeforeValidator(_scale)] = Field(description=_SCALES)
    field: Annotated[str, BeforeValidator(_name)] = "score"


class _File(_Strict):
    """a rubric"""

    name: Annotated[str, BeforeValidator(_name)] = Field(
        description="what the metric is called, for instance politeness"
    )
    version: int = Field(1, ge=1, description="a whole number from 1")
    summary: str = Field("", max_length=80, description="a text of at most 80 characters; put it in quotes")
    inputs: Annotated[tuple[Input, ...], BeforeValidator(_inputs)] = Field(
        description=f"what the judge is shown, a list of some of {', '.join(INPUTS)}"
    )
    steps: list[Annotated[str, Field(max_length=_LONGEST_TEXT)]] = Field(
        [], description="a list of texts: how the judge is to go about it, in order"
    )
    examples: list[Any] = Field(
        [], max_length=MOST_EXAMPLES, description=f"a list of at most {MOST_EXAMPLES}, each with a verdict"
    )


class _OneCriterion(_Criterion, _File):
    """a rubric"""


class _SeveralCriteria(_File):
    """a rubric"""

    criteria: list[Any] = Field(
        max_length=_MOST_CRITERIA, description=f"a list of at most {_MOST_CRITERIA}, each with a criterion and a scale"
    )


def _model_of_examples(rubric: Rubric) -> Any:
    """What an example must have: the inputs of the rubric, and a verdict on the scale of each criterion."""

    def verdicts(value: object) -> tuple[str, ...]:
        names = [criterion.field for criterion in rubric.criteria]
        if len(names) == 1:
            value = {names[0]: value}
        if not isinstance(value, dict) or value.keys() != set(names):
            raise ValueError(
                f"{quoted(value)} must give one verdict by each criterion: {{{': ..., '.join(names)}: ...}}"
            )
        # Each on the scale of its criterion
        labels = []
        for criterion in rubric.criteria:
            verdict = value[criterion.field]
            label = criterion.label(verdict)
            if label is None:
                field = f"{criterion.field}: " if len(names) > 1 else ""
                raise ValueError(f"{field}{quoted(verdict)} is not one of {', '.join(dict(criterion.scale))}")
            labels.append(label)
        return tuple(labels)

    def text(name: str, value: object) -> object:
        if name == COLUMN:
            return turns(value)
        if not _fits(name, value):
            kind = "a text, or a list of texts" if name in ("references", "context") else "a text"
            raise ValueError(f"must be {kind} that is not blank; put it in quotes")
        return value

    names = (*rubric.inputs, *rubric.columns)
    checks: dict[str, Any] = {**{name: partial(text, name) for name in names}, "verdict": verdicts}
    # A column may have a name that no field of a model can have.
    fields: Any = {
        f"field_{number}": (Annotated[Any, BeforeValidator(check)], Field(alias=name, description=f"the {name}"))
        for number, (name, check) in enumerate(checks.items())
    }
    reason = (str, Field("", description="a text; put it in quotes"))
    return create_model("Example", __base__=_Strict, __doc__="an example", **fields, reason=reason)


def fits(rubric: Rubric, sample: Sample) -> bool:
    """Whether a sample could stand among the examples of a rubric.

    >>> rubric = read_rubric("politeness")
    >>> [fits(rubric, Sample("1", answer, (), "When?")) for answer in ("At eleven.", "At eleven." * 9_999)]
    [True, False]
    """
    return all(_fits(name, value) for name, value in rubric.shown(sample).items())


def _fits(name: str, value: object) -> bool:
    if name == COLUMN:
        return bool(value) and len(json.dumps(value)) <= _LONGEST_TEXT
    texts = value if isinstance(value, list) and name in ("references", "context") else [value]
    return bool(texts) and all(
        isinstance(text, str) and not is_blank(text) and len(text) <= _LONGEST_TEXT for text in texts
    )


@dataclass(frozen=True)
class RubricMetric(ModelMetric):
    """What language models say by a rubric: one number, the value of the verdict on its scale. One call per vote.

    `details` hold the `verdict`, a label of the scale. `metric_of` makes the class of a rubric.
    """

    rubric: ClassVar[Rubric]

    @property
    def target(self) -> str:
        """The path of the rubric, or the name of one of this package."""
        return self.rubric.source

    @property
    def also_signed(self) -> str:
        """The scales, as `|scale:no=0,yes=1`. Their labels are in the prompt, but no judge is sent their values."""
        scales = []
        for criterion in self.rubric.criteria:
            scales.append(",".join(f"{label}={value:.6g}" for label, value in sorted(criterion.scale)))
        return f"|scale:{';'.join(scales)}"

    def known_answers(self, samples: Iterable[Sample]) -> tuple[KnownAnswer, ...]:
        """The examples. Each is left out of the prompt where it is asked about."""
        values = dict(self.rubric.scale)
        low = min(values.values())
        high = max(values.values())
        # On a fine scale, people differ by a level too.
        tolerance = 0.0 if len(values) < 4 else (high - low) / (len(values) - 1)
        questions = []
        for example in self.rubric.examples:
            value = values[example.verdict]
            least, most = max(low, value - tolerance), min(high, value + tolerance)
            questions.append(KnownAnswer(example.sample.sample_id, example.sample, least, most))
        return tuple(questions)

    def without_judge(self, sample: Sample) -> Outcome | None:
        """The outcome of a sample that lacks what the rubric is about."""
        outcome = self.without_score(sample)
        if outcome is None and COLUMN in self.columns:
            try:
                turns(sample.columns[COLUMN])
            except ValueError as error:
                return Failed("invalid value", f"{COLUMN} {error}")
        return outcome

    async def vote(self, client: Client, sample: Sample, judge: ModelRef, repeat: int, bill: Bill) -> Outcome:
        """Make one call and read the verdicts."""
        [question] = self.requests(sample, judge, repeat)
        verdicts = await client.ask(judge, question, self.rubric.read, bill)
        # One verdict stands as it is; several are told apart by their fields
        by_field = dict(zip((criterion.field for criterion in self.rubric.criteria), verdicts, strict=True))
        values = {field: verdict.value for field, verdict in by_field.items()}
        if len(verdicts) == 1:
            return Scored(values, verdicts[0].reason, {"verdict": verdicts[0].label})
        reasons = [f"{field} {verdict.label}: {verdict.reason}" for field, verdict in by_field.items()]
        labels = {field: verdict.label for field, verdict in by_field.items()}
        return Scored(values, "; ".join(reasons), {"verdicts": labels})

    def requests(self, sample: Sample, judge: ModelRef, repeat: int) -> list[Request]:
        """The question by the rubric."""
        prompt = self.rubric.prompt(sample)
        return [request(prompt, self.rubric.shown(sample), judge, repeat, options=self.judge)]

    def combined(self, votes: Sequence[Vote]) -> Outcome:
        """The outcome of all votes, each criterion decided by itself. It fails where one of them is not decided."""
        outcome = super().combined(votes)
        for field in self.others:
            of_field = combine(votes, self.judge.jury, field.name, binary=field.binary)
            if not (isinstance(outcome, Scored) and isinstance(of_field, Scored)):
                return of_field if isinstance(outcome, Scored) else outcome
            outcome = replace(outcome, values={**outcome.values, field.name: of_field.values[field.name]})
        return outcome

    def __reduce__(self) -> tuple[Callable[..., Metric], tuple[object, ...]]:
        # With the rubric itself: where it is scored, the file need not be.
        options = {field.name: getattr(self, field.name) for field in fields(self)}
        return _rebuilt, (self.rubric, options)


@cache
def metric_of(rubric: Rubric) -> type[RubricMetric]:
    """The class of the metric that a rubric is: the same class for the same rubric.

    >>> metric_of(read_rubric("politeness"))().fields[0].name
    'polite'
    """
    # A number for each criterion, described by its first sentence
    number_fields = []
    for criterion in rubric.criteria:
        first_sentence = cut(one_line(criterion.text).split(". ")[0], _LONGEST_DESCRIPTION)
        number_fields.append(MetricField(criterion.field, first_sentence, binary=criterion.binary))
    described = rubric.summary or number_fields[0].description
    if len(number_fields) == 1:
        number_fields = [replace(number_fields[0], description=described)]
    return type(
        f"Rubric_{rubric.name}",
        (RubricMetric,),
        {
            "__doc__": described,
            "__module__": __name__,
            "rubric": rubric,
            "name": rubric.name,
            "version": rubric.version,
            "summary": f"a judge: {described}",
            "needs": frozenset(rubric.inputs) - {COLUMN},
            "columns": (*([COLUMN] if COLUMN in rubric.inputs else []), *rubric.columns),
            "prompts": (rubric.prompt(),),
            "main": number_fields[0],
            "others": tuple(number_fields[1:]),
            "tokens_out": _TOKENS_OUT * len(rubric.criteria),
        },
    )


def _rebuilt(rubric: Rubric, options: dict[str, object]) -> Metric:
    metric: Metric = metric_of(rubric)(**options)  # type: ignore[arg-type]
    return metric
