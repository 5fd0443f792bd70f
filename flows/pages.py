"""The pages of a home over HTTP, and the page on which people label answers.

Of a home: the overview, every report, and the Data Docs. Nothing can be changed through them.

The page for labels itself holds no data. What it shows and what it keeps goes through one address, for which a request
needs the token of the session, this server's name, and this server's origin, as browsers send it. Nothing but labels of
one queue can be changed through it.

`python -m answerkey.flows.pages HOME --port 4201` serves them until it is ended. A browser opens no file from a page of
Prefect's, and none from a bucket.
"""

from __future__ import annotations

import argparse
import base64
import json
import mimetypes
import os
import re
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

from pydantic import BaseModel

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.untrusted import one_line
from answerkey.tasks.publish.page.html import label_page
from answerkey.tasks.publish.site import INDEX, Site
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.store import Unreachable

if TYPE_CHECKING:
    from answerkey.tasks.gate.labelling import LabellingSession

TOKEN = "X-Answerkey-Token"
"""The header of a request with labels that has the token of the session."""
_MAX_REQUEST_BYTES = 10_000
"""The keys and verdicts of a question."""
LOOPBACK = "127.0.0.1"
LOGIN = "PREFECT_SERVER_API_AUTH_STRING"
"""The environment variable with the NAME:PASSWORD that Prefect's server asks for, and so do the pages."""
_LOOPBACK_HOST = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?", re.IGNORECASE)
HEADERS = {
    # Pages bring a stricter policy of their own; the Data Docs need their styles and scripts, as far as they are here.
    "Content-Security-Policy": "default-src 'self' data: blob: 'unsafe-inline'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'; object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def is_loopback(host: str) -> bool:
    """Whether a request names this machine: a page of another server whose name turns into this address does not.

    >>> is_loopback("localhost:4210"), is_loopback("example.com:4210")
    (True, False)
    """
    return _LOOPBACK_HOST.fullmatch(host) is not None


class LocalPages(BaseHTTPRequestHandler):
    """Answers requests for this machine, with the headers of all pages; nothing is logged."""

    server_version = "answerkey"
    sys_version = ""
    anywhere = False
    """Whether the server also answers under other names."""

    def handle(self) -> None:
        """Answer requests. Browsers break off when somebody goes on to another page."""
        with suppress(ConnectionError):
            super().handle()

    def parse_request(self) -> bool:
        """Whether the request can be answered: not for another host, whose name turns into this address to read pages
        from a browser (DNS rebinding), nor without the login of Prefect's server, if it has one."""
        if not super().parse_request():
            return False
        login = base64.b64encode(os.environ.get(LOGIN, "").encode())
        credentials = self.headers.get("Authorization", "").removeprefix("Basic ").encode()
        if not (self.anywhere or is_loopback(self.headers.get("Host", ""))):
            self.send_text(HTTPStatus.MISDIRECTED_REQUEST, "this server only answers on localhost and 127.0.0.1")
        elif login and not secrets.compare_digest(credentials, login):
            self.send_text(HTTPStatus.UNAUTHORIZED, "give the name and the password of Prefect's server")
        else:
            return True
        return False

    def send_text(self, status: HTTPStatus, message: str) -> None:
        """Send one line."""
        self.send(status, "text/plain; charset=utf-8", f"{message}\n".encode())

    def send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        """Send content of this type."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if status == HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", 'Basic realm="answerkey"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: who looks at what, or labels when, is nobody's business."""


class _Pages(LocalPages):
    """Each page under its name."""

    def __init__(self, site: Site, anywhere: bool, *arguments: Any) -> None:
        self._site = site
        self.anywhere = anywhere
        super().__init__(*arguments)

    def do_GET(self) -> None:
        """Send a page."""
        path = self.path.partition("#")[0].partition("?")[0]
        name = unquote(path).lstrip("/") or INDEX
        try:
            content = self._site.read(name)
        except FileNotFoundError:
            self.send_text(HTTPStatus.NOT_FOUND, "there is no such page")
        except Unreachable as error:
            self.send_text(HTTPStatus.BAD_GATEWAY, str(error))
        except UserError as error:
            self.send_text(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        except OSError as error:
            self.send_text(HTTPStatus.SERVICE_UNAVAILABLE, f"the page cannot be read: {error.strerror or error}")
        else:
            kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
            self.send(HTTPStatus.OK, f"{kind}; charset=utf-8" if kind.startswith("text/") else kind, content)

    do_HEAD = do_GET


def page_server(home: Home, port: int, host: str = LOOPBACK) -> ThreadingHTTPServer:
    """A server of the pages of a home that listens; `serve_forever` answers.

    Raises:
        UserError: the port is not available.
    """
    is_local = host == "localhost" or ip_address(host).is_loopback
    return _listening(host, port, partial(_Pages, Site(home), not is_local))


class _Asked(BaseModel):
    """What the label page asks for: `place` is the number of the question on its screen, `verdicts` those on it."""

    action: Literal["state", "label", "undo", "skip", "go on"]
    annotator: str
    place: int
    verdicts: dict[str, str] = {}


class _Labelling(LocalPages):
    """The page, and the address that it talks to."""

    def __init__(self, session: LabellingSession, token: str, *arguments: Any) -> None:
        self._session = session
        self._token = token
        super().__init__(*arguments)

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
                state = json.dumps(self._next_state())
            except (UserError, ValueError) as error:
                self.send_text(HTTPStatus.BAD_REQUEST, str(error))
            else:
                self.send(HTTPStatus.OK, "application/json", state.encode())

    def _next_state(self) -> dict[str, Any]:
        size = int(self.headers.get("Content-Length", 0))
        if not 0 < size <= _MAX_REQUEST_BYTES:
            raise UserError(f"a request has at most {_MAX_REQUEST_BYTES:,} bytes")
        asked = _Asked.model_validate_json(self.rfile.read(size), strict=True)

        # What the annotator wants done, and what the page shows next
        annotator = one_line(asked.annotator)
        match asked.action:
            case "label":
                self._session.label(annotator, asked.place, asked.verdicts)
            case "undo":
                self._session.undo(annotator)
            case "skip":
                self._session.skip(annotator, asked.place)
            case "go on":
                self._session.go_on()
        return self._session.state(annotator)


def labelling_server(session: LabellingSession, token: str, port: int) -> ThreadingHTTPServer:
    """A server of the page of a session that listens; `serve_forever` answers.

    Raises:
        UserError: the port is not available.
    """
    return _listening(LOOPBACK, port, partial(_Labelling, session, token))


def _listening(host: str, port: int, handler: Callable[..., LocalPages]) -> ThreadingHTTPServer:
    try:
        return ThreadingHTTPServer((host, port), handler)
    except (OSError, OverflowError) as error:
        raise UserError(f"--port {port}: not available ({error}); choose another one") from error


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line of this module."""
    parser = argparse.ArgumentParser(description="Serve the pages of a home until the process ends.")
    parser.add_argument("home", help="a folder, or s3://BUCKET/PREFIX")
    parser.add_argument("--port", type=int, default=4201)
    parser.add_argument("--host", default=LOOPBACK, help="address to listen on")
    options = parser.parse_args(arguments)
    with page_server(Home.parse(options.home), options.port, options.host) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
