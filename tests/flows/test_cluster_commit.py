"""What a large run commits is written by workers: something is killed meanwhile, and nothing is lost or there twice."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from answerkey.tasks.verify import verify
from answerkey.tasks.warehouse.home import Home
from tests.flows.conftest import ROOT
from tests.flows.test_cluster import LONG_S, rows, until
from tests.tasks.staging_help import jsonl, query

N = 1_000
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

pytestmark = [pytest.mark.slow, pytest.mark.kills, pytest.mark.timeout(4 * LONG_S)]


def worker(cluster, run, held):
    [pid] = {int(held.read_text())} & set(cluster.pids().values())
    os.kill(pid, signal.SIGKILL)


def scheduler(cluster, run, held):
    cluster.start_again()


def driver(cluster, run, held):
    run.kill()
    run.wait()


@pytest.mark.parametrize("kill", [worker, scheduler, driver])
def test_kill_9_while_workers_write_what_is_committed(server, cli, lake, lake_cluster, tmp_path, kill):
    file, folder, held = jsonl(tmp_path / "faq.jsonl", rows(N)), Home(tmp_path / "home"), tmp_path / "held"
    asked = ("evaluate", file, "--metrics", "bleu,contains", "--no-page")
    undisturbed = cli(*asked, "--home", folder.local)
    assert undisturbed.returncode == 0, undisturbed.stderr
    held.touch()
    there = (*asked, "--home", lake, "--runner", lake_cluster.address)
    words = [*map(str, (sys.executable, "-m", "tests.flows.held_commit", held, *there))]
    environment = {**os.environ, "PREFECT_API_URL": server}
    run = subprocess.Popen(
        words, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        until(lambda: run.poll() is not None or held.read_text())
        assert run.poll() is None, run.communicate()
        # Nothing of a commit is in a table before all of it is written.
        home = Home.parse(lake)
        assert query(home, "FROM samples") == query(home, "FROM measurements") == []
        kill(lake_cluster, run, held)
        held.unlink()
        said = run.communicate(timeout=2 * LONG_S)[1]
    finally:
        run.kill()
    assert (run.returncode == 0) == (kill is not driver), said
    if kill is driver:
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
    assert [left for left in home.store.files("runs") if kill is not driver] == []
