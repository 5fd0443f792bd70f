-- name: add_scores
-- A row without a measurement was left out on purpose: --only-failed scores nothing new. A question without an answer
-- has failed before anything could be scored. A measurement is looked up once, and has the numbers of all its fields.
INSERT INTO scores BY NAME
WITH asked AS (SELECT report_id, release, answers_version FROM reports WHERE report_id IN (SELECT unnest($reports))),
metrics AS (
    SELECT unnest($metrics) AS metric, unnest($signatures) AS signature, unnest($fields) AS fields
)
SELECT r.report_id, a.dataset, $dataset_version AS dataset_version, a.release, a.sample_id, a.repeat, f.metric,
       unnest(f.fields) AS field,
       unnest([if(m.status = 'scored', map_extract_value(m."values", name), NULL) FOR name IN f.fields]) AS "value",
       CASE WHEN a.missing_because IS NOT NULL THEN 'failed' ELSE coalesce(m.status, 'skipped') END AS status,
       CASE WHEN starts_with(a.missing_because, 'quarantined (') THEN split_part(a.missing_because, ':', 1)
            WHEN a.missing_because IS NOT NULL
                THEN concat('unanswered (', split_part(a.missing_because, ':', 1), ')')
            WHEN m.status IS NULL THEN 'not scored yet: only failed rows were asked for'
            ELSE m.reason END AS reason,
       f.signature
FROM asked r
JOIN answers a ON a.dataset = $dataset AND a.release = r.release AND a.answers_version = r.answers_version
CROSS JOIN metrics f
LEFT JOIN measurements m
    ON m.sample_key = a.sample_key AND m.signature = f.signature

-- name: has_labels
SELECT count(*) > 0 FROM answers
WHERE dataset = $dataset AND release = $release AND answers_version = $answers_version AND correct IS NOT NULL

-- name: next_version
SELECT coalesce(max(version), 0) + 1 FROM reports WHERE dataset = $dataset AND release = $release

-- name: report_of_run
SELECT report_id FROM reports
WHERE dataset = $dataset AND release = $release AND run_id = $run_id ORDER BY version DESC LIMIT 1

-- name: add_report
INSERT INTO reports BY NAME
SELECT $report_id AS report_id, $dataset AS dataset, $dataset_version AS dataset_version, $release AS release,
       $version AS version, now() AS created_at, 'COMPLETE' AS status, $manifest AS manifest,
       $answers_version AS answers_version, $run_id AS run_id

-- name: add_labels
-- The label of people is a metric like any other; it is not measured, it came with the answer.
INSERT INTO scores BY NAME
SELECT r.report_id, a.dataset, r.dataset_version, a.release, a.sample_id, a.repeat, $metric AS metric,
       $field AS field,
       a.correct::DOUBLE AS "value", if(a.correct IS NULL, 'undefined', 'scored') AS status,
       if(a.correct IS NULL, $reason, NULL) AS reason, $signature AS signature
FROM reports r
JOIN answers a ON a.dataset = r.dataset AND a.release = r.release AND a.answers_version = r.answers_version
WHERE r.report_id IN (SELECT unnest($reports))

-- name: new_reports
CREATE OR REPLACE TEMP TABLE new_reports AS
SELECT report_id, dataset, release, answers_version FROM reports WHERE report_id IN (SELECT unnest($reports))

-- name: fields
-- `high` is NULL where there is no highest value; `seen_high` ends the bins of its histogram.
CREATE OR REPLACE TEMP TABLE fields AS
WITH declared AS (
    SELECT unnest($metrics) AS metric, unnest($fields) AS field, unnest($lows) AS low, unnest($highs) AS high
), seen AS (
    SELECT report_id, metric, field, max("value") AS "most"
    FROM question_scores SEMI JOIN (FROM declared WHERE high IS NULL) USING (metric, field) GROUP BY ALL
)
SELECT report_id, metric, field, low, high, coalesce(high, if("most" > low, "most", low + 1)) AS seen_high
FROM declared CROSS JOIN (SELECT report_id FROM new_reports) LEFT JOIN seen USING (report_id, metric, field)

