-- name: answers
-- What the baseline answered, question by question: the first of several answers.
SELECT sample_id, arg_min(coalesce(answer, ''), (try_cast(repeat AS INTEGER), repeat)) AS answer
FROM read_parquet($accepted) WHERE release = $baseline AND missing_because IS NULL GROUP BY sample_id ORDER BY sample_id

-- name: baseline_answers
-- By the key of an answer, what the baseline answered to the same question. One key can be that of several questions
-- only if they have the same text; then the first of them counts.
SELECT sample_key, arg_min(o.answer, sample_id)
FROM read_parquet($accepted) n JOIN (
    SELECT sample_id, arg_min(coalesce(answer, ''), (try_cast(repeat AS INTEGER), repeat)) AS answer
    FROM read_parquet($accepted) WHERE release = $baseline AND missing_because IS NULL GROUP BY sample_id
) o USING (sample_id)
WHERE n.missing_because IS NULL GROUP BY sample_key
