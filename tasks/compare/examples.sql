-- name: largest
-- $sign: 1 for what got better, -1 for what got worse, 0 for both. As in a comparison, a sample with another question
-- or other references is not the same sample. The texts of the few are fetched last, so that a million answers need
-- not be kept while they are sorted.
WITH scored AS (
    SELECT s.report_id, s.sample_id, s."value", s.reason, a.answer, s.dataset_version, m.question, m."references"
    FROM scores s
    JOIN reports r USING (report_id)
    JOIN answers a ON a.dataset = s.dataset AND a.release = s.release AND a.sample_id = s.sample_id
        AND a.answers_version = r.answers_version
    LEFT JOIN samples m
        ON m.dataset = s.dataset AND m.dataset_version = s.dataset_version AND m.sample_id = s.sample_id
    WHERE s.report_id IN ($old, $new) AND s.metric = $metric AND s.field = $field AND s.status = 'scored'
),
o AS (FROM scored WHERE report_id = $old),
n AS (FROM scored WHERE report_id = $new),
moved AS (
    SELECT sample_id, n."value" - o."value" AS difference,
           if($sign = 0, abs(difference), $sign * difference) AS size
    FROM o JOIN n USING (sample_id)
    WHERE size > 0 AND (o.dataset_version = n.dataset_version
        OR list_sort(o."references") IS NOT DISTINCT FROM list_sort(n."references")
            AND coalesce(o.question = n.question, true))
    ORDER BY size DESC, sample_id LIMIT $limit
)
SELECT sample_id, n.question, n."references", o.answer, n.answer, o."value", n."value", difference, o.reason, n.reason
FROM moved JOIN o USING (sample_id) JOIN n USING (sample_id) ORDER BY size DESC, sample_id
