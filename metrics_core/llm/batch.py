"""Calls that go to a provider together, as a batch that takes up to a day and costs about half.

A call in a batch is written down in the ledger before the batch is sent, with the batch's own name, and so is the
batch. A process that is killed leaves both: who asks next finds the batch at its provider, whichever moment it was, and
waits for it instead of sending another one. What was not worked on is not paid.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from answerkey.metrics_core.llm.async_ledger import AsyncLedger
from answerkey.metrics_core.llm.ledger import BatchedCall
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.request import Message
from answerkey.metrics_core.llm.transport import CallError, Reply

if TYPE_CHECKING:
    from answerkey.metrics_core.llm.http import Answer

T = TypeVar("T")

_QUIET_S = 0.5
"""Nobody has joined a batch for so long: then it is sent."""
_MOST_LINES, _MOST_BYTES = 20_000, 90 * 2**20
"""Less than half of what providers take."""
NO_LINE = ""
"""In results, in the place of the id of a call: there are some of which nobody knows to which line they belong."""
_ATTEMPTS = 3
_SLICE_S = 1.0

_log = logging.getLogger("answerkey")


@dataclass(frozen=True, slots=True)
class Line:
    """One call in a batch; `settings` as `Transport.send` takes them."""

    call_id: str
    messages: Sequence[Message]
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BatchState:
    """How far a batch is.

    Attributes:
        said: the provider's word for it.
        ended: whether nothing more will come of it.
        done: lines that have a result.
        problem: why no line was worked on, if the provider says so.
        results: addresses of the results.
    """

    said: str
    ended: bool
    done: int
    problem: str = ""
    results: tuple[str, ...] = ()


class BatchService(Protocol):
    """The batches of one model.

    Raises:
        CallError: from every method, if the provider cannot be asked or refuses.
    """

    async def send(self, batch: str, lines: Sequence[Line]) -> str:
        """Send lines as a batch of this name; returns the provider's name of it."""

    async def find(self, batch: str, sent_at: float) -> tuple[str, bool]:
        """The provider's name of a batch whose sending began then, or an empty one if there is none; and whether this
        is certain by now.
        """

    async def look(self, provider_id: str) -> BatchState:
        """How far it is."""

    async def results(self, state: BatchState, batch: str) -> dict[str, Answer]:
        """For each line that was worked on, by its call id, what a call of its own would have been answered; also
        `NO_LINE`, where results belong to no line.
        """

    async def reply(self, line: Line, answer: Answer) -> Reply:
        """What a call of its own would have returned, for this answer."""


class Unsent(Exception):
    """A call in a batch was not worked on, so that nothing is paid for it."""


class StillOpen(Exception):
    """A batch goes on at its provider, and this run does not wait for it any longer."""


@dataclass(slots=True, eq=False)
class _Batch:
    """One batch: being collected, on its way, or waited for."""

    model: ModelRef
    name: str
    results: asyncio.Future[Mapping[str, Answer] | Exception]
    lines: list[Line] = field(default_factory=list)
    size: int = 0
    coming: int = 0
    sent_at: float | None = None
    provider_id: str | None = None
    alarm: asyncio.TimerHandle | None = None

    @property
    def full(self) -> bool:
        return len(self.lines) + self.coming >= _MOST_LINES or self.size >= _MOST_BYTES


@dataclass(slots=True)
class Place:
    """A place in a batch for one call."""

    _batch: _Batch
    _joined: bool = False

    @property
    def batch(self) -> str:
        """The name of the batch."""
        return self._batch.name

    @property
    def sent(self) -> bool:
        """Whether the batch may be at its provider."""
        return self._batch.sent_at is not None

    def take(self, line: Line) -> None:
        """Have this line sent with the batch."""
        self._batch.lines.append(line)
        self._batch.size += sum(len(message["content"].encode()) for message in line.messages)
        self._joined = True


