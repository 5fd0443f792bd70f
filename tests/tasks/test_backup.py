"""A copy that is made while others write is one state, and a home."""

import shutil
import threading

import pytest

from answerkey.tasks.backup import backup
from answerkey.tasks.reports.commit import finish_run, start_run
from answerkey.tasks.reports.report import latest_run
from answerkey.tasks.verify import verify
from answerkey.tasks.warehouse.home import Home
from tests.tasks.judging_help import judged_home
from tests.tasks.staging_help import query, refusal


@pytest.mark.slow
def test_a_backup_is_a_home_and_can_be_put_in_place_of_the_other(tmp_path):
    folder = tmp_path / "home"
    home, stop = judged_home(folder), threading.Event()
    (folder / "great_expectations/gx").mkdir(parents=True)
    (folder / "great_expectations/gx/great_expectations.yml").write_text("config_version: 4.0", encoding="utf-8")
    (folder / "answers").mkdir()
    (folder / "answers/unfinished.7.part").touch()
    newest = latest_run(home)

    def write():
        number = 0
        while not stop.is_set():
            start_run(home, f"run-{number}", "flow", "data", {})
            finish_run(home, f"run-{number}", "complete")
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        done = backup(home, tmp_path / "backup")
    finally:
        stop.set()
        writer.join()
    assert (done.reports, done.files) == (2, 1) and done.calls > 0
    assert (tmp_path / "backup/great_expectations/gx/great_expectations.yml").exists()
    assert not list((tmp_path / "backup").rglob("*.part"))
    assert latest_run(Home(tmp_path / "backup")) == newest
    assert verify(Home(tmp_path / "backup")).findings == ()
    assert not list(tmp_path.glob("*.part"))
    # What was made after it goes when it is put back.
    before = query(tmp_path / "backup", "SELECT count(*) FROM runs")
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "backup", folder)
    assert query(folder, "SELECT count(*) FROM runs") == before
    start_run(home, "next", "flow", "data", {})
    assert query(folder, "SELECT count(*) FROM runs") == [(before[0][0] + 1,)]


def test_what_cannot_be_backed_up_is_said(tmp_path):
    assert "no warehouse here yet" in refusal(backup, Home(tmp_path / "none"), tmp_path / "backup")
    assert "answerkey warehouse move s3://bucket/home FOLDER" in refusal(
        backup, Home("s3://bucket/home"), tmp_path / "backup"
    )
