"""What kind of data a pair is, and where the offline judge is out of its depth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from statistics import median
from typing import Any, Literal, get_args

import regex

from answerkey.metrics_core.offline_judge.reading import Text
from answerkey.metrics_core.offline_judge.vocabulary import word_set

Kind = Literal["short answers", "claims", "other languages"]
"""The kinds of data that the model file has calibrations and agreements for: facts of a few words in English, sentences
in English, and everything that is not in English."""
KINDS: tuple[Kind, ...] = get_args(Kind)

UNLIKE_TRAINING = "unlike the answers that it was trained on"
"""Where the model decides, and what it sees of the answer is far from all that it saw in training."""

_LETTER = regex.compile(r"\p{L}")
_FOREIGN = regex.compile(r"[\p{L}--\p{Latin}]", regex.VERSION1)
_ENOUGH_LETTERS = 4
_FOREIGN_SHARE = 0.3
_CLAIM_WORDS = 5
_UNLIKELY = 0.02
_PLAINLY = 3
_ENGLISH = word_set(
    "the of is was are were who what which where when why how does did do has have had would could should with from "
    "that this they not he she his her it its"
)
"""Three of these, and a text is English without a closer look."""
_ENOUGH_WORDS = 3


def kind_of(question: Text, answer: Text, references: Iterable[Text]) -> Kind:
    """The kind of data that a pair is.

    >>> from answerkey.metrics_core.offline_judge.reading import read
    >>> kind_of(read("Which is denser?"), read("Air"), [read("Air is denser than water vapor")])
    'claims'
    """
    references = list(references)
    if language_of(f"{question.raw} {answer.raw}") != "en" or _foreign(answer) or all(map(_foreign, references)):
        return "other languages"
    return "claims" if median(len(text.tokens) for text in references) >= _CLAIM_WORDS else "short answers"


def out_of_depth(question: Text, answer: Text, references: Iterable[Text], limits: Mapping[str, int]) -> str:
    """Why a verdict should not be trusted here, or "".

    One alias in another script among the references is no reason: the others are read.

    Args:
        limits: the longest answer and reference, in words, of which training had enough.

    >>> from answerkey.metrics_core.offline_judge.reading import read
    >>> limits = {"answer": 150, "reference": 15}
    >>> out_of_depth(read("Кто написал роман?"), read("Лев Толстой"), [read("Толстой")], limits)
    'written in letters that it was not trained on'
    """
    references = list(references)
    if _foreign(answer) or all(map(_foreign, references)):
        return "written in letters that it was not trained on"
    if language_of(f"{question.raw} {answer.raw}") != "en":
        return "in a language of which it has seen little"
    if len(answer.tokens) > limits["answer"]:
        return f"the answer is longer than the {limits['answer']} words that it was trained on"
    if all(len(reference.tokens) > limits["reference"] for reference in references):
        return f"the reference is longer than the {limits['reference']} words that it was trained on"
    return ""


@lru_cache(maxsize=16_384)
def language_of(text: str) -> str:
    """The ISO 639-1 code of a text's language; "en" where it is too short to tell, or English is not ruled out.

    >>> language_of("Zer da handiagoa, eguzkia ala ilargia?"), language_of("Who wrote it? Ada")
    ('eu', 'en')
    """
    found = text.lower().split()
    if len(found) < _ENOUGH_WORDS or len(_ENGLISH.intersection(found)) >= _PLAINLY:
        return "en"
    ranked = _identifier().rank(text)
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
