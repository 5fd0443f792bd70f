-- name: releases_without_rows
-- Releases of which every row is in quarantine, with the number of rows.
SELECT release, count(*) FROM read_parquet($quarantine)
WHERE release IS NOT NULL AND release NOT IN (SELECT DISTINCT release FROM read_parquet($accepted))
GROUP BY release ORDER BY release

-- name: in_quarantine
-- What is in quarantine under each rule, first what could not be read: how many rows, the first three, and why the
-- first one is there.
SELECT rule, count(*),
       coalesce(arg_min({'file': file, 'row': "row"}, file_row_number, 3) FILTER ("row" IS NOT NULL), []),
       arg_min(reason, file_row_number)
FROM read_parquet($quarantine, file_row_number = true)
GROUP BY rule ORDER BY coalesce(list_position($rules, rule), 0), min(file_row_number)

-- name: refused
-- The numbers of the rules that a row in quarantine breaks, which are counted in the order of the checks.
CREATE TEMP TABLE refused AS
SELECT position, list(number ORDER BY number) AS rules FROM broken WHERE quarantines GROUP BY position

-- name: broken
-- Of each rule: how many rows break it, and the first three.
SELECT number, count(*), arg_min({'file': file, 'row': CASE WHEN file IS NULL THEN "row" ELSE file_row END}, position, 3)
FROM broken JOIN staged_file ON file_row_number = position
GROUP BY number

-- name: window
SELECT frame.*, rules FROM frame LEFT JOIN refused USING (position)
WHERE position >= $first AND position < $end ORDER BY position

-- name: releases
FROM releases ORDER BY position
