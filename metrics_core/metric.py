"""The base class of metrics, whose dataclass fields are its options, and metrics made from functions."""

from __future__ import annotations

import importlib
import inspect
import json
import math
import re
import sys
import typing
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, asdict, dataclass, field, fields, make_dataclass
from dataclasses import Field as DataclassField
from functools import cache, lru_cache, partial
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload
from urllib.parse import quote

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.measurement import Failed, Measurement, Outcome, Scored, Skipped, Undefined
from answerkey.metrics_core.sample import Sample, content_hash
from answerkey.metrics_core.text import is_blank, normal_reference, normalise

if TYPE_CHECKING:
    from pydantic import BaseModel

BlankAnswer = Literal["zero", "undefined"]
"""How a blank answer to a question with references is scored.

`zero`: it counts as a wrong answer; see `blank_outcome`. `undefined`: it is left out.
"""

Need = Literal["answer", "references", "question", "context"]
Kind = Literal["lexical", "semantic", "judge"]
"""Where scoring happens. `lexical`: in Python code, spread over processes. `semantic`: in a model in this process.
`judge`: over the network.
"""
Workload = Kind | Literal["offline"]
"""What scoring keeps busy: a kind, or the offline judge, which computes as words do, but for longer."""

Value = Outcome | Mapping[str, float] | float | None
"""The return value of `Metric.score`: an outcome, a number per field, that of the only field, None if undefined."""

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
"""Names of metrics and fields, which are used in file names, tables and `metric.field`."""

NO_REFERENCE = Undefined("no reference: every reference is missing or blank")
NO_QUESTION = Undefined("no question: it is missing or blank")
NO_CONTEXT = Undefined("no context: every passage is missing or blank")
BLANK_ANSWER = "blank answer"

LIMITS = ("ge", "gt", "le", "lt", "min_length", "max_length", "pattern")
"""The limits of an option, which pydantic checks."""

_PACKAGE = "answerkey."
_MAX_VALUE_CHARS = 80
_MAX_MESSAGE_CHARS = 500


