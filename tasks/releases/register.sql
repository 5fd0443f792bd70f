-- name: registrations
SELECT registration, dataset, release, answers, "references", columns, reference_columns, slices, source,
       strftime(registered_at, '%Y-%m-%d %H:%M'), attempts, message, report_id
FROM registered
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
