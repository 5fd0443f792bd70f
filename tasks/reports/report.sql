-- name: reports
SELECT report_id, dataset_version, strftime(created_at, '%Y-%m-%d %H:%M'), status FROM reports
WHERE starts_with(report_id, $prefix) ORDER BY created_at, rowid

-- name: latest_run
SELECT report_id FROM reports
WHERE run_id = (SELECT run_id FROM reports ORDER BY created_at DESC LIMIT 1) ORDER BY rowid

-- name: newest_others
SELECT max_by(o.report_id, o.version) FROM reports o JOIN reports r USING (dataset)
WHERE r.report_id = $report_id AND o.release <> r.release
GROUP BY o.release ORDER BY max(o.created_at) DESC, o.release

-- name: report
SELECT dataset, dataset_version, release, version, strftime(created_at, '%Y-%m-%d %H:%M:%S UTC'), status, message,
       answers_version, run_id, manifest
FROM reports WHERE report_id = $report_id

-- name: scores
SELECT metric, field, slice, n_total, n_scored, n_failed, n_undefined, n_skipped, coverage, mean, ci_low, ci_high,
       ci_method, bound_low, bound_high, n_clusters, n_questions, within_variance
FROM report_scores WHERE report_id = $report_id ORDER BY slice <> 'all', slice, rowid

-- name: checks
SELECT rule, severity, success, message FROM validations
WHERE run_id = $run_id AND (release IS NULL OR release = $release) ORDER BY rowid

-- name: quarantined
SELECT rule, count(*) FROM quarantine
WHERE run_id = $run_id AND (release IS NULL OR release = $release) GROUP BY rule ORDER BY rule

-- name: named
SELECT report_id, dataset, report_id = $name AS exactly FROM reports LEFT JOIN (
    SELECT report_id, count(*) AS n_fields FROM report_scores
    WHERE slice = 'all' AND metric || '.' || field IN (SELECT unnest($fields)) GROUP BY report_id
) USING (report_id)
WHERE $name IN (report_id, release, dataset || '/' || release) AND $dataset IN ('', dataset)
QUALIFY exactly OR (dataset_version, answers_version) IS NOT DISTINCT FROM
    max_by((dataset_version, answers_version), version) OVER (PARTITION BY dataset, release)
ORDER BY exactly, coalesce(n_fields, 0), version

-- name: datasets
SELECT DISTINCT dataset FROM reports WHERE $name IN (report_id, release, dataset || '/' || release)

-- name: fields
SELECT DISTINCT dataset, s.metric || '.' || s.field FROM reports JOIN report_scores s USING (report_id)
WHERE $dataset IN ('', dataset) ORDER BY ALL

-- name: moments
WITH found AS (
    SELECT r.report_id, r.release, r.version, strftime(r.created_at, '%Y-%m-%d %H:%M'), r.dataset_version, r.status,
           s.metric || '.' || s.field AS name, s.n_scored, s.n_total, s.mean, s.ci_low, s.ci_high, s.metric,
           r.manifest->'signatures'->>s.metric, r.dataset, r.created_at, r.rowid AS place
    FROM reports r JOIN report_scores s USING (report_id)
    WHERE r.dataset IN (SELECT unnest($datasets)) AND s.slice = 'all' AND name IN (SELECT unnest($names))
    QUALIFY dense_rank() OVER (PARTITION BY r.dataset ORDER BY r.created_at DESC, r.rowid DESC) <= $most
)
SELECT * EXCLUDE (created_at, place) FROM found ORDER BY dataset, created_at, place, list_position($names, name)
