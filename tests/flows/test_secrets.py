"""A judge's key is nowhere but in the requests that it opens: not even where a server says it back."""

import json
import os
import sqlite3

import duckdb
import pytest

from answerkey.flows.parameters import Judging
from answerkey.tasks.warehouse.home import Home
from tests.flows.conftest import command
from tests.flows.deployed_help import neverspoken, said_by_prefect
from tests.judge_http import http
from tests.judge_server import JudgeServer, agreeable
from tests.kit.processes import finished
from tests.raw_server import RawServer

IN_ENVIRONMENT = "sk-neverspoken-environment-0123456789abcdef"
IN_BLOCK = "sk-neverspoken-block-0123456789abcdef"
PASTED = {
    "OpenAI": "sk-proj-neverspoken0",
    "Anthropic": "sk-ant-api03-neverspoken",
    "Stripe": "sk_live_neverspoken",
    "GitHub": "ghp_neverspoken0123456789",
    "GitHub, fine-grained": "github_pat_neverspoken0123",
    "GitLab": "glpat-neverspoken",
    "AWS": "AKIANEVERSPOKEN0",
    "Google": "AIzaSyNeverspoken0123456",
    "Slack": "xoxb-0123-neverspoken",
    "Hugging Face": "hf_neverspoken0123456789",
    "Groq": "gsk_neverspoken0123456789",
    "xAI": "xai-neverspoken0123456789",
    "a JSON Web Token": "eyJneverspoken.eyJneverspoken",
    "somebody's": "Neverspoken0Neverspoken0x",
}
"""Keys as providers make them, and one of nobody's form."""
SERVED = "openai/m@http://127.0.0.1:9/v1"
PLACES = {
    "--judge": ["--judge", f"{SERVED}/KEY"],
    "the path of an address": ["--judge", "openai/m@http://127.0.0.1:9/KEY/v1"],
    "a host": ["--judge", "openai/m@http://KEY.example/v1"],
    "a name": ["--judge", "openai/KEY"],
    "--judge-base": ["--judge", "openai/m", "--judge-base", "http://127.0.0.1:9/v1/KEY"],
    "--fallbacks": ["--judge", SERVED, "--fallbacks", "openai/f@http://127.0.0.1:9/v1/KEY"],
    "a header": ["--judge", SERVED, "--config", "{judging: {extra_headers: [X-Title=KEY]}}"],
    "within a header": ["--judge", SERVED, "--config", "{judging: {extra_headers: [X-Title=nightly KEY]}}"],
    "the body": ["--judge", SERVED, "--config", "{judging: {extra_body: {provider: {account: KEY}}}}"],
}
METRICS = ("--metrics", "contains,meaning_match,ground_truth_similarity", "--judge", "openai/gpt-4o-mini")


@pytest.mark.real
def test_a_key_is_nowhere(cli, save_secret, server_folder, answers, tmp_path, ask, home):
    save_secret("judge-key", IN_BLOCK)
    with JudgeServer(_says_keys) as judge:
        # This answer quotes the key.
        judge.faults = lambda _number, _body: "unauthorized"
        base = ("--judge-base", judge.url)
        refused = cli("evaluate", answers, *METRICS, *base, ANSWERKEY_JUDGE_KEY=IN_ENVIRONMENT, code=0)
        assert refused.stdout.count("PARTIAL\n  meaning_match: 2 of 4 not scored: 2 http_401\n") == 2
        n_refused = judge.n_requests
        judge.faults = lambda number, _body: "unauthorized" if number == n_refused + 3 else None
        half = cli("evaluate", answers, *METRICS, *base, "--judge-key-from", "secret:judge-key", "--json", code=0)
        sent = [request.headers["authorization"] for request in judge.requests]
    # It did travel, and each from the place that was named.
    assert 0 < n_refused < len(sent)
    assert sent == [f"Bearer {IN_ENVIRONMENT}"] * n_refused + [f"Bearer {IN_BLOCK}"] * (len(sent) - n_refused)
    assert "secret:judge-key" in half.stdout
    texts = {
        "terminal": refused.stdout + refused.stderr + half.stdout + half.stderr,
        "report": cli("report").stdout,
        "warehouse": _warehouse(home),
        "ledger": _ledger(home),
        **said_by_prefect(_runs(home), ask),
    }
    assert "http_401" in texts["ledger"]
    assert {"answerkey.duckdb", "judge.sqlite", "prefect.db"} <= neverspoken(texts, home, server_folder)


