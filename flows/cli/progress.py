"""Bars on a terminal while a run works: what it does, how far it is, how fast, how long it takes, what it costs.

They stand there before what works is imported, which takes longer than the first of its work. So this imports nothing
of it either: `metrics_core` and `tasks.publish` only where something was told, by when they are there.
"""

from __future__ import annotations

import io
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext

from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from answerkey.flows.environment import printable

_WIDE, _NARROW = 100, 80
"""Columns of a terminal from which on there is room for bars, and below which there is none for counts."""
_NAME = 24

_LOGGER = logging.getLogger("answerkey.progress")
"""That of `answerkey.metrics_core.progress`."""

_begun: list[ExitStack] = []
"""What `begun` shows, until `bars` goes on with it."""


@contextmanager
def begun() -> Iterator[None]:
    """Show progress until the first `bars` has come to its end; at the latest, until the context is closed."""
    with ExitStack() as stack:
        stack.enter_context(_shown())
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
    with _begun.pop().pop_all() if _begun else nullcontext() if quiet else _shown():
        yield


@contextmanager
def _shown() -> Iterator[None]:
    console = Console(file=sys.stderr, highlight=False)
    if not console.is_terminal or console.is_dumb_terminal:
        yield
        return
    wide, narrow = console.width >= _WIDE, console.width < _NARROW
    drawn = (BarColumn(bar_width=30 if console.width >= _WIDE + 20 else 12),) if wide else ()
    columns = (
        SpinnerColumn(),
        _Name(18 if narrow else _NAME),
        *drawn,
        _Count(short=narrow),
        _Speed(),
        _Time(),
        _Cost(),
    )
    shown = Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
    handler, level, stderr = Bars(shown), _LOGGER.level, sys.stderr
    _LOGGER.addHandler(handler)
    _LOGGER.setLevel(logging.INFO)
    # Handlers that are made meanwhile keep it, so it works afterwards as well.
    sys.stderr = _Above(console)
    try:
        with shown:
            yield
    finally:
        above, sys.stderr = sys.stderr, stderr
        _LOGGER.removeHandler(handler)
        _LOGGER.setLevel(level)
        above.flush()


class Bars(logging.Handler):
    """Turns what is told into the bars of `shown`: one for each thing that is worked on."""

    def __init__(self, shown: Progress) -> None:
        super().__init__()
        self._shown = shown
        self._tasks: dict[str, Task] = {}
        self._guard = threading.Lock()
        self._task("start")

    def emit(self, record: logging.LogRecord) -> None:
        """See logging."""
        from answerkey.metrics_core.progress import Advance

        told = record.msg
        if not isinstance(told, Advance):
            return
        with self._guard:
            if told.what not in self._tasks:
                self._end_open()
            task = self._task(told.what)
            # Of several shards at once, one that ends says less than its neighbours have done of theirs.
            done = max(task.completed, task.completed + told.more if told.done is None else told.done)
            cost = task.fields["cost"] + told.cost_usd
            self._shown.update(task.id, completed=done, total=told.total or task.total, cost=cost)

    def _end_open(self) -> None:
        """What said of no total ends when something else begins; if it counted nothing, it is shown no longer."""
        for what, task in list(self._tasks.items()):
            if task.total is None and task.completed:
                self._shown.update(task.id, total=task.completed)
            elif task.total is None:
                self._shown.remove_task(self._tasks.pop(what).id)

    def _task(self, what: str) -> Task:
        if what not in self._tasks:
            number = self._shown.add_task(printable(what), total=None, cost=0.0)
            self._tasks[what] = next(task for task in self._shown.tasks if task.id == number)
        return self._tasks[what]


class _Name(TextColumn):
    def __init__(self, columns: int) -> None:
        super().__init__("{task.description}", markup=False, table_column=Column(no_wrap=True, max_width=columns))


class _Right(ProgressColumn):
    """A number, which is never cut."""

    def __init__(self) -> None:
        super().__init__(Column(no_wrap=True, justify="right"))


class _Count(_Right):
    def __init__(self, *, short: bool) -> None:
        super().__init__()
        self._short = short

    def render(self, task: Task) -> Text:
        if task.total is None:
            return Text(f"{task.completed:,.0f}" if task.completed else "")
        if self._short:
            return Text(f"{task.percentage:.0f} %")
        return Text(f"{task.completed:,.0f}/{task.total:,.0f}")


class _Speed(_Right):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f}/s" if speed and speed >= 10 else f"{speed:.1f}/s" if speed else "", style="dim")


class _Time(_Right):
    """How long it still takes, else how long it has taken."""

    def render(self, task: Task) -> Text:
        left = task.time_remaining
        if task.total is not None and left is not None and not task.finished:
            return Text(f"{_clock(left)} left")
        elapsed = task.finished_time if task.finished else task.elapsed
        return Text(_clock(elapsed or 0.0), style="dim")


class _Cost(_Right):
    def render(self, task: Task) -> Text:
        cost = task.fields["cost"]
        if not cost:
            return Text()
        from answerkey.tasks.publish.text import dollars

        return Text(dollars(cost))


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class _Above(io.TextIOBase):
    """Standard error whose lines stand above the bars, wrapped between words; a path in them is not broken."""

    def __init__(self, console: Console) -> None:
        self._console, self._begun = console, ""
        # Of its own: threads log meanwhile, and one that is writing may be told something by a signal.
        self._guard = threading.RLock()

    def write(self, text: str) -> int:
        """See io."""
        with self._guard:
            *lines, self._begun = (self._begun + text).split("\n")
            for line in lines:
                # A word that is longer than a line is left to the terminal, so that it can be copied.
                words = max(map(cell_len, line.split()), default=0)
                self._console.print(Text(line), soft_wrap=words > self._console.width)
        return len(text)

    def flush(self) -> None:
        """See io.

        Leaves the stream alone, which the console has flushed: this is called when this is garbage, too, by whichever
        thread collects it, and a thread that waits for the stream when the process ends would leave it locked.
        """
        with self._guard:
            if self._begun:
                self._console.print(Text(self._begun), soft_wrap=True, end="")
                self._begun = ""

    def isatty(self) -> bool:
        """See io."""
        return True

    def fileno(self) -> int:
        """See io."""
        return self._console.file.fileno()
