-- name: harmless
if(regexp_matches(TEXT_COLUMN, '^FORMULA'), '''' || TEXT_COLUMN, TEXT_COLUMN) AS TEXT_COLUMN
