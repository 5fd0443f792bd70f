"""Facts of a text without a model: a small grammar of clauses and enumerations, English and Russian.

In this order, each step on the pieces that the one before it left:

1. lines, bullets and numbered items; a lead-in that ends with a colon stands before each of its items;
2. sentences; greetings, offers, questions and refusals are no claims, and "The answer is" is stripped;
3. insertions and relative clauses: "Ada, born in 1815, wrote it", "Tokyo, which lies on Honshu";
4. clauses: what "and", "but", a semicolon joins where verbs stand on both sides; a missing subject is put back;
5. enumerations: "Amy likes apples, berries and plums"; what stands before and after them belongs to every item.

"or" joins no facts. Quotations, dates, numbers, "between A and B", and what the question itself joins ("Romeo and
Juliet") are kept together. Brackets are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from answerkey.metrics_core.offline_judge import grammar
from answerkey.metrics_core.offline_judge.enumerations import Fact, items
from answerkey.metrics_core.offline_judge.questions import parts_of
from answerkey.metrics_core.offline_judge.reading import LONGEST_CHARACTERS, clean
from answerkey.metrics_core.offline_judge.stance import hedges, is_refusal
from answerkey.metrics_core.offline_judge.verbs import DASHES, SUBJECTS, boundary, first_verb, is_verb, tagged
from answerkey.metrics_core.offline_judge.vocabulary import FUNCTION_WORDS
from answerkey.metrics_core.text import composed, normalise, words

GRAMMAR = 1
"""Counts the changes of the grammar that can change a number."""

_HELD = {",": "\ue000", " and ": " \ue001 ", " и ": " \ue002 ", ";": "\ue003", ": ": "\ue004 "}
_FREE = {held.strip(): free.strip() for free, held in _HELD.items()}


def facts_of(text: str, question: str | None = None) -> tuple[Fact, ...]:
    """The facts of a text in its order; of those that differ only in form the first. A text may have none.

    >>> [fact.text for fact in facts_of("Amy likes apples, berries and plums.", "What fruits does Amy like?")]
    ['Amy likes apples', 'Amy likes berries', 'Amy likes plums']
    """
    found: dict[str, Fact] = {}
    for claim, listed in _claims(text):
        held = _hold(claim, question)
        clauses = list(_clauses(held))
        telling = [clause for clause in clauses if not is_refusal(normalise(clause))] or clauses
        for clause in (part for one in telling for part in _timed(one, question)):
            for fact in items(clause, question):
                shown, item = _released(fact.text), _released(fact.item or listed)
                if words(shown):
                    found.setdefault(normalise(shown), Fact(shown, item))
    return tuple(found.values())


def _claims(text: str) -> Iterator[tuple[str, str]]:
    """The sentences that may claim something, without shells; an item of a list comes alone as well."""
    lead = ""
    for line, is_item in _lines(composed(text)[:LONGEST_CHARACTERS]):
        if not is_item:
            lead = ""
        sentences = grammar.sentences(line)
        for place, sentence in enumerate(sentences):
            last = place == len(sentences) - 1
            if last and not is_item and sentence.endswith(":"):
                lead = "" if grammar.LIST_SHELL.match(sentence) else _bare(sentence)
                continue
            claim = _bare(sentence)
            if not claim or _empty(sentence):
                continue
            if reply := grammar.REPLY.match(claim):
                yield reply[1], ""
                claim = claim[reply.end() :]
            whole = f"{lead} {claim}" if is_item and lead and _belongs(lead, claim) else claim
            yield whole, claim if is_item else ""


def _belongs(lead: str, item: str) -> bool:
    """A lead-in that ends in the middle of a claim: "Side effects are:" does, "Here is a list of facts:" does not."""
    end = words(lead)[-1:] or ("",)
    return is_verb(end[0]) and not any(is_verb(word) for word in words(item))


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    for line in filter(None, map(str.strip, text.splitlines())):
        marks = list(grammar.NUMBERED.finditer(line))
        if len(marks) > 1 and [int(mark[1]) for mark in marks] == list(range(1, len(marks) + 1)):
            if before := line[: marks[0].start()].strip():
                yield clean(before), False
            ends = [*(mark.start() for mark in marks[1:]), len(line)]
            for mark, end in zip(marks, ends, strict=True):
                yield grammar.ASIDE.sub("", clean(line[mark.end() : end])).strip(" ;,"), True
        else:
            bare = grammar.BULLET.sub("", line)
            yield grammar.ASIDE.sub("", clean(bare)), bare != line


def _empty(sentence: str) -> bool:
    """Says nothing in reply: chatter, a question, or a refusal."""
    if sentence.rstrip("\"'»”) ").endswith("?") or grammar.CHATTER.match(sentence):
        return True
    said = map(normalise, _BUT.split(sentence))
    return all(is_refusal(part) and not re.search(r"\d", part) for part in said)


_BUT = re.compile(r",?\s+(?:but|however|but unfortunately|но)\s+", re.IGNORECASE)


def _bare(sentence: str) -> str:
    return grammar.SHELL.sub("", sentence.strip()).strip().rstrip(".!…;:, ")


def _hold(claim: str, question: str | None) -> str:
    """Hide the commas and conjunctions that divide nothing behind characters that no text has."""
    claim = grammar.NAMELY.sub(": ", claim)
    examples = grammar.SUCH_AS.search(claim)
    if examples and first_verb(claim[examples.end() :]) is None:
        claim = f"{claim[: examples.start()]}: {claim[examples.end() :]}"
    claim = grammar.KEPT_TOGETHER.sub(lambda found: _held(found[0]), claim)
    asked = normalise(question or "")
    for found in list(re.finditer(r"(\w[\w'’-]*) (?:and|и) (\w[\w'’-]*)", claim)):
        if normalise(found[0]) in asked:
            claim = claim.replace(found[0], _held(found[0]))
    return claim


def _held(text: str) -> str:
    for free, held in _HELD.items():
        text = text.replace(free, held)
    return text


def _released(text: str) -> str:
    for held, free in _FREE.items():
        text = text.replace(held, free)
    return " ".join(text.split()).strip(" ,;:.—–")


def _clauses(claim: str) -> Iterator[str]:
    for part in _without_insertions(claim):
        left, has_verb = "", False
        for piece, joint in _pieces(part):
            verb = first_verb(piece)
            if not left:
                left, has_verb = piece, verb is not None
            elif ";" in joint or (has_verb and verb is not None and _divides(left, piece, joint, verb.start())):
                yield left
                left, has_verb = _with_subject(left, piece), verb is not None
            else:
                left, has_verb = f"{left}{joint}{piece}", has_verb or verb is not None
        yield left


def _pieces(claim: str) -> Iterator[tuple[str, str]]:
    """What stands between joints, each with the joint before it."""
    end, joint = 0, ""
    for found in grammar.CLAUSE.finditer(claim):
        yield claim[end : found.start()], joint
        end, joint = found.end(), found[0]
    yield claim[end:], joint


def _divides(left: str, right: str, joint: str, verb: int) -> bool:
    """Whether a joint between two pieces that have verbs, `right` at place `verb`, ends a claim."""
    if not left or left.split(maxsplit=1)[0].casefold() in grammar.CONDITIONS or _doubts(right):
        return False
    # "she likes apples, pears and plums are sweet": the list before the verb is its subject.
    return not (joint.strip() in ("and", "и") and verb and grammar.SEPARATOR.search(right[:verb]))


def _doubts(clause: str) -> bool:
    """ "It is Paris, but I am not sure" is one claim, and a doubtful one."""
    normal = normalise(clause)
    return is_refusal(normal) or hedges(normal)


def _with_subject(left: str, right: str) -> str:
    """`right`, with the subject of `left` where it begins with its verb."""
    verb, first = first_verb(right), first_verb(left)
    own = right.split()[1:2]
    if verb is None or first is None or verb.start() or verb[0] in DASHES or (own and own[0].casefold() in SUBJECTS):
        return right
    subject = left[: first.start()].strip(" ,—–")
    return f"{subject} {right}" if subject else right


def _timed(clause: str, question: str | None) -> Iterator[str]:
    """Where the question asks for a time beside other things, the time at the end of a clause is a fact of its own."""
    found = grammar.WHEN.search(clause)
    several = len(parts_of(question)) > 1 and _TIME.search(question or "")
    if found and several and _says_more(clause[: found.start()]):
        yield clause[: found.start()]
        yield found[0]
    else:
        yield clause


def _says_more(clause: str) -> bool:
    """Whether a clause without its time says anything: "Ada wrote it" does, "she was born" does not."""
    return any(word.isalpha() and not verb and word not in FUNCTION_WORDS for _, word, verb in tagged(clause))


_TIME = re.compile(r"\b(?:when|year|date|когда|году|год|дата)\b", re.IGNORECASE)


def _without_insertions(claim: str) -> Iterator[str]:
    """The claim without its insertion and relative clauses, then these as claims of their own."""
    pieces = claim.split(", ")
    for place in range(1, len(pieces) - 1):
        inner, after = pieces[place], ", ".join(pieces[place + 1 :])
        subject = ", ".join(pieces[:place])
        opener = inner.split()[0].casefold() if inner.split() else ""
        verb = first_verb(after)
        inserted = opener in grammar.PARTICIPLES or grammar.PARTICIPLE_RU.fullmatch(opener)
        if inserted and first_verb(subject) is None and verb is not None and not verb.start():
            yield f"{subject} {after}"
            yield f"{subject} {'is' if opener.isascii() else '—'} {inner}"
            return
    found = grammar.RELATIVE.search(claim)
    if found is None or first_verb(claim[found.end() :]) is None:
        yield claim
        return
    main = claim[: found.start()]
    if not found[0].isascii() and not _last_noun(main)[:1].isupper():
        # Russian sets a comma before every relative clause; after a common noun it mostly belongs to it.
        yield claim
        return
    inner, _, after = claim[found.end() :].partition(", ")
    whole = first_verb(main) is not None
    if not whole and first_verb(after) is None:
        yield claim
        return
    yield main if whole else f"{main} {after}"
    yield f"{_last_noun(main)} {inner}".strip()


def _last_noun(clause: str) -> str:
    return clause[boundary(clause) :].strip(" ,")
