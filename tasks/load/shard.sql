-- name: n_rows
SELECT count(*) FROM read_parquet($file)

-- name: rows
SELECT * EXCLUDE file_row_number FROM read_parquet($file, file_row_number = true)
WHERE file_row_number >= $first AND file_row_number < $end
