"""What Great Expectations keeps of validations in a folder: suites, checkpoints, results, and the Data Docs of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Any
from urllib.parse import unquote

from answerkey.tasks.validate.library import as_suite, great_expectations, its_own_project
from answerkey.tasks.validate.validate import Check

SITE = "pages/_data-docs"
_SOURCE = "answerkey"
_DRAWN = (
    "expect_column_quantile_values_to_be_between",
    "expect_column_pair_cramers_phi_value_to_be_less_than",
    "expect_column_kl_divergence_to_be_less_than",
)
"""Types of which the library draws a table or a chart of what was observed: a sentence is no such thing."""


@dataclass(frozen=True, slots=True)
class Pages:
    """Names of pages in the store of a home: those written, of which `first` is to be read first, and those removed."""

    first: str
    written: tuple[str, ...]
    removed: tuple[str, ...]


def keep_validation(
    root: str,
    run_id: str,
    dataset: str,
    suites: Mapping[str, Sequence[Mapping[str, Any]]],
    outcomes: Sequence[Check],
    most: int,
) -> Pages:
    """Keep a validation in the file context of the folder `root`, and add it to the Data Docs.

    Args:
        suites: by name, the expectations as arguments of `ExpectationConfiguration`, each with a name in its `meta`.
        most: results to keep of the data set and each suite; older ones are removed with their pages.
    """
    with its_own_project(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library = great_expectations()
        context = library.get_context(mode="file", project_root_dir=root)
        asset = _asset(context, dataset)
        definitions = [
            library.ValidationDefinition(name=f"{dataset} {name}", data=asset, suite=as_suite(name, expectations))
            for name, expectations in suites.items()
        ]
        # Adds its definitions, and these their suites.
        checkpoint = context.checkpoints.add_or_update(
            library.Checkpoint(name=dataset, validation_definitions=definitions, actions=[])
        )
        pages = [_keep(context, one, run_id, dataset, outcomes) for one in checkpoint.validation_definitions]
        removed = _forget_old(context, dataset, most)
        built = [*pages, *(page.expectation_suite_identifier for page in pages)]
        context.build_data_docs(resource_identifiers=built)
        names = [name for one in built for name in _names(context, one)]
        broken = {outcome.rule for outcome in outcomes if not outcome.success}
        rules = [{one["meta"]["name"] for one in expectations} for expectations in suites.values()]
        first = names[next((n for n, of_one in enumerate(rules) if of_one & broken), 0)]
        return Pages(first, tuple(names), tuple(removed))


def _asset(context: Any, dataset: str) -> Any:
    """The batch definition of a data set: a data frame that is passed when the checkpoint runs."""
    try:
        source = context.data_sources.get(_SOURCE)
    except KeyError:
        source = context.data_sources.add_pandas(_SOURCE)
    try:
        return source.get_asset(dataset).get_batch_definition("rows")
    except LookupError:
        return source.add_dataframe_asset(dataset).add_batch_definition_whole_dataframe("rows")


def _keep(context: Any, definition: Any, run_id: str, dataset: str, outcomes: Sequence[Check]) -> Any:
    """Store the outcomes as the result of a validation definition; returns its identifier."""
    from great_expectations.core import ExpectationSuiteValidationResult, RunIdentifier
    from great_expectations.data_context.types.resource_identifiers import (
        ExpectationSuiteIdentifier,
        ValidationResultIdentifier,
    )

    of_rule: dict[str, list[Check]] = {}
    for outcome in outcomes:
        of_rule.setdefault(outcome.rule, []).append(outcome)
    results = [
        _result(one.configuration, of_rule[one.meta["name"]])
        for one in definition.suite.expectations
        if one.meta["name"] in of_rule
    ]
    held = sum(result.success for result in results)
    run = RunIdentifier(run_name=run_id, run_time=datetime.now(UTC))
    kept = ExpectationSuiteValidationResult(
        success=held == len(results),
        results=results,
        suite_name=definition.suite.name,
        statistics={
            "evaluated_expectations": len(results),
            "successful_expectations": held,
            "unsuccessful_expectations": len(results) - held,
            "success_percent": 100 * held / max(len(results), 1),
        },
        meta={
            "great_expectations_version": great_expectations().__version__,
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
    place = ValidationResultIdentifier(batch_identifier=kept.batch_id, expectation_suite_identifier=suite, run_id=run)
    context.validation_results_store.store_validation_results(
        suite_validation_result=kept,
        suite_validation_result_identifier=place,
        expectation_suite_identifier=suite,
    )
    return place


def _result(configuration: Any, checks: Sequence[Check]) -> Any:
    """One expectation with its counts, in the form of the library; a rule of releases has a check for each of them,
    whose counts add up, unless there are so many that one says how many of them break it."""
    from great_expectations.core import ExpectationValidationResult

    counted = [check for check in checks if check.release is None] or checks
    n_failed, n_checked = sum(check.n_failed for check in counted), sum(check.n_checked for check in counted)
    # It has names of releases in it, and the pages show it as it is.
    said = [escape(check.message, quote=False) for check in checks if not check.success]
    share = 100 * n_failed / max(n_checked, 1)
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
            **({"observed_value": "; ".join(said)} if said and configuration.type not in _DRAWN else {}),
        },
        exception_info={"raised_exception": False, "exception_traceback": None, "exception_message": None},
    )


def _forget_old(context: Any, dataset: str, most: int) -> list[str]:
    """Remove the results of a data set beyond the newest; returns the names of their pages."""
    store = context.validation_results_store
    keys = [key for key in store.list_keys() if key.batch_identifier == f"{_SOURCE}-{dataset}"]
    by_suite: dict[str, list[Any]] = {}
    for key in sorted(keys, key=lambda key: key.run_id.run_time):
        by_suite.setdefault(key.expectation_suite_identifier.name, []).append(key)
    old = [key for of_suite in by_suite.values() for key in of_suite[:-most]]
    for key in old:
        store.remove_key(key)
    return [name for key in old for name in _names(context, key)]


def _names(context: Any, page: Any) -> list[str]:
    """The names of a page in the store of the home. Of its address, the library quotes this part alone."""
    sites = context.get_docs_sites_urls(resource_identifier=page)
    return [f"{SITE}/{unquote(str(site['site_url']).rpartition(f'/{SITE}/')[2])}" for site in sites]
