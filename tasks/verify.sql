-- name: relations
-- What there is in this database: views with their SQL, tables with their columns, and macros.
SELECT if(schema_name = 'main', view_name, schema_name || '.' || view_name), 'view', sql
FROM duckdb_views() WHERE NOT internal AND database_name = current_database()
UNION ALL
SELECT
    if(schema_name = 'main', table_name, schema_name || '.' || table_name), 'table',
    string_agg(column_name || ' ' || data_type, ', ' ORDER BY column_name)
FROM duckdb_columns() SEMI JOIN duckdb_tables() USING (database_name, schema_name, table_name)
WHERE NOT internal AND database_name = current_database() GROUP BY schema_name, table_name
UNION ALL
SELECT DISTINCT function_name, 'macro', ''
FROM duckdb_functions() WHERE NOT internal AND database_name = current_database()
ORDER BY ALL

-- name: parts
-- What the parts of a table are now, beside what was written down of them.
SELECT coalesce(now.part, written.part), now.n_rows, now.content_hash, written.n_rows, written.content_hash
FROM (HASHES) AS now
FULL JOIN (FROM content_hashes WHERE table_name = $table) AS written USING (part)
ORDER BY 1

-- name: doubled
-- Keys as their hashes, since a million texts would not fit into memory.
SELECT coalesce(sum(n - 1), 0)::BIGINT FROM (SELECT count(*) AS n FROM CHECKED_TABLE GROUP BY hash(UNIQUE_COLUMNS) HAVING n > 1)

-- name: own_scores
-- The scores of reports without pass@k and pass^k, which are made again. In a session, these tables hide the stored ones.
CREATE OR REPLACE TEMP TABLE scores AS
SELECT * FROM scores WHERE report_id IN (SELECT unnest($reports)) AND NOT contains(field, '_pass@') AND NOT contains(field, '_pass^')

-- name: own_aggregates
CREATE OR REPLACE TEMP TABLE report_scores AS FROM report_scores LIMIT 0

-- name: forget
DROP TABLE IF EXISTS temp.scores; DROP TABLE IF EXISTS temp.report_scores

-- name: unmeasured
-- A failed measurement may have been made again since; one with a number stays what it was.
SELECT s.sample_id, s.metric, s.field, s."value", map_extract_value(m."values", s.field)
FROM scores s
JOIN reports r USING (report_id)
JOIN answers a ON a.dataset = r.dataset AND a.release = r.release AND a.answers_version = r.answers_version
    AND a.sample_id = s.sample_id AND a.repeat = s.repeat
JOIN measurements m ON m.sample_key = a.sample_key AND m.signature = s.signature
WHERE s.report_id = $report_id AND s.status = 'scored' AND m.status = 'scored' AND m.created_at <= r.created_at
    AND NOT contains(s.field, '_pass@') AND NOT contains(s.field, '_pass^')
    AND s."value" IS DISTINCT FROM map_extract_value(m."values", s.field)
ORDER BY ALL LIMIT $most

-- name: removed
SELECT removed_at, reports FROM removals

-- name: n_calls
SELECT count(*) FROM judge_calls SEMI JOIN read_parquet($file) USING (call_id)

-- name: missing_calls
SELECT c.run, count(*) FILTER (l.call_id IS NULL) AS n, count(*)
FROM judge_calls c LEFT JOIN read_parquet($file) l USING (call_id) GROUP BY c.run HAVING n > 0 ORDER BY c.run

-- name: added_calls
-- The newest reply to a request is the one that is scored.
SELECT run, call_id FROM read_parquet($file)
SEMI JOIN (FROM judge_calls WHERE status = 'usable') USING (request_key) ANTI JOIN judge_calls USING (call_id)
WHERE status = 'usable' ORDER BY started_at, call_id LIMIT $most

-- name: damaged
SELECT run, call_id FROM read_parquet($file) WHERE code = $code ORDER BY started_at, call_id

-- name: other_calls
-- What was in flight when it came here may have ended since.
SELECT c, l FROM judge_calls c JOIN read_parquet($file) l USING (call_id)
WHERE c.status <> 'sent' AND l.code IS DISTINCT FROM $code AND (CALL_DIFFERS) ORDER BY c.started_at, c.call_id LIMIT $most
