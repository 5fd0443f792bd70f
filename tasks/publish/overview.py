"""The first page of a home: its data sets, releases over time, verdicts, reports, judges and what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from answerkey.metrics_core.decide.verdict import PRECEDENCE
from answerkey.tasks.publish.artifacts import report_file
from answerkey.tasks.publish.page import charts
from answerkey.tasks.publish.page.html import from_template
from answerkey.tasks.publish.table import Cell, Table, estimate
from answerkey.tasks.publish.text import NONE, count, decision, dollars
from answerkey.tasks.reports.headline import headlines
from answerkey.tasks.reports.report import ReportPoint, moments, read_report
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements

if TYPE_CHECKING:
    import duckdb

_SQL = statements(__name__)
_MOST_VERDICTS = 20
_NEWEST = 10
"""Reports of a data set that are shown unfolded."""
_SPEAK = 2
"""Of the newest reports of a data set, how many say what its headline fields are."""


@dataclass(frozen=True, slots=True)
class ListedVerdict:
    """What the gate said last about two reports; `old` is a name where there is no such report.

    `n_earlier` verdicts came before it; of these, the worst outcome is `worst`, by the field `primary` with `margin`.
    """

    file: str
    created_at: str
    dataset: str
    new: str
    old: str
    outcome: str
    sentence: str
    n_earlier: int
    worst: str
    primary: str
    margin: float

    @property
    def title(self) -> str:
        """What the gate says, and the two releases, with their versions where they are the same one."""
        new, old = self.new, self.old.removeprefix(f"{self.dataset}/").replace("/v", " v")
        names = [name.rpartition(" v")[0] or name for name in (new, old)]
        shown = names if names[0] != names[1] else [new, old]
        return f"{decision(self.outcome, shown[0])} in place of {shown[1]}"


@dataclass(frozen=True, slots=True)
class DatasetSummary:
    """A data set with its headline fields over time, the oldest report first.

    `reports` are tables of its reports with the primary field, the newest first: of the newest, and of all earlier ones
    if there are any. `files` are the pages of all reports by their ids.
    """

    name: str
    n_samples: int
    n_releases: int
    headlines: tuple[str, ...]
    reports: tuple[Table, ...]
    files: Mapping[str, str]
    history: tuple[ReportPoint, ...]


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything that the first page shows.

    `judges` has all calls by judge and prompt; `spent` are the US dollars of those whose price is known, all but
    `unpriced`. `free` has the judges that need no calls, with their reports.
    """

    made_at: str
    datasets: tuple[DatasetSummary, ...] = ()
    verdicts: tuple[ListedVerdict, ...] = ()
    judges: Table | None = None
    spent: float = 0.0
    unpriced: int = 0
    free: tuple[tuple[str, int], ...] = ()


def build_overview(home: Home) -> Overview:
    """Read the overview of a home from its warehouse; of a home without one, that there is nothing yet."""
    made_at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    if not home.warehouse.exists():
        return Overview(made_at)
    with home.warehouse.reading() as warehouse:
        datasets = warehouse.execute(_SQL["datasets"]).fetchall()
        verdicts = warehouse.execute(
            _SQL["verdicts"], {"most": _MOST_VERDICTS, "precedence": list(PRECEDENCE)}
        ).fetchall()
        judges = warehouse.execute(_SQL["judges"]).fetchall()
        free_judges = warehouse.execute(_SQL["free_judges"]).fetchall()
        summaries = tuple(
            _summary(warehouse, name, n_samples, n_releases, _headlines(warehouse, home, name))
            for name, n_samples, n_releases in datasets
        )
    return Overview(
        made_at,
        summaries,
        tuple(
            ListedVerdict(
                _address(dataset, release, version), decided_at, dataset, f"{release} v{version}", *verdict_columns
            )
            for decided_at, dataset, release, version, *verdict_columns in verdicts
        ),
        _judges(judges) if judges else None,
        sum(usd or 0.0 for *_, usd, _unpriced, _last in judges),
        sum(unpriced for *_, unpriced, _last in judges),
        tuple((judge, n) for judge, n in free_judges),
    )


