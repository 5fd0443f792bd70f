"""Word lists of the offline judge: function words and verbs of English and Russian, units, well-known short names.

Everything here is a hint: texts in other languages are judged without these hints.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping


def word_set(text: str) -> frozenset[str]:
    """The words of a text, split at white space.

    >>> sorted(word_set("to be or not to be"))
    ['be', 'not', 'or', 'to']
    """
    return frozenset(text.split())


FUNCTION_WORDS = word_set(
    "a an the of in on at to for from by with as is are was were be been being am it its it's this that these those "
    "and he she they his her their him them there which who whom whose what when where why how also has have had do "
    "does did will would s t i you we my your our so than then into up out about after before during over under "
    "between such very more most some any all both each other only own same just but "
    "в во на с со к ко по из за от до у о об обо при для под над и а но же ли бы что как это этот эта эти то тот та те "
    "он она они оно его ее их ему ей им был была было были есть быть является являются также который которая которое "
    "которые кто где когда почему чем чей там тут мы вы я ты все всех уже еще или "
    "de la le les el los las un une una du des et y der die das den dem ein eine und ist im von zu est en"
)
"""Words that carry grammar and not the answer. "or" and negations are left out on purpose; "или" is in for overlap."""

NEGATIONS = word_set(
    "not no never none neither nor without cannot n't isn't wasn't aren't weren't don't doesn't didn't won't can't "
    "hasn't haven't hadn't couldn't wouldn't shouldn't nobody nothing "
    "не нет ни никогда никто ничто без нельзя нету nicht kein keine nie pas jamais non ningún nunca 不"
)

YES = word_set("yes yeah true correct да верно правда ja oui sí")
NO = word_set("no not false incorrect нет неверно неправда nein non")

ALTERNATIVE_WORDS = word_set("or either или либо oder ou")

TITLES = word_set(
    "mr mrs ms miss dr prof professor sir dame lord lady saint st king queen prince princess pope president general "
    "captain emperor jr sr ii iii iv г-н г-жа князь царь король королева император президент генерал святой"
)

PLACE_OR_KIND = word_set(
    "city state county country province river lake mount mountain island ocean sea street company inc ltd corp "
    "corporation band group club team university college republic kingdom united movie film song album book novel "
    "series season episode city's town village region department ministry war battle "
    "город река озеро гора остров океан море улица компания группа клуб команда университет республика королевство "
    "область страна фильм песня роман книга год года году г век века"
)
"""Words for the kind of thing that has a name; a name without them is the same name."""

UNIT_WORDS: Mapping[str, str] = {
    form: unit
    for unit, forms in {
        "percent": "% percent per-cent percentage процент процента процентов",
        "kilometre": "km kilometre kilometres kilometer kilometers км километр километра километров",
        "metre": "m metre metres meter meters м метр метра метров",
        "centimetre": "cm centimetre centimetres centimeter centimeters см сантиметр сантиметра сантиметров",
        "millimetre": "mm millimetre millimetres millimeter millimeters мм миллиметр миллиметра миллиметров",
        "mile": "mi mile miles миля мили миль",
        "foot": "ft foot feet фут фута футов",
        "inch": "inch inches дюйм дюйма дюймов",
        "yard": "yd yard yards ярд ярда ярдов",
        "kilogram": "kg kilogram kilograms kilo kilos кг килограмм килограмма килограммов",
        "gram": "g gram grams gramme грамм грамма граммов",
        "pound": "lb lbs pound pounds фунт фунта фунтов",
        "tonne": "t ton tons tonne tonnes тонна тонны тонн",
        "litre": "l litre litres liter liters л литр литра литров",
        "second": "sec second seconds с сек секунда секунды секунд",
        "minute": "min mins minute minutes мин минута минуты минут",
        "hour": "h hr hrs hour hours ч час часа часов",
        "day": "day days день дня дней сутки суток",
        "week": "week weeks неделя недели недель",
        "month": "month months месяц месяца месяцев",
        "year": "year years yr yrs год года лет",
        "dollar": "$ usd dollar dollars доллар доллара долларов",
        "euro": "€ eur euro euros евро",
        "sterling": "£ gbp",
        "rouble": "₽ rub rouble roubles ruble rubles рубль рубля рублей руб",
        "celsius": "°c celsius цельсия",
        "fahrenheit": "°f fahrenheit фаренгейта",
        "degree": "° degree degrees градус градуса градусов",
    }.items()
    for form in forms.split()
}

ALIASES: tuple[frozenset[str], ...] = tuple(
    frozenset(name.strip() for name in line.split("="))
    for line in (
        "nyc = new york city = new york",
        "usa = us = u.s = u.s.a = united states = united states of america = america = сша = соединенные штаты",
        "uk = u.k = united kingdom = great britain = britain = великобритания = соединенное королевство",
        "uae = united arab emirates = оаэ",
        "ussr = soviet union = union of soviet socialist republics = ссср = советский союз",
        "prc = china = people's republic of china = кнр = китай",
        "russia = russian federation = россия = российская федерация = рф",
        "holland = netherlands = the netherlands",
        "la = los angeles",
        "sf = san francisco",
        "dc = d.c = washington dc = washington d.c",
        "eu = european union = евросоюз = европейский союз = ес",
        "un = united nations = оон = организация объединенных наций",
        "ai = artificial intelligence = ии = искусственный интеллект",
        "tv = television",
        "spb = saint petersburg = st petersburg = st. petersburg = санкт-петербург = питер = петербург",
        "world war i = world war 1 = ww1 = wwi = first world war = the first world war",
        "world war ii = world war 2 = ww2 = wwii = second world war = the second world war",
        "jfk = john f kennedy = john f. kennedy = john fitzgerald kennedy",
        "fdr = franklin d roosevelt = franklin d. roosevelt = franklin delano roosevelt",
        "mlk = martin luther king = martin luther king jr",
    )
)
"""Names that cannot be recognised by their form. Acronyms of their long form need no list."""

_CYRILLIC = "а б в г д е ж з и й к л м н о п р с т у ф х ц ч ш щ ъ ы ь э ю я і ї є ґ"
_LATIN = "a b v g d e zh z i j k l m n o p r s t u f h ts ch sh sch ' y ' e yu ya i yi ye g"
ROMAN: Mapping[str, str] = {
    cyrillic: latin.strip("'") for cyrillic, latin in zip(_CYRILLIC.split(), _LATIN.split(), strict=True)
}
"""Cyrillic letters in Latin ones."""


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
SUBORDINATE = word_set(
    "but that which who whose whom because since so if when while where although though unless until not no or nor "
    "но что чтобы который которая которое которые потому так если когда где хотя пока не или либо"
)
"""A piece that begins with one of these is not an item of an enumeration."""
LIGHT = AUXILIARIES | word_set(
    "call called calls name named names locate located situated bring include includes including consist consists "
    "contain contains answer reply yes да namely such there together mainly mostly located namely known "
    "называется называют назвали находится входит входят относится относятся состоит составляет такие именно "
    "нужно надо следует взять состав г гг"
)
"""Words without a value of their own, which join a value to what was asked."""
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
"""The forms of irregular words, each mapped to one of them."""
VERBS = (
    _IRREGULAR
    | _STEMS
    | {stem + ("es" if stem.endswith(("s", "sh", "ch", "x", "o")) else "s") for stem in _STEMS}
    | {stem + ("d" if stem.endswith("e") else "ed") for stem in _STEMS}
    | word_set("dies carries carried studies studied stopped planned has умер умерла погиб погибла вырос выросла")
)
"""Forms of frequent verbs. Other verbs are recognised by their form (`is_verb`), or not at all."""

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
    """Whether a word (lower case, between the words `before` and `after`) is probably a finite verb.

    >>> is_verb("likes"), is_verb("apples"), is_verb("work", before="the")
    (True, False, False)
    """
    if word in AUXILIARIES or word in VERBS or before in _MODALS:
        return not (word in _STEMS and before in ("the", "a", "an", "of", "your", "his", "her", "its", "their"))
    if not word.isascii():
        return word not in _RUSSIAN_NOUNS and _RUSSIAN_VERB.fullmatch(word) is not None
    if before in _PERSONS:
        return word.isalpha() and word not in FUNCTION_WORDS
    if word.endswith("ed") and len(word) > 4:
        return before not in ("the", "a", "an", "")
    # "reflects the light": a plural does not stand before an article.
    return word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3 and after in _ARTICLES


def first_verb(text: str) -> re.Match[str] | None:
    """The first finite verb of a text, or a dash that stands for one.

    >>> first_verb("Amy likes apples")[0]
    'likes'
    """
    return next((token for token, word, verb in tagged(text) if verb and (word not in DASHES or token.start())), None)


def tagged(text: str) -> Iterator[tuple[re.Match[str], str, bool]]:
    """Every token of a text, in lower case, and whether it is a verb or a dash that stands for one.

    >>> [word for _, word, verb in tagged("Amy likes apples") if verb]
    ['likes']
    """
    tokens = list(_WORD.finditer(text))
    lower = ["", *(token[0].casefold().replace("’", "'") for token in tokens), ""]
    for token, before, word, after in zip(tokens, lower, lower[1:], lower[2:], strict=False):
        yield token, word, word in DASHES or is_verb(word, before, after)


def boundary(head: str, parallel: str = "") -> int:
    """Where the last noun of `head` begins: after its last verb, dash, colon or preposition.

    `parallel` is the first word of another item: "as a solid, as a gas" begins each with "as".

    >>> "Amy likes red apples"[boundary("Amy likes red apples") :].strip()
    'red apples'
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
