-- name: tables
SELECT CASE WHEN table_schema = 'main' THEN '' ELSE table_schema || '.' END || table_name
FROM information_schema.tables ORDER BY table_schema <> 'main', table_schema, table_name

-- name: is_view
SELECT count(*) > 0 FROM duckdb_views() WHERE view_name = ? AND NOT internal
