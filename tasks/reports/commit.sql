-- name: forget_run
DELETE FROM runs WHERE run_id = $run_id

-- name: start_run
INSERT INTO runs (run_id, flow, dataset, started_at, status, parameters)
VALUES ($run_id, $flow, $dataset, now(), 'running', $parameters)

-- name: finish_run
UPDATE runs SET finished_at = now(), status = $status, message = $message WHERE run_id = $run_id

-- name: add_quarantine
INSERT INTO quarantine BY NAME
SELECT $run_id AS run_id, $dataset AS dataset, $source AS source, * FROM read_parquet($file)

-- name: add_validation
INSERT INTO validations (run_id, dataset, rule, severity, release, success, n_checked, n_failed, message)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: new_samples
-- With a references file the data set is that file, answered or not. Otherwise it is what was answered. A references
-- file without questions has them from the answers.
CREATE OR REPLACE TEMP TABLE new_samples AS
SELECT DISTINCT ON (sample_id)
    sample_id, coalesce(s.question, a.question) AS question, "references", facts, "cluster", sample_hash
FROM read_parquet($references) s
LEFT JOIN (SELECT sample_id, min(question) AS question FROM read_parquet($accepted) GROUP BY sample_id) a
    USING (sample_id)
ORDER BY sample_id

-- name: dataset_version
SELECT left(md5(coalesce(string_agg(sample_hash, '' ORDER BY sample_id), '')), 12), count(*) FROM new_samples

-- name: add_dataset
INSERT INTO datasets BY NAME
SELECT $dataset AS dataset, $version AS version, now() AS created_at, $n_samples AS n_samples, $source AS source

-- name: is_known
SELECT count(*) > 0 FROM datasets WHERE dataset = $dataset AND version = $version

-- name: add_samples
INSERT INTO samples BY NAME
SELECT $dataset AS dataset, $version AS dataset_version, * EXCLUDE sample_hash FROM new_samples

-- name: new_answers
-- Repeats are numbers from 1. In a release where some are not, the answers to a question are counted in their order.
CREATE OR REPLACE TEMP TABLE new_answers AS
WITH numbered AS (
    SELECT release, sample_id, repeat, row_number()
               OVER (PARTITION BY release, sample_id ORDER BY try_cast(repeat AS INTEGER), repeat)::INTEGER AS number
    FROM read_parquet($accepted) SEMI JOIN (
        SELECT release FROM read_parquet($accepted)
        GROUP BY release HAVING NOT bool_and(coalesce(try_cast(repeat AS INTEGER) > 0, false))
    ) USING (release)
)
SELECT release, sample_id, coalesce(number, try_cast(repeat AS INTEGER)) AS repeat, sample_key, answer, label, correct,
       slices, missing_because, min("row") OVER (PARTITION BY release) AS first_row
FROM read_parquet($accepted) LEFT JOIN numbered USING (release, sample_id, repeat)

-- name: releases
-- A first answer has the same hash whether or not others can follow. `repeats` is the usual number of answers.
WITH questions AS (SELECT release, sample_id, count(*) AS n FROM new_answers GROUP BY ALL),
usual AS (
    SELECT release, n AS repeats, (sum(count(*)) OVER (PARTITION BY release))::BIGINT AS n_questions
    FROM questions GROUP BY release, n
    QUALIFY row_number() OVER (PARTITION BY release ORDER BY count(*) DESC, n DESC) = 1
)
SELECT release, left(md5(string_agg(md5(to_json(list_concat(
    [sample_id, sample_key, label, slices::VARCHAR], if(repeat = 1, [], [repeat::VARCHAR])
))::VARCHAR), '' ORDER BY sample_id, repeat)), 12), count(*), n_questions, repeats
FROM new_answers JOIN usual USING (release) GROUP BY release, first_row, n_questions, repeats ORDER BY first_row

-- name: forget_answers
DELETE FROM answers WHERE dataset = $dataset AND release = $release AND answers_version = $version

-- name: add_answers
INSERT INTO answers BY NAME
SELECT $dataset AS dataset, $version AS answers_version, * EXCLUDE first_row FROM new_answers WHERE release = $release

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
