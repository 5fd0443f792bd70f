-- The passages that answers were to rest on. Of what was stored, none are known.
ALTER TABLE IF EXISTS answers ADD COLUMN IF NOT EXISTS context VARCHAR[];
