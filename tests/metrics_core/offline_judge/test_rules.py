"""The offline judge's rules, step by step: features, numbers and dates, similar words."""

import json
import math
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from answerkey import Sample, create
from answerkey.metrics_core.offline_judge.features import features, focus
from answerkey.metrics_core.offline_judge.formulas import formulas_differ
from answerkey.metrics_core.offline_judge.numbers_dates import Date, Quantity, dates, numbers, quantities
from answerkey.metrics_core.offline_judge.reading import read
from answerkey.metrics_core.offline_judge.rules import Case, RuleId, decide
from answerkey.metrics_core.text import words
from tests.metrics_core.metrics.test_ground_truth_similarity import TEXTS, shares

WHO, WHEN, MANY = "Who painted the Mona Lisa?", "When did the war end?", "How many cards are in a deck?"
CAPITAL, STOLITSA = "What's the capital of France?", "Назовите столицу Франции"

DECIDED = [
    ("same_number", "When does it open?", "It opens at 14:00.", "2 pm"),
    ("same_number", "When does it close?", "at midnight", "12 am"),
    ("other_number", "When does it open?", "2 am", "2 pm"),
    ("same_text", "When does it open?", "half past ten", "10:30"),
    ("same_number", "How much?", "¥5,000", "5000 yen"),
    ("same_number", "How much?", "1.200,50 €", "1200.50 euros"),
    ("same_text", "What is its speed?", "3 × 10⁸ m/s", "300000000 m/s"),
    ("same_number", "What share?", "$\\frac{1}{2}$", "1/2"),
    ("opposite", "When did it fall?", "1500 BC", "1500 AD"),
    ("opposite", "When was it?", "5th century BC", "5th century CE"),
    ("same_text", "When did he die?", "44 BCE", "44 v. Chr."),
    ("same_number", "How much?", "20 Swiss francs", "CHF 20"),
    ("same_number", "How many?", "1500K", "1.5 million"),
    ("same_number", "How many?", "2k", "2000"),
    ("same_number", "How many?", "1 lakh", "100,000"),
    ("same_number", "How much?", "1.000 €", "€1,000"),
    ("same_number", "How much?", "150 cents", "€1.50"),
    ("same_number", "How much?", "between 5 and 10 dollars", "$5-10"),
    ("other_number", "How long?", "5 days", "3-5 days"),
    ("other_number", "How much?", "at most $5", "at least $5"),
    ("same_number", "How old?", "18 or older", "18+"),
    ("same_number", "What is the fee?", "There is no fee.", "free of charge"),
    ("other_number", "What is the fee?", "free", "5 euros"),
    ("same_number", "How often?", "every two weeks", "biweekly"),
    ("same_number", "How often?", "every 15 minutes", "4 times an hour"),
    ("other_number", "What is the limit?", "100 requests per second", "100 requests/min"),
    ("same_number", "What share?", "one in four", "25%"),
    ("same_number", "When is it open?", "9 am to 5 pm", "9:00-17:00"),
    ("other_number", "When is it open?", "9 am to 6 pm", "9:00-17:00"),
    ("same_text", "Wann?", "halb neun", "8:30"),
    ("other_number", "When?", "Q2 2024", "Q1 2024"),
    ("other_number", "Which vitamin?", "vitamin B6", "B12"),
    ("same_text", "Which number?", "5550199", "555-0199"),
    ("same_text", "Which number?", "030 123 4567", "+49 30 1234567"),
    ("other_name", "Which number?", "+49 30 1234576", "+49 30 1234567"),
    ("other_name", "Which page?", "acme.example/support", "https://acme.example/help"),
    ("same_number", "How long?", "90 minutes", "1h30"),
    ("same_number", "How tall?", "178 cm", "5'10\""),
    ("same_text", "When?", "the third quarter", "Q3"),
    ("other_number", "When?", "the fourth quarter of 2024", "Q3 2024"),
    ("same_date", "When?", "the nineties", "the 1990s"),
    ("other_number", "When will it arrive?", "3 days ago", "in 3 days"),
    ("other_number", "Wann kommt es an?", "vor 3 Tagen", "in 3 Tagen"),
    ("same_number", "How much?", "20 pounds sterling", "£20"),
    ("opposite", "Which days?", "every day including Sunday", "every day except Sunday"),
    ("opposite", "Is it refundable?", "refundable", "non-refundable"),
    ("opposite", "Is it in stock?", "in stock", "out of stock"),
    ("opposite", "Can I cancel?", "yes and no", "yes"),
    ("same_reply", "Can I cancel?", "You cannot", "No"),
    ("same_text", "Which unit?", "kilograms", "kg"),
    ("other_name", "Who decides?", "the former CEO", "the CEO"),
    ("other_name", "Who decides?", "Alice's boss", "Alice"),
    ("other_name", "Which file?", "config.yml", "config.yaml"),
    ("other_name", "Where is it?", "30 km from Berlin", "Berlin"),
    ("other_name", "Who may enter?", "everyone", "everyone except minors"),
    ("other_name", "Who pays?", "the buyer", "the buyer's bank"),
    ("other_list", "Who signed it?", "Ada and Eve", "Ada"),
    ("other_list", "Who signed it?", "Ada", "Ada and Eve"),
    ("other_list", "Which browsers?", "Chrome, Firefox and Safari", "Chrome, Firefox and Edge"),
    ("other_formula", "Where is it?", "Settings > Profile", "Under Settings > Billing"),
    ("other_name", "Which format?", "MM/DD/YYYY", "DD/MM/YYYY"),
    ("other_name", "Which colour?", "#00ff00", "#ff0000"),
    ("other_number", "What happens?", "It rises to 5%", "It rises by 5%"),
    ("negated", "What happens?", "The account is not locked", "The account is locked"),
    ("opposite", "What happens?", "The account gets unlocked", "The account is locked"),
    ("same_reply", "Is it allowed?", "It is forbidden", "No"),
    ("opposite", "Is it possible?", "It's impossible", "Yes"),
    ("same_text", "Which version?", "1.2.3", "v1.2.3"),
    ("same_number", "When is it open?", "Open Mon-Fri 9am to 5pm", "Monday to Friday 9:00-17:00"),
    ("other_number", "How much?", "2", "1/2"),
    ("other_number", "What is the ratio?", "3", "3:1"),
    ("other_order", "What is the ratio?", "1:3", "3:1"),
    ("other_order", "What was the score?", "They drew 1-2.", "2-1"),
    ("same_text", "How much?", "1.5 cups", "1 1/2 cups"),
    ("same_text", STOLITSA, "париж", "Париж"),
    ("same_text", "Who is king of Erebor?", "DÃ¡in", "Dáin"),
    ("same_number", MANY, "There are fifty-two cards.", "52"),
    ("same_number", "Сколько жителей?", "1,5 миллиона", "1500000"),
    ("same_number", "How long?", "3 hours and 48 minutes", "228 minutes"),
    ("same_text", "How many minutes?", "10 080", "10,080"),
    ("same_number", "What share?", "0.25", "25 %"),
    ("same_date", WHEN, "It ended on 18 May 2018, a Friday.", "May 18, 2018"),
    ("same_date", WHEN, "It ended on 18.05.2018.", "May 2018"),
    ("refusal", CAPITAL, "I'm sorry, but I do not know.", "Paris"),
    ("hedged", CAPITAL, "I think it might be Paris, but I'm not sure.", "Paris"),
    ("negated", WHO, "It was not painted by Leonardo da Vinci.", "Leonardo da Vinci"),
    ("negated", STOLITSA, "Это не Париж", "Париж"),
    ("negated", "Qui l'a écrit ?", "Ce n'est pas Victor Hugo.", "Victor Hugo"),
    ("negated", "中国的首都是哪里？", "不是北京", "北京"),
    ("hedged", "Was ist die Hauptstadt?", "Vielleicht Wien", "Wien"),
    ("refusal", "Qui l'a écrit ?", "Je ne sais pas.", "Victor Hugo"),
    ("opposite", "Is it legal?", "Yes, it is.", "No"),
    ("opposite", "Why is it quiet?", "It has a medium that carries sound.", "It has no medium that carries sound."),
    ("opposite", 'A sign says: "No dogs." Are cats let in?', "Cats are let in.", "No"),
    ("opposite", "Is 9 prime?", "We divide. 9 is 3 times 3. Therefore the answer is [No].", "Yes"),
    ("other_number", "Which order?", "It is 12345678901234568.", "12345678901234567"),
    ("other_list", "Name the primary colours.", "red and blue", "red, yellow and blue"),
    ("other_date", WHEN, "It ended on August 27, 2004.", "2004", "June 11, 2004"),
    ("other_date", "Wann fiel sie?", "Sie fiel am 9. Oktober 1989.", "9. November 1989"),
    ("other_list", "What is its capital, and who is its king?", "Tokyo", "Tokyo; Naruhito"),
    ("same_number", "Wie schwer ist sie?", "achtundvierzig Kilogramm", "48 kg"),
    ("same_number", "¿Cuánto pesa?", "cuarenta y ocho kilogramos", "48 kg"),
    ("other_number", "What is pi?", "It is 33.14.", "3.14"),
    ("other_number", "What is the price?", "It is 12.50 dollars.", "12.50 euros"),
    ("other_date", "When does it begin?", "It begins in October.", "September"),
    ("negated", "¿Es legal?", "No es legal.", "legal"),
    ("stated", "Which country is it?", "It is Niger.", "Niger"),
    ("stated", "Wer leitet den Chor?", "Der Chor wird von Thomas Moos geleitet.", "Thomas Moos"),
    ("stated", "Кто основал мельницу?", "Мельницу основал Пётр Ланг.", "Пётр Ланг"),
    ("stated", "¿Quién fundó el molino?", "El molino fue fundado por Pedro Lang.", "Pedro Lang"),
    ("other_name", "Who wrote it?", "It was written by Jane Smith.", "John Smith"),
    ("other_order", "Who won?", "Green beat Brown.", "Brown beat Green"),
    ("other_order", "Кто кого победил?", "Клара победила Анну Вебер", "Анна Вебер победила Клару"),
    ("same_number", "How many?", "It is 1.5k.", "1500"),
    ("same_number", "How many green bottles?", "5 green bottles", "5"),
    ("same_text", "How many?", "5 × 10³", "5000"),
    ("same_text", "How many?", "1e-3", "0.001"),
    ("same_number", "How cold is it?", "negative five", "-5"),
    ("same_date", WHEN, "5/4/2020", "May 4, 2020"),
    ("same_date", WHEN, "5/4/2020", "5 April 2020"),
    ("other_date", WHEN, "05.04.2020", "May 4, 2020"),
    ("same_reply", "Is it legal?", "It isn't.", "No"),
    ("same_reply", "Is it legal?", "Absolutely not", "No"),
    ("opposite", "When is it taken?", "before lunch", "after lunch"),
    ("opposite", "Who won?", "Ada lost to Eve", "Ada beat Eve"),
    ("negated", "Who wrote it?", "Anyone but Ada Brown", "Brown"),
    ("opposite", "Is it refundable?", "refundable", "non-refundable"),
    ("other_name", "Which year?", "before 1945", "1945"),
    ("other_name", "Who wrote it?", "Ada Brown's brother", "Ada Brown"),
    ("other_number", "Which seat?", "12A", "12B"),
    ("other_formula", "Which path?", "/usr/bin", "/usr/local/bin"),
    ("other_list", "Which letter?", "B and C", "B"),
    ("same_text", "Who wrote it?", "J. K. Rowling", "JK Rowling"),
    ("other_formula", "Which function?", "It is f(y).", "f(x)"),
    ("other_formula", "What do they make?", "a - b", "a + b"),
    ("other_formula", "Which blood type?", "A-", "A"),
    ("other_formula", "Which solution is it?", "pH < 7", "pH > 7"),
    ("other_formula", "Whom does one write to?", "ada@mill.example", "ada@hill.example"),
]


