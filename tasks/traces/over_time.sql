-- name: rules
SELECT rule, metric FROM trace_rules ORDER BY rule

-- name: fields
SELECT DISTINCT metric, unnest(map_keys("values")) FROM trace_outcomes WHERE rule = $rule ORDER BY ALL

-- name: periods
-- The traces of a rule in their periods, with the last way of scoring as a number.
WITH measured AS (
    SELECT date_trunc($by, "time") AS start, outcome, signature, min("time") OVER (PARTITION BY signature) AS since,
           CASE WHEN outcome = 'scored' THEN map_extract("values", $field)[1] END AS "value"
    FROM trace_outcomes
    WHERE rule = $rule AND metric = $metric AND outcome IN ('scored', 'undefined', 'failed', 'skipped')
        AND "time" IS NOT NULL
), numbered AS (
    SELECT *, dense_rank() OVER (ORDER BY since, signature) AS method FROM measured
)
SELECT
    strftime(start, '%Y-%m-%d') AS start,
    count("value") AS n_scored,
    count(*) AS n_total,
    max(method) AS methods,
    fsum("value") / nullif(count("value"), 0) AS mean,
    histogram(round("value", 4)) AS histogram,
    count("value") / greatest(1, count(*) FILTER (outcome <> 'undefined')) AS coverage
FROM numbered GROUP BY numbered.start ORDER BY numbered.start
