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
-- judged again for another report. The report itself goes with it, or else the newest one that has
-- the score.
WITH shown AS (
    SELECT *, list_position($reports, report_id) AS turn FROM report_answers
    WHERE report_id IN (SELECT unnest($reports)) AND sample_id = $sample
),
known AS (
    SELECT o.report_id AS answer_of, o.repeat, s.metric, s.signature, max(r.created_at) AS newest,
           arg_max(a.report_id, (a.report_id = o.report_id, r.created_at, a.report_id)) AS report_id
    FROM shown o JOIN report_answers a USING (sample_id, sample_key)
    JOIN scores s ON s.report_id = a.report_id AND s.sample_id = a.sample_id AND s.repeat = a.repeat
    JOIN reports r ON r.report_id = a.report_id
    GROUP BY ALL
)
SELECT a.report_id, a.repeat, a.sample_key, a.question, a."references", a.answer, a.facts, a.context,
       a.incorrect_references, a."columns", k.report_id, m.metric, m.signature, m.status, m."values", m.reason, m.details,
       m.seconds, m.tokens_in, m.tokens_out, m.cost_usd, m.from_ledger, m.requests
FROM shown a JOIN known k ON k.answer_of = a.report_id AND k.repeat = a.repeat
JOIN measurements m ON m.sample_key = a.sample_key AND m.signature = k.signature
ORDER BY a.turn, a.repeat, m.metric, k.report_id = a.report_id DESC, k.newest DESC, m.signature

-- name: baseline
-- What the release that answers were compared with had answered, by the run that judged them.
SELECT coalesce(answer, '') FROM report_answers a JOIN reports r USING (report_id)
WHERE r.run_id = $run AND a.release = $baseline AND a.sample_id = $sample ORDER BY repeat LIMIT 1

-- name: calls
SELECT * REPLACE (epoch(started_at) AS started_at) FROM judge_calls WHERE request_key IN (SELECT unnest($keys)) ORDER BY judge_calls.started_at
