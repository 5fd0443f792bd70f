-- name: sums
-- Two sums over the hashes of the rows, for which their order is all one; a row that is there twice is not the same.
-- One MD5 per row, whose halves are md5_number_lower, above, and md5_number_upper.
SELECT part, count(*) AS n_rows, (bit_xor(hash) & 18446744073709551615::UHUGEINT)::UBIGINT AS low,
       (sum((hash >> 64)::UBIGINT) % 18446744073709551616)::UBIGINT AS high
FROM (
    SELECT PART AS part, md5_number(to_json(struct_pack(COLUMNS_BY_NAME))::VARCHAR)::UHUGEINT AS hash
    FROM HASHED_ROWS WHERE IN_QUESTION
) GROUP BY part

-- name: hashes
SELECT part, n_rows, concat(lpad(format('{:x}', low), 16, '0'), lpad(format('{:x}', high), 16, '0')) AS content_hash
FROM (SUMS)

-- name: forget
DELETE FROM content_hashes WHERE table_name = $table AND part IN (SELECT unnest($parts))

-- name: is_sealed
SELECT part FROM content_hashes WHERE table_name = $table AND part = $part

-- name: replace
UPDATE content_hashes SET n_rows = new.n_rows, content_hash = new.content_hash, created_at = now()
FROM (
    SELECT unnest($tables) AS table_name, unnest($parts) AS part, unnest($counts) AS n_rows,
           unnest($hashes) AS content_hash
) AS new
WHERE content_hashes.table_name = new.table_name AND content_hashes.part = new.part

-- name: add
INSERT INTO content_hashes BY NAME
SELECT *, now() AS created_at FROM (
    SELECT unnest($tables) AS table_name, unnest($parts) AS part, unnest($counts) AS n_rows,
           unnest($hashes) AS content_hash
) ANTI JOIN content_hashes USING (table_name, part)

-- name: thinned
SELECT h.part FROM content_hashes h
LEFT JOIN (SELECT PART AS part, count(*) AS n_rows FROM HASHED_TABLE GROUP BY ALL) t USING (part)
WHERE table_name = $table AND h.n_rows <> coalesce(t.n_rows, 0)

-- name: parts
SELECT DISTINCT PART FROM HASHED_TABLE

-- name: report_hashes
-- The hashes of reports, from those of their parts: row, scores and aggregates, answers and samples.
SELECT report_id, md5(string_agg(concat_ws(' ', table_name, n_rows, content_hash), chr(10) ORDER BY table_name)) AS own
FROM (
    SELECT report_id, unnest(['reports', 'scores', 'report_scores', 'samples', 'answers']) AS table_name, unnest([
        report_id, report_id, report_id, concat_ws('/', dataset, dataset_version),
        concat_ws('/', dataset, release, answers_version)
    ]) AS part
    FROM reports WHERE IN_QUESTION
) JOIN content_hashes USING (table_name, part)
GROUP BY report_id

-- name: sign
UPDATE reports SET content_hash = made.own FROM (REPORT_HASHES) AS made WHERE reports.report_id = made.report_id

-- name: wrongly_signed
SELECT r.report_id FROM reports r LEFT JOIN (REPORT_HASHES) AS made USING (report_id)
WHERE r.content_hash IS DISTINCT FROM made.own ORDER BY 1
