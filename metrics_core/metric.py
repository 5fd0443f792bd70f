"""The base class of metrics: a frozen dataclass whose fields are its options, and the rules that all metrics share."""

from __future__ import annotations

import inspect
import json
import math
import re
import typing
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass, field, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from urllib.parse import quote

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.measurement import Failed, Measurement, Outcome, Scored, Skipped, Undefined
from answerkey.metrics_core.sample import Sample, content_hash
from answerkey.metrics_core.text import is_blank, normal_reference, normalise

if TYPE_CHECKING:
    from dataclasses import Field as DataclassField

    from pydantic import TypeAdapter

BlankAnswer = Literal["zero", "undefined"]
"""What a blank answer to a question that has references is worth.

`zero`: a missing answer is a wrong answer, so it scores the lowest value. `undefined`: it is left out.
"""

Need = Literal["answer", "references", "question", "context"]
Kind = Literal["lexical", "semantic", "judge"]
"""What the work is like. `lexical`: Python code, spread over processes. `semantic`: a model in this process.
`judge`: waiting for the network.
"""

Value = Outcome | Mapping[str, float] | float | None
"""What `Metric.score` may return: an outcome, a number per field, the number of the only field, None if undefined."""

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
"""Names of metrics and of their fields: they stand in file names, tables and `metric.field`."""

NO_REFERENCE = Undefined("no reference: every reference is missing or blank")
NO_QUESTION = Undefined("no question: it is missing or blank")
NO_CONTEXT = Undefined("no context: every passage is missing or blank")
BLANK_ANSWER = "blank answer"

LIMITS = ("ge", "gt", "le", "lt", "min_length", "max_length", "pattern")
"""What `option` passes on to pydantic."""

_PACKAGE = "answerkey."
_LONGEST_VALUE = 80
_LONGEST_MESSAGE = 500


@dataclass(frozen=True, slots=True)
class Field:
    """One number of a metric: its range, and that more of it is better.

    Raises:
        ValueError: the name cannot be one, or the range is empty or infinite.

    >>> Field("match", "1 or 0", binary=True).high
    1.0
    """

    name: str
    description: str = ""
    low: float = 0.0
    high: float = 1.0
    binary: bool = False

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ValueError(f"field {self.name!r}: a name is made of a-z, 0-9 and _, and starts with a letter")
        if not -math.inf < self.low < self.high < math.inf:
            raise ValueError(f"field {self.name!r}: {self.low!r} to {self.high!r} is no range")

    def problem(self, value: float) -> str | None:
        """Why `value` cannot be a value of this field; None where it can.

        >>> Field("match", binary=True).problem(0.5)
        'match is 0.5, expected 0 or 1'
        """
        if self.binary and value not in (0.0, 1.0):
            return f"{self.name} is {value!r}, expected 0 or 1"
        # Written so that NaN is a problem.
        within = self.low <= value <= self.high
        return None if within else f"{self.name} is {value!r}, outside {self.low} to {self.high}"


def option(
    default: Any = MISSING, *, title: str = "", description: str = "", signed: bool = True, **limits: Any
) -> Any:
    """Declare an option of a metric.

    Args:
        default: without one, the option must be given.
        title: for the form, the help and the documentation.
        description: as `title`.
        signed: whether the option changes numbers and so belongs in the signature.
        limits: pydantic's `ge`, `gt`, `le`, `lt`, `min_length`, `max_length` and `pattern`.
    """
    return field(default=default, metadata={"title": title, "description": description, "signed": signed, **limits})


