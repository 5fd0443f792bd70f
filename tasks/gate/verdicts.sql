-- name: keep
INSERT INTO verdicts BY NAME
SELECT now() AS created_at, $old AS old_report, $new AS new_report, $outcome AS outcome, $sentence AS sentence,
       $primary AS "primary", $margin AS margin, $rules AS rules, $look AS look, $candidates AS n_candidates,
       $level AS level, $policy AS policy, $basis AS basis, $notes AS notes

-- name: newest
-- The newest verdict about each two reports of which the new one is in the list.
SELECT old_report, new_report, policy, outcome, sentence, rules, look, n_candidates, level, notes, basis
FROM verdicts
WHERE new_report IN (SELECT unnest(?))
QUALIFY row_number() OVER (PARTITION BY old_report, new_report ORDER BY created_at DESC, rowid DESC) = 1
ORDER BY list_position(?, new_report), created_at, rowid

-- name: seen
-- What verdicts by a field have looked at: data, answers and method of both reports. A report that repeats another has
-- the same, so it is no look of its own. The beginning of the next two statements.
WITH seen AS (
    SELECT n.dataset, v.created_at, v.rowid AS place, v.outcome, v.n_candidates, o.release AS old, n.release AS new,
           [o.dataset_version, o.answers_version, o.manifest->'signatures'->>$metric,
            n.dataset_version, n.answers_version, n.manifest->'signatures'->>$metric] AS data
    FROM verdicts v JOIN reports o ON o.report_id = v.old_report JOIN reports n ON n.report_id = v.new_report
    WHERE o.dataset = n.dataset AND n.dataset IN (SELECT unnest($datasets)) AND v."primary" = $primary
)

-- name: looks
SELECT data, coalesce(max(n_candidates), 1) FROM seen WHERE old = $old AND new = $new GROUP BY data
ORDER BY min(created_at), min(place)

-- name: looks_taken
SELECT dataset, old, new, count(DISTINCT data), arg_max(outcome, (created_at, place)) FROM seen
GROUP BY dataset, old, new ORDER BY min(created_at), min(place)
