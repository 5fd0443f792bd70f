-- What validation measures of the staged rows: numbers and flags only, so that the texts stay in the file.
-- The view `staged_file` is the Parquet file with its row numbers. A flag is 0 or 1, and 0 is always good.
-- No number in `frame` is NULL.

-- name: of_rows
-- What is measured of each row on its own, whatever the others are.

-- White space is what Python's str.strip() removes, and invisible characters count as nothing, so that "blank"
-- is the same thing here and in a metric.
CREATE TEMP MACRO is_blank(t) AS
    NOT regexp_matches(coalesce(t, ''),
        '[^\s\x{0B}\x{1C}-\x{1F}\x{85}\p{Z}' ||
        '\x{AD}\x{34F}\x{61C}\x{115F}\x{1160}\x{17B4}\x{17B5}\x{180B}-\x{180F}\x{200B}-\x{200F}\x{202A}-\x{202E}' ||
        '\x{2060}-\x{206F}\x{3164}\x{FE00}-\x{FE0F}\x{FEFF}\x{FFA0}\x{FFF0}-\x{FFF8}\x{1BCA0}-\x{1BCA3}' ||
        '\x{1D173}-\x{1D17A}\x{E0000}-\x{E0FFF}]');

CREATE TEMP MACRO bare(t) AS
    lower(regexp_replace(t, '^[\s\x{0B}\x{1C}-\x{1F}\x{85}\p{Z}]+|[\s\x{0B}\x{1C}-\x{1F}\x{85}\p{Z}]+$', '', 'g'));

-- The replacement character, C0 controls but tab, newline and carriage return, DEL and the C1 controls.
CREATE TEMP MACRO is_damaged(t) AS regexp_matches(t, '[\x{FFFD}\x{00}-\x{08}\x{0B}\x{0C}\x{0E}-\x{1F}\x{7F}-\x{9F}]');

-- UTF-8 that was read as Latin-1 or Windows-1252 (Western, typographic and Cyrillic letters, emoji) or as
-- Windows-1251 (Cyrillic), and byte order marks inside a text. One odd pair is normal Cyrillic or Spanish. There is none
-- of it in ASCII, which has as many bytes as characters.
CREATE TEMP MACRO is_misread(t) AS CASE
    WHEN strlen(t) > length(t) THEN regexp_matches(
        t,
        'Ã[\x{80}-\x{BF}€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]|Â[\x{A0}-\x{BF}]|â€|ðŸ|ï»¿|\x{FEFF}'
        || '|(?:[ÐÑ][\x{80}-\x{BF}€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]){2}'
        || '|(?:[РС][ЂЃѓЉЊЌЋЏђљњќћџЎўЈҐЁЄЇІіґёєјЅѕї‚„…†‡€‰‹‘’“”•–—™›\x{A0}¤¦§©«¬\x{AD}®°±µ¶·№»]){3}'
    )
    ELSE false
END;

-- The CASE of the next three, as above, is for speed: a cheap look first, and the rest only for the few that pass it.

-- "null" glued to a letter, unless every such word is a word or an identifier that really has it. What is extracted has
-- letters and blanks only: there [^ ] are the letters, and compiles a hundred times as fast as \p{L}.
CREATE TEMP MACRO has_null_in_word(t) AS CASE
    WHEN regexp_matches(t, '(?i)null') THEN NOT regexp_full_match(
        array_to_string(regexp_extract_all(t, '\p{L}*(?i:null)\p{L}*'), ' '),
        '(?i)(?:(?:(?:is|not|non|if|db)?null(?:s|ed|ing|if(?:y|ying|iers?|ie[sd]|ications?)|it(?:y|ies)|able|ary|ah'
        || '|ius|us|um|a|o|e|ptr|pointer[^ ]*|space|or[^ ]*|arbor|soft)?|annull[^ ]*)(?: |$))*'
    )
    ELSE false
END;

-- What ends the turns of chat models, and begins them, where a tokenizer was told to keep it.
CREATE TEMP MACRO has_control_token(t) AS CASE
    WHEN contains(t, '<') OR contains(t, '[')
    THEN regexp_matches(
        t, '<\|[A-Za-z][A-Za-z_0-9]{1,30}\|>|<(?:start|end)_of_turn>|<(?:bos|eos|pad)>|</s>\s*$|^\s*<s>|\[/?INST\]'
    )
    ELSE false
