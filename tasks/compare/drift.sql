-- name: samples
-- The samples of the trailing reports: the mean of their numbers, how many these are, and the number of the newest
-- report; NULL where it has none. A sample with a different question or different references, or with other facts where $facts, is another sample.
-- A question that one version lacks because it lacks the column is not a different question.
-- Texts are compared once for each version of the data set, not for each report.
WITH numbers AS (
    SELECT report_id, dataset, dataset_version, sample_id, avg("value") AS "value"
    FROM scores
    WHERE report_id IN (SELECT unnest($reports)) AND metric = $metric AND field = $field AND status = 'scored'
    GROUP BY ALL
),
versions AS (
    SELECT DISTINCT dataset, dataset_version
    FROM reports WHERE report_id IN (SELECT unnest($reports)) AND report_id <> $newest
),
now AS (
    SELECT s.* FROM samples s JOIN reports r USING (dataset, dataset_version) WHERE r.report_id = $newest
),
asked AS (
    SELECT s.dataset, s.dataset_version, sample_id, coalesce(now."cluster", s."cluster") AS "cluster"
    FROM samples s JOIN versions USING (dataset, dataset_version) LEFT JOIN now USING (sample_id)
    WHERE now.sample_id IS NULL
        OR coalesce(now.question = s.question, true)
            AND list_sort(now."references") IS NOT DISTINCT FROM list_sort(s."references")
            AND list_sort(coalesce(now.incorrect_references, [])) = list_sort(coalesce(s.incorrect_references, []))
            AND (NOT $facts OR list_sort(now.facts) IS NOT DISTINCT FROM list_sort(s.facts))
),
earlier AS (
    SELECT report_id, sample_id, "value", "cluster"
    FROM numbers JOIN asked USING (dataset, dataset_version, sample_id) WHERE report_id <> $newest
),
newest AS (FROM numbers WHERE report_id = $newest),
"before" AS (
    SELECT sample_id, avg("value") AS trailing, count(*) AS n, any_value("cluster") AS "cluster"
    FROM earlier GROUP BY sample_id
)
SELECT "before".trailing,
       "before".n AS n_trailing,
       newest."value" AS newest,
       "cluster" IS NOT NULL AS clustered,
       dense_rank() OVER (ORDER BY coalesce('cluster ' || "cluster", 'sample ' || sample_id)) AS "cluster"
FROM "before" LEFT JOIN newest USING (sample_id) ORDER BY sample_id
