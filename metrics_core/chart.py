"""Numbers as notebooks show them: tables as HTML, and estimates with their intervals drawn as SVG.

Both take the colours of the page that they are on, light or dark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

_WIDTH, _NAMES, _ROW, _TOP = 720, 300, 26, 34
_RIGHT = 90
"""Of the drawing, in pixels: its width, the column of names, a row, the title, and the column of numbers."""


def number(value: float | None, *, sign: bool = False) -> str:
    """Three decimals, with a sign where it is a difference; a dash where there is no number.

    >>> number(0.5), number(0.0714, sign=True), number(None)
    ('0.500', '+0.071', '–')
    """
    return "–" if value is None else f"{value:{'+' if sign else ''}.3f}"


@dataclass(frozen=True, slots=True)
class Bar:
    """An estimate with the ends of its interval, and what it is called."""

    name: str
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Chart:
    """Estimates one below the other on one axis. A notebook shows it; `str` has the SVG.

    >>> chart = Chart("means", [Bar("contains.match", 0.5, 0.2, 0.8)])
    >>> str(chart).startswith("<svg"), "contains.match" in str(chart)
    (True, True)
    """

    title: str
    bars: Sequence[Bar]
    differences: bool = False

    def _repr_svg_(self) -> str:
        return str(self)

    def __str__(self) -> str:
        ends = [end for bar in self.bars for end in (bar.low, bar.value, bar.high) if end is not None]
        least, most = (min([0.0, *ends]), max([0.0 if self.differences else 1.0, *ends]))
        scale = (_WIDTH - _NAMES - _RIGHT) / ((most - least) or 1.0)

        def x(value: float) -> float:
            return round(_NAMES + (value - least) * scale, 1)

        height = _TOP + _ROW * len(self.bars) + 24
        parts = [_text(0, 18, self.title, weight="bold")]
        parts.append(_line(x(0.0), _TOP - 6, x(0.0), height - 20, 'opacity="0.4" stroke-dasharray="3 3"'))
        for place, bar in enumerate(self.bars):
            y = _TOP + _ROW * place + _ROW // 2
            parts.append(_text(_NAMES - 14, y + 4, bar.name, anchor="end"))
            if bar.low is not None and bar.high is not None:
                parts.append(_line(x(bar.low), y, x(bar.high), y, 'stroke-width="2"'))
                parts += [_line(x(end), y - 5, x(end), y + 5, 'stroke-width="2"') for end in (bar.low, bar.high)]
            parts.append(f'<circle cx="{x(bar.value)}" cy="{y}" r="4.5" fill="#3b7dd8"/>')
            parts.append(_text(_WIDTH, y + 4, number(bar.value, sign=self.differences), anchor="end"))
        parts += [
            _text(x(end), height - 4, f"{end:g}", anchor="middle") for end in {0.0, round(least, 2), round(most, 2)}
        ]
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
            f'style="max-width:100%;color:inherit" role="img" aria-label="{escape(self.title)}" '
            f'font-family="system-ui, sans-serif" font-size="12" fill="currentColor">{"".join(parts)}</svg>'
        )


def table_html(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> str:
    """A table of texts and numbers, all taken literally; the first column is text.

    >>> "&lt;b&gt;" in table_html("<b>", ("", "mean"), [("a", "1")])
    True
    """
    cells = "".join(f"<th {_style(place)}>{escape(name)}</th>" for place, name in enumerate(head))
    lines = "".join(
        "<tr>" + "".join(f"<td {_style(place)}>{escape(cell)}</td>" for place, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    below = "".join(f'<p style="margin:.3em 0;opacity:.8">{escape(note)}</p>' for note in notes)
    return (
        f'<table><caption style="text-align:left;font-weight:bold">{escape(caption)}</caption>'
        f"<thead><tr>{cells}</tr></thead><tbody>{lines}</tbody></table>{below}"
    )


def to_frame(columns: Mapping[str, Any], index: str = "") -> Any:
    """Columns of one length as a data frame of pandas. Half a character, as cut-off JSON may end with, becomes `?`.

    Args:
        index: the column whose values name the rows.
    """
    import pyarrow as pa

    def array(values: list[Any]) -> Any:
        try:
            return pa.array(values)
        except UnicodeEncodeError:
            return pa.array([_encodable(value) for value in values])

    frame = pa.table({name: array(list(values)) for name, values in columns.items()}).to_pandas()
    return frame.set_index(index) if index else frame


def _encodable(value: Any) -> Any:
    if isinstance(value, list):
        return [_encodable(one) for one in value]
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _style(place: int) -> str:
    align = "right" if place else "left"
    return f'style="text-align:{align};white-space:nowrap;font-variant-numeric:tabular-nums"'


def _text(x: float, y: float, text: str, *, anchor: str = "start", weight: str = "normal") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-weight="{weight}">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="currentColor" {style}/>'
