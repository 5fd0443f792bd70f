"""The rows of reports that workers write are those that the run would have inserted."""

import pytest

from answerkey.metrics_core.registry import create
from answerkey.tasks.reports import scores
from answerkey.tasks.reports.aggregate import aggregate
from answerkey.tasks.reports.commit import start_run
from answerkey.tasks.reports.scores import split_scores, write_scores
from answerkey.tasks.verify import verify
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.lake import Lake
from tests.tasks.staging_help import query, run, source_of

METRICS = ("rouge_l", "bleu")
ODD = "NULL/a=b?ü %2F"


def faq(folder):
    """Two releases, one with labels and a blank answer."""
    rows = [
        {"id": f"{i}", "release": release, "answer": f"It is {i * n}.", "reference": f"{i * 7}", "topic": f"{i % 3}"}
        | ({"correct": i % n == 0} if release == "plain" else {})
        for n, release in ((7, "plain"), (8, ODD))
        for i in range(40)
    ]
    rows[3]["answer"] = None
    return source_of(folder, rows, "faq", paths={"label": "correct"}, slices=("topic",))


@pytest.fixture
def done(lake, tmp_path, monkeypatch):
    """A run on a lake, one of whose metrics has failed."""
    monkeypatch.setattr(scores, "LARGE", 1)
    monkeypatch.setattr(scores, "SHARD_ROWS", 60)
    return Home.parse(lake), run(Home.parse(lake), faq(tmp_path), METRICS, failing=["bleu"])


def written(home, done):
    cut = split_scores(home, done.committed, create(METRICS), home.scratch / "run")
    assert cut is not None
    # In any order, and twice.
    for shard in (*reversed(cut.shards), *cut.shards):
        assert write_scores(shard) == shard.part
    return cut


def content(home, version):
    rows = "SELECT * EXCLUDE (report_id) FROM scores WHERE report_id LIKE ? ORDER BY ALL"
    means = "SELECT * EXCLUDE (report_id) FROM report_scores WHERE report_id LIKE ? ORDER BY ALL"
    return [*query(home, rows, [f"%/v{version}"]), *query(home, means, [f"%/v{version}"])]


def adopted(home):
    return sum("/report_id=" in file.name for file in home.store.files("data/main/scores"))


def test_adopted_rows_are_those_of_an_insert(done):
    home, ran = done
    cut = written(home, ran)
    # Of four numbers of 40 answers there are 160 rows.
    assert [(shard.release, shard.share, shard.of) for shard in cut.shards] == [
        (release, share, 2) for release in ("plain", ODD) for share in range(2)
    ]
    assert adopted(home) == 0
    reports = aggregate(home, ran.committed, create(METRICS), {"run_id": "again"}, cut)
    assert [report.report_id for report in reports] == ["faq/plain/v2", f"faq/{ODD}/v2"]
    assert [report.message for report in reports] == [report.message for report in ran.reports]
    assert adopted(home) == 4 and list(home.store.files("runs/run")) == []
    assert content(home, 2) == content(home, 1) and len(content(home, 2)) > 2 * 160
    # Hashed where they were written, but for the labels, which workers do not write.
    hashes = "SELECT n_rows, content_hash FROM content_hashes WHERE table_name = 'scores' AND part LIKE ? ORDER BY part"
    assert query(home, hashes, ["%/v2"]) == query(home, hashes, ["%/v1"])
    assert [n_rows for n_rows, _ in query(home, hashes, ["%/v2"])] == [200, 200]
    assert not verify(home).findings
    statuses = query(home, "SELECT DISTINCT status FROM scores ORDER BY ALL")
    assert statuses == [("failed",), ("scored",), ("undefined",)]


def test_what_workers_write_on_a_lake_is_hashed_as_in_a_folder(done, tmp_path):
    home, ran = done
    aggregate(home, ran.committed, create(METRICS), {"run_id": "again"}, written(home, ran))
    folder = Home(tmp_path / "home")
    run(folder, faq(tmp_path), METRICS, failing=["bleu"])
    hashes = """
        SELECT table_name, replace(part, '/v2', '/v1'), n_rows, content_hash FROM content_hashes
        WHERE table_name IN ('samples', 'answers', 'scores') AND (table_name <> 'scores' OR part LIKE ?) ORDER BY ALL
    """
    assert len(query(folder, hashes, ["%/v1"])) == 5
    assert query(home, hashes, ["%/v2"]) == query(folder, hashes, ["%/v1"])


def test_rows_are_inserted_where_others_have_written_meanwhile(done):
    home, ran = done
    cut = written(home, ran)
    start_run(home, "another", "evaluate-release", "other", {})
    with home.warehouse.reading() as warehouse:
        assert not home.warehouse.changed(warehouse, ["answers", "measurements"], cut.state)
        assert home.warehouse.changed(warehouse, ["answers", "runs"], cut.state)
    with home.warehouse.writing() as warehouse:
        warehouse.execute("UPDATE measurements SET status = 'skipped' WHERE status = 'failed'")
    aggregate(home, ran.committed, create(METRICS), {"run_id": "again"}, cut)
    assert adopted(home) == 0 and list(home.store.files("runs/run")) == []
    counts = "SELECT status, count(*) FROM scores WHERE report_id = 'faq/plain/v2' AND metric = 'bleu' GROUP BY status"
    assert query(home, counts) == [("skipped", 40)]


def test_parts_of_a_run_that_was_killed_are_of_no_use_once_measurements_have_changed(done):
    home, ran = done
    before = written(home, ran)
    with home.warehouse.writing() as warehouse:
        warehouse.execute("UPDATE measurements SET status = 'skipped' WHERE status = 'failed'")
    cut = written(home, ran)
    assert not {shard.part for shard in before.shards} & {shard.part for shard in cut.shards}
    aggregate(home, ran.committed, create(METRICS), {"run_id": "again"}, cut)
    assert adopted(home) == 4
    counts = "SELECT status, count(*) FROM scores WHERE report_id = 'faq/plain/v2' AND metric = 'bleu' GROUP BY status"
    assert query(home, counts) == [("skipped", 40)]


def test_what_is_not_worth_it_is_not_cut(done, tmp_path, monkeypatch):
    home, ran = done
    metrics = create(METRICS)
    assert split_scores(Home(tmp_path / "home"), ran.committed, metrics, tmp_path / "home" / "runs" / "run") is None
    monkeypatch.setattr(scores, "LARGE", 10**6)
    assert split_scores(home, ran.committed, metrics, home.scratch / "run") is None
    monkeypatch.setattr(scores, "LARGE", 1)
    monkeypatch.setattr(Lake, "adopts_from", None)
    assert split_scores(home, ran.committed, metrics, home.scratch / "run") is None
