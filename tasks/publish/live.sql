-- name: rows
-- How many answers of each release the run scores: those of earlier runs, and equal ones twice, are not among them.
SELECT a.release, count(*) FROM read_parquet($answers, file_row_number = true) a
SEMI JOIN read_parquet($todo) t ON t.sample_key = a.sample_key GROUP BY a.release ORDER BY min(file_row_number)

-- name: scores
-- What finished shards have found for each release: rows with a status, those that are scored, and the mean of a field.
SELECT m.metric, m.field, a.release, count(DISTINCT a."row") AS n_done, count(m."value") AS n_scored, avg(m."value") AS mean
FROM (
    SELECT metric, sample_key, f.field, map_extract("values", f.field)[1] AS "value"
    FROM read_parquet($parts) JOIN (SELECT unnest($metrics) AS metric, unnest($fields) AS field) f USING (metric)
) m JOIN read_parquet($answers, file_row_number = true) a USING (sample_key)
GROUP BY m.metric, m.field, a.release ORDER BY m.metric, min(file_row_number)

-- name: fields
-- The fields of each metric in finished shards.
SELECT metric, list_distinct(flatten(list(map_keys("values")))) FROM read_parquet($parts) GROUP BY metric ORDER BY metric
