"""One call to a model through litellm, its prices, and its errors by what to do next. Nothing is retried here.

litellm is handed an HTTP client of ours, which refuses redirects, limits the size of a reply, and notes what came over
the wire. The status that came over the wire decides what an error means; litellm's class of error only refines a 400.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import re
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urljoin, urlsplit
from weakref import WeakKeyDictionary

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.access import CallLimits
from answerkey.metrics_core.llm.model import ModelRef, provider_address
from answerkey.metrics_core.llm.provider_options import from_environment
from answerkey.metrics_core.llm.request import (
    ERROR_IN_REPLY,
    GARBLED,
    NO_CONNECTION,
    CallError,
    FailureKind,
    Message,
    Reply,
    ReplyKind,
)
from answerkey.metrics_core.llm.untrusted import quoted
from answerkey.metrics_core.text import storable

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")

MOST_BYTES = 4 * 2**20
"""Of one reply, as it comes and unpacked."""
_KEYLESS = "no-key-needed"
_BOM = b"\xef\xbb\xbf"

_TRANSIENT = frozenset((408, 409, 425, 500, 502, 503, 504, 520, 522, 524, 529))
_FATAL = frozenset((401, 402, 403, 404))
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_NOT_CONNECTED = frozenset(("ConnectError", "ConnectTimeout", "ConnectionRefusedError"))
_TIMED_OUT = frozenset(("TimeoutError", "ReadTimeout", "APITimeoutError"))
_BROKEN = frozenset(("ReadError", "WriteError", "CloseError", "RemoteProtocolError", "OSError", *_NOT_CONNECTED))
"""As httpx names them, whose classes are not imported for this."""
_FORMAT_WORDS = re.compile(r"response_format|json_schema|json_object|structured.output", re.IGNORECASE)
_PARAMETERS = ("temperature", "seed", "reasoning_effort")
_ABOUT_ROLES = re.compile(
    r"\b(?:system|developer)\b.{0,40}\b(?:role|message|prompt|instruction)|\brole\b.{0,80}\b(?:system|developer)\b"
    r"|\brole.{0,20}\balternate|\buser\b.{0,12}\bassistant\b",
    re.IGNORECASE | re.DOTALL,
)
_DENIES = re.compile(r"\b(?:not|only|must|should|cannot|un\w+|invalid)\b|n['’]t\b", re.IGNORECASE)
"""How servers refuse a system message, most of them in the words of a template for chats."""
_TOO_MANY_TOKENS = re.compile(
    r"max_(?:completion_)?tokens\b.*?\b(?:at most|maximum|limit|less than|up to)\D*(\d+)", re.S
)
_FILTERED = re.compile(r"content_filter|content management policy|ResponsibleAIPolicyViolation", re.IGNORECASE)
_TOO_LONG = re.compile(r"request too large|context_length_exceeded|maximum context length", re.IGNORECASE)
_NO_ROOM = "could not finish the message because max_tokens or model output limit was reached"
"""OpenAI's message where the thoughts left no room for one token; with more room it is a reply that was cut off."""
_MOST_TOKENS = 10**9
_THOUGHT = re.compile(r"<(?:think|thinking)>(.*?)</(?:think|thinking)>", re.DOTALL)
"""At the beginning of a text, where some servers leave them; litellm takes them away as well."""
_LEAST_KEY = 12
"""Characters of a key that is looked for in replies: a shorter one may be a word."""
_OWN_HANDLER = frozenset(
    (
        *("azure_ai", "bedrock_mantle", "cometapi", "deepseek", "edenai", "fal_ai", "fireworks_ai", "gigachat", "groq"),
        *("heroku", "hosted_vllm", "minimax", "ragflow", "sap", "together_ai", "xai", "mistral", "databricks"),
        *("datarobot", "openrouter", "huggingface", "vercel_ai_gateway", "snowflake", "lemonade", "ovhcloud"),
    )
)
"""Providers with OpenAI's format that litellm does not call through OpenAI's own client library."""
_NEEDED = {
    "vertex_ai": ("google.auth", "google-auth"),
    "vertex_ai_beta": ("google.auth", "google-auth"),
    "vllm": ("vllm", "vllm"),
    "bedrock": ("boto3", "boto3"),
    "sagemaker": ("boto3", "boto3"),
    "sagemaker_chat": ("boto3", "boto3"),
    "petals": ("petals", "petals"),
}
"""The module that litellm imports for a provider, and the package that has it."""


