"""A home in a bucket: one machine evaluates, or a worker that was started from a form, and another one reads."""

import json
import os
import subprocess

import pytest
from pyarrow.fs import S3FileSystem

from answerkey.tasks.warehouse.home import Home
from tests.flows.conftest import ROOT, command
from tests.flows.deployed_help import Deployed, worker
from tests.tasks.staging_help import jsonl

ROWS = [
    {"id": f"q{i}", "question": f"What is {i} times 7?", "answer": f"It is {i * 7}.", "reference": f"{i * 7}"}
    for i in range(40)
]


def machine(folder):
    """The environment of a machine that shares no folder with others, but for the code."""
    for name in ("home", "temporary"):
        (folder / name).mkdir(parents=True)
    return {
        "HOME": str(folder / "home"), "TMPDIR": str(folder / "temporary"), "PREFECT_HOME": str(folder / "home/prefect"),
        "ANSWERKEY_SCRATCH": "", "ANSWERKEY_HOME": "",
    }  # fmt: skip


def upload(address, rows):
    files = S3FileSystem(endpoint_override=os.environ["AWS_ENDPOINT_URL"], region=os.environ["AWS_REGION"])
    with files.open_output_stream(address.removeprefix("s3://")) as file:
        file.write("".join(f"{json.dumps(row)}\n" for row in rows).encode())


def read_elsewhere(folder, *arguments):
    done = subprocess.run(
        command(*arguments), cwd=ROOT, env={**os.environ, **machine(folder)}, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.nightly
def test_a_form_a_worker_and_a_reader_share_servers_only(server, lake, bare_cli, tmp_path, s3_server, postgres_server):
    deployed = Deployed(server, lake, bare_cli)
    deployed.cli("deploy", "--reset", "all")
    assert deployed.deployment("evaluate")["parameters"]["home"] == lake
    upload(f"{lake}-sources/answers.jsonl", ROWS)
    data = {"answers": f"{lake}-sources/answers.jsonl", "dataset": "times", "release": "gpt-5"}
    there = tmp_path / "worker"
    with worker(server, "elsewhere", tmp_path / "worker.log", **machine(there)):
        run = deployed.wait(deployed.start("evaluate", {"data": data, "scoring": {"metrics": ["contains", "bleu"]}}))
    assert (run["state_type"], run["name"]) == ("COMPLETED", "evaluate gpt-5 on times"), deployed.story(run["id"])
    [report] = read_elsewhere(tmp_path / "reader", "report", "times/gpt-5", "--home", lake, "--json")
    assert report["report_id"] == "times/gpt-5/v1"
    home = Home.parse(lake)
    pages = {file.name for file in home.store.files("pages")}
    assert {name for name in pages if not name.startswith("pages/_data-docs/")} == {"pages/times/gpt-5-v1.html"}
    assert [file.name for file in home.store.files("parts")] == []
    with home.warehouse.reading() as connection:
        counts = connection.execute("SELECT metric, count(*) FROM measurements GROUP BY ALL ORDER BY ALL").fetchall()
        manifests = connection.execute("SELECT manifest, parameters FROM reports JOIN runs USING (run_id)").fetchall()
    assert counts == [("bleu", 40), ("contains", 40)]
    # Nobody put anything into the current folder.
    assert not (ROOT / "s3:").exists()
    told = [*deployed.messages(run["id"]), json.dumps([run, deployed.artifacts(run["id"]), report]), str(manifests)]
    secrets = (s3_server.secret_key, postgres_server.password)
    assert not [text for text in told if any(secret in text for secret in secrets)]
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and _holds(path, secrets)]
    # Prefect hands a run its environment in a file that only its user may read, and removes it with the run.
    assert {path.name for path in kept} <= {"workspace.json"}
    assert {path.stat().st_mode & 0o077 for one in kept for path in (one, one.parent)} <= {0}


def _holds(file, secrets):
    content = file.read_bytes()
    return any(secret.encode() in content for secret in secrets)


def answers(release, wrong):
    return [
        {"id": f"q{i:03}", "answer": "no" if i < wrong else "yes", "reference": "yes", "release": release}
        for i in range(60)
    ]


@pytest.mark.real
def test_what_one_machine_evaluates_another_one_reads(cli, lake, tmp_path):
    def on(machine, *words, code=0):
        own = tmp_path / machine
        own.mkdir(exist_ok=True)
        environment = {"HOME": str(own), "ANSWERKEY_SCRATCH": str(own / "scratch"), "ANSWERKEY_HOME": lake}
        done = cli(*words, page=True, **environment)
        assert done.returncode == code, done.stdout + done.stderr
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


def test_a_wrong_catalog_is_one_line(cli, lake):
    done = cli("report", ANSWERKEY_HOME=lake, ANSWERKEY_CATALOG="")
    assert (done.returncode, done.stderr) == (
        2,
        f"answerkey: {lake}: a home in a bucket needs a catalog; "
        'set ANSWERKEY_CATALOG="postgres:host=HOST dbname=NAME"\n',
    )
