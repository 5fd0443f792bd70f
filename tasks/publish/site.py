"""All pages of a home as one site: the overview, a page for every report, and what runs have put beside them.

Everything is made from the state that the last run published, and nothing is written. Links are relative, so a web
server in this process, another one, and an object store show the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from urllib.parse import quote

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.compare.compare import stored_comparisons
from answerkey.tasks.gate.verdicts import stored_verdicts
from answerkey.tasks.publish.artifacts import FOLDER, compared_for, report_file
from answerkey.tasks.publish.overview import build_overview, render_overview
from answerkey.tasks.publish.page.build import build_page
from answerkey.tasks.publish.page.html import render
from answerkey.tasks.publish.page.model import Page
from answerkey.tasks.validate.data_docs import SITE
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements

_SQL = statements(__name__)
INDEX = "index.html"
DOCS = f"{SITE.removeprefix(f'{FOLDER}/')}/{INDEX}"
"""The first page of the Data Docs, relative to the pages."""
_MAX_PAGES = 4
"""Pages kept in memory: one may take a hundred megabytes."""


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
            report_files = {file for dataset in overview.datasets for file in dataset.files.values()}
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
