"""Remove a sample, an answer, a release, or reports older than a number of days, for good.

Gone are the rows, the texts in every file of the home, the replies of models about them in the ledger, and pages,
generated answers and unfinished work that hold them. `removals` keeps that something was removed, and not what.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.ledger import COLUMNS, ledger_exists, open_ledger
from answerkey.tasks.publish.artifacts import FOLDER as PAGES
from answerkey.tasks.publish.artifacts import file_name
from answerkey.tasks.releases.provenance import answers_name
from answerkey.tasks.reports.report import read_report
from answerkey.tasks.warehouse.home import Home, is_work_folder
from answerkey.tasks.warehouse.schema import relations
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.store import PROCESS, is_held

if TYPE_CHECKING:
    import duckdb

_SQL = statements(__name__)
_BUSY_S = 600.0
"""Seconds without a write after which a run without a lock file counts as dead."""
_LONGEST_ELSEWHERE = timedelta(days=1)
"""After which an unfinished run of another machine counts as dead. A batch of a model takes a day at most."""
_LONG = 20
"""Minimum length, in characters, of texts that are looked for within other texts: shorter ones match by chance."""


@dataclass(frozen=True, slots=True)
class Removed:
    """What was removed."""

    removal: int
    """Its number in `removals`."""
    rows: dict[str, int]
    """By table."""
    calls: int
    """Of the ledger."""
    files: int
    """Of the home, in which it was or may have been."""
    reports: tuple[str, ...]
    """Reports whose numbers rest on answers that are gone, and that say so now."""
    finished: bool = False
    """Whether it is an earlier one, stopped before it had rewritten the files: nothing else was there."""


def forget(home: Home, dataset: str, *, sample: str = "", release: str = "", reason: str = "") -> Removed:
    """Remove a sample with all answers to it, the answer of one release to a sample, or a release.

    Reports and comparisons that rest on a removed answer keep their numbers and say so: `answerkey rerun` makes a
    report of what is left. Reports of a release that goes, go with it, and so do comparisons and verdicts about them.
    Pages of the data set are removed: `answerkey report --html` makes them anew.

    Args:
        sample: the id of the sample; with a release, only that release's answer to it.
        release: the name of the release.
        reason: why, to be kept.

    Raises:
        UserError: there is no such thing, and no removal to finish; neither is named; or a run is at work.
    """
    if not sample and not release:
        raise UserError("forget: name a sample, a release, or both for one answer")
    kind = "answer" if sample and release else "sample" if sample else "release"
    about = {"dataset": dataset, "sample": sample, "release": release}
    finished = home.warehouse.finish_removal()
    with home.warehouse.writing(removing=True) as warehouse:
        _check_idle(warehouse, home)
        warehouse.execute(_SQL["gone"], about)
        whole = {**about, "whole_sample": kind == "sample"}
        [(known,)] = warehouse.execute(_SQL["known"], whole).fetchall()
        if not known and not finished:
            raise UserError(f"{dataset}: there is no such {kind} in {home}")
        if known:
            done = _forget_gone(warehouse, home, kind, whole, reason)
        else:
            # Most likely it was what the removal that was stopped had removed.
            [(last,)] = warehouse.execute("SELECT max(removal) FROM removals").fetchall()
            done = Removed(last, {}, 0, 0, (), finished=True)
    home.warehouse.rewrite()
    return done


def _forget_gone(
    warehouse: duckdb.DuckDBPyConnection, home: Home, kind: str, about: Mapping[str, Any], reason: str
) -> Removed:
    """Remove what is in the table `gone`, and what is known of it."""
    before = _counts(warehouse)
    dataset, sample, release = about["dataset"], about["sample"], about["release"]
    texts = [text for (text,) in warehouse.execute(_SQL["texts"], _only(about, "texts")).fetchall()]
    reports = [report_id for (report_id,) in warehouse.execute(_SQL["reports"]).fetchall()]
    of_one_kind = {"samples": "sample", "label_questions": "sample", "registered": "release"}
    for name in ("answers", "labels", "label_questions", "samples", "quarantine", "scores", "registered"):
        if of_one_kind.get(name, kind) == kind:
            given = {**about, "texts": sorted(_forms(texts)), "reports": reports}
            warehouse.execute(_SQL[name], _only(given, name))
    if kind == "release":
        for statement in _SQL["of_reports"].split(";\n"):
            warehouse.execute(statement, {"reports": reports})
    if kind == "sample":
        warehouse.execute(_SQL["count_samples"], {"dataset": dataset})
    requests = _sweep(warehouse, datetime.now(UTC))
    files = _files_of(home, dataset, release)
    # Before the commit: if it is stopped here, the next attempt finds the rows again, and removes the rest.
    calls = _remove(home, requests, texts, files)
    resting = [] if kind == "release" else reports
    _mark_reports(warehouse, home, resting, sample)
    return _record(warehouse, kind, reason, before, calls, len(files), resting)


def forget_older(home: Home, days: int) -> Removed:
    """Remove reports older than a number of days, but for the newest of every release, and what only they needed.

    Answers, measurements and replies of models that no report is left about go with them, and so do the rows of runs of
    that age that made no report.

    Raises:
        UserError: a run is at work.
    """
    moment = datetime.now(UTC) - timedelta(days=days)
    with home.warehouse.writing(removing=True) as warehouse:
        _check_idle(warehouse, home)
        before = _counts(warehouse)
        reports = [one for (one,) in warehouse.execute(_SQL["old_reports"], {"before": moment}).fetchall()]
        warehouse.execute(_SQL["scores"], {"reports": reports, "sample": ""})
        for statement in _SQL["of_reports"].split(";\n"):
            warehouse.execute(statement, {"reports": reports})
        warehouse.execute(_SQL["unreported_answers"])
        requests = _sweep(warehouse, moment)
        runs = [one for (one,) in warehouse.execute(_SQL["old_runs"], {"before": moment}).fetchall()]
        for statement in _SQL["of_runs"].split(";\n"):
            warehouse.execute(statement, {"runs": runs})
        files = [name for name in (_page_of(home, report_id) for report_id in reports) if home.store.exists(name)]
        calls = _remove(home, requests, [], files)
        done = _record(warehouse, "age", "", before, calls, len(files), [])
    home.warehouse.rewrite()
    return done


def _only(given: Mapping[str, Any], statement: str) -> dict[str, Any]:
    """The values that a statement takes."""
    return {name: value for name, value in given.items() if re.search(rf"\${name}\b", _SQL[statement])}


def _check_idle(warehouse: duckdb.DuckDBPyConnection, home: Home) -> None:
    """Raise UserError if a run is at work: it would bring back what is removed. None can begin while this session is.

    A process of this machine holds a lock while it works, also while it only waits, for a batch of a model, say. Of one
    on another machine nothing is known but when it began.
    """
    for run_id, started in warehouse.execute(_SQL["running"]).fetchall():
        folder = home.scratch / run_id
        at_work = is_held(folder / PROCESS)
        where = ""
        if at_work is None and home.shared:
            at_work = datetime.now(UTC) - started < _LONGEST_ELSEWHERE
            where = ", or was killed on another machine less than a day after its start"
        elif at_work is None and folder.is_dir():
            newest = max(file.stat().st_mtime for file in [folder, *folder.rglob("*")])
            at_work = time.time() - newest < _BUSY_S
        if at_work:
            raise UserError(f"{home}: the run {run_id} is at work{where}; wait for its end")


def _counts(warehouse: duckdb.DuckDBPyConnection) -> dict[str, int]:
    tables = [name for name, relation in relations().items() if not relation.is_view]
    return {table: warehouse.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0] for table in tables}


def _sweep(warehouse: duckdb.DuckDBPyConnection, moment: datetime) -> list[str]:
    """Remove what no answer needs any more; return the requests to judges that went with it."""
    warehouse.execute(_SQL["measurements"], {"before": moment})
    requests = [key for (key,) in warehouse.execute(_SQL["requests"]).fetchall()]
    warehouse.execute(_SQL["judge_calls"], {"requests": requests})
    return requests


def _mark_reports(warehouse: duckdb.DuckDBPyConnection, home: Home, report_ids: Sequence[str], sample: str) -> None:
    """Let reports, and comparisons of them, say that their numbers rest on answers that were removed."""
    day = datetime.now(UTC).date().isoformat()
    said = f"answers were removed on {day}, and these numbers are with them: answerkey rerun makes a report of the rest"
    for report in [read_report(warehouse, one, home) for one in report_ids]:
        manifest = json.dumps(_without(report.manifest, sample), ensure_ascii=False)
        message = "; ".join(filter(None, (report.message, said)))
        warehouse.execute(_SQL["set_report"], {"manifest": manifest, "message": message, "report_id": report.report_id})
        warned = {"said": f"answers were removed on {day}: these numbers are with them", "report_id": report.report_id}
        warehouse.execute(_SQL["warn"], warned)


def _without(content: Any, sample: str) -> Any:
    """A manifest without the id of a sample in its lists."""
    if isinstance(content, dict):
        return {name: _without(value, sample) for name, value in content.items()}
    return [_without(one, sample) for one in content if one != sample] if isinstance(content, list) else content


def _page_of(home: Home, report_id: str) -> str:
    dataset, release, version = report_id.rsplit("/", 2)
    return f"{PAGES}/{file_name(dataset)}/{file_name(release)}-{version}.html"


def _files_of(home: Home, dataset: str, release: str) -> list[str]:
    """Files that may hold texts of a data set: pages, generated answers and unfinished work."""
    names = [file.name for file in home.store.files(f"{PAGES}/{file_name(dataset)}")]
    generated = answers_name(dataset, release).rpartition("/")[0] if release else f"answers/{dataset}"
    names += [file.name for file in home.store.files(generated)]
    # What killed runs put into the store for their workers is in the scratch folder too, but for a lake.
    for work in ("parts", "runs") if home.shared else ("parts",):
        names += [file.name for file in home.store.files(work)]
    for folder in home.scratch.iterdir() if home.scratch.is_dir() else ():
        # A run that begins just now has nothing but its lock.
        if folder.is_dir() and is_work_folder(folder.name) and not is_held(folder / PROCESS):
            shutil.rmtree(folder, ignore_errors=True)
    return names


def _remove(home: Home, requests: Sequence[str], texts: Sequence[str], files: Sequence[str]) -> int:
    """Remove files of the home, and from the ledger the calls for these requests and those that quote one of the texts.

    Returns the number of calls.
    """
    for name in files:
        home.store.remove(name)
    if not ledger_exists(home.ledger):
        return 0
    heads: dict[str, list[str]] = {}
    for form in _forms(texts):
        heads.setdefault(form[:_LONG], []).append(form)
    wanted, whole = set(requests), set(texts)
    with closing(open_ledger(home.ledger)) as ledger:
        for row in ledger.calls():
            call = dict(zip(COLUMNS, row, strict=True))
            said = f"{call['reply'] or ''}\n{call['message'] or ''}"
            if call["reply"] in whole or _quotes(said, heads):
                wanted.add(call["request_key"])
        return ledger.forget(sorted(wanted))


def _forms(texts: Sequence[str]) -> set[str]:
    """The long ones of some texts, as they are and as JSON writes them."""
    long = [text for text in texts if len(text) >= _LONG]
    return {
        form for text in long for form in (text, *(json.dumps(text, ensure_ascii=one)[1:-1] for one in (True, False)))
    }


def _quotes(said: str, heads: Mapping[str, Sequence[str]]) -> bool:
    """Whether one of the texts in `heads`, by how they begin, is in `said`: in one pass, however many they are."""
    places = range(len(said) - _LONG + 1)
    return any(said.startswith(tuple(heads.get(said[place : place + _LONG], ())), place) for place in places)


def _record(
    warehouse: duckdb.DuckDBPyConnection,
    kind: str,
    reason: str,
    before: Mapping[str, int],
    calls: int,
    files: int,
    reports: Sequence[str],
) -> Removed:
    """Write down that something was removed."""
    rows = {table: n - now for table, now in _counts(warehouse).items() if (n := before[table]) > now}
    about = {
        "kind": kind, "reason": reason or None, "tables": list(rows), "counts": list(rows.values()),
        "n_calls": calls, "n_files": files, "reports": list(reports),
    }  # fmt: skip
    warehouse.execute(_SQL["add_removal"], about)
    [(removal,)] = warehouse.execute("SELECT max(removal) FROM removals").fetchall()
    return Removed(removal, rows, calls, files, tuple(reports))
