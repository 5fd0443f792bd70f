"""Tables and lines that fit the terminal: no number is broken over two lines, and no column is cut."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Column
from rich.table import Table as RichTable
from rich.text import Text

from answerkey.flows.cli.main import print_json
from answerkey.flows.environment import printable
from answerkey.metrics_core.llm.untrusted import cut, one_line
from answerkey.tasks.publish.table import Cell, Table
from answerkey.tasks.publish.text import NONE

_PLAIN_WIDTH = 200
"""Columns where there is no terminal to measure: a file or a pipe does not wrap."""
_GAP = 2
"""Columns from one cell of a table to the next."""
_HARD = "\ue000"
"""Holds words together while a line is wrapped; rich would break a line at a no-break space."""
_LEAD = re.compile(r" +\w+ {2,}| *([-!] )?")
"""What stands before the first word of a line; of one with a label, the label."""
_LONG_FIELD = re.compile(r"^(?=.{25})(\w+)\.(?=\w)")
"""METRIC.FIELD that is worth two lines where columns are dear."""
_LONGEST_TEXT = 400

STYLES: Mapping[str, str] = {
    "better": "green", "worse": "red", "not shown to differ": "default", "not compared": "dim",
    "PASS": "bold green", "FAIL": "bold red", "INCONCLUSIVE": "bold yellow", "INCOMPLETE": "bold magenta",
}  # fmt: skip
"""How findings and outcomes look."""


def console() -> Console:
    """Of the standard output; as wide as a page where that is no terminal."""
    terminal = Console(highlight=False)
    return terminal if terminal.is_terminal else Console(highlight=False, width=_PLAIN_WIDTH)


def fits(columns: int) -> bool:
    """Whether what is that wide can be shown."""
    return columns <= console().width


def show(*parts: Table | str) -> None:
    """Print to a terminal, wrapped between words; elsewhere as plain lines without the padding of tables.

    Lines are markup of rich. The cells of tables are shown literally, without what could steer the terminal.
    """
    output = console()
    with output.capture() as captured:
        for part in parts:
            for drawn in [part] if isinstance(part, str) else _drawn(part, output.width):
                if not isinstance(drawn, str):
                    output.print(drawn)
                    continue
                text = Text.from_markup(drawn)
                text.plain = printable(text.plain).replace(" %", f"{_HARD}%")
                # What has no spaces to wrap at, a path for instance, is left to the terminal, so that it can be copied
                soft = not output.is_terminal or _longest_word(text) > output.width
                # All lines begin where the first word does
                indent = _LEAD.match(text.plain).end()  # type: ignore[union-attr]
                hanging: RenderableType = text
                if not soft and indent:
                    hanging = RichTable.grid("", Column(overflow="fold"))
                    hanging.add_row(text[:indent], text[indent:])
                output.print(hanging, soft_wrap=soft)
    if parts:
        print("\n".join(line.rstrip() for line in captured.get().rstrip("\n").replace(_HARD, " ").splitlines()))


def show_or_json(content: object, *parts: Table | str, as_json: bool) -> None:
    """Print the content as JSON, or what a person reads instead."""
    if as_json:
        print_json(content)
    else:
        show(*parts)


def title_line(text: str) -> str:
    """The line over a table; `text` is shown literally."""
    return f"[bold]{escape(one_line(text))}[/bold]"


def _drawn(table: Table, width: int) -> Iterator[RenderableType]:
    """A table, or its rows one below the other where the terminal is too narrow for the table."""
    if table.title:
        yield title_line(table.title)
    head = [_text(name) for name in table.head]
    rows = [[_text(cell) for cell in row] for row in table.rows]
    # Heads and fields on two lines where that makes it fit
    low_head = [Text(name.plain.replace(" [", "\n[")) for name in head]
    low_rows = [[Text(_LONG_FIELD.sub(r"\1\n.", first.plain), first.style), *cells] for first, *cells in rows]
    grid = _grid(table, head, rows, width) or _grid(table, low_head, low_rows, width)
    yield from grid or _records(table, head, rows, width)
    yield ""
    yield from (f"[dim]{escape(note)}[/dim]" for note in table.notes)


def _grid(table: Table, head: list[Text], rows: list[list[Text]], width: int) -> list[RenderableType]:
    """The table; nothing where it is wider than the terminal."""
    columns = list(zip(head, *rows, strict=True))
    longest = [max(map(_width, column)) for column in columns]
    least = []
    for name, column, longest_line in zip(table.head, columns, longest, strict=True):
        words = max(map(_longest_word, column))
        least.append(min(longest_line, max(table.wrapped[name], words)) if name in table.wrapped else longest_line)
    spare = width - sum(least) - _GAP * (len(head) - 1)
    if spare < 0:
        return []
    # Columns share what there is to spare by what their longest lines lack. The library is told each width: what it
    # takes from columns that wrap, it cuts off
    share = min(1.0, spare / (sum(longest) - sum(least) or 1))
    grid = RichTable(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, _GAP - 1, 0, 0))
    for name, title, low, high in zip(table.head, head, least, longest, strict=True):
        is_left = title is head[0] or name in table.left
        grid.add_column(title, justify="left" if is_left else "right", width=low + int(share * (high - low)))
    for parted, row in zip(table.parted, rows, strict=True):
        if parted:
            grid.add_section()
        grid.add_row(*row)
    return [grid]


def _records(table: Table, head: list[Text], rows: list[list[Text]], width: int) -> Iterator[str]:
    """Each row as a line with its first cell and the styled ones, and under it the others with the names of columns."""
    for first, *cells in rows:
        line = f"[bold]{escape(first.plain)}[/bold]"
        named = []
        for name, cell in zip(head[1:], cells, strict=True):
            if cell.style:
                line += f"  [{cell.style}]{escape(cell.plain)}[/]"
            elif cell.plain not in ("", NONE):
                named.append((name.plain, cell.plain))
        yield line
        # A single one, for instance the reason of a rule's outcome, says itself what it is
        parts = [f"{name} {text}" if len(named) > 1 else text for name, text in named]
        # What fits on a line is not broken; beside what does not fit, nothing else stands
        parts = [part.replace(" ", _HARD) if cell_len(part) <= width - 2 else part for part in parts]
        lines = parts if table.each or " " in "".join(parts) else filter(None, ["   ".join(parts)])
        yield from (f"  [dim]{escape(line)}[/dim]" for line in lines)


def brief(text: str) -> str:
    """A text from data on one line, cut where it is long, as markup shows it."""
    return escape(cut(one_line(text), _LONGEST_TEXT))


def sample_lines(sample_id: str, numbers: str, texts: Mapping[str, str | None]) -> Iterator[str]:
    """A sample with its numbers, and below it what was asked and answered."""
    yield f"[bold]{brief(sample_id)}[/bold]  {numbers}"
    width = max(map(len, texts))
    yield from (f"  [dim]{name:<{width}}[/dim]  {brief(text)}" for name, text in texts.items() if text)


def _text(cell: Cell | str) -> Text:
    text = str(cell)
    style = STYLES.get(cell.kind, "") if isinstance(cell, Cell) else ""
    return Text((text if text.isprintable() else one_line(text)).replace(" %", f"{_HARD}%"), style)


def _width(text: Text) -> int:
    return max(map(cell_len, text.plain.split("\n")))


def _longest_word(text: Text) -> int:
    return max(map(cell_len, text.plain.split()), default=0)
