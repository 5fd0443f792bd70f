"""Rubrics: judges that users write as a file, with a criterion in words, a scale and examples; each is a metric.

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
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model

from answerkey.metrics_core.errors import UserError, choice
from answerkey.metrics_core.judges.judge_metric import ModelMetric, request
from answerkey.metrics_core.judges.probes import Probe
from answerkey.metrics_core.judges.prompt import Prompt, closed, prompt_text
from answerkey.metrics_core.llm.budget import Bill
from answerkey.metrics_core.llm.client import Client
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.reply import Unreadable, read_object, reason_of
from answerkey.metrics_core.llm.request import Request
from answerkey.metrics_core.llm.untrusted import cut, encoded, one_line, quoted
from answerkey.metrics_core.measurement import Outcome, Scored
from answerkey.metrics_core.metric import NAME, Metric
from answerkey.metrics_core.metric import Field as MetricField
from answerkey.metrics_core.sample import Sample, content_hash
from answerkey.metrics_core.text import is_blank

if TYPE_CHECKING:
    from answerkey.metrics_core.document import Located

Input = Literal["question", "answer", "references", "context"]
"""What a rubric can be about."""

INPUTS: Mapping[Input, str] = {
    "question": '"question", a text',
    "answer": '"answer", the text to judge',
    "references": '"references", a list of answers that are right by definition',
    "context": '"context", a list of passages that the answer was to rest on',
}
"""The inputs in the order in which they are named, as the prompt describes them."""

SHIPPED = ("faithfulness", "answer_relevance", "completeness", "politeness", "refusal", "same_meaning")
"""The rubrics of this package, which go by their names."""

ENDINGS = (".yaml", ".yml")

MOST_EXAMPLES = 50
"""Examples that a rubric may have."""

_LABEL = re.compile(r"[\w-]{1,40}")
_RANGE = re.compile(r"(\d{1,3})\s*-\s*(\d{1,3})")
_MOST_LEVELS = 11
_LONGEST_TEXT = 20_000
_SCALES = "yes/no, a range like 1-5, or labels with their values from 0 to 1, like {rude: 0, polite: 1}"
_YES_NO = (("yes", 1.0), ("no", 0.0))
_UNEXPLAINED = "As a person judged it."
"""The reason in an example that gives none."""

_LONGEST_DESCRIPTION = 100
_SPELLED = {"true": "yes", "false": "no"}

M = TypeVar("M", bound=BaseModel)

Scale = tuple[tuple[str, float], ...]
"""Labels with their values from 0 to 1: the higher, the better."""


@dataclass(frozen=True, slots=True)
class Example:
    """A sample with the verdict that is right for it: one of the labels of the scale."""

    sample: Sample
    verdict: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Rubric:
    """A judge as its file describes it.

    Attributes:
        name: of the metric; `field`: of its number.
        version: in the signature; raise it to have everything judged again.
        inputs: what the judge is shown.
        criterion: what it goes by.
        scale: the verdicts that it can choose from, with their values.
        examples: for the prompt, and to test the judge with.
        source: what users name it by: its path, or the name of one of this package.
    """

    name: str
    version: int
    inputs: tuple[Input, ...]
    criterion: str
    scale: Scale
    field: str = "score"
    examples: tuple[Example, ...] = ()
    summary: str = ""
    source: str = ""

    @property
    def binary(self) -> bool:
        """Whether every verdict scores 0 or 1."""
        return {value for _, value in self.scale} <= {0.0, 1.0}

    @property
    def scale_text(self) -> str:
        """The scale as a signature has it: `no=0,yes=1`."""
        return ",".join(f"{label}={value:.6g}" for label, value in sorted(self.scale))

    @property
    def text(self) -> str:
        """The rubric as a file: `read_rubric` reads the same from it."""
        import yaml

        plain = "yes/no" if self.scale == _YES_NO else dict(self.scale)
        examples = [
            {**self.shown(one.sample), "verdict": one.verdict, **({"reason": one.reason} if one.reason else {})}
            for one in self.examples
        ]
        content = {
            "name": self.name, "version": self.version, "summary": self.summary, "inputs": list(self.inputs),
            "field": self.field, "scale": plain, "criterion": self.criterion, "examples": examples,
        }  # fmt: skip
        filled = {key: value for key, value in content.items() if value}
        return str(yaml.safe_dump(filled, allow_unicode=True, sort_keys=False, width=100))

    def shown(self, sample: Sample) -> dict[str, object]:
        """The fields of a sample that the judge is shown."""
        texts: Mapping[Input, object] = {
            "question": sample.question,
            "answer": sample.answer,
            "references": [text for _, text in sample.usable_references],
            "context": [text for text in sample.context if not is_blank(text)],
        }
        return {name: texts[name] for name in self.inputs}

    def prompt(self, sample: Sample | None = None) -> Prompt:
        """What the judge is told about `sample`: everything but an example that is this very sample, which it could
        copy. So an example tests the judge as any other sample would. None: everything.
        """
        fields = None if sample is None else self.shown(sample)
        others = tuple(one for one in self.examples if fields is None or self.shown(one.sample) != fields)
        return _prompt(self if len(others) == len(self.examples) else replace(self, examples=others))

    def read(self, reply: str) -> tuple[str, float, str]:
        """The verdict of a reply, its value and its reason.

        Raises:
            Unreadable: as `read_object`; "unreadable" for a verdict that is not on the scale.

        >>> rubric = Rubric("short", 1, ("answer",), "The answer is short.", (("yes", 1.0), ("no", 0.0)))
        >>> rubric.read('{"reason": "One word.", "verdict": "Yes"}')
        ('yes', 1.0, 'One word.')
        """
        reply_object = read_object(reply)
        label = self.label(reply_object.get("verdict"))
        if label is None:
            raise Unreadable("unreadable", f"verdict must be one of {', '.join(dict(self.scale))}")
        return label, dict(self.scale)[label], reason_of(reply_object)

    def label(self, verdict: object) -> str | None:
        """The label that a verdict means: in any case, true for yes, 4 for "4"; None if it is none of them."""
        if isinstance(verdict, bool):
            verdict = "yes" if verdict else "no"
        if isinstance(verdict, float) and verdict.is_integer():
            verdict = int(verdict)
        text = str(verdict).strip().casefold() if isinstance(verdict, str | int) else ""
        return next((label for label, _ in self.scale if label.casefold() == text), None)


@cache
def _prompt(rubric: Rubric) -> Prompt:
    verdicts = [label for label, _ in rubric.scale]
    schema = closed(reason={"type": "string"}, verdict={"type": "string", "enum": verdicts})
    examples = "".join(_shown(rubric, one) for one in rubric.examples)
    text = Template(prompt_text("rubric")).substitute(
        fields="; ".join(INPUTS[name] for name in rubric.inputs),
        criterion=rubric.criterion,
        verdicts=_verdicts(rubric.scale),
        first=rubric.scale[0][0],
        examples=f"\n\n## Examples{examples}" if examples else "",
    )
    return Prompt(rubric.name, text, schema, json.dumps(schema, sort_keys=True), content_hash([text, schema])[:6])


def _verdicts(scale: Scale) -> str:
    labels = [label for label, _ in scale]
    if scale == _YES_NO:
        return "- yes: the criterion is met.\n- no: it is not met. In doubt, choose no."
    if all(label.isdecimal() for label in labels):
        low, high = labels[0], labels[-1]
        return (
            f"A whole number from {low} to {high}, as a text: {low} where the criterion is not met at all, {high} "
            "where it is met in full."
        )
    return f"Choose one of: {', '.join(labels)}. The criterion says what they mean."


def _shown(rubric: Rubric, example: Example) -> str:
    reply = {"reason": example.reason or _UNEXPLAINED, "verdict": example.verdict}
    return f"\n\n{encoded(rubric.shown(example.sample))}\n{json.dumps(reply, ensure_ascii=False)}"


def read_rubric(target: str) -> Rubric:
    """A rubric by the path of its file, or by its name if it is one of `SHIPPED`.

    Raises:
        UserError: the file cannot be read, or something in it is wrong; a line for each problem.

    >>> read_rubric("politeness").scale
    (('yes', 1.0), ('no', 0.0))
    """
    from answerkey.metrics_core.document import read_located

    if target in SHIPPED:
        folder = resources.files("answerkey.metrics_core.judges.rubrics")
        return _rubric(read_located(folder.joinpath(f"{target}.yaml")), target)
    if not Path(target).is_file():
        raise UserError(f"{target}: there is no such rubric; write its path as seen from {Path.cwd()}")
    return _rubric(read_located(Path(target)), target)


def _rubric(located: Located, source: str) -> Rubric:
    content = located.content
    if isinstance(content, dict):
        content = {key: value for key, value in content.items() if value not in (None, "", [], {})}
    file = _checked(_File, content, located)
    bare = Rubric(
        file.name, file.version, file.inputs, file.criterion.strip(), file.scale, file.field,
        summary=file.summary, source=source,
    )  # fmt: skip
    model, examples = _model_of_examples(bare), []
    for number, row in enumerate(file.examples):
        example = _checked(model, row, located, f"examples[{number}]")
        shown = {"answer": None, **example.model_dump(include={*bare.inputs})}
        examples.append(Example(Sample(f"example {number + 1}", **shown), example.verdict, example.reason))
    return replace(bare, examples=tuple(examples))


def _checked(model: type[M], content: object, located: Located, place: str = "") -> M:
    try:
        return model.model_validate(content)
    except ValidationError as error:
        problems = [(".".join(filter(None, (place, *map(str, one["loc"][:1])))), one) for one in error.errors()]
        lines = [f"{located.where(key)}: {f'{key}: ' * bool(key)}{_message(one, model)}" for key, one in problems]
        raise UserError("\n".join(lines)) from None


def _message(problem: Mapping[str, Any], model: type[BaseModel]) -> str:
    key, fields = str(*problem["loc"][:1]), model.model_fields
    if problem["type"] == "extra_forbidden":
        return f"{model.__doc__} has no such key; {choice(key, fields)}"
    if problem["type"] == "value_error":
        return str(problem["ctx"]["error"])
    expected = fields[key].description if key else f"{model.__doc__} with the keys {', '.join(fields)}"
    start = "is missing; write" if problem["type"] == "missing" else f"{quoted(problem['input'])} must be"
    return f"{start} {expected}"


def _name(value: object) -> object:
    if not (isinstance(value, str) and NAME.fullmatch(value)):
        raise ValueError(f"{quoted(value)} must be made of a-z, 0-9 and _, and start with a letter")
    return value


def _inputs(value: object) -> tuple[Input, ...]:
    named = value if isinstance(value, list) else [value]
    for name in named:
        if not (isinstance(name, str) and name in INPUTS):
            raise ValueError(f"{quoted(name)} cannot be judged; choose from {', '.join(INPUTS)}")
    return tuple(name for name in INPUTS if name in named)


def _scale(value: object) -> Scale:
    if value == "yes/no":
        return _YES_NO
    if isinstance(value, str) and (bounds := _RANGE.fullmatch(value.strip())):
        low, high = int(bounds[1]), int(bounds[2])
        levels = [(str(level), (level - low) / (high - low)) for level in range(low, high + 1) if low < high]
    else:
        levels = [*value.items()] if isinstance(value, dict) else []
    fits = all(_LABEL.fullmatch(label) and type(score) in (int, float) and 0 <= score <= 1 for label, score in levels)
    distinct = {label.casefold() for label, _ in levels}
    if not (fits and 1 < len(levels) == len(distinct) <= _MOST_LEVELS):
        raise ValueError(f"{quoted(value)} is no scale; write {_SCALES}")
    if len({score for _, score in levels}) == 1:
        raise ValueError(f"every label is worth {levels[0][1]:g}; write {_SCALES}")
    return tuple((label, float(score)) for label, score in levels)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


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
    criterion: str = Field(
        max_length=20_000,
        description="a text of at most 20,000 characters that says what an answer must be like, in quotes or after a |",
    )
    scale: Annotated[Scale, BeforeValidator(_scale)] = Field(description=_SCALES)
    field: Annotated[str, BeforeValidator(_name)] = "score"
    examples: list[Any] = Field(
        [], max_length=MOST_EXAMPLES, description=f"a list of at most {MOST_EXAMPLES}, each with a verdict"
    )


def _model_of_examples(rubric: Rubric) -> Any:
    """What an example must have: the inputs of the rubric, and a verdict on its scale."""

    def verdict(value: object) -> str:
        label = rubric.label(value)
        if label is None:
            raise ValueError(f"{quoted(value)} is not one of {', '.join(dict(rubric.scale))}")
        return label

    def text(name: Input, value: object) -> object:
        if not _fits(name, value):
            kind = "a text, or a list of texts" if name in ("references", "context") else "a text"
            raise ValueError(f"must be {kind} that is not blank; put it in quotes")
        return value

    checks: dict[str, Any] = {**{name: partial(text, name) for name in rubric.inputs}, "verdict": verdict}
    fields: Any = {
        name: (Annotated[Any, BeforeValidator(check)], Field(description=f"the {name}"))
        for name, check in checks.items()
    }
    reason = (str, Field("", description="a text; put it in quotes"))
    return create_model("Example", __base__=_Strict, __doc__="an example", **fields, reason=reason)


def fits(rubric: Rubric, sample: Sample) -> bool:
    """Whether a sample could stand among the examples of a rubric.

    >>> rubric = read_rubric("politeness")
    >>> [fits(rubric, Sample("1", answer, (), "When?")) for answer in ("At eleven.", "At eleven." * 9_999)]
    [True, False]
    """
    return all(_fits(name, value) for name, value in zip(rubric.inputs, rubric.shown(sample).values(), strict=True))


def _fits(name: Input, value: object) -> bool:
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
        """The scale. Its labels are in the prompt, but their values are not sent to the judge."""
        return f"|scale:{self.rubric.scale_text}"

    @property
    def probes(self) -> tuple[Probe, ...]:
        """The examples. Each is left out of the prompt where it is asked about."""
        values = dict(self.rubric.scale)
        low, high = min(values.values()), max(values.values())
        # On a fine scale, people differ by a level too.
        room = 0.0 if len(values) < 4 else (high - low) / (len(values) - 1)
        return tuple(
            Probe(
                one.sample.sample_id,
                one.sample,
                max(low, values[one.verdict] - room),
                min(high, values[one.verdict] + room),
            )
            for one in self.rubric.examples
        )

    @property
    def labels(self) -> Mapping[str, float]:
        """The scale. Some models say true for yes."""
        values = dict(self.rubric.scale)
        return {**values, **{word: values[label] for word, label in _SPELLED.items() if label in values}}

    def without_judge(self, sample: Sample) -> Outcome | None:
        """The outcome of a sample that lacks what the rubric is about."""
        return self.without_score(sample)

    async def vote(self, client: Client, sample: Sample, judge: ModelRef, repeat: int, bill: Bill) -> Outcome:
        """Make one call and read the verdict, weighed by its log-probabilities if that is asked for."""
        [asked] = self.requests(sample, judge, repeat)
        label, value, reason = await client.ask(judge, asked, self.rubric.read, bill)
        return await self.weigh(client, asked, Scored({self.main.name: value}, reason, {"verdict": label}))

    def requests(self, sample: Sample, judge: ModelRef, repeat: int) -> list[Request]:
        """The question by the rubric."""
        prompt, shown = self.rubric.prompt(sample), self.rubric.shown(sample)
        return [request(prompt, shown, judge, repeat, self.judge, weighed=self.weighed)]

    def __reduce__(self) -> tuple[Callable[..., Metric], tuple[object, ...]]:
        # With the rubric itself: where it is scored, the file need not be.
        return _again, (self.rubric, {one.name: getattr(self, one.name) for one in fields(self)})


@cache
def metric_of(rubric: Rubric) -> type[RubricMetric]:
    """The class of the metric that a rubric is: the same class for the same rubric.

    >>> metric_of(read_rubric("politeness"))().fields[0].name
    'polite'
    """
    first = next(iter(one_line(rubric.criterion).split(". ")))
    described = rubric.summary or cut(first, _LONGEST_DESCRIPTION)
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
            "needs": frozenset(rubric.inputs),
            "prompts": (rubric.prompt(),),
            "main": MetricField(rubric.field, described, binary=rubric.binary),
        },
    )


def _again(rubric: Rubric, options: dict[str, object]) -> Metric:
    metric: Metric = metric_of(rubric)(**options)  # type: ignore[arg-type]
    return metric
