"""What workers write of a commit is what the run would have inserted, with the same hashes."""

from dataclasses import replace
from pathlib import Path

import pytest

from answerkey.metrics_core.registry import create
from answerkey.tasks.load.load import Source, load
from answerkey.tasks.reports import commit as committing
from answerkey.tasks.reports.commit import commit, split_commit
from answerkey.tasks.reports.commit_shard import write_commit
from answerkey.tasks.score.plan import plan
from answerkey.tasks.score.score import score
from answerkey.tasks.verify import verify
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.lake import Lake
from tests.tasks.staging_help import jsonl, query, source_of

METRICS = ("rouge_l", "contains")
ODD = "NULL/a=b?ü %2F"
ROWS = {
    "samples": "FROM samples ORDER BY ALL",
    "answers": "FROM answers ORDER BY ALL",
    "measurements": "SELECT * EXCLUDE (created_at, seconds) FROM measurements ORDER BY ALL",
    "hashes": """
        SELECT table_name, part, n_rows, content_hash FROM content_hashes
        WHERE table_name IN ('samples', 'answers') ORDER BY ALL
    """,
}


def faq(folder, *, apart):
    """Two releases, one with labels, a blank answer and questions that were asked again; perhaps references apart."""
    rows = [
        {"id": f"{i}", "release": release, "answer": f"It is {i * n}.", "topic": f"{i % 3}"}
        | ({} if apart else {"reference": f"{i * 7}"})
        | ({"correct": i % n == 0} if release == "plain" else {"repeat": "1"})
        for n, release in ((7, "plain"), (8, ODD))
        for i in range(40)
    ]
    rows[3]["answer"] = None
    rows += [{**row, "answer": f"{row['answer']} So it is.", "repeat": "2"} for row in rows[-9:]]
    if not apart:
        return source_of(folder, rows, "faq", paths={"label": "correct"}, slices=("topic",))
    known = [{"id": f"{i}", "question": f"What is {i} times 7?", "reference": f"{i * 7}"} for i in range(50)]
    return Source(
        jsonl(folder / "faq.jsonl", rows), jsonl(folder / "known.jsonl", known), "faq", paths={"label": "correct"}
    )


def scored(home, loaded, run_id):
    made = plan(loaded.staged, home, home.scratch / run_id, create(METRICS), only_failed=False)
    return [score(shard, spawn=False) for shard in made.shards]


def written(home, run_id, loaded, parts):
    cut = split_commit(home, run_id, loaded, loaded.staged, parts, home.scratch / run_id)
    assert cut is not None
    # In any order, and twice.
    for shard in (*reversed(cut.shards), *cut.shards):
        assert write_commit(shard) == shard.part
    return cut


def committed(home, run_id, source, *, in_shards):
    loaded = load(source, home.scratch / run_id)
    parts = scored(home, loaded, run_id)
    cut = written(home, run_id, loaded, parts) if in_shards else None
    return commit(home, run_id, "made", loaded, loaded.staged, parts, cut)


@pytest.fixture
def shared(lake, monkeypatch):
    """A lake that adopts whatever there is, in shares of some 30 rows."""
    monkeypatch.setattr(Lake, "adopts_from", 1)
    monkeypatch.setattr(committing, "_SHARD_ROWS", 30)
    return Home.parse(lake)


def adopted(home, table):
    """Files of a table that were copied from a store, under names that DuckLake would not choose."""
    return sum(not Path(file.name).name.startswith("ducklake-") for file in home.store.files(f"data/main/{table}"))


@pytest.mark.slow
@pytest.mark.parametrize("apart", [False, True])
def test_adopted_rows_are_those_of_an_insert(shared, tmp_path, apart):
    source, folder = faq(tmp_path, apart=apart), Home(tmp_path / "home")
    here = committed(folder, "run", source, in_shards=False)
    there = committed(shared, "run", source, in_shards=True)
    assert there == here and [release.n_rows for release in here.releases] == [40, 49]
    for rows in ROWS.values():
        assert query(shared, rows) == query(folder, rows)
    assert [adopted(shared, table) for table in ("samples", "answers", "measurements")] == [2, 2, 2]
    assert not verify(shared).findings
    assert not [file for file in shared.store.files("runs/run") if "commit-" in file.name]


@pytest.mark.slow
def test_a_commit_again_and_one_of_a_run_that_has_committed_before(shared, tmp_path):
    source = faq(tmp_path, apart=False)
    first = committed(shared, "run", source, in_shards=True)
    before = {name: query(shared, rows) for name, rows in ROWS.items()}
    # Everything is known, so there is nothing new to score, and nothing changes.
    assert committed(shared, "again", source, in_shards=True) == first
    assert {name: query(shared, rows) for name, rows in ROWS.items()} == before
    # More parts under the id of an earlier run: its hash is of all of them.
    loaded = load(source, shared.scratch / "run")
    made = plan(loaded.staged, shared, shared.scratch / "run", create(["bleu"]), only_failed=False)
    parts = [score(shard, spawn=False) for shard in made.shards]
    commit(shared, "run", "made", loaded, loaded.staged, parts, written(shared, "run", loaded, parts))
    [(n_rows,)] = query(shared, "SELECT n_rows FROM content_hashes WHERE table_name = 'measurements'")
    assert n_rows == len(query(shared, "FROM measurements")) > len(before["measurements"])
    assert not verify(shared).findings


@pytest.mark.slow
def test_a_part_that_another_run_has_brought_in_meanwhile(shared, tmp_path):
    loaded = load(faq(tmp_path, apart=False), shared.scratch / "late")
    parts = scored(shared, loaded, "late")
    cut = written(shared, "late", loaded, parts)
    kept = [(part, shared.store.read(part).read()) for part in parts]
    commit(shared, "early", "made", loaded, loaded.staged, parts)
    [(name, content), *_] = kept
    with shared.store.atomic_write(name) as file:
        file.write_bytes(content)
    commit(shared, "late", "made", loaded, loaded.staged, parts, cut)
    assert not verify(shared).findings
    assert len(query(shared, "SELECT DISTINCT sample_key, signature FROM measurements")) == len(
        query(shared, "FROM measurements")
    )


def test_what_is_not_worth_it_is_not_cut(shared, tmp_path, monkeypatch):
    folder = Home(tmp_path / "home")
    loaded = load(faq(tmp_path, apart=False), folder.scratch / "run")
    assert split_commit(folder, "run", loaded, loaded.staged, [], folder.scratch / "run") is None
    monkeypatch.setattr(Lake, "adopts_from", 90)
    assert split_commit(shared, "run", replace(loaded), loaded.staged, [], shared.scratch / "run") is None
