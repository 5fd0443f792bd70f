-- name: known
-- The references by id, in SQLite. The file is of one process alone, and made again by the next one.
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -65536;
DROP TABLE IF EXISTS known;
BEGIN;
CREATE TABLE known (id TEXT PRIMARY KEY, content BLOB) WITHOUT ROWID;
