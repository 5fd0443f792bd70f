-- name: sides
-- The samples of either report, and what both have. The beginning of the next three statements.
-- Of several answers to one question, lengths are means, and the same are those of the same texts in any order.
WITH o AS (
    SELECT sample_id, avg(length(answer)) AS length, (count(*), sum(hash(answer))) AS answers,
           (count(correct), count(*) FILTER (correct)) AS labels, arg_min(slices, repeat) AS slices,
           list(hash(answer)) FILTER (correct AND answer IS NOT NULL) AS called_right,
           list(hash(answer)) FILTER (NOT correct AND answer IS NOT NULL) AS called_wrong, sum(hash(context)) AS context
    FROM answers WHERE dataset = $old_dataset AND release = $old_release AND answers_version = $old_answers
    GROUP BY sample_id
),
n AS (
    SELECT sample_id, avg(length(answer)) AS length, (count(*), sum(hash(answer))) AS answers,
           (count(correct), count(*) FILTER (correct)) AS labels, arg_min(slices, repeat) AS slices,
           list(hash(answer)) FILTER (correct AND answer IS NOT NULL) AS called_right,
           list(hash(answer)) FILTER (NOT correct AND answer IS NOT NULL) AS called_wrong, sum(hash(context)) AS context
    FROM answers WHERE dataset = $new_dataset AND release = $new_release AND answers_version = $new_answers
    GROUP BY sample_id
),
so AS (SELECT * FROM samples WHERE dataset = $old_dataset AND dataset_version = $old_version),
sn AS (SELECT * FROM samples WHERE dataset = $new_dataset AND dataset_version = $new_version),
sides AS (
    SELECT sample_id, o.sample_id IS NOT NULL AS in_old, n.sample_id IS NOT NULL AS in_new,
           o.length AS old_length, n.length AS new_length, o.answers = n.answers AS same_answer,
           o.labels = n.labels AS same_label, o.slices AS old_slices, n.slices AS new_slices,
           o.labels[1] > 0 AND n.labels[1] > 0 AS labelled,
           coalesce(list_has_any(o.called_right, n.called_wrong) OR list_has_any(o.called_wrong, n.called_right), false)
               AS relabelled,
           hash(o.answers, n.answers, o.context, n.context) AS texts
    FROM o FULL JOIN n USING (sample_id)
)

-- name: samples
-- A question that one version lacks because it lacks the column is not a different question. Texts are compared before
-- anything is sorted, and are not sorted themselves; where both reports have one version, there is nothing to compare.
-- `copies` is the same for samples with the same question, answers and contexts; a sample without a question has none.
, compared AS (
    SELECT sample_id, in_old, in_new, old_length, new_length, same_answer, same_label, labelled, relabelled,
           coalesce(so.question <> sn.question, false)
               OR list_sort(so."references") IS DISTINCT FROM list_sort(sn."references")
               OR list_sort(coalesce(so.incorrect_references, [])) <> list_sort(coalesce(sn.incorrect_references, []))
                   AS changed,
           list_sort(so.facts) IS DISTINCT FROM list_sort(sn.facts) AS facts_changed,
           so."cluster" AS old_cluster, sn."cluster" AS new_cluster,
           if(coalesce(sn.question_hash, so.question_hash) IS NULL, hash('sample', sample_id),
              hash('copy', coalesce(sn.question_hash, so.question_hash), texts)) AS copies
    FROM sides
    LEFT JOIN (
        SELECT *, if(trim(question) <> '', hash(question), NULL) AS question_hash FROM so WHERE $old_version <> $new_version
    ) so USING (sample_id)
    LEFT JOIN (SELECT * REPLACE (
                   if($old_version <> $new_version, question, NULL) AS question,
                   if($old_version <> $new_version, "references", NULL) AS "references",
                   if($old_version <> $new_version, incorrect_references, NULL) AS incorrect_references,
                   if($old_version <> $new_version, facts, NULL) AS facts
               ), if(trim(question) <> '', hash(question), NULL) AS question_hash FROM sn) sn USING (sample_id)
)
SELECT in_old, in_new, old_length, new_length, in_old AND in_new AND same_answer AS same_answer,
       in_old AND in_new AND same_label AS same_label, in_old AND in_new AND changed AS changed,
       in_old AND in_new AND facts_changed AS facts_changed,
       in_old AND in_new AND labelled AND NOT changed AS labelled,
       in_old AND in_new AND relabelled AND NOT changed AS relabelled,
       coalesce(new_cluster, old_cluster) IS NOT NULL AS clustered,
       dense_rank() OVER (
           ORDER BY coalesce('cluster ' || coalesce(new_cluster, old_cluster), 'sample ' || sample_id)
       ) AS "cluster",
       hash(old_cluster) AS old_cluster, hash(new_cluster) AS new_cluster,
       old_cluster IS NOT NULL AS in_old_cluster, new_cluster IS NOT NULL AS in_new_cluster, copies
