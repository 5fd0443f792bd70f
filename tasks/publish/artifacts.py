"""What the Prefect UI shows of a run: tables of scores and differences, verdicts, and the page.

The warehouse stays the record. The page itself is a file beside it; the UI has its content as markdown.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TypeVar
from urllib.parse import quote

from answerkey.metrics_core.comparison import Comparison
from answerkey.metrics_core.sample import content_hash
from answerkey.tasks.compare.compare import compare_all, primary_field
from answerkey.tasks.gate.verdicts import ReleaseVerdict
from answerkey.tasks.publish import tables
from answerkey.tasks.publish.page.build import build_page
from answerkey.tasks.publish.page.html import write
from answerkey.tasks.publish.page.markdown import as_markdown, verdict_markdown
from answerkey.tasks.publish.page.samples import MOST_SAMPLES
from answerkey.tasks.publish.table import Table
from answerkey.tasks.publish.text import number
from answerkey.tasks.reports.headline import fields_of, primary
from answerkey.tasks.reports.report import Report, is_known, labels
from answerkey.tasks.server import is_away, within_run
from answerkey.tasks.warehouse.home import Home

FOLDER = "pages"
PAGES = "ANSWERKEY_PAGES"
"""Environment variable with the address under which the folder `pages` can be opened, if it can."""

_LONGEST_NAME = 80
"""In bytes: two names and their versions make one name of a file, which may have 255."""

_MAX_RESULTS = 5
"""Releases in the message of a state."""

_log = logging.getLogger("answerkey")
T = TypeVar("T")


class _Server:
    """Whether the server had the last thing that it was told."""

    answers = True


def notify_api(subject: str, do: Callable[[], T]) -> T | None:
    """Tell the Prefect server something that no run depends on; None where that failed, which is logged, and where
    this is no run of Prefect.

    After the retries of Prefect's client have found no server, each thing is tried once, without waiting, until the
    server answers again; this is logged once.
    """
    if not within_run():
        return None
    try:
        with ExitStack() as stack:
            if not _Server.answers:
                from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

                stack.enter_context(temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}))
            reply = do()
    except Exception as error:
        # One that is refused says nothing about the next.
        unreachable = is_away(error)
        if _Server.answers or not unreachable:
            also_later = ", nor anything else until it answers again" if unreachable else ""
            # The address may have a password in it.
            reason = re.sub(r"//[^/\s@]*@", "//", f"{type(error).__name__}: {error}")
            _log.warning(f"the Prefect server was not told {subject}{also_later} ({reason}); the run goes on")
        _Server.answers = not unreachable
        return None
    _Server.answers = True
    return reply


def show_table(table: Table, key: str, description: str) -> None:
    """Make a table artifact, if the server can be told."""
    _show("table", key, description, table=table.records())


def show_markdown(text: str, key: str, description: str) -> None:
    """Make a markdown artifact, if the server can be told."""
    _show("markdown", key, description, markdown=text)


def _show(kind: str, key: str, description: str, **content: object) -> None:
    def make() -> None:
        from prefect import artifacts

        getattr(artifacts, f"create_{kind}_artifact")(key=key, description=description, **content)

    notify_api(f"the artifact {key}", make)


def publish_scores(reports: Sequence[Report]) -> str:
    """Make a table artifact of the reports of a run, side by side, and return their result in one line.

    The warehouse stays the record.
    """
    key = artifact_key("scores", reports[0].dataset, *([] if len(reports) > 1 else [reports[0].release]))
    show_table(tables.scores_of(reports, fields_of(reports)), key, "Scores")
    return in_one_line(reports)


def in_one_line(reports: Sequence[Report]) -> str:
    """Say what reports show by the field that decides: `meaning_match.match on faq: gpt-4 0.812, gpt-5 0.840`."""
    by_dataset: dict[str, list[Report]] = {}
    for report in reports:
        by_dataset.setdefault(report.dataset, []).append(report)
    lines = []
    for dataset, dataset_reports in by_dataset.items():
        field = primary(dataset_reports)
        names = labels(dataset_reports)
        means = []
        for report in dataset_reports[:_MAX_RESULTS]:
            score = report.score(field)
            mean = score.mean if score else None
            means.append(f"{names[report.report_id]} {number(mean)}")
        n_more = len(dataset_reports) - len(means)
        more_releases = f" and {n_more} more" if n_more else ""
        lines.append(f"{field or 'no numbers'} on {dataset}: {', '.join(means)}{more_releases}")
    return "; ".join(lines)


def publish_comparison(comparison: Comparison) -> None:
    """Make a table artifact of the comparison in the Prefect UI. The warehouse stays the record."""
    key = artifact_key("differences", *unversioned(comparison.old), *unversioned(comparison.new))
    show_table(tables.comparison("", comparison.overall), key, f"{comparison.old} against {comparison.new}")


def unversioned(report_id: str) -> list[str]:
    """Data set and release of a report; a release may have slashes in its name."""
    return (report_id.rpartition("/")[0] or report_id).split("/", 1)


def parts_of(report_id: str) -> tuple[str, str, int]:
    """Data set, release and version of a report.

    >>> parts_of("faq/gpt-4/beta/v12")
    ('faq', 'gpt-4/beta', 12)
    """
    dataset, release = unversioned(report_id)
    return dataset, release, int(report_id.rpartition("/v")[2])


def publish_run(
    home: Home,
    report_ids: Sequence[str],
    comparisons: Sequence[Comparison] = (),
    gates: Sequence[ReleaseVerdict] = (),
    *,
    drawn: bool = True,
    docs: str = "",
    why_old: str = "",
    file_and_key: tuple[str, str] | None = None,
) -> str:
    """Make one page about the reports of a run, and about the baseline that it was compared with.

    Args:
        report_ids: the baseline first, if there is one.
        drawn: write the file; without it there is the markdown alone.
        docs: the name of the page of the Data Docs in the store; empty if there is none.
        why_old: says why the old release of the comparison is the old one; empty if somebody named it.
        file_and_key: the name of the page, and the key of its artifact. By default the last report names the page, and
            its release the artifact, or the data set alone where there are several releases beside the baseline.

    Returns:
        Where the page is, as `address` says; empty if none was written.
    """
    if not (drawn or within_run()):
        return ""
    # What the page and its artifact are called
    if file_and_key:
        file, key = file_and_key
    else:
        dataset, release, version = parts_of(report_ids[-1])
        file = report_file(dataset, release, version)
        baselines = {pair.old for pair in comparisons} | {gated.old for gated in gates}
        key = artifact_key("report", dataset, *([release] if len(set(report_ids) - baselines) == 1 else []))
    # An artifact for each verdict, whose key is that of all verdicts about these two releases
    for gated in gates:
        verdict_key = artifact_key("verdict", *unversioned(gated.old), *unversioned(gated.new))
        show_markdown(verdict_markdown(gated.verdict), verdict_key, f"{gated.verdict.outcome}: {gated.new}")

    # The samples are on the page alone
    most_samples = MOST_SAMPLES if drawn else 0
    page = build_page(home, report_ids, comparisons=comparisons, gates=gates, most_samples=most_samples)
    page = replace(page, why_old=why_old, data_docs=docs and quote(f"../{docs.removeprefix(f'{FOLDER}/')}"))
    description = ", ".join(report_ids)
    if not drawn:
        show_markdown(as_markdown(page), key, description)
        return ""

    # The file, and what the server shows of it
    name = f"{FOLDER}/{file}"
    store = Home.parse(home.address).store
    with store.atomic_write(name) as unfinished:
        write(page, unfinished)
    link = served(home, name)
    show_markdown(as_markdown(page, store.address(name), link), key, description)
    if link:
        _show("link", f"open-{key}", description, link=link, link_text="Open the report")
    return address(home, name)


def publish_pair(
    home: Home, comparison: Comparison, gates: Sequence[ReleaseVerdict] = (), *, drawn: bool = True
) -> str:
    """Make one page about two reports that were compared. Returns as `publish_run`."""
    ids = [comparison.old, comparison.new]
    _, old_release, old_version = parts_of(comparison.old)
    page_file = report_file(*parts_of(comparison.new)).removesuffix(".html")
    file = f"{page_file}-against-{file_name(old_release)}-v{old_version}.html"
    key = artifact_key("comparison", *unversioned(comparison.old), *unversioned(comparison.new))
    return publish_run(home, ids, [comparison], gates, drawn=drawn, file_and_key=(file, key))


def publish_verdict(home: Home, gated: ReleaseVerdict, *, drawn: bool = True) -> str:
    """Make one page about the two reports of a verdict; where there is no baseline, about the new one alone.

    Returns as `publish_run`.
    """
    if not (drawn or within_run()):
        return ""
    if pairs := compared_for(home, gated):
        return publish_pair(home, pairs[0], [gated], drawn=drawn)
    return publish_run(home, [gated.new], (), [gated], drawn=drawn)


def compared_for(home: Home, gated: ReleaseVerdict) -> tuple[Comparison, ...]:
    """The comparison that a page shows beside a verdict: none where there is no baseline."""
    if not is_known(home, gated.old):
        return ()
    pair = (gated.old, gated.new)
    return compare_all(home, [pair], primary=primary_field(home, pair, gated.primary))


def served(home: Home, name: str) -> str:
    """The address at which a browser opens a file of the store that is in the folder `pages`, if there is one.

    The pages are those of the home in ANSWERKEY_HOME, if that is set: another may have a report of the same name.
    """
    served_home = os.environ.get("ANSWERKEY_HOME") or home.address
    server = os.environ.get(PAGES, "").rstrip("/")
    if not server or Home.parse(served_home).address != home.address:
        return ""
    return f"{server}/{quote(name.removeprefix(f'{FOLDER}/'))}"


def address(home: Home, name: str) -> str:
    """Where a page is: for a run on a server where a browser opens it, if it can, else its path in the store."""
    return (within_run() and served(home, name)) or home.store.address(name)


def report_file(dataset: str, release: str, version: int) -> str:
    """The name of the page of a report in the folder of the pages."""
    return f"{file_name(dataset)}/{file_name(release)}-v{version}.html"


def file_name(name: str) -> str:
    """A name from data as the name of a file or a folder: one that was changed gets a hash, so that none is another."""
    # Cut by bytes, which is what file systems count
    short = re.sub(r"[^\w.-]+", "-", name).encode("utf-8", "replace")[:_LONGEST_NAME].decode("utf-8", "ignore")
    readable = short.strip("-.")
    return readable if readable and readable == name else f"{readable}-{content_hash(name)[:6]}".lstrip("-")


def artifact_key(kind: str, *names: str) -> str:
    """The key of an artifact: the same for the same names, and another for others of its kind.

    A kind always has as many names, or one or two. Prefect's keys have only a to z, digits and dashes. Where names hold
    anything else, or it could not be told where one ends, a hash of them follows.

    >>> artifact_key("scores", "faq", "gpt-4")
    'scores-faq-gpt-4'
    >>> artifact_key("scores", "faq", "gpt-4.1")
    'scores-faq-gpt-4-1-0d5390'
    """
    readable = [re.sub(r"[^a-z0-9]+", "-", name.lower())[:_LONGEST_NAME].strip("-") for name in names]
    as_they_are = readable == list(names) and all(readable) and not any("-" in name for name in names[:-1] or names)
    parts = [kind, *filter(None, readable), *([] if as_they_are else [content_hash(names)[:6]])]
    return "-".join(parts)
