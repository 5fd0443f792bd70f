-- name: measured
-- What the warehouse knows of these signatures. What a fallback judge said holds until the named one has answered.
SELECT signature, sample_key,
       if(contains(signature, '|else:') AND json_extract_string(details, '$.' || $answered_by) IS NOT NULL, 'failed', status)
           AS status
FROM measurements WHERE signature IN (SELECT unnest($signatures))

-- name: wanted
-- Equal answers are scored once, under an id that does not depend on the order of the rows. It is chosen by a number:
-- groups with texts in them would have to fit into memory. The other texts stay in the file until it is known which of
-- them are needed.
CREATE TEMP TABLE wanted AS
SELECT sample_key, sample_id, file_row_number AS "row"
FROM read_parquet($accepted, file_row_number = true) SEMI JOIN (
    SELECT arg_min(file_row_number, (md5_number_lower(sample_id) >> 1)::BIGINT) AS file_row_number
    FROM read_parquet($accepted, file_row_number = true) WHERE missing_because IS NULL GROUP BY sample_key
) USING (file_row_number)

-- name: needs
CREATE TEMP TABLE needs (metric INTEGER, "row" BIGINT)

-- name: add_needs
INSERT INTO needs
SELECT $metric, w."row"
FROM wanted w
LEFT JOIN (FROM read_parquet($measured) WHERE signature = $signature) AS m USING (sample_key)
WHERE m.status = 'failed' OR (NOT $only_failed AND (m.status IS NULL OR m.status = 'skipped'))

-- name: known
FROM read_parquet($measured) JOIN wanted USING (sample_key)
WHERE signature = $signature AND status NOT IN ('failed', 'skipped')

-- name: todo
-- In the order of the ids the answers to one question stay together, which the reference caches of the metrics live on,
-- and the order of the source is irrelevant.
CREATE TEMP TABLE todo AS
SELECT "row", sample_id, row_number() OVER (ORDER BY sample_id, sample_key) - 1 AS place
FROM wanted SEMI JOIN needs USING ("row")

-- name: texts
-- In no order: a sort of all texts would have to fit into memory.
SELECT t.place, a.sample_key, a.sample_id, a.question, a.answer, a."references", a.facts, a.context, a.incorrect_references,
       a."columns"
FROM read_parquet($accepted, file_row_number = true) a
JOIN (SELECT "row", place FROM todo) t ON t."row" = a.file_row_number

-- name: references
-- Some questions with their references, drawn by their texts, so that every release has the same. By numbers: groups with
-- texts in them would have to fit into memory.
SELECT question, "references" FROM read_parquet($accepted, file_row_number = true)
JOIN (
    SELECT md5_number_lower(question || chr(0) || array_to_string("references", chr(0))) AS hash,
           min(file_row_number) AS file_row_number
    FROM read_parquet($accepted, file_row_number = true)
    WHERE missing_because IS NULL AND question IS NOT NULL AND len("references") > 0
    GROUP BY hash ORDER BY hash LIMIT $most
) USING (file_row_number)
ORDER BY hash

-- name: places
SELECT place FROM todo JOIN needs USING ("row") WHERE metric = $metric ORDER BY place

-- name: contents
-- How many rows a metric needs, and which they are: sums that do not depend on an order need no memory.
SELECT count(*), bit_xor(hash), sum(hash)
FROM (
    SELECT md5_number_lower(sample_id || chr(0) || sample_key) AS hash
    FROM needs JOIN wanted USING ("row") WHERE metric = $metric
)

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