END;

-- Characters as HTML and JSON escape them.
CREATE TEMP MACRO is_escaped(t) AS CASE
    WHEN contains(t, '&') OR contains(t, '\u')
    THEN regexp_matches(t, '&(?:amp|lt|gt|quot|apos|nbsp|#\d{2,5}|#x[0-9A-Fa-f]{2,5});|\\u[0-9A-Fa-f]{4}')
    ELSE false
END;

-- " / ", or "/", "|" or ";" between two words; addresses and "and/or" are no lists. All letters become one, since eight
-- \p{L} in a pattern take longer to compile than all other patterns here.
CREATE TEMP MACRO is_joined(t) AS CASE
    WHEN contains(t, '/') OR contains(t, '|') OR contains(t, ';') THEN regexp_matches(
        regexp_replace(regexp_replace(t, '(?i)\S+://\S*|www\.\S*|\band/or\b', ' ', 'g'), '\p{L}', 'a', 'g'),
        '\S\s+/\s+\S|aa[/;]aa|aa ?\| ?aa'
    )
    ELSE false
END;

-- "[1]" or "[^1^]" right after a word, or "【1".
CREATE TEMP MACRO is_cited(t) AS CASE
    WHEN contains(t, '[') OR contains(t, '【')
    THEN regexp_matches(t, '[^\s\[\]]\[\^?\d{1,3}\^?\]|【\d')
    ELSE false
END;

-- Which of the texts that stand for nothing it is, counted from 1; 0 for any other.
CREATE TEMP MACRO nothing(t) AS
    coalesce(list_position([
        'nan', 'null', 'none', 'n/a', 'na', 'undefined', '<na>', '\n', '#n/a', '#name?', '#ref!', '#value!', '#div/0!', '#num!',
        '#null!'
    ], bare(t)), 0);

-- What a web server, a client or Python writes in place of an answer, and nothing that an answer would begin with.
CREATE TEMP MACRO is_error(t) AS CASE
    WHEN regexp_matches(left(t, 120), '(?i)error|traceback|gateway|unavailable|timeout|timed out|too many requests|<html')
    THEN regexp_matches(
        t,
        '(?is)^\s*(?:'
        || '(?:http[ /\d.]*\s*)?(?:status(?: code)?:?\s*)?[45]\d\d[: -]+(?:bad gateway|gateway time-?out'
        || '|service (?:temporarily )?unavailable|internal server error|too many requests|unauthorized|request timeout)\W*$'
        || '|(?:(?:api|http|server) )?error(?: code)?:?\s*[45]\d\d\s*(?:$|[-:.(\[{]|too many|bad gate|gateway|service|internal)'
        || '|<(?:!doctype html|html)\b.*(?:[45]\d\d|error|unavailable)'
        || '|traceback \(most recent call last\):\s'
        || '|(?:[a-z_]+\.)*[a-z]*(?:ratelimit|apiconnection|apitimeout|apistatus|internalserver|serviceunavailable'
        || '|authentication|contextwindowexceeded|badrequest)error\b\s*[:(]'
        || '|\{\s*["'']error["'']\s*:\s*\{.*["''](?:message|code|type|status)["'']\s*:'
        || ')'
    )
    ELSE false
END;

-- A reason to stop that means a limit of the length, or a mark at the end that the text goes on.
CREATE TEMP MACRO is_cut(t, finish_reason) AS
    coalesce(lower(finish_reason) IN ('length', 'max_tokens', 'max_output_tokens', 'max_new_tokens', 'model_length',
        'token_limit'), false)
    OR coalesce(regexp_matches(t, '(?i)[\[(<](?:output |response |text )?truncated[\])>]\W*$'), false);

