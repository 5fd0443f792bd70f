-- The warehouse of answerkey: one DuckDB file, readable with any DuckDB tool.
--
-- Public and stable. A release of answerkey may add tables and columns; it does not rename or drop them.
-- What is said here is in the database too: the lines above a table or a view are its comment, those behind a column
-- the column's. A view has the comments of the tables that it reads, and those of its own in the lines `NAME: ...`.
-- Lines that begin with a comma are keys and checks. A lake has none, so they are left out there. Keys written `--,` hold
-- too, and DuckDB does not check them: that would slow down every run, or (`reports`) let an update move rows whose order
-- is that in which they were made.

-- One row: which version of this file the tables have.
CREATE TABLE IF NOT EXISTS schema_version (
    version     INTEGER NOT NULL,       -- `VERSION` of schema.py
    applied_at  TIMESTAMPTZ NOT NULL    -- UTC
    , CHECK (version >= 1)
);

-- A data set: questions with the answers known to be right. The version is a hash of the content, so the same
-- rows in another order are the same version, and a changed reference makes a new one.
CREATE TABLE IF NOT EXISTS datasets (
    dataset     VARCHAR NOT NULL,       -- the name that the user gave
    version     VARCHAR NOT NULL,       -- 12 hex digits of the content hash
    created_at  TIMESTAMPTZ NOT NULL,   -- when this version was first committed
    n_samples   BIGINT NOT NULL,        -- rows of `samples` with this version
    source      VARCHAR                 -- where it was first loaded from; passwords and tokens of a URL are left out
    , PRIMARY KEY (dataset, version)
    , CHECK (n_samples >= 0)
);

-- The part of a sample that does not depend on any release, for every data set version.
CREATE TABLE IF NOT EXISTS samples (
    dataset         VARCHAR NOT NULL,   -- as in `datasets`
    dataset_version VARCHAR NOT NULL,   -- `version` in `datasets`
    sample_id       VARCHAR NOT NULL,   -- unique within a version
    question        VARCHAR,            -- NULL: the data set brings none
    "references"    VARCHAR[],          -- the answers known to be right, in the order of the source
    facts           VARCHAR[],          -- facts of the reference, where the data set brings them
    "cluster"       VARCHAR,            -- rows of one cluster are not independent (same document, same topic)
    incorrect_references VARCHAR[]      -- the answers known to be wrong; NULL: none were given
    --, PRIMARY KEY (dataset, dataset_version, sample_id)
);

-- What a release answered. The version is a hash of the answers, labels, slices and given scores, so a release that is loaded
-- again with other answers leaves the old ones for the old reports.
CREATE TABLE IF NOT EXISTS answers (
    dataset         VARCHAR NOT NULL,       -- as in `datasets`
    release         VARCHAR NOT NULL,       -- the model release that answered
    answers_version VARCHAR NOT NULL,       -- 12 hex digits; as in `reports`
    sample_id       VARCHAR NOT NULL,       -- as in `samples`
    sample_key      VARCHAR NOT NULL,       -- hash of everything that a score depends on
    answer          VARCHAR,                -- NULL: the release gave none
    label           VARCHAR,                -- the label as the source had it
    correct         BOOLEAN,                -- the label as a boolean; NULL: not labelled
    slices          MAP(VARCHAR, VARCHAR),  -- column to value, '(none)' where there is none
    missing_because VARCHAR,                -- why the question has no answer to score; 'quarantined (RULE): ...' where it got one
    repeat          INTEGER DEFAULT 1,      -- which of the release's answers to the question it is, from 1
    context         VARCHAR[],              -- the passages that the answer was to rest on; NULL: none were given
    "columns"       MAP(VARCHAR, VARCHAR),  -- others that rubrics are about, by name, as text or JSON; NULL: none was asked for
    given           MAP(VARCHAR, DOUBLE)    -- scores that came with the answer, by METRIC.FIELD; NULL: none did
    --, PRIMARY KEY (dataset, release, answers_version, sample_id, repeat)
    , CHECK (repeat >= 1)
);

-- One start of a flow, whether or not it got as far as a report.
CREATE TABLE IF NOT EXISTS runs (
    run_id      VARCHAR NOT NULL,       -- of the flow run
    flow        VARCHAR NOT NULL,       -- its name, for instance evaluate-release
    dataset     VARCHAR NOT NULL,       -- the name that was asked for
    started_at  TIMESTAMPTZ NOT NULL,   -- UTC
    finished_at TIMESTAMPTZ,            -- NULL while it runs, and for ever where the process was killed
    status      VARCHAR NOT NULL,       -- running, complete, stopped
    message     VARCHAR,                -- why it stopped
    parameters  JSON NOT NULL           -- what the user set
    , PRIMARY KEY (run_id)
    , CHECK (status IN ('running', 'complete', 'stopped'))
);

-- Releases that were registered to be evaluated: which of the `answers` wait for a report.
CREATE TABLE IF NOT EXISTS registered (
    registration    VARCHAR NOT NULL,       -- 12 hex digits: a hash of data set, release and their versions
    dataset         VARCHAR NOT NULL,       -- the name that was given
    dataset_version VARCHAR NOT NULL,       -- as in `datasets`
    release         VARCHAR NOT NULL,       -- the name that was given
    answers_version VARCHAR NOT NULL,       -- as in `answers`
    source          VARCHAR NOT NULL,       -- where the answers came from
    generation      JSON NOT NULL,          -- how a model was asked for them; null: not known
    registered_at   TIMESTAMPTZ NOT NULL    -- UTC, the first time
    , PRIMARY KEY (registration)
);

