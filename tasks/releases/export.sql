-- name: newest_version
SELECT version FROM datasets WHERE dataset = $dataset ORDER BY created_at DESC LIMIT 1

-- name: slices
SELECT DISTINCT unnest(map_keys(slices)) AS name
FROM (SELECT any_value(slices) AS slices FROM answers WHERE dataset = $dataset GROUP BY sample_id)
ORDER BY name

-- name: samples
-- The slices of a sample are those of its answer of one release, or of any where `release` is NULL.
WITH answered AS (
    SELECT sample_id, any_value(slices) AS slices FROM answers
    WHERE dataset = $dataset
        AND ($release IS NULL OR (release = $release AND answers_version = $answers_version))
    GROUP BY sample_id
)
SELECT sample_id, question, "references", facts, "cluster", incorrect_references, slices
FROM samples LEFT JOIN answered USING (sample_id)
WHERE dataset = $dataset AND dataset_version = $version ORDER BY sample_id

-- name: answers
SELECT a.sample_id, s.question, a.answer, a.label, a.missing_because, a.repeat, a.context, a.given, a.slices, a."columns"
FROM answers a
LEFT JOIN samples s ON s.dataset = a.dataset AND s.dataset_version = $version AND s.sample_id = a.sample_id
WHERE a.dataset = $dataset AND a.release = $release AND a.answers_version = $answers_version
ORDER BY a.sample_id, a.repeat
