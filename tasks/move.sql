-- The tables of a home, but for the one that only says which version they have.
-- name: tables
SELECT table_name
FROM information_schema.tables
WHERE table_catalog = current_catalog() AND table_schema = 'main' AND table_type = 'BASE TABLE'
  AND table_name <> 'schema_version'
ORDER BY table_name

-- What tells the content of a table from any other, in whatever order its rows come: their number, and two sums over
-- their hashes.
-- name: content
SELECT count(*), coalesce(bit_xor(md5_number(row)), 0), coalesce(sum(md5_number_lower(row)), 0)
FROM (SELECT to_json(struct_pack(COLUMNS_BY_NAME))::VARCHAR AS row FROM MOVED_TABLE)
