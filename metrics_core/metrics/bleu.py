"""BLEU as sacreBLEU computes it (Papineni et al. 2002; Post 2018), from reusable statistics.

sacreBLEU builds the n-grams of every reference anew in every call. Here they are kept while answers to the same
references come one after another, and an answer's n-grams are counted once for all its references. The
numbers are sacreBLEU's own (lower-cased, 13a tokens, effective order, exponential smoothing).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import regex

from answerkey.metrics_core.measurement import Scored
from answerkey.metrics_core.metric import Field
from answerkey.metrics_core.metrics._lexical import NgramMetric, References, counted, identical
from answerkey.metrics_core.text import TOKENIZER_ID as NORMAL_FORM_ID
from answerkey.metrics_core.text import normal_reference, normalise

if TYPE_CHECKING:
    from answerkey.metrics_core.statistics.bounded_mean import Floats

MAX_ORDER = 4
TOKENIZER_ID = "13a+chars"
_LONGEST_KEPT = 500

Gram = str | tuple[str, ...]
"""An n-gram: a tuple of words, and for n = 1 the word itself."""

_UNSPACED = regex.compile(r"([\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\p{M}*)")
# The rules of 13a in one pass, on a text where they do not touch each other. Where they may (entities,
# runs of stops and commas), sacreBLEU's own tokenizer, four times slower, decides.
_NOT_PLAIN = re.compile(r"[.,]{2}|&|<skipped>")
_PLAIN_13A = re.compile(r"(?:[^ !-&(-/:-@\[-`{-~]+|(?<=[0-9])[.,](?=[0-9])|(?<![0-9])-)+|[!-&(-/:-@\[-`{-~]")


@dataclass(frozen=True)
class Bleu(NgramMetric):
    """Sentence BLEU against all references at once. `details` keep the statistics for corpus BLEU.

    >>> from answerkey.metrics_core import Sample
    >>> Bleu().measure([Sample("1", "the cat", ["the cat sat"])])[0].details["stats"]
    [2, 3, 2, 1, 0, 0, 2, 1, 0, 0]
    """

    name = "bleu"
    summary = "sacreBLEU's sentence BLEU, all references at once; corpus BLEU in the report"
    fields = (Field("bleu", "sentence BLEU, all references at once"),)
    method = f"tok:{TOKENIZER_ID}|norm:{NORMAL_FORM_ID}|eff:yes|smooth:exp|refs:all"

    def compare(self, answer: str, references: References) -> Scored:
        """1 for an answer that is a reference, whatever its length."""
        normalised = normalise(answer)
        stats = bleu_stats(bleu_tokens(normalised), references_together(tuple(text for _, text in references)))
        value = 1.0 if identical(normalised, references) is not None else bleu_score(stats)
        return Scored({"bleu": value}, details={"stats": stats.flat})


class BleuStats(NamedTuple):
    """Sufficient statistics of one answer; summed over answers they give corpus BLEU.

    `correct[n-1]` of `total[n-1]` n-grams of the answer are in a reference (clipped).
    """

    answer_length: int
    reference_length: int
    correct: tuple[int, ...]
    total: tuple[int, ...]

    @property
    def flat(self) -> list[int]:
        """The ten numbers in order, as they are stored."""
        return [self.answer_length, self.reference_length, *self.correct, *self.total]

    @classmethod
    def of_flat(cls, numbers: Sequence[int]) -> BleuStats:
        """The inverse of `flat`."""
        return cls(numbers[0], numbers[1], tuple(numbers[2 : 2 + MAX_ORDER]), tuple(numbers[2 + MAX_ORDER :]))


class Grams:
    """The n-grams of one order, each once, and how often those come that come more than once."""

    __slots__ = ("_grams", "_repeated", "distinct")

    def __init__(self, grams: Sequence[Gram]) -> None:
        self.distinct = frozenset(grams)
        self._grams = grams
        self._repeated: Mapping[Gram, int] | None = {} if len(self.distinct) == len(grams) else None

    @property
    def repeated(self) -> Mapping[Gram, int]:
        """Found when it is asked for first: two texts are compared without it if one of them repeats nothing."""
        if self._repeated is None:
            self._repeated = {gram: count for gram, count in counted(self._grams).items() if count > 1}
        return self._repeated

    @classmethod
    def most(cls, several: Sequence[Grams]) -> Grams:
        """Each n-gram as often as in the text that has it most often."""
        repeated: dict[Gram, int] = {}
        for grams in several:
            for gram, count in grams.repeated.items():
                repeated[gram] = max(count, repeated.get(gram, 0))
        most = cls(())
        most.distinct, most._repeated = frozenset().union(*(grams.distinct for grams in several)), repeated
        return most

    def shared(self, others: Grams) -> int:
        """How many n-grams are in both, each as often as in both."""
        matched = len(self.distinct & others.distinct)
        if self._repeated == {} or others._repeated == {}:
            return matched
        for gram, count in self.repeated.items():
            if gram in others.distinct:
                matched += min(count, others.repeated.get(gram, 1)) - 1
        return matched


class Tokens:
    """A text cut for BLEU, or several. The n-grams of an order are made when they are asked for, and kept."""

    __slots__ = ("_grams", "_texts", "lengths")

    def __init__(self, *texts: list[str]) -> None:
        self._texts = texts
        self.lengths = tuple(map(len, texts))
        self._grams: dict[int, Grams] = {}

    def grams(self, order: int) -> Grams:
        """Those of an order >= 1; of several texts, the most of each."""
        if order not in self._grams:
            several = [Grams(_cut(words, order)) for words in self._texts]
            self._grams[order] = several[0] if len(several) == 1 else Grams.most(several)
        return self._grams[order]


def _cut(words: list[str], order: int) -> Sequence[Gram]:
    return words if order == 1 else list(zip(*(words[i:] for i in range(order)), strict=False))


def bleu_words(normalised: str) -> list[str]:
    """13a tokens of a normalised text; scripts without spaces are cut into characters first."""
    if not normalised.isascii():
        normalised = _UNSPACED.sub(r" \1 ", normalised)
    if _NOT_PLAIN.search(normalised):
        words: list[str] = _tokenizer_13a()(normalised).split()
        return words
    return _PLAIN_13A.findall(normalised)


def bleu_tokens(normalised: str) -> Tokens:
    """Cut a normalised text."""
    return Tokens(bleu_words(normalised))


# Some fifteen kilobytes for a hundred characters.
@lru_cache(maxsize=128)
def _kept_tokens(text: str) -> Tokens:
    return bleu_tokens(normal_reference(text))


def reference_tokens(text: str) -> Tokens:
    """Cut a reference as it came. A short one is kept, with its n-grams."""
    return _kept_tokens(text) if len(text) <= _LONGEST_KEPT else bleu_tokens(normal_reference(text))


@lru_cache(maxsize=1)
def references_together(texts: tuple[str, ...]) -> Tokens:
    """Cut references as they came, to be compared with all at once. The last ones are kept, with their n-grams."""
    if len(texts) == 1:
        return reference_tokens(texts[0])
    return Tokens(*(bleu_words(normal_reference(text)) for text in texts))


def bleu_stats(answer: Tokens, references: Tokens) -> BleuStats:
    """Clipped matches against all references at once; the reference length is the closest, then shortest."""
    [size] = answer.lengths
    correct = [0] * MAX_ORDER
    for order in range(1, min(MAX_ORDER, size, max(references.lengths)) + 1):
        correct[order - 1] = answer.grams(order).shared(references.grams(order))
        # No shared n-gram means no shared longer one: most orders of most answers end here, uncounted.
        if not correct[order - 1]:
            break
    length = min(references.lengths, key=lambda n: (abs(n - size), n))
    return BleuStats(size, length, tuple(correct), tuple(max(0, size - n) for n in range(MAX_ORDER)))


def bleu_score(stats: BleuStats) -> float:
    """BLEU in [0, 1] with effective order and exponential smoothing: for one answer."""
    if not stats.correct[0]:
        return 0.0
    log_sum, order, smooth = 0.0, 0, 1.0
    for correct, total in zip(stats.correct, stats.total, strict=True):
        if not total:
            break
        order += 1
        if not correct:
            smooth *= 2
        log_sum += math.log(correct / total if correct else 1 / (smooth * total))
    return min(1.0, _brevity(stats) * math.exp(log_sum / order))


def corpus_bleu(totals: Floats) -> Floats:
    """BLEU in [0, 1] of whole releases, all orders counted.

    Args:
        totals: shape (..., 10): sums of `BleuStats.flat` over all answers, which may be weighted.

    Returns:
        (...)

    >>> import numpy as np
    >>> round(float(corpus_bleu(np.array([5, 4, 4, 3, 2, 1, 5, 4, 3, 2]))), 6)
    0.66874
    """
    import numpy as np

    correct, possible = totals[..., 2 : 2 + MAX_ORDER], totals[..., 2 + MAX_ORDER :]
    defined = np.asarray(possible.all(axis=-1) & correct.any(axis=-1))
    correct, possible = (np.where(defined[..., None], part, 1) for part in (correct, possible))
    smooth = 2.0 ** np.cumsum(correct == 0, axis=-1)
    precisions = np.where(correct > 0, correct, 1 / smooth) / possible
    length, reference = totals[..., 0], totals[..., 1]
    brevity = np.exp(np.minimum(0.0, 1 - reference / np.where(defined, length, 1)))
    return np.where(defined, np.minimum(1.0, brevity * np.exp(np.log(precisions).mean(axis=-1))), 0.0)


def bleu_extremes(mean: Floats) -> tuple[Floats, Floats]:
    """The worst and the best answer of the length of a mean one: without any match, and equal to its reference.

    Args:
        mean: shape (10,), as `BleuStats.flat`; so are the two results.

    >>> import numpy as np
    >>> worst, best = bleu_extremes(np.array([4, 5, 3, 1, 0, 0, 4, 3, 2, 1]))
    >>> worst.tolist(), best.tolist()
    ([4, 5, 0, 0, 0, 0, 4, 3, 2, 1], [4, 4, 4, 3, 2, 1, 4, 3, 2, 1])
    """
    worst, best = mean.copy(), mean.copy()
    matches = slice(2, 2 + MAX_ORDER)
    worst[matches], best[matches], best[1] = 0, mean[2 + MAX_ORDER :], mean[0]
    return worst, best


def _brevity(stats: BleuStats) -> float:
    if stats.answer_length >= stats.reference_length:
        return 1.0
    return math.exp(1 - stats.reference_length / stats.answer_length)


@lru_cache(maxsize=1)
def _tokenizer_13a() -> Callable[[str], str]:
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    return Tokenizer13a()  # type: ignore[no-untyped-call]
