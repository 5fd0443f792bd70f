"""One file, short sessions, one lock: whoever comes waits, and whoever dies leaves the last state."""

import os
import subprocess
import sys
import threading
import time

import duckdb
import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.reports.commit import finish_run, start_run
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.warehouse import FILE, SNAPSHOT
from tests.conftest import ROOT
from tests.kit.processes import finished
from tests.kit.waiting import FAULT_S
from tests.tasks.staging_help import query
from tests.tasks.warehouse.process_help import RUN, RUNS, Other, write


@pytest.fixture
def home(tmp_path):
    """A warehouse with one committed run."""
    write(Home(tmp_path), "first")
    return Home(tmp_path)


def test_a_catalog_has_no_effect_on_a_folder_and_the_home_says_so(tmp_path, monkeypatch):
    assert Home(tmp_path).warning == ""
    monkeypatch.setenv("ANSWERKEY_CATALOG", "postgres:host=db")
    assert Home(tmp_path).warning == (
        f"ANSWERKEY_CATALOG has no effect on the home {tmp_path}, which is a folder; a lake is --home "
        f"s3://BUCKET/PREFIX"
    )
    assert Home("s3://bucket/home").warning == ""


def test_an_error_rolls_back(home):
    with pytest.raises(KeyboardInterrupt), home.warehouse.writing() as warehouse:
        warehouse.execute(RUN, ["second"])
        raise KeyboardInterrupt
    with pytest.raises(duckdb.CatalogException), home.warehouse.writing() as warehouse:
        warehouse.execute(RUN, ["third"])
        warehouse.execute("SELECT * FROM nowhere")
    assert query(home, RUNS) == [("first",)]


def test_files_that_were_taken_in_go_with_the_commit_and_not_before(home):
    part = home.local / "part.parquet"
    part.write_bytes(b"x")
    with pytest.raises(ValueError, match="no"), home.warehouse.writing(taken_in=["part.parquet"]):
        raise ValueError("no")
    assert part.exists()
    with home.warehouse.writing(taken_in=["part.parquet", "gone.parquet"]):
        assert part.exists()
    assert not part.exists()


def test_readers_cannot_write(home):
    with home.warehouse.reading() as one, home.warehouse.reading() as two:
        assert one.execute(RUNS).fetchall() == two.execute(RUNS).fetchall() == [("first",)]
        with pytest.raises(duckdb.InvalidInputException, match="read-only"):
            one.execute("DELETE FROM runs")


def test_a_reader_waits_for_a_writer(home):
    inside, seen = threading.Event(), []

    def read():
        inside.wait(FAULT_S)
        with home.warehouse.reading() as warehouse:
            seen.extend(warehouse.execute(RUNS).fetchall())

    reader = threading.Thread(target=read)
    reader.start()
    with home.warehouse.writing() as warehouse:
        warehouse.execute(RUN, ["second"])
        inside.set()
        reader.join(0.5)
        assert reader.is_alive() and seen == []
    reader.join(FAULT_S)
    assert seen == [("first",), ("second",)]


@pytest.mark.real
def test_a_writer_waits_for_a_writer_in_another_process(home):
    other = Other("with home.warehouse.writing() as w:\n    w.execute(RUN, ['other'])\n    wait()", home)
    timer = threading.Timer(0.5, other.go_on)
    timer.start()
    # Not before the other one has committed.
    with home.warehouse.writing() as warehouse:
        assert warehouse.execute(RUNS).fetchall() == [("first",), ("other",)]
        warehouse.execute(RUN, ["second"])
    timer.join()
    assert query(home, RUNS) == [("first",), ("other",), ("second",)]


@pytest.fixture
def shell(home):
    """A DuckDB shell, which ignores our lock and keeps the file open."""
    other = Other("connection = duckdb.connect(str(folder / 'answerkey.duckdb'))\nwait()", home)
    yield other
    if other.process.poll() is None:
        other.kill()


@pytest.mark.real
@pytest.mark.parametrize("session", ["reading", "writing"])
def test_another_program_keeps_the_file_open(home, shell, session):
    with pytest.raises(UserError) as error, getattr(home.warehouse, session)(wait_s=0.3):
        pass
    message = f"{home.local / FILE}: another program has it open; close that program and run again; what "
    message += "only reads can keep snapshot.duckdb open beside it"
    assert str(error.value) == message
    timer = threading.Timer(0.3, shell.go_on)
    timer.start()
    with getattr(home.warehouse, session)(wait_s=FAULT_S) as warehouse:
        assert warehouse.execute(RUNS).fetchall() == [("first",)]
    timer.join()


