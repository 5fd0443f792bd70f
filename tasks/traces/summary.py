"""The mean of a field over scored traces: all of a run, or by day, week or month, with its interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.metric import Field
from answerkey.metrics_core.registry import create
from answerkey.metrics_core.statistics.intervals import Interval, student_t, wilson
from answerkey.tasks.warehouse.home import Home

if TYPE_CHECKING:
    import duckdb

By = Literal["day", "week", "month"]


@dataclass(frozen=True, slots=True)
class Period:
    """A field of a rule's metric over the traces of one day, week or month, which begins with `start` (UTC).

    `n_total` traces were to be scored, `n_scored` were. `methods` counts the signatures met so far, from 1: numbers of
    two are not comparable, and a period that has several has their mixture.
    """

    start: str
    n_scored: int
    n_total: int
    mean: float | None
    low: float | None
    high: float | None
    methods: int


_HEADLINES = {"answer_correctness": "token_overlap_recall", "rouge_l": "recall", "token_overlap": "recall"}
"""Length sways the other fields of these metrics most. Of all other metrics it is the first field."""


def main_field(metric: str) -> str:
    """The one of the metric's numbers that is shown where there is room for one."""
    return _HEADLINES.get(metric) or _fields(metric)[0].name


def _fields(metric: str) -> tuple[Field, ...]:
    [made] = create([metric])
    return made.fields


def interval(field: Field | None, mean: float | None, sd: float | None, n: int, others: int) -> Interval | None:
    """The 95 % interval of a mean of `n` values, of which `others` are neither 0 nor 1; `sd` is their deviation."""
    if mean is None or n < 2:
        return None
    if field is not None and field.binary and not others:
        return wilson(round(mean * n), n)
    found = student_t(mean, sd or 0.0, n)
    return found.clipped(field.low, field.high) if found and field is not None else found


_SUMS = """
count("value"), fsum("value") / nullif(count("value"), 0), stddev_samp("value"),
count(*) FILTER ("value" NOT IN (0, 1))
"""


def mean_of_run(
    warehouse: duckdb.DuckDBPyConnection, rule: str, metric: str, outcomes: str
) -> tuple[float | None, Interval | None]:
    """The mean of the metric's main field over the scored traces in the table `outcomes`, and its interval."""
    name = main_field(metric)
    [(n, mean, sd, others)] = warehouse.execute(
        f'SELECT {_SUMS} FROM (SELECT map_extract("values", ?)[1] AS "value" FROM {outcomes} WHERE rule = ? '
        "AND outcome = 'scored')",
        [name, rule],
    ).fetchall()
    return mean, interval(_field(metric, name), mean, sd, n, others)


def _field(metric: str, name: str) -> Field | None:
    return next((one for one in _fields(metric) if one.name == name), None)


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
        fields = 'SELECT DISTINCT metric, unnest(map_keys("values")) FROM trace_outcomes WHERE rule = ? ORDER BY ALL'
        known = [".".join(pair) for pair in warehouse.execute(fields, [rule]).fetchall()]
        wanted = field if field in known else f"{metric}.{field or main_field(metric)}"
        if field and wanted not in known:
            raise UserError(f"{field}: the traces of the rule {rule} have {', '.join(known) or 'no numbers'}")
        owner, _, name = wanted.partition(".")
        return wanted, _periods(warehouse, rule, owner, name, by)


def _metric_of(warehouse: duckdb.DuckDBPyConnection, rule: str, home: Home) -> str:
    rules = dict(warehouse.execute("SELECT rule, metric FROM trace_rules ORDER BY rule").fetchall())
    if rule not in rules:
        there = f"there are {', '.join(rules)}" if rules else "none has run yet: answerkey score-traces runs them"
        raise UserError(f"{rule}: no rule of this name has scored traces in {home}; {there}")
    return str(rules[rule])


def _periods(warehouse: duckdb.DuckDBPyConnection, rule: str, metric: str, name: str, by: By) -> tuple[Period, ...]:
    rows = warehouse.execute(
        f"""
        WITH taken AS (
            SELECT date_trunc($by, "time") AS start, signature, min("time") OVER (PARTITION BY signature) AS since,
                   CASE WHEN outcome = 'scored' THEN map_extract("values", $name)[1] END AS "value"
            FROM trace_outcomes
            WHERE rule = $rule AND metric = $metric AND outcome IN ('scored', 'undefined', 'failed', 'skipped')
                AND "time" IS NOT NULL
        ), numbered AS (
            SELECT *, dense_rank() OVER (ORDER BY since, signature) AS method FROM taken
        )
        SELECT strftime(start, '%Y-%m-%d'), count(*), max(method), {_SUMS}
        FROM numbered GROUP BY start ORDER BY start
        """,
        {"by": by, "name": name, "rule": rule, "metric": metric},
    ).fetchall()
    field, found = _field(metric, name), []
    for start, total, method, n, mean, sd, others in rows:
        ends = interval(field, mean, sd, n, others)
        found.append(Period(start, n, total, mean, ends and ends.low, ends and ends.high, method))
    return tuple(found)
