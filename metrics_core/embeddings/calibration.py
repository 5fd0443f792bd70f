"""What people say of two texts whose embeddings have a given cosine: a monotone map per packaged model and script.

A cosine of .8 means one thing with one model and another with the next. The ratings are those of STS-B, from 0 (about
different things) to 5 (the same meaning), divided by 5: 1,500 pairs in English, and as many in Russian. Texts in Latin
script have the map of the English pairs, texts in Cyrillic that of the Russian ones, and all others that of both
together, which nobody has rated: `benchmarks/semantic.py` makes the maps.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

import regex

Knots = Sequence[tuple[float, float]]
"""Pairs of a cosine and the mean rating of pairs around it, both rising. Between them the map is a straight line."""

ENGLISH, RUSSIAN, BOTH = "English", "Russian", "English and Russian"
"""The pairs that a map is made of."""

KNOTS: Mapping[str, Mapping[str, Knots]] = {
    "use-multilingual": {
        ENGLISH: (
            (0.09, 0.055), (0.215, 0.137), (0.315, 0.214), (0.404, 0.303), (0.479, 0.384), (0.55, 0.473),
            (0.619, 0.531), (0.686, 0.578), (0.745, 0.645), (0.801, 0.677), (0.853, 0.797), (0.933, 0.881),
        ),
        RUSSIAN: (
            (0.054, 0.079), (0.161, 0.153), (0.251, 0.248), (0.334, 0.328), (0.405, 0.358), (0.479, 0.466),
            (0.551, 0.515), (0.611, 0.58), (0.682, 0.602), (0.753, 0.701), (0.825, 0.763), (0.924, 0.879),
        ),
        BOTH: (
            (0.069, 0.069), (0.187, 0.153), (0.281, 0.232), (0.365, 0.307), (0.443, 0.388), (0.515, 0.452),
            (0.583, 0.519), (0.649, 0.582), (0.718, 0.636), (0.78, 0.687), (0.841, 0.767), (0.93, 0.883),
        ),
    },
    "minilm": {
        ENGLISH: (
            (0.039, 0.025), (0.186, 0.105), (0.31, 0.183), (0.414, 0.314), (0.505, 0.405), (0.589, 0.468),
            (0.657, 0.551), (0.717, 0.603), (0.77, 0.643), (0.821, 0.725), (0.881, 0.777), (0.951, 0.876),
        ),
        RUSSIAN: (
            (0.502, 0.224), (0.585, 0.248), (0.627, 0.291), (0.66, 0.301), (0.692, 0.35), (0.725, 0.442),
            (0.759, 0.512), (0.793, 0.544), (0.822, 0.592), (0.855, 0.645), (0.894, 0.711), (0.954, 0.815),
        ),
        BOTH: (
            (0.112, 0.065), (0.358, 0.234), (0.508, 0.332), (0.587, 0.332), (0.638, 0.375), (0.679, 0.413),
            (0.722, 0.491), (0.763, 0.576), (0.803, 0.6), (0.843, 0.668), (0.889, 0.742), (0.952, 0.845),
        ),
    },
}  # fmt: skip

BANDS = ((0.9, "nearly identical"), (0.7, "same core"), (0.5, "overlap"), (0.0, "little in common"))
"""What a rating from a number on means."""

_LONGEST = 1_000
_LATIN, _CYRILLIC, _LETTER = regex.compile(r"\p{Latin}"), regex.compile(r"\p{Cyrillic}"), regex.compile(r"\p{L}")


def pairs_for(*texts: str) -> str:
    """Which pairs tell most about texts, by the script of most of their letters.

    >>> pairs_for("It is Paris.", "Paris"), pairs_for("Это Париж."), pairs_for("巴黎")
    ('English', 'Russian', 'English and Russian')
    """
    text = " ".join(one[:_LONGEST] for one in texts)
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
    after = min(bisect_right(knots, (cosine, 2.0)), len(knots) - 1)
    (x, y), (x_next, y_next) = knots[after - 1], knots[after]
    return min(1.0, y + (y_next - y) * (cosine - x) / (x_next - x))


def band(rating: float) -> str:
    """What a rating in 0..1 means.

    >>> band(0.93), band(0.9), band(0.69), band(0.0)
    ('nearly identical', 'nearly identical', 'overlap', 'little in common')
    """
    return next(name for least, name in BANDS if rating >= least)
