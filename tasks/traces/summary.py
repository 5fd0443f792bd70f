"""Summaries of a rule: how many traces ended where in a run, and the mean of a field over time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.formatting import literal
from answerkey.metrics_core.metric import Field
from answerkey.metrics_core.registry import METRICS, create
from answerkey.metrics_core.statistics.bounded_mean import Floats, bounded_mean
from answerkey.metrics_core.statistics.clustered import mean, mean_interval, proportion_interval
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
from answerkey.tasks.publish.artifacts import artifact_key, show_markdown, show_table
from answerkey.tasks.publish.table import Table
from answerkey.tasks.publish.text import count, ends, number
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements

if TYPE_CHECKING:
    import duckdb

_SQL = statements(__name__)
_DAYS = 30

By = Literal["day", "week", "month"]


BUCKETS: Mapping[str, str] = {
    "disabled": "the rule is switched off",
    "filtered": "do not meet the condition",
    "sampled_out": "not in the sample",
    "quarantined": "cannot be scored",
    "scored": "have a number",
    "undefined": "not scored: no reference",
    "failed": "tried again by the next run",
    "skipped": "left for the next run",
}
"""Where a trace can end, in the order of the way, and what it means there."""


@dataclass(frozen=True, slots=True)
class Selected:
    """How many traces one rule has seen in one run, and how many of them are not to be scored."""

    rule: str
    metric: str
    signature: str
    seen: int
    disabled: int
    filtered: int
    sampled_out: int
    quarantined: int


@dataclass(frozen=True, slots=True)
class Funnel(Selected):
    """The counts of one rule in one run; those of `BUCKETS` add up to `seen`.

    `again` of the seen ones were known from another run; `measured` measurements were made. `mean` is of the main field
    of the metric, with its 95 % interval, as they hold for all traces that should have a number; None: there is none.
    """

    scored: int
    undefined: int
    failed: int
    skipped: int
    again: int
    measured: int
    field: str
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    watermark: str | None = None

    def __post_init__(self) -> None:
        if sum(getattr(self, bucket) for bucket in BUCKETS) != self.seen:
            counts = ", ".join(f"{bucket} {getattr(self, bucket):,}" for bucket in BUCKETS)
            raise RuntimeError(f"{self.rule}: the funnel does not add up: seen {self.seen:,}, {counts}")


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


def main_field(metric: str) -> str:
    """The field of a metric that is shown where there is room for one."""
    return create([metric])[0].headline


def _main_of(metric: str, known: Sequence[str]) -> str:
    """METRIC.FIELD of the main field of a rule's metric, out of those that its traces have."""
    if metric in METRICS or not known:
        return f"{metric}.{main_field(metric)}"
    try:
        [made] = create([metric])
    except UserError:
        # Its code is not here, but its numbers are.
        return known[0]
    return f"{made.name}.{made.headline}"


def interval(field: Field | None, histogram: Mapping[float, int] | None) -> Interval | None:
    """The 95 % interval of the mean of values, of which `histogram` counts each; None where their range is unknown."""
    if field is None or not histogram:
        return None
    if field.binary and histogram.keys() <= {0.0, 1.0}:
        return clopper_pearson(histogram.get(1.0, 0), sum(histogram.values()))
    values, counts = list(histogram), list(histogram.values())
    return bounded_mean(values, counts=counts, low=field.low, high=field.high)


def estimate_of(
    field: Field | None, mean: float | None, histogram: Mapping[float, int] | None, coverage: float
) -> tuple[float | None, Interval | None]:
    """The mean of a field and its 95 % interval as they hold for all traces; a share `coverage` has a number."""
    low, high = (field.low, field.high) if field else (-math.inf, math.inf)
    return of_all_rows(mean, interval(field, histogram), coverage, low, high)


def field_of(metric: str, name: str) -> Field | None:
    """A field of a rule's metric, by its name.

    None for a field of a user's own metric: what is stored is its name, and not where its code is.
    """
    fields = METRICS[metric]().fields if metric in METRICS else ()
    return next((one for one in fields if one.name == name), None)


