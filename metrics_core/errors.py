"""The error for input that the user can correct."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class UserError(Exception):
    """The input cannot be used as it is. The message is one line: the problem, where it is, and what to do.

    The command line prints it without a traceback and exits with code 2.
    """


def did_you_mean(name: str, known_names: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, or an empty text.

    >>> did_you_mean("rouge_l.f2", ["bleu.bleu", "rouge_l.f1"])
    '; did you mean rouge_l.f1?'
    >>> did_you_mean("x", ["bleu.bleu"])
    ''
    """
    matches = difflib.get_close_matches(name, list(known_names), n=1)
    return f"; did you mean {matches[0]}?" if matches else ""


def choice(name: str, known_names: Iterable[str]) -> str:
    """A suggestion for an unknown name: the nearest known one, or all of them.

    >>> choice("rouge_f", ["bleu", "rouge_l"]), choice("x", ["bleu", "rouge_l"])
    ('did you mean rouge_l?', 'choose from bleu, rouge_l')
    """
    names = list(known_names)
    return did_you_mean(name, names).removeprefix("; ") or f"choose from {', '.join(names)}"


def listed(names: Sequence[str], max_listed: int = 5) -> str:
    """A list of names for a message, shortened if it is long.

    >>> listed(["a", "b"]), listed(list("abcdefgh"))
    ('a, b', 'a, b, c, d, e and 3 more')
    """
    line = ", ".join(names[:max_listed])
    n_more = len(names) - max_listed
    return f"{line} and {n_more:,} more" if n_more > 0 else line