-- Rows that were not scored because they broke a rule, whole, so that nothing is lost.
CREATE TABLE IF NOT EXISTS quarantine (
    run_id      VARCHAR NOT NULL,   -- as in `runs`
    dataset     VARCHAR NOT NULL,   -- as in `datasets`; of a trace: the rule, as in `trace_rules`
    source      VARCHAR NOT NULL,   -- the file, table or URL of the answers
    "row"       BIGINT,             -- 1-based: line of a JSONL file, data row of a table
    sample_id   VARCHAR,            -- NULL: the row could not be read, or has none
    release     VARCHAR,            -- NULL: the row could not be read, or has none
    rule        VARCHAR NOT NULL,   -- the first rule it broke
    reason      VARCHAR NOT NULL,   -- what is wrong with the row, with every rule it broke
    raw         VARCHAR             -- the row as it was
);

-- What each check found, passed or not.
CREATE TABLE IF NOT EXISTS validations (
    run_id      VARCHAR NOT NULL,   -- as in `runs`
    dataset     VARCHAR NOT NULL,   -- as in `datasets`
    rule        VARCHAR NOT NULL,   -- the name of the check
    severity    VARCHAR NOT NULL,   -- critical: rows are quarantined; warning: rows are scored
    release     VARCHAR,            -- NULL: the check is about all releases
    success     BOOLEAN NOT NULL,   -- false: the check found something
    n_checked   BIGINT NOT NULL,    -- rows, or samples where the check is about those
    n_failed    BIGINT NOT NULL,    -- how many of them break the rule
    message     VARCHAR NOT NULL    -- what was found, for people
    , CHECK (n_checked >= 0 AND n_failed >= 0)
);

-- Every measurement ever made, by what was scored and how. Reports are views of this at one moment.
CREATE TABLE IF NOT EXISTS measurements (
    sample_key  VARCHAR NOT NULL,       -- as in `answers`
    signature   VARCHAR NOT NULL,       -- everything that changes the number
    metric      VARCHAR NOT NULL,       -- the first part of the signature
    status      VARCHAR NOT NULL,       -- scored, undefined, failed, skipped
    "values"    MAP(VARCHAR, DOUBLE),   -- field to number; empty unless scored
    reason      VARCHAR,                -- why there is no number, or the metric's own words
    details     JSON,                   -- evidence: chosen reference, chunks, statistics, verdict, votes, facts
    attempts    INTEGER NOT NULL,       -- tries that the measurement took; 0 where it was skipped
    seconds     DOUBLE NOT NULL,        -- time that the metric took, 0 where it is not measured apart
    tokens_in   BIGINT NOT NULL,        -- sent to a model for it, and not for an earlier one
    tokens_out  BIGINT NOT NULL,        -- received from a model, likewise
    cost_usd    DOUBLE,                 -- likewise; NULL: the price is not known, which is not 0
    run_id      VARCHAR NOT NULL,       -- of the run that measured it
    created_at  TIMESTAMPTZ NOT NULL,   -- when it was committed
    requests    VARCHAR[],              -- what judges were asked for it: `request_key` in `judge_calls`
    from_ledger BOOLEAN                 -- true: judges had answered all of that before, so it cost nothing
    --, PRIMARY KEY (sample_key, signature)
    , CHECK (status IN ('scored', 'undefined', 'failed', 'skipped'))
    , CHECK (attempts >= 0 AND seconds >= 0 AND tokens_in >= 0 AND tokens_out >= 0)
);

-- Every call to a judge behind the measurements, with the reply as it came. One request can take several calls.
CREATE TABLE IF NOT EXISTS judge_calls (
    call_id       VARCHAR NOT NULL,     -- unique
    request_key   VARCHAR NOT NULL,     -- hash of the whole request; in `requests` of `measurements`
    judge         VARCHAR NOT NULL,     -- the model, and its address where it has one of its own
    prompt        VARCHAR NOT NULL,     -- name and version of the prompt
    run           VARCHAR NOT NULL,     -- the run that paid, whichever used it; as in `runs`, of traces with /RULE
    kind          VARCHAR NOT NULL,     -- ask, longer (more room for the reply), repair (shown what was wrong)
    attempt       BIGINT NOT NULL,      -- counts the calls for one request in one run, from 1
    format        VARCHAR NOT NULL,     -- json_schema, json_object, text: how the reply's format was asked for
    status        VARCHAR NOT NULL,     -- usable, unreadable, error, sent (no reply: the process was killed)
    code          VARCHAR,              -- what went wrong, for machines: http_500, timeout, inconsistent
    message       VARCHAR,              -- what went wrong, for people
    started_at    TIMESTAMPTZ NOT NULL, -- when it was sent
    seconds       DOUBLE,               -- until the reply, or the error, was there
    tokens_in     BIGINT,               -- sent, as the provider counts
    tokens_out    BIGINT,               -- received
    cost_usd      DOUBLE,               -- NULL: the price is not known, or there was no reply
    model         VARCHAR,              -- as the provider names what answered
    fingerprint   VARCHAR,              -- the provider's name for its configuration
    finish_reason VARCHAR,              -- why the reply ended: stop, length
    reply         VARCHAR               -- the text of the reply
    --, PRIMARY KEY (call_id)
);