@cache
def litellm() -> Any:
    """The module, imported when it is first needed (seconds), without its logging and downloads."""
    # Otherwise the import downloads prices, and the first call to Anthropic names of headers.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "True")
    import litellm as module

    # Otherwise they log two lines per call wherever more than warnings are shown, and litellm warns each time that its
    # queue of log entries moves to another event loop.
    for name, level in (("LiteLLM", logging.ERROR), ("httpx", logging.WARNING), ("openai", logging.WARNING)):
        logging.getLogger(name).setLevel(level)
    module.telemetry = False
    module.suppress_debug_info = True
    return module


def json_object(text: str) -> dict[str, Any]:
    """The JSON object that a text is; empty where it is none.

    >>> json_object('{"a": 1}'), json_object("[1]"), json_object("{")
    ({'a': 1}, {}, {})
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


@dataclass(slots=True)
class _Wire:
    """What came over the wire for one call to a model, which may take so many seconds, and what an error of it means.

    No message of an error has a key in it.
    """

    model: ModelRef
    timeout_s: float = 0.0
    most_bytes: int = MOST_BYTES
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    problem: CallError | None = None

    @property
    def text(self) -> str:
        return self.body.removeprefix(_BOM).decode("utf-8", "replace")

    @property
    def json(self) -> dict[str, Any]:
        """The body as a JSON object; empty where it is none."""
        return json_object(self.text)

    def error(self, raised: BaseException) -> CallError:
        """What `raised` means, by what to do next."""
        if self.problem is not None:
            problem = self.problem
            return CallError(problem.kind, problem.code, without_secrets(problem.message, self.model))
        message = without_secrets(str(raised), self.model)
        if self.status is None and (getattr(raised, "status_code", None) == 408 or _caused_by(raised, _TIMED_OUT)):
            return self.timeout()
        if self.status is not None and not 200 <= self.status < 300:
            return self.by_status(self.status, type(raised).__name__)
        if _caused_by(raised, _BROKEN) and not self.body:
            is_connected = self.status is not None or not _caused_by(raised, _NOT_CONNECTED)
            return CallError("trouble", "disconnected" if is_connected else NO_CONNECTION, message)
        if self.status is None:
            # litellm raised before it sent anything.
            return CallError("permanent", "client", f"{type(raised).__name__}: {message}")
        return self.no_completion()

    def timeout(self) -> CallError:
        """The error of a call that took too long."""
        return CallError("trouble", "timeout", f"no reply within {self.timeout_s:g} s")

    def no_completion(self) -> CallError:
        """What an answer with status 200 means: it may have to be paid, unless its own status is a refusal."""
        error = _error_within(self.json)
        if not error:
            problem = "has no choices" if self.json else "is not a JSON object"
            text = quoted(without_secrets(self.text, self.model))
            return CallError("again", GARBLED, f"the server's answer {problem}: {text}")
        code = error.get("code")
        if isinstance(code, int | str) and re.fullmatch("[45][0-9][0-9]", str(code)):
            body = json.dumps({"error": error}).encode()
            refusal = _Wire(self.model, headers=self.headers, body=body).by_status(int(code))
            if refusal.kind != "trouble":
                return refusal
            return CallError("trouble", ERROR_IN_REPLY, refusal.message, refusal.retry_after)
        message = quoted(without_secrets(str(error.get("message") or error), self.model))
        return CallError("again", GARBLED, f"the server's answer is an error with status 200: {message}")

    def by_status(self, status: int, litellm_class: str = "") -> CallError:
        """What an answer with an error means, by its status; the class of litellm's error refines a 400."""
        code = f"http_{status}"
        text = self.text
        wait_s = seconds_to_wait(self.headers)
        # The server's own message, or all that it says
        body = self.json
        error = _mapping(body.get("error", body))
        message = error.get("message")
        if not (isinstance(message, str) and message):
            message = text
        elif detail := error.get("code") or error.get("type"):
            message = f"{message} ({detail})"
        message = without_secrets(message, self.model)

        # It refuses this request, is busy, broken, or refuses every request
        if status in (400, 422):
            return _of_request(code, text, message, litellm_class)
        if status == 408:
            # Where nobody has waited, as for a line of a batch, only the server can say for how long
            return self.timeout() if self.timeout_s else CallError("trouble", "timeout", message)
        if status == 429 and "insufficient_quota" in text:
            return CallError("fatal", "quota", message)
        if status in (413, 429) and _TOO_LONG.search(text):
            return CallError("permanent", "too_long", message)
        # Some servers say with a 503 what others say with a 429.
        if status == 429 or (status in _TRANSIENT and wait_s is not None):
            return CallError("limited", code, message, wait_s)
        kind: FailureKind = "permanent"
        if status in _TRANSIENT:
            kind = "trouble"
        elif status in _FATAL:
            kind = "fatal"
        return CallError(kind, code, message)


