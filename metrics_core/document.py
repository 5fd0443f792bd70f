"""A YAML document that a user wrote, with the line of everything in it for messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import yaml

from answerkey.metrics_core.errors import UserError

_DEEPEST = 20
"""Levels of nesting. An alias can make a document that never ends."""


@dataclass(frozen=True, slots=True)
class Located:
    """A document, and the line of everything in it by its place: `judge.judges[0]`; the whole is the empty place."""

    file: str
    content: Any
    lines: Mapping[str, int]

    def where(self, place: str = "") -> str:
        """`FILE:LINE` of a place, or of the nearest thing around it that stands in the file."""
        while place and place not in self.lines:
            place = place[: max(place.rfind("."), place.rfind("["), 0)]
        return f"{self.file}:{self.lines.get(place, 1)}"

    def inside(self, place: str) -> Located:
        """The part of the document at a place that is in it: a key, or `key[0]`."""
        content = self.content
        for step in place.replace("[", ".[").split("."):
            if step:
                content = content[int(step[1:-1])] if step.startswith("[") else content[step]
        inner = {
            name.removeprefix(place).lstrip("."): line
            for name, line in self.lines.items()
            if name == place or name.startswith((f"{place}.", f"{place}["))
        }
        return Located(self.file, content, inner)


def read_located(file: Path | Traversable) -> Located:
    """A YAML file.

    Raises:
        UserError: it cannot be read, is not YAML, has a key twice, or is nested too deeply.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: cannot be read: {error}") from error
    lines: dict[str, int] = {}
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        content = None if node is None else _content(loader, node, "", lines, str(file))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UserError(f"{file}:{line}: not YAML: {error.problem}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise UserError(f"{file}: not YAML: {str(error).splitlines()[0]}") from error
    loader.dispose()
    return Located(str(file), content, lines)


def _content(loader: yaml.SafeLoader, node: yaml.Node, place: str, lines: dict[str, int], file: str) -> Any:
    lines.setdefault(place, node.start_mark.line + 1)
    if place.count(".") + place.count("[") > _DEEPEST:
        raise UserError(f"{file}:{node.start_mark.line + 1}: nested more than {_DEEPEST} levels deep")
    if isinstance(node, yaml.SequenceNode):
        return [_content(loader, item, f"{place}[{n}]", lines, file) for n, item in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        return dict(_pairs(loader, node, place, lines, file))
    return loader.construct_object(node)


def _pairs(
    loader: yaml.SafeLoader, node: yaml.MappingNode, place: str, lines: dict[str, int], file: str
) -> Iterator[tuple[str, Any]]:
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise UserError(f"{file}:{line}: a key must be a single word")
        inner = f"{place}.{key.value}" if place else str(key.value)
        if inner in lines:
            raise UserError(f"{file}:{line}: {key.value}: is here twice, first in line {lines[inner]}; keep one")
        lines[inner] = line
        yield str(key.value), _content(loader, value, inner, lines, file)
