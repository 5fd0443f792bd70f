"""The samples of two reports side by side, as columns. Every read is a session of its own, so nobody waits long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from answerkey.metrics_core.comparison import ALL
from answerkey.tasks.reports.report import Report
from answerkey.tasks.warehouse.home import Home

if TYPE_CHECKING:
    import duckdb

Mask = npt.NDArray[np.bool_]
"""Which of the samples: shape (samples,)."""

STATUSES = ("absent", "scored", "failed", "undefined", "skipped")
"""What a sample can be in a report, by its code in `Columns`."""
SCORED = STATUSES.index("scored")


@dataclass(frozen=True, slots=True)
class Columns:
    """One field of a metric in both reports, by sample: shape (samples,). NaN where there is no number."""

    old: npt.NDArray[np.float64]
    new: npt.NDArray[np.float64]
    old_status: npt.NDArray[np.int8]
    new_status: npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Slices:
    """One slice column: the values that both reports have, and their codes by sample; -1 for anything else."""

    column: str
    values: tuple[str, ...]
    old: npt.NDArray[np.int32]
    new: npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Pairing:
    """The samples of either report, in the order of their ids; all columns have the shape (samples,).

    Attributes:
        in_old, in_new: whether the report has the sample.
        changed: both have it, with another question or other references: it is not the same sample any more.
        facts_changed: both have it, with other facts.
        same_answer: both have it, with the same answer; same_label: with the same label of people, or with none.
        old_length, new_length: of the answers, in characters; NaN where there is none.
        clusters: codes of what is not independent, None where the data have no clusters.
    """

    home: Home
    old: Report
    new: Report
    in_old: Mask
    in_new: Mask
    changed: Mask
    facts_changed: Mask
    same_answer: Mask
    same_label: Mask
    old_length: npt.NDArray[np.float64]
    new_length: npt.NDArray[np.float64]
    clusters: npt.NDArray[np.int64] | None
    slices: tuple[Slices, ...]

    def columns(self, metric: str, field: str) -> Columns:
        """Scores and statuses of one field."""
        reports = {"old": self.old.report_id, "new": self.new.report_id}
        with self.home.warehouse.reading() as warehouse:
            found: dict[str, Any] = warehouse.execute(
                _SCORES, {**reports, "metric": metric, "field": field, "statuses": list(STATUSES[1:])}
            ).fetchnumpy()
        return Columns(
            floats(found["old"]),
            floats(found["new"]),
            found["old_status"].astype(np.int8),
            found["new_status"].astype(np.int8),
        )

    def members(self) -> Iterator[tuple[str, Mask, Mask]]:
        """Name of a slice, its samples in the old report and in the new one: first 'all', then what both have."""
        everyone = np.ones(len(self.in_old), bool)
        yield ALL, everyone, everyone
        for one in self.slices:
            for code, value in enumerate(one.values):
                yield f"{one.column}={value}", one.old == code, one.new == code


_ANSWERS = """
SELECT sample_id, answer, correct, slices FROM answers
WHERE dataset = ${0}_dataset AND release = ${0}_release AND answers_version = ${0}_answers
"""

_BOTH = f"""
WITH o AS ({_ANSWERS.format("old")}), n AS ({_ANSWERS.format("new")}),
so AS (SELECT * FROM samples WHERE dataset = $old_dataset AND dataset_version = $old_version),
sn AS (SELECT * FROM samples WHERE dataset = $new_dataset AND dataset_version = $new_version),
both_sides AS (
    SELECT sample_id, o.sample_id IS NOT NULL AS in_old, n.sample_id IS NOT NULL AS in_new,
           length(o.answer) AS old_length, length(n.answer) AS new_length,
           o.answer IS NOT DISTINCT FROM n.answer AS same_answer,
           o.correct IS NOT DISTINCT FROM n.correct AS same_label, o.slices AS old_slices, n.slices AS new_slices
    FROM o FULL JOIN n USING (sample_id)
)
"""

# A question that one version does not have, for want of the column, is no other question.
_SAMPLES = f"""{_BOTH}
SELECT in_old, in_new, old_length, new_length, in_old AND in_new AND same_answer AS same_answer,
       in_old AND in_new AND same_label AS same_label,
       in_old AND in_new AND (coalesce(so.question <> sn.question, false)
           OR list_sort(so."references") IS DISTINCT FROM list_sort(sn."references")) AS changed,
       in_old AND in_new AND list_sort(so.facts) IS DISTINCT FROM list_sort(sn.facts) AS facts_changed,
       coalesce(sn."cluster", so."cluster") IS NOT NULL AS clustered,
       dense_rank() OVER (ORDER BY coalesce('cluster ' || coalesce(sn."cluster", so."cluster"), 'sample ' || sample_id))
           AS "cluster"