CREATE TEMP TABLE measured AS
WITH prepared AS (
    SELECT
        *,
        bare(label) AS verdict,
        array_to_string("references", ' ') AS all_references,
        concat_ws(' ', question, answer, all_references) AS everything,
        is_cut(answer, finish_reason) AS is_cut_off
    FROM staged_file
)
SELECT
    file_row_number AS position,
    coalesce("row", 0) AS "row",
    sample_id,
    release,
    coalesce(repeat, '1') AS repeat,
    -- Compared only among rows of one id, where 64 bits are plenty.
    hash(question, answer, "references", facts, context, incorrect_references, "columns", label) AS content,
    hash(sample_hash) AS sample,
    hash(question) AS h_question,
    hash("references") AS h_references,
    hash(facts) AS h_facts,
    hash(cluster) AS h_cluster,
    hash(incorrect_references) AS h_incorrect,
    is_blank(sample_id)::TINYINT AS id_blank,
    is_blank(release)::TINYINT AS release_blank,
    is_blank(all_references)::TINYINT AS references_blank,
    coalesce(length(question), 0)::INTEGER AS question_chars,
    coalesce(length(answer), 0)::INTEGER AS answer_chars,
    coalesce(list_max(list_transform("references", lambda t: length(t))), 0)::INTEGER AS reference_chars,
    is_damaged(everything)::TINYINT AS damaged,
    -- 1 true, 0 false, -1 no label.
    CASE
        WHEN verdict IN ('true', 'yes', '1', '1.0', 't', 'y', 'correct') THEN 1
        WHEN verdict IN ('false', 'no', '0', '0.0', 'f', 'n', 'incorrect') THEN 0
        ELSE -1
    END::TINYINT AS label_value,
    -- Which of the spellings of "no label" it is, counted from 1.
    coalesce(list_position(['', 'nan', 'null', 'none', 'n/a', 'na', '-'], verdict), 0)::TINYINT AS label_text,
    (verdict IS NOT NULL AND label_value = -1 AND label_text = 0)::TINYINT AS label_odd,
    (missing_because IS NOT NULL)::TINYINT AS unanswered,
    (is_blank(answer) AND missing_because IS NULL)::TINYINT AS answer_blank,
    is_misread(everything)::TINYINT AS misread,
    coalesce(regexp_matches(answer, '(?i)</?think'), false)::TINYINT AS thinks,
    (CASE WHEN has_control_token(answer) THEN NOT has_control_token(all_references) ELSE false END)::TINYINT AS control_token,
    coalesce(is_escaped(answer) <> is_escaped(nullif(all_references, '')), false)::TINYINT AS escaped,
    has_null_in_word(everything)::TINYINT AS null_in_word,
    (CASE WHEN len("references") = 1 THEN is_joined("references"[1]) ELSE false END)::TINYINT AS joined,
    (CASE WHEN len(incorrect_references) > 0 THEN coalesce(list_has_any(
        list_transform("references", lambda t: bare(t)), list_transform(incorrect_references, lambda t: bare(t))
    ), false) ELSE false END)::TINYINT AS right_and_wrong,
    contains(everything, '\\')::TINYINT AS doubled_backslash,
    is_cited(answer)::TINYINT AS cited,
    (CASE WHEN is_error(answer) THEN NOT is_error(all_references) ELSE false END)::TINYINT
        AS failed_call,
    is_cut_off::TINYINT AS cut,
    -- A long answer that ends within a sentence.
    (CASE WHEN length(answer) BETWEEN 400 AND 20000
        THEN regexp_matches(answer, '[\p{L}\d,;(-]\s*$') AND NOT is_cut_off
        ELSE false END)::TINYINT AS unfinished,
    -- Which of the texts it is that stand for nothing, counted from 1.
    (CASE WHEN length(answer) > 20 OR list_contains("references", answer) THEN 0 ELSE nothing(answer) END)::TINYINT
        AS answer_nothing,
    coalesce(
        list_max(list_transform("references", lambda t: CASE WHEN length(t) > 20 THEN 0 ELSE nothing(t) END)), 0
    )::TINYINT AS reference_nothing
FROM prepared;

-- name: among_rows
-- What is measured of the rows together.

-- Ids that occur more than once in a release, as the same answer to the question: repeats are other answers to it.
CREATE TEMP TABLE repeated AS
SELECT
    release,
    sample_id,
    repeat,
    count(*) AS n,
    min(position) AS first_position,
    arg_min("row", position) AS first_row,
    min(content) = max(content) AS identical
FROM measured
WHERE id_blank = 0 AND release_blank = 0
GROUP BY release, sample_id, repeat
HAVING count(*) > 1;