def _judges(rows: Sequence[tuple[Any, ...]]) -> Table:
    cells = [
        (
            judge, prompt, *(count(n or 0) for n in counts),
            Cell(
                "not known" if usd is None and unpriced else dollars(usd or 0),
                below=(f"{count(unpriced)} not known",) if unpriced and usd is not None else (),
            ),
            last_at,
        )
        for judge, prompt, *counts, usd, unpriced, last_at in rows
    ]  # fmt: skip
    head = (
        "judge", "prompt", "runs", "calls", "without a usable reply", "tokens sent", "tokens received", "US$",
        "last call, UTC",
    )  # fmt: skip
    return Table("Calls to judges", head, cells, left=["prompt", "last call, UTC"])


def _headlines(warehouse: duckdb.DuckDBPyConnection, home: Home, dataset: str) -> tuple[str, ...]:
    """The headline fields of the newest reports of a data set, that by which its gate decides first."""
    newest = warehouse.execute(_SQL["newest"], [dataset, _SPEAK]).fetchall()
    reports = [read_report(warehouse, report_id, home) for (report_id,) in reversed(newest)]
    declared = {name for (name,) in warehouse.execute(_SQL["declared"], [dataset]).fetchall()}
    return headlines(reports, next((name for report in reports for name in report.names if name in declared), ""))


def _summary(
    warehouse: duckdb.DuckDBPyConnection, name: str, n_samples: int, n_releases: int, headline_fields: tuple[str, ...]
) -> DatasetSummary:
    primary = headline_fields[0] if headline_fields else ""
    rows = warehouse.execute(_SQL["reports"], {"dataset": name, "name": primary}).fetchall()
    files = {f"{name}/{release}/v{version}": _address(name, release, version) for release, version, *_ in rows}
    cells = [
        (
            Cell(f"{release} v{version}", link=file), made_at, estimate(mean, low, high),
            Cell(outcome, kind=outcome) if outcome else NONE,
            Cell(
                NONE if n_total is None else f"{n_scored:,}/{n_total:,}",
                below=() if status == "COMPLETE" else (status.lower(),),
            ),
            Cell(version_of_data, kind="code"),
        )
        for file, (release, version, made_at, version_of_data, status, n_scored, n_total, mean, low, high, outcome)
        in zip(files.values(), rows, strict=True)
    ]  # fmt: skip
    head = ("report", "made, UTC", primary or "score", "gate", "scored", "data set")
    tables = tuple(
        Table(title, head, part, left=["made, UTC", "gate", "data set"])
        for title, part in ((f"Reports on {name}", cells[:_NEWEST]), (f"Earlier reports on {name}", cells[_NEWEST:]))
        if part
    )
    return DatasetSummary(
        name, n_samples, n_releases, headline_fields, tables, files, moments(warehouse, [name], headline_fields)[name]
    )


def _address(dataset: str, release: str, version: int) -> str:
    """Of the page of a report, relative to this one."""
    return quote(report_file(dataset, release, version))


def read_state(home: Home) -> tuple[object, ...]:
    """Something that is another one whenever a page of the home may be."""
    return home.rows(_SQL["state"])[0]


def read_pages(home: Home) -> Mapping[str, str]:
    """The id of every report by the file of its page, the newest first."""
    rows = home.rows(_SQL["pages"])
    return {report_file(*file_parts): report_id for report_id, *file_parts in rows}


def read_made_together(home: Home, report_id: str) -> list[str]:
    """The ids of all reports on the same data set that the same run made."""
    return [row[0] for row in home.rows(_SQL["made_together"], [report_id])]


def render_overview(overview: Overview, others: Sequence[str] = (), docs: str = "") -> str:
    """The overview as HTML.

    Args:
        others: addresses of pages that runs have written and that are not about one report.
        docs: the address of the Data Docs, if there are any.
    """
    return from_template(
        "overview.html.j2",
        ["stack.js"],
        overview=overview,
        plots={
            dataset.name: {
                name: svg
                for name in dataset.headlines
                if (svg := charts.history_plot(dataset.history, name, charts.NARROW))
            }
            for dataset in overview.datasets
        },
        others=[(address, unquote(address)) for address in others],
        docs=docs,
    )
