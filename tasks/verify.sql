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

-- name: other_calls
-- What was in flight when it came here may have ended since.
SELECT c, l FROM judge_calls c JOIN read_parquet($file) l USING (call_id)
WHERE c.status <> 'sent' AND (CALL_DIFFERS) ORDER BY c.started_at, c.call_id LIMIT $most
