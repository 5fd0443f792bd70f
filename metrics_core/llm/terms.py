"""How the format of a reply is asked for: the best way that a server takes, found out once a judge."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args

from answerkey.metrics_core.llm.litellm import CallError
from answerkey.metrics_core.llm.request import Request

Format = Literal["json_schema", "json_object", "text"]
"""From the strictest: a schema that the server enforces; any JSON object; the words of the prompt alone."""

_FORMATS: tuple[Format, ...] = get_args(Format)


@dataclass(frozen=True, slots=True)
class Offer:
    """A format, and the parameters that are left out."""

    format: Format
    without: frozenset[str] = frozenset()

    def settings(self, request: Request, max_tokens: int) -> dict[str, Any]:
        """As the arguments of a call."""
        given: dict[str, Any] = {"temperature": request.temperature, "seed": request.seed, "max_tokens": max_tokens}
        if self.format == "json_object":
            given["response_format"] = {"type": "json_object"}
        elif self.format == "json_schema":
            given["response_format"] = _strict(request.schema)
        return {name: value for name, value in given.items() if name not in self.without}


@cache
def _strict(schema: str) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "reply", "strict": True, "schema": json.loads(schema)}}


class Terms:
    """What one judge takes. Tables of models are often wrong about servers, so the server has the last word."""

    def __init__(self, *, takes_format: bool) -> None:
        self._best = Offer("json_schema" if takes_format else "text")
        self._proven = False
        self._refused: set[Format] = set()

    def first(self) -> Offer:
        """What to try first."""
        return self._best

    def accepted(self, offer: Offer) -> None:
        """The server took this one, so it is what to begin with from now on.

        Unless it has taken a stricter format and never said a word against it: then this one was an odd request.
        """
        weaker = _FORMATS.index(offer.format) > _FORMATS.index(self._best.format)
        if not (self._proven and weaker and self._best.format not in self._refused):
            self._best, self._proven = offer, True

    def after_refusal(self, offer: Offer, error: CallError) -> Offer | None:
        """What to try next; None where the refusal is about the request and not about how it was asked.

        Without a word about the format, that is assumed only until the server has taken it once. Nothing is
        remembered before something was accepted: one odd request does not lower the format for all.
        """
        if error.parameter and error.parameter not in offer.without:
            return Offer(offer.format, offer.without | {error.parameter})
        if error.about_format:
            self._refused.add(offer.format)
        if self._proven and (given_up := self._no_less(offer)) != offer:
            # It was asked before others had found out.
            return given_up
        if offer.format != "text" and (error.about_format or not self._proven):
            return Offer(_FORMATS[_FORMATS.index(offer.format) + 1], offer.without)
        return None

    def _no_less(self, offer: Offer) -> Offer:
        """An offer, less what the judge is known not to take."""
        weaker = max(offer.format, self._best.format, key=_FORMATS.index)
        return Offer(weaker, offer.without | self._best.without)
