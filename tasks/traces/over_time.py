"""The mean of a rule's traces by day, week or month."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from answerkey.metrics_core.decide.bounded_mean import bounded_mean
from answerkey.metrics_core.decide.intervals import clopper_pearson, of_all_rows
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.registry import METRICS, create
from answerkey.tasks.publish.table import Table
from answerkey.tasks.publish.text import ends, number
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements

_SQL = statements(__name__)

By = Literal["day", "week", "month"]


@dataclass(frozen=True, slots=True)
class Period:
    """A field of a rule's metric over the traces of one day, week or month, which begins with `start` (UTC).

    `n_total` traces were to be scored, `n_scored` were; the mean holds for all that should have a number, see
    `intervals.of_all_rows`. `methods` counts the signatures met so far, from 1: numbers of two are not comparable, and
    a period that has several has their mixture.
    """

    start: str
    n_scored: int
    n_total: int
    mean: float | None
    low: float | None
    high: float | None
    methods: int


class History(NamedTuple):
    """METRIC.FIELD, and its periods, oldest first, without empty ones."""

    name: str
    periods: tuple[Period, ...]


def over_time(home: Home, rule: str, field: str = "", by: By = "day") -> History:
    """Return the mean of a field over the traces of each period.

    Args:
        field: FIELD or METRIC.FIELD; empty: the main one of the rule's metric. The metric can be one that it had
            before: traces keep their numbers.

    Raises:
        UserError: there is no such rule, or its traces have no such field.
    """
    # Which field
    rules = dict(home.rows(_SQL["rules"]))
    if rule not in rules:
        names = f"there are {', '.join(rules)}" if rules else "none has run yet: answerkey score-traces runs them"
        raise UserError(f"{rule}: no rule of this name has scored traces in {home}; {names}")
    fields = [".".join(pair) for pair in home.rows(_SQL["fields"], {"rule": rule})]
    try:
        [metric_of_rule] = create([rules[rule]])
        name = f"{metric_of_rule.name}.{metric_of_rule.headline}"
    except UserError:
        # Its code is not here, but its numbers are
        name = fields[0] if fields else rules[rule]
    if field:
        name = field if field in fields else f"{name.partition('.')[0]}.{field}"
        if name not in fields:
            raise UserError(f"{field}: the traces of the rule {rule} have {', '.join(fields) or 'no numbers'}")

    # Its periods
    metric, _, field = name.partition(".")
    periods = []
    for start, n_scored, n_total, methods, *numbers in home.rows(
        _SQL["periods"], {"by": by, "field": field, "rule": rule, "metric": metric}
    ):
        mean, low, high = estimate_of(metric, field, *numbers)
        periods.append(Period(start, n_scored, n_total, mean, low, high, methods))
    return History(name, tuple(periods))


def estimate_of(
    metric: str, field_name: str, mean: float | None, histogram: Mapping[float, int] | None, coverage: float
) -> tuple[float | None, float | None, float | None]:
    """Return the mean of a field and its 95 % interval as they hold for all traces; a share `coverage` has a number.

    There is no interval where the range of the values is unknown.

    Args:
        histogram: how often each value occurs.
    """
    # Of a metric of a user's own only the name is stored, and not where its code is
    fields = METRICS[metric]().fields if metric in METRICS else ()
    field = next((field for field in fields if field.name == field_name), None)
    low, high = (field.low, field.high) if field else (-math.inf, math.inf)
    interval = None
    if field and histogram:
        if field.binary and histogram.keys() <= {0.0, 1.0}:
            interval = clopper_pearson(histogram.get(1.0, 0), sum(histogram.values()))
        else:
            interval = bounded_mean([*histogram], counts=[*histogram.values()], low=low, high=high)
    mean, interval = of_all_rows(mean, interval, coverage, low, high)
    return (mean, interval.low, interval.high) if interval else (mean, None, None)


def by_period(title: str, by: str, periods: Sequence[Period]) -> Table:
    """Return the mean of a field in each period, with its interval, and how many traces it is of."""
    rows = [
        (
            period.start, number(period.mean), ends(period.low, period.high), f"{period.n_scored:,}/{period.n_total:,}",
            str(period.methods),
        )
        for period in periods
    ]  # fmt: skip
    table = Table(title, (f"{by} (UTC)", "mean", "95 % interval", "scored", "method"), rows)
    has_methods = any(period.methods > 1 for period in periods)
    return table if has_methods else table.without("method")
