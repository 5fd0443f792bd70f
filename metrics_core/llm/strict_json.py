"""JSON that means one thing, and the error for everything else."""

from __future__ import annotations

import json
import math
from typing import Any, Literal

from answerkey.metrics_core.llm.untrusted import LONGEST_QUOTE, one_line, quoted

# fmt: off
Code = Literal[
    "no_answer", "not_json", "not_object", "no_score_fields", "conflict", "truncated", "unreadable", "null",
    "inconsistent", "ids", "no_room",
]
# fmt: on
"""What is wrong with a reply. `inconsistent` and `ids` are for what a metric checks, `no_room` for an answer of a model
under test that was cut off before it began."""


class Unreadable(Exception):
    """A reply that gives no verdict. `str` of it is the message.

    The message is one line for people and for the call that asks the judge again: it says what was wrong and
    shows at most a short quotation of the reply (see `shown.quoted`).
    """

    def __init__(self, code: Code, message: str) -> None:
        self.code = code
        self.message = one_line(message)
        super().__init__(code, self.message)

    def __str__(self) -> str:
        return self.message

    @property
    def repairable(self) -> bool:
        """Whether to ask once more. Not after a conflict: the judge was of two minds, or was talked into one. Nor where
        more room would be another request.
        """
        return self.code not in ("conflict", "no_room")


def load(text: str) -> Any:
    """The value of a JSON text. Line breaks within strings are allowed: models write them.

    Raises:
        Unreadable: "not_json", also for NaN and Infinity; "unreadable" for a number that no float holds and for
            nesting that Python cannot follow; "conflict" for one key with different values.
    """
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        near = quoted(text[error.pos : error.pos + LONGEST_QUOTE // 2])
        raise Unreadable("not_json", f"the JSON is not valid: {error.msg}, at {near}") from None
    except RecursionError:
        raise Unreadable("unreadable", "the JSON is nested too deeply") from None


def same(left: Any, right: Any) -> bool:
    """Whether two JSON values mean the same."""
    if left is right:
        return True
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise Unreadable("unreadable", f"the number {quoted(digits)} is too large")
    return number


def _whole(digits: str) -> int:
    _finite(digits)
    return int(digits)


def _no_constant(name: str) -> float:
    raise Unreadable("not_json", f"{name} is not JSON")


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if not same(result.setdefault(key, value), value):
            raise Unreadable("conflict", f"the reply gives the key {quoted(key)} two values")
    return result


_DECODER = json.JSONDecoder(
    strict=False,
    object_pairs_hook=_unambiguous,
    parse_int=_whole,
    parse_float=_finite,
    parse_constant=_no_constant,
)
