"""Metrics from what users write: names, specs like `strict=my_package.metrics:Politeness(threshold=.9)`, objects.

A spec is `[NAME=]TARGET[(OPTION=VALUE, ...)]`. TARGET is the name of a metric or rubric of this package, the path of a
rubric (`judges/politeness.yaml`), the name of an entry point in the group `answerkey.metrics`, or an import path
`package.module:Attribute` of a `Metric` class or a function.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.function_metric import metric
from answerkey.metrics_core.judges import rubric
from answerkey.metrics_core.judges.model_metric import ModelMetric
from answerkey.metrics_core.judges.rubric_metric import metric_of
from answerkey.metrics_core.metric import Metric
from answerkey.metrics_core.metrics.answer_correctness import AnswerCorrectness
from answerkey.metrics_core.metrics.bleu import Bleu
from answerkey.metrics_core.metrics.chrf import Chrf
from answerkey.metrics_core.metrics.contains import Contains
from answerkey.metrics_core.metrics.exact_match import ExactMatch
from answerkey.metrics_core.metrics.ground_truth_similarity import GroundTruthSimilarity
from answerkey.metrics_core.metrics.meaning_match import MeaningMatch
from answerkey.metrics_core.metrics.preference import Preference
from answerkey.metrics_core.metrics.rouge_l import RougeL
from answerkey.metrics_core.metrics.semantic_similarity import SemanticSimilarity
from answerkey.metrics_core.metrics.token_overlap import TokenOverlap

METRICS: Mapping[str, type[Metric]] = {
    cls.name: cls
    for cls in (
        AnswerCorrectness,
        RougeL,
        TokenOverlap,
        Bleu,
        Chrf,
        ExactMatch,
        Contains,
        SemanticSimilarity,
        MeaningMatch,
        GroundTruthSimilarity,
    )
}
"""Every metric of this package by the name that users write, in the order of reports."""

ASKED = (*rubric.SHIPPED, Preference.name)
"""What only a language model can judge: the rubrics of this package, and the comparison with a baseline."""

DEFAULT_METRICS = ("answer_correctness", "semantic_similarity", "meaning_match", "ground_truth_similarity")
"""What is computed where no metric is named. Most of the others are fields of `answer_correctness`."""

GROUP = "answerkey.metrics"
"""The group of entry points by which an installed package offers metrics."""

MetricLike = str | Metric | Callable[..., Any]
"""A spec, a metric, a class of metrics, or a function of an answer and its references."""

_SPEC = re.compile(r"(?:(?P<alias>[^=():]+)=)?(?P<target>[^=()]+?)(?:\((?P<options>.*)\))?", re.DOTALL)
_WORDS: Mapping[str, object] = {"true": True, "false": False, "none": None}


def create(
    metrics: Iterable[MetricLike], where_they_fit: Mapping[str, object] | None = None, /, **options: object
) -> list[Metric]:
    """The metrics that `metrics` stand for, in that order, each once.

    Args:
        metrics: names, specs, metrics, classes of metrics, functions.
        where_they_fit: options for those that are not given as an object and have them; what a spec says comes first.
        options: the same, but each must fit at least one of the metrics.

    Raises:
        UserError: a metric is not known or cannot be loaded, an option does not fit a metric or belongs to none of
            them, or two different metrics have one name.

    >>> [one, other] = create(["rouge_l", "strict=contains"], blank_answer="undefined")
    >>> one.name, other.name, other.blank_answer
    ('rouge_l', 'strict', 'undefined')
    """
    used: set[str] = set()
    made: dict[str, Metric] = {}
    given = {**(where_they_fit or {}), **options}
    for one in metrics:
        known = one if isinstance(one, Metric) else _made(one, given, used)
        if known.target != known.name and not isinstance(known, METRICS.get(known.name, Metric)):
            raise UserError(f"{known.name} is the name of another metric: give {known.target} a name of its own")
        if isinstance(known, ModelMetric) and "judge" in given:
            known.check()
        other = made.setdefault(known.name, known)
        if other != known:
            raise UserError(
                f"two metrics are called {known.name!r}: give one another name, for instance "
                f"my_{known.name}={known.target}"
            )
    if unused := options.keys() - used:
        raise UserError(_unused_message(sorted(unused)[0], list(made.values())))
    return list(made.values())


def load(target: str) -> type[Metric] | Metric:
    """The class of metrics, or the metric, that a target names.

    Raises:
        UserError: there is no such metric, or what the target names is not a metric.
    """
    if target in METRICS:
        return METRICS[target]
    if target == Preference.name:
        return Preference
    if target in rubric.SHIPPED or target.endswith(rubric.ENDINGS):
        return metric_of(rubric.read_rubric(target))
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
    known = [*METRICS, *ASKED, *entry_point_metrics()]
    near = difflib.get_close_matches(target, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(known)}, or write package.module:Attribute"
    raise UserError(f"metric {target!r} is not known: {hint}")


@cache
def entry_point_metrics() -> Mapping[str, EntryPoint]:
    """The metrics that other installed packages offer, by name; ours come first where names clash."""
    ours = (*METRICS, *ASKED)
    return {one.name: one for one in entry_points(group=GROUP) if one.name not in ours}


def _made(one: str | Callable[..., Any], options: Mapping[str, object], used: set[str]) -> Metric:
    alias, target, own = _parsed(one) if isinstance(one, str) else ("", "", {})
    there = load(target) if isinstance(one, str) else as_metric(one, getattr(one, "__name__", repr(one)))
    label, names = target or there.name, {field.name for field in there.options()}
    settable = names | {field.name for field in fields(there) if field.init}
    if wrong := sorted(own.keys() - names):
        raise UserError(f"metric {label}: {_unknown_option(wrong[0], names)}")
    # What a metric holds already was said by whoever made it.
    shared = {} if isinstance(there, Metric) else {name: options[name] for name in options.keys() & settable}
    used.update(shared)
    given: dict[str, Any] = {**shared, **own}
    if alias:
        given["alias"] = alias
    try:
        return replace(there, **given) if isinstance(there, Metric) else there(**given)
    except (TypeError, ValueError) as error:
        raise UserError(f"metric {label}: {error}") from error


def _parsed(spec: str) -> tuple[str, str, dict[str, object]]:
    """Alias, target and options of a spec."""
    match = _SPEC.fullmatch(spec.strip())
    if not match:
        raise UserError(f"metric {spec!r} is not known: write NAME, or [NAME=]package.module:Attribute[(OPTION=VALUE)]")
    alias, target, options = (match[part] or "" for part in ("alias", "target", "options"))
    return alias.strip(), target.strip(), _options_of(options, spec)


def _options_of(text: str, spec: str) -> dict[str, object]:
    try:
        call = ast.parse(f"_({text})", mode="eval").body
        assert isinstance(call, ast.Call)
        if call.args or any(word.arg is None for word in call.keywords):
            raise ValueError("OPTION=VALUE is missing its name")
        return {str(word.arg): _value(word.value) for word in call.keywords}
    except (SyntaxError, ValueError) as error:
        raise UserError(
            f"metric {spec!r}: options are written (name=value, other='text in quotes'); {error.args[0]}"
        ) from error


def _value(node: ast.expr) -> object:
    if isinstance(node, ast.Name):
        return _WORDS.get(node.id.lower(), node.id)
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(one) for one in node.elts]
    return ast.literal_eval(node)


def _imported(path: str) -> Any:
    module, _, attribute = path.partition(":")
    try:
        there: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if os.getcwd() in sys.path or not (error.name and f"{module}.".startswith(f"{error.name}.")):
            raise
        # An installed command does not see the folder that it is started in.
        sys.path.append(os.getcwd())
        importlib.invalidate_caches()
        there = importlib.import_module(module)
    for part in attribute.split("."):
        if not hasattr(there, part):
            near = difflib.get_close_matches(part, dir(there), n=1)
            raise UserError(f"metric {path!r}: {module} has no {part}" + (f"; did you mean {near[0]}?" if near else ""))
        there = getattr(there, part)
    return there


def as_metric(there: object, label: str) -> type[Metric] | Metric:
    """`there` as a metric: a function becomes one.

    Raises:
        UserError: it is not a metric.
    """
    if isinstance(there, Metric) or (isinstance(there, type) and issubclass(there, Metric)):
        return there
    if isinstance(there, type) or not callable(there):
        raise UserError(f"{label} is not a metric: expected a subclass of Metric, or a function (answer, references)")
    try:
        made = metric(there)
    except (TypeError, ValueError) as error:
        raise UserError(str(error)) from error
    assert isinstance(made, type)
    return made


def _unknown_option(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, sorted(names), n=1)
    hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(sorted(names))}"
    return f"option {name!r} is not known: {hint}"


def _unused_message(name: str, metrics: Sequence[Metric]) -> str:
    names = {field.name for one in metrics for field in one.options()}
    owners = [known for known, cls in METRICS.items() if name in {field.name for field in cls.options()}]
    if owners:
        return f"option {name!r} belongs to {', '.join(owners)}, and none of the metrics here is made with it"
    return _unknown_option(name, names)