-- A report: what a run says about one release on one data set version. Immutable; a rerun makes version n+1.
CREATE TABLE IF NOT EXISTS reports (
    report_id       VARCHAR NOT NULL,       -- dataset/release/vN
    dataset         VARCHAR NOT NULL,       -- as in `datasets`
    dataset_version VARCHAR NOT NULL,       -- `version` in `datasets`
    release         VARCHAR NOT NULL,       -- as in `answers`
    version         INTEGER NOT NULL,       -- counts up per data set and release
    created_at      TIMESTAMPTZ NOT NULL,   -- UTC
    status          VARCHAR NOT NULL,       -- COMPLETE, or PARTIAL: rows were skipped, or too few could be scored
    manifest        JSON NOT NULL,          -- parameters, hashes, versions; $.rerun_of: the report it repeats
    message         VARCHAR,                -- which metric left how many rows without a score, and why; NULL: none
    answers_version VARCHAR,                -- as in `answers`
    run_id          VARCHAR                 -- of the run that made it; as in `runs`
    --, PRIMARY KEY (report_id)
    , CHECK (report_id = concat(dataset, '/', release, '/v', version) AND version >= 1)
    , CHECK (status IN ('COMPLETE', 'PARTIAL'))
);

-- One row per answer, metric and field, also where there is no number: status and reason say why. Where people have
-- labelled answers, metric `label` with its field `correct` is one of them. FIELD_pass@K and FIELD_pass^K are about a
-- question: they have one row for all answers to it, with the lowest `repeat`.
CREATE TABLE IF NOT EXISTS scores (
    report_id       VARCHAR NOT NULL,   -- as in `reports`
    dataset         VARCHAR NOT NULL,   -- as in the report
    dataset_version VARCHAR NOT NULL,   -- as in the report
    release         VARCHAR NOT NULL,   -- as in the report
    sample_id       VARCHAR NOT NULL,   -- as in `samples`
    metric          VARCHAR NOT NULL,   -- its name
    field           VARCHAR NOT NULL,   -- which of the metric's numbers
    "value"         DOUBLE,             -- NULL unless status is scored
    status          VARCHAR NOT NULL,   -- scored, undefined, failed, skipped
    reason          VARCHAR,            -- as in `measurements`
    signature       VARCHAR NOT NULL,   -- as in `measurements`
    repeat          INTEGER DEFAULT 1   -- as in `answers`
    --, PRIMARY KEY (report_id, sample_id, repeat, metric, field)
    , CHECK (status IN ('scored', 'undefined', 'failed', 'skipped'))
    , CHECK ("value" IS NULL OR status = 'scored')
);

-- Aggregates. n_total = n_scored + n_failed + n_undefined + n_skipped; coverage = n_scored / n_total. Where fewer than
-- `min_coverage` (by default .95) of the rows that should have a number have one, the interval is wide enough for
-- whatever the others have (its method ends with +missing), and below one half there is no mean.
CREATE TABLE IF NOT EXISTS report_scores (
    report_id   VARCHAR NOT NULL,   -- as in `reports`
    release     VARCHAR NOT NULL,   -- as in the report
    metric      VARCHAR NOT NULL,   -- its name
    field       VARCHAR NOT NULL,   -- which of the metric's numbers
    slice       VARCHAR NOT NULL,   -- 'all', or column=value
    n_total     BIGINT NOT NULL,    -- rows of the slice: answers
    n_scored    BIGINT NOT NULL,    -- rows with a number
    n_failed    BIGINT NOT NULL,    -- rows that could not be scored, and may be when tried again
    n_undefined BIGINT NOT NULL,    -- rows that the metric has nothing to say about: no reference
    n_skipped   BIGINT NOT NULL,    -- rows that were not tried
    coverage    DOUBLE,             -- n_scored / n_total
    mean        DOUBLE,             -- of the scored rows, per question first; corpus BLEU where the field is corpus_bleu
    ci_low      DOUBLE,             -- 95 %; NULL with fewer than two rows
    ci_high     DOUBLE,             -- 95 %
    ci_method   VARCHAR,            -- clopper-pearson, bounded-mean, cluster-bounded-mean, bounded-bootstrap; +missing
    bound_low   DOUBLE,             -- the mean if every failed or skipped row had the lowest value
    bound_high  DOUBLE,             -- the mean if every failed or skipped row had the highest value
    n_clusters  BIGINT,             -- clusters with a scored row; NULL: the data set has no clusters
    n_questions BIGINT,             -- questions with a scored row; NULL: one answer to each, so as many as n_scored
    within_variance DOUBLE          -- of the numbers of one question's answers, mean over questions with several
    , PRIMARY KEY (report_id, metric, field, slice)
    , CHECK (n_total = n_scored + n_failed + n_undefined + n_skipped)
    , CHECK (coverage BETWEEN 0 AND 1 AND ci_low <= ci_high AND bound_low <= bound_high)
);

