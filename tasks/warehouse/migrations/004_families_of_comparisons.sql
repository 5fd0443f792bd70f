-- Answers that the new release did not give. Of what was stored, it is not known.
ALTER TABLE IF EXISTS comparisons ADD COLUMN IF NOT EXISTS n_unanswered BIGINT DEFAULT 0;
ALTER TABLE IF EXISTS comparisons ADD COLUMN IF NOT EXISTS low_with_unanswered DOUBLE;

-- Which fields were compared, and corrected for, together. The headline fields are one of each metric.
ALTER TABLE IF EXISTS comparisons ADD COLUMN IF NOT EXISTS family VARCHAR DEFAULT 'headlines';