def finding_of(question, answer, reference, *others):
    return decide(Case.of(read(question), read(answer), read(reference), [*map(read, others)]))


@pytest.mark.parametrize(("rule", "texts"), [(rule, texts) for rule, *texts in DECIDED])
def test_a_rule_decides(rule, texts):
    finding = finding_of(*texts)
    assert finding.rule == rule
    assert (finding.verdict == "match") is (rule in ("same_text", "same_reply", "same_number", "same_date", "stated"))


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        ("F=m*a", "F = ma"),
        ("E=mc2", "E = mc²"),
        ("$x^{2}$", "x^2"),
        ("y = 5", "x = 5.0"),
        ("b + a", "a + b"),
        ("5", "x = 5"),
        ("A = Paris", "A"),
        ("metres per second", "m/s"),
        ("R2-D2", "R2D2"),
        # A sign that joins words, or stands for one, makes no formula
        ("he/she", "she/he"),
        ("apple(s)", "Apples"),
        ("Paris (Texas)", "Paris (France)"),
        ("9/11", "24/7"),
    ],
)
def test_spellings_of_one_formula_and_words_with_signs_are_left_to_others(answer, reference):
    assert not formulas_differ(answer, reference)


def test_every_rule_is_tried_above():
    assert {rule for rule, *_ in DECIDED} == set(get_args(RuleId))


