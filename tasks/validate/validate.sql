-- name: releases_without_rows
-- Releases of which every row is in quarantine, with the number of rows.
SELECT release, count(*) FROM read_parquet($quarantine)
WHERE release IS NOT NULL AND release NOT IN (SELECT DISTINCT release FROM read_parquet($accepted))
GROUP BY release ORDER BY release

-- name: unread
-- The rows that could not be read: of each rule how many, the first three, and why the first one could not.
SELECT rule, count(*), arg_min({'file': file, 'row': "row"}, file_row_number, 3) FILTER ("row" IS NOT NULL),
       arg_min(reason, file_row_number)
FROM read_parquet($rejects, file_row_number = true)
GROUP BY rule ORDER BY min(file_row_number)

-- name: refused
-- The numbers of the rules that a row in quarantine breaks, which are counted in the order of the checks.
CREATE TEMP TABLE refused AS
SELECT position, list(number ORDER BY number) AS rules FROM broken WHERE quarantines GROUP BY position

-- name: broken
-- Of each rule: how many rows break it, and how many of them are in quarantine under it and no earlier one; with the
-- first three of both.
WITH rows_of_rules AS (
    SELECT
        number,
        position,
        {'file': file, 'row': CASE WHEN file IS NULL THEN "row" ELSE file_row END} AS place,
        coalesce(number = rules[1], false) AS is_first
    FROM broken
    JOIN staged_file ON file_row_number = position
    LEFT JOIN refused USING (position)
)
SELECT
    number,
    count(*),
    arg_min(place, position, 3),
    count(*) FILTER (is_first),
    coalesce(arg_min(place, position, 3) FILTER (is_first), [])
FROM rows_of_rules GROUP BY number

-- name: window
SELECT frame.*, rules FROM frame LEFT JOIN refused USING (position)
WHERE position >= $first AND position < $end ORDER BY position

-- name: releases
FROM releases ORDER BY position
