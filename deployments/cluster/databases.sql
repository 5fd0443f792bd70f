-- Run once by the image of PostgreSQL, when its volume is empty: a role and a database each for Prefect and answerkey.
-- psql reads the passwords from the secrets and quotes them, so they may hold any character.
\set prefect_password `cat /run/secrets/prefect_password`
\set answerkey_password `cat /run/secrets/answerkey_password`

CREATE ROLE prefect LOGIN PASSWORD :'prefect_password';
CREATE DATABASE prefect OWNER prefect;

-- The catalog of the lake and the ledger of the judges' calls.
CREATE ROLE answerkey LOGIN PASSWORD :'answerkey_password';
CREATE DATABASE answerkey OWNER answerkey;
