-- Answers known to be wrong. Of what was stored, none are known.
ALTER TABLE IF EXISTS samples ADD COLUMN IF NOT EXISTS incorrect_references VARCHAR[];
