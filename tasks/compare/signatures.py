"""What two signatures of a metric differ in, part by part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["judge", "prompt", "parser", "code", "settings"]

_JUDGE = ("judge", "jury", "repeats", "t", "seed")
_CODE = ("metric", "version")
"""The first parts of a signature, which have no names in it."""


@dataclass(frozen=True, slots=True)
class Change:
    """One part of a signature that changed: what kind of thing it is, and both values; None where one lacks it."""

    kind: Kind
    part: str
    old: str | None
    new: str | None

    def __str__(self) -> str:
        return f"{self.part} {self.old or 'none'} → {self.new or 'none'}"


def changes(old: str, new: str) -> tuple[Change, ...]:
    """The parts in which two signatures of one metric differ, in the order of the new one.

    A signature is `metric|vN|part:value|...`; `vN` counts the versions of the metric's code.
    """
    before, after = _parts(old), _parts(new)
    return tuple(
        Change(_kind(part), part, before.get(part), after.get(part))
        for part in dict.fromkeys([*after, *before])
        if before.get(part) != after.get(part)
    )


def _parts(signature: str) -> dict[str, str]:
    pieces = signature.split("|")
    named = dict(zip(_CODE, pieces, strict=False))
    for piece in pieces[len(_CODE) :]:
        part, _, value = piece.partition(":")
        named[part] = value
    return named


def _kind(part: str) -> Kind:
    if part in _JUDGE:
        return "judge"
    if part == "prompt":
        return "prompt"
    if part == "parser":
        return "parser"
    return "code" if part in _CODE else "settings"
