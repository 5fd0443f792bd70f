"""docs/decisions.md says what the study decisions.py measured, and the package has the judges' bias from there."""

import json
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).resolve().parents[1]
CODE = """
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
    code = f"import sys; sys.path[:0] = [{str(ROOT / 'benchmarks/studies')!r}, {str(ROOT)!r}]\n{CODE}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_packaged_bias_is_the_measured_one():
    packaged = json.loads((ROOT / "metrics_core/offline_judge/bias.json").read_text(encoding="utf-8"))
    tables = json.loads((ROOT / "benchmarks/studies/decisions.json").read_text(encoding="utf-8"))
    measured: dict[str, dict[str, list[float]]] = {}
    for part in tables:
        own = measured.setdefault(part["judge"], {"all": []})
        own[part["data"]] = part["bias"]
        own["all"] += part["bias"]
    for judge, own in measured.items():
        assert packaged[judge] == {
            name: {"pairs": len(shifts), "median": pytest.approx(median(shifts), abs=6e-5), "largest": max(shifts)}
            for name, shifts in own.items()
        }
