"""A YAML document that a user wrote, with the line of everything in it for messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import yaml

from answerkey.metrics_core.errors import UserError

_MAX_DEPTH = 20
"""Levels of nesting. An alias can make a document that never ends."""
_TAGS = ("tag:yaml.org,2002:seq", "tag:yaml.org,2002:map")
_MAX_VALUES = 200_000
"""The largest number of values in a document. A few lines of nested aliases can stand for billions."""


@dataclass(frozen=True, slots=True)
class Located:
    """A document, and the line of each value by its path, such as `judge.judges[0]`; the path of the whole is empty."""

    file: str
    content: Any
    lines: Mapping[str, int]

    def where(self, path: str = "") -> str:
        """`FILE:LINE` of a path, or of the nearest enclosing value."""
        while path and path not in self.lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return f"{self.file}:{self.lines.get(path, 1)}"

    def inside(self, path: str) -> Located:
        """The part of the document at an existing path: a key, or `key[0]`."""
        content = self.content
        for step in path.replace("[", ".[").split("."):
            if step:
                content = content[int(step[1:-1])] if step.startswith("[") else content[step]
        # The paths below it, without its own
        inner = {
            name.removeprefix(path).lstrip("."): line
            for name, line in self.lines.items()
            if name == path or name.startswith((f"{path}.", f"{path}["))
        }
        return Located(self.file, content, inner)


def is_text(source: str) -> bool:
    """Whether a text is the content of a YAML file and not a path: it has several lines, or a brace."""
    return "\n" in source or "{" in source


def read_yaml(source: str, what: str) -> Located:
    """Read YAML (or JSON, which is YAML) from a path or a text.

    Args:
        what: the name of the document in messages, if it is given as a text.

    Raises:
        UserError: it cannot be read, is not YAML, has a key twice, or is nested too deeply.
    """
    return _parsed(source, what) if is_text(source) else read_located(Path(source))


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
        content = None if node is None else _content(node, loader, file=file, path="", lines=lines)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UserError(
            f"{file}:{line}: not YAML: {error.problem}; check the indentation, and put a text with a colon, bracket or "
            "star in quotes"
        ) from error
    except RecursionError as error:
        raise UserError(f"{file}: nested more than {_MAX_DEPTH} levels deep") from error
    except (yaml.YAMLError, ValueError) as error:
        raise UserError(f"{file}: not YAML: {str(error).splitlines()[0]}") from error
    loader.dispose()
    return Located(file, content, lines)


def _content(node: yaml.Node, loader: yaml.SafeLoader, *, file: str, path: str, lines: dict[str, int]) -> Any:
    """Return the plain value of a node, and note in `lines` where everything in it is."""
    # Limits first: a few lines can describe a document without an end
    line = node.start_mark.line + 1
    lines.setdefault(path, line)
    if len(lines) > _MAX_VALUES:
        raise UserError(f"{file}:{line}: more than {_MAX_VALUES:,} values")
    if path.count(".") + path.count("[") > _MAX_DEPTH:
        raise UserError(f"{file}:{line}: nested more than {_MAX_DEPTH} levels deep")
    if not isinstance(node, yaml.ScalarNode) and node.tag not in _TAGS:
        raise UserError(f"{file}:{line}: not YAML: {node.tag.rpartition(':')[2]} is not a tag; leave it out")
    if isinstance(node, yaml.SequenceNode):
        values = []
        for n, value_node in enumerate(node.value):
            values.append(_content(value_node, loader, file=file, path=f"{path}[{n}]", lines=lines))
        return values
    if not isinstance(node, yaml.MappingNode):
        return loader.construct_object(node)

    content = {}
    for key, value_node in node.value:
        key_line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise UserError(f"{file}:{key_line}: a key must be a single word")
        inner = f"{path}.{key.value}" if path else str(key.value)
        # YAML would keep the last of two values of a key
        if inner in lines:
            first_line = lines[inner]
            raise UserError(f"{file}:{key_line}: {key.value}: is here twice, first in line {first_line}; keep one")
        lines[inner] = key_line
        content[str(key.value)] = _content(value_node, loader, file=file, path=inner, lines=lines)
    return content
