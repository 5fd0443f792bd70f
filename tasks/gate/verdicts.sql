-- name: newest
-- The newest verdict about each two reports of which the new one is in the list.
SELECT old_report, new_report, "primary", margin, outcome, sentence, rules FROM verdicts
WHERE new_report IN (SELECT unnest(?))
QUALIFY row_number() OVER (PARTITION BY old_report, new_report ORDER BY created_at DESC, rowid DESC) = 1
ORDER BY list_position(?, new_report), created_at, rowid

-- name: looks
-- What earlier verdicts about the same two releases and field have looked at, in the order of the first look at it:
-- data, answers and method of both reports. A report that repeats another has the same, so it is no look of its own.
WITH seen AS (
    SELECT v.created_at, v.rowid AS place,
           [o.dataset_version, o.answers_version, o.manifest->'signatures'->>$metric,
            n.dataset_version, n.answers_version, n.manifest->'signatures'->>$metric] AS data
    FROM verdicts v JOIN reports o ON o.report_id = v.old_report JOIN reports n ON n.report_id = v.new_report
    WHERE o.dataset = $dataset AND n.dataset = $dataset AND o.release = $old AND n.release = $new
        AND v."primary" = $primary
)
SELECT data FROM seen GROUP BY data ORDER BY min(created_at), min(place)
