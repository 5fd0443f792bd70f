"""From Altair's layers to an SVG that may stand inside the page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

if TYPE_CHECKING:
    import altair as alt

_NAMESPACE = "{http://www.w3.org/2000/svg}"
_ELEMENTS = frozenset({"svg", "g", "path", "line", "rect", "text", "tspan", "circle", "clipPath", "defs", "title"})
_ATTRIBUTES = frozenset(
    {
        "width", "height", "viewBox", "transform", "d", "x", "y", "x1", "x2", "y1", "y2", "r", "cx", "cy", "dx", "dy",
        "fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-opacity",
        "stroke-miterlimit", "opacity", "text-anchor", "font-size", "font-weight",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Drawing:
    """A plot as SVG, its title for people who do not see it, and its width in pixels."""

    svg: str
    title: str
    width: int


def draw(title: str, layers: Sequence[alt.Chart], *, height: int) -> Drawing:
    """The layers in one plot of `height` pixels, over each other in their order."""
    import altair as alt
    import vl_convert

    chart = alt.layer(*layers).properties(height=height).resolve_scale(color="independent", shape="independent")
    specification = {**chart.to_dict(validate=False), "background": None, "config": _CONFIG, "padding": 4}
    version = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    return clean(vl_convert.vegalite_to_svg(specification, vl_version=version), title)


_CONFIG: Mapping[str, Any] = {
    "font": "Arial",
    "view": {"stroke": None},
    "axis": {
        "labelColor": "var(--muted)", "labelFontSize": 11, "gridColor": "var(--rule)", "domain": False, "ticks": False,
        "labelPadding": 6,
    },
}  # fmt: skip


def clean(svg: str, title: str) -> Drawing:
    """Only shapes, text and their looks: no scripts, styles, links or names, whatever drew it and from whatever data.

    Raises:
        ValueError: it is not an SVG.
    """
    try:
        root = ElementTree.fromstring(svg)
    except ElementTree.ParseError as error:
        raise ValueError(f"{title}: the drawing is not an SVG: {error}") from error
    _keep(root)
    width = round(float(root.attrib["width"]))
    root.set("role", "img")
    root.set("aria-label", title)
    ElementTree.register_namespace("", _NAMESPACE.strip("{}"))
    return Drawing(ElementTree.tostring(root, encoding="unicode"), title, width)


def _keep(element: ElementTree.Element) -> None:
    for name in [name for name in element.attrib if name not in _ATTRIBUTES]:
        del element.attrib[name]
    for child in list(element):
        # Vega draws an empty background under every group.
        if child.tag.removeprefix(_NAMESPACE) not in _ELEMENTS or child.get("display") == "none":
            element.remove(child)
        else:
            _keep(child)


def literal(value: Mapping[str, str]) -> str:
    """A mapping as a Vega expression."""
    return json.dumps(value)
