"""What a rule makes of the traces in its source, before anything is scored. DuckDB decides, a file at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.sources import without_secrets
from answerkey.tasks.traces import filters, paths, sampling
from answerkey.tasks.traces.rules import Rule
from answerkey.tasks.traces.source import traces_in
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.warehouse import one_file, quoted, scratch

if TYPE_CHECKING:
    import duckdb

_LONGEST_ID = 1_000


@dataclass(frozen=True, slots=True)
class Window:
    """The traces of a backfill: from `since` on and before `until`, None for an open end."""

    since: datetime | None = None
    until: datetime | None = None

    @property
    def backfill(self) -> bool:
        """Whether there is one. Otherwise it is the new traces that are looked at."""
        return bool(self.since or self.until)


@dataclass(frozen=True, slots=True)
class Selection:
    """What a rule made of the traces that it looked at.

    `decided` is a Parquet file of all of them (trace_id, time, bucket, reason); `taken` one of those to be scored and
    of those that cannot be (file, row, trace_id, time, bucket, reason, trace). `again` of the seen ones had failed or
    had been skipped before. `newest` is the latest time among them, `watermark` that of the runs before.
    """

    decided: str
    taken: str
    seen: int
    disabled: int
    filtered: int
    sampled_out: int
    quarantined: int
    sampled: int
    again: int
    newest: datetime | None
    watermark: datetime | None
    notes: tuple[str, ...]


def select(rule: Rule, home: Home, out: Path, window: Window) -> Selection:
    """Look at the traces of a rule's source that it has not settled, or at those of a backfill, and decide on each.

    Raises:
        UserError: the source cannot be read, or none of its rows has an id or a time where the rule says.
    """
    import duckdb

    out.mkdir(parents=True, exist_ok=True)
    with scratch(out) as connection:
        paths.prepare(connection)
        watermark = _known(connection, rule, home, out)
        try:
            _decide(connection, rule, window, watermark)
        except (duckdb.IOException, duckdb.CatalogException, duckdb.InvalidInputException) as error:
            said = str(error).strip().splitlines()[0]
            if "maximum_object_size" in said:
                said += "; no trace is as long, so split or remove that row"
            raise UserError(without_secrets(f"{rule.source}: cannot be read: {said}")) from error
        rows, found = _found(connection, rule)
        _check_columns(rule, rows, found)
        notes = tuple(_notes(rule, rows, found))
        if not window.backfill:
            connection.execute(_ADD_UNREAD, {"enabled": rule.enabled})
        return _written(connection, out, watermark, notes)


def _known(connection: duckdb.DuckDBPyConnection, rule: Rule, home: Home, out: Path) -> datetime | None:
    """The table `known` (trace_id, outcome) of what earlier runs made of the rule's traces; return the watermark."""
    connection.execute("CREATE TEMP TABLE known (trace_id VARCHAR, outcome VARCHAR)")
    if not home.warehouse.exists():
        return None
    file = out / "known.parquet"
    with home.warehouse.reading() as warehouse:
        query = f"COPY (SELECT trace_id, outcome FROM trace_outcomes WHERE rule = ?) TO {quoted(file)} (FORMAT parquet)"
        warehouse.execute(query, [rule.name])
        marks = warehouse.execute("SELECT epoch_us(watermark) FROM trace_rules WHERE rule = ?", [rule.name]).fetchall()
    connection.execute("INSERT INTO known SELECT * FROM read_parquet(?)", [one_file(file)])
    return instant(marks[0][0]) if marks else None


def instant(microseconds: int | None) -> datetime | None:
    """A point in time from microseconds since 1970."""
    return None if microseconds is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)


_DECIDE = """
CREATE TEMP TABLE decided AS
WITH typed AS (
    SELECT file, "row", trace, json_type(trace) AS kind, [h0 IS NOT NULL, h1 IS NOT NULL{wanted}] AS found,
           CASE WHEN json_type(h0) NOT IN ('OBJECT', 'ARRAY', 'BOOLEAN') THEN trim(text_of(h0)) ELSE '' END AS given_id,
           given_id <> '' AND length(given_id) <= {longest_id} AS usable_id,
           CASE WHEN usable_id THEN given_id ELSE '#' || md5(trace::VARCHAR) END AS trace_id,
           instant_in(text_of(h1)) AS time, {broken} AS broken
    FROM ({followed})
), judged AS (
    SELECT *, CASE
        WHEN kind <> 'OBJECT' THEN 'the row is a JSON ' || lower(kind) || ', not an object'
        WHEN NOT usable_id THEN 'the id (' || $id_path || ') is missing, or is no text or number of a usual length'
        WHEN time IS NULL
            THEN 'the time (' || $time_path || ') is missing, or is neither ISO 8601 nor seconds since 1970'
        END AS problem
    FROM typed
)
SELECT file, "row", trace_id, time, found, outcome IS NOT NULL AS again, {looked_at} AS looked_at,
       CASE WHEN NOT $enabled THEN 'disabled' WHEN problem IS NOT NULL THEN 'quarantined'
            WHEN broken IS NOT NULL THEN 'filtered' WHEN NOT {sampled} THEN 'sampled_out' ELSE 'sampled' END AS bucket,
       CASE bucket WHEN 'quarantined' THEN problem WHEN 'filtered' THEN broken END AS reason,
       CASE WHEN looked_at AND bucket IN ('quarantined', 'sampled') THEN trace::VARCHAR END AS trace
FROM judged LEFT JOIN known USING (trace_id)
"""

