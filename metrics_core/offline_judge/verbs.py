"""Verbs of English and Russian, as far as word lists and endings show them, and where the last noun of a clause is."""

from __future__ import annotations

import re
from collections.abc import Iterator

from answerkey.metrics_core.offline_judge.vocabulary import FUNCTION_WORDS, word_set

SUBJECTS = word_set("it he she they this that these those i we you there он она оно они это я мы вы там")
PREPOSITIONS = word_set(
    "of in on at to for from by with as into about between through under over than "
    "в во на с со к по из за от до у о об для под над между через"
)
AUXILIARIES = word_set(
    "is are was were be been being am isn't aren't wasn't weren't has have had hasn't haven't hadn't do does did don't "
    "doesn't didn't can cannot can't could will would shall should may might must won't shouldn't couldn't "
    "был была было были есть является являются стал стала стало стали может могут должен должна должны нет "
    "равен равна равно равны"
)
_PERSONS = word_set("it he she they we i you")
_ARTICLES = word_set("the a an its his her their no not")
LIGHT = AUXILIARIES | word_set(
    "call called calls name named names locate located situated bring include includes including consist consists "
    "contain contains answer reply yes да namely such there together mainly mostly located namely known "
    "называется называют назвали находится входит входят относится относятся состоит составляет такие именно "
    "нужно надо следует взять состав г гг"
)
"""Words that carry no value of their own: they join a value to what was asked."""
_MODALS = word_set("can could will would shall should may might must")
_STEMS = word_set(
    "accept act add allow appear apply arrive become breathe begin belong bring build buy call carry cause choose "
    "come compose connect consist contain cost cover create cross cut define describe design develop die direct "
    "discover draw eat enable end enter equal exist fall feed feel find flow form found get give go grow happen have "
    "help hold include increase invent join keep kill know last lay lead leave let lie like live look lose love make "
    "mean measure meet move name need occur open operate own paint pay perform play prefer print produce provide "
    "publish range reach receive reduce refer release remain require rule run say see sell send separate serve set "
    "share show sign sing sit speak spread stand star start stay stop study sing take teach tell think treat turn use "
    "visit walk want wear weigh win work write"
)
_IRREGULAR = word_set(
    "became began brought built bought came chose died drew ate fell felt found founded flew gave got went grew held "
    "kept knew laid led left lay lost made meant met paid ran said saw sold sent sang sat spoke stood told thought "
    "took taught wore won wrote written sung spoken known taken given chosen drawn born begun gone seen done worn "
    "grown"
)
LEMMAS = {
    form: forms.split()[0]
    for forms in (
        "become became", "begin began begun", "bring brought", "build built", "buy bought", "choose chose chosen",
        "come came", "die died dies dead", "draw drew drawn", "fall fell fallen", "find found", "fly flew flown",
        "get got", "give gave given", "go went gone", "grow grew grown", "hold held", "keep kept", "know knew known",
        "lay laid", "lead led", "leave left", "lose lost", "make made", "mean meant", "meet met", "pay paid",
        "run ran", "say said", "see saw seen", "sell sold", "send sent", "sing sang sung", "sit sat",
        "speak spoke spoken",
        "stand stood", "take took taken", "teach taught", "tell told", "think thought", "wear wore worn", "win won",
        "write wrote written", "sink sank sunk", "bear born", "hit hits", "old age aged", "long length",
        "tall height high",
        "время времени времена времен", "высота высокий высокая", "река реке реки",
    )
    for form in forms.split()
}  # fmt: skip
"""One form for those that no ending tells apart."""
VERBS = (
    _IRREGULAR
    | _STEMS
    | {stem + ("es" if stem.endswith(("s", "sh", "ch", "x", "o")) else "s") for stem in _STEMS}
    | {stem + ("d" if stem.endswith("e") else "ed") for stem in _STEMS}
    | word_set("dies carries carried studies studied stopped planned has умер умерла погиб погибла вырос выросла")
)
"""Forms of frequent verbs. A verb that is not here is found by its shape (`is_verb`), or not at all."""

_RUSSIAN_VERB = re.compile(
    r".{2,}(?:ует|ают|яют|уют|еют|ает|яет|еет|ется|ится|ются|утся|ятся|атся|лся|лась|лось|лись|ивал[аи]?|ывал[аи]?"
    r"|[аияеуы]л|[аияеуы]л[аи]|оит|дит|жит|сит|дят|жат|одят)"
)
_RUSSIAN_NOUNS = word_set(
    "канал канала журнал материал сигнал финал капитал генерал адмирал персонал квартал вокзал идеал оригинал терминал "
    "крокодил отдел предел раздел начала сила силы школа скала материала интервал минерал портал ритуал потенциал если "
    "были земли стали числа зала металла капитала"
)


_WORD = re.compile(r"[\w'’%°$€£₽№.+-]*\w[\w'’%°]*|[—–]|\S")
DASHES = ("—", "–", "-")
"""Where a dash stands between words, it stands for "is"."""


def is_verb(word: str, before: str = "", after: str = "") -> bool:
    """Whether a word (lower case, between `before` and `after`) is, in all likelihood, a finite verb."""
    if word in AUXILIARIES or word in VERBS or before in _MODALS:
        return not (word in _STEMS and before in ("the", "a", "an", "of", "your", "his", "her", "its", "their"))
    if not word.isascii():
        return word not in _RUSSIAN_NOUNS and _RUSSIAN_VERB.fullmatch(word) is not None
    if before in _PERSONS:
        return word.isalpha() and word not in FUNCTION_WORDS
    if word.endswith("ed") and len(word) > 4:
        return before not in ("the", "a", "an", "")
    # "reflects the light": no plural stands before an article.
    return word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3 and after in _ARTICLES


def first_verb(text: str) -> re.Match[str] | None:
    """The first finite verb, or a dash that stands for one."""
    return next((token for token, word, verb in tagged(text) if verb and (word not in DASHES or token.start())), None)


def tagged(text: str) -> Iterator[tuple[re.Match[str], str, bool]]:
    """Every token of a text, in lower case, and whether it is a verb or a dash that stands for one."""
    tokens = list(_WORD.finditer(text))
    lower = ["", *(token[0].casefold().replace("’", "'") for token in tokens), ""]
    for token, before, word, after in zip(tokens, lower, lower[1:], lower[2:], strict=False):
        yield token, word, word in DASHES or is_verb(word, before, after)


def boundary(head: str, parallel: str = "") -> int:
    """Where the last noun of `head` begins: after its last verb, dash, colon or preposition.

    `parallel` is the first word of another item: "as a solid, as a gas" begins each with "as".
    """
    end = 0
    same = any(word == parallel for _, word, _ in tagged(head))
    for token, word, verb in tagged(head):
        if parallel in PREPOSITIONS and word in PREPOSITIONS:
            # Where the item has a preposition of its own, that of the head belongs to the first item.
            end = token.start() if word == parallel or not same else end
        elif verb or word == ":" or word in PREPOSITIONS:
            end = token.end()
    return end
