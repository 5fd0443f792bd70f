"""Where the matcher is out of its depth: texts unlike those that it was trained on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import regex

from answerkey.metrics_core.offline_judge.reading import Text
from answerkey.metrics_core.offline_judge.vocabulary import word_set

_LETTER = regex.compile(r"\p{L}")
_LATIN = regex.compile(r"\p{Latin}")
_ENOUGH_LETTERS = 4
_FOREIGN_SHARE = 0.3
_ENOUGH_WORDS = 8

_ENGLISH = word_set(
    "a an the of in on at to for from by with as is are was were be been it its this that and or not he "
    "she they who whom whose what when where why how which has have had do does did will would can could "
    "many much name list"
)
"""Seen in nearly every English sentence of five words."""


_OTHER = word_set(
    "der das und ist ein eine einen von mit fur wer wie wo wann warum welche les des est et une dans qui que quel ou "
    "quand combien cette ce sont pas nicht auf viele el "
    "las una por donde cuando quien cual cuantos como il della che dove quando het een waar wie jest gdzie kiedy "
    "bir nerede kim nao onde voce"
)
"""Of the grammar of other languages in Latin letters; none is an English word or a usual part of names."""


def out_of_depth(question: Text, answer: Text, references: Iterable[Text], limits: Mapping[str, int]) -> str:
    """Why the verdict should not be trusted here, or "".

    Args:
        limits: the longest answer and reference, in words, that training had enough of.
    """
    references = list(references)
    if _foreign(answer) or any(map(_foreign, references)):
        return "written in letters that it was not trained on"
    if _not_english(question, answer):
        return "in a language that it was not trained on"
    if len(answer.tokens) > limits["answer"]:
        return f"the answer is longer than the {limits['answer']} words that it was trained on"
    if all(len(reference.tokens) > limits["reference"] for reference in references):
        return f"the reference is longer than the {limits['reference']} words that it was trained on"
    return ""


def _foreign(text: Text) -> bool:
    letters = _LETTER.findall(text.raw)
    if not letters:
        return False
    foreign = sum(not _LATIN.match(letter) for letter in letters)
    return foreign >= min(len(letters), _ENOUGH_LETTERS) and foreign > _FOREIGN_SHARE * len(letters)


def _not_english(question: Text, answer: Text) -> bool:
    """More words of another language's grammar than of the English one; or none of either in many words."""
    found = frozenset(question.tokens) | frozenset(answer.tokens)
    english, other = len(found & _ENGLISH), len(found & _OTHER)
    unknown = not english and len(found) >= _ENOUGH_WORDS and not question.names and not answer.names
    return other > english or unknown
