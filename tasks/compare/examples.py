"""The samples behind a number: those that moved most between two reports, and the worst in one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from answerkey.tasks.reports.report import Report, read_reports
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements

Direction = Literal["both", "better", "worse"]


@dataclass(frozen=True, slots=True)
class LargestChange:
    """One sample in two reports. `difference` is new - old; reasons are the metric's own words, where it has any."""

    sample_id: str
    question: str | None
    references: tuple[str, ...]
    old_answer: str | None
    new_answer: str | None
    old: float
    new: float
    difference: float
    old_reason: str | None = None
    new_reason: str | None = None


@dataclass(frozen=True, slots=True)
class WorstScore:
    """One sample in a report. `value` is its number in `field` (METRIC.FIELD); the reason is the metric's own words."""

    sample_id: str
    field: str
    value: float
    question: str | None
    references: tuple[str, ...]
    answer: str | None
    reason: str | None


_SIGN = {"both": 0, "better": 1, "worse": -1}


def largest_changes(
    home: Home, old_report_id: str, new_report_id: str, name: str, *, direction: Direction = "both", limit: int = 20
) -> tuple[LargestChange, ...]:
    """Read the `limit` samples whose field `name` (METRIC.FIELD) moved most; those that did not move are left out.

    The question and the references are those of the new report. Samples that moved alike come in the order of their
    ids. Where less of the field is better, as of a latency, a sample got worse by having more.
    """
    metric, _, field = name.partition(".")
    [new] = read_reports(home, [new_report_id])
    sign = -_SIGN[direction] if new.lower_is_better(name) else _SIGN[direction]
    parameters = {"old": old_report_id, "new": new_report_id, "metric": metric, "field": field}
    rows = home.rows(statements(__name__)["largest"], {**parameters, "sign": sign, "limit": limit})
    return tuple(LargestChange(row[0], row[1], tuple(row[2] or ()), *row[3:]) for row in rows)


def worst_scores(home: Home, report: Report, name: str, limit: int) -> tuple[WorstScore, ...]:
    """Read the `limit` samples that are worst in field `name` (METRIC.FIELD); those without a number are left out.

    Worst is lowest, or highest where less of the field is better. Samples with the same number come in the order of
    their ids.
    """
    metric, _, field = name.partition(".")
    sign = -1 if report.lower_is_better(name) else 1
    parameters = {"report": report.report_id, "metric": metric, "field": field, "sign": sign, "limit": limit}
    rows = home.rows(statements(__name__)["worst"], parameters)
    return tuple(
        WorstScore(id_, name, value, question, references=tuple(references or ()), answer=answer, reason=reason)
        for id_, value, question, references, answer, reason in rows
    )