@pytest.mark.real
def test_killed_in_the_middle_of_a_transaction(home):
    script = "with home.warehouse.writing() as w:\n"
    script += "    w.execute('INSERT INTO runs SELECT i::VARCHAR, x, x, now(), NULL, $$running$$, NULL, {} "
    script += "FROM range(300000) t(i), (SELECT repeat(md5(i::VARCHAR), 3) AS x FROM range(1) t(i))')\n"
    other = Other(script.replace("{}", "$${}$$") + "    wait()", home)
    other.kill()
    with home.warehouse.reading() as warehouse:
        assert warehouse.execute(RUNS).fetchall() == [("first",)]
    write(home, "second")
    assert query(home, RUNS) == [("first",), ("second",)]


@pytest.mark.real
def test_killed_right_after_a_commit(home):
    """The rows are in the log beside the file only; the next session must bring them in."""
    script = (
        "connection = duckdb.connect(str(folder / 'answerkey.duckdb'))\nconnection.execute(RUN, ['second'])\nwait()"
    )
    Other(script, home).kill()
    assert (home.local / f"{FILE}.wal").stat().st_size > 0
    warehouses = home.warehouse
    for session in (warehouses.reading, warehouses.writing, warehouses.reading):
        with session() as warehouse:
            assert warehouse.execute(RUNS).fetchall() == [("first",), ("second",)]


def test_who_has_spilled_leaves_the_files_of_others_that_spill(home, tmp_path_factory):
    """A DuckDB that ends removes what is in the folder that it has spilled into, so it ends while it has the lock."""
    with home.warehouse.writing() as warehouse:
        warehouse.execute("SET memory_limit = '60MB'")
        warehouse.execute("CREATE TEMP TABLE many AS SELECT md5(i::VARCHAR) FROM range(2_000_000) t(i)")
        assert list((home.local / "spill").iterdir())
    of_another = home.local / "spill" / "duckdb_temp_storage_DEFAULT-0.tmp"
    of_another.parent.mkdir(exist_ok=True)
    of_another.touch()
    with Home(tmp_path_factory.mktemp("other")).warehouse.writing() as warehouse:
        [(limit,)] = warehouse.execute("SELECT current_setting('memory_limit')").fetchall()
    assert (of_another.exists(), limit) == (True, "381.4 MiB")


PUBLIC = {
    "scores": "report_id dataset dataset_version release sample_id metric field value status reason signature",
    "reports": "report_id dataset dataset_version release version created_at status manifest message",
    "report_scores": (
        "report_id release metric field slice n_total n_scored n_failed n_undefined n_skipped coverage mean "
        "ci_low ci_high ci_method bound_low bound_high"
    ),
    "latest_reports": "report_id dataset dataset_version release version created_at status manifest message",
    "quarantine": "run_id dataset source row sample_id release rule reason raw",
    "judge_calls": (
        "call_id request_key judge prompt run kind attempt format status code message started_at seconds tokens_in "
        "tokens_out cost_usd model fingerprint finish_reason reply"
    ),
    "comparisons": (
        "old_report new_report metric field slice n_common n_only_old n_only_new old new difference ci_low ci_high p "
        "p_adjusted mde needed fixed broken test finding note"
    ),
    "facts": "sample_key signature side fact_id fact status with_id",
    "report_facts": "report_id release sample_id question side fact_id fact status with_id with_fact",
    "sample_scores": "report_id release sample_id question references answer correct metric status reason values",
}


@pytest.mark.parametrize("table", PUBLIC)
def test_the_public_columns(home, table):
    columns = "SELECT column_name FROM information_schema.columns WHERE table_name = ? ORDER BY ordinal_position"
    rows = query(home, columns, [table])
    # There may be more in time, but these stay, in this order.
    assert [name for (name,) in rows if name in PUBLIC[table].split()] == PUBLIC[table].split()


def test_a_session_within_another_shares_the_file_that_it_has_open(home):
    with home.warehouse.reading() as outer, home.warehouse.reading() as inner:
        outer.execute("CREATE TABLE memory.note AS SELECT 1")
        assert inner.execute("FROM memory.note").fetchall() == [(1,)]
        outer.execute("DROP TABLE memory.note")


