-- The warehouse of answerkey: one DuckDB file, readable with any DuckDB tool.
--
-- Public and stable. A release of answerkey may add tables and columns; it does not rename or drop them.
-- No uniqueness is left to constraints: a commit deletes and inserts its keys in one transaction, so that the
-- same statements also run on an attached lake, which has no constraints.

-- A data set: questions with the answers known to be right. The version is a hash of the content, so the same
-- rows in another order are the same version, and a changed reference makes a new one.
CREATE TABLE IF NOT EXISTS datasets (
    dataset     VARCHAR NOT NULL,   -- the name that the user gave
    version     VARCHAR NOT NULL,   -- 12 hex digits of the content hash
    created_at  TIMESTAMPTZ NOT NULL,
    n_samples   BIGINT NOT NULL,
    source      VARCHAR             -- where it was first loaded from
);

CREATE TABLE IF NOT EXISTS samples (
    dataset         VARCHAR NOT NULL,
    dataset_version VARCHAR NOT NULL,
    sample_id       VARCHAR NOT NULL,
    question        VARCHAR,
    "references"    VARCHAR[],
    facts           VARCHAR[],      -- facts of the reference, where the data set brings them
    "cluster"       VARCHAR         -- rows of one cluster are not independent (same document, same topic)
);

-- What a release answered. The version is a hash of the answers and labels, so a release that is loaded again
-- with other answers leaves the old ones for the old reports.
CREATE TABLE IF NOT EXISTS answers (
    dataset         VARCHAR NOT NULL,
    release         VARCHAR NOT NULL,
    answers_version VARCHAR NOT NULL,
    sample_id       VARCHAR NOT NULL,
    sample_key      VARCHAR NOT NULL,   -- hash of everything that a score depends on
    answer          VARCHAR,            -- NULL: the release gave none
    label           VARCHAR,            -- the label as the source had it
    correct         BOOLEAN,            -- the label as a boolean; NULL: not labelled
    slices          MAP(VARCHAR, VARCHAR)
);

-- One start of a flow, whether or not it got as far as a report.
CREATE TABLE IF NOT EXISTS runs (
    run_id      VARCHAR NOT NULL,
    flow        VARCHAR NOT NULL,
    dataset     VARCHAR NOT NULL,
    started_at  TIMESTAMPTZ NOT NULL,
    finished_at TIMESTAMPTZ,
    status      VARCHAR NOT NULL,       -- running, complete, stopped
    message     VARCHAR,                -- why it stopped
    parameters  JSON NOT NULL
);

-- Rows that were not scored because they broke a rule, whole, so that nothing is lost.
CREATE TABLE IF NOT EXISTS quarantine (
    run_id      VARCHAR NOT NULL,
    dataset     VARCHAR NOT NULL,
    source      VARCHAR NOT NULL,
    "row"       BIGINT,                 -- 1-based: line of a JSONL file, data row of a table
    sample_id   VARCHAR,
    release     VARCHAR,
    rule        VARCHAR NOT NULL,       -- the first rule it broke
    reason      VARCHAR NOT NULL,
    raw         VARCHAR                 -- the row as it was
);

-- What each check found, passed or not.
CREATE TABLE IF NOT EXISTS validations (
    run_id      VARCHAR NOT NULL,
    dataset     VARCHAR NOT NULL,
    rule        VARCHAR NOT NULL,
    severity    VARCHAR NOT NULL,       -- critical: rows are quarantined; warning: rows are scored
    release     VARCHAR,                -- NULL: the check is about all releases
    success     BOOLEAN NOT NULL,
    n_checked   BIGINT NOT NULL,
    n_failed    BIGINT NOT NULL,
    message     VARCHAR NOT NULL
);

