"""Which report is meant: by its id, or by the name of its release."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.reports.report import Report
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.warehouse import one_file, scratch


def report_named(home: Home, name: str, dataset: str = "") -> str:
    """The id of the report `name`, or of the newest report of the release `name`, or DATASET/RELEASE.

    Args:
        dataset: the data set, where a release has reports on several; no other one is looked at.

    Raises:
        UserError: there is none, or the release has reports on several data sets and `dataset` does not say which.
    """
    with home.warehouse.reading() as warehouse:
        rows = warehouse.execute(
            """
            SELECT report_id, dataset, report_id = $name AS exactly FROM reports
            WHERE $name IN (report_id, release, dataset || '/' || release) AND $dataset IN ('', dataset)
            ORDER BY exactly, version
            """,
            {"name": name, "dataset": dataset},
        ).fetchall()
    if rows and rows[-1][2]:
        return str(rows[-1][0])
    datasets = list(dict.fromkeys(row[1] for row in rows))
    if not rows:
        where = f" on {dataset}" if dataset else ""
        raise UserError(f"{name}: no such report or release{where} in {home}; `answerkey report --list` shows them")
    if len(datasets) > 1:
        raise UserError(f"{name}: has reports on {', '.join(datasets)}; write DATASET/{name}")
    return str(rows[-1][0])


def pair_named(home: Home, old: str, new: str, dataset: str = "") -> tuple[str, str]:
    """The ids of two reports on one data set; see `report_named`. What one name leaves open, the other may say.

    Raises:
        UserError: one of them is not there, or it is not clear which is meant.
    """
    if not dataset:
        known = [found for name in (old, new) for found in _datasets(home, name)]
        both = [one for one in known if known.count(one) > 1]
        dataset = both[0] if len(set(both)) == 1 else ""
    return report_named(home, old, dataset), report_named(home, new, dataset)


def _datasets(home: Home, name: str) -> list[str]:
    with home.warehouse.reading() as warehouse:
        rows = warehouse.execute(
            "SELECT DISTINCT dataset FROM reports WHERE ? IN (report_id, release, dataset || '/' || release)", [name]
        ).fetchall()
    return [str(row[0]) for row in rows]


def is_known(home: Home, name: str) -> bool:
    """Whether there is a report or a release of that name."""
    return bool(_datasets(home, name))


def labels(reports: Sequence[Report]) -> dict[str, str]:
    """By report id: the release, with the version where several of these reports are about one release.

    Short names for sentences about reports on one data set.
    """
    times = Counter(report.release for report in {report.report_id: report for report in reports}.values())
    return {
        report.report_id: f"{report.release} v{report.version}" if times[report.release] > 1 else report.release
        for report in reports
    }


def check_baseline(home: Home, name: str, dataset: str, accepted: str) -> None:
    """Find out before anything is scored whether there is something to compare a run with.

    Args:
        name: a release or a report; a release may also be one of the run, whose rows are in the file `accepted`.

    Raises:
        UserError: there is no such release or report on the data set.
    """
    with closing(scratch(Path(accepted).parent)) as connection:
        rows = connection.execute("SELECT DISTINCT release FROM read_parquet(?)", [one_file(accepted)]).fetchall()
    releases = [str(row[0]) for row in rows]
    if name in releases:
        return
    if home.warehouse.exists():
        report_named(home, name, dataset)
    else:
        raise UserError(f"{name}: nothing to compare with; this run has {', '.join(releases)}, and {home} no reports")
