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

-- name: keep_gate
INSERT INTO gates BY NAME
SELECT $dataset AS dataset, $baseline AS baseline, $policy AS policy, now() AS kept_at, $baseline AS anchor

-- name: kept_gate
SELECT baseline, policy FROM current_gates WHERE dataset = $dataset

-- name: never_gated
WITH newest AS (
    FROM registrations QUALIFY row_number() OVER (PARTITION BY dataset ORDER BY registered_at DESC) = 1
)
SELECT n.report_id, k.baseline, k.policy::VARCHAR, k.kept_at::VARCHAR
FROM newest n JOIN current_gates k USING (dataset)
WHERE n.report_id IS NOT NULL AND k.baseline NOT IN (n.release, n.report_id) AND NOT EXISTS (
    FROM verdicts v LEFT JOIN reports o ON o.report_id = v.old_report
    WHERE v.new_report = n.report_id AND v.policy::VARCHAR = k.policy::VARCHAR
      AND k.baseline IN (v.old_report, o.release))
ORDER BY ALL
