"""Shards on a real Dask cluster: the same numbers, and what is left of a run when a part of it is killed."""

import logging
import os
import re
import signal
import sqlite3
import threading
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from prefect import flow
from prefect.settings import PREFECT_API_URL, temporary_settings

from answerkey.flows.cluster import Cluster, NoWorker, WorkersDied
from answerkey.flows.fan_out import DaskRunner, load, write_commit, write_scores
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.llm.access import Access
from answerkey.metrics_core.registry import create
from answerkey.tasks.load import shard as source_shards
from answerkey.tasks.load.load import Source, Stager
from answerkey.tasks.load.load import load as load_whole
from answerkey.tasks.reports import scores as rows_of_reports
from answerkey.tasks.reports.commit import commit
from answerkey.tasks.score.plan import plan
from answerkey.tasks.score.score import score
from answerkey.tasks.verify import verify
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.lake import Lake
from answerkey.tasks.warehouse.store import Unreachable
from tests.dask_servers import Scheduler, Worker
from tests.flows.cluster_metrics import Deadly, DeadlyStager, HeldReferenceStager
from tests.judge_server import JudgeServer, agreeable
from tests.kit.waiting import FAULT_S, wait_until
from tests.tasks.staging_help import jsonl, query, stage

pytestmark = pytest.mark.nightly


def rows(n, answers=None):
    return [
        {"id": f"{i:04}", "question": f"What is {i} times 7?", "answer": f"It is {i * 7}.", "reference": f"{i * 7}"}
        | ({"answer": answers[i]} if answers and i in answers else {})
        for i in range(n)
    ]


def planned(folder, data, metrics, n_shards, **options):
    """Shards of equal size of all metrics, of a home in `folder`."""
    loaded, home = stage(folder / "staged", data), Home(folder / "home")
    access = Access(ledger=home.ledger, run="run")
    made = create(metrics, {**options, "access": access} if options else {})
    whole = plan(loaded.staged, home, home.scratch / "run", made, only_failed=False).shards
    return [piece for shard in whole for piece in cut(shard, n_shards)]


def cut(shard, n):
    size = shard.n_rows // n
    for first in range(0, shard.n_rows, size):
        part = f"{Path(shard.part).parent}/{first}-{first + size}.parquet"
        yield replace(shard, first=first, n_rows=size, part=part)


def content(shards):
    """The parts of shards, without what differs from time to time."""
    return [
        row
        for shard in shards
        for row in pq.read_table(Path(shard.home, shard.part)).drop(["seconds", "cost_usd"]).to_pylist()
    ]


def asking(server, **options):
    return dict(judge=JudgeOptions(judges=(f"openai/m@{server.url}",), probes="never", **options))


def not_answered_once(server, n):
    """How many of `n` questions were answered never, and how many more than once: nothing if each was answered once."""
    answers = Counter(request.body_hash for request in server.requests if request.answered)
    asked = {request.body_hash for request in server.requests}
    found = {
        "never asked": n - len(asked),
        "asked and never answered": len(asked) - len(answers),
        "answered again": sum(times > 1 for times in answers.values()),
    }
    return {what: count for what, count in found.items() if count}


@contextmanager
def running(cluster, shards):
    """The outcomes of a run in another thread, by part; at the end of the context the run has ended."""
    outcomes: dict[str, Any] = {}

    def run():
        try:
            outcomes.update((shard.part, outcome) for shard, outcome in cluster.run(shards))
        except Exception as error:
            outcomes["error"] = error

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield outcomes
    thread.join(FAULT_S)
    assert not thread.is_alive()


@pytest.mark.nightly
@pytest.mark.parametrize("killed", ["worker", "scheduler"])
def test_kill_9_of_a_part_of_the_cluster_costs_no_answer(dask_cluster, tmp_path, killed):
    """One worker waits for a judge that never answers, the other one does all the rest; then the first one dies."""

    def first_hangs(number, _body):
        return "hang" if number == 0 else None

    with JudgeServer(agreeable, faults=first_hangs) as server:
        shards = planned(
            tmp_path,
            rows(40),
            ["meaning_match"],
            4,
            **asking(server, concurrency=2, timeout_s=1000.0, deadline_s=2000.0),
        )
        with running(Cluster(dask_cluster.address), shards) as outcomes:
            wait_until(lambda: sum(request.answered for request in server.requests) == 30, "all but one shard")
            wait_until(lambda: len(dask_cluster.busy()) == 1, "a worker without work")
            [stuck] = dask_cluster.busy()
            if killed == "worker":
                os.kill(dask_cluster.pids()[stuck], signal.SIGKILL)
            else:
                dask_cluster.start_again()
        assert outcomes == {shard.part: shard.part for shard in shards}
        assert not_answered_once(server, 40) == {}
        assert {row["status"] for row in content(shards)} == {"scored"} and len(content(shards)) == 40
        assert {request.headers["authorization"] for request in server.requests} == {f"Bearer {dask_cluster.KEY}"}


