"""What the documents promise: their examples run and print what stands there, and their links lead somewhere."""

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from metrics_core.registry import METRICS

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "deployments/README.md",
]


def test_the_library_example_prints_what_stands_there() -> None:
    text = (ROOT / "docs/library.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    [expected] = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    assert printed.getvalue() == expected


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files(document: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8"))
    assert [target for target in targets if not (document.parent / target).exists()] == []


def test_every_metric_is_described() -> None:
    text = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    assert [name for name in METRICS if f"| `{name}` |" not in text] == []


def test_commands_in_documents_name_options_that_exist() -> None:
    text = "".join((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/judge.md"))
    used = set(re.findall(r"[ `](--[a-z-]+)", text))
    helps = [
        subprocess.run(
            [sys.executable, "-m", "flows.cli", command, "--help"], check=True, cwd=ROOT, capture_output=True, text=True
        ).stdout
        for command in ("evaluate", "judge", "report")
    ]
    assert len(used) >= 18
    assert {option for option in used if not any(option in page for page in helps)} == set()