@pytest.mark.parametrize(
    ("question", "answer", "reference"),
    [
        (WHO, "Pablo Picasso", "Leonardo da Vinci"),
        # The doubt, the "or" and the number are in the question already, or about something else.
        ("Who sings I think we're alone now?", "Tiffany sings I Think We're Alone Now", "Tommy James"),
        ("Is it Carrie or Kelly who sold more?", "Kelly or Carrie: Carrie Underwood sold more records", "Carrie"),
        ("What happened in 1945?", "In 1945 the war came to its end", "the end of the war"),
        # "Not only" denies nothing, and "not until" says when.
        (CAPITAL, "It is not only Paris that matters", "Paris"),
        (WHEN, "It did not end until the autumn came", "autumn"),
        (MANY, "about 30,000", "over 29.5 thousand"),
        (WHEN, "It ended in 1945.", "2 September 1945"),
        # The same words in another order may say the same.
        ("Who played?", "Green and Brown", "Brown and Green"),
        ("Wer folgte wem?", "Auf Green folgte Brown", "Brown folgte auf Green"),
        # Of another person, or what the question says.
        ("Who wrote it?", "The brother of Ada Brown wrote it.", "Ada Brown"),
        ("Who beat Ada?", "Ada beat Eve", "Eve"),
        # A number in thousands, a rounded one, one beside others, another year.
        (MANY, "137 million", "137"),
        ("What is the balance?", "-137 million", "-137"),
        ("How far?", "5.1 miles", "5 miles"),
        (WHEN, "It ended in 1944.", "1945"),
        # Two names of one thing, a date that says less, a title, a number of something else.
        ("What is it called?", "It is called deposition or desublimation.", "deposition"),
        ("When did it end?", "It ended in 2012.", "September 13, 2012"),
        ("Who wrote because i could not stop for death?", "Because I Could Not Stop is by Ada", "Emily"),
        ("Which period?", "In the Old Kingdom, see page 1.", "3000 BC"),
        ("How many shops?", "There are 1,754 shops.", "more than 1,000"),
        ("How tall?", "He is 6 feet 1 inch (185 cm) tall.", "6ft 1in high"),
        ("What fell?", "As an AI I cannot say for sure. However, the Berlin Wall fell in November.", "Rome"),
    ],
)
def test_what_no_rule_decides(question, answer, reference):
    assert finding_of(question, answer, reference) is None