def test_a_folder_that_another_machine_works_with_is_refused(home):
    lock = home.local / f"{FILE}.lock"
    assert lock.read_text().split()[0] == os.uname().nodename
    lock.write_text("another-machine 0c7d\n")
    for session in (home.warehouse.reading, home.warehouse.writing):
        with pytest.raises(UserError) as error, session():
            pass
        assert str(error.value) == (
            f"{home}: the machine another-machine works with this folder too, which only one can; use a home that "
            "machines share (s3://BUCKET/PREFIX, see docs/lake.md), or, if another-machine is done for good, "
            f"remove {lock}"
        )
    # It has not been used for a while: it may have been copied here.
    os.utime(lock, (time.time() - 1_000, time.time() - 1_000))
    assert query(home, RUNS) == [("first",)]
    write(home, "second")
    assert lock.read_text().split()[0] == os.uname().nodename


def test_a_container_of_this_machine_and_this_machine_after_a_restart_may_go_on(home):
    lock = home.local / f"{FILE}.lock"
    [host, *boot] = lock.read_text().split()
    for known in ([f"{host}-container", *boot] if boot else [host], [host, "another-boot"]):
        lock.write_text(" ".join(known))
        with home.warehouse.writing():
            pass
        assert lock.read_text().split() == [host, *boot]


READER = """
import threading
stop, seen, file = threading.Event(), [], str(folder / "snapshot.duckdb")
kept = duckdb.connect(file, read_only=True)
def read():
    # Under other names each time, so that nothing is taken from what the process has open.
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{file}' AS s{len(seen)} (READ_ONLY)")
        counts = f"SELECT count(*), count(finished_at) FROM s{len(seen)}.runs"
        [(n, finished)] = connection.execute(counts).fetchall()
        assert n == finished
        seen.append(n)
def read_on():
    while not stop.is_set():
        read()
read()
reader = threading.Thread(target=read_on)
reader.start()
wait()
stop.set()
reader.join()
assert seen == sorted(seen), seen
print(len(seen), seen[0], seen[-1], kept.execute("SELECT count(*) FROM runs").fetchall()[0][0])
"""


@pytest.mark.nightly
def test_who_reads_the_snapshot_never_fails_and_never_stops_a_run(tmp_path):
    home = Home(tmp_path)
    start_run(home, "0", "flow", "data", {})
    finish_run(home, "0", "complete")
    other = Other(READER, tmp_path)
    for number in range(1, 11):
        start_run(home, str(number), "flow", "data", {})
        finish_run(home, str(number), "complete")
    n, first, last, kept = map(int, other.process.communicate("go\n", timeout=FAULT_S)[0].split())
    assert other.process.returncode == 0
    assert (kept, first) == (1, 1) and n >= 1 and last <= 11
    with duckdb.connect(str(tmp_path / SNAPSHOT), read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM runs").fetchall() == [(11,)]


@pytest.mark.nightly
def test_the_snapshot_has_what_a_killed_process_had_committed(home):
    script = "with duckdb.connect(str(folder / 'answerkey.duckdb')) as c:\n    c.execute(RUN, ['second'])\n    wait()"
    other = Other(script, home)
    other.process.kill()
    other.process.wait()
    assert (home.local / f"{FILE}.wal").exists()
    home.warehouse.publish()
    with duckdb.connect(str(home.local / SNAPSHOT), read_only=True) as connection:
        assert connection.execute(RUNS).fetchall() == [("first",), ("second",)]


FULL_DISK = """
import os, subprocess, sys
from pathlib import Path
from answerkey.tasks.reports.commit import finish_run, start_run
from answerkey.tasks.warehouse.home import Home
home = Home(Path(sys.argv[1]))
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=7m", "tmpfs", sys.argv[1]], check=True)
start_run(home, "again", "flow", "data", {})
rest = Path(sys.argv[1], "rest")
with rest.open("wb", buffering=0) as file:
    free = os.statvfs(sys.argv[1])
    file.write(bytes(free.f_bavail * free.f_frsize))
for write in (lambda: start_run(home, "again", "flow", "data", {}), lambda: finish_run(home, "again", "complete")):
    try:
        write()
    except Exception as error:
        print("No space left on device" in str(error))
rest.unlink()
start_run(home, "again", "other", "data", {})
with home.warehouse.reading() as warehouse:
    print(warehouse.execute("SELECT flow, status FROM runs").fetchall())
"""


@pytest.mark.real
def test_a_full_disk_is_an_error_and_not_the_end_of_the_process(tmp_path):
    if subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode:
        pytest.skip("a disk can only be mounted as root")
    command = ["unshare", "-m", sys.executable, "-c", FULL_DISK, str(tmp_path)]
    run = finished(command, cwd=ROOT)
    assert (run.returncode, run.stdout.splitlines()) == (0, ["True", "True", "[('other', 'running')]"]), run.stderr
