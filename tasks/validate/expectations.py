"""Suites of Great Expectations: that of the contract, and one of a user in a file.

Expectations about values of single rows are run a batch of rows at a time; those about a column as a whole (a mean, a
unique key) need that column in memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from answerkey.metrics_core.document import is_text, read_yaml
from answerkey.metrics_core.errors import UserError, did_you_mean
from answerkey.metrics_core.sample import content_hash
from answerkey.tasks.validate.contract import RELEASE_RULES, Contract, Rule, reserved, row_rules
from answerkey.tasks.validate.library import (
    add_to_cache,
    as_expectation,
    as_suite,
    cached,
    great_expectations,
    validated,
)
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.warehouse import quoted

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

_SQL = statements(__name__)

COLUMNS = (
    "row", "sample_id", "release", "question", "answer", "missing_because", "repeat", "cluster", "label", "references",
    "facts", "context", "question_chars", "answer_chars", "n_references",
)  # fmt: skip
"""What expectations may be about, beside slices and other columns of the data."""

_ROW_BY_ROW = re.compile(
    r"expect_(column_values_to_(not_)?(be_(between|in_set|null|json_parseable|dateutil_parseable)"
    r"|match_(regex|regex_list|like_pattern|like_pattern_list|strftime_format|json_schema))"
    r"|column_value_lengths_to_(be_between|equal)"
    r"|column_pair_values_(a_to_be_greater_than_b|to_be_equal|to_be_in_set)"
    r"|select_column_values_to_be_unique_within_record|multicolumn_(sum_to_equal|values_to_be_(equal|unique)))"
)
"""Types that say the same of a row whatever the other rows are."""

_CONDITION = 'row_condition: {type: comparison, column: {name: release}, operator: "==", parameter: new}'
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
"""The keywords of a JSON schema that name another schema."""

_FLAGGED_ROWS = 1_000_000
"""Rows of a data frame with the flags of all rules."""
_MOST_CACHED = 1_000
"""Positions; where more rows break the rules, they are checked in each run."""
_positions_by_key: dict[str, list[list[int]]] = {}
"""The positions that this process has found: clean data sets have equal flags."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """One expectation of a suite: its name, what it says, and what happens where it does not hold.

    `rows` says whether single rows break it, which are then quarantined if it is critical. `row_by_row` says whether
    each row can be looked at without the others.
    """

    name: str
    severity: str
    sentence: str
    kind: str
    kwargs: Mapping[str, Any]
    meta: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    rows: bool = False
    row_by_row: bool = False
    mostly: float = 1.0

    @property
    def config(self) -> dict[str, Any]:
        """Return it as `library.as_expectation` takes it."""
        return {
            "type": self.kind,
            "kwargs": self.kwargs,
            "severity": self.severity,
            "meta": {**self.meta, "name": self.name},
            # Data Docs write the sentence into their pages as it is
            "description": escape(self.sentence, quote=False),
        }


class Suite(NamedTuple):
    """The expectations of a user, in the order of the file, under the name that they have together, and its text."""

    name: str
    expectations: tuple[Expectation, ...]
    text: str = ""


@dataclass(slots=True)
class ExpectationOutcome:
    """What the rows say about an expectation: the positions of those that break it, ascending from 0."""

    success: bool = True
    n_rows: int = 0
    n_missing: int = 0
    positions: list[int] = field(default_factory=list)
    observed: Any = None


def read_suite(suite: str, data_columns: Sequence[str] | None = None) -> Suite:
    """Read a suite in JSON or YAML, as Great Expectations writes it: its text, or the path of its file.

    Args:
        data_columns: the slices and other columns of the data, if they are known already; names are then checked.

    Raises:
        UserError: the file cannot be read, or is no suite: one line that names the expectation and what is wrong.
    """
    document = read_yaml(suite, "expectations")
    content = document.content
    file = document.file
    name = None
    entries = content
    if isinstance(content, dict):
        # Up to 0.18, Great Expectations had other names for the name and for the types
        name = content.get("name") or content.get("expectation_suite_name")
        entries = content.get("expectations")
    if not isinstance(entries, list) or not entries:
        raise UserError(f"{file}: not a suite: it needs a list `expectations`, each with `type` and `kwargs`")
    expectations = tuple(
        _read_expectation(expectation, f"{file}: expectation {n}") for n, expectation in enumerate(entries, start=1)
    )
    used_names = reserved()
    for n, expectation in enumerate(expectations, start=1):
        if expectation.name in used_names:
            raise UserError(
                f"{file}: expectation {n}: the name {expectation.name!r} is taken; give it one in `meta: name`"
            )
        used_names.add(expectation.name)
        if data_columns is not None:
            _check_columns(expectation, [*COLUMNS, *data_columns], f"{file}: expectation {n} ({expectation.name})")
    # It becomes the name of a file; the contract has a suite of its own.
    suite_name = re.sub(r"[^\w.-]+", "-", str(name or Path(file).stem)).strip("-.") or "own"
    # With a line break it is a text and no path, however brief it is.
    suite_text = suite if is_text(suite) else f"{Path(suite).read_text(encoding='utf-8-sig').rstrip()}\n"
    return Suite("own" if suite_name == "contract" else suite_name, expectations, suite_text)


def _read_expectation(entry: Any, location: str) -> Expectation:
    kind = isinstance(entry, dict) and entry.get("type", entry.get("expectation_type"))
    if not isinstance(kind, str):
        raise UserError(f"{location}: no `type`, such as expect_column_values_to_not_be_null")
    kwargs = entry.get("kwargs") or {}
    meta = entry.get("meta") or {}
    if not isinstance(kwargs, dict) or not isinstance(meta, dict):
        raise UserError(f"{location}: `kwargs` and `meta` must be mappings")

    # Its type must be known, and work on rows in memory
    great_expectations()
    from great_expectations.expectations.registry import list_registered_expectation_implementations

    types = list_registered_expectation_implementations()
    if kind not in types:
        raise UserError(f"{location}: there is no {kind}{did_you_mean(kind, types)}")
    if "quer" in kind or kind in ("unexpected_rows_expectation", "expect_table_row_count_to_equal_other_table"):
        raise UserError(f"{location}: {kind} needs a database; the rows are checked in memory")
    if '"$PARAMETER":' in json.dumps(kwargs, default=str):
        raise UserError(
            f"{location} ({kind}): $PARAMETER: there are no parameters of suites here; write the value itself"
        )

    # Its arguments must suit the type, and name no column that could break a page
    severity = entry.get("severity") or "critical"
    description = entry.get("description")
    arguments = {name: value for name, value in kwargs.items() if name != "batch_id"}
    try:
        library_expectation = as_expectation(
            {"type": kind, "kwargs": arguments, "meta": meta, "severity": severity, "description": description}
        )
        columns = (*_columns(kwargs), *_condition_columns(getattr(library_expectation, "row_condition", None)))
        if unfit := [column for column in columns if "<" in column]:
            # Data Docs write the names of columns into their pages as they are.
            raise ValueError(f"{unfit[0]!r}: the name of a column cannot have < in it; rename the column")
        _require_self_contained(kwargs.get("json_schema"))
    except ValueError as error:
        raise UserError(f"{location} ({kind}): {error}") from error

    expectation = great_expectations().expectations.expectation
    rows = isinstance(
        library_expectation,
        expectation.ColumnMapExpectation | expectation.ColumnPairMapExpectation | expectation.MulticolumnMapExpectation,
    )
    worded = ", ".join(f"{name} {json.dumps(value, ensure_ascii=False, default=str)}" for name, value in kwargs.items())
    sentence = description or f"{kind.replace('_', ' ')}: {worded}".removesuffix(": ")
    return Expectation(
        name=" ".join(str(meta.get("name") or _default_name(kind, kwargs)).split()),
        severity=severity,
        sentence=" ".join(str(sentence).split()),
        rows=rows,
        row_by_row=rows and bool(_ROW_BY_ROW.fullmatch(kind)),
        mostly=float(getattr(library_expectation, "mostly", 1.0)),
        columns=columns,
        kind=kind,
        kwargs=arguments,
        meta=meta,
    )


def _condition_columns(condition: Any) -> Iterator[str]:
    """The columns that a condition on the rows compares.

    Great Expectations makes every condition a query of pandas, in which text can call any function.

    Raises:
        ValueError: it is such a query itself, or its values could break out of the quotes that they get there.
    """
    from great_expectations.expectations import row_conditions

    if isinstance(condition, row_conditions.AndCondition | row_conditions.OrCondition):
        for part in condition.conditions:
            yield from _condition_columns(part)
    elif isinstance(condition, row_conditions.ComparisonCondition | row_conditions.NullityCondition):
        parameter = getattr(condition, "parameter", "")
        for value in (condition.column.name, *(parameter if isinstance(parameter, list) else [parameter])):
            # pandas misreads a backslash before a quote, and takes a backtick for the end of a column's name.
            if not isinstance(value, str | int | float) or (isinstance(value, str) and re.search(r"[`\\]", value)):
                raise ValueError(
                    f"row_condition: {value!r} cannot stand in a condition: write numbers, and texts without backticks "
                    "and backslashes"
                )
        yield condition.column.name
    elif condition is not None:
        raise ValueError(
            "row_condition: a condition in the language of pandas can run any code, so it is refused; write "
            f"{_CONDITION}"
        )


def _require_self_contained(schema: Any, *, root: bool = True, renamed: bool = False) -> None:
    """Refuse a JSON schema of which a part lies elsewhere: the library would fetch it, once for each row.

    Args:
        root: whether this is the schema itself, and not a part of it.
        renamed: whether it lies in a part with an address of its own, which `#` refers to in there.

    Raises:
        ValueError: it names such a part.
    """
    if isinstance(schema, dict):
        renamed = renamed or (not root and any(isinstance(schema.get(name), str) for name in ("$id", "id")))
        for name, value in schema.items():
            if name in _REFERENCES and isinstance(value, str) and (renamed or not value.startswith("#")):
                raise ValueError(
                    f"json_schema: {name} {value!r} leads out of the schema, and nothing is fetched; write what it "
                    "names under $defs, without an $id, and refer to it as #/$defs/NAME"
                )
    if isinstance(schema, dict | list):
        for part in schema.values() if isinstance(schema, dict) else schema:
            _require_self_contained(part, root=False, renamed=renamed)


def _default_name(kind: str, kwargs: Mapping[str, Any]) -> str:
    """`answer_not_match_regex` for `expect_column_values_to_not_match_regex` about the column `answer`."""
    short = re.sub(
        r"^(column_pair_values|multicolumn_values|column_values|column_value|column|table)_|_to(?=_)",
        "",
        kind.removeprefix("expect_"),
    )
    columns = "_".join(_columns(kwargs))
    return f"{columns}_{short.removeprefix('to_')}".strip("_")


def _columns(kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    columns = [kwargs.get("column"), kwargs.get("column_A"), kwargs.get("column_B"), *(kwargs.get("column_list") or ())]
    return tuple(str(column) for column in columns if column)


def _check_columns(expectation: Expectation, available: Sequence[str], location: str) -> None:
    for column in expectation.columns:
        if column not in available:
            hint = did_you_mean(column, available) or f"; there are {', '.join(available)}"
            raise UserError(f"{location}: there is no column {column!r}{hint}")


def check_rows(suite: Suite, frames: Iterable[pd.DataFrame]) -> list[ExpectationOutcome]:
    """Return what the rows say about each expectation, in the order of the suite.

    Args:
        frames: the rows in order, some at a time, with all columns that the expectations name. The index is the
            position of the row.

    Raises:
        UserError: an expectation cannot be run on these data.
    """
    import pandas as pd

    outcomes = {expectation.name: ExpectationOutcome() for expectation in suite.expectations}
    row_by_row = [expectation for expectation in suite.expectations if expectation.row_by_row]
    whole_columns = [expectation for expectation in suite.expectations if not expectation.row_by_row]

    def check(expectations: Sequence[Expectation], frame: pd.DataFrame) -> None:
        configurations = [expectation.config for expectation in expectations]
        for result in validated(frame, as_suite(suite.name, configurations)) if expectations else ():
            name = result.expectation_config.meta["name"]
            # That it could not run (an unknown column, say) is not the same as data that break it. There is one entry,
            # or one per failed metric under the metric's id
            exceptions = result.exception_info or {}
            for entry in [exceptions] if "raised_exception" in exceptions else exceptions.values():
                if entry["raised_exception"]:
                    message = " ".join(str(entry["exception_message"]).split())[:300]
                    title = f"{name} ({result.expectation_config.type})"
                    raise UserError(f"expectations: {title} cannot be run on these data: {message}")
            outcome = outcomes[name]
            outcome.n_rows += int(result.result.get("element_count", 0))
            outcome.n_missing += int(result.result.get("missing_count", 0))
            outcome.positions += map(int, result.result.get("unexpected_index_list") or ())
            outcome.observed = result.result.get("observed_value")
            outcome.success = bool(result.success)

    # Rows on their own go batch by batch; whole columns have to be collected first
    collected = []
    n_rows = 0
    for frame in frames:
        if len(frame):
            check(row_by_row, frame)
        if whole_columns:
            collected.append(frame[_needed(whole_columns, frame.columns)])
        n_rows += len(frame)
    if whole_columns:
        check(whole_columns, pd.concat(collected))

    # `mostly` is of all batches together
    for expectation in suite.expectations:
        outcome = outcomes[expectation.name]
        if expectation.rows:
            present = outcome.n_rows - outcome.n_missing
            share_held = (present - len(outcome.positions)) / max(present, 1)
            outcome.success = not outcome.positions or share_held >= expectation.mostly
        else:
            outcome.n_rows = n_rows
    return list(outcomes.values())


def _needed(expectations: Sequence[Expectation], names: Iterable[str]) -> list[str]:
    """Return those of the columns that these expectations name, in their arguments or in a condition on the rows."""
    arguments = json.dumps([expectation.kwargs for expectation in expectations], default=str, ensure_ascii=False)
    needs_all = any(not expectation.columns for expectation in expectations)
    return [name for name in names if needs_all or re.search(rf"(?<!\w){re.escape(name)}(?!\w)", arguments)]


def text_frames(suite: Suite, db: duckdb.DuckDBPyConnection, n_rows: int) -> Iterator[pd.DataFrame]:
    """Yield the columns of staged rows that a suite of a user is about, `n_rows` at a time.

    Args:
        db: a session with the view `staged_file`.

    Raises:
        UserError: a column is not there.
    """
    import pandas as pd

    data_columns = [str(name) for (name,) in db.execute(_SQL["other_columns"]).fetchall()]
    for expectation in suite.expectations:
        _check_columns(expectation, [*COLUMNS, *data_columns], f"expectations: {expectation.name}")
    db.execute(_SQL["texts"])
    columns = {name: f'"{name}"' for name in COLUMNS}
    for name in data_columns:
        in_maps = ", ".join(f'map_extract("{map_column}", {quoted(name)})[1]' for map_column in ("slices", "columns"))
        columns.setdefault(name, f"coalesce({in_maps})")
    names = _needed(suite.expectations, columns)
    # An expectation of the whole may be about no column at all
    selected = ", ".join(["file_row_number", *(columns[name] for name in names)])
    n_done = 0
    for batch in db.execute(f"SELECT {selected} FROM texts").to_arrow_reader(n_rows):
        texts = [column.to_pandas().to_numpy() for column in batch.columns[1:]]
        index = pd.RangeIndex(n_done, n_done + batch.num_rows)
        yield pd.DataFrame(dict(zip(names, texts, strict=True)), index=index)
        n_done += batch.num_rows
    if not n_done:
        yield pd.DataFrame({name: [] for name in names})


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
        suite = Suite("contract", tuple(map(_rule_expectation, rules)))
        positions = [outcome.positions for outcome in check_rows(suite, frames)]
    if sum(map(len, positions)) <= _MOST_CACHED:
        _positions_by_key[key] = positions
        if home and key not in in_home:
            add_to_cache(home, {key: positions})
    return positions


def _rule_expectation(rule: Rule) -> Expectation:
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
    return Suite("contract", (not_empty, quarantined_share, *map(_rule_expectation, rules)))
