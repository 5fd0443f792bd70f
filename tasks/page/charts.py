"""The plots of the page: Vega-Lite specifications made with Altair, drawn to SVG without a browser or a network.

Colours are CSS variables, so one drawing follows the light, the dark and the printed page. Every number in a plot also
stands in a table beside it; the drawing itself is one image to a screen reader, and its title says what it shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tasks.page.figures import number, percent, signed, visible
from tasks.page.model import ALL, Distribution, Moment, Page, Pair
from tasks.page.svg import Drawing, draw, literal
from tasks.report import Score

if TYPE_CHECKING:
    import altair as alt

Row = Mapping[str, Any]

_ROW = 42
"""Height of a row with its name above the mark, in pixels."""
_VALUE = 46
"""Room for a value beside a plot."""
_BIN_ROW, _TALLEST_BIN = 50, 28
WIDE, NARROW, SMALL = 1000, 290, 290
"""Of the plot without its labels, so that the text is drawn about as large as the page's own."""
MOST_SLICES = 14
"""More values of a column than this are for the table alone."""
PALETTE = 6
"""How many colours and shapes the page has for releases; see page.css."""
_TONES: Mapping[str | None, str] = {"better": "var(--better)", "worse": "var(--worse)"}
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")


def interval_plot(page: Page, name: str) -> Drawing | None:
    """The means of one METRIC.FIELD in every release with their 95 % intervals; None where there is no mean."""
    rows = []
    for place, release in enumerate(page.releases):
        score = _score(release.report.overall, name)
        if score is not None and score.mean is not None:
            rows.append({"y": place, "name": _short(release.label), **_span(score.mean, score.ci_low, score.ci_high)})
    if not rows:
        return None
    marks = _intervals(rows, _domain(rows), SMALL)
    return draw(f"{name} by release, with 95 % intervals", marks, height=_ROW * len(page.releases))


def difference_plot(pair: Pair, width: int) -> Drawing | None:
    """New - old for every field of a pair over all rows, with 95 % intervals, and the margin of the gate."""
    chosen = [row for row in pair.rows if row.slice == ALL and row.difference is not None]
    rows = [
        {"y": place, "name": row.name, "tone": _TONES.get(row.finding, "var(--muted)")}
        | _span(row.difference or 0.0, row.low, row.high)
        | {"label": signed(row.difference)}
        for place, row in enumerate(chosen)
    ]
    if not rows:
        return None
    low, high = _domain([*rows, {"low": 0.0, "high": 0.0}, {"low": -(pair.margin or 0.0), "high": 0.0}])
    marks = _intervals(rows, (low, high), width)
    marks.insert(0, _vertical(0.0, (low, high), width, "var(--muted)", dash=()))
    if pair.margin:
        marks.insert(0, _vertical(-pair.margin, (low, high), width, "var(--worse)", dash=(4, 3)))
    return draw(f"{pair.new} less {pair.old}, with 95 % intervals", marks, height=_ROW * len(rows))


def distribution_plot(page: Page, name: str) -> Drawing | None:
    """How the scores of one METRIC.FIELD are spread, a histogram a release; shares of 0 and 1 where it is binary."""
    found = [one for one in page.distributions if one.field == name]
    binary = any(field.binary for field in page.fields if field.name == name)
    bars = [bar for place, one in enumerate(found) for bar in (_shares if binary else _bins)(place, one)]
    if not bars:
        return None
    import altair as alt

    names = [
        {"y": place, "name": _short(one.release), "label": _share_label(one) if binary else _missing(one)}
        for place, one in enumerate(found)
    ]
    low, high = found[0].low, found[0].high
    x = alt.X("x:Q", scale=alt.Scale(domain=[low, high], nice=False), axis=_axis(hidden=binary))
    base = alt.Chart(alt.Data(values=bars)).properties(width=SMALL)
    y = alt.Y("top:Q", scale=alt.Scale(domain=[len(found), 0], nice=False), axis=None)
    marks = [base.mark_rect().encode(x=x, x2="x2:Q", y=y, y2="bottom:Q", color=_verbatim("tone"))]
    return draw(f"{name}: how many rows have which score", [*marks, *_names(names, SMALL)], height=(_ROW if binary else _BIN_ROW) * len(found))


