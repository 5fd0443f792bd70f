"""`answerkey init` as a newcomer uses it: the folder, and the commands that it prints, run one after the other."""

import shlex

import pytest

from answerkey.metrics_core.judges.rubric import read_rubric
from tests.conftest import ROOT

FILES = [
    "README.md", "answers.jsonl", "gate.yaml", "judges/directness.yaml", "museum.csv", "own_metrics.py",
    "questions.jsonl", "releases.ipynb", "rules/faq.yaml", "traces.jsonl",
]  # fmt: skip


@pytest.mark.slow
def test_the_commands_that_it_prints_run_on_the_files_that_it_lays_out(cli, tmp_path, monkeypatch):
    folder = tmp_path / "a trial"
    made = cli("init", folder)
    laid_out = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert (made.returncode, sorted(laid_out)) == (0, FILES)
    assert all((folder / name).read_bytes() == (ROOT / "examples" / name).read_bytes() for name in FILES)
    monkeypatch.setenv("ANSWERKEY_HOME", str(tmp_path / "home"))
    commands = [shlex.split(line) for line in made.stdout.splitlines() if line.startswith("  answerkey ")]
    done = [cli(*words, *["--metrics", "meaning_match"][: 2 * (words[0] == "evaluate")]) for _, *words in commands]
    assert [one.returncode for one in done] == [0, 0, 0], "".join(one.stdout + one.stderr for one in done)
    assert done[2].stdout.startswith("PASS  aurora-2 may ship in place of aurora-1, every rule holds: ")


def test_nothing_is_overwritten(bare_cli, tmp_path):
    (tmp_path / "gate.yaml").write_text("mine", encoding="utf-8")
    refused = bare_cli("init", tmp_path)
    assert (refused.returncode, [path.name for path in tmp_path.iterdir()]) == (2, ["gate.yaml"])
    assert refused.stderr == (
        f"answerkey: {tmp_path / 'gate.yaml'} exists already, and nothing is overwritten; name an empty folder\n"
    )


def test_its_judge_is_a_rubric():
    assert read_rubric(str(ROOT / "examples/judges/directness.yaml")).name == "directness"