def _of_request(code: str, text: str, message: str, litellm_class: str) -> CallError:
    """What a server says of the request with status 400 or 422."""
    if "json_validate_failed" in text:
        return CallError("again", code, message)
    if litellm_class == "ContextWindowExceededError" or _TOO_LONG.search(text):
        return CallError("permanent", "too_long", message)
    if litellm_class == "ContentPolicyViolationError" or _FILTERED.search(text):
        return CallError("permanent", "content_filter", message)
    parameter = next((name for name in _PARAMETERS if re.search(rf"\b(?:top_)?{name}\b", text)), None)
    if _ABOUT_ROLES.search(message) and _DENIES.search(message):
        parameter = "system"
    if "max_completion_tokens" in text and re.search(r"\bmax_tokens\b", text) and "instead" in text:
        parameter = "max_tokens"
    elif limit := _TOO_MANY_TOKENS.search(text):
        return CallError("refused", code, message, most_tokens=int(limit[1]))
    about_format = _FORMAT_WORDS.search(text) is not None
    return CallError("refused", code, message, parameter=parameter, about_format=about_format)


_wire: ContextVar[_Wire] = ContextVar("wire")
_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[object, Any]] = WeakKeyDictionary()
"""By event loop: what litellm sends the calls to each model through, and, by None, the HTTP client of all of them."""


def _connected(**options: Any) -> dict[object, Any]:
    """The clients of this event loop; `options` are those of an HTTP client that is not there yet."""
    loop = asyncio.get_running_loop()
    if loop not in _clients:
        litellm()
        from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler

        handler: Any = AsyncHTTPHandler(event_hooks={"response": [_note]}, follow_redirects=False, **options)
        _clients[loop] = {None: handler}
    return _clients[loop]


async def disconnect() -> None:
    """Close the connections of this event loop."""
    await _clients.pop(asyncio.get_running_loop())[None].client.aclose()


@asynccontextmanager
async def _recorded(model: ModelRef, timeout_s: float, most_bytes: int = MOST_BYTES) -> AsyncIterator[_Wire]:
    """What comes over the wire for the one call that is made in this context, which may take so many seconds."""
    wire = _Wire(model, timeout_s, most_bytes)
    token = _wire.set(wire)
    try:
        # litellm's time-out ends a silent server; this one also a server that sends a byte now and then.
        async with asyncio.timeout(timeout_s):
            yield wire
    except TimeoutError as error:
        raise wire.timeout() from error
    finally:
        _wire.reset(token)


