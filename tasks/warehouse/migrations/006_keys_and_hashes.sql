-- What a report was when it was made; what stands there is hashed as it is now.
ALTER TABLE reports ADD COLUMN IF NOT EXISTS content_hash VARCHAR;