-- name: shape
-- Whether the data set has clusters, and whether the answers have slices.
SELECT (SELECT count("cluster") > 0 FROM samples WHERE dataset = $dataset AND dataset_version = $dataset_version),
       (SELECT count(*) > 0 FROM new_reports JOIN answers USING (dataset, release, answers_version)
        WHERE cardinality(slices) > 0)

-- name: one_answer
-- What the aggregates are of: a number per question and field. Here it is that of the answer.
CREATE OR REPLACE TEMP VIEW question_scores AS
SELECT report_id, release, sample_id, metric, field, "value", status FROM scores SEMI JOIN new_reports USING (report_id)

-- name: several_answers
-- Here it is the mean of those answers that have a number.
CREATE OR REPLACE TEMP VIEW question_scores AS
SELECT report_id, release, sample_id, metric, field, fsum("value") / nullif(count("value"), 0) AS "value",
       CASE WHEN count("value") > 0 THEN 'scored' WHEN bool_or(status = 'failed') THEN 'failed'
            WHEN bool_or(status = 'skipped') THEN 'skipped' ELSE 'undefined' END AS status
FROM scores SEMI JOIN new_reports USING (report_id) GROUP BY report_id, release, sample_id, metric, field

-- name: unplaced
-- Every number once, where there are neither slices nor clusters: nothing need be looked up.
CREATE OR REPLACE TEMP VIEW placed AS SELECT *, 'all' AS slice, '' AS grp FROM question_scores

-- name: places
-- The slices of every answer, and its cluster, or itself, where there are clusters. A table, since as a part of the
-- view below it takes more memory than a session has.
CREATE OR REPLACE TEMP TABLE places AS
SELECT report_id, sample_id, [key || '=' || slices[key] FOR key IN map_keys(slices)] AS slices,
       if($clustered, coalesce('cluster ' || s."cluster", 'sample ' || sample_id), '') AS grp
FROM new_reports JOIN answers USING (dataset, release, answers_version) LEFT JOIN (
    SELECT sample_id, "cluster" FROM samples
    WHERE dataset = $dataset AND dataset_version = $dataset_version AND "cluster" IS NOT NULL
) s USING (sample_id)

-- name: first_answers
-- The end of the statement above where a question has several answers: a row per question, in the slices of the first.
QUALIFY repeat = min(repeat) OVER (PARTITION BY report_id, sample_id)

-- name: placed
-- Every number once for 'all' and once per slice.
CREATE OR REPLACE TEMP VIEW placed AS
SELECT q.*, unnest(list_prepend('all', slices)) AS slice, grp
FROM question_scores q JOIN places USING (report_id, sample_id)

-- name: sums
-- All that aggregates are made of, in one pass over the numbers: of clusters, or of bins of independent numbers. A
-- million of these are a few hundred rows. How far the numbers of a bin lie from their mean is kept as their standard
-- deviation, so that nothing is lost that matters. Totals are exact decimals, and deviations are rounded to a share of
-- 10^-12 of the range of the scores: the order of the rows does not show in a mean or its interval.
CREATE OR REPLACE TEMP TABLE sums AS
SELECT report_id, release, metric, field, slice, grp,
       if($clustered, NULL, floor(("value" - low) / (seen_high - low) * $bins)) AS bin,
       count(*) AS n, count("value") AS n_scored,
       count(*) FILTER (status = 'failed') AS n_failed,
       count(*) FILTER (status = 'undefined') AS n_undefined,
       count(*) FILTER (status = 'skipped') AS n_skipped,
       sum("value"::DECIMAL(38, 18)) AS total,
       round(stddev_pop(("value" - low) / (seen_high - low)), 12) * any_value(seen_high - low) AS spread
FROM placed JOIN fields USING (report_id, metric, field)
GROUP BY report_id, release, metric, field, slice, grp, bin

