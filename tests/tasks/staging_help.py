"""The steps of a run in the order of the flow, called as the plain functions that they are; and files to run on."""

import json
import threading
import uuid
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from typing import Any

import duckdb
import openpyxl
import pyarrow.parquet as pq
import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.options import OFFLINE_JUDGE
from answerkey.metrics_core.llm.access import Access
from answerkey.metrics_core.llm.ledger import COLUMNS, ledger_exists, open_ledger
from answerkey.metrics_core.registry import create
from answerkey.tasks.load.load import Loaded, Source, load
from answerkey.tasks.releases.export import stored_answers
from answerkey.tasks.releases.register import register
from answerkey.tasks.reports.aggregate import aggregate
from answerkey.tasks.reports.commit import Committed, commit, record_validation
from answerkey.tasks.reports.manifest import manifest
from answerkey.tasks.reports.report import Report, read_reports
from answerkey.tasks.score.check import check_judges
from answerkey.tasks.score.plan import Plan, plan
from answerkey.tasks.score.score import score
from answerkey.tasks.score.shard import fail_shard
from answerkey.tasks.validate.contract import Contract
from answerkey.tasks.validate.validate import Validation, validate
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.schema import relations
from answerkey.tasks.warehouse.warehouse import FILE, quoted

Row = dict[str, Any]


@dataclass(frozen=True)
class Done:
    """What each step of a run returned."""

    run_id: str
    loaded: Loaded
    validation: Validation
    plan: Plan
    committed: Committed
    reports: tuple[Report, ...]

    @property
    def ids(self):
        return [report.report_id for report in self.reports]


def run(
    home,
    source,
    metrics=("rouge_l",),
    *,
    only_failed=False,
    failing=(),
    contract=None,
    parameters=None,
    options=None,
    min_coverage=0.95,
):
    """Load, validate, plan, score, commit and aggregate. Shards of `failing` metrics are written down as failed.

    Rows in place of a source are answers on the data set `d`. Judges get the ledger in `home`, and the run for their
    budget.
    """
    run_id, home = uuid.uuid4().hex, at(home)
    source = source if isinstance(source, Source) else source_of(home, source)
    access = Access(ledger=home.ledger, run=run_id)
    made_of = create(metrics, {**(options or {}), "access": access})
    work = home.scratch / run_id
    loaded = load(source, work)
    validation = validate(loaded.staged, loaded.rejects, str(work), contract or Contract())
    record_validation(home, run_id, source.answers, loaded, validation)
    assert validation.broken is None, validation.broken
    planned = plan(validation.accepted, home, work, made_of, only_failed=only_failed)
    planned = check_judges(planned)
    parts = [score_or_fail(shard, failing) for shard in planned.shards]
    committed = commit(home, run_id, source.answers, loaded, validation.accepted, parts)
    made = manifest(
        run_id, parameters or {}, loaded, validation, planned, (options or {}).get("judge", OFFLINE_JUDGE), access
    )
    reports = aggregate(home, committed, made_of, made, min_coverage=min_coverage)
    return Done(run_id, loaded, validation, planned, committed, reports)


def registered(home, source):
    """Register a release under a run of its own."""
    run_id, home = uuid.uuid4().hex, at(home)
    return register(home, source, run_id, home.scratch / run_id)


def stored(home, report_id, folder):
    """The answers of a report, written from the warehouse."""
    [report] = read_reports(at(home), [report_id])
    return stored_answers(
        at(home), report.dataset, report.dataset_version, report.release, report.answers_version, folder
    )


def score_or_fail(shard, failing):
    if shard.metric.name in failing:
        return fail_shard(shard, "TimeoutError: no answer")
    return score(shard, spawn=False)


def stage(folder, rows, name="answers", **source):
    """Write rows as JSON Lines under `folder` and load them."""
    return load(Source(jsonl(folder / f"{name}.jsonl", rows), **source), folder / "work")


def staged(folder, rows, **source):
    """The staged rows of a file with these rows."""
    return rows_of(stage(folder, rows, **source).staged)


def source_of(folder, rows, name="d", **more):
    """Rows as a source of answers: JSON Lines in a folder, or in that of a home."""
    return Source(jsonl(at(folder).local / f"{name}.jsonl", rows), **more)


def jsonl(file, rows, mode="w"):
    """Write rows, and lines that are none, as JSON Lines and return the path as a source names it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open(mode, encoding="utf-8") as out:
        out.writelines((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)
    return str(file)


def workbook(file, **sheets):
    """Write a workbook; a cell may be a value with its number format."""
    book = openpyxl.Workbook()
    book.remove(book.worksheets[0])
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for number, row in enumerate(rows, start=1):
            for column, value in enumerate(row, start=1):
                content, *shape = value if isinstance(value, tuple) else (value,)
                cell = sheet.cell(number, column, content)
                cell.number_format = shape[0] if shape else cell.number_format
    book.save(file)
    return str(file)


def rows_of(file):
    """The rows of a Parquet file."""
    found = pq.read_table(file).to_pylist()
    return found


def refusal(call, *arguments, **options):
    """The message, of one line, with which a call refuses its arguments."""
    with pytest.raises(UserError) as error:
        call(*arguments, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def at(home):
    """A home, also where a test has its folder."""
    return home if isinstance(home, Home) else Home(home)


def query(home, sql, parameters=()):
    """Rows of the warehouse; of a file as any DuckDB tool sees them: past the lock, with DuckDB alone."""
    if isinstance(home, Home) and isinstance(home.place, str):
        with home.warehouse.reading() as warehouse:
            return warehouse.execute(sql, parameters).fetchall()
    if isinstance(home, Home):
        home = home.local
    with _started_once().cursor() as connection:
        own = f"home_{threading.get_ident()}"
        connection.execute(f"ATTACH {quoted(home / FILE)} AS {own} (READ_ONLY); USE {own}")
        try:
            return connection.execute(sql, parameters).fetchall()
        finally:
            connection.execute(f"USE memory; DETACH {own}")


@cache
def _started_once():
    """A DuckDB that the files of all tests are attached to: to start one takes twice as long as to open a file."""
    return duckdb.connect()


UNEVEN = """
SELECT report_id, metric, field, n_total, n_rows FROM report_scores
JOIN (SELECT report_id, metric, field, count(*) AS n_rows FROM scores GROUP BY ALL) USING (report_id, metric, field)
WHERE slice = '' AND n_total <> n_rows
"""


def check_whole(home: Home) -> None:
    """Assert that nothing is there twice or by half: keys, the rows behind each mean, and paid calls."""
    with home.warehouse.reading() as warehouse:
        for name, relation in relations().items():
            if relation.key:
                key = ", ".join(relation.key)
                twice = warehouse.execute(f"SELECT {key} FROM {name} GROUP BY ALL HAVING count(*) > 1").fetchall()
                assert twice == [], name
        assert warehouse.execute(UNEVEN).fetchall() == []
        unmeasured = "SELECT count(*) FROM report_scores ANTI JOIN reports USING (report_id)"
        assert warehouse.execute(unmeasured).fetchall() == [(0,)]
        calls = warehouse.execute("SELECT call_id, reply FROM judge_calls").fetchall()
    if ledger_exists(home.ledger):
        with closing(open_ledger(home.ledger)) as ledger:
            paid = {row[COLUMNS.index("call_id")]: row[COLUMNS.index("reply")] for row in ledger.calls()}
        assert {call_id: paid.get(call_id) for call_id, _ in calls} == dict(calls)
