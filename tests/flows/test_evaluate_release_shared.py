"""A team's day on a home in a bucket, by the command line: one machine evaluates, and another one reads."""

import json

import pytest

from answerkey.tasks.warehouse.home import Home
from tests.tasks.staging_help import jsonl


def answers(release, wrong):
    return [
        {"id": f"q{i:03}", "answer": "no" if i < wrong else "yes", "reference": "yes", "release": release}
        for i in range(60)
    ]


@pytest.mark.slow
def test_what_one_machine_evaluates_another_one_reads(cli, lake, s3_server, postgres_server, tmp_path):
    said = []

    def on(machine, *words, code=0):
        own = tmp_path / machine
        own.mkdir(exist_ok=True)
        environment = {"HOME": str(own), "ANSWERKEY_SCRATCH": str(own / "scratch"), "ANSWERKEY_HOME": lake}
        done = cli(*words, page=True, **environment)
        assert done.returncode == code, done.stdout + done.stderr
        said.append(done.stdout + done.stderr)
        return done.stdout

    for release, wrong in (("old", 5), ("new", 30)):
        file = jsonl(tmp_path / f"{release}.jsonl", answers(release, wrong))
        on("first", "evaluate", file, "--dataset", "faq", "--metrics", "exact_match")
    # Nothing is left of the runs but what the warehouse has, the pages, and Data Docs beside them.
    home = Home.parse(lake)
    left = {file.name for file in home.store.files("") if not file.name.startswith("data/")}
    assert {name for name in left if not name.startswith("pages/_data-docs/")} == {
        "pages/faq/old-v1.html",
        "pages/faq/new-v1.html",
    }
    assert "pages/_data-docs/index.html" in left
    assert list((tmp_path / "first" / "scratch").glob("*/runs/*/*.parquet")) == []
    shown = on("second", "report", "new", "--json")
    assert "faq/new/v1" in shown and json.loads(shown)
    assert "exact_match" in on("second", "compare", "old", "new")
    assert "FAIL" in on("second", "gate", "old", "new", "--primary", "exact_match.match", "--margin", "0.02", code=1)
    assert "new" in on("second", "history", "exact_match.match")
    page = tmp_path / "page.html"
    on("second", "report", "new", "--html", page)
    assert "q059" in page.read_text(encoding="utf-8")
    secrets = (s3_server.secret_key, s3_server.access_key, postgres_server.password)
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    stored = [home.store.read(file.name).read() for file in home.store.files("")]
    for secret in secrets:
        assert [text for text in said if secret in text] == []
        assert [file for file in files if secret.encode() in file.read_bytes()] == []
        assert [content for content in stored if secret.encode() in content] == []
    with home.warehouse.reading() as warehouse:
        kept = str(warehouse.execute("SELECT manifest FROM reports").fetchall())
        kept += str(warehouse.execute("SELECT parameters FROM runs").fetchall())
    assert [secret for secret in secrets if secret in kept] == []


def test_a_wrong_catalog_is_one_line(cli, lake, monkeypatch):
    done = cli("report", ANSWERKEY_HOME=lake, ANSWERKEY_CATALOG="")
    assert (done.returncode, done.stderr) == (
        2,
        f"answerkey: {lake}: a home in a bucket needs a catalog; "
        'set ANSWERKEY_CATALOG="postgres:host=HOST dbname=NAME"\n',
    )