-- A metric or judge against labels of people: one row over all releases and one for each. Bound to the signature: one
-- with another signature has expired, and of several with the same the newest counts. Intervals are at 95 %, clustered
-- by question; NULL where the rows do not define the number.
CREATE TABLE IF NOT EXISTS calibrations (
    created_at         TIMESTAMPTZ NOT NULL,    -- UTC
    metric             VARCHAR NOT NULL,        -- its name
    field              VARCHAR NOT NULL,        -- which of the metric's numbers
    signature          VARCHAR NOT NULL,        -- as in `measurements`; METRIC|stored: the file brought the scores
    release            VARCHAR,                 -- NULL: all releases together
    report_ids         VARCHAR[] NOT NULL,      -- where the scores are from, as in `reports`
    labels             VARCHAR NOT NULL,        -- where the labels are from: answers.correct, or a file
    n                  BIGINT NOT NULL,         -- answers with a score and a label
    n_clusters         BIGINT NOT NULL,         -- questions (clusters, where there are some) that they come from
    base_rate          DOUBLE,                  -- mean label
    accuracy           DOUBLE,                  -- share of equal verdicts and labels, and its interval
    accuracy_low       DOUBLE,                  -- 95 %
    accuracy_high      DOUBLE,                  -- 95 %
    kappa              DOUBLE,                  -- Cohen's; of a graded score with a threshold learned on other questions
    kappa_low          DOUBLE,                  -- 95 %
    kappa_high         DOUBLE,                  -- 95 %
    ac1                DOUBLE,                  -- Gwet's
    ac1_low            DOUBLE,                  -- 95 %
    ac1_high           DOUBLE,                  -- 95 %
    sensitivity        DOUBLE,                  -- share of the right answers with a verdict of 1
    sensitivity_low    DOUBLE,                  -- 95 %
    sensitivity_high   DOUBLE,                  -- 95 %
    specificity        DOUBLE,                  -- share of the wrong answers with a verdict of 0
    specificity_low    DOUBLE,                  -- 95 %
    specificity_high   DOUBLE,                  -- 95 %
    bias               DOUBLE,                  -- mean verdict - mean label: above 0 the judge is too kind
    bias_low           DOUBLE,                  -- 95 %
    bias_high          DOUBLE,                  -- 95 %
    auroc              DOUBLE,                  -- of a graded score: chance that a right answer is above a wrong one
    auroc_low          DOUBLE,                  -- 95 %
    auroc_high         DOUBLE,                  -- 95 %
    threshold          DOUBLE,                  -- of a graded score: the one that agrees best with the labels
    threshold_low      DOUBLE,                  -- 95 %
    threshold_high     DOUBLE,                  -- 95 %
    n_ceiling          BIGINT,                  -- answers that two people labelled
    ceiling_kappa      DOUBLE,                  -- of the two with each other
    ceiling_kappa_low  DOUBLE,                  -- 95 %
    ceiling_kappa_high DOUBLE,                  -- 95 %
    raw_mean           DOUBLE,                  -- of the release, as the metric has it
    raw_mean_low       DOUBLE,                  -- 95 %
    raw_mean_high      DOUBLE,                  -- 95 %
    ppi_mean           DOUBLE,                  -- of the release, as people would have it (PPI++)
    ppi_mean_low       DOUBLE,                  -- 95 %
    ppi_mean_high      DOUBLE,                  -- 95 %
    ppi_weight         DOUBLE,                  -- 0 to 1: how much the scores are trusted beside the labels
    n_unlabelled       BIGINT                   -- answers of the release with a score only
    , CHECK (n >= 0 AND n_clusters >= 0)
);

-- Two reports compared, sample by sample: one row per field and slice that both have. Versioned by the two report ids
-- and the family; comparing them again replaces the rows.
CREATE TABLE IF NOT EXISTS comparisons (
    old_report  VARCHAR NOT NULL,   -- `report_id` in `reports`
    new_report  VARCHAR NOT NULL,   -- `report_id` in `reports`
    metric      VARCHAR NOT NULL,   -- its name
    field       VARCHAR NOT NULL,   -- which of the metric's numbers
    slice       VARCHAR NOT NULL,   -- 'all', or column=value
    n_common    BIGINT NOT NULL,    -- samples with a number in both; everything else is about these
    n_only_old  BIGINT NOT NULL,    -- samples with a number in the old report only
    n_only_new  BIGINT NOT NULL,    -- samples with a number in the new report only
    "old"       DOUBLE,             -- mean in the old report; corpus BLEU where the field is corpus_bleu
    "new"       DOUBLE,             -- mean in the new report, likewise
    difference  DOUBLE,             -- new - old; NULL: nothing to compare, see note
    ci_low      DOUBLE,             -- of the difference, at 95 %
    ci_high     DOUBLE,             -- of the difference, at 95 %
    p           DOUBLE,             -- two-sided, that chance alone makes such a difference
    p_adjusted  DOUBLE,             -- Holm over fields and pairs on 'all'; over slices Benjamini-Hochberg
    mde         DOUBLE,             -- the smallest true difference that would be shown with a chance of 80 %
    needed      BIGINT,             -- about how many such samples would show this difference; NULL: enough, or hopeless
    fixed       BIGINT,             -- samples that went from 0 to 1; NULL unless the field is 0 or 1
    broken      BIGINT,             -- samples that went from 1 to 0
    test        VARCHAR NOT NULL,   -- mcnemar, sign-flip, cluster sign-flip, exchange; empty: none
    finding     VARCHAR,            -- better, worse, not shown to differ; NULL: nothing to compare
    note        VARCHAR,            -- why there is nothing to compare
    missing_old JSON NOT NULL,      -- what the samples of n_only_new are in the old report: absent, failed, ...
    missing_new JSON NOT NULL,      -- what the samples of n_only_old are in the new report
    place       INTEGER NOT NULL,   -- order of the rows about two reports, from 0
    samples_common   BIGINT NOT NULL,   -- in both reports; this and what follows is the same on all their rows
    samples_only_old BIGINT NOT NULL,   -- in the old report only
    samples_only_new BIGINT NOT NULL,   -- in the new report only
    samples_changed  BIGINT NOT NULL,   -- of the common ones: a different question or different references, so left out
    warnings         VARCHAR[] NOT NULL, -- what to know before trusting the numbers
    not_comparable   VARCHAR,           -- why there are no numbers at all
    created_at       TIMESTAMPTZ NOT NULL, -- when they were compared
    people           DOUBLE,            -- the difference that people would find, from the labels of a part (PPI++)
    people_low       DOUBLE,            -- of that, at 95 %
    people_high      DOUBLE,            -- of that, at 95 %
    n_labelled       BIGINT,            -- samples that people labelled in both reports; NULL: none, or half or more
    n_clusters       BIGINT,            -- clusters that n_common come from; NULL: the data set has no clusters
    n_pairs          BIGINT DEFAULT 1,  -- pairs of reports that p_adjusted allows for, this one included
    mde_note         VARCHAR,           -- why there is no mde, for instance too few clusters; NULL: there is one
    lower_is_better  BOOLEAN DEFAULT false, -- less of the field is better
    n_unanswered     BIGINT DEFAULT 0,  -- samples of n_only_old that the new release did not answer
    low_with_unanswered DOUBLE,         -- ci_low if these have the lowest score; NULL: none, or it is no gain anyway
    family           VARCHAR DEFAULT 'headlines' -- what p_adjusted is for: headlines, all fields, or the fields named
    , PRIMARY KEY (old_report, new_report, family, metric, field, slice)
    , CHECK (n_common >= 0 AND n_only_old >= 0 AND n_only_new >= 0 AND ci_low <= ci_high)
    , CHECK (p BETWEEN 0 AND 1 AND p_adjusted BETWEEN 0 AND 1)
);