async def _note(response: httpx.Response) -> None:
    """Note the answer to a call, and read no more of it than is allowed."""
    import httpx

    wire = _wire.get(None)
    if wire is None:
        return
    wire.status = response.status_code
    wire.headers = response.headers.copy()
    wire.body = b""
    stream: Any = response.stream
    try:
        if response.status_code in _REDIRECTS:
            # Following it could turn a POST into a GET, or show the texts to a server that the user did not name.
            try:
                target = urlsplit(urljoin(str(response.request.url), response.headers.get("location", "")))
            except ValueError:
                raise CallError("fatal", "redirect", "the server sends calls on to a malformed address") from None
            address = f"{target.scheme}://{target.netloc.rpartition('@')[2]}{target.path}"
            raise CallError(
                "fatal", "redirect", f"the server sends calls on to {address}; name that address if you trust it"
            )
        if response.status_code == 200 and response.headers.get("content-type", "").startswith("text/event-stream"):
            raise CallError("again", GARBLED, "this server only streams, which is not supported")
        # In the wire only when it is whole: what breaks off in the middle is no answer
        body = bytearray()
        async for piece in stream:
            body += piece
            if len(body) > wire.most_bytes:
                raise _too_long(wire.most_bytes)
        is_packed = response.headers.pop("content-encoding", "").lower() not in ("", "identity")
        wire.body = _unpacked(bytes(body), wire.most_bytes) if is_packed else bytes(body)
    except CallError as error:
        wire.problem = error
        raise
    finally:
        await stream.aclose()
    response.headers.pop("content-length", None)
    # Some servers begin with a byte order mark, which is no part of JSON.
    response.stream = httpx.ByteStream(wire.body.removeprefix(_BOM))


def _unpacked(packed: bytes, most_bytes: int) -> bytes:
    """The content of gzip or zlib data, which may have several members."""
    content = b""
    try:
        while packed:
            unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)
            content += unpacker.decompress(packed, most_bytes + 1 - len(content))
            if len(content) > most_bytes:
                raise _too_long(most_bytes)
            if not unpacker.eof:
                raise CallError("again", GARBLED, "the server's compressed answer is cut off")
            packed = unpacker.unused_data
    except zlib.error as error:
        raise CallError("again", GARBLED, f"the server's answer cannot be decompressed: {error}") from error
    return content


def _too_long(most_bytes: int) -> CallError:
    return CallError("permanent", "too_large", f"the server's answer is longer than {most_bytes // 2**20} MiB")


@cache
def prepare(model: ModelRef) -> None:
    """Import what litellm imports only with the first call to a model, which takes seconds. Nothing is sent."""
    litellm()
    import httpx

    async def first_call() -> None:
        # A transport that answers by itself.
        transport = httpx.MockTransport(lambda _request: httpx.Response(200, json={}))
        _connected(transport=transport)
        with suppress(CallError):
            await complete(model, [{"role": "user", "content": "Hello"}], {"max_tokens": 1}, 60.0)
        await disconnect()

    asyncio.run(first_call())


