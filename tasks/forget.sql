-- name: running
SELECT run_id, started_at FROM runs WHERE status = 'running'

-- name: gone
-- The answers that go: all to a sample, one of a release, or all of a release.
CREATE OR REPLACE TEMP TABLE gone AS
SELECT dataset, release, answers_version, sample_id, sample_key, answer, context, "columns" FROM answers
WHERE dataset = $dataset AND $sample IN ('', sample_id) AND $release IN ('', release)

-- name: texts
-- What is not to be found in any file afterwards.
SELECT DISTINCT text FROM (
    SELECT answer AS text FROM gone
    UNION ALL SELECT unnest(context) FROM gone
    UNION ALL SELECT unnest(map_values("columns")) FROM gone
    UNION ALL SELECT question FROM samples WHERE $whole_sample AND dataset = $dataset AND sample_id = $sample
    UNION ALL SELECT unnest("references") FROM samples WHERE $whole_sample AND dataset = $dataset AND sample_id = $sample
    UNION ALL SELECT unnest(facts) FROM samples WHERE $whole_sample AND dataset = $dataset AND sample_id = $sample
    UNION ALL SELECT unnest(incorrect_references) FROM samples
        WHERE $whole_sample AND dataset = $dataset AND sample_id = $sample
) WHERE text <> ''

-- name: known
SELECT (SELECT count(*) FROM gone)
    + (SELECT count(*) FROM samples WHERE $whole_sample AND dataset = $dataset AND sample_id = $sample)
    + (SELECT count(*) FROM quarantine
       WHERE dataset = $dataset AND $sample IN ('', sample_id) AND $release IN ('', release))
    + (SELECT count(*) FROM registered WHERE $sample = '' AND dataset = $dataset AND release = $release)

-- name: reports
SELECT DISTINCT report_id FROM reports JOIN gone USING (dataset, release, answers_version) ORDER BY ALL

-- name: old_reports
-- Those older than a moment, but for the newest of every release.
SELECT report_id FROM reports
WHERE created_at < $before AND report_id NOT IN (SELECT report_id FROM latest_reports) ORDER BY ALL

-- name: answers
DELETE FROM answers USING gone
WHERE answers.dataset = gone.dataset AND answers.release = gone.release AND answers.sample_id = gone.sample_id
    AND answers.answers_version = gone.answers_version

-- name: unreported_answers
-- Answers that no report is about any more, and that wait for none.
DELETE FROM answers WHERE (dataset, release, answers_version) NOT IN (
    SELECT (dataset, release, answers_version) FROM reports
    UNION ALL SELECT (dataset, release, answers_version) FROM registrations WHERE report_id IS NULL AND NOT superseded
)

-- name: samples
DELETE FROM samples WHERE dataset = $dataset AND sample_id = $sample

-- name: count_samples
UPDATE datasets SET n_samples = (
    SELECT count(*) FROM samples s WHERE s.dataset = datasets.dataset AND s.dataset_version = datasets.version
) WHERE dataset = $dataset

-- name: quarantine
DELETE FROM quarantine WHERE (dataset = $dataset AND $sample IN ('', sample_id) AND $release IN ('', release))
    OR list_bool_or([contains(raw, text) OR contains(reason, text) FOR text IN $texts::VARCHAR[]])

-- name: scores
DELETE FROM scores WHERE report_id IN (SELECT unnest($reports)) AND $sample IN ('', sample_id)

-- name: measurements
-- Those that no answer and no trace has any more.
DELETE FROM measurements WHERE created_at < $before
    AND sample_key NOT IN (SELECT sample_key FROM answers)
    AND sample_key NOT IN (SELECT sample_key FROM trace_outcomes WHERE sample_key IS NOT NULL)

-- name: labels
-- Of answers that go, where nobody else gave them.
DELETE FROM labels WHERE sample_key IN (SELECT sample_key FROM gone) AND sample_key NOT IN (SELECT sample_key FROM answers)

-- name: label_questions
DELETE FROM label_questions WHERE sample_id = $sample AND queue IN (
    SELECT queue FROM label_queues JOIN reports ON report_id = new_report WHERE dataset = $dataset
)

-- name: requests
-- Requests to judges that no measurement rests on any more.
SELECT DISTINCT request_key FROM judge_calls
WHERE request_key NOT IN (SELECT unnest(requests) FROM measurements WHERE requests IS NOT NULL)

-- name: judge_calls
DELETE FROM judge_calls WHERE request_key IN (SELECT unnest($requests))

-- name: of_reports
-- What else is about reports that go.
DELETE FROM report_scores WHERE report_id IN (SELECT unnest($reports));
DELETE FROM reports WHERE report_id IN (SELECT unnest($reports));
DELETE FROM comparisons WHERE old_report IN (SELECT unnest($reports)) OR new_report IN (SELECT unnest($reports));
DELETE FROM verdicts WHERE old_report IN (SELECT unnest($reports)) OR new_report IN (SELECT unnest($reports));
DELETE FROM gates
WHERE dataset NOT IN (SELECT dataset FROM reports WHERE report_id NOT IN (SELECT unnest($reports)));
DELETE FROM label_questions WHERE queue IN (
    SELECT queue FROM label_queues WHERE old_report IN (SELECT unnest($reports)) OR new_report IN (SELECT unnest($reports))
);
DELETE FROM label_queues WHERE old_report IN (SELECT unnest($reports)) OR new_report IN (SELECT unnest($reports));
DELETE FROM calibrations WHERE list_has_any(report_ids, $reports)

-- name: registered
DELETE FROM registered WHERE dataset = $dataset AND release = $release

-- name: old_runs
SELECT run_id FROM runs WHERE started_at < $before AND status <> 'running'
    AND run_id NOT IN (SELECT run_id FROM reports WHERE run_id IS NOT NULL)

-- name: of_runs
DELETE FROM runs WHERE run_id IN (SELECT unnest($runs));
DELETE FROM quarantine WHERE run_id IN (SELECT unnest($runs));
DELETE FROM validations WHERE run_id IN (SELECT unnest($runs))

-- name: set_report
UPDATE reports SET manifest = $manifest, message = $message WHERE report_id = $report_id

-- name: warn
UPDATE comparisons SET warnings = list_append(warnings, $said) WHERE $report_id IN (old_report, new_report)

-- name: add_removal
INSERT INTO removals BY NAME
SELECT (SELECT coalesce(max(removal), 0) + 1 FROM removals) AS removal, now() AS removed_at, $kind AS kind,
       $reason AS reason, map($tables, $counts) AS n_rows, $n_calls AS n_calls, $n_files AS n_files, $reports AS reports
