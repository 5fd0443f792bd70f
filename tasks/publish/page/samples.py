"""The samples of the table: what was asked, what each release answered, and every score, in columns.

The page must stay light enough to open, so very many samples are cut to those whose primary score moves most, and
very long texts to a length at which all of them fit. Both are said on the page, and the warehouse has the rest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
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
    max_samples: int = MOST_SAMPLES,
) -> Samples:
    """Read the samples of all `reports`, at most `max_samples`; `labels` has the label of each report id.

    Questions and references are those of the last report that has the sample.
    """
    # Which samples, and what all releases have in common of them
    metric, _, field = primary.partition(".")
    report_ids = [report.report_id for report in reports]
    [(n_total,)] = warehouse.execute(_SQL["count"], {"reports": report_ids}).fetchall()
    parameters = {"reports": report_ids, "metric": metric, "field": field, "most": max_samples}
    [columns] = warehouse.execute(_SQL["samples"], parameters).fetchall()
    sample_ids, questions, *text_lists = (column or [] for column in columns)
    rows_about = partial(_rows_about, warehouse, sample_ids)
    references, facts, incorrect_references = (tuple(map(tuple, column)) for column in text_lists)

    # Texts are cut to the length at which all of them fit
    limits = {"caps": list(_CAPS), "most_chars": MOST_CHARS, "most_context_chars": MOST_CONTEXT_CHARS}
    [(cap, context_cap)] = rows_about("caps", report_ids, **limits)
    return Samples(
        n_total=n_total,
        ids=tuple(sample_ids),
        questions=tuple(questions),
        references=references,
        facts=facts,
        incorrect_references=incorrect_references,
        slices={name: tuple(parts) for name, parts in rows_about("slices", report_ids)},
        answers=tuple(
            _answers(rows_about, report, label=labels[report.report_id], cap=cap, context_cap=context_cap)
            for report in reports
        ),
    )


def _rows_about(
    warehouse: duckdb.DuckDBPyConnection, sample_ids: list[str], name: str, reports: Sequence[str], **parameters: object
) -> list[Any]:
    """Return the rows of a statement about the samples on the page, by their places, in `reports`."""
    values = {"ids": sample_ids, "reports": list(reports), **parameters}
    return warehouse.execute(f"{_SQL['places']}\n{_SQL[name]}", values).fetchall()


def _answers(
    rows_about: Callable[..., list[Any]], report: Report, *, label: str, cap: int, context_cap: int
) -> Answers:
    """Read what a release answered, its answers cut to `cap` characters and passages to `context_cap`."""
    report_ids = [report.report_id]
    [(texts, correct, full_lengths, absent, further)] = rows_about("answers", report_ids, cap=cap)
    reasons = rows_about("reasons", report_ids)

    # What judges wrote down: the rule, votes, the facts with what became of them, what is said against it
    evidence: dict[str, dict[int, dict[str, Any]]] = {}
    parameters = {"signatures": list(report.manifest["signatures"].values()), "keys": list(_EVIDENCE)}
    for metric, slot, text in rows_about("evidence", report_ids, **parameters):
        details = json.loads(text)
        evidence.setdefault(metric, {})[slot] = {key: details[key] for key in _EVIDENCE if details.get(key) is not None}

    # Further columns that rubrics are about, a conversation turn by turn
    columns = {}
    for slot, column_texts in rows_about("columns", report_ids):
        columns[slot] = {name: _parts(name, text, context_cap) for name, text in column_texts.items()}
    return Answers(
        release=label,
        texts=tuple(texts),
        correct=tuple(correct),
        values={name: tuple(numbers) for name, numbers in rows_about("values", report_ids, digits=_DIGITS)},
        unscored={metric: unscored for metric, _, unscored in reasons if unscored},
        reasons={metric: scored for metric, scored, _ in reasons if scored},
        evidence=evidence,
        absent=tuple(absent),
        cut=full_lengths,
        more={position: tuple(slots) for position, slots in further.items()},
        each=dict(rows_about("each", report_ids, digits=_DIGITS)) if further else {},
        contexts={slot: tuple(passages) for slot, passages in rows_about("contexts", report_ids, cap=context_cap)},
        columns=columns,
    )


def _parts(name: str, text: str, cap: int) -> tuple[str, ...]:
    """Return what is in a column, up to `cap` characters of it: a conversation turn by turn."""
    # The turn that does not fit is cut, and those behind it are left out
    parts: list[str] = []
    for part in lines(text) if name == COLUMN else [text]:
        left_chars = cap - sum(map(len, parts))
        if len(part) > left_chars:
            return (*parts, f"{part[:left_chars]} …")
        parts.append(part)
    return tuple(parts)
