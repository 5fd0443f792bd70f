"""Tables and lines that fit the terminal: no number is broken over two lines, and no column is cut."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from answerkey.flows.environment import printable
from answerkey.metrics_core.llm.untrusted import cut, one_line

_PLAIN_WIDTH = 200
"""Columns where there is no terminal to measure: a file or a pipe does not wrap."""
_GAP = 3
"""Columns from one cell of a table to the next."""
_HARD = "\ue000"
"""Holds the parts of a number together while a line is wrapped; rich would break a line at a no-break space."""

_LEAD = re.compile(r" *([-!] )?")
"""What stands before the first word of a line."""

_FIELDS = ("field", "metric")
"""Heads of a first column of METRIC.FIELD."""
_SHORT = 40
"""The longest cell that is kept on one line, in columns."""

_LONGEST_TEXT = 400

Cell = str | Text
"""Text as it is, or styled. Both are shown literally, without what could steer the terminal."""


def console() -> Console:
    """Of the standard output; as wide as a page where that is no terminal."""
    made = Console(highlight=False)
    return made if made.is_terminal else Console(highlight=False, width=_PLAIN_WIDTH)


def fits(columns: int) -> bool:
    """Whether what is that wide can be shown."""
    return columns <= console().width


def show(*renderables: Table | str) -> None:
    """Print to a terminal, wrapped between words; elsewhere as plain lines without the padding of tables."""
    made = console()
    with made.capture() as captured:
        for renderable in renderables:
            if isinstance(renderable, str):
                # What has no spaces to wrap at, a path for instance, is left to the terminal, so that it can be copied.
                text = Text.from_markup(renderable)
                text.plain = "\n".join(map(printable, text.plain.split("\n"))).replace(" %", f"{_HARD}%")
                soft = not made.is_terminal or _longest_word(text.plain) > made.width
                made.print(text if soft else _hanging(text, made), soft_wrap=soft)
            else:
                made.print(renderable)
    print("\n".join(line.rstrip() for line in captured.get().replace(_HARD, " ").splitlines()))


def _hanging(text: Text, on: Console) -> Text:
    """The text in lines that all begin where its first word does."""
    indent = _LEAD.match(text.plain).end()  # type: ignore[union-attr]
    if not indent or "\n" in text.plain:
        return text
    first, *others = text[indent:].wrap(on, on.width - indent)
    return Text("\n").join([text[:indent] + first, *(Text(" " * indent) + line for line in others)])


def title_line(text: str) -> str:
    """The line over a table; `text` is shown literally."""
    return f"[bold]{escape(one_line(text))}[/bold]"


def grid(
    title: str,
    head: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    left: Collection[str] = (),
    wrapped: Mapping[str, int] | None = None,
    groups: Sequence[object] = (),
) -> Iterator[Table | str]:
    """A table, or its rows one below the other where the terminal is too narrow for the table.

    Args:
        head: the names of the columns. The first one is text; where that helps, METRIC.FIELD in it is broken in two.
        rows: their cells.
        left: the other columns of text; all others are numbers.
        wrapped: the columns that wrap between words, with their least width.
        groups: what each row belongs to: a rule parts the groups, unless each has one row.
    """
    if title:
        yield title_line(title)
    # Releases give columns their names.
    head = [name if name.isprintable() else one_line(name) for name in head]
    cells = [[_text(cell) for cell in row] for row in rows]
    least = {
        name: max(width, _longest_word(" ".join((name, *(row[head.index(name)].plain for row in cells)))))
        for name, width in (wrapped or {}).items()
    }
    shapes = [cells, [[_broken(row[0]), *row[1:]] for row in cells]] if head[0] in _FIELDS else [cells]
    for shape in shapes:
        widths = [max(map(_width, column)) for column in zip(map(Text, head), *shape, strict=True)]
        widths = [min(width, least.get(name, width)) for name, width in zip(head, widths, strict=True)]
        if fits(sum(widths) + _GAP * (len(widths) - 1) + 2):
            yield _table(head, shape, {head[0], *left}, least, groups)
            return
    yield from _lines(head, cells)


def _table(
    head: Sequence[str],
    rows: Sequence[Sequence[Text]],
    left: Collection[str],
    wrapped: Mapping[str, int],
    groups: Sequence[object],
) -> Table:
    page = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in head:
        page.add_column(
            Text(name),
            justify="left" if name in left else "right",
            no_wrap=name not in wrapped,
            min_width=wrapped.get(name),
        )
    parted = len(set(groups)) < len(groups)
    for place, row in enumerate(rows):
        if parted and place and groups[place] != groups[place - 1]:
            page.add_section()
        page.add_row(*row)
    return page


def _lines(head: Sequence[str], rows: Sequence[Sequence[Text]]) -> Iterator[str]:
    """Each row as a line with its first cell and the styled ones, and under it the others with the names of columns."""
    for first, *others in rows:
        styled = [f"[{cell.style}]{escape(cell.plain)}[/]" for cell in others if cell.style]
        yield "  ".join([f"[bold]{escape(first.plain)}[/bold]", *styled])
        named = [(name, cell.plain) for name, cell in zip(head[1:], others, strict=True) if not cell.style]
        # A single one, for instance the reason of a rule's outcome, says itself what it is.
        rest = [
            f"{name if len(named) > 1 else ''} {text.replace(' ', _HARD) if len(text) <= _SHORT else text}".strip()
            for name, text in named
            if text not in ("", "–")
        ]
        if rest:
            yield f"[dim]{escape(indented('; '.join(rest)))}[/dim]"
    yield ""


def brief(text: str) -> str:
    """A text from data on one line, cut where it is long, as markup shows it."""
    return escape(cut(one_line(text), _LONGEST_TEXT))


def indented(text: str) -> str:
    """The text as lines of the terminal's width that begin with two spaces. What `_HARD` joins stays on one line."""
    lines = textwrap.wrap(text, console().width - 2, break_long_words=False, break_on_hyphens=False)
    return "\n".join(f"  {line}" for line in lines).replace(_HARD, " ")


def _text(cell: Cell) -> Text:
    if isinstance(cell, Text):
        return Text(one_line(cell.plain), style=cell.style)
    return Text((cell if cell.isprintable() else one_line(cell)).replace(" %", f"{_HARD}%"))


def _broken(cell: Text) -> Text:
    """METRIC.FIELD on two lines."""
    metric, dot, field = cell.plain.partition(".")
    return Text(f"{metric}\n{dot}{field}", style=cell.style) if dot else cell


def _width(cell: Text) -> int:
    return max(map(cell_len, cell.plain.split("\n")))


def _longest_word(text: str) -> int:
    return max(map(cell_len, text.split()), default=0)