def over_time(home: Home, rule: str, field: str = "", by: By = "day") -> tuple[str, tuple[Period, ...]]:
    """METRIC.FIELD, and its mean over the traces of each period, oldest first; periods without any are left out.

    Args:
        field: FIELD or METRIC.FIELD; empty: the main one of the rule's metric. The metric can be one that it had
            before: traces keep their numbers.

    Raises:
        UserError: there is no such rule, or its traces have no such field.
    """
    with home.warehouse.reading() as warehouse:
        metric = _metric_of(warehouse, rule, home)
        known = [".".join(pair) for pair in warehouse.execute(_SQL["fields"], {"rule": rule}).fetchall()]
        main = _main_of(metric, known)
        wanted = field if field in known else f"{main.partition('.')[0]}.{field}" if field else main
        if field and wanted not in known:
            raise UserError(f"{field}: the traces of the rule {rule} have {', '.join(known) or 'no numbers'}")
        owner, _, name = wanted.partition(".")
        return wanted, _periods(warehouse, rule, owner, name, by)


def _metric_of(warehouse: duckdb.DuckDBPyConnection, rule: str, home: Home) -> str:
    rules = dict(warehouse.execute(_SQL["rules"]).fetchall())
    if rule not in rules:
        there = f"there are {', '.join(rules)}" if rules else "none has run yet: answerkey score-traces runs them"
        raise UserError(f"{rule}: no rule of this name has scored traces in {home}; {there}")
    return str(rules[rule])


def _periods(warehouse: duckdb.DuckDBPyConnection, rule: str, metric: str, name: str, by: By) -> tuple[Period, ...]:
    names = {"by": by, "name": name, "rule": rule, "metric": metric}
    rows = warehouse.execute(_SQL["numbered"] + "\n" + _SQL["periods"], names).fetchall()
    field, found = field_of(metric, name), []
    for start, total, wanted, method, n, centre, histogram in rows:
        shown, around = estimate_of(field, centre, histogram, n / max(1, wanted))
        found.append(Period(start, n, total, shown, around and around.low, around and around.high, method))
    return tuple(found)


def drift_over_time(home: Home, rule: str, name: str, by: By) -> Drift:
    """Test whether the newest period of METRIC.FIELD `name` differs from up to ten before it, taken together.

    Every period has its own traces, so this compares two samples and not each trace with itself. Periods that were
    scored in another way, in several, or not nearly all, are left out.
    """
    metric, _, field_name = name.partition(".")
    names = {
        "by": by,
        "name": field_name,
        "rule": rule,
        "metric": metric,
        "most": MOST_TRAILING + 1,
        "coverage": MIN_COVERAGE,
    }
    rows = home.rows(_SQL["numbered"] + "\n" + _SQL["comparable"], names)
    starts = [start for start, _ in rows]
    trailing = tuple(starts[:0:-1])
    if len(trailing) < LEAST_TRAILING:
        sentence = (
            f"Whether the newest {by} differs from those before it is not tested: that takes {LEAST_TRAILING} earlier "
            f"ones that were scored in full and in the same single way as it, and there are {len(trailing)}."
        )
        start = starts[0] if starts else ""
        return Drift(start, trailing, sentence=sentence)
    now, before = np.array(rows[0][1]), np.array([value for _, values in rows[1:] for value in values])
    field = field_of(metric, field_name)
    new, old = (_estimate(values, field) for values in (now, before))
    # Without the range of the field, what was not seen cannot be allowed for.
    interval = independent_difference(new, old) if field else None
    if interval is None:
        why = "it has one trace" if field else f"the range of {name} is not known here"
        sentence = f"Whether {starts[0]} differs from the {by}s before it is not tested: {why}."
        return Drift(starts[0], trailing, len(now), sentence=sentence)
    finding: Shift = "higher" if interval.low > 0 else "lower" if interval.high < 0 else None
    sentence = (
        f"{starts[0]} {f'is {finding} than' if finding else 'is not shown to differ from'} the {len(trailing)} {by}s "
        f"before it: {new.value:.3f} on {len(now):,} traces against {old.value:.3f} on {len(before):,} "
        f"({new.value - old.value:+.3f}, {percent(LEVEL)} interval {interval.low:+.3f} to {interval.high:+.3f}). They "
        "were scored in the same way, but they are other traces: what is asked may have changed as well as the answers."
    )
    means = old.value, new.value, new.value - old.value
    return Drift(starts[0], trailing, len(now), 0, *means, interval.low, interval.high, finding, sentence)


