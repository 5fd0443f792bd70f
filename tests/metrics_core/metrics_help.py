"""What the tests of the library share: one answer scored, files of rows, time that grows, imports of a process."""

import json
import sys
from pathlib import Path
from typing import Any

from answerkey import Measurement, Sample, evaluate
from tests.conftest import ROOT
from tests.kit.processes import finished


def scored(metric: str, answer: str | None, references: list[str], **options: Any) -> Measurement:
    """The measurement of one answer."""
    [measurement] = evaluate([Sample("1", answer, references)], [metric], **options)
    return measurement


def read_jsonl(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def imported_by(code: str, *modules: str) -> list[str]:
    """Which of these modules a new process has imported after it ran the code."""
    code += f"\nimport sys; print(*sorted({set(modules)!r} & set(sys.modules)))"
    process = finished([sys.executable, "-c", code], cwd=ROOT)
    assert (process.returncode, process.stderr) == (0, "")
    return process.stdout.split()
