-- name: stored
-- In the order of the reports, then in that of their making.
SELECT * FROM comparisons
WHERE new_report IN (SELECT unnest($reports)) AND family = $family
ORDER BY list_position($reports, new_report), created_at, old_report, place

-- name: forget
DELETE FROM comparisons WHERE old_report = $old AND new_report = $new AND family = $family
