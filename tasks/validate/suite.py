"""Rules as expectations of Great Expectations, and which of the numbers that occur break them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.sample import content_hash
from answerkey.tasks.validate.cache import MOST, add_to_cache, cached
from answerkey.tasks.validate.contract import RELEASE_RULES, Contract, Expectation, row_rules, table_rules
from answerkey.tasks.validate.library import outside_bounds

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Positions = npt.NDArray[np.int64]

Number = int | float

_MOST_POSITIONS = 64
"""Of longer lists, nothing is kept."""

_known: dict[str, list[int]] = {}
"""What Great Expectations has found in this process: most flags have the same few numbers in every data set."""


def breaking(
    numbers: Mapping[str, Sequence[Number]], expectations: Sequence[Expectation], home: Path | None = None
) -> list[Positions]:
    """The positions, from 0 and ascending, of the numbers that break each expectation, in the order of the
    expectations.

    Great Expectations checks them all in one run. What it has found before, of the same bounds and the same numbers, is
    not asked again.

    Args:
        numbers: the numbers of each column; columns may differ in length. NaN breaks nothing.
        expectations: about these columns.
        home: the folder of a home, where the findings are kept for the next run; None: for this process only.

    Raises:
        RuntimeError: an expectation could not be run, which is not the same as numbers that break it.
    """
    import numpy as np

    kept = cached(home) if home else {}
    known = kept | _known
    keys = [content_hash([one.low, one.high, numbers.get(one.column, one.column)]) for one in expectations]
    new = {key: one for key, one in zip(keys, expectations, strict=True) if key not in known}
    columns = {one.column: list(numbers[one.column]) for one in new.values() if one.column in numbers}
    known |= zip(new, outside_bounds(columns, [*map(_bounds, new.values())]), strict=True) if new else ()

    short = {key: known[key] for key in keys if len(known[key]) <= _MOST_POSITIONS}
    if len(_known) < MOST:
        _known.update(short)
    if home and not short.keys() <= kept.keys():
        add_to_cache(home, short)
    return [np.asarray(known[key], dtype=np.int64) for key in keys]


def contract_suite(contract: Contract) -> list[dict[str, Any]]:
    """The whole contract as expectations: what must hold of the rows, of the releases and of the data set."""
    return [*map(_bounds, (*table_rules(contract), *row_rules(contract), *RELEASE_RULES))]


def _bounds(one: Expectation) -> dict[str, Any]:
    return {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": one.column, "min_value": one.low, "max_value": one.high},
        "severity": one.severity,
        "description": f"{one.description[:1].upper()}{one.description[1:]}",
        "meta": {"name": one.name},
    }
