-- name: texts
-- The answers of reports with what a rubric can be about, in an order that does not depend on anything else.
SELECT release, sample_id, repeat, question, answer, "references", context, "columns"
FROM report_answers WHERE report_id IN (SELECT unnest($reports)) AND missing_because IS NULL
ORDER BY release, sample_id, repeat
