"""What is sent to a model and what comes back, whoever carries it: replies, and errors by what to do next."""

from __future__ import annotations

import base64
import json
import math
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, Literal, Protocol
from urllib.parse import quote

from answerkey.metrics_core.llm.log_probabilities import Token, tokens_of
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.request import Message
from answerkey.metrics_core.llm.untrusted import storable

FailureKind = Literal["limited", "trouble", "refused", "permanent", "fatal"]
"""What an error means: slow down; try again; not in this format, or not these parameters; this request is hopeless;
every request to this model is."""

ReplyKind = Literal["text", "refusal", "tool_call", "thoughts"]
"""What a reply consists of: a text; a field of its own in which the model declines; a call of a tool that nobody
offered; thoughts that no answer follows."""

NO_CONNECTION = "connection"
"""Code of a call to a server that could not be reached, so that nothing was sent: a refused connection, an unknown
name, a failed TLS handshake."""

_MOST_TOKENS = 10**9
"""More than this in one call is an error of the server."""

_THOUGHT = re.compile(r"<(?:think|thinking)>(.*?)</(?:think|thinking)>", re.DOTALL)
"""At the beginning of a text, where some servers leave them; litellm takes them away as well."""

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
        tokens: of the text, with their log-probabilities, where the server sends them.
    """

    text: str
    finish_reason: str
    tokens_in: int | None
    tokens_out: int | None
    model: str
    fingerprint: str
    cached_tokens: int | None = None
    kind: ReplyKind = "text"
    tokens: tuple[Token, ...] = ()


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

    async def prepare(self, model: ModelRef) -> None:
        """Do everything that takes long before the first call to a model. Nothing is sent, and no clock is running."""

    async def send(
        self, model: ModelRef, messages: Sequence[Message], settings: Mapping[str, Any], timeout_s: float
    ) -> Reply:
        """Make one call; `settings` are litellm's arguments (temperature, seed, max_tokens, response_format).

        Raises:
            CallError: there is no reply, or it is unusable.
        """


def reply_of(
    message: Mapping[str, Any],
    finish_reason: object,
    usage: Mapping[str, Any],
    named: Sequence[object],
    secrets: Sequence[str] = (),
    logprobs: object = None,
) -> Reply:
    """A reply from the parts of an answer in the format of OpenAI, whatever they hold.

    Args:
        message, usage, logprobs: as in the answer.
        named: the model and the fingerprint.
        secrets: as `secrets_of` gives them; they are kept out of the reply.

    >>> usage = {"prompt_tokens": 12, "completion_tokens": 1e30}
    >>> reply = reply_of({"content": "", "refusal": "I cannot."}, "stop", usage, ("m-2026", None))
    >>> reply.kind, reply.text, reply.tokens_in, reply.tokens_out
    ('refusal', 'I cannot.', 12, None)
    """
    # A server may say back the key that it was sent, and a reply is kept.
    keys = [secret for secret in secrets if len(secret) >= _LEAST_KEY]
    kind, said = _said(message)
    text, finish, name, fingerprint = (
        storable(_blanked(str(value or ""), keys)) for value in (said, finish_reason or "stop", *named)
    )
    details = usage.get("prompt_tokens_details")
    # There is no prompt without a token: litellm gives 0 where the server gave nothing.
    tokens_in = _token_count(usage.get("prompt_tokens")) or None
    return Reply(
        text=text,
        finish_reason=finish,
        tokens_in=tokens_in,
        tokens_out=_token_count(usage.get("completion_tokens")) if tokens_in else None,
        model=name,
        fingerprint=fingerprint,
        cached_tokens=_token_count(details.get("cached_tokens")) if isinstance(details, Mapping) else None,
        kind=kind,
        tokens=tokens_of(logprobs),
    )


def _said(message: Mapping[str, Any]) -> tuple[ReplyKind, object]:
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))
    others = message.get("provider_specific_fields")
    also = others if isinstance(others, Mapping) else {}
    if isinstance(content, str) and (thought := _THOUGHT.match(content)):
        thoughts, content = thought[1], content[thought.end() :]
    else:
        thoughts = message.get("reasoning_content") or message.get("reasoning") or also.get("reasoning")
    if str(content or "").strip():
        # Another end of thoughts after the thoughts: what it ends is no longer clear, so nothing is taken away.
        unclear = thoughts and "</think>" in str(content)
        return "text", f"<think>{thoughts}</think>{content}" if unclear else content
    if refusal := message.get("refusal") or also.get("refusal"):
        return "refusal", refusal
    if call := message.get("tool_calls") or message.get("function_call"):
        return "tool_call", json.dumps(call, default=str, sort_keys=True)
    return ("thoughts", thoughts) if thoughts else ("text", content)


def _token_count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else None


def seconds_to_wait(headers: Mapping[str, Any]) -> float | None:
    """Seconds that a server asks to wait, by the headers of its answer; None where it does not.

    >>> seconds_to_wait({"retry-after": "2"}), seconds_to_wait({"retry-after": "soon"})
    (2.0, None)
    """
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        text = str(headers.get(name) or "")
        try:
            seconds = float(text) * unit
        except ValueError:
            try:
                seconds = parsedate_to_datetime(text).timestamp() - time.time()
            except (ValueError, OverflowError):
                continue
        if math.isfinite(seconds):
            return max(seconds, 0.0)
    return None


def without_secrets(text: str, model: ModelRef) -> str:
    """An error on one line and without any key or password that it may quote."""
    text = _blanked(text, secrets_of(model))
    # Providers quote keys in part: sk-ab***yz.
    text = re.sub(r"\b((sk|pk|key)[-_]|Bearer )[\w*.-]{6,}", "***", text)
    # Who has the address may have a password or a key in it: http://name:password@host/v1?key=...
    text = re.sub(r"(\w://)[^\s/@]+@", r"\1***@", text)
    text = re.sub(r"(\w://[^\s?'\"]+\?)[^\s'\"]+", r"\1***", text)
    return " ".join(storable(text).split())[:500]


def _blanked(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        for spelling, end in _spellings(secret):
            if spelling in text:
                text = re.sub(re.escape(spelling) + end, "***", text)
    return text


@lru_cache(maxsize=64)
def _spellings(secret: str) -> tuple[tuple[str, str], ...]:
    """A secret as it stands, as addresses have it, and as it is in Base64, as in headers of logins; with a pattern of
    what goes on with it.
    """
    found = {secret: "", quote(secret, safe=""): ""}
    found[re.sub("%..", lambda match: match[0].lower(), quote(secret, safe=""))] = ""
    raw = secret.encode()
    # Three bytes are four characters, so there are three ways to begin. A short part of them could be a word.
    for before in range(3 if len(raw) >= _LEAST_KEY else 1):
        bits = 8 * (before + len(raw))
        # Without characters that depend on what stands before, or behind.
        encoded = base64.b64encode(bytes(before) + raw).decode()[(8 * before + 5) // 6 : bits // 6]
        end = r"[\w+/-]?={0,2}" if bits % 6 else ""
        found |= {encoded: end, encoded.replace("+", "-").replace("/", "_"): end}
    return tuple(found.items())


def secrets_of(model: ModelRef) -> list[str]:
    """The key of a model, and the keys, tokens and secrets in the environment; the longest first."""
    # As bytes: there is nothing to decode for what is no secret.
    names = [name for name in os.environb if name.endswith((b"_API_KEY", b"_TOKEN", b"_SECRET"))]
    secrets = [os.environ.get(os.fsdecode(name), "") for name in names]
    # A word in the environment may stand in any message; what was given as the key is one, however short.
    secrets = [value for value in secrets if len(value) >= 8] + [model.api_key or ""]
    return sorted(filter(None, secrets), key=len, reverse=True)
