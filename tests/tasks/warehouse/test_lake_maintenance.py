"""What is done to a lake every night, and how it comes back from a backup."""

import os
import subprocess
from pathlib import Path

import duckdb
import psycopg
import pytest
from pyarrow.fs import FileSelector, FileType, LocalFileSystem, S3FileSystem, copy_files

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.ledger import Budget, open_ledger
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.lake import Lake
from answerkey.tasks.warehouse.warehouse import Maintained
from tests.cluster_servers import postgres_binaries
from tests.tasks.staging_help import run, source_of

ADD = "INSERT INTO datasets SELECT 'data', $version || range, now(), range, NULL FROM range(100)"
OLDER = "UPDATE {} SET {} = {} - INTERVAL '40 days'"


def catalog_of(home):
    return home.ledger.removeprefix("postgresql:")


def add(home, version):
    """A hundred rows, too many to be kept in the catalog; returns the number of the new state."""
    with home.warehouse.writing() as connection:
        connection.execute(ADD, {"version": version})
    number = home.warehouse.snapshot()
    assert number is not None
    return number


def versions(home, at=""):
    with home.warehouse.reading() as connection:
        [(n,)] = connection.execute(f"SELECT count(DISTINCT version) FROM datasets {at}").fetchall()
    return int(n)


def files(home):
    return {file.name for file in home.store.files("data") if "/datasets/" in file.name}


@pytest.mark.slow
def test_a_lake_keeps_fewer_files_and_a_month_of_states(lake):
    home = Home.parse(lake)
    with pytest.raises(UserError, match="no warehouse here yet"):
        home.warehouse.maintain()
    first = add(home, "a")
    with psycopg.connect(catalog_of(home)) as catalog:
        # As if the first state, and the making of the tables, had been 40 days ago.
        catalog.execute(OLDER.format("ducklake_snapshot", "snapshot_time", "snapshot_time"))
    last = [add(home, version) for version in "bcd"][-1]
    small = files(home)
    assert (len(small), versions(home)) == (4, 400)
    done = home.warehouse.maintain()
    assert (done.merged, done.removed) == (4, 0)
    assert done.states >= first
    # Readers of a moment ago may still need them.
    assert files(home) > small
    assert (versions(home), versions(home, f"AT (VERSION => {last})")) == (400, 400)
    with pytest.raises(duckdb.Error, match=r"(?i)snapshot"), home.warehouse.reading() as connection:
        connection.execute(f"SELECT count(*) FROM datasets AT (VERSION => {first})").fetchall()
    with psycopg.connect(catalog_of(home)) as catalog:
        catalog.execute(OLDER.format("ducklake_files_scheduled_for_deletion", "schedule_start", "schedule_start"))
    assert home.warehouse.maintain() == Maintained(0, 0, 4)
    assert (len(files(home)), versions(home), files(home) & small) == (1, 400, set())
    assert home.warehouse.maintain() == Maintained()


@pytest.mark.slow
def test_parts_and_young_orphans_stay(lake):
    home = Home.parse(lake)
    add(home, "a")
    kept = ("parts/00/x.parquet", "pages/a.html", "data/main/datasets/of-a-writer-at-work.parquet")
    for name in kept:
        with home.store.atomic_write(name) as file:
            file.write_bytes(b"x")
    home.warehouse.maintain()
    assert all(home.store.exists(name) for name in kept)


MEASURED = """
    SELECT * EXCLUDE (run_id, created_at, seconds), run_id = (SELECT max_by(run_id, created_at) FROM measurements),
           created_at > now() - INTERVAL 1 HOUR, details->'$.stats'
    FROM measurements ORDER BY signature, sample_key
"""


@pytest.mark.slow
def test_adopted_parts_are_files_of_the_lake(lake, tmp_path, monkeypatch):
    monkeypatch.setattr(Lake, "adopts_from", 1)
    rows = [{"id": f"{i}", "answer": f"It is {i * 7}, said {i}.", "reference": f"{i * 7}"} for i in range(40)]
    source = source_of(tmp_path, rows, "faq")
    found = []
    for home in (Home(tmp_path / "home"), Home.parse(lake)):
        for again in (False, True):
            done = run(home, source, ["rouge_l", "bleu"], failing=[] if again else ["bleu"], only_failed=again)
            assert [report.status for report in done.reports] == ["COMPLETE" if again else "PARTIAL"]
        with home.warehouse.reading() as connection:
            found.append(connection.execute(MEASURED).fetchall())
    assert found[0] == found[1] and len(found[0]) == 80

    def adopted():
        return {file.name for file in home.store.files("data/main/measurements") if "/run_id=" in file.name}

    assert len(adopted()) == 3
    assert list(home.store.files("parts")) == []
    with home.warehouse.reading() as connection:
        orphans = connection.execute(
            "CALL ducklake_delete_orphaned_files('lake', cleanup_all => true, dry_run => true)"
        ).fetchall()
    assert orphans == []
    home.warehouse.maintain()
    with psycopg.connect(catalog_of(home)) as catalog:
        catalog.execute(OLDER.format("ducklake_snapshot", "snapshot_time", "snapshot_time"))
        catalog.execute(OLDER.format("ducklake_files_scheduled_for_deletion", "schedule_start", "schedule_start"))
    home.warehouse.maintain()
    with home.warehouse.reading() as connection:
        assert connection.execute(MEASURED).fetchall() == found[0]


def test_a_file_gives_free_what_was_deleted(tmp_path):
    home = Home.parse(tmp_path / "home")
    with home.warehouse.writing() as connection:
        connection.execute("INSERT INTO datasets SELECT 'data', md5(range::VARCHAR), now(), 1, NULL FROM range(50_000)")
    assert home.warehouse.snapshot() is None
    assert home.warehouse.maintain() == Maintained()
    assert versions(home) == 50_000
    assert not Path(f"{home.warehouse.size()[0]}.wal").exists()


class TestBackup:
    """As docs/cluster.md has it: the database first, then the bucket; back in the same order."""

    @pytest.fixture
    def restored(self, postgres_server):
        with postgres_server.database() as conninfo:
            yield conninfo

    def program(self, name, *arguments):
        subprocess.run([postgres_binaries() / name, *map(str, arguments)], check=True, env=dict(os.environ))

    def bucket(self):
        return S3FileSystem(endpoint_override=os.environ["AWS_ENDPOINT_URL"], region="us-east-1")

    @pytest.mark.slow
    def test_a_lake_comes_back(self, lake, restored, tmp_path, monkeypatch):
        home, place = Home.parse(lake), lake.removeprefix("s3://")
        for version in "ab":
            add(home, version)
        with home.store.atomic_write("pages/a.html") as page:
            page.write_text("a page")
        ledger = open_ledger(home.ledger)
        call = {"request_key": "k", "judge": "j", "prompt": "p", "kind": "ask", "attempt": 1, "format": "text"}
        assert ledger.claim("k")
        _, number = ledger.start(Budget("run"), call, 0.1)
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