-- name: aggregates
-- The bounds are the mean if every row that should have a number had the lowest, and the highest, one.
WITH counts AS (
    SELECT report_id, release, metric, field, slice, sum(n)::BIGINT AS n, sum(n_scored)::BIGINT AS scored,
           sum(n_failed)::BIGINT AS failed, sum(n_undefined)::BIGINT AS undefined, sum(n_skipped)::BIGINT AS skipped,
           sum(total)::DOUBLE / nullif(scored, 0) AS mean, if($clustered, count(*) FILTER (n_scored > 0), NULL) AS clusters
    FROM sums GROUP BY report_id, release, metric, field, slice
)
SELECT report_id, release, metric, field, slice, n, scored, failed, undefined, skipped, scored / n, mean,
       (coalesce(mean, 0) * scored + low * (failed + skipped)) / nullif(scored + failed + skipped, 0),
       (coalesce(mean, 0) * scored + if(failed + skipped = 0, 0, high * (failed + skipped)))
           / nullif(scored + failed + skipped, 0), clusters
FROM counts JOIN fields USING (report_id, metric, field)

-- name: bins
-- The numbers behind every mean, for its interval, as a histogram.
SELECT report_id, metric, field, slice, 1 AS size, n_scored, total::DOUBLE / n_scored, spread FROM sums WHERE n_scored > 0
ORDER BY ALL

-- name: cluster_bins
-- The same of the sums of clusters, by their size.
SELECT report_id, metric, field, slice, n_scored AS size, count(*), sum(total)::DOUBLE / count(*),
       round(stddev_pop(total::DOUBLE / (seen_high - low)), 12) * any_value(seen_high - low)
FROM sums JOIN fields USING (report_id, metric, field) WHERE n_scored > 0
GROUP BY report_id, metric, field, slice, n_scored, floor((total::DOUBLE / n_scored - low) / (seen_high - low) * $bins)
ORDER BY ALL

-- name: forget
-- Nothing stays behind for the next report of the session.
DROP VIEW placed;
DROP VIEW question_scores;
DROP TABLE IF EXISTS places;
DROP TABLE sums;
DROP TABLE fields;
DROP TABLE new_reports

-- name: add_aggregates
-- A list for each column.
INSERT INTO report_scores (
    report_id, release, metric, field, slice, n_total, n_scored, n_failed, n_undefined, n_skipped, coverage, mean,
    bound_low, bound_high, n_clusters, ci_low, ci_high, ci_method
)
SELECT
    unnest(?), unnest(?), unnest(?), unnest(?), unnest(?), unnest(?), unnest(?), unnest(?), unnest(?), unnest(?),
    unnest(?), unnest(?), unnest(?), unnest(?), unnest(?), unnest(?), unnest(?), unnest(?)

-- name: bleu_statistics
-- Summed over clusters, or rows, which are resampled. Past `most_groups` of them they are put into as many random groups
-- first: the variance of a sum over independent groups is the same, and a million rows take no longer than two thousand.
WITH stats AS (
    SELECT p.report_id, p.slice, p.unit, hash(p.unit) % $most_groups AS bucket,
           CAST(json_extract(m.details, '$.stats') AS BIGINT[]) AS numbers
    FROM report_slices p
    JOIN measurements m ON m.sample_key = p.sample_key AND m.signature = $signature AND m.status = 'scored'
    WHERE p.report_id IN (SELECT unnest($reports))
), sizes AS (SELECT report_id, slice, count(DISTINCT unit) AS n FROM stats GROUP BY ALL)
SELECT report_id, slice,
       sum(numbers[1])::BIGINT, sum(numbers[2])::BIGINT, sum(numbers[3])::BIGINT, sum(numbers[4])::BIGINT,
       sum(numbers[5])::BIGINT, sum(numbers[6])::BIGINT, sum(numbers[7])::BIGINT, sum(numbers[8])::BIGINT,
       sum(numbers[9])::BIGINT, sum(numbers[10])::BIGINT
FROM stats JOIN sizes USING (report_id, slice)
GROUP BY report_id, slice, CASE WHEN n > $most_groups THEN bucket::VARCHAR ELSE unit END
ORDER BY report_id, slice, min(unit)

