"""Metrics made of plain functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, dataclass, fields, make_dataclass
from dataclasses import Field as DataclassField
from typing import Any, ClassVar, overload

from answerkey.metrics_core.metric import Field, Kind, Metric, Need, Value, option
from answerkey.metrics_core.sample import Sample

Function = Callable[..., Value]
"""Takes an answer (a text), its references (texts that are not blank) and its options by keyword."""


@dataclass(frozen=True)
class FunctionMetric(Metric):
    """A metric that calls a function with the answer and the references of each sample."""

    function: ClassVar[Function]

    def score(self, sample: Sample) -> Value:
        """What the function returns."""
        own = {one.name: getattr(self, one.name) for one in self.options() if one.name != "blank_answer"}
        references = tuple(text for _, text in sample.usable_references)
        return type(self).function(sample.answer or "", references, **own)

    def __reduce__(self) -> tuple[Callable[..., Metric], tuple[object, ...]]:
        # By the name of the function, which another process imports: a class made here is nowhere to be imported.
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        return _again, (type(self).__module__, type(self).__qualname__, given)


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
    """Make a metric of a function `(answer, references) -> float | bool | dict | None`.

    None is undefined; a dict has a number for every field. Parameters that are keyword-only are options: `option`
    as their default gives them a description and limits. The function must stand at the top level of a module to
    be usable in other processes.

    Args:
        function: the function, where the decorator is used without arguments.
        name: as users write it; by default the name of the function.
        fields: the fields, or their names if all are from 0 to 1; by default one called `score`.
        summary: as for `Metric`, and so are the next three.
        version: part of the signature.
        kind: how it is scored.
        needs: the parts of a sample that it reads.

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
        return lambda function: _class_of(function, name, fields, summary, version, kind, needs)
    return _class_of(function, name, fields, summary, version, kind, needs)


def _class_of(
    function: Function,
    name: str,
    given: Sequence[Field | str],
    summary: str,
    version: int,
    kind: Kind,
    needs: Iterable[Need],
) -> type[FunctionMetric]:
    called = name or function.__name__
    positional, options = _parameters(function, called)
    if positional < 2:
        raise TypeError(f"metric {called!r}: the function must take an answer and references")
    doc = (inspect.getdoc(function) or "").partition("\n")[0]
    binary = inspect.signature(function).return_annotation in (bool, "bool")
    declared = tuple(Field(one) if isinstance(one, str) else one for one in given)
    namespace = {
        "__doc__": doc or called,
        "name": called,
        "fields": declared or (Field("score", doc, binary=binary),),
        "summary": summary,
        "version": version,
        "kind": kind,
        "needs": frozenset(needs),
        "function": staticmethod(function),
        "__module__": function.__module__,
        "__qualname__": function.__qualname__,
    }
    made: type[FunctionMetric] = make_dataclass(
        called, options, bases=(FunctionMetric,), namespace=namespace, frozen=True
    )
    made.__module__ = function.__module__
    if all(one.default is not MISSING for one in made.options()):
        made()  # checks name and fields where the metric is written, not where it is used
    return made


def _parameters(function: Function, name: str) -> tuple[int, list[tuple[str, Any, DataclassField[Any]]]]:
    """How many positional parameters there are, and the options."""
    positional, options = 0, []
    for one in inspect.signature(function, eval_str=True).parameters.values():
        if one.kind is one.KEYWORD_ONLY:
            default = MISSING if one.default is one.empty else one.default
            if one.annotation is not one.empty:
                hint = one.annotation
            else:
                plain = isinstance(default, str | int | float | bool)
                hint = type(default) if plain else Any
            declared = default if isinstance(default, DataclassField) else option(default)
            options.append((one.name, hint, declared))
        elif one.kind is one.VAR_POSITIONAL:
            positional = 2
        elif one.kind is not one.VAR_KEYWORD:
            positional += 1
    return positional, options


def _again(module: str, name: str, given: dict[str, object]) -> Metric:
    import importlib

    there: Any = importlib.import_module(module)
    for part in name.split("."):
        there = getattr(there, part)
    made = there if isinstance(there, type) else metric(there)
    restored: Metric = made(**given)
    return restored
