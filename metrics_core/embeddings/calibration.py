"""People's ratings of pairs of texts by the cosine of their embeddings: a map per packaged model and script.

The meaning of a cosine of .8 depends on the model. The ratings are those of STS-B, from 0 (about
different things) to 5 (the same meaning), divided by 5: 1,500 pairs in English, and as many in Russian. Texts in Latin
script have the map of the English pairs, texts in Cyrillic that of the Russian ones, and all others that of both
together, which nobody has rated: `benchmarks/semantic.py` makes the maps.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path

import regex

Knots = Sequence[Sequence[float]]
"""Pairs of a cosine and the mean rating around it, both increasing. Between them the map is linear."""

ENGLISH = "English"
RUSSIAN = "Russian"
BOTH = "English and Russian"
"""The rated pairs of a map."""

KNOTS: Mapping[str, Mapping[str, Knots]] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
"""The maps by model and by the pairs that they are made of."""

BANDS = ((0.9, "nearly identical"), (0.7, "same core"), (0.5, "overlap"), (0.0, "little in common"))
"""The meaning of ratings from a number."""

_MAX_CHARS = 1_000
_LATIN = regex.compile(r"\p{Latin}")
_CYRILLIC = regex.compile(r"\p{Cyrillic}")
_LETTER = regex.compile(r"\p{L}")


def pairs_for(*texts: str) -> str:
    """The rated pairs for texts, by the script of most of their letters.

    >>> pairs_for("It is Paris.", "Paris"), pairs_for("Это Париж."), pairs_for("巴黎")
    ('English', 'Russian', 'English and Russian')
    """
    text = " ".join(sample_text[:_MAX_CHARS] for sample_text in texts)
    letters = len(_LETTER.findall(text))
    if 2 * len(_LATIN.findall(text)) > letters:
        return ENGLISH
    return RUSSIAN if 2 * len(_CYRILLIC.findall(text)) > letters else BOTH


def rating(model: str, pairs: str, cosine: float) -> float:
    """The mean rating, in 0..1, that people give to texts with a cosine in -1..1; 1 for the cosine 1.

    >>> rating("use-multilingual", ENGLISH, 1.0)
    1.0
    """
    return mapped(KNOTS[model][pairs], cosine)


def mapped(knots: Knots, cosine: float) -> float:
    """A cosine in -1..1 on a map that begins with 0 for -1 and ends with 1 for 1.

    >>> mapped([(0.0, 0.0), (0.5, 0.25)], 0.25), mapped([(0.0, 0.0), (0.5, 0.25)], -1.0)
    (0.125, 0.0)
    """
    knots = [(-1.0, 0.0), *knots, (1.0, 1.0)]
    position = min(bisect_right(knots, cosine, key=itemgetter(0)), len(knots) - 1)
    x, y = knots[position - 1]
    x_next, y_next = knots[position]
    return min(1.0, y + (y_next - y) * (cosine - x) / (x_next - x))


def band(rating: float) -> str:
    """The meaning of a rating in 0..1.

    >>> band(0.93), band(0.9), band(0.69), band(0.0)
    ('nearly identical', 'nearly identical', 'overlap', 'little in common')
    """
    return next(name for lowest, name in BANDS if rating >= lowest)
