"""What killed runs leave behind goes after its time; nothing else ever does."""

import os
import time

from answerkey.tasks.maintenance import close_runs, prune
from answerkey.tasks.reports.commit import finish_run, start_run
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.store import PROCESS, locked

DAY = 86_400


def aged(file, days):
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        file.write_text("12345")
    for one in (file, file.parent):
        os.utime(one, (time.time() - days * DAY,) * 2)
    return file


def test_only_what_is_old_and_unused_goes(home, tmp_path):
    works, killed, unknown = (f"{n}b5e3b0e-8a52-4c0f-9d57-3f1a4a7c1d11" for n in range(3))
    for run in (works, killed):
        start_run(home, run, "evaluate-release", "faq", {})
    finish_run(home, killed, "stopped", "Crashed")
    stays = [
        aged(tmp_path / "runs" / works / "staged.parquet", 9),
        aged(tmp_path / "runs" / "2a5e3b0e8a524c0f9d573f1a4a7c1d11" / "staged.parquet", 1),
        aged(tmp_path / "runs" / "of-the-user" / "model.pt", 99),
        aged(tmp_path / "parts" / "b" / "0-9.parquet", 6.9),
        tmp_path / "answerkey.duckdb",
    ]
    goes = [
        aged(tmp_path / "runs" / killed / "staged.parquet", 9),
        aged(tmp_path / "runs" / unknown / "staged.parquet", 9),
        aged(tmp_path / "parts" / "a" / "0-9.parquet", 7.1),
        aged(tmp_path / "parts" / "a" / "9-18.parquet.44.part", 7.1),
    ]
    gone = prune(home, 7)
    assert (gone.folders, gone.files, gone.size) == (2, 2, 20)
    assert [file for file in goes if file.exists()] == []
    assert not (tmp_path / "parts" / "a").exists()
    assert [file for file in stays if not file.exists()] == []
    assert prune(Home(tmp_path / "nowhere"), 7).files == 0


def test_a_run_that_no_server_knows_is_closed_after_a_month(tmp_path):
    home = Home(tmp_path)
    killed = "0b5e3b0e-8a52-4c0f-9d57-3f1a4a7c1d11"
    for run in (killed, "works", "done"):
        start_run(home, run, "evaluate-release", "faq", {})
    finish_run(home, "done", "complete")
    with home.warehouse.writing() as warehouse:
        warehouse.execute("UPDATE runs SET started_at = now() - to_days(31) WHERE run_id <> 'works'")
    assert (close_runs(home), close_runs(home)) == (1, 0)
    with home.warehouse.reading() as warehouse:
        rows = dict(warehouse.execute("SELECT run_id, status FROM runs").fetchall())
        [(message,)] = warehouse.execute("SELECT message FROM runs WHERE status = 'stopped'").fetchall()
    assert rows == {killed: "stopped", "works": "running", "done": "complete"}
    assert message == "no word for 30 days, and no server knows it: its process is gone"
    folder = aged(tmp_path / "runs" / killed / "staged.parquet", 9).parent
    assert (prune(home, 7).folders, folder.exists()) == (1, False)


def test_a_run_that_no_server_knows_is_closed_once_its_process_is_gone(tmp_path):
    home = Home(tmp_path)
    for run in ("killed", "works", "elsewhere"):
        start_run(home, run, "evaluate-release", "faq", {})
    # What is left of a process that was killed: its file, and no lock.
    for run in ("killed", "works"):
        (home.scratch / run).mkdir(parents=True)
    (home.scratch / "killed" / PROCESS).touch()
    with locked(home.scratch / "works" / PROCESS):
        assert (close_runs(home), close_runs(home)) == (1, 0)
    with home.warehouse.reading() as warehouse:
        rows = dict(warehouse.execute("SELECT run_id, message FROM runs WHERE status = 'stopped'").fetchall())
    assert rows == {"killed": "no server knows it, and its process is gone"}
