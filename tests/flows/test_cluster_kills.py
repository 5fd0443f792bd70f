"""Runs on a lake and Dask workers in which something is killed: equal to one without, and nothing paid twice."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from answerkey.metrics_core.llm.ledger import COLUMNS, open_ledger
from answerkey.tasks.verify import verify
from answerkey.tasks.warehouse.home import Home
from tests.cluster_servers import Postgres, SeaweedFS
from tests.dask_servers import DaskCluster
from tests.flows.conftest import ROOT, command
from tests.flows.test_cluster import not_answered_once, rows
from tests.judge_server import JudgeServer, agreeable
from tests.kit.waiting import FAULT_S, wait_until
from tests.tasks.staging_help import jsonl, query

N = 1_000
"""Two shards of judges, one for each worker."""
ANSWERED = 100
"""Answers that were given when something is killed."""
AT_ONCE = 16
LATENCY_S = 0.1
"""So long that a worker has as many calls in flight as it may, and learns that it may have half of `AT_ONCE`."""
GONE_S = 30
SCORES = """
    SELECT metric, count(*), bit_xor(hash(sample_id, metric, field, status, "value"))
    FROM scores GROUP BY metric ORDER BY metric
"""
MEASUREMENTS = """
    SELECT metric, count(*), bit_xor(hash(sample_key, signature, metric, status, "values", reason, details, requests))
    FROM measurements GROUP BY metric ORDER BY metric
