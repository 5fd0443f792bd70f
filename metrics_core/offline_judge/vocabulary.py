"""Words that the rules and features know: the closed classes of English and Russian, and well-known short names.

Everything here is a hint. A language that is not here loses the hints and keeps the rest.
"""

from __future__ import annotations

from collections.abc import Mapping


def word_set(text: str) -> frozenset[str]:
    """The words of a text that is written out for reading."""
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
"""Carry grammar, not the answer. "or" and negations are missing on purpose; Russian "или" is in for overlap only."""

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
"""Say what kind of thing a name names; a name without them is the same name."""

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
"""Names that no shape gives away. Acronyms that their long form spells are found without a list."""

_CYRILLIC = "а б в г д е ж з и й к л м н о п р с т у ф х ц ч ш щ ъ ы ь э ю я і ї є ґ"
_LATIN = "a b v g d e zh z i j k l m n o p r s t u f h ts ch sh sch ' y ' e yu ya i yi ye g"
ROMAN: Mapping[str, str] = {
    cyrillic: latin.strip("'") for cyrillic, latin in zip(_CYRILLIC.split(), _LATIN.split(), strict=True)
}
"""Cyrillic letters in Latin ones."""
