-- Columns that releases of the first version added one by one; a home may have been written by any of them.
ALTER TABLE IF EXISTS answers ADD COLUMN IF NOT EXISTS missing_because VARCHAR;
ALTER TABLE IF EXISTS measurements ADD COLUMN IF NOT EXISTS requests VARCHAR[];
ALTER TABLE IF EXISTS measurements ADD COLUMN IF NOT EXISTS from_ledger BOOLEAN;
ALTER TABLE IF EXISTS reports ADD COLUMN IF NOT EXISTS message VARCHAR;
ALTER TABLE IF EXISTS comparisons ADD COLUMN IF NOT EXISTS people DOUBLE;
ALTER TABLE IF EXISTS comparisons ADD COLUMN IF NOT EXISTS people_low DOUBLE;
ALTER TABLE IF EXISTS comparisons ADD COLUMN IF NOT EXISTS people_high DOUBLE;
ALTER TABLE IF EXISTS comparisons ADD COLUMN IF NOT EXISTS n_labelled BIGINT;

-- What was in the manifest only, and is joined on.
ALTER TABLE reports ADD COLUMN IF NOT EXISTS answers_version VARCHAR;
ALTER TABLE reports ADD COLUMN IF NOT EXISTS run_id VARCHAR;
UPDATE reports SET
    answers_version = json_extract_string(manifest, '$.answers_version'),
    run_id = json_extract_string(manifest, '$.run_id');