FROM compared ORDER BY sample_id

-- name: languages
-- Questions that stand in the data in several languages, by their ids: samples whose ids are alike but for a part that
-- is a code of two letters, or but for the last part where a slice says the language. How many questions and samples
-- there are, of how many languages and of how many samples in all, and the ids of two that are one question.
, tokens AS (
    SELECT sample_id, regexp_extract(sample_id, $code, ['start', 'code', 'end']) AS part,
           coalesce(old_slices, new_slices) AS slices
    FROM sides
),
named AS (
    SELECT sample_id, coalesce(slices['lang'], slices['language'], slices['locale'], nullif(part['code'], '')) AS lang,
           if(part['code'] = '', regexp_replace(sample_id, '[-_.:/#][^-_.:/#]+$', ''), part['start'] || '*' || part['end'])
               AS stem
    FROM tokens
),
questions AS (
    SELECT stem, count(*) AS n, min(sample_id) AS first, max(sample_id) AS last FROM named
    WHERE lang IS NOT NULL AND stem <> sample_id GROUP BY stem HAVING n > 1 AND count(DISTINCT lang) = n
)
SELECT count(*), coalesce(sum(n), 0)::BIGINT, (SELECT count(DISTINCT lang) FROM named), (SELECT count(*) FROM sides),
       arg_min(first, stem), arg_min(last, stem)
FROM questions

-- name: slice_values
SELECT e.key, e.value FROM (SELECT unnest(map_entries(old_slices)) AS e FROM sides)
INTERSECT
SELECT e.key, e.value FROM (SELECT unnest(map_entries(new_slices)) AS e FROM sides)
ORDER BY key, value

-- name: slice_codes
, codes AS (SELECT unnest($values) AS value, generate_subscripts($values, 1) - 1 AS code)
SELECT coalesce(co.code, -1) AS old, coalesce(cn.code, -1) AS new FROM sides
LEFT JOIN codes co ON co.value = old_slices[$column] LEFT JOIN codes cn ON cn.value = new_slices[$column]
ORDER BY sample_id

-- name: scores
-- Every sample of a report has a row for each of its fields and answers. Of several answers the mean counts, over those
-- that have a number.
WITH found AS (
    SELECT report_id, sample_id, fsum("value") / nullif(count("value"), 0) AS "value",
           min(list_position($statuses, status)) AS status
    FROM scores WHERE report_id IN ($old, $new) AND metric = $metric AND field = $field GROUP BY report_id, sample_id
)
SELECT o."value" AS old, n."value" AS new, coalesce(o.status, 0) AS old_status, coalesce(n.status, 0) AS new_status
FROM (FROM found WHERE report_id = $old) o FULL JOIN (FROM found WHERE report_id = $new) n USING (sample_id)
ORDER BY sample_id

