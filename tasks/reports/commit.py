"""Bring what a run loaded and measured into the warehouse, each in one short transaction."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from answerkey.tasks.reports.judge_calls import collect_calls, insert_calls
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.warehouse import one_file

if TYPE_CHECKING:
    import duckdb

    from answerkey.tasks.load.load import Loaded
    from answerkey.tasks.validate.validate import Validation


@dataclass(frozen=True, slots=True)
class ReleaseVersion:
    """One release's answers as they are now in the warehouse."""

    release: str
    answers_version: str
    n_rows: int


@dataclass(frozen=True, slots=True)
class Committed:
    """The data set version of a run, and its releases."""

    dataset: str
    dataset_version: str
    releases: tuple[ReleaseVersion, ...]


def start_run(home: Home, run_id: str, flow: str, dataset: str, parameters: Mapping[str, Any]) -> None:
    """Write down that a run started; `finish_run` says how it ended."""
    with home.warehouse.writing() as warehouse:
        warehouse.execute("DELETE FROM runs WHERE run_id = ?", [run_id])
        warehouse.execute(
            "INSERT INTO runs (run_id, flow, dataset, started_at, status, parameters) "
            "VALUES (?, ?, ?, now(), 'running', ?)",
            [run_id, flow, dataset, json.dumps(parameters, ensure_ascii=False)],
        )


def finish_run(home: Home, run_id: str, status: str, message: str | None = None) -> None:
    """Close a run as `complete` or `stopped`."""
    with home.warehouse.writing() as warehouse:
        warehouse.execute(
            "UPDATE runs SET finished_at = now(), status = ?, message = ? WHERE run_id = ?",
            [status, message, run_id],
        )


@contextmanager
def recorded(
    home: Home, run_id: str, flow: str, dataset: str, parameters: Mapping[str, Any], *, dry_run: bool
) -> Iterator[None]:
    """Around the work of a run: the row in `runs` that says when it started, and how it ended."""
    start_run(home, run_id, flow, dataset, parameters)
    try:
        yield
    except BaseException as error:
        finish_run(home, run_id, "stopped", f"{type(error).__name__}: {error}")
        raise
    finish_run(home, run_id, "complete", "dry run" if dry_run else None)


def record_validation(home: Home, run_id: str, source: str, loaded: Loaded, validation: Validation) -> None:
    """Keep the checks and the quarantined rows, also of a run that stops here."""
    with home.warehouse.writing() as warehouse:
        for table in ("quarantine", "validations"):
            warehouse.execute(f"DELETE FROM {table} WHERE run_id = ?", [run_id])
        warehouse.execute(
            "INSERT INTO quarantine BY NAME SELECT ? AS run_id, ? AS dataset, ? AS source, * FROM read_parquet(?)",
            [run_id, loaded.dataset, source, one_file(validation.quarantine)],
        )
        for check in validation.checks:
            warehouse.execute(
                "INSERT INTO validations (run_id, dataset, rule, severity, release, success, n_checked, "
                "n_failed, message) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    run_id, loaded.dataset, check.rule, check.severity, check.release, check.success,
                    check.n_checked, check.n_failed, check.message,
                ],
            )  # fmt: skip


def commit(home: Home, run_id: str, source: str, loaded: Loaded, accepted: str, parts: Sequence[str]) -> Committed:
    """Commit the data set, the answers, the finished parts and the calls to judges behind them.

    Afterwards the parts are dropped. Everything is keyed by content, so committing twice changes nothing.

    Raises:
        LedgerError: the ledger cannot be read; nothing is committed then.
    """
    calls = collect_calls(home, parts, home.scratch / run_id)
    with home.warehouse.writing(taken_in=[*parts, *([calls] if calls else [])]) as warehouse:
        version = _commit_samples(warehouse, loaded, accepted, source)
        releases = _commit_answers(warehouse, loaded.dataset, accepted)
        commit_measurements(warehouse, run_id, parts)
        if calls:
            insert_calls(warehouse, calls)
    return Committed(loaded.dataset, version, releases)


