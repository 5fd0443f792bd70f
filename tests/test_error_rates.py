"""docs/statistics.md says what benchmarks/studies/error_rates.py measured, and what is exact there comes out again."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CODE = """
import numpy, error_rates
results = error_rates.stored()
text = error_rates.DOCUMENT.read_text(encoding="utf-8")
cells = {cell.name: cell for table in error_rates.TABLES for cell in table.cells}
assert error_rates.written(text, results) == text, "the tables are not those of error_rates.json"
assert set(results) == set(cells), sorted(set(results) ^ set(cells))
drawn = [one for row in results.values() for one in row.values() if one.bar and one.runs]
assert len(drawn) > 200 and sum(one.runs >= 2000 for one in drawn) > 0.8 * len(drawn)
for name in ("mean of 0/1 rows: 30", "difference of 0/1 rows: 30", "power, 0/1 rows: 30, .3"):
    for head, found in error_rates.measure(cells[name], 0).items():
        assert abs(found.value - results[name][head].value) < 1e-6, (name, head, found, results[name][head])
"""


def test_the_tables_are_those_that_were_measured():
    code = f"import sys; sys.path[:0] = [{str(ROOT / 'benchmarks/studies')!r}, {str(ROOT)!r}]\n{CODE}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
