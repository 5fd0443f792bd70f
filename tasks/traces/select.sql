-- name: macros
-- A text that holds JSON is read as JSON on the way.
CREATE OR REPLACE TEMP MACRO opened(j) AS
    CASE json_type(j) WHEN 'VARCHAR' THEN try_cast(json_extract_string(j, '$') AS JSON) ELSE j END;

-- A value as the text it stands for; what is not there, or null, is an empty text.
CREATE OR REPLACE TEMP MACRO text_of(j) AS coalesce(json_extract_string(j, '$'), '');

CREATE OR REPLACE TEMP MACRO number_in(t) AS
    CASE WHEN isfinite(try_cast(t AS DOUBLE)) THEN try_cast(t AS DOUBLE) END;

-- ISO 8601, in UTC where it names no zone, or seconds, milliseconds, microseconds or nanoseconds since 1970, which
-- are distinguished by magnitude. Small numbers, such as durations and counters, are not instants.
CREATE OR REPLACE TEMP MACRO since_1970(n) AS
    CASE WHEN n < 1e8 OR n >= 2e20 THEN NULL
         WHEN n < 1e11 THEN to_timestamp(n)
         WHEN n < 1e14 THEN to_timestamp(n / 1e3)
         WHEN n < 1e17 THEN to_timestamp(n / 1e6)
         ELSE to_timestamp(n / 1e9) END;
-- DuckDB wants the seconds, which ISO 8601 does not.
CREATE OR REPLACE TEMP MACRO to_the_second(t) AS regexp_replace(t, '^(.{10}[T ]\d\d:\d\d)(Z|[+-].*)?$', '\1:00\2');
CREATE OR REPLACE TEMP MACRO usual(t) AS CASE WHEN t < TIMESTAMPTZ '9999-01-01' THEN t END;
CREATE OR REPLACE TEMP MACRO instant_in(t) AS usual(
    CASE WHEN regexp_matches(t, '^\d{4}-\d\d-\d\d') THEN try_cast(to_the_second(t) AS TIMESTAMPTZ)
         ELSE since_1970(number_in(t)) END);

-- name: known
-- What a condition could not be evaluated for is tried again once the rule has that condition no more.
SELECT trace_id, CASE WHEN outcome = 'filtered' AND starts_with(reason, $unknown)
    AND NOT list_contains($conditions, substr(reason, length($unknown) + 1)) THEN 'failed' ELSE outcome END AS outcome
FROM trace_outcomes WHERE rule = $rule

-- name: last_run
SELECT epoch_us(watermark), definition,
       EXISTS (FROM trace_outcomes WHERE rule = $rule AND outcome = 'scored') AS scored
FROM trace_rules WHERE rule = $rule

-- name: decide
CREATE TEMP TABLE decided AS
WITH typed AS (
    SELECT file, "row", trace, json_type(trace) AS kind, [h0 IS NOT NULL, h1 IS NOT NULL{wanted}] AS found,
           CASE WHEN json_type(h0) NOT IN ('OBJECT', 'ARRAY', 'BOOLEAN') THEN trim(text_of(h0)) ELSE '' END AS given_id,
           given_id <> '' AND length(given_id) <= {longest_id} AS usable_id,
           CASE WHEN usable_id THEN given_id ELSE '#' || md5(trace::VARCHAR) END AS trace_id,
           instant_in(text_of(h1)) AS time, {broken} AS broken
    FROM (SELECT *{verdicts} FROM (SELECT *, {logged} AS logged FROM ({followed})))
), judged AS (
    SELECT *, CASE
        WHEN kind <> 'OBJECT' THEN 'the row is a JSON ' || lower(kind) || ', not an object'
        WHEN NOT usable_id THEN 'the id (' || $id_path || ') is missing, or is no text or number of a usual length'
        WHEN time IS NULL
            THEN 'the time (' || $time_path || ') is missing, or is neither ISO 8601 nor seconds since 1970'
        END AS problem
    FROM typed
)
SELECT file, "row", trace_id, time, found, outcome IS NOT NULL AS again, {looked_at} AS looked_at,
       CASE WHEN NOT $enabled THEN 'disabled' WHEN problem IS NOT NULL THEN 'quarantined'
            WHEN broken IS NOT NULL THEN 'filtered' WHEN NOT {sampled} THEN 'sampled_out' ELSE 'sampled' END AS bucket,
       CASE bucket WHEN 'quarantined' THEN problem WHEN 'filtered' THEN broken END AS reason,
       CASE WHEN looked_at AND bucket IN ('quarantined', 'sampled') THEN trace::VARCHAR END AS trace
FROM judged LEFT JOIN read_parquet($known) USING (trace_id)

-- name: add_unread
-- A text that is no JSON is known again by its hash.
INSERT INTO decided BY NAME
SELECT file, "row", '#' || md5(text) AS trace_id, false AS again, true AS looked_at,
       CASE WHEN $enabled THEN 'quarantined' ELSE 'disabled' END AS bucket, why AS reason, text AS trace
FROM read_parquet($unread)
WHERE why IS NOT NULL AND '#' || md5(text) NOT IN (SELECT trace_id FROM read_parquet($known))

-- name: first_step
-- What all paths begin with is looked up at once: a trace may be long.
SELECT * EXCLUDE (whole), {states}
FROM (SELECT *, CASE WHEN json_type(trace) = 'OBJECT' THEN json_extract(trace, $starts) END AS whole FROM {traces})

-- name: next_step
SELECT * EXCLUDE ({used}) REPLACE ({replaced}) FROM (SELECT *, {opened} FROM ({query}))
