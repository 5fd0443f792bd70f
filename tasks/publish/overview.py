"""The first page of a home: its data sets, releases over time, verdicts, reports, judges and what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from markupsafe import Markup

from answerkey.metrics_core.gate.gate import PRECEDENCE
from answerkey.tasks.publish.artifacts import report_file
from answerkey.tasks.publish.page import charts
from answerkey.tasks.publish.page.html import code, environment, policy
from answerkey.tasks.publish.text import dollars, ends
from answerkey.tasks.reports.headline import headlines
from answerkey.tasks.reports.report import ReportPoint, moments, read_reports
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements

if TYPE_CHECKING:
    import duckdb

_SQL = statements(__name__)
_MOST_VERDICTS = 20
_SPEAK = 2
"""Of the newest reports of a data set, how many say what its headline fields are."""
SCRIPTS = ("stack.js",)


@dataclass(frozen=True, slots=True)
class ListedReport:
    """A report in the list of its data set: `file` is its page, the numbers are those of the primary field."""

    file: str
    release: str
    version: int
    created_at: str
    dataset_version: str
    status: str
    n_scored: int | None
    n_total: int | None
    mean: float | None
    low: float | None
    high: float | None
    outcome: str


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


@dataclass(frozen=True, slots=True)
class DatasetSummary:
    """A data set: its reports, the newest first, and its headline fields over time, the oldest first."""

    name: str
    n_samples: int
    n_releases: int
    headlines: tuple[str, ...]
    reports: tuple[ListedReport, ...]
    history: tuple[ReportPoint, ...]


@dataclass(frozen=True, slots=True)
class JudgeSpend:
    """All calls to a judge with one prompt. `usd` is what the calls cost whose price is known, all but `unpriced`."""

    judge: str
    prompt: str
    n_runs: int
    calls: int
    errors: int
    tokens_in: int | None
    tokens_out: int | None
    usd: float | None
    unpriced: int
    last_at: str


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything that the first page shows; `free` has the judges that need no calls, with their reports."""

    home: str
    made_at: str
    datasets: tuple[DatasetSummary, ...]
    verdicts: tuple[ListedVerdict, ...]
    judges: tuple[JudgeSpend, ...]
    free: tuple[tuple[str, int], ...]

    @property
    def spent(self) -> float:
        """US dollars of all calls whose price is known."""
        return sum(one.usd or 0.0 for one in self.judges)

    @property
    def unpriced(self) -> int:
        """Calls whose price is not known."""
        return sum(one.unpriced for one in self.judges)


def build_overview(home: Home) -> Overview:
    """Read the overview of a home from its warehouse; of a home without one, that there is nothing yet."""
    made_at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    if not home.warehouse.exists():
        return Overview(str(home), made_at, (), (), (), ())
    with home.warehouse.reading() as warehouse:
        datasets = warehouse.execute(_SQL["datasets"]).fetchall()
        newest = {name: _newest(warehouse, name) for name, *_ in datasets}
        verdicts = warehouse.execute(
            _SQL["verdicts"], {"most": _MOST_VERDICTS, "precedence": list(PRECEDENCE)}
        ).fetchall()
        judges = warehouse.execute(_SQL["judges"]).fetchall()
        free = warehouse.execute(_SQL["free_judges"]).fetchall()
    shown = {name: _headlines(home, *newest[name]) for name, *_ in datasets}
    with home.warehouse.reading() as warehouse:
        summaries = tuple(
            _summary(warehouse, name, n_samples, n_releases, shown[name]) for name, n_samples, n_releases in datasets
        )
    return Overview(
        str(home),
        made_at,
        summaries,
        tuple(
            ListedVerdict(_address(dataset, release, version), when, dataset, f"{release} v{version}", *said)
            for when, dataset, release, version, *said in verdicts
        ),
        tuple(JudgeSpend(*row) for row in judges),
        tuple((about, n) for about, n in free),
    )


def _newest(warehouse: duckdb.DuckDBPyConnection, dataset: str) -> tuple[list[str], str]:
    """The ids of the newest reports of a data set, the oldest of them first, and the field that its gate decides by."""
    rows = warehouse.execute(_SQL["newest"], [dataset, _SPEAK]).fetchall()
    declared = warehouse.execute(_SQL["declared"], [dataset]).fetchone()
    return [row[0] for row in rows[::-1]], declared[0] if declared else ""


def _headlines(home: Home, report_ids: Sequence[str], declared: str) -> tuple[str, ...]:
    reports = read_reports(home, report_ids)
    names = {score.name for report in reports for score in report.overall}
    return headlines(reports, declared if declared in names else "")


def _summary(
    warehouse: duckdb.DuckDBPyConnection, name: str, n_samples: int, n_releases: int, shown: tuple[str, ...]
) -> DatasetSummary:
    primary = shown[0] if shown else ""
    rows = warehouse.execute(_SQL["reports"], {"dataset": name, "name": primary}).fetchall()
    reports = tuple(ListedReport(_address(name, *row[:2]), *row) for row in rows)
    return DatasetSummary(name, n_samples, n_releases, shown, reports, moments(warehouse, name, shown))


def _address(dataset: str, release: str, version: int) -> str:
    """Of the page of a report, relative to this one."""
    return quote(report_file(dataset, release, version))


def read_state(home: Home) -> tuple[object, ...]:
    """Something that is another one whenever a page of the home may be."""
    with home.warehouse.reading() as warehouse:
        return tuple(warehouse.execute(_SQL["state"]).fetchone() or ())


def read_pages(home: Home) -> Mapping[str, str]:
    """The id of every report by the file of its page, the newest first."""
    with home.warehouse.reading() as warehouse:
        rows = warehouse.execute(_SQL["pages"]).fetchall()
    return {report_file(*about): report_id for report_id, *about in rows}


def read_made_together(home: Home, report_id: str) -> list[str]:
    """The ids of all reports on the same data set that the same run made."""
    with home.warehouse.reading() as warehouse:
        return [row[0] for row in warehouse.execute(_SQL["made_together"], [report_id]).fetchall()]


def render_overview(overview: Overview, others: Sequence[str] = (), docs: str = "") -> str:
    """The overview as HTML.

    Args:
        others: addresses of pages that runs have written and that are not about one report.
        docs: the address of the Data Docs, if there are any.
    """
    style, script = code("page.css"), code(*SCRIPTS)
    templates = environment()
    templates.globals |= {"ends": ends, "dollars": dollars}
    plots = {one.name: _plots(one) for one in overview.datasets}
    html = templates.get_template("overview.html.j2").render(
        overview=overview,
        plots=plots,
        others=[(address, unquote(address)) for address in others],
        docs=docs,
        style=Markup(style),
        script=Markup(script),
        policy=policy(style, script),
    )
    return f"{html.strip()}\n"


def _plots(dataset: DatasetSummary) -> dict[str, Markup]:
    drawn = ((name, charts.history_plot(dataset.history, name, charts.NARROW)) for name in dataset.headlines)
    return {name: svg for name, svg in drawn if svg}
