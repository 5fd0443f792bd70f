"""Numbers and tables as notebooks show them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def number(value: float | None, *, sign: bool = False) -> str:
    """Format a number with three decimals; a dash stands for a missing one.

    Args:
        sign: whether to show the sign of a positive number, as for differences.

    >>> number(0.5), number(0.0714, sign=True), number(None)
    ('0.500', '+0.071', '–')
    """
    return "–" if value is None else f"{value:{'+' if sign else ''}.3f}"


def chance(p: float | None) -> str:
    """Format a p-value with three decimals, never as 0; a dash stands for a missing one.

    >>> chance(0.0124), chance(0.00001), chance(None)
    ('0.012', '< 0.001', '–')
    """
    return "< 0.001" if p is not None and p < 0.0005 else number(p)


def table_html(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> str:
    """An HTML table with notes below it. All texts are escaped.

    >>> "&lt;b&gt;" in table_html("<b>", ("", "mean"), [("a", "1")])
    True
    """
    lines = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
    return (
        f"<table><caption>{escape(caption)}</caption>"
        f"<thead><tr>{''.join(f'<th>{escape(name)}</th>' for name in head)}</tr></thead>"
        f"<tbody>{''.join(f'<tr>{line}</tr>' for line in lines)}</tbody></table>"
        f"{''.join(f'<p>{escape(note)}</p>' for note in notes)}"
    )
