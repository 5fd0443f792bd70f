"""A shard of rows becomes a part that is whole or not there, and is never scored twice."""

import json
import os
import signal
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import answerkey.tasks.score.score
from answerkey import Sample, evaluate
from answerkey.metrics_core.registry import create
from answerkey.tasks.score.plan import plan
from answerkey.tasks.score.score import score
from answerkey.tasks.score.shard import Cancelled, fail_shard, part_schema, samples_of, score_shard
from tests.tasks.staging_help import rows_of, stage

ROWS = [
    {"id": "1", "question": "Q", "answer": "It is Paris", "references": ["Lyon", "Paris"]},
    {"id": "2", "question": "Q", "answer": "не -5, а 5", "references": ["5", "-5"]},
    {"id": "3", "question": "Q", "answer": None, "references": ["Paris"]},
    {"id": "4", "question": "Q", "answer": "anything", "references": [" "]},
    {"id": "5", "question": None, "answer": "北京", "references": "北京"},
]


def shard(home, metric="bleu", rows=ROWS):
    staged = stage(home.local, rows).staged
    [one] = plan(staged, home, home.scratch / "plan", create([metric]), only_failed=False).shards
    return one


def file_of(todo):
    return Path(todo.home, todo.part)


@pytest.mark.parametrize("metric", ["answer_correctness", "bleu", "contains"])
def test_a_part_holds_what_the_library_measures(home, metric):
    todo = shard(home, metric)
    assert score_shard(todo) == todo.part
    samples = [Sample(row["id"], row["answer"], row["references"], row["question"]) for row in ROWS]
    expected = {m.sample_id: m for m in evaluate(samples, [metric])}
    keys = {sample.key: sample.sample_id for sample in samples}
    rows = rows_of(f"{todo.home}/{todo.part}")
    assert [keys[row["sample_key"]] for row in rows] == ["1", "2", "3", "4", "5"]
    for row in rows:
        measured = expected[keys[row["sample_key"]]]
        assert (row["metric"], row["signature"]) == (metric, measured.signature)
        assert (row["status"], row["reason"]) == (measured.status, measured.reason)
        assert dict(row["values"]) == dict(measured.values)
        assert json.loads(row["details"] or "{}") == measured.details
        assert (row["attempts"], row["tokens_in"], row["tokens_out"], row["cost_usd"]) == (1, 0, 0, 0.0)
        assert (row["requests"], row["from_ledger"]) == ([], False)
    assert [row["status"] for row in rows] == ["scored", "scored", "scored", "undefined", "scored"]
    assert pq.read_schema(file_of(todo)).equals(part_schema())


def test_a_shard_that_breaks_leaves_no_part_and_can_be_tried_again(home):
    rows = [{"id": str(i), "answer": f"a{i}", "references": ["a"]} for i in range(6_000)]
    todo = shard(home, "contains", rows)
    assert (todo.first, todo.n_rows, len(list(samples_of(todo)))) == (0, 6_000, 3)
    file = Path(todo.home, todo.todo)
    whole = file.read_bytes()
    with pq.ParquetFile(file) as parquet:
        start = parquet.metadata.row_group(2).column(0).data_page_offset
    file.write_bytes(whole[:start] + bytes(200) + whole[start + 200 :])
    with pytest.raises(OSError, match="deserialize"):
        score_shard(todo)
    assert not file_of(todo).exists()
    file.write_bytes(whole)
    assert len({row["sample_key"] for row in rows_of(f"{todo.home}/{score_shard(todo)}")}) == 6_000


def test_a_shard_names_rows_wherever_the_file_is_cut(home):
    rows = [{"id": f"{i:04}", "answer": f"a{i}", "references": ["a"]} for i in range(5_000)]
    todo = shard(home, "contains", rows)
    with pq.ParquetFile(Path(todo.home, todo.todo)) as file:
        assert [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)] == [2048, 2048, 904]
    for first, count, batches in (
        (0, 500, [500]),
        (2_000, 100, [48, 52]),
        (100, 4_000, [1948, 2048, 4]),
        (4_999, 1, [1]),
    ):
        found = list(samples_of(replace(todo, first=first, n_rows=count)))
        assert [len(samples) for samples in found] == batches
        assert [sample.answer for samples in found for sample in samples] == [
            f"a{i}" for i in range(first, first + count)
        ]


def test_a_failed_shard_is_written_down_row_by_row_beside_the_part(home):
    todo = shard(home)
    file = fail_shard(todo, "TimeoutError: no answer")
    assert not file_of(todo).exists()
    assert file != todo.part and Path(file).parent == Path(todo.part).parent
    rows = rows_of(f"{todo.home}/{file}")
    assert [(row["status"], row["reason"], row["attempts"], row["values"], row["details"]) for row in rows] == [
        ("failed", "task_failed: TimeoutError: no answer", 1, [], None)
    ] * 5
    good = rows_of(f"{todo.home}/{score_shard(todo)}")
    assert [row["sample_key"] for row in good] == [row["sample_key"] for row in rows]


def test_of_a_run_that_was_cancelled_there_is_no_part(home):
    todo = shard(home)
    with pytest.raises(Cancelled, match=r"^bleu: the run was cancelled$"):
        score_shard(todo, stopped=lambda: True)
    assert not file_of(todo).exists() and list(file_of(todo).parent.glob("*")) == []
    assert score_shard(todo, stopped=lambda: False) == todo.part and file_of(todo).exists()


@pytest.fixture
def _pool():
    """Worker processes that end with the test."""
    yield
    answerkey.tasks.score.score._pool().shutdown(kill_workers=True)
    answerkey.tasks.score.score._pool.cache_clear()


@pytest.mark.real
@pytest.mark.usefixtures("_pool")
def test_a_worker_process_gives_the_same_part_and_may_be_killed(home):
    todo = shard(home, "token_overlap")
    alone = rows_of(f"{todo.home}/{score(todo, spawn=False)}")
    file_of(todo).unlink()
    assert rows_of(f"{todo.home}/{score(todo, spawn=True)}") == alone
    assert answerkey.tasks.score.score._pool.cache_info().currsize == 1
    pool = answerkey.tasks.score.score._pool()
    os.kill(pool.submit(os.getpid).result(), signal.SIGKILL)
    # Until the pool has seen it, the other process may take what comes.
    with pytest.raises(BrokenProcessPool):
        while True:
            pool.submit(os.getpid).result()
    file_of(todo).unlink()
    with pytest.raises(BrokenProcessPool):
        score(todo, spawn=True)
    # The caller's retry gets new processes.
    assert rows_of(f"{todo.home}/{score(todo, spawn=True)}") == alone