@dataclass(frozen=True)
class Metric(ABC):
    """A scorer without state. A subclass is a frozen dataclass, and its dataclass fields are its options.

    A subclass sets `name` and `fields`, and writes `score`; or `measure`, where samples are better scored together.

    Args:
        alias: the instance's name, in place of the class's: two with different options need two names in one run.
        blank_answer: what a blank answer is worth.

    Raises:
        ValueError: an option has the wrong type or is out of its range, or the name or a field is malformed.

    >>> @dataclass(frozen=True)
    ... class Brevity(Metric):
    ...     '''1 for a short answer, less for a longer one.'''
    ...     name = "brevity"
    ...     fields = (Field("brevity", "words allowed per word, at most 1"),)
    ...     needs = frozenset(("answer",))
    ...     words: int = option(10, description="words that are not too many", ge=1)
    ...     def score(self, sample: Sample) -> float:
    ...         return min(1.0, self.words / len(sample.answer.split()))
    >>> [measured] = Brevity(words=2).measure([Sample("1", "It is Paris, France.")])
    >>> measured.values
    {'brevity': 0.5}
    >>> Brevity(words=0)
    Traceback (most recent call last):
    ValueError: words is 0; it should be greater than or equal to 1
    """

    _: KW_ONLY
    alias: str = ""
    blank_answer: BlankAnswer = option(  # noqa: RUF009
        "zero",
        title="Blank answers",
        description="zero: a blank answer counts as a wrong answer. undefined: it is left out.",
    )

    name: ClassVar[str] = ""
    """What users write and reports say; `alias` replaces it for one instance."""
    summary: ClassVar[str] = ""
    """One line for lists of metrics; by default, the first line of the docstring."""
    version: ClassVar[int] = 1
    """Raise it whenever the same input gets another number."""
    kind: ClassVar[Kind] = "lexical"
    needs: ClassVar[frozenset[Need]] = frozenset(("answer", "references"))
    """What a sample must have. A sample without references (or question, or context) is undefined, a blank answer is
    worth what `blank_answer` says; a metric that does not need an answer scores blank ones itself."""
    method: ClassVar[str] = ""
    """What changes numbers and is no option, for the signature: `tok:unicode1|refs:best`."""

    def __post_init__(self) -> None:
        if self.alias:
            object.__setattr__(self, "name", self.alias)
        if not NAME.fullmatch(self.name):
            raise ValueError(
                f"{type(self).__name__} is named {self.name!r}: a name is made of a-z, 0-9 and _, and starts with a "
                "letter"
            )
        for name, adapter in _adapters(type(self)).items():
            object.__setattr__(self, name, _valid(name, getattr(self, name), adapter))
        names = [one.name for one in self.fields]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"{type(self).__name__} must declare fields, each with a name of its own")
        if self.headline not in names:
            raise ValueError(f"{type(self).__name__}: the headline {self.headline!r} is none of its fields")

    @property
    @abstractmethod
    def fields(self) -> tuple[Field, ...]:
        """The numbers that a scored measurement has, in order. Mostly a class attribute."""

    @property
    def headline(self) -> str:
        """The name of the field that speaks for the metric; its first, unless a class attribute names another."""
        return self.fields[0].name

    @classmethod
    def options(cls) -> tuple[DataclassField[Any], ...]:
        """The declared options, `blank_answer` last; `metadata` holds what `option` was given.

        A field with `compare=False` is not an option: it affects how the metric works, but not its results.
        """
        own = [one for one in fields(cls) if one.init and one.compare and one.name not in ("alias", "blank_answer")]
        return (*own, *(one for one in fields(cls) if one.name == "blank_answer"))

    @classmethod
    def described(cls) -> str:
        """One line that says what the metric is."""
        return cls.summary or (cls.__doc__ or cls.__name__).strip().splitlines()[0]

    @property
    def target(self) -> str:
        """Where the class is: the name of a metric of this package, or the import path `package.module:Class`."""
        cls = type(self)
        return cls.name if _is_ours(cls) else f"{cls.__module__}:{cls.__qualname__}"

    @property
    def spec(self) -> str:
        """The text that makes this metric again: `strict=my_package.metrics:Politeness(threshold=0.9)`.

        Options that are no plain values (a judge, an encoder) are not in it.
        """
        values = [(one, getattr(self, one.name)) for one in self.options()]
        changed = [f"{one.name}={value!r}" for one, value in values if value != one.default and _is_plain(value)]
        called = f"{self.alias}=" if self.alias else ""
        return f"{called}{self.target}({', '.join(changed)})" if changed else f"{called}{self.target}"

    @property
    def workload(self) -> Kind:
        """What the work of this instance is like; `kind` unless its options make a difference."""
        return self.kind

    @property
    def all_at_once(self) -> bool:
        """Whether many thousand samples had better be measured together than a few thousand at a time."""
        return False

    @property
    def signature(self) -> str:
        """One short text with everything that changes the number, for instance `rouge_l|v1|...|blank:zero`.

        Options that change no number are left out. Outside of this package it also names the code, so that two
        metrics that happen to share a name never share a number.
        """
        cls = type(self)
        code = "" if _is_ours(cls) else f"code:{self.target}"
        signed = [
            f"{one.name}:{_signature_text(getattr(self, one.name))}"
            for one in self.options()
            if one.name != "blank_answer" and one.metadata.get("signed", True)
        ]
        parts = (self.name, f"v{self.version}", self.method, code, *signed, f"blank:{self.blank_answer}")
        return "|".join(part for part in parts if part)

    def measure(self, samples: Sequence[Sample]) -> list[Measurement]:
        """Score `samples`: same length, same order.

        A sample that cannot be scored gets an `Undefined` or `Failed` measurement and never ends the call.
        """
        name, signature, fields = self.name, self.signature, self.fields
        return [Measurement(sample.sample_id, name, signature, self.outcome(sample, fields)) for sample in samples]

    def score(self, sample: Sample) -> Value:
        """The values of one sample that has what the metric needs. What it raises fails this sample alone."""
        raise NotImplementedError(f"{type(self).__name__} has neither score nor measure")

    def without_score(self, sample: Sample) -> Outcome | None:
        """The outcome of a sample that lacks what the metric needs; None where there is something to score."""
        if "references" in self.needs and not sample.usable_references:
            return NO_REFERENCE
        if "question" in self.needs and is_blank(sample.question):
            return NO_QUESTION
        if "context" in self.needs and all(map(is_blank, sample.context)):
            return NO_CONTEXT
        if "answer" in self.needs and is_blank(sample.answer):
            return blank_outcome(self.fields, self.blank_answer)
        return None

    def outcome(self, sample: Sample, fields: tuple[Field, ...]) -> Outcome:
        """The outcome of one sample, whatever happens while it is scored."""
        known = self.without_score(sample)
        if known is not None:
            return known
        try:
            return outcome_of(self.score(sample), fields)
        except Exception as error:
            return _exception(error)


