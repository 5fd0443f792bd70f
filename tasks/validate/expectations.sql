-- name: other_columns
SELECT DISTINCT unnest(list_concat(coalesce(map_keys(slices), []), coalesce(map_keys("columns"), []))) AS name
FROM staged_file
ORDER BY name
