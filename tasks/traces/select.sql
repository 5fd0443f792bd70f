-- name: newest_versions
SELECT dataset, arg_max(version, created_at) FROM datasets GROUP BY dataset

-- name: references
SELECT sample_id, question, "references", facts, NULL, incorrect_references FROM samples
WHERE dataset = $dataset AND dataset_version = $version

-- name: tables
CREATE TABLE known (trace_id VARCHAR, outcome VARCHAR);
CREATE TABLE decided (
    "row" BIGINT, trace_id VARCHAR, "time" TIMESTAMPTZ, again BOOLEAN, looked_at BOOLEAN, bucket VARCHAR, reason VARCHAR
);

-- name: known
-- What a condition could not be evaluated for is tried again once the rule has that condition no more.
SELECT trace_id, CASE WHEN outcome = 'filtered' AND starts_with(reason, $unknown)
    AND NOT list_contains($conditions, substr(reason, length($unknown) + 1)) THEN 'failed' ELSE outcome END AS outcome
FROM trace_outcomes WHERE rule = $rule

-- name: last_run
SELECT watermark::VARCHAR, definition,
       EXISTS (FROM trace_outcomes WHERE rule = $rule AND outcome = 'scored') AS scored
FROM trace_rules WHERE rule = $rule

-- name: decide
-- A trace that breaks a condition, or for which one cannot be evaluated, is filtered with the text of the first such one
-- as the reason. In a backfill, a row without a time is in no range of dates.
INSERT INTO decided
SELECT "row", trace_id, "time", outcome IS NOT NULL AS again,
       coalesce(
           CASE WHEN $backfill
               THEN "time" >= coalesce($since, "time") AND "time" < coalesce($until, TIMESTAMPTZ 'infinity')
               ELSE coalesce("time" >= $begin, true) AND coalesce(outcome IN ('failed', 'skipped'), true)
           END,
           false
       ) AS looked_at,
       CASE WHEN NOT $enabled THEN 'disabled' WHEN problem IS NOT NULL THEN 'quarantined'
            WHEN broken IS NOT NULL THEN 'filtered' WHEN NOT sampled THEN 'sampled_out' ELSE 'sampled' END AS bucket,
       CASE bucket WHEN 'quarantined' THEN problem WHEN 'filtered' THEN broken END AS reason
FROM (
    SELECT *, list_position(list_transform(fits, lambda fit: fit IS NOT TRUE), true) AS first_broken,
           CASE WHEN fits[first_broken] IS NULL THEN $unknown ELSE '' END || ($conditions::VARCHAR[])[first_broken] AS broken
    FROM (
        SELECT *, [{fits}]::BOOLEAN[] AS fits
        FROM (SELECT "row", trace_id, "time", sampled, problem{values} FROM batch)
    )
) LEFT JOIN known USING (trace_id)
RETURNING "row", trace_id, CASE WHEN looked_at THEN bucket ELSE '' END, reason

-- name: looked_at
SELECT "row", trace_id, "time", bucket, reason FROM decided WHERE looked_at

-- name: counts
SELECT bucket, count(*) FROM decided WHERE looked_at GROUP BY bucket

-- name: newest
SELECT count(*) FILTER (again), (max("time") FILTER ("time" <= $now))::VARCHAR FROM decided WHERE looked_at

-- name: unknown
SELECT reason, count(*) FROM decided WHERE starts_with(reason, $unknown) GROUP BY reason ORDER BY reason

-- name: left_out
WITH too_late AS (
    FROM decided WHERE NOT looked_at AND NOT again AND bucket = 'sampled' AND ("time" >= $start OR $start IS NULL)
), settled AS (FROM decided WHERE NOT looked_at AND again)
SELECT (SELECT count(*) FROM too_late), (SELECT strftime(min("time"), '%Y-%m-%d') FROM too_late),
       (SELECT count(*) FROM settled), (SELECT strftime(min("time"), '%Y-%m-%d') FROM settled)
