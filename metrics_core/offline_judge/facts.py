"""Facts of a text without a model: a small grammar of clauses and enumerations, English and Russian.

In this order, each step on the pieces that the one before it left:

1. lines, bullets and numbered items; a lead-in that ends with a colon stands before each of its items;
2. sentences; greetings, offers, questions and refusals are not claims, and "The answer is" is stripped;
3. insertions and relative clauses: "Ada, born in 1815, wrote it", "Tokyo, which lies on Honshu";
4. clauses joined by "and", "but" or a semicolon, if there is a verb on both sides; a missing subject is repeated;
5. enumerations: "Amy likes apples, berries and plums"; the words before and after them belong to every item.

"or" does not separate facts. Quotations, dates, numbers, "between A and B", and what the question itself joins
("Romeo and Juliet") are kept together. Brackets are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from answerkey.metrics_core.offline_judge.reading import LONGEST_CHARACTERS, asks_several, clean, parts_of, sentences
from answerkey.metrics_core.offline_judge.stance import hedges, is_refusal
from answerkey.metrics_core.offline_judge.vocabulary import (
    DASHES,
    FUNCTION_WORDS,
    PREPOSITIONS,
    SUBJECTS,
    SUBORDINATE,
    UNIT_WORDS,
    boundary,
    first_verb,
    is_verb,
    tagged,
    word_set,
)
from answerkey.metrics_core.text import composed, normalise, words

_COORDINATORS = r"and|as well as|и|а также"
_COORDINATOR = re.compile(rf"\s*,?\s+(?:{_COORDINATORS})\s+", re.IGNORECASE)
_SEPARATOR = re.compile(rf"\s*,?\s+(?:{_COORDINATORS})\s+|\s*[,;]\s+", re.IGNORECASE)
_CLAUSE = re.compile(
    r"\s*;\s+|\s*,?\s+(?:and|but|while|whereas|yet|though|although|и|а|но|однако|причем|причём|тогда как|при этом)\s+"
    r"|,\s+(?=(?:it|he|she|they|its|his|her|their|this|он|она|оно|они|его|ее|её|их|это)\s)|:\s+",
    re.IGNORECASE,
)
"""Where a clause may end. It does if verbs stand on both sides."""
_RELATIVE = re.compile(r",\s+(?:which|who|котор(?:ый|ая|ое|ые)|where|где)\s+(?!is\b\s*$)", re.IGNORECASE)
_ALTERNATIVES = re.compile(r"\b(?:or|either|или|либо)\b", re.IGNORECASE)
_CONDITIONS = word_set("if when because although though since unless если когда хотя поскольку")
_PARTICIPLES = word_set(
    "sold known called named also born located founded based made written built found used a an the"
)
"""With one of these an insertion begins: "Ada Brown, born in 1815, wrote it"."""

_UNITS = "|".join(
    sorted((re.escape(form) for form in UNIT_WORDS if len(form) > 1 or form == "h"), key=len, reverse=True)
)
_KEPT_TOGETHER = re.compile(
    r"\"[^\"]*\"|“[^”]*”|«[^»]*»|'[^']{3,}'(?!\w)"
    r"|\b\d{1,3}(?:,\s?\d{3})+\b"
    r"|\b[A-Za-z]{3,9}\.?\s+\d{1,2}(?:st|nd|rd|th)?,\s+\d{3,4}\b"
    rf"|\b\d+(?:[.,]\d+)?\s*(?:{_UNITS})\b,?\s+(?:and|и)\s+\d+(?:[.,]\d+)?\s*(?:{_UNITS})\b"
    r"|\b(?:hundred|thousand|million|billion)\s+and\s+\w+"
    r"|\bup to and including\b"
    r"|\b(?:between|между)\s+\S+(?:\s+\S+){0,3}?\s+(?:and|и)\s+\S+",
    re.IGNORECASE,
)
"""Quotations, numbers, dates, measures of two units, and the two ends of a span."""

_REPLY = re.compile(r"^(yes|no|да|нет)(?:[,.!;:]|\s+[—–-])\s+(?=\w)", re.IGNORECASE)
"""A reply in one word with more behind it."""
_WHEN = re.compile(
    r",?\s+(?:(?:in|on|since|в)\s+)(?:[^\W\d]{3,9}\s+)?(?:\d{1,2},?\s+)?(?:[^\W\d]{3,9}\s+)?\d{4}(?:\s+(?:году|года|г))?\.?$",
    re.IGNORECASE,
)
"""A time at the end of a claim."""
_NAMELY = re.compile(r",?\s+(?:namely|viz\.?|а именно)[,:]?\s+", re.IGNORECASE)
_SUCH_AS = re.compile(r",?\s+(?:including|such as|for example|включая|в том числе|например)[,:]?\s+", re.IGNORECASE)
_PARTICIPLE_RU = re.compile(r"\w+(?:нн|щ|вш)(?:ый|ая|ое|ые|ий|ее|ие|ийся|аяся|ееся|иеся)")
_BULLET = re.compile(r"^\s*(?:[-*•‣–—]\s+|\(?(?:\d{1,2}[.)]|[a-zа-я]\))\s+|#+\s+)", re.IGNORECASE)
_NUMBERED = re.compile(r"(?:(?<=\s)|^)\(?(\d{1,2})[.)]\s+(?=\S)")
_ABBREVIATION = re.compile(
    r"(?:\b(?:mr|mrs|ms|dr|prof|st|jr|sr|vs|no|inc|ltd|co|approx|ca|fig|gen|col|sen|rev|e\.g|i\.e|a\.m|p\.m|u\.s|u\.k"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
    r"|г|гг|в|вв|т\.е|т\.к|т\.д|т\.п|др|пр|им|ул|руб|тыс|млн|млрд|см|рис|стр|н\.э)|\b[^\W\d_])\.$",
    re.IGNORECASE,
)
_ASIDE = re.compile(r"\s*(?:\([^()]*\)|\[[^\[\]]*\])")
_SHELL = re.compile(
    r"^(?:(?:sure|certainly|of course|well|okay|ok|great question|hello|hi|so"
    r"|конечно|итак|здравствуйте|привет)[,!.:]*\s+"
    r"|(?:the|my|correct|right) (?:correct |right |short )?answer(?: to (?:this|the|your) question)?"
    r" (?:is|would be)[:,]?\s+(?:that )?|answer:\s+"
    r"|(?:правильный |верный )?ответ(?: на (?:этот|ваш) вопрос)?\s*(?:[:—–-]|таков:)\s*"
    r"|(?:according to|based on) [^,]{3,60},\s+"
    r"|(?:as far as i know|to my knowledge|насколько я знаю|насколько мне известно),?\s+"
    r"|(?:in (?:summary|short|conclusion)|to summari[sz]e|overall|therefore|thus|additionally|moreover|furthermore|also"
    r"|however|таким образом|кроме того|однако|также|итого),\s+)+",
    re.IGNORECASE,
)
"""Introductions that precede a claim and are not part of it."""
_LIST_SHELL = re.compile(r"^(?:here (?:is|are)|the following|below|вот|ниже)\b", re.IGNORECASE)
"""A lead-in that merely announces a list."""
_CHATTER = re.compile(
    r"^(?:(?:sure|certainly|of course|okay|ok|hello|hi|конечно|привет|здравствуйте)[!.,]*$"
    r"|i hope|hope (?:this|that)|let me know|feel free|please (?:note that i|let me)"
    r"|if you (?:have|need|want|would like)|is there anything|thank|thanks|you're welcome|good luck|enjoy"
    r"|great question|that's a (?:great|good)|happy to help|here (?:is|are) (?:the|a|some)\b[^:]*$"
    r"|надеюсь|если (?:у вас|вам|хотите)|обращайтесь|спасибо|пожалуйста|удачи|рада? (?:помочь|был)|хороший вопрос)",
    re.IGNORECASE,
)
"""Greetings, thanks, offers and wishes."""


def _sentences(line: str) -> list[str]:
    """The sentences of a line; abbreviations and initials end none."""
    result: list[str] = []
    for piece in sentences(line):
        if result and _ABBREVIATION.search(result[-1]):
            result[-1] = f"{result[-1]} {piece}"
        else:
            result.append(piece)
    return result


@dataclass(frozen=True, slots=True)
class Fact:
    """One claim.

    Attributes:
        text: the claim, with the words that an enumeration says of all its items.
        item: the item alone, if this is one of an enumeration: another item beside it is not a contradiction.

    >>> facts_of("red and green")[0]
    Fact(text='red', item='red')
    """

    text: str
    item: str = ""


_NO_ITEM = FUNCTION_WORDS | {"etc", "too"}


def items(clause: str, question: str | None) -> list[Fact]:
    """The facts of a clause: its items if it is an enumeration, otherwise the clause itself.

    >>> [fact.text for fact in items("Amy likes apples and plums", None)]
    ['Amy likes apples', 'Amy likes plums']
    """
    pieces = [piece.strip() for piece in _SEPARATOR.split(clause) if set(words(piece)) - _NO_ITEM]
    joined = _COORDINATOR.search(clause) is not None
    # "A, B or C" is one claim; "A, B or C, and D" has two items.
    if len(pieces) < 2 or (_ALTERNATIVES.search(clause) and not joined):
        return [Fact(clause)]
    if any(piece.split()[0].casefold() in SUBORDINATE for piece in pieces[1:]):
        return [Fact(clause)]
    verbs = [first_verb(piece) for piece in pieces]
    if all(verb is not None and not verb.start() for verb in verbs):
        # "born in 1815, died in 1852"
        return [Fact(piece) for piece in pieces]
    if not any(verbs):
        return _bare_list(clause, pieces, question, joined=joined)
    if verbs[-1] is not None and not any(verbs[:-1]) and joined and verbs[-1].start():
        cut = verbs[-1].start()
        tail = pieces[-1][cut:].strip()
        return [Fact(f"{piece.strip()} {tail}", piece) for piece in [*pieces[:-1], pieces[-1][:cut]]]
    return _afterfirst_verb(clause, pieces, verbs, joined=joined)


def _bare_list(clause: str, pieces: Sequence[str], question: str | None, *, joined: bool) -> list[Fact]:
    """No verb: "red, green and blue". Two pieces with a comma alone may be "Paris, France"."""
    several = joined or len(pieces) > 2 or ";" in clause or asks_several(question)
    numeric = {any(map(str.isdigit, piece)) for piece in pieces}
    if not several and numeric == {False}:
        return [Fact(clause)]
    head = pieces[0]
    start = 0
    if ": " in head:
        start = head.index(": ") + 2
    first = pieces[1].split()[0].casefold()
    if not start and first in PREPOSITIONS and not head.casefold().startswith(first):
        start = boundary(head, first)
    lead = head[:start].strip()
    return [Fact(f"{lead} {piece}".strip(), piece) for piece in [head[start:], *pieces[1:]]]


def _afterfirst_verb(
    clause: str, pieces: Sequence[str], verbs: Sequence[re.Match[str] | None], *, joined: bool
) -> list[Fact]:
    """The items after the last piece with a verb share what stands before the first of them."""
    place = max(n for n, verb in enumerate(verbs) if verb is not None)
    rest = pieces[place + 1 :]
    if not rest or not (joined or len(rest) > 1):
        return [Fact(clause)]
    before = ", ".join(pieces[:place])
    head = pieces[place]
    colon = head.rfind(": ")
    start = colon + 2 if colon >= 0 else boundary(head, rest[-1].split()[0].casefold())
    frame = f"{before}, {head[:start]}".strip(" ,") if before else head[:start].strip()
    if not head[start:].strip():
        return [Fact(clause)]
    return [Fact(f"{frame} {piece.strip()}".strip(), piece) for piece in [head[start:], *rest]]


GRAMMAR = 1
"""Increase it with every change of the grammar that can change a number: it is part of the signature."""

_HELD = {",": "\ue000", " and ": " \ue001 ", " и ": " \ue002 ", ";": "\ue003", ": ": "\ue004 "}
_FREE = {held.strip(): free.strip() for free, held in _HELD.items()}


def facts_of(text: str, question: str | None = None) -> tuple[Fact, ...]:
    """The facts of a text, in order; of those that differ only in form, the first. A text may have none.

    >>> [fact.text for fact in facts_of("Amy likes apples, berries and plums.", "What fruits does Amy like?")]
    ['Amy likes apples', 'Amy likes berries', 'Amy likes plums']
    """
    by_form: dict[str, Fact] = {}
    for claim, listed in _claims(text):
        held = _hold(claim, question)
        clauses = list(_clauses(held))
        telling = [clause for clause in clauses if not is_refusal(normalise(clause))] or clauses
        for clause in (part for one in telling for part in _timed(one, question)):
            for fact in items(clause, question):
                shown, item = _released(fact.text), _released(fact.item or listed)
                if words(shown):
                    by_form.setdefault(normalise(shown), Fact(shown, item))
    return tuple(by_form.values())


def _claims(text: str) -> Iterator[tuple[str, str]]:
    """The sentences that may state something, without introductions; list items also on their own."""
    lead = ""
    for line, is_item in _lines(composed(text)[:LONGEST_CHARACTERS]):
        if not is_item:
            lead = ""
        sentences = _sentences(line)
        for place, sentence in enumerate(sentences):
            last = place == len(sentences) - 1
            if last and not is_item and sentence.endswith(":"):
                lead = "" if _LIST_SHELL.match(sentence) else _bare(sentence)
                continue
            claim = _bare(sentence)
            if not claim or _empty(sentence):
                continue
            if reply := _REPLY.match(claim):
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
        marks = list(_NUMBERED.finditer(line))
        if len(marks) > 1 and [int(mark[1]) for mark in marks] == list(range(1, len(marks) + 1)):
            if before := line[: marks[0].start()].strip():
                yield clean(before), False
            ends = [*(mark.start() for mark in marks[1:]), len(line)]
            for mark, end in zip(marks, ends, strict=True):
                yield _ASIDE.sub("", clean(line[mark.end() : end])).strip(" ;,"), True
        else:
            bare = _BULLET.sub("", line)
            yield _ASIDE.sub("", clean(bare)), bare != line


def _empty(sentence: str) -> bool:
    """Whether a sentence states nothing: chatter, a question, or a refusal."""
    if sentence.rstrip("\"'»”) ").endswith("?") or _CHATTER.match(sentence):
        return True
    said = map(normalise, _BUT.split(sentence))
    return all(is_refusal(part) and not re.search(r"\d", part) for part in said)


_BUT = re.compile(r",?\s+(?:but|however|but unfortunately|но)\s+", re.IGNORECASE)


def _bare(sentence: str) -> str:
    return _SHELL.sub("", sentence.strip()).strip().rstrip(".!…;:, ")


def _hold(claim: str, question: str | None) -> str:
    """Replace commas and conjunctions that divide nothing by private-use characters."""
    claim = _NAMELY.sub(": ", claim)
    examples = _SUCH_AS.search(claim)
    if examples and first_verb(claim[examples.end() :]) is None:
        claim = f"{claim[: examples.start()]}: {claim[examples.end() :]}"
    claim = _KEPT_TOGETHER.sub(lambda matched: _held(matched[0]), claim)
    asked = normalise(question or "")
    for matched in list(re.finditer(r"(\w[\w'’-]*) (?:and|и) (\w[\w'’-]*)", claim)):
        if normalise(matched[0]) in asked:
            claim = claim.replace(matched[0], _held(matched[0]))
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
    for mark in _CLAUSE.finditer(claim):
        yield claim[end : mark.start()], joint
        end, joint = mark.end(), mark[0]
    yield claim[end:], joint


def _divides(left: str, right: str, joint: str, verb: int) -> bool:
    """Whether a joint between two pieces that have verbs, `right` at place `verb`, ends a claim."""
    if not left or left.split(maxsplit=1)[0].casefold() in _CONDITIONS or _doubts(right):
        return False
    # "she likes apples, pears and plums are sweet": the list before the verb is its subject.
    return not (joint.strip() in ("and", "и") and verb and _SEPARATOR.search(right[:verb]))


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
    at_end = _WHEN.search(clause)
    several = len(parts_of(question)) > 1 and _TIME.search(question or "")
    if at_end and several and _says_more(clause[: at_end.start()]):
        yield clause[: at_end.start()]
        yield at_end[0]
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
        # Piece by piece, since a long enumeration would else be read again for each of its items. The comma counts: a
        # word in -ed is a verb behind one, and none at the beginning of a text.
        if first_verb(pieces[0] if place == 1 else f", {pieces[place - 1]}") is not None:
            break
        inner, verb = pieces[place], first_verb(pieces[place + 1])
        opener = inner.split()[0].casefold() if inner.split() else ""
        inserted = opener in _PARTICIPLES or _PARTICIPLE_RU.fullmatch(opener)
        if inserted and verb is not None and not verb.start():
            subject, after = ", ".join(pieces[:place]), ", ".join(pieces[place + 1 :])
            yield f"{subject} {after}"
            yield f"{subject} {'is' if opener.isascii() else '—'} {inner}"
            return
    opening = _RELATIVE.search(claim)
    if opening is None or first_verb(claim[opening.end() :]) is None:
        yield claim
        return
    main = claim[: opening.start()]
    if not opening[0].isascii() and not _last_noun(main)[:1].isupper():
        # Russian sets a comma before every relative clause; after a common noun it mostly belongs to it.
        yield claim
        return
    inner, _, after = claim[opening.end() :].partition(", ")
    whole = first_verb(main) is not None
    if not whole and first_verb(after) is None:
        yield claim
        return
    yield main if whole else f"{main} {after}"
    yield f"{_last_noun(main)} {inner}".strip()


def _last_noun(clause: str) -> str:
    return clause[boundary(clause) :].strip(" ,")
