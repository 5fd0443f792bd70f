"""The tables of the ledger in PostgreSQL, and the statements that its verbs are."""

from __future__ import annotations

from answerkey.metrics_core.llm.ledger import COLUMNS, COUNTED

SCHEMA = """
-- The tables are those of the file, see sqlite_ledger, but for what is said here.
CREATE TABLE answerkey_ledger (version integer NOT NULL);
INSERT INTO answerkey_ledger VALUES (5);
CREATE SEQUENCE answerkey_owners AS integer CYCLE;
CREATE TABLE answerkey_calls (
    number bigint GENERATED ALWAYS AS IDENTITY,     -- in the order in which they were sent
    call_id text PRIMARY KEY,
    request_key text NOT NULL,
    judge text NOT NULL, prompt text NOT NULL, run text NOT NULL,
    kind text NOT NULL, attempt bigint NOT NULL, format text NOT NULL, status text NOT NULL,
    code text, message text,
    reserved double precision,
    started_at double precision NOT NULL, seconds double precision,
    tokens_in bigint, tokens_out bigint, cost_usd double precision,
    model text, fingerprint text, finish_reason text, reply text, checksum text, batch text, size bigint,
    weights text
);
CREATE INDEX answerkey_calls_by_request ON answerkey_calls (request_key, status);
CREATE INDEX answerkey_calls_by_run ON answerkey_calls (run);
CREATE INDEX answerkey_calls_by_prompt ON answerkey_calls (judge, prompt, number);
CREATE TABLE answerkey_batches (
    batch text PRIMARY KEY, judge text NOT NULL, sent_at double precision NOT NULL, provider_id text
);
-- The owner holds an advisory lock of this number. `gone_since`: when somebody first saw that it does not.
CREATE TABLE answerkey_claims (request_key text PRIMARY KEY, owner integer NOT NULL, gone_since timestamptz);
CREATE TABLE answerkey_budgets (
    run text PRIMARY KEY, calls bigint NOT NULL DEFAULT 0, cost_usd double precision NOT NULL DEFAULT 0,
    unpriced bigint NOT NULL DEFAULT 0, in_flight bigint NOT NULL DEFAULT 0,
    reserved double precision NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
"""
_SETTLED = """\
lost AS (
    SELECT call_id, run, reserved, started_at, least(reserved, coalesce((
        SELECT avg(cost_usd) FROM (
            SELECT cost_usd FROM answerkey_calls AS like_it
            WHERE like_it.judge = a.judge AND like_it.prompt = a.prompt AND like_it.kind = a.kind
              AND status = 'usable' AND cost_usd > 0 AND tokens_out IS NOT NULL
            ORDER BY number DESC LIMIT 100
        ) AS latest
    ), reserved)) AS cost
    FROM answerkey_calls AS a
    WHERE status = 'sent' AND reserved IS NOT NULL AND batch IS NULL AND {which}
    FOR UPDATE
),
forgotten AS (
    UPDATE answerkey_calls AS c SET cost_usd = nullif(lost.cost, 0), reserved = NULL
    FROM lost WHERE c.call_id = lost.call_id
),
settled AS (
    UPDATE answerkey_budgets AS b
    SET in_flight = b.in_flight - sums.calls, reserved = greatest(0, b.reserved - sums.most),
        cost_usd = b.cost_usd + sums.cost
    FROM (
        SELECT place, count(*) AS calls, sum(reserved) AS most, sum(cost) AS cost
        FROM lost, unnest(ARRAY[run, to_char(to_timestamp(started_at) AT TIME ZONE 'UTC', '"month "YYYY-MM')]) AS place
        GROUP BY place
    ) AS sums
    WHERE b.run = sums.place
)"""
"""Counts calls as spent that were in flight and will never end, at what the latest calls like them have cost."""
MIGRATIONS = {
    2: """
ALTER TABLE answerkey_calls ADD COLUMN batch text;
CREATE INDEX answerkey_calls_by_run ON answerkey_calls (run);
CREATE TABLE answerkey_batches (
    batch text PRIMARY KEY, judge text NOT NULL, sent_at double precision NOT NULL, provider_id text
);
UPDATE answerkey_ledger SET version = 3;
""",
    3: f"""
ALTER TABLE answerkey_calls ADD COLUMN size bigint;
CREATE INDEX answerkey_calls_by_prompt ON answerkey_calls (judge, prompt, number);
WITH {_SETTLED.format(which="request_key NOT IN (SELECT request_key FROM answerkey_claims)")} SELECT;
UPDATE answerkey_ledger SET version = 4;
""",
    4: """
ALTER TABLE answerkey_calls ADD COLUMN weights text;
UPDATE answerkey_ledger SET version = 5;
""",
}
"""What makes the next version of each. Before the fourth, claims of calls that had not ended were given up, and nobody
settled them."""

LOCKS = 0x616B6C67
"""The first number of the ledger's advisory locks; the second is an owner's, or 0 while the tables are made."""

