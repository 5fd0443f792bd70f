"""The tables of the ledger in a folder, what makes the next version of them, and its longer statements."""

from __future__ import annotations

from answerkey.metrics_core.llm.ledger import COUNTED

VERSION = 5
"""Of the tables. A file without a version is of the first."""

_BATCHES = """
CREATE TABLE batches (
    batch TEXT PRIMARY KEY, judge TEXT NOT NULL,
    sent_at REAL NOT NULL,          -- Unix time when its sending began
    provider_id TEXT                -- as the provider names it; NULL: not known whether the provider has it
) WITHOUT ROWID
"""
_BY_RUN = "CREATE INDEX calls_by_run ON calls (run)"
_BY_PROMPT = "CREATE INDEX calls_by_prompt ON calls (judge, prompt)"
MIGRATIONS = {
    1: ("ALTER TABLE calls ADD COLUMN checksum TEXT",),
    2: ("ALTER TABLE calls ADD COLUMN batch TEXT", _BY_RUN, _BATCHES),
    3: ("ALTER TABLE calls ADD COLUMN size INTEGER", _BY_PROMPT),
    4: ("ALTER TABLE calls ADD COLUMN weights TEXT",),
}
"""What makes the next version of each."""

SCHEMA = f"""
-- One row per request that was sent. status: sent (no reply yet, or the process was killed), usable, unreadable, error.
-- Only usable rows are ever served.
CREATE TABLE calls (
    call_id TEXT PRIMARY KEY,
    request_key TEXT NOT NULL,
    judge TEXT NOT NULL, prompt TEXT NOT NULL, run TEXT NOT NULL,
    kind TEXT NOT NULL,             -- ask, longer (more room for the reply), repair (shown what was wrong)
    attempt INTEGER NOT NULL,       -- counts the calls for one request in one run, from 1
    format TEXT NOT NULL,           -- json_schema, json_object, text: how the reply's format was asked for
    status TEXT NOT NULL,
    code TEXT, message TEXT,        -- what went wrong
    reserved REAL,                  -- dollars that it may cost at most, as long as the budget counts it as in flight
    started_at REAL NOT NULL,       -- Unix time
    seconds REAL,
    tokens_in INTEGER, tokens_out INTEGER,
    cost_usd REAL,                  -- NULL: price not known, or nothing paid; without tokens_out: what was reserved
    model TEXT, fingerprint TEXT,   -- as the provider names what answered
    finish_reason TEXT, reply TEXT,
    checksum TEXT,                  -- of request_key and reply; NULL: written before version 2
    batch TEXT,                     -- what it was sent in; NULL: on its own
    size INTEGER,                   -- bytes of what was sent; NULL: written before version 4
    weights TEXT                    -- a checksum, and the log-probabilities of its verdict; NULL: not asked for
);
CREATE INDEX calls_by_request ON calls (request_key, status);
{_BY_RUN};
{_BY_PROMPT};
-- A call in a batch stays `sent` until its reply is fetched, whatever becomes of the process that sent it.
{_BATCHES};
-- Which process is asking a request right now.
CREATE TABLE claims (request_key TEXT PRIMARY KEY, owner TEXT NOT NULL) WITHOUT ROWID;
-- What each run has spent. `reserved`: what its calls in flight may cost at most.
CREATE TABLE budgets (
    run TEXT PRIMARY KEY, calls INTEGER NOT NULL DEFAULT 0, cost_usd REAL NOT NULL DEFAULT 0,
    unpriced INTEGER NOT NULL DEFAULT 0, in_flight INTEGER NOT NULL DEFAULT 0, reserved REAL NOT NULL DEFAULT 0
) WITHOUT ROWID;
"""
NEW_MONTH = f"""
INSERT INTO budgets (run, calls, cost_usd, in_flight, reserved)
SELECT ?, {COUNTED}, total(cost_usd), count(reserved), total(reserved) FROM calls WHERE started_at >= ?
"""
GIVE_UP = """
DELETE FROM claims WHERE owner = ? AND NOT EXISTS (
    SELECT 1 FROM calls
    WHERE calls.request_key = claims.request_key AND status = 'sent' AND reserved IS NOT NULL AND batch IS NULL
)
"""
"""What is still in flight stays claimed: who takes it over finds it to be settled. What waits in a batch is found by
who asks for it next."""
RELEASE = f"{GIVE_UP} AND request_key = ?"
BATCHED = """
SELECT call_id, format, reserved, c.batch, sent_at, provider_id, run, started_at
FROM calls AS c LEFT JOIN batches AS b ON b.batch = c.batch
WHERE request_key = ? AND status = 'sent' AND c.batch IS NOT NULL AND reserved IS NOT NULL
ORDER BY c.rowid DESC LIMIT 1
"""
ABANDONED = """
SELECT DISTINCT request_key FROM calls
WHERE status = 'sent' AND reserved IS NOT NULL AND batch IS NULL AND request_key NOT IN (SELECT request_key FROM claims)
"""
"""Requests in flight that nobody has claimed: earlier versions gave up the claims of calls that had not ended."""
LENGTHS = """
SELECT size, tokens_in, tokens_out FROM calls
WHERE judge = ? AND prompt = ? AND size > 0 AND tokens_in IS NOT NULL AND tokens_out IS NOT NULL
ORDER BY rowid DESC LIMIT ?
"""
LOST = """
SELECT call_id, run, reserved, started_at, coalesce((
    SELECT avg(cost_usd) FROM (
        SELECT cost_usd FROM calls AS like_it
        WHERE like_it.judge = c.judge AND like_it.prompt = c.prompt AND like_it.kind = c.kind
          AND status = 'usable' AND cost_usd > 0 AND tokens_out IS NOT NULL
        ORDER BY rowid DESC LIMIT 100
    )
), reserved) FROM calls AS c
WHERE request_key = ? AND status = 'sent' AND reserved IS NOT NULL AND batch IS NULL
"""
"""What is in flight for a request, with what calls like it have cost of late."""
