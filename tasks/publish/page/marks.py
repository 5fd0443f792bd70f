"""What the plots are made of: intervals, names over rows, lines, scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from answerkey.tasks.publish.page.figures import number

if TYPE_CHECKING:
    import altair as alt

Row = Mapping[str, Any]

WIDE, NARROW, SMALL = 1000, 290, 290
"""Of the plot without its labels, in pixels, so that the text is drawn about as large as the page's own."""
_VALUE = 46
"""Room for a value beside a plot."""


def chart_of(rows: Sequence[Row], width: int) -> alt.Chart:
    """A chart over rows that it carries with it."""
    import altair as alt

    chart: alt.Chart = alt.Chart(alt.InlineData(values=[dict(row) for row in rows])).properties(width=width)
    return chart


def intervals(
    rows: Sequence[Row], domain: tuple[float, float], width: int, high_y: float | None = None, *, named: bool = True
) -> list[alt.Chart]:
    """Rules with a point, each under its name; the value stands at the right end."""
    import altair as alt

    marks = [
        {"tone": "var(--accent)", "shape": "circle", **row, "at": row["y"] + (0.68 if named else 0)} for row in rows
    ]
    count = max(row["y"] for row in rows) + 1 if high_y is None else high_y
    base = chart_of(marks, width)
    x = alt.X("low:Q", scale=alt.Scale(domain=list(domain), nice=False), axis=axis_of())
    y = alt.Y("at:Q", scale=alt.Scale(domain=[count, 0], nice=False), axis=None)
    thick = 3 if named else 1.8
    rule = base.mark_rule(strokeWidth=thick, strokeCap="round", opacity=0.55)
    point = base.mark_point(filled=True, size=70 if named else 42, opacity=1)
    return [
        rule.encode(x=x, x2="high:Q", y=y, color=verbatim("tone")),
        point.encode(x=alt.X("mean:Q"), y=y, color=verbatim("tone"), shape=verbatim("shape")),
        *(_beside(rows, width) if named else []),
    ]


def row_names(rows: Sequence[Row], width: int) -> list[alt.Chart]:
    """The name over the left end of each row, and its label over the right end."""
    return [
        _text(rows, width, 0, "left", "name", limit=SMALL - 60),
        _text(rows, width, width, "right", "label"),
    ]


def _text(
    rows: Sequence[Row], width: int, x: int, align: Literal["left", "right"], field: str, **look: Any
) -> alt.Chart:
    import altair as alt

    base = chart_of([{"top": row["y"], **row} for row in rows], width)
    text = base.mark_text(align=align, color="var(--ink)", fontSize=12, baseline="top", dy=4, **look)
    encoded: alt.Chart = text.encode(x=alt.value(x), y="top:Q", text=f"{field}:N")
    return encoded


def _beside(rows: Sequence[Row], width: int) -> list[alt.Chart]:
    """The name over each interval, and the value to the right of the plot, where no interval reaches."""
    values = [{**row, "y": row["y"] + 0.36} for row in rows]
    return [
        _text(rows, width, 0, "left", "name", limit=SMALL),
        _text(values, width, width + _VALUE, "right", "label"),
    ]


def vertical(at: float, domain: tuple[float, float], width: int, color: str) -> alt.Chart:
    """A line from top to bottom."""
    line = chart_of([{"low": at}], width).mark_rule(color=color, strokeWidth=1.2)
    encoded: alt.Chart = line.encode(x=_across(domain))
    return encoded


def notch(at: float, row: int, rows: int, domain: tuple[float, float], width: int, color: str) -> alt.Chart:
    """A dashed line across the interval of one of the rows."""
    import altair as alt

    mark = {"low": at, "top": row + 0.4, "bottom": row + 0.98}
    line = chart_of([mark], width).mark_rule(color=color, strokeDash=[4, 3], strokeWidth=1.8)
    y = alt.Y("top:Q", scale=alt.Scale(domain=[rows, 0], nice=False), axis=None)
    encoded: alt.Chart = line.encode(x=_across(domain), y=y, y2="bottom:Q")
    return encoded


def _across(domain: tuple[float, float]) -> alt.X:
    import altair as alt

    return alt.X("low:Q", scale=alt.Scale(domain=list(domain), nice=False), axis=axis_of())


def axis_of(*, hidden: bool = False) -> alt.Axis | None:
    """The scale under a plot, with few plain numbers."""
    import altair as alt

    return None if hidden else alt.Axis(title=None, tickCount=5, format="~g", labelFlush=False)


def verbatim(field: str) -> Any:
    """An encoding that takes colours and shapes from the rows as they are."""
    import altair as alt

    return (alt.Shape if field == "shape" else alt.Color)(f"{field}:N", scale=None)


def span(mean: float, low: float | None, high: float | None) -> dict[str, Any]:
    """A mean with the ends of its interval, which are the mean where it has none, and its label."""
    ends = {"low": mean if low is None else low, "high": mean if high is None else high}
    return {"mean": mean, **ends, "label": number(mean)}


def domain_of(rows: Sequence[Row]) -> tuple[float, float]:
    """From the lowest to the highest end of the intervals, with room, and never so narrow that noise looks large."""
    low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
    room = max(0.08 * (high - low), (0.1 - (high - low)) / 2, 0.01)
    return low - room, high + room
