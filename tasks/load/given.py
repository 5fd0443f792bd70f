"""Scores that came with an answer: what another tool said of it, and the time, price and tokens that it took."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from answerkey.tasks.load.cells import ShownNumber
from answerkey.tasks.load.columns import value
from answerkey.tasks.load.plain import Record, as_json

GIVEN = "given"
"""The metric of scores whose tool is not known."""
_TABLE = yaml.safe_load(Path(__file__).with_name("given.yaml").read_text(encoding="utf-8"))
"""Where tools write scores, and the words that they write for numbers."""
USAGE: Mapping[str, Mapping[str, float]] = _TABLE["usage"]
"""By field: where tools write what an answer took, and the factor from their unit to ours."""
_FLAT = re.compile(r"(?:(?:feedback|outputs|eval)\.(.+?)(?:\.score)?|(.+?)(?:/v\d+)?/(?:score|value))")
"""Columns that are scores: `feedback.NAME`, `outputs.NAME`, `eval.NAME.score`, `NAME/v1/score`, `NAME/value`."""
USAGE_METRICS = tuple(name.partition(".")[0] for name in USAGE)


def given(record: Record) -> dict[str, float]:
    """The scores in a record that a tool wrote, by name, and its `latency.seconds`, `cost.usd_per_1000` and
    `tokens.total`.

    >>> given({"success": True, "scores": {"match": {"value": "C"}}, "latencyMs": 31, "tokenUsage": {"total": 9}})
    {'pass': 1.0, 'match': 1.0, 'latency.seconds': 0.031, 'tokens.total': 9.0}
    >>> given({"metricsData": [{"name": "Exact Match", "score": 0.0}], "feedback.tone": "0.5", "toxicity/v1/score": 1})
    {'exact_match': 0.0, 'tone': 0.5, 'toxicity': 1.0}
    """
    # Scores where tools write several
    numbers: dict[str, float] = {}
    for name, paths in _TABLE["scores"].items():
        for path in paths:
            numbers |= {slug(score): number for score, number in _numbers(name, _content_at(record, path)) if score}

    # Columns that are one score each, by the form of their name or because the record lists them
    columns = [(match[0], match[1] or match[2]) for match in map(_FLAT.fullmatch, record) if match]
    metrics = record.get("metrics")
    if isinstance(metrics, list):
        columns += [(name, name) for name in metrics if isinstance(name, str)]
    for column, score in columns:
        if (number := as_number(record.get(column))) is not None:
            numbers[slug(score)] = number

    # What the answer took, from the first path that says it
    for name, paths in USAGE.items():
        for path, factor in paths.items():
            if (number := as_number(_content_at(record, path))) is not None:
                numbers[name] = number * factor
                break
    return numbers


def is_given(column: str) -> bool:
    """Whether a column of this name is one of a score, or of what an answer took.

    >>> is_given("toxicity/v1/score"), is_given("latency"), is_given("toxicity/v1/justification")
    (True, True, False)
    """
    return bool(_FLAT.fullmatch(column)) or any(column in paths for paths in USAGE.values())


def names_of_scores(record: Record) -> set[str]:
    """Return the names in a record under which `given` looks for scores.

    >>> sorted(names_of_scores({"metrics": ["bleu"], "bleu": 0.5, "latency": 2, "id": 7}))
    ['bleu', 'latency', 'metrics']
    """
    paths = itertools.chain(*_TABLE["scores"].values(), *USAGE.values())
    heads = {"metrics", *(path.split(".", 1)[0] for path in paths)}
    metrics = record.get("metrics")
    if isinstance(metrics, list):
        heads.update(map(str, metrics))
    return {name for name in record if name in heads or is_given(name)}


def given_at(record: Record, path: str) -> dict[str, float]:
    """The scores at a path that a user maps: a number, or an object of them; by METRIC.FIELD.

    >>> given_at({"Accuracy": "0.5", "latency_ms": 20}, "Accuracy"), given_at({"latency_ms": 20}, "latency_ms")
    ({'given.accuracy': 0.5}, {'latency.seconds': 0.02})
    """
    content = _content_at(record, path)
    for name, paths in USAGE.items():
        if path in paths:
            number = as_number(content)
            return {} if number is None else {name: number * paths[path]}
    if not isinstance(content, Mapping):
        return {f"{GIVEN}.{slug(path)}": number for _, number in _numbers(path, content)}
    scores = {}
    for name, number in _numbers("", content):
        metric, dot, field = name.partition(".")
        scores[f"{slug(metric)}.{slug(field)}" if dot else f"{GIVEN}.{slug(name)}"] = number
    return scores


def slug(name: str) -> str:
    """A name as fields have it.

    >>> slug("namedScores"), slug("Exact Match"), slug("f1_score.f1_score"), slug("3-gram")
    ('named_scores', 'exact_match', 'f1_score', 'n3_gram')
    """
    prefix, _, suffix = name.rpartition(".")
    name = suffix if prefix == suffix else name
    text = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()).strip("_")[:60]
    return text if text[:1].isalpha() else f"n{text}"


def as_number(cell: Any) -> float | None:
    """A number, or a word that stands for one; None for anything else.

    >>> as_number("C"), as_number("0.50"), as_number(True), as_number("nice"), as_number(float("nan"))
    (1.0, 0.5, 1.0, None, None)
    """
    if isinstance(cell, ShownNumber):
        cell = cell.number
    if isinstance(cell, str):
        word = cell.strip().lower()
        try:
            cell = float(_TABLE["words"].get(word, word))
        except ValueError:
            return None
    return float(cell) if isinstance(cell, int | float) and math.isfinite(cell) else None


def _numbers(name: str, content: Any) -> Iterator[tuple[str, float]]:
    """Yield the numbers in what a tool keeps under a name; those in objects and lists have names of their own."""
    if isinstance(content, list):
        for score in content:
            names = [score[key] for key in _TABLE["names"] if score.get(key)] if isinstance(score, Mapping) else []
            if names:
                yield from _numbers(str(names[0]), _value(score))
    elif isinstance(content, Mapping) and name and (number := _value(content)) is not None:
        yield from _numbers(name, number)
    elif isinstance(content, Mapping):
        for key, score in content.items():
            yield from _numbers(f"{name}_{key}" if name else str(key), score)
    elif name and (number := as_number(content)) is not None:
        yield name, number


def _value(score: Mapping[str, Any]) -> Any:
    return next((cell for path in _TABLE["values"] if (cell := _content_at(score, path)) is not None), None)


def _content_at(record: Record, path: str) -> Any:
    cell = value(record, path)
    return as_json(cell) if isinstance(cell, str) and cell.lstrip()[:1] in ("{", "[") else cell