def _estimate(values: Floats, field: Field | None) -> Estimate:
    low, high = (field.low, field.high) if field else (float(values.min()), float(values.max()))
    if np.isin(values, (0, 1)).all() and (field is None or field.binary):
        return Estimate(mean(values), proportion_interval(values, None))
    return Estimate(mean(values), mean_interval(values, None, low=low, high=high))


def publish(home: Home, funnels: Sequence[Funnel]) -> None:
    """Make a table artifact of the run's funnels, and a markdown artifact of every rule with its days."""
    show_table(funnel_table(funnels), "score-traces", "How many traces came how far")
    for funnel in funnels:
        name, days = over_time(home, funnel.rule)
        show_markdown(markdown(funnel, name, days[-_DAYS:]), artifact_key("rule", funnel.rule), funnel.rule)


def funnel_table(funnels: Sequence[Funnel]) -> Table:
    """A column a rule: how many traces were seen, where each of them ended, and the mean of the metric's main field."""
    shown = {
        name: what
        for name, what in {"again": "of these, seen before", **BUCKETS}.items()
        if name == "scored" or any(getattr(funnel, name) for funnel in funnels)
    }
    rows = [
        ("seen", *(count(funnel.seen) for funnel in funnels), ""),
        *counts_by_rule(shown, funnels),
        ("field", *(f"{funnel.metric}.{funnel.field}" for funnel in funnels), ""),
        ("mean", *(number(funnel.mean) for funnel in funnels), ""),
        ("95 % interval", *(ends(funnel.low, funnel.high) for funnel in funnels), ""),
    ]
    groups = ["seen", *("bucket" for _ in shown), "mean", "mean", "mean"]
    return by_rule([funnel.rule for funnel in funnels], rows, groups)


def counts_by_rule(names: Mapping[str, str], rules: Sequence[Selected]) -> list[tuple[str, ...]]:
    """A row for each count, by its name, with what it is of."""
    return [
        (name.replace("_", " "), *(count(getattr(one, name)) for one in rules), what) for name, what in names.items()
    ]


def by_rule(rules: Sequence[str], rows: Sequence[Sequence[str]], groups: Sequence[str]) -> Table:
    """A table with a column for each rule, and one that says what each row is."""
    return Table("", ("traces", *rules, ""), rows, left=[""], wrapped={"": 16}, groups=groups)


def by_period(title: str, by: str, periods: Sequence[Period]) -> Table:
    """The mean of a field in each period, with its interval, and how many traces it is of."""
    rows = [
        (
            one.start, number(one.mean), ends(one.low, one.high), f"{one.n_scored:,}/{one.n_total:,}",
            str(one.methods),
        )
        for one in periods
    ]  # fmt: skip
    made = Table(title, (f"{by} (UTC)", "mean", "95 % interval", "scored", "method"), rows)
    return made if any(one.methods > 1 for one in periods) else made.without("method")


def markdown(funnel: Funnel, name: str, days: Sequence[Period]) -> str:
    """One page about a rule: how many traces of this run came how far, and its mean by day."""
    parts = [
        f"# {literal(funnel.rule)}",
        f"`{funnel.signature}`",
        funnel_table([funnel]).markdown(),
        f"{funnel.measured:,} measurements were made; the others were known, or equal each other.",
        f"## {literal(name)} by day",
        by_period("", "day", days).markdown(),
    ]
    return "\n\n".join(parts) + "\n"
