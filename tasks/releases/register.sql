-- name: registrations
SELECT registration, dataset, dataset_version, release, answers_version, source, generation,
       strftime(registered_at, '%Y-%m-%d %H:%M'), attempts, message, report_id,
       EXISTS (
           FROM registered later
           WHERE later.dataset = r.dataset AND later.release = r.release AND later.registered_at > r.registered_at
       ) OR EXISTS (
           -- A report about answers that had none when these were registered, and not about these.
           FROM reports later
           WHERE later.dataset = r.dataset AND later.release = r.release AND later.created_at > r.registered_at
               AND later.answers_version <> r.answers_version
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
SELECT $registration AS registration, $dataset AS dataset, $dataset_version AS dataset_version, $release AS release,
       $answers_version AS answers_version, $source AS source, $generation AS generation, now() AS registered_at,
       0 AS attempts
WHERE NOT EXISTS (FROM registered WHERE registration = $registration)

-- name: note_attempt
UPDATE registered SET attempts = attempts + 1, message = $message, report_id = coalesce(report_id, $report_id)
WHERE registration = $registration

-- name: made_before
SELECT report_id FROM reports WHERE json_extract_string(manifest, '$.parameters.data.answers') = $address
ORDER BY version LIMIT 1
