-- name: fields
-- What is known of the scores that came with answers, by name; a verdict on the whole comes first.
WITH new AS (SELECT unnest($releases) AS release, unnest($versions) AS answers_version),
found AS (
    SELECT release, unnest(map_entries(given)) AS one
    FROM answers JOIN new USING (release, answers_version) WHERE dataset = $dataset AND given IS NOT NULL
)
SELECT one.key AS name, list(DISTINCT release), min(one.value), max(one.value), bool_and(one.value IN (0, 1)) FROM found
GROUP BY name
ORDER BY split_part(name, '.', 1) IN ('latency', 'cost', 'tokens'), split_part(name, '.', 1), name NOT LIKE '%.pass', name

-- name: add_given
INSERT INTO scores BY NAME
WITH fields AS (SELECT unnest($metrics) AS metric, unnest($fields) AS field)
SELECT r.report_id, a.dataset, r.dataset_version, a.release, a.sample_id, a.repeat, f.metric, f.field,
       a.given[f.metric || '.' || f.field] AS "value", if("value" IS NULL, 'undefined', 'scored') AS status,
       if("value" IS NULL, $reason, NULL) AS reason, f.metric || '|given' AS signature
FROM reports r
JOIN answers a ON a.dataset = r.dataset AND a.release = r.release AND a.answers_version = r.answers_version
CROSS JOIN fields f
WHERE r.report_id = $report_id

-- name: agreements
WITH old AS (
    SELECT metric || '.' || field AS name, sample_id, repeat, "value"
    FROM scores JOIN (SELECT unnest($old_metrics) AS metric, unnest($old_fields) AS field) USING (metric, field)
    WHERE report_id = $report_id AND status = 'scored'
),
new AS (
    SELECT metric || '.' || field AS name, sample_id, repeat, "value"
    FROM scores JOIN (SELECT unnest($new_metrics) AS metric, unnest($new_fields) AS field) USING (metric, field)
    WHERE report_id = $report_id AND status = 'scored'
)
SELECT old.name, new.name, count(*), count(*) FILTER (old."value" = new."value"),
       count(*) FILTER (old."value" > new."value"), count(*) FILTER (old."value" < new."value"),
       coalesce((list(DISTINCT sample_id ORDER BY sample_id) FILTER (old."value" <> new."value"))[1:$most], [])
FROM old JOIN new USING (sample_id, repeat) GROUP BY old.name, new.name ORDER BY old.name NOT LIKE '%.pass', old.name,
    list_position($new_metrics, split_part(new.name, '.', 1))
