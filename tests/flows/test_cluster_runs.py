"""Whole runs on a Dask cluster, from the command line: nothing is shared with the workers but a lake, or a folder."""

import os
import pickle
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from answerkey.flows.cluster_worker import AnyShard
from answerkey.flows.evaluate_release import evaluate_release
from answerkey.flows.parameters import Data, Scoring
from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.llm.access import Access
from answerkey.metrics_core.registry import create
from answerkey.tasks.load import shard as source_shards
from answerkey.tasks.load.load import Source, load
from answerkey.tasks.reports import scores as rows_of_reports
from answerkey.tasks.reports.commit import commit, split_commit
from answerkey.tasks.reports.scores import split_scores
from answerkey.tasks.score.plan import plan
from answerkey.tasks.score.score import score
from answerkey.tasks.score.shard import portable
from answerkey.tasks.validate.measures import MeasuredShard
from answerkey.tasks.verify import verify
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.lake import Lake
from tests.dask_servers import DaskCluster
from tests.flows.test_cluster import rows
from tests.judge_server import JudgeServer, agreeable
from tests.tasks.staging_help import jsonl

KEY = DaskCluster.KEY
METRICS = ("--metrics", "bleu,semantic_similarity,meaning_match")
SCORES = 'SELECT sample_id, metric, field, status, "value" FROM scores ORDER BY ALL'


def scores(home):
    with Home.parse(home).warehouse.reading() as warehouse:
        return warehouse.execute(SCORES).fetchall()


@pytest.mark.nightly
def test_a_file_here_and_a_lake_with_workers_elsewhere_have_the_same_scores(
    cli, lake, lake_cluster, tmp_path, monkeypatch
):
    file, folder = jsonl(tmp_path / "faq.jsonl", rows(40)), tmp_path / "home"
    monkeypatch.setenv("ANSWERKEY_JUDGE_KEY", KEY)
    doctor = cli("doctor", "--home", lake, "--runner", lake_cluster.address)
    found = [line.split(maxsplit=1)[1] for line in doctor.stdout.splitlines() if "runner" in line]
    assert [line.split("  ")[0] for line in found] == ["runner", "runner versions", "runner home"], doctor.stdout
    assert found[0].endswith("2 workers of one thread; 2 offer model, 2 offer judge")
    with JudgeServer(agreeable) as judge:
        asked = (*METRICS, "--judge", f"openai/m@{judge.url}", "--probes", "never")
        cli("evaluate", file, *asked, "--home", folder, code=0)
        there = cli("evaluate", file, *asked, "--home", lake, "--runner", lake_cluster.address, code=0)
        assert "scored 120 of 120 rows" in there.stderr
        # Each home has a ledger of its own.
        assert set(Counter(request.body_hash for request in judge.requests).values()) == {2}
    here, there = scores(str(folder)), scores(lake)
    assert [row[:4] for row in there] == [row[:4] for row in here] and len(here) > 3 * 40
    # Products of matrices differ in their last bits, by the threads that make them.
    assert [row[4] for row in there] == pytest.approx([row[4] for row in here], abs=1e-5)
    store = Home.parse(lake).store
    assert [*store.files("runs"), *store.files("parts")] == []


@pytest.mark.real
def test_the_workers_of_a_run_write_what_it_commits(server, lake, lake_cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(Lake, "adopts_from", 1)
    data, scoring = Data(answers=str(jsonl(tmp_path / "faq.jsonl", rows(40))), release="new"), Scoring(metrics=["bleu"])
    with temporary_settings({PREFECT_API_URL: server}):
        evaluate_release(data, scoring, home=lake, page=False, runner=lake_cluster.address)
    home = Home.parse(lake)
    for table in ("samples", "answers", "measurements"):
        [file] = home.store.files(f"data/main/{table}")
        # DuckLake gives its own files other names.
        assert not Path(file.name).name.startswith("ducklake-")
    assert not verify(home).findings
    assert [*home.store.files("runs"), *home.store.files("parts")] == []


def sent(home, source, metrics):
    """Every kind of shard that a run sends to workers."""
    out = home.scratch / "run"
    references = source_shards.split_references(source, home, out, 500)
    yield from references.shards
    for shard in references.shards:
        source_shards.stage_shard(shard)
    for shard in source_shards.cut(source, home, out, 500, references).shards:
        yield MeasuredShard(shard)
    loaded = load(source, out)
    shards = plan(loaded.staged, home, out, metrics, only_failed=False).shards
    yield from shards
    parts = [score(shard, spawn=False) for shard in shards if shard.metric.kind == "lexical"]
    of_commit = split_commit(home, "run", loaded, loaded.staged, parts, out)
    assert of_commit
    yield from of_commit.shards
    committed = commit(home, "run", source.answers, loaded, loaded.staged, parts)
    of_scores = split_scores(home, committed, metrics, out)
    assert of_scores
    yield from of_scores.shards


def test_a_shard_of_a_lake_holds_no_path_and_no_key(lake, tmp_path, monkeypatch, s3_server, postgres_server):
    monkeypatch.setenv("ANSWERKEY_JUDGE_KEY", KEY)
    monkeypatch.setattr(Lake, "adopts_from", 1)
    monkeypatch.setattr(rows_of_reports, "LARGE", 1)
    home = Home.parse(lake)
    options = dict(judge=JudgeOptions(judges=("openai/some-model",)), access=Access(ledger=home.ledger, run="r"))
    options |= dict(embedding_cache=home.embeddings)
    metrics = create(["bleu", "semantic_similarity", "meaning_match"], options)
    answers = [{"id": row["id"], "answer": row["answer"]} for row in rows(40)]
    known = [{"id": row["id"], "reference": row["reference"]} for row in rows(40)]
    # A file is called in messages as it was given.
    monkeypatch.chdir(tmp_path)
    source = Source(
        *(Path(file).name for file in (jsonl(tmp_path / "faq.jsonl", answers), jsonl(tmp_path / "known.jsonl", known)))
    )
    secrets = [KEY, postgres_server.password, os.environ["ANSWERKEY_CATALOG"]]
    secrets += [s3_server.access_key, s3_server.secret_key]
    found = [(type(shard), pickle.dumps(shard)) for shard in sent(home, source, metrics)]
    found.append((list, pickle.dumps([(portable(metric), "env:ANSWERKEY_JUDGE_KEY") for metric in metrics])))
    assert {kind for kind, _ in found} == {*get_args(AnyShard), list}
    for kind, pickled in found:
        for marker in (*secrets, str(home.local), str(tmp_path), "/tmp", "/home", str(Path.home())):
            assert marker.encode() not in pickled, (kind, marker)


def test_without_the_extra_the_remedy_is_one_line(bare_cli, tmp_path):
    missing = tmp_path / "site" / "distributed"
    missing.mkdir(parents=True)
    (missing / "__init__.py").write_text("raise ImportError('not installed')\n")
    file = jsonl(tmp_path / "faq.jsonl", rows(2))
    path = f"{missing.parent}{os.pathsep}{os.environ['PYTHONPATH']}"
    result = bare_cli("evaluate", file, "--home", tmp_path / "home", "--runner", "dask://127.0.0.1:9", PYTHONPATH=path)
    assert (result.returncode, result.stderr) == (
        2,
        "answerkey: dask://127.0.0.1:9: Dask is not installed; run: pip install 'answerkey[cluster]'\n",
    )
