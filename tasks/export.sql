-- name: harmless
-- Spreadsheets run what begins like this, blanks before it left aside.
if(regexp_matches(TEXT_COLUMN, '^\s*[=+@＝＋－＠-]') OR regexp_matches(TEXT_COLUMN, '^[\t\r\n]'), '''' || TEXT_COLUMN, TEXT_COLUMN)
    AS TEXT_COLUMN
