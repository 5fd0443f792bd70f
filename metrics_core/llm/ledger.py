"""Every call to a model, written down as it happens: what was paid for is never asked again.

A call is written down before it is sent and again when its reply is there, each in a transaction of its own, so a
killed process loses nothing but the calls in flight. Several processes share a ledger. This module says what every
ledger does; `ledger_place` opens the one at a place: in memory, in a folder, in PostgreSQL.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from typing import Any, Literal, Protocol

from answerkey.metrics_core.sample import content_hash

COLUMNS = (
    "call_id", "request_key", "judge", "prompt", "run", "kind", "attempt", "format", "status", "code", "message",
    "started_at", "seconds", "tokens_in", "tokens_out", "cost_usd", "model", "fingerprint", "finish_reason", "reply",
)  # fmt: skip
DAMAGED = "damaged"
"""The code of a call whose reply is not the one that was written down."""

CallStatus = Literal["usable", "unreadable", "error"]
Format = Literal["json_schema", "json_object", "text"]
"""How the format of a reply is asked for, from the strictest: a schema that the server enforces; any JSON object; the
words of the prompt alone."""
Permit = Literal["go", "wait", "max_calls", "max_cost", "max_cost_total"]

_log = logging.getLogger("answerkey")


RestOfCall = tuple[int | None, str | None, str]
"""Of one call: columns of `calls` that are not in `COLUMNS`, and its id."""


class LedgerError(OSError):
    """The ledger cannot be read or written. No call is made then, since its reply could be lost."""


class LedgerBusy(LedgerError):
    """Another process is writing to the ledger, and this one was told not to wait."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run may spend, and all runs together in a month; None: no limit."""

    run: str
    max_calls: int | None = None
    max_cost_usd: float | None = None
    max_cost_total_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Spent:
    """What a run has spent so far. `unpriced` calls have no known price and are not in `cost_usd`."""

    calls: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0


@dataclass(frozen=True, slots=True)
class JudgeSpent:
    """What a run has spent on one judge.

    Attributes:
        tokens_in, tokens_out: of the replies whose server says how many they had.
        cost_usd: None: for some of the calls the price is not known.
        reserved_usd: the part of it for calls whose cost is not known: what was reserved for them.
    """

    judge: str
    calls: int
    tokens_in: int
    tokens_out: int
    cost_usd: float | None
    reserved_usd: float


MAY_BE_PAID = ("timeout", "cancelled", "disconnected", "too_large", "garbled")
"""Codes of calls that the server may have answered, though nothing of it can be used: nobody waited any more, the
connection broke after all was sent, it was too long, or nobody knows which of a batch it belongs to.
"""

UNSENT = "unsent"
"""Code of a call that the provider never had, since it could not be reached, or did not work on in its batch: it costs
nothing, and counts as no call."""
COUNTED = f"count(CASE WHEN code = '{UNSENT}' THEN NULL ELSE 1 END)"
"""How many of some rows of `calls` count."""

LATEST = 100
"""Calls by which the length of the next one is judged."""

OF_RUN = f"""
SELECT judge, {COUNTED}, coalesce(sum(tokens_in), 0),
       coalesce(sum(tokens_out), 0), coalesce(sum(cost_usd), 0),
       coalesce(sum(CASE WHEN tokens_out IS NULL THEN cost_usd END), 0),
       count(CASE WHEN cost_usd IS NULL
                   AND (reply IS NOT NULL OR status = 'sent' OR code IN {MAY_BE_PAID}) THEN 1 END)
FROM {{calls}} WHERE run = {{run}} GROUP BY judge ORDER BY judge
"""
"""What a run has spent on each judge, and the calls that may have cost something unknown."""


def month_of(seconds: float) -> str:
    """The name under which budgets have what all runs spend in the month of a Unix time (UTC).

    It is there from the first call on that is made within a limit for the month.

    >>> month_of(1790000000.0)
    'month 2026-09'
    """
    return f"month {datetime.fromtimestamp(seconds, UTC):%Y-%m}"


def beginning_of(month: str) -> float:
    """Unix time.

    >>> month_of(beginning_of("month 2026-09")), month_of(beginning_of("month 2026-09") - 1.0)
    ('month 2026-09', 'month 2026-08')
    """
    return datetime.strptime(f"{month} +0000", "month %Y-%m %z").timestamp()


@dataclass(frozen=True, slots=True)
class Origin:
    """What the ledger knows of a reply: columns of `calls`. `weights` as `weights_of` gives them; None: none came."""

    model: str
    fingerprint: str
    finish_reason: str
    tokens_in: int | None
    tokens_out: int | None
    cost_usd: float | None
    weights: str | None = None


