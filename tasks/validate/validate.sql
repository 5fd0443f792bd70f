-- name: releases_without_rows
-- Releases of which every row is in quarantine, with the number of rows.
SELECT release, count(*) FROM read_parquet($quarantine)
WHERE release IS NOT NULL AND release NOT IN (SELECT DISTINCT release FROM read_parquet($accepted))
GROUP BY release ORDER BY release

-- name: window
FROM frame WHERE position >= $first AND position < $end ORDER BY position

-- name: releases
FROM releases ORDER BY position

-- name: other_columns
SELECT DISTINCT unnest(list_concat(coalesce(map_keys(slices), []), coalesce(map_keys("columns"), []))) AS name
FROM staged_file
ORDER BY name