@pytest.mark.parametrize(
    ("answer", "reference", "rule"),
    [
        ("was not ; nor", ";", None),
        ("1/2²/3", "5", None),
        ("9" * 900, "9" * 901, "other_number"),
        ("9" * 400, "9" * 400 + ".", "same_text"),
        ("²0s", "90s", None),
    ],
)
def test_marks_and_endless_numbers(answer, reference, rule):
    finding = finding_of("Which?", answer, reference)
    assert (finding and finding.rule) == rule


ODD = st.sampled_from([
    ";", "—", "?", "[1]", "\n- ", "\n1. ", "²", "½", "٣", "２０１８", "1/2", "2²/3", "18.05.2018", "-5", "3.5",
    "9" * 400, "1990s", "12:30", "km", "not", "did not", "was", "never", "or", "yes", "no", "is", "Paris", "Ada Brown",
    "не", "Париж", "巴黎", "😀", "\u200b", "\u202e", "e\u0301", "the answer is", "I don't know",
])  # fmt: skip
ODD_TEXTS = st.builds(str.join, st.sampled_from([" ", "", "; "]), st.lists(ODD, min_size=1, max_size=8))


@given(ODD_TEXTS, ODD_TEXTS, ODD_TEXTS)
@settings(max_examples=100)
def test_no_text_is_too_odd(question, answer, reference):
    case = Case.of(read(question), read(answer), read(reference))
    values = features(case, focus(case.answer, case.reference, case.question), {})
    assert all(math.isfinite(value) for value in values.values())
    finding = finding_of(question, answer, reference)
    assert finding is None or finding.rule in get_args(RuleId)


