"""A home in a bucket: one writer at a time over processes and machines, upkeep, and a backup; nothing is lost."""

import hashlib
import importlib.util
import os
import pickle
import signal
import subprocess
import threading
from pathlib import Path

import duckdb
import psycopg
import pytest
from pyarrow.fs import FileSelector, FileType, LocalFileSystem, S3FileSystem, copy_files

from answerkey.metrics_core.llm.access import CallLimits
from answerkey.metrics_core.llm.ledger import open_ledger
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.lake import CATALOG, DATA
from answerkey.tasks.warehouse.store import Unreachable
from answerkey.tasks.warehouse.warehouse import Maintained
from tests.cluster_servers import Postgres, SeaweedFS, postgres_binaries
from tests.cluster_servers import lake as new_lake
from tests.kit.waiting import FAULT_S, wait_until
from tests.metrics_core.judges.asking import call
from tests.tasks.staging_help import query, refusal, run, source_of
from tests.tasks.warehouse.process_help import RUN, RUNS, Other, write

ROWS = [
    {"id": f"q{i}", "question": f"Q{i}", "answer": f"a {i}", "references": [f"a {i} b"], "release": release}
    for release in ("two", "one")
    for i in range(30)
]


@pytest.mark.parametrize(
    ("place", "catalog", "message"),
    [
        ("s3://bucket/home", "", 's3://bucket/home: a home in a bucket needs a catalog; set ANSWERKEY_CATALOG="postgres'
        ':host=HOST dbname=NAME"'),
        ("s3://bucket/home", "postgres:hidden=x", 'ANSWERKEY_CATALOG: write it as "postgres:host=HOST dbname=NAME"'),
        ("s3://bucket/home", "postgres:host=db password=hidden",
         "ANSWERKEY_CATALOG holds a password, and would show it: keep it in PGPASSWORD or PGPASSFILE"),
        ("s3://bucket/home", "postgresql://me:hidden@db/x",
         "ANSWERKEY_CATALOG holds a password, and would show it: keep it in PGPASSWORD or PGPASSFILE"),
        ("s3://bucket", "postgres:host=db",
         "s3://bucket: write the home as s3://BUCKET/PREFIX, of letters, digits and any of . _ - = +"),
        ("s3://bucket/a/../b", "postgres:host=db",
         "s3://bucket/a/../b: write the home as s3://BUCKET/PREFIX, of letters, digits and any of . _ - = +"),
        ("gs://bucket/a", "postgres:host=db",
         "gs://bucket/a: the home must be a folder on a disk of this machine, or s3://BUCKET/PREFIX"),
    ],
)  # fmt: skip
def test_a_place_that_cannot_be_used_is_refused_in_one_line(place, catalog, message, monkeypatch):
    monkeypatch.setenv(CATALOG, catalog)
    assert refusal(Home.parse, place) == message


@pytest.mark.parametrize("missing", ["psycopg", "duckdb_extension_ducklake"])
def test_without_the_extra_its_name_is_said(lake, missing, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else find(name))

    def opened():
        return Home.parse(lake).warehouse.exists()

    assert refusal(opened) == "a home in a bucket needs the extra cluster: pip install 'answerkey[cluster]'"


def test_an_extension_of_another_duckdb_is_refused(lake, monkeypatch):
    version = duckdb.__version__
    monkeypatch.setattr(duckdb, "__version__", "1.0.0")
    assert refusal(Home.parse(lake).warehouse.exists) == (
        f"duckdb-extension-httpfs is for DuckDB {version}, and 1.0.0 is installed; "
        "pip install 'duckdb-extension-httpfs==1.0.0'"
    )


def test_a_catalog_that_does_not_answer_or_belongs_to_another_home(lake, s3_server, postgres_server, monkeypatch):
    home = Home.parse(lake)
    write(home, "first")
    other = lake.replace("evaluations", "others")
    assert refusal(Home.parse(other).warehouse.exists) == (
        f"{other}: ANSWERKEY_CATALOG names the catalog of {lake}; each home has a database of its own"
    )
    monkeypatch.setenv(CATALOG, f"postgres:host=127.0.0.1 port={postgres_server.port} dbname=nowhere user=answerkey")
    with pytest.raises(Unreachable, match=r"^s3://.*: the catalog does not answer: .*nowhere.* does not exist$"):
        Home.parse(lake).warehouse.exists()


def test_a_home_travels_without_a_secret(lake, s3_server, postgres_server):
    home = Home.parse(lake)
    write(home, "first")
    sent = pickle.dumps(home)
    for secret in (s3_server.secret_key, s3_server.access_key, postgres_server.password):
        assert secret.encode() not in sent
        assert secret not in repr(home) + home.ledger
    assert pickle.loads(sent) == home
    assert home.ledger == f"postgresql:{os.environ[CATALOG].removeprefix('postgres:')}"
    assert home.scratch.is_relative_to(os.environ["ANSWERKEY_SCRATCH"])


