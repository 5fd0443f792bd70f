"""Decide in DuckDB which traces of its source a rule scores: new ones that meet its conditions and are sampled."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.columns import path_of, steps
from answerkey.tasks.load.remote import without_secrets
from answerkey.tasks.traces.condition import names_in, struct, verdict
from answerkey.tasks.traces.rules import KEYS, Rule
from answerkey.tasks.traces.source import Relation, traces_in
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.warehouse import one_file, quoted, scratch, time_limit, write_parquet

if TYPE_CHECKING:
    import duckdb

_SQL = statements(__name__)
_LONGEST_ID = 1_000
_UNKNOWN = "cannot be evaluated: "
_CAST = (
    "give its values a type, like try_cast(metadata.duration_ms AS DOUBLE) < 5000, length(input::VARCHAR) > 20 or "
    "try_cast(start_time::VARCHAR AS DATE) = '2026-11-03'"
)
_OF_NO_TRACE = ("name", "description", "source", "start", "late_days")
"""Keys of a rule that decide nothing about a trace that was looked at."""

_LIMIT_S = 1_800.0
"""For reading a source and evaluating the conditions of a rule."""


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
class LastRun:
    """What the runs of a rule left: its watermark, what the rule said, and whether any trace was scored."""

    watermark: datetime | None = None
    definition: Mapping[str, Any] = field(default_factory=dict)
    scored: bool = False


@dataclass(frozen=True, slots=True)
class Selection:
    """What a rule made of the traces that it looked at.

    `decided` is a Parquet file of all of them (trace_id, time, bucket, reason); `taken` one of those to be scored and
    of those that cannot be (file, row, trace_id, time, bucket, reason, trace). `left_out` counts those that are not, by
    their bucket. `again` of the seen ones had failed or had been skipped before, or a condition could not be evaluated
    for them. `newest` is the latest time among them that
    is not in the future; `last_run` is what is known of the runs before.
    """

    decided: str
    taken: str
    seen: int
    left_out: Mapping[str, int]
    sampled: int
    again: int
    newest: datetime | None
    last_run: LastRun
    notes: tuple[str, ...]


def select(rule: Rule, home: Home, out: Path, window: Window) -> Selection:
    """Decide on each trace of a rule's source that is not settled yet, or on each of a backfill.

    Raises:
        UserError: the source cannot be read, or none of its rows has an id or a time where the rule says.
    """
    import duckdb

    out.mkdir(parents=True, exist_ok=True)
    with scratch(out) as connection:
        make_macros(connection)
        known, last_run = _known(connection, rule, home, out)
        try:
            with time_limit(connection, _LIMIT_S):
                decided = _decide(connection, rule, out, window, known, last_run.watermark)
        except duckdb.InterruptException as error:
            raise UserError(
                f"{rule.located.where('where')}: where: not done after {_LIMIT_S:,.0f} s; simplify the condition, or "
                "split the source"
            ) from error
        except (
            duckdb.IOException, duckdb.CatalogException, duckdb.InvalidInputException, duckdb.PermissionException,
            duckdb.DataError,
        ) as error:  # fmt: skip
            said = str(error).strip().splitlines()[0]
            if "maximum_object_size" in said:
                said += "; no trace is as long, so split or remove that row"
            raise UserError(without_secrets(f"{rule.source}: cannot be read: {said}")) from error
        rows, found = _found(decided, rule)
        _check_columns(rule, rows, found)
        notes = [*_notes(decided, rule, rows, found)]
        if not window.backfill:
            notes += [*_left_out(decided, rule, last_run)]
        return _written(decided, out, last_run, tuple(notes))


def make_macros(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the macros that the statements use. The session's time zone must be UTC."""
    connection.execute(_SQL["macros"])


def _known(connection: duckdb.DuckDBPyConnection, rule: Rule, home: Home, out: Path) -> tuple[str, LastRun]:
    """A Parquet file (trace_id, outcome) of what earlier runs made of the rule's traces, and what else they left."""
    file = out / "known.parquet"
    if not home.warehouse.exists():
        write_parquet(connection, "SELECT '' AS trace_id, '' AS outcome LIMIT 0", file)
        return str(file), LastRun()
    conditions = {"unknown": _UNKNOWN, "conditions": [one.text for one in rule.where]}
    with home.warehouse.reading() as warehouse:
        write_parquet(warehouse, _SQL["known"], file, {"rule": rule.name, **conditions})
        last = warehouse.execute(_SQL["last_run"], {"rule": rule.name}).fetchall()
    if not last:
        return str(file), LastRun()
    [(watermark, definition, scored)] = last
    return str(file), LastRun(instant(watermark), json.loads(definition), scored)


def instant(microseconds: int | None) -> datetime | None:
    """A point in time from microseconds since 1970."""
    return None if microseconds is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)


