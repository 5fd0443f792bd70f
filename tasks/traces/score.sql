-- name: references
SELECT sample_id, question, "references", facts, NULL, incorrect_references FROM samples
WHERE dataset = $dataset AND dataset_version = $version

-- name: newest_versions
SELECT dataset, arg_max(version, created_at) FROM datasets GROUP BY dataset

-- name: shown
SELECT count(*) OVER (), a.sample_id, strftime(d.time, '%Y-%m-%d %H:%M:%S'), left(a.answer, 200)
FROM read_parquet($accepted) a
JOIN (SELECT trace_id, min(time) AS time FROM read_parquet($decided) GROUP BY trace_id) d ON d.trace_id = a.sample_id
WHERE a.missing_because IS NULL
ORDER BY d.time, a.sample_id LIMIT $most

-- name: taken
CREATE OR REPLACE TEMP TABLE taken (sample_id VARCHAR, sample_key VARCHAR)

-- name: add_taken
INSERT INTO taken SELECT sample_id, sample_key FROM read_parquet($accepted) WHERE missing_because IS NULL

-- name: new_outcomes
CREATE OR REPLACE TEMP TABLE new_outcomes AS
SELECT $rule AS rule, d.trace_id, d."time",
       CASE WHEN d.bucket <> 'sampled' THEN d.bucket WHEN t.sample_id IS NULL THEN 'quarantined'
            ELSE coalesce(m.status, 'skipped') END AS outcome,
       CASE WHEN d.bucket <> 'sampled' THEN d.reason ELSE m.reason END AS reason,
       $metric AS metric, $signature AS signature, t.sample_key,
       CASE WHEN outcome = 'scored' THEN m."values" END AS "values", $run_id AS run_id, now() AS updated_at
FROM read_parquet($decided) d
LEFT JOIN taken t ON t.sample_id = CASE WHEN d.bucket = 'sampled' THEN d.trace_id END
LEFT JOIN (FROM measurements WHERE signature = $signature) m ON m.sample_key = t.sample_key
QUALIFY row_number() OVER (PARTITION BY d.trace_id ORDER BY t.sample_id IS NULL, d.bucket) = 1

-- name: replace_outcomes
-- What has no number does not replace what has one: a backfill under a lower rate takes no score away.
DELETE FROM trace_outcomes AS old USING new_outcomes AS new
WHERE old.rule = new.rule AND old.trace_id = new.trace_id AND (new.outcome = 'scored' OR old.outcome <> 'scored')

-- name: add_outcomes
INSERT INTO trace_outcomes BY NAME SELECT * FROM new_outcomes ANTI JOIN trace_outcomes USING (rule, trace_id)

-- name: counts
SELECT coalesce(m.status, 'skipped'), count(*)
FROM taken LEFT JOIN (FROM measurements WHERE signature = $signature) m USING (sample_key)
GROUP BY ALL

-- name: mean
SELECT count("value"), fsum("value") / nullif(count("value"), 0), histogram(round("value", 4))
FROM (SELECT map_extract("values", $field)[1] AS "value" FROM new_outcomes WHERE outcome = 'scored')

-- name: forget_quarantine
DELETE FROM quarantine WHERE run_id = $run_id AND dataset = $rule

-- name: add_quarantine
INSERT INTO quarantine BY NAME
SELECT $run_id AS run_id, $rule AS dataset, coalesce(t.file, $source) AS source, q."row", sample_id, NULL AS release,
       q.rule, q.reason, q.raw
FROM read_parquet($quarantine) q
LEFT JOIN (SELECT trace_id AS sample_id, "row", any_value(file) AS file FROM read_parquet($taken) GROUP BY ALL) t
    USING (sample_id, "row")

-- name: n_quarantined
SELECT count(*) FROM read_parquet($quarantine)

-- name: replace_rule
UPDATE trace_rules SET watermark = $watermark, metric = $metric, definition = $definition, run_id = $run_id,
    updated_at = now()
WHERE rule = $rule

-- name: add_rule
INSERT INTO trace_rules (rule, watermark, metric, definition, run_id, updated_at)
SELECT $rule, $watermark, $metric, $definition, $run_id, now()
WHERE NOT EXISTS (FROM trace_rules WHERE rule = $rule)

-- name: forget_outcomes
DELETE FROM trace_outcomes
WHERE rule = $rule AND "time" < $begin AND outcome IN ('disabled', 'filtered', 'sampled_out')

-- name: forget_funnel
DELETE FROM trace_funnels WHERE run_id = $run_id AND rule = $rule

-- name: add_funnel
INSERT INTO trace_funnels (
    run_id, rule, created_at, since, until, n_seen, n_disabled, n_filtered, n_sampled_out, n_quarantined, n_scored,
    n_undefined, n_failed, n_skipped, n_again, n_measured, sampling, metric, signature, watermark
) VALUES (
    $run_id, $rule, now(), $since, $until, $seen, $disabled, $filtered, $sampled_out, $quarantined, $scored,
    $undefined, $failed, $skipped, $again, $measured, $sampling, $metric, $signature, $watermark
)
