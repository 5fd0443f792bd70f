"""A server on loopback that answers every request with the bytes that a test gives, however wrong they are."""

import json
import socket
import threading

from tests.judge_http import http
from tests.kit.waiting import FAULT_S


def said(message=None, **changes):
    """The body of an answer; `changes` are for its top level, `finish_reason` for its choice."""
    choice = {"index": 0, "message": {"role": "assistant", "content": "yes"} | (message or {})}
    choice["finish_reason"] = changes.pop("finish_reason", "stop")
    usage = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
    base = {"id": "c", "object": "chat.completion", "created": 1, "model": "m-2026", "system_fingerprint": "fp"}
    return {**base, "choices": [choice], "usage": usage} | changes


def ok(body, headers=""):
    """The bytes of a 200 with this JSON."""
    return http(200, json.dumps(body).encode(), headers)


class RawServer:
    """Answers each request with the first bytes that are left, and with the last ones from then on.

    Each connection is closed after its answer, which says so: a client that learned it from the closing alone could
    send its next request on a connection that is about to close.

    Args:
        answers: bytes, or what makes them of a request.

    Attributes:
        requests: what came, head and body, as bytes.
    """

    def __init__(self, *answers):
        self.answers, self.requests = list(answers), list[bytes]()

    @property
    def url(self):
        """The base address for a client."""
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self):
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, name="raw-server", daemon=True).start()
        return self

    def __exit__(self, kind, error, trace):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                self._answer(connection)

    def _answer(self, connection):
        connection.settimeout(FAULT_S)
        came = b""
        try:
            while b"\r\n\r\n" not in came or len(came.partition(b"\r\n\r\n")[2]) < _size(came):
                piece = connection.recv(65_536)
                if not piece:
                    return
                came += piece
            self.requests.append(came)
            answer = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
            answer = answer if isinstance(answer, bytes) else answer(came)
            status, *rest = answer.split(b"\r\n", 1)
            connection.sendall(b"\r\n".join((status, b"connection: close", *rest)) if rest else answer)
        except OSError:
            # The client had enough.
            return


def _size(came):
    head = came.partition(b"\r\n\r\n")[0].lower()
    return int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or b"0")