-- Questions that were drawn for people to label, so that a gate can decide about two reports.
CREATE TABLE IF NOT EXISTS label_queues (
    queue       VARCHAR NOT NULL,       -- 12 hex digits
    created_at  TIMESTAMPTZ NOT NULL,   -- UTC
    old_report  VARCHAR NOT NULL,       -- `report_id` in `reports`
    new_report  VARCHAR NOT NULL,       -- `report_id` in `reports`
    design      VARCHAR NOT NULL,       -- random; stratified: by the sign of the difference of the primary field
    seed        BIGINT NOT NULL,        -- of the draw
    policy      JSON NOT NULL,          -- as in `verdicts`: what the labels are to decide
    annotators  INTEGER NOT NULL,       -- how many people label each question
    analyses    INTEGER[] NOT NULL      -- after how many drawn questions the gate decides
    , PRIMARY KEY (queue)
    , CHECK (design IN ('random', 'stratified') AND annotators >= 1)
);

-- The questions of every queue, in the order of the draw.
CREATE TABLE IF NOT EXISTS label_questions (
    queue         VARCHAR NOT NULL,     -- as in `label_queues`
    sample_id     VARCHAR NOT NULL,     -- as in `samples`
    place         INTEGER NOT NULL,     -- in the order of the draw, from 1; 0: labelled before, or the same answer in both
    stratum       VARCHAR NOT NULL,     -- all; worse, same, better: the difference of the primary field; known: place 0
    probabilities DOUBLE[] NOT NULL     -- of having been drawn, at each of the `analyses` of the queue
    , PRIMARY KEY (queue, sample_id)
    , CHECK (place >= 0)
);

-- What people call answers. A changed label is a new row, and of the rows of an annotator the newest counts.
CREATE TABLE IF NOT EXISTS labels (
    labelled_at TIMESTAMPTZ NOT NULL,   -- UTC
    sample_key  VARCHAR NOT NULL,       -- as in `answers`: it is about question, references and answer, not a release
    annotator   VARCHAR NOT NULL,       -- the name or initials that were given
    verdict     VARCHAR NOT NULL,       -- right, wrong, cannot tell; withdrawn: the label before does not count
    queue       VARCHAR,                -- as in `label_queues`; NULL: imported without one
    adjudicates BOOLEAN NOT NULL        -- whether it settles a difference between annotators
    , PRIMARY KEY (labelled_at, sample_key, annotator)
    , CHECK (verdict IN ('right', 'wrong', 'cannot tell', 'withdrawn'))
);

-- What gates have said. Nothing is replaced: of several about the same two reports the newest counts.
CREATE TABLE IF NOT EXISTS verdicts (
    created_at  TIMESTAMPTZ NOT NULL,   -- UTC
    old_report  VARCHAR NOT NULL,       -- `report_id` in `reports`; the name that was asked for, if there is none
    new_report  VARCHAR NOT NULL,       -- `report_id` in `reports`
    outcome     VARCHAR NOT NULL,       -- PASS, FAIL, INCONCLUSIVE, INCOMPLETE
    sentence    VARCHAR NOT NULL,       -- why
    "primary"   VARCHAR NOT NULL,       -- METRIC.FIELD that decides
    margin      DOUBLE NOT NULL,        -- the loss of it that is tolerated
    rules       JSON NOT NULL,          -- of each rule: rule, outcome, sentence, value, low, high, n, needed
    policy      JSON NOT NULL,          -- primary, margin, labels, judge_bias, baseline and rules, as they were written
    basis       VARCHAR,                -- people, people and judge, judge, text, given: what the primary rule rests on; NULL: no baseline
    notes       VARCHAR[] NOT NULL,     -- sentences that a reader needs beside the decision
    n_releases  BIGINT                  -- releases that were held against this baseline so far; NULL: no baseline
    , PRIMARY KEY (created_at, old_report, new_report)
    , CHECK (outcome IN ('PASS', 'FAIL', 'INCONCLUSIVE', 'INCOMPLETE'))
    , CHECK (basis IN ('people', 'people and judge', 'judge', 'text', 'given'))
);