"""

pytestmark = pytest.mark.nightly


def content(home):
    with Home.parse(home).warehouse.reading() as warehouse:
        return [warehouse.execute(query).fetchall() for query in (SCORES, MEASUREMENTS)]


@dataclass(frozen=True)
class Servers:
    """What the run shares with its workers."""

    s3: SeaweedFS
    postgres: Postgres
    cluster: DaskCluster


@pytest.fixture
def servers(s3_server, postgres_server, lake_cluster):
    return Servers(s3_server, postgres_server, lake_cluster)


@dataclass(frozen=True)
class Running:
    """A run that waits for its judges, and everything that it needs."""

    run: subprocess.Popen[str]
    judge: JudgeServer
    servers: Servers
    home: Home

    def wait(self) -> None:
        """Until both workers have calls in flight, none is answered any more, and every answer is in the ledger.

        An answer on its way to the ledger is lost with its worker, and paid for again.
        """
        wait_until(lambda: self.run.poll() is not None or self._waits(), "calls in flight of both workers")
        assert self.run.poll() is None, self.run.communicate()

    def _waits(self) -> bool:
        held, answered = self.judge.held, self.judge.answered
        # One worker alone may have half of them.
        if answered < ANSWERED or held <= AT_ONCE // 2 or held < self.judge.stats()["in_flight"]:
            return False
        with closing(open_ledger(self.home.ledger)) as ledger:
            return sum(call[COLUMNS.index("status")] != "sent" for call in ledger.calls()) == answered

    def sessions(self, name: str) -> list[int]:
        """The processes of PostgreSQL that serve the ledger, or the catalog, of the run."""
        database = os.environ["ANSWERKEY_CATALOG"].partition("dbname=")[2].split()[0]
        with self.servers.postgres.admin() as admin:
            query = "SELECT pid FROM pg_stat_activity WHERE datname = %s AND (application_name = %s) = %s"
            found = admin.execute(query, [database, "answerkey ledger", name == "ledger"]).fetchall()
        assert found
        return [pid for (pid,) in found]


def s3(running):
    """For half a minute; what is scored meanwhile cannot be kept yet."""
    running.servers.s3.kill()
    running.judge.release()
    time.sleep(GONE_S)
    running.servers.s3.start()


def sessions(running, name):
    """All of them end at once, as behind a broken network."""
    with running.servers.postgres.admin() as admin:
        for pid in running.sessions(name):
            admin.execute("SELECT pg_terminate_backend(%s)", [pid])


def process(running, name):
    """PostgreSQL ends all its other processes, and recovers."""
    os.kill(running.sessions(name)[0], signal.SIGKILL)


def worker(running):
    os.kill(running.servers.cluster.pids()[running.servers.cluster.busy()[0]], signal.SIGKILL)
    _hung_up(running)


def nanny(running):
    """Its worker ends by itself a moment later."""
    [busy] = [worker for worker in running.servers.cluster.workers if worker.has(running.servers.cluster.busy()[0])]
    busy.kill()
    _hung_up(running)


def _hung_up(running):
    """Wait until the dead one's connections are closed: what the judge says to them is heard by nobody."""
    wait_until(lambda: running.judge.stats()["in_flight"] <= AT_ONCE // 2, "the connections of the dead one")


def scheduler(running):
    running.servers.cluster.start_again()


def driver(running):
    running.run.kill()
    running.run.wait()


KILLS: dict[str, Callable[[Running], None]] = {
    "s3 for 30 s": s3,
    "sessions of the ledger": partial(sessions, name="ledger"),
    "sessions of the catalog": partial(sessions, name="catalog"),
    "a process of the ledger's server": partial(process, name="ledger"),
    "a process of the catalog's server": partial(process, name="catalog"),
    "worker": worker,
    "nanny": nanny,
    "scheduler": scheduler,
    "driver": driver,
}


@pytest.mark.parametrize("killed", KILLS)
def test_a_run_in_which_something_is_killed_is_equal_to_one_without(
    server, cli, lake, servers, tmp_path, monkeypatch, killed
):
    monkeypatch.setenv("ANSWERKEY_JUDGE_KEY", DaskCluster.KEY)
    file, here = jsonl(tmp_path / "faq.jsonl", rows(N)), tmp_path / "home"
    with JudgeServer(agreeable, LATENCY_S) as judge:
        asked = ["--metrics", "bleu,meaning_match", "--judge", f"openai/m@{judge.url}", "--probes", "never"]
        asked += ["--judge-concurrency", f"{AT_ONCE}"]
        undisturbed = cli("evaluate", file, *asked, "--home", here, code=0)
        assert f"ANSWERKEY_CATALOG has no effect on the home {here}" in undisturbed.stderr
        judge.reset()
        judge.holds = lambda judge: judge.answered >= ANSWERED
        words = ("evaluate", file, *asked, "--no-page", "--home", lake, "--runner", servers.cluster.address)
        run = subprocess.Popen(
            command(*words), env={**os.environ, "PREFECT_API_URL": server}, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            running = Running(run, judge, servers, Home.parse(lake))
            running.wait()
            KILLS[killed](running)
            judge.release()
            said = run.communicate(timeout=FAULT_S)[1]
        finally:
            run.kill()
        assert (run.returncode == 0) == (killed != "driver"), said
        if killed == "driver":
            cli(*words, code=0)
        assert not_answered_once(judge, N) == {}, said
    assert content(lake) == content(str(here))
    store = Home.parse(lake).store
    assert list(store.files("parts")) == []
    # What a driver leaves that is killed, housekeeping removes.
    assert [file for file in store.files("runs") if killed != "driver"] == []


CONTENT = {
    "samples": "FROM samples ORDER BY ALL",
    "answers": "FROM answers ORDER BY ALL",
    "measurements": "SELECT * EXCLUDE (created_at, run_id, seconds) FROM measurements ORDER BY ALL",
    "scores": "FROM scores ORDER BY ALL",
    "means": "FROM report_scores ORDER BY ALL",
    "hashes": """
        SELECT table_name, part, n_rows, content_hash FROM content_hashes
        WHERE table_name IN ('samples', 'answers', 'scores') ORDER BY ALL
    """,
}


def worker_of_commit(cluster, run, held):
    [pid] = {int(held.read_text())} & set(cluster.pids().values())
    os.kill(pid, signal.SIGKILL)


def scheduler_of_commit(cluster, run, held):
    cluster.start_again()


def driver_of_commit(cluster, run, held):
    run.kill()
    run.wait()


@pytest.mark.parametrize("kill", [worker_of_commit, scheduler_of_commit, driver_of_commit])
def test_kill_9_while_workers_write_what_is_committed(server, cli, lake, lake_cluster, tmp_path, kill):
    file, folder, held = jsonl(tmp_path / "faq.jsonl", rows(N)), Home(tmp_path / "home"), tmp_path / "held"
    asked = ("evaluate", file, "--metrics", "bleu,contains", "--no-page")
    cli(*asked, "--home", folder.local, code=0)
    held.touch()
    there = (*asked, "--home", lake, "--runner", lake_cluster.address)
    words = [*map(str, (sys.executable, "-m", "tests.flows.held_commit", held, *there))]
    environment = {**os.environ, "PREFECT_API_URL": server}
    run = subprocess.Popen(
        words, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        wait_until(lambda: run.poll() is not None or held.read_text(), "rows of a commit that are written")
        assert run.poll() is None, run.communicate()
        # Nothing of a commit is in a table before all of it is written.
        home = Home.parse(lake)
        assert query(home, "FROM samples") == query(home, "FROM measurements") == []
        kill(lake_cluster, run, held)
        held.unlink()
        said = run.communicate(timeout=FAULT_S)[1]
    finally:
        run.kill()
    assert (run.returncode == 0) == (kill is not driver_of_commit), said
    if kill is driver_of_commit:
        again = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert again.returncode == 0, again.stderr
        said = again.stderr
    assert "so the run does it" not in said
    # Adopted, under names that DuckLake would not choose.
    for table in ("samples", "answers", "measurements", "scores"):
        files = [Path(one.name).name for one in home.store.files(f"data/main/{table}")]
        assert files and not [name for name in files if name.startswith("ducklake-")], table
    for table, wanted in CONTENT.items():
        assert query(home, wanted) == query(folder, wanted), table
    assert len(query(home, CONTENT["samples"])) == N and len(query(home, CONTENT["measurements"])) == 2 * N
    assert not verify(home).findings
    assert list(home.store.files("parts")) == []
    # What a driver leaves that is killed, housekeeping removes.
    assert [left for left in home.store.files("runs") if kill is not driver_of_commit] == []
