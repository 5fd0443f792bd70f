"""Bars on a terminal while a run works: what it does, how far it is, how long it takes, what it costs.

They stand there before what works is imported, which takes longer than the first of its work. So this imports nothing
of it either: `metrics_core` and `tasks.publish` only where something was told, by when they are there.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Column

from answerkey.flows.environment import printable

_WIDE = 80
"""Columns of a terminal from which on there is room for bars."""
_NAME = 24

_LOGGER = logging.getLogger("answerkey.progress")
"""That of `answerkey.metrics_core.progress`."""

_begun: list[ExitStack] = []
"""What `begun` shows, until `bars` goes on with it."""


@contextmanager
def begun() -> Iterator[None]:
    """Show progress until the first `bars` has come to its end; at the latest, until the context is closed."""
    with ExitStack() as stack:
        stack.enter_context(_display())
        _begun.append(stack)
        try:
            yield
        finally:
            _begun.clear()


@contextmanager
def bars(*, quiet: bool) -> Iterator[None]:
    """Show progress on standard error while the context is open: nothing where that is no terminal, or with `quiet`.

    What else is written to standard error stands above the bars meanwhile; lines that only say how far the run is are
    left out (see `answerkey.metrics_core.progress.is_news`).
    """
    display: AbstractContextManager[object] = nullcontext() if quiet else _display()
    with _begun.pop().pop_all() if _begun else display:
        yield


@contextmanager
def _display() -> Iterator[None]:
    console = Console(file=sys.stderr, highlight=False)
    if not console.is_terminal or console.is_dumb_terminal:
        yield
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, max_width=_NAME)),
        *([BarColumn(bar_width=12)] if console.width >= _WIDE else []),
        TextColumn("{task.fields[count]}", justify="right", table_column=Column(no_wrap=True)),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        TextColumn("{task.fields[spent]}"),
    )

    # The log of progress is read while the bars stand there
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as display:
        handler = Bars(display)
        level = _LOGGER.level
        _LOGGER.addHandler(handler)
        _LOGGER.setLevel(logging.INFO)
        try:
            yield
        finally:
            _LOGGER.removeHandler(handler)
            _LOGGER.setLevel(level)


class Bars(logging.Handler):
    """Turns what is told into the bars of `display`: one for each thing that is worked on."""

    def __init__(self, display: Progress) -> None:
        super().__init__()
        self._display = display
        self._tasks: dict[str, Task] = {}
        self._guard = threading.Lock()
        self._task("start")

    def emit(self, record: logging.LogRecord) -> None:
        """See logging."""
        from answerkey.metrics_core.progress import Advance
        from answerkey.tasks.publish.text import dollars

        advance = record.msg
        if not isinstance(advance, Advance):
            return
        with self._guard:
            # What said of no total ends when something else begins; if it counted nothing, it is shown no longer
            if advance.what not in self._tasks:
                for what, open_task in list(self._tasks.items()):
                    if open_task.total is None and open_task.completed:
                        self._display.update(open_task.id, total=open_task.completed)
                    elif open_task.total is None:
                        self._display.remove_task(self._tasks.pop(what).id)
            task = self._task(advance.what)
            # Of several shards at once, one that ends says less than its neighbours have done of theirs
            done = task.completed + advance.more if advance.done is None else advance.done
            completed = int(max(task.completed, done))
            total = advance.total or task.total
            count = f"{completed:,}" if completed else ""
            if total:
                count = f"{completed:,}/{total:,.0f}"
            cost = task.fields["cost"] + advance.cost_usd
            spent = dollars(cost) if cost else ""
            self._display.update(task.id, completed=completed, total=total, count=count, cost=cost, spent=spent)

    def _task(self, what: str) -> Task:
        if what not in self._tasks:
            number = self._display.add_task(printable(what), total=None, count="", cost=0.0, spent="")
            self._tasks[what] = next(task for task in self._display.tasks if task.id == number)
        return self._tasks[what]
