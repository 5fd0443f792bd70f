"""The error for input that the user can correct."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class UserError(Exception):
    """The input cannot be used as it is. The message is one line: the problem, where it is, and what to do.

    The command line prints it without a traceback and exits with code 2.
    """


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, or an empty text.

    >>> did_you_mean("rouge_l.f2", ["bleu.bleu", "rouge_l.f1"])
    '; did you mean rouge_l.f1?'
    >>> did_you_mean("x", ["bleu.bleu"])
    ''
    """
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def choice(name: str, known: Iterable[str]) -> str:
    """A suggestion for an unknown name: the nearest known one, or all of them.

    >>> choice("rouge_f", ["bleu", "rouge_l"]), choice("x", ["bleu", "rouge_l"])
    ('did you mean rouge_l?', 'choose from bleu, rouge_l')
    """
    names = list(known)
    return did_you_mean(name, names).removeprefix("; ") or f"choose from {', '.join(names)}"


def listed(names: Sequence[str], most: int = 5) -> str:
    """A list of names for a message, shortened if it is long.

    >>> listed(["a", "b"]), listed(list("abcdefgh"))
    ('a, b', 'a, b, c, d, e and 3 more')
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")
