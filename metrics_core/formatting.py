"""Numbers and tables as notebooks show them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

_NUMBER = re.compile(r"[-+<]? ?[\d–]")


def number(value: float | None, *, sign: bool = False) -> str:
    """Format a number with three decimals; a dash stands for a missing one.

    Args:
        sign: whether to show the sign of a positive number, as for differences.

    >>> number(0.5), number(0.0714, sign=True), number(None)
    ('0.500', '+0.071', '–')
    """
    if value is None:
        return "–"
    return f"{value:+.3f}" if sign else f"{value:.3f}"


def chance(p: float | None) -> str:
    """Format a p-value with three decimals, never as 0; a dash stands for a missing one.

    >>> chance(0.0124), chance(0.00001), chance(None)
    ('0.012', '< 0.001', '–')
    """
    return "< 0.001" if p is not None and p < 0.0005 else number(p)


_LINKED = re.compile(r"@(?=\w)|(?<=:)/(?=/)|\bwww(?=\.)|#(?=\d)|\bGH-(?=\d)", re.IGNORECASE)
"""What GitHub makes a link of, and so notifies somebody, after a backslash too: `@name`, an address, `#12`."""


def literal(text: str) -> str:
    r"""Text from data in one line, as Markdown shows it literally: it makes no link and notifies nobody.

    What would be a link is broken up by a space without width, spelled out so that it can be seen in the source.

    >>> literal("*a*") == r"\*a\*"
    True
    >>> literal("@octocat")
    '@&#8203;octocat'
    """
    # A space without width is no sign that Markdown knows
    broken = _LINKED.sub("\\g<0>\u200b", text.replace("\n", " "))
    return re.sub(r"([\\`*_{}\[\]<>#|&])", r"\\\1", broken).replace("\u200b", "&#8203;")


class Shown(NamedTuple):
    """A table, with a caption above it and notes below."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()


class Displayed:
    """A result that a notebook, `print` and a pull request show as the same table."""

    __slots__ = ()

    def shown(self) -> Shown:
        """The table."""
        raise NotImplementedError

    def to_html(self) -> str:
        """The table in HTML, as a notebook shows it. All texts are escaped."""
        table = self.shown()
        # Notebooks set cells to the right, which suits numbers alone.
        styles = [' style="text-align:left"'] * len(table.head)
        for position, column in enumerate(zip(*table.rows, strict=True)):
            if all(map(_NUMBER.match, column)):
                styles[position] = ""

        def row(tag: str, cells: Sequence[str]) -> str:
            return "".join(f"<{tag}{style}>{escape(cell)}</{tag}>" for style, cell in zip(styles, cells, strict=True))

        rows = "".join(f"<tr>{row('td', cells)}</tr>" for cells in table.rows)
        notes = "".join(f"<p>{escape(note)}</p>" for note in table.notes)
        return (
            f'<table><caption style="text-align:left">{escape(table.caption)}</caption>'
            f"<thead><tr>{row('th', table.head)}</tr></thead>"
            f"<tbody>{rows}</tbody></table>{notes}"
        )

    def to_markdown(self) -> str:
        """The table in Markdown, for instance for a pull request. All texts are shown literally."""
        return self._as_text(literal)

    def __str__(self) -> str:
        return self._as_text(str)

    def _as_text(self, cell: Callable[[str], str]) -> str:
        table = self.shown()
        lines = [list(map(cell, row)) for row in (table.head, *table.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        rows = []
        for line in lines:
            padded = [text.ljust(width) for text, width in zip(line, widths, strict=True)]
            rows.append(f"| {' | '.join(padded)} |")
        rule = f"|{'|'.join('-' * (width + 2) for width in widths)}|"
        notes = [f"\n{cell(note)}" for note in table.notes]
        return "\n".join([cell(table.caption), "", rows[0], rule, *rows[1:], *notes])

    def _repr_html_(self) -> str:
        return self.to_html()
