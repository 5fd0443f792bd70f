"""Whether a pair is outside the training data of the offline judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from threading import Lock
from typing import Any

import regex

from answerkey.metrics_core.offline_judge.reading import Text
from answerkey.metrics_core.offline_judge.vocabulary import word_list

UNLIKE_TRAINING = "unlike the answers that it was trained on"
"""The reason if the model decides, and the features of the answer are far from all those in training."""

_LETTER = regex.compile(r"\p{L}")
_FOREIGN = regex.compile(r"[\p{L}--\p{Latin}]", regex.VERSION1)
_ENOUGH_LETTERS = 4
_FOREIGN_SHARE = 0.3
_UNLIKELY = 0.02
_PLAINLY = 3
_ENGLISH = word_list("plainly_english")
"""A text with three of these words is taken for English."""
_ENOUGH_WORDS = 3
_LOADING = Lock()
"""Two metrics that run at once load one model: it takes half a second of CPU."""


def out_of_depth(question: Text, answer: Text, references: Iterable[Text], limits: Mapping[str, int]) -> str:
    """Why a pair is outside the training data, so that its verdict should not be trusted, or "".

    A single alias in another script among the references is no reason.

    Args:
        limits: the longest answer and the longest reference, in words, that were common in training.

    >>> from answerkey.metrics_core.offline_judge.reading import read
    >>> limits = {"answer": 150, "reference": 15}
    >>> out_of_depth(read("Кто написал роман?"), read("Лев Толстой"), [read("Толстой")], limits)
    'in a script that it was not trained on'
    """
    references = list(references)
    if _foreign(answer) or all(map(_foreign, references)):
        return "in a script that it was not trained on"
    if language_of(f"{question.raw} {answer.raw}") != "en":
        return "in a language of which it has seen little"
    if len(answer.tokens) > limits["answer"]:
        return f"the answer is longer than the {limits['answer']} words that it was trained on"
    if all(len(reference.tokens) > limits["reference"] for reference in references):
        return f"the reference is longer than the {limits['reference']} words that it was trained on"
    return ""


@lru_cache(maxsize=16_384)
def language_of(text: str) -> str:
    """The ISO 639-1 code of a text's language; "en" if it is too short to tell, or English is not ruled out.

    >>> language_of("Zer da handiagoa, eguzkia ala ilargia?"), language_of("Who wrote it? Ada")
    ('eu', 'en')
    """
    words = text.lower().split()
    if len(words) < _ENOUGH_WORDS or len(_ENGLISH.intersection(words)) >= _PLAINLY:
        return "en"
    with _LOADING:
        identifier = _identifier()
    ranked = identifier.rank(text)
    return "en" if dict(ranked)["en"] >= _UNLIKELY else str(ranked[0][0])


@cache
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def _foreign(text: Text) -> bool:
    if text.raw.isascii():
        return False
    foreign = len(_FOREIGN.findall(text.raw))
    if not foreign:
        return False
    letters = len(_LETTER.findall(text.raw))
    return foreign >= min(letters, _ENOUGH_LETTERS) and foreign > _FOREIGN_SHARE * letters