# What the model sees beside words found: how rare they are.


def seen(question, answer, reference, words=None):
    case = Case.of(read(question), read(answer), read(reference))
    return features(case, case.head, words or {})


def test_rare_words_count_for_more():
    words = {"river": 0.2}
    common, rare = (seen("What is it?", answer, "river Aire", words) for answer in ("a river", "the Aire"))
    assert common["recall_idf"] == pytest.approx(0.2 / 1.2)
    assert rare["recall_idf"] == pytest.approx(1 / 1.2)
    assert (common["missing_idf"], rare["missing_idf"]) == (1.0, 0.2)
    assert rare["precision_idf"] == 1.0
    assert seen("What is it?", "river Wharfe", "river Aire", words)["extra_idf"] == 1.0


# Numbers and dates in words and digits, English and Russian.


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("twenty one dogs", [21]),
        ("one hundred and five", [105]),
        ("two thousand and eighteen", [2018]),
        ("3.5 million", [3.5e6]),
        ("1,000", [1000]),
        ("-5", [-5]),
        ("the 4th, or fourth", [4, 4]),
        ("one, two", [1, 2]),
        ("a man and a dog", []),
        ("a hundred", [100]),
        ("World War II", [2]),
        ("сто двадцать три тысячи", [123_000]),
        ("пятый из двадцати", [5, 20]),
        ("0,5", [0.5]),
        ("2 млн", [2e6]),
        ("twice", [2]),
    ],
)
def test_numbers(text, values):
    assert [number.value for number in numbers(words(text))] == values


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("May 18, 2018", [(2018, 5, 18, 1)]),
        ("18th of May 2018", [(2018, 5, 18, 1)]),
        ("18 мая 2018 года", [(2018, 5, 18, 1)]),
        ("2018-05-18", [(2018, 5, 18, 1)]),
        ("18.05.2018", [(2018, 5, 18, 1)]),
        ("5/18/2018", [(2018, 5, 18, 1)]),
        ("in May 2018", [(2018, 5, None, 1)]),
        ("you may", []),
        ("the 1990s", [(1990, None, None, 10)]),
        ("the 90s", [(1990, None, None, 10)]),
        ("18th century", [(1700, None, None, 100)]),
        ("XVIII век", [(1700, None, None, 100)]),
        ("in 1776", [(1776, None, None, 1)]),
    ],
)
def test_dates(text, parts):
    assert [(date.year, date.month, date.day, date.span) for date in dates(words(text))] == parts