@dataclass(frozen=True, slots=True)
class BatchedCall:
    """A call that waits in a batch at a provider, or did so when its process was killed.

    Attributes:
        format: how the format of its reply was asked for.
        most_usd: what is reserved for it.
        batch: the name of the batch, as answerkey gave it.
        sent_at: Unix time when the batch began to be sent; None: it never did.
        provider_id: the provider's name of the batch; None: it is not known whether the provider has it.
    """

    call_id: str
    format: Format
    most_usd: float
    batch: str
    sent_at: float | None
    provider_id: str | None


@dataclass(frozen=True, slots=True)
class Verb:
    """A method of a ledger with its arguments, to be called later."""

    name: Literal["reply", "origin", "claim", "release", "start", "finish", "adopt", "send_batch", "name_batch"]
    given: tuple[Any, ...]


class Ledger(Protocol):
    """A ledger that is open. Not for several threads at once.

    Raises:
        LedgerError: from every method, if the ledger cannot be read or written.
    """

    quick: bool
    """Whether a verb takes less than a millisecond, unless it has to wait for another process."""

    def patient(self, on: bool) -> None:
        """Whether to wait for other processes, as at first; or to raise `LedgerBusy` and leave slow work to
        `keep_alive`, which is then called on another thread.
        """

    def reply(self, key: str) -> str | None:
        """The newest usable reply to a request. One that is damaged is not known, and the log says so."""

    def origin(self, key: str) -> Origin:
        """Where the reply to a request came from; it must be there."""

    def claim(self, key: str) -> bool:
        """Whether the caller may ask this request now: no other living process is asking it.

        What a killed process had in flight never comes back, and may have to be paid: as soon as its claim is taken
        over, or another process begins to write, it counts as spent, at what the latest calls like it have cost, and at
        most at what was reserved for it.
        """

    def release(self, key: str) -> None:
        """Release a claim."""

    def start(self, budget: Budget, call: Mapping[str, Any], most_usd: float | None) -> tuple[Permit, str]:
        """Write a call down as sent, if the budget allows it; return the permit and the call's id.

        `call` gives request_key, judge, prompt, kind, attempt, format and size, and the batch of one that goes in one.
        `most_usd` is what it may cost at most; None: unknown. `wait`: the money left may still do when calls in flight
        have come in cheaper.
        """

    def finish(
        self, budget: Budget, call_id: str, status: CallStatus, most_usd: float | None, result: Mapping[str, Any]
    ) -> None:
        """Write down how a call ended. `result` gives further columns of `calls`. With the code `UNSENT` the budget has
        the call back.
        """

    def adopt(self, key: str, run: str) -> BatchedCall | None:
        """The call for a claimed request that was left waiting in a batch, charged to this run from now on; None: there
        is none. It is to be finished as one that this process has started.
        """

    def send_batch(self, batch: str, judge: str) -> None:
        """Write down that a batch is about to be sent."""

    def name_batch(self, batch: str, provider_id: str) -> None:
        """Write down how the provider names a batch that it has."""

    def in_batches(self) -> int:
        """How many calls wait in batches."""

    def together(self, verbs: Sequence[Verb]) -> list[Any]:
        """What each of these verbs returns, or the exception that it raises, done in this order.

        For verbs of different requests: none of them depends on what another one returns.
        """

    def spent(self, run: str) -> Spent:
        """What a run has spent."""

    def spent_by_judge(self, run: str) -> list[JudgeSpent]:
        """What a run has spent on each judge, in the order of their names."""

    def calls(self, keys: Sequence[str] | None = None) -> Iterator[tuple[Any, ...]]:
        """Every call for these requests, or every one, as rows of `COLUMNS`, oldest first. One with a damaged reply has
        none.
        """

    def budgets(self) -> Iterator[tuple[str, Spent]]:
        """Every run with what it has spent, with the most that its calls in flight may cost; in the order of runs."""

    def rest_of_calls(self) -> Iterator[RestOfCall]:
        """What else is known of calls, where anything is: the bytes that were sent, the weights as they are stored, and
        the id.
        """

    def take_in(
        self, calls: Iterable[tuple[Any, ...]], budgets: Iterable[tuple[str, Spent]], rest: Iterable[RestOfCall]
    ) -> None:
        """Write down calls, budgets and the rest of calls of another ledger, all or none. A call that is here already
        stays as it is.
        """

    def lengths(self, judge: str, prompt: str) -> list[tuple[int, int, int]]:
        """Of the latest calls of a judge with a prompt whose server said how long they were: the bytes that were sent,
        the tokens that these were, and the tokens of the reply; newest first.
        """

    def rest(self) -> None:
        """Let others take over what this process has claimed, and settle what it has in flight, until it wakes up."""

    def wake(self) -> set[str]:
        """Hold on to the claims that nobody has taken over; return the requests."""

    def forget(self, keys: Sequence[str]) -> int:
        """Remove every call for these requests for good, with its reply; return how many. Budgets stay as they are."""

    def keep_alive(self) -> None:
        """Called about once a second while replies are awaited, for what has to be done now and then."""

    def close(self) -> None:
        """Give up all claims and close. One whose call is still in flight is left to who settles it."""