@dataclass(frozen=True, slots=True)
class Field:
    """A number that a metric computes, and its range. More is better, unless `lower_is_better`.

    Seconds, tokens and the like have no highest value: their `high` is infinite.

    Raises:
        ValueError: the name is malformed, or the range is empty.

    >>> Field("match", "1 or 0", binary=True).high
    1.0
    """

    name: str
    description: str = ""
    low: float = 0.0
    high: float = 1.0
    binary: bool = False
    lower_is_better: bool = False

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ValueError(f"field {self.name!r}: a name is made of a-z, 0-9 and _, and starts with a letter")
        if not -math.inf < self.low < self.high:
            raise ValueError(f"field {self.name!r}: {self.low!r} to {self.high!r} is not a range")

    def problem(self, value: float) -> str | None:
        """Explain why `value` is not valid for this field; None if it is.

        >>> Field("match", binary=True).problem(0.5)
        'match is 0.5, expected 0 or 1'
        """
        if self.binary and value not in (0.0, 1.0):
            return f"{self.name} is {value!r}, expected 0 or 1"
        # Written so that NaN is a problem.
        within = self.low <= value <= self.high and value < math.inf
        return None if within else f"{self.name} is {value!r}, outside {self.low} to {self.high}"

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, which has no infinite numbers: `high` is None where there is no highest value.

        >>> field = Field("seconds", high=math.inf)
        >>> field.as_dict()["high"] is None, Field.from_dict(field.as_dict()) == field
        (True, True)
        """
        return asdict(self) | {"high": self.high if self.high < math.inf else None}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Field:
        """The field of which these are the plain values."""
        return cls(**{**plain, "high": math.inf if plain["high"] is None else plain["high"]})


def option(
    default: Any = MISSING, *, title: str = "", description: str = "", signed: bool = True, **limits: Any
) -> Any:
    """Declare an option of a metric.

    Args:
        default: without one, the option must be given.
        title: for the form, the help and the documentation.
        description: a sentence, for the same places.
        signed: whether the option changes numbers and so belongs in the signature.
        limits: pydantic's `ge`, `gt`, `le`, `lt`, `min_length`, `max_length` and `pattern`.
    """
    return field(default=default, metadata={"title": title, "description": description, "signed": signed, **limits})


@dataclass(frozen=True)
class Metric(ABC):
    """A scorer without state. A subclass is a frozen dataclass, and its dataclass fields are its options.

    A subclass sets `name` and `fields`, and defines `score`, or `measure` if it scores samples together.

    Args:
        alias: a name in place of that of the class. Two instances in one run need different names.
        blank_answer: how blank answers are scored.

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
    """The name in commands and reports; `alias` replaces it for one instance."""
    summary: ClassVar[str] = ""
    """One line for lists of metrics; by default, the first line of the docstring."""
    version: ClassVar[int] = 1
    """Raise it whenever the same input gets another number."""
    kind: ClassVar[Kind] = "lexical"
    needs: ClassVar[frozenset[Need]] = frozenset(("answer", "references"))
    """The parts of a sample that the metric needs. A sample without references, question or context is undefined, and a
    blank answer is scored as `blank_answer` says; a metric that does not need an answer scores blank ones itself."""

    def __post_init__(self) -> None:
        if self.alias:
            object.__setattr__(self, "name", self.alias)
        if not NAME.fullmatch(self.name):
            raise ValueError(
                f"{type(self).__name__} is named {self.name!r}: a name is made of a-z, 0-9 and _, and starts with a "
                "letter"
            )
        for name, value in _validated(self).items():
            object.__setattr__(self, name, value)
        # The fields may depend on the options, so they come last
        names = [field.name for field in self.fields]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"{type(self).__name__} must declare fields, each with a name of its own")
        if self.headline not in names:
            raise ValueError(f"{type(self).__name__}: the headline {self.headline!r} is none of its fields")

    @property
    @abstractmethod
    def fields(self) -> tuple[Field, ...]:
        """The fields of a scored measurement, in order. Usually a class attribute."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Other columns of the rows that the metric needs, which come as `Sample.columns`. Usually a class attribute.

        A sample that lacks one, or in which it is blank, is undefined. A file in which no row has it is refused.
        """
        return ()

    @property
    def headline(self) -> str:
        """The name of the field that summarises the metric: the first, unless a class attribute names another."""
        return self.fields[0].name

    @classmethod
    def options(cls) -> tuple[DataclassField[Any], ...]:
        """The declared options, `blank_answer` last; `metadata` holds what `option` was given.

        A field with `compare=False` is not an option: it affects how the metric works, but not its results.
        """
        declared = [f for f in fields(cls) if f.init and f.compare and f.name not in ("alias", "blank_answer")]
        return (*declared, *(f for f in fields(cls) if f.name == "blank_answer"))

    @classmethod
    def described(cls) -> str:
        """A description of the metric in one line."""
        return cls.summary or (cls.__doc__ or cls.__name__).strip().splitlines()[0]

    @property
    def target(self) -> str:
        """The name of a metric of this package, or the import path `package.module:Class`."""
        cls = type(self)
        return cls.name if _is_ours(cls) else f"{cls.__module__}:{cls.__qualname__}"

    @property
    def spec(self) -> str:
        """The spec that recreates this metric: `strict=my_package.metrics:Politeness(threshold=0.9)`.

        Options that are not plain values (a judge, an encoder) are left out.
        """
        changed = []
        for declared in self.options():
            value = getattr(self, declared.name)
            if value != declared.default and _is_plain(value):
                changed.append(f"{declared.name}={value!r}")
        alias = f"{self.alias}=" if self.alias else ""
        return f"{alias}{self.target}({', '.join(changed)})" if changed else f"{alias}{self.target}"

    @property
    def method(self) -> str:
        """Definitions that change numbers, for the signature: `tok:unicode1|refs:best`. Usually a class attribute."""
        return ""

    @property
    def workload(self) -> Workload:
        """The kind of this instance: `kind`, unless its options change it."""
        return self.kind

    @property
    def all_at_once(self) -> bool:
        """Whether the metric is faster on all samples at once than on batches of a few thousand."""
        return False

    @property
    def signature(self) -> str:
        """A short text that names everything the numbers depend on, for instance `rouge_l|v1|...|blank:zero`.

        Options that change no number are left out. The signature of a metric outside this package also names its code
        and a hash of the source, so that neither two metrics of one name nor two states of one module share a number.
        """
        cls = type(self)
        # Two metrics of users may have one name
        code = "" if _is_ours(cls) else "@".join(filter(None, [f"code:{self.target}", _revision(cls)]))
        # The options that change a number
        signed = []
        for declared in self.options():
            if declared.name == "blank_answer" or not declared.metadata.get("signed", True):
                continue
            value = getattr(self, declared.name)
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            if len(text) > _MAX_VALUE_CHARS:
                text = content_hash(text)[:12]
            # No bar, which separates the parts
            escaped = re.sub(r"[%|\s]", lambda match: quote(match[0]), text)
            signed.append(f"{declared.name}:{escaped}")
        parts = (self.name, f"v{self.version}", self.method, code, *signed, f"blank:{self.blank_answer}")
        return "|".join(part for part in parts if part)

    def measure(self, samples: Sequence[Sample]) -> list[Measurement]:
        """Score `samples`: same length, same order.

        A sample that cannot be scored gets an `Undefined` or `Failed` measurement; it raises nothing.
        """
        name = self.name
        signature = self.signature
        fields = self.fields
        return [Measurement(sample.sample_id, name, signature, self.outcome(sample, fields)) for sample in samples]

    def score(self, sample: Sample) -> Value:
        """Score a sample that has what the metric needs. An exception fails this sample only."""
        raise NotImplementedError(f"{type(self).__name__} has neither score nor measure")

    def without_score(self, sample: Sample) -> Outcome | None:
        """The outcome of a sample that lacks what the metric needs; None if it can be scored."""
        if "references" in self.needs and not sample.usable_references:
            return NO_REFERENCE
        if "question" in self.needs and is_blank(sample.question):
            return NO_QUESTION
        if "context" in self.needs and all(map(is_blank, sample.context)):
            return NO_CONTEXT
        for name in self.columns:
            if is_blank(sample.column_texts.get(name)):
                return Undefined(f"no column {name}: it is missing or blank")
        if "answer" in self.needs and is_blank(sample.answer):
            return blank_outcome(self.fields, self.blank_answer)
        return None

    def outcome(self, sample: Sample, fields: tuple[Field, ...]) -> Outcome:
        """The outcome of one sample; an exception becomes a failure."""
        if (outcome := self.without_score(sample)) is not None:
            return outcome
        try:
            return outcome_of(self.score(sample), fields)
        except Exception as error:
            return _exception(error)


