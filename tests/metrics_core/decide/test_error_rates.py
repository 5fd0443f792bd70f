"""The error rates of docs/error_rates.md are those that were measured, and come out again with fewer repetitions."""

import math
import sys

import pytest

from tests.metrics_core.metrics_help import ROOT

sys.path.insert(0, str(ROOT / "benchmarks/studies"))
import error_rates

CELLS = {cell.name: cell for table in error_rates.TABLES for cell in table.cells}
STORED = error_rates.stored()
EXACT = (
    "mean of 0/1 rows: 30",
    "difference of 0/1 rows: 30",
    "gate, 0/1 rows: 30, .1, broken only",
    "power, 0/1 rows: 30, .3",
)
REPETITIONS = 400


def test_the_tables_of_the_document_are_those_that_were_measured():
    text = error_rates.DOCUMENT.read_text(encoding="utf-8")
    assert error_rates.written(text, STORED) == text, "the tables are not those of error_rates.json"
    assert STORED.keys() == CELLS.keys()
    runs = [figure.runs for row in STORED.values() for figure in row.values() if figure.bar and figure.runs]
    assert len(runs) > 200
    assert sum(n >= 2000 for n in runs) > 0.8 * len(runs)


SIMULATED = [name for name in CELLS if name not in EXACT and not name.endswith(": 1,000")]
"""Without the longest rows, which differ little from those of 100 and 300 rows."""


@pytest.mark.parametrize("name", [*EXACT, *(pytest.param(name, marks=pytest.mark.nightly) for name in SIMULATED)])
def test_a_row_of_the_tables_comes_out_again(name):
    for head, figure in error_rates.measure(CELLS[name], REPETITIONS).items():
        expected = STORED[name][head]
        if figure.runs:
            # Four standard errors of a rate, which is at least that of one case.
            rate = min(max(expected.value, 1 / figure.runs), 1 - 1 / figure.runs)
            spread = {"abs": 4 * math.sqrt(rate * (1 - rate) * (1 / figure.runs + 1 / expected.runs))}
        else:
            # Exact rates, or medians of widths and of stated effects.
            spread = {"abs": 1e-6} if figure.bar else {"rel": 0.25}
        assert (figure.text, figure.value) == (expected.text, pytest.approx(expected.value, **spread)), head
