"""Every command line of the documents, run where `make evaluate` has run, with a judge on loopback."""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT
from tests.judge_brains import agreeable
from tests.judge_server import JudgeServer
from tests.warm_command import WarmCommand

Run = Callable[[Path, list[str]], subprocess.CompletedProcess[str]]
OWN_SERVER = "http://127.0.0.1:8080/v1"
NOT_RUN = {
    "make": "`make evaluate` is what the fixture does; `make serve` does not end",
    ". .venv/bin/activate": "the commands run in that environment",
    "export": "the fixture sets a key",
    "answerkey serve": "does not end; the tests of deployments start it",
    "answerkey view": "does not end; tests/flows/cli/test_view.py starts it",
    "answerkey evaluate evouna_nq_dev.jsonl": "a public data set, for which the page says where it is",
    "answerkey calibrate bem.match": "verdicts of another judge on that data set",
}
"""Beginnings of lines, and why they are not run here."""


def blocks(document: str) -> list[tuple[str, str]]:
    """The shell blocks of a document, each with the text block that follows it, if one does."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.findall(r"```(?:sh|bash)\n(.*?)```(?:\n\n```text\n(.*?)```)?", text, re.DOTALL)


def lines(block: str) -> list[str]:
    """The command lines of a block, each whole and without its comment."""
    found = [line for line in block.replace("\\\n", " ").splitlines() if line.strip() and not line.startswith("#")]
    return [re.split(r"\s{2,}#|(?<=\S) # ", line)[0].strip() for line in found]


def commands(document: str) -> list[str]:
    """What of a document can be run."""
    return [line for block, _ in blocks(document) for line in lines(block) if not line.startswith(tuple(NOT_RUN))]


@pytest.fixture(scope="module")
def judge() -> Iterator[JudgeServer]:
    with JudgeServer(agreeable) as server:
        yield server


@pytest.fixture(scope="module")
def answerkey(warm_command: WarmCommand, judge: JudgeServer) -> Run:
    def run(folder: Path, arguments: list[str]) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSWERKEY_")}
        environment = {**kept, "OPENAI_API_KEY": "k", "OPENAI_API_BASE": judge.url, "COLUMNS": "100"}
        arguments = [one.replace(OWN_SERVER, judge.url) for one in arguments]
        return warm_command.run("answerkey.flows.cli", arguments, folder, environment, 240)

    return run


@pytest.fixture(scope="module")
def evaluated(answerkey: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the examples and the home that `make evaluate` leaves."""
    folder = tmp_path_factory.mktemp("evaluated")
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    [recipe] = re.findall(r"answerkey (evaluate examples.*?)\$\(ARGS\)", (ROOT / "Makefile").read_text(), re.DOTALL)
    done = answerkey(folder, shlex.split(recipe.replace("\\\n", " ")))
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def place(evaluated: Path, tmp_path: Path) -> Path:
    return shutil.copytree(evaluated, tmp_path / "place")


def check(answerkey: Run, folder: Path, line: str) -> str:
    """Run a line; a gate may say what it likes, all others succeed. Returns what it printed."""
    line = line.replace("/backups/", f"{folder}-backups/")
    if not line.startswith("answerkey "):
        return subprocess.run(["bash", "-ec", line], cwd=folder, check=True, capture_output=True, text=True).stdout
    done = answerkey(folder, shlex.split(line)[1:])
    decides = " gate " in line or "--policy" in line
    assert done.returncode in ((0, 1, 3, 4) if decides else (0,)), f"{line}\n{done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr, f"{line}\n{done.stderr}"
    return done.stdout


def test_the_commands_of_the_readme_run(answerkey: Run, place: Path) -> None:
    found = commands("README.md")
    assert len(found) == 9
    for line in found:
        check(answerkey, place, line)
    assert (place / "report.html").is_file()


def test_the_tutorial_prints_what_stands_there(answerkey: Run, place: Path) -> None:
    shown = 0
    for block, text in blocks("docs/tutorial.md"):
        runnable = [line for line in lines(block) if not line.startswith(tuple(NOT_RUN))]
        printed = "".join(check(answerkey, place, line) for line in runnable)
        if text:
            shown += 1
            # Long lines are broken in the document, and "…" stands for what it leaves out.
            for part in text.split("…"):
                assert " ".join(part.split()) in " ".join(printed.split())
    assert shown == 4
    assert (place / "report.html").is_file()


def test_the_job_for_github_actions_runs(answerkey: Run, place: Path) -> None:
    [job] = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/ci.md").read_text(encoding="utf-8"), re.DOTALL)
    steps = yaml.safe_load(job)["jobs"]["gate"]["steps"]
    rows = (place / "examples/museum.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    (place / "evaluation").mkdir()
    for name, release in (("released", "old"), ("candidate", "new")):
        own = [line.replace(f",{release},", ",") for line in rows[1:] if f",{release}," in line]
        content = rows[0].replace("release,", "") + "".join(own)
        (place / f"evaluation/{name}.csv").write_text(content, encoding="utf-8")
    policy = "primary: meaning_match.match\nmargin: 0.1\n"
    (place / "evaluation/gate.yaml").write_text(policy, encoding="utf-8")
    asked = [line for step in steps if "run" in step for line in lines(step["run"]) if line.startswith("answerkey ")]
    assert [line.split()[1] for line in asked] == ["evaluate", "evaluate", "gate"]
    for line in asked:
        check(answerkey, place, line.replace("$GITHUB_STEP_SUMMARY", str(place / "summary.md")))
    assert "\n## PASS\n" in (place / "summary.md").read_text(encoding="utf-8")
    assert (place / "gate.xml").is_file()
    assert (place / "gate.html").is_file()


PAGES = ("comparing", "expectations", "gate", "judge", "migrating", "reports", "traces")
"""Those about generating and about judges of one's own need models that say more than the one here."""


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run(answerkey: Run, place: Path, page: str) -> None:
    bring_files(place, page)
    found = commands(f"docs/{page}.md")
    assert found
    for line in found:
        check(answerkey, place, line)


def bring_files(place: Path, page: str) -> None:
    """The files that a page speaks of as the reader's own."""
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    yamls = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    if page == "expectations":
        (place / "suite.yaml").write_text(yamls[0], encoding="utf-8")
    rows = [json.loads(line) for line in (place / "examples/answers.jsonl").read_text(encoding="utf-8").splitlines()]
    (place / "people.csv").write_text(
        "id,label\n" + "".join(f"{row['id']},{row['correct']}\n" for row in rows if row["release"] == "aurora-2")
    )
