"""Whether a pair is outside the training data of the offline judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from threading import Lock
from typing import Any

import regex

from answerkey.metrics_core.offline_judge.alignment import names_whole, same_words
from answerkey.metrics_core.offline_judge.reading import Text, read
from answerkey.metrics_core.offline_judge.vocabulary import TABLES, word_list

UNLIKE_TRAINING = "unlike the answers that it was trained on"
"""The reason if the model decides, and the features of the answer are far from all those in training."""

_LETTER = regex.compile(r"\p{L}")
_FOREIGN = regex.compile(r"[\p{L}--\p{Latin}]", regex.VERSION1)
_MIN_FOREIGN_LETTERS = 4
_FOREIGN_SHARE = 0.3
_UNLIKELY = 0.02
_MIN_ENGLISH_WORDS = 3
_ENGLISH = word_list("plainly_english")
"""A text with three of these words is taken for English."""
_MIN_WORDS = 3
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
    >>> berlin, munich = read("Its headquarters are in Berlin."), read("Its headquarters are in Munich.")
    >>> out_of_depth(read(""), munich, [berlin], limits)
    'without a question that tells which word of the sentence counts'
    """
    references = list(references)
    return (
        too_long(answer, references, limits)
        or lacks_question(question, references)
        or unfamiliar(question, answer, references)
    )


def doubt_of_repeated(question: str, reference: str) -> str:
    """Why a judge cannot compare other answers with a reference that this answer repeats, or "".

    The answers that repeat a sentence are right. If only the others were flagged, the more of them are right, the
    surer would the judge seem of those that are wrong.

    >>> sentence = "Its headquarters are in Berlin."
    >>> doubt_of_repeated("Where are its headquarters?", sentence), doubt_of_repeated("", "Berlin")
    ('', '')
    >>> doubt_of_repeated("", sentence)
    'without a question that tells which word of the sentence counts'
    """
    return lacks_question(read(question), [read(reference)])


def unfamiliar(question: Text, answer: Text, references: Sequence[Text]) -> str:
    """Why the script or the language is outside the training data, or "".

    >>> unfamiliar(read("Кто написал роман?"), read("Лев Толстой"), [read("Толстой")])
    'in a script that it was not trained on'
    """
    if _foreign(answer) or all(map(_foreign, references)):
        return "in a script that it was not trained on"
    if language_of(f"{question.raw} {answer.raw}") != "en":
        return "in a language of which it has seen little"
    return ""


def lacks_question(question: Text, references: Sequence[Text]) -> str:
    """Why no question tells which word of sentences counts, or "": it is blank, or asks for nothing in particular.

    >>> from answerkey.metrics_core.offline_judge.reading import read
    >>> lacks_question(read("Tell me about the company."), [read("Its headquarters are in Berlin.")]) != ""
    True
    >>> lacks_question(read("Where are its headquarters?"), [read("Its headquarters are in Berlin.")])
    ''
    """
    if any(len(reference.tokens) < SENTENCE_WORDS for reference in references):
        return ""
    if question.tokens:
        opening = question.normal.lstrip("¿¡ ")
        is_general = opening.startswith(_GENERAL) or not question.said
        is_question = "?" in question.raw or not _ASKING.isdisjoint(question.tokens)
        # A text that is no question, and of which no reference has a word, asks for nothing either
        if not is_general and (
            is_question or any(same_words(question.said, reference.stems) for reference in references)
        ):
            return ""
    return "without a question that tells which word of the sentence counts"


SENTENCE_WORDS = 4
"""From so many words on, a reference may say more than the value that was asked for."""


_GENERAL: tuple[str, ...] = tuple(TABLES["general_requests"])
"""How requests begin that ask for nothing in particular: "Tell me about ..."."""
_ASKING = word_list("question_words")


def too_long(answer: Text, references: Sequence[Text], limits: Mapping[str, int]) -> str:
    """Which text is longer than those in training, or "".

    >>> too_long(read("It was Ada Brown."), [read("Ada")], {"answer": 3, "reference": 3})
    'the answer is longer than the 3 words that it was trained on'
    """
    if len(answer.tokens) > limits["answer"]:
        return f"the answer is longer than the {limits['answer']} words that it was trained on"
    if all(len(reference.tokens) > limits["reference"] for reference in references):
        return f"the reference is longer than the {limits['reference']} words that it was trained on"
    return ""


def has_nothing_of(answer: Text, reference: Text) -> bool:
    """Whether an answer in the script of a short reference has no word that resembles one of its words.

    That it is no match is then seen in every language.

    >>> from answerkey.metrics_core.offline_judge.reading import read
    >>> has_nothing_of(read("Es ist Kupfer."), read("Schiefer")), has_nothing_of(read("Es ist Eis"), read("Eis"))
    (True, False)
    """
    if len(reference.tokens) > _SHORT or _foreign(answer) != _foreign(reference) or names_whole(reference, answer):
        return False
    words = [stem for stem in reference.content_stems if not stem.isdigit()]
    return bool(words) and not same_words(answer.stems, words)


_SHORT = 4


@lru_cache(maxsize=16_384)
def language_of(text: str) -> str:
    """The ISO 639-1 code of a text's language; "en" if it is too short to tell, or English is not ruled out.

    >>> language_of("Zer da handiagoa, eguzkia ala ilargia?"), language_of("Who wrote it? Ada")
    ('eu', 'en')
    """
    words = text.lower().split()
    if len(words) < _MIN_WORDS or len(_ENGLISH.intersection(words)) >= _MIN_ENGLISH_WORDS:
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
    return foreign >= min(letters, _MIN_FOREIGN_LETTERS) and foreign > _FOREIGN_SHARE * letters