def slice_plot(page: Page, column: str, width: int) -> Drawing | None:
    """The primary field by the values of one slice column, a colour and a shape a release (the last `PALETTE`)."""
    releases = page.releases[-PALETTE:]
    scores = {(s.slice, r.label): s for r in releases for s in r.report.scores if f"{s.metric}.{s.field}" == page.primary}
    values = list(dict.fromkeys(slice_ for slice_, _ in scores if slice_.startswith(f"{column}=")))
    step = len(releases) + 1.8
    rows, names = [], []
    for place, value in enumerate(values):
        names.append({"y": place * step, "name": _short(value.partition("=")[2], 60), "label": ""})
        for turn, release in enumerate(releases):
            score = scores.get((value, release.label))
            if score is not None and score.mean is not None:
                span = _span(score.mean, score.ci_low, score.ci_high)
                about = {"tone": f"var(--c{turn + 1})", "shape": SHAPES[turn]}
                rows.append({"y": place * step + turn + 1.6, **about, **span, "label": ""})
    if not rows:
        return None
    marks = _intervals(rows, _domain(rows), width, high_y=len(values) * step, named=False)
    title = f"{page.primary} by {column}, with 95 % intervals"
    return draw(title, [*marks, *_names(names, width)], height=round(13 * step * len(values)))


def history_plot(page: Page, name: str, width: int) -> Drawing | None:
    """One METRIC.FIELD over the reports of the data set, oldest first; the shape changes with the signature."""
    import altair as alt

    moments: list[Moment] = [one for one in page.history if one.field == name and one.mean is not None]
    if len(moments) < 2:
        return None
    rows = [
        {"x": place, "at": f"{place:03d}", "name": f"{_short(one.release, 18)} v{one.version}"}
        | _span(one.mean or 0.0, one.low, one.high)
        | {"shape": SHAPES[(one.methods - 1) % len(SHAPES)]}
        for place, one in enumerate(moments)
    ]
    low, high = _domain(rows)
    angle = 0 if len(rows) * 130 <= width else -35
    labels = {row["at"]: row["name"] for row in rows}
    axis = alt.Axis(
        labelExpr=f"({literal(labels)})[datum.value]", labelAngle=angle, labelLimit=120, title=None, ticks=False, grid=False
    )
    base = alt.Chart(alt.Data(values=rows)).encode(x=alt.X("at:N", axis=axis, scale=alt.Scale(type="point", padding=0.5)))
    scale = alt.Scale(domain=[low, high], nice=False)
    y = alt.Y("mean:Q", scale=scale, axis=alt.Axis(title=None, tickCount=4, format=".3~f"))
    marks = [
        base.mark_line(color="var(--line)", strokeWidth=1.5).encode(y=y),
        base.mark_rule(color="var(--accent)", strokeWidth=2).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q"),
        base.mark_point(filled=True, size=60, opacity=1, color="var(--accent)").encode(y=y, shape=_verbatim("shape")),
    ]
    marks = [mark.properties(width=width) for mark in marks]
    return draw(f"{name} over the reports of {page.dataset}, with 95 % intervals", marks, height=170)


def _intervals(
    rows: Sequence[Row], domain: tuple[float, float], width: int, high_y: float | None = None, *, named: bool = True
) -> list[alt.Chart]:
    """Rules with a point, each under its name; the value stands at the right end."""
    import altair as alt

    marks = [{"tone": "var(--accent)", "shape": "circle", **row, "at": row["y"] + (0.68 if named else 0)} for row in rows]
    count = max(row["y"] for row in rows) + 1 if high_y is None else high_y
    base = alt.Chart(alt.Data(values=marks)).properties(width=width)
    x = alt.X("low:Q", scale=alt.Scale(domain=list(domain), nice=False), axis=_axis())
    y = alt.Y("at:Q", scale=alt.Scale(domain=[count, 0], nice=False), axis=None)
    thick = 3 if named else 1.8
    rule = base.mark_rule(strokeWidth=thick, strokeCap="round", opacity=0.55)
    point = base.mark_point(filled=True, size=70 if named else 42, opacity=1)
    return [
        rule.encode(x=x, x2="high:Q", y=y, color=_verbatim("tone")),
        point.encode(x=alt.X("mean:Q"), y=y, color=_verbatim("tone"), shape=_verbatim("shape")),
        *(_beside(rows, width) if named else []),
    ]


