"""Planning, committing and aggregating spill to disk where the rows do not fit into the memory of a session."""

import pytest

from answerkey.metrics_core.metrics.answer_correctness import AnswerCorrectness
from answerkey.metrics_core.metrics.words import ExactMatch
from answerkey.tasks.load.load import Loaded
from answerkey.tasks.reports.aggregate import aggregate
from answerkey.tasks.reports.commit import Committed, ReleaseVersion, commit
from answerkey.tasks.score.plan import plan
from answerkey.tasks.warehouse import warehouse
from answerkey.tasks.warehouse.warehouse import scratch, write_parquet
from tests.tasks.staging_help import query

pytestmark = pytest.mark.nightly

ACCEPTED = """
SELECT i AS "row", 'a question with a long name, number ' || i AS sample_id, 'r' || i % 2 AS release,
       repeat('what? ', 30) || i AS question, repeat('because ', 30) || i AS answer, NULL::VARCHAR AS missing_because,
       '1' AS repeat, [repeat('so ', 30) || i, repeat('then ', 30) || i] AS "references", []::VARCHAR[] AS facts,
       NULL::VARCHAR[] AS context, []::VARCHAR[] AS incorrect_references,
       NULL::VARCHAR AS "cluster", NULL::VARCHAR AS label, NULL::BOOLEAN AS correct,
       MAP {'lang': 'en'} AS slices, NULL::MAP(VARCHAR, VARCHAR) AS "columns",
       NULL::VARCHAR AS file, NULL::DOUBLE AS release_order, NULL::MAP(VARCHAR, DOUBLE) AS given,
       md5(i::VARCHAR) AS sample_key, md5('sample ' || i) AS sample_hash
FROM range($rows) t(i)
"""
PART = """
SELECT sample_key, $signature AS signature, 'exact_match' AS metric, 'scored' AS status, MAP {'match': 1.0} AS "values",
       NULL::VARCHAR AS reason, NULL::VARCHAR AS details, 1 AS attempts, 0::DOUBLE AS seconds, 0 AS tokens_in,
       0 AS tokens_out, NULL::DOUBLE AS cost_usd, []::VARCHAR[] AS requests, false AS from_ledger
FROM read_parquet($todo)
"""


def test_more_rows_than_fit_into_memory_are_planned_and_committed(home, tmp_path, monkeypatch):
    rows, metric, work = 150_000, ExactMatch(), tmp_path / "runs" / "1"
    accepted = work / "accepted.parquet"
    with scratch(tmp_path) as connection:
        write_parquet(connection, ACCEPTED, accepted, {"rows": rows}, group_rows=10_240)
    # A fraction of the texts, and more per row than ten million rows have in a session.
    monkeypatch.setattr(warehouse, "MEMORY_LIMIT", "100MB")
    planned = plan(str(accepted), home, work, [metric], only_failed=False)
    assert (planned.n_samples, planned.n_todo) == (rows, (("exact_match", rows),))
    with scratch(tmp_path) as connection:
        about = {"signature": metric.signature, "todo": str(work / "todo.parquet")}
        write_parquet(connection, PART, tmp_path / "parts" / "part.parquet", about)
    loaded = Loaded("made", str(accepted), "", None, rows, ())
    committed = commit(home, "1", "made", loaded, str(accepted), ["parts/part.parquet"])
    assert [(release.n_rows, release.n_questions, release.repeats) for release in committed.releases] == [
        (rows // 2, rows // 2, 1)
    ] * 2
    for table in ("samples", "answers", "measurements"):
        assert query(home, f"SELECT count(*) FROM {table}") == [(rows,)]
    assert plan(str(accepted), home, tmp_path / "runs" / "2", [metric], only_failed=False).n_known[0][1] == rows


SAMPLES = """
INSERT INTO samples BY NAME
SELECT 'made' AS dataset, 'd1' AS dataset_version, 'sample ' || i AS sample_id, 'q' AS question FROM range($rows) t(i)
"""
ANSWERS = """
INSERT INTO answers BY NAME
SELECT 'made' AS dataset, 'r1' AS release, 'a1' AS answers_version, 'sample ' || i AS sample_id,
       md5(i::VARCHAR) AS sample_key, 'a' AS answer, MAP {'lang': ['en', 'ru'][i % 2 + 1]} AS slices
FROM range($rows) t(i)
"""
MEASUREMENTS = """
INSERT INTO measurements BY NAME
SELECT md5(i::VARCHAR) AS sample_key, $signature AS signature, 'answer_correctness' AS metric, 'scored' AS status,
       map_from_entries([(name, (hash(i, name) % 1000) / 999) FOR name IN $fields]) AS "values",
       1 AS attempts, 0 AS seconds, 0 AS tokens_in, 0 AS tokens_out, 'run' AS run_id, now() AS created_at
FROM range($rows) t(i)
"""


def test_more_rows_than_fit_into_memory_are_aggregated(home, monkeypatch):
    rows, metric = 400_000, AnswerCorrectness()
    fields = [field.name for field in metric.fields]
    with home.warehouse.writing() as connection:
        connection.execute(SAMPLES, {"rows": rows})
        connection.execute(ANSWERS, {"rows": rows})
        connection.execute(MEASUREMENTS, {"rows": rows, "signature": metric.signature, "fields": fields})
    # About as much per row as what a million rows have in a session: too little for all fields of all rows at once.
    monkeypatch.setattr(warehouse, "MEMORY_LIMIT", "180MB")
    [made] = aggregate(home, Committed("made", "d1", (ReleaseVersion("r1", "a1", rows, rows, 1),)), [metric], {})
    assert (made.report_id, made.status) == ("made/r1/v1", "COMPLETE")
    assert query(home, "SELECT slice, n_scored, count(*) FROM report_scores GROUP BY ALL ORDER BY ALL") == [
        ("all", rows, len(fields)), ("lang=en", rows // 2, len(fields)), ("lang=ru", rows // 2, len(fields)),
    ]  # fmt: skip