def measured(metric: Metric, samples: Sequence[Sample]) -> list[Measurement]:
    """`metric.measure(samples)`, with the promises of `Metric` kept where a metric of a user's own overrides it.

    What it raises fails the samples that it also raises for when they are measured alone; a value that a field cannot
    have fails its sample.

    Raises:
        UserError: the metric says that it cannot measure at all.

    >>> from answerkey.metrics_core.metrics.contains import Contains
    >>> measured(Contains(), [Sample("1", "It is Paris.", ["Paris"])])[0].values
    {'match': 1.0}
    """
    if all(getattr(type(metric), name).__module__.startswith(_PACKAGE) for name in ("measure", "outcome")):
        return metric.measure(samples)
    try:
        given = list(metric.measure(samples))
        same = [one.sample_id for one in given] == [sample.sample_id for sample in samples]
    except UserError:
        raise
    except Exception as error:
        if len(samples) > 1:
            return [one for sample in samples for one in measured(metric, [sample])]
        return [_measurement(metric, sample, _exception(error)) for sample in samples]
    if not same:
        wrong = Failed("invalid value", "measure returned other samples than it was given, or in another order")
        return [_measurement(metric, sample, wrong) for sample in samples]
    return [
        one._replace(
            metric=metric.name, signature=metric.signature, outcome=_checked_outcome(one.outcome, metric.fields)
        )
        for one in given
    ]


def _checked_outcome(value: Value, fields: tuple[Field, ...]) -> Outcome:
    try:
        return outcome_of(value, fields)
    except Exception as error:
        return _exception(error)


def _measurement(metric: Metric, sample: Sample, outcome: Outcome) -> Measurement:
    return Measurement(sample.sample_id, metric.name, metric.signature, outcome)


def _exception(error: Exception) -> Failed:
    return Failed("exception", _one_line(f"{type(error).__name__}: {error}"))


