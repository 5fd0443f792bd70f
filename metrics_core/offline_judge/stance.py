"""Introductions, doubts, refusals, bounds, and yes or no in texts; English and Russian."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import product

from answerkey.metrics_core.offline_judge.alignment import turned_round
from answerkey.metrics_core.offline_judge.reading import Text, lemma, read, sentences
from answerkey.metrics_core.offline_judge.vocabulary import NEGATIONS, NO, TABLES, YES, word_list

_SHELL = re.compile(
    r"^(?:(?:so|well|sure|certainly|ok|okay|итак|конечно)[,!.]?\s+)?"
    r"(?:(?:the\s+)?(?:correct\s+|right\s+|short\s+|final\s+)?answer(?:\s+to\s+(?:the|your|this)\s+question)?"
    r"(?:\s+(?:is|was|would be)|\s*:)\s*:?|it(?:'s|\s+is|\s+was)|that(?:'s|\s+is|\s+was)|they\s+(?:are|were)|a\s*:"
    r"|c'est|(?:es|das)\s+(?:ist|war)|die\s+antwort\s+(?:ist|lautet)\s*:?|la\s+réponse\s+est|la\s+respuesta\s+es"
    r"|(?:правильный\s+|верный\s+)?ответ(?:ом\s+является|\s*:|\s*-)?|это(?:\s+был[аои]?)?\s*-?)\s*"
)
_REFUSAL = re.compile(
    r"\b(?:i\s+(?:do not|don't|dont)\s+(?:know|have (?:\w+\s+){0,3}(?:information|data|access|answer))"
    r"|i(?:'m| am)\s+(?:sorry|not sure|unsure|unable|not able)|i\s+(?:can't|cannot|could not|couldn't)"
    r"|as an ai\b|no (?:specific |reliable )?(?:information|answer|data)\b|unable to (?:answer|find|determine|provide)"
    r"|ich wei(?:ß|ss) (?:es |das )?(?:leider )?nicht|keine ahnung|je ne sais pas|no (?:lo )?sé\b"
    r"|cannot be (?:answered|determined)|(?:is|are) (?:unknown|not known)$|not enough (?:information|context)"
    r"|please (?:provide|clarify|specify)|unanswerable)"
    r"|(?:^|\s)(?:я не (?:знаю|могу|уверен|нашел|нашла)|не знаю|нет (?:информации|данных|ответа)|затрудняюсь"
    r"|к сожалению,|извините|неизвестно$|не могу (?:ответить|найти|сказать)|не удалось)"
)
_HEDGE = re.compile(
    r"\b(?:i\s+(?:think|believe|guess|suppose|assume)|probably|possibly|perhaps|maybe|not\s+(?:entirely\s+)?(?:sure|certain)"
    r"|vielleicht|möglicherweise|wahrscheinlich|vermutlich|peut-être|probablement|quizás?|tal vez|probablemente"
    r"|unsure|might\s+(?:be|have)|could\s+be|may\s+be|presumably|if i (?:recall|remember))\b"
    r"|(?:^|\s)(?:возможно|наверное|вероятно|может быть|кажется|я думаю|думаю|полагаю|не уверена?|скорее всего"
    r"|видимо|предположительно)(?:\s|,|$)"
)
SHELL_WORDS = word_list("shell_stems")
"""The stems of words that introduce an answer."""


@lru_cache(maxsize=16_384)
def shelled(sentence: str) -> str:
    """The sentence without an introduction such as "the answer is", "it's", "ответ:".

    >>> shelled("The answer is twenty")
    'twenty'
    """
    introduction = _SHELL.match(sentence.lower())
    if introduction is None:
        return sentence
    return sentence[introduction.end() :].strip() or sentence


def declines(answer: Text, question: Text) -> bool:
    """Whether the answer declines, and the question does not: it may be about "I could not stop for Death".

    >>> declines(read("I do not know"), read("Who wrote it?"))
    True
    """
    return is_refusal(answer.normal) and not is_refusal(question.normal)


_OPPOSITES = frozenset(frozenset(map(lemma, pair.split())) for pair in TABLES["opposite_words"])


def are_opposites(word: str, other_word: str) -> bool:
    """Whether two words, or their stems, mean the opposite.

    >>> are_opposites("allowed", "forbidden"), are_opposites("legal", "illegal")
    (True, True)
    """
    return frozenset((lemma(word), lemma(other_word))) in _OPPOSITES or turned_round(word, other_word)


@lru_cache(maxsize=16_384)
def is_refusal(text: str) -> bool:
    """Whether a normalised text declines to answer.

    >>> is_refusal("i do not know")
    True
    """
    return _REFUSAL.search(text) is not None


@lru_cache(maxsize=16_384)
def hedges(text: str) -> bool:
    """Whether a normalised text expresses doubt.

    >>> hedges("it is probably paris")
    True
    """
    return _HEDGE.search(text) is not None


def polarity(reference: Text, answer: Text, question: Text) -> int:
    """1 if both say yes or both say no, -1 if one says yes and the other no, or the answer both; 0 if one says neither.

    >>> polarity(read("No"), read("The shop is not open."), read("Is the shop open?"))
    1
    >>> polarity(read("No"), read("It is impossible"), read("Is it possible?"))
    1
    """
    expected = says(reference.raw) if len(reference.content) <= 2 else 0
    if not expected:
        return 0
    if _BOTH.match(answer.normal):
        return -1
    stated = says(answer.raw)
    if not stated:
        # An answer may repeat the question: "The shop is not open". Sentences before the question itself may contain
        # other negations.
        last_question = read(sentences(question.raw)[-1])
        stems = {answer.stems[i] for i in answer.content if answer.tokens[i] not in NEGATIONS}
        added = stems - last_question.stem_set
        # "It is forbidden" is no to "Is it allowed?"
        is_turned = len(added) == 1 and any(
            are_opposites(stem, asked) for stem, asked in product(added, last_question.said)
        )
        if stems and (is_turned or not added):
            is_no = (answer.negated != last_question.negated) != is_turned
            stated = -1 if is_no else 1
    return expected * stated


_BOTH = re.compile(r"(?:yes (?:and|or) no|no and yes|ja (?:und|oder) nein|jein|да и нет|и да,? и нет)\b")
_CERTAINLY = r"(?:of course|absolutely|certainly|definitely|indeed)"
_REPLY = re.compile(
    rf"{_CERTAINLY}(?!\w| not)|y\W*$|(?P<no>{_CERTAINLY} not\b|not at all\b|by no means\b|n\W*$)"
    r"|(?:it|he|she|they|there|that|this|you|we) (?:is|are|was|were|does|do|did|has|have|had|can|could|will"
    r"|would|should|must|may)(?P<denied> ?not)?\W*$"
)
"""A reply in other words than yes and no: "of course", "it is", "it is not"."""


@lru_cache(maxsize=16_384)
def says(raw: str) -> int:
    """Return 1 for a text that says yes, -1 for no, 0 for neither or both, by its first word or a conclusion.

    >>> says("Yes, it is open"), says("Paris")
    (1, 0)
    """
    if reply := _REPLY.match(read(raw).normal):
        return -1 if reply["no"] or reply["denied"] else 1
    parts = [read(shelled(part)) for part in sentences(raw)]
    opening = _begins(parts[0])
    conclusion = _begins(parts[-1])
    if not conclusion:
        # A conclusion such as "therefore the answer is [Yes]"
        tokens = set(parts[-1].tokens)
        conclusion = bool(tokens & _PLAIN_YES) - bool(tokens & _PLAIN_NO)
    if len(parts) == 1 or not conclusion:
        return opening
    return conclusion if opening in (0, conclusion) else 0


def _begins(text: Text) -> int:
    # The whole word: "non-ferrous" does not say no.
    first_words = {word.strip(".,;:!?[]()\"'*") for word in text.normal.split()[:1]}
    if YES & first_words:
        return 1
    return -1 if NO & first_words else 0


_PLAIN_YES = frozenset(("yes", "да"))
_PLAIN_NO = frozenset(("no", "нет"))


_LIMITS = {
    name: re.compile(rf"(?<!\S)(?:{'|'.join(phrases)})(?!\S)".replace(" #", r"(?= (?:[$€£] )?\d)"))
    for name, phrases in TABLES["limits"].items()
}
"""Bounds and quantifiers: "more than 95" is not 96, and "all cars" are not "cars"."""


MILD_BOUNDS = (frozenset(("least",)), frozenset(("most",)))
"""Bounds that one text may set and the other one not: the amount of "at most 5" may be meant by "5"."""


def bounds(text: Text, question: Text) -> frozenset[str]:
    """The bounds that `text` sets and the question does not: "above", "all", ...; "unsure" where it hedges.

    >>> sorted(bounds(read("more than 95, probably"), read("How old is he?")))
    ['above', 'unsure']
    """
    return (_limits(text.tokens) - _limits(question.tokens)) | ({"unsure"} if hedges(text.normal) else frozenset())


@lru_cache(maxsize=16_384)
def _limits(tokens: tuple[str, ...]) -> frozenset[str]:
    line = " ".join(tokens)
    names = set()
    for name, pattern in _LIMITS.items():
        # "No less than" has "less than" in it, so what was found is taken away
        remaining = pattern.sub("", line)
        if remaining != line:
            names.add(name)
        line = remaining
    return frozenset(names)
