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