async def complete(
    model: ModelRef, messages: Sequence[Message], settings: Mapping[str, Any], timeout_s: float
) -> Reply:
    """Make one call.

    Args:
        settings: litellm's arguments (temperature, seed, max_tokens, response_format); a header may be `env:VARIABLE`.
        timeout_s: seconds.

    Raises:
        CallError: there is no reply, or it is unusable.
    """
    if headers := settings.get("extra_headers"):
        # Only here: whatever is stored or shown has the names of the variables.
        sent = {name: from_environment(value) for name, value in headers.items()}
        settings = {**settings, "extra_headers": sent}
    async with _recorded(model, timeout_s) as wire:
        try:
            # What it is sent through: a client of OpenAI's library for the providers that litellm calls by it
            clients = _connected()
            slot = model.model, model.api_base, model.api_key
            if slot not in clients:
                _, provider = _split(model.model)
                is_sdk = provider in ("openai", "azure", "custom_openai", *litellm().openai_compatible_providers)
                if provider in _OWN_HANDLER or abilities(model.model).by_responses:
                    is_sdk = False
                clients[slot] = _sdk_client(model) if is_sdk else clients[None]
            response = await litellm().acompletion(
                model=model.model,
                messages=list(messages),
                timeout=timeout_s,
                num_retries=0,
                max_retries=0,
                allowed_openai_params=["max_retries"],
                drop_params=True,
                client=clients[slot],
                **_key_of(model),
                **settings,
                **{"no-log": True},
            )
        except Exception as error:
            body = wire.json
            if wire.status == 400 and _NO_ROOM in wire.text.lower():
                return Reply("", "length", None, None, "", "")
            # litellm cannot read every completion that is one.
            if wire.status != 200 or wire.problem is not None or not _choice(body) or _error_within(body):
                raise wire.error(error) from error
            return _reply(body, wire)
    return _reply(response.model_dump(warnings=False), wire)


async def by_sdk(
    model: ModelRef, call: Callable[[Any], Awaitable[T]], timeout_s: float, most_bytes: int = MOST_BYTES
) -> T:
    """Make one call that is no completion with OpenAI's client library, to the address of a model.

    Args:
        call: gets the client.

    Raises:
        CallError: it failed.
    """
    async with _recorded(model, timeout_s, most_bytes) as wire:
        try:
            return await call(_sdk_client(model).with_options(timeout=timeout_s))
        except Exception as error:
            raise wire.error(error) from error


