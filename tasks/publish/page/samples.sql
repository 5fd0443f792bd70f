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
SELECT sample_id, s.question, coalesce(s."references", []), coalesce(s.facts, []), coalesce(s.incorrect_references, [])
FROM chosen LEFT JOIN samples s USING (dataset, dataset_version, sample_id) ORDER BY sample_id

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

-- name: length
SELECT coalesce(sum(least(length(answer), $cap)), 0) FROM page_answers

-- name: context_length
SELECT coalesce(sum(least(length(passage), $cap)), 0) FROM (
    SELECT unnest(context) AS passage FROM page_answers UNION ALL SELECT unnest(map_values("columns")) FROM page_answers
)

-- name: contexts
SELECT slot, list_transform(context, lambda t: if(length(t) > $cap, left(t, $cap) || ' …', t)) FROM page_answers
WHERE len(context) > 0

-- name: columns
SELECT slot, "columns" FROM page_answers WHERE "columns" IS NOT NULL

-- name: slices
SELECT name, map_from_entries(list((place, part))) FROM (
    SELECT name, place, arg_max(part, turn) AS part FROM (
        SELECT place, turn, unnest(map_keys(slices)) AS name, unnest(map_values(slices)) AS part FROM page_answers
    ) GROUP BY name, place
) GROUP BY name ORDER BY name

-- name: answers
SELECT place, slot, left(answer, $cap), length(answer), correct FROM page_answers ORDER BY slot

-- name: values
-- Of several answers to a question, the mean of those that have a number.
SELECT metric || '.' || field, list(place ORDER BY place), list("value" ORDER BY place) FROM (
    SELECT metric, field, place, round(avg("value"), $digits) AS "value"
    FROM scores JOIN places USING (sample_id) WHERE report_id IN (SELECT unnest($reports)) GROUP BY metric, field, place
) GROUP BY metric, field

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
