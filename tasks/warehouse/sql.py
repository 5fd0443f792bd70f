"""The SQL of a module, kept in a file of the same name beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources


@cache
def statements(module: str) -> Mapping[str, str]:
    """The statements of a module by name: `statements(__name__)["scores"]`.

    They stand in MODULE.sql beside MODULE.py, each below a line `-- name: NAME`. Values are passed as parameters, and
    what a statement needs from another one of the same file is a temporary table or view that has its name.
    """
    package, _, name = module.rpartition(".")
    _, *parts = re.split(r"^-- name: (\w+)\n", text(package, f"{name}.sql"), flags=re.MULTILINE)
    return dict(zip(parts[::2], (part.strip() for part in parts[1::2]), strict=True))


def text(package: str, file: str) -> str:
    """A file of a package as text."""
    return resources.files(package).joinpath(file).read_text(encoding="utf-8")