def _decide(
    connection: duckdb.DuckDBPyConnection, rule: Rule, out: Path, window: Window, known: str, watermark: datetime | None
) -> duckdb.DuckDBPyRelation:
    """Every row of the source, and what the rule makes of it; `found` is NULL where the row is no JSON."""
    relation = traces_in(connection, rule.source, out)
    _close(connection, relation, out)
    names = names_in(rule.where)
    followed, bound = followed_paths([rule.id, rule.time, *map(path_of, names)], f"({relation.query})")
    columns = [f"h{place}" for place in range(2, 2 + len(names))]
    broken, texts = _first_broken(rule)
    taken, hashed = in_sample("trace_id", rule.name, rule.sampling)
    looked_at, ends = _looked_at(rule, window, watermark)
    query = _SQL["decide"].format(
        wanted="".join(f", {column} IS NOT NULL" for column in columns), longest_id=_LONGEST_ID,
        logged=struct(rule.where, columns), broken=broken, followed=followed, looked_at=looked_at,
        verdicts="".join(f", {verdict(one)} AS fits{n}" for n, one in enumerate(rule.where)), sampled=f"({taken})",
    )  # fmt: skip
    about = {"id_path": rule.id, "time_path": rule.time, "enabled": rule.enabled, "known": one_file(known)}
    connection.execute(query, {**relation.bound, **bound, **texts, **hashed, **ends, **about})
    if relation.unread and not window.backfill:
        files = {"unread": one_file(relation.unread), "known": one_file(known)}
        connection.execute(_SQL["add_unread"], {"enabled": rule.enabled, **files})
    return connection.table("decided")


def _close(connection: duckdb.DuckDBPyConnection, relation: Relation, out: Path) -> None:
    """Restrict the session to the folders of the source and `out`."""
    folders = sorted(relation.folders | {str(out.absolute())})
    connection.execute(f"SET allowed_directories = [{', '.join(map(quoted, folders))}]")
    connection.execute("SET autoload_known_extensions = false")
    connection.execute("SET enable_external_access = false")


def _first_broken(rule: Rule) -> tuple[str, dict[str, str]]:
    """An expression with the first condition that a trace does not fit, NULL where it fits all; and its parameters."""
    cases = [
        f"WHEN fits{n} IS NULL THEN $unknown || $where{n} WHEN NOT fits{n} THEN $where{n}"
        for n in range(len(rule.where))
    ]
    texts = {f"where{n}": one.text for n, one in enumerate(rule.where)}
    return (f"CASE {' '.join(cases)} END", {**texts, "unknown": _UNKNOWN}) if cases else ("NULL::VARCHAR", {})


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


def _found(decided: duckdb.DuckDBPyRelation, rule: Rule) -> tuple[int, dict[str, int]]:
    """How many rows are JSON, and how many have something at each path that the rule decides by."""
    ways = [rule.id, rule.time, *map(path_of, names_in(rule.where))]
    counts = ", ".join(f"count(*) FILTER (found[{place}])" for place in range(1, len(ways) + 1))
    [(rows, *numbers)] = decided.aggregate(f"count(found), {counts}").fetchall()
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


def _notes(decided: duckdb.DuckDBPyRelation, rule: Rule, rows: int, found: Mapping[str, int]) -> Iterator[str]:
    for name in map(path_of, names_in(rule.where)):
        # What must be absent is often in no trace at all.
        wanted_absent = any(re.search(rf"{re.escape(name)}\s+is\s+null", one.text, re.IGNORECASE) for one in rule.where)
        if rows and not found[name] and not wanted_absent:
            yield f"{rule.name}: none of the {rows:,} rows has anything at {name!r}, which a condition looks at"
    unknown = decided.filter(f"found IS NOT NULL AND starts_with(reason, '{_UNKNOWN}')")
    for reason, n in unknown.aggregate("reason, count(*)", "reason").order("reason").fetchall():
        problem = f"{reason.removeprefix(_UNKNOWN)!r} cannot be evaluated for {n:,} of {rows:,} rows"
        if n == rows:
            raise UserError(f"{rule.located.where('where')}: where: {problem}; {_CAST}")
        yield f"{rule.name}: {problem}, which are filtered; {_CAST}"


def _left_out(decided: duckdb.DuckDBPyRelation, rule: Rule, last_run: LastRun) -> Iterator[str]:
    """Lines about traces that only a backfill looks at, where their number may surprise."""
    late = decided.filter("NOT looked_at AND NOT again AND bucket = 'sampled'")
    if rule.start:
        late = late.filter(f"time >= TIMESTAMPTZ '{rule.start.isoformat()}'")
    n, since = _counted(late)
    if n:
        yield (
            f"{rule.name}: {n:,} traces are older than the newest one by more than late_days ({rule.late_days:g}), and "
            f"were left out; `--since {since}` scores them"
        )
    definition, before = rule.definition, last_run.definition
    changed = [key for key in KEYS if key not in _OF_NO_TRACE and definition.get(key) != before.get(key)]
    n, since = _counted(decided.filter("NOT looked_at AND again"))
    if before and changed and n:
        yield (
            f"{rule.name}: {', '.join(changed)} changed since the last run; the {n:,} traces that earlier runs settled "
            f"are not looked at again, but with `--since {since}`"
        )