-- name: add_corpus_bleu
-- Counts and coverage are those of the sentence scores; there are no bounds, since a missing answer has no lowest corpus
-- BLEU of its own. So there is no mean where fewer than `min_coverage` of the answers that should have a score have one.
INSERT INTO report_scores BY NAME
SELECT report_id, release, metric, 'corpus_bleu' AS field, slice, n_total, n_scored, n_failed, n_undefined, n_skipped,
       coverage, if(whole, $mean, NULL) AS mean, if(whole, $low, NULL) AS ci_low, if(whole, $high, NULL) AS ci_high,
       if(whole, $method, NULL) AS ci_method, n_clusters, n_questions
FROM (SELECT *, n_scored >= $min_coverage * (n_total - n_undefined) AS whole FROM report_scores) WHERE report_id = $report_id AND slice = $slice AND metric = $metric AND field = $field

-- name: coverage
-- All fields of a metric have the same rows. What needs no score (undefined) need not be covered. Bounds and reasons, the
-- most frequent first and each as it was said of one sample, are those of one of its fields; the bounds are its mean if
-- every row without a number had the lowest value, and the highest one.
WITH speaking AS (SELECT unnest($metrics) AS metric, unnest($fields) AS speaks),
counts AS (
    SELECT report_id, metric, if(status = 'failed', split_part(reason, ':', 1), reason) AS why, count(*) AS n,
           arg_min(reason, sample_id) AS said
    FROM scores JOIN speaking USING (metric)
    WHERE field = speaks AND status IN ('failed', 'skipped') AND report_id IN (SELECT unnest($reports))
    GROUP BY ALL
),
reasons AS (SELECT report_id, metric, list((why, n, said) ORDER BY n DESC, why) AS reasons FROM counts GROUP BY ALL)
SELECT report_id, metric, max(n_total - n_undefined), max(n_scored), max(n_skipped),
       max(bound_low) FILTER (field = speaks), max(bound_high) FILTER (field = speaks), any_value(reasons)
FROM report_scores JOIN speaking USING (metric) LEFT JOIN reasons USING (report_id, metric)
WHERE slice = 'all' AND report_id IN (SELECT unnest($reports))
GROUP BY report_id, metric ORDER BY report_id, list_position($metrics, metric)

-- name: settle
UPDATE reports SET status = $status, message = $message WHERE report_id = $report_id

-- name: details
-- What one detail of each score says, by answer of the reports: what stands before `decided`, `saved`, `out_of_depth`
-- and `fallbacks`.
WITH details AS (
    SELECT a.report_id, f.metric, a.sample_key, m.run_id, json_extract_string(m.details, '$.' || $detail) AS detail
    FROM report_answers a
    CROSS JOIN (SELECT unnest($metrics) AS metric, unnest($signatures) AS signature) f
    JOIN measurements m ON m.sample_key = a.sample_key AND m.signature = f.signature AND m.status = 'scored'
    WHERE a.report_id IN (SELECT unnest($reports))
)

-- name: decided
-- Of a cascade, how many answers the offline judge decided (`offline`), how many were left (`judge`), and how many were
-- in its trial (`cascade.SAME`, `cascade.OTHER`). All fields of a metric have the same details.
SELECT report_id, metric, map_concat(MAP {'offline': 0, 'judge': 0}, histogram(detail)::MAP(VARCHAR, INTEGER))
FROM details WHERE detail <> '' GROUP BY ALL ORDER BY ALL

-- name: saved
-- Of a cascade, about how many answers this run asked no judge, in all reports together: answers with the same texts
-- are one, since a judge would be asked about them once, and what an earlier run decided was saved by that.
SELECT report_id, metric, n
FROM (SELECT DISTINCT report_id, metric FROM details WHERE detail <> '')
JOIN (
    SELECT metric, count(DISTINCT sample_key) FILTER (detail = $offline AND details.run_id = r.run_id) AS n
    FROM details
    JOIN (SELECT report_id, run_id FROM reports) r USING (report_id)
    GROUP BY metric
) USING (metric)
ORDER BY ALL

-- name: out_of_depth
-- Of how many answers the offline judge warns of its own verdict, by reason, and of how many it does or does not.
SELECT report_id, metric, {'of': count(*), why: histogram(detail) FILTER (detail <> '')}
FROM details GROUP BY report_id, metric HAVING count(*) FILTER (detail <> '') > 0 ORDER BY report_id, metric

