"""Paths into a trace, followed by DuckDB exactly as `answerkey.tasks.load.columns.lookup` follows them in Python."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from answerkey.tasks.load.columns import steps

if TYPE_CHECKING:
    import duckdb

_MACROS = r"""
-- A text that holds JSON is read as JSON on the way.
CREATE OR REPLACE TEMP MACRO opened(j) AS
    CASE json_type(j) WHEN 'VARCHAR' THEN try_cast(json_extract_string(j, '$') AS JSON) ELSE j END;

-- A value as the text it stands for; what is not there, or null, is an empty text.
CREATE OR REPLACE TEMP MACRO text_of(j) AS coalesce(json_extract_string(j, '$'), '');

CREATE OR REPLACE TEMP MACRO number_in(t) AS
    CASE WHEN isfinite(try_cast(t AS DOUBLE)) THEN try_cast(t AS DOUBLE) END;

-- ISO 8601, in UTC where it names no zone, or seconds, milliseconds, microseconds or nanoseconds since 1970, which
-- are told apart by their size. Small numbers, as durations and counters are, are no instants.
CREATE OR REPLACE TEMP MACRO since_1970(n) AS
    CASE WHEN n < 1e8 OR n >= 2e20 THEN NULL
         WHEN n < 1e11 THEN to_timestamp(n)
         WHEN n < 1e14 THEN to_timestamp(n / 1e3)
         WHEN n < 1e17 THEN to_timestamp(n / 1e6)
         ELSE to_timestamp(n / 1e9) END;
-- DuckDB wants the seconds, which ISO 8601 does not.
CREATE OR REPLACE TEMP MACRO to_the_second(t) AS regexp_replace(t, '^(.{10}[T ]\d\d:\d\d)(Z|[+-].*)?$', '\1:00\2');
CREATE OR REPLACE TEMP MACRO usual(t) AS CASE WHEN t < TIMESTAMPTZ '9999-01-01' THEN t END;
CREATE OR REPLACE TEMP MACRO instant_in(t) AS usual(
    CASE WHEN regexp_matches(t, '^\d{4}-\d\d-\d\d') THEN try_cast(to_the_second(t) AS TIMESTAMPTZ)
         ELSE since_1970(number_in(t)) END);
"""


def prepare(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the macros that the statements here and in `filters` use. The session's time zone must be UTC."""
    connection.execute(_MACROS)


def problem(path: object) -> str | None:
    """What is wrong with a path as a user wrote it, with what to write instead; None where nothing is."""
    if not isinstance(path, str) or not path.strip():
        return "a path is a text like metadata.user.id or messages[0].text"
    if ".." in path or "*" in path:
        return f"{path!r} names several values; write the way to one, like messages[0].text"
    # What follows the names and numbers is left of a bracket that is not closed, or holds no number.
    if not re.fullmatch(r"\$?\.?[^\[\]]+(\[\d+\][^\[\]]*)*", path.strip()) or not steps(path) or path.endswith("."):
        return f"{path!r} is no path; write names with dots and numbers in brackets, like messages[0].text"
    return None


def followed(paths: Sequence[str], traces: str) -> tuple[str, dict[str, Any]]:
    """A query that adds to the relation `traces` what stands at each path, as JSON: columns `h0`, `h1`, ...

    `traces` has a column `trace` (JSON; what is not an object has nothing at any path). NULL: nothing is there. JSON's
    null is a value. Returns the query and its parameters.
    """
    if not paths:
        return f"SELECT * FROM {traces}", {}
    ways = [steps(path) for path in paths]
    # A column that is called like the whole path comes first, and ends the way. The rest of a path can be one name with
    # dots in it, at any step. What all paths begin with is looked up at once: a trace may be long.
    starts = [(path, way[0], ".".join(way)) for path, way in zip(paths, ways, strict=True)]
    names = list(dict.fromkeys(name for start in starts for name in start))
    places = [[names.index(name) + 1 for name in start] for start in starts]
    states = ", ".join(
        f"coalesce({', '.join(f'whole[{place}]' for place in dict.fromkeys(three))}) AS h{n}, "
        f"whole[{three[0]}] IS NOT NULL OR whole[{three[1]}] IS NULL AS done{n}"
        for n, three in enumerate(places)
    )
    query = (
        f"SELECT * EXCLUDE (whole), {states} FROM (SELECT *, "
        f"CASE WHEN json_type(trace) = 'OBJECT' THEN json_extract(trace, $starts) END AS whole FROM {traces})"
    )
    bound: dict[str, Any] = {"starts": [_pointer(name) for name in names]}
    for level in range(1, max(map(len, ways))):
        going = [n for n, way in enumerate(ways) if level < len(way)]
        for n in going:
            bound[f"p{n}_{level}"] = _pointer(ways[n][level])
            bound[f"r{n}_{level}"] = _pointer(".".join(ways[n][level:]))
        query = _step(query, going, level)
    return f"SELECT * EXCLUDE ({', '.join(f'done{n}' for n in range(len(paths)))}) FROM ({query})", bound


def _step(query: str, going: Sequence[int], level: int) -> str:
    opened = ", ".join(f"CASE WHEN NOT done{n} THEN opened(h{n}) END AS o{n}" for n in going)
    nexts = ", ".join(
        f"json_extract(o{n}, $p{n}_{level}) AS next{n}, json_extract(o{n}, $r{n}_{level}) AS rest{n}" for n in going
    )
    replaced = ", ".join(
        f"CASE WHEN done{n} THEN h{n} ELSE coalesce(next{n}, rest{n}) END AS h{n}, "
        f"done{n} OR (next{n} IS NULL AND rest{n} IS NOT NULL) AS done{n}"
        for n in going
    )
    used = ", ".join(f"o{n}, next{n}, rest{n}" for n in going)
    inner = f"SELECT *, {nexts} FROM (SELECT *, {opened} FROM ({query}))"
    return f"SELECT * EXCLUDE ({used}) REPLACE ({replaced}) FROM ({inner})"


def _pointer(name: str) -> str:
    """A name as a JSON pointer of one step (RFC 6901): no character of it means anything."""
    return "/" + name.replace("~", "~0").replace("/", "~1")