def test_sessions_leave_the_schema_alone(lake):
    home = Home.parse(lake)
    write(home, "first")
    versions = "SELECT count(DISTINCT schema_version) FROM ducklake_snapshots('lake')"
    [(before,)] = query(home, versions)
    for number in range(10):
        write(home, f"run {number}")
    assert query(home, versions) == [(before,)]
    assert query(home, "SELECT count(*) FROM ducklake_snapshots('lake')")[0][0] >= 11


def test_parts_are_never_among_the_files_of_the_lake(lake, tmp_path):
    home = Home.parse(lake)
    run(home, source_of(tmp_path, ROWS))
    names = [file.name for file in home.store.files("")]
    inside = [name for name in names if name.startswith(f"{DATA}/")]
    assert inside and all(Path(name).name.startswith("ducklake-") for name in inside)
    # The parts were taken in; what workers read stays until the run ends.
    assert {Path(name).parts[0] for name in names} == {DATA, "runs"}
    assert home.warehouse.size()[1] > 0


def test_a_writer_is_killed_before_its_commit(lake):
    home = Home.parse(lake)
    write(home, "first")
    other = Other(
        "with home.warehouse.writing() as warehouse:\n"
        "    warehouse.execute(\"INSERT INTO quarantine SELECT 'r', 'd', 's', i, '', '', 'x', 'y', '' "
        'FROM range(5000) t(i)")\n'
        "    wait()",
        home,
    )
    orphans = [file.name for file in home.store.files(f"{DATA}/main/quarantine")]
    other.kill()
    # Its lock is free with its connection.
    write(home, "second")
    assert query(home, RUNS) == [("first",), ("second",)]
    assert (query(home, "SELECT count(*) FROM quarantine"), len(orphans)) == ([(0,)], 1)


