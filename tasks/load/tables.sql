-- name: rejected
-- DuckDB counts the line of the header.
SELECT line - 1, any_value(csv_line), string_agg(error_message, '; ') FROM reject_errors GROUP BY line ORDER BY line

-- name: tables
SELECT CASE WHEN table_schema = 'main' THEN '' ELSE table_schema || '.' END || table_name
FROM information_schema.tables ORDER BY table_schema <> 'main', table_schema, table_name

-- name: dialect
SELECT Delimiter, Quote, SkipRows FROM sniff_csv(?, header = true, all_varchar = true)

-- name: is_view
SELECT count(*) > 0 FROM duckdb_views() WHERE view_name = ? AND NOT internal
