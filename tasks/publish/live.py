"""Runs at work on this machine: rows scored, first means and spend, from the files that a run writes anyway."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from answerkey.metrics_core.llm.ledger import LedgerError, Spent, ledger_exists, open_ledger
from answerkey.metrics_core.registry import METRICS
from answerkey.tasks.publish.table import Cell, Table
from answerkey.tasks.publish.tables import Row
from answerkey.tasks.publish.text import NONE, number
from answerkey.tasks.score.plan import TODO
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.store import PROCESS, is_held
from answerkey.tasks.warehouse.warehouse import one_file, scratch

_SQL = statements(__name__)


@dataclass(frozen=True, slots=True)
class RunningRun:
    """A run at work: the releases of which it scores `n_rows` answers, and what its finished shards have found.

    Before the answers are checked, and what is left to score is known, `n_rows` is 0.
    """

    began: str
    releases: tuple[str, ...]
    n_rows: int
    spent: Spent
    scores: Table


def working(home: Home) -> list[Path]:
    """The folders of the runs that processes of this machine work in, the newest first."""
    folders = [lock.parent for lock in home.scratch.glob(f"*/{PROCESS}") if is_held(lock)]
    return sorted(folders, key=lambda folder: -(folder / PROCESS).stat().st_mtime)


def running_runs(home: Home) -> Iterator[RunningRun]:
    """What each run has done so far; nothing of one that ends meanwhile."""
    for folder in working(home):
        try:
            yield _running(home, folder)
        except OSError:
            continue


def _running(home: Home, folder: Path) -> RunningRun:
    began = (folder / PROCESS).stat().st_mtime
    parts = _parts(home, folder, began)
    accepted = folder / "accepted.parquet"
    answers = one_file(accepted if accepted.exists() else folder / "staged.parquet")
    rows: list[tuple[str, int]] = []
    scores: list[tuple[str, str, str, int, int, float | None]] = []
    if (folder / TODO).exists():
        import duckdb

        try:
            with scratch(folder) as connection:
                rows = connection.execute(
                    _SQL["rows"], {"answers": answers, "todo": one_file(folder / TODO)}
                ).fetchall()
                if parts:
                    fields = dict(connection.execute(_SQL["fields"], {"parts": parts}).fetchall())
                    about = {"metrics": list(fields), "fields": [_headline(*one) for one in fields.items()]}
                    scores = connection.execute(
                        _SQL["scores"], {"parts": parts, "answers": answers, **about}
                    ).fetchall()
        except duckdb.IOException as error:
            raise FileNotFoundError(str(error)) from error
    totals = dict(rows)
    cells: dict[str, dict[str, Cell]] = {}
    for metric, field, release, n_done, n_scored, mean in scores:
        lacking = f"{n_done - n_scored:,} without a score" if n_done > n_scored else ""
        below = (f"{n_scored:,} of {totals.get(release, 0):,}", *filter(None, [lacking]))
        cells.setdefault(f"{metric}.{field}", {})[release] = Cell(number(mean), below=below)
    means: list[Row] = [
        (name, *(found.get(release, Cell(NONE)) for release in totals)) for name, found in cells.items()
    ]
    return RunningRun(
        datetime.fromtimestamp(began, UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        tuple(totals),
        sum(totals.values()),
        _spent(home, folder.name),
        Table("Means so far", ("mean so far", *totals), means, each=True),
    )


def _parts(home: Home, folder: Path, began: float) -> list[str]:
    """What has been scored since the run began: parts of judges are in its folder, and the others in the home."""
    places: Sequence[Path] = (folder, *([home.place] if isinstance(home.place, Path) else []))
    found = (part for place in places for part in place.glob("parts/*/*.parquet"))
    return sorted(one_file(part) for part in found if part.stat().st_mtime >= began)


def _headline(metric: str, fields: Sequence[str]) -> str:
    known = METRICS[metric]().headline if metric in METRICS else ""
    return known if known in fields else min(fields, default="")


def _spent(home: Home, run_id: str) -> Spent:
    """What the run has spent on models, with the calls that are on their way at the most that they may cost."""
    try:
        if not ledger_exists(home.ledger):
            return Spent()
        with closing(open_ledger(home.ledger)) as ledger:
            return ledger.spent(run_id)
    except LedgerError:
        return Spent()
