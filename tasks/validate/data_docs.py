"""Validations in the folder `great_expectations` of a home, as Great Expectations keeps them, with pages to read them.

`gx.get_context(mode="file", project_root_dir="HOME/great_expectations")` opens it. No text of a row is written to it.
"""

from __future__ import annotations

import itertools
import re
import shutil
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from html import escape
from typing import Any
from urllib.parse import unquote

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.sample import content_hash
from answerkey.tasks.validate.contract import Contract
from answerkey.tasks.validate.expectations import contract_suite, read_suite
from answerkey.tasks.validate.library import (
    FOLDER,
    add_to_cache,
    as_suite,
    cached,
    great_expectations,
    its_own_project,
)
from answerkey.tasks.validate.validate import Check, Validation
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import text

SITE = "pages/_data-docs"
_SOURCE = "answerkey"
_TYPES_WITH_CHART = (
    "expect_column_quantile_values_to_be_between",
    "expect_column_pair_cramers_phi_value_to_be_less_than",
    "expect_column_kl_divergence_to_be_less_than",
)
"""Types of which the library draws a table or a chart of what was observed: a sentence is no such thing."""
_TRACKING = re.compile(
    r"<img[^>]*great-expectations-web-assets[^>]*>|<footer>.*?</footer>"
    r"|background: url\('https://great-expectations-web-assets[^;]*;",
    re.DOTALL,
)
_MAX_RESULTS = 50
"""Results kept of each data set and suite; what older ones say is in the table `validations`."""


