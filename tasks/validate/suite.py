"""Rules as expectations of Great Expectations, and which of the numbers that occur break them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from answerkey.tasks.validate.contract import Contract, Expectation, release_rules, row_rules, table_rules
from answerkey.tasks.validate.library import outside_bounds

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Positions = npt.NDArray[np.int64]

Number = int | float

_REMEMBERED = 4_096
_SHORT = 64

_known: dict[tuple[Any, ...], list[int]] = {}
"""What Great Expectations has found already, by bounds and numbers: most flags have the same few in every data set."""


def breaking(numbers: Mapping[str, Sequence[Number]], expectations: Sequence[Expectation]) -> list[Positions]:
    """The positions, from 0 and ascending, of the numbers that break each expectation, in the order of the
    expectations.

    Great Expectations checks them all in one run; see `suite`. The same bounds and the same numbers are checked once,
    and what it found for few numbers is not run again in this process.

    Args:
        numbers: the numbers of each column; columns may differ in length. NaN breaks nothing.
        expectations: about these columns.

    Raises:
        RuntimeError: an expectation could not be run, which is not the same as numbers that break it.
    """
    import numpy as np

    keys = [(one.low, one.high, *numbers.get(one.column, ("no such column", one.column))) for one in expectations]
    new: dict[tuple[Any, ...], Expectation] = {}
    for one, key in zip(expectations, keys, strict=True):
        if key not in _known:
            new.setdefault(key, one)
    columns = {one.column: list(numbers[one.column]) for one in new.values() if one.column in numbers}
    found = dict(zip(new, outside_bounds(columns, [*map(_bounds, new.values())]), strict=True)) if new else {}
    positions = [found[key] if key in found else _known[key] for key in keys]
    for key, of_one in found.items():
        if len(key) <= _SHORT and len(_known) < _REMEMBERED:
            _known[key] = of_one
    return [np.asarray(of_one, dtype=np.int64) for of_one in positions]


def contract_suite(contract: Contract) -> list[dict[str, Any]]:
    """The whole contract as expectations: what must hold of the rows, of the releases and of the data set."""
    return [*map(_bounds, (*table_rules(contract), *row_rules(contract), *release_rules(contract)))]


def _bounds(one: Expectation) -> dict[str, Any]:
    return {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": one.column, "min_value": one.low, "max_value": one.high},
        "severity": one.severity,
        "description": f"{one.description[:1].upper()}{one.description[1:]}",
        "meta": {"name": one.name},
    }
