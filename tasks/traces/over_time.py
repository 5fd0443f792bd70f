"""The mean of a rule's traces by day, week or month, and whether the newest period differs from those before it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.metric import Field
from answerkey.metrics_core.registry import METRICS, create
from answerkey.metrics_core.statistics.bounded_mean import bounded_mean
from answerkey.metrics_core.statistics.intervals import (
    LEVEL,
    MIN_COVERAGE,
    Estimate,
    Interval,
    clopper_pearson,
    independent_difference,
    of_all_rows,
    percent,
)
from answerkey.tasks.compare.drift import LEAST_TRAILING, MOST_TRAILING, Drift, Shift
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
    """METRIC.FIELD, its periods, oldest first, without empty ones, and the newest against those before it."""

    name: str
    periods: tuple[Period, ...]
    drift: Drift


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
        there = f"there are {', '.join(rules)}" if rules else "none has run yet: answerkey score-traces runs them"
        raise UserError(f"{rule}: no rule of this name has scored traces in {home}; {there}")
    known = [".".join(pair) for pair in home.rows(_SQL["fields"], {"rule": rule})]
    try:
        [made] = create([rules[rule]])
        main = f"{made.name}.{made.headline}"
    except UserError:
        # Its code is not here, but its numbers are.
        main = known[0] if known else rules[rule]
    name = field if field in known else f"{main.partition('.')[0]}.{field}" if field else main
    if field and name not in known:
        raise UserError(f"{field}: the traces of the rule {rule} have {', '.join(known) or 'no numbers'}")

    # Its periods
    metric, _, field = name.partition(".")
    rows = home.rows(_SQL["periods"], {"by": by, "field": field, "rule": rule, "metric": metric})
    periods, comparable = [], []
    for start, n_total, n_wanted, first_method, last_method, n_scored, mean, histogram in rows:
        coverage = n_scored / max(1, n_wanted)
        shown, interval = estimate_of(metric, field, mean, histogram, coverage)
        low, high = (interval.low, interval.high) if interval else (None, None)
        periods.append(Period(start, n_scored, n_total, shown, low, high, last_method))
        if n_scored and coverage >= MIN_COVERAGE:
            comparable.append((start, histogram, first_method if first_method == last_method else 0))
    # The newest period and those before it that were scored in the same single way
    newest_method = comparable[-1][2] if comparable else 0
    alike = {start: histogram for start, histogram, method in comparable if method == newest_method > 0}
    return History(name, tuple(periods), _drift(_field(metric, field), name, by, alike))


def _field(metric: str, name: str) -> Field | None:
    """Return a field of a metric; None for one of a user's own: only its name is stored, and not where its code is."""
    fields = METRICS[metric]().fields if metric in METRICS else ()
    return next((field for field in fields if field.name == name), None)


def estimate_of(
    metric: str, field_name: str, mean: float | None, histogram: Mapping[float, int] | None, coverage: float
) -> tuple[float | None, Interval | None]:
    """Return the mean of a field and its 95 % interval as they hold for all traces; a share `coverage` has a number."""
    field = _field(metric, field_name)
    low, high = (field.low, field.high) if field else (-math.inf, math.inf)
    return of_all_rows(mean, _interval(field, histogram), coverage, low, high)


def _interval(field: Field | None, histogram: Mapping[float, int] | None) -> Interval | None:
    """Return the interval of the mean of values, of which `histogram` counts each; None if their range is unknown."""
    if field is None or not histogram:
        return None
    if field.binary and histogram.keys() <= {0.0, 1.0}:
        return clopper_pearson(histogram.get(1.0, 0), sum(histogram.values()))
    values, counts = list(histogram), list(histogram.values())
    return bounded_mean(values, counts=counts, low=field.low, high=field.high)


def _drift(field: Field | None, name: str, by: By, histograms: Mapping[str, Mapping[float, int]]) -> Drift:
    """Test whether the newest period differs from up to ten before it, taken together.

    Every period has its own traces, so this compares two samples and not each trace with itself.

    Args:
        histograms: how often each value occurs, by the start of each period that can be compared, oldest first.
    """
    *trailing, newest = [*histograms][-MOST_TRAILING - 1 :] or [""]
    if len(trailing) < LEAST_TRAILING:
        sentence = (
            f"Whether the newest {by} differs from those before it is not tested: that takes {LEAST_TRAILING} earlier "
            f"ones that were scored in full and in the same single way as it, and there are {len(trailing)}."
        )
        return Drift(newest, tuple(trailing), sentence=sentence)
    old_values: Counter[float] = Counter()
    for start in trailing:
        old_values.update(histograms[start])
    new, old = (
        Estimate(sum(value * n for value, n in values.items()) / sum(values.values()), _interval(field, values))
        for values in (histograms[newest], old_values)
    )
    n_new, n_old = sum(histograms[newest].values()), old_values.total()
    interval = independent_difference(new, old)
    if interval is None:
        why = "it has one trace" if field else f"the range of {name} is not known here"
        sentence = f"Whether {newest} differs from the {by}s before it is not tested: {why}."
        return Drift(newest, tuple(trailing), n_new, sentence=sentence)
    finding: Shift = "higher" if interval.low > 0 else "lower" if interval.high < 0 else None
    sentence = (
        f"{newest} {f'is {finding} than' if finding else 'is not shown to differ from'} the {len(trailing)} {by}s "
        f"before it: {new.value:.3f} on {n_new:,} traces against {old.value:.3f} on {n_old:,} "
        f"({new.value - old.value:+.3f}, {percent(LEVEL)} interval {interval.low:+.3f} to {interval.high:+.3f}). They "
        "were scored in the same way, but they are other traces: what is asked may have changed as well as the answers."
    )
    return Drift(
        newest, tuple(trailing), n_new, 0, old.value, new.value, new.value - old.value, interval.low, interval.high,
        finding, sentence,
    )  # fmt: skip


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
    return table if any(period.methods > 1 for period in periods) else table.without("method")
