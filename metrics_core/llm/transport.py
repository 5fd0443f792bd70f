"""What is sent to a model and what comes back, whoever carries it: replies, and errors by what to do next."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.request import Message
from answerkey.metrics_core.llm.untrusted import storable

FailureKind = Literal["limited", "trouble", "refused", "permanent", "fatal"]
"""What an error means: slow down; try again; not in this format, or not these parameters; this request is hopeless;
every request to this model is."""

ReplyKind = Literal["text", "refusal", "tool_call", "thoughts"]
"""What a reply consists of: a text; a field of its own in which the model declines; a call of a tool that nobody
offered; thoughts that no answer follows."""

_MOST_TOKENS = 10**9
"""More than this in one call is an error of the server."""

_LEAST_KEY = 12
"""Characters of a key that is looked for in replies: a shorter one may be a word."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back.

    Attributes:
        text: what the model says. For another `kind`: the words of its refusal, the call, the thoughts.
        tokens_in, tokens_out: as the server counts them; None where it does not say, or not believably.
        model: the one that answered, as the server names it.
        cached_tokens: those of `tokens_in` that the provider had in its cache.
    """

    text: str
    finish_reason: str
    tokens_in: int | None
    tokens_out: int | None
    model: str
    fingerprint: str
    cached_tokens: int | None = None
    kind: ReplyKind = "text"


class CallError(Exception):
    """A call without a reply.

    `parameter` names a setting that the server refused; `about_format` says that it spoke of the format.

    >>> CallError("limited", "http_429", "slow down", retry_after=2.0).retry_after
    2.0
    """

    def __init__(
        self, kind: FailureKind, code: str, message: str, retry_after: float | None = None,
        parameter: str | None = None, about_format: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(f"{code}: {message}")
        self.kind, self.code, self.message = kind, code, message
        self.retry_after, self.parameter, self.about_format = retry_after, parameter, about_format


class Transport(Protocol):
    """Carries one request to a model, and what comes back. Nothing is retried here."""

    async def send(
        self, model: ModelRef, messages: Sequence[Message], settings: Mapping[str, Any], timeout_s: float
    ) -> Reply:
        """Make one call; `settings` are litellm's arguments (temperature, seed, max_tokens, response_format).

        Raises:
            CallError: there is no reply, or no one could use it.
        """


def token_count(value: object) -> int | None:
    """A number of tokens as a server gives it; None for what cannot be one.

    >>> token_count(12), token_count(-1), token_count(1e30), token_count("12")
    (12, None, None, None)
    """
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else None


def said_by_server(value: object, model: ModelRef) -> str:
    """A text of a reply, fit to be kept: a server may say back the key that it was sent."""
    keys = [secret for secret in _secrets(model) if len(secret) >= _LEAST_KEY]
    return storable(_blanked(str(value or ""), keys))


def without_secrets(text: str, model: ModelRef) -> str:
    """An error on one line and without any key or password that it may quote."""
    text = _blanked(text, _secrets(model))
    # Providers quote keys in part: sk-ab***yz.
    text = re.sub(r"\b((sk|pk|key)[-_]|Bearer )[\w*.-]{6,}", "***", text)
    # Who has the address may have a password or a key in it: http://name:password@host/v1?key=...
    text = re.sub(r"(\w://)[^\s/@]+@", r"\1***@", text)
    text = re.sub(r"(\w://[^\s?'\"]+\?)[^\s'\"]+", r"\1***", text)
    return " ".join(storable(text).split())[:500]


def _blanked(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        # As headers of logins have it. The last characters depend on what follows.
        encoded = base64.b64encode(secret.encode()).decode().rstrip("=")
        for form in (re.escape(secret), rf"{re.escape(encoded[:-1])}[\w+/]={{0,2}}"):
            text = re.sub(form, "***", text)
    return text


def _secrets(model: ModelRef) -> list[str]:
    secrets = [value for name, value in os.environ.items() if name.endswith(("_API_KEY", "_TOKEN", "_SECRET"))]
    # A word in the environment may stand in any message; what was given as the key is one, however short.
    secrets = [value for value in secrets if len(value) >= 8] + [model.api_key or ""]
    return sorted(filter(None, secrets), key=len, reverse=True)