def test_a_whole_date_covers_a_part_and_not_the_other_way():
    whole, part = Date(2018, 5, 18), Date(2018, 5)
    assert whole.covers(part) and whole.agrees(part) and part.agrees(whole)
    assert not part.covers(whole)
    assert not Date(2018, 6).agrees(part)
    assert Date(1975).covers(Date(1970, span=10)) and not Date(1970, span=10).covers(Date(1975))


def named(text):
    reading = read(text)
    return quantities(reading.tokens, reading.numbers)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$5", [Quantity(5, "dollar")]),
        ("5 km", [Quantity(5, "kilometre")]),
        ("6ft 1in", [Quantity(73, "inch")]),
        ("3 hours and 48 minutes", [Quantity(228, "minute")]),
        ("5 apples and 6 minutes", [Quantity(5), Quantity(6, "minute")]),
    ],
)
def test_quantities(text, expected):
    assert named(text) == expected


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (Quantity(5, "kilometre"), Quantity(5000, "metre"), True),
        (Quantity(5, "kilometre"), Quantity(5, "mile"), False),
        (Quantity(5, "kilometre"), Quantity(5), True),
        (Quantity(5, "kilometre"), Quantity(5, "hour"), False),
        (Quantity(1, "dollar"), Quantity(1, "euro"), False),
    ],
)
def test_quantities_compare_across_units(one, other, same):
    assert one.equals(other) is same
    assert other.equals(one) is same


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        # No number is dropped, wherever it stands.
        ("a[0]", ("a", "0")),
        ("python3", ("python", "3")),
        ("vitamin B12", ("vitamin", "b", "12")),
        ("sung by The Man1.", ("sung", "by", "the", "man", "1")),
        ("The answer is [17].", ("the", "answer", "is", "17")),
        ("54Mbps, 20 000 km", ("54", "mbps", "20000", "km")),
        ("the 1990s, the 90s, the 4th", ("the", "1990s", "the", "90s", "the", "4th")),
        ("in 2018 100 people", ("in", "2018", "100", "people")),
        # Citation marks are not numbers.
        ("It was built in 1889 [1][2].", ("it", "was", "built", "in", "1889")),
    ],
)
def test_letters_and_digits_come_apart_and_stay(text, tokens):
    assert read(text).tokens == tokens


def test_months_of_other_languages():
    for text in ("9. November 1989", "le 9 novembre 1989", "9 de noviembre de 1989"):
        assert [(d.year, d.month, d.day) for d in read(text).dates] == [(1989, 11, 9)]
    # A planet is no month.
    assert read("Mars").dates == ()


def test_a_measure_in_two_units_is_one_and_two_measures_are_two():
    assert named("6 ft 1 in (185 cm)") == [Quantity(73, "inch"), Quantity(185, "centimetre")]
    assert Quantity(0.25).equals(Quantity(25, "percent")) and not Quantity(0.25).equals(Quantity(26, "percent"))


# Ground truth similarity by the offline judge: the examples of the document and of its successor, and our own.


