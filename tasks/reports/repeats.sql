-- name: count_right
-- By field and question: how many answers have a number, and how many of those are 1. With fewer than k there is no
-- unbiased estimate; the question then has no number, as its answers have none.
CREATE OR REPLACE TEMP TABLE right_answers AS
SELECT report_id, dataset, dataset_version, release, sample_id, min(repeat) AS repeat, metric, field, signature,
       count("value") AS n, count(*) FILTER ("value" = 1) AS n_right,
       CASE WHEN n >= $k THEN 'scored'
            WHEN bool_or(status = 'failed') THEN 'failed'
            WHEN bool_or(status = 'skipped') THEN 'skipped'
            WHEN bool_or(status = 'undefined') THEN 'undefined'
            ELSE 'failed' END AS outcome
FROM scores JOIN (SELECT unnest($metrics) AS metric, unnest($fields) AS field) USING (metric, field)
WHERE report_id = $report_id
GROUP BY report_id, dataset, dataset_version, release, sample_id, metric, field, signature

-- name: pairs
SELECT DISTINCT n, n_right FROM right_answers WHERE n >= $k ORDER BY ALL

-- name: add_passes
INSERT INTO scores BY NAME
WITH chances AS (
    SELECT unnest($n) AS n, unnest($right) AS n_right, unnest($any) AS any_right, unnest($each) AS each_right
)
SELECT report_id, dataset, dataset_version, release, sample_id, repeat, metric, signature, outcome AS status,
       field || '_pass' || sign || $k::VARCHAR AS field, if(sign = '@', any_right, each_right) AS "value",
       if(outcome = 'scored', NULL, concat(n, ' of ', $k, ' answers have a number')) AS reason
FROM right_answers CROSS JOIN (SELECT unnest(['@', '^']) AS sign) LEFT JOIN chances USING (n, n_right)

-- name: count_answers
-- The bounds are those of a mean per question too: every answer that should have a number has the lowest, or highest.
UPDATE report_scores SET
    n_total = c.n_total, n_scored = c.n_scored, n_failed = c.n_failed, n_undefined = c.n_undefined,
    n_skipped = c.n_skipped, coverage = c.n_scored / c.n_total, n_questions = c.n_questions,
    within_variance = c.within_variance, bound_low = c.base + c.missing * c.low,
    bound_high = c.base + c.missing * coalesce(c.high, if(c.missing = 0, 0, NULL))
FROM (
    WITH places AS (
        SELECT report_id, sample_id, slice FROM report_slices WHERE report_id IN (SELECT unnest($reports))
        QUALIFY repeat = min(repeat) OVER (PARTITION BY report_id, sample_id)
    ),
    questions AS (
        SELECT report_id, sample_id, metric, field, count(*) AS n, count("value") AS n_scored,
               count(*) FILTER (status = 'failed') AS n_failed, count(*) FILTER (status = 'undefined') AS n_undefined,
               count(*) FILTER (status = 'skipped') AS n_skipped, n_failed + n_skipped AS n_missing,
               coalesce(fsum("value"), 0) AS total, var_samp("value") AS variance
        FROM scores WHERE report_id IN (SELECT unnest($reports)) GROUP BY report_id, sample_id, metric, field
    ),
    ends AS (
        SELECT unnest($metrics) AS metric, unnest($fields) AS field, unnest($lows) AS low, unnest($highs) AS high
    )
    SELECT report_id, slice, metric, field, any_value(low) AS low, any_value(high) AS high, sum(n)::BIGINT AS n_total,
           sum(n_scored)::BIGINT AS n_scored, sum(n_failed)::BIGINT AS n_failed, sum(n_undefined)::BIGINT AS n_undefined,
           sum(n_skipped)::BIGINT AS n_skipped, count(*) FILTER (n_scored > 0) AS n_questions,
           avg(variance) AS within_variance, avg(total / nullif(n_scored + n_missing, 0)) AS base,
           avg(n_missing / nullif(n_scored + n_missing, 0)) AS missing
    FROM places JOIN questions USING (report_id, sample_id) JOIN ends USING (metric, field)
    GROUP BY report_id, slice, metric, field
) AS c
WHERE report_scores.report_id = c.report_id AND report_scores.slice = c.slice AND report_scores.metric = c.metric
    AND report_scores.field = c.field
