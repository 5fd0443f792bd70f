"""How a reply is asked for, and what is made of it: the format that a server accepts, and the reading of its reply."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar, get_args

from answerkey.metrics_core.llm.ledger import UNSENT, Format
from answerkey.metrics_core.llm.reply import Code, Unreadable, load, read_object, without_thoughts
from answerkey.metrics_core.llm.request import (
    NO_CONNECTION,
    CallError,
    CallFailed,
    Message,
    Reply,
    Request,
    Unsent,
)
from answerkey.metrics_core.llm.untrusted import cut, encoded, one_line
from answerkey.metrics_core.text import is_blank

T = TypeVar("T")

_FORMATS: tuple[Format, ...] = get_args(Format)
_LONGEST_REFUSAL = 300
_LONGEST_REPEATED = 20_000
_NO_ANSWER: Mapping[str, tuple[Code, str]] = {
    "tool_call": ("tool_call", "the reply calls a tool, and none was offered"),
    "thoughts": (
        "only_thoughts",
        "the reply ends within the thoughts, before any answer; if it is a server of your own, check that its parser "
        "of thoughts (reasoning parser) is the one for this model",
    ),
}
"""Kinds of replies that hold no answer: their codes, and the messages. Such a reply is repaired once, in one way."""
_CUT_THOUGHT = re.compile(r"\s*<(think|thinking)>(?!.*</\1>)", re.DOTALL)
_DECLINES = re.compile(
    r"\W*(?:(?:i['’]?m|i am|we['’]?re|we are)\s+(?:\w+\s+)?sorry\b|sorry\b|"
    r"i (?:can(?:no|['’])t|can not|won['’]t)\b|i(?:['’]m| am) unable)"
    r".{0,60}?\b(?:assist|help|comply|fulfil|engage|discuss)",
    re.IGNORECASE | re.DOTALL,
)
"""How a model declines in words, without an object."""


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """A format, and how the parameters of a call differ from those that were asked for.

    Attributes:
        without: parameters that are left out; "system" is the role, whose message then begins that of the user, and
            `max_tokens` is sent as `max_completion_tokens`.
        most_tokens: the most that the server takes as `max_tokens`; None: as asked for.

    >>> ResponseFormat("text", frozenset(["seed"])).settings(Request("openai/m", "p@1", "", "Hi", ""), max_tokens=5)
    {'temperature': 0.0, 'max_tokens': 5}
    """

    format: Format
    without: frozenset[str] = frozenset()
    most_tokens: int | None = None

    def messages(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """The messages of a call.

        >>> asked = Request("openai/m", "p@1", "Judge.", "Hi", "").messages
        >>> ResponseFormat("text", frozenset(["system"])).messages(asked)
        ({'role': 'user', 'content': 'Judge.\\n\\nHi'},)
        """
        if "system" not in self.without or messages[0]["role"] != "system":
            return tuple(messages)
        system, user, *later_messages = messages
        return {"role": "user", "content": f"{system['content']}\n\n{user['content']}"}, *later_messages

    def settings(self, request: Request, max_tokens: int) -> dict[str, Any]:
        """The arguments of a call, as litellm takes them."""
        room = max_tokens if self.most_tokens is None else min(max_tokens, self.most_tokens)
        settings: dict[str, Any] = {"temperature": request.temperature, "seed": request.seed, "max_tokens": room}
        if "max_tokens" in self.without:
            settings["max_completion_tokens"] = room
        if request.reasoning_effort:
            settings["reasoning_effort"] = request.reasoning_effort
        if request.extras:
            settings |= json.loads(request.extras)
        if self.format == "json_object":
            settings["response_format"] = {"type": "json_object"}
        elif self.format == "json_schema":
            reply = {"name": "reply", "strict": True, "schema": json.loads(request.schema)}
            settings["response_format"] = {"type": "json_schema", "json_schema": reply}
        for name in self.without:
            settings.pop(name, None)
        return settings


class FormatNegotiation:
    """What one model accepts. Tables of models are often wrong about servers, so the server has the last word.

    Attributes:
        best: what to try first.
        room: by prompt, the tokens that replies need, where that is more than was allowed.

    >>> negotiation = FormatNegotiation(takes_format=True)
    >>> refusal = CallError("refused", "http_400", "response_format is not supported", about_format=True)
    >>> negotiation.after_refusal(negotiation.best, refusal).format
    'json_object'
    """

    def __init__(self, *, takes_format: bool) -> None:
        self.best = ResponseFormat("json_schema" if takes_format else "text")
        self.room: Counter[str] = Counter()
        self._proven = False
        self._refused: set[Format] = set()

    def accepted(self, offered: ResponseFormat) -> None:
        """Begin the next request with this format, which the server has accepted.

        Unless the server has accepted a stricter one and never objected to it: then this was an unusual request.
        """
        weaker = _FORMATS.index(offered.format) > _FORMATS.index(self.best.format)
        if not (self._proven and weaker and self.best.format not in self._refused):
            self.best = offered
            self._proven = True

    def after_refusal(self, offered: ResponseFormat, error: CallError) -> ResponseFormat | None:
        """What to try next; None if the refusal is about the request and not about its format.

        If the error does not mention the format, the format is blamed only until the server has accepted it once.
        Nothing is remembered until something was accepted: one unusual request does not lower the format for all.
        """
        if error.most_tokens and (offered.most_tokens is None or error.most_tokens < offered.most_tokens):
            return replace(offered, most_tokens=error.most_tokens)
        if error.parameter and error.parameter not in offered.without:
            return replace(offered, without=offered.without | {error.parameter})
        if error.about_format:
            self._refused.add(offered.format)
        if self._proven:
            # It may have been sent before others had learned what the model accepts.
            weaker = max(offered.format, self.best.format, key=_FORMATS.index)
            # What this request was refused for stays learned, or two refusals would take turns until the deadline.
            most_tokens = min(filter(None, (offered.most_tokens, self.best.most_tokens)), default=None)
            learned = ResponseFormat(weaker, offered.without | self.best.without, most_tokens)
            if learned != offered:
                return learned
        if offered.format != "text" and (error.about_format or not self._proven):
            return replace(offered, format=_FORMATS[_FORMATS.index(offered.format) + 1])
        return None


def failure(error: BaseException) -> dict[str, Any]:
    """How a call ended that raised: columns of the ledger.

    >>> failure(CallError("trouble", "connection", "refused"))
    {'code': 'unsent', 'message': 'no connection: refused', 'cost_usd': 0.0}
    """
    if isinstance(error, Unsent):
        return {"code": UNSENT, "message": str(error), "cost_usd": 0.0}
    if isinstance(error, CallError) and error.code == NO_CONNECTION:
        return {"code": UNSENT, "message": f"no connection: {error.message}", "cost_usd": 0.0}
    if isinstance(error, CallError | Unreadable):
        return {"code": error.code, "message": error.message}
    if isinstance(error, asyncio.CancelledError):
        return {"code": "cancelled", "message": "the run was stopped"}
    return {"code": "defect", "message": f"{type(error).__name__}: {error}"}


def read_text(text: str, reader: Callable[[str], T], request: Request) -> T:
    """What `reader` makes of the text of a reply: of what follows its thoughts, where it is to be an object.

    Raises:
        Unreadable: as `reader`.
    """
    return reader(without_thoughts(text, request.user) if request.schema else text)


def parse(reply: Reply, reader: Callable[[str], T], request: Request) -> T:
    """What `reader` makes of the reply to a request. A reply that may be any text may end wherever its room did.

    Raises:
        Unreadable: the reply cannot be used.
        CallError: there is nothing to read.

    >>> from answerkey.metrics_core.llm.reply import read_object
    >>> asked = Request("openai/m", "p@1", "", "Hi", "{}")
    >>> parse(Reply('{"score": 1}', "stop", 10, 5, "m", ""), read_object, asked)
    {'score': 1}
    """
    text = reply.text
    plain = not request.schema
    cut_off = reply.finish_reason == "length"
    if reply.finish_reason == "content_filter":
        raise CallError("permanent", "content_filter", "the provider's filter stopped the reply")
    if reply.kind == "refusal" and not plain:
        raise _declined(reply)
    if reply.kind in _NO_ANSWER and not _is_misfiled(reply):
        problem = Unreadable(*_NO_ANSWER[reply.kind])
        if not plain:
            raise problem
        if not cut_off:
            raise CallError("permanent", problem.code, problem.message)
    if plain and cut_off and (reply.kind in _NO_ANSWER or _CUT_THOUGHT.match(text)):
        text = ""
    if is_blank(text) and not cut_off:
        raise CallError("again", "empty_reply", "the reply is empty")
    try:
        value = read_text(text, reader, request)
    except Unreadable as problem:
        if problem.code == "not_json" and _DECLINES.match(text):
            raise _declined(reply) from problem
        raise
    if not plain and cut_off and text.rpartition("}")[2].strip("` \n"):
        # What was cut off may have been the real object, and what was read only a quotation.
        raise Unreadable("truncated", "the reply went on after its JSON object and was cut off")
    return value


def _is_misfiled(reply: Reply) -> bool:
    """Whether a server took the whole answer for thoughts: they are one JSON object, without a word around it."""
    if reply.kind != "thoughts" or reply.finish_reason != "stop":
        return False
    try:
        return isinstance(load(reply.text.strip()), dict)
    except Unreadable:
        return False


def _declined(reply: Reply) -> CallError:
    refusal = cut(one_line(reply.text), _LONGEST_REFUSAL)
    return CallError("permanent", "refused_by_model", f"the model declines to answer: {refusal}")


def remedy(problem: Unreadable, reply: Reply, tried: set[str], max_tokens: int) -> str:
    """How to ask again where a reply cannot be read: `longer`, with more room, or `repair`, shown what was wrong.

    Args:
        tried: how it was asked before.
        max_tokens: that the reply could have.

    Raises:
        CallFailed: asking again would not help, or did not.
    """
    cut_off = reply.finish_reason == "length"
    if (cut_off or problem.code == "truncated") and problem.repairable and "longer" not in tried:
        return "longer"
    if cut_off and "longer" in tried:
        # With the same room a repair would end in the same way.
        room = f"cut off at {max_tokens:,} tokens; allow more (max_tokens) or less thinking (reasoning_effort)"
        raise CallFailed(problem.code, f"{problem.message}: {room}")
    no_answer = problem.code in ("tool_call", "only_thoughts") and len(tried) > 1
    if problem.repairable and "repair" not in tried and not no_answer:
        return "repair"
    raise CallFailed(problem.code, problem.message)


def repair(messages: Sequence[Message], reply: Reply, problem: Unreadable) -> tuple[Message, ...]:
    """The messages that ask for the same again, because the reply could not be used.

    A reply may repeat the text that it was given, and outside the fence that would be words of our own. So of the
    reply no more than an object is shown, encoded like the fields, and the problem without what it quotes.
    """
    reason = re.sub(r'"[^"]*"', '"..."', str(problem))
    demand = (
        f"This reply cannot be used: {reason}. Answer the same question again. "
        "Reply with one JSON object in the format that was asked for, and nothing else."
    )
    quotation = "(This reply is left out.)"
    with suppress(Unreadable):
        line = encoded(read_object(reply.text if reply.kind == "text" else ""))
        if len(line) <= _LONGEST_REPEATED:
            quotation = line
    return *messages, {"role": "assistant", "content": quotation}, {"role": "user", "content": demand}


async def every(*questions: Awaitable[T]) -> list[T]:
    """The replies to several questions, once all have ended: what is in flight is paid for, and is to be kept.

    Raises:
        Exception: the first, in the order of the questions.
    """
    results: list[Any] = await asyncio.gather(*questions, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results
