"""What each command imports of what is heavy: every package that is not named here stays out."""

import os
import sys

import pytest

from tests.kit.processes import finished

HEAVY = (
    "altair", "distributed", "duckdb", "great_expectations", "litellm", "numpy", "pandas", "prefect", "pyarrow",
    "scipy", "scipy.stats", "sentence_transformers", "sqlalchemy", "torch", "transformers",
)  # fmt: skip
TABLES = {"duckdb", "numpy", "pandas", "pyarrow", "scipy"}
OTHER_COMMANDS = [("report", "new"), ("history", "exact_match.match"), ("metrics",)]
VALIDATION = {"altair", "great_expectations", "scipy.stats", "sqlalchemy"}


CODE = f"""
import sys
from answerkey.flows.cli.main import main
code = main(sys.argv[1:])
print(*sorted(set(sys.modules) & set({HEAVY})))
sys.exit(code)
"""


def imports(folder, *arguments, code=0):
    """What a new process that runs this command has imported at its end."""
    environment = {**os.environ, "ANSWERKEY_HOME": str(folder / "home")}
    process = finished([sys.executable, "-c", CODE, *map(str, arguments)], cwd=folder, env=environment)  # fmt: skip
    assert process.returncode == code, process.stderr
    return set(process.stdout.splitlines()[-1].split())


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """A folder with the home of two releases, and what their evaluation imported."""
    folder = tmp_path_factory.mktemp("evaluated")
    rows = (
        "id,release,answer,reference",
        "1,old,Paris,Paris",
        "2,old,Rome,Oslo",
        "1,new,Paris,Paris",
        "2,new,Oslo,Oslo",
    )
    (folder / "faq.csv").write_text("\n".join(rows) + "\n")
    return folder, imports(folder, "evaluate", "faq.csv", "--metrics", "exact_match,rouge_l", "--quiet")


@pytest.mark.real
def test_a_bad_argument_is_refused_before_anything_heavy_is_imported(tmp_path):
    assert imports(tmp_path, "evaluate", "--no-such-option", code=2) == set()


@pytest.mark.real
def test_a_run_without_a_server_imports_no_prefect_and_no_model(evaluated):
    _, imported = evaluated
    assert imported <= TABLES | VALIDATION
    assert "great_expectations" in imported


@pytest.mark.parametrize(
    ("arguments", "most"),
    [
        pytest.param(("--help",), set(), marks=pytest.mark.real),
        pytest.param(("evaluate", "--help"), set(), marks=pytest.mark.real),
        pytest.param(("compare", "old", "new"), TABLES, marks=pytest.mark.real),
        *(pytest.param(words, TABLES, marks=pytest.mark.nightly) for words in OTHER_COMMANDS),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_command_imports_no_more_than_it_needs(arguments, most, evaluated):
    assert imports(evaluated[0], *arguments) <= most
