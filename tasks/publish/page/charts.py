"""The plots of the page: Vega-Lite specifications made with Altair, drawn to SVG without a browser or a network.

Colours are CSS variables, so one drawing follows the light, the dark and the printed page. Every number in a plot also
stands in a table beside it; the drawing itself is one image to a screen reader, and its title says what it shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from answerkey.metrics_core.comparison import Pair
from answerkey.tasks.publish.page.figures import percent, signed, visible
from answerkey.tasks.publish.page.marks import (
    SMALL,
    Row,
    axis_of,
    chart_of,
    domain_of,
    intervals,
    notch,
    row_names,
    span,
    verbatim,
    vertical,
)
from answerkey.tasks.publish.page.model import Distribution, Page
from answerkey.tasks.publish.page.svg import Drawing, draw, literal
from answerkey.tasks.reports.history import Moment
from answerkey.tasks.reports.report import Score

_ROW = 42
"""Height of a row with its name above the mark, in pixels."""
_BIN_ROW, _TALLEST_BIN = 50, 28
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
            rows.append({"y": place, "name": _short(release.label), **span(score.mean, score.ci_low, score.ci_high)})
    if not rows:
        return None
    marks = intervals(rows, _inside(domain_of(rows), rows), SMALL)
    return draw(f"{name} by release, with 95 % intervals", marks, height=_ROW * len(page.releases))


def _inside(domain: tuple[float, float], rows: Sequence[Row]) -> tuple[float, float]:
    """A scale without what no score can be: below 0, or above 1, where no interval is."""
    low, high = domain
    low = max(low, 0.0) if all(row["low"] >= 0 for row in rows) else low
    return low, min(high, 1.0) if all(row["high"] <= 1 for row in rows) else high


def difference_plot(pair: Pair, names: Sequence[str], width: int) -> Drawing | None:
    """New - old for the fields `names` over all rows, with intervals, and the margin of the gate at the first one."""
    chosen = [row for row in pair.overall if row.difference is not None and row.name in names]
    rows = [
        {"y": place, "name": row.name, "tone": _TONES.get(row.finding, "var(--muted)")}
        | span(row.difference or 0.0, row.low, row.high)
        | {"label": signed(row.difference)}
        for place, row in enumerate(chosen)
    ]
    if not rows:
        return None
    low, high = domain_of([*rows, {"low": 0.0, "high": 0.0}, {"low": -(pair.margin or 0.0), "high": 0.0}])
    marks = intervals(rows, (low, high), width)
    marks.insert(0, vertical(0.0, (low, high), width, "var(--muted)"))
    place = next((place for place, row in enumerate(chosen) if row.name == names[0]), None)
    if pair.margin and place is not None:
        marks.insert(0, notch(-pair.margin, place, len(rows), (low, high), width, "var(--worse)"))
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
    x = alt.X("x:Q", scale=alt.Scale(domain=[low, high], nice=False), axis=axis_of(hidden=binary))
    base = chart_of(bars, SMALL)
    y = alt.Y("top:Q", scale=alt.Scale(domain=[len(found), 0], nice=False), axis=None)
    marks = [base.mark_rect().encode(x=x, x2="x2:Q", y=y, y2="bottom:Q", color=verbatim("tone"))]
    return draw(
        f"{name}: how many rows have which score",
        [*marks, *row_names(names, SMALL)],
        height=(_ROW if binary else _BIN_ROW) * len(found),
    )


def slice_plot(page: Page, column: str, width: int) -> Drawing | None:
    """The primary field by the values of one slice column, a colour and a shape a release (the last `PALETTE`)."""
    releases = page.releases[-PALETTE:]
    scores = {
        (score.slice, release.label): score
        for release in releases
        for score in release.report.scores
        if f"{score.metric}.{score.field}" == page.primary and score.slice.startswith(f"{column}=")
    }
    values = list(dict.fromkeys(value for value, _ in scores))
    step = len(releases) + 1.8
    names = [
        {"y": place * step, "name": _short(value.partition("=")[2], 60), "label": ""}
        for place, value in enumerate(values)
    ]
    rows = [
        {"y": place * step + turn + 1.6, "tone": f"var(--c{turn + 1})", "shape": SHAPES[turn]}
        | span(score.mean, score.ci_low, score.ci_high)
        for place, value in enumerate(values)
        for turn, release in enumerate(releases)
        if (score := scores.get((value, release.label))) is not None and score.mean is not None
    ]
    if not rows:
        return None
    marks = intervals(rows, domain_of(rows), width, high_y=len(values) * step, named=False)
    title = f"{page.primary} by {column}, with 95 % intervals"
    return draw(title, [*marks, *row_names(names, width)], height=round(13 * step * len(values)))


def history_plot(page: Page, name: str, width: int) -> Drawing | None:
    """One METRIC.FIELD over the reports of the data set, oldest first; the shape changes with the signature."""
    import altair as alt

    moments: list[Moment] = [one for one in page.history if one.field == name and one.mean is not None]
    if len(moments) < 2:
        return None
    rows = [
        {"at": f"{place:03d}", "shape": SHAPES[(one.methods - 1) % len(SHAPES)]}
        | span(one.mean or 0.0, one.low, one.high)
        for place, one in enumerate(moments)
    ]
    labels = {f"{place:03d}": f"{_short(one.release, 18)} v{one.version}" for place, one in enumerate(moments)}
    angle = 0 if len(rows) * 130 <= width else -35
    x_axis = alt.Axis(
        labelExpr=f"({literal(labels)})[datum.value]", labelAngle=angle, labelLimit=120, title=None, grid=False
    )
    base = chart_of(rows, width).encode(
        x=alt.X("at:N", axis=x_axis, scale=alt.Scale(type="point", padding=0.5)),
    )
    scale = alt.Scale(domain=list(domain_of(rows)), nice=False)
    y = alt.Y("mean:Q", scale=scale, axis=alt.Axis(title=None, tickCount=4, format=".3~f"))
    marks = [
        base.mark_line(color="var(--line)", strokeWidth=1.5).encode(y=y),
        base.mark_rule(color="var(--accent)", strokeWidth=2).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q"),
        base.mark_point(filled=True, size=60, opacity=1, color="var(--accent)").encode(y=y, shape=verbatim("shape")),
    ]
    return draw(f"{name} over the reports of {page.dataset}, with 95 % intervals", marks, height=170)


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
    bars: list[Row] = []
    start = 0.0
    tones = ("var(--accent)", "var(--bar)", "var(--paper)")
    for n, tone in zip((one.counts[1], one.counts[0], one.n_missing), tones, strict=True):
        if n:
            end = start + n / total
            bars.append({"x": start, "x2": end, "top": place + 0.55, "bottom": place + 0.85, "tone": tone})
            start = end
    return bars


def _share_label(one: Distribution) -> str:
    scored = sum(one.counts)
    return f"{percent(one.counts[1] / scored)} of {scored:,}" if scored else "no score"


def _missing(one: Distribution) -> str:
    return f"{one.n_missing:,} without a score" if one.n_missing else ""


def _score(scores: Sequence[Score], name: str) -> Score | None:
    return next((score for score in scores if f"{score.metric}.{score.field}" == name), None)


def _short(text: str, longest: int = 44) -> str:
    shown = visible(" ".join(text.split()))
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"
