"""The samples of the table: what was asked, what each release answered, and every score, in columns.

The page must stay light enough to open, so very many samples are cut to those whose primary score moves most, and
very long texts to a length at which all of them fit. Both are said on the page, and the warehouse has the rest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from answerkey.tasks.publish.page.model import Answers, Samples
from answerkey.tasks.reports.report import Report

if TYPE_CHECKING:
    import duckdb

MOST_SAMPLES = 20_000
MOST_CHARS = 40_000_000
"""Of all answers together: what a browser still opens within seconds."""

_CAPS = (500_000, 100_000, 20_000, 4_000, 1_000, 200)
_DIGITS = 4
_EVIDENCE = ("rule", "votes", "facts", "abstained")
_HAS_EVIDENCE = " OR ".join(f"json_exists(m.details, '$.{key}')" for key in _EVIDENCE)


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
    n_total = _choose(warehouse, reports, primary, most)
    about = warehouse.execute(
        'SELECT sample_id, question, coalesce("references", []), coalesce(facts, []) FROM page_samples ORDER BY place'
    ).fetchall()
    cap = _cap(warehouse)
    return Samples(
        n_total=n_total,
        ids=tuple(row[0] for row in about),
        questions=tuple(row[1] for row in about),
        references=tuple(tuple(text or "" for text in row[2]) for row in about),
        facts=tuple(tuple(text or "" for text in row[3]) for row in about),
        slices=_slices(warehouse, len(about)),
        answers=tuple(_answers(warehouse, report, labels[report.report_id], len(about), cap) for report in reports),
    )


def _choose(warehouse: duckdb.DuckDBPyConnection, reports: Sequence[Report], primary: str, most: int) -> int:
    """Make `page_samples` and `page_answers` of the chosen samples; return how many samples there are in all."""
    warehouse.execute(
        "CREATE OR REPLACE TEMP TABLE page_reports "
        "(turn INTEGER, report_id VARCHAR, dataset VARCHAR, dataset_version VARCHAR, release VARCHAR, "
        "answers_version VARCHAR)"
    )
    for turn, report in enumerate(reports):
        key = [turn, report.report_id, report.dataset, report.dataset_version, report.release]
        warehouse.execute("INSERT INTO page_reports VALUES (?, ?, ?, ?, ?, ?)", [*key, report.answers_version])
    warehouse.execute(
        "CREATE OR REPLACE TEMP VIEW page_all AS SELECT p.turn, p.report_id, p.dataset_version, a.* "
        "FROM page_reports p JOIN answers a USING (dataset, release, answers_version)"
    )
    metric, _, field = primary.partition(".")
    warehouse.execute(
        """
        CREATE OR REPLACE TEMP TABLE page_samples AS
        WITH newest AS (
            SELECT sample_id, arg_max(dataset_version, turn) AS dataset_version, any_value(dataset) AS dataset
            FROM page_all GROUP BY sample_id
        ), moves AS (
            SELECT sample_id, max("value") - min("value") AS move
            FROM scores JOIN page_reports USING (report_id) WHERE metric = $metric AND field = $field
            GROUP BY sample_id
        ), chosen AS (
            SELECT sample_id, dataset, dataset_version FROM newest LEFT JOIN moves USING (sample_id)
            ORDER BY move DESC NULLS LAST, sample_id LIMIT $most
        )
        SELECT (row_number() OVER (ORDER BY sample_id) - 1)::INTEGER AS place, sample_id, s.question, s."references",
               s.facts
        FROM chosen LEFT JOIN samples s USING (dataset, dataset_version, sample_id)
        """,
        {"metric": metric, "field": field, "most": most},
    )
    warehouse.execute(
        "CREATE OR REPLACE TEMP TABLE page_answers AS FROM page_all SEMI JOIN page_samples USING (sample_id)"
    )
    [(n,)] = warehouse.execute("SELECT count(DISTINCT sample_id) FROM page_all").fetchall()
    return int(n)


def _cap(warehouse: duckdb.DuckDBPyConnection) -> int:
    """The largest of `_CAPS` at which all answers fit, or the smallest."""
    for cap in _CAPS:
        [(chars,)] = warehouse.execute(
            "SELECT coalesce(sum(least(length(answer), ?)), 0) FROM page_answers", [cap]
        ).fetchall()
        if chars <= MOST_CHARS:
            return cap
    return _CAPS[-1]


def _slices(warehouse: duckdb.DuckDBPyConnection, n: int) -> dict[str, tuple[str | None, ...]]:
    rows = warehouse.execute(
        """
        SELECT name, place, arg_max(part, turn) FROM (
            SELECT p.place, a.turn, unnest(map_keys(a.slices)) AS name, unnest(map_values(a.slices)) AS part
            FROM page_answers a JOIN page_samples p USING (sample_id)
        ) GROUP BY name, place
        """
    ).fetchall()
    columns: dict[str, list[str | None]] = {}
    for name, place, part in rows:
        columns.setdefault(name, [None] * n)[place] = part
    return {name: tuple(columns[name]) for name in sorted(columns)}


def _answers(warehouse: duckdb.DuckDBPyConnection, report: Report, label: str, n: int, cap: int) -> Answers:
    texts: list[str | None] = [None] * n
    correct: list[bool | None] = [None] * n
    cut: dict[int, int] = {}
    present = set()
    for place, text, length, right in warehouse.execute(
        "SELECT place, left(answer, ?), length(answer), correct FROM page_answers JOIN page_samples USING (sample_id) "
        "WHERE report_id = ?",
        [cap, report.report_id],
    ).fetchall():
        texts[place], correct[place] = text, right
        present.add(place)
        if length is not None and length > cap:
            cut[place] = length
    reasons, unscored = _words(warehouse, report)
    return Answers(
        release=label,
        texts=tuple(texts),
        correct=tuple(correct),
        values=_values(warehouse, report, n),
        unscored=unscored,
        reasons=reasons,
        evidence=_evidence(warehouse, report),
        absent=tuple(sorted(set(range(n)) - present)),
        cut=cut,
    )


def _values(warehouse: duckdb.DuckDBPyConnection, report: Report, n: int) -> dict[str, tuple[float | None, ...]]:
    rows = warehouse.execute(
        """
        SELECT metric || '.' || field, list(place ORDER BY place), list(round("value", ?) ORDER BY place)
        FROM scores JOIN page_samples USING (sample_id) WHERE report_id = ? GROUP BY ALL
        """,
        [_DIGITS, report.report_id],
    ).fetchall()
    columns = {}
    for name, places, numbers in rows:
        column: list[float | None] = [None] * n
        for place, number in zip(places, numbers, strict=True):
            column[place] = number
        columns[name] = tuple(column)
    return columns


_Reasons = dict[str, dict[int, str]]
_Unscored = dict[str, dict[int, tuple[str, str]]]


def _words(warehouse: duckdb.DuckDBPyConnection, report: Report) -> tuple[_Reasons, _Unscored]:
    reasons: _Reasons = {}
    unscored: _Unscored = {}
    for metric, place, status, reason in warehouse.execute(
        "SELECT DISTINCT metric, place, status, reason FROM scores JOIN page_samples USING (sample_id) "
        "WHERE report_id = ? AND (reason IS NOT NULL OR status <> 'scored')",
        [report.report_id],
    ).fetchall():
        if status == "scored":
            reasons.setdefault(metric, {})[place] = reason
        else:
            unscored.setdefault(metric, {})[place] = (status, reason or "")
    return reasons, unscored


def _evidence(warehouse: duckdb.DuckDBPyConnection, report: Report) -> dict[str, dict[int, dict[str, Any]]]:
    """What judges wrote down: the rule, the votes, the facts with what became of them."""
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for metric, place, details in warehouse.execute(
        "SELECT m.metric, p.place, m.details FROM page_answers a JOIN page_samples p USING (sample_id) "
        "JOIN measurements m USING (sample_key) WHERE a.report_id = ? AND m.signature = ANY(?) "
        f"AND m.status = 'scored' AND ({_HAS_EVIDENCE})",
        [report.report_id, list(report.manifest["signatures"].values())],
    ).fetchall():
        kept = {key: value for key, value in json.loads(details).items() if key in _EVIDENCE and value is not None}
        found.setdefault(metric, {})[place] = kept
    return found
