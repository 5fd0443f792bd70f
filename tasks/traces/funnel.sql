-- name: shown
SELECT count(*) OVER (), trace_id, strftime("time", '%Y-%m-%d %H:%M:%S'), left(answer, 200)
FROM read_parquet($accepted) JOIN read_parquet($decided) USING ("row")
WHERE missing_because IS NULL
ORDER BY "time", trace_id LIMIT $most

-- name: ends
-- Where every row ended, with the measurement of its answer.
CREATE OR REPLACE TEMP TABLE ends AS
SELECT trace_id, "time", a.sample_key,
       CASE WHEN bucket <> 'sampled' THEN bucket WHEN a."row" IS NULL THEN 'quarantined'
            ELSE coalesce(m.status, 'skipped') END AS outcome,
       CASE WHEN bucket <> 'sampled' THEN d.reason ELSE m.reason END AS reason,
       CASE WHEN outcome = 'scored' THEN m."values" END AS "values"
FROM read_parquet($decided) d
-- What is quarantined stays among the accepted rows as an answer that is missing.
LEFT JOIN (FROM read_parquet($accepted) WHERE missing_because IS NULL) a USING ("row")
LEFT JOIN (FROM measurements WHERE signature = $signature) m ON m.sample_key = a.sample_key

-- name: new_outcomes
CREATE OR REPLACE TEMP TABLE new_outcomes AS
SELECT $rule AS rule, * EXCLUDE sample_key, $metric AS metric, $signature AS signature, sample_key, $run_id AS run_id,
       now() AS updated_at
FROM ends
QUALIFY row_number() OVER (PARTITION BY trace_id ORDER BY sample_key IS NULL, outcome) = 1

-- name: replace_outcomes
-- What has no number does not replace what has one: a backfill under a lower rate takes no score away.
DELETE FROM trace_outcomes AS old USING new_outcomes AS new
WHERE old.rule = new.rule AND old.trace_id = new.trace_id AND (new.outcome = 'scored' OR old.outcome <> 'scored')

-- name: add_outcomes
INSERT INTO trace_outcomes BY NAME SELECT * FROM new_outcomes ANTI JOIN trace_outcomes USING (rule, trace_id)

-- name: counts
SELECT outcome, count(*) FROM ends GROUP BY outcome

-- name: mean
-- The mean of a field over the traces, how often each value occurs, and the share of the rows to be scored that were.
SELECT
    fsum("value") / nullif(count("value"), 0),
    histogram(round("value", 4)),
    (
        SELECT count(*) FILTER (outcome = 'scored') / greatest(1, count(*) FILTER (outcome IN ('scored', 'failed', 'skipped')))
        FROM ends
    )
FROM (SELECT map_extract("values", $field)[1] AS "value" FROM new_outcomes)

-- name: add_rule
INSERT INTO trace_rules (rule, watermark, metric, definition, run_id, updated_at)
VALUES ($rule, $watermark, $metric, $definition, $run_id, now())

-- name: forget_outcomes
DELETE FROM trace_outcomes
WHERE rule = $rule AND "time" < $begin AND outcome IN ('disabled', 'filtered', 'sampled_out')

-- name: add_funnel
INSERT INTO trace_funnels (
    run_id, rule, created_at, since, until, n_seen, n_disabled, n_filtered, n_sampled_out, n_quarantined, n_scored,
    n_undefined, n_failed, n_skipped, n_again, n_measured, sampling, metric, signature, watermark
) VALUES (
    $run_id, $rule, now(), $since, $until, $seen, $disabled, $filtered, $sampled_out, $quarantined, $scored,
    $undefined, $failed, $skipped, $again, $measured, $sampling, $metric, $signature, $watermark
)
