"""The part of Great Expectations that validation needs: which of the numbers that occur break an expectation."""

from __future__ import annotations

import logging
import os
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from answerkey.tasks.validate.contract import Contract, Expectation, release_rules, row_rules, table_rules

if TYPE_CHECKING:
    import great_expectations as gx
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

    Positions = npt.NDArray[np.int64]

Number = int | float

_RESULT_FORMAT = {
    "result_format": "COMPLETE",
    "exclude_unexpected_values": True,
    "return_unexpected_index_query": False,
    "partial_unexpected_count": 0,
}
_one_at_a_time = threading.Lock()
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
    found = dict(zip(new, _run(_frame(numbers, [*new.values()]), [*new.values()]), strict=True)) if new else {}
    positions = [found[key] if key in found else _known[key] for key in keys]
    for key, of_one in found.items():
        if len(key) <= _SHORT and len(_known) < _REMEMBERED:
            _known[key] = of_one
    return [np.asarray(of_one, dtype=np.int64) for of_one in positions]


def _frame(numbers: Mapping[str, Sequence[Number]], expectations: Sequence[Expectation]) -> pd.DataFrame:
    """The columns of the expectations, filled up with missing values, which break nothing."""
    import pandas as pd

    columns = dict.fromkeys(one.column for one in expectations)
    return pd.DataFrame({column: pd.Series(list(numbers[column])) for column in columns if column in numbers})


def _run(frame: pd.DataFrame, expectations: Sequence[Expectation]) -> list[list[int]]:
    # Results need not keep the order of the suite.
    by_name = {result.expectation_config.meta["name"]: result for result in validated(frame, suite(expectations))}
    for expectation in expectations:
        _require_run(expectation, by_name[expectation.name])
    return [by_name[expectation.name].result["unexpected_index_list"] for expectation in expectations]


def validated(frame: pd.DataFrame, wanted: gx.ExpectationSuite) -> list[Any]:
    """What Great Expectations says about the rows of `frame`, an expectation a result, in any order.

    Rows are named by the index of the frame. No value of a row is in the results but what aggregates observe.
    """
    library = great_expectations()
    from great_expectations.data_context.types import base

    # The stores' own defaults would set up a site of documentation pages in the folder for temporary files.
    settings = base.DataContextConfig(
        store_backend_defaults=base.InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        progress_bars=base.ProgressBarsConfig(globally=False),
        analytics_enabled=False,
    )
    with its_own_project(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        context = library.get_context(mode="ephemeral", project_config=settings)
        asset = context.data_sources.add_pandas("staged").add_dataframe_asset("rows")
        definition = asset.add_batch_definition_whole_dataframe("all")
        batch = definition.get_batch(batch_parameters={"dataframe": frame})
        return list(batch.validate(wanted, result_format=_RESULT_FORMAT).results)


@contextmanager
def its_own_project() -> Iterator[None]:
    """Around work with a context, which makes itself the project of the whole process: one at a time, and at the end
    the project is again the one that the user of the process has."""
    great_expectations()
    from great_expectations.data_context.data_context.context_factory import project_manager
    from great_expectations.exceptions.exceptions import DataContextRequiredError

    with _one_at_a_time:
        try:
            before = project_manager.get_current_project()
        except DataContextRequiredError:
            before = None
        try:
            yield
        finally:
            project_manager.set_project(before)


def suite(expectations: Sequence[Expectation], name: str = "contract") -> gx.ExpectationSuite:
    """Expectations as a suite of Great Expectations: each with its severity, its sentence and its name."""
    library = great_expectations()
    made: gx.ExpectationSuite = library.ExpectationSuite(name=name, expectations=[_bounds(one) for one in expectations])
    return made


def contract_suite(contract: Contract) -> gx.ExpectationSuite:
    """The whole contract as a suite: what must hold of the rows, of the releases and of the data set."""
    return suite((*table_rules(contract), *row_rules(contract), *release_rules(contract)))


def _bounds(one: Expectation) -> Any:
    return great_expectations().expectations.ExpectColumnValuesToBeBetween(
        column=one.column,
        min_value=one.low,
        max_value=one.high,
        severity=one.severity,
        description=f"{one.description[:1].upper()}{one.description[1:]}",
        meta={"name": one.name},
    )


def failure_of(result: Any) -> str:
    """Why an expectation could not run (an unknown column, say), as distinct from data that break it; empty: it did."""
    info = result.exception_info or {}
    # One entry, or one per failed metric under the metric's id.
    entries = [info] if "raised_exception" in info else list(info.values())
    raised = (str(entry["exception_message"]) for entry in entries if entry["raised_exception"])
    return next(raised, "")


def _require_run(expectation: Expectation, result: Any) -> None:
    why = failure_of(result)
    if why or "unexpected_index_list" not in result.result:
        raise RuntimeError(
            f"the check `{expectation.name}` could not run: "
            f"{result.expectation_config.type} on column {expectation.column!r}: {why or 'it returned no list of rows'}"
        )


def problem(error: Exception) -> str:
    """What is wrong with the arguments of an expectation, in one line."""
    listed = getattr(error, "errors", None)
    if callable(listed):
        return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in listed())
    return " ".join(str(error).split())[:300]


def great_expectations() -> ModuleType:
    """The library, imported late (1.5 s of CPU), silent, and with its usage statistics off."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    logging.getLogger("great_expectations").setLevel(logging.ERROR)
    # A page that cannot be written is a traceback here, and no exception: `build_data_docs` looks for its pages itself.
    logging.getLogger("great_expectations.render").setLevel(logging.CRITICAL)
    with _imported_later("scipy.stats", "altair"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import great_expectations as gx
        import great_expectations.expectations
    return gx


@contextmanager
def _imported_later(*names: str) -> Iterator[None]:
    """Around an import of a library that imports these modules and seldom uses them.

    Great Expectations needs them for charts and for distributions, which three of its expectations are about; a third
    of its import went into them.
    """
    absent = {name: _Later(name) for name in names if name not in sys.modules}
    sys.modules.update(absent)
    try:
        yield
    finally:
        for name, module in absent.items():
            module.make_way(name)


class _Later(ModuleType):
    """Stands for a module until something of it is used."""

    def __getattr__(self, name: str) -> Any:
        # Tools that inspect all modules ask each for such names.
        if name.startswith("__") and name != "__path__":
            raise AttributeError(name)
        self.make_way(self.__name__)
        return getattr(import_module(self.__name__), name)

    def make_way(self, name: str) -> None:
        """Let the module itself be imported, by other threads too."""
        if sys.modules.get(name) is self:
            del sys.modules[name]
