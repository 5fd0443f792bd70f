BEGIN TRANSACTION;
CREATE TABLE batches (
    batch TEXT PRIMARY KEY, judge TEXT NOT NULL,
    sent_at REAL NOT NULL,          -- Unix time when its sending began
    provider_id TEXT                -- as the provider names it; NULL: not known whether the provider has it
) WITHOUT ROWID
;
INSERT INTO "batches" VALUES('b7','openai/gpt-4o-mini',1.79538253545807957641e+09,'batch_abc');
CREATE TABLE budgets (
    run TEXT PRIMARY KEY, calls INTEGER NOT NULL DEFAULT 0, cost_usd REAL NOT NULL DEFAULT 0,
    unpriced INTEGER NOT NULL DEFAULT 0, in_flight INTEGER NOT NULL DEFAULT 0, reserved REAL NOT NULL DEFAULT 0
) WITHOUT ROWID;
INSERT INTO "budgets" VALUES('month 2026-11',4,3.00000000000000027929e-04,0,1,0.001);
INSERT INTO "budgets" VALUES('nightly',4,3.00000000000000027929e-04,0,1,0.001);
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
    size INTEGER                    -- bytes of what was sent; NULL: written before version 4
);
INSERT INTO "calls" VALUES('a1bf4d9e55e84c7bbad561186e91ad26-1','known','openai/gpt-4o-mini','meaning_match@3fa2c1','nightly','ask',1,'json_schema','usable',NULL,NULL,NULL,1.79538253545555973053e+09,0.5,300,40,0.0002,'gpt-4o-mini-2024-07-18','fp_1','stop','{"reason": "the same", "reference": 1, "rule": "alias", "verdict": "match"}','c218b9a38add877166aa31e6881de8fb',NULL,1200);
INSERT INTO "calls" VALUES('a1bf4d9e55e84c7bbad561186e91ad26-2','unread','openai/gpt-4o-mini','meaning_match@3fa2c1','nightly','ask',1,'json_schema','unreadable','not_json','the reply holds no JSON object',NULL,1.79538253545776462557e+09,NULL,300,9,0.0001,NULL,NULL,NULL,'Yes.','d48b78efa6b95175d314b89f5984e15e',NULL,1200);
INSERT INTO "calls" VALUES('a1bf4d9e55e84c7bbad561186e91ad26-3','failed','openai/gpt-4o-mini','meaning_match@3fa2c1','nightly','ask',1,'json_schema','error','http_500','upstream',NULL,1.79538253545792174338e+09,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1200);
INSERT INTO "calls" VALUES('a1bf4d9e55e84c7bbad561186e91ad26-4','batched','openai/gpt-4o-mini','meaning_match@3fa2c1','nightly','ask',1,'json_schema','sent',NULL,NULL,0.001,1.7953825354580335617e+09,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'b7',1200);
CREATE TABLE claims (request_key TEXT PRIMARY KEY, owner TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX calls_by_request ON calls (request_key, status);
CREATE INDEX calls_by_run ON calls (run);
CREATE INDEX calls_by_prompt ON calls (judge, prompt);
COMMIT;
PRAGMA user_version = 4;
PRAGMA application_id = 1634430055;