def measured(metric: Metric, samples: Sequence[Sample]) -> list[Measurement]:
    """Call `metric.measure(samples)`, and hold metrics outside this package to the contract of `Metric`.

    If `measure` raises, samples are measured one by one, and those that raise again fail. A value that is not valid for
    its field fails its sample.

    Raises:
        UserError: raised by the metric because it cannot score anything.

    >>> from answerkey.metrics_core.metrics.words import Contains
    >>> measured(Contains(), [Sample("1", "It is Paris.", ["Paris"])])[0].values
    {'match': 1.0}
    """
    # Those of this package keep the contract themselves
    if all(getattr(type(metric), name).__module__.startswith(_PACKAGE) for name in ("measure", "outcome")):
        return metric.measure(samples)
    ids = [sample.sample_id for sample in samples]
    try:
        measurements = list(metric.measure(samples))
        in_order = [measurement.sample_id for measurement in measurements] == ids
    except UserError:
        raise
    except Exception as error:
        if len(samples) > 1:
            return list(chain.from_iterable(measured(metric, [sample]) for sample in samples))
        return [Measurement(ids[0], metric.name, metric.signature, _exception(error))]
    # Its measurements cannot be told apart
    if not in_order:
        failed = Failed("invalid value", "measure returned other samples than it was given, or in another order")
        measurements = [Measurement(sample_id, "", "", failed) for sample_id in ids]
    for position, measurement in enumerate(measurements):
        try:
            outcome = outcome_of(measurement.outcome, metric.fields)
        except Exception as error:
            outcome = _exception(error)
        measurements[position] = measurement._replace(metric=metric.name, signature=metric.signature, outcome=outcome)
    return measurements


def _exception(error: Exception) -> Failed:
    return Failed("exception", " ".join(f"{type(error).__name__}: {error}".split())[:_MAX_MESSAGE_CHARS])


