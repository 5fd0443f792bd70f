"""The batch endpoints of providers: files and batches as OpenAI has them, message batches as Anthropic has them.

How a line looks and how its reply is read is up to the transport: both are as in a call of its own. Here is no retry,
and no ledger.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from answerkey.metrics_core.llm.batch import NO_LINE, BatchService, BatchState, Line
from answerkey.metrics_core.llm.http import Answer, exchange
from answerkey.metrics_core.llm.litellm import error_of, provider_of
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.request import Message
from answerkey.metrics_core.llm.transport import CallError, Reply, without_secrets
from answerkey.metrics_core.llm.untrusted import one_line, quoted

BATCHING = frozenset(("openai", "hosted_vllm", "lm_studio", "llamafile", "anthropic"))
"""The providers, as litellm names them, whose batch endpoints are known here."""

_MOST_RESULTS = 512 * 2**20
_QUICK_S, _LONG_S = 60.0, 900.0
"""For one look, and for what carries all lines."""
_EARLY_S, _LATE_S = 300.0, 3_600.0
"""How far the clocks of two machines may differ, and how long it may take to send a batch."""
_PAGE = 100

_OPENAI_PATH, _ANTHROPIC_PATH = "/chat/completions", "/v1/messages"
_STATUS_OF_ERROR = {
    "invalid_request_error": 400, "authentication_error": 401, "billing_error": 402, "permission_error": 403,
    "not_found_error": 404, "request_too_large": 413, "rate_limit_error": 429, "timeout_error": 504,
    "overloaded_error": 529,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Written:
    """A request as a transport would send it."""

    url: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]


class LineTransport(Protocol):
    """What a transport does for lines of a batch."""

    async def written(self, model: ModelRef, messages: Sequence[Message], settings: Mapping[str, Any]) -> Written:
        """The request that `send` would make. Nothing is sent.

        Raises:
            CallError: it cannot be made.
        """

    async def read(
        self, answer: Answer, model: ModelRef, messages: Sequence[Message], settings: Mapping[str, Any]
    ) -> Reply:
        """What `send` would return, had its request had this answer.

        Raises:
            CallError: as `send`.
        """


async def service_of(model: ModelRef, transport: LineTransport) -> BatchService:
    """The batch service of a model.

    Raises:
        CallError: there is none.
    """
    asked = await transport.written(model, [{"role": "user", "content": "Hello"}], {"max_tokens": 1})
    address, _, query = asked.url.partition("?")
    if not query and provider_of(model.model) == "anthropic" and address.endswith(_ANTHROPIC_PATH):
        return AnthropicBatches(model, transport, address, asked.headers)
    if not query and provider_of(model.model) in BATCHING and address.endswith(_OPENAI_PATH):
        return OpenAIBatches(model, transport, address.removesuffix(_OPENAI_PATH), asked.headers)
    raise CallError("fatal", "no_batches", f"{model.label} has no batch endpoint that is known")


class _Service:
    """What the services share: requests, and the names of lines, which say to which batch they belong."""

    def __init__(self, model: ModelRef, transport: LineTransport, address: str, headers: Mapping[str, str]) -> None:
        self._model, self._transport, self._address = model, transport, address
        own = ("content-type", "content-length", "accept-encoding", "host")
        self._headers = {name: value for name, value in headers.items() if name.lower() not in own}

    async def reply(self, line: Line, answer: Answer) -> Reply:
        """See `BatchService`."""
        return await self._transport.read(answer, self._model, line.messages, line.settings)

    async def _asked(self, method: str, url: str, body: bytes = b"", kind: str = "", seconds: float = _QUICK_S) -> str:
        headers = {**self._headers, "content-type": kind} if kind else self._headers
        try:
            async with asyncio.timeout(seconds):
                answer = await exchange(method, url, headers, body, most_bytes=_MOST_RESULTS)
        except TimeoutError as error:
            raise CallError("trouble", "timeout", f"no answer within {seconds:g} s") from error
        text = answer.body.decode("utf-8", "replace")
        if not 200 <= answer.status < 300:
            raise error_of(answer.status, answer.headers, text, self._model, seconds)
        return text

    async def _object(self, method: str, url: str, body: bytes = b"", kind: str = "") -> dict[str, Any]:
        text = await self._asked(method, url, body, kind, _LONG_S if body else _QUICK_S)
        found = _parsed(text)
        if not isinstance(found, dict):
            said = quoted(without_secrets(text, self._model))
            raise CallError("trouble", "http_500", f"the server's answer is no JSON object: {said}")
        return found

    async def _lines(self, url: str) -> list[dict[str, Any]]:
        """The rows at an address; one that cannot be read is empty."""
        text = await self._asked("GET", url, seconds=_LONG_S)
        rows = [_parsed(line) for line in text.split("\n") if line.strip()]
        if rows and all(row is None for row in rows):
            raise CallError("trouble", "http_500", "the results of the batch are no JSON lines")
        return [_mapping(row) for row in rows]

    async def _newest(self, cursor: str, since: float) -> AsyncIterator[dict[str, Any]]:
        """The batches at the provider, the newest first, page by page until a page ends before `since`.

        Args:
            cursor: the parameter that asks for those after one.
            since: seconds since 1970.
        """
        after = ""
        while True:
            page = await self._object("GET", f"{self._address}/batches?limit={_PAGE}{after}")
            found = _objects(page.get("data"))
            for one in found:
                yield one
            if not found or not page.get("has_more") or _created(found[-1]) < since:
                return
            before, after = after, f"&{cursor}={_id_of(found[-1])}"
            if after == before:
                return


class OpenAIBatches(_Service):
    """Files and batches: a file of requests is uploaded, a batch made of it, and its results are files again."""

    async def send(self, batch: str, lines: Sequence[Line]) -> str:
        """See `BatchService`."""
        rows = []
        for line in lines:
            written = await self._transport.written(self._model, line.messages, line.settings)
            row = {"custom_id": _name(batch, line), "method": "POST", "url": "/v1/chat/completions"}
            rows.append(json.dumps({**row, "body": written.body}).encode())
        body, kind = _form_data(batch, b"\n".join(rows) + b"\n")
        file = await self._object("POST", f"{self._address}/files", body, kind)
        asked = {
            "input_file_id": file.get("id"), "endpoint": "/v1/chat/completions", "completion_window": "24h",
            "metadata": {"answerkey": batch},
        }  # fmt: skip
        made = await self._object("POST", f"{self._address}/batches", json.dumps(asked).encode(), "application/json")
        return _id_of(made)

    async def find(self, batch: str, sent_at: float) -> tuple[str, bool]:
        """See `BatchService`."""
        async for one in self._newest("after", sent_at - _EARLY_S):
            if _mapping(one.get("metadata")).get("answerkey") == batch:
                return _id_of(one), True
        return "", True

    async def look(self, provider_id: str) -> BatchState:
        """See `BatchService`."""
        found = await self._object("GET", f"{self._address}/batches/{provider_id}")
        said, counts = str(found.get("status")), _mapping(found.get("request_counts"))
        errors = _objects(_mapping(found.get("errors")).get("data")) or [{}]
        problem = one_line(str(errors[0].get("message") or "it was refused")) if said == "failed" else ""
        files = [found[name] for name in ("output_file_id", "error_file_id") if found.get(name)]
        return BatchState(
            said,
            said in ("completed", "failed", "expired", "cancelled"),
            int(_number(counts.get("completed")) + _number(counts.get("failed"))),
            without_secrets(problem, self._model),
            tuple(f"{self._address}/files/{file}/content" for file in files),
        )

    async def results(self, state: BatchState, batch: str) -> dict[str, Answer]:
        """See `BatchService`."""
        answers = {}
        for url in state.results:
            for row in await self._lines(url):
                response = row.get("response")
                if not _is_of(batch, row):
                    answers[NO_LINE] = _answer(0, None)
                # One that was not worked on in time, or was cancelled, has an error and no response.
                elif response is not None:
                    found = _mapping(response)
                    answers[_call_id(batch, row)] = _answer(found.get("status_code"), found.get("body"))
        return answers


class AnthropicBatches(_Service):
    """Message batches: one request makes the batch, and its results are at an address."""

    async def send(self, batch: str, lines: Sequence[Line]) -> str:
        """See `BatchService`."""
        requests = []
        for line in lines:
            written = await self._transport.written(self._model, line.messages, line.settings)
            params = {name: value for name, value in written.body.items() if name != "stream"}
            requests.append({"custom_id": _name(batch, line), "params": params})
        body = json.dumps({"requests": requests}).encode()
        return _id_of(await self._object("POST", f"{self._address}/batches", body, "application/json"))

    async def find(self, batch: str, sent_at: float) -> tuple[str, bool]:
        """See `BatchService`. A batch has no name here before it has results: until then, none is certain."""
        certain = True
        async for one in self._newest("after_id", sent_at - _EARLY_S):
            if not sent_at - _EARLY_S <= _created(one) <= sent_at + _LATE_S:
                continue
            if one.get("processing_status") != "ended":
                certain = False
            elif any(_is_of(batch, row) for row in await self._lines(self._results(_id_of(one)))):
                return _id_of(one), True
        return "", certain

    def _results(self, provider_id: str) -> str:
        # Not the address that the answer names: it may be another server's, and would get the key.
        return f"{self._address}/batches/{provider_id}/results"

    async def look(self, provider_id: str) -> BatchState:
        """See `BatchService`."""
        found = await self._object("GET", f"{self._address}/batches/{provider_id}")
        said, counts = str(found.get("processing_status")), _mapping(found.get("request_counts"))
        done = int(sum(_number(number) for name, number in counts.items() if name != "processing"))
        return BatchState(said, said == "ended", done, results=(self._results(provider_id),))

    async def results(self, state: BatchState, batch: str) -> dict[str, Answer]:
        """See `BatchService`."""
        answers = {}
        for url in state.results:
            for row in await self._lines(url):
                result = _mapping(row.get("result"))
                if not _is_of(batch, row):
                    answers[NO_LINE] = _answer(0, None)
                elif result.get("type") == "succeeded":
                    answers[_call_id(batch, row)] = _answer(200, result.get("message"))
                elif result.get("type") not in ("expired", "canceled"):
                    error = _mapping(result.get("error"))
                    kind = (_mapping(error.get("error")) or error).get("type")
                    answers[_call_id(batch, row)] = _answer(_STATUS_OF_ERROR.get(str(kind), 500), error)
        return answers


def _name(batch: str, line: Line) -> str:
    return f"{batch}-{line.call_id}"


def _is_of(batch: str, row: Mapping[str, Any]) -> bool:
    return str(row.get("custom_id")).startswith(f"{batch}-")


def _call_id(batch: str, row: Mapping[str, Any]) -> str:
    return str(row.get("custom_id")).removeprefix(f"{batch}-")


def _id_of(found: Mapping[str, Any]) -> str:
    name = found.get("id")
    if not isinstance(name, str) or not name:
        raise CallError("trouble", "http_500", "the server's answer names no id")
    return name


def _answer(status: object, body: object) -> Answer:
    """An answer with this status; with 500, where it is none."""
    known = int(status) if isinstance(status, int | str) and re.fullmatch("[1-5][0-9][0-9]", str(status)) else 500
    return Answer(known, {"content-type": "application/json"}, json.dumps(body).encode())


def _created(found: Mapping[str, Any]) -> float:
    """When a batch was made, in seconds since 1970: given as a number, or as ISO 8601; 0 where it is neither."""
    when = found.get("created_at")
    if not isinstance(when, str):
        return _number(when)
    try:
        return datetime.fromisoformat(when).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _parsed(text: str) -> object:
    """The JSON value that a text is; None where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _number(value: object) -> float:
    return value if isinstance(value, int | float) and math.isfinite(value) else 0.0


def _form_data(batch: str, lines: bytes) -> tuple[bytes, str]:
    """The upload of a file for a batch: its body, and the content type."""
    boundary = f"answerkey-{batch}"
    head = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--{boundary}\r\n'
        f'Content-Disposition: form-data; name="file"; filename="{boundary}.jsonl"\r\n'
        "Content-Type: application/jsonl\r\n\r\n"
    )
    return head.encode() + lines + f"\r\n--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"
