-- name: changed
-- What a state changed is listed by kind, with the numbers of tables as text.
SELECT count(*) > 0 FROM ducklake_snapshots('lake')
WHERE snapshot_id > $since AND list_has_any(flatten(map_values(changes)), (
    SELECT list(table_id::VARCHAR) FROM ducklake_table_info('lake') WHERE table_name IN (SELECT unnest($tables))
))
