"""The page on which people label answers, over HTTP on this machine.

The page itself holds no data. What it shows and what it keeps goes through one address, for which a request needs the
token of the session, this server's name, and this server's origin, as browsers send it. Nothing but labels of one
queue can be changed through it.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from answerkey.flows.pages import HEADERS, LOOPBACK, is_loopback
from answerkey.metrics_core.errors import UserError
from answerkey.tasks.gate.labelling import LabellingSession
from answerkey.tasks.publish.page.label import label_page

TOKEN = "X-Answerkey-Token"
_LARGEST = 10_000
"""Bytes of a request: the keys and verdicts of a question."""


class _Labelling(BaseHTTPRequestHandler):
    """The page, and the address that it talks to."""

    server_version = "answerkey"
    sys_version = ""

    def __init__(self, session: LabellingSession, token: str, *given: Any) -> None:
        self._session, self._token = session, token
        super().__init__(*given)

    def handle(self) -> None:
        """Answer what is asked; a browser may break off."""
        with suppress(ConnectionError):
            super().handle()

    def do_GET(self) -> None:
        """Send the page."""
        if not is_loopback(self.headers.get("Host", "")):
            self._send(HTTPStatus.MISDIRECTED_REQUEST, {"error": "this server answers to localhost and 127.0.0.1 only"})
        elif self.path == "/":
            self._send(HTTPStatus.OK, label_page(), "text/html; charset=utf-8")
        else:
            self._send(HTTPStatus.NOT_FOUND, {"error": "there is no such page"})

    def do_POST(self) -> None:
        """Do what the page asks for, and send what it shows next."""
        host = self.headers.get("Host", "")
        if not is_loopback(host):
            self._send(HTTPStatus.MISDIRECTED_REQUEST, {"error": "this server answers to localhost and 127.0.0.1 only"})
        elif self.headers.get("Origin") != f"http://{host}":
            self._send(HTTPStatus.FORBIDDEN, {"error": "another page may not ask for this"})
        elif not secrets.compare_digest(self.headers.get(TOKEN, "").encode(), self._token.encode()):
            self._send(
                HTTPStatus.FORBIDDEN, {"error": "open the address that `answerkey label` printed: it has a token"}
            )
        else:
            try:
                self._send(HTTPStatus.OK, self._done(self._request()))
            except (UserError, ValueError) as error:
                self._send(HTTPStatus.BAD_REQUEST, {"error": str(error)})

    def _request(self) -> Mapping[str, Any]:
        size = int(self.headers.get("Content-Length", 0))
        if not 0 < size <= _LARGEST:
            raise UserError(f"a request has at most {_LARGEST:,} bytes")
        request = json.loads(self.rfile.read(size))
        if not isinstance(request, Mapping):
            raise UserError("a request is a JSON object")
        return request

    def _done(self, request: Mapping[str, Any]) -> dict[str, Any]:
        annotator, place = str(request.get("annotator", "")).strip(), int(request.get("place", 0))
        match request.get("action"):
            case "label":
                self._session.label(annotator, place, {str(k): str(v) for k, v in dict(request["verdicts"]).items()})
            case "undo":
                self._session.undo(annotator)
            case "skip":
                self._session.skip(annotator, place)
            case "go on":
                self._session.go_on()
        return self._session.state(annotator)

    def _send(self, status: HTTPStatus, content: str | Mapping[str, Any], kind: str = "application/json") -> None:
        body = (content if isinstance(content, str) else json.dumps(content)).encode("utf-8", "replace")
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: who labels when is in the table, and nowhere else."""


def labelling_server(session: LabellingSession, token: str, port: int) -> ThreadingHTTPServer:
    """A server of the page of a session that listens; `serve_forever` answers.

    Raises:
        UserError: the port is not available.
    """
    try:
        return ThreadingHTTPServer((LOOPBACK, port), partial(_Labelling, session, token))
    except (OSError, OverflowError) as error:
        raise UserError(f"--port {port}: not available ({error}); choose another one") from error