-- name: unscored
-- The samples of which the new report lacks a number: their place in the order above, what became of them, and whether
-- that is the release's doing. The release is not to blame for an answer that could not be scored, nor for what the
-- data set lacks. Of several answers to a question, one that could not be scored leaves the whole question open; of
-- those that the release did not give, `n_missing` and `share` say how many there are. As many are expected as the
-- release gives at most, less where the old one has fewer than elsewhere. Where the old one has one answer to every
-- question, it does not say to which the new one should give several: as many are expected as a tenth of them have.
WITH o AS (
    SELECT sample_id, count(*) AS n FROM scores
    WHERE report_id = $old AND metric = $metric AND field = $field GROUP BY sample_id
),
fates AS (
    SELECT s.sample_id, s.status, s.reason, a.missing_because IS NOT NULL AS unanswered,
           CASE WHEN s.status = 'scored' THEN 'scored'
                WHEN s.reason = $not_given THEN 'data'
                WHEN unanswered THEN 'release'
                WHEN s.status <> 'undefined' THEN 'measurement'
                WHEN list_contains($of_the_data, s.reason) THEN 'data'
                ELSE 'release' END AS fate
    FROM scores s JOIN report_answers a USING (report_id, sample_id, repeat)
    WHERE s.report_id = $new AND s.metric = $metric AND s.field = $field
),
n AS (
    SELECT sample_id, count(*) AS n, count(*) FILTER (fate = 'scored') AS n_scored,
           count(*) FILTER (fate = 'release') AS n_not_given, count(*) FILTER (fate = 'measurement') AS n_not_scored,
           arg_min({'status': status, 'reason': reason, 'unanswered': unanswered, 'fate': fate},
                   list_position(['measurement', 'release', 'data'], fate)) FILTER (fate <> 'scored') AS why
    FROM fates GROUP BY sample_id
),
q AS (SELECT DISTINCT sample_id FROM quarantine WHERE run_id = $run AND release = $release),
everything AS (
    SELECT row_number() OVER (ORDER BY sample_id) - 1 AS place, n_scored, n_not_scored, why,
           q.sample_id IS NOT NULL AS quarantined,
           if(max(o.n) OVER () = 1, quantile_disc(n.n, 0.9) OVER (), max(n.n) OVER ()) AS most,
           ceil(most * coalesce(o.n / max(o.n) OVER (), 1)) AS expected,
           n_not_given + greatest(expected - n.n, 0) AS n_missing
    FROM o FULL JOIN n USING (sample_id) LEFT JOIN q USING (sample_id)
)
SELECT place,
       CASE WHEN n_scored IS NULL THEN if(quarantined, 'quarantined', 'absent')
            WHEN why IS NULL OR (n_scored > 0 AND n_not_scored = 0) THEN NULL
            WHEN why.unanswered OR why.reason IS NULL THEN coalesce(why.reason, why.status)
            ELSE concat(why.status, ' (', left(split_part(why.reason, ':', 1), 60), ')') END AS what,
       n_scored IS NULL OR why IS NULL OR why.fate = 'release' AS by_release,
       n_missing / (n_scored + n_missing) AS share, n_missing
FROM everything WHERE n_scored IS NULL OR n_scored = 0 OR n_not_scored > 0 OR n_missing > 0 ORDER BY place

-- name: bleu
-- The ten counts behind the sentence BLEU of each answer, summed over the answers to a question; zeros where the answer
-- is blank or has no score.
WITH each AS (
    SELECT s.report_id, s.sample_id, CAST(json_extract(m.details, '$.stats') AS INTEGER[]) AS counts
    FROM scores s
    JOIN reports r USING (report_id)
    JOIN answers a ON a.dataset = s.dataset AND a.release = s.release AND a.sample_id = s.sample_id
        AND a.repeat = s.repeat AND a.answers_version = r.answers_version
    JOIN measurements m ON m.sample_key = a.sample_key AND m.signature = s.signature AND m.status = 'scored'
    WHERE s.report_id IN ($old, $new) AND s.metric = 'bleu' AND s.field = 'bleu' AND s.status = 'scored'
),
bleu AS (
    SELECT report_id, sample_id, [
        sum(counts[1]), sum(counts[2]), sum(counts[3]), sum(counts[4]), sum(counts[5]),
        sum(counts[6]), sum(counts[7]), sum(counts[8]), sum(counts[9]), sum(counts[10])
    ] AS counts
    FROM each GROUP BY report_id, sample_id
)
SELECT list_transform(range(1, 11), lambda i: coalesce(o.counts[i], 0))::INTEGER[10] AS old,
       list_transform(range(1, 11), lambda i: coalesce(n.counts[i], 0))::INTEGER[10] AS new
FROM (
    SELECT DISTINCT sample_id FROM scores WHERE report_id IN ($old, $new) AND metric = 'bleu' AND field = 'bleu'
)
LEFT JOIN (FROM bleu WHERE report_id = $old) o USING (sample_id)
LEFT JOIN (FROM bleu WHERE report_id = $new) n USING (sample_id)
ORDER BY sample_id