-- Every measurement ever made, by what was scored and how. Reports are views of this at one moment.
CREATE TABLE IF NOT EXISTS measurements (
    sample_key  VARCHAR NOT NULL,
    signature   VARCHAR NOT NULL,       -- everything that changes the number
    metric      VARCHAR NOT NULL,
    status      VARCHAR NOT NULL,       -- scored, undefined, failed, skipped
    "values"    MAP(VARCHAR, DOUBLE),   -- field to number; empty unless scored
    reason      VARCHAR,
    details     JSON,                   -- evidence: chosen reference, chunks, statistics
    attempts    INTEGER NOT NULL,
    seconds     DOUBLE NOT NULL,
    tokens_in   BIGINT NOT NULL,
    tokens_out  BIGINT NOT NULL,
    cost_usd    DOUBLE,                 -- NULL: the price is not known, which is not 0
    run_id      VARCHAR NOT NULL,
    created_at  TIMESTAMPTZ NOT NULL
);

-- A report: what a run says about one release on one data set version. Immutable; a rerun makes version n+1.
CREATE TABLE IF NOT EXISTS reports (
    report_id       VARCHAR NOT NULL,   -- dataset/release/vN
    dataset         VARCHAR NOT NULL,
    dataset_version VARCHAR NOT NULL,
    release         VARCHAR NOT NULL,
    version         INTEGER NOT NULL,   -- counts up per data set and release
    created_at      TIMESTAMPTZ NOT NULL,
    status          VARCHAR NOT NULL,   -- COMPLETE: every row scored or undefined; PARTIAL: some failed or were skipped
    manifest        JSON NOT NULL       -- parameters, hashes, signatures, code and library versions: enough to make it again
);

-- One row a sample, metric and field, also where there is no number: status and reason say why.
CREATE TABLE IF NOT EXISTS scores (
    report_id       VARCHAR NOT NULL,
    dataset         VARCHAR NOT NULL,
    dataset_version VARCHAR NOT NULL,
    release         VARCHAR NOT NULL,
    sample_id       VARCHAR NOT NULL,
    metric          VARCHAR NOT NULL,
    field           VARCHAR NOT NULL,
    "value"         DOUBLE,             -- NULL unless status is scored
    status          VARCHAR NOT NULL,
    reason          VARCHAR,
    signature       VARCHAR NOT NULL
);

-- Aggregates. n_total = n_scored + n_failed + n_undefined + n_skipped; coverage = n_scored / n_total.
CREATE TABLE IF NOT EXISTS report_scores (
    report_id   VARCHAR NOT NULL,
    release     VARCHAR NOT NULL,
    metric      VARCHAR NOT NULL,
    field       VARCHAR NOT NULL,
    slice       VARCHAR NOT NULL,       -- 'all', or column=value
    n_total     BIGINT NOT NULL,
    n_scored    BIGINT NOT NULL,
    n_failed    BIGINT NOT NULL,
    n_undefined BIGINT NOT NULL,
    n_skipped   BIGINT NOT NULL,
    coverage    DOUBLE,
    mean        DOUBLE,                 -- over the scored rows; corpus BLEU where the field is corpus_bleu
    ci_low      DOUBLE,                 -- 95 %; NULL with fewer than two rows
    ci_high     DOUBLE,
    ci_method   VARCHAR,                -- wilson, t, cluster-t, bootstrap
    bound_low   DOUBLE,                 -- the mean if every failed or skipped row had the lowest value
    bound_high  DOUBLE                  -- the mean if every failed or skipped row had the highest value
);

-- The newest report of every release on every data set.
CREATE OR REPLACE VIEW latest_reports AS
SELECT * FROM reports QUALIFY row_number() OVER (PARTITION BY dataset, release ORDER BY version DESC) = 1;

-- For people: one row a sample and metric, with the texts beside the numbers.
CREATE OR REPLACE VIEW sample_scores AS
SELECT
    s.report_id, s.release, s.sample_id, m.question, m."references", a.answer, a.correct, s.metric,
    any_value(s.status) AS status,
    any_value(s.reason) AS reason,
    map_from_entries(list((s.field, s."value") ORDER BY s.field)) AS "values"
FROM scores s
JOIN reports r USING (report_id)
LEFT JOIN samples m
    ON m.dataset = s.dataset AND m.dataset_version = s.dataset_version AND m.sample_id = s.sample_id
LEFT JOIN answers a
    ON a.dataset = s.dataset AND a.release = s.release AND a.sample_id = s.sample_id
    AND a.answers_version = json_extract_string(r.manifest, '$.answers_version')
GROUP BY ALL;
