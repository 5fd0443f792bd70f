"""BLEU (Papineni et al. 2002) and chrF (Popovic 2015) by sacreBLEU (Post 2018).

This module provides:
- Bleu, Chrf: metrics of single answers
- corpus_bleu: BLEU of whole releases, from the statistics of their answers
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import regex

from answerkey.metrics_core.measurement import Scored
from answerkey.metrics_core.metric import Field
from answerkey.metrics_core.metrics.words import LexicalMetric, References, identical
from answerkey.metrics_core.text import TOKENIZER_ID as NORMAL_FORM_ID
from answerkey.metrics_core.text import normal_reference, normalise

if TYPE_CHECKING:
    from answerkey.metrics_core.decide.bounded_mean import Floats

MAX_ORDER = 4
TOKENIZER_ID = "13a+chars"

_UNSPACED = regex.compile(r"([\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\p{M}*)")
# The rules of 13a in one pass, for texts where no two rules apply at one position. Other texts (with entities, or runs
# of stops and commas) go to sacreBLEU's tokenizer, which caches 65,536 texts of any length.
_NOT_PLAIN = re.compile(r"[.,]{2}|&|<skipped>")
_PLAIN_13A = re.compile(r"(?:[^ !-&(-/:-@\[-`{-~]+|(?<=[0-9])[.,](?=[0-9])|(?<![0-9])-)+|[!-&(-/:-@\[-`{-~]")


@dataclass(frozen=True)
class Bleu(LexicalMetric):
    """Sentence BLEU against all references at once.

    `details["stats"]` are the statistics of corpus BLEU, ten integers: the number of tokens of the answer, that of the
    reference with the closest length, then for n = 1 to 4 the n-grams that the answer shares with a reference, then for
    n = 1 to 4 all n-grams of the answer.

    >>> from answerkey import Sample
    >>> Bleu().measure([Sample("1", "the cat", ["the cat sat"])])[0].details["stats"]
    [2, 3, 2, 1, 0, 0, 2, 1, 0, 0]
    """

    name = "bleu"
    summary = "sacreBLEU's sentence BLEU, all references at once; corpus BLEU in the report"
    fields = (Field("bleu", "sentence BLEU, all references at once"),)
    method = f"tok:{TOKENIZER_ID}|norm:{NORMAL_FORM_ID}|eff:yes|smooth:exp|refs:all"

    def compare(self, answer: str, references: References) -> Scored:
        """Compute sentence BLEU; an answer that equals a reference scores 1, whatever its length."""
        normalised = normalise(answer)
        is_identical = identical(normalised, references) is not None
        score = _sacrebleu().sentence_score(
            bleu_tokens(normalised), [bleu_tokens(normal_reference(text)) for _, text in references]
        )
        stats = [score.sys_len, score.ref_len, *score.counts, *score.totals]
        return Scored({"bleu": 1.0 if is_identical else min(1.0, score.score / 100)}, details={"stats": stats})


@dataclass(frozen=True)
class Chrf(LexicalMetric):
    """Character n-gram F2 of the answer with its best reference, from 0 to 1.

    >>> from answerkey import Sample
    >>> Chrf().measure([Sample("1", "Paris", ["paris"])])[0].values
    {'chrf': 1.0}
    """

    name = "chrf"
    summary = "sacreBLEU's chrF on characters, for languages where words inflect"
    fields = (Field("chrf", "character n-gram F2"),)
    method = f"norm:{NORMAL_FORM_ID}|nc:6|beta:2|refs:best"

    def compare(self, answer: str, references: References) -> Scored:
        """Compute chrF of the normalised texts."""
        score = _chrf().sentence_score(normalise(answer), [normal_reference(text) for _, text in references])
        return Scored({"chrf": min(1.0, score.score / 100)})


@cache
def _chrf() -> Any:
    from sacrebleu.metrics.chrf import CHRF

    return CHRF()


def sentence_bleu(answer: str, reference: str) -> float:
    """BLEU in [0, 1] with effective order and exponential smoothing, for results of `bleu_tokens`.

    >>> sentence_bleu("the cat", "the cat"), sentence_bleu("a dog", "the cat")
    (1.0, 0.0)
    """
    return min(1.0, float(_sacrebleu().sentence_score(answer, [reference]).score) / 100)


def bleu_tokens(normalised: str) -> str:
    """The 13a tokens of a normalised text, joined by spaces. Scripts without spaces are split into characters.

    >>> bleu_tokens("it's 1,000.5-6")
    "it's 1,000.5 - 6"
    """
    if not normalised.isascii():
        normalised = _UNSPACED.sub(r" \1 ", normalised)
    if _NOT_PLAIN.search(normalised):
        return _tokenizer_13a()(normalised)
    return " ".join(_PLAIN_13A.findall(normalised))


@cache
def _sacrebleu() -> Any:
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize="none", effective_order=True)


@cache
def _tokenizer_13a() -> Callable[[str], str]:
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    return Tokenizer13a()  # type: ignore[no-untyped-call]


def corpus_bleu(totals: Floats) -> Floats:
    """BLEU in [0, 1] of whole releases, without effective order.

    Args:
        totals: shape (..., 10): sums of the statistics of all answers (see `Bleu`), which may be weighted.

    Returns:
        (...)

    >>> import numpy as np
    >>> round(float(corpus_bleu(np.array([5, 4, 4, 3, 2, 1, 5, 4, 3, 2]))), 6)
    0.66874
    """
    import numpy as np

    correct = totals[..., 2 : 2 + MAX_ORDER]
    possible = totals[..., 2 + MAX_ORDER :]
    defined = np.asarray(possible.all(axis=-1) & correct.any(axis=-1))
    correct, possible = (np.where(defined[..., None], part, 1) for part in (correct, possible))
    # Each order without a match counts half as much as the one before
    smooth = 2.0 ** np.cumsum(correct == 0, axis=-1)
    precisions = np.where(correct > 0, correct, 1 / smooth) / possible
    length = totals[..., 0]
    reference = totals[..., 1]
    brevity = np.exp(np.minimum(0.0, 1 - reference / np.where(defined, length, 1)))
    return np.where(defined, np.minimum(1.0, brevity * np.exp(np.log(precisions).mean(axis=-1))), 0.0)


def bleu_extremes(mean: Floats) -> tuple[Floats, Floats]:
    """The statistics of the worst and the best answer of the mean length: without a match, and equal to its reference.

    Args:
        mean: statistics as `Bleu` stores them, shape (10,); so are the two results.

    >>> import numpy as np
    >>> worst, best = bleu_extremes(np.array([4, 5, 3, 1, 0, 0, 4, 3, 2, 1]))
    >>> worst.tolist(), best.tolist()
    ([4, 5, 0, 0, 0, 0, 4, 3, 2, 1], [4, 4, 4, 3, 2, 1, 4, 3, 2, 1])
    """
    matches = slice(2, 2 + MAX_ORDER)
    worst = mean.copy()
    worst[matches] = 0
    best = mean.copy()
    best[matches] = mean[2 + MAX_ORDER :]
    best[1] = mean[0]
    return worst, best