class Batches:
    """The batches of one run, sent and waited for. Lives on one event loop.

    Args:
        ledger: has every batch, and the calls in it.
        services: the batch service of a model.
        wait: whether to wait for batches; otherwise they are looked at once.
        poll_s: seconds between two looks at a batch.
        stopped: whether the run was cancelled.
    """

    def __init__(
        self, ledger: AsyncLedger, services: Callable[[ModelRef], Awaitable[BatchService]], *, wait: bool,
        poll_s: float, stopped: Callable[[], bool] | None,
    ) -> None:  # fmt: skip
        self._ledger, self._services, self.wait, self._poll_s = ledger, services, wait, poll_s
        self._stopped = stopped or (lambda: False)
        self._collecting: dict[ModelRef, _Batch] = {}
        self._left: dict[str, _Batch] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @contextmanager
    def place(self, model: ModelRef) -> Iterator[Place]:
        """A place in the next batch; the batch is not sent before the context is left."""
        batch = self._collecting.get(model)
        if batch is None or batch.full:
            batch = self._collecting[model] = self._new(model, uuid.uuid4().hex[:16])
        batch.coming += 1
        if batch.alarm is not None:
            batch.alarm.cancel()
        place = Place(batch)
        try:
            yield place
        finally:
            batch.coming -= 1
            self._send_soon(batch)

    def left(self, model: ModelRef, call: BatchedCall) -> Place:
        """The place of a call that an earlier process has left in a batch."""
        if call.batch not in self._left:
            batch = self._left[call.batch] = self._new(model, call.batch)
            batch.sent_at, batch.provider_id = call.sent_at, call.provider_id
            self._start(batch)
        return Place(self._left[call.batch])

    async def reply(self, place: Place, line: Line) -> Reply:
        """Wait for the reply to a line.

        Raises:
            Unsent: it was not worked on.
            StillOpen: its batch goes on, and the run was cancelled or does not wait.
            CallError: the line failed; or nothing can be known of its batch.
            LedgerError: the ledger cannot be used.
        """
        results = await asyncio.shield(place._batch.results)
        if isinstance(results, Exception):
            # Thousands get it; without this, each would add its traceback to that of the one before.
            raise results.with_traceback(None)
        if line.call_id not in results:
            if NO_LINE in results:
                raise CallError("permanent", "garbled", "the results of its batch cannot be read; it counts as paid")
            raise Unsent("the provider did not work on it: its batch expired or was cancelled")
        service = await self._services(place._batch.model)
        return await service.reply(line, results[line.call_id])

    async def close(self) -> None:
        """Stop waiting."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _new(self, model: ModelRef, name: str) -> _Batch:
        return _Batch(model, name, asyncio.get_running_loop().create_future())

    def _send_soon(self, batch: _Batch) -> None:
        if not batch.coming:
            batch.alarm = asyncio.get_running_loop().call_later(0.0 if batch.full else _QUIET_S, self._close, batch)

    def _close(self, batch: _Batch) -> None:
        """Nobody joins it any more."""
        if self._collecting.get(batch.model) is batch:
            del self._collecting[batch.model]
        if batch.lines:
            self._start(batch)

    def _start(self, batch: _Batch) -> None:
        task = asyncio.get_running_loop().create_task(self._carry(batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, batch: _Batch) -> None:
        try:
            batch.results.set_result(await self._results(batch))
        except Exception as error:
            batch.results.set_result(error)
        except asyncio.CancelledError:
            batch.results.set_result(StillOpen("the run was ended while its batch was waited for"))
            raise

    async def _results(self, batch: _Batch) -> Mapping[str, Answer]:
        if batch.lines:
            await self._send(batch, await self._services(batch.model))
        elif batch.sent_at is None:
            raise Unsent("the run was ended before its batch was sent")
        service = await self._services(batch.model)
        if batch.provider_id is None:
            batch.provider_id = await self._find(batch, service, batch.sent_at or 0.0)
            if batch.provider_id is None:
                raise Unsent("the run was ended before the provider had its batch")
            await self._ledger.name_batch(batch.name, batch.provider_id)
        state = await self._end(batch, service, batch.provider_id)
        if state.problem:
            raise Unsent(f"the provider refused the batch {batch.provider_id}: {state.problem}")
        found = await self._surely(batch, lambda: service.results(state, batch.name))
        _log.info(f"batch {batch.provider_id} ({batch.model.label}): {state.said}, {len(found):,} results")
        return found

    async def _send(self, batch: _Batch, service: BatchService) -> None:
        """Send it; without a name afterwards, it is not there."""
        if self._stopped():
            raise Unsent("not asked, since the run was cancelled")
        await self._ledger.send_batch(batch.name, batch.model.label)
        batch.sent_at = time.time()
        for attempt in range(_ATTEMPTS):
            began = time.time()
            try:
                batch.provider_id = await service.send(batch.name, batch.lines)
            except CallError as error:
                if error.kind == "trouble":
                    # It may be there although nothing was heard of it.
                    batch.provider_id = await self._find(batch, service, began)
                if batch.provider_id is None:
                    if attempt == _ATTEMPTS - 1 or error.kind not in ("trouble", "limited"):
                        raise Unsent(f"the batch could not be sent: {error.message}") from error
                    await self._pause(batch, max(self._poll_s, error.retry_after or 0.0))
                    continue
            break
        assert batch.provider_id is not None
        await self._ledger.name_batch(batch.name, batch.provider_id)
        _log.info(
            f"batch {batch.provider_id}: {len(batch.lines):,} questions sent to {batch.model.label}. It may take a "
            "day; if this run ends before, the same with --batch waits for it again, and nothing is paid twice"
        )

    async def _find(self, batch: _Batch, service: BatchService, tried_at: float) -> str | None:
        """The provider's name of a batch that was last tried to be sent then, if it has it."""
        while True:
            found, certain = await self._surely(batch, lambda: service.find(batch.name, batch.sent_at or 0.0))
            if found:
                return found
            # A list may be some seconds behind.
            if certain and time.time() > tried_at + self._poll_s:
                return None
            await self._pause(batch, self._poll_s)

    async def _end(self, batch: _Batch, service: BatchService, provider_id: str) -> BatchState:
        """Wait until it has ended."""
        last = None
        while True:
            state = await self._surely(batch, lambda: service.look(provider_id))
            if state.ended:
                return state
            if (state.said, state.done) != last:
                last = state.said, state.done
                _log.info(f"batch {provider_id} ({batch.model.label}): {state.said}, {state.done:,} questions done")
            if not self.wait:
                raise StillOpen(_goes_on(batch))
            await self._pause(batch, self._poll_s)

    async def _surely(self, batch: _Batch, ask: Callable[[], Awaitable[T]]) -> T:
        """What a provider says, as soon as it can be asked."""
        told = False
        while True:
            try:
                return await ask()
            except CallError as error:
                if error.code == "http_404":
                    name = batch.provider_id or batch.name
                    gone = f"{batch.model.label} has no batch {name} any more; it counts as paid"
                    raise CallError("permanent", "timeout", gone) from error
                if error.code == "too_large" and batch.provider_id is not None:
                    raise
                if error.kind not in ("trouble", "limited") or not self.wait:
                    raise StillOpen(f"{_goes_on(batch)} ({error.message})") from error
                if not told:
                    _log.warning(
                        f"batch {batch.provider_id or batch.name}: {error.message}; asked again until it answers"
                    )
                told, wait = True, error.retry_after or 0.0
            await self._pause(batch, max(self._poll_s, wait))

    async def _pause(self, batch: _Batch, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (left := end - loop.time()) > 0:
            if self._stopped():
                _log.warning(_goes_on(batch))
                raise StillOpen(_goes_on(batch))
            await asyncio.sleep(min(left, _SLICE_S))


def _goes_on(batch: _Batch) -> str:
    name = batch.provider_id or f"{batch.name} (as answerkey calls it)"
    return (
        f"the batch {name} goes on at {batch.model.label} and will have to be paid: run the same again with --batch to "
        "fetch its replies, or cancel it at the provider"
    )
