"""The part of Great Expectations that validation needs: which rows of a frame of numbers break an expectation."""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from answerkey.tasks.validate.contract import Expectation

if TYPE_CHECKING:
    import great_expectations as gx
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

    Positions = npt.NDArray[np.int64]

_RESULT_FORMAT = {
    "result_format": "COMPLETE",
    "exclude_unexpected_values": True,
    "return_unexpected_index_query": False,
    "partial_unexpected_count": 0,
}
_one_at_a_time = threading.Lock()


def breaking(frame: pd.DataFrame, expectations: Sequence[Expectation]) -> list[Positions]:
    """The positions, from 0 and ascending, of the rows that break each expectation, in the order of the expectations.

    Great Expectations checks them all; see `suite`. A missing value breaks nothing.

    Raises:
        RuntimeError: an expectation could not be run, which is not the same as data that break it.
    """
    import numpy as np

    columns = frame.columns.intersection([expectation.column for expectation in expectations])
    with _one_at_a_time:  # a context registers itself as the project of the whole process
        found = _run(_widened(frame[columns].reset_index(drop=True)), expectations)
    return [np.asarray(indices, dtype=np.int64) for indices in found]


def _widened(frame: pd.DataFrame) -> pd.DataFrame:
    """Small integers as 64-bit ones: the library compares others value by value, in Python."""
    return frame.astype(dict.fromkeys(frame.select_dtypes("integer").columns, "int64"))


def _run(frame: pd.DataFrame, expectations: Sequence[Expectation]) -> list[list[int]]:
    library = _great_expectations()
    from great_expectations.data_context.types import base

    # The stores' own defaults would set up a site of documentation pages in the folder for temporary files.
    settings = base.DataContextConfig(
        store_backend_defaults=base.InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        progress_bars=base.ProgressBarsConfig(globally=False),
        analytics_enabled=False,
    )
    context = library.get_context(mode="ephemeral", project_config=settings)
    asset = context.data_sources.add_pandas("staged").add_dataframe_asset("rows")
    definition = asset.add_batch_definition_whole_dataframe("all")
    batch = definition.get_batch(batch_parameters={"dataframe": frame})
    outcome = batch.validate(suite(expectations), result_format=_RESULT_FORMAT)
    # Results need not keep the order of the suite.
    by_name = {result.expectation_config.meta["rule"]: result for result in outcome.results}
    for expectation in expectations:
        _require_run(expectation, by_name[expectation.name])
    return [by_name[expectation.name].result["unexpected_index_list"] for expectation in expectations]


def suite(expectations: Sequence[Expectation]) -> gx.ExpectationSuite:
    """The contract as a suite of Great Expectations: each expectation with its severity, its sentence and its rule."""
    library = _great_expectations()
    made: gx.ExpectationSuite = library.ExpectationSuite(
        name="contract",
        expectations=[
            library.expectations.ExpectColumnValuesToBeBetween(
                column=expectation.column,
                min_value=expectation.low,
                max_value=expectation.high,
                severity=expectation.severity,
                description=expectation.description,
                meta={"rule": expectation.name},
            )
            for expectation in expectations
        ],
    )
    return made


def _require_run(expectation: Expectation, result: Any) -> None:
    """Raise if an expectation could not run (an unknown column, say), as distinct from data that break it."""
    info = result.exception_info or {}
    # One entry, or one per failed metric under the metric's id.
    entries = [info] if "raised_exception" in info else list(info.values())
    raised = [entry for entry in entries if entry["raised_exception"]]
    if raised or "unexpected_index_list" not in result.result:
        why = raised[0]["exception_message"] if raised else "it returned no list of rows"
        raise RuntimeError(
            f"the check `{expectation.name}` could not run: "
            f"{result.expectation_config.type} on column {expectation.column!r}: {why}"
        )


def _great_expectations() -> ModuleType:
    """The library, imported late (2 s, 160 MB), silent, and with its usage statistics off."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    logging.getLogger("great_expectations").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import great_expectations as gx
        import great_expectations.expectations
    return gx