def outcome_of(value: Value, fields: tuple[Field, ...]) -> Outcome:
    """Convert a return value of `Metric.score` to an outcome. A value that is not valid for its field is a failure.

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
    scores = value.values if isinstance(value, Scored) else value
    if not isinstance(scores, Mapping):
        scores = {fields[0].name: scores}
    # A number for each field, and for no other one
    names = [declared.name for declared in fields]
    if scores.keys() != set(names):
        return Failed("invalid value", f"values for {', '.join(map(str, scores))}; expected {', '.join(names)}")
    values = {name: float(scores[name]) for name in names}
    for declared in fields:
        if problem := declared.problem(values[declared.name]):
            return Failed("invalid value", problem)
    # An error here fails one sample; the same error while writing the table would fail the run.
    json.dumps(details)
    return Scored(values, reason, details)


def degenerate(sample: Sample, fields: tuple[Field, ...], blank_answer: BlankAnswer) -> Outcome | None:
    """The outcome of a sample without a usable reference or with a blank answer; None for any other sample.

    Without a usable reference the outcome is undefined, whatever the answer. A blank answer: see `blank_outcome`.
    """
    if not sample.usable_references:
        return NO_REFERENCE
    return blank_outcome(fields, blank_answer) if is_blank(sample.answer) else None


def blank_outcome(fields: tuple[Field, ...], blank_answer: BlankAnswer) -> Outcome:
    """The outcome of a blank answer: undefined, or (policy `zero`) what a wrong answer gets at best.

    That is 0, or the lowest value of a field whose range begins above 0; and the highest value of a field of which
    less is better. If that has no highest value, the outcome is undefined.
    """
    values = {}
    for declared in fields:
        values[declared.name] = declared.high if declared.lower_is_better else max(declared.low, 0.0)
    if blank_answer == "undefined" or math.inf in values.values():
        return Undefined(BLANK_ANSWER)
    return Scored(values, reason=BLANK_ANSWER)


def identical_reference(sample: Sample) -> int | None:
    """The index of the first usable reference that the answer equals but for its form; None if it equals none."""
    normalised = normalise(sample.answer or "")
    for index, reference in sample.usable_references:
        if normal_reference(reference) == normalised:
            return index
    return None


@lru_cache
def _model(cls: type[Metric]) -> type[BaseModel]:
    """The options of a class as a pydantic model, which reads the limits in their metadata."""
    undeclared = [name for name in inspect.get_annotations(cls) if name not in cls.__dataclass_fields__]
    if undeclared:
        name = f"{cls.__name__}.{undeclared[0]}"
        raise ValueError(f"{name} is not an option yet: decorate the class with @dataclass(frozen=True)")
    if all(getattr(cls, name) is getattr(Metric, name) for name in ("score", "outcome", "measure")):
        raise ValueError(f"{cls.__name__} must have score(sample), or measure(samples)")
    from pydantic import ConfigDict, create_model

    # pydantic reads the types, and the limits that `option` keeps as metadata
    hints = typing.get_type_hints(cls, include_extras=True)
    declared: dict[str, Any] = {option.name: (hints[option.name], option) for option in cls.options()}
    with warnings.catch_warnings():
        # An option may be called like a method of BaseModel.
        warnings.simplefilter("ignore")
        return create_model(cls.__name__, __config__=ConfigDict(arbitrary_types_allowed=True), **declared)


def _validated(metric: Metric) -> dict[str, object]:
    """The values of all options, converted to their types."""
    from pydantic import ValidationError

    model = _model(type(metric))
    try:
        options = model(**{name: getattr(metric, name) for name in model.model_fields})
    except ValidationError as error:
        details = error.errors()[0]
        name = str(details["loc"][0])
        expected = details.get("ctx", {}).get("expected")
        problem = f"; {details['msg'].replace('Input', 'it')}"
        if expected:
            problem = f", expected {expected.replace(chr(39), '')}"
        raise ValueError(f"{name} is {getattr(metric, name)!r}{problem}") from None
    return dict(options)


def _is_plain(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | int | float | bool)


def _is_ours(cls: type[Metric]) -> bool:
    return cls.__module__.startswith(_PACKAGE)


@cache
def _revision(cls: type[Metric]) -> str:
    """A hash of the modules outside this package that a class is written in; empty for scripts and notebooks, whose
    scores are kept nowhere.
    """
    modules = dict.fromkeys(base.__module__ for base in cls.__mro__ if issubclass(base, Metric) and not _is_ours(base))
    if "__main__" in modules:
        return ""
    try:
        return content_hash([inspect.getsource(sys.modules[name]) for name in modules])[:8]
    except (OSError, TypeError, KeyError):
        return ""


Function = Callable[..., Value]
"""Takes an answer (a text), its references (texts that are not blank) and its options by keyword."""


@dataclass(frozen=True)
class FunctionMetric(Metric):
    """A metric that calls a function with the answer and the references of each sample."""

    function: ClassVar[Function]

    def score(self, sample: Sample) -> Value:
        """Call the function."""
        names = [declared.name for declared in self.options() if declared.name != "blank_answer"]
        references = tuple(text for _, text in sample.usable_references)
        return type(self).function(sample.answer or "", references, **{name: getattr(self, name) for name in names})

    def __reduce__(self) -> tuple[Callable[..., Metric], tuple[object, ...]]:
        # Another process imports the function by name; the class that `metric` creates cannot be imported.
        options = {declared.name: getattr(self, declared.name) for declared in fields(self)}
        return _recreated, (type(self).__module__, type(self).__qualname__, options)


@overload
def metric(function: Function, /) -> Callable[..., Metric]: ...
@overload
def metric(
    *,
    name: str = "",
    fields: Sequence[Field | str] = (),
    summary: str = "",
    version: int = 1,
    kind: Kind = "lexical",
    needs: Iterable[Need] = ("answer", "references"),
) -> Callable[[Function], Callable[..., Metric]]: ...
def metric(
    function: Function | None = None,
    /,
    *,
    name: str = "",
    fields: Sequence[Field | str] = (),
    summary: str = "",
    version: int = 1,
    kind: Kind = "lexical",
    needs: Iterable[Need] = ("answer", "references"),
) -> Callable[..., Metric] | Callable[[Function], Callable[..., Metric]]:
    """Turn a function `(answer, references) -> float | bool | dict | None` into a metric.

    None is undefined; a dict has a number for every field. Keyword-only parameters are options; an `option` as the
    default adds a description and limits. To be usable in other processes, the function must be defined at the top
    level of a module.

    Args:
        function: the function, if the decorator is used without arguments.
        name: the name of the metric; by default that of the function.
        fields: the fields, or their names if all range from 0 to 1; by default one called `score`.
        summary: one line for lists of metrics; by default the first line of the docstring.
        version: part of the signature: raise it whenever the same input gets another number.
        kind: where scoring happens.
        needs: the parts of a sample that the metric needs.

    Raises:
        TypeError: the function does not take an answer and references.
        ValueError: the name or a field is malformed.

    >>> @metric(fields=[Field("shouts", "1 or 0", binary=True)], needs=("answer",))
    ... def shouting(answer, references, *, marks: int = 1):
    ...     '''The answer has exclamation marks.'''
    ...     return answer.count("!") >= marks
    >>> [measured] = shouting(marks=2).measure([Sample("1", "Paris!")])
    >>> measured.values, measured.signature.rpartition("|marks")[2]
    ({'shouts': 0.0}, ':2|blank:zero')
    """
    if function is None:
        return partial(metric, name=name, fields=fields, summary=summary, version=version, kind=kind, needs=needs)
    called = name or function.__name__
    positional, options = _parameters(function)
    if positional < 2:
        raise TypeError(f"metric {called!r}: the function must take an answer and references")
    # What the decorator does not say comes from the function
    doc = (inspect.getdoc(function) or "").partition("\n")[0]
    binary = inspect.signature(function).return_annotation in (bool, "bool")
    declared = []
    for entry in fields:
        declared.append(Field(entry) if isinstance(entry, str) else entry)
    namespace = {
        "__doc__": doc or called,
        "name": called,
        "fields": tuple(declared) or (Field("score", doc, binary=binary),),
        "summary": summary,
        "version": version,
        "kind": kind,
        "needs": frozenset(needs),
        "function": staticmethod(function),
        "__qualname__": function.__qualname__,
    }
    cls: type[FunctionMetric] = make_dataclass(
        called, options, bases=(FunctionMetric,), namespace=namespace, frozen=True
    )
    cls.__module__ = function.__module__
    if all(declared.default is not MISSING for declared in cls.options()):
        cls()  # checks name and fields at the definition of the metric, not at its first use
    return cls


def _parameters(function: Function) -> tuple[int, list[tuple[str, Any, DataclassField[Any]]]]:
    """The number of positional parameters, and the options."""
    positional = 0
    options = []
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            # A keyword is an option, whose type may follow from its default
            default = MISSING if parameter.default is parameter.empty else parameter.default
            plain = type(default) if isinstance(default, str | int | float | bool) else Any
            hint = plain if parameter.annotation is parameter.empty else parameter.annotation
            declared = default if isinstance(default, DataclassField) else option(default)
            options.append((parameter.name, hint, declared))
        elif parameter.kind is parameter.VAR_POSITIONAL:
            positional = 2
        elif parameter.kind is not parameter.VAR_KEYWORD:
            positional += 1
    return positional, options


def _recreated(module: str, name: str, options: dict[str, object]) -> Metric:
    target: Any = attrgetter(name)(importlib.import_module(module))
    cls = target if isinstance(target, type) else metric(target)
    restored: Metric = cls(**options)
    return restored
