-- How many independent clusters a mean or a difference comes from. Nothing is known of what stands there.
ALTER TABLE report_scores ADD COLUMN n_clusters BIGINT;
ALTER TABLE IF EXISTS comparisons ADD COLUMN n_clusters BIGINT;
-- How many new releases were compared with one baseline together. What was stored was corrected for one.
ALTER TABLE IF EXISTS comparisons ADD COLUMN n_candidates BIGINT DEFAULT 1;