LIST = "Here is a list of items to bring: "
DOCUMENT = {name: [text.replace("... ", LIST) for text in texts] for name, (*texts, _) in TEXTS.items()}
AMY = "What fruits does Amy like?"
OWN = [
    # The question decides what is the same.
    ("Who wrote it, and when?", "Ada Brown wrote it. It came out in 1851.", "Ada Brown, 1851", (2, 2, 2)),
    ("When was she born, and when did she die?", "Born in 1815, died in 1852.",
     "She was born in 1852 and died in 1815.", (2, 2, 0)),
    ("Who painted it?", "Leonardo da Vinci", "It was painted by Leonardo da Vinci in 1503.", (1, 2, 1)),
    ("How high is the tower?", "41 m", "It is 41 metres high.", (1, 1, 1)),
    ("How high is the tower?", "41 m", "It is 42 metres high.", (1, 1, 0)),
    ("What is 3 - 8?", "-5", "minus five", (1, 1, 1)),
    ("What is 3 - 8?", "-5", "5", (1, 1, 0)),
    ("How long is it?", "12 months", "a year", (1, 1, 1)),
    ("Which version is it?", "1.1", "1.10", (1, 1, 0)),
    ("Which city?", "Paris (France)", "Paris (Texas)", (1, 1, 0)),
    ("When did the wall fall?", "on 9 November 1989", "November 9, 1989", (1, 1, 1)),
    ("Is the shop open?", "No", "The shop is not open.", (1, 1, 1)),
    ("Is the shop open?", "Yes.", "No, it is closed.", (1, 2, 0)),
    ("Are whales fish?", "No, whales are mammals.", "No.", (2, 1, 1)),
    ("Which colours?", "red, red and blue", "blue", (2, 1, 1)),
    ("What is the capital?", "Paris", "Paris. The capital is Paris.", (1, 1, 1)),
    ("What is the capital?", "Paris", "The capital is Paris. It has two million inhabitants.", (1, 2, 1)),
    ("Who wrote it?", "Ada Brown", "I am sorry, I do not know.", (1, 0, 0)),
    ("Какие инструменты есть у Лены?", "У Лены есть молоток и пила.", "Молоток, пила и клещи.", (2, 3, 2)),
    ("Какие страны называют странами Балтии?", "Эстония, Латвия и Литва",
     "К странам Балтии относятся Литва, Латвия и Эстония.", (3, 3, 3)),
    ("Из чего состоит вода?", "водород и кислород", "Вода состоит из водорода и кислорода.", (2, 2, 2)),
    ("Сколько лет Анне?", "96 лет", "Ей больше 95 лет.", (1, 1, 0)),
    ("Сколько лет Анне?", "96 лет", "Ей 96.", (1, 1, 1)),
    ("Какие машины любит Алексей?", "Алексей любит синие машины.", "Алексей любит все машины.", (1, 1, 0)),
    ("Столица и язык Франции?", "Столица Франции — Париж, а язык — французский.",
     "Столица — Париж, а язык — английский.", (2, 2, 1)),
    ("Кто открыл закон и в каком году?", "Дмитрий Менделеев, 1869",
     "Закон открыл Дмитрий Менделеев в 1869 году.", (2, 2, 2)),
    ("Кто написал роман?", "Лев Толстой", "К сожалению, я не знаю.", (1, 0, 0)),
]  # fmt: skip


@pytest.fixture(scope="module")
def metric():
    [made] = create(["ground_truth_similarity"])
    return made


def measured(metric, question, references, answer, **more):
    [measurement] = metric.measure([Sample("1", answer, references, question, **more)])
    return measurement


@pytest.mark.parametrize(
    ("question", "reference", "answer", "counts"),
    [*((*texts, TEXTS[name][3]) for name, texts in DOCUMENT.items()), *OWN],
)
def test_examples(metric, question, reference, answer, counts):
    measurement = measured(metric, question, reference, answer)
    details = measurement.details
    assert (details["n_reference"], details["n_answer"], details["n_matched"]) == counts, details["facts"]
    assert measurement.values == shares(*counts)
    assert details["abstained"] == (counts[1] == 0)


def test_a_wrong_value_in_the_same_slot_is_a_contradiction_and_another_item_is_none(metric):
    french = measured(metric, *DOCUMENT["fr-3"])
    assert french.reason == "1 of 2 facts match, 1 contradicted"
    assert [(row["id"], row["status"], row["with"]) for row in french.details["facts"]] == [
        ("r1.1", "matched", "a1"), ("r1.2", "contradicted", "a2"), ("a1", "matched", "r1.1"),
        ("a2", "contradicted", "r1.2"),
    ]  # fmt: skip
    assert measured(metric, *DOCUMENT["amy"]).reason == "1 of 3 facts match"
    assert measured(metric, "How high is it?", "41 m", "42 m").reason == "0 of 1 facts match, 1 contradicted"
    # Both can be true at once.
    assert measured(metric, *DOCUMENT["archie-3"]).reason == "0 of 1 facts match"


