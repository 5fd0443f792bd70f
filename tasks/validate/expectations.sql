-- name: other_columns
SELECT DISTINCT unnest(list_concat(coalesce(map_keys(slices), []), coalesce(map_keys("columns"), []))) AS name
FROM staged_file
ORDER BY name

-- name: texts
-- The rows as expectations see them: several texts are one, a line each.
CREATE OR REPLACE TEMP VIEW texts AS
SELECT
    * REPLACE (
        array_to_string("references", chr(10)) AS "references",
        array_to_string(facts, chr(10)) AS facts,
        array_to_string(context, chr(10)) AS context
    ),
    coalesce(length(question), 0) AS question_chars,
    coalesce(length(answer), 0) AS answer_chars,
    coalesce(len("references"), 0) AS n_references
FROM staged_file
