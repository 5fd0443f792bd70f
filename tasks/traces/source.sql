-- The three kinds of sources as one relation. A file that was downloaded is called as people know it.

-- name: json
SELECT map($files, $names)[filename] AS file, row_number() OVER () AS "row", json AS trace
FROM read_ndjson_objects($json_files, ignore_errors = true, filename = true)

-- name: parquet
-- The alias must be no column's name: it stands for the whole row.
SELECT map($files, $names)[filename] AS file, row_number() OVER () AS "row", to_json("the whole row")::JSON AS trace
FROM read_parquet($parquet_files, filename = true, union_by_name = true) AS "the whole row"

-- name: table
SELECT $file AS file, row_number() OVER () AS "row", to_json("the whole row")::JSON AS trace
FROM {name} AS "the whole row"

-- name: nothing
SELECT NULL::VARCHAR AS file, NULL::BIGINT AS "row", NULL::JSON AS trace WHERE false

-- name: unread
-- The rows that are no JSON to DuckDB, by file, with the number of its first row.
SELECT file, min("row"), list("row") FILTER (trace IS NULL) FROM ({query}) GROUP BY file HAVING bool_or(trace IS NULL)