def test_a_finished_shard_is_not_scored_again_when_its_worker_dies(dask_cluster, tmp_path):
    """Its part may be committed by then and gone, and its judges would be asked once more."""
    # Before all 20 of a shard are answered: the first two that end are of the other metric.
    with JudgeServer(agreeable, holds=lambda server: server.answered >= 10) as server:
        shards = planned(tmp_path, rows(40), ["meaning_match", "bleu"], 2, **asking(server, concurrency=4))
        run = Cluster(dask_cluster.address).run(shards)
        finished = [next(run)[0] for _ in range(2)]
        assert {shard.metric.name for shard in finished} == {"bleu"}
        for shard in finished:
            Path(shard.home, shard.part).unlink()
        wait_until(lambda: server.answered >= 10 and server.held == server.stats()["in_flight"], "the last answer")
        for pid in dask_cluster.pids().values():
            os.kill(pid, signal.SIGKILL)
        server.release()
        assert len(list(run)) == 2
    assert [Path(shard.home, shard.part).exists() for shard in finished] == [False, False]


def test_a_shard_that_kills_every_worker_costs_itself_alone(dask_cluster, tmp_path, caplog):
    shards = planned(tmp_path, rows(80, {12: "poison"}), [Deadly()], 8)
    # Where the part of the fourth will be written is a folder.
    Path(shards[3].home, shards[3].part).mkdir(parents=True)
    with caplog.at_level(logging.INFO, "answerkey"):
        found = {shard.first: outcome for shard, outcome in Cluster(dask_cluster.address).run(shards)}
    errors = {first: outcome for first, outcome in found.items() if isinstance(outcome, Exception)}
    assert sorted(found) == [0, 10, 20, 30, 40, 50, 60, 70] and sorted(errors) == [10, 30]
    assert isinstance(errors[10], WorkersDied)
    assert str(errors[10]).startswith("2 workers died while they worked on it, the last one was tcp://127.0.0.1:")
    assert isinstance(errors[30], IsADirectoryError)
    assert len(content([shard for shard in shards if shard.first not in errors])) == 60
    told = [record.getMessage() for record in caplog.records]
    assert any(line.startswith("scoring 10 rows (worker tcp://127.0.0.1:") for line in told)
    assert any("is gone; another one takes over what it was working on" in line for line in told)


@pytest.mark.parametrize("at_once", [5, 1])
def test_judges_share_their_limit_over_the_workers(dask_cluster, tmp_path, at_once):
    with JudgeServer(agreeable, latency=0.02) as server:
        shards = planned(tmp_path, rows(60), ["meaning_match"], 6, **asking(server, concurrency=at_once))
        assert len(list(Cluster(dask_cluster.address).run(shards))) == 6
        assert server.max_in_flight <= at_once
        assert not_answered_once(server, 60) == {}


def test_workers_ask_nothing_more_once_a_run_is_cancelled(dask_cluster, tmp_path):
    with JudgeServer(agreeable, holds=lambda server: server.answered >= 10) as server:
        asks = asking(server, concurrency=4)
        shards = planned(tmp_path, rows(200), ["meaning_match", "bleu"], 2, **asks)
        # A second shard that waits for its judge could take the worker that scores the others.
        shards.remove(next(shard for shard in shards if shard.metric.kind == "judge"))
        run = Cluster(dask_cluster.address).run(shards)
        assert {next(run)[0].metric.name for _ in range(2)} == {"bleu"}
        wait_until(lambda: server.answered >= 10 and server.held == 2, "two calls in flight")
        n_asked = server.n_requests
        run.close()  # type: ignore[attr-defined]
        wait_until(lambda: set(dask_cluster.tasks()) == {"cancelled"}, "the end of the run at the workers")
        server.release()
        wait_until(lambda: not dask_cluster.tasks(), "workers that have forgotten the run")
        # The calls in flight are paid, so their replies were waited for.
        assert (server.n_requests, server.answered) == (n_asked, n_asked)
        with closing(sqlite3.connect(tmp_path / "home" / "judge.sqlite")) as ledger:
            assert ledger.execute("SELECT count(*) FROM answerkey_claims").fetchone() == (0,)
            assert ledger.execute("SELECT status, count(*) FROM answerkey_calls").fetchall() == [("usable", n_asked)]
        assert not [shard for shard in shards if shard.metric.kind == "judge" and Path(shard.home, shard.part).exists()]
        assert len(list(Cluster(dask_cluster.address).run(shards))) == 3
        assert not_answered_once(server, 100) == {}
    assert {row["status"] for row in content(shards)} == {"scored"}


