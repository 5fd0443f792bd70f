-- name: newest
-- The newest verdict about each two reports of which the new one is in the list.
SELECT old_report, new_report, "primary", margin, outcome, sentence, rules FROM verdicts
WHERE new_report IN (SELECT unnest(?))
QUALIFY row_number() OVER (PARTITION BY old_report, new_report ORDER BY created_at DESC, rowid DESC) = 1
ORDER BY list_position(?, new_report), created_at, rowid
