-- name: rejected
-- DuckDB counts the line of the header.
SELECT line - 1, any_value(csv_line), string_agg(error_message, '; ') FROM reject_errors GROUP BY line ORDER BY line
