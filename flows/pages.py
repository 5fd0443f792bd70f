"""The pages of reports over HTTP, from the folder or the bucket where runs keep them.

`python -m answerkey.flows.pages HOME --port 4201` serves them until it is ended. A browser opens no file from a page of
Prefect's, and none from a bucket.
"""

from __future__ import annotations

import argparse
import html
import mimetypes
from collections.abc import Sequence
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from answerkey.tasks.publish.artifacts import FOLDER
from answerkey.tasks.validate.data_docs import SITE
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.store import Store, Unreachable


class _Pages(BaseHTTPRequestHandler):
    """Each page under its name in the store, and a list of all of them."""

    def __init__(self, store: Store, *given: Any) -> None:
        self._store = store
        super().__init__(*given)

    def do_GET(self) -> None:
        """Send a page, or the list."""
        name = unquote(urlsplit(self.path).path).lstrip("/")
        try:
            if not name:
                self._send(HTTPStatus.OK, "text/html; charset=utf-8", _listing(self._store).encode())
            elif ".." in name.split("/") or not self._store.exists(f"{FOLDER}/{name}"):
                self.send_error(HTTPStatus.NOT_FOUND)
            else:
                with self._store.read(f"{FOLDER}/{name}") as file:
                    content = file.read()
                kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
                self._send(HTTPStatus.OK, f"{kind}; charset=utf-8" if kind.startswith("text/") else kind, content)
        except Unreachable as error:
            self._send(HTTPStatus.BAD_GATEWAY, "text/plain; charset=utf-8", f"{error}\n".encode())

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _listing(store: Store) -> str:
    names = sorted(file.name.removeprefix(f"{FOLDER}/") for file in store.files(FOLDER))
    # What the Data Docs are made of is listed in their own index.
    docs = f"{SITE.removeprefix(f'{FOLDER}/')}/"
    names = [name for name in names if not name.startswith(docs) or name == f"{docs}index.html"]
    lines = "".join(f'<li><a href="/{quote(name)}">{html.escape(name)}</a></li>' for name in names)
    return f"<!doctype html><meta charset=utf-8><title>Pages</title><h1>Pages</h1><ul>{lines}</ul>"


def serve_pages(home: Home, port: int, host: str = "127.0.0.1") -> None:
    """Serve the pages of a home until the process ends."""
    with ThreadingHTTPServer((host, port), partial(_Pages, home.store)) as server:
        server.serve_forever()


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line of this module."""
    parser = argparse.ArgumentParser(description=serve_pages.__doc__)
    parser.add_argument("home", help="a folder, or s3://BUCKET/PREFIX")
    parser.add_argument("--port", type=int, default=4201)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    given = parser.parse_args(arguments)
    serve_pages(Home.parse(given.home), given.port, given.host)


if __name__ == "__main__":
    main()
