"""Aggregation spills to disk where its rows do not fit into the memory of a session."""

import pytest

from answerkey.metrics_core.metrics.answer_correctness import AnswerCorrectness
from answerkey.tasks.reports.aggregate import aggregate
from answerkey.tasks.reports.commit import Committed, ReleaseVersion
from answerkey.tasks.warehouse import warehouse
from answerkey.tasks.warehouse.home import Home
from tests.tasks.staging_help import query

ROWS = 400_000
MEMORY_LIMIT = "180MB"
"""About as much per row as what a million rows have in a session: too little for all fields of all rows at once."""

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


@pytest.mark.slow
def test_more_rows_than_fit_into_memory(tmp_path, monkeypatch):
    home, metric = Home(tmp_path), AnswerCorrectness()
    fields = [field.name for field in metric.fields]
    with home.warehouse.writing() as connection:
        connection.execute(SAMPLES, {"rows": ROWS})
        connection.execute(ANSWERS, {"rows": ROWS})
        connection.execute(MEASUREMENTS, {"rows": ROWS, "signature": metric.signature, "fields": fields})
    monkeypatch.setattr(warehouse, "MEMORY_LIMIT", MEMORY_LIMIT)
    committed = Committed("made", "d1", (ReleaseVersion("r1", "a1", ROWS, ROWS, 1),))
    [made] = aggregate(home, committed, [metric], {})
    assert (made.report_id, made.status) == ("made/r1/v1", "COMPLETE")
    counts = "SELECT slice, n_scored, count(*) FROM report_scores GROUP BY ALL ORDER BY ALL"
    assert query(tmp_path, counts) == [
        ("all", ROWS, len(fields)), ("lang=en", ROWS // 2, len(fields)), ("lang=ru", ROWS // 2, len(fields)),
    ]  # fmt: skip
