-- name: start_again
UPDATE runs SET flow = $flow, dataset = $dataset, started_at = now(), finished_at = NULL, status = 'running',
    message = NULL, parameters = $parameters
WHERE run_id = $run_id

-- name: start_run
INSERT INTO runs (run_id, flow, dataset, started_at, status, parameters)
SELECT $run_id, $flow, $dataset, now(), 'running', $parameters
WHERE NOT EXISTS (FROM runs WHERE run_id = $run_id)

-- name: finish_run
UPDATE runs SET finished_at = now(), status = $status, message = $message WHERE run_id = $run_id

-- name: forget_quarantine
DELETE FROM quarantine WHERE run_id = $run_id AND dataset = $dataset

-- name: add_quarantine
INSERT INTO quarantine BY NAME
SELECT $run_id AS run_id, $dataset AS dataset, coalesce(file, $source) AS source, * EXCLUDE file FROM read_parquet($file)

-- name: add_validations
INSERT INTO validations BY NAME
SELECT $run_id AS run_id, $dataset AS dataset, unnest($rule) AS rule, unnest($severity) AS severity,
       unnest($release::VARCHAR[]) AS release, unnest($success) AS success, unnest($n_checked) AS n_checked,
       unnest($n_failed) AS n_failed, unnest($message) AS message

-- name: new_samples
-- Where the samples stand in the file: the first row of every id. What they hold stays in the file.
CREATE OR REPLACE TEMP TABLE new_samples AS
SELECT min(file_row_number) AS file_row_number FROM read_parquet($samples, file_row_number = true)
GROUP BY sample_id

-- name: samples
SELECT $dataset AS dataset, $version AS dataset_version, sample_id, question, "references", facts, "cluster", incorrect_references
FROM read_parquet($samples, file_row_number = true) SEMI JOIN new_samples USING (file_row_number)

-- name: asked_samples
-- A references file without questions has them from the answers.
SELECT $dataset AS dataset, $version AS dataset_version, sample_id, coalesce(s.question, a.question) AS question,
       "references", facts, "cluster", incorrect_references
FROM read_parquet($samples, file_row_number = true) s SEMI JOIN new_samples USING (file_row_number)
LEFT JOIN (SELECT sample_id, min(question) AS question FROM read_parquet($accepted) GROUP BY sample_id) a
    USING (sample_id)

-- name: new_answers
-- Repeats are numbers from 1. In a release where some are not, the answers to a question are counted in their order.
-- The beginning of the statement below, and of others.
WITH numbered AS (
    SELECT file_row_number, row_number()
               OVER (PARTITION BY release, sample_id ORDER BY try_cast(repeat AS INTEGER), repeat)::INTEGER AS number
    FROM read_parquet($accepted, file_row_number = true) SEMI JOIN (
        SELECT release FROM read_parquet($accepted)
        GROUP BY release HAVING NOT bool_and(coalesce(try_cast(repeat AS INTEGER) > 0, false))
    ) USING (release)
),
new_answers AS (
    SELECT release, sample_id, coalesce(number, try_cast(repeat AS INTEGER)) AS repeat, sample_key, answer, label,
           correct, slices, missing_because, if(len(context) > 0, context, NULL) AS context, "columns", given
    FROM read_parquet($accepted, file_row_number = true) LEFT JOIN numbered USING (file_row_number)
)

-- name: answers
SELECT $dataset AS dataset, *
FROM new_answers JOIN (SELECT unnest($releases) AS release, unnest($versions) AS answers_version) USING (release)

-- name: sample_hashes
SELECT sample_hash FROM read_parquet($samples, file_row_number = true) SEMI JOIN new_samples USING (file_row_number)
ORDER BY sample_id

-- name: add_dataset
INSERT INTO datasets BY NAME
SELECT $dataset AS dataset, $version AS version, now() AS created_at, $n_samples AS n_samples, $source AS source

-- name: is_known
SELECT count(*) > 0 FROM datasets WHERE dataset = $dataset AND version = $version

-- name: releases
-- How many answers and questions each has, and the usual number of answers to a question. The old ones come first.
WITH questions AS (
    SELECT release, sample_id, count(*) AS n FROM read_parquet($accepted) GROUP BY ALL
),
counts AS (
    SELECT release, n, count(*) AS n_questions FROM questions GROUP BY release, n
),
-- Where each release stands for the first time. Positions have no ties, as the numbers of rows have them that hold the
-- answers of several releases. Rows in quarantine count too: what a row is worth does not change what is old.
appearances AS (
    SELECT release, coalesce(file, '') AS file, min(file_row_number) AS position, min(release_order) AS release_order
    FROM read_parquet($staged, file_row_number = true) GROUP BY ALL
),
files AS (
    SELECT file, min(position) AS file_position FROM appearances GROUP BY file
),
-- Files are in the order in which they were given. Within them, tools that list the newest run first say when it was.
places AS (
    SELECT release, min(file_position) AS file_position, min(position) AS position,
           CASE WHEN bool_and(count(release_order) > 0) OVER () THEN min(release_order) END AS release_order
    FROM appearances JOIN files USING (file) WHERE release IS NOT NULL GROUP BY release
)
SELECT release, sum(n * n_questions)::BIGINT, sum(n_questions)::BIGINT, arg_max(n, [n_questions, n])
FROM counts JOIN places USING (release)
GROUP BY release ORDER BY min(file_position), min(release_order), min(position)

-- name: answer_hashes
-- A first answer has the same hash whether or not others can follow.
SELECT release, md5(to_json(list_concat(
    [sample_id, sample_key, label, slices::VARCHAR], if(repeat = 1, [], [repeat::VARCHAR]),
    if(given IS NULL, [], ['given', given::VARCHAR])
))::VARCHAR) FROM new_answers ORDER BY release, sample_id, repeat

-- name: forget_answers
DELETE FROM answers USING (SELECT unnest($releases) AS release, unnest($versions) AS answers_version) AS new
WHERE answers.dataset = $dataset AND answers.release = new.release
    AND answers.answers_version = new.answers_version

-- name: replace_measurements
-- What has no number does not replace what another run measured in the meantime.
DELETE FROM measurements USING (SELECT sample_key, signature, status FROM read_parquet($parts)) AS new
WHERE measurements.sample_key = new.sample_key AND measurements.signature = new.signature
    AND (new.status NOT IN ('failed', 'skipped') OR measurements.status IN ('failed', 'skipped'))

-- name: add_measurements
INSERT INTO measurements BY NAME
SELECT *, $run_id AS run_id, now() AS created_at
FROM read_parquet($parts) ANTI JOIN measurements USING (sample_key, signature)

-- name: replace_calls
-- Calls that are there already stay, but for those that had no end yet.
DELETE FROM judge_calls WHERE status = 'sent' AND call_id IN (SELECT call_id FROM read_parquet($file))

-- name: add_calls
INSERT INTO judge_calls BY NAME SELECT * FROM read_parquet($file) ANTI JOIN judge_calls USING (call_id)
