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
