"""`answerkey warehouse`: `export`, `backup`, `forget` and `maintain`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from answerkey.flows.cli.main import print_json
from answerkey.flows.cli.options import HOME, AsJson, HomeOption
from answerkey.flows.environment import printable
from answerkey.metrics_core.errors import UserError
from answerkey.tasks.warehouse.home import Home

if TYPE_CHECKING:
    from answerkey.tasks.forget import Removed


def export(
    folder: Path,
    /,
    *names: str,
    format: Literal["parquet", "csv"] = "parquet",
    as_json: AsJson = False,
    home: HomeOption = HOME,
) -> int:
    """Write tables and views into files for other programs.

    A Parquet or CSV file for each, all from one state. In CSV, lists and maps are JSON, and texts that a spreadsheet
    would take for formulas get an apostrophe before them.

    Args:
        folder: A folder that does not exist yet, outside the home.
        names: Tables and views; all tables, if none is named.
        format: Format of the files.

    Examples:
        answerkey warehouse export tables
        answerkey warehouse export sheets report_metrics sample_scores --format csv
    """
    from answerkey.tasks.export import export as exporting

    rows = exporting(home, folder, names, format=format)
    if as_json:
        print_json(rows)
        return 0
    print(f"{folder}: {len(rows):,} {format} files, {sum(rows.values()):,} rows")
    return 0


def backup(folder: Path, /, *, as_json: AsJson = False, home: HomeOption = HOME) -> int:
    """Copy the home into a folder; runs can continue meanwhile.

    Tables, ledger, pages, registered and generated answers, and parts. The copy is a home: use it with --home, or, to
    restore it, put it in the place of the other one while no run is at work.

    Args:
        folder: A folder that does not exist yet, outside the home.

    Examples:
        answerkey warehouse backup /backups/2026-11-22
    """
    from answerkey.tasks.backup import backup as backing_up

    copied = backing_up(home, folder)
    if as_json:
        print_json(copied)
        return 0
    print(
        f"{folder} has {home} as it was: {copied.reports:,} reports, {copied.calls:,} paid calls, {copied.files:,} "
        f"other files, {copied.size / 1e6:.1f} MB; it can be used with --home, or put in its place"
    )
    return 0


def forget(
    dataset: str,
    /,
    *,
    sample: str = "",
    release: str = "",
    reason: str = "",
    as_json: AsJson = False,
    home: HomeOption = HOME,
) -> int:
    """Remove a sample, an answer or a release for good.

    Out of tables, ledger, snapshot, registered and generated answers, unfinished work and pages of the data set; the
    files are rewritten, so that nothing of the texts is left in them. A record says that something was removed, but
    not what. Reports about other answers are computed again from those, and say so.

    Args:
        dataset: The data set.
        sample: A sample to delete, with all answers to it: its id.
        release: A release to delete; with --sample, only its answer to that sample.
        reason: The reason, which is kept in the record of the removal.

    Examples:
        answerkey warehouse forget faq --sample q17 --reason 'request of 3 May'
        answerkey warehouse forget faq --sample q17 --release gpt-4
        answerkey warehouse forget faq --release gpt-3
    """
    from answerkey.tasks.forget import forget as forgetting

    if not home.warehouse.exists():
        raise UserError(f"{home}: no warehouse here yet, so there is nothing to forget")
    removed = forgetting(home, dataset, sample=sample, release=release, reason=reason)
    if as_json:
        print_json(removed)
    else:
        _say_removed(removed, home)
    return 0


def _say_removed(removed: Removed, home: Home) -> None:
    if removed.finished:
        print(
            f"{home}: removal {removed.removal}, which was stopped before it had rewritten the files, is done now; "
            "nothing else was there to remove"
        )
        return

    # What is gone, and where traces of it are left
    rows = ", ".join(f"{n:,} of {table}" for table, n in removed.rows.items()) or "none"
    calls_and_files = f"{removed.calls:,} calls of the ledger, {removed.files:,} files"
    print(f"{home}: removal {removed.removal}: rows: {rows}; {calls_and_files}")
    if removed.reports:
        reports = printable(", ".join(removed.reports))
        print(f"reports whose scores still include it: {reports}; answerkey rerun makes a report without it")
    if home.shared:
        print(
            "earlier snapshots of the lake keep the rows for 30 days; after that, `answerkey warehouse maintain` "
            "removes them"
        )


def maintain(*, older_than: int | None = None, as_json: AsJson = False, home: HomeOption = HOME) -> int:
    """Keep the tables small and fast to read.

    On a lake: merges small files, drops snapshots older than 30 days, and removes files a day after they were last
    needed. In a file: frees the space of deleted rows. Reports, scores and answers stay as they are. The deployment
    housekeeping does it every night.

    Args:
        older_than: Also remove reports older than this many days, except the newest of each release.

    Examples:
        answerkey warehouse maintain
        answerkey warehouse maintain --home evaluations --json
        answerkey warehouse maintain --older-than 365
    """
    if not home.warehouse.exists():
        raise UserError(f"{home}: no warehouse here yet, so there is nothing to maintain")

    # Old reports first, so that their space is freed as well
    if older_than is not None:
        if older_than < 1:
            raise UserError("--older-than: write a number of days, from 1")
        from answerkey.tasks.forget import forget_older

        removed = forget_older(home, older_than)
        if not as_json:
            _say_removed(removed, home)

    # Then the files, whose sizes are compared
    _, size_before = home.warehouse.size()
    maintenance = home.warehouse.maintain()
    path, size = home.warehouse.size()
    if as_json:
        print_json({**asdict(maintenance), "size": size})
        return 0
    print(
        f"{path}: {maintenance.merged:,} files merged, {maintenance.states:,} old snapshots removed, "
        f"{maintenance.removed:,} files removed; {size_before / 1e6:.1f} MB before, {size / 1e6:.1f} MB now"
    )
    return 0
