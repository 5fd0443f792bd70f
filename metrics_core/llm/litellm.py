"""One call through litellm, which is kept quiet, with errors classified by what to do next. Nothing is retried here."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.access import CallLimits
from answerkey.metrics_core.llm.model import ModelRef, provider_address
from answerkey.metrics_core.llm.request import Message
from answerkey.metrics_core.llm.transport import (
    NO_CONNECTION,
    CallError,
    Reply,
    reply_of,
    seconds_to_wait,
    secrets_of,
    without_secrets,
)

if TYPE_CHECKING:
    import httpx

    from answerkey.metrics_core.llm.http import Answer

_TRANSIENT = frozenset((408, 409, 425, 500, 502, 503, 504, 520, 522, 524, 529))
_FATAL = frozenset((401, 402, 403, 404))
_FORMAT_WORDS = re.compile(r"response_format|json_schema|json_object|structured.output", re.IGNORECASE)
_BROKEN = frozenset(("ConnectError", "ReadError", "WriteError", "CloseError", "RemoteProtocolError"))
"""As httpx names them, whose classes are not imported for this."""
_NOT_CONNECTED = frozenset(("ConnectError", "ConnectTimeout"))
_DROPPABLE = ("temperature", "seed", "logprobs")

KEYLESS = "no-key-needed"
NO_CHOICES = CallError("trouble", "no_choices", "the server's answer has no choices")

_HELLO: Sequence[Message] = ({"role": "user", "content": "Hello"},)
_REHEARSAL_S = 60.0


def litellm() -> Any:
    """The module, imported when it is first needed (seconds), with its logging, downloads and retries off.

    Call this wherever it is used: what it reports of its calls is switched off for the calling context.
    """
    module, reporting = _quiet()
    if reporting is not None:
        reporting.set(True)
    return module


@cache
def _quiet() -> tuple[Any, ContextVar[bool] | None]:
    # Otherwise the import asks the network for prices.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    # And the first call to Anthropic asks it for names of headers.
    os.environ.setdefault("LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "True")
    import litellm as module

    # Otherwise it logs two lines per call wherever more than warnings are shown.
    for name in ("LiteLLM", "httpx", "openai"):
        logging.getLogger(name).setLevel(logging.WARNING)
    module.telemetry = False
    module.suppress_debug_info = True
    # Where a call's `max_retries=0` is taken for "not given", this is what counts.
    module.DEFAULT_MAX_RETRIES = 0  # type: ignore[attr-defined]
    from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler

    from answerkey.metrics_core.llm.http import Carrier

    setattr(AsyncHTTPHandler, "create_async_transport", staticmethod(lambda **_: Carrier()))  # noqa: B010
    # Every full collection would walk litellm's price tables, which takes a quarter of the time of a call.
    gc.collect()
    gc.freeze()
    try:
        # After each call litellm draws up a report for loggers, although none is set up here, in a task that can
        # outlive its loop. This is its switch for calls that are not reported; other versions may not have it.
        from litellm._internal_context import is_internal_call
    except ImportError:
        return module, None
    return module, is_internal_call


def retry_after(error: Exception) -> float | None:
    """Seconds that a server asks to wait, in the error that litellm made of its answer; None where it does not.

    >>> retry_after(ValueError("no headers")) is None
    True
    """
    # litellm keeps the server's headers here, and gives `error.response` empty ones.
    return seconds_to_wait(getattr(error, "litellm_response_headers", None) or {})


class LiteLLM:
    """The `Transport` that litellm is, for every provider that it knows."""

    async def prepare(self, model: ModelRef) -> None:
        """See `Transport`."""
        # litellm imports some of what it needs with its first call. In a thread, so that other calls go on meanwhile.
        await asyncio.to_thread(asyncio.run, self.rehearse(model, _HELLO, {"max_tokens": 1}))

    async def send(
        self, model: ModelRef, messages: Sequence[Message], settings: Mapping[str, Any], timeout_s: float
    ) -> Reply:
        """See `Transport`."""
        try:
            # litellm's timeout ends a silent server; ours also one that sends a byte now and then.
            async with asyncio.timeout(timeout_s):
                response = await _complete(model, messages, settings, timeout_s)
        except TimeoutError as error:
            raise CallError("trouble", "timeout", f"no reply within {timeout_s:g} s") from error
        except Exception as error:
            raise sorted_error(error, model, timeout_s) from error
        return _reply(response, model)

    async def rehearse(
        self, model: ModelRef, messages: Sequence[Message], settings: Mapping[str, Any]
    ) -> list[httpx.Request]:
        """The requests that `send` would make, usually one. Nothing is sent."""
        from answerkey.metrics_core.llm.http import rehearsed

        with rehearsed() as requests, suppress(Exception):
            await _complete(model, messages, settings, _REHEARSAL_S)
        return requests

    async def replay(
        self, answer: Answer, model: ModelRef, messages: Sequence[Message], settings: Mapping[str, Any]
    ) -> Reply:
        """What `send` would return, had its request had this answer. Nothing is sent."""
        from answerkey.metrics_core.llm.http import rehearsed

        with rehearsed(answer):
            return await self.send(model, messages, settings, _REHEARSAL_S)


async def _complete(model: ModelRef, messages: Sequence[Message], settings: Mapping[str, Any], timeout_s: float) -> Any:
    return await litellm().acompletion(
        model=model.model, messages=list(messages), timeout=timeout_s, num_retries=0, max_retries=0, drop_params=True,
        **_address(model), **settings,
    )  # fmt: skip


def _address(model: ModelRef) -> dict[str, str]:
    arguments = {"api_base": model.api_base} if model.api_base else {}
    if model.api_key:
        arguments["api_key"] = model.api_key
    elif model.api_base and not (model.api_base == provider_address(model.model) and _has_key(model.model)):
        # The provider's key in the environment is not meant for another address; and a server of the user's own often
        # needs no key, which the client libraries do not accept.
        arguments["api_key"] = KEYLESS
    return arguments


def _reply(response: Any, model: ModelRef) -> Reply:
    choice = response.choices[0] if getattr(response, "choices", None) else None
    if choice is None:
        raise NO_CHOICES
    usage, weights = getattr(response, "usage", None), getattr(choice, "logprobs", None)
    return reply_of(
        choice.message.model_dump(),
        choice.finish_reason,
        usage.model_dump() if usage else {},
        (response.model, getattr(response, "system_fingerprint", None)),
        secrets_of(model),
        weights.model_dump() if weights else None,
    )


class _Answered(Exception):
    """A server's error, as litellm takes it from client libraries."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str], body: object) -> None:
        super().__init__(message)
        self.status_code, self.message, self.headers, self.body = status, message, headers, body