def build_data_docs(home: Home, run_id: str, dataset: str, contract: Contract, checked: Validation) -> str:
    """Keep a validation in the context of the home, and add it to the Data Docs.

    Where they have a page with the same outcomes of the same rules already, it is left at that.

    Returns:
        The name of its page in the store of the home: that of the first suite that the rows break, else the contract's.

    Raises:
        UserError: a page cannot be written.
    """
    suites = {"contract": [expectation.config for expectation in contract_suite(contract).expectations]}
    outcomes = [asdict(check) for check in checked.checks]
    cache_key = content_hash([dataset, suites["contract"], contract.expectations, outcomes])
    # Equal outcomes have one page
    page: str = cached(home.local).get(cache_key, "")
    if page and home.store.exists(page):
        return page

    if contract.expectations:
        own_suite = read_suite(contract.expectations)
        suites[own_suite.name] = [expectation.config for expectation in own_suite.expectations]

    # The library keeps the results in the folder of the home, and makes pages of them
    root = (home.local / FOLDER).resolve()
    settings = root / "gx" / "great_expectations.yml"
    (home.local / SITE).mkdir(parents=True, exist_ok=True)
    # One process at a time.
    with home.warehouse.claimed(FOLDER, wait=True):
        if not settings.exists():
            settings.parent.mkdir(parents=True, exist_ok=True)
            settings.write_text(text("answerkey.tasks.validate", "great_expectations.yml"), encoding="utf-8")
        with its_own_project(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            context = great_expectations().get_context(mode="file", project_root_dir=str(root))
            pages = [
                _store_result(context, run_id, dataset, name, expectations, checked.checks)
                for name, expectations in suites.items()
            ]
            context.checkpoints.add_or_update(
                great_expectations().Checkpoint(
                    name=dataset, validation_definitions=[definition for definition, _ in pages], actions=[]
                )
            )
            removed = _remove_old(context, dataset)
            identifiers = [*(page for _, page in pages), *(page.expectation_suite_identifier for _, page in pages)]
            context.build_data_docs(resource_identifiers=identifiers)
            page_names = list(itertools.chain.from_iterable(_page_names(context, page) for page in identifiers))

        for page in removed:
            (home.local / page).unlink(missing_ok=True)
            if home.shared:
                home.store.remove(page)

        # Images and links on new pages report each visit to the makers of the library
        for name in (*page_names, f"{SITE}/index.html"):
            file = home.local / name
            if not file.is_file():
                raise UserError(f"{file.parent}: a page cannot be written here; is the disk full?")
            file.write_text(_TRACKING.sub("", file.read_text(encoding="utf-8")), encoding="utf-8")
        if home.shared:
            _upload_site(home)

    # The page to link is that of the first suite that the rows break
    broken = {check.rule for check in checked.checks if not check.success}
    page = page_names[0]
    for suite_page, expectations in zip(page_names, suites.values(), strict=False):
        if any(expectation["meta"]["name"] in broken for expectation in expectations):
            page = suite_page
            break
    add_to_cache(home.local, {cache_key: page})
    return page


def _upload_site(home: Home) -> None:
    """Copy the site to the bucket of a home, where the pages of its reports are."""
    shared_sizes = {file.name: file.size for file in home.store.files(SITE)}
    for file in sorted((home.local / SITE).rglob("*")):
        name = file.relative_to(home.local).as_posix()
        if file.is_file() and shared_sizes.get(name) != file.stat().st_size:
            with home.store.atomic_write(name) as unfinished:
                shutil.copyfile(file, unfinished)


def _store_result(
    context: Any,
    run_id: str,
    dataset: str,
    name: str,
    expectations: Sequence[Mapping[str, Any]],
    outcomes: Sequence[Check],
) -> tuple[Any, Any]:
    """Store the outcomes as the result of a suite; returns its validation definition, and the result's identifier.

    Args:
        expectations: as arguments of `ExpectationConfiguration`, each with a name in its `meta`.
    """
    from great_expectations.core import ExpectationSuiteValidationResult, RunIdentifier
    from great_expectations.data_context.types.resource_identifiers import (
        ExpectationSuiteIdentifier,
        ValidationResultIdentifier,
    )

    library = great_expectations()
    # The batch definition of a data set is a data frame that is passed when the checkpoint runs
    try:
        source = context.data_sources.get(_SOURCE)
    except KeyError:
        source = context.data_sources.add_pandas(_SOURCE)
    try:
        batch_definition = source.get_asset(dataset).get_batch_definition("rows")
    except LookupError:
        batch_definition = source.add_dataframe_asset(dataset).add_batch_definition_whole_dataframe("rows")
    stored = context.suites.add_or_update(as_suite(name, expectations))
    definition = context.validation_definitions.add_or_update(
        library.ValidationDefinition(name=f"{dataset} {name}", data=batch_definition, suite=stored)
    )

    # Each expectation gets the checks of the rule that it stands for
    checks_by_rule = defaultdict[str, list[Check]](list)
    for outcome in outcomes:
        checks_by_rule[outcome.rule].append(outcome)
    results = [
        _expectation_result(expectation.configuration, checks_by_rule[expectation.meta["name"]])
        for expectation in definition.suite.expectations
        if expectation.meta["name"] in checks_by_rule
    ]
    n_held = sum(result.success for result in results)

    # The result as the library would have written it after a run of its own
    run = RunIdentifier(run_name=run_id, run_time=datetime.now(UTC))
    suite_result = ExpectationSuiteValidationResult(
        success=n_held == len(results),
        results=results,
        suite_name=definition.suite.name,
        statistics={
            "evaluated_expectations": len(results),
            "successful_expectations": n_held,
            "unsuccessful_expectations": len(results) - n_held,
            "success_percent": 100 * n_held / max(len(results), 1),
        },
        meta={
            "great_expectations_version": library.__version__,
            "batch_spec": {"data_asset_name": dataset},
            "active_batch_definition": {
                "datasource_name": _SOURCE,
                "data_asset_name": dataset,
                "batch_identifiers": {},
            },
            "validation_id": definition.id,
            "run_id": run,
            "validation_time": run.run_time,
        },
        batch_id=f"{_SOURCE}-{dataset}",
    )
    suite = ExpectationSuiteIdentifier(name=definition.suite.name)
    identifier = ValidationResultIdentifier(
        batch_identifier=suite_result.batch_id, expectation_suite_identifier=suite, run_id=run
    )
    context.validation_results_store.store_validation_results(
        suite_validation_result=suite_result,
        suite_validation_result_identifier=identifier,
        expectation_suite_identifier=suite,
    )
    return definition, identifier


def _expectation_result(configuration: Any, checks: Sequence[Check]) -> Any:
    """One expectation with its counts, in the form of the library; a rule of releases has a check for each of them,
    whose counts add up, unless there are so many that one says how many of them break it."""
    from great_expectations.core import ExpectationValidationResult

    counted_checks = [check for check in checks if check.release is None] or checks
    n_failed = sum(check.n_failed for check in counted_checks)
    n_checked = sum(check.n_checked for check in counted_checks)
    # It has names of releases in it, and the pages show it as it is.
    messages = [escape(check.message, quote=False) for check in checks if not check.success]
    share = 100 * n_failed / max(n_checked, 1)
    shows_text = messages and configuration.type not in _TYPES_WITH_CHART
    observed = {"observed_value": "; ".join(messages)} if shows_text else {}
    return ExpectationValidationResult(
        success=all(check.success for check in checks),
        expectation_config=configuration,
        result={
            "element_count": n_checked,
            "unexpected_count": n_failed,
            "unexpected_percent": share,
            "missing_count": 0,
            "missing_percent": 0.0,
            "unexpected_percent_total": share,
            "unexpected_percent_nonmissing": share,
            "partial_unexpected_list": [],
            **observed,
        },
        exception_info={"raised_exception": False, "exception_traceback": None, "exception_message": None},
    )


def _remove_old(context: Any, dataset: str) -> list[str]:
    """Remove the results of a data set beyond the newest; returns the names of their pages."""
    store = context.validation_results_store
    keys = [key for key in store.list_keys() if key.batch_identifier == f"{_SOURCE}-{dataset}"]
    by_suite = defaultdict[str, list[Any]](list)
    for key in sorted(keys, key=lambda key: key.run_id.run_time):
        by_suite[key.expectation_suite_identifier.name].append(key)
    page_names = []
    for suite_keys in by_suite.values():
        for key in suite_keys[:-_MAX_RESULTS]:
            store.remove_key(key)
            page_names += _page_names(context, key)
    return page_names


def _page_names(context: Any, page: Any) -> list[str]:
    """The names of a page in the store of the home. Of its address, the library quotes this part alone."""
    sites = context.get_docs_sites_urls(resource_identifier=page)
    return [f"{SITE}/{unquote(str(site['site_url']).rpartition(f'/{SITE}/')[2])}" for site in sites]