CREATE TEMP VIEW marked AS
SELECT
    measured.*,
    coalesce(n, 1)::INTEGER AS same_id,
    coalesce(first_row, 0) AS first_row,
    -- 1: the same row again. 2: rows that differ under one id.
    CASE WHEN n IS NULL OR (identical AND position = first_position) THEN 0 WHEN identical THEN 1 ELSE 2 END::TINYINT
        AS id_clash
FROM measured LEFT JOIN repeated USING (release, sample_id, repeat);

-- Ids whose question, references, facts, cluster or known wrong answers are not the same everywhere. Rows that are out already for
-- a repeated id have no vote on which variant is right.
CREATE TEMP TABLE disputed AS
SELECT
    sample_id,
    count(*) FILTER (id_clash = 0) AS voters,
    (min(h_question) <> max(h_question))::INTEGER
    + 2 * (min(h_references) <> max(h_references))::INTEGER
    + 4 * (min(h_facts) <> max(h_facts))::INTEGER
    + 8 * (min(h_cluster) <> max(h_cluster))::INTEGER
    + 16 * (min(h_incorrect) <> max(h_incorrect))::INTEGER AS fields
FROM marked
WHERE id_blank = 0
GROUP BY sample_id
HAVING min(sample) <> max(sample);

CREATE TEMP TABLE majority AS
SELECT
    sample_id,
    sample,
    count(*) AS votes,
    any_value(h_question) AS h_question,
    any_value(h_references) AS h_references,
    any_value(h_facts) AS h_facts,
    any_value(h_cluster) AS h_cluster,
    any_value(h_incorrect) AS h_incorrect
FROM marked JOIN disputed USING (sample_id)
WHERE id_clash = 0
GROUP BY sample_id, sample, voters
HAVING 2 * count(*) > voters;

-- The frame that the expectations run on, in the order of the file.
CREATE TEMP TABLE frame AS
SELECT
    marked.* EXCLUDE (sample_id, release, repeat, content, sample, h_question, h_references, h_facts, h_cluster, h_incorrect),
    coalesce(disputed.voters, 0)::INTEGER AS voters,
    coalesce(majority.votes, 0)::INTEGER AS votes,
    (disputed.sample_id IS NOT NULL AND majority.sample IS DISTINCT FROM marked.sample)::TINYINT AS inconsistent,
    -- What differs: from the majority where there is one, else among the rows of the id.
    CASE
        WHEN majority.sample IS NULL THEN coalesce(disputed.fields, 0)
        ELSE (majority.h_question <> marked.h_question)::INTEGER
            + 2 * (majority.h_references <> marked.h_references)::INTEGER
            + 4 * (majority.h_facts <> marked.h_facts)::INTEGER
            + 8 * (majority.h_cluster <> marked.h_cluster)::INTEGER
            + 16 * (majority.h_incorrect <> marked.h_incorrect)::INTEGER
    END::TINYINT AS differing
FROM marked
LEFT JOIN disputed ON marked.sample_id = disputed.sample_id
LEFT JOIN majority ON marked.sample_id = majority.sample_id;

-- One row per release, in order of appearance. Medians are of the answers that are there and not blank.
CREATE TEMP TABLE releases AS
WITH each AS (
    SELECT
        release,
        min(position) AS appearance,
        count(DISTINCT sample_id) FILTER (id_blank = 0) AS samples,
        median(answer_chars) FILTER (answer_blank = 0 AND unanswered = 0) AS median_chars
    FROM marked
    WHERE release_blank = 0
    GROUP BY release
),
together AS (
    SELECT count(DISTINCT sample_id) AS samples_of_all FROM marked WHERE id_blank = 0 AND release_blank = 0
)
SELECT
    row_number() OVER (ORDER BY appearance) - 1 AS position,
    release,
    samples_of_all,
    samples_of_all - samples AS missing,
    missing / greatest(samples_of_all, 1) AS missing_share,
    median_chars,
    first_value(release) OVER (ORDER BY appearance) AS first_release,
    first_value(median_chars) OVER (ORDER BY appearance) AS first_median,
    coalesce(greatest(median_chars / first_median, first_median / median_chars), 1.0) AS drift
FROM each CROSS JOIN together
ORDER BY appearance;
