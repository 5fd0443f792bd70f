"""What a newcomer touches to extend the product, tried in a copy of it."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
Python = Callable[..., str]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The four packages, in a folder of their own."""
    for name in ("answerkey", "metrics_core", "tasks", "flows"):
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


@pytest.fixture
def python(copy: Path) -> Python:
    def run(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, *arguments], cwd=copy, check=True, capture_output=True, text=True, timeout=120,
            env={"PYTHONPATH": str(copy), "PATH": "/usr/bin:/bin", "COLUMNS": "200"},
        ).stdout  # fmt: skip

    return run


SHOW = """
import json
from prefect.utilities.callables import parameter_schema
from answerkey.flows.evaluate_release import evaluate_release
from answerkey.flows.parameters import Judging, Limits, Scoring
from answerkey.flows.rerunning import Rerunning, again
from answerkey.tasks.command_line import command

judging = Judging(judges=["openai/a"], tone="stern")
forms = {"scoring": Scoring(metrics=["meaning_match"]), "judging": judging, "limits": Limits()}
parameters = {name: form.model_dump() for name, form in forms.items()}
schema = parameter_schema(evaluate_release.fn).model_dump()
print(json.dumps({
    "library": judging.options().tone,
    "form": schema["definitions"]["Judging"]["properties"]["tone"],
    "manifest": parameters["judging"]["tone"],
    "rerun": again({"parameters": parameters}, Rerunning(report="r")).judging.tone,
    "command": command({"data": {"answers": "a.csv"}, **parameters}),
}))
"""


def test_an_option_of_the_judge_is_one_field_in_one_file(copy: Path, python: Python) -> None:
    file = copy / "metrics_core/judges/options.py"
    text = file.read_text(encoding="utf-8")
    field = '    tone: str = Field("plain", title="Tone", description="How the judge speaks.")\n'
    place = text.index("    jury: Jury = Field(")
    file.write_text(text[:place] + field + text[place:], encoding="utf-8")
    for command in ("evaluate", "generate", "judge", "evaluate-registered"):
        assert "--tone TEXT" in python("-m", "answerkey.flows.cli", command, "--help"), command
    shown = json.loads(python("-c", SHOW))
    assert (shown["library"], shown["manifest"], shown["rerun"]) == ("stern", "stern", "stern")
    form = shown["form"]
    assert (form["title"], form["description"], form["default"]) == ("Tone", "How the judge speaks.", "plain")
    assert isinstance(form["position"], int)
    assert "--tone stern" in shown["command"]
