-- The three kinds of sources as one relation; {name} is an expression with the name of the file.

-- name: json
SELECT {name} AS file, row_number() OVER () AS "row", json AS trace
FROM read_ndjson_objects($json_files, ignore_errors = true, filename = true)

-- name: parquet
-- The alias must be no column's name: it stands for the whole row.
SELECT {name} AS file, row_number() OVER () AS "row", to_json("the whole row")::JSON AS trace
FROM read_parquet($parquet_files, filename = true, union_by_name = true) AS "the whole row"

-- name: table
SELECT $file AS file, row_number() OVER () AS "row", to_json("the whole row")::JSON AS trace
FROM {name} AS "the whole row"
