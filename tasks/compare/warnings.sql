-- name: changed_judges
-- How many runs judged the answers of two reports by one signature, and in how many of them a judge had changed under
-- its name.
WITH judged AS (
    SELECT DISTINCT m.run_id
    FROM report_answers a
    JOIN measurements m ON m.sample_key = a.sample_key AND m.signature = $signature
    WHERE a.report_id IN ($old, $new) AND len(m.requests) > 0
),
checked AS (
    SELECT run_id, bool_or(json_exists(manifest, '$.judge.changed."' || $metric || '"')) AS changed
    FROM reports
    SEMI JOIN judged USING (run_id)
    GROUP BY run_id
)
SELECT count(*), count(*) FILTER (changed) FROM judged LEFT JOIN checked USING (run_id)

-- name: removed
-- How many questions of earlier reports neither report has, and how many questions these had. What the reports have is
-- what their releases answered; a question that another id stands for now is still there.
WITH pair AS (FROM reports WHERE report_id IN ($old, $new)),
earlier AS (
    SELECT r.* FROM reports r JOIN pair n ON n.report_id = $new AND r.dataset = n.dataset
    WHERE r.report_id NOT IN ($old, $new) AND r.created_at < (SELECT max(created_at) FROM pair)
        AND (r.release = n.release OR r.report_id IN (
            SELECT v.old_report FROM verdicts v JOIN reports a ON a.report_id = v.new_report
            WHERE a.dataset = n.dataset AND a.release = n.release
                AND v.created_at < (SELECT max(created_at) FROM pair)
        ) AND r.release = (SELECT release FROM pair WHERE report_id = $old))
),
present AS (
    SELECT DISTINCT dataset, sample_id FROM answers SEMI JOIN pair USING (dataset, release, answers_version)
),
asked AS (
    SELECT DISTINCT dataset, sample_id FROM answers
    SEMI JOIN (SELECT DISTINCT dataset, release, answers_version FROM earlier) e
        USING (dataset, release, answers_version)
),
gone AS (FROM asked ANTI JOIN present USING (dataset, sample_id)),
texts AS (
    SELECT DISTINCT hash(question) AS text FROM samples SEMI JOIN present USING (dataset, sample_id)
    SEMI JOIN pair USING (dataset, dataset_version) WHERE question <> '' AND EXISTS (FROM gone)
),
removed AS (
    SELECT dataset, sample_id FROM samples SEMI JOIN gone USING (dataset, sample_id)
    SEMI JOIN earlier USING (dataset, dataset_version)
    GROUP BY ALL HAVING count(*) FILTER (hash(question) IN (FROM texts)) = 0
)
SELECT (SELECT count(*) FROM removed), (SELECT count(*) FROM asked)

-- name: verdicts
-- The newest verdict of every policy about the same answers of both releases on the same data, oldest first.
SELECT arg_max(v.outcome, (v.created_at, v.rowid)), v."primary", v.margin,
       list_sort(list_transform(CAST(v.rules AS JSON[]), lambda rule: rule->>'rule')) AS rules
FROM verdicts v
JOIN reports o ON o.report_id = v.old_report JOIN reports n ON n.report_id = v.new_report
JOIN reports a ON a.report_id = $old AND (a.dataset, a.release) = (o.dataset, o.release)
    AND (a.dataset_version, a.answers_version) = (o.dataset_version, o.answers_version)
JOIN reports b ON b.report_id = $new AND (b.dataset, b.release) = (n.dataset, n.release)
    AND (b.dataset_version, b.answers_version) = (n.dataset_version, n.answers_version)
GROUP BY ALL
ORDER BY max(v.created_at)
