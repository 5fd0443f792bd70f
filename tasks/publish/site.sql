-- name: state
-- Changes whenever a page may: with reports, verdicts, comparisons, calibrations, and with what is removed.
SELECT (SELECT (count(*), max(created_at)) FROM reports), (SELECT (count(*), max(created_at)) FROM verdicts),
       (SELECT (count(*), max(created_at)) FROM comparisons), (SELECT (count(*), max(created_at)) FROM calibrations),
       (SELECT count(*) FROM removals)

-- name: pages
SELECT report_id, dataset, release, version FROM reports ORDER BY created_at DESC, rowid DESC

-- name: made_together
-- The other reports on the same data set that the same run made, in their order.
SELECT o.report_id FROM reports r JOIN reports o ON o.run_id = r.run_id AND o.dataset = r.dataset
WHERE r.report_id = ? AND o.report_id <> r.report_id ORDER BY o.rowid

-- name: datasets
-- Those with reports, the newest first.
SELECT r.dataset, arg_max(d.n_samples, (r.created_at, r.rowid)), count(DISTINCT r.release)
FROM reports r JOIN datasets d ON d.dataset = r.dataset AND d.version = r.dataset_version
GROUP BY r.dataset ORDER BY max(r.created_at) DESC, r.dataset

-- name: newest
SELECT report_id FROM reports WHERE dataset = ? ORDER BY created_at DESC, rowid DESC LIMIT ?

-- name: declared
SELECT v."primary" FROM verdicts v JOIN reports r ON r.report_id = v.new_report WHERE r.dataset = ?
ORDER BY v.created_at DESC, v.rowid DESC LIMIT 1

-- name: anchor
-- The fields of the newest report that the gate of a data set was first kept with.
SELECT r.report_id, s.metric || '.' || s.field, s.mean
FROM current_gates g
JOIN reports r ON r.dataset = g.dataset AND g.anchor IN (r.report_id, r.release)
JOIN report_scores s ON s.report_id = r.report_id AND s.slice = 'all' AND s.mean IS NOT NULL
WHERE g.dataset = ?
QUALIFY dense_rank() OVER (ORDER BY r.created_at DESC) = 1

-- name: reports
-- The newest first, with the field $name and with what the gate said last of each.
SELECT r.release, r.version, strftime(r.created_at, '%Y-%m-%d %H:%M'), r.dataset_version, r.status, s.n_scored,
       s.n_total, s.mean, s.ci_low, s.ci_high, coalesce(v.outcome, '')
FROM reports r
LEFT JOIN report_scores s
    ON s.report_id = r.report_id AND s.slice = 'all' AND s.metric || '.' || s.field = $name
LEFT JOIN (
    SELECT new_report, arg_max(outcome, (created_at, rowid)) AS outcome FROM verdicts GROUP BY new_report
) v ON v.new_report = r.report_id
WHERE r.dataset = $dataset ORDER BY r.created_at DESC, r.rowid DESC

-- name: verdicts
-- The newest verdict about each two reports, how many there were before it, and the worst of those.
WITH ranked AS (
    SELECT *, row_number() OVER (PARTITION BY old_report, new_report ORDER BY created_at DESC, rowid DESC) AS place
    FROM verdicts
),
earlier AS (
    SELECT old_report, new_report, count(*) AS n,
           arg_min({'outcome': outcome, 'primary': "primary", 'margin': margin},
                   (list_position($precedence, outcome), place)) AS worst
    FROM ranked WHERE place > 1 GROUP BY ALL
)
SELECT strftime(v.created_at, '%Y-%m-%d %H:%M'), r.dataset, r.release, r.version, v.old_report, v.outcome, v.sentence,
       coalesce(e.n, 0), coalesce(e.worst.outcome, ''), coalesce(e.worst."primary", ''), coalesce(e.worst.margin, 0)
FROM ranked v JOIN reports r ON r.report_id = v.new_report LEFT JOIN earlier e USING (old_report, new_report)
WHERE v.place = 1 ORDER BY v.created_at DESC, v.new_report, v.old_report LIMIT $most

-- name: judges
SELECT judge, prompt, count(DISTINCT run), sum(calls), sum(errors), sum(tokens_in), sum(tokens_out), sum(usd),
       sum(unpriced), strftime(max(last_at), '%Y-%m-%d %H:%M')
FROM judge_costs GROUP BY judge, prompt ORDER BY max(last_at) DESC, judge, prompt

-- name: free_judges
SELECT manifest->'judge'->>'about', count(*) FROM reports WHERE manifest->'judge'->>'about' IS NOT NULL
GROUP BY ALL ORDER BY ALL
