-- name: median_lengths
SELECT report_id, median(length(answer)) FROM reports JOIN answers USING (dataset, release, answers_version)
WHERE report_id = ANY($ids) GROUP BY report_id

-- name: binary_fields
SELECT metric || '.' || field FROM scores WHERE report_id = ANY($ids) AND status = 'scored'
GROUP BY ALL HAVING bool_and("value" IN (0, 1))

-- name: failures
WITH rows AS (
    SELECT DISTINCT report_id, metric, sample_id, repeat, status, coalesce(reason, '') AS reason
    FROM scores WHERE report_id = ANY(?) AND status <> 'scored'
)
SELECT report_id, metric, status, reason, count(*) AS n FROM rows
GROUP BY ALL ORDER BY status, n DESC, metric, reason LIMIT 200

-- name: checks
SELECT rule, severity, success, n_checked, n_failed, message, release FROM validations
WHERE run_id IN (SELECT run_id FROM reports WHERE report_id = ANY($ids))
    AND (release IS NULL OR release IN (SELECT release FROM reports WHERE report_id = ANY($ids)))
GROUP BY ALL ORDER BY success, severity, min(rowid)

-- name: agreements
-- The newest calibration of each field and release; each estimate with both ends of its interval.
SELECT metric || '.' || field, release, n, n_unlabelled, report_ids, base_rate,
       (kappa, kappa_low, kappa_high),
       (sensitivity, sensitivity_low, sensitivity_high),
       (specificity, specificity_low, specificity_high),
       (bias, bias_low, bias_high),
       (ceiling_kappa, ceiling_kappa_low, ceiling_kappa_high),
       (raw_mean, raw_mean_low, raw_mean_high),
       (ppi_mean, ppi_mean_low, ppi_mean_high)
FROM calibrations
WHERE signature = ANY($signatures) AND (release IS NULL OR release = ANY($releases))
QUALIFY row_number() OVER (PARTITION BY metric, field, release ORDER BY created_at DESC, rowid DESC) = 1
ORDER BY metric, field, release IS NOT NULL, list_position($releases, release)

-- name: quarantine
-- The first refused rows, and how many there are.
SELECT "row", sample_id, release, rule, reason, left(raw, $chars), count(*) OVER () FROM quarantine
WHERE run_id IN (SELECT run_id FROM reports WHERE report_id = ANY($ids))
    AND (release IS NULL OR release IN (SELECT release FROM reports WHERE report_id = ANY($ids)))
ORDER BY rowid LIMIT $most