-- The gate of a data set, which decides where a run names neither baseline nor policy: the one that was kept last.
CREATE TABLE IF NOT EXISTS gates (
    dataset     VARCHAR NOT NULL,       -- as in `reports`
    kept_at     TIMESTAMPTZ NOT NULL,   -- UTC
    baseline    VARCHAR NOT NULL,       -- a release, of which the newest report counts, or a `report_id`
    policy      JSON NOT NULL,          -- as in `verdicts`
    anchor      VARCHAR NOT NULL        -- the baseline that a person kept: another one once a release has passed
    , PRIMARY KEY (dataset, kept_at)
);

-- Rules that score logged traces, as they were when they last ran.
CREATE TABLE IF NOT EXISTS trace_rules (
    rule        VARCHAR NOT NULL,       -- its name
    watermark   TIMESTAMPTZ,            -- the newest trace that it has looked at; NULL: none. Backfills do not move it
    metric      VARCHAR NOT NULL,       -- the name of the metric
    definition  JSON NOT NULL,          -- the rule as it was written, less passwords and tokens in the URL of its source
    run_id      VARCHAR NOT NULL,       -- of that run; as in `runs`
    updated_at  TIMESTAMPTZ NOT NULL    -- UTC
    , PRIMARY KEY (rule)
);

-- What became of every trace under every rule that has looked at it: one row each, the latest. A number stays until
-- another number replaces it.
CREATE TABLE IF NOT EXISTS trace_outcomes (
    rule        VARCHAR NOT NULL,       -- as in `trace_rules`
    trace_id    VARCHAR NOT NULL,       -- of the source; # and a hash of the row where it has none
    "time"      TIMESTAMPTZ,            -- when the trace happened; NULL: it does not say
    outcome     VARCHAR NOT NULL,       -- disabled, filtered, sampled_out, quarantined, scored, undefined, failed, skipped
    reason      VARCHAR,                -- the condition that it does not meet, or as in `measurements`
    metric      VARCHAR NOT NULL,       -- its name
    signature   VARCHAR NOT NULL,       -- as in `measurements`
    sample_key  VARCHAR,                -- as in `measurements`; NULL: not taken
    "values"    MAP(VARCHAR, DOUBLE),   -- field to number; NULL unless scored
    run_id      VARCHAR NOT NULL,       -- of the run that decided; as in `runs`
    updated_at  TIMESTAMPTZ NOT NULL    -- UTC
    --, PRIMARY KEY (rule, trace_id)
);

-- How many traces came how far, a row per run and rule: n_seen = n_disabled + n_filtered + n_sampled_out + n_quarantined
-- + n_scored + n_undefined + n_failed + n_skipped.
CREATE TABLE IF NOT EXISTS trace_funnels (
    run_id        VARCHAR NOT NULL,     -- as in `runs`
    rule          VARCHAR NOT NULL,     -- as in `trace_rules`
    created_at    TIMESTAMPTZ NOT NULL, -- UTC
    since         TIMESTAMPTZ,          -- of a backfill: traces from here on
    until         TIMESTAMPTZ,          -- of a backfill: traces before; NULL in both: the run was about new traces
    n_seen        BIGINT NOT NULL,      -- traces that the run looked at
    n_disabled    BIGINT NOT NULL,      -- the rule is switched off
    n_filtered    BIGINT NOT NULL,      -- they do not meet a condition
    n_sampled_out BIGINT NOT NULL,      -- they fit, and are not in the sample
    n_quarantined BIGINT NOT NULL,      -- they cannot be scored; they are in `quarantine`
    n_scored      BIGINT NOT NULL,      -- they have a number
    n_undefined   BIGINT NOT NULL,      -- the metric has nothing to say about them: no reference
    n_failed      BIGINT NOT NULL,      -- they could not be scored; the next run tries again
    n_skipped     BIGINT NOT NULL,      -- not tried, for instance for want of budget; the next run does
    n_again       BIGINT NOT NULL,      -- of those seen: another run had seen them already
    n_measured    BIGINT NOT NULL,      -- measurements made for it; equal answers share one, known ones need none
    sampling      DOUBLE NOT NULL,      -- share of the traces that fit, 0 to 1
    metric        VARCHAR NOT NULL,     -- its name
    signature     VARCHAR NOT NULL,     -- as in `measurements`
    watermark     TIMESTAMPTZ           -- of the rule, after the run
    , PRIMARY KEY (run_id, rule)
    , CHECK (n_seen = n_disabled + n_filtered + n_sampled_out + n_quarantined
        + n_scored + n_undefined + n_failed + n_skipped)
);

-- That something was removed for good, and not what: no name, no text, no hash of either.
CREATE TABLE IF NOT EXISTS removals (
    removal     INTEGER NOT NULL,           -- counts up from 1
    removed_at  TIMESTAMPTZ NOT NULL,       -- UTC
    kind        VARCHAR NOT NULL,           -- sample, answer, release, or age: whatever was older
    reason      VARCHAR,                    -- as it was given; NULL: none was
    n_rows      MAP(VARCHAR, BIGINT) NOT NULL, -- table to removed rows
    n_calls     BIGINT NOT NULL,            -- calls removed from the ledger
    n_files     BIGINT NOT NULL,            -- files removed from the home
    reports     VARCHAR[] NOT NULL          -- reports that were computed anew from what is left; as in `reports`
    , PRIMARY KEY (removal)
    , CHECK (kind IN ('sample', 'answer', 'release', 'age'))
);