def _counted(traces: duckdb.DuckDBPyRelation) -> tuple[int, str]:
    """How many they are, and the day of the first."""
    [(n, first)] = traces.aggregate("count(*), strftime(min(time), '%Y-%m-%d')").fetchall()
    return n, first or "DAY"


def _written(everything: duckdb.DuckDBPyRelation, out: Path, last_run: LastRun, notes: tuple[str, ...]) -> Selection:
    rows, decided, taken = everything.filter("looked_at"), out / "decided.parquet", out / "taken.parquet"
    rows.project("trace_id, time, bucket, reason").write_parquet(str(decided))
    wanted = rows.filter("bucket IN ('sampled', 'quarantined')")
    columns = 'file, "row", trace_id, time, bucket, reason, trace'
    wanted.project(columns).write_parquet(str(taken), row_group_size=20_480)
    counts = dict(rows.aggregate("bucket, count(*)", "bucket").fetchall())
    # A trace that claims to come from the future would make all others late.
    newest_of = f"epoch_us(max(time) FILTER (time <= TIMESTAMPTZ '{datetime.now(UTC).isoformat()}'))"
    [(seen, again, newest)] = rows.aggregate(f"count(*), count(*) FILTER (again), {newest_of}").fetchall()
    return Selection(
        decided=str(decided),
        taken=str(taken),
        seen=seen,
        left_out={bucket: counts.get(bucket, 0) for bucket in ("disabled", "filtered", "sampled_out")},
        sampled=counts.get("sampled", 0),
        again=again,
        newest=instant(newest),
        last_run=last_run,
        notes=notes,
    )


def followed_paths(paths: Sequence[str], traces: str) -> tuple[str, dict[str, Any]]:
    """A query that adds to the relation `traces` what stands at each path, as JSON: columns `h0`, `h1`, ...

    `traces` has a column `trace` (JSON; what is not an object has nothing at any path). NULL: nothing is there. JSON's
    null is a value. Returns the query and its parameters.
    """
    if not paths:
        return f"SELECT * FROM {traces}", {}
    ways = [steps(path) for path in paths]
    # A column that is called like the whole path comes first. Names may have dots in them at any step: `v2_3` is what
    # stands at the first three steps of the third path, however these are read as names.
    starts = [[".".join(way[:end]) for end in range(1, len(way) + 1)] for way in ways]
    names = list(dict.fromkeys([*paths, *(name for start in starts for name in start)]))
    first = ", ".join(
        f"whole[{names.index(name) + 1}] AS v{n}_{end}"
        for n, start in enumerate(starts)
        for end, name in enumerate(start, 1)
    )
    literal = ", ".join(f"whole[{names.index(path) + 1}] AS l{n}" for n, path in enumerate(paths))
    query = _SQL["first_step"].format(states=f"{first}, {literal}", traces=traces)
    bound: dict[str, Any] = {"starts": [_pointer(name) for name in names]}
    for level in range(1, max(map(len, ways))):
        going = [(n, end) for n, way in enumerate(ways) for end in range(level + 1, len(way) + 1)]
        bound |= {f"p{n}_{level}_{end}": _pointer(".".join(ways[n][level:end])) for n, end in going}
        query = _step(query, going, level)
    last = ", ".join(f"coalesce(l{n}, v{n}_{len(way)}) AS h{n}" for n, way in enumerate(ways))
    states = ", ".join(
        [
            *(f"l{n}" for n in range(len(ways))),
            *(f"v{n}_{end}" for n, way in enumerate(ways) for end in range(1, len(way) + 1)),
        ]
    )
    return f"SELECT * EXCLUDE ({states}), {last} FROM ({query})", bound


def _step(query: str, going: Sequence[tuple[int, int]], level: int) -> str:
    paths = dict.fromkeys(n for n, _ in going)
    return _SQL["next_step"].format(
        used=", ".join(f"o{n}" for n in paths),
        replaced=", ".join(
            f"coalesce(json_extract(o{n}, $p{n}_{level}_{end}), v{n}_{end}) AS v{n}_{end}" for n, end in going
        ),
        opened=", ".join(f"opened(v{n}_{level}) AS o{n}" for n in paths),
        query=query,
    )


def _pointer(name: str) -> str:
    """A name as a JSON pointer of one step (RFC 6901): no character of it means anything."""
    return "/" + name.replace("~", "~0").replace("/", "~1")


def in_sample(trace_id: str, rule: str, rate: float) -> tuple[str, dict[str, str]]:
    """The condition that a rule samples the trace in the column `trace_id`, in SQL, and its parameters.

    A hash decides, so that every run takes the same traces and a higher rate all those of a lower one. The rule's name
    is part of it: two rules at a tenth do not take the same tenth.
    """
    below = int(rate * 2**128)
    # At rate 1 no number of 32 hexadecimal digits is above all hashes, but a letter behind f is.
    threshold = "g" if below >= 2**128 else f"{below:032x}"
    return f"md5($rule || chr(0) || {trace_id}) < $threshold", {"rule": rule, "threshold": threshold}
