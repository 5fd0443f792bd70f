"""A cache of what Great Expectations found, in a file of the home: the same version finds it again in the same input.

A second run on known data does not import the library, which would take longer than anything else that such a run does.
Keys are the `content_hash` of what was asked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from answerkey.tasks.warehouse.store import atomic_write

FOLDER = "great_expectations"
"""The folder of a home with everything of the library."""
_FILE = "known.json"
_VERSION = "great-expectations"
_MAX_OUTCOMES = 4_096
"""Outcomes that are kept: the newest."""


def cached(home: Path) -> dict[str, Any]:
    """The cached outcomes in the folder of a home, by key; none of another version of the library."""
    try:
        document = json.loads((home / FOLDER / _FILE).read_text(encoding="utf-8"))
        return dict(document["outcomes"]) if document["version"] == version(_VERSION) else {}
    except (OSError, ValueError, KeyError, TypeError):
        # To know nothing costs time, and is never wrong.
        return {}


def add_to_cache(home: Path, outcomes: Mapping[str, Any]) -> None:
    """Add outcomes to the cache; of more than `_MOST`, the oldest go.

    Two processes that do this at once may lose what one of them has added, which is then asked again.
    """
    newest = [*{**cached(home), **outcomes}.items()][-_MAX_OUTCOMES:]
    with atomic_write(home / FOLDER / _FILE) as file:
        file.write_text(json.dumps({"version": version(_VERSION), "outcomes": dict(newest)}), encoding="utf-8")