-- The newest report of every release on every data set.
CREATE OR REPLACE VIEW latest_reports AS
SELECT * FROM reports QUALIFY row_number() OVER (PARTITION BY dataset, release ORDER BY version DESC) = 1;

-- Registered releases, with what became of them.
--   report_id: as in `reports`, the first one that an evaluation of the registration made; NULL: none yet
--   superseded: whether newer answers of the release are registered, or were evaluated, since
CREATE OR REPLACE VIEW registrations AS
SELECT
    r.*,
    (SELECT arg_min(made.report_id, made.version)
     FROM reports made
     WHERE made.dataset = r.dataset AND made.release = r.release
         AND json_extract_string(made.manifest, '$.parameters.data.answers') = 'registered:' || r.registration
    ) AS report_id,
    EXISTS (
        FROM registered later
        WHERE later.dataset = r.dataset AND later.release = r.release AND later.registered_at > r.registered_at
    ) OR EXISTS (
        -- A report about answers that had none when these were registered, and not about these.
        FROM reports later
        WHERE later.dataset = r.dataset AND later.release = r.release AND later.created_at > r.registered_at
            AND later.answers_version <> r.answers_version
            AND later.answers_version NOT IN (
                SELECT answers_version FROM reports earlier
                WHERE earlier.dataset = r.dataset AND earlier.release = r.release
                    AND earlier.created_at <= r.registered_at)
    ) AS superseded
FROM registered r;

-- The answers that every report is about, with their samples: one row per report and answer.
CREATE OR REPLACE VIEW report_answers AS
SELECT
    r.report_id, r.dataset, r.dataset_version, r.release, r.answers_version, a.sample_id, a.sample_key,
    s.question, s."references", s.facts, s."cluster", a.answer, a.label, a.correct, a.slices, a.missing_because,
    a.repeat, a.context, s.incorrect_references, a."columns"
FROM reports r
JOIN answers a
    ON a.dataset = r.dataset AND a.release = r.release AND a.answers_version = r.answers_version
LEFT JOIN samples s
    ON s.dataset = r.dataset AND s.dataset_version = r.dataset_version AND s.sample_id = a.sample_id;

-- The same once for 'all' and once per slice.
--   unit: what is independent: the cluster, or the question itself
--   slice: 'all', or column=value
CREATE OR REPLACE VIEW report_slices AS
SELECT
    report_id, release, sample_id, sample_key, coalesce('cluster ' || "cluster", 'sample ' || sample_id) AS unit,
    unnest(list_prepend('all', [key || '=' || slices[key] for key in map_keys(slices)])) AS slice, repeat
FROM report_answers;

-- For people: one row per answer and metric, with the texts beside the numbers.
--   values: field to number
CREATE OR REPLACE VIEW sample_scores AS
SELECT
    s.report_id, s.release, s.sample_id, a.question, a."references", a.answer, a.correct, s.metric,
    any_value(s.status) AS status,
    any_value(s.reason) AS reason,
    map_from_entries(list((s.field, s."value") ORDER BY s.field)) AS "values", repeat
FROM scores s
JOIN report_answers a USING (report_id, sample_id, repeat)
GROUP BY ALL;

-- One row per fact of `ground_truth_similarity`, on both sides, with what became of it. An answer that needed no judge
-- has one row without a fact: matched (it equals a reference) or missing (it is blank).
--   side: reference or answer
--   fact_id: of the fact, in its measurement
--   fact: the text of the fact; NULL: an answer that needed no judge
--   status: matched, contradicted, missing (of the reference) or extra (of the answer)
--   with_id: `fact_id` of the fact on the other side; NULL: none
CREATE OR REPLACE VIEW facts AS
SELECT sample_key, signature, fact.side, fact.id AS fact_id, fact.fact, fact.status, fact."with" AS with_id
FROM (
    SELECT sample_key, signature, unnest(coalesce(
        CAST(details -> '$.facts' AS STRUCT(side VARCHAR, id VARCHAR, fact VARCHAR, status VARCHAR, "with" VARCHAR)[]),
        [{'side': 'reference', 'id': NULL, 'fact': NULL,
          'status': if("values"['similarity'] = 1, 'matched', 'missing'), 'with': NULL}]
    )) AS fact
    FROM measurements WHERE metric = 'ground_truth_similarity' AND status = 'scored'
);

-- The facts of the answers of every report, with the fact on the other side that matches or contradicts.
--   side: reference or answer
--   fact_id: of the fact, in its measurement
--   fact: the text of the fact; NULL: an answer that needed no judge
--   status: matched, contradicted, missing (of the reference) or extra (of the answer)
--   with_id: `fact_id` of the fact on the other side; NULL: none
--   with_fact: the text of the fact on the other side
CREATE OR REPLACE VIEW report_facts AS
SELECT
    s.report_id, s.release, s.sample_id, a.question, f.side, f.fact_id, f.fact, f.status, f.with_id,
    other.fact AS with_fact, repeat
FROM scores s
JOIN report_answers a USING (report_id, sample_id, repeat)
JOIN facts f ON f.sample_key = a.sample_key AND f.signature = s.signature
LEFT JOIN facts other
    ON other.sample_key = f.sample_key AND other.signature = f.signature AND other.fact_id = f.with_id
