"""How the judge server speaks HTTP/1.1: one connection, and the bytes of its answers."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

from tests.judge_brains import Body, message_text


@dataclass(slots=True)
class Received:
    """One request: its body, headers (names in lower case), arrival on time.monotonic, and what was done with it.

    `fault` is the kind of fault it met, None for a good reply. `answered` says that all of the answer, good or bad,
    was handed to the network: False while it waits, and for ever where the client left or nothing was sent.
    """

    body: Body
    headers: dict[str, str]
    at: float
    fault: str | None
    body_hash: str
    answered: bool = False


def http(status, payload, headers="", kind="application/json"):
    head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: {kind}\r\ncontent-length: {len(payload)}"
    return f"{head}\r\n{headers}\r\n".encode("latin-1") + payload


def error_body(status, message, kind, code, headers=""):
    error = {"message": message, "type": kind, "param": None, "code": code}
    return http(status, json.dumps({"error": error}).encode(), headers)


def completion(number, body, reply):
    asked, said = reply.prompt_tokens, reply.completion_tokens
    asked = sum(len(message_text(m)) for m in body["messages"]) // 4 if asked is None else asked
    said = len(reply.text or "") // 4 if said is None else said
    message = {"role": "assistant", "content": reply.text}
    usage = {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}
    counted = reply.usage == "counted"
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": reply.model or body.get("model"),
        "system_fingerprint": "fp_judge_server",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reply.finish_reason}],
        **({} if reply.usage is None else {"usage": usage if counted else reply.usage}),
    }


def refused_format(asked, refused, status):
    """The reply of a server that validates requests with pydantic: 422 as in FastAPI, otherwise as text."""
    known = " or ".join(f"'{name}'" for name in ("text", "json_object") if name not in refused)
    detail = {
        "type": "literal_error",
        "loc": ["body", "response_format", "type"],
        "msg": f"Input should be {known}",
        "input": asked,
        "ctx": {"expected": known},
    }
    if status == HTTPStatus.UNPROCESSABLE_ENTITY:
        return http(status, json.dumps({"detail": [detail]}).encode())
    return error_body(status, str([detail]), "internal_server_error", None)


@dataclass(frozen=True, slots=True)
class Answer:
    """Bytes to send `after` seconds, in small pieces over `spread` seconds. No bytes: the connection is closed."""

    payload: bytes
    after: float
    spread: float = 0.0


class Connection(asyncio.Protocol):
    """One client's connection: one request after the other, as HTTP/1.1 has it."""

    def __init__(self, server, loop):
        self.server, self.loop = server, loop
        self.buffer = bytearray()
        self.request = None
        self.timer = None

    def connection_made(self, transport):
        self.transport = transport
        self.server.connections.add(self)

    def connection_lost(self, exc):
        self.server.connections.discard(self)
        if self.timer:
            self.timer.cancel()
        self._done(answered=False)

    def data_received(self, data):
        self.buffer += data
        while self.request is None and self._take():
            pass

    def _take(self):
        """Start on the next request if all of it is here."""
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        first, *lines = self.buffer[:end].decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        size = end + 4 + int(headers.get("content-length", "0"))
        if len(self.buffer) < size:
            return False
        if "transfer-encoding" in headers:
            self.transport.write(error_body(411, "This server needs a Content-Length.", "invalid_request_error", None))
            self.transport.close()
            return False
        raw = bytes(self.buffer[end + 4 : size])
        del self.buffer[:size]
        method, path, _ = first.split(" ")
        if method == "GET" and path.endswith(("/stats", "/release")):
            if path.endswith("/release"):
                self.server.release()
            self.transport.write(http(200, json.dumps(self.server.stats()).encode()))
        elif method == "POST" and path.endswith("/chat/completions"):
            self.request, answer = self.server.receive(raw, headers)
            if answer:
                self.server.begin(self.request, partial(self._answer, self.request, answer))
        else:
            self.transport.write(error_body(404, f"Nothing answers {method} {path}.", "invalid_request_error", None))
        return True

    def _answer(self, request, answer):
        if self.request is request:  # its client may be gone
            self.timer = self.loop.call_later(answer.after, self._send, answer)

    def _send(self, answer):
        if not answer.payload:
            self.transport.close()
        elif answer.spread:
            self._trickle(answer)
        else:
            self._finish(answer.payload)

    def _trickle(self, answer):
        """Send the head, then the rest in 100 pieces: none is late for a client that limits the wait for the next."""
        head, gap, rest = answer.payload.partition(b"\r\n\r\n")
        self.transport.write(head + gap)
        size = -(-len(rest) // 100)
        pieces = [rest[start : start + size] for start in range(0, len(rest), size)]
        self._next_piece(pieces[::-1], answer.spread / len(pieces))

    def _next_piece(self, pieces, pause):
        piece = pieces.pop()
        if pieces:
            self.transport.write(piece)
            self.timer = self.loop.call_later(pause, self._next_piece, pieces, pause)
        else:
            self._finish(piece)

    def _finish(self, payload):
        # Noted first: whoever has the answer may look at the notes at once.
        self._done(answered=True)
        self.transport.write(payload)
        self.data_received(b"")  # the next request may be here already

    def _done(self, *, answered):
        if self.request:
            self.server.left(self.request, answered=answered)
            self.request = None
