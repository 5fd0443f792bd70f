"""What the tests of the judges' client share: samples, options for a server, a judge's words, and the ledger's rows."""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from answerkey.metrics_core import Measurement, Sample, evaluate
from answerkey.metrics_core.judges.judge_metric import JudgeMetric
from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.llm.access import Access
from answerkey.metrics_core.llm.ledger import FILE, Spent, open_ledger
from answerkey.metrics_core.measurement import Failed
from tests.judge_server import Body, JudgeServer, data_of

KEY = "sk-a-key-that-is-nowhere-9f27"

_fresh = itertools.count()
M = TypeVar("M", bound=JudgeMetric)


def samples(count: int, what: str = "answer") -> list[Sample]:
    """Different samples, none of which is decided without a judge; `what` tells apart the sets of one test."""
    return [Sample(f"s{n}", f"{what} {n}", [f"reference {n}"], f"question {n}?") for n in range(count)]


class Setup(NamedTuple):
    """The options of a judge, and the access to it."""

    judge: JudgeOptions
    access: Access

    def metric(self, kind: type[M]) -> M:
        """A metric that asks it."""
        return kind(judge=self.judge, access=self.access)


def setup(*judges: str, **changes: Any) -> Setup:
    """Options and access from one set of keywords; `key`, `ledger` and `run` are for the access.

    Judges are not probed: what they say here is fixed, and calls are counted.
    """
    own = {name: changes.pop(name) for name in ("api_key", "ledger", "run") if name in changes}
    return Setup(JudgeOptions(**{"judges": judges, "probes": "never", **changes}), Access(**{"api_key": KEY, **own}))


def options(server: JudgeServer, model: str = "", **changes: Any) -> Setup:
    """A judge at this server. Its name is new unless `model` gives one, since a process remembers what judges take."""
    name = model or f"openai/judge-{next(_fresh)}"
    return setup(f"{name}@{server.url}", **changes)


def match(_body: Body) -> str:
    """The judge says yes."""
    return json.dumps({"reason": "the same", "reference": 1, "rule": "factual_equivalence", "verdict": "match"})


def number_of(body: Body) -> int:
    """Which of `samples` a request is about."""
    return int(data_of(body)["answer"].split()[-1])


def every_third_match(body: Body) -> str:
    """Yes for every third sample, with a reason that names it: a reply that went to another sample shows."""
    number = number_of(body)
    yes = number % 3 == 0
    verdict = {"verdict": "match" if yes else "mismatch", "reference": 1 if yes else None}
    return json.dumps({"reason": f"this is {number}", "rule": "factual_equivalence", **verdict})


def mismatch(_body: Body) -> str:
    """The judge says no."""
    return json.dumps({"reason": "another", "reference": None, "rule": "factual_equivalence", "verdict": "mismatch"})


def ask(some: Sequence[Sample], asked: Setup, metric: str = "meaning_match") -> list[Measurement]:
    """The measurements of a metric; meaning match makes one call per sample where nothing goes wrong."""
    return evaluate(some, [metric], judge=asked.judge, access=asked.access)


def failure(measurement: Measurement) -> Failed:
    """Why there is no score."""
    assert isinstance(measurement.outcome, Failed), measurement
    return measurement.outcome


def patiently(check: Callable[[float], None], *seconds: float) -> None:
    """Check with the first of these, which are for something that is waited out to the end: a time-out, a deadline.

    The shortest is long enough as a rule. A machine that had something else to do gets the longer ones; what is wrong
    with the last of them is wrong.
    """
    *shorter, longest = seconds
    for one in shorter:
        try:
            return check(one)
        except AssertionError:
            continue
    check(longest)


def at_first(kind: str, times: int = 1) -> Callable[[int, Body], str | None]:
    """A fault of this kind for the first requests."""
    return lambda number, _body: kind if number < times else None


def always(kind: str) -> Callable[[int, Body], str | None]:
    """A fault of this kind for all requests."""
    return lambda _number, _body: kind


def execute(ledger: Path | str, statement: str) -> list[tuple[Any, ...]]:
    """The rows of a statement that somebody else makes in a ledger, which is in a folder or in PostgreSQL."""
    location = str(ledger)
    if location.startswith("postgresql:"):
        import psycopg

        with psycopg.connect(location.removeprefix("postgresql:"), autocommit=True) as server:
            cursor = server.execute(statement)
            return cursor.fetchall() if cursor.description else []
    with closing(sqlite3.connect(Path(location) / FILE, isolation_level=None)) as file:
        return file.execute(statement).fetchall()


def lapse(ledger: str) -> None:
    """Half a minute goes by in which nobody renews the claims in a ledger."""
    execute(ledger, "UPDATE answerkey_claims SET expires_at = 0")


def rows(ledger: Path | str, columns: str = "kind, status, code, attempt") -> list[tuple[Any, ...]]:
    """The calls in a ledger, in the order in which they were made."""
    return execute(ledger, f"SELECT {columns} FROM answerkey_calls ORDER BY number")


def count(ledger: Path | str, where: str = "1 = 1", table: str = "calls") -> int:
    """How many calls, or claims, in a ledger are so."""
    [(found,)] = execute(ledger, f"SELECT count(*) FROM answerkey_{table} WHERE {where}")
    return int(found)


def spent(ledger: Path | str, run: str = "run") -> Spent:
    """What a run has spent."""
    with closing(open_ledger(str(ledger))) as opened:
        return opened.spent(run)