def test_facts_that_the_sample_brings_are_used_as_they_are(metric):
    facts = ["Amy likes apples.", "Amy likes apples and pears.", " "]
    measurement = measured(metric, AMY, "whatever", "Amy likes apples.", facts=facts)
    assert measurement.details["reference"] is None
    assert [row["fact"] for row in measurement.details["facts"]] == [
        "Amy likes apples.",
        "Amy likes apples and pears.",
        "Amy likes apples",
    ]
    assert measurement.values["similarity"] == 0.5
    none = measured(metric, AMY, [], "Amy likes apples.", facts=facts[:1])
    assert none.values["similarity"] == 1.0


def test_the_best_reference_counts_and_all_similarities_are_kept(metric):
    measurement = measured(metric, AMY, ["pears", "", "apples and pears"], "Amy likes apples and pears, too.")
    assert (measurement.details["reference"], measurement.details["similarities"]) == (2, [0.5, 1.0])


def test_an_answer_is_cut_as_finely_as_the_reference_on_the_same_matter(metric):
    measurement = measured(metric, "Where was it held?", "Russia", "It was held in Russia from June to July.")
    assert [(row["fact"], row["status"]) for row in measurement.details["facts"]] == [
        ("Russia", "matched"),
        ("… in Russia …", "matched"),
        ("held … from June to July", "extra"),
    ]
    # What describes the value itself stays with it.
    assert measured(metric, AMY, "apples", "red apples").values["similarity"] == 0.0


def test_a_mark_of_doubt_leaves_a_short_answer_a_fact_and_another_formula_is_another_fact(metric):
    asked = "What is the value?"
    pairs = [("42?", "42"), ("Paris?", "Paris"), ("Was it 42?", "42"), ("f(x)", "f(y)"), ("f(x)", "f(x)")]
    assert [measured(metric, asked, ref, answer).values["similarity"] for answer, ref in pairs] == [1, 1, 0, 0, 1]


def test_texts_without_facts_are_undefined(metric):
    measurement = measured(metric, "Who?", "I do not know.", "Sorry, I cannot say.")
    assert (measurement.status, measurement.reason) == (
        "undefined",
        "no facts: neither the answer nor a reference states one",
    )


def test_the_arithmetic_of_the_golden_file(metric, shared):
    """Every row of the table, with fruits for facts: the first ones are in both texts."""
    for row in json.loads((shared / "golden" / "ground_truth_similarity.json").read_text("utf-8"))["arithmetic"]:
        n_ref, n_answer, matched = row["n_ref"], row["n_resp"], row["matched"]
        ours = "; ".join(FRUITS[:n_ref]) or "I do not know."
        others = FRUITS[:matched] + FRUITS[10 : 10 + n_answer - matched]
        measurement = measured(metric, "Which fruits does Amy like?", ours, "; ".join(others) or "I cannot say.")
        assert measurement.values.get("similarity") == (None if row["gts"] is None else pytest.approx(row["gts"])), row


def test_the_first_two_hundred_facts_of_a_text_are_compared_and_that_is_out_of_depth(metric):
    many = "; ".join(f"book {number}" for number in range(1, 300))
    details = measured(metric, "Which books are there?", many, f"{many}; book 300").details
    assert (details["n_reference"], details["n_answer"], details["n_matched"]) == (200, 200, 200)
    assert details["out_of_depth"] == "the answer is longer than the 150 words that it was trained on"


FRUITS = [
    *("apples", "bananas", "cherries", "plums", "grapes", "lemons", "mangos", "figs", "melons", "pears"),
    *("papayas", "olives", "quinces", "dates", "limes", "kiwis", "peaches", "apricots", "guavas", "currants"),
]
