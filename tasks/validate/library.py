"""Great Expectations: imported late, since that takes longer than what a run does with it, and quiet.

What it found is cached in a file of the home, by the `content_hash` of what was asked: a second run on known data does
not import the library.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from answerkey.tasks.warehouse.store import atomic_write

if TYPE_CHECKING:
    import great_expectations as gx
    import pandas as pd

FOLDER = "great_expectations"
"""The folder of a home with everything of the library."""
_FILE = "known.json"
_VERSION = "great-expectations"
_MAX_OUTCOMES = 4_096
"""Outcomes that are kept: the newest."""
_RESULT_FORMAT = {
    "result_format": "COMPLETE",
    "exclude_unexpected_values": True,
    "return_unexpected_index_query": False,
    "partial_unexpected_count": 0,
}
_one_at_a_time = threading.Lock()


def as_expectation(arguments: Mapping[str, Any]) -> Any:
    """An expectation as an object of the library, given arguments of `ExpectationConfiguration`.

    Raises:
        ValueError: they do not fit its type; the message is one line.
    """
    great_expectations()
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ExpectationConfiguration(**arguments).to_domain_obj()
    except Exception as error:
        listed = getattr(error, "errors", None)
        if callable(listed):
            problems = [f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in listed()]
            raise ValueError("; ".join(problems)) from error
        raise ValueError(" ".join(str(error).split())[:300]) from error


def as_suite(name: str, expectations: Sequence[Mapping[str, Any]]) -> gx.ExpectationSuite:
    """A suite of expectations, each given as arguments of `ExpectationConfiguration`."""
    library_expectations = list(map(as_expectation, expectations))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        suite: gx.ExpectationSuite = great_expectations().ExpectationSuite(name=name, expectations=library_expectations)
    return suite


def validated(frame: pd.DataFrame, suite: gx.ExpectationSuite) -> list[Any]:
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
        return list(batch.validate(suite, result_format=_RESULT_FORMAT).results)


@contextmanager
def its_own_project() -> Iterator[None]:
    """Around work with a context, which makes itself the project of the whole process: one at a time, and at the end
    the project is again the one that the user of the process has."""
    great_expectations()
    from great_expectations.data_context.data_context.context_factory import project_manager
    from great_expectations.exceptions.exceptions import DataContextRequiredError

    with _one_at_a_time:
        try:
            project = project_manager.get_current_project()
        except DataContextRequiredError:
            project = None
        try:
            yield
        finally:
            project_manager.set_project(project)


def great_expectations() -> ModuleType:
    """The library, imported late (4 s of CPU), silent, and with its usage statistics off."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    logging.getLogger("great_expectations").setLevel(logging.ERROR)
    # A page that cannot be written is a traceback here, and no exception: `build_data_docs` looks for its pages itself.
    logging.getLogger("great_expectations.render").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import great_expectations as gx
        import great_expectations.expectations
    return gx


def cached(home: Path) -> dict[str, Any]:
    """The cached outcomes in the folder of a home, by key; none of another version of the library."""
    try:
        document = json.loads((home / FOLDER / _FILE).read_text(encoding="utf-8"))
        return dict(document["outcomes"]) if document["version"] == version(_VERSION) else {}
    except (OSError, ValueError, KeyError, TypeError):
        # To know nothing costs time, and is never wrong.
        return {}


def add_to_cache(home: Path, outcomes: Mapping[str, Any]) -> None:
    """Add outcomes to the cache; of more than `_MAX_OUTCOMES`, the oldest go.

    Two processes that do this at once may lose what one of them has added, which is then asked again.
    """
    newest = [*{**cached(home), **outcomes}.items()][-_MAX_OUTCOMES:]
    with atomic_write(home / FOLDER / _FILE) as file:
        file.write_text(json.dumps({"version": version(_VERSION), "outcomes": dict(newest)}), encoding="utf-8")
