-- name: registrations
SELECT registration, dataset, release, answers, "references", columns, reference_columns, slices, source,
       strftime(registered_at, '%Y-%m-%d %H:%M'), attempts, message, report_id,
       EXISTS (
           FROM registered later
           WHERE later.dataset = r.dataset AND later.release = r.release AND later.registered_at > r.registered_at
       ) OR EXISTS (
           -- A report about answers that had none when these were registered, and not about these.
           FROM reports later
           WHERE later.dataset = r.dataset AND later.release = r.release AND later.created_at > r.registered_at
               AND NOT ends_with(
                   json_extract_string(later.manifest, '$.parameters.data.answers'), '/registered/' || r.answers)
               AND later.answers_version NOT IN (
                   SELECT answers_version FROM reports earlier
                   WHERE earlier.dataset = r.dataset AND earlier.release = r.release
                       AND earlier.created_at <= r.registered_at)
       ) AS superseded
FROM registered r
WHERE $name IN ('', registration, release, dataset || '/' || release)
ORDER BY attempts, registered_at, registration

-- name: add
INSERT INTO registered BY NAME
SELECT $registration AS registration, $dataset AS dataset, $release AS release, $answers AS answers,
       $references AS "references", $columns AS columns, $reference_columns AS reference_columns, $slices AS slices,
       $source AS source, now() AS registered_at, 0 AS attempts
WHERE NOT EXISTS (FROM registered WHERE registration = $registration)

-- name: note_attempt
UPDATE registered SET attempts = attempts + 1, message = $message, report_id = coalesce(report_id, $report_id)
WHERE registration = $registration

-- name: made_before
SELECT report_id FROM reports
WHERE dataset = $dataset AND release = $release
    AND ends_with(json_extract_string(manifest, '$.parameters.data.answers'), $ending)
ORDER BY version LIMIT 1