def body_of(model: ModelRef, messages: Sequence[Message], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a call in OpenAI's format, with the parameters as litellm spells them for the model."""
    parameters = _parameters(model.model, settings)
    extra_body = parameters.pop("extra_body", {})
    return {"model": _split(model.model)[0], "messages": list(messages), **extra_body, **parameters}


def reply_in(status: int, body: object, model: ModelRef) -> Reply:
    """The reply in an answer in OpenAI's format that came in a batch.

    Raises:
        CallError: as `complete`.

    >>> try:
    ...     reply_in(200, {"error": {"code": 408, "message": "the model timed out"}}, ModelRef("openai/m"))
    ... except CallError as error:
    ...     print(error)
    error_in_reply: the model timed out (408)
    """
    wire = _Wire(model, status=status, body=json.dumps(body).encode())
    if status != 200 or not _choice(wire.json) or _error_within(wire.json):
        raise wire.error(Exception())
    return _reply(wire.json, wire)


def _key_of(model: ModelRef) -> dict[str, str]:
    """The address and the key of a call, as litellm takes them."""
    arguments = {"api_base": model.api_base} if model.api_base else {}
    if model.api_key:
        arguments["api_key"] = model.api_key
    elif model.api_base:
        # The provider's key in the environment is not meant for another address; and a server of the user's own often
        # needs no key, which the client libraries do not accept.
        is_own_address = model.api_base == provider_address(model.model)
        if not (is_own_address and litellm().validate_environment(model.model)["keys_in_environment"]):
            arguments["api_key"] = _KEYLESS
    return arguments


def _sdk_client(model: ModelRef) -> Any:
    """A client of OpenAI's library that sends through our HTTP client; None: litellm makes its own."""
    import openai

    # What is not given stands in the environment, where litellm would look for it
    name, provider = _split(model.model)
    address = model.api_base
    key = _key_of(model).get("api_key")
    options: dict[str, Any] = {"http_client": _connected()[None].client, "max_retries": 0}
    if provider == "azure":
        address = address or os.environ.get("AZURE_API_BASE", "")
        key = key or os.environ.get("AZURE_API_KEY") or os.environ.get("AZURE_OPENAI_API_KEY")
        if not (address and key):
            return None
        version = os.environ.get("AZURE_API_VERSION") or litellm().AZURE_DEFAULT_API_VERSION
        if "/openai/v1" not in address and version not in ("v1", "preview", "latest"):
            return openai.AsyncAzureOpenAI(azure_endpoint=address, api_key=key, api_version=version, **options)
        if "/openai/v1" not in address:
            address = f"{address.rstrip('/')}/openai/v1"
    else:
        *_, default_key, default_address = litellm().get_llm_provider(
            model=f"{provider}/{name}", api_base=address or None, api_key=key
        )
        key = key or default_key or os.environ.get("OPENAI_API_KEY")
        address = address or default_address or os.environ.get("OPENAI_BASE_URL", "")
    return openai.AsyncOpenAI(api_key=key or _KEYLESS, base_url=address or None, **options)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _choice(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The first choice in the body of an answer; empty: it has none."""
    choices = body.get("choices")
    return _mapping(choices[0]) if isinstance(choices, list) and choices else {}


def _error_within(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The error that a body with status 200 holds, also within its first choice; empty: there is none."""
    for error in (body.get("error"), _choice(body).get("error")):
        if isinstance(error, str) and error:
            return {"message": error}
        if isinstance(error, dict) and (error.get("message") or error.get("code") is not None):
            return error
    return {}


def _reply(answer: Mapping[str, Any], wire: _Wire) -> Reply:
    """The reply in an answer in OpenAI's format, as litellm reads it."""
    body = wire.json
    choice = _choice(answer)
    message = _mapping(choice.get("message"))
    if not message.get("content") and _error_within(body):
        raise wire.no_completion()
    if not choice:
        raise CallError("again", GARBLED, "the server's answer has no choices")

    # What it says, without the thoughts before it
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))
    specific = _mapping(message.get("provider_specific_fields"))
    thoughts = message.get("reasoning_content") or message.get("reasoning") or specific.get("reasoning")
    if isinstance(content, str) and (thought := _THOUGHT.match(content)):
        thoughts = thought[1]
        content = content[thought.end() :]
    kind: ReplyKind = "text"
    if str(content or "").strip():
        if thoughts and "</think>" in str(content):
            # Another end of thoughts after the thoughts: what it ends is ambiguous, so nothing is taken away.
            content = f"<think>{thoughts}</think>{content}"
    elif refusal := message.get("refusal") or specific.get("refusal"):
        kind = "refusal"
        content = refusal
    elif call := message.get("tool_calls") or message.get("function_call"):
        kind = "tool_call"
        content = json.dumps(call, default=str, sort_keys=True)
    elif thoughts:
        kind = "thoughts"
        content = thoughts

    # litellm estimates the tokens that are missing, and rounds what is no whole number.
    usage = _mapping((body if isinstance(body.get("choices"), list) else answer).get("usage"))
    # litellm reports 0 tokens of the prompt if the server sent no usage, so 0 means unknown.
    tokens_in = _token_count(usage.get("prompt_tokens")) or None
    # A server may repeat the key that it was sent, and a reply is kept.
    keys = [secret for secret in _secrets_of(wire.model) if len(secret) >= _LEAST_KEY]

    def clean(value: object) -> str:
        return storable(_blanked(str(value or ""), keys))

    return Reply(
        text=clean(content),
        finish_reason=clean(choice.get("finish_reason") or "stop"),
        tokens_in=tokens_in,
        tokens_out=_tokens_out(usage, tokens_in) if tokens_in else None,
        model=clean(answer.get("model")),
        fingerprint=clean(answer.get("system_fingerprint")),
        cached_tokens=_token_count(_mapping(usage.get("prompt_tokens_details")).get("cached_tokens")),
        kind=kind,
    )


