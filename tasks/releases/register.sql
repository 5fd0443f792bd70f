-- name: registrations
SELECT registration, dataset, dataset_version, release, answers_version, source, generation,
       strftime(registered_at, '%Y-%m-%d %H:%M'), report_id, superseded
FROM registrations
ORDER BY registered_at, registration

-- name: add
INSERT INTO registered BY NAME
SELECT $registration AS registration, $dataset AS dataset, $dataset_version AS dataset_version, $release AS release,
       $answers_version AS answers_version, $source AS source, $generation AS generation, now() AS registered_at
WHERE NOT EXISTS (FROM registered WHERE registration = $registration)
