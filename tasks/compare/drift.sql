-- name: numbers
-- The numbers of the trailing reports and of the newest one. The beginning of the next two statements. A sample with
-- a different question or different references, or with other facts where $facts, is another sample.
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
newest AS (FROM numbers WHERE report_id = $newest)

-- name: samples
-- The samples of the trailing reports: the mean of their numbers, how many these are, and the number of the newest
-- report; NULL where it has none.
, "before" AS (
    SELECT sample_id, avg("value") AS trailing, count(*) AS n, any_value("cluster") AS "cluster"
    FROM earlier GROUP BY sample_id
)
SELECT "before".trailing,
       "before".n AS n_trailing,
       newest."value" AS newest,
       "cluster" IS NOT NULL AS clustered,
       dense_rank() OVER (ORDER BY coalesce('cluster ' || "cluster", 'sample ' || sample_id)) AS "cluster"
FROM "before" LEFT JOIN newest USING (sample_id) ORDER BY sample_id

-- name: means
-- The mean of each trailing report, and of the newest one on the same samples; in the order of the ids that are given.
SELECT t.report_id, avg(t."value"), avg(newest."value") FROM earlier t JOIN newest USING (sample_id)
GROUP BY t.report_id ORDER BY list_position($reports, t.report_id)

-- name: answers
-- What became of the questions and answers of a report in a newer one about the same release: how many both have, how
-- many of these have other answers, how many questions are gone and new, and the mean of those that are gone.
WITH old AS (
    SELECT sample_id, count(*) AS n, sum(hash(answer)) AS texts FROM answers a SEMI JOIN (
        FROM reports WHERE report_id = $old
    ) r USING (dataset, release, answers_version) GROUP BY sample_id
),
new AS (
    SELECT sample_id, count(*) AS n, sum(hash(answer)) AS texts FROM answers a SEMI JOIN (
        FROM reports WHERE report_id = $new
    ) r USING (dataset, release, answers_version) GROUP BY sample_id
)
SELECT count(*) FILTER (old.n IS NOT NULL AND new.n IS NOT NULL),
       count(*) FILTER (old.n <> new.n OR old.texts <> new.texts),
       count(*) FILTER (new.n IS NULL), count(*) FILTER (old.n IS NULL),
       (SELECT avg("value") FROM scores s ANTI JOIN new USING (sample_id)
        WHERE report_id = $old AND metric = $metric AND field = $field AND status = 'scored')
FROM old FULL JOIN new USING (sample_id)

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
