-- name: rules
SELECT rule, metric FROM trace_rules ORDER BY rule

-- name: fields
SELECT DISTINCT metric, unnest(map_keys("values")) FROM trace_outcomes WHERE rule = $rule ORDER BY ALL

-- name: numbered
-- The traces of a rule in their periods, with a number for each way of scoring. The beginning of the next two statements.
WITH measured AS (
    SELECT date_trunc($by, "time") AS start, outcome, signature, min("time") OVER (PARTITION BY signature) AS since,
           CASE WHEN outcome = 'scored' THEN map_extract("values", $name)[1] END AS "value"
    FROM trace_outcomes
    WHERE rule = $rule AND metric = $metric AND outcome IN ('scored', 'undefined', 'failed', 'skipped')
        AND "time" IS NOT NULL
), numbered AS (
    SELECT *, dense_rank() OVER (ORDER BY since, signature) AS method FROM measured
)

-- name: periods
SELECT strftime(start, '%Y-%m-%d'), count(*), count(*) FILTER (outcome <> 'undefined'), max(method),
       count("value"), fsum("value") / nullif(count("value"), 0), histogram(round("value", 4))
FROM numbered GROUP BY start ORDER BY start

-- name: comparable
-- The newest period and those before it that were scored in the same single way and nearly in full, newest first.
, periods AS (
    SELECT start, min(method) AS first, max(method) AS last,
           list("value" ORDER BY "value") FILTER ("value" IS NOT NULL) AS "values"
    FROM numbered WHERE outcome <> 'undefined'
    GROUP BY start HAVING count("value") >= greatest(1, $coverage * count(*))
)
SELECT strftime(start, '%Y-%m-%d'), "values" FROM periods
WHERE first = last AND first = (SELECT arg_max(if(first = last, first, 0), start) FROM periods)
ORDER BY start DESC LIMIT $most
