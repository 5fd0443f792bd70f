-- name: newest
-- The newest report of every release whose answers have the sample.
SELECT r.report_id, r.dataset FROM latest_reports r
WHERE ($dataset = '' OR r.dataset = $dataset) AND EXISTS (
    FROM answers a WHERE a.dataset = r.dataset AND a.release = r.release AND a.answers_version = r.answers_version
        AND a.sample_id = $sample
)
ORDER BY r.created_at, r.report_id

-- name: judged
-- What is known of the answers of reports to a sample, by whichever metric and settings: the same answer may have been
-- judged again for another report. The newest report that has the score goes with it.
WITH shown AS (
    SELECT *, list_position($reports, report_id) AS turn FROM report_answers
    WHERE report_id IN (SELECT unnest($reports)) AND sample_id = $sample
),
known AS (
    SELECT s.metric, s.signature, a.sample_key, arg_max(report_id, r.created_at) AS report_id, max(r.created_at) AS newest
    FROM report_answers a JOIN scores s USING (report_id, sample_id, repeat) JOIN reports r USING (report_id)
    WHERE a.sample_id = $sample AND a.sample_key IN (SELECT sample_key FROM shown) GROUP BY ALL
)
SELECT a.report_id, a.repeat, a.sample_key, a.question, a."references", a.answer, a.facts, a.context,
       a.incorrect_references, a."columns", k.report_id, m.metric, m.signature, m.status, m."values", m.reason, m.details,
       m.seconds, m.tokens_in, m.tokens_out, m.cost_usd, m.from_ledger, m.requests
FROM shown a JOIN known k USING (sample_key) JOIN measurements m USING (sample_key, signature)
ORDER BY a.turn, a.repeat, m.metric, k.newest DESC, m.signature

-- name: baseline
-- What the release that answers were compared with had answered, by the run that judged them.
SELECT coalesce(answer, '') FROM report_answers a JOIN reports r USING (report_id)
WHERE r.run_id = $run AND a.release = $baseline AND a.sample_id = $sample ORDER BY repeat LIMIT 1

-- name: calls
SELECT * REPLACE (epoch(started_at) AS started_at) FROM judge_calls WHERE request_key IN (SELECT unnest($keys)) ORDER BY judge_calls.started_at
