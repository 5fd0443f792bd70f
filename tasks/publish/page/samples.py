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
    about = warehouse.execute(
        _SQL["samples"], {"reports": ids, "metric": metric, "field": field, "most": most}
    ).fetchall()
    shown = _Shown(warehouse, [row[0] for row in about])
    cap, context_cap = _cap(shown, ids, "length", MOST_CHARS), _cap(shown, ids, "context_length", MOST_CONTEXT_CHARS)
    return Samples(
        n_total=n_total,
        ids=tuple(shown.ids),
        questions=tuple(row[1] for row in about),
        references=tuple(tuple(text or "" for text in row[2]) for row in about),
        facts=tuple(tuple(text or "" for text in row[3]) for row in about),
        incorrect_references=tuple(tuple(text or "" for text in row[4]) for row in about),
        slices={name: tuple(map(parts.get, range(len(shown.ids)))) for name, parts in shown.rows("slices", ids)},
        answers=tuple(_answers(shown, report, labels[report.report_id], cap, context_cap) for report in reports),
    )


@dataclass(frozen=True, slots=True)
class _Shown:
    """The samples that are on the page, by their place, and where to read about them."""

    warehouse: duckdb.DuckDBPyConnection
    ids: list[str]

    def rows(self, name: str, reports: Sequence[str], **parameters: object) -> list[Any]:
        """The rows of a statement about these samples in `reports`."""
        known = {"ids": self.ids, "reports": list(reports), **parameters}
        return self.warehouse.execute(f"{_SQL['places']}\n{_SQL[name]}", known).fetchall()


def _cap(shown: _Shown, reports: Sequence[str], length: str, most: int) -> int:
    """The largest of `_CAPS` at which all texts fit, or the smallest; the statement `length` counts characters."""
    for cap in _CAPS:
        [(chars,)] = shown.rows(length, reports, cap=cap)
        if chars <= most:
            return cap
    return _CAPS[-1]


def _answers(shown: _Shown, report: Report, label: str, cap: int, context_cap: int) -> Answers:
    n = len(shown.ids)
    rows = shown.rows("answers", [report.report_id], cap=cap)
    texts: list[str | None] = [None] * max([n, *(row[1] + 1 for row in rows)])
    correct: list[bool | None] = [None] * len(texts)
    cut: dict[int, int] = {}
    more: dict[int, list[int]] = {}
    present = set()
    for place, slot, text, length, right in rows:
        texts[slot], correct[slot] = text, right
        present.add(place)
        if slot != place:
            more.setdefault(place, []).append(slot)
        if length is not None and length > cap:
            cut[slot] = length
    words = shown.rows("reasons", [report.report_id])
    return Answers(
        release=label,
        texts=tuple(texts),
        correct=tuple(correct),
        values=_values(shown, report),
        unscored={metric: unscored for metric, _, unscored in words if unscored},
        reasons={metric: reasons for metric, reasons, _ in words if reasons},
        evidence=_evidence(shown, report),
        absent=tuple(sorted(set(range(n)) - present)),
        cut=cut,
        more={place: tuple(slots) for place, slots in more.items()},
        each=dict(shown.rows("each", [report.report_id], digits=_DIGITS)) if more else {},
        contexts={slot: tuple(texts) for slot, texts in shown.rows("contexts", [report.report_id], cap=context_cap)},
        columns={
            slot: {name: _parts(name, text, context_cap) for name, text in columns.items()}
            for slot, columns in shown.rows("columns", [report.report_id])
        },
    )


def _parts(name: str, text: str, cap: int) -> tuple[str, ...]:
    """What is in a column, up to `cap` characters of it: a conversation turn by turn."""
    parts: list[str] = []
    for part in lines(text) if name == COLUMN else [text]:
        room = cap - sum(map(len, parts))
        if len(part) > room:
            return (*parts, f"{part[:room]} …")
        parts.append(part)
    return tuple(parts)


def _values(shown: _Shown, report: Report) -> dict[str, tuple[float | None, ...]]:
    columns = {}
    for name, places, numbers in shown.rows("values", [report.report_id], digits=_DIGITS):
        column: list[float | None] = [None] * len(shown.ids)
        for place, number in zip(places, numbers, strict=True):
            column[place] = number
        columns[name] = tuple(column)
    return columns


def _evidence(shown: _Shown, report: Report) -> dict[str, dict[int, dict[str, Any]]]:
    """What judges wrote down: the rule, votes, the facts with what became of them, what is said against it."""
    evidence: dict[str, dict[int, dict[str, Any]]] = {}
    signatures = list(report.manifest["signatures"].values())
    for metric, slot, details in shown.rows(
        "evidence", [report.report_id], signatures=signatures, keys=list(_EVIDENCE)
    ):
        kept = {key: value for key, value in json.loads(details).items() if key in _EVIDENCE and value is not None}
        evidence.setdefault(metric, {})[slot] = kept
    return evidence