def checksum(key: str, reply: str | None) -> str | None:
    """What is kept beside a reply, so that another text in its place is noticed; None without a reply.

    >>> checksum("a key", "yes") == checksum("a key", "yes."), checksum("a key", None)
    (False, None)
    """
    return None if reply is None else content_hash([key, reply])


def sealed(key: str, weights: str) -> str:
    """Weights as they are stored: with a checksum before them, so that others in their place are noticed.

    >>> unsealed("a key", sealed("a key", "[]")), unsealed("another key", sealed("a key", "[]"))
    ('[]', None)
    """
    return f"{content_hash([key, weights])} {weights}"


def unsealed(key: str, stored: str) -> str | None:
    """The weights in what is stored; None: they are damaged."""
    weights = stored.partition(" ")[2]
    return weights if _is_text(stored) and sealed(key, weights) == stored else None


class StoredLedger(ABC):
    """What the ledgers in a database have in common: how a reply is found and known to be the one written down."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._intact = Intact(where)
        self._numbers = count(1)
        # The request of each call in flight.
        self._asked: dict[str, tuple[str, str]] = {}

    @abstractmethod
    def _usable(self, key: str) -> Sequence[tuple[Any, ...]]:
        """The usable replies to a request, newest first: the reply, its checksum, and what `Origin` has, with the
        weights as they are stored.
        """

    @abstractmethod
    def _of_run(self, run: str) -> Sequence[tuple[Any, ...]]:
        """What `OF_RUN` finds."""

    def spent_by_judge(self, run: str) -> list[JudgeSpent]:
        """See `Ledger`."""
        return [
            JudgeSpent(judge, calls, int(sent), int(said), None if unknown else cost, reserved)
            for judge, calls, sent, said, cost, reserved, unknown in self._of_run(run)
        ]

    def reply(self, key: str) -> str | None:
        """See `Ledger`."""
        return self._reply(key, self._usable(key))

    def origin(self, key: str) -> Origin:
        """See `Ledger`."""
        return self._origin(key, self._usable(key))

    def together(self, verbs: Sequence[Verb]) -> list[Any]:
        """See `Ledger`."""
        return [self._tried(verb) for verb in verbs]

    def _tried(self, verb: Verb) -> Any:
        try:
            return getattr(self, verb.name)(*verb.given)
        except Exception as error:
            return error

    def _reply(self, key: str, usable: Sequence[tuple[Any, ...]]) -> str | None:
        row = self._newest(key, usable)
        return None if row is None else str(row[0])

    def _origin(self, key: str, usable: Sequence[tuple[Any, ...]]) -> Origin:
        row = self._newest(key, usable)
        assert row is not None, f"no reply to {key}"
        return replace(Origin(*row[2:-1]), weights=None if row[-1] is None else unsealed(key, row[-1]))

    def _newest(self, key: str, usable: Sequence[tuple[Any, ...]]) -> tuple[Any, ...] | None:
        return next((row for row in usable if self._intact(key, row[0], row[1], row[-1])), None)


class Intact:
    """Tells replies as they were written down from damaged ones, and reports each of those once."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._reported: set[str] = set()

    def __call__(self, key: str, reply: str, expected: str | None, weights: str | None = None) -> bool:
        """Whether a reply is intact, and its stored weights. One from before there were checksums has none, and need
        only be text.
        """
        whole = weights is None or unsealed(key, weights) is not None
        if whole and _is_text(reply) and (expected is None or checksum(key, reply) == expected):
            return True
        if key not in self._reported:
            self._reported.add(key)
            _log.warning(f"the ledger {self._where}: a reply to the request {key} is damaged; it counts as not known")
        return False

    def row(self, row: Sequence[Any], expected: str | None) -> tuple[Any, ...]:
        """A row of `COLUMNS` as others may read it: without a damaged reply, and with nothing that is not text."""
        found = dict(zip(COLUMNS, row, strict=True))
        if found["reply"] is not None and not self(found["request_key"], found["reply"], expected):
            found |= {"reply": None, "code": DAMAGED, "message": "the reply in the ledger is damaged"}
        return tuple(_readable(value) if isinstance(value, str) else value for value in found.values())


def with_checksum(row: Sequence[Any]) -> tuple[Any, ...]:
    """A row of `COLUMNS` and the checksum that is kept beside it."""
    return (*row, checksum(row[_KEY], row[_REPLY]))


_KEY, _REPLY = COLUMNS.index("request_key"), COLUMNS.index("reply")


def _is_text(text: str) -> bool:
    # Bytes that are no UTF-8 are read as lone surrogates.
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _readable(text: str) -> str:
    return text if _is_text(text) else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
