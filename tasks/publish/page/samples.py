"""The samples of the table: what was asked, what each release answered, and every score, in columns.

The page must stay light enough to open, so very many samples are cut to those whose primary score moves most, and
very long texts to a length at which all of them fit. Both are said on the page, and the warehouse has the rest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.conversation import COLUMN, lines
from answerkey.tasks.publish.page.model import Answers, Samples
from answerkey.tasks.reports.report import Report
from answerkey.tasks.warehouse.sql import statements

if TYPE_CHECKING:
    import duckdb

MOST_SAMPLES = 50_000
MOST_CHARS = 40_000_000
"""Of all answers together: what a browser still opens within seconds."""
MOST_CONTEXT_CHARS = 10_000_000
"""Of all passages together."""

_CAPS = (500_000, 100_000, 20_000, 4_000, 1_000, 200)
_DIGITS = 4
_SQL = statements(__name__)
_EVIDENCE = ("rule", "votes", "facts", "abstained")


def read_samples(
    warehouse: duckdb.DuckDBPyConnection,
    labels: Mapping[str, str],
    reports: Sequence[Report],
    primary: str,
    most: int = MOST_SAMPLES,
) -> Samples:
    """The samples of all `reports`, at most `most`; `labels` has the label of each report id.

    Questions and references are those of the last report that has the sample.
    """
    metric, _, field = primary.partition(".")
    ids = [report.report_id for report in reports]
    [(n_total,)] = warehouse.execute(_SQL["count"], {"reports": ids}).fetchall()
    sample_rows = warehouse.execute(
        _SQL["samples"], {"reports": ids, "metric": metric, "field": field, "most": most}
    ).fetchall()
    chosen = _PageSamples(warehouse, [row[0] for row in sample_rows])
    cap, context_cap = _cap(chosen, ids, "length", MOST_CHARS), _cap(chosen, ids, "context_length", MOST_CONTEXT_CHARS)
    return Samples(
        n_total=n_total,
        ids=tuple(chosen.ids),
        questions=tuple(row[1] for row in sample_rows),
        references=tuple(tuple(text or "" for text in row[2]) for row in sample_rows),
        facts=tuple(tuple(text or "" for text in row[3]) for row in sample_rows),
        incorrect_references=tuple(tuple(text or "" for text in row[4]) for row in sample_rows),
        slices={name: tuple(map(parts.get, range(len(chosen.ids)))) for name, parts in chosen.rows("slices", ids)},
        answers=tuple(_answers(chosen, report, labels[report.report_id], cap, context_cap) for report in reports),
    )


@dataclass(frozen=True, slots=True)
class _PageSamples:
    """The samples that are on the page, by their place, and where to read about them."""

    warehouse: duckdb.DuckDBPyConnection
    ids: list[str]

    def rows(self, name: str, reports: Sequence[str], **parameters: object) -> list[Any]:
        """The rows of a statement about these samples in `reports`."""
        values = {"ids": self.ids, "reports": list(reports), **parameters}
        return self.warehouse.execute(f"{_SQL['places']}\n{_SQL[name]}", values).fetchall()


def _cap(chosen: _PageSamples, reports: Sequence[str], length: str, most: int) -> int:
    """The largest of `_CAPS` at which all texts fit, or the smallest; the statement `length` counts characters."""
    for cap in _CAPS:
        [(chars,)] = chosen.rows(length, reports, cap=cap)
        if chars <= most:
            return cap
    return _CAPS[-1]


def _answers(chosen: _PageSamples, report: Report, label: str, cap: int, context_cap: int) -> Answers:
    n = len(chosen.ids)
    rows = chosen.rows("answers", [report.report_id], cap=cap)
    texts: list[str | None] = [None] * max([n, *(row[1] + 1 for row in rows)])
    correct: list[bool | None] = [None] * len(texts)
    full_lengths: dict[int, int] = {}
    more_slots: dict[int, list[int]] = {}
    present = set()
    for position, slot, text, length, is_right in rows:
        texts[slot], correct[slot] = text, is_right
        present.add(position)
        if slot != position:
            more_slots.setdefault(position, []).append(slot)
        if length is not None and length > cap:
            full_lengths[slot] = length
    words = chosen.rows("reasons", [report.report_id])
    return Answers(
        release=label,
        texts=tuple(texts),
        correct=tuple(correct),
        values=_values(chosen, report),
        unscored={metric: unscored for metric, _, unscored in words if unscored},
        reasons={metric: reasons for metric, reasons, _ in words if reasons},
        evidence=_evidence(chosen, report),
        absent=tuple(sorted(set(range(n)) - present)),
        cut=full_lengths,
        more={position: tuple(slots) for position, slots in more_slots.items()},
        each=dict(chosen.rows("each", [report.report_id], digits=_DIGITS)) if more_slots else {},
        contexts={slot: tuple(texts) for slot, texts in chosen.rows("contexts", [report.report_id], cap=context_cap)},
        columns={
            slot: {name: _parts(name, text, context_cap) for name, text in columns.items()}
            for slot, columns in chosen.rows("columns", [report.report_id])
        },
    )


def _parts(name: str, text: str, cap: int) -> tuple[str, ...]:
    """What is in a column, up to `cap` characters of it: a conversation turn by turn."""
    parts: list[str] = []
    for part in lines(text) if name == COLUMN else [text]:
        left_chars = cap - sum(map(len, parts))
        if len(part) > left_chars:
            return (*parts, f"{part[:left_chars]} …")
        parts.append(part)
    return tuple(parts)


def _values(chosen: _PageSamples, report: Report) -> dict[str, tuple[float | None, ...]]:
    columns = {}
    for name, places, numbers in chosen.rows("values", [report.report_id], digits=_DIGITS):
        column: list[float | None] = [None] * len(chosen.ids)
        for place, number in zip(places, numbers, strict=True):
            column[place] = number
        columns[name] = tuple(column)
    return columns


def _evidence(chosen: _PageSamples, report: Report) -> dict[str, dict[int, dict[str, Any]]]:
    """What judges wrote down: the rule, votes, the facts with what became of them, what is said against it."""
    evidence: dict[str, dict[int, dict[str, Any]]] = {}
    signatures = list(report.manifest["signatures"].values())
    for metric, slot, details in chosen.rows(
        "evidence", [report.report_id], signatures=signatures, keys=list(_EVIDENCE)
    ):
        kept = {key: value for key, value in json.loads(details).items() if key in _EVIDENCE and value is not None}
        evidence.setdefault(metric, {})[slot] = kept
    return evidence