def _commit_samples(warehouse: duckdb.DuckDBPyConnection, loaded: Loaded, accepted: str, source: str) -> str:
    # With a references file the data set is that file, answered or not. Otherwise it is what was answered.
    # A references file without questions has them from the answers.
    warehouse.execute(
        """
        CREATE OR REPLACE TEMP TABLE new_samples AS
        SELECT DISTINCT ON (sample_id) sample_id, coalesce(s.question, a.question) AS question, "references", facts,
               "cluster", sample_hash
        FROM read_parquet(?) s
        LEFT JOIN (SELECT sample_id, min(question) AS question FROM read_parquet(?) GROUP BY sample_id) a
            USING (sample_id)
        ORDER BY sample_id
        """,
        [one_file(loaded.references or accepted), one_file(accepted)],
    )
    [(version, count)] = warehouse.execute(
        "SELECT left(md5(coalesce(string_agg(sample_hash, '' ORDER BY sample_id), '')), 12), count(*) FROM new_samples"
    ).fetchall()
    key = [loaded.dataset, version]
    [(there,)] = warehouse.execute("SELECT count(*) FROM datasets WHERE dataset = ? AND version = ?", key).fetchall()
    if not there:
        warehouse.execute(
            "INSERT INTO datasets (dataset, version, created_at, n_samples, source) VALUES (?, ?, now(), ?, ?)",
            [*key, count, source],
        )
        warehouse.execute(
            "INSERT INTO samples BY NAME "
            "SELECT ? AS dataset, ? AS dataset_version, * EXCLUDE sample_hash FROM new_samples",
            key,
        )
    return str(version)


def _commit_answers(warehouse: duckdb.DuckDBPyConnection, dataset: str, accepted: str) -> tuple[ReleaseVersion, ...]:
    warehouse.execute(
        """
        CREATE OR REPLACE TEMP TABLE new_answers AS
        SELECT release, sample_id, sample_key, answer, label, correct, slices, missing_because,
               min("row") OVER (PARTITION BY release) AS first_row
        FROM read_parquet(?)
        """,
        [one_file(accepted)],
    )
    releases = warehouse.execute(
        """
        SELECT release, count(*), left(md5(string_agg(
            md5(to_json([sample_id, sample_key, label, slices::VARCHAR])::VARCHAR), '' ORDER BY sample_id)), 12)
        FROM new_answers GROUP BY release, first_row ORDER BY first_row
        """
    ).fetchall()
    found = tuple(ReleaseVersion(release, version, count) for release, count, version in releases)
    for release in found:
        key = [dataset, release.release, release.answers_version]
        warehouse.execute("DELETE FROM answers WHERE dataset = ? AND release = ? AND answers_version = ?", key)
        warehouse.execute(
            "INSERT INTO answers BY NAME SELECT $dataset AS dataset, $version AS answers_version, * EXCLUDE first_row "
            "FROM new_answers WHERE release = $release",
            {"dataset": dataset, "version": release.answers_version, "release": release.release},
        )
    return found


def commit_measurements(warehouse: duckdb.DuckDBPyConnection, run_id: str, parts: Sequence[str]) -> None:
    """Bring finished parts in, within the caller's transaction."""
    # A part that is gone was brought in by another run on the same rows.
    files = [one_file(part) for part in parts if Path(part).is_file()]
    if not files:
        return
    # What has no number does not replace what another run measured in the meantime.
    warehouse.execute(
        "DELETE FROM measurements USING (SELECT sample_key, signature, status FROM read_parquet(?)) AS new "
        "WHERE measurements.sample_key = new.sample_key AND measurements.signature = new.signature "
        "AND (new.status NOT IN ('failed', 'skipped') OR measurements.status IN ('failed', 'skipped'))",
        [files],
    )
    warehouse.execute(
        "INSERT INTO measurements BY NAME SELECT *, ? AS run_id, now() AS created_at "
        "FROM read_parquet(?) ANTI JOIN measurements USING (sample_key, signature)",
        [run_id, files],
    )
