"""OpenTelemetry spans of calls to models, switched on with `ANSWERKEY_OTEL=1`.

The attributes are those of the semantic conventions for generative AI (`gen_ai.*`). No text of a question or a reply is
in a span. Where spans go is for the OpenTelemetry SDK of the process to say; without one they go nowhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.transport import CallError, Reply

_SWITCH = "ANSWERKEY_OTEL"
_SENT = ("temperature", "seed", "max_tokens")


class Span:
    """The span of one call; of none where nobody asked for spans."""

    def __init__(self, span: Any = None) -> None:
        self._span = span

    def replied(self, reply: Reply) -> None:
        """Note what came back."""
        self._set("gen_ai.response.model", reply.model or None)
        self._set("gen_ai.response.finish_reasons", [reply.finish_reason])
        self._set("gen_ai.usage.input_tokens", reply.tokens_in)
        self._set("gen_ai.usage.output_tokens", reply.tokens_out)

    def failed(self, error: CallError) -> None:
        """Note why nothing came back."""
        self._set("error.type", error.code)
        if self._span is not None:
            # Without a description: what a server says of an error may quote what it was sent.
            self._span.set_status(_trace().StatusCode.ERROR)

    def _set(self, name: str, value: object) -> None:
        if self._span is not None and value is not None:
            self._span.set_attribute(name, value)


@contextmanager
def span_of(model: ModelRef, settings: Mapping[str, Any]) -> Iterator[Span]:
    """The span of a call that is made within."""
    if os.environ.get(_SWITCH, "").lower() not in ("1", "true", "yes"):
        yield Span()
        return
    trace = _trace()
    name = model.model.partition("/")[2]
    place = urlsplit(model.api_base)
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": model.provider,
        "gen_ai.request.model": name,
        "server.address": place.hostname,
        "server.port": place.port,
        **{f"gen_ai.request.{one}": settings.get(one) for one in _SENT},
    }
    given = {key: value for key, value in attributes.items() if value is not None}
    tracer = trace.get_tracer("answerkey")
    # An exception would bring its message and those of its causes into the span, with texts and keys.
    with tracer.start_as_current_span(
        f"chat {name}",
        kind=trace.SpanKind.CLIENT,
        attributes=given,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        yield Span(span)


@cache
def _trace() -> Any:
    from opentelemetry import trace

    return trace
