"""Prefect's server behind a check of who asks it: `python -m answerkey.flows.prefect_server --port 4200`.

Prefect's own server (3.8.8) answers under every name, and takes requests of every page that is open in a browser on
this machine: a page of somebody else could make an automation there, and so start runs. Here, a request names a host
that is the server's own, and comes from no page or from one of the server's. Prefect's protection against forged
requests (CSRF) is on too, by `environment.quiet`: alone, it lets WebSockets through, and gives a token to any host.

`serve` starts it; a team's server is started by its command line. It takes the settings of `prefect server start`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, MutableMapping, Sequence
from http import HTTPStatus
from typing import Any

from answerkey.flows.pages import LOOPBACK

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]
"""As ASGI has them."""

_THIS_MACHINE = ("localhost", LOOPBACK, "[::1]")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^][:/@]+)(?::[0-9]+)?")
_REFUSED = b"this server answers neither other hosts nor pages of other origins; see docs/prefect_server.md\n"


class OwnHostAndOrigin:
    """Passes on to `app` what names one of `hosts`, and comes from no page or from one of that host and port.

    A WebSocket is refused before it is open. A browser sends the origin of a page with all but what it only reads, and
    hides from the page what it reads of another origin.
    """

    def __init__(self, app: App, hosts: Collection[str]) -> None:
        self._app = app
        self._hosts = {host.lower() for host in hosts}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan" or self._is_for_me(scope["headers"]):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            # Before it is accepted, uvicorn makes this the status 403.
            await send({"type": "websocket.close", "code": 1008})
        else:
            headers = [(b"content-type", b"text/plain; charset=utf-8")]
            await send({"type": "http.response.start", "status": HTTPStatus.FORBIDDEN, "headers": headers})
            await send({"type": "http.response.body", "body": _REFUSED})

    def _is_for_me(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        texts = [(name.lower(), value.decode("latin-1").lower()) for name, value in headers]
        hosts = [value for name, value in texts if name == b"host"]
        origins = {value for name, value in texts if name == b"origin"}
        match = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if not match:
            return False
        # A proxy in front may speak TLS with the browser.
        pages = {f"{scheme}://{hosts[0]}" for scheme in ("http", "https")}
        return match[1] in self._hosts and origins <= pages


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line of this module."""
    parser = argparse.ArgumentParser(description="Start Prefect's server for its own hosts and pages alone.")
    parser.add_argument("--host", default=LOOPBACK, help="address to listen on")
    parser.add_argument("--port", type=int, default=4200)
    parser.add_argument(
        "--name",
        action="append",
        default=[],
        help="a host name by which browsers or workers call it, beside those of this machine; may be repeated",
    )
    parser.add_argument("--no-services", action="store_true", help="leave the background services to another process")
    options = parser.parse_args(arguments)

    import uvicorn
    from prefect.server.api import collections
    from prefect.server.api.server import create_app
    from prefect.settings import get_current_settings

    # Without an address, Prefect does not ask GitHub what kinds of workers there are: it has a list of its own.
    collections.KNOWN_VIEWS = dict.fromkeys(collections.KNOWN_VIEWS, "")
    settings = get_current_settings().server
    app = create_app(final=True, webserver_only=options.no_services)
    uvicorn.run(
        OwnHostAndOrigin(app, [*_THIS_MACHINE, options.host, *options.name]),
        host=options.host,
        port=options.port,
        timeout_keep_alive=settings.api.keepalive_timeout,
        ws_ping_interval=settings.api.websocket_ping_interval,
        ws_ping_timeout=settings.api.websocket_ping_timeout,
        log_level=settings.logging_level.lower(),
    )


if __name__ == "__main__":
    main()
