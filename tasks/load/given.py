"""Scores that came with an answer: what another tool said of it, and the time, price and tokens that it took."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from answerkey.tasks.load.cells import ShownNumber
from answerkey.tasks.load.columns import value
from answerkey.tasks.load.plain import as_json
from answerkey.tasks.load.rows import Record

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
    found: dict[str, float] = {}
    for name, paths in _TABLE["scores"].items():
        for path in paths:
            found |= {slug(one): number for one, number in _numbers(name, _at(record, path)) if one}
    for column, cell in record.items():
        if (matched := _FLAT.fullmatch(column)) and (number := as_number(cell)) is not None:
            found[slug(matched[1] or matched[2])] = number
    names = record.get("metrics")
    for name in names if isinstance(names, list) else ():
        if isinstance(name, str) and (number := as_number(record.get(name))) is not None:
            found[slug(name)] = number
    # What the answer took, from the first place that says it
    for name, paths in USAGE.items():
        for path, factor in paths.items():
            if (number := as_number(_at(record, path))) is not None:
                found[name] = number * factor
                break
    return found


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
    listed = record.get("metrics")
    heads = {path.split(".", 1)[0] for paths in (*_TABLE["scores"].values(), *USAGE.values()) for path in paths}
    heads.add("metrics")
    if isinstance(listed, list):
        heads.update(map(str, listed))
    return {name for name in record if name in heads or is_given(name)}


def given_at(record: Record, path: str) -> dict[str, float]:
    """The scores at a path that a user maps: a number, or an object of them; by METRIC.FIELD.

    >>> given_at({"Accuracy": "0.5", "latency_ms": 20}, "Accuracy"), given_at({"latency_ms": 20}, "latency_ms")
    ({'given.accuracy': 0.5}, {'latency.seconds': 0.02})
    """
    found = _at(record, path)
    usage = next((name for name, paths in USAGE.items() if path in paths), "")
    if usage:
        number = as_number(found)
        return {} if number is None else {usage: number * USAGE[usage][path]}
    if isinstance(found, Mapping):
        return {_named(one): number for one, number in _numbers("", found)}
    return {f"{GIVEN}.{slug(path)}": number for _, number in _numbers(path, found)}


def _named(name: str) -> str:
    """METRIC.FIELD, as names of metrics and fields are."""
    metric, dot, field = name.partition(".")
    return f"{slug(metric)}.{slug(field)}" if dot else f"{GIVEN}.{slug(name)}"


def slug(name: str) -> str:
    """A name as fields have it.

    >>> slug("namedScores"), slug("Exact Match"), slug("f1_score.f1_score"), slug("3-gram")
    ('named_scores', 'exact_match', 'f1_score', 'n3_gram')
    """
    first, _, last = name.rpartition(".")
    name = last if first == last else name
    text = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()).strip("_")[:60]
    return text if text[:1].isalpha() else f"n{text}"


def as_number(found: Any) -> float | None:
    """A number, or a word that stands for one; None for anything else.

    >>> as_number("C"), as_number("0.50"), as_number(True), as_number("nice"), as_number(float("nan"))
    (1.0, 0.5, 1.0, None, None)
    """
    if isinstance(found, ShownNumber):
        found = found.number
    if isinstance(found, str):
        word = found.strip().lower()
        if word in _TABLE["words"]:
            return float(_TABLE["words"][word])
        try:
            found = float(word)
        except ValueError:
            return None
    return float(found) if isinstance(found, int | float) and math.isfinite(found) else None


def _numbers(name: str, found: Any) -> Iterator[tuple[str, float]]:
    """The numbers in what a tool keeps under a name; those in objects and lists have names of their own."""
    if isinstance(found, list):
        for one in found:
            own = next((one[key] for key in _TABLE["names"] if one.get(key)), "") if isinstance(one, Mapping) else ""
            yield from _numbers(str(own), _value(one)) if own else ()
    elif isinstance(found, Mapping) and name and (one := _value(found)) is not None:
        yield from _numbers(name, one)
    elif isinstance(found, Mapping):
        for key, one in found.items():
            yield from _numbers(f"{name}_{key}" if name else str(key), one)
    elif name and (number := as_number(found)) is not None:
        yield name, number


def _value(found: Mapping[str, Any]) -> Any:
    return next((one for path in _TABLE["values"] if (one := _at(found, path)) is not None), None)


def _at(record: Record, path: str) -> Any:
    found = value(record, path)
    return as_json(found) if isinstance(found, str) and found.lstrip()[:1] in ("{", "[") else found
