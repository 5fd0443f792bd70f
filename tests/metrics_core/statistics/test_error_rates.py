"""The error rates of docs/statistics.md come out again with fewer repetitions: coverage, false findings, power."""

import math
import sys

import pytest

from tests.metrics_core.metrics_help import ROOT

sys.path.insert(0, str(ROOT / "benchmarks/studies"))
import error_rates

CELLS = {cell.name: cell for table in error_rates.TABLES for cell in table.cells}
REPETITIONS = 300


@pytest.mark.slow
@pytest.mark.parametrize("name", CELLS)
def test_the_error_rates_of_the_document(name):
    stored = error_rates.stored()[name]
    for head, figure in error_rates.measure(CELLS[name], REPETITIONS).items():
        expected, spread = stored[head], 1e-6
        if figure.runs and 0 <= expected.value <= 1:
            # Four standard errors of a rate, which is at least that of one case.
            rate = min(max(expected.value, 1 / figure.runs), 1 - 1 / figure.runs)
            spread = 4 * math.sqrt(rate * (1 - rate) * (1 / figure.runs + 1 / expected.runs))
        assert (figure.text, figure.value) == (expected.text, pytest.approx(expected.value, abs=spread)), head
