"""How a reply's format is requested: in the strictest way that the server accepts, learned once per model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

from answerkey.metrics_core.llm.ledger import Format
from answerkey.metrics_core.llm.log_probabilities import ALTERNATIVES
from answerkey.metrics_core.llm.request import Request
from answerkey.metrics_core.llm.transport import CallError

_FORMATS: tuple[Format, ...] = get_args(Format)


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """A format, and the parameters that are left out.

    >>> ResponseFormat("text", frozenset(["seed"])).settings(Request("openai/m", "p@1", "", "Hi", ""), max_tokens=5)
    {'temperature': 0.0, 'max_tokens': 5}
    """

    format: Format
    without: frozenset[str] = frozenset()

    def settings(self, request: Request, max_tokens: int) -> dict[str, Any]:
        """As the arguments of a call."""
        given: dict[str, Any] = {"temperature": request.temperature, "seed": request.seed, "max_tokens": max_tokens}
        if request.reasoning_effort:
            given["reasoning_effort"] = request.reasoning_effort
        if request.weighed and "logprobs" not in self.without:
            given |= {"logprobs": True, "top_logprobs": ALTERNATIVES}
        if self.format == "json_object":
            given["response_format"] = {"type": "json_object"}
        elif self.format == "json_schema":
            given["response_format"] = _strict(request.schema)
        return {name: value for name, value in given.items() if name not in self.without}


@cache
def _strict(schema: str) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "reply", "strict": True, "schema": json.loads(schema)}}


class FormatNegotiation:
    """What one model accepts. Tables of models are often wrong about servers, so the server has the last word.

    >>> negotiation = FormatNegotiation(takes_format=True)
    >>> refused = CallError("refused", "http_400", "response_format is not supported", about_format=True)
    >>> negotiation.after_refusal(negotiation.first(), refused)
    ResponseFormat(format='json_object', without=frozenset())
    """

    def __init__(self, *, takes_format: bool) -> None:
        self._best = ResponseFormat("json_schema" if takes_format else "text")
        self._proven = False
        self._refused: set[Format] = set()

    def first(self) -> ResponseFormat:
        """What to try first."""
        return self._best

    def accepted(self, offered: ResponseFormat) -> None:
        """The server accepted this format, so the next request begins with it.

        Unless the server has accepted a stricter one and never objected to it: then this was an unusual request.
        """
        weaker = _FORMATS.index(offered.format) > _FORMATS.index(self._best.format)
        if not (self._proven and weaker and self._best.format not in self._refused):
            self._best, self._proven = offered, True

    def after_refusal(self, offered: ResponseFormat, error: CallError) -> ResponseFormat | None:
        """What to try next; None if the refusal is about the request and not about its format.

        If the error does not mention the format, the format is blamed only until the server has accepted it once.
        Nothing is remembered until something was accepted: one unusual request does not lower the format for all.
        """
        if error.parameter and error.parameter not in offered.without:
            return ResponseFormat(offered.format, offered.without | {error.parameter})
        if error.about_format:
            self._refused.add(offered.format)
        if self._proven and (given_up := self._no_less(offered)) != offered:
            # It was sent before others had learned what the model accepts.
            return given_up
        if offered.format != "text" and (error.about_format or not self._proven):
            return ResponseFormat(_FORMATS[_FORMATS.index(offered.format) + 1], offered.without)
        return None

    def _no_less(self, offered: ResponseFormat) -> ResponseFormat:
        """A format, less what the model is known not to accept."""
        weaker = max(offered.format, self._best.format, key=_FORMATS.index)
        return ResponseFormat(weaker, offered.without | self._best.without)
