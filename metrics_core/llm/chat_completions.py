"""Calls to OpenAI-compatible servers, sent by ourselves: litellm takes several times as long for the same request.

litellm says how the request looks. For each kind of request (a model, its parameters, the roles of its messages) it is
asked once, with nothing sent; of later ones of this kind only the messages differ. Where its request is not the plain
one, and for other providers, litellm makes the call.
"""

from __future__ import annotations

import asyncio
import json
import marshal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import httpx

from answerkey.metrics_core.llm.batch_service import Written
from answerkey.metrics_core.llm.http import Answer, exchange
from answerkey.metrics_core.llm.litellm import NO_CHOICES, LiteLLM, error_of, provider_of, sorted_error
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.request import Message
from answerkey.metrics_core.llm.transport import CallError, Reply, reply_of, secrets_of, without_secrets
from answerkey.metrics_core.llm.untrusted import quoted

PROVIDERS = frozenset(("openai", "hosted_vllm", "lm_studio", "llamafile"))
"""Those that litellm sends the plain request of OpenAI, without a login or a format of their own."""

_NAMED_ALONE = frozenset(("openai", "hosted_vllm"))
"""Of other providers, litellm names a model that answered with its provider; so do the ledgers."""

_FINISHED = {name: name for name in ("length", "content_filter", "tool_calls", "function_call")}
_FINISHED["max_tokens"] = "length"

_PATH = "/chat/completions"
_NO_ROOM = "could not finish the message because max_tokens or model output limit was reached"
"""How OpenAI says that not even one token had room after the thoughts; with a little more it is a cut-off reply."""


@dataclass(frozen=True, slots=True)
class _Form:
    """A request as litellm makes it, but for the messages."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: Mapping[str, Any]
    start: bytes = field(repr=False)
    """The body as far as the messages."""


class ChatCompletions:
    """The `Transport` for all models: what can be sent plainly is, and litellm sends the rest."""

    def __init__(self) -> None:
        self._litellm = LiteLLM()
        self._forms: dict[tuple[ModelRef, bytes], _Form | None] = {}
        # Looked up once a run and not once a call: there are many variables in an environment.
        self._secrets: dict[ModelRef, list[str]] = {}

    async def prepare(self, model: ModelRef) -> None:
        """See `Transport`."""
        await self._litellm.prepare(model)

    async def send(
        self, model: ModelRef, messages: Sequence[Message], settings: Mapping[str, Any], timeout_s: float
    ) -> Reply:
        """See `Transport`."""
        provider = provider_of(model.model)
        form = await self._form(model, messages, settings) if provider in PROVIDERS else None
        if form is None:
            return await self._litellm.send(model, messages, settings, timeout_s)
        body = form.start + _written(messages) + b"}"
        try:
            async with asyncio.timeout(timeout_s):
                answer = await exchange("POST", form.url, form.headers, body)
        except TimeoutError as error:
            raise CallError("trouble", "timeout", f"no reply within {timeout_s:g} s") from error
        except CallError as error:
            raise sorted_error(error, model, timeout_s) from error
        return _read(answer, model, self._secrets_of(model), timeout_s)

    async def written(self, model: ModelRef, messages: Sequence[Message], settings: Mapping[str, Any]) -> Written:
        """See `LineTransport`."""
        if form := await self._form(model, messages, settings) if provider_of(model.model) in PROVIDERS else None:
            return Written(form.url, form.headers, {**form.body, "messages": list(messages)})
        requests = await self._litellm.rehearse(model, messages, settings)
        if len(requests) != 1 or requests[0].method != "POST":
            raise CallError("fatal", "no_batches", f"{model.label} cannot be asked with one request")
        return Written(str(requests[0].url), dict(requests[0].headers), json.loads(requests[0].content))

    async def read(
        self, answer: Answer, model: ModelRef, messages: Sequence[Message], settings: Mapping[str, Any]
    ) -> Reply:
        """See `LineTransport`."""
        provider = provider_of(model.model)
        if provider in PROVIDERS and await self._form(model, messages, settings):
            return _read(answer, model, self._secrets_of(model), 0.0)
        return await self._litellm.replay(answer, model, messages, settings)

    def _secrets_of(self, model: ModelRef) -> Sequence[str]:
        if model not in self._secrets:
            self._secrets[model] = secrets_of(model)
        return self._secrets[model]

    async def _form(self, model: ModelRef, messages: Sequence[Message], settings: Mapping[str, Any]) -> _Form | None:
        # In a format that keeps no references, so that what is equal is the same bytes.
        place = model, marshal.dumps([settings, [message["role"] for message in messages]], 2)
        if place not in self._forms:
            requests = await self._litellm.rehearse(model, messages, settings)
            self._forms[place] = _plain(requests, messages)
        return self._forms[place]


def _plain(requests: Sequence[httpx.Request], messages: Sequence[Message]) -> _Form | None:
    """The form of a request; None if it is not the plain one."""
    if len(requests) != 1 or requests[0].method != "POST" or not requests[0].url.path.endswith(_PATH):
        return None
    [request] = requests
    body = json.loads(request.content)
    if body.get("messages") != list(messages) or body.get("stream"):
        return None
    # What the client library says about itself is not true of us.
    headers = {name: value for name, value in request.headers.items() if not name.startswith("x-stainless-")}
    del body["messages"]
    start = f'{json.dumps(body)[:-1]}, "messages": '.encode()
    return _Form(str(request.url), {**headers, "user-agent": "answerkey"}, body, start)


def _written(messages: Sequence[Message]) -> bytes:
    """As `json.dumps` writes them. The instructions are long, and the same in most calls of a run."""
    texts = [_instructions(one["content"]) if one["role"] == "system" else json.dumps(one) for one in messages]
    return f"[{', '.join(texts)}]".encode()


@lru_cache(maxsize=32)
def _instructions(content: str) -> str:
    return json.dumps({"role": "system", "content": content})


def _read(answer: Answer, model: ModelRef, secrets: Sequence[str], timeout_s: float) -> Reply:
    text = answer.body.decode("utf-8", "replace")
    if not 200 <= answer.status < 300:
        if answer.status == 400 and _NO_ROOM in text.lower():
            return Reply("", "length", None, None, "", "")
        raise error_of(answer.status, answer.headers, text, model, timeout_s)
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        said = quoted(without_secrets(text, model))
        raise CallError("trouble", "http_500", f"the server's answer is no JSON object: {said}")
    choices, error = body.get("choices"), body.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    if error and (not isinstance(error, dict) or error.get("message") or code is not None):
        raise error_of(code if type(code) is int else 422, answer.headers, text, model, timeout_s)
    if not isinstance(choices, list) or not choices:
        raise NO_CHOICES
    choice = choices[0] if isinstance(choices[0], dict) else {}
    message, usage = choice.get("message"), body.get("usage")
    provider = provider_of(model.model)
    named = body.get("model") if provider in _NAMED_ALONE else f"{provider}/{body.get('model')}"
    return reply_of(
        message if isinstance(message, dict) else {},
        _FINISHED.get(str(choice.get("finish_reason")), "stop"),
        usage if isinstance(usage, dict) else {},
        (named, body.get("system_fingerprint")),
        secrets,
        choice.get("logprobs"),
    )
