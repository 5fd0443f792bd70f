"""Tables and lines that fit the terminal: no number is broken over two lines, and no column is cut."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text

from answerkey.flows.environment import printable
from answerkey.metrics_core.llm.untrusted import cut, one_line
from answerkey.tasks.publish.table import Cell, Table

_PLAIN_WIDTH = 200
"""Columns where there is no terminal to measure: a file or a pipe does not wrap."""
_GAP = 3
"""Columns from one cell of a table to the next."""
_HARD = "\ue000"
"""Holds the parts of a number together while a line is wrapped; rich would break a line at a no-break space."""

_LEAD = re.compile(r" +\w+ {2,}| *([-!] )?")
"""What stands before the first word of a line; of one with a label, the label."""

_FIELDS = ("field", "metric")
"""Heads of a first column of METRIC.FIELD."""
_SHORT = 40
"""The longest cell that is kept on one line, in columns."""

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
            for renderable in [part] if isinstance(part, str) else _written(part):
                if isinstance(renderable, RichTable):
                    output.print(renderable)
                    continue
                text = Text.from_markup(renderable)
                text.plain = "\n".join(map(printable, text.plain.split("\n"))).replace(" %", f"{_HARD}%")
                # What has no spaces to wrap at, a path for instance, is left to the terminal, so that it can be copied
                soft = not output.is_terminal or _longest_word(text.plain) > output.width
                # All lines begin where the first word does
                indent = _LEAD.match(text.plain).end()  # type: ignore[union-attr]
                if not soft and indent and "\n" not in text.plain:
                    first_line, *more_lines = text[indent:].wrap(output, output.width - indent)
                    indented = (Text(" " * indent) + line for line in more_lines)
                    text = Text("\n").join([text[:indent] + first_line, *indented])
                output.print(text, soft_wrap=soft)
    if parts:
        print("\n".join(line.rstrip() for line in captured.get().rstrip("\n").replace(_HARD, " ").splitlines()))


def title_line(text: str) -> str:
    """The line over a table; `text` is shown literally."""
    return f"[bold]{escape(one_line(text))}[/bold]"


def _written(table: Table) -> Iterator[RichTable | str]:
    """A table, or its rows one below the other where the terminal is too narrow for the table."""
    if table.title:
        yield title_line(table.title)
    # Releases give columns their names
    head = [name if name.isprintable() else one_line(name) for name in table.head]
    rows = [[_text(cell) for cell in row] for row in table.rows]
    least_widths = {}
    for name, width in table.wrapped.items():
        column = [row[head.index(name)].plain for row in rows]
        least_widths[name] = max(width, _longest_word(" ".join((name, *column))))

    # As it is, then with heads on two lines, then with fields on two lines
    narrow_head = [name.replace(" [", "\n[") for name in head]
    shapes = [(head, rows), (narrow_head, rows)]
    if head[0] in _FIELDS:
        # METRIC.FIELD is broken before the dot, unless it is no longer than the parts of others
        broken = [Text(row[0].plain.replace(".", "\n.", 1), style=row[0].style) for row in rows]
        width = max(map(_width, broken), default=0)
        narrow_rows = []
        for broken_name, row in zip(broken, rows, strict=True):
            narrow_rows.append([row[0] if len(row[0]) <= width else broken_name, *row[1:]])
        shapes.append((narrow_head, narrow_rows))

    # The first shape that fits
    for shape_head, shape_rows in shapes:
        columns = zip(map(Text, shape_head), *shape_rows, strict=True)
        longest_lines = [max(map(_width, column)) for column in columns]
        widths = [min(width, least_widths.get(name, width)) for name, width in zip(head, longest_lines, strict=True)]
        spare = console().width - (sum(widths) + _GAP * (len(widths) - 1))
        if spare < 0:
            continue
        # The library is told each width: what it takes from columns that wrap, it cuts off
        grid = RichTable(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
        widths = _widened(widths, longest_lines, spare)
        for name, title, width in zip(table.head, shape_head, widths, strict=True):
            is_left = title in (shape_head[0], *table.left)
            is_wrapped = name in table.wrapped
            grid.add_column(Text(title), justify="left" if is_left else "right", no_wrap=not is_wrapped, width=width)
        for parted, row in zip(table.parted, shape_rows, strict=True):
            if parted:
                grid.add_section()
            grid.add_row(*row)
        yield grid
        yield ""
        break
    else:
        yield from _lines(table, head, rows)
    yield from (f"[dim]{escape(note)}[/dim]" for note in table.notes)


def _width(text: Text) -> int:
    return max(map(cell_len, text.plain.split("\n")))


def _widened(widths: Sequence[int], longest_lines: Sequence[int], spare: int) -> list[int]:
    """Return widths of columns that share what the terminal has to spare by what their longest lines lack.

    >>> _widened([10, 20, 30], [10, 40, 130], spare=60)
    [10, 30, 80]
    """
    lacking = [longest - width for width, longest in zip(widths, longest_lines, strict=True)]
    share = min(1.0, spare / (sum(lacking) or 1))
    return [width + int(share * lack) for width, lack in zip(widths, lacking, strict=True)]


def _lines(table: Table, head: Sequence[str], rows: Sequence[Sequence[Text]]) -> Iterator[str]:
    """Each row as a line with its first cell and the styled ones, and under it the others with the names of columns."""
    widest = max(map(cell_len, head[1:]))
    for first_cell, *other_cells in rows:
        line = f"[bold]{escape(first_cell.plain)}[/bold]"
        labelled = []
        for name, cell in zip(head[1:], other_cells, strict=True):
            if cell.style:
                line += f"  [{cell.style}]{escape(cell.plain)}[/]"
            elif cell.plain not in ("", "–"):
                labelled.append((name, cell.plain))
        yield line
        # What each column says, on a line of its own where the columns are about things of their own
        if table.each:
            for name, text in labelled:
                gap = " " * (widest - cell_len(name) + 2)
                if not fits(widest + cell_len(text) + 4):
                    gap = "\n    "
                yield f"  {escape(name)}{gap}{escape(text)}"
            continue
        parts = []
        for name, text in labelled:
            joined = text.replace(" ", _HARD) if len(text) <= _SHORT else text
            # A single one, for instance the reason of a rule's outcome, says itself what it is
            parts.append(f"{name} {joined}" if len(labelled) > 1 else joined)
        # Wrapped to the terminal, two spaces in; what `_HARD` joins stays on one line
        if parts:
            width = console().width - 2
            lines = textwrap.wrap("; ".join(parts), width, break_long_words=False, break_on_hyphens=False)
            indented = "\n".join(f"  {line}" for line in lines).replace(_HARD, " ")
            yield f"[dim]{escape(indented)}[/dim]"
    yield ""


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
    return Text((text if text.isprintable() else one_line(text)).replace(" %", f"{_HARD}%"), style=style)


def _longest_word(text: str) -> int:
    return max(map(cell_len, text.split()), default=0)