def _tokens_out(usage: Mapping[str, Any], tokens_in: int) -> int | None:
    """Return the tokens that are paid as output, in any of the ways in which providers count thoughts.

    OpenAI counts them within `completion_tokens`; others beside it, in the details or in the total alone.

    >>> _tokens_out({"completion_tokens": 1040, "completion_tokens_details": {"reasoning_tokens": 1000}}, 1500)
    1040
    >>> _tokens_out({"completion_tokens": 40, "total_tokens": 2540}, 1500)
    1040
    """
    tokens_out = _token_count(usage.get("completion_tokens"))
    if tokens_out is None:
        return None
    thoughts = _token_count(_mapping(usage.get("completion_tokens_details")).get("reasoning_tokens")) or 0
    # More thoughts than tokens cannot be among them
    if thoughts > tokens_out:
        tokens_out += thoughts
    total = _token_count(usage.get("total_tokens")) or 0
    return max(tokens_out, total - tokens_in)


def _token_count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else None


def _caused_by(error: BaseException | None, names: Iterable[str]) -> bool:
    """Whether one of these classes is somewhere down the chain of causes."""
    while error is not None:
        if any(kind.__name__ in names for kind in type(error).__mro__):
            return True
        error = error.__cause__ or error.__context__
    return False


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
    text = _blanked(text, _secrets_of(model))
    # Providers quote keys in part: sk-ab***yz.
    text = re.sub(r"\b((sk|pk|key)[-_]|Bearer )[\w*.-]{6,}", "***", text)
    # Who has the address may have a password or a key in it: http://name:password@host/v1?key=...
    text = re.sub(r"(\w://)[^\s/@]+@", r"\1***@", text)
    text = re.sub(r"(\w://[^\s?'\"]+\?)[^\s'\"]+", r"\1***", text)
    return " ".join(storable(text).split())[:500]