def outcome_of(value: Value, fields: tuple[Field, ...]) -> Outcome:
    """What `Metric.score` returned as an outcome. A value that a field cannot have is a failure.

    >>> outcome_of(True, (Field("match", binary=True),)).values
    {'match': 1.0}
    >>> outcome_of(1.2, (Field("grade"),))
    Failed(code='invalid value', message='grade is 1.2, outside 0.0 to 1.0', attempts=1)
    """
    if value is None:
        return Undefined("the metric has no value for this sample")
    if isinstance(value, Undefined | Failed | Skipped):
        return value
    reason, details = (value.reason, value.details) if isinstance(value, Scored) else (None, {})
    given = value.values if isinstance(value, Scored) else value
    if not isinstance(given, Mapping):
        given = {fields[0].name: given}
    if given.keys() != {one.name for one in fields}:
        wanted = ", ".join(one.name for one in fields)
        return Failed("invalid value", f"values for {', '.join(map(str, given))}; expected {wanted}")
    values = {one.name: float(given[one.name]) for one in fields}
    for one in fields:
        if problem := one.problem(values[one.name]):
            return Failed("invalid value", problem)
    # Found here, where it fails one sample; it is written to a table later.
    json.dumps(details)
    return Scored(values, reason, details)


def degenerate(sample: Sample, fields: tuple[Field, ...], blank_answer: BlankAnswer) -> Outcome | None:
    """The shared truth table for inputs that need no metric; None where the metric must decide.

    No usable reference is undefined whatever the answer. A blank answer to a usable reference is the
    lowest value of every field (policy `zero`) or undefined.
    """
    if not sample.usable_references:
        return NO_REFERENCE
    return blank_outcome(fields, blank_answer) if is_blank(sample.answer) else None


def blank_outcome(fields: tuple[Field, ...], blank_answer: BlankAnswer) -> Outcome:
    """What a blank answer is worth: the lowest value of every field (policy `zero`), or undefined."""
    if blank_answer == "undefined":
        return Undefined(BLANK_ANSWER)
    return Scored({field.name: max(field.low, 0.0) for field in fields}, reason=BLANK_ANSWER)


def identical_reference(sample: Sample) -> int | None:
    """The index of the first usable reference that the answer equals but for its form; None if it equals none."""
    normalised = normalise(sample.answer or "")
    for index, reference in sample.usable_references:
        if normal_reference(reference) == normalised:
            return index
    return None


@lru_cache
def _adapters(cls: type[Metric]) -> dict[str, TypeAdapter[Any]]:
    """What checks each option that is a plain value; objects check themselves."""
    undeclared = [name for name in inspect.get_annotations(cls) if name not in cls.__dataclass_fields__]
    if undeclared:
        name = f"{cls.__name__}.{undeclared[0]}"
        raise ValueError(f"{name} is no option yet: decorate the class with @dataclass(frozen=True)")
    if all(getattr(cls, name) is getattr(Metric, name) for name in ("score", "outcome", "measure")):
        raise ValueError(f"{cls.__name__} must have score(sample), or measure(samples)")
    from pydantic import ConfigDict, TypeAdapter
    from pydantic import Field as Constraint

    hints = typing.get_type_hints(cls, include_extras=True)
    adapters: dict[str, TypeAdapter[Any]] = {}
    for one in cls.options():
        hint, limits = hints[one.name], {key: one.metadata[key] for key in one.metadata.keys() & LIMITS}
        if not isinstance(hint, type) or hint in (str, int, float, bool):
            config = ConfigDict(arbitrary_types_allowed=True)
            constrained: Any = Annotated[hint, Constraint(**limits)]
            adapters[one.name] = TypeAdapter(constrained, config=config)
    return adapters


def _valid(name: str, value: object, adapter: TypeAdapter[Any]) -> object:
    from pydantic import ValidationError

    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        [first, *_] = error.errors()
        expected = first.get("ctx", {}).get("expected")
        if expected:
            raise ValueError(f"{name} is {value!r}, expected {expected.replace(chr(39), '')}") from None
        raise ValueError(f"{name} is {value!r}; {first['msg'].replace('Input', 'it')}") from None


def _signature_text(value: object) -> str:
    """An option's value in a signature: no bar, which separates the parts, and not long."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if len(text) > _LONGEST_VALUE:
        return content_hash(text)[:12]
    return re.sub(r"[%|\s]", lambda match: quote(match[0]), text)


def _is_plain(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | int | float | bool)


def _is_ours(cls: type[Metric]) -> bool:
    return cls.__module__.startswith(_PACKAGE)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_MESSAGE]
