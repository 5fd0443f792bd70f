"""What looks after the tables: `answerkey verify`, `export`, `backup`, `forget`, `warehouse maintain` and `move`."""

from __future__ import annotations

import logging
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from answerkey.flows.cli.main import print_json
from answerkey.flows.cli.options import HOME, AsJson, HomeOption, Quiet
from answerkey.flows.environment import printable
from answerkey.metrics_core.errors import UserError
from answerkey.tasks.warehouse.home import Home

if TYPE_CHECKING:
    from answerkey.tasks.forget import Removed

_HOME = "a folder, or s3://BUCKET/PREFIX with ANSWERKEY_CATALOG"


def export(
    folder: Annotated[Path, Parameter(help="A folder that is not there yet, outside of the home.")],
    /,
    *names: Annotated[str, Parameter(help="Tables and views; all tables, if none is named.")],
    format: Annotated[Literal["parquet", "csv"], Parameter(help="Format of the files.")] = "parquet",
    as_json: AsJson = False,
    home: HomeOption = HOME,
) -> int:
    """Write tables and views into files."""
    from answerkey.tasks.export import export as exporting

    rows = exporting(home, folder, names, format=format)
    if as_json:
        print_json(rows)
        return 0
    print(f"{folder}: {len(rows):,} {format} files, {sum(rows.values()):,} rows")
    return 0


def backup(
    folder: Annotated[Path, Parameter(help="A folder that is not there yet, outside of the home.")],
    /,
    *,
    as_json: AsJson = False,
    home: HomeOption = HOME,
) -> int:
    """Copy the home into a folder."""
    from answerkey.tasks.backup import backup as backing_up

    done = backing_up(home, folder)
    if as_json:
        print_json(asdict(done))
        return 0
    print(
        f"{folder} has {home} as it was: {done.reports:,} reports, {done.calls:,} paid calls, {done.files:,} other "
        f"files, {done.size / 1e6:.1f} MB; it can be used with --home, or put in its place"
    )
    return 0


def forget(
    dataset: Annotated[str, Parameter(help="The data set.")],
    /,
    *,
    sample: Annotated[str, Parameter(help="The id of a sample: it goes with all answers to it.")] = "",
    release: Annotated[str, Parameter(help="A release: it goes; with --sample, only its answer to that sample.")] = "",
    reason: Annotated[str, Parameter(help="Why, to be kept with the record of the removal.")] = "",
    as_json: AsJson = False,
    home: HomeOption = HOME,
) -> int:
    """Remove a sample, an answer or a release for good."""
    from answerkey.tasks.forget import forget as forgetting

    if not home.warehouse.exists():
        raise UserError(f"{home}: no warehouse here yet, so there is nothing to forget")
    return _say_removed(forgetting(home, dataset, sample=sample, release=release, reason=reason), home, as_json=as_json)


def _say_removed(done: Removed, home: Home, *, as_json: bool) -> int:
    if as_json:
        print_json(asdict(done))
        return 0
    if done.finished:
        print(
            f"{home}: removal {done.removal}, which was stopped before it had rewritten the files, is done now; "
            "nothing else was there to remove"
        )
        return 0
    rows = ", ".join(f"{n:,} of {table}" for table, n in done.rows.items()) or "none"
    print(f"{home}: removal {done.removal}: rows: {rows}; {done.calls:,} calls of the ledger, {done.files:,} files")
    if done.reports:
        print(f"computed again from what is left: {printable(', '.join(done.reports))}")
    if home.shared:
        print("earlier states of the lake keep the rows for 30 days; `answerkey warehouse maintain` gives them up then")
    return 0


def maintain(
    *,
    older_than: Annotated[
        int,
        Parameter(help="Also remove reports older than so many days, except the newest of each release. 0: none."),
    ] = 0,
    as_json: AsJson = False,
    home: HomeOption = HOME,
) -> int:
    """Merge small files, give up old states, and remove files that nothing needs."""
    if not home.warehouse.exists():
        raise UserError(f"{home}: no warehouse here yet, so there is nothing to maintain")
    if older_than < 0:
        raise UserError("--older-than: write a number of days, from 1")
    if older_than:
        from answerkey.tasks.forget import forget_older

        removed = forget_older(home, older_than)
        if not as_json:
            _say_removed(removed, home, as_json=False)
    before = home.warehouse.size()
    done = home.warehouse.maintain()
    place, size = home.warehouse.size()
    if as_json:
        print_json({**asdict(done), "size": size})
        return 0
    print(
        f"{place}: {done.merged:,} files merged, {done.states:,} old states given up, {done.removed:,} files removed; "
        f"{before[1] / 1e6:.1f} MB before, {size / 1e6:.1f} MB now"
    )
    return 0


def verify(*, as_json: AsJson = False, home: HomeOption = HOME) -> int:
    """Hash every row again, and compute every number of every report again."""
    from answerkey.tasks.verify import verify as verifying

    done = verifying(home)
    if as_json:
        print_json(asdict(done))
        return int(bool(done.findings))
    for finding in done.findings:
        print(printable(str(finding)))
    print(
        f"{home}: {done.parts:,} parts of tables hashed again; {done.numbers:,} numbers of {done.reports:,} reports, "
        f"{done.comparisons:,} comparisons and {done.verdicts:,} verdicts computed again; {done.calls:,} calls found "
        f"in the ledger: {f'{len(done.findings):,} findings' if done.findings else 'nothing was changed'}"
    )
    for n, what in (
        (done.older, "reports were made by another version of the code: their intervals were not computed again"),
        (done.apart, "comparisons lack some that they were made with: their p-values were not computed again"),
        (done.uncompared, "calls of judges were not compared: there is no ledger here"),
        (done.outdated, "comparisons and verdicts are of before answers were removed, or of code that is not here"),
    ):
        if n:
            print(f"{n:,} {what}")
    return int(bool(done.findings))


def move(
    source: Annotated[str, Parameter(help=f"The home to copy: {_HOME}.")],
    target: Annotated[str, Parameter(help=f"A home with nothing in it: {_HOME}.")],
    /,
    *,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Copy a home to another place and compare the two."""
    from answerkey.tasks.move import move as moving

    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    logging.getLogger("answerkey").setLevel(logging.WARNING if quiet else logging.INFO)
    old, new = Home.parse(source), Home.parse(target)
    moved = moving(old, new)
    if as_json:
        print_json(asdict(moved))
        return 0
    print(
        f"{new} has what {old} has, compared by content: {sum(moved.tables.values()):,} rows of {len(moved.tables)} "
        f"tables, {moved.files:,} files ({moved.size / 1e6:.1f} MB), {moved.calls:,} paid calls\n"
        f"{old} is as it was; use the new one with ANSWERKEY_HOME={new}"
    )
    return 0
