-- name: count
SELECT count(DISTINCT a.sample_id)
FROM reports r JOIN answers a USING (dataset, release, answers_version) WHERE r.report_id IN (SELECT unnest($reports))

-- name: samples
-- The $most samples whose score moves most between the reports; the texts are those of the last report that has them.
WITH answered AS (
    SELECT a.sample_id, r.dataset, r.dataset_version, list_position($reports, r.report_id) AS turn
    FROM reports r JOIN answers a USING (dataset, release, answers_version)
    WHERE r.report_id IN (SELECT unnest($reports))
), newest AS (
    SELECT sample_id, arg_max(dataset_version, turn) AS dataset_version, any_value(dataset) AS dataset
    FROM answered GROUP BY sample_id
), moves AS (
    SELECT sample_id, max("value") - min("value") AS move FROM (
        SELECT report_id, sample_id, avg("value") AS "value" FROM scores
        WHERE report_id IN (SELECT unnest($reports)) AND metric = $metric AND field = $field
        GROUP BY report_id, sample_id
    ) GROUP BY sample_id
), chosen AS (
    SELECT sample_id, dataset, dataset_version FROM newest LEFT JOIN moves USING (sample_id)
    ORDER BY move DESC NULLS LAST, sample_id LIMIT $most
)
SELECT list(sample_id ORDER BY sample_id), list(s.question ORDER BY sample_id),
       list(coalesce(list_transform(s."references", lambda t: coalesce(t, '')), []) ORDER BY sample_id),
       list(coalesce(list_transform(s.facts, lambda t: coalesce(t, '')), []) ORDER BY sample_id),
       list(coalesce(list_transform(s.incorrect_references, lambda t: coalesce(t, '')), []) ORDER BY sample_id)
FROM chosen LEFT JOIN samples s USING (dataset, dataset_version, sample_id)

-- name: places
-- The answers to the samples $ids, with the place of each sample. A slot is the place of the sample, or for its further
-- answers a number after all places. The beginning of the statements below.
WITH places AS (SELECT unnest($ids::VARCHAR[]) AS sample_id, unnest(range(len($ids))) AS place),
counted AS (
    SELECT p.place, r.report_id, list_position($reports, r.report_id) AS turn,
           a.sample_id, a.sample_key, a.answer, a.correct, a.slices, a.repeat, a.context, a."columns",
           row_number() OVER (PARTITION BY r.report_id, p.place ORDER BY a.repeat) > 1 AS further
    FROM reports r JOIN answers a USING (dataset, release, answers_version) JOIN places p USING (sample_id)
    WHERE r.report_id IN (SELECT unnest($reports))
),
page_answers AS (
    SELECT *, if(further, len($ids) - 1 + row_number() OVER (PARTITION BY report_id, further ORDER BY place, repeat),
                 place) AS slot
    FROM counted
)

-- name: caps
-- The largest of $caps at which all answers have at most $most_chars characters together, or the smallest of them; then
-- the same of all passages and further columns, with $most_context_chars.
, texts AS (
    SELECT 'answer' AS kind, length(answer) AS chars FROM page_answers
    UNION ALL SELECT 'context', length(passage) FROM (SELECT unnest(context) AS passage FROM page_answers)
    UNION ALL SELECT 'context', length(text) FROM (SELECT unnest(map_values("columns")) AS text FROM page_answers)
),
sums AS (
    SELECT cap, coalesce(sum(least(chars, cap)) FILTER (kind = 'answer'), 0) AS answer_chars,
           coalesce(sum(least(chars, cap)) FILTER (kind = 'context'), 0) AS context_chars
    FROM (SELECT unnest($caps) AS cap) LEFT JOIN texts ON true GROUP BY cap
)
SELECT coalesce(max(cap) FILTER (answer_chars <= $most_chars), min(cap)),
       coalesce(max(cap) FILTER (context_chars <= $most_context_chars), min(cap)) FROM sums

