-- name: add_queue
INSERT INTO label_queues BY NAME
SELECT $queue AS queue, now() AS created_at, $old AS old_report, $new AS new_report, $design AS design, $seed AS seed,
       $policy AS policy, $annotators AS annotators, $analyses AS analyses

-- name: add_questions
INSERT INTO label_questions BY NAME
SELECT $queue AS queue, unnest($samples) AS sample_id, unnest($places) AS place, unnest($strata) AS stratum,
       unnest($probabilities::DOUBLE[][]) AS probabilities

-- name: queues
SELECT queue, old_report, new_report, design, seed, policy, annotators, analyses FROM label_queues
WHERE ($queue = queue OR ($queue = '' AND old_report = $old AND new_report = $new))
ORDER BY created_at DESC LIMIT 1

-- name: sides
-- The answers of both reports with what people call them; a blank answer is wrong, whoever looks at it. The beginning of
-- the next statements.
WITH sides AS (
    SELECT a.report_id = $old AS is_old, a.sample_id, a.sample_key, a.question, a."references", a.answer,
           coalesce(trim(a.answer), '') = '' AS blank, a.repeat,
           CASE WHEN blank THEN 'wrong' WHEN l.sample_key IS NOT NULL THEN l.verdict
                WHEN a.correct IS NOT NULL THEN if(a.correct, 'right', 'wrong') END AS verdict,
           CASE WHEN blank OR l.adjudicated OR (l.sample_key IS NULL AND a.correct IS NOT NULL) THEN 1000
                ELSE coalesce(l.n_annotators, 0) END AS n_annotators,
           coalesce(l.n_annotators, 0) AS n_people, l.first_at, l.last_at
    FROM report_answers a LEFT JOIN current_labels l USING (sample_key)
    WHERE a.report_id IN ($old, $new)
),
o AS (FROM sides WHERE is_old),
n AS (FROM sides WHERE NOT is_old)

-- name: pairs
-- Every sample of either report, in the order in which they are put side by side.
SELECT sample_id, o.verdict AS old, n.verdict AS new, coalesce(o.sample_key = n.sample_key, false) AS same,
       greatest(coalesce(o.repeat, 1), coalesce(n.repeat, 1)) AS repeat
FROM o FULL JOIN n USING (sample_id) ORDER BY sample_id

-- name: drawn
-- The same with the draw of a queue. Of an answer that the new release did not give nothing is asked.
SELECT sample_id, q.place, q.stratum, q.probabilities, o.verdict AS old, n.verdict AS new,
       coalesce(o.sample_key = n.sample_key, false) AS same,
       (o.verdict IS NOT NULL AND o.n_annotators >= $annotators)
           AND (n.sample_id IS NULL OR (n.verdict IS NOT NULL AND n.n_annotators >= $annotators)) AS complete,
       least(o.first_at, n.first_at) AS first_at, greatest(o.last_at, n.last_at) AS last_at
FROM o FULL JOIN n USING (sample_id)
LEFT JOIN (FROM label_questions WHERE queue = $queue) q USING (sample_id)
ORDER BY sample_id

-- name: annotators
SELECT DISTINCT annotator FROM labels WHERE queue = $queue AND verdict <> 'withdrawn' ORDER BY annotator

-- name: questions
-- The answers to the questions of a queue up to a place, with the newest label of every annotator.
SELECT q.place, sample_id, s.is_old, s.sample_key, s.question, s."references", s.answer, s.blank, s.verdict,
       s.n_annotators >= $annotators AS complete,
       map_from_entries(coalesce((
           SELECT list((annotator, verdict)) FROM (
               FROM labels l WHERE l.sample_key = s.sample_key AND NOT adjudicates
               QUALIFY row_number() OVER (PARTITION BY annotator ORDER BY labelled_at DESC) = 1
           ) WHERE verdict <> 'withdrawn'
       ), [])) AS labels
FROM (FROM label_questions WHERE queue = $queue AND place BETWEEN 1 AND $most) q JOIN sides s USING (sample_id)
ORDER BY q.place, s.is_old

-- name: add_labels
INSERT INTO labels BY NAME
SELECT now() AS labelled_at, unnest($keys) AS sample_key, unnest($annotators) AS annotator, unnest($verdicts) AS verdict,
       $queue AS queue, $adjudicates AS adjudicates

-- name: unknown
SELECT key FROM (SELECT unnest($keys) AS key) WHERE key NOT IN (SELECT sample_key FROM answers)

-- name: last_labelled
-- The answers that an annotator labelled last in a queue.
SELECT sample_key FROM labels
WHERE queue = $queue AND annotator = $annotator AND verdict <> 'withdrawn' AND NOT adjudicates
  AND (sample_key, labelled_at) IN (
      SELECT (sample_key, max(labelled_at)) FROM labels WHERE annotator = $annotator GROUP BY sample_key
  )
QUALIFY labelled_at = max(labelled_at) OVER ()
