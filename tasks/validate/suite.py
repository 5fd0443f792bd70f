"""The contract as a suite of Great Expectations, and which rows break it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from answerkey.metrics_core.sample import content_hash
from answerkey.tasks.validate.cache import add_to_cache, cached
from answerkey.tasks.validate.contract import RELEASE_RULES, Contract, Rule, row_rules
from answerkey.tasks.validate.expectations import Expectation, Suite, check_rows

if TYPE_CHECKING:
    import duckdb

_FLAGGED_ROWS = 1_000_000
"""Rows of a data frame with the flags of all rules."""
_MOST_CACHED = 1_000
"""Positions; where more rows break the rules, they are checked in each run."""
_positions_by_key: dict[str, list[list[int]]] = {}
"""The positions that this process has found: clean data sets have equal flags."""


def breaking(
    db: duckdb.DuckDBPyConnection, table: str, rules: Sequence[Rule], home: Path | None = None
) -> list[list[int]]:
    """Return the positions, from 0 and ascending, of the rows that break each rule.

    DuckDB makes a column of flags for each rule, and Great Expectations checks that all of them are 0. If equal flags
    were checked before, the result is in the cache.

    Args:
        table: of `measures.sql`, with a column `position`, from 0 without a gap, and those that the rules are about.
        home: the folder of a home, which has a cache for later processes; None: there is none.

    Raises:
        UserError: an expectation could not be run, which is not the same as rows that break it.
    """
    flags = ", ".join(f"({rule.column} > {rule.limit})::TINYINT AS {rule.name}" for rule in rules)
    db.execute(f"CREATE OR REPLACE TEMP VIEW {table}_flags AS SELECT position, {flags} FROM {table}")
    # Equal for tables of which the same rows break the same rules
    broken = f"FROM {table}_flags WHERE greatest(*COLUMNS(* EXCLUDE position)) > 0"
    [fingerprint] = db.execute(f"SELECT count(*), sum(hash(*COLUMNS(*))::HUGEINT) {broken}").fetchall()
    key = content_hash([[rule.name for rule in rules], str(fingerprint)])
    in_home = cached(home) if home else {}
    positions = _positions_by_key.get(key, in_home.get(key))
    if positions is None:
        [(n_rows,)] = db.execute(f"SELECT count(*) FROM {table}").fetchall()
        window_query = f"FROM {table}_flags WHERE position >= $first AND position < $end ORDER BY position"
        windows = [{"first": start, "end": start + _FLAGGED_ROWS} for start in range(0, max(n_rows, 1), _FLAGGED_ROWS)]
        # An index with a name would make Great Expectations name each row by a mapping
        frames = (db.execute(window_query, window).df().set_index("position").rename_axis(None) for window in windows)
        suite = Suite("contract", tuple(map(_expectation, rules)))
        positions = [outcome.positions for outcome in check_rows(suite, frames)]
    if sum(map(len, positions)) <= _MOST_CACHED:
        _positions_by_key[key] = positions
        if home and key not in in_home:
            add_to_cache(home, {key: positions})
    return positions


def _expectation(rule: Rule) -> Expectation:
    return Expectation(
        name=rule.name,
        severity=rule.severity,
        sentence=f"{rule.holds[:1].upper()}{rule.holds[1:]}",
        kind="expect_column_values_to_be_in_set",
        kwargs={"column": rule.name, "value_set": [0]},
        columns=(rule.name,),
        rows=True,
        row_by_row=True,
    )


def contract_suite(contract: Contract) -> Suite:
    """Return the whole contract as a suite: what must hold of the data set, of its rows and of the releases."""
    share = contract.max_quarantined
    not_empty = Expectation(
        name="not_empty",
        severity="critical",
        sentence="There are rows",
        kind="expect_table_row_count_to_be_between",
        kwargs={"min_value": 1},
    )
    quarantined_share = Expectation(
        name="quarantined_share",
        severity="critical",
        sentence=f"At most {100 * share:.4g} % of the rows are in quarantine",
        kind="expect_column_mean_to_be_between",
        kwargs={"column": "quarantined", "max_value": share},
    )
    rules = (*row_rules(contract), *RELEASE_RULES)
    return Suite("contract", (not_empty, quarantined_share, *map(_expectation, rules)))