-- name: answered
-- Which models gave the replies behind the scores, by the name of the judge: `models` and `fingerprints` have, for each
-- name that a provider gave, the number of replies.
WITH requests AS (
    SELECT DISTINCT a.report_id, f.metric, unnest(m.requests) AS request_key
    FROM report_answers a
    CROSS JOIN (SELECT unnest($metrics) AS metric, unnest($signatures) AS signature) f
    JOIN measurements m ON m.sample_key = a.sample_key AND m.signature = f.signature AND m.status = 'scored'
    WHERE a.report_id IN (SELECT unnest($reports))
), replies AS (
    SELECT DISTINCT report_id, metric, judge, model, fingerprint, request_key
    FROM requests JOIN judge_calls USING (request_key) WHERE status = 'usable'
), judges AS (
    SELECT report_id, metric, judge, {
        models: coalesce(histogram(model) FILTER (model <> ''), MAP {}),
        fingerprints: coalesce(histogram(fingerprint) FILTER (fingerprint <> ''), MAP {})
    } AS answered
    FROM replies GROUP BY report_id, metric, judge
)
SELECT report_id, metric, map_from_entries(list((judge, answered) ORDER BY judge))
FROM judges GROUP BY report_id, metric ORDER BY report_id, metric

-- name: fallbacks
-- How many answers were judged by a fallback (`by` its name), `of` those that have a score.
SELECT report_id, metric, {'of': count(*), 'by': histogram(detail) FILTER (detail <> '')}
FROM details GROUP BY report_id, metric HAVING count(*) FILTER (detail <> '') > 0 ORDER BY report_id, metric

-- name: orders
-- On how many pairs of answers that a judge was asked about their order decided: `consistent` pairs got one verdict in
-- both orders, `decided` did not; of these, the answer shown `first`, or `second`, was preferred in both orders.
SELECT a.report_id, f.metric, {
    consistent: count(*) FILTER (m.status = 'scored' AND len(m.requests) > 0),
    decided: count(*) FILTER (m.status = 'failed' AND contains(m.reason, $order_decided)),
    first: count(*) FILTER (m.status = 'failed' AND contains(m.reason, $shown_first)),
    second: count(*) FILTER (m.status = 'failed' AND contains(m.reason, $shown_second))
}
FROM report_answers a
CROSS JOIN (SELECT unnest($metrics) AS metric, unnest($signatures) AS signature) f
JOIN measurements m ON m.sample_key = a.sample_key AND m.signature = f.signature
WHERE a.report_id IN (SELECT unnest($reports))
GROUP BY a.report_id, f.metric HAVING count(*) FILTER (m.status = 'failed' AND contains(m.reason, $order_decided)) > 0
ORDER BY a.report_id, f.metric

-- name: uniform
-- The most frequent `value` among `of` answers of `characters` or more that have a number, which `same` of them have.
WITH counts AS (
    SELECT s.report_id, s.metric, s."value", count(*) AS n
    FROM scores s
    JOIN (SELECT unnest($metrics) AS metric, unnest($signatures) AS signature, unnest($fields) AS field)
        USING (metric, signature, field)
    JOIN answers a ON a.dataset = s.dataset AND a.release = s.release AND a.sample_id = s.sample_id
        AND a.repeat = s.repeat AND length(a.answer) >= $long
    JOIN reports r ON r.report_id = s.report_id AND r.answers_version = a.answers_version
    WHERE s.report_id IN (SELECT unnest($reports)) AND s.status = 'scored'
    GROUP BY ALL
)
SELECT report_id, metric, {
    'of': sum(n)::BIGINT, same: max(n), value: arg_max("value", n), characters: $long::INTEGER
}
FROM counts GROUP BY report_id, metric ORDER BY report_id, metric

-- name: manifest
SELECT manifest FROM reports WHERE report_id = $report_id

-- name: set_manifest
UPDATE reports SET manifest = $manifest WHERE report_id = $report_id

