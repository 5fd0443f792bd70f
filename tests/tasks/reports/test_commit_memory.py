"""Planning and committing spill to disk where the rows do not fit into the memory of a session."""

import pytest

from answerkey.metrics_core.metrics.words import ExactMatch
from answerkey.tasks.load.load import Loaded
from answerkey.tasks.reports.commit import commit
from answerkey.tasks.score.plan import plan
from answerkey.tasks.warehouse import warehouse
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.warehouse import scratch, write_parquet
from tests.tasks.staging_help import query

ROWS = 150_000
MEMORY_LIMIT = "100MB"
"""A fraction of the texts, and more per row than ten million rows have in a session."""

ACCEPTED = """
SELECT i AS "row", 'a question with a long name, number ' || i AS sample_id, 'r' || i % 2 AS release,
       repeat('what? ', 30) || i AS question, repeat('because ', 30) || i AS answer, NULL::VARCHAR AS missing_because,
       '1' AS repeat, [repeat('so ', 30) || i, repeat('then ', 30) || i] AS "references", []::VARCHAR[] AS facts,
       NULL::VARCHAR[] AS context, []::VARCHAR[] AS incorrect_references,
       NULL::VARCHAR AS "cluster", NULL::VARCHAR AS label, NULL::BOOLEAN AS correct,
       MAP {'lang': 'en'} AS slices, md5(i::VARCHAR) AS sample_key, md5('sample ' || i) AS sample_hash
FROM range($rows) t(i)
"""
PART = """
SELECT sample_key, $signature AS signature, 'exact_match' AS metric, 'scored' AS status, MAP {'match': 1.0} AS "values",
       NULL::VARCHAR AS reason, NULL::VARCHAR AS details, 1 AS attempts, 0::DOUBLE AS seconds, 0 AS tokens_in,
       0 AS tokens_out, NULL::DOUBLE AS cost_usd, []::VARCHAR[] AS requests, false AS from_ledger
FROM read_parquet($todo)
"""


@pytest.mark.slow
def test_more_rows_than_fit_into_memory(tmp_path, monkeypatch):
    home, metric, work = Home(tmp_path), ExactMatch(), tmp_path / "runs" / "1"
    accepted = work / "accepted.parquet"
    with scratch(tmp_path) as connection:
        write_parquet(connection, ACCEPTED, accepted, {"rows": ROWS}, group_rows=10_240)
    monkeypatch.setattr(warehouse, "MEMORY_LIMIT", MEMORY_LIMIT)
    planned = plan(str(accepted), home, work, [metric], only_failed=False)
    assert (planned.n_samples, planned.n_todo) == (ROWS, (("exact_match", ROWS),))
    with scratch(tmp_path) as connection:
        about = {"signature": metric.signature, "todo": str(work / "todo.parquet")}
        write_parquet(connection, PART, tmp_path / "parts" / "part.parquet", about)
    loaded = Loaded("made", str(accepted), "", None, ROWS, ())
    committed = commit(home, "1", "made", loaded, str(accepted), ["parts/part.parquet"])
    assert [(one.n_rows, one.n_questions, one.repeats) for one in committed.releases] == [(ROWS // 2, ROWS // 2, 1)] * 2
    for table in ("samples", "answers", "measurements"):
        assert query(tmp_path, f"SELECT count(*) FROM {table}") == [(ROWS,)]
    assert plan(str(accepted), home, tmp_path / "runs" / "2", [metric], only_failed=False).n_known[0][1] == ROWS
