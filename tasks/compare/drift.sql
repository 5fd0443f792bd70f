-- name: samples
-- The samples of the trailing reports: the mean of their numbers, and the number of the newest report; NULL where it
-- has none. A sample with another question or other references, or with other facts where $facts, is another sample.
-- A question that one version lacks because it lacks the column is not a different question.
WITH numbers AS (
    SELECT report_id, sample_id, avg("value") AS "value"
    FROM scores
    WHERE report_id IN (SELECT unnest($reports)) AND metric = $metric AND field = $field AND status = 'scored'
    GROUP BY report_id, sample_id
),
asked AS (
    SELECT r.report_id, s.* FROM reports r JOIN samples s USING (dataset, dataset_version)
    WHERE r.report_id IN (SELECT unnest($reports))
),
newest AS (FROM asked LEFT JOIN numbers USING (report_id, sample_id) WHERE report_id = $newest)
SELECT avg(o."value") AS trailing,
       any_value(newest."value") AS newest,
       bool_or(coalesce(newest."cluster", asked."cluster") IS NOT NULL) AS clustered,
       dense_rank() OVER (ORDER BY coalesce('cluster ' || any_value(coalesce(newest."cluster", asked."cluster")),
                                            'sample ' || sample_id)) AS "cluster"
FROM numbers o JOIN asked USING (report_id, sample_id) LEFT JOIN newest USING (sample_id)
WHERE o.report_id <> $newest
    AND (newest.sample_id IS NULL
        OR coalesce(newest.question = asked.question, true)
            AND list_sort(newest."references") IS NOT DISTINCT FROM list_sort(asked."references")
            AND (NOT $facts OR list_sort(newest.facts) IS NOT DISTINCT FROM list_sort(asked.facts)))
GROUP BY sample_id ORDER BY sample_id

-- name: judged_by
-- The models and the configurations that answered for the judges of each report, as their providers name them.
WITH requests AS (
    SELECT DISTINCT a.report_id, unnest(m.requests) AS request_key
    FROM report_answers a JOIN measurements m ON m.sample_key = a.sample_key AND m.signature = $signature
    WHERE a.report_id IN (SELECT unnest($reports))
)
SELECT report_id, list(DISTINCT model ORDER BY model) FILTER (model IS NOT NULL),
       list(DISTINCT fingerprint ORDER BY fingerprint) FILTER (fingerprint IS NOT NULL)
FROM requests JOIN judge_calls USING (request_key) WHERE status = 'usable' GROUP BY report_id
