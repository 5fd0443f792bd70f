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
from collections.abc import Awaitable, Callable
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Generic, TypeVar

from answerkey.metrics_core.llm import provider
from answerkey.metrics_core.llm.access import Access, CallLimits
from answerkey.metrics_core.llm.batch import Batch, Batches, Unsent
from answerkey.metrics_core.llm.budget import REFUSAL, Bill, credible, most_tokens, used_up
from answerkey.metrics_core.llm.ledger import (
    MAY_BE_PAID,
    UNSENT,
    AsyncLedger,
    BatchedCall,
    Budget,
    CallStatus,
    ClaimLost,
    Ledger,
    Origin,
)
from answerkey.metrics_core.llm.limiter import Breaker, Limiter, Load
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.reply import Unreadable
from answerkey.metrics_core.llm.request import CallError, CallFailed, CallSkipped, Message, Reply, Request
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


@dataclass(slots=True)
class _Question(Generic[T]):
    """One question while it is being asked. Everything from `messages` on changes from call to call.

    Attributes:
        read: the reader of a reply, which raises `Unreadable`.
        in_batch: whether its next call may go in a batch.
        resumed: the call that an earlier process submitted in a batch; None: there is none.
        kind: ask, longer (more room for the reply) or repair (the model is shown what was wrong).
        other_format: how to ask after a refusal of the format or of a parameter; None: as the model takes it.
        calls: all that were made; `troubles` and `useless` those that failed and count against the limits.
        started: when its first call began, which starts the clock of the deadline; None: none was made.
        last: how the last call failed, if it was the server's trouble or its limit.
        call_id: of the last call; `most_usd`: dollars that it may cost at most, None where its price is unknown.
        reply: the last that came.
    """

    model: ModelRef
    request: Request
    read: Callable[[str], T]
    bill: Bill
    limiter: Limiter
    breaker: Breaker
    formats: FormatNegotiation
    messages: tuple[Message, ...]
    max_tokens: int
    in_batch: bool
    resumed: BatchedCall | None
    kind: str = "ask"
    response_format: ResponseFormat = field(default_factory=lambda: ResponseFormat("text"))
    other_format: ResponseFormat | None = None
    calls: int = 0
    troubles: int = 0
    useless: int = 0
    started: float | None = None
    last: CallError | None = None
    call_id: str = ""
    most_usd: float | None = None
    reply: Reply | None = None


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
        self._ledger, self._access, self._limits, self._noun, self._check_models = ledger, access, limits, noun, check
        self._preparing: dict[ModelRef, asyncio.Task[None]] = {}
        # Where calls wait that go to a provider together; None: their replies cannot be waited for
        self._batches: Batches | None = Batches(ledger, access, limits, self._prepared)
        self._clock = asyncio.get_running_loop().time
        self._budget = Budget(access.run, limits.max_calls, limits.max_cost_usd, limits.max_cost_total_usd)
        # Calls that may cost this much or more were refused for good, for this reason.
        self._too_dear, self._used_up = math.inf, ""
        self._without_usage: set[ModelRef] = set()
        self._most_tokens_out: dict[ModelRef, int] = {}
        self._total = Bill()
        self._asking: dict[str, asyncio.Future[CallFailed | None]] = {}
        self._breakers: dict[ModelRef, Breaker] = {}

    def unbatched(self) -> Client:
        """This client for questions whose replies cannot wait for a batch."""
        other = copy(self)
        other._batches = None
        return other

    async def close(self) -> None:
        """Stop waiting for models and batches."""
        for task in self._preparing.values():
            task.cancel()
        if self._batches is not None:
            await self._batches.close()

    async def _prepared(self, model: ModelRef) -> None:
        def prepare() -> None:
            self._check_models()
            provider.prepare(model)

        if model not in self._preparing:
            # In a thread, so that calls to other models go on meanwhile.
            self._preparing[model] = asyncio.create_task(asyncio.to_thread(prepare))
        # A caller that is cancelled leaves the task to the others.
        await asyncio.shield(self._preparing[model])

    @property
    def calls(self) -> int:
        """Calls made so far."""
        return self._total.calls

    def tally(self) -> str:
        """A line for people: calls, cost, calls in flight."""
        limiters = [limiter_of(model, self._limits) for model in self._breakers]
        in_flight, most = (sum(limiter.in_flight for limiter in limiters), sum(int(limit.limit) for limit in limiters))
        total = self._total
        cost = "price unknown" if total.cost_usd is None else f"${total.cost_usd:.4f}"
        return f"{total.calls:,} calls, {cost}, {in_flight} at once of {most}"

    async def ask(self, model: ModelRef, request: Request, read: Callable[[str], T], bill: Bill) -> T:
        """The model's reply to a request, as `read` reads it.

        Args:
            read: raises `Unreadable` for a reply that cannot be used.
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
            return await self._reply(model, request, read, bill)
        except CallFailed as failed:
            error = failed
            raise
        finally:
            del self._asking[key]
            asking.set_result(error)

    async def origin(self, request: Request) -> Origin:
        """Where the reply came from that `ask` has returned for this request.

        Raises:
            LedgerError: the ledger cannot be used.
        """
        return await self._ledger.do(Ledger.origin, request.key)

    async def _reply(self, model: ModelRef, request: Request, read: Callable[[str], T], bill: Bill) -> T:
        """The reply in the ledger, or the one that the model gives while no other process asks the same."""
        unread: str | None = None
        while True:
            run = None if self._batches is None else self._budget.run
            reply, claimed, resumed = await self._ledger.do(Ledger.reply_or_claim, request.key, unread, run)
            try:
                if reply is not None:
                    return read_text(reply, read, request)
                self._afford()
                if claimed:
                    return await self._converse(model, request, read, bill, resumed)
                await asyncio.sleep(_CLAIM_POLL_S)
            except Unreadable:
                # An earlier version of the reader could read it.
                unread = reply
            except ClaimLost:
                pass  # to another process
            finally:
                if claimed:
                    await self._ledger.do(Ledger.release, request.key)

    async def _converse(
        self, model: ModelRef, request: Request, read: Callable[[str], T], bill: Bill, resumed: BatchedCall | None
    ) -> T:
        """One call if all goes well; a cut-off reply gets more room once, an unreadable one is sent back once."""
        if resumed is not None:
            self._count(bill, 1)
        await self._prepared(model)
        breaker = self._breakers.setdefault(model, Breaker(self._noun, self._limits.deadline_s))
        formats = learned_of(model, structured=bool(request.schema))
        question = _Question(
            model, request, read, bill, limiter_of(model, self._limits), breaker, formats, request.messages,
            request.max_tokens, self._batches is not None and self._limits.batch, resumed,
        )  # fmt: skip
        tried = set[str]()
        while True:
            tried.add(question.kind)
            try:
                if self._batches is not None and (question.resumed or question.in_batch):
                    value = await self._in_batch(question, self._batches)
                else:
                    value = await self._call(question)
                if question.kind == "longer":
                    formats.room[request.prompt] = max(question.max_tokens, formats.room.get(request.prompt, 0))
                return value
            except Unsent:
                continue
            except CallError as error:
                await self._after(question, error)
            except Unreadable as problem:
                assert question.reply is not None
                question.kind = remedy(problem, question.reply, tried, question.max_tokens)
                question.other_format = None
                if question.kind == "longer":
                    question.max_tokens *= _MORE_ROOM
                else:
                    question.messages = repair(question.messages, question.reply, problem)

    async def _after(self, question: _Question[T], error: CallError) -> None:
        """Wait as a failed call demands; raise if there is no point in another one."""
        breaker = question.breaker
        if question.last and error.code == "timeout" and self._seconds_left(question) <= 0:
            raise self._over(question, cut_short=True) from error
        question.last = error if error.kind in ("limited", "trouble") else None
        if error.code == "quota":
            raise CallSkipped(str(breaker.stopped or error.message), unavailable=True) from error
        if error.kind == "refused":
            question.other_format = question.formats.after_refusal(question.response_format, error)
            if question.other_format is None:
                breaker.useless(error.code, error.message, question.request.key)
                raise CallFailed(error.code, error.message) from error
            if error.parameter == "reasoning_effort":
                _log.warning(f"{question.model.label} takes no reasoning_effort; it is asked without")
        elif error.kind == "again":
            question.useless += 1
            if question.useless == TRIES:
                raise CallFailed(error.code, _last_of(question, error)) from error
        elif error.kind == "limited" or (error.kind == "trouble" and breaker.open):
            # The limiter, or the breaker, has it wait.
            return
        elif error.kind == "trouble":
            question.troubles += 1
            wait = min(_FIRST_WAIT_S * 2 ** (question.troubles - 1), _LONGEST_WAIT_S) * random.uniform(0.5, 1.5)
            if question.troubles == ATTEMPTS or wait >= self._seconds_left(question):
                raise CallFailed(error.code, _last_of(question, error)) from error
            await asyncio.sleep(wait)
        else:
            raise CallFailed(error.code, error.message) from error

    async def _call(self, question: _Question[T]) -> T:
        """One call, when it is its turn: a reservation in the budget, and both ends of the call written down."""
        breaker, limiter, alone = question.breaker, question.limiter, False
        # Checked before and after the wait: thousands that will not be asked need not queue for it.
        self._check(question)
        if breaker.open:
            alone = await self._wait(question, breaker.wait())
        try:
            started = await self._wait(question, limiter.acquire(started=question.started is not None))
            load: Load = "neutral"
            retry_after: float | None = None
            try:
                self._check(question)
                question.started = started if question.started is None else question.started
                # Not before: other questions may have learned in the meantime what the model accepts, and how much
                # room its replies need.
                question.response_format = question.other_format or question.formats.best
                room = question.formats.room.get(question.request.prompt, 0)
                question.max_tokens = max(question.max_tokens, room)
                await self._reserve(question)
                timeout_s = max(0.001, min(self._limits.timeout_s, self._seconds_left(question)))
                settings = question.response_format.settings(question.request, question.max_tokens)
                messages = question.response_format.messages(question.messages)
                sending = provider.complete(question.model, messages, settings, timeout_s)
                value = await self._settled(question, sending)
                load = "ok"
                return value
            except Unreadable:
                load = "ok"
                raise
            except CallError as error:
                if error.kind == "limited":
                    load = "limited"
                elif error.code == "timeout" and 2 * timeout_s >= self._limits.timeout_s:
                    # One that had little time says nothing of the load.
                    load = "late"
                # Where it exceeds the deadline, retry soon to confirm it.
                retry_after = None if breaker.hopeless(error) else error.retry_after
                raise
            finally:
                limiter.release(started, load, retry_after)
        finally:
            if alone:
                breaker.go_on()

    async def _in_batch(self, question: _Question[T], batches: Batches) -> T:
        """The first call, in a batch; it waits as long as it takes, and the clock of the question does not run.

        Raises:
            Unsent: the call that was left in a batch was not worked on; there is none now.
        """
        resumed = question.resumed
        if resumed is None:
            self._check(question)
            question.response_format = question.formats.best
            settings = question.response_format.settings(question.request, question.max_tokens)
            with batches.joined(question.model) as batch:
                await self._reserve(question, batch.name)
                batch.take(question.call_id, question.response_format.messages(question.messages), settings)
        else:
            question.response_format = ResponseFormat(resumed.format)
            question.call_id, question.most_usd = resumed.call_id, resumed.most_usd
            batch = batches.left(question.model, resumed)
        question.resumed, question.in_batch = None, question.in_batch and resumed is not None
        question.calls = 1
        try:
            return await self._settled(question, batches.reply(batch, question.call_id), batch)
        except Unsent as error:
            if resumed is None:
                raise CallSkipped(str(error), unavailable=True) from error
            question.calls = 0
            raise

    async def _reserve(self, question: _Question[T], batch: str | None = None) -> None:
        """Write the next call down and count it at the most that it may cost, as soon as the budget allows it.

        It waits for calls in flight that may cost less than is reserved for them, except for a place in a batch.

        Raises:
            CallSkipped: the budget does not allow it, or the run was cancelled meanwhile.
            ClaimLost: another process may be asking the same.
            LedgerError: the ledger cannot be used.
        """
        request, most = question.request, None
        if (prices := provider.prices_of(question.model, in_batch=batch is not None)) is not None:
            tokens_in = sum(most_tokens(message["content"]) for message in question.messages)
            # Some providers think beyond the limit of the visible reply, and are paid for it
            tokens_out = max(question.max_tokens, self._most_tokens_out.get(question.model, 0))
            most = tokens_in * prices[0] + tokens_out * prices[2]
        call = {
            "request_key": request.key, "judge": request.model, "prompt": request.prompt, "kind": question.kind,
            "attempt": question.calls + 1, "format": question.response_format.format, "batch": batch,
        }  # fmt: skip
        while True:
            self._afford(most or 0.0)
            permit, call_id = await self._ledger.start(self._budget, call, most)
            if permit == "go":
                break
            if permit == "wait" and batch is None and self._seconds_left(question) > 0:
                await asyncio.sleep(_BUDGET_POLL_S)
                continue
            self._used_up = used_up(self._budget, permit)
            if permit != "wait":
                self._too_dear = min(self._too_dear, 0.0 if permit == "max_calls" else most or 0.0)
            raise CallSkipped(self._used_up)
        question.call_id, question.most_usd = call_id, most
        question.calls += 1
        self._count(question.bill, 1)

    async def _settled(self, question: _Question[T], sending: Awaitable[Reply], batch: Batch | None = None) -> T:
        """The value of the reply to a call that is being sent; how it ends is written down."""
        started = self._clock()
        status: CallStatus = "error"
        ending: dict[str, Any] | None = None
        reply: Reply | None = None
        try:
            question.reply = reply = await sending
            value = parse(reply, question.read, question.request)
            status, ending = "usable", {}
            return value
        except Unreadable as problem:
            status, ending = "unreadable", {"code": problem.code, "message": problem.message}
            raise
        except Unsent as error:
            ending = {"code": UNSENT, "message": str(error), "cost_usd": 0.0}
            raise
        except BaseException as error:
            if batch is None or isinstance(error, CallError):
                ending = failure(error)
            elif batch.sent_at is None and not isinstance(error, CallSkipped):
                # What may be at its provider has not ended, whatever happened here.
                ending = {**failure(error), "cost_usd": 0.0}
            if batch is None and isinstance(error, CallError):
                question.breaker.failure(error, question.request.key, self._clock())
            raise
        finally:
            if status != "error":
                question.breaker.success()
                question.formats.accepted(question.response_format)
                question.last = None
            # Written down in any case, also for a caller that is cancelled now.
            if ending is not None:
                columns: dict[str, Any] = {} if batch else {"seconds": self._clock() - started}
                if reply is not None or ending.get("code") in MAY_BE_PAID:
                    columns["cost_usd"] = self._cost(question, reply, in_batch=batch is not None)
                if reply is not None:
                    seen = self._most_tokens_out.get(question.model, 0)
                    self._most_tokens_out[question.model] = max(seen, reply.tokens_out or 0)
                    columns |= {one: getattr(reply, one) for one in ("tokens_in", "tokens_out", "model", "fingerprint")}
                    columns["finish_reason"] = REFUSAL if reply.kind == "refusal" else reply.finish_reason
                    columns["reply"] = reply.text
                self._count(question.bill, -int(ending.get("code") == UNSENT), reply, columns.get("cost_usd", 0.0))
                await self._ledger.do(Ledger.finish, question.call_id, status, {**columns, **ending})

    def _count(self, bill: Bill, calls: int, reply: Reply | None = None, cost: float | None = 0.0) -> None:
        """Count calls, and what came back and was paid in dollars, for a question and for the run."""
        for account in (bill, self._total):
            account.calls += calls
            if reply is not None:
                account.tokens_in += reply.tokens_in or 0
                account.tokens_out += reply.tokens_out or 0
            account.cost_usd = None if account.cost_usd is None or cost is None else account.cost_usd + cost

    def _cost(self, question: _Question[T], reply: Reply | None, *, in_batch: bool) -> float | None:
        """Dollars of a call; what was reserved for it, where the server does not say."""
        model, prices = question.model, provider.prices_of(question.model, in_batch=in_batch)
        if reply is None or prices is None:
            return question.most_usd
        size = sum(len(message["content"]) for message in question.messages)
        if credible(reply, size):
            tokens_in, tokens_out = reply.tokens_in or 0, reply.tokens_out or 0
            cached = min(reply.cached_tokens or 0, tokens_in)
            return (tokens_in - cached) * prices[0] + cached * prices[1] + tokens_out * prices[2]
        if model not in self._without_usage:
            self._without_usage.add(model)
            _log.warning(
                f"{model.label} does not say how many tokens a call had, or not believably: it is counted at the most "
                "that it may cost"
            )
        return question.most_usd

    def _afford(self, most_usd: float = 0.0) -> None:
        """Raise if a call that may cost so many dollars cannot be bought, or nothing may be asked.

        Raises:
            CallSkipped: why.
        """
        if self._access.is_stopped:
            raise CallSkipped("not asked, since the run was cancelled")
        if self._access.refusal:
            raise CallSkipped(self._access.refusal)
        if self._too_dear <= most_usd:
            raise CallSkipped(self._used_up)

    def _check(self, question: _Question[T]) -> None:
        if question.breaker.stopped is not None:
            # Thousands get it; without this, each would add its traceback to that of the one before.
            raise question.breaker.stopped.with_traceback(None)
        self._afford()
        if self._seconds_left(question) <= 0:
            raise self._over(question)

    async def _wait(self, question: _Question[Any], turn: Awaitable[T]) -> T:
        """Wait for a turn: the first call as long as it takes, later ones until the deadline of the question."""
        try:
            async with asyncio.timeout(None if question.started is None else self._seconds_left(question)):
                return await turn
        except TimeoutError as error:
            raise self._over(question) from error

    def _over(self, question: _Question[T], *, cut_short: bool = False) -> CallFailed | CallSkipped:
        """The failure of a question whose time is over, perhaps in the middle of its last call."""
        last, calls, deadline = question.last, question.calls, f"{self._limits.deadline_s:g} s"
        breaker = question.breaker
        if last is not None and last.kind == "limited":
            breaker.refused_for(last, self._clock(), self._limits.deadline_s / 2)
        if isinstance(breaker.stopped, CallSkipped):
            return breaker.stopped
        if last is not None and last.kind == "trouble":
            cut = f"call {calls - 1}; the deadline of {deadline} cut call {calls} short"
            return CallFailed(last.code, f"{last.message} ({cut})" if cut_short else _last_of(question, last))
        text = f"the {deadline} of one question were over after {calls} calls"
        return CallFailed("deadline", f"{text}: the {self._noun} limits the rate" if last else text)

    def _seconds_left(self, question: _Question[T]) -> float:
        elapsed_s = 0.0 if question.started is None else self._clock() - question.started
        return self._limits.deadline_s - elapsed_s


def _last_of(question: _Question[T], error: CallError) -> str:
    return f"{error.message} (the last of {question.calls} calls)"
