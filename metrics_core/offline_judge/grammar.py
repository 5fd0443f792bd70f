"""What the fact grammar knows of English and Russian: the words that join claims, and the marks that do not divide."""

from __future__ import annotations

import re

from answerkey.metrics_core.offline_judge import reading
from answerkey.metrics_core.offline_judge.vocabulary import UNIT_WORDS, word_set

_COORDINATORS = r"and|as well as|и|а также"
COORDINATOR = re.compile(rf"\s*,?\s+(?:{_COORDINATORS})\s+", re.IGNORECASE)
SEPARATOR = re.compile(rf"\s*,?\s+(?:{_COORDINATORS})\s+|\s*[,;]\s+", re.IGNORECASE)
CLAUSE = re.compile(
    r"\s*;\s+|\s*,?\s+(?:and|but|while|whereas|yet|though|although|и|а|но|однако|причем|причём|тогда как|при этом)\s+"
    r"|,\s+(?=(?:it|he|she|they|its|his|her|their|this|он|она|оно|они|его|ее|её|их|это)\s)|:\s+",
    re.IGNORECASE,
)
"""Where a clause may end. It does if verbs stand on both sides."""
RELATIVE = re.compile(r",\s+(?:which|who|котор(?:ый|ая|ое|ые)|where|где)\s+(?!is\b\s*$)", re.IGNORECASE)
ALTERNATIVES = re.compile(r"\b(?:or|either|или|либо)\b", re.IGNORECASE)
SUBORDINATE = word_set(
    "but that which who whose whom because since so if when while where although though unless until not no or nor "
    "но что чтобы который которая которое которые потому так если когда где хотя пока не или либо"
)
"""A piece that begins with one of these is no item of an enumeration."""
CONDITIONS = word_set("if when because although though since unless если когда хотя поскольку")
PARTICIPLES = word_set("sold known called named also born located founded based made written built found used a an the")
"""With one of these an insertion begins: "Ada Brown, born in 1815, wrote it"."""

_UNITS = "|".join(
    sorted((re.escape(form) for form in UNIT_WORDS if len(form) > 1 or form == "h"), key=len, reverse=True)
)
KEPT_TOGETHER = re.compile(
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

REPLY = re.compile(r"^(yes|no|да|нет)(?:[,.!;:]|\s+[—–-])\s+(?=\w)", re.IGNORECASE)
"""A reply in one word with more behind it."""
WHEN = re.compile(
    r",?\s+(?:(?:in|on|since|в)\s+)(?:[^\W\d]{3,9}\s+)?(?:\d{1,2},?\s+)?(?:[^\W\d]{3,9}\s+)?\d{4}(?:\s+(?:году|года|г))?\.?$",
    re.IGNORECASE,
)
"""A time at the end of a claim."""
NAMELY = re.compile(r",?\s+(?:namely|viz\.?|а именно)[,:]?\s+", re.IGNORECASE)
SUCH_AS = re.compile(r",?\s+(?:including|such as|for example|включая|в том числе|например)[,:]?\s+", re.IGNORECASE)
PARTICIPLE_RU = re.compile(r"\w+(?:нн|щ|вш)(?:ый|ая|ое|ые|ий|ее|ие|ийся|аяся|ееся|иеся)")
BULLET = re.compile(r"^\s*(?:[-*•‣–—]\s+|\(?(?:\d{1,2}[.)]|[a-zа-я]\))\s+|#+\s+)", re.IGNORECASE)
NUMBERED = re.compile(r"(?:(?<=\s)|^)\(?(\d{1,2})[.)]\s+(?=\S)")
_ABBREVIATION = re.compile(
    r"(?:\b(?:mr|mrs|ms|dr|prof|st|jr|sr|vs|no|inc|ltd|co|approx|ca|fig|gen|col|sen|rev|e\.g|i\.e|a\.m|p\.m|u\.s|u\.k"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
    r"|г|гг|в|вв|т\.е|т\.к|т\.д|т\.п|др|пр|им|ул|руб|тыс|млн|млрд|см|рис|стр|н\.э)|\b[^\W\d_])\.$",
    re.IGNORECASE,
)
ASIDE = re.compile(r"\s*(?:\([^()]*\)|\[[^\[\]]*\])")
SHELL = re.compile(
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
"""What stands before a claim and is none."""
LIST_SHELL = re.compile(r"^(?:here (?:is|are)|the following|below|вот|ниже)\b", re.IGNORECASE)
"""A lead-in that only announces a list."""
CHATTER = re.compile(
    r"^(?:(?:sure|certainly|of course|okay|ok|hello|hi|конечно|привет|здравствуйте)[!.,]*$"
    r"|i hope|hope (?:this|that)|let me know|feel free|please (?:note that i|let me)"
    r"|if you (?:have|need|want|would like)|is there anything|thank|thanks|you're welcome|good luck|enjoy"
    r"|great question|that's a (?:great|good)|happy to help|here (?:is|are) (?:the|a|some)\b[^:]*$"
    r"|надеюсь|если (?:у вас|вам|хотите)|обращайтесь|спасибо|пожалуйста|удачи|рада? (?:помочь|был)|хороший вопрос)",
    re.IGNORECASE,
)
"""Greetings, thanks, offers and wishes."""


def sentences(line: str) -> list[str]:
    """The sentences of a line; none ends with an abbreviation or an initial."""
    found: list[str] = []
    for piece in reading.sentences(line):
        if found and _ABBREVIATION.search(found[-1]):
            found[-1] = f"{found[-1]} {piece}"
        else:
            found.append(piece)
    return found