# A text that is no JSON is known again by its hash.
_ADD_UNREAD = """
INSERT INTO decided BY NAME
SELECT file, "row", '#' || md5(text) AS trace_id, false AS again, true AS looked_at,
       CASE WHEN $enabled THEN 'quarantined' ELSE 'disabled' END AS bucket, why AS reason, text AS trace
FROM unread WHERE '#' || md5(text) NOT IN (SELECT trace_id FROM known)
"""


def _decide(connection: duckdb.DuckDBPyConnection, rule: Rule, window: Window, watermark: datetime | None) -> None:
    """The table `decided`: every row of the source that is JSON, and what the rule makes of it."""
    relation = traces_in(connection, rule.source)
    wanted = _filtered_paths(rule)
    followed, bound = paths.followed([rule.id, rule.time, *wanted], f"({relation.query})")
    columns = {path: f"h{place}" for place, path in enumerate(wanted, start=2)}
    broken, values = filters.first_broken(rule.filters, columns)
    taken, hashed = sampling.condition("trace_id", rule.name, rule.sampling)
    looked_at, ends = _looked_at(rule, window, watermark)
    query = _DECIDE.format(
        wanted="".join(f", {column} IS NOT NULL" for column in columns.values()), longest_id=_LONGEST_ID,
        broken=broken, followed=followed, looked_at=looked_at, sampled=f"({taken})",
    )  # fmt: skip
    about = {"id_path": rule.id, "time_path": rule.time, "enabled": rule.enabled}
    connection.execute(query, {**relation.bound, **bound, **values, **hashed, **ends, **about})


def _filtered_paths(rule: Rule) -> list[str]:
    return list(dict.fromkeys(one.path for one in rule.filters))


def _looked_at(rule: Rule, window: Window, watermark: datetime | None) -> tuple[str, Mapping[str, Any]]:
    """The condition on the traces that this run is about, never NULL, and its parameters."""
    if window.backfill:
        # A row without a time is in no range of dates.
        return (
            "coalesce(time >= coalesce($since, time) AND time < coalesce($until, TIMESTAMPTZ 'infinity'), false)",
            {"since": window.since, "until": window.until},
        )
    bounds = [rule.start] if rule.start else []
    if watermark and rule.late_days is not None:
        bounds.append(watermark - timedelta(days=rule.late_days))
    return (
        "coalesce(time >= $begin, true) AND coalesce(outcome IN ('failed', 'skipped'), true)",
        {"begin": max(bounds, default=None)},
    )


def _found(connection: duckdb.DuckDBPyConnection, rule: Rule) -> tuple[int, dict[str, int]]:
    """How many rows there are, and how many have something at each path that the rule decides by."""
    ways = [rule.id, rule.time, *_filtered_paths(rule)]
    counts = ", ".join(f"count(*) FILTER (found[{place}])" for place in range(1, len(ways) + 1))
    [(rows, *numbers)] = connection.execute(f"SELECT count(*), {counts} FROM decided").fetchall()
    return rows, dict(zip(ways, numbers, strict=True))


def _check_columns(rule: Rule, rows: int, found: Mapping[str, int]) -> None:
    """A path to the id or the time that leads nowhere in any row is a mistake in the rule, and not of the rows.

    Raises:
        UserError: that is so.
    """
    for key, path in (("id", rule.id), ("time", rule.time)):
        if rows and not found[path]:
            raise UserError(
                f"{rule.located.where(key)}: {key}: none of the {rows:,} rows in {without_secrets(rule.source)} has "
                f"anything at {path!r}; write where the {key} of a trace is"
            )


def _notes(rule: Rule, rows: int, found: Mapping[str, int]) -> Iterator[str]:
    # What must be empty is often in no trace at all.
    for path in dict.fromkeys(one.path for one in rule.filters if one.operator != "is empty"):
        if rows and not found[path]:
            yield f"{rule.name}: none of the {rows:,} rows has anything at {path!r}, which a filter looks at"


def _written(
    connection: duckdb.DuckDBPyConnection, out: Path, watermark: datetime | None, notes: tuple[str, ...]
) -> Selection:
    decided, taken = out / "decided.parquet", out / "taken.parquet"
    connection.execute("DELETE FROM decided WHERE NOT looked_at")
    narrow = "SELECT trace_id, time, bucket, reason FROM decided"
    connection.execute(f"COPY ({narrow}) TO {quoted(decided)} (FORMAT parquet)")
    connection.execute(
        'COPY (SELECT file, "row", trace_id, time, bucket, reason, trace FROM decided '
        f"WHERE bucket IN ('sampled', 'quarantined')) TO {quoted(taken)} (FORMAT parquet, ROW_GROUP_SIZE 20480)"
    )
    counts = dict(connection.execute("SELECT bucket, count(*) FROM decided GROUP BY bucket").fetchall())
    [(seen, again, newest)] = connection.execute(
        "SELECT count(*), count(*) FILTER (again), epoch_us(max(time)) FROM decided"
    ).fetchall()
    return Selection(
        decided=str(decided),
        taken=str(taken),
        seen=seen,
        disabled=counts.get("disabled", 0),
        filtered=counts.get("filtered", 0),
        sampled_out=counts.get("sampled_out", 0),
        quarantined=counts.get("quarantined", 0),
        sampled=counts.get("sampled", 0),
        again=again,
        newest=instant(newest),
        watermark=watermark,
        notes=notes,
    )
