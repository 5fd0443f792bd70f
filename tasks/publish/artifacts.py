"""What the Prefect UI shows of a run: tables of scores and differences, verdicts, and the page.

The warehouse stays the record. The page itself is a file beside it; the UI has its content as markdown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from answerkey.metrics_core.comparison import Comparison
from answerkey.metrics_core.sample import content_hash
from answerkey.tasks.gate.verdicts import ReleaseVerdict
from answerkey.tasks.publish.page.build import build_page
from answerkey.tasks.publish.page.html import write
from answerkey.tasks.publish.page.markdown import as_markdown, rules_table
from answerkey.tasks.publish.page.model import Page
from answerkey.tasks.publish.page.samples import MOST_SAMPLES
from answerkey.tasks.publish.text import ends, literal, number, table
from answerkey.tasks.reports.aggregate import ReportRef
from answerkey.tasks.reports.headline import fields_of
from answerkey.tasks.reports.report import Report, read_reports
from answerkey.tasks.warehouse.home import Home

FOLDER = "pages"
PAGES = "ANSWERKEY_PAGES"
"""Environment variable with the address under which the folder `pages` can be opened, if it can."""

_LONGEST_NAME = 80
"""In bytes: two names and their versions make one name of a file, which may have 255."""


def publish_scores(home: Home, reports: Sequence[ReportRef]) -> None:
    """Make a table artifact of every report. The warehouse stays the record."""
    from prefect.artifacts import create_table_artifact

    for report in read_reports(home, [ref.report_id for ref in reports]):
        key = artifact_key(f"{report.dataset}-{report.release}")
        create_table_artifact(table_rows(report), key=f"scores-{key}", description=f"Scores of {report.report_id}")


def table_rows(report: Report) -> list[dict[str, Any]]:
    """The overall scores as rows for people: metric, mean, interval, scored/total."""
    return [
        {
            "metric": score.name,
            "mean": number(score.mean),
            "95 % interval": ends(score.ci_low, score.ci_high),
            "scored": f"{score.n_scored}/{score.n_total}",
            **({} if score.n_clusters is None else {"clusters": score.n_clusters}),
            "failed": score.n_failed,
        }
        for name in fields_of([report])
        for score in report.overall
        if score.name == name
    ]


def publish_comparison(comparison: Comparison) -> None:
    """Make a table artifact of the comparison in the Prefect UI. The warehouse stays the record."""
    from prefect.artifacts import create_table_artifact

    key = artifact_key(f"{_unversioned(comparison.old)}-{_unversioned(comparison.new)}")
    head, cells = table(comparison.overall)
    rows = [dict(zip(head, row, strict=True)) for row in cells]
    create_table_artifact(rows, key=f"differences-{key}", description=f"{comparison.old} against {comparison.new}")


def _unversioned(report_id: str) -> str:
    return report_id.rpartition("/")[0]


def publish_run(
    home: Home,
    report_ids: Sequence[str],
    comparisons: Sequence[Comparison] = (),
    gates: Sequence[ReleaseVerdict] = (),
    *,
    drawn: bool = True,
    docs: str = "",
) -> str:
    """One page about the reports of a run, and about the baseline that it was compared with.

    Args:
        report_ids: the baseline first, if there is one; the last one names the page.
        drawn: write the file; without it there is the markdown alone.
        docs: the name of the page of the Data Docs in the store; empty if there is none.

    Returns:
        The absolute path of the file, empty if none was written.
    """
    last = read_reports(home, report_ids[-1:])[0]
    file = f"{file_name(last.dataset)}/{_named(last)}.html"
    key = artifact_key(f"report-{last.dataset}-{last.release}")
    return _publish(home, report_ids, comparisons, gates, file if drawn else None, key, docs)


def publish_pair(
    home: Home, comparison: Comparison, gates: Sequence[ReleaseVerdict] = (), *, drawn: bool = True
) -> str:
    """One page about two reports that were compared. Returns as `publish_run`."""
    old, new = read_reports(home, [comparison.old, comparison.new])
    file = f"{file_name(new.dataset)}/{_named(new)}-against-{_named(old)}.html"
    key = artifact_key(f"comparison-{old.dataset}-{old.release}-{new.dataset}-{new.release}")
    return _publish(home, [comparison.old, comparison.new], [comparison], gates, file if drawn else None, key)


def _publish(
    home: Home,
    report_ids: Sequence[str],
    comparisons: Sequence[Comparison],
    gates: Sequence[ReleaseVerdict],
    file: str | None,
    key: str,
    docs: str = "",
) -> str:
    from prefect.artifacts import create_markdown_artifact

    for gated in gates:
        _publish_verdict(gated)
    # The samples are on the page alone.
    most_samples = MOST_SAMPLES if file else 0
    page = build_page(home, report_ids, comparisons=comparisons, gates=gates, most_samples=most_samples)
    page = replace(page, data_docs=docs and quote(f"../{docs.removeprefix(f'{FOLDER}/')}"))
    path = _write(home, page, f"{FOLDER}/{file}") if file else ""
    link = _link(file) if file else ""
    create_markdown_artifact(as_markdown(page, path, link), key=key, description=path or ", ".join(report_ids))
    return path


def _write(home: Home, page: Page, name: str) -> str:
    """Write a page to the store, and return where it is there."""
    store = Home.parse(home.address).store
    with store.whole(name) as unfinished:
        write(page, unfinished)
    return store.address(name)


def _link(file: str) -> str:
    """The address of a file in `pages`, if it has one."""
    place = os.environ.get(PAGES, "").rstrip("/")
    return f"{place}/{quote(file)}" if place else ""


def _publish_verdict(gated: ReleaseVerdict) -> None:
    from prefect.artifacts import create_markdown_artifact

    said = gated.verdict
    text = f"# {said.outcome}\n\n**{literal(said.sentence)}**\n\n{rules_table(said.rules)}\n"
    releases = "-".join(report_id.rpartition("/")[0] or report_id for report_id in (gated.old, gated.new))
    create_markdown_artifact(text, key=artifact_key(f"verdict-{releases}"), description=f"{said.outcome}: {gated.new}")


def _named(report: Report) -> str:
    return f"{file_name(report.release)}-v{report.version}"


def file_name(name: str) -> str:
    """A name from data as the name of a file or a folder: one that was changed gets a hash, so that none is another."""
    short = re.sub(r"[^\w.-]+", "-", name).encode("utf-8", "replace")[:_LONGEST_NAME].decode("utf-8", "ignore")
    kept = short.strip("-.")
    return kept if kept and kept == name else f"{kept}-{content_hash(name)[:6]}".lstrip("-")


def artifact_key(name: str) -> str:
    """A name as Prefect's artifact keys must be: lower-case letters, digits and single dashes."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "unnamed"
