-- name: growth
-- Samples with an answer in both releases: in how many the new one is much longer, or names more candidates, and in how
-- many it is the other way round.
WITH o AS (
    SELECT sample_id, avg(length(answer)) AS n, avg(len(regexp_extract_all(answer, $separators))) AS named FROM answers
    JOIN reports USING (dataset, release, answers_version) WHERE report_id = $old GROUP BY sample_id
),
n AS (
    SELECT sample_id, avg(length(answer)) AS n, avg(len(regexp_extract_all(answer, $separators))) AS named FROM answers
    JOIN reports USING (dataset, release, answers_version) WHERE report_id = $new GROUP BY sample_id
)
SELECT count(*), count(*) FILTER (n.n >= $ratio * o.n AND n.n > o.n), count(*) FILTER (o.n >= $ratio * n.n AND o.n > n.n),
       count(*) FILTER (n.named > o.named), count(*) FILTER (n.named < o.named)
FROM o JOIN n USING (sample_id) WHERE o.n IS NOT NULL AND n.n IS NOT NULL
