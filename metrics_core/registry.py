"""Create metrics from names, specs such as `strict=my_package.metrics:Politeness(threshold=.9)`, and objects.

A spec is `[NAME=]TARGET[(OPTION=VALUE, ...)]`. TARGET is the name of a metric or rubric of this package, the path of a
rubric (`judges/politeness.yaml`) or its content in braces, the name of an entry point in the group `answerkey.metrics`,
or an import path `package.module:Attribute` of a `Metric` class or a function.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from answerkey.metrics_core.errors import UserError, choice, did_you_mean
from answerkey.metrics_core.judges import rubric
from answerkey.metrics_core.judges.judge_metric import ModelMetric
from answerkey.metrics_core.metric import Metric, metric
from answerkey.metrics_core.metrics.answer_correctness import AnswerCorrectness
from answerkey.metrics_core.metrics.bleu import Bleu, Chrf
from answerkey.metrics_core.metrics.ground_truth_similarity import GroundTruthSimilarity
from answerkey.metrics_core.metrics.meaning_match import MeaningMatch
from answerkey.metrics_core.metrics.preference import Preference
from answerkey.metrics_core.metrics.rouge import Rouge
from answerkey.metrics_core.metrics.semantic_similarity import SemanticSimilarity
from answerkey.metrics_core.metrics.values import Choice, JsonEqual, Number, Pattern, ToolCalls
from answerkey.metrics_core.metrics.words import Contains, ExactMatch, RougeL, TokenOverlap

METRICS: Mapping[str, type[Metric]] = {
    cls.name: cls
    for cls in (
        AnswerCorrectness,
        RougeL,
        Rouge,
        TokenOverlap,
        Bleu,
        Chrf,
        ExactMatch,
        Contains,
        Number,
        Choice,
        JsonEqual,
        Pattern,
        ToolCalls,
        SemanticSimilarity,
        MeaningMatch,
        GroundTruthSimilarity,
    )
}
"""The metrics of this package by name, in the order of reports."""

ASKED = (*rubric.SHIPPED, Preference.name)
"""Metrics that need a language model: the rubrics of this package, and the comparison with a baseline."""

DEFAULT_METRICS = ("answer_correctness", "semantic_similarity", "meaning_match", "ground_truth_similarity")
"""The metrics that are computed if none is named. Most of the others are fields of `answer_correctness`."""

GROUP = "answerkey.metrics"
"""The group of entry points with which installed packages offer metrics."""

MetricLike = str | Metric | Callable[..., Any]
"""A spec, a metric, a class of metrics, or a function of an answer and its references."""

_SPEC = re.compile(r"(?:(?P<alias>[^=(){:]+)=)?(?P<target>\{.*\}|[^=(){]+?)(?:\((?P<options>.*)\))?", re.DOTALL)
_WORDS: Mapping[str, object] = {"true": True, "false": False, "none": None}


def create(
    metrics: Iterable[MetricLike], where_they_fit: Mapping[str, object] | None = None, /, **options: object
) -> list[Metric]:
    """Create the metrics that `metrics` describe, in that order, each once.

    Args:
        metrics: names, specs, metrics, classes of metrics, functions.
        where_they_fit: options for metrics that have them and are not given as an object; options in a spec take
            precedence.
        options: options that at least one of the metrics must have.

    Raises:
        UserError: a metric is not known or cannot be loaded, a metric does not have an option of its spec, no metric
            has one of `options`, or two different metrics have the same name.

    >>> [one, other] = create(["rouge_l", "strict=contains"], blank_answer="undefined")
    >>> one.name, other.name, other.blank_answer
    ('rouge_l', 'strict', 'undefined')
    """
    used: set[str] = set()
    created: dict[str, Metric] = {}
    shared = {**(where_they_fit or {}), **options}
    for entry in metrics:
        # A metric that is given as an object stays as it is
        new = entry if isinstance(entry, Metric) else _created(entry, shared, used)
        if new.target != new.name and not isinstance(new, METRICS.get(new.name, Metric)):
            raise UserError(f"{new.name} is the name of another metric: give {new.target} a name of its own")
        if isinstance(new, ModelMetric) and "judge" in shared:
            new.check()
        if created.setdefault(new.name, new) != new:
            raise UserError(
                f"two metrics are called {new.name!r}: give one another name, for instance my_{new.name}={new.target}"
            )
    # An option that no metric has is a mistake
    unused = sorted(options.keys() - used)
    if unused:
        option = unused[0]
        owners = [name for name, cls in METRICS.items() if option in _option_names(cls)]
        if owners:
            problem = f"belongs to {', '.join(owners)}, and none of the metrics here is made with it"
            raise UserError(f"option {option!r} {problem}")
        known_options = set[str]().union(*map(_option_names, created.values()))
        raise UserError(_unknown_option(option, known_options))
    return list(created.values())


def load(target: str) -> type[Metric] | Metric:
    """The metric class, or the metric, that a target names.

    Raises:
        UserError: there is no such metric, or the target is not a metric.
    """
    if target in METRICS:
        return METRICS[target]
    if target == Preference.name:
        return Preference
    if target in rubric.SHIPPED or target.endswith(rubric.ENDINGS) or target.startswith("{"):
        return rubric.metric_of(rubric.read_rubric(target))
    try:
        if ":" in target:
            return as_metric(_imported(target), target)
        if target in (offered := entry_point_metrics()):
            return as_metric(offered[target].load(), target)
    except UserError:
        raise
    except Exception as error:
        # The module is the user's own code, and may raise anything.
        raise UserError(f"metric {target!r} cannot be loaded: {type(error).__name__}: {error}") from error
    remedy = choice(target, [*METRICS, *ASKED, *entry_point_metrics()])
    # Without a similar name it may be code of the user
    if not remedy.endswith("?"):
        remedy += ", or write package.module:Attribute"
    raise UserError(f"metric {target!r} is not known: {remedy}")


@cache
def entry_point_metrics() -> Mapping[str, EntryPoint]:
    """The metrics that other installed packages offer, by name. On a clash of names those of this package win."""
    of_this_package = (*METRICS, *ASKED)
    return {offered.name: offered for offered in entry_points(group=GROUP) if offered.name not in of_this_package}


def _created(entry: str | Callable[..., Any], options: Mapping[str, object], used: set[str]) -> Metric:
    """Create the metric of a spec, a class or a function, with the `options` that it has, and add them to `used`."""
    alias = ""
    spec_options: dict[str, object] = {}
    if isinstance(entry, str):
        alias, target, spec_options = _parsed(entry)
        source = load(target)
        label = target or source.name
    else:
        source = as_metric(entry, getattr(entry, "__name__", repr(entry)))
        label = source.name
    names = _option_names(source)
    unknown = sorted(spec_options.keys() - names)
    if unknown:
        raise UserError(f"metric {label}: {_unknown_option(unknown[0], names)}")

    # The options of a metric that is given as an object stay as they are.
    fitting: dict[str, Any] = {}
    if not isinstance(source, Metric):
        settable = names | {field.name for field in fields(source) if field.init}
        fitting = {name: options[name] for name in options.keys() & settable}
    used.update(fitting)
    values = {**fitting, **spec_options}
    if alias:
        values["alias"] = alias
    try:
        return replace(source, **values) if isinstance(source, Metric) else source(**values)
    except (TypeError, ValueError) as error:
        raise UserError(f"metric {label}: {error}") from error


def _parsed(spec: str) -> tuple[str, str, dict[str, object]]:
    """Alias, target and options of a spec."""
    match = _SPEC.fullmatch(spec.strip())
    if not match:
        raise UserError(f"metric {spec!r} is not known: write NAME, or [NAME=]package.module:Attribute[(OPTION=VALUE)]")
    alias, target, options = (match[part] or "" for part in ("alias", "target", "options"))
    try:
        # Options are written like the arguments of a call
        call = ast.parse(f"_({options})", mode="eval").body
        assert isinstance(call, ast.Call)
        if call.args or any(word.arg is None for word in call.keywords):
            raise ValueError("OPTION=VALUE is missing its name")
        values = {str(word.arg): _value(word.value) for word in call.keywords}
    except (SyntaxError, ValueError) as error:
        raise UserError(
            f"metric {spec!r}: options are written (name=value, other='text in quotes'); {error.args[0]}"
        ) from error
    return alias.strip(), target.strip(), values


def is_code(spec: str) -> bool:
    """Whether a spec names code by its import path.

    >>> [is_code(spec) for spec in ("my_package.metrics:Politeness", "rouge_l", '{"name": "tone"}')]
    [True, False, False]
    """
    _, target, _ = _parsed(spec)
    return ":" in target and not target.startswith("{")


def with_content(spec: str, rubrics: Mapping[str, str]) -> str:
    """A spec with the content of a rubric in place of its path, if it is one of `rubrics`, which are by path.

    >>> with_content("strict=judges/tone.yaml(threshold=0.9)", {"judges/tone.yaml": '{"name": "tone"}'})
    'strict={"name": "tone"}(threshold=0.9)'
    """
    _, target, _ = _parsed(spec)
    return spec.replace(target, rubrics[target], 1) if target in rubrics else spec


def _value(node: ast.expr) -> object:
    if isinstance(node, ast.Name):
        return _WORDS.get(node.id.lower(), node.id)
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(element) for element in node.elts]
    return ast.literal_eval(node)


def _imported(path: str) -> Any:
    module, _, attribute = path.partition(":")
    try:
        target: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if os.getcwd() in sys.path or not (error.name and f"{module}.".startswith(f"{error.name}.")):
            raise
        # An installed command does not see the folder that it is started in.
        sys.path.append(os.getcwd())
        importlib.invalidate_caches()
        target = importlib.import_module(module)
    for part in attribute.split("."):
        if not hasattr(target, part):
            raise UserError(f"metric {path!r}: {module} has no {part}{did_you_mean(part, dir(target))}")
        target = getattr(target, part)
    return target


def as_metric(source: object, label: str) -> type[Metric] | Metric:
    """Convert an object to a metric class or a metric: a function becomes a metric class.

    Raises:
        UserError: it is not a metric.
    """
    if isinstance(source, Metric) or (isinstance(source, type) and issubclass(source, Metric)):
        return source
    if isinstance(source, type) or not callable(source):
        raise UserError(f"{label} is not a metric: expected a subclass of Metric, or a function (answer, references)")
    try:
        created = metric(source)
    except (TypeError, ValueError) as error:
        raise UserError(str(error)) from error
    assert isinstance(created, type)
    return created


def _unknown_option(name: str, names: Iterable[str]) -> str:
    return f"option {name!r} is not known: {choice(name, sorted(names))}"


def _option_names(metric: type[Metric] | Metric) -> set[str]:
    return {field.name for field in metric.options()}