-- name: count_right
-- By field and question: how many answers have a number, and how many of those are 1. With fewer than k there is no
-- unbiased estimate; the question then has no number, as its answers have none.
CREATE OR REPLACE TEMP TABLE right_answers AS
SELECT report_id, dataset, dataset_version, release, sample_id, min(repeat) AS repeat, metric, field, signature,
       count("value") AS n, count(*) FILTER ("value" = 1) AS n_right,
       CASE WHEN n >= $k THEN 'scored'
            WHEN bool_or(status = 'failed') THEN 'failed'
            WHEN bool_or(status = 'skipped') THEN 'skipped'
            WHEN bool_or(status = 'undefined') THEN 'undefined'
            ELSE 'failed' END AS outcome
FROM scores JOIN (SELECT unnest($metrics) AS metric, unnest($fields) AS field) USING (metric, field)
WHERE report_id = $report_id
GROUP BY report_id, dataset, dataset_version, release, sample_id, metric, field, signature

-- name: pairs
SELECT DISTINCT n, n_right FROM right_answers WHERE n >= $k ORDER BY ALL

-- name: add_passes
INSERT INTO scores BY NAME
WITH chances AS (
    SELECT unnest($n) AS n, unnest($right) AS n_right, unnest($any) AS any_right, unnest($each) AS each_right
)
SELECT report_id, dataset, dataset_version, release, sample_id, repeat, metric, signature, outcome AS status,
       field || '_pass' || sign || $k::VARCHAR AS field, if(sign = '@', any_right, each_right) AS "value",
       if(outcome = 'scored', NULL, concat(n, ' of ', $k, ' answers have a number')) AS reason
FROM right_answers CROSS JOIN (SELECT unnest(['@', '^']) AS sign) LEFT JOIN chances USING (n, n_right)

-- name: count_answers
-- The bounds are those of a mean per question too: every answer that should have a number has the lowest, or highest.
UPDATE report_scores SET
    n_total = c.n_total, n_scored = c.n_scored, n_failed = c.n_failed, n_undefined = c.n_undefined,
    n_skipped = c.n_skipped, coverage = c.n_scored / c.n_total, n_questions = c.n_questions,
    within_variance = c.within_variance, bound_low = c.base + c.missing * c.low,
    bound_high = c.base + c.missing * coalesce(c.high, if(c.missing = 0, 0, NULL))
FROM (
    WITH places AS (
        SELECT report_id, sample_id, slice FROM report_slices WHERE report_id IN (SELECT unnest($reports))
        QUALIFY repeat = min(repeat) OVER (PARTITION BY report_id, sample_id)
    ),
    questions AS (
        SELECT report_id, sample_id, metric, field, count(*) AS n, count("value") AS n_scored,
               count(*) FILTER (status = 'failed') AS n_failed, count(*) FILTER (status = 'undefined') AS n_undefined,
               count(*) FILTER (status = 'skipped') AS n_skipped, n_failed + n_skipped AS n_missing,
               coalesce(fsum("value"), 0) AS total, var_samp("value") AS variance
        FROM scores WHERE report_id IN (SELECT unnest($reports)) GROUP BY report_id, sample_id, metric, field
    ),
    ends AS (
        SELECT unnest($metrics) AS metric, unnest($fields) AS field, unnest($lows) AS low, unnest($highs) AS high
    )
    SELECT report_id, slice, metric, field, any_value(low) AS low, any_value(high) AS high, sum(n)::BIGINT AS n_total,
           sum(n_scored)::BIGINT AS n_scored, sum(n_failed)::BIGINT AS n_failed, sum(n_undefined)::BIGINT AS n_undefined,
           sum(n_skipped)::BIGINT AS n_skipped, count(*) FILTER (n_scored > 0) AS n_questions,
           avg(variance) AS within_variance, avg(total / nullif(n_scored + n_missing, 0)) AS base,
           avg(n_missing / nullif(n_scored + n_missing, 0)) AS missing
    FROM places JOIN questions USING (report_id, sample_id) JOIN ends USING (metric, field)
    GROUP BY report_id, slice, metric, field
) AS c
WHERE report_scores.report_id = c.report_id AND report_scores.slice = c.slice AND report_scores.metric = c.metric
    AND report_scores.field = c.field