FROM both_sides LEFT JOIN so USING (sample_id) LEFT JOIN sn USING (sample_id) ORDER BY sample_id
"""

_SLICE_VALUES = f"""{_BOTH}
SELECT e.key, e.value FROM (SELECT unnest(map_entries(old_slices)) AS e FROM both_sides)
INTERSECT
SELECT e.key, e.value FROM (SELECT unnest(map_entries(new_slices)) AS e FROM both_sides)
ORDER BY key, value
"""

_SLICE_CODES = f"""{_BOTH}, codes AS (SELECT unnest($values) AS value, generate_subscripts($values, 1) - 1 AS code)
SELECT coalesce(co.code, -1) AS old, coalesce(cn.code, -1) AS new FROM both_sides
LEFT JOIN codes co ON co.value = old_slices[$column] LEFT JOIN codes cn ON cn.value = new_slices[$column]
ORDER BY sample_id
"""

# Every sample of a report has a row for every field of it.
_SCORES = """
SELECT o."value" AS old, n."value" AS new,
       coalesce(list_position($statuses, o.status), 0) AS old_status,
       coalesce(list_position($statuses, n.status), 0) AS new_status
FROM (SELECT * FROM scores WHERE report_id = $old AND metric = $metric AND field = $field) o
FULL JOIN (SELECT * FROM scores WHERE report_id = $new AND metric = $metric AND field = $field) n USING (sample_id)
ORDER BY sample_id
"""


_MASKS = ("in_old", "in_new", "changed", "facts_changed", "same_answer", "same_label")


def pairing(home: Home, old: Report, new: Report) -> Pairing:
    """Put the samples of two reports side by side."""
    parameters = _parameters(old, new)
    with home.warehouse.reading() as warehouse:
        found: dict[str, Any] = warehouse.execute(_SAMPLES, parameters).fetchnumpy()
        slices = tuple(_slices(warehouse, parameters))
    masks: dict[str, Any] = {name: found[name].astype(bool) for name in _MASKS}
    return Pairing(
        home,
        old,
        new,
        **masks,
        old_length=floats(found["old_length"]),
        new_length=floats(found["new_length"]),
        clusters=found["cluster"].astype(np.int64) if found["clustered"].any() else None,
        slices=slices,
    )


def _parameters(old: Report, new: Report) -> dict[str, Any]:
    return {
        f"{side}_{name}": value
        for side, report in (("old", old), ("new", new))
        for name, value in (
            ("dataset", report.dataset),
            ("release", report.release),
            ("version", report.dataset_version),
            ("answers", report.answers_version),
        )
    }


def _slices(warehouse: duckdb.DuckDBPyConnection, parameters: dict[str, Any]) -> Iterator[Slices]:
    by_column: dict[str, list[str]] = {}
    for column, value in warehouse.execute(_SLICE_VALUES, parameters).fetchall():
        by_column.setdefault(column, []).append(value)
    for column, values in by_column.items():
        codes: dict[str, Any] = warehouse.execute(
            _SLICE_CODES, {**parameters, "column": column, "values": values}
        ).fetchnumpy()
        yield Slices(column, tuple(values), codes["old"].astype(np.int32), codes["new"].astype(np.int32))


def floats(column: Any) -> npt.NDArray[np.float64]:
    """A column of DuckDB's as floats, NaN for NULL."""
    return np.ma.filled(np.ma.asarray(column, dtype=np.float64), np.nan)
