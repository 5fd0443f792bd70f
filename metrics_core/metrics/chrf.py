"""chrF on characters (Popovic 2015) as sacreBLEU computes it, for languages in which words inflect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

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
    match = _found if sum(map(len, texts)) < _FEW_CHARACTERS else _shared_with(answer)
    return min(1.0, max(_f_score(answer, text, match(answer, text)) for text in texts))


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


def _shared_with(answer: str) -> Callable[[str, str], list[int]]:
    """`_found` for many or long references of one answer: its n-grams are cut once."""
    known = [counted(_cut(answer, n)) for n in range(1, MAX_ORDER + 1)]
    repeated = [{gram: count for gram, count in counts.items() if count > 1} for counts in known]
    sets = [frozenset(counts) for counts in known]

    def match(_: str, reference: str) -> list[int]:
        matches = [0] * MAX_ORDER
        theirs: Iterable[frozenset[str]]
        theirs = _kept_grams(reference) if len(reference) <= _LONGEST_KEPT else _grams(reference)
        for n, (ours, grams) in enumerate(zip(sets, theirs, strict=True)):
            shared = ours & grams
            if not shared:
                break
            again = [(gram, count) for gram, count in repeated[n].items() if gram in shared]
            matches[n] = len(shared) + sum(
                min(count, _occurrences(reference, gram, count)) - 1 for gram, count in again
            )
        return matches

    return match


def _grams(text: str) -> Iterator[frozenset[str]]:
    return (frozenset(_cut(text, n)) for n in range(1, MAX_ORDER + 1))


@lru_cache(maxsize=64)
def _kept_grams(text: str) -> tuple[frozenset[str], ...]:
    # Some sixty kilobytes for a hundred characters; twenty megabytes for the most and longest texts that are kept.
    return tuple(_grams(text))


def _cut(text: str, n: int) -> list[str]:
    return [text[i : i + n] for i in range(len(text) - n + 1)]


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
