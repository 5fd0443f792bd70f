"""Ids as people spell them: `1`, `001`, `1.0` and ` 1 ` are one id, unless one file has two of these.

This module provides:
- plain_id: the spelling by which ids of two files are compared
- by_plain_id: the ids of a file by that spelling
- respelled: which ids of one file are spelled otherwise in another
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping

_BLANKS = "\ufeff\u200b"
"""What cannot be seen around an id, besides white space."""


def plain_id(text: str) -> str:
    """Return an id without blanks around it; a whole number without leading zeros and decimals.

    >>> plain_id(" 007 "), plain_id("7.0"), plain_id("q-1\\r\\n"), plain_id("1.10")
    ('7', '7', 'q-1', '1.10')
    """
    text = unicodedata.normalize("NFC", text).strip().strip(_BLANKS).strip()
    number = re.fullmatch(r"0*([0-9]+)(?:\.0+)?", text)
    return number[1] if number else text


def by_plain_id(ids: Iterable[str]) -> dict[str, set[str]]:
    """Return the ids of a file by their plain spelling."""
    spellings = defaultdict(set)
    for spelling in ids:
        spellings[plain_id(spelling)].add(spelling)
    return dict(spellings)


def respelled(ids: Mapping[str, set[str]], known_ids: Mapping[str, set[str]]) -> dict[str, str]:
    """Return which known id is meant by each id that is none, but is spelled like one.

    An id is left out if two ids of one of the sides are spelled alike: nobody could tell which is meant.

    Args:
        ids: by their plain spelling, as `by_plain_id` has them.
        known_ids: the same of the other file.

    >>> respelled(by_plain_id(["1", "2", "3", "03"]), by_plain_id(["1.0", "2", "3.0"]))
    {'1': '1.0'}
    """
    matches = {}
    for plain, spellings in ids.items():
        known_spellings = known_ids.get(plain, set())
        if len(spellings) == 1 and len(known_spellings) == 1 and spellings != known_spellings:
            matches[next(iter(spellings))] = next(iter(known_spellings))
    return matches