def test_a_lost_scheduler_is_waited_for_and_then_said_in_one_line(tmp_path):
    scheduler = Scheduler()
    worker = Worker(scheduler)
    with JudgeServer(agreeable, faults=lambda _number, _body: "hang") as server:
        shards = planned(tmp_path, rows(4), ["meaning_match"], 2, **asking(server))
        cluster = Cluster(scheduler.address)
        with running(cluster, shards) as outcomes:
            wait_until(lambda: server.n_requests or outcomes, "the first question")
            assert not outcomes
            # Not before: a new client may see no worker for a while, and would give up.
            object.__setattr__(cluster, "patience_s", 2.0)
            scheduler.close()
            worker.close()
    assert isinstance(outcomes["error"], Unreachable)
    assert str(outcomes["error"]) == (
        f"{scheduler.address}: the scheduler is gone, and did not come back within 2 seconds; finished parts "
        "and paid replies are kept, run the same command again"
    )


@pytest.fixture(scope="module")
def bare():
    """A scheduler without workers."""
    scheduler = Scheduler()
    yield scheduler
    scheduler.close()


def test_workers_that_cannot_score_are_refused_in_one_line(bare, tmp_path):
    cluster, home = Cluster(bare.address, patience_s=1.0), Home(tmp_path / "home")
    [lexical], [semantic] = create(["bleu"]), create(["semantic_similarity"])

    def refusal(metric=lexical, key_from=""):
        with pytest.raises(UserError) as error:
            cluster.check(home, [(metric, key_from)])
        assert "\n" not in str(error.value)
        return str(error.value)

    @contextmanager
    def worker(*options, **variables):
        one = Worker(bare, *options, variables=variables)
        yield
        one.close()
        with bare.client() as client:
            wait_until(lambda: not client.scheduler_info()["workers"], "the worker that has left")

    assert "the scheduler has no workers; start some: dask worker tcp://HOST:PORT --nthreads 1" in refusal()
    with worker("--nthreads", "2"):
        assert "has 2 threads, which take turns; start it with --nthreads 1" in refusal()
    with worker("--nthreads", "1"):
        cluster.check(home, [(lexical, "")])
        assert "no worker offers the resource model, which semantic_similarity needs; start some:" in refusal(semantic)
        [(_, outcome)] = cluster.run(planned(tmp_path, rows(2), ["semantic_similarity"], 1))
        assert isinstance(outcome, NoWorker)
    assert "the scheduler has no workers" in refusal()
    with worker():
        asks = create(["meaning_match"], dict(judge=JudgeOptions(judges=("openai/some-model",))))[0]
        assert "the judge's key is not in env:NOT_THERE: export NOT_THERE=..." in refusal(asks, "env:NOT_THERE")
    older = tmp_path / "site" / "duckdb-0.9.1.dist-info"
    older.mkdir(parents=True)
    (older / "METADATA").write_text("Metadata-Version: 2.1\nName: duckdb\nVersion: 0.9.1\n")
    path = f"{older.parent}:{os.environ['PYTHONPATH']}"
    with worker(PYTHONPATH=path):
        assert "it has duckdb 0.9.1, and the run duckdb 1.5" in refusal()
    # A scheduler without answerkey could not even pass on what it is sent.
    scheduler = Scheduler(PYTHONPATH=path)
    with scheduler.client() as client:
        assert Cluster(scheduler.address).unlike(client).startswith("the scheduler: it has duckdb 0.9.1, and the run")
    scheduler.close()


def held_first(shards, kind, held):
    """The shards, of which the first one is not staged before a file is gone."""
    held.touch()
    [first, *others] = shards
    given = {field.name: getattr(first.stager, field.name) for field in fields(first.stager)}
    return [replace(first, stager=kind(**given, held=str(held))), *others]


