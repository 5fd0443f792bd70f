"""Files of other tools through the command: what was recognised is said, and the reports are there."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tasks.load.formats.exports import EXPORTS

Cli = Callable[..., subprocess.CompletedProcess[str]]
BY_NAME = {export.name: export for export in EXPORTS}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["promptfoo 3", "inspect zstandard", "langfuse cells"])
def test_an_export_is_evaluated_without_an_option(name: str, cli: Cli, tmp_path: Path) -> None:
    export = BY_NAME[name]
    file = tmp_path / export.file
    file.write_bytes(export.content)
    done = cli("evaluate", file, "--home", tmp_path / "home", "--metrics", "contains", "--json")
    assert done.returncode == 0, done.stderr
    assert export.says in done.stderr
    assert [report["release"] for report in json.loads(done.stdout)] == sorted(export.releases)


def test_a_release_is_asked_for_before_a_server_is_started(bare_cli: Cli, tmp_path: Path) -> None:
    export = BY_NAME["langsmith table"]
    file = tmp_path / export.file
    file.write_bytes(export.content)
    done = bare_cli("evaluate", file, "--home", tmp_path / "home", PREFECT_API_URL="")
    assert done.returncode == 2
    assert done.stderr == (
        "answerkey: exp.csv: it is not said which release answered (an export of LangSmith); name it with --release\n"
    )
