"""Ask models: from the ledger where they have replied before, over the network where not, and never twice.

This is the only layer of retries:

- A rate limit (429, or a 503 that names a time) slows down all calls to the model, and the call is made again.
- Transient errors (5xx, a time-out, a broken connection, an empty reply) are retried after a growing, jittered wait,
  `ATTEMPTS` times at most.
- A server that refuses the format or a parameter is asked without it, now and later.
- A reply that was cut off gets more room once; an unreadable one is sent back for repair once. A refusal is final.
- Everything else fails at once; if it concerns the model and not the question (a wrong key), for all questions.
- A model that has not replied at all by the time ten questions have used up their attempts is not asked again.
- One whose quota is used up, or that refuses every call, or that fell silent, is left: the rest can be asked later.

Nothing is retried after the deadline of a question. If it cuts a call short, the failure is what the server did before:
its trouble, if it was in trouble. Only where nothing went wrong before, it is a time-out.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from answerkey.metrics_core.llm.access import Access, CallLimits
from answerkey.metrics_core.llm.async_ledger import AsyncLedger
from answerkey.metrics_core.llm.availability import Availability, Unavailable
from answerkey.metrics_core.llm.batch import Batches, Line, StillOpen, Unsent
from answerkey.metrics_core.llm.claims import ClaimLost, Claims
from answerkey.metrics_core.llm.ledger import UNSENT, BatchedCall, CallStatus, Origin
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.rate_limit import Queue, Signal, Ticket
from answerkey.metrics_core.llm.reply import Unreadable, without_thoughts
from answerkey.metrics_core.llm.request import Message, Request, repair
from answerkey.metrics_core.llm.response import NoUsableReply, Response, failure, parse, remedy
from answerkey.metrics_core.llm.response_format import FormatNegotiation, ResponseFormat
from answerkey.metrics_core.llm.spans import span_of
from answerkey.metrics_core.llm.spending import Bill, BudgetUsedUp, Purchase, Spending
from answerkey.metrics_core.llm.transport import CallError, Reply, Transport

T = TypeVar("T")

ATTEMPTS = 6

_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 30.0
_CLAIM_POLL_S = 0.2
_MORE_ROOM = 4
"""How many times as many tokens a reply may have after it was cut off."""

_SIGNALS: Mapping[str, Signal] = {"limited": "limited", "trouble": "trouble"}
_SOON_S = 0.25
"""After a refusal that had nothing to do with the load."""


@dataclass(slots=True)
class Attempt:
    """One question while it is being asked. Everything from `messages` on changes from call to call.

    `kind` is ask, longer (more room for the reply) or repair (the model is shown what was wrong); `calls` counts all.
    The clock of the deadline starts with the first call, at `started`. `last` is how the last call failed, if it was
    the server's trouble or its limit. `batched`: whether it may go in a batch; `left`: the call that an earlier process
    has left in one.
    """

    model: ModelRef
    request: Request
    bill: Bill
    messages: tuple[Message, ...]
    max_tokens: int
    batched: bool = False
    left: BatchedCall | None = None
    kind: str = "ask"
    response_format: ResponseFormat = field(default_factory=lambda: ResponseFormat("text"))
    calls: int = 0
    started: float | None = None
    last: CallError | None = None

    @property
    def purchase(self) -> Purchase:
        """What the next call buys."""
        return Purchase.of(
            self.model, self.request.prompt, self.messages, self.max_tokens, longer=self.kind == "longer"
        )


class Asker(Protocol):
    """What asks a model, as `Client` does."""

    async def ask(self, model: ModelRef, request: Request, read: Callable[[str], T], bill: Bill) -> T:
        """See `Client.ask`."""

    async def origin(self, request: Request) -> Origin:
        """See `Client.origin`."""


class Client:
    """Asks models on behalf of one run. Lives on one event loop.

    Args:
        ledger: has the replies so far, and gets every call.
        access: has the run that the budget is counted for, and whether it was cancelled.
        limits: of the run.
        noun: the word for a model in messages.
        transports: what carries the calls to a model; waited for before the first one.
        queues: the queue of each model.
        formats: what each model accepts, as learned so far; the flag says whether a format is asked for at all.
        batches: where calls wait that go to a provider together; None: there is no such way.
    """

    def __init__(
        self, ledger: AsyncLedger, access: Access, limits: CallLimits, noun: str,
        transports: Callable[[ModelRef], Awaitable[Transport]], queues: Callable[[ModelRef], Queue],
        formats: Callable[[ModelRef, bool], FormatNegotiation], batches: Batches | None = None,
    ) -> None:  # fmt: skip
        self._ledger, self._limits, self._noun = ledger, limits, noun
        self.claims = Claims(ledger)
        self._transports, self._queues, self._formats, self._batches = transports, queues, formats, batches
        self._spending = Spending(ledger, access, limits)
        self._asking: dict[str, asyncio.Future[NoUsableReply | None]] = {}
        self._models: dict[ModelRef, Availability] = {}

    @property
    def calls(self) -> int:
        """How many were made so far."""
        return self._spending.total.calls

    def tally(self) -> str:
        """What was spent so far and how fast it goes, for people."""
        limits = [model.queue.limit for model in self._models.values()]
        flying, most = sum(limit.in_flight for limit in limits), sum(limit.limit for limit in limits)
        total = self._spending.total
        cost = "price unknown" if total.cost_usd is None else f"${total.cost_usd:.4f}"
        return f"{total.calls:,} calls, {cost}, {flying} at once of {most}"

    async def ask(
        self, model: ModelRef, request: Request, read: Callable[[str], T], bill: Bill, *, batched: bool = False
    ) -> T:
        """The model's reply to a request, as `read` reads it.

        Args:
            read: raises `Unreadable` for a reply that cannot be used.
            bill: gets what is paid, even if nothing comes of it.
            batched: whether the first call may go in a batch, as the run wants it.

        Raises:
            NoUsableReply: the model gave no usable reply.
            BudgetUsedUp: the budget forbids the call, the run was cancelled, or the question waits in a batch.
            Unavailable: the server accepts no calls for now.
            LedgerError: the ledger cannot be used.
        """
        key, read = request.key, _after_thoughts(request, read)
        bill.requests.append(key)
        while True:
            # Thousands of known replies in a row must not keep the loop from calls in flight.
            await asyncio.sleep(0)
            if (known := await self._known(key, read)) is not None:
                return known[0]
            if key not in self._asking:
                break
            failure = await asyncio.shield(self._asking[key])
            if failure is not None:
                # What failed for one with all retries would fail for each that waited, one after the other.
                raise NoUsableReply(failure.code, failure.message)
        # No await since the look: nobody else in this process is asking it.
        self._asking[key] = asyncio.get_running_loop().create_future()
        failure = None
        try:
            in_batch = batched and self._batches is not None and self._batches.wait
            attempt = Attempt(model, request, bill, request.messages, request.max_tokens, in_batch)
            return await self._ask(key, attempt, read)
        except NoUsableReply as error:
            failure = error
            raise
        finally:
            self._asking.pop(key).set_result(failure)

    async def _ask(self, key: str, attempt: Attempt, read: Callable[[str], T]) -> T:
        """The reply, once no other process is asking the same."""
        while True:
            self._spending.check()
            mine = await self.claims.take(key)
            try:
                if not mine:
                    await asyncio.sleep(_CLAIM_POLL_S)
                # Since the look, another process may have got the reply.
                if (known := await self._known(key, read)) is not None:
                    return known[0]
                if mine and self._batches is not None:
                    attempt.left = await self._spending.adopt(key, attempt.bill)
                if mine:
                    return await self._converse(attempt, read)
            except ClaimLost:
                pass  # to another process
            finally:
                if mine:
                    await self.claims.release(key)

    async def origin(self, request: Request) -> Origin:
        """Where the reply came from that `ask` has returned for this request.

        Raises:
            LedgerError: the ledger cannot be used.
        """
        return await self._ledger.origin(request.key)

    async def knows(self, request: Request, read: Callable[[str], T]) -> bool:
        """Whether the ledger has a reply to this request that `read` can read.

        Raises:
            LedgerError: the ledger cannot be used.
        """
        return await self._known(request.key, _after_thoughts(request, read)) is not None

    async def _known(self, key: str, read: Callable[[str], T]) -> tuple[T] | None:
        if (reply := await self._ledger.reply(key)) is None:
            return None
        try:
            return (read(reply),)
        except Unreadable:
            # An earlier version of the reader could read it.
            return None

    async def _converse(self, attempt: Attempt, read: Callable[[str], T]) -> T:
        """One call if all goes well; a cut-off reply gets more room once, an unreadable one is sent back once."""
        done = {attempt.kind}
        while True:
            response = await self._retry(attempt, read)
            if response.problem is None:
                return response.value  # type: ignore[return-value]
            attempt.kind = remedy(response, done)
            done.add(attempt.kind)
            if attempt.kind == "longer":
                attempt.max_tokens *= _MORE_ROOM
            else:
                said = response.reply.text if response.reply.kind == "text" else ""
                attempt.messages = repair(attempt.messages, said, response.problem.message)

    async def _retry(self, attempt: Attempt, read: Callable[[str], T]) -> Response[T]:
        """Call until there is a reply, readable or not."""
        transport = await self._transports(attempt.model)
        formats, troubles = self._formats_of(attempt), 0
        model = self._availability(attempt.model)
        other: ResponseFormat | None = None
        while True:
            try:
                response = await self._next(attempt, model, transport, other, read)
            except CallError as error:
                if attempt.last and self._cut_short(attempt, error):
                    raise self._over(attempt, model, cut_short=True) from error
                attempt.last = None if error.kind == "refused" else error
                if error.kind == "refused":
                    other = formats.after_refusal(attempt.response_format, error)
                    if other is None:
                        raise NoUsableReply(error.code, error.message) from error
                elif error.kind == "trouble":
                    troubles += 1
                    await self._back_off(attempt, model, troubles, error)
                elif error.kind != "limited":
                    if error.code == "quota":
                        raise Unavailable(model.left) from error
                    raise NoUsableReply(error.code, error.message) from error
                elif model.queue.limit.tolerant:
                    wait = _SOON_S if error.retry_after is None or model.hopeless(error) else error.retry_after
                    await asyncio.sleep(max(0.0, min(wait, self._seconds_left(attempt))))
            else:
                formats.accepted(attempt.response_format)
                attempt.last = None
                return response

    def _formats_of(self, attempt: Attempt) -> FormatNegotiation:
        return self._formats(attempt.model, bool(attempt.request.schema))

    def _availability(self, model: ModelRef) -> Availability:
        if model not in self._models:
            self._models[model] = Availability(self._queues(model), self._noun, self._limits.deadline_s)
        return self._models[model]

    async def _back_off(self, attempt: Attempt, model: Availability, troubles: int, error: CallError) -> None:
        wait = min(_FIRST_WAIT_S * 2 ** (troubles - 1), _LONGEST_WAIT_S) * random.uniform(0.5, 1.5)
        if troubles == ATTEMPTS:
            model.question_lost(error)
        if troubles == ATTEMPTS or wait >= self._seconds_left(attempt):
            raise NoUsableReply(error.code, _last_of(attempt, error)) from error
        await asyncio.sleep(wait)

    async def _next(
        self, attempt: Attempt, model: Availability, transport: Transport, other: ResponseFormat | None,
        read: Callable[[str], T],
    ) -> Response[T]:  # fmt: skip
        """The next call: the first in a batch, where the run wants that or an earlier process has left it in one."""
        while self._batches is not None and (attempt.left or attempt.batched):
            with suppress(Unsent):
                return await self._in_batch(attempt, model, self._batches, read)
        return await self._call(attempt, model, transport, other, read)

    async def _call(
        self, attempt: Attempt, model: Availability, transport: Transport, other: ResponseFormat | None,
        read: Callable[[str], T],
    ) -> Response[T]:  # fmt: skip
        """One call: a slot in the queue, a permit of the budget, and both ends of the call written down."""
        purchase = attempt.purchase
        # Checked before and after the wait: thousands that will not be asked need not queue for it.
        self._check(attempt, model, purchase)
        ticket = await self._enter(model, attempt)
        signal: Signal = "neutral"
        wait: float | None = None
        try:
            await self.claims.check(attempt.request.key)
            self._check(attempt, model, purchase)
            # Not before: other questions may have learned in the meantime what the model accepts.
            attempt.response_format = other or self._formats_of(attempt).first()
            call_id, most = await self._spending.permit(
                _described(attempt, purchase), purchase, attempt.bill, lambda: self._seconds_left(attempt)
            )
            attempt.calls += 1
            started, reply = _now(), None
            timeout_s = max(0.001, min(self._limits.timeout_s, self._seconds_left(attempt)))
            try:
                reply = await self._send(attempt, transport, timeout_s)
                response, signal = parse(reply, read, attempt.request), "ok"
                model.reply()
                status, outcome = response.ending
                return response
            except BaseException as error:
                status, outcome = "error", failure(error)
                if isinstance(error, CallError):
                    signal, wait = self._signal(error, timeout_s), error.retry_after
                    if model.hopeless(error):
                        # Longer than any question waits; asking again shows whether the server means it.
                        wait = None
                    model.failure(error, attempt.request.key, started, _now())
                raise
            finally:
                # Written down in any case, also for a caller that is cancelled now.
                result = {"seconds": _now() - started, **outcome}
                await self._spending.end(call_id, status, most, attempt.bill, purchase, reply, result)
        finally:
            model.queue.leave(ticket, signal, wait)

    async def _in_batch(
        self, attempt: Attempt, model: Availability, batches: Batches, read: Callable[[str], T]
    ) -> Response[T]:
        """The first call, in a batch; it waits as long as it takes, and the clock of the question does not run.

        Raises:
            Unsent: the call that was left in a batch was not worked on; there is none now.
        """
        purchase, left = replace(attempt.purchase, in_batch=True), attempt.left
        if left is None:
            self._check(attempt, model, purchase)
            attempt.response_format = self._formats_of(attempt).first()
            with batches.place(attempt.model) as place:
                described = {**_described(attempt, purchase), "batch": place.batch}
                call_id, most = await self._spending.permit(described, purchase, attempt.bill, lambda: 0.0)
                line = _line(call_id, attempt)
                place.take(line)
        else:
            attempt.response_format = ResponseFormat(left.format)
            call_id, most, place = left.call_id, left.most_usd, batches.left(attempt.model, left)
            line = _line(call_id, attempt)
        attempt.left, attempt.batched, attempt.calls = None, attempt.batched and left is not None, attempt.calls + 1
        reply: Reply | None = None
        status: CallStatus = "error"
        outcome: Mapping[str, Any] | None = None
        try:
            reply = await batches.reply(place, line)
            response = parse(reply, read, attempt.request)
            model.reply()
            status, outcome = response.ending
            return response
        except StillOpen as error:
            self._spending.leave(call_id)
            raise BudgetUsedUp(str(error)) from error
        except Unsent as error:
            outcome = {"code": UNSENT, "message": str(error), "cost_usd": 0.0}
            if left is None:
                raise Unavailable(str(error)) from error
            attempt.calls -= 1
            raise
        except CallError as error:
            outcome = failure(error)
            raise
        except BaseException as error:
            # What is at its provider stays there, whatever happened here.
            outcome = None if place.sent else {**failure(error), "cost_usd": 0.0}
            raise
        finally:
            # What still waits in its batch has not ended.
            if outcome is not None:
                await self._spending.end(call_id, status, most, attempt.bill, purchase, reply, outcome)

    def _check(self, attempt: Attempt, model: Availability, purchase: Purchase) -> None:
        if model.given_up:
            raise NoUsableReply(*model.given_up)
        if model.left:
            raise Unavailable(model.left)
        self._spending.check(purchase)
        if self._seconds_left(attempt) <= 0:
            raise self._over(attempt, model)

    async def _enter(self, model: Availability, attempt: Attempt) -> Ticket:
        if attempt.started is None:
            # The first call may wait as long as it takes; the clock of the question starts with it.
            ticket = await model.queue.enter()
            attempt.started = _now()
            return ticket
        try:
            async with asyncio.timeout(self._seconds_left(attempt)):
                return await model.queue.enter(again=True)
        except TimeoutError as error:
            raise self._over(attempt, model) from error

    def _signal(self, error: CallError, timeout_s: float) -> Signal:
        """What a call that failed says about the load. One that had little time says nothing of it."""
        if error.code == "timeout" and 2 * timeout_s >= self._limits.timeout_s:
            return "late"
        return _SIGNALS.get(error.kind, "neutral")

    async def _send(self, attempt: Attempt, transport: Transport, timeout_s: float) -> Reply:
        settings = attempt.response_format.settings(attempt.request, attempt.max_tokens)
        with span_of(attempt.model, settings) as span:
            try:
                reply = await transport.send(attempt.model, attempt.messages, settings, timeout_s)
            except CallError as error:
                span.failed(error)
                raise
            span.replied(reply)
            return reply

    def _cut_short(self, attempt: Attempt, error: CallError) -> bool:
        """Whether a call ended because the time of its question did: that says nothing of the server."""
        return error.code == "timeout" and self._seconds_left(attempt) <= 0

    def _over(self, attempt: Attempt, model: Availability, *, cut_short: bool = False) -> NoUsableReply | Unavailable:
        """The failure of a question whose time is over, perhaps in the middle of its last call."""
        last, calls, deadline = attempt.last, attempt.calls, f"{self._limits.deadline_s:g} s"
        if last is not None and last.kind == "limited":
            model.question_refused(last, _now())
        if model.left:
            return Unavailable(model.left)
        if last is not None and last.kind == "trouble":
            cut = f"call {calls - 1}; the deadline of {deadline} cut call {calls} short"
            return NoUsableReply(last.code, f"{last.message} ({cut})" if cut_short else _last_of(attempt, last))
        text = f"the {deadline} of one question were over after {calls} calls"
        return NoUsableReply("deadline", f"{text}: the {self._noun} limits the rate" if last else text)

    def _seconds_left(self, attempt: Attempt) -> float:
        gone = 0.0 if attempt.started is None else _now() - attempt.started
        return self._limits.deadline_s - gone


@dataclass(frozen=True, slots=True)
class Batched:
    """Asks as its client does, in batches where the run wants them."""

    client: Client

    async def ask(self, model: ModelRef, request: Request, read: Callable[[str], T], bill: Bill) -> T:
        """See `Client.ask`."""
        return await self.client.ask(model, request, read, bill, batched=True)

    async def knows(self, request: Request, read: Callable[[str], T]) -> bool:
        """See `Client.knows`."""
        return await self.client.knows(request, read)

    async def origin(self, request: Request) -> Origin:
        """See `Client.origin`."""
        return await self.client.origin(request)


def _after_thoughts(request: Request, read: Callable[[str], T]) -> Callable[[str], T]:
    """Reads what follows the thoughts of a reply, where the reply is to be an object."""
    return (lambda reply: read(without_thoughts(reply, request.user))) if request.schema else read


def _line(call_id: str, attempt: Attempt) -> Line:
    return Line(call_id, attempt.messages, attempt.response_format.settings(attempt.request, attempt.max_tokens))


def _described(attempt: Attempt, purchase: Purchase) -> dict[str, Any]:
    """The columns of the ledger for a call before it is made."""
    request = attempt.request
    return {
        "request_key": request.key, "judge": request.model, "prompt": request.prompt, "kind": attempt.kind,
        "attempt": attempt.calls + 1, "format": attempt.response_format.format, "size": purchase.size,
    }  # fmt: skip


def _now() -> float:
    return asyncio.get_running_loop().time()


def _last_of(attempt: Attempt, error: CallError) -> str:
    return f"{error.message} (the last of {attempt.calls} calls)"
