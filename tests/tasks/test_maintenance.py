"""What killed runs leave behind goes after its time; nothing else ever does."""

import os
import time
from pathlib import Path

from answerkey.metrics_core.llm.sqlite_owners import Owners
from answerkey.tasks.load.load import Source
from answerkey.tasks.maintenance import close_runs, prune
from answerkey.tasks.releases.register import register
from answerkey.tasks.reports.commit import finish_run, start_run
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.store import PROCESS
from tests.tasks.staging_help import jsonl

DAY = 86_400


def aged(file: Path, days: float) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        file.write_text("12345")
    for one in (file, file.parent):
        os.utime(one, (time.time() - days * DAY,) * 2)
    return file


def test_only_what_is_old_and_unused_goes(tmp_path: Path) -> None:
    for run in ("works", "was-killed"):
        start_run(Home(tmp_path), run, "evaluate-release", "faq", {})
    finish_run(Home(tmp_path), "was-killed", "stopped", "Crashed")
    register(
        Home(tmp_path),
        Source(jsonl(tmp_path / "a.jsonl", [{"id": "1", "answer": "a", "reference": "b"}]), None, "d", "r"),
    )
    for kept in (tmp_path / "registered").iterdir():
        aged(kept, 99)
    stays = [
        aged(tmp_path / "runs" / "works" / "staged.parquet", 9),
        aged(tmp_path / "runs" / "new" / "staged.parquet", 1),
        aged(tmp_path / "parts" / "b" / "0-9.parquet", 6.9),
        tmp_path / "answerkey.duckdb",
        *(tmp_path / "registered").iterdir(),
    ]
    goes = [
        aged(tmp_path / "runs" / "was-killed" / "staged.parquet", 9),
        aged(tmp_path / "runs" / "unknown" / "staged.parquet", 9),
        aged(tmp_path / "registered" / "new-1" / "answers.jsonl", 9),
        aged(tmp_path / "registered" / "a.jsonl.7.part", 9),
        aged(tmp_path / "parts" / "a" / "0-9.parquet", 7.1),
        aged(tmp_path / "parts" / "a" / "9-18.parquet.44.part", 7.1),
    ]
    gone = prune(Home(tmp_path), 7)
    assert (gone.folders, gone.files, gone.size) == (3, 3, 30)
    assert [file for file in goes if file.exists()] == []
    assert not (tmp_path / "parts" / "a").exists()
    assert [file for file in stays if not file.exists()] == []
    assert prune(Home(tmp_path / "nowhere"), 7).files == 0


def test_a_run_that_no_server_knows_is_closed_after_a_month(tmp_path: Path) -> None:
    home = Home(tmp_path)
    for run in ("killed", "works", "done"):
        start_run(home, run, "evaluate-release", "faq", {})
    finish_run(home, "done", "complete")
    with home.warehouse.writing() as warehouse:
        warehouse.execute("UPDATE runs SET started_at = now() - to_days(31) WHERE run_id <> 'works'")
    assert (close_runs(home), close_runs(home)) == (1, 0)
    with home.warehouse.reading() as warehouse:
        rows = dict(warehouse.execute("SELECT run_id, status FROM runs").fetchall())
        [(message,)] = warehouse.execute("SELECT message FROM runs WHERE run_id = 'killed'").fetchall()
    assert rows == {"killed": "stopped", "works": "running", "done": "complete"}
    assert message == "no word for 30 days, and no server knows it: its process is gone"
    folder = aged(tmp_path / "runs" / "killed" / "staged.parquet", 9).parent
    assert (prune(home, 7).folders, folder.exists()) == (1, False)


def test_a_run_that_no_server_knows_is_closed_once_its_process_is_gone(tmp_path: Path) -> None:
    home = Home(tmp_path)
    for run in ("killed", "works", "elsewhere"):
        start_run(home, run, "evaluate-release", "faq", {})
    # What is left of a process that was killed: its file, and no lock.
    Owners(home.scratch / "killed", PROCESS).close()
    (home.scratch / "killed" / PROCESS).touch()
    works = Owners(home.scratch / "works", PROCESS)
    assert (close_runs(home), close_runs(home)) == (1, 0)
    with home.warehouse.reading() as warehouse:
        rows = dict(warehouse.execute("SELECT run_id, message FROM runs WHERE status = 'stopped'").fetchall())
    assert rows == {"killed": "no server knows it, and its process is gone"}
    works.close()
