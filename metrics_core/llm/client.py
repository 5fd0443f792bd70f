"""Ask models: serve replies from the ledger, otherwise call the model; never pay for the same request twice.

This is the only layer of retries:

- A rate limit (429, or a 503 that names a time) slows down all calls to the model, and the call is made again.
- Trouble of the server (5xx, a time-out, a broken connection) is retried after a growing, jittered wait, `ATTEMPTS`
  times at most. While all calls fail, they are made one at a time until one succeeds, and use up no attempts.
- A useless reply (empty, or no completion at all) is asked for again, `TRIES` times in all.
- A server that refuses the format, a parameter or the system role is asked without it, now and later.
- A reply that was cut off gets more room once; an unreadable one is sent back for repair once. A refusal is final.
- Everything else fails at once; if it concerns the model and not the question (a wrong key), for all questions.
- A model that is out of quota, refuses every call or does not reply is left: the remaining questions stay open.

Nothing is retried after the deadline of a question. If it cuts a call short, the failure is the last error of the
server, if there was one; otherwise it is a time-out.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Generic, TypeVar

from answerkey.metrics_core.llm import provider
from answerkey.metrics_core.llm.access import Access, CallLimits
from answerkey.metrics_core.llm.batch import Batch, Batches
from answerkey.metrics_core.llm.cost import REFUSAL, Bill, credible, most_tokens, used_up
from answerkey.metrics_core.llm.ledger import (
    MAY_BE_PAID,
    UNSENT,
    AsyncLedger,
    BatchedCall,
    CallStatus,
    ClaimLost,
    Ledger,
)
from answerkey.metrics_core.llm.limiter import Breaker, Limiter, Load
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.reply import Unreadable
from answerkey.metrics_core.llm.request import CallError, CallFailed, CallSkipped, Reply, Request, Unsent
from answerkey.metrics_core.llm.response import (
    FormatNegotiation,
    ResponseFormat,
    failure,
    parse,
    read_text,
    remedy,
    repair,
)
from answerkey.metrics_core.sample import content_hash

T = TypeVar("T")
X = TypeVar("X")

ATTEMPTS = 6
TRIES = 3

_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 30.0
_CLAIM_POLL_S = 0.2
_BUDGET_POLL_S = 0.1
_MORE_ROOM = 4
"""The factor by which a reply may be longer after it was cut off."""

_log = logging.getLogger("answerkey")


_limiters: dict[tuple[ModelRef, str, int, float], Limiter] = {}


def limiter_of(model: ModelRef, limits: CallLimits) -> Limiter:
    """The limiter of a model; all runs of this process with the same key and limits share it."""
    # The key is part of what a provider limits, and is itself kept nowhere.
    slot = model, content_hash(model.api_key), limits.concurrency, limits.timeout_s
    if slot not in _limiters:
        _limiters[slot] = Limiter(limits.concurrency, math.inf if model.hosted else limits.timeout_s)
    return _limiters[slot]


@cache
def learned_of(model: ModelRef, *, structured: bool) -> FormatNegotiation:
    """What this process has learned about the replies of a model; `structured`: where a format is asked for."""
    return FormatNegotiation(
        takes_format=structured and "response_format" in provider.abilities(model.model).parameters
    )


class Client:
    """Asks models on behalf of one run. Lives on one event loop.

    Args:
        ledger: has the replies so far, and gets every call.
        access: has the run that the budget is counted for, and whether and why nothing may be asked.
        limits: of the run.
        noun: the word for a model in messages.
        check: called before the first call to a model, in a thread; raises if one cannot be called.
    """

    def __init__(
        self, ledger: AsyncLedger, access: Access, limits: CallLimits, noun: str, check: Callable[[], None]
    ) -> None:
        self.ledger = ledger
        self.noun = noun
        self._access = access
        self._check_models = check
        self.limits = replace(limits, run=access.run)
        self._preparing: dict[ModelRef, asyncio.Task[None]] = {}
        # Where calls wait that go to a provider together; None: their replies cannot be waited for
        self.batches: Batches | None = Batches(ledger, access, limits, self._prepared)
        self.clock = asyncio.get_running_loop().time
        # Calls that may cost this much or more were refused for good, for this reason.
        self.too_dear = math.inf
        self.used_up = ""
        self.without_usage: set[ModelRef] = set()
        self.max_tokens_out: Counter[ModelRef] = Counter()
        self.total = Bill()
        self._asking: dict[str, asyncio.Future[CallFailed | None]] = {}
        self.breakers: dict[ModelRef, Breaker] = {}

    def unbatched(self) -> Client:
        """This client for questions whose replies cannot wait for a batch."""
        other = copy(self)
        other.batches = None
        return other

    async def close(self) -> None:
        """Stop waiting for models and batches."""
        tasks = list(self._preparing.values())
        if self.batches is not None:
            tasks += self.batches.fetching.values()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _prepare(self, model: ModelRef) -> None:
        self._check_models()
        provider.prepare(model)

    async def _prepared(self, model: ModelRef) -> None:
        if model not in self._preparing:
            # In a thread, so that calls to other models go on meanwhile.
            self._preparing[model] = asyncio.create_task(asyncio.to_thread(self._prepare, model))
        # A caller that is cancelled leaves the task to the others.
        await asyncio.shield(self._preparing[model])

    def tally(self) -> str:
        """A line for people: calls, cost, calls in flight."""
        limiters = [limiter_of(model, self.limits) for model in self.breakers]
        in_flight = sum(limiter.in_flight for limiter in limiters)
        max_in_flight = sum(int(limiter.limit) for limiter in limiters)
        cost = "price unknown" if self.total.cost_usd is None else f"${self.total.cost_usd:.4f}"
        return f"{self.total.calls:,} calls, {cost}, {in_flight} at once of {max_in_flight}"

    async def ask(self, model: ModelRef, request: Request, reader: Callable[[str], T], bill: Bill) -> T:
        """The model's reply to a request, as `reader` reads it.

        Args:
            reader: raises `Unreadable` for a reply that cannot be used.
            bill: gets what is paid, even if nothing comes of it.

        Raises:
            CallFailed: the model gave no usable reply.
            CallSkipped: the budget forbids the call, the run was cancelled, the question waits in a batch, or the
                server accepts no calls for now.
            LedgerError: the ledger cannot be used.
        """
        if self._access.again:
            request = replace(request, again=self._access.again)
        key = request.key
        bill.requests.append(key)
        # Thousands of known replies in a row must not keep the loop from calls in flight.
        await asyncio.sleep(0)
        while (asking := self._asking.get(key)) is not None:
            if (error := await asyncio.shield(asking)) is not None:
                # What failed for one with all retries would fail for each that waited, one after the other.
                raise CallFailed(error.code, error.message)
        asking = self._asking[key] = asyncio.get_running_loop().create_future()
        error = None
        try:
            return await self._reply(model, request, reader, bill)
        except CallFailed as failed:
            error = failed
            raise
        finally:
            del self._asking[key]
            asking.set_result(error)

    async def _reply(self, model: ModelRef, request: Request, reader: Callable[[str], T], bill: Bill) -> T:
        """The reply in the ledger, or the one that the model gives while no other process asks the same."""
        unread: str | None = None
        run = None if self.batches is None else self._access.run
        while True:
            reply, claimed, resumed = await self.ledger.do(Ledger.reply_or_claim, request.key, unread, run)
            try:
                if reply is not None:
                    return read_text(reply, reader, request)
                self.afford()
                if claimed:
                    if resumed is not None:
                        bill.calls += 1
                        self.total.calls += 1
                    await self._prepared(model)
                    in_batch = self.batches is not None and self.limits.batch
                    question = _Question(self, model, request, reader, bill=bill, resumed=resumed, in_batch=in_batch)
                    return await question.ask()
                await asyncio.sleep(_CLAIM_POLL_S)
            except Unreadable:
                # An earlier version of the reader could read it.
                unread = reply
            except ClaimLost:
                pass  # to another process
            finally:
                if claimed:
                    await self.ledger.do(Ledger.release, request.key)

    def afford(self, most_usd: float = 0.0) -> None:
        """Raise if a call that may cost so many dollars cannot be bought, or nothing may be asked.

        Raises:
            CallSkipped: why.
        """
        if self._access.is_stopped:
            raise CallSkipped("not asked, since the run was cancelled")
        if self._access.refusal:
            raise CallSkipped(self._access.refusal)
        if self.too_dear <= most_usd:
            raise CallSkipped(self.used_up)


@dataclass(eq=False)
class _Question(Generic[T]):
    """One question, which is asked until there is a reply or no point in another call.

    Attributes:
        reader: raises `Unreadable` for a reply that cannot be used.
        resumed: the call that an earlier process submitted in a batch; None: there is none.
        in_batch: whether its next call may go in a batch.
        kind: ask, longer (more room for the reply) or repair (the model is shown what was wrong).
        other_format: how to ask after a refusal of the format or of a parameter; None: as the model takes it.
        calls: all that were made; `troubles` and `useless` those that failed and count against the limits.
        started: when its first call began, which starts the clock of the deadline; None: none was made.
        last_error: how the last call failed, if it was the server's trouble or its limit.
        call_id: of the last call; `most_usd`: dollars that it may cost at most, None where its price is unknown.
        reply: the last that came.
    """

    client: Client
    model: ModelRef
    request: Request
    reader: Callable[[str], T]
    bill: Bill
    resumed: BatchedCall | None
    in_batch: bool
    kind: str = "ask"
    other_format: ResponseFormat | None = None
    calls: int = 0
    troubles: int = 0
    useless: int = 0
    started: float | None = None
    last_error: CallError | None = None
    call_id: str = ""
    most_usd: float | None = None
    reply: Reply | None = None

    def __post_init__(self) -> None:
        client = self.client
        self.limiter = limiter_of(self.model, client.limits)
        self.breaker = client.breakers.setdefault(self.model, Breaker(client.noun, client.limits.deadline_s))
        self.formats = learned_of(self.model, structured=bool(self.request.schema))
        self.response_format = self.formats.best
        self.messages = self.request.messages
        self.max_tokens = self.request.max_tokens

    async def ask(self) -> T:
        """One call if all goes well; a cut-off reply gets more room once, an unreadable one is sent back once."""
        tried = set[str]()
        while True:
            tried.add(self.kind)
            try:
                if self.client.batches is not None and (self.resumed or self.in_batch):
                    value = await self._in_batch(self.client.batches)
                else:
                    value = await self._call()
                if self.kind == "longer":
                    room = self.formats.room
                    room[self.request.prompt] = max(room[self.request.prompt], self.max_tokens)
                return value
            except Unsent:
                continue
            except CallError as error:
                await self._after(error)
            except Unreadable as problem:
                # The same question with more room, or with the reply and what is wrong with it behind it
                assert self.reply is not None
                self.kind = remedy(problem, self.reply, tried, self.max_tokens)
                self.other_format = None
                if self.kind == "longer":
                    self.max_tokens *= _MORE_ROOM
                else:
                    self.messages = repair(self.messages, self.reply, problem)

    async def _after(self, error: CallError) -> None:
        """Wait as a failed call demands; raise if there is no point in another one."""
        breaker = self.breaker
        if self.last_error and error.code == "timeout" and self._seconds_left() <= 0:
            raise self._over(cut_short=True) from error
        self.last_error = error if error.kind in ("limited", "trouble") else None
        if error.code == "quota":
            raise CallSkipped(str(breaker.stopped or error.message), unavailable=True) from error
        if error.kind == "refused":
            self.other_format = self.formats.after_refusal(self.response_format, error)
            if self.other_format is None:
                breaker.useless(error.code, error.message, self.request.key)
                raise CallFailed(error.code, error.message) from error
            if error.parameter == "reasoning_effort":
                _log.warning(f"{self.model.label} takes no reasoning_effort; it is asked without")
        elif error.kind == "again":
            self.useless += 1
            if self.useless == TRIES:
                raise CallFailed(error.code, f"{error.message} (the last of {self.calls} calls)") from error
        elif error.kind == "limited" or (error.kind == "trouble" and breaker.open):
            # The limiter, or the breaker, has it wait.
            return
        elif error.kind == "trouble":
            self.troubles += 1
            wait = min(_FIRST_WAIT_S * 2 ** (self.troubles - 1), _LONGEST_WAIT_S) * random.uniform(0.5, 1.5)
            if self.troubles == ATTEMPTS or wait >= self._seconds_left():
                raise CallFailed(error.code, f"{error.message} (the last of {self.calls} calls)") from error
            await asyncio.sleep(wait)
        else:
            raise CallFailed(error.code, error.message) from error

    async def _call(self) -> T:
        """One call, when it is its turn: a reservation in the budget, and both ends of the call written down."""
        breaker = self.breaker
        limiter = self.limiter
        has_turn = False
        # Checked before and after the wait: thousands that will not be asked need not queue for it.
        self._check()
        if breaker.open:
            has_turn = await self._wait(breaker.wait())
        try:
            started = await self._wait(limiter.acquire(started=self.started is not None))
            load: Load = "neutral"
            retry_after: float | None = None
            try:
                self._check()
                self.started = started if self.started is None else self.started
                # Not before: other questions may have learned in the meantime what the model accepts, and how much
                # room its replies need.
                self.response_format = self.other_format or self.formats.best
                self.max_tokens = max(self.max_tokens, self.formats.room[self.request.prompt])
                await self._reserve()
                timeout_s = max(0.001, min(self.client.limits.timeout_s, self._seconds_left()))
                settings = self.response_format.settings(self.request, self.max_tokens)
                messages = self.response_format.messages(self.messages)
                sending = provider.complete(self.model, messages, settings, timeout_s)
                value = await self._settled(sending)
                load = "ok"
                return value
            except Unreadable:
                load = "ok"
                raise
            except CallError as error:
                if error.kind == "limited":
                    load = "limited"
                elif error.code == "timeout" and 2 * timeout_s >= self.client.limits.timeout_s:
                    # One that had little time says nothing of the load.
                    load = "late"
                # Where it exceeds the deadline, retry soon to confirm it.
                retry_after = None if breaker.hopeless(error) else error.retry_after
                raise
            finally:
                limiter.release(started, load, retry_after)
        finally:
            if has_turn:
                breaker.turn.release()

    async def _in_batch(self, batches: Batches) -> T:
        """The first call, in a batch; it waits as long as it takes, and the clock of the question does not run.

        Raises:
            Unsent: the call that was left in a batch was not worked on; there is none now.
        """
        resumed = self.resumed
        if resumed is None:
            self._check()
            self.response_format = self.formats.best
            settings = self.response_format.settings(self.request, self.max_tokens)
            with batches.joined(self.model) as batch:
                await self._reserve(batch.name)
                batch.take(self.call_id, self.response_format.messages(self.messages), settings)
        else:
            self.response_format = ResponseFormat(resumed.format)
            self.call_id = resumed.call_id
            self.most_usd = resumed.most_usd
            batch = batches.of_call(self.model, resumed)
        # One that was left in a batch and not worked on is sent in another one, if this run has any
        self.resumed = None
        self.in_batch = self.in_batch and resumed is not None
        self.calls = 1
        try:
            return await self._settled(batch.reply(self.call_id), batch)
        except Unsent as error:
            if resumed is None:
                raise CallSkipped(str(error), unavailable=True) from error
            self.calls = 0
            raise

    async def _reserve(self, batch: str | None = None) -> None:
        """Write the next call down and count it at the most that it may cost, as soon as the budget allows it.

        It waits for calls in flight that may cost less than is reserved for them, except for a place in a batch.

        Raises:
            CallSkipped: the budget does not allow it, or the run was cancelled meanwhile.
            ClaimLost: another process may be asking the same.
            LedgerError: the ledger cannot be used.
        """
        client, request = self.client, self.request
        self.most_usd = None
        prices = provider.prices_of(self.model, in_batch=batch is not None)
        if prices is not None:
            tokens_in = sum(most_tokens(message["content"]) for message in self.messages)
            # Some providers think beyond the limit of the visible reply, and are paid for it
            tokens_out = max(self.max_tokens, client.max_tokens_out[self.model])
            self.most_usd = tokens_in * prices[0] + tokens_out * prices[2]
        call = {
            "request_key": request.key,
            "judge": request.model,
            "prompt": request.prompt,
            "kind": self.kind,
            "attempt": self.calls + 1,
            "format": self.response_format.format,
            "batch": batch,
        }
        reserved_usd = self.most_usd or 0.0
        while True:
            client.afford(reserved_usd)
            permit, self.call_id = await client.ledger.start(client.limits, call, self.most_usd)
            if permit == "go":
                break
            if permit == "wait" and batch is None and self._seconds_left() > 0:
                await asyncio.sleep(_BUDGET_POLL_S)
                continue
            client.used_up = used_up(client.limits, permit)
            if permit == "max_calls":
                client.too_dear = 0.0
            elif permit != "wait":
                client.too_dear = min(client.too_dear, reserved_usd)
            raise CallSkipped(client.used_up)
        self.calls += 1
        self.bill.calls += 1
        client.total.calls += 1

    async def _settled(self, sending: Awaitable[Reply], batch: Batch | None = None) -> T:
        """The value of the reply to a call that is being sent; how it ends is written down."""
        started = self.client.clock()
        status: CallStatus = "error"
        ending: dict[str, Any] | None = None
        reply: Reply | None = None
        try:
            self.reply = reply = await sending
            value = parse(reply, self.reader, self.request)
            status, ending = "usable", {}
            return value
        except BaseException as error:
            # What may be at its provider has not ended, whatever happened here
            if batch is None or isinstance(error, CallError | Unreadable | Unsent):
                ending = failure(error)
            elif batch.sent_at is None and not isinstance(error, CallSkipped):
                ending = {**failure(error), "cost_usd": 0.0}
            if isinstance(error, Unreadable):
                status = "unreadable"
            elif batch is None and isinstance(error, CallError):
                self.breaker.failure(error, self.request.key, self.client.clock())
            raise
        finally:
            if status != "error":
                self.breaker.success()
                self.formats.accepted(self.response_format)
                self.last_error = None
            # Written down in any case, also for a caller that is cancelled now.
            if ending is not None:
                code = ending.get("code")
                columns: dict[str, Any] = {} if batch else {"seconds": self.client.clock() - started}
                paid = Bill(calls=-int(code == UNSENT))
                if reply is not None or code in MAY_BE_PAID:
                    columns["cost_usd"] = paid.cost_usd = self._cost(reply, in_batch=batch is not None)
                if reply is not None:
                    paid.tokens_in = reply.tokens_in or 0
                    paid.tokens_out = reply.tokens_out or 0
                    tokens_out = self.client.max_tokens_out
                    tokens_out[self.model] = max(tokens_out[self.model], paid.tokens_out)
                    columns |= {
                        "tokens_in": reply.tokens_in,
                        "tokens_out": reply.tokens_out,
                        "model": reply.model,
                        "fingerprint": reply.fingerprint,
                        "finish_reason": REFUSAL if reply.kind == "refusal" else reply.finish_reason,
                        "reply": reply.text,
                    }
                self.bill.add(paid)
                self.client.total.add(paid)
                await self.client.ledger.do(Ledger.finish, self.call_id, status, {**columns, **ending})

    def _cost(self, reply: Reply | None, *, in_batch: bool) -> float | None:
        """Dollars of a call; what was reserved for it, where the server does not say."""
        prices = provider.prices_of(self.model, in_batch=in_batch)
        if reply is None or prices is None:
            return self.most_usd
        size = sum(len(message["content"]) for message in self.messages)
        if credible(reply, size):
            tokens_in = reply.tokens_in or 0
            cached = min(reply.cached_tokens or 0, tokens_in)
            return (tokens_in - cached) * prices[0] + cached * prices[1] + (reply.tokens_out or 0) * prices[2]
        if self.model not in self.client.without_usage:
            self.client.without_usage.add(self.model)
            _log.warning(
                f"{self.model.label} does not say how many tokens a call had, or not believably: it is counted at the "
                "most that it may cost"
            )
        return self.most_usd

    def _check(self) -> None:
        if self.breaker.stopped is not None:
            # Thousands get it; without this, each would add its traceback to that of the one before.
            raise self.breaker.stopped.with_traceback(None)
        self.client.afford()
        if self._seconds_left() <= 0:
            raise self._over()

    async def _wait(self, turn: Awaitable[X]) -> X:
        """Wait for a turn: the first call as long as it takes, later ones until the deadline."""
        try:
            async with asyncio.timeout(None if self.started is None else self._seconds_left()):
                return await turn
        except TimeoutError as error:
            raise self._over() from error

    def _over(self, *, cut_short: bool = False) -> CallFailed | CallSkipped:
        """The failure of a question whose time is over, perhaps in the middle of its last call."""
        error, breaker, deadline_s = self.last_error, self.breaker, self.client.limits.deadline_s
        if error is not None and error.kind == "limited":
            breaker.refused_for(error, self.client.clock(), deadline_s / 2)
        if isinstance(breaker.stopped, CallSkipped):
            return breaker.stopped
        if error is None or error.kind == "limited":
            message = f"the {deadline_s:g} s of one question were over after {self.calls} calls"
            return CallFailed("deadline", f"{message}: the {self.client.noun} limits the rate" if error else message)
        if not cut_short:
            return CallFailed(error.code, f"{error.message} (the last of {self.calls} calls)")
        cut = f"call {self.calls - 1}; the deadline of {deadline_s:g} s cut call {self.calls} short"
        return CallFailed(error.code, f"{error.message} ({cut})")

    def _seconds_left(self) -> float:
        elapsed_s = 0.0 if self.started is None else self.client.clock() - self.started
        return self.client.limits.deadline_s - elapsed_s
