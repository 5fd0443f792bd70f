-- name: n_rows
SELECT count(*) FROM read_parquet($file, hive_partitioning = false)

-- name: has_file_row_number
SELECT bool_or(lower(name) = 'file_row_number') FROM parquet_schema($file)

-- name: all_rows
FROM read_parquet($file, hive_partitioning = false)

-- name: rows
SELECT * EXCLUDE file_row_number FROM read_parquet($file, hive_partitioning = false, file_row_number = true)
WHERE file_row_number >= $first AND file_row_number < $end
