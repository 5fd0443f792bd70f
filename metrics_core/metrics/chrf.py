"""chrF on characters (Popovic 2015) as sacreBLEU computes it, for languages in which words inflect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter

from answerkey.metrics_core.measurement import Scored
from answerkey.metrics_core.metric import Field
from answerkey.metrics_core.metrics._lexical import NgramMetric, References, counted, identical
from answerkey.metrics_core.text import TOKENIZER_ID, normal_reference, normalise

MAX_ORDER = 6
_BETA_SQUARED = 4
# Below this many characters of all references, looking for their n-grams in the answer takes less time than cutting it.
_FEW_CHARACTERS = 130
_LONGEST_KEPT = 500


@dataclass(frozen=True)
class Chrf(NgramMetric):
    """Character n-gram F2 of the answer and the best of its references, from 0 to 1.

    >>> from answerkey.metrics_core import Sample
    >>> Chrf().measure([Sample("1", "Paris", ["paris"])])[0].values
    {'chrf': 1.0}
    """

    name = "chrf"
    summary = "sacreBLEU's chrF on characters, for languages where words inflect"
    fields = (Field("chrf", "character n-gram F2"),)
    method = f"norm:{TOKENIZER_ID}|nc:6|beta:2|refs:best"

    def compare(self, answer: str, references: References) -> Scored:
        """1 for an answer that is a reference, however short."""
        normalised = normalise(answer)
        if identical(normalised, references) is not None:
            return Scored({"chrf": 1.0})
        return Scored({"chrf": chrf(normalised, [normal_reference(text) for _, text in references])})


def chrf(answer: str, references: Sequence[str]) -> float:
    """chrF in [0, 1] of an answer and the best of its references, all normalised; equal to sacreBLEU's.

    >>> round(chrf("the cat", ["the cats"]), 6)
    0.77571
    """
    answer, *texts = (text.replace(" ", "") for text in (answer, *references))
    if sum(map(len, texts)) < _FEW_CHARACTERS:
        return min(1.0, max(_f_score(answer, text, _found(answer, text)) for text in texts))
    return min(1.0, _best_of_many(answer, texts))


def _found(answer: str, reference: str) -> list[int]:
    """How many n-grams of a reference are in the answer, by order; each counts as often as it is in both."""
    matches = [0] * MAX_ORDER
    # Where a shared n-gram begins, a shared shorter one did too.
    starts: Sequence[int] = range(len(reference))
    for n in range(1, MAX_ORDER + 1):
        last = len(reference) - n
        starts = [i for i in starts if i <= last and reference[i : i + n] in answer]
        if not starts:
            break
        shared = counted([reference[i : i + n] for i in starts])
        matches[n - 1] = sum(
            1 if count == 1 else min(count, _occurrences(answer, gram, count)) for gram, count in shared.items()
        )
    return matches


def _best_of_many(answer: str, references: Sequence[str]) -> float:
    """The best score of many or long references. Those that cannot be the best are not cut into all of their n-grams.

    Where an n-gram is shared, so is the shorter one that it begins with. So there are at most as many matches of an
    order as of any lower one, and what is known of some orders is a bound of the score.
    """
    match = _matching(answer)
    bounds: list[tuple[float, list[int], str]] = []
    for text in references:
        matches = [max(0, min(len(answer), len(text)) - n) for n in range(MAX_ORDER)]
        match(text, _FIRST_ORDER, matches)
        bounds.append((_f_score(answer, text, matches), matches, text))
    best = 0.0
    for first_bound, matches, text in sorted(bounds, key=itemgetter(0), reverse=True):
        score = first_bound
        for n in _OTHER_ORDERS:
            if score < best - _ROUNDING:
                break
            match(text, n, matches)
            score = _f_score(answer, text, matches)
        else:
            best = max(best, score)
    return best


_FIRST_ORDER, _OTHER_ORDERS = 4, (2, 3, 1, 5, 6)
"""Matches of the fourth order tell most about the score, and those of the second most about what is left."""
_ROUNDING = 1e-9


def _matching(answer: str) -> Callable[[str, int, list[int]], None]:
    """What counts the matches of an order, and lowers those of all higher orders to them."""
    known = [counted(_cut(answer, n)) for n in range(1, MAX_ORDER + 1)]
    repeated = [[(gram, count) for gram, count in counts.items() if count > 1] for counts in known]
    sets = [frozenset(counts) for counts in known]

    def match(reference: str, n: int, matches: list[int]) -> None:
        if not matches[n - 1]:
            return
        shared = sets[n - 1] & _grams(reference, n)
        found = len(shared)
        for gram, count in repeated[n - 1]:
            if gram in shared:
                found += min(count, _occurrences(reference, gram, count)) - 1
        matches[n - 1 :] = [min(found, more) for more in matches[n - 1 :]]

    return match


def _grams(text: str, n: int) -> frozenset[str]:
    if len(text) > _LONGEST_KEPT:
        return frozenset(_cut(text, n))
    kept = _kept_grams(text)
    if n not in kept:
        kept[n] = frozenset(_cut(text, n))
    return kept[n]


@lru_cache(maxsize=64)
def _kept_grams(text: str) -> dict[int, frozenset[str]]:
    """The n-grams of a reference, by order, as far as they were asked for: other answers have the same references."""
    # Some sixty kilobytes for a hundred characters; twenty megabytes for the most and longest texts that are kept.
    return {}


def _cut(text: str, n: int) -> Sequence[str]:
    size = len(text) - n + 1
    if 1 < size <= _LONGEST_KEPT:
        return _cutter(size, n)(text)
    return [text[i : i + n] for i in range(size)]


@lru_cache(maxsize=1_024)
def _cutter(size: int, n: int) -> Callable[[str], tuple[str, ...]]:
    # All slices in one call take half the time.
    return itemgetter(*_slices(n)[:size])


@lru_cache
def _slices(n: int) -> list[slice]:
    return [slice(i, i + n) for i in range(_LONGEST_KEPT)]


def _occurrences(text: str, gram: str, most: int) -> int:
    """How often `gram` is in `text`, overlaps included; counted up to `most` at least."""
    if gram[0] not in gram[1:]:
        return text.count(gram)
    count, at = 0, text.find(gram)
    while at >= 0 and count < most:
        count, at = count + 1, text.find(gram, at + 1)
    return count


def _f_score(answer: str, reference: str, matches: Sequence[int]) -> float:
    """F2 of the mean precision and the mean recall, over the orders that both texts have."""
    orders = min(len(answer), len(reference), MAX_ORDER)
    if not matches[0]:
        return 0.0
    precision = recall = 0.0
    for n in range(orders):
        precision += matches[n] / (len(answer) - n)
        recall += matches[n] / (len(reference) - n)
    precision, recall = precision / orders, recall / orders
    score = (1 + _BETA_SQUARED) * precision * recall / (_BETA_SQUARED * precision + recall)
    # Over 100 as sacreBLEU has it, for the same last bit.
    return 100 * score / 100
