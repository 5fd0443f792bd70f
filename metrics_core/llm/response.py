"""A reply, and what is made of it: what it says, or why it cannot be read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from answerkey.metrics_core.llm.ledger import UNSENT, CallStatus
from answerkey.metrics_core.llm.log_probabilities import weights_of
from answerkey.metrics_core.llm.reply import Code, Unreadable
from answerkey.metrics_core.llm.request import Request
from answerkey.metrics_core.llm.transport import NO_CONNECTION, CallError, Reply
from answerkey.metrics_core.llm.untrusted import cut, one_line

T = TypeVar("T")

NO_LOG_PROBABILITIES = "no_log_probabilities"
"""Code of calls to a server that sends none, though it was asked for them."""
NO_WEIGHTS = "no_weights"
"""Code of replies whose log-probabilities say nothing of the verdict."""

_LONGEST_SHOWN = 300
_NO_ANSWER: Mapping[str, tuple[Code, str]] = {
    "tool_call": ("tool_call", "the reply calls a tool, and none was offered"),
    "thoughts": ("only_thoughts", "the reply ends within the thoughts, before any answer"),
}
"""Replies of a kind that holds no answer: their codes, and what is said of them. One is repaired once, in one way."""


class NoUsableReply(Exception):
    """A model was asked and gave nothing that can be used.

    >>> str(NoUsableReply("timeout", "no reply within 60 s"))
    'timeout: no reply within 60 s'
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message


@dataclass(frozen=True, slots=True)
class Response(Generic[T]):
    """A reply, and either what it says or why it cannot be read.

    `weights`: of the value that is weighed, as `weights_of` gives them.
    """

    reply: Reply
    value: T | None
    problem: Unreadable | None
    weights: str | None = None

    @property
    def ending(self) -> tuple[CallStatus, dict[str, Any]]:
        """How its call ended: the status, and columns of the ledger."""
        if self.problem is not None:
            return "unreadable", {"code": self.problem.code, "message": self.problem.message}
        return "usable", {} if self.weights is None else {"weights": self.weights}


def failure(error: BaseException) -> dict[str, Any]:
    """How a call ended that raised: columns of the ledger.

    >>> failure(CallError("trouble", "connection", "refused"))
    {'code': 'unsent', 'message': 'no connection: refused', 'cost_usd': 0.0}
    """
    code, message = ("cancelled", "the run was stopped")
    if isinstance(error, CallError):
        if error.code == NO_CONNECTION:
            return {"code": UNSENT, "message": f"no connection: {error.message}", "cost_usd": 0.0}
        code, message = error.code, error.message
    elif not isinstance(error, asyncio.CancelledError):
        code, message = "defect", f"{type(error).__name__}: {error}"
    return {"code": code, "message": message}


def parse(reply: Reply, read: Callable[[str], T], request: Request) -> Response[T]:
    """What `read` makes of the reply to a request. One that is any text may end wherever its room did.

    Raises:
        CallError: there is nothing to read, or nothing that says how sure the model is where that was asked for.

    >>> reply = Reply('{"score": 1', "length", 10, 5, "m", "")
    >>> from answerkey.metrics_core.llm.reply import read_object
    >>> parse(reply, read_object, Request("openai/m", "p@1", "", "Hi", "{}")).problem.code
    'truncated'
    """
    response = _read(reply, read, plain=not request.schema)
    if not request.weighed or response.problem is not None:
        return response
    if not any(token.others for token in reply.tokens):
        raise CallError("fatal", NO_LOG_PROBABILITIES, "its replies come without the log-probabilities of tokens")
    weights = weights_of(reply.tokens, request.weighed)
    if weights is None:
        said = f"the log-probabilities of the reply are not those of its {request.weighed}"
        raise CallError("permanent", NO_WEIGHTS, said)
    return replace(response, weights=weights)


def _read(reply: Reply, read: Callable[[str], T], *, plain: bool) -> Response[T]:
    if reply.finish_reason == "content_filter":
        raise CallError("permanent", "content_filter", "the provider's filter stopped the reply")
    said = cut(one_line(reply.text), _LONGEST_SHOWN)
    if reply.kind == "refusal" and not plain:
        raise CallError("permanent", "refused_by_model", f"the model declines to answer: {said}")
    if reply.kind in _NO_ANSWER:
        problem = Unreadable(*_NO_ANSWER[reply.kind])
        if not plain:
            return Response(reply, None, problem)
        if reply.finish_reason != "length":
            raise CallError("permanent", problem.code, problem.message)
        return _read(replace(reply, text="", kind="text"), read, plain=True)
    if not reply.text.strip() and reply.finish_reason != "length":
        raise CallError("trouble", "empty_reply", "the reply is empty")
    try:
        value = read(reply.text)
        if not plain and reply.finish_reason == "length" and reply.text.rpartition("}")[2].strip("` \n"):
            # What was cut off may have been the real object, and what was read only a quotation.
            raise Unreadable("truncated", "the reply went on after its JSON object and was cut off")
    except Unreadable as problem:
        return Response(reply, None, problem)
    return Response(reply, value, None)


def remedy(response: Response[T], done: set[str]) -> str:
    """How to ask again where a reply cannot be read: `longer`, with more room, or `repair`, shown what was wrong.

    Args:
        done: how it was asked before.

    Raises:
        NoUsableReply: asking again would not help, or did not.
    """
    problem = response.problem
    assert problem is not None
    if problem.code in ("tool_call", "only_thoughts") and len(done) > 1:
        raise NoUsableReply(problem.code, problem.message)
    cut_off = problem.code == "truncated" or response.reply.finish_reason == "length"
    if cut_off and problem.repairable and "longer" not in done:
        return "longer"
    if problem.repairable and "repair" not in done:
        return "repair"
    raise NoUsableReply(problem.code, problem.message)


async def every(*asked: Awaitable[T]) -> list[T]:
    """The replies to several questions, once all have ended: what is in flight is paid for, and is to be kept.

    Raises:
        Exception: the first, in the order of the questions.
    """
    found = await asyncio.gather(*asked, return_exceptions=True)
    for one in found:
        if isinstance(one, BaseException):
            raise one
    return [one for one in found if not isinstance(one, BaseException)]
