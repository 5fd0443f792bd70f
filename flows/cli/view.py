"""`answerkey view`: the whole home in a browser, served on this machine or as files."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from answerkey.flows.cli.options import HOME, HomeOption
from answerkey.metrics_core.errors import UserError
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.store import atomic_write

_LIST = ".answerkey-pages"
"""Names what `--to` has written into a folder. Nothing else in it is ever removed."""


def view(
    *,
    port: Annotated[int, Parameter("--port", help="Port on this machine; 0 takes one that is free.")] = 4210,
    to: Annotated[
        Path | None,
        Parameter(
            "--to",
            metavar="FOLDER",
            help="Write all pages as files into this folder, for a web server or an object store, instead of serving "
            "them. Pages of an earlier call that no longer exist are removed.",
        ),
    ] = None,
    home: HomeOption = HOME,
) -> int:
    """Look at everything in a browser: data sets, releases over time, verdicts, reports and spend.

    Serves the home read-only on this machine until Ctrl-C, or writes the same pages as files. They are made from the
    snapshot, so they delay no run.

    Examples:
        answerkey view
        answerkey view --home evaluations --port 4300
        answerkey view --to site
    """
    home = Home.parse(home.address)
    if not home.warehouse.exists():
        raise UserError(f"{home}: no warehouse here yet; run `answerkey evaluate` first, or give --home")
    if to:
        print(f"{_write(home, to)} files in {to}; open {to / 'index.html'}")
        return 0
    from answerkey.flows.cli.server import answer_until_stopped
    from answerkey.flows.pages import page_server

    with page_server(home, port) as server:
        print(f"http://127.0.0.1:{server.server_port}  (home {home}, read-only; Ctrl-C stops it)", flush=True)
        answer_until_stopped(server)
    print("stopped", flush=True)
    return 0


def _write(home: Home, folder: Path) -> int:
    """Write the site into a folder, each file whole or not at all, and remove what an earlier call has left of others.

    Returns how many files it has.
    """
    from answerkey.tasks.publish.site import Site

    if folder.is_file():
        raise UserError(f"--to {folder}: this is a file; give a folder")
    if isinstance(home.place, Path) and home.place.resolve() in (folder.resolve(), *folder.resolve().parents):
        raise UserError(f"--to {folder}: this is in the home; give a folder outside of it")
    site = Site(home)
    written: list[str] = []
    earlier_names: list[str] = []
    try:
        names = list(site.names())
        # What the last call has written there and may remove: nothing that a link, or an edited list, has elsewhere.
        # No page has a name that cannot be printed, and some of these no path can have
        with suppress(FileNotFoundError, UnicodeDecodeError):
            listed = (folder / _LIST).read_text(encoding="utf-8").splitlines()
            top = folder.resolve()
            for name in listed:
                if name != _LIST and name.isprintable() and (top / name).parent.resolve().is_relative_to(top):
                    earlier_names.append(name)
        # Ahead, so that what a kill leaves behind is known as well.
        _note(folder, dict.fromkeys([*earlier_names, *names]))
        for name in names:
            try:
                content = site.read(name)
            except FileNotFoundError:
                # Removed since its name was read.
                continue
            with atomic_write(folder / name) as unfinished:
                unfinished.write_bytes(content)
            written.append(name)
        # What is a page no longer, and the folders that are empty without it
        for name in {*earlier_names, *names} - {*written}:
            file = folder / name
            if file.is_dir():
                continue
            file.unlink(missing_ok=True)
            for parent in file.parents[: len(Path(name).parts) - 1]:
                with suppress(OSError):
                    parent.rmdir()
        _note(folder, written)
    except OSError as error:
        raise UserError(f"--to {folder}: cannot be written: {error.strerror or error}") from error
    return len(written)


def _note(folder: Path, names: Iterable[str]) -> None:
    with atomic_write(folder / _LIST) as unfinished:
        unfinished.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
