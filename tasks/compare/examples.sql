-- name: largest
-- $sign: 1 for what got larger, -1 for what got smaller, 0 for both. As in a comparison, a sample with another question
-- or other references is not the same sample. The texts of the few are fetched last, so that a million answers need
-- not be kept while they are sorted. Of several answers to one question the mean counts, and all of them are shown.
WITH means AS (
    SELECT s.report_id, s.sample_id, any_value(r.dataset) AS dataset, any_value(r.dataset_version) AS dataset_version,
           fsum(s."value") / count(*) AS "value", if(min(s.reason) = max(s.reason), min(s.reason), NULL) AS reason
    FROM scores s JOIN reports r USING (report_id)
    WHERE s.report_id IN ($old, $new) AND s.metric = $metric AND s.field = $field AND s.status = 'scored'
    GROUP BY s.report_id, s.sample_id
),
scored AS (
    SELECT means.*, m.question, m."references", m.incorrect_references
    FROM means LEFT JOIN samples m USING (dataset, dataset_version, sample_id)
),
o AS (FROM scored WHERE report_id = $old),
n AS (FROM scored WHERE report_id = $new),
moved AS (
    SELECT sample_id, n."value" - o."value" AS difference,
           if($sign = 0, abs(difference), $sign * difference) AS size
    FROM o JOIN n USING (sample_id)
    WHERE size > 0 AND (o.dataset_version = n.dataset_version
        OR list_sort(o."references") IS NOT DISTINCT FROM list_sort(n."references")
            AND list_sort(coalesce(o.incorrect_references, [])) = list_sort(coalesce(n.incorrect_references, []))
            AND coalesce(o.question = n.question, true))
    ORDER BY size DESC, sample_id LIMIT $limit
),
texts AS (
    SELECT r.report_id, a.sample_id, if(count(*) = 1, any_value(a.answer),
               string_agg(concat('[', a.repeat, '] ', a.answer), chr(10) ORDER BY a.repeat)) AS answer
    FROM reports r JOIN answers a USING (dataset, release, answers_version) SEMI JOIN moved USING (sample_id)
    WHERE r.report_id IN ($old, $new) GROUP BY r.report_id, a.sample_id
)
SELECT sample_id, n.question, n."references", told.answer, tnew.answer, o."value", n."value", difference,
       o.reason, n.reason
FROM moved JOIN o USING (sample_id) JOIN n USING (sample_id)
LEFT JOIN (FROM texts WHERE report_id = $old) told USING (sample_id)
LEFT JOIN (FROM texts WHERE report_id = $new) tnew USING (sample_id)
ORDER BY size DESC, sample_id

-- name: worst
-- Of several answers to one question the mean counts, and all of them are shown.
WITH means AS (
    SELECT report_id, sample_id, fsum("value") / count(*) AS "value",
           if(min(reason) = max(reason), min(reason), NULL) AS reason
    FROM scores WHERE report_id = $report AND metric = $metric AND field = $field AND status = 'scored'
    GROUP BY ALL
),
worst AS (FROM means ORDER BY $sign * "value", sample_id LIMIT $limit),
texts AS (
    SELECT a.sample_id, if(count(*) = 1, any_value(a.answer),
               string_agg(concat('[', a.repeat, '] ', a.answer), chr(10) ORDER BY a.repeat)) AS answer
    FROM reports r JOIN answers a USING (dataset, release, answers_version) SEMI JOIN worst USING (sample_id)
    WHERE r.report_id = $report GROUP BY a.sample_id
)
SELECT sample_id, "value", m.question, m."references", answer, reason
FROM worst JOIN reports r USING (report_id) LEFT JOIN samples m USING (dataset, dataset_version, sample_id)
LEFT JOIN texts USING (sample_id)
ORDER BY $sign * "value", sample_id
