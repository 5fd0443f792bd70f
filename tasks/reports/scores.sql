-- name: of_reports
-- The beginning of the statement `rows` where the reports are made already.
WITH asked AS (SELECT report_id, release, answers_version FROM reports WHERE report_id IN (SELECT unnest($reports)))

-- name: of_a_release
-- The same where nobody knows yet what the report will be called.
WITH asked AS (SELECT '' AS report_id, $release AS release, $answers_version AS answers_version)

-- name: rows
-- A row without a measurement was left out on purpose: --only-failed scores nothing new. A question without an answer
-- has failed before anything could be scored. A measurement is looked up once, and has the numbers of all its fields.
, metrics AS (
    SELECT unnest($metrics) AS metric, unnest($signatures) AS signature, unnest($fields) AS fields
)
SELECT r.report_id, a.dataset, $dataset_version AS dataset_version, a.release, a.sample_id, a.repeat, f.metric,
       unnest(f.fields) AS field,
       unnest([if(m.status = 'scored', map_extract_value(m."values", name), NULL) FOR name IN f.fields]) AS "value",
       CASE WHEN a.missing_because IS NOT NULL THEN 'failed' ELSE coalesce(m.status, 'skipped') END AS status,
       CASE WHEN starts_with(a.missing_because, 'quarantined (') THEN split_part(a.missing_because, ':', 1)
            WHEN a.missing_because IS NOT NULL
                THEN concat('unanswered (', split_part(a.missing_because, ':', 1), ')')
            WHEN m.status IS NULL THEN 'not scored yet: only failed rows were asked for'
            ELSE m.reason END AS reason,
       f.signature
FROM asked r
JOIN answers a ON a.dataset = $dataset AND a.release = r.release AND a.answers_version = r.answers_version
CROSS JOIN metrics f
LEFT JOIN measurements m
    ON m.sample_key = a.sample_key AND m.signature = f.signature AND hash(m.sample_key) % $of::UBIGINT = $share::UBIGINT
WHERE hash(a.sample_key) % $of::UBIGINT = $share::UBIGINT
