-- The rows of `samples` and `answers` that a run commits, from the file with its accepted rows: those from `$first` on,
-- from 0, up to before `$end`. A sample is where its id stands first.

-- name: new_samples
-- Where the samples stand in the file: the first row of every id. What they hold stays in the file.
CREATE OR REPLACE TEMP TABLE new_samples AS
SELECT min(file_row_number) AS file_row_number FROM read_parquet($samples, file_row_number = true)
WHERE file_row_number < $end GROUP BY sample_id HAVING min(file_row_number) >= $first

-- name: samples
SELECT $dataset AS dataset, $version AS dataset_version, sample_id, question, "references", facts, "cluster", incorrect_references
FROM read_parquet($samples, file_row_number = true) SEMI JOIN new_samples USING (file_row_number)
WHERE file_row_number >= $first AND file_row_number < $end

-- name: asked_samples
-- A references file without questions has them from the answers.
SELECT $dataset AS dataset, $version AS dataset_version, sample_id, coalesce(s.question, a.question) AS question,
       "references", facts, "cluster", incorrect_references
FROM read_parquet($samples, file_row_number = true) s SEMI JOIN new_samples USING (file_row_number)
LEFT JOIN (SELECT sample_id, min(question) AS question FROM read_parquet($accepted) GROUP BY sample_id) a
    USING (sample_id)
WHERE file_row_number >= $first AND file_row_number < $end

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
    WHERE file_row_number >= $first AND file_row_number < $end
)

-- name: answers
SELECT $dataset AS dataset, *
FROM new_answers JOIN (SELECT unnest($releases) AS release, unnest($versions) AS answers_version) USING (release)
