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
_TAGS = ("tag:yaml.org,2002:seq", "tag:yaml.org,2002:map")
_MOST_VALUES = 200_000
"""Of a document. A few lines of aliases of aliases can stand for billions."""


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


def is_text(given: str) -> bool:
    """Whether this is the content of a YAML file, and not its path: it has several lines, or a brace."""
    return "\n" in given or "{" in given


def read_yaml(given: str, what: str) -> Located:
    """A file of YAML (or JSON, which is YAML), given as its path or its text.

    Args:
        what: how messages call a text.

    Raises:
        UserError: it cannot be read, is not YAML, has a key twice, or is nested too deeply.
    """
    return _parsed(given, what) if is_text(given) else read_located(Path(given))


def read_located(file: Path | Traversable) -> Located:
    """A YAML file.

    Raises:
        UserError: it cannot be read, is not YAML, has a key twice, or is nested too deeply.
    """
    try:
        return _parsed(file.read_text(encoding="utf-8").removeprefix("\ufeff"), str(file))
    except OSError as error:
        raise UserError(f"{file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{file}: cannot be read: {error}") from error


def _parsed(text: str, file: str) -> Located:
    lines: dict[str, int] = {}
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        content = None if node is None else _content(loader, node, "", lines, file)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UserError(
            f"{file}:{line}: not YAML: {error.problem}; check the indentation, and put a text with a colon, bracket or "
            "star in quotes"
        ) from error
    except RecursionError as error:
        raise UserError(f"{file}: nested more than {_DEEPEST} levels deep") from error
    except (yaml.YAMLError, ValueError) as error:
        raise UserError(f"{file}: not YAML: {str(error).splitlines()[0]}") from error
    loader.dispose()
    return Located(file, content, lines)


def _content(loader: yaml.SafeLoader, node: yaml.Node, place: str, lines: dict[str, int], file: str) -> Any:
    lines.setdefault(place, node.start_mark.line + 1)
    if len(lines) > _MOST_VALUES:
        raise UserError(f"{file}:{node.start_mark.line + 1}: more than {_MOST_VALUES:,} values")
    if place.count(".") + place.count("[") > _DEEPEST:
        raise UserError(f"{file}:{node.start_mark.line + 1}: nested more than {_DEEPEST} levels deep")
    if not isinstance(node, yaml.ScalarNode) and node.tag not in _TAGS:
        raise UserError(
            f"{file}:{node.start_mark.line + 1}: not YAML: {node.tag.rpartition(':')[2]} is no tag; leave it out"
        )
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
