"""The error for input that the user can correct."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class UserError(Exception):
    """The input cannot be used as it is. The message is one line: what, where, and what to do.

    The command line prints it without a traceback and exits with code 2.
    """


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, or nothing.

    >>> did_you_mean("rouge_l.f2", ["bleu.bleu", "rouge_l.f1"])
    '; did you mean rouge_l.f1?'
    >>> did_you_mean("x", ["bleu.bleu"])
    ''
    """
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def listed(names: Sequence[str], most: int = 5) -> str:
    """Names for a message, of which there may be many.

    >>> listed(["a", "b"]), listed(list("abcdefgh"))
    ('a, b', 'a, b, c, d, e and 3 more')
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")