def staged_while_one_worker_is_killed(cluster, shards, home, held):
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(Cluster(cluster.address).run(shards)))
    thread.start()
    # One more may stand in line behind the first.
    parts = [one.part for one in shards[1:]]
    wait_until(lambda: sum(map(home.store.exists, parts)) >= len(parts) - 1, "all parts but two")
    wait_until(lambda: len(cluster.busy()) == 1, "a worker without work")
    os.kill(cluster.pids()[cluster.busy()[0]], signal.SIGKILL)
    held.unlink()
    thread.join(FAULT_S)
    assert sorted(outcome for _, outcome in found) == sorted(one.part for one in shards)


def test_references_in_shards_on_workers_of_which_one_is_killed(dask_cluster, tmp_path):
    """The workers stage the references, one dies meanwhile, and then they look them up for the answers."""
    home = Home(tmp_path / "home")
    data, out = rows(120), home.scratch / "run"
    known = [{"id": row["id"], "reference": row["reference"], "lang": "en"} for row in data[:-7]]
    given = [{"id": row["id"], "answer": row["answer"]} for row in data]
    source = Source(
        str(jsonl(tmp_path / "answers.jsonl", given)), str(jsonl(tmp_path / "questions.jsonl", known)), slices=("lang",)
    )
    whole, held = load_whole(source, tmp_path / "whole"), tmp_path / "held"
    references = source_shards.split_references(source, home, out, 1_000)
    assert len(references.shards) > 3
    shards = held_first(references.shards, HeldReferenceStager, held)
    staged_while_one_worker_is_killed(dask_cluster, shards, home, held)
    made = source_shards.cut(source, home, out, 1_500, references)
    found = {outcome for _, outcome in Cluster(dask_cluster.address).run(made.shards)}
    assert found == {one.part for one in made.shards} and len(found) > 3
    loaded = source_shards.gather(made, home, out)
    assert loaded.references and whole.references
    for ours, theirs in ((loaded.staged, whole.staged), (loaded.references, whole.references)):
        assert pq.read_table(ours) == pq.read_table(theirs)
    assert (loaded.contents, loaded.notes) == (whole.contents, whole.notes)


@pytest.mark.nightly
def test_a_source_that_kills_every_worker_ends_the_run_in_one_line(server, dask_cluster, tmp_path, monkeypatch):
    """Rows that nobody could load are not left out in silence."""
    monkeypatch.setattr(source_shards, "LARGE_BYTES", 1)
    monkeypatch.setattr(Stager, "__reduce__", lambda stager: (DeadlyStager, (stager.columns, stager.release, None)))
    source, runner = Source(jsonl(tmp_path / "faq.jsonl", rows(20))), DaskRunner(Cluster(dask_cluster.address))
    home = Home(tmp_path / "home")

    @flow
    def loading() -> None:
        load(runner, home, source, home.scratch / "run")

    with temporary_settings({PREFECT_API_URL: server}), pytest.raises(Unreachable) as stopped:
        loading()
    assert re.fullmatch(
        rf"{source.answers}: not all of it could be loaded \(2 workers died while they worked on it, the last one was "
        r"tcp://127.0.0.1:\d+\); run the same command again",
        str(stopped.value),
    )


def test_what_no_worker_can_write_the_run_commits(lake, dask_cluster, tmp_path, monkeypatch, caplog):
    """Its workers have not been told how to reach the lake."""
    monkeypatch.setattr(Lake, "adopts_from", 1)
    monkeypatch.setattr(rows_of_reports, "LARGE", 1)
    home, runner = Home.parse(lake), DaskRunner(Cluster(dask_cluster.address))
    source = Source(jsonl(tmp_path / "faq.jsonl", rows(9)))
    out, metrics = home.scratch / "run", create(["bleu"])
    loaded = load_whole(source, out)
    planned = plan(loaded.staged, home, out, metrics, only_failed=False)
    parts = [score(shard, spawn=False) for shard in planned.shards]
    cut = write_commit(runner, home, "run", loaded, loaded.staged, parts, out)
    committed = commit(home, "run", source.answers, loaded, loaded.staged, parts, cut)
    assert (cut, write_scores(runner, home, committed, metrics, out)) == (None, None)
    why = f"{lake}: a home in a bucket needs a catalog"
    said = [record.getMessage() for record in caplog.records if why in record.getMessage()]
    assert [line.partition(", so the run does it: ")[0] for line in said] == [
        "no worker could write what is committed",
        "no worker could write the rows of the reports",
    ]
    assert [len(query(home, f"FROM {table}")) for table in ("samples", "answers", "measurements")] == [9, 9, 9]
    assert not verify(home).findings