-- name: contexts
SELECT slot, list_transform(context, lambda t: if(length(t) > $cap, left(t, $cap) || ' …', t)) FROM page_answers
WHERE len(context) > 0

-- name: columns
SELECT slot, "columns" FROM page_answers WHERE "columns" IS NOT NULL

-- name: slices
-- The value of each sample in each slice column, in the order of the places.
, slice_values AS (
    SELECT name, place, arg_max(part, turn) AS part FROM (
        SELECT place, turn, unnest(map_keys(slices)) AS name, unnest(map_values(slices)) AS part FROM page_answers
    ) GROUP BY name, place
)
SELECT name, list(part ORDER BY place)
FROM (SELECT DISTINCT name FROM slice_values) CROSS JOIN places LEFT JOIN slice_values USING (name, place)
GROUP BY name ORDER BY name

-- name: answers
-- Texts and human labels in the order of the slots, the whole lengths of cut answers by slot, the places without an
-- answer, and by place the slots of its further answers.
, slots AS (
    SELECT unnest(range(greatest(len($ids), (SELECT coalesce(max(slot), -1) + 1 FROM page_answers)))) AS slot
)
SELECT coalesce(list(left(answer, $cap) ORDER BY slot), []), coalesce(list(correct ORDER BY slot), []),
       coalesce(map_from_entries(list((slot, length(answer)) ORDER BY slot) FILTER (length(answer) > $cap)), MAP {}),
       coalesce(list(slot ORDER BY slot) FILTER (place IS NULL), []),
       coalesce((SELECT map_from_entries(list((place, further_slots) ORDER BY place)) FROM (
           SELECT place, list(slot ORDER BY slot) AS further_slots FROM page_answers WHERE further GROUP BY place
       )), MAP {})
FROM slots LEFT JOIN page_answers USING (slot)

-- name: values
-- The number of each sample in each field, in the order of the places. Of several answers to a question, the mean of
-- those that have a number.
, numbers AS (
    SELECT metric || '.' || field AS name, place, round(avg("value"), $digits) AS number
    FROM scores JOIN places USING (sample_id) WHERE report_id IN (SELECT unnest($reports)) GROUP BY ALL
)
SELECT name, list(number ORDER BY place)
FROM (SELECT DISTINCT name FROM numbers) CROSS JOIN places LEFT JOIN numbers USING (name, place) GROUP BY name

-- name: each
-- The numbers of single answers, of the samples with several.
SELECT metric || '.' || field, map_from_entries(list((slot, round("value", $digits)) ORDER BY slot))
FROM scores JOIN page_answers USING (report_id, sample_id, repeat)
WHERE place IN (SELECT place FROM page_answers WHERE further) AND "value" IS NOT NULL AND NOT regexp_matches(field, '[@^]')
GROUP BY metric, field

-- name: reasons
-- By slot, why answers have their scores, and the status of those without a score, with the reason. Those of pass@k and
-- pass^k are about a question, and follow from those of its answers.
, words AS (
    SELECT metric, slot, any_value(status) AS status, any_value(reason) AS reason
    FROM scores JOIN page_answers USING (report_id, sample_id, repeat)
    WHERE (reason IS NOT NULL OR status <> 'scored') AND NOT regexp_matches(field, '[@^]') GROUP BY metric, slot
)
SELECT metric, map_from_entries(list((slot, reason) ORDER BY slot) FILTER (status = 'scored')),
       map_from_entries(list((slot, (status, coalesce(reason, ''))) ORDER BY slot) FILTER (status <> 'scored'))
FROM words GROUP BY metric ORDER BY metric

-- name: evidence
SELECT m.metric, a.slot, m.details FROM page_answers a JOIN measurements m USING (sample_key)
WHERE m.signature IN (SELECT unnest($signatures)) AND m.status = 'scored'
    AND list_has_any(json_keys(m.details), $keys)