WHERE s.metric = 'ground_truth_similarity' AND s.field = 'similarity' AND s.status = 'scored';

-- The numbers of the traces, one row per rule, trace and field.
--   field: which of the metric's numbers
--   value: the number
CREATE OR REPLACE VIEW trace_scores AS
SELECT rule, trace_id, "time", metric, signature, unnest(map_keys("values")) AS field,
       unnest(map_values("values")) AS "value", reason, run_id
FROM trace_outcomes WHERE outcome = 'scored';

-- The numbers of every report over all its answers, with what the report is about: one row per report, metric and field.
CREATE OR REPLACE VIEW report_metrics AS
SELECT
    r.report_id, r.dataset, r.dataset_version, r.release, r.version, r.created_at, r.status, m.metric, m.field,
    m.mean, m.ci_low, m.ci_high, m.ci_method, m.n_scored, m.n_total, m.n_failed, m.n_undefined, m.n_skipped, m.coverage,
    m.bound_low, m.bound_high, m.n_clusters, m.n_questions, r.answers_version, r.run_id
FROM reports r JOIN report_scores m USING (report_id) WHERE m.slice = 'all';

-- The same of every slice: one row per report, metric, field, column and value.
--   slice_column: the column that the answers are split by
--   slice_value: its value in the answers of the row
CREATE OR REPLACE VIEW slice_metrics AS
SELECT
    r.report_id, r.dataset, r.dataset_version, r.release, r.version, r.created_at, r.status, m.metric, m.field,
    split_part(m.slice, '=', 1) AS slice_column, m.slice[len(split_part(m.slice, '=', 1)) + 2:] AS slice_value,
    m.mean, m.ci_low, m.ci_high, m.ci_method, m.n_scored, m.n_total, m.n_failed, m.n_undefined, m.n_skipped, m.coverage
FROM reports r JOIN report_scores m USING (report_id) WHERE m.slice <> 'all';

-- Every comparison over all answers, with the releases that it is about: one row per pair of reports, metric and field.
--   old_release: the release of the old report
--   new_release: the release of the new report
CREATE OR REPLACE VIEW release_comparisons AS
SELECT
    o.dataset, o.release AS old_release, n.release AS new_release, c.old_report, c.new_report, c.family, c.metric,
    c.field, c."old", c."new", c.difference, c.ci_low, c.ci_high, c.p, c.p_adjusted, c.test, c.finding, c.note,
    c.n_common, c.n_only_old, c.n_only_new, c.fixed, c.broken, c.mde, c.needed, c.not_comparable, c.created_at
FROM comparisons c
JOIN reports o ON o.report_id = c.old_report
JOIN reports n ON n.report_id = c.new_report
WHERE c.slice = 'all';

-- What people call each answer: the adjudicated label, else the one on which all annotators agree; NULL: they differ.
--   verdict: right, wrong, cannot tell
--   n_annotators: people whose label of the answer counts
--   adjudicated: whether a difference between them was settled
--   first_at: when it was first labelled
--   last_at: when it was last labelled
CREATE OR REPLACE VIEW current_labels AS
SELECT sample_key,
       CASE WHEN bool_or(adjudicates) THEN arg_max(verdict, labelled_at) FILTER (adjudicates)
            WHEN count(DISTINCT verdict) = 1 THEN any_value(verdict) END AS verdict,
       count(DISTINCT annotator) AS n_annotators, bool_or(adjudicates) AS adjudicated,
       min(labelled_at) AS first_at, max(labelled_at) AS last_at
FROM (
    FROM labels QUALIFY row_number() OVER (PARTITION BY sample_key, annotator, adjudicates ORDER BY labelled_at DESC) = 1
)
WHERE verdict <> 'withdrawn' GROUP BY sample_key;

-- The gate of every data set: the one that was kept last.
CREATE OR REPLACE VIEW current_gates AS
SELECT * FROM gates QUALIFY row_number() OVER (PARTITION BY dataset ORDER BY kept_at DESC) = 1;

-- What the gate has said last about every two reports.
CREATE OR REPLACE VIEW latest_verdicts AS
SELECT * FROM verdicts
QUALIFY row_number() OVER (PARTITION BY old_report, new_report ORDER BY created_at DESC) = 1;

-- What the calls behind the measurements have cost: one row per run that paid, judge and prompt. A line of a batch that
-- the provider did not work on is no call.
--   calls: calls that were sent
--   errors: calls that got no usable reply
--   usd: dollars of the calls whose price is known
--   unpriced: calls that may have cost something, and whose price is not known
--   first_at: when the first of them was sent
--   last_at: when the last of them was sent
CREATE OR REPLACE VIEW judge_costs AS
SELECT
    run, judge, prompt, count(*) AS calls, count(*) FILTER (status <> 'usable') AS errors,
    sum(tokens_in)::BIGINT AS tokens_in, sum(tokens_out)::BIGINT AS tokens_out, sum(cost_usd) AS usd,
    count(*) FILTER (
        cost_usd IS NULL AND (
            status <> 'error' OR reply IS NOT NULL
            OR code IN ('timeout', 'cancelled', 'disconnected', 'too_large', 'garbled', 'batch_gone', 'error_in_reply')
        )
    ) AS unpriced,
    min(started_at) AS first_at, max(started_at) AS last_at
FROM judge_calls WHERE code IS DISTINCT FROM 'unsent' GROUP BY run, judge, prompt;

