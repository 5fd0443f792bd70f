-- name: scores
-- Every score of one field of a report, with the human label of the answer and the cluster of the sample. Of labels from
-- queues, those of random draws about the release count: agreement needs answers with equal probabilities.
WITH drawn AS (
    SELECT sample_key, any_value(c.verdict) AS verdict
    FROM labels l JOIN label_queues q USING (queue) JOIN current_labels c USING (sample_key)
    JOIN reports r ON r.report_id IN (q.old_report, q.new_report)
    WHERE q.design = 'random' AND (r.dataset, r.release) IN (SELECT (dataset, release) FROM reports WHERE report_id = $report)
    GROUP BY sample_key
)
SELECT s.sample_id, s.release, s."value",
       CASE WHEN d.verdict IS NULL THEN a.correct WHEN d.verdict <> 'cannot tell' THEN d.verdict = 'right' END, s.dataset || ' ' || coalesce(m."cluster", s.sample_id), s.repeat
FROM scores s
LEFT JOIN answers a ON a.dataset = s.dataset AND a.release = s.release AND a.sample_id = s.sample_id
    AND a.repeat = s.repeat AND a.answers_version = $answers
LEFT JOIN drawn d USING (sample_key)
LEFT JOIN samples m ON m.dataset = s.dataset AND m.dataset_version = s.dataset_version AND m.sample_id = s.sample_id
WHERE s.report_id = $report AND s.metric = $metric AND s.field = $field ORDER BY s.sample_id, s.repeat

-- name: newest
-- The newest calibration of a field: rather with this signature, then rather on this release.
SELECT release, signature, n, kappa, kappa_low, kappa_high, labels FROM calibrations
WHERE metric = $metric AND field = $field AND release IS NOT NULL
ORDER BY signature = $signature DESC, release = $release DESC, created_at DESC LIMIT 1
