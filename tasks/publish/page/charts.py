"""The plots of the page as plain SVG: intervals and a history.

Colours are CSS variables, so one drawing follows the light, the dark and the printed page. Every number in a plot also
stands in a table beside it; to a screen reader the drawing is one image, and its title says what it shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from markupsafe import Markup

from answerkey.metrics_core.comparison import Comparison
from answerkey.metrics_core.llm.untrusted import cut
from answerkey.tasks.compare.warnings import MOVES_WITH_LENGTH, confounded
from answerkey.tasks.publish.escape import typeset, visible
from answerkey.tasks.publish.page.model import Page
from answerkey.tasks.publish.text import signed
from answerkey.tasks.reports.report import ReportPoint

WIDE = 1000
NARROW = 290
"""Widths of a plot without its margins, in pixels, so that its text is about as large as the page's own."""
MOST_SLICES = 14
"""A column with more values than this has a table and no plot."""
SHAPES = {
    "circle": "M1,0A1,1,0,1,1,-1,0A1,1,0,1,1,1,0Z",
    "square": "M-.9,-.9H.9V.9H-.9Z",
    "triangle-up": "M0,-1L1.1,.9H-1.1Z",
    "diamond": "M0,-1.3L1,0L0,1.3L-1,0Z",
    "cross": "M-.4,-1.1H.4V-.4H1.1V.4H.4V1.1H-.4V.4H-1.1V-.4H-.4Z",
    "triangle-down": "M0,1L1.1,-.9H-1.1Z",
}
"""Shapes of releases and of signatures, as SVG paths of about one unit each way; see also page.css."""
PALETTE = len(SHAPES)
"""How many colours and shapes the page has for releases."""

_ROW = 42
_LOW_ROW = 30
_SLICE_ROW = 13
_HISTORY = 170
"""Heights in pixels: of a row with a name above its mark, or beside it, of a histogram, its tallest bar, and so on."""
_LETTER = 7
_WIDEST_NAME = 400
"""Widths in pixels: of a letter, about, and of the column of names beside the marks of a wide plot, at most."""
_VALUE = 46
"""Room for a value to the right of the intervals, where no interval reaches."""
_PAD = 4
_AXIS = 22
_NAME = 15
"""Room for a slanted name below a mark."""
_TONES: Mapping[str | None, str] = {"better": "var(--better)", "worse": "var(--worse)"}


Drawings = dict[str, Markup]
"""A plot as SVG by the screens that it is for: any, or one wide and one narrow. Empty where there is no number."""


def difference_plots(comparison: Comparison, names: Sequence[str]) -> Drawings:
    """Draw the differences of the fields `names`; see `difference_plot`."""
    return _by_screen(partial(difference_plot, comparison, names))


def slice_plots(page: Page) -> dict[str, Drawings]:
    """Draw the primary field by the values of each slice column that has few; see `slice_plot`."""
    plots = {}
    for column, n_values in page.slice_columns.items():
        drawings = _by_screen(partial(slice_plot, page, column)) if n_values <= MOST_SLICES else {}
        if drawings:
            plots[column] = drawings
    return plots


def history_plots(
    history: Sequence[ReportPoint], names: Sequence[str], primary: str = "", anchors: Mapping[str, float] | None = None
) -> dict[str, Drawings]:
    """Draw each of the fields `names` over time, and the `primary` one also for a wide screen; see `history_plot`.

    `anchors` has the means of the anchor by field.
    """
    plots = {}
    for name in names:
        drawings = _by_screen(partial(history_plot, history, name, anchor=(anchors or {}).get(name)))
        if drawings:
            plots[name] = drawings if name == primary else {"any": drawings["narrow"]}
    return plots


def _by_screen(draw: Callable[[int], Markup | None]) -> Drawings:
    drawings = {"wide": draw(WIDE), "narrow": draw(NARROW)}
    return {screen: svg for screen, svg in drawings.items() if svg}


@dataclass(slots=True)
class _Interval:
    """A mean with the ends of its 95 % interval, which are the mean where it has none."""

    mean: float
    low: float | None
    high: float | None
    name: str = ""
    tone: str = "var(--accent)"
    shape: str = "circle"
    margin: float | None = None
    doubtful: bool = False

    @property
    def ends(self) -> tuple[float, float]:
        return (self.mean if self.low is None else self.low), (self.mean if self.high is None else self.high)