ALIVE = f"""EXISTS (
    SELECT FROM pg_locks AS held
    WHERE held.locktype = 'advisory' AND held.classid = {LOCKS} AND held.objid = c.owner::oid AND held.objsubid = 2
      AND held.granted AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
)"""
SEEN_GONE = f"UPDATE answerkey_claims AS c SET gone_since = clock_timestamp() WHERE gone_since IS NULL AND NOT {ALIVE}"
REST = f"""
WITH free AS (UPDATE answerkey_claims SET gone_since = '-infinity' WHERE owner = %(me)s)
SELECT pg_advisory_unlock_shared({LOCKS}, %(me)s)
"""
SEEN_BACK = "UPDATE answerkey_claims SET gone_since = NULL WHERE owner = %s AND gone_since IS NOT NULL"
GONE = "SELECT request_key FROM answerkey_claims WHERE gone_since <= clock_timestamp() - %s::interval"
GIVE_UP = """
DELETE FROM answerkey_claims AS c WHERE owner = %s AND NOT EXISTS (
    SELECT FROM answerkey_calls AS a
    WHERE a.request_key = c.request_key AND a.status = 'sent' AND a.reserved IS NOT NULL AND a.batch IS NULL
)
"""
"""What is still in flight stays claimed: who takes it over finds it to be settled. What waits in a batch is found by
who asks for it next."""

