"""A run is started from a form, a worker with only its environment does it, and somebody else reads the report."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import S3FileSystem

from answerkey.tasks.warehouse.home import Home
from tests.cluster_servers import Postgres, SeaweedFS
from tests.flows.conftest import ROOT, command
from tests.flows.deployed_help import Deployed, worker

ROWS = [
    {"id": f"q{i}", "question": f"What is {i} times 7?", "answer": f"It is {i * 7}.", "reference": f"{i * 7}"}
    for i in range(40)
]


def machine(folder: Path) -> dict[str, str]:
    """The environment of a machine that shares no folder with others, but for the code."""
    for name in ("home", "temporary"):
        (folder / name).mkdir(parents=True)
    return {
        "HOME": str(folder / "home"), "TMPDIR": str(folder / "temporary"), "PREFECT_HOME": str(folder / "home/prefect"),
        "ANSWERKEY_SCRATCH": "", "ANSWERKEY_HOME": "",
    }  # fmt: skip


def upload(address: str, rows: list[dict[str, str]]) -> None:
    files = S3FileSystem(endpoint_override=os.environ["AWS_ENDPOINT_URL"], region=os.environ["AWS_REGION"])
    with files.open_output_stream(address.removeprefix("s3://")) as file:
        file.write("".join(f"{json.dumps(row)}\n" for row in rows).encode())


def read_elsewhere(folder: Path, *arguments: str) -> Any:
    done = subprocess.run(
        command(*arguments), cwd=ROOT, env={**os.environ, **machine(folder)}, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_form_a_worker_and_a_reader_share_servers_only(
    server: str, lake: str, tmp_path: Path, s3_server: SeaweedFS, postgres_server: Postgres
) -> None:
    deployed = Deployed(server, lake)
    deployed.cli("deploy")
    assert deployed.deployment("evaluate")["parameters"]["home"] == lake
    upload(f"{lake}-sources/answers.jsonl", ROWS)
    data = {"answers": f"{lake}-sources/answers.jsonl", "dataset": "times", "release": "gpt-5"}
    with worker(server, "elsewhere", tmp_path / "worker.log", **machine(tmp_path / "worker")):
        run = deployed.wait(
            deployed.start("evaluate", {"data": data, "scoring": {"metrics": ["contains", "bleu"]}}), 300
        )
    assert (run["state_type"], run["name"]) == ("COMPLETED", "evaluate gpt-5 on times"), deployed.messages(run["id"])
    [report] = read_elsewhere(tmp_path / "reader", "report", "times/gpt-5", "--home", lake, "--json")
    assert report["report_id"] == "times/gpt-5/v1"
    assert report["manifest"]["snapshot"] > 0
    home = Home.parse(lake)
    assert {file.name for file in home.store.files("pages")} == {"pages/times/gpt-5-v1.html"}
    assert [file.name for file in home.store.files("parts")] == []
    with home.warehouse.reading() as connection:
        counts = connection.execute("SELECT metric, count(*) FROM measurements GROUP BY ALL ORDER BY ALL").fetchall()
        manifests = connection.execute("SELECT manifest, parameters FROM reports JOIN runs USING (run_id)").fetchall()
    assert counts == [("bleu", 40), ("contains", 40)]
    # The worker kept what is of its machine at home; nobody put anything into the current folder.
    assert list((tmp_path / "worker/home/.cache/answerkey").iterdir())
    assert not (ROOT / "s3:").exists()
    told = [*deployed.messages(run["id"]), json.dumps([run, deployed.artifacts(run["id"]), report]), str(manifests)]
    secrets = (s3_server.secret_key, postgres_server.password)
    assert not [text for text in told if any(secret in text for secret in secrets)]
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and _holds(path, secrets)]
    # Prefect hands a run its environment in a file that only its user may read, and removes it with the run.
    assert {path.name for path in kept} <= {"workspace.json"}
    assert {path.stat().st_mode & 0o077 for one in kept for path in (one, one.parent)} <= {0}


def _holds(file: Path, secrets: tuple[str, ...]) -> bool:
    content = file.read_bytes()
    return any(secret.encode() in content for secret in secrets)