@pytest.mark.parametrize(
    ("form", "place"),
    [*((form, "--judge") for form in PASTED), *(("GitHub", place) for place in PLACES if place != "--judge")],
)
def test_a_key_that_is_pasted_where_none_belongs_is_refused_and_stored_nowhere(form, place, answers, home, refusal):
    key = PASTED[form]
    words = [word.replace("KEY", key) for word in PLACES[place]]

    message = refusal("evaluate", answers, "--metrics", "meaning_match", *words)

    assert "is stored" in message
    assert "environment" in message
    assert "neverspoken" not in message.lower()
    assert not home.exists()


@pytest.mark.parametrize("variable", ["ANSWERKEY_JUDGE_BASE", "OPENAI_BASE_URL"])
def test_an_address_of_the_environment_holds_no_key_either(variable, answers, home, refusal, monkeypatch):
    monkeypatch.setenv(variable, f"http://127.0.0.1:9/v1/{IN_ENVIRONMENT}")

    message = refusal("evaluate", answers, "--metrics", "meaning_match", "--judge", "openai/m")

    assert message.startswith("judge openai/m: a part of its address looks like a key, and addresses are stored; ")
    assert "neverspoken" not in message


@pytest.mark.parametrize(
    "judge",
    [
        "openai/m@http://sk-eu.example:8080/v1",
        "openai/m@https://task-queue-runner.example/v1",
        "openai/m@https://api.cloudflare.com/client/v4/accounts/0123456789abcdef0123456789abcdef/ai/v1",
        "openrouter/meta-llama/Meta-Llama-3.1-70B-Instruct-Turbo",
        "bedrock/arn:aws:bedrock:us-east-1:012345678901:provisioned-model/abc123def456ghi789jkl012",
    ],
)
def test_what_only_resembles_a_key_is_no_key(judge):
    headers = ["X-Title=nightly", "X-Run=5f6a1e9e-3a54-4c0e-9d5e-0a8f0d1f2a3b", "X-Via=env:GATEWAY_TOKEN"]
    form = Judging(judges=[judge], extra_headers=headers)
    assert form.judges == (judge,)


@pytest.mark.nightly
def test_a_password_in_the_address_of_the_answers_is_nowhere(bare_cli, tmp_path, home):
    with RawServer(http(200, b"id,answer,reference,release\nq1,Paris,Paris,a\n", kind="text/csv")) as server:
        address = f"http://ada:neverspoken-1@127.0.0.1:{server.port}/a.csv?token=neverspoken-2"
        process = finished(command("evaluate", address, "--metrics", "exact_match"), umask=0o077)  # fmt: skip
        kept = bare_cli("register-release", "b", "--dataset", "a", "--answers", address)
    assert (process.returncode, kept.returncode) == (0, 0), process.stderr + kept.stderr
    output = bare_cli("report", "--json").stdout
    assert f"http://…@127.0.0.1:{server.port}/a.csv?…" in output
    neverspoken({"terminal": process.stdout + process.stderr, "report": output, "warehouse": _warehouse(home)}, home)
    # Whoever may read the tables may read their copy, and nobody else.
    modes = {name: oct((home / name).stat().st_mode & 0o777) for name in ("answerkey.duckdb", "snapshot.duckdb")}
    assert modes == {"answerkey.duckdb": "0o600", "snapshot.duckdb": "0o400"}


