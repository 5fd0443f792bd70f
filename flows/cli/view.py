"""`answerkey view`: the whole home in a browser, served on this machine or as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from answerkey.flows.cli.options import HOME, HomeOption
from answerkey.metrics_core.errors import UserError
from answerkey.tasks.warehouse.home import Home


def view(
    *,
    port: Annotated[int, Parameter("--port", help="Port on this machine; 0 takes one that is free.")] = 4210,
    to: Annotated[
        Path | None,
        Parameter(
            "--to",
            metavar="FOLDER",
            help="Write all pages as files into this folder, for a web server or an object store, and serve nothing.",
        ),
    ] = None,
    home: HomeOption = HOME,
) -> int:
    """Show the pages of a home."""
    home = Home.parse(home.address)
    if not home.warehouse.exists():
        raise UserError(f"{home}: no warehouse here yet; run `answerkey evaluate` first, or give --home")
    if to:
        print(f"{_write(home, to)} files in {to}; open {to / 'index.html'}")
        return 0
    from answerkey.flows.cli.server import Stopped, stopping_on_signals
    from answerkey.flows.pages import page_server

    with page_server(home, port) as server:
        print(f"http://127.0.0.1:{server.server_port}  (home {home}, read-only; Ctrl-C stops it)", flush=True)
        try:
            with stopping_on_signals():
                server.serve_forever()
        except Stopped:
            print("stopped", flush=True)
    return 0


def _write(home: Home, folder: Path) -> int:
    """Write the site into a folder, each file whole or not at all. Returns how many files it has."""
    from answerkey.tasks.publish.site import Site
    from answerkey.tasks.warehouse.store import whole

    if folder.is_file():
        raise UserError(f"--to {folder}: this is a file; give a folder")
    if isinstance(home.place, Path) and home.place.resolve() in (folder.resolve(), *folder.resolve().parents):
        raise UserError(f"--to {folder}: this is in the home; give a folder outside of it")
    site, n = Site(home), 0
    for name in site.names():
        try:
            content = site.read(name)
        except FileNotFoundError:
            # Removed since its name was read.
            continue
        try:
            with whole(folder / name) as unfinished:
                unfinished.write_bytes(content)
        except OSError as error:
            raise UserError(f"--to {folder}: cannot be written: {error.strerror or error}") from error
        n += 1
    return n
