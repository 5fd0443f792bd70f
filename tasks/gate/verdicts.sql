-- name: keep
INSERT INTO verdicts BY NAME
SELECT now() AS created_at, $old AS old_report, $new AS new_report, $outcome AS outcome, $sentence AS sentence,
       $primary AS "primary", $margin AS margin, $rules AS rules,
       $n_releases AS n_releases, $policy AS policy, $basis AS basis, $notes AS notes

-- name: newest
-- The newest verdict on each pair of reports whose new one is in the list.
SELECT old_report, new_report, policy, outcome, sentence, rules, n_releases, notes, basis
FROM verdicts
WHERE new_report IN (SELECT unnest(?))
QUALIFY row_number() OVER (PARTITION BY old_report, new_report ORDER BY created_at DESC, rowid DESC) = 1
ORDER BY list_position(?, new_report), created_at, rowid

-- name: releases_held
-- How many releases were compared with one, including that of this decision. New answers are another release.
SELECT count(*) FROM (
    SELECT n.release, n.answers_version
    FROM verdicts v JOIN reports o ON o.report_id = v.old_report JOIN reports n ON n.report_id = v.new_report
    WHERE o.dataset = $dataset AND n.dataset = $dataset AND o.release = $old
    UNION SELECT $new, $answers
)

-- name: anchor
-- The anchor of the gate that is kept for a data set, where that gate decides, and against another report.
SELECT anchor
FROM reports o JOIN reports n USING (dataset) JOIN current_gates g USING (dataset)
WHERE o.report_id = $old AND n.report_id = $new AND g.policy::VARCHAR = $policy
    AND g.baseline IN (o.report_id, o.release)
    AND g.anchor NOT IN (o.report_id, o.release, n.report_id, n.release)

-- name: promote
-- A release that passes the gate that is kept becomes its baseline, where the policy says so.
INSERT INTO gates BY NAME
SELECT g.dataset, now() AS kept_at, n.report_id AS baseline, g.policy, g.anchor
FROM reports o JOIN reports n USING (dataset) JOIN current_gates g USING (dataset)
WHERE o.report_id = $old AND n.report_id = $new AND g.policy::VARCHAR = $policy
    AND g.baseline IN (o.report_id, o.release)
    AND $outcome = 'PASS' AND json_extract_string(g.policy, '$.baseline') = 'last shipped'