def error_of(status: int, headers: Mapping[str, str], text: str, model: ModelRef, timeout_s: float) -> CallError:
    """What an answer with an error says, by litellm's own tables of errors."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = None
    message = f"Error code: {status} - {text if body is None else body}"
    detail = body.get("error", body) if isinstance(body, dict) else body
    name, provider = _split(model.model)
    try:
        litellm().exception_type(
            model=name, original_exception=_Answered(status, message, headers, detail), custom_llm_provider=provider
        )
    except Exception as error:
        if status == 422 and getattr(error, "status_code", None) == 400:
            setattr(error, "status_code", status)  # noqa: B010
        return sorted_error(error, model, timeout_s)
    return CallError("trouble", "client", without_secrets(message, model))


def sorted_error(error: Exception, model: ModelRef, timeout_s: float) -> CallError:
    """An error of a call, classified. No message has a key in it."""
    if (known := _known(error)) is not None:
        return CallError(known.kind, known.code, without_secrets(known.message, model))
    # litellm's errors carry a status, whatever class they are; a broken connection has 500 or none.
    status = getattr(error, "status_code", None)
    message = without_secrets(str(error), model)
    if status != 408 and _is_broken(error):
        return CallError("trouble", NO_CONNECTION if _never_began(error) else "disconnected", message)
    if isinstance(status, int):
        return _by_class(error, status, message) or _by_status(error, status, message, timeout_s)
    # What litellm does not expect in a server's answer surfaces as any error at all.
    return CallError("trouble", "client", f"{type(error).__name__}: {message}")


def _known(error: BaseException | None) -> CallError | None:
    """The error of our own somewhere down the chain of causes, if there is one."""
    while error is not None and not isinstance(error, CallError):
        error = error.__cause__ or error.__context__
    return error


def _is_broken(error: BaseException | None) -> bool:
    """Whether a connection ended, or never began, somewhere down the chain of causes."""
    while error is not None:
        if isinstance(error, OSError) or type(error).__name__ in _BROKEN:
            return True
        error = error.__cause__ or error.__context__
    return False


def _never_began(error: BaseException | None) -> bool:
    """Whether there was no connection, so that nothing was sent."""
    while error is not None:
        if isinstance(error, ConnectionRefusedError) or type(error).__name__ in _NOT_CONNECTED:
            return True
        error = error.__cause__ or error.__context__
    return False


def _by_class(error: Exception, status: int, message: str) -> CallError | None:
    """What litellm recognised and the status does not say."""
    if status == 429 and "insufficient_quota" in f"{message} {getattr(error, 'body', '')}":
        return CallError("fatal", "quota", message)
    codes = {"ContextWindowExceededError": "too_long", "ContentPolicyViolationError": "content_filter"}
    code = codes.get(type(error).__name__)
    return CallError("permanent", code, message) if code else None


def _by_status(error: Exception, status: int, message: str, timeout_s: float) -> CallError:
    code, wait = f"http_{status}", retry_after(error)
    if status == 408:
        return CallError("trouble", "timeout", f"no reply within {timeout_s:g} s")
    # Some servers say with a 503 what others say with a 429.
    if status == 429 or (status in _TRANSIENT and wait is not None):
        return CallError("limited", code, message, wait)
    if status in _TRANSIENT:
        return CallError("trouble", code, message)
    if status in (400, 422):
        parameter = next((name for name in _DROPPABLE if re.search(rf"\b(?:top_)?{name}\b", message)), None)
        return CallError("refused", code, message, None, parameter, bool(_FORMAT_WORDS.search(message)))
    return CallError("fatal" if status in _FATAL else "permanent", code, message)


@dataclass(frozen=True, slots=True)
class Abilities:
    """What litellm knows about a model. Prices are in dollars per token, None if unknown.

    `price`: of what is asked, and of what is replied. `cached_price`: of what is asked and was in the provider's cache.
    `batch_price`, `batch_cached_price`: the same in a batch; where the provider names none, it is as on its own.
    `parameters`: those of a call that it accepts; litellm leaves the others out.
    """

    price: tuple[float, float] | None
    parameters: frozenset[str]
    cached_price: float | None = None
    batch_price: tuple[float, float] | None = None
    batch_cached_price: float | None = None

    def prices(self, *, in_batch: bool) -> tuple[float, float, float] | None:
        """Of what is asked, of what is asked and was in the cache, and of what is replied; None: unknown."""
        price, cached = (self.batch_price, self.batch_cached_price) if in_batch else (self.price, self.cached_price)
        return None if price is None else (price[0], price[0] if cached is None else cached, price[1])

    @property
    def takes_format(self) -> bool:
        """Whether the format of a reply can be asked for."""
        return "response_format" in self.parameters


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
    known = library.get_supported_openai_params(model=name, custom_llm_provider=provider) or []
    listed = library.model_cost.get(model) or library.model_cost.get(name) or {}

    def dollars(name: str) -> float | None:
        found = listed.get(name)
        return None if found is None else float(found)

    def pair(kind: str = "") -> tuple[float, float] | None:
        asked, answered = dollars(f"input_cost_per_token{kind}"), dollars(f"output_cost_per_token{kind}")
        return None if asked is None or answered is None else (asked, answered)

    price, cached = pair(), dollars("cache_read_input_token_cost")
    return Abilities(
        price, frozenset(known), cached, pair("_batches") or price, dollars("cache_read_input_token_cost_batches")
    )


@cache
def _split(model: str) -> tuple[str, str]:
    name, provider, _, _ = litellm().get_llm_provider(model)
    return name, provider


def provider_of(model: str) -> str:
    """The provider of a model, as litellm names it; empty where it knows none."""
    try:
        return _split(model)[1]
    except Exception:
        return ""


@cache
def sampling_of(model: str) -> frozenset[str]:
    """Which of temperature and seed reach a model, by litellm's tables; both where litellm does not know.

    >>> sorted(sampling_of("openai/gpt-4o-mini")), sorted(sampling_of("openai/gpt-5"))
    (['seed', 'temperature'], ['seed'])
    """
    settings = {"temperature": 0.0, "seed": 0}
    try:
        name, provider = _split(model)
        given = litellm().utils.get_optional_params(
            model=name, custom_llm_provider=provider, drop_params=True, **settings
        )
    except Exception:
        return frozenset(settings)
    # Some providers call it random_seed, or have it one level down.
    sent = json.dumps(given, default=str)
    return frozenset(one for one in settings if one in sent)


def check(models: Iterable[ModelRef], limits: CallLimits, noun: str) -> None:
    """Check what can be known before the first call. Nothing is sent.

    Raises:
        UserError: litellm does not know the provider, the key is not set, or the cost is to be limited and the price
            is not known.
    """
    for model in models:
        known = abilities(model.model, noun)
        if variables := missing_key(model):
            own = f"ANSWERKEY_{noun.upper()}_KEY"
            raise UserError(f"{noun} {model.label}: no key; set {variables} or {own}, or name the address of a server")
        if known.price is None and not (limits.max_cost_usd is None and limits.max_cost_total_usd is None):
            raise UserError(
                f"{noun} {model.label}: its price is not known, so its cost cannot be limited; limit the calls instead "
                "(max_calls)"
            )


def missing_key(model: ModelRef) -> str | None:
    """The environment variable that the provider needs and that is not set; None if the model can be asked."""
    if model.api_key or model.api_base or _has_key(model.model):
        return None
    return " or ".join(litellm().validate_environment(model.model)["missing_keys"])


def count_tokens(model: ModelRef, text: str) -> int:
    """How many tokens a text is, by the tokenizer that litellm has for the model, or a general one."""
    return len(litellm().encode(model=model.model, text=text))


def _has_key(model: str) -> bool:
    return bool(litellm().validate_environment(model)["keys_in_environment"])