def difference_plot(comparison: Comparison, names: Sequence[str], width: int) -> Markup | None:
    """New - old for the fields `names` over all rows, with intervals; the first with the non-inferiority margin."""
    doubtful = confounded(comparison)
    rows = []
    for field in comparison.overall:
        # Seconds, dollars and tokens have no axis in common with scores
        if field.difference is None or field.name not in names or field.lower_is_better:
            continue
        # Grey where nothing is shown, or where the score moves with length alone
        interval = _Interval(field.difference, field.low, field.high, field.name)
        interval.tone = _TONES.get(field.finding, "var(--muted)")
        if field.name == names[0]:
            interval.margin = comparison.margin
        if field.name in doubtful:
            interval.name = f"{field.name} ({MOVES_WITH_LENGTH})"
            interval.tone = "var(--muted)"
            interval.doubtful = True
        rows.append(interval)
    if not rows:
        return None
    domain = _domain([*(row.ends for row in rows), (-(comparison.margin or 0.0), 0.0)])

    # A row for each interval, with its value beside it; its name is in a column, or above it in a narrow plot
    beside = width == WIDE
    longest = max(len(row.name) for row in rows)
    names_width = min(_WIDEST_NAME, _LETTER * longest) + 16 if beside else 0
    step = _LOW_ROW if beside else _ROW
    height = step * len(rows)
    right = width + _VALUE
    x = _scale(domain, width - names_width, names_width)
    shapes = list(_ticks_below(domain, x, height))
    for index, row in enumerate(rows):
        top = index * step
        middle = top + step * (0.5 if beside else 0.72)
        if index:
            shapes.append(_line((0, top), (right, top), "var(--rule)", 1))
        # Not through the name above the interval
        zero = x(0.0)
        shapes.append(_line((zero, top if beside else middle - 9), (zero, top + step), "var(--muted)", 1.2))
        if row.margin:
            loss = x(-row.margin)
            shapes.append(_line((loss, middle - 12), (loss, middle + 12), "var(--worse)", 1.8, dash="4,3"))
        shapes += _bar(row, x, middle, thickness=3, size=4.7)
        name = _short(row.name, _WIDEST_NAME // _LETTER)
        shapes.append(_text(0, middle + 4 if beside else top + 16, name, "start", muted=row.doubtful))
        shapes.append(_text(right, middle + 4, typeset(signed(row.mean)), "end", muted=row.doubtful))
    title = f"{comparison.new} minus {comparison.old}, with 95 % intervals"
    return _svg(title, right, height + _AXIS, shapes)


def slice_plot(page: Page, column: str, width: int) -> Markup | None:
    """The primary field by the values of one slice column, a colour and a shape per release (the last `PALETTE`)."""
    # The interval of each release by the values of the column; None where it has no mean
    releases = page.releases[-PALETTE:]
    rows: dict[str, list[_Interval | None]] = {}
    for index, (release, shape) in enumerate(zip(releases, SHAPES, strict=False)):
        for score in release.report.scores:
            slice_column, _, value = score.slice.partition("=")
            if score.name == page.primary and slice_column == column:
                intervals = rows.setdefault(value, [None] * len(releases))
                if score.mean is not None:
                    tone = f"var(--c{index + 1})"
                    intervals[index] = _Interval(score.mean, score.ci_low, score.ci_high, tone=tone, shape=shape)
    ends = [interval.ends for interval in chain(*rows.values()) if interval]
    if not ends:
        return None

    # The name of each value, and below it an interval for each release
    domain = _domain(ends)
    x = _scale(domain, width)
    step = _SLICE_ROW * (len(releases) + 1.8)
    height = step * len(rows)
    shapes = list(_ticks_below(domain, x, height))
    for row_index, (value, intervals) in enumerate(rows.items()):
        top = row_index * step
        shapes.append(_text(0, top + 14, _short(value, 60), "start"))
        for index, interval in enumerate(intervals):
            if interval:
                shapes += _bar(interval, x, top + _SLICE_ROW * (index + 1.9), thickness=1.8, size=3.8)
    return _svg(f"{page.primary} by {column}, with 95 % intervals", width, height + _AXIS, shapes)


def history_plot(history: Sequence[ReportPoint], name: str, width: int, anchor: float | None = None) -> Markup | None:
    """One METRIC.FIELD in the newest report of each release, or in all of a single one; oldest first.

    The shape changes with the signature. `anchor` is the mean of the report that all are held against in the end, which
    gets a dashed line.
    """
    points = [point for point in history if point.field == name]
    newest = {point.release: point for point in points}
    several = len(newest) > 1
    rows = []
    for point in newest.values() if several else points:
        if point.mean is not None:
            label = _short(point.release, 18) if several else f"v{point.version}"
            shape = list(SHAPES)[(point.methods - 1) % len(SHAPES)]
            rows.append(_Interval(point.mean, point.low, point.high, label, shape=shape))
    if len(rows) < 2:
        return None

    # The oldest report to the left, the highest value above
    domain = _domain([row.ends for row in rows] + ([] if anchor is None else [(anchor, anchor)]))
    y = _scale(domain, -_HISTORY, _HISTORY)
    axis_width = 44
    step = (width - axis_width) / len(rows)
    positions = [axis_width + step * (index + 0.5) for index in range(len(rows))]

    # Of very many the names would lie on each other: every second one is named, or fewer, and always the newest
    slanted = len(rows) * (_LETTER * max(len(row.name) for row in rows) + 16) > width
    labels_step = math.ceil(_NAME * len(rows) / (width - axis_width)) if slanted else 1

    # The axis, a line through all means, and the intervals
    shapes = []
    for value in _ticks(*domain, 4):
        shapes.append(_line((axis_width, y(value)), (width, y(value)), "var(--rule)", 1))
        shapes.append(_text(axis_width - 8, y(value) + 4, _plain(value), "end", muted=True))
    if anchor is not None:
        shapes.append(_line((axis_width, y(anchor)), (width, y(anchor)), "var(--muted)", 1.5, dash="4,3"))
    path = "L".join(f"{_px(x)},{_px(y(row.mean))}" for x, row in zip(positions, rows, strict=True))
    shapes.append(Markup('<path d="M{}" fill="none" stroke="var(--line)" stroke-width="1.5"/>').format(path))
    for number, (x, row) in enumerate(zip(positions, rows, strict=True), 1):
        low, high = row.ends
        shapes.append(_line((x, y(low)), (x, y(high)), row.tone, 2))
        shapes.append(_mark(row, x, y(row.mean), 4.3))
        if (len(rows) - number) % labels_step == 0:
            aligned = "end" if slanted else "middle"
            shapes.append(_text(x, _HISTORY + 18, row.name, aligned, muted=True, slanted=slanted))
    dataset = history[0].report_id.partition("/")[0]
    title = f"{name} over the releases of {dataset}, with 95 % intervals"
    return _svg(title, width, _HISTORY + (86 if slanted else 28), shapes)


def _domain(ends: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """From the lowest to the highest end of the intervals, with room, and never so narrow that noise looks large."""
    low = min(end[0] for end in ends)
    high = max(end[1] for end in ends)
    padding = max(0.08 * (high - low), (0.1 - (high - low)) / 2, 0.01)
    return low - padding, high + padding


def _scale(domain: tuple[float, float], length: float, start: float = 0.0) -> Callable[[float], float]:
    low, high = domain
    return lambda value: start + (value - low) / (high - low) * length


def _ticks(low: float, high: float, max_ticks: int = 5) -> list[float]:
    """At most about `max_ticks` round numbers from `low` to `high`: steps of 1, 2 or 5 times a power of ten."""
    power = 10 ** math.floor(math.log10((high - low) / max_ticks))
    step = next(factor * power for factor in (1, 2, 5, 10) if (high - low) / (factor * power) <= max_ticks + 0.5)
    return [number * step for number in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _ticks_below(domain: tuple[float, float], x: Callable[[float], float], height: float) -> Iterator[Markup]:
    for value in _ticks(*domain):
        yield _line((x(value), 0), (x(value), height), "var(--rule)", 1)
        yield _text(x(value), height + 16, _plain(value), "middle", muted=True)


def _bar(row: _Interval, x: Callable[[float], float], y: float, *, thickness: float, size: float) -> list[Markup]:
    low, high = row.ends
    return [_line((x(low), y), (x(high), y), row.tone, thickness, faint=True), _mark(row, x(row.mean), y, size)]


def _mark(row: _Interval, x: float, y: float, size: float) -> Markup:
    return Markup('<path d="{}" transform="translate({},{}) scale({})" fill="{}"/>').format(
        SHAPES[row.shape], _px(x), _px(y), size, row.tone
    )


def _line(
    start: tuple[float, float],
    end: tuple[float, float],
    tone: str,
    thickness: float,
    *,
    dash: str = "",
    faint: bool = False,
) -> Markup:
    look = Markup(' stroke-dasharray="{}"').format(dash) if dash else ""
    look += Markup(' stroke-linecap="round" stroke-opacity="0.55"') if faint else ""
    ends = map(_px, (*start, *end))
    return Markup('<line x1="{}" y1="{}" x2="{}" y2="{}" stroke="{}" stroke-width="{}"{}/>').format(
        *ends, tone, thickness, look
    )


def _text(x: float, y: float, text: str, anchor: str, *, muted: bool = False, slanted: bool = False) -> Markup:
    if not text:
        return Markup()
    tone, size = ("var(--muted)", 11) if muted else ("var(--ink)", 12)
    rotation = Markup(' transform="rotate(-35 {} {})"').format(_px(x), _px(y)) if slanted else ""
    attributes = Markup('x="{}" y="{}" text-anchor="{}"').format(_px(x), _px(y), anchor)
    look = Markup('font-size="{}" fill="{}"{}').format(size, tone, rotation)
    return Markup("<text {} {}>{}</text>").format(attributes, look, text)


def _svg(title: str, width: float, height: float, shapes: Iterable[Markup]) -> Markup:
    size = f"{-_PAD} {-_PAD} {_px(width + 2 * _PAD)} {_px(height + 2 * _PAD)}"
    return Markup('<svg xmlns="http://www.w3.org/2000/svg" viewBox="{}" role="img" aria-label="{}">{}</svg>').format(
        size, visible(title), Markup().join(shapes)
    )


def _px(value: float) -> str:
    return f"{round(value, 1):g}"


def _plain(value: float) -> str:
    """A number on an axis: few digits, and a true minus."""
    return f"{round(value, 10):g}".replace("-", "\u2212")


def _short(text: str, longest: int) -> str:
    return cut(visible(" ".join(text.split())), longest)
