"""What the tests of the judges' client share: samples, options for a server, a judge's words, and the ledger's rows."""

import itertools
import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from answerkey import Sample, evaluate
from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.llm.access import Access
from answerkey.metrics_core.llm.ledger import FILE, open_ledger
from answerkey.metrics_core.measurement import Failed
from tests.judge_server import data_of

KEY = "sk-a-key-that-is-nowhere-9f27"

_fresh = itertools.count()


def samples(count, what="answer"):
    """Different samples, none of which is decided without a judge; `what` tells apart the sets of one test."""
    return [Sample(f"s{n}", f"{what} {n}", [f"reference {n}"], f"question {n}?") for n in range(count)]


class Setup(NamedTuple):
    """The options of a judge, and the access to it."""

    judge: JudgeOptions
    access: Access

    def metric(self, kind):
        """A metric that asks it."""
        return kind(judge=self.judge, access=self.access)


def setup(*judges, **changes):
    """Options and access from one set of keywords; `api_key`, `ledger` and `run` are for the access.

    Judges are not checked: what they say here is fixed, and calls are counted.
    """
    own = {name: changes.pop(name) for name in ("api_key", "ledger", "run") if name in changes}
    return Setup(JudgeOptions(**{"judges": judges, "check": "never", **changes}), Access(**{"api_key": KEY, **own}))


def options(server, model="", **changes):
    """A judge at this server. Its name is new unless `model` gives one, since a process remembers what judges take."""
    name = model or f"openai/judge-{next(_fresh)}"
    return setup(f"{name}@{server.url}", **changes)


def match(_body):
    """The judge says yes."""
    return json.dumps({"reason": "the same", "reference": 1, "rule": "factual_equivalence", "verdict": "match"})


def number_of(body):
    """Which of `samples` a request is about."""
    return int(data_of(body)["answer"].split()[-1])


def every_third_match(body):
    """Yes for every third sample, with a reason that names it: a reply that went to another sample shows."""
    number = number_of(body)
    yes = number % 3 == 0
    verdict = {"verdict": "match" if yes else "mismatch", "reference": 1 if yes else None}
    return json.dumps({"reason": f"this is {number}", "rule": "factual_equivalence", **verdict})


def mismatch(_body):
    """The judge says no."""
    return json.dumps({"reason": "another", "reference": None, "rule": "factual_equivalence", "verdict": "mismatch"})


def ask(some, asked, metric="meaning_match"):
    """The measurements of a metric; meaning match makes one call per sample where nothing goes wrong."""
    return evaluate(some, [metric], judge=asked.judge, access=asked.access)


def judged(server, metric, *some, models=("m",), **changes):
    """The measurements of samples by judges of these names at this server."""
    return ask(some, setup(*(f"openai/{model}@{server.url}" for model in models), **changes), metric)


def asked_with(server, field):
    """The requests so far whose data have this field."""
    return [request.body for request in server.requests if field in data_of(request.body)]


def statuses(measurements):
    """How many measurements there are of each status."""
    return Counter(one.status for one in measurements)


def failure(measurement):
    """Why there is no score."""
    assert isinstance(measurement.outcome, Failed), measurement
    return measurement.outcome


def patiently(check, *seconds):
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


def at_first(kind, times=1):
    """A fault of this kind for the first requests."""
    return lambda number, _body: kind if number < times else None


def always(kind):
    """A fault of this kind for all requests."""
    return lambda _number, _body: kind


def execute(ledger, statement):
    """The rows of a statement that somebody else makes in a ledger, which is in a folder or in PostgreSQL."""
    location = str(ledger)
    if location.startswith("postgresql:"):
        import psycopg

        with psycopg.connect(location.removeprefix("postgresql:"), autocommit=True) as server:
            cursor = server.execute(statement)
            return cursor.fetchall() if cursor.description else []
    with closing(sqlite3.connect(Path(location) / FILE, isolation_level=None)) as file:
        return file.execute(statement).fetchall()


def call(key="k", **changes):
    """A call that a ledger can start."""
    fixed = {"judge": "openai/j", "prompt": "p@1", "kind": "ask", "attempt": 1, "format": "text"}
    return {"request_key": key, **fixed, **changes}


def lapse(ledger):
    """Half a minute goes by in which nobody renews the claims in a ledger."""
    execute(ledger, "UPDATE answerkey_claims SET expires_at = 0")


def rows(ledger, columns="kind, status, code, attempt"):
    """The calls in a ledger, in the order in which they were made."""
    return execute(ledger, f"SELECT {columns} FROM answerkey_calls ORDER BY number")


def count(ledger, where="1 = 1", table="calls"):
    """How many calls, or claims, in a ledger are so."""
    [(found,)] = execute(ledger, f"SELECT count(*) FROM answerkey_{table} WHERE {where}")
    return int(found)


def spent(ledger, run="run"):
    """What a run has spent."""
    with closing(open_ledger(str(ledger))) as opened:
        return opened.spent(run)
