-- name: n_rows
SELECT count(*) FROM read_parquet($file)

-- name: has_file_row_number
SELECT bool_or(lower(name) = 'file_row_number') FROM parquet_schema($file)

-- name: all_rows
FROM read_parquet($file)

-- name: rows
SELECT * EXCLUDE file_row_number FROM read_parquet($file, file_row_number = true)
WHERE file_row_number >= $first AND file_row_number < $end
