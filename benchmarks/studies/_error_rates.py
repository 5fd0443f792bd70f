"""Building blocks of the tables of `error_rates.py`: figures, bars, and exact sums over all outcomes of 0/1 rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.stats import binom

Rng = np.random.Generator
Floats = npt.NDArray[np.float64]
RUNS = 2000
"""Exact figures are allowed the standard errors of so many repetitions."""
BROAD = 6.0
"""Outcomes farther than so many standard deviations away are left out: 1e-9 of all."""


@dataclass(frozen=True, slots=True)
class Bar:
    """What a figure is held to: `low` and `high`, and whether two standard errors of a simulation are allowed for."""

    low: float = -math.inf
    high: float = math.inf
    allowance: bool = False


COVERED = Bar(low=0.93)
ONE_SIDED = Bar(high=0.025, allowance=True)
HEAVY_TAILED = Bar(high=0.03, allowance=True)
ANY_FINDING = Bar(high=0.05, allowance=True)
POWERED = Bar(low=0.7)


@dataclass(frozen=True, slots=True)
class Figure:
    """A rate or another number. `runs` is 0 if it is exact; `text` replaces it where there is no number."""

    value: float
    bar: Bar | None = None
    runs: int = 0
    text: str = ""

    @property
    def misses(self) -> bool:
        """Whether the figure misses its bar."""
        if self.bar is None or self.text:
            return False
        spread = 0.0
        if self.bar.allowance:
            spread = 2 * math.sqrt(self.bar.high * (1 - self.bar.high) / (self.runs or RUNS))
        return not self.bar.low - 1e-9 <= self.value <= self.bar.high + spread + 1e-9


Row = Mapping[str, Figure]


@dataclass(frozen=True, slots=True)
class Cell:
    """One row of a table: its first columns, and the function that measures the others with a number of repetitions."""

    table: str
    labels: tuple[str, ...]
    measure: Callable[[Rng, int], Row]

    @property
    def name(self) -> str:
        return f"{self.table}: {', '.join(self.labels)}"


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the document: the place of its markers, the names of its first columns, and its rows."""

    name: str
    head: tuple[str, ...]
    cells: tuple[Cell, ...]


def table(name: str, head: tuple[str, ...], rows: Iterator[tuple[tuple[str, ...], Callable[[Rng, int], Row]]]) -> Table:
    return Table(name, head, tuple(Cell(name, labels, measure) for labels, measure in rows))


def number(value: float) -> str:
    """0.05 as .05 and 1 as 1."""
    return f"{value:g}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:,g}"


def counts(n: int, share: float) -> npt.NDArray[np.intp]:
    """The likely counts among `n` independent rows."""
    reach = BROAD * math.sqrt(n * share * (1 - share)) + 10 if 0 < share < 1 else 0
    return np.arange(max(0, math.floor(n * share - reach)), min(n, math.ceil(n * share + reach)) + 1)


def pairs(n: int, fixed: float, broken: float) -> Iterator[tuple[int, int, float]]:
    """The likely numbers of fixed and broken rows among `n`, each with its probability."""
    for up in counts(n, fixed):
        chance = float(binom.pmf(up, n, fixed))
        rest = broken / (1 - fixed) if fixed < 1 else 0.0
        for down in counts(n - int(up), rest):
            likely = chance * float(_pmf(int(down), n - int(up), rest))
            if likely > 1e-12:
                yield int(up), int(down), likely


@cache
def _pmf(k: int, n: int, share: float) -> float:
    return float(binom.pmf(k, n, share))


def change_of(fixed: int, broken: int, n: int) -> Floats:
    """Differences of `n` rows, of which some are fixed and some are broken."""
    return np.repeat([1.0, -1.0, 0.0], [fixed, broken, n - fixed - broken])
