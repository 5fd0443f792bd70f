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
from answerkey.metrics_core.offline_judge.vocabulary import DASHES, FUNCTION_WORDS, UNIT_WORDS, tagged, word_list
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
_DIGIT = re.compile(r"\d")
_MAX_DOUBTED_WORDS = 2
"""Words of an answer that a question mark behind it makes no question."""
_CHATTER = re.compile(
    r"(?:sure|certainly|of course|okay|hello|hi|конечно|привет|здравствуйте)[!.,]*$"
    r"|(?:i hope|let me know|feel free|please let me|is there anything|thank|thanks|you're welcome|great question"
    r"|happy to help|надеюсь|обращайтесь|спасибо|хороший вопрос)\b",
    re.IGNORECASE,
)
"""Greetings, thanks and offers."""
_NO_ITEM = FUNCTION_WORDS | {"etc", "too"}
_MAX_ITEM_WORDS = 6
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
    for claim, is_listed in _claims(text, question):
        clauses = list(_clauses(claim, question))
        stating = [clause for clause in clauses if not is_refusal(normalise(clause))]
        for clause in stating or clauses:
            pieces = _enumerated(clause, question)
            for piece in pieces:
                fact_text = piece.strip(" ,;:.!…—–")
                if words(fact_text):
                    in_list = is_listed or len(pieces) > 1
                    by_form.setdefault(normalise(fact_text), Fact(fact_text, fact_text if in_list else ""))
    return tuple(by_form.values())


def _claims(text: str, question: str | None) -> Iterator[tuple[str, bool]]:
    """The sentences that may state a fact, without introductions, and whether each is an item of a list."""
    for line in plain(composed(text))[:LONGEST_CHARACTERS].splitlines():
        starts = [0, *(mark.start() for mark in _MARK.finditer(line)), len(line)]
        for start, stop in pairwise(starts):
            passage = line[start:stop]
            mark = _MARK.match(passage)
            if mark:
                passage = passage[mark.end() :]
            for sentence in sentences(_without_asides(clean(passage), question)):
                # A lead-in, a greeting or an offer states nothing
                if sentence.endswith(":") or _CHATTER.match(sentence):
                    continue
                # Nor does a question, other than a short answer with a question mark: "42?"
                tokens = words(sentence)
                if sentence.endswith("?") and (len(tokens) > _MAX_DOUBTED_WORDS or not _ASKING.isdisjoint(tokens)):
                    continue
                # Nor a sentence of which each part declines, but "I cannot say, but Ada won" does
                declined = [
                    is_refusal(part) and not _DIGIT.search(part) for part in map(normalise, _BUT.split(sentence))
                ]
                if all(declined):
                    continue
                claim = shelled(sentence)
                if _INTRODUCED.match(sentence):
                    claim = _INTRODUCED.sub("", claim, count=1)
                if reply := _REPLY.match(claim):
                    yield reply[1], False
                    claim = claim[reply.end() :]
                yield claim, mark is not None


def _without_asides(text: str, question: str | None) -> str:
    """A text without what stands in brackets; only without the brackets, where nothing else answers the question."""
    outside = _ASIDE.sub("", text)
    if outside == text or _NAME_IN_BRACKETS.fullmatch(shelled(text)):
        return text
    if not _SAID_IN_BRACKETS.search(text):
        question_words = {*map(lemma, words(question or "")), *SHELL_WORDS, *FUNCTION_WORDS}
        answering = [word for word in words(shelled(outside)) if word not in FUNCTION_WORDS]
        if any(lemma(word) not in question_words for word in answering):
            return outside
    return _BRACKETS.sub("", text)


def _joints(claim: str, question: str | None) -> list[re.Match[str]]:
    """The positions at which a claim may be split."""
    question_text = normalise(question or "")
    protected = [span.span() for span in _KEPT_TOGETHER.finditer(claim)]
    protected += [span.span() for span in _JOINED.finditer(claim) if normalise(span[0]) in question_text]
    joints = []
    for joint in _JOINT.finditer(claim):
        if not any(start <= joint.start() < stop for start, stop in protected):
            joints.append(joint)
    return joints


def _clauses(claim: str, question: str | None) -> Iterator[str]:
    start = 0
    verbs = [token.start() for token, word, verb in tagged(claim) if verb and (word not in DASHES or token.start())]
    for joint in _joints(claim, question):
        is_end = ";" in joint[0]
        has_verb_before = any(start <= verb < joint.start() for verb in verbs)
        if not is_end and has_verb_before and verbs[-1] >= joint.end():
            # A doubt belongs to what it is about: "It is Paris, but I am not sure" is a single claim
            following = normalise(claim[joint.end() :][:_DOUBT_WITHIN])
            is_end = not is_refusal(following) and not hedges(following)
        if is_end:
            yield claim[start : joint.start()]
            start = joint.end()
    yield claim[start:]


def _enumerated(clause: str, question: str | None) -> list[str]:
    """The items of a clause that is an enumeration, otherwise the clause. "Paris, France" is not an enumeration."""
    joints = _joints(clause, question)
    # The pieces between the joints
    ends = [0]
    for joint in joints:
        ends += joint.span()
    ends.append(len(clause))
    pieces = [clause[start:stop] for start, stop in zip(ends[::2], ends[1::2], strict=True)]
    items = [piece for piece in pieces if set(words(piece)) - _NO_ITEM]

    is_list = any(_COORDINATOR.search(joint[0]) for joint in joints)
    if not is_list and not _ALTERNATIVES.search(clause):
        is_list = len(items) > 2 or asks_several(question)
    if is_list and all(len(piece.split()) <= _MAX_ITEM_WORDS for piece in items[1:]):
        return items
    return [clause]
