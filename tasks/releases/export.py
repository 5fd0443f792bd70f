"""Write what the warehouse holds back into files that can be loaded again, with the same content and hashes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.columns import Key
from answerkey.tasks.load.load import Reference, Source
from answerkey.tasks.warehouse.home import Home

if TYPE_CHECKING:
    import duckdb

# Apart from the columns of slices, which may be called anything.
_FIELDS = "_sample"
_REFERENCE_PATHS: dict[Key, str] = {
    "id": f"{_FIELDS}.id",
    "question": f"{_FIELDS}.question",
    "references": f"{_FIELDS}.references",
    "facts": f"{_FIELDS}.facts",
    "cluster": f"{_FIELDS}.cluster",
}
_ANSWER_PATHS: dict[Key, str] = {
    "id": f"{_FIELDS}.id",
    "question": f"{_FIELDS}.question",
    "answer": f"{_FIELDS}.answer",
    "label": f"{_FIELDS}.label",
    "missing_because": f"{_FIELDS}.missing_because",
}
_BATCH = 2_000


def stored_references(home: Home, dataset: str, file: Path) -> tuple[dict[Key, str], tuple[str, ...]] | None:
    """Write the newest version of a data set to `file`, with the slices that any release's answers have.

    Returns:
        Where its columns are, and the slices; None where there is no such data set.
    """
    with home.warehouse.reading() as warehouse:
        if (newest := _newest(warehouse, dataset)) is None:
            return None
        version, slices = newest
        _write_references(warehouse, dataset, version, file)
    return dict(_REFERENCE_PATHS), slices


def stored_questions(home: Home, dataset: str, file: Path) -> dict[Key, str] | None:
    """Write the questions of the newest version of a data set to `file`, with slices and without what is right.

    Returns:
        Where its columns are; None where there is no such data set.
    """
    with home.warehouse.reading() as warehouse:
        if (newest := _newest(warehouse, dataset)) is None:
            return None
        rows = (
            'SELECT sample_id, s.question, "cluster", slices FROM samples s LEFT JOIN known USING (sample_id) '
            "WHERE s.dataset = ? AND s.dataset_version = ? ORDER BY sample_id"
        )
        with file.open("w", encoding="utf-8") as out:
            for sample_id, question, cluster, slices in _fetch(warehouse, rows, [dataset, newest[0]]):
                fields = {"id": sample_id, "question": question, "cluster": cluster}
                out.write(json.dumps({**(slices or {}), _FIELDS: fields}, ensure_ascii=False) + "\n")
    return {key: path for key, path in _REFERENCE_PATHS.items() if key in ("id", "question", "cluster")}


def _newest(warehouse: duckdb.DuckDBPyConnection, dataset: str) -> tuple[str, tuple[str, ...]] | None:
    """The newest version of a data set, and its slices; makes the temporary table `known`, which has a sample's."""
    found = warehouse.execute(
        "SELECT version FROM datasets WHERE dataset = ? ORDER BY created_at DESC LIMIT 1", [dataset]
    ).fetchone()
    if found is None:
        return None
    warehouse.execute(
        "CREATE TEMP TABLE known AS SELECT sample_id, any_value(slices) AS slices FROM answers WHERE dataset = ? "
        "GROUP BY sample_id",
        [dataset],
    )
    names = warehouse.execute("SELECT DISTINCT unnest(map_keys(slices)) AS name FROM known ORDER BY name").fetchall()
    return str(found[0]), tuple(name for (name,) in names)


def stored_source(home: Home, report_id: str, folder: Path) -> Source:
    """Write the answers of a report, and the data set version that they were measured against, into `folder`.

    Loaded again they make the same data set version, answers version and sample keys.

    Raises:
        UserError: there is no such report.
    """
    folder.mkdir(parents=True, exist_ok=True)
    answers, references = folder / "stored-answers.jsonl", folder / "stored-references.jsonl"
    with home.warehouse.reading() as warehouse:
        found = warehouse.execute(
            "SELECT dataset, dataset_version, release, answers_version FROM reports WHERE report_id = ?",
            [report_id],
        ).fetchone()
        if found is None:
            raise UserError(f"{report_id}: no such report in {home}; `answerkey report --list` shows what there is")
        dataset, version, release, answers_version = found
        warehouse.execute(
            "CREATE TEMP TABLE known AS SELECT a.*, s.question "
            "FROM answers a "
            "LEFT JOIN samples s ON s.dataset = a.dataset AND s.dataset_version = ? AND s.sample_id = a.sample_id "
            "WHERE a.dataset = ? AND a.release = ? AND a.answers_version = ?",
            [version, dataset, release, answers_version],
        )
        names = ("id", "question", "answer", "label", "missing_because")
        rows = "SELECT sample_id, question, answer, label, missing_because, slices FROM known ORDER BY sample_id"
        slices: set[str] = set()
        with answers.open("w", encoding="utf-8") as out:
            for *texts, values in _fetch(warehouse, rows, []):
                slices |= set(values or {})
                fields = dict(zip(names, texts, strict=True))
                out.write(json.dumps({**(values or {}), _FIELDS: fields}, ensure_ascii=False) + "\n")
        _write_references(warehouse, dataset, version, references)
    return Source(
        str(answers), str(references), dataset, release, _ANSWER_PATHS, _REFERENCE_PATHS, tuple(sorted(slices))
    )


def _write_references(warehouse: duckdb.DuckDBPyConnection, dataset: str, version: str, file: Path) -> None:
    """Needs the temporary table `known`, which has a sample's slices."""
    with_questions = _has_questions(warehouse, dataset, version)
    rows = """
        SELECT sample_id, s.question, "references", facts, "cluster", slices
        FROM samples s LEFT JOIN known USING (sample_id)
        WHERE s.dataset = ? AND s.dataset_version = ? ORDER BY sample_id
        """
    with file.open("w", encoding="utf-8") as out:
        for sample_id, question, references, facts, cluster, slices in _fetch(warehouse, rows, [dataset, version]):
            fields = {"id": sample_id, "references": references, "facts": facts, "cluster": cluster}
            fields["question"] = question if with_questions else None
            out.write(json.dumps({**(slices or {}), _FIELDS: fields}, ensure_ascii=False) + "\n")


def _has_questions(warehouse: duckdb.DuckDBPyConnection, dataset: str, version: str) -> bool:
    """Whether the questions came with the references: those that stood beside the answers are in no version."""
    digest = hashlib.md5(usedforsecurity=False)
    rows = (
        'SELECT sample_id, "references", facts, "cluster", question FROM samples '
        "WHERE dataset = ? AND dataset_version = ? ORDER BY sample_id"
    )
    for sample_id, references, facts, cluster, _ in _fetch(warehouse, rows, [dataset, version]):
        without = Reference(sample_id, None, tuple(references or ()), tuple(facts or ()), cluster)
        digest.update(without.hash.encode())
    return digest.hexdigest()[:12] != version


def _fetch(warehouse: duckdb.DuckDBPyConnection, sql: str, values: list[str]) -> Iterator[tuple[Any, ...]]:
    found = warehouse.execute(sql, values)
    while batch := found.fetchmany(_BATCH):
        yield from batch
