"""docs/benchmarks.md and docs/decisions.md say what was measured; what cannot be measured is said."""

import sys

import pytest

from benchmarks._turns import without_folders
from tests.conftest import ROOT
from tests.kit.processes import finished

CODE = """
import json, make_benchmarks
stored = make_benchmarks.read()
assert make_benchmarks.compact(stored) == make_benchmarks.STORE.read_text(encoding="utf-8")
print(make_benchmarks.page(stored), end="")
"""


def printed(*command):
    """What Python prints of this."""
    process = finished([sys.executable, *command], cwd=ROOT)
    assert (process.returncode, process.stderr) == (0, "")
    return process.stdout


def test_the_page_is_made_of_the_figures():
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'docs')!r})\n{CODE}"
    assert printed("-c", code) == (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8"), (
        "run docs/make_benchmarks.py"
    )


def test_figures_name_no_folder_of_the_machine():
    said = "No such file or directory: '/home/ada/.cache/answerkey-benchmarks/ragas-1/bin/python', /var/x/log: 1/2"
    assert without_folders(said) == "No such file or directory: '…/python', …/log: 1/2"
    assert without_folders("see https://example.org/a/b") == "see https://example.org/a/b"


DECISIONS = """
import decisions
tables = decisions.stored()
text = decisions.DOCUMENT.read_text(encoding="utf-8")
assert decisions.written(text, tables) == text, "the tables are not those of decisions.json"
for part in tables:
    for row in part["rows"]:
        assert abs(sum(row[name] for name in decisions.OUTCOMES) - 1) < 1e-3, row
        if row["method"] == "people and judge":
            # Either is promised to be at most .025.
            assert row["wrong PASS"] <= 0.01 and row["wrong FAIL"] <= 0.025, (part["data"], part["judge"], row)
"""


def test_the_tables_are_those_that_were_measured():
    code = f"import sys; sys.path[:0] = [{str(ROOT / 'benchmarks/studies')!r}, {str(ROOT)!r}]\n{DECISIONS}"
    assert printed("-c", code) == ""


@pytest.mark.nightly
def test_each_step_can_be_measured():
    """The part that calls the steps of a run as functions, so that they cannot change without it."""
    steps = [line.split()[1] for line in printed("benchmarks/steps.py", "--rows", "1000").splitlines()]
    assert steps == ["load", "validate", "plan", "commit", "again", "aggregate", "compare", "page"]