@pytest.mark.nightly
def test_no_secret_of_a_lake_is_anywhere(
    cli, server_folder, answers, tmp_path, ask, lake,
    postgres_server, s3_server,
):  # fmt: skip
    secrets = [IN_BLOCK, s3_server.secret_key, postgres_server.password]
    with JudgeServer(_says_keys) as judge:
        judge.faults = lambda number, _body: "says_key" if number == 0 else None
        base = ("--judge-base", judge.url, "--home", lake)
        environment = {"ANSWERKEY_JUDGE_KEY": IN_BLOCK, "ANSWERKEY_SCRATCH": str(tmp_path / "scratch")}
        process = cli("evaluate", answers, *METRICS, *base, page=True, **environment, code=0)
        assert {request.headers["authorization"] for request in judge.requests} == {f"Bearer {IN_BLOCK}"}
        # The catalog is down to a password that is wrong: what is said of it does not have it.
        wrong = {**environment, "PGPASSFILE": "none", "PGPASSWORD": "neverspoken-password-0123456789"}
        refused = cli("report", "--home", lake, **wrong)
        assert refused.returncode != 0
        assert refused.stderr.count("\n") <= 2, refused.stderr
    home = Home.parse(lake)
    with home.warehouse.reading() as warehouse:
        [(run,)] = warehouse.execute("SELECT run_id FROM runs").fetchall()
        rows = [str(row) for name in ("runs", "reports", "measurements", "judge_calls") for row in
                warehouse.execute(f"FROM {name}").fetchall()]  # fmt: skip
    texts = {
        "terminal": process.stdout + process.stderr + refused.stdout + refused.stderr,
        "report": cli("report", "--home", lake, **environment).stdout,
        "warehouse": "\n".join(rows),
        "ledger and catalog": _postgres(os.environ["ANSWERKEY_CATALOG"].partition(":")[2]),
        "objects": _objects(lake, s3_server),
        **said_by_prefect([str(run)], ask),
    }
    assert all(texts.values())
    assert "***" in texts["ledger and catalog"]
    files = [path for folder in (tmp_path, server_folder) for path in folder.rglob("*") if path.is_file()]
    texts |= {str(path): path.read_bytes().decode("latin-1") for path in files}
    assert [(place, secrets.index(one)) for place, text in texts.items() for one in secrets if one in text] == []
    assert [place for place, text in texts.items() if "neverspoken" in text] == []


def _postgres(conninfo):
    """All tables of a database as text."""
    import psycopg

    with psycopg.connect(conninfo) as database:
        tables = database.execute("SELECT relname FROM pg_stat_user_tables").fetchall()
        assert {"answerkey_calls", "ducklake_table"} <= {name for (name,) in tables}
        return "\n".join(str(row) for (name,) in tables for row in database.execute(f"SELECT * FROM {name}").fetchall())


def _objects(address, server):
    """All objects of a bucket, and the rows of those that are compressed tables."""
    import pyarrow.parquet as pq
    from pyarrow.fs import FileSelector, S3FileSystem

    files = S3FileSystem(
        access_key=server.access_key,
        secret_key=server.secret_key,
        endpoint_override=server.endpoint,
        region="us-east-1",
    )
    place = address.removeprefix("s3://")
    found = [one.path for one in files.get_file_info(FileSelector(place, recursive=True)) if one.is_file]
    assert any(path.endswith(".html") for path in found), found
    texts = [files.open_input_file(path).read().decode("latin-1") for path in found]
    texts += [str(pq.read_table(path, filesystem=files).to_pylist()) for path in found if path.endswith(".parquet")]
    return "\n".join(texts)


def _says_keys(body):
    """The verdict of an agreeable judge, with the key that it was sent as the reason."""
    content = json.loads(agreeable(body))
    return json.dumps({key: IN_BLOCK if key == "reason" else value for key, value in content.items()})


def _warehouse(home):
    """All tables as text: in the file they are compressed."""
    with duckdb.connect(str(home / "answerkey.duckdb"), read_only=True) as warehouse:
        tables = [name for (name,) in warehouse.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        assert {"runs", "reports", "measurements", "judge_calls"} <= set(tables)
        return "\n".join(str(row) for name in tables for row in warehouse.execute(f"FROM {name}").fetchall())


def _ledger(home):
    with sqlite3.connect(home / "judge.sqlite") as ledger:
        return "\n".join(ledger.iterdump())


def _runs(home):
    with duckdb.connect(str(home / "answerkey.duckdb"), read_only=True) as warehouse:
        runs = [str(run) for (run,) in warehouse.execute("SELECT run_id FROM runs").fetchall()]
    assert len(runs) == 2
    return runs
