-- How many independent clusters a mean or a difference comes from. Nothing is known of what stands there.
ALTER TABLE report_scores ADD COLUMN IF NOT EXISTS n_clusters BIGINT;
ALTER TABLE IF EXISTS comparisons ADD COLUMN IF NOT EXISTS n_clusters BIGINT;
-- How many new releases were compared with one baseline together. What was stored was corrected for one.
ALTER TABLE IF EXISTS comparisons ADD COLUMN IF NOT EXISTS n_candidates BIGINT DEFAULT 1;

-- Several answers of a release to one question. What was stored before has one.
ALTER TABLE IF EXISTS answers ADD COLUMN IF NOT EXISTS repeat INTEGER DEFAULT 1;
ALTER TABLE IF EXISTS scores ADD COLUMN IF NOT EXISTS repeat INTEGER DEFAULT 1;
ALTER TABLE report_scores ADD COLUMN IF NOT EXISTS n_questions BIGINT;
ALTER TABLE report_scores ADD COLUMN IF NOT EXISTS within_variance DOUBLE;

-- Looks of the gate and candidates of a run. What stands there was decided at 95 %, each release as the only candidate.
ALTER TABLE IF EXISTS verdicts ADD COLUMN IF NOT EXISTS look BIGINT;
ALTER TABLE IF EXISTS verdicts ADD COLUMN IF NOT EXISTS n_candidates BIGINT DEFAULT 1;
ALTER TABLE IF EXISTS verdicts ADD COLUMN IF NOT EXISTS level DOUBLE DEFAULT 0.95;

-- Why there is no minimum detectable effect.
ALTER TABLE IF EXISTS comparisons ADD COLUMN IF NOT EXISTS mde_note VARCHAR;