def _names(rows: Sequence[Row], width: int) -> list[alt.Chart]:
    """The name over the left end of each row, and its label over the right end."""
    return [
        _text(rows, 0, "left", "name", "var(--ink)", limit=SMALL - 60),
        _text(rows, width, "right", "label", "var(--muted)"),
    ]


def _text(rows: Sequence[Row], x: int, align: str, field: str, color: str, **look: Any) -> alt.Chart:
    import altair as alt

    base = alt.Chart(alt.Data(values=[{"top": row["y"], **row} for row in rows]))
    text = base.mark_text(align=align, color=color, fontSize=12, baseline="top", dy=4, **look)
    return text.encode(x=alt.value(x), y="top:Q", text=f"{field}:N")


def _beside(rows: Sequence[Row], width: int) -> list[alt.Chart]:
    """The name over each interval, and the value to the right of the plot, where no interval reaches."""
    values = [{**row, "y": row["y"] + 0.36} for row in rows]
    return [
        _text(rows, 0, "left", "name", "var(--ink)", limit=SMALL),
        _text(values, width + _VALUE, "right", "label", "var(--ink)"),
    ]


def _vertical(
    at: float, domain: tuple[float, float], width: int, color: str, dash: tuple[int, ...]
) -> alt.Chart:
    import altair as alt

    x = alt.X("low:Q", scale=alt.Scale(domain=list(domain), nice=False), axis=_axis())
    line = alt.Chart(alt.Data(values=[{"low": at}])).properties(width=width)
    return line.mark_rule(color=color, strokeDash=list(dash), strokeWidth=1.2).encode(x=x)


def _axis(*, hidden: bool = False) -> alt.Axis | None:
    import altair as alt

    return None if hidden else alt.Axis(title=None, tickCount=5, format="~g", labelFlush=False)


def _verbatim(field: str) -> Any:
    """An encoding that takes colours and shapes from the rows as they are."""
    import altair as alt

    return (alt.Shape if field == "shape" else alt.Color)(f"{field}:N", scale=None)


def _bins(place: int, one: Distribution) -> list[Row]:
    step, most = (one.high - one.low) / len(one.counts), max(one.counts)
    return [
        {"x": one.low + step * turn, "x2": one.low + step * (turn + 0.92), "top": place + 0.97 - height}
        | {"bottom": place + 0.97, "tone": "var(--accent)"}
        for turn, n in enumerate(one.counts)
        if n and (height := max(0.03, n / most * _TALLEST_BIN / _BIN_ROW))
    ]


def _shares(place: int, one: Distribution) -> list[Row]:
    """Ones from the left, then zeros, then what has no score."""
    total = sum(one.counts) + one.n_missing
    bars, start = [], 0.0
    tones = ("var(--accent)", "var(--bar)", "var(--paper)")
    for n, tone in zip((one.counts[1], one.counts[0], one.n_missing), tones, strict=True):
        if n:
            bars.append({"x": start, "x2": start + n / total, "top": place + 0.55, "bottom": place + 0.85, "tone": tone})
            start += n / total
    return bars


def _share_label(one: Distribution) -> str:
    scored = sum(one.counts)
    return f"{percent(one.counts[1] / scored)} of {scored:,}" if scored else "no score"


def _missing(one: Distribution) -> str:
    return f"{one.n_missing:,} without a score" if one.n_missing else ""


def _span(mean: float, low: float | None, high: float | None) -> dict[str, Any]:
    ends = {"low": mean if low is None else low, "high": mean if high is None else high}
    return {"mean": mean, **ends, "label": number(mean)}


def _domain(rows: Sequence[Row]) -> tuple[float, float]:
    """From the lowest to the highest end of the intervals, with room, and never so narrow that noise looks large."""
    low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
    room = max(0.08 * (high - low), (0.1 - (high - low)) / 2, 0.01)
    return low - room, high + room


def _score(scores: Sequence[Score], name: str) -> Score | None:
    return next((score for score in scores if f"{score.metric}.{score.field}" == name), None)


def _short(text: str, longest: int = 44) -> str:
    shown = visible(" ".join(text.split()))
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"
