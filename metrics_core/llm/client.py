"""Ask judges: from the ledger where they have answered, over the network where not, and never twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from answerkey.metrics_core.llm.caller import Caller
from answerkey.metrics_core.llm.ledger import Ledger, Origin
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.reply import Unreadable
from answerkey.metrics_core.llm.request import Request, repair
from answerkey.metrics_core.llm.turn import Bill, Heard, NoVerdict, Turn

T = TypeVar("T")

_POLL_S = 0.2
_MORE_ROOM = 4


class Client:
    """Asks judges on behalf of one run. Lives on one event loop."""

    def __init__(self, ledger: Ledger, caller: Caller) -> None:
        self._ledger, self._caller = ledger, caller
        self._asking: dict[str, asyncio.Future[NoVerdict | None]] = {}

    async def ask(self, judge: ModelRef, request: Request, read: Callable[[str], T], bill: Bill) -> T:
        """The judge's reply to a request, as `read` reads it.

        Args:
            read: raises `Unreadable` for a reply that cannot be used.
            bill: gets what is paid, also where nothing comes of it.

        Raises:
            NoVerdict: the judge gave no usable reply.
            BudgetUsedUp: the budget forbids to ask.
            LedgerError: the ledger cannot be used.
        """
        key = request.key
        bill.requests.append(key)
        while True:
            known = self._known(key, read)
            if known is not None:
                return known[0]
            if key in self._asking:
                failure = await asyncio.shield(self._asking[key])
                if failure is not None:
                    # What failed for one with all retries would fail for each that waited, one after the other.
                    raise NoVerdict(failure.code, failure.message)
            elif self._ledger.claim(key):
                break
            else:
                # Another process is asking the same.
                await asyncio.sleep(_POLL_S)
        self._asking[key] = asyncio.get_running_loop().create_future()
        failure = None
        try:
            # Between the look and the claim, another process may have got the reply.
            known = self._known(key, read)
            return await self._converse(judge, request, read, bill) if known is None else known[0]
        except NoVerdict as error:
            failure = error
            raise
        finally:
            self._asking.pop(key).set_result(failure)
            self._ledger.release(key)

    def origin(self, request: Request) -> Origin:
        """Where the reply came from that `ask` has returned for this request.

        Raises:
            LedgerError: the ledger cannot be used.
        """
        return self._ledger.origin(request.key)

    def _known(self, key: str, read: Callable[[str], T]) -> tuple[T] | None:
        reply = self._ledger.reply(key)
        if reply is None:
            return None
        try:
            return (read(reply),)
        except Unreadable:
            # An earlier version of the reader could read it.
            return None

    async def _converse(self, judge: ModelRef, request: Request, read: Callable[[str], T], bill: Bill) -> T:
        """One call where all goes well; a reply that is cut off gets more room once, an unreadable one one repair."""
        turn = Turn(judge, request, bill, request.messages, request.max_tokens)
        done = {turn.kind}
        while True:
            heard = await self._caller.call(turn, read)
            if heard.problem is None:
                return heard.value  # type: ignore[return-value]
            turn.kind = _remedy(heard, done)
            done.add(turn.kind)
            if turn.kind == "longer":
                turn.max_tokens *= _MORE_ROOM
            else:
                turn.messages = repair(turn.messages, heard.reply.text, heard.problem.message)


def _remedy(heard: Heard[T], done: set[str]) -> str:
    problem = heard.problem
    assert problem is not None
    cut_off = problem.code == "truncated" or heard.reply.finish_reason == "length"
    if cut_off and problem.repairable and "longer" not in done:
        return "longer"
    if problem.repairable and "repair" not in done:
        return "repair"
    raise NoVerdict(problem.code, problem.message)
