"""The page on which people label answers, over HTTP on this machine.

The page itself holds no data. What it shows and what it keeps goes through one address, for which a request needs the
token of the session, this server's name, and this server's origin, as browsers send it. Nothing but labels of one
queue can be changed through it.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from typing import Any

from answerkey.flows.pages import LOOPBACK, LocalPages
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.untrusted import one_line
from answerkey.tasks.gate.labelling import LabellingSession
from answerkey.tasks.publish.page.html import label_page

TOKEN = "X-Answerkey-Token"
_LARGEST = 10_000
"""Bytes of a request: the keys and verdicts of a question."""


class _Labelling(LocalPages):
    """The page, and the address that it talks to."""

    def __init__(self, session: LabellingSession, token: str, *given: Any) -> None:
        self._session, self._token = session, token
        super().__init__(*given)

    def do_GET(self) -> None:
        """Send the page."""
        if self.path == "/":
            self.send(HTTPStatus.OK, "text/html; charset=utf-8", label_page().encode())
        else:
            self.send_text(HTTPStatus.NOT_FOUND, "there is no such page")

    def do_POST(self) -> None:
        """Do what the page asks for, and send what it shows next."""
        if self.headers.get("Origin") != f"http://{self.headers.get('Host')}":
            self.send_text(HTTPStatus.FORBIDDEN, "requests from other pages are refused")
        elif not secrets.compare_digest(self.headers.get(TOKEN, "").encode(), self._token.encode()):
            self.send_text(HTTPStatus.FORBIDDEN, "open the address that `answerkey label` printed: it has a token")
        else:
            try:
                state = json.dumps(self._done())
            except (UserError, ValueError, RecursionError) as error:
                self.send_text(HTTPStatus.BAD_REQUEST, str(error))
            else:
                self.send(HTTPStatus.OK, "application/json", state.encode())

    def _done(self) -> dict[str, Any]:
        # Nothing of a request is believed before it was looked at
        size = int(self.headers.get("Content-Length", 0))
        if not 0 < size <= _LARGEST:
            raise UserError(f"a request has at most {_LARGEST:,} bytes")
        request = json.loads(self.rfile.read(size))
        if not isinstance(request, Mapping):
            raise UserError("a request must be a JSON object")
        action = request.get("action")
        annotator = request.get("annotator")
        position = request.get("place")
        verdicts = request.get("verdicts")
        if not isinstance(annotator, str) or type(position) is not int:
            raise UserError("a request has an annotator, a text, and a place, a whole number")
        if action == "label" and not isinstance(verdicts, Mapping):
            raise UserError("a request with labels has verdicts, an object")

        # What the annotator wants done, and what the page shows next
        annotator = one_line(annotator)
        match action:
            case "label":
                assert isinstance(verdicts, Mapping)
                self._session.label(annotator, position, {str(key): str(verdict) for key, verdict in verdicts.items()})
            case "undo":
                self._session.undo(annotator)
            case "skip":
                self._session.skip(annotator, position)
            case "go on":
                self._session.go_on()
            case "state":
                pass
            case _:
                raise UserError("there is no such action")
        return self._session.state(annotator)


def labelling_server(session: LabellingSession, token: str, port: int) -> ThreadingHTTPServer:
    """A server of the page of a session that listens; `serve_forever` answers.

    Raises:
        UserError: the port is not available.
    """
    try:
        return ThreadingHTTPServer((LOOPBACK, port), partial(_Labelling, session, token))
    except (OSError, OverflowError) as error:
        raise UserError(f"--port {port}: not available ({error}); choose another one") from error
