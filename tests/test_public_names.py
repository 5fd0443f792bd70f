"""`import answerkey`: its names, and what it does not import."""

import doctest
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import answerkey

ROOT = Path(__file__).resolve().parents[1]


def test_every_public_name_is_there_and_is_that_of_metrics_core():
    for name in answerkey.__all__:
        if name != "__version__":
            assert getattr(answerkey, name) is getattr(answerkey.metrics_core, name)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert answerkey.__version__ == project["version"]
    with pytest.raises(AttributeError, match="module 'answerkey' has no attribute 'evalute'"):
        answerkey.evalute  # noqa: B018


def test_the_example():
    result = doctest.testmod(answerkey)
    assert (result.attempted, result.failed) == (2, 0)


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import answerkey", ("answerkey.metrics_core", "pydantic", "regex")),
        (
            "from answerkey import evaluate, metric, Metric, Sample",
            ("numpy", "litellm", "prefect", "duckdb", "sacrebleu"),
        ),
    ],
)
def test_the_import_is_light(code, absent):
    script = f"{code}\nimport sys\nprint(*sorted(set({absent!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == ""