RELEASE = f"{GIVE_UP} AND request_key = %s"
CLAIM = f"""
WITH claimed AS (
    INSERT INTO answerkey_claims AS c (request_key, owner) VALUES (%(key)s, %(me)s)
    ON CONFLICT (request_key) DO UPDATE SET
        owner = CASE WHEN c.gone_since <= clock_timestamp() - %(grace)s THEN excluded.owner ELSE c.owner END,
        gone_since = CASE WHEN c.owner = excluded.owner OR c.gone_since <= clock_timestamp() - %(grace)s THEN NULL
                          ELSE coalesce(c.gone_since, clock_timestamp()) END
    WHERE c.owner = excluded.owner OR NOT {ALIVE}
    RETURNING owner = %(me)s AS mine, xmax <> 0 AS was_there
),
{_SETTLED.format(which="request_key = %(key)s AND EXISTS (SELECT FROM claimed WHERE mine AND was_there)")}
SELECT coalesce((SELECT mine FROM claimed), false)
"""
_SENT = """\
sent AS (
    INSERT INTO answerkey_calls
        (call_id, run, status, reserved, started_at, request_key, judge, prompt, kind, attempt, format, batch,
         size)
    SELECT %(call_id)s, run, 'sent', %(most)s, %(now)s,
           %(request_key)s, %(judge)s, %(prompt)s, %(kind)s, %(attempt)s, %(format)s, %(batch)s,
           %(size)s
    FROM permitted
    RETURNING call_id
)
SELECT EXISTS (SELECT FROM sent) OR EXISTS (SELECT FROM answerkey_calls WHERE call_id = %(call_id)s),"""
"""Writes a permitted call down, and says first whether it is there."""
START = f"""
WITH permitted AS (
    INSERT INTO answerkey_budgets AS b (run, calls, in_flight, reserved)
    SELECT %(run)s, 1, 1, %(most)s
    WHERE (%(max_calls)s::bigint IS NULL OR %(max_calls)s > 0)
      AND (%(max_cost)s::double precision IS NULL OR %(most)s <= %(max_cost)s)
      AND NOT EXISTS (SELECT FROM answerkey_calls WHERE call_id = %(call_id)s)
    ON CONFLICT (run) DO UPDATE SET
        calls = b.calls + 1, in_flight = b.in_flight + 1, reserved = b.reserved + %(most)s
    WHERE (%(max_calls)s::bigint IS NULL OR b.calls < %(max_calls)s)
      AND (%(max_cost)s::double precision IS NULL OR b.cost_usd + b.reserved + %(most)s <= %(max_cost)s)
    RETURNING run
),
of_month AS (
    UPDATE answerkey_budgets AS b
    SET calls = b.calls + 1, in_flight = b.in_flight + 1, reserved = b.reserved + %(most)s
    FROM permitted WHERE b.run = %(month)s
),
{_SENT}
       b.calls, b.in_flight
FROM (SELECT) AS always LEFT JOIN answerkey_budgets AS b ON b.run = %(run)s
"""
# Both budgets are locked before either is read, the run's first as everywhere: two calls cannot share the last of one.
START_IN_MONTH = f"""
WITH run AS (SELECT * FROM answerkey_budgets WHERE run = %(run)s FOR UPDATE),
of_month AS (
    SELECT * FROM answerkey_budgets WHERE run = %(month)s AND (SELECT count(*) FROM run) = 1 FOR UPDATE
),
permitted AS (
    SELECT run.run FROM run, of_month AS m
    WHERE (%(max_calls)s::bigint IS NULL OR run.calls < %(max_calls)s)
      AND (%(max_cost)s::double precision IS NULL OR run.cost_usd + run.reserved + %(most)s <= %(max_cost)s)
      AND m.cost_usd + m.reserved + %(most)s <= %(max_total)s
      AND NOT EXISTS (SELECT FROM answerkey_calls WHERE call_id = %(call_id)s)
),
counted AS (
    UPDATE answerkey_budgets AS b
    SET calls = b.calls + 1, in_flight = b.in_flight + 1, reserved = b.reserved + %(most)s
    FROM permitted WHERE b.run IN (%(run)s, %(month)s)
),
{_SENT}
       run.calls, run.in_flight, run.cost_usd + run.reserved, m.in_flight
FROM run, of_month AS m
"""
NEW_MONTH = f"""
INSERT INTO answerkey_budgets (run, calls, cost_usd, in_flight, reserved)
SELECT %(month)s, {COUNTED}, coalesce(sum(cost_usd), 0), count(reserved), coalesce(sum(reserved), 0)
FROM answerkey_calls WHERE started_at >= %(since)s
"""
# Only what the budget still holds for this call is given back: a repeated statement, or a call that was given up for
# dead and settled, changes it no more.
FINISH = """
WITH was AS (SELECT call_id, reserved FROM answerkey_calls WHERE call_id = %(call_id)s FOR UPDATE),
ended AS (
    UPDATE answerkey_calls AS c SET status = %(status)s, reserved = NULL, {columns}
    FROM was WHERE c.call_id = was.call_id
    RETURNING c.run, was.reserved
),
of_run AS (
    UPDATE answerkey_budgets AS b
    SET in_flight = b.in_flight - 1, reserved = greatest(0, b.reserved - ended.reserved),
        cost_usd = b.cost_usd + %(paid)s, unpriced = b.unpriced + %(unpriced)s,
        calls = b.calls - %(unsent)s
    FROM ended WHERE b.run = ended.run AND ended.reserved IS NOT NULL
    RETURNING ended.reserved
)
UPDATE answerkey_budgets AS b
SET in_flight = b.in_flight - 1, reserved = greatest(0, b.reserved - of_run.reserved),
    cost_usd = b.cost_usd + %(paid)s, unpriced = b.unpriced + %(unpriced)s,
    calls = b.calls - %(unsent)s
FROM of_run WHERE b.run = %(month)s
"""
# Moved to the run that asks. Repeated, it moves nothing.
ADOPT = """
WITH found AS (
    SELECT call_id, format, reserved, batch, run, started_at FROM answerkey_calls
    WHERE request_key = %(key)s AND status = 'sent' AND batch IS NOT NULL AND reserved IS NOT NULL
    ORDER BY number DESC LIMIT 1 FOR UPDATE
),
moved AS (
    UPDATE answerkey_calls AS c SET run = %(run)s
    FROM found WHERE c.call_id = found.call_id AND found.run <> %(run)s
),
leaving AS (
    UPDATE answerkey_budgets AS b
    SET calls = b.calls - 1, in_flight = b.in_flight - 1, reserved = greatest(0, b.reserved - found.reserved)
    FROM found WHERE b.run = found.run AND found.run <> %(run)s
),
coming AS (
    INSERT INTO answerkey_budgets AS b (run, calls, in_flight, reserved)
    SELECT %(run)s, 1, 1, reserved FROM found WHERE run <> %(run)s
    ON CONFLICT (run) DO UPDATE SET
        calls = b.calls + 1, in_flight = b.in_flight + 1, reserved = b.reserved + excluded.reserved
)
SELECT call_id, format, reserved, found.batch, sent_at, provider_id, started_at
FROM found LEFT JOIN answerkey_batches AS b ON b.batch = found.batch
"""
SEND_BATCH = """
INSERT INTO answerkey_batches (batch, judge, sent_at) VALUES (%s, %s, %s) ON CONFLICT (batch) DO NOTHING
"""
USABLE = """
SELECT reply, checksum, model, fingerprint, finish_reason, tokens_in, tokens_out, cost_usd, weights
FROM answerkey_calls WHERE request_key = %s AND status = 'usable' ORDER BY number DESC
"""
CALLS = f"SELECT {', '.join(COLUMNS)}, checksum FROM answerkey_calls WHERE request_key = ANY(%s) ORDER BY number"
FORGET = "DELETE FROM answerkey_calls WHERE request_key = ANY(%s) RETURNING call_id"
EVERY_CALL = (
    f"SELECT {', '.join(COLUMNS)}, checksum, number FROM answerkey_calls WHERE number > %s ORDER BY number LIMIT %s"
)
REST_OF_CALLS = """
SELECT size, weights, call_id, number FROM answerkey_calls
WHERE number > %s AND size IS NOT NULL ORDER BY number LIMIT %s
"""
LENGTHS = """
SELECT size, tokens_in, tokens_out FROM answerkey_calls
WHERE judge = %s AND prompt = %s AND size > 0 AND tokens_in IS NOT NULL AND tokens_out IS NOT NULL
ORDER BY number DESC LIMIT %s
"""
