"""docs/benchmarks.md is what its generator makes of the figures that are kept; what cannot be measured is said."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks._environments import Missing, _install, promptfoo, python_of
from benchmarks._turns import Turn, rounds, without_folders

ROOT = Path(__file__).resolve().parents[1]
CODE = """
import json, make_benchmarks
stored = make_benchmarks.read()
assert make_benchmarks.compact(stored) == make_benchmarks.STORE.read_text(encoding="utf-8")
print(make_benchmarks.page(stored), end="")
"""


def test_the_page_is_made_of_the_figures():
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'docs')!r})\n{CODE}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8"), "run docs/make_benchmarks.py"


def test_other_libraries_are_installed_without_the_constraints_that_make_sets(monkeypatch):
    monkeypatch.setenv("PIP_CONSTRAINT", "constraints.txt")
    monkeypatch.setenv("PIP_BUILD_CONSTRAINT", "constraints.txt")
    _install([sys.executable, "-c", "import os; assert not [n for n in os.environ if 'CONSTRAINT' in n]"], "a library")


def test_a_library_that_cannot_be_installed_is_missing(tmp_path, monkeypatch):
    with pytest.raises(Missing, match="a library cannot be installed: no network"):
        _install([sys.executable, "-c", "raise SystemExit('no network')"], "a library")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Missing, match=r"promptfoo cannot be installed: .*'npm'"):
        promptfoo(tmp_path / "cache")
    (tmp_path / "file").touch()
    with pytest.raises(Missing, match="ragas cannot be installed: "):
        python_of("ragas", tmp_path / "file")


def test_figures_name_no_folder_of_the_machine():
    said = "No such file or directory: '/home/ada/.cache/answerkey-benchmarks/ragas-1/bin/python', /var/x/log: 1/2"
    assert without_folders(said) == "No such file or directory: '…/python', …/log: 1/2"
    assert without_folders("see https://example.org/a/b") == "see https://example.org/a/b"


def test_a_slow_side_has_one_turn_which_counts():
    begun: list[str] = []

    def side(name, cpu):
        def turn():
            begun.append(name)
            return Turn(cpu, cpu, [])

        return turn

    turns, failed = rounds({"quick": side("quick", 1.0), "slow": side("slow", 4.0)}, n=3, slow_s=3.0)
    assert (len(turns["quick"]), len(turns["slow"]), failed) == (3, 1, {})
    # The first round of a quick side is for its caches.
    assert (begun.count("quick"), begun.count("slow")) == (4, 1)
