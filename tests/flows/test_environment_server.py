"""The server that `answerkey serve` keeps for a home takes part in the runs of its commands, and no other one does."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from answerkey.tasks.server import NOTE, kept_server
from answerkey.tasks.warehouse.home import Home


@pytest.fixture
def served_home(server: str, server_folder: Path, tmp_path: Path) -> Iterator[Path]:
    """A home as `answerkey serve` leaves it while it runs: the server has its database there."""
    home = tmp_path / "served"
    home.mkdir()
    (home / "prefect").symlink_to(server_folder)
    (home / NOTE).write_text(f"{server}\n")
    yield home
    (home / NOTE).unlink()


def test_a_run_is_on_the_server_of_its_home(
    served_home: Path, bare_cli: Callable[..., subprocess.CompletedProcess[str]], answers: Path, ask: Any
) -> None:
    done = bare_cli("evaluate", answers, "--metrics", "exact_match", "--no-page", "--home", served_home)
    assert done.returncode == 0, done.stderr
    with Home(served_home).warehouse.reading() as warehouse:
        [(run,)] = warehouse.execute("SELECT run_id FROM runs").fetchall()
    [found] = ask("flow_runs/filter", {"flow_runs": {"id": {"any_": [run]}}})
    assert found["name"] == "evaluate 2 releases on faq"


def test_a_server_of_another_home_and_one_that_is_gone_are_not_used(
    served_home: Path, server: str, tmp_path: Path
) -> None:
    assert kept_server(served_home) == server
    other = tmp_path / "other" / NOTE
    other.parent.mkdir(parents=True)
    assert kept_server(tmp_path / "other") == ""
    for address in (server, "http://127.0.0.1:9/api", "nonsense"):
        other.write_text(address)
        assert kept_server(tmp_path / "other") == ""
