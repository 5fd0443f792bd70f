"""All pages of a home as one site: the overview, a page for every report, and what runs have put beside them.

Everything is made from the state that the last run published, and nothing is written. Links are relative, so a web
server in this process, another one, and an object store show the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from answerkey.metrics_core.decide.verdict import PRECEDENCE
from answerkey.metrics_core.errors import UserError
from answerkey.tasks.compare.compare import stored_comparisons
from answerkey.tasks.gate.verdicts import stored_verdicts
from answerkey.tasks.publish.artifacts import FOLDER, compared_for, report_file
from answerkey.tasks.publish.page.build import build_page
from answerkey.tasks.publish.page.html import from_template, render
from answerkey.tasks.publish.page.model import Page
from answerkey.tasks.publish.table import Cell, Table, estimate
from answerkey.tasks.publish.text import NONE, count, decision, dollars
from answerkey.tasks.reports.headline import headlines
from answerkey.tasks.reports.report import ReportPoint, moments, read_report
from answerkey.tasks.validate.data_docs import SITE
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements

if TYPE_CHECKING:
    import duckdb

_SQL = statements(__name__)
INDEX = "index.html"
DOCS = f"{SITE.removeprefix(f'{FOLDER}/')}/{INDEX}"
"""The first page of the Data Docs, relative to the pages."""
_MAX_PAGES = 4
"""Pages kept in memory: one may take a hundred megabytes."""
_MAX_VERDICTS = 20
_NEWEST = 10
"""Reports of a data set that are shown unfolded."""
_SPEAK = 2
"""Of the newest reports of a data set, how many say what its headline fields are."""


@dataclass
class Site:
    """The pages of a home by their names, for instance `index.html` and `faq/gpt-4-v2.html`.

    A page that was made is kept for as long as nothing in the home changes that may be on it.
    """

    home: Home
    _pages: dict[str, bytes] = field(default_factory=dict)
    _state: tuple[object, ...] = ()
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self.home = self.home.as_published()

    def names(self) -> Iterator[str]:
        """Yield the names of all pages and files: the overview, then the newest report first."""
        pages = dict.fromkeys([INDEX, *self._report_ids()])
        yield from pages
        yield from (name for name in self._stored() if name not in pages)

    def read(self, name: str) -> bytes:
        """The content of a page or file.

        Raises:
            FileNotFoundError: there is none of this name.
        """
        if not self._is_page_name(name):
            raise FileNotFoundError(name)
        if name == INDEX or name.endswith(".html"):
            # One at a time, since each takes what memory a session may have.
            with self._lock:
                if (page := self._page(name)) is not None:
                    return page
        if not self.home.store.exists(f"{FOLDER}/{name}"):
            raise FileNotFoundError(name)
        with self.home.store.read(f"{FOLDER}/{name}") as file:
            return file.read()

    def _stored(self) -> Iterator[str]:
        names = (file.name.removeprefix(f"{FOLDER}/") for file in self.home.store.files(FOLDER))
        return filter(self._is_page_name, names)

    def _is_page_name(self, name: str) -> bool:
        """Whether this can be the name of a page. A link to a file elsewhere is none: it would be shown to anybody."""
        if not name.isprintable() or "\\" in name or ".." in name.split("/"):
            return False
        if not isinstance(self.home.place, Path):
            return True
        pages = self.home.place / FOLDER
        # Path.resolve raises where links go round.
        return Path(os.path.realpath(pages / name)).is_relative_to(os.path.realpath(pages))

    def _report_ids(self) -> dict[str, str]:
        """Return the id of every report by the file of its page, the newest first."""
        if not self.home.warehouse.exists():
            return {}
        return {report_file(*file_parts): report_id for report_id, *file_parts in self.home.rows(_SQL["pages"])}

    def _page(self, name: str) -> bytes | None:
        """Return a page that is made from the tables; None if there is none of this name."""
        if name == INDEX:
            overview = build_overview(self.home)
            report_files = {*chain.from_iterable(dataset.files.values() for dataset in overview.datasets)}
            docs_folder = DOCS.partition("/")[0]
            stored = [quote(file) for file in self._stored()]
            other_pages = [
                file for file in stored if file not in report_files and not file.startswith(f"{docs_folder}/")
            ]
            docs = DOCS if DOCS in stored else ""
            return render_overview(overview, other_pages, docs=docs).encode("utf-8", "replace")
        if not self.home.warehouse.exists():
            return None
        [state] = self.home.rows(_SQL["state"])
        if state != self._state:
            self._state = state
            self._pages = {}
        if name not in self._pages:
            report_id = self._report_ids().get(name)
            if report_id is None:
                return None
            html = render(report_page(self.home, report_id)).encode("utf-8", "replace")
            self._pages = dict([*self._pages.items(), (name, html)][-_MAX_PAGES:])
        return self._pages[name]


def report_page(home: Home, report_id: str) -> Page:
    """The page of a report: what it was compared with, and what the gate said last; else what was made with it."""
    gates = stored_verdicts(home, [report_id])
    pairs = list(stored_comparisons(home, [report_id]))
    compared = {(pair.old, pair.new) for pair in pairs}
    for gated in gates:
        if (gated.old, gated.new) not in compared:
            # Reports that cannot be compared may have a verdict.
            with suppress(UserError):
                pairs += compared_for(home, gated)
    olds = [pair.old for pair in pairs] or [old_id for (old_id,) in home.rows(_SQL["made_together"], [report_id])]
    page = build_page(home, [*olds, report_id], comparisons=pairs, gates=gates)
    return replace(page, overview=f"../{INDEX}")


@dataclass(frozen=True, slots=True)
class ListedVerdict:
    """What the gate said last about two reports; `old` is a name where there is no such report.

    `n_earlier` verdicts came before it; of these, the worst outcome is `worst`, by the field `primary` with `margin`.
    """

    created_at: str
    dataset: str
    release: str
    version: int
    old: str
    outcome: str
    sentence: str
    n_earlier: int
    worst: str
    primary: str
    margin: float

    @property
    def file(self) -> str:
        """The address of the page of the new report, relative to the overview."""
        return quote(report_file(self.dataset, self.release, self.version))

    @property
    def new(self) -> str:
        """The new release with the version of its report."""
        return f"{self.release}/v{self.version}"

    @property
    def title(self) -> str:
        """What the gate says, and the two releases, with their versions where they are the same one."""
        new = self.new
        old = self.old.removeprefix(f"{self.dataset}/")
        old_release = old.rpartition("/v")[0] or old
        if old_release != self.release:
            new = self.release
            old = old_release
        return f"{decision(self.outcome, new)} in place of {old}"


@dataclass(frozen=True, slots=True)
class DatasetSummary:
    """A data set with its headline fields over time, the oldest report first.

    `reports` are tables of its reports with the primary field, the newest first: of the newest, and of all earlier ones
    if there are any. `files` are the pages of all reports by their ids. `anchor` is the report that the gate was first
    kept with, empty without a gate, and `anchor_means` has its fields.
    """

    name: str
    n_samples: int
    n_releases: int
    headlines: tuple[str, ...]
    reports: tuple[Table, ...]
    files: Mapping[str, str]
    history: tuple[ReportPoint, ...]
    anchor: str = ""
    anchor_means: Mapping[str, float] = field(default_factory=dict)


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

    # Everything in one session, so that all of it is of one state
    with home.warehouse.reading() as warehouse:
        datasets = warehouse.execute(_SQL["datasets"]).fetchall()
        parameters = {"most": _MAX_VERDICTS, "precedence": list(PRECEDENCE)}
        verdicts = warehouse.execute(_SQL["verdicts"], parameters).fetchall()
        judges = warehouse.execute(_SQL["judges"]).fetchall()
        free_judges = warehouse.execute(_SQL["free_judges"]).fetchall()
        summaries = tuple(_summary(warehouse, home, *columns) for columns in datasets)

    # The calls to each judge with each of its prompts, and what they cost
    cells = []
    for judge, prompt, *counts, usd, unpriced, last_at in judges:
        cost = Cell(dollars(usd or 0))
        if unpriced and usd is None:
            cost = Cell("not known")
        elif unpriced:
            cost = Cell(dollars(usd), below=(f"{count(unpriced)} not known",))
        cells.append((judge, prompt, *(count(n or 0) for n in counts), cost, last_at))
    head = (
        "judge", "prompt", "runs", "calls", "without a usable reply", "tokens sent", "tokens received", "US$",
        "last call, UTC",
    )  # fmt: skip
    calls = Table("Calls to judges", head, cells, left=["prompt", "last call, UTC"])
    return Overview(
        made_at=made_at,
        datasets=summaries,
        verdicts=tuple(ListedVerdict(*columns) for columns in verdicts),
        judges=calls if judges else None,
        spent=sum(usd or 0.0 for *_, usd, _unpriced, _ in judges),
        unpriced=sum(unpriced for *_, unpriced, _ in judges),
        free=tuple(free_judges),
    )


def _summary(
    warehouse: duckdb.DuckDBPyConnection, home: Home, dataset: str, n_samples: int, n_releases: int
) -> DatasetSummary:
    """Read what the overview shows of a data set."""
    # The headline fields of its newest reports, that by which its gate decides first
    newest = warehouse.execute(_SQL["newest"], [dataset, _SPEAK]).fetchall()
    newest_reports = [read_report(warehouse, report_id, home) for (report_id,) in reversed(newest)]
    declared = warehouse.execute(_SQL["declared"], [dataset]).fetchall()
    all_names = chain.from_iterable(report.names for report in newest_reports)
    names = [name for name in all_names if (name,) in declared]
    headline_fields = headlines(newest_reports, next(iter(names), ""))
    primary = headline_fields[0] if headline_fields else ""

    # All its reports with the first of these fields
    rows = []
    files = {}
    for columns in warehouse.execute(_SQL["reports"], {"dataset": dataset, "name": primary}).fetchall():
        release, version, made_at, dataset_version, status, n_scored, n_total, mean, low, high, outcome = columns
        file = files[f"{dataset}/{release}/v{version}"] = quote(report_file(dataset, release, version))
        scored = NONE if n_total is None else f"{n_scored:,}/{n_total:,}"
        rows.append(
            (
                Cell(f"{release}/v{version}", link=file),
                made_at,
                estimate(mean, low, high),
                Cell(outcome or NONE, kind=outcome),
                Cell(scored, below=() if status == "COMPLETE" else (status.lower(),)),
                Cell(dataset_version, kind="code"),
            )
        )

    # The newest reports unfolded, and all earlier ones in a table of their own
    head = ("report", "made, UTC", primary or "score", "gate", "scored", "data set")
    newest_table = Table(f"Reports on {dataset}", head, rows[:_NEWEST], left=["made, UTC", "gate", "data set"])
    tables = [newest_table, replace(newest_table, title=f"Earlier reports on {dataset}", rows=rows[_NEWEST:])]
    anchors = warehouse.execute(_SQL["anchor"], [dataset]).fetchall()
    return DatasetSummary(
        name=dataset,
        n_samples=n_samples,
        n_releases=n_releases,
        headlines=headline_fields,
        reports=tuple(table for table in tables if table.rows),
        files=files,
        history=moments(warehouse, [dataset], headline_fields)[dataset],
        anchor=anchors[0][0].partition("/")[2] if anchors else "",
        anchor_means={name: mean for _, name, mean in anchors},
    )


def render_overview(overview: Overview, others: Sequence[str] = (), docs: str = "") -> str:
    """The overview as HTML.

    Args:
        others: addresses of pages that runs have written and that are not about one report.
        docs: the address of the Data Docs, if there are any.
    """
    other_pages = [(address, unquote(address)) for address in others]
    return from_template("overview.html.j2", ["stack.js"], overview=overview, others=other_pages, docs=docs)