def _blanked(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        # As it stands, and as addresses have it, in which letters of either case may follow a percent sign.
        text = re.sub(re.escape(quote(secret, safe="")), "***", text.replace(secret, "***"), flags=re.IGNORECASE)
    return text


def _secrets_of(model: ModelRef) -> list[str]:
    """The key of a model, and the keys, tokens and secrets in the environment; the longest first."""
    endings = ("_API_KEY", "_TOKEN", "_SECRET")
    secrets = [
        value.strip() for name, value in os.environ.items() if name.endswith(endings) and len(value.strip()) >= 8
    ]
    # A word in the environment may stand in any message; what was given as the key is one, however short.
    if model.api_key:
        secrets.append(model.api_key)
    return sorted(secrets, key=len, reverse=True)


Prices = tuple[float, float, float]
"""Dollars per token: of what is asked, of what is asked and was in the provider's cache, and of what is replied."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """What litellm knows about a model.

    Attributes:
        provider: as litellm names it.
        price: None: it is not known. `batch_price`: in a batch; as on its own where the provider names none.
        parameters: those of a call that the model accepts; litellm leaves the others out.
        by_responses: whether litellm calls it through OpenAI's Responses API.
    """

    provider: str
    price: Prices | None
    batch_price: Prices | None
    parameters: frozenset[str]
    by_responses: bool


def prices_of(model: ModelRef, *, in_batch: bool = False) -> Prices | None:
    """What a model costs: by the user's own words, or else by litellm's tables; None: it is not known.

    >>> prices_of(ModelRef("openai/my-own", price=(1e-6, 2e-6)))
    (1e-06, 1e-06, 2e-06)
    """
    if model.price is not None:
        return model.price[0], model.price[0], model.price[1]
    listed = abilities(model.model)
    return listed.batch_price if in_batch else listed.price


@cache
def abilities(model: str, noun: str = "model") -> Abilities:
    """Look a model up in litellm's own tables, without any call.

    Raises:
        UserError: litellm knows no such provider.
    """
    library = litellm()
    try:
        name, provider = _split(model)
    except library.BadRequestError as error:
        raise UserError(
            f"{noun} {model!r}: litellm knows no such provider; write PROVIDER/MODEL, for instance openai/gpt-4o-mini"
        ) from error
    parameters = library.get_supported_openai_params(model=name, custom_llm_provider=provider) or []
    listed: Mapping[str, Any] = library.model_cost.get(model) or library.model_cost.get(name) or {}
    by_responses = provider in ("openai", "azure") and listed.get("mode") == "responses"
    if not listed:
        # What its table has under another name. It gives 0 for what it does not know.
        with suppress(Exception):
            row = library.get_model_info(model)
            if row.get("input_cost_per_token") and row.get("output_cost_per_token"):
                listed = row

    def prices(kind: str = "") -> Prices | None:
        price_in = listed.get(f"input_cost_per_token{kind}")
        price_out = listed.get(f"output_cost_per_token{kind}")
        if price_in is None or price_out is None:
            return None
        price_cached = listed.get(f"cache_read_input_token_cost{kind}")
        return float(price_in), float(price_in if price_cached is None else price_cached), float(price_out)

    return Abilities(
        provider=provider,
        price=prices(),
        batch_price=prices("_batches") or prices(),
        parameters=frozenset(parameters),
        by_responses=by_responses or name.startswith("responses/"),
    )


@cache
def _split(model: str) -> tuple[str, str]:
    name, provider, _, _ = litellm().get_llm_provider(model)
    return name, provider


def _parameters(model: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a call as litellm spells them for a model, without those that it does not accept."""
    name, provider = _split(model)
    parameters: dict[str, Any] = litellm().utils.get_optional_params(
        model=name, custom_llm_provider=provider, drop_params=True, **settings
    )
    return parameters


@cache
def sampling_of(model: str) -> frozenset[str]:
    """Which of temperature and seed reach a model, by litellm's tables; both where litellm does not know.

    >>> sorted(sampling_of("openai/gpt-4o-mini")), sorted(sampling_of("openai/gpt-5"))
    (['seed', 'temperature'], ['seed'])
    """
    settings = {"temperature": 0.0, "seed": 0}
    try:
        parameters = _parameters(model, settings)
    except Exception:
        return frozenset(settings)
    # Some providers call it random_seed, or have it one level down.
    text = json.dumps(parameters, default=str)
    return frozenset(name for name in settings if name in text)


def check(models: Iterable[ModelRef], limits: CallLimits, noun: str, *, needs_key: bool = True) -> None:
    """Check what can be known before the first call. Nothing is sent, and an estimate needs no key.

    Raises:
        UserError: litellm does not know the provider, or lacks a module for it; the key is not set; or the cost is to
            be limited and the price is not known.
    """
    for model in models:
        listed = abilities(model.model, noun)
        # A package that litellm imports for this provider alone
        module, package = _NEEDED.get(listed.provider, ("", ""))
        if listed.by_responses:
            module, package = "mcp", "'answerkey[responses]'"
        try:
            is_missing = bool(module) and find_spec(module) is None
        except ModuleNotFoundError:
            is_missing = True
        if is_missing:
            raise UserError(f"{noun} {model.label}: litellm needs another package to call it: pip install {package}")

        # A key, and a price where the cost is limited
        if needs_key and (variables := missing_key(model)):
            raise UserError(
                f"{noun} {model.label}: no key; set {variables} or ANSWERKEY_{noun.upper()}_KEY, or name the address "
                "of a server"
            )
        is_limited = limits.max_cost_usd is not None or limits.max_cost_total_usd is not None
        if is_limited and prices_of(model) is None:
            raise UserError(
                f"{noun} {model.label}: its price is not known, so its cost cannot be limited; name the price (price), "
                "or limit the calls instead (max_calls)"
            )


def missing_key(model: ModelRef) -> str | None:
    """The environment variable that the provider needs and that is not set; None if the model can be asked."""
    if model.api_key or model.api_base:
        return None
    environment = litellm().validate_environment(model.model)
    return None if environment["keys_in_environment"] else " or ".join(environment["missing_keys"])


def count_tokens(model: ModelRef, text: str) -> int:
    """How many tokens a text is, by the tokenizer that litellm has for the model, or a general one."""
    return len(litellm().encode(model=model.model, text=text))