def kill_backends(conninfo):
    """kill -9 of a backend ends all of them: PostgreSQL recovers as after a crash."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        [(pid,)] = connection.execute("SELECT pg_backend_pid()").fetchall()
        backends = [one for (one,) in connection.execute("SELECT pid FROM pg_stat_activity WHERE datname IS NOT NULL")]
        assert pid in backends
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    # The others end a moment later: until then, they would still commit.
    wait_until(lambda: not any(Path(f"/proc/{one}").exists() for one in backends), "the end of the backends")


def test_a_backend_of_the_catalog_is_killed(lake):
    home, conninfo = Home.parse(lake), os.environ[CATALOG].removeprefix("postgres:")
    write(home, "first")
    kill_backends(conninfo)
    # Between two sessions, it is not even noticed.
    write(home, "second")
    with pytest.raises(Unreachable) as error, home.warehouse.writing() as warehouse:
        warehouse.execute(RUN, ["lost"])
        kill_backends(conninfo)
    # Which of its connections notices first is chance.
    assert str(error.value).startswith(f"{lake}: ") and "\n" not in str(error.value)
    write(home, "third")
    assert query(home, RUNS) == [("first",), ("second",), ("third",)]


def in_thread(function):
    """Call a function in a thread; what it returns or raises is in the list at the end."""
    outcome = []

    def call():
        try:
            outcome.append(function())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    return thread, outcome


@pytest.mark.nightly
def test_servers_that_are_gone_for_a_while_are_waited_for(tmp_path):
    postgres, s3 = Postgres(), SeaweedFS()
    try:
        with new_lake(postgres, s3) as address:
            home = Home.parse(address)
            write(home, "first")
            for server in (s3, postgres):
                server.kill()
                # Many rows, so that a file is written: a few stay in the catalog.
                insert = (
                    "INSERT INTO quarantine SELECT 'r', 'd', 's', i, NULL, NULL, 'x', 'y', NULL FROM range(50) t(i)"
                )

                def add(statement=insert):
                    with home.warehouse.writing() as warehouse:
                        warehouse.execute(statement)

                adding, outcome = in_thread(add)
                adding.join(0.5)
                assert adding.is_alive()
                server.start()
                adding.join(FAULT_S)
                assert outcome == [None]
            assert query(home, "SELECT count(*) FROM quarantine") == [(100,)]
    finally:
        postgres.close()
        s3.close()


def test_scores_are_those_of_a_file(lake, tmp_path):
    rows = [{**row, "answer": f"{row['answer']} {'b' * (i % 3)}", "lang": "ru" if i % 2 else "en"}
            for i, row in enumerate(ROWS)]  # fmt: skip
    source = source_of(tmp_path, rows, slices=("lang",))
    found = []
    for home in (Home(tmp_path / "home"), Home.parse(lake)):
        run(home, source, ["answer_correctness", "rouge_l"])
        tables = {
            "scores": "*",
            "report_scores": "* EXCLUDE (mean, ci_low, ci_high)",
            "measurements": "* EXCLUDE (run_id, created_at, seconds)",
            "answers": "*",
            "samples": "*",
            "quarantine": "* EXCLUDE (run_id)",
            "validations": "* EXCLUDE (run_id)",
        }
        content = repr([query(home, f"SELECT {what} FROM {table} ORDER BY ALL") for table, what in tables.items()])
        means = query(home, "SELECT mean FROM report_scores ORDER BY report_id, metric, field, slice")
        found.append((hashlib.sha256(content.encode()).hexdigest(), means))
    assert found[0][0] == found[1][0]
    assert [mean for (mean,) in found[0][1]] == pytest.approx([mean for (mean,) in found[1][1]], abs=1e-12)


def test_a_claim_is_of_one_process_and_ends_with_it(any_home):
    other = Other("with home.warehouse.claimed('a rule') as mine:\n    assert mine\n    wait()", any_home)
    with any_home.warehouse.claimed("a rule") as mine, any_home.warehouse.claimed("another") as another:
        assert (mine, another) == (False, True)
    other.kill()
    with any_home.warehouse.claimed("a rule", wait=True) as mine:
        assert mine


ADD = "INSERT INTO datasets SELECT 'data', $version || range, now(), range, NULL FROM range(100)"


def catalog_of(home):
    return home.ledger.removeprefix("postgresql:")


def add(home, version):
    """A hundred rows, too many to be kept in the catalog; returns the number of the new state."""
    with home.warehouse.writing() as connection:
        connection.execute(ADD, {"version": version})
    [(number,)] = query(home, "SELECT id FROM ducklake_current_snapshot('lake')")
    return number


def versions(home, at=""):
    with home.warehouse.reading() as connection:
        [(n,)] = connection.execute(f"SELECT count(DISTINCT version) FROM datasets {at}").fetchall()
    return int(n)


def test_a_file_gives_free_what_was_deleted(tmp_path):
    home = Home.parse(tmp_path / "home")
    with home.warehouse.writing() as connection:
        connection.execute("INSERT INTO datasets SELECT 'data', md5(range::VARCHAR), now(), 1, NULL FROM range(50_000)")
    assert home.warehouse.maintain() == Maintained()
    assert versions(home) == 50_000
    assert not Path(f"{home.warehouse.size()[0]}.wal").exists()


class TestBackup:
    """As docs/lake.md has it: the database first, then the bucket; back in the same order."""

    @pytest.fixture
    def restored(self, postgres_server):
        with postgres_server.database() as conninfo:
            yield conninfo

    def program(self, name, *arguments):
        subprocess.run([postgres_binaries() / name, *map(str, arguments)], check=True, env=dict(os.environ))

    def bucket(self):
        return S3FileSystem(endpoint_override=os.environ["AWS_ENDPOINT_URL"], region="us-east-1")

    @pytest.mark.nightly
    def test_a_lake_comes_back(self, lake, restored, tmp_path, monkeypatch):
        home, place = Home.parse(lake), lake.removeprefix("s3://")
        for version in "ab":
            add(home, version)
        with home.store.atomic_write("pages/a.html") as page:
            page.write_text("a page")
        ledger = open_ledger(home.ledger)
        assert ledger.claim("k")
        _, number = ledger.start(CallLimits(run="run"), call(), 0.1)
        ledger.finish(number, "usable", {"reply": "yes", "cost_usd": 0.01})
        ledger.close()
        self.program("pg_dump", "--format=custom", f"--file={tmp_path / 'catalog'}", f"--dbname={catalog_of(home)}")
        # Written between the two: nothing of it comes back, and nothing of it is in the way.
        add(home, "c")
        copy_files(place, str(tmp_path / "bucket"), source_filesystem=self.bucket())
        self.bucket().delete_dir_contents(place)
        self.program("pg_restore", "--no-owner", f"--dbname={restored}", tmp_path / "catalog")
        copy_files(
            str(tmp_path / "bucket"), place, source_filesystem=LocalFileSystem(), destination_filesystem=self.bucket()
        )
        monkeypatch.setenv("ANSWERKEY_CATALOG", f"postgres:{restored}")
        back = Home.parse(lake)
        assert versions(back) == 200
        assert back.store.read("pages/a.html").read() == b"a page"
        ledger = open_ledger(back.ledger)
        assert (ledger.reply("k"), ledger.spent("run").cost_usd) == ("yes", 0.01)
        ledger.close()
        add(back, "d")
        assert versions(back) == 300
        found = self.bucket().get_file_info(FileSelector(place, recursive=True))
        assert len([one for one in found if one.type == FileType.File and "/datasets/" in one.path]) == 4
