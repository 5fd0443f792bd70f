"""Split a text into facts without a model: sentences, clauses and items, in English and Russian.

The steps, each applied to the pieces of the previous one:

1. lines, bullets and numbered items; a lead-in that ends with a colon is dropped;
2. sentences; greetings, offers, questions, refusals and "The answer is" are dropped, and a "yes" or "no" that
   introduces more is a fact of its own;
3. clauses, which end at a comma, a semicolon or a conjunction with verbs on both sides;
4. enumerations of short items: "Amy likes apples, berries and plums".

"or" does not separate facts. Quotations, dates, numbers, "between A and B", and pairs from the question ("Romeo and
Juliet") are kept together. Text in brackets is dropped, unless nothing else answers the question, or all is a name with
another one in brackets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from answerkey.metrics_core.offline_judge.reading import LONGEST_CHARACTERS, asks_several, clean, lemma, sentences
from answerkey.metrics_core.offline_judge.stance import SHELL_WORDS, hedges, is_refusal, shelled
from answerkey.metrics_core.offline_judge.vocabulary import FUNCTION_WORDS, UNIT_WORDS, verb_places, word_list
from answerkey.metrics_core.text import composed, normalise, plain, words

_COORDINATORS = r"and|as well as|и|а также"
_JOINT = re.compile(rf"\s*;\s+|\s*,?\s+(?:{_COORDINATORS}|but|while|whereas|yet|а|но|однако)\s+|\s*,\s+", re.IGNORECASE)
_COORDINATOR = re.compile(rf"\s(?:{_COORDINATORS})\s|;", re.IGNORECASE)
_ALTERNATIVES = re.compile(r"\b(?:or|either|или|либо)\b", re.IGNORECASE)
_BUT = re.compile(r",?\s+(?:but|however|но|однако)\s+", re.IGNORECASE)
_UNITS = "|".join(
    sorted((re.escape(form) for form in UNIT_WORDS if len(form) > 1 or form == "h"), key=len, reverse=True)
)
_KEPT_TOGETHER = re.compile(
    r"\"[^\"]*\"|“[^”]*”|«[^»]*»|'[^']{3,}'(?!\w)"
    r"|\b\d{1,3}(?:,\s?\d{3})+\b"
    r"|\b[A-Za-z]{3,9}\.?\s+\d{1,2}(?:st|nd|rd|th)?,\s+\d{3,4}\b"
    rf"|\b\d+(?:[.,]\d+)?\s*(?:{_UNITS})\b,?\s+(?:and|и)\s+\d+(?:[.,]\d+)?\s*(?:{_UNITS})\b"
    r"|\b(?:hundred|thousand|million|billion)\s+and\s+\w+"
    r"|\b(?:between|между)\s+\S+(?:\s+\S+){0,3}?\s+(?:and|и)\s+\S+",
    re.IGNORECASE,
)
"""Quotations, numbers, dates, measures of two units, and the two ends of a span."""
_JOINED = re.compile(r"\w[\w'’-]* (?:and|и) \w[\w'’-]*")
_INTRODUCED = re.compile(
    r"(?:the\s+)?(?:(?:correct|right|final)\s+)?(?:option|choice|result|value)\s+is:?\s+", re.IGNORECASE
)
_REPLY = re.compile(r"^(yes|no|да|нет)(?:[,.!;:]|\s+[—–-])\s+(?=\w)", re.IGNORECASE)
_MARK = re.compile(r"^\s*(?:[-*•‣–—]|#+)\s+(?=\S)|(?:^|(?<=\s))\(?\d{1,2}[.)]\s+(?=\S)")
# Brackets within a word belong to it: iron(III), f(x)
_ASIDE = re.compile(r"(?:\s+|(?<!\w))(?:\([^()]*\)|\[[^\[\]]*\])")
_SAID_IN_BRACKETS = re.compile(r"(?:\b(?:is|are|was|were|это)|[:=])\s*[(\[]", re.IGNORECASE)
# "Paris (Texas)": a name that tells which one is meant
_NAME_IN_BRACKETS = re.compile(r"(?:[A-ZÀ-ÞА-Я][\w'-]+ ){1,3}\((?:[A-ZÀ-ÞА-Я][\w'-]+ ?){1,3}\)\W*")
_BRACKETS = re.compile(r"(?<!\w)[(\[]|(?<=[(\[])[(\[]|[)\]]")
_ASKING = word_list("question_words") | word_list("closed_questions")
_MOST_DOUBTED = 2
"""Words of an answer that a question mark behind it makes no question."""
_CHATTER = re.compile(
    r"(?:sure|certainly|of course|okay|hello|hi|конечно|привет|здравствуйте)[!.,]*$"
    r"|(?:i hope|let me know|feel free|please let me|is there anything|thank|thanks|you're welcome|great question"
    r"|happy to help|надеюсь|обращайтесь|спасибо|хороший вопрос)\b",
    re.IGNORECASE,
)
"""Greetings, thanks and offers."""
_NO_ITEM = FUNCTION_WORDS | {"etc", "too"}
_LONGEST_ITEM = 6
"""The most words of an item; longer text between two commas is a part of a clause."""
_DOUBT_WITHIN = 80
"""The characters after a conjunction in which a doubt refers to the text before it."""

GRAMMAR = 5
"""The version of these rules, a part of the signature: increase it with every change that can change a number."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One claim.

    Attributes:
        text: the claim.
        item: the claim if it is one of several items, which do not contradict each other; otherwise "".

    >>> facts_of("red and green")[0]
    Fact(text='red', item='red')
    """

    text: str
    item: str = ""


def facts_of(text: str, question: str | None = None) -> tuple[Fact, ...]:
    """The facts of a text, in order, without repetitions that differ only in form. A text may have none.

    >>> [fact.text for fact in facts_of("Amy likes apples, berries and plums.", "What fruits does Amy like?")]
    ['Amy likes apples', 'berries', 'plums']
    """
    by_form: dict[str, Fact] = {}
    for claim, listed in _claims(text, question):
        clauses = list(_clauses(claim, question))
        for clause in [clause for clause in clauses if not is_refusal(normalise(clause))] or clauses:
            items = _items(clause, question)
            for item in items:
                shown = item.strip(" ,;:.!…—–")
                if words(shown):
                    several = listed or len(items) > 1
                    by_form.setdefault(normalise(shown), Fact(shown, shown if several else ""))
    return tuple(by_form.values())


def _asks(sentence: str) -> bool:
    """Whether a sentence is a question, and not a short answer with a question mark: "42?"."""
    said = words(sentence)
    return sentence.endswith("?") and (len(said) > _MOST_DOUBTED or not _ASKING.isdisjoint(said))


def _claims(text: str, question: str | None) -> Iterator[tuple[str, bool]]:
    """The sentences that may state a fact, without introductions, and whether each is an item of a list."""
    for line in plain(composed(text))[:LONGEST_CHARACTERS].splitlines():
        starts = [0, *(mark.start() for mark in _MARK.finditer(line)), len(line)]
        for start, stop in pairwise(starts):
            part = line[start:stop]
            mark = _MARK.match(part)
            for sentence in sentences(_without_asides(clean(part[mark.end() :] if mark else part), question)):
                if sentence.endswith(":") or _asks(sentence) or _CHATTER.match(sentence) or _refuses(sentence):
                    continue
                claim = (
                    _INTRODUCED.sub("", shelled(sentence), count=1)
                    if _INTRODUCED.match(sentence)
                    else shelled(sentence)
                )
                if reply := _REPLY.match(claim):
                    yield reply[1], False
                    claim = claim[reply.end() :]
                yield claim, mark is not None


def _without_asides(text: str, question: str | None) -> str:
    """A text without what stands in brackets; only without the brackets, where nothing else answers the question."""
    without = _ASIDE.sub("", text)
    if without == text or _NAME_IN_BRACKETS.fullmatch(shelled(text)):
        return text
    question_words = {*map(lemma, words(question or "")), *SHELL_WORDS, *FUNCTION_WORDS}
    remaining_words = (word for word in words(shelled(without)) if word not in FUNCTION_WORDS)
    is_aside = any(lemma(word) not in question_words for word in remaining_words) and not _SAID_IN_BRACKETS.search(text)
    return without if is_aside else _BRACKETS.sub("", text)


def _refuses(sentence: str) -> bool:
    """Whether every part of a sentence declines: "I cannot say, but Ada won" states something."""
    return all(is_refusal(part) and not re.search(r"\d", part) for part in map(normalise, _BUT.split(sentence)))


def _joints(claim: str, question: str | None) -> list[re.Match[str]]:
    """The positions at which a claim may be split."""
    question_text = normalise(question or "")
    protected = [span.span() for span in _KEPT_TOGETHER.finditer(claim)]
    protected += [span.span() for span in _JOINED.finditer(claim) if normalise(span[0]) in question_text]
    return [joint for joint in _JOINT.finditer(claim) if not any(a <= joint.start() < b for a, b in protected)]


def _clauses(claim: str, question: str | None) -> Iterator[str]:
    start, verbs = 0, verb_places(claim)
    for joint in _joints(claim, question):
        both = any(start <= verb < joint.start() for verb in verbs) and verbs[-1] >= joint.end()
        if ";" in joint[0] or (both and not _doubts(claim[joint.end() :][:_DOUBT_WITHIN])):
            yield claim[start : joint.start()]
            start = joint.end()
    yield claim[start:]


def _doubts(clause: str) -> bool:
    """Whether a clause expresses doubt: "It is Paris, but I am not sure" is a single claim."""
    normal = normalise(clause)
    return is_refusal(normal) or hedges(normal)


def _items(clause: str, question: str | None) -> list[str]:
    """The items of a clause that is an enumeration, otherwise the clause. "Paris, France" is not an enumeration."""
    joints = _joints(clause, question)
    ends = [0, *(end for joint in joints for end in joint.span()), len(clause)]
    pieces = [clause[a:b] for a, b in zip(ends[::2], ends[1::2], strict=True)]
    items = [piece for piece in pieces if set(words(piece)) - _NO_ITEM]
    joined = any(_COORDINATOR.search(joint[0]) for joint in joints)
    is_list = joined or ((len(items) > 2 or asks_several(question)) and not _ALTERNATIVES.search(clause))
    return items if is_list and all(len(item.split()) <= _LONGEST_ITEM for item in items[1:]) else [clause]
