"""Every rule by its id: what it decides, and what it leaves to the model."""

import math
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from answerkey.metrics_core.offline_judge.features import features, focus
from answerkey.metrics_core.offline_judge.reading import read
from answerkey.metrics_core.offline_judge.rules import AGAINST_ANSWER, FOR_A_MATCH, Case, RuleId, decide

WHO, WHEN, MANY = "Who painted the Mona Lisa?", "When did the war end?", "How many cards are in a deck?"
CAPITAL, STOLITSA = "What's the capital of France?", "Назовите столицу Франции"

DECIDED = [
    ("same_text", CAPITAL, "PARIS!", "Paris"),
    ("same_text", CAPITAL, "the  Paris", "Paris"),
    ("same_text", STOLITSA, "париж", "Париж"),
    ("same_text", "Who is king of Erebor?", "DÃ¡in", "Dáin"),
    ("same_number", "What is 3 - 8?", "It is minus five.", "-5"),
    ("same_number", "What's 10 + 10?", "The answer is twenty", "20"),
    ("same_number", MANY, "There are fifty-two cards.", "52"),
    ("same_number", MANY, "100", "one hundred"),
    ("same_number", "Сколько карт в колоде?", "пятьдесят две карты", "52"),
    ("same_number", "Сколько жителей?", "1,5 миллиона", "1500000"),
    ("same_number", "How far?", "five kilometres", "5000 m"),
    ("same_number", "How long?", "3 hours and 48 minutes", "228 minutes"),
    ("same_text", "How many minutes?", "10 080", "10,080"),
    ("same_number", "What share?", "0.25", "25 %"),
    ("same_date", WHEN, "It ended on 18 May 2018, a Friday.", "May 18, 2018"),
    ("same_date", WHEN, "2018-05-18", "18 мая 2018 года"),
    ("same_date", WHEN, "It ended on 18.05.2018.", "May 2018"),
    ("refusal", CAPITAL, "I'm sorry, but I do not know.", "Paris"),
    ("refusal", STOLITSA, "К сожалению, я не знаю.", "Париж"),
    ("hedged", CAPITAL, "I think it might be Paris, but I'm not sure.", "Paris"),
    ("hedged", STOLITSA, "Возможно, Париж", "Париж"),
    ("negated", CAPITAL, "It is not Paris.", "Paris"),
    ("negated", WHO, "It was not painted by Leonardo da Vinci.", "Leonardo da Vinci"),
    ("negated", STOLITSA, "Это не Париж", "Париж"),
    ("negated", "Who wrote it?", "Ada Brown did not write it; Eve Green did.", "Ada Brown"),
    ("negated", "Qui l'a écrit ?", "Ce n'est pas Victor Hugo.", "Victor Hugo"),
    ("negated", "Was ist die Hauptstadt?", "Die Hauptstadt ist nicht Wien.", "Wien"),
    ("negated", "中国的首都是哪里？", "不是北京", "北京"),
    ("hedged", "Was ist die Hauptstadt?", "Vielleicht Wien", "Wien"),
    ("refusal", "Qui l'a écrit ?", "Je ne sais pas.", "Victor Hugo"),
    ("opposite", "Is it legal?", "Yes, it is.", "No"),
    ("opposite", "Why is it quiet?", "It has a medium that carries sound.", "It has no medium that carries sound."),
    ("opposite", 'A sign says: "No dogs." Are cats let in?', "Cats are let in.", "No"),
    ("opposite", "Законно ли это?", "Нет", "Да"),
    ("opposite", "Is 9 prime?", "We divide. 9 is 3 times 3. Therefore the answer is [No].", "Yes"),
    ("other_number", "How far?", "5 miles", "5 km"),
    ("other_number", "Which order?", "It is 12345678901234568.", "12345678901234567"),
    ("other_number", "How long did it rain?", "eight days", "7 days"),
    ("other_list", "Name the primary colours.", "red and blue", "red, yellow and blue"),
    ("other_list", "Which primes?", "11, 13, 15, 17, 19", "11, 13, 17 and 19"),
    ("other_date", WHEN, "It ended on August 27, 2004.", "2004", "June 11, 2004"),
    ("other_date", WHEN, "It ended in 1944.", "2 September 1945"),
    ("other_date", WHEN, "The war ended on 2 September 1954.", "The war ended on 2 September 1945."),
    ("other_date", "Wann fiel sie?", "Sie fiel am 9. Oktober 1989.", "9. November 1989"),
    ("other_date", "Quand ?", "Le 14 août 1789", "14 juillet 1789"),
    ("other_list", "What is its capital, and who is its king?", "Tokyo", "Tokyo; Naruhito"),
]


def finding_of(question, answer, reference, *others):
    dates = frozenset(date for other in others for date in read(other).dates)
    return decide(Case.of(read(question), read(answer), read(reference), dates))


@pytest.mark.parametrize(("rule", "texts"), [(rule, texts) for rule, *texts in DECIDED])
def test_a_rule_decides(rule, texts):
    finding = finding_of(*texts)
    assert finding.rule == rule
    assert (finding.verdict == "match") is (rule in FOR_A_MATCH)


def test_every_rule_is_tried_above():
    assert {rule for rule, *_ in DECIDED} == set(get_args(RuleId))
    assert not AGAINST_ANSWER & FOR_A_MATCH


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
        # A family name alone is enough for a person that is asked for, not for a place.
        ("Where is it?", "York", "New York"),
        (MANY, "about 30,000", "over 29.5 thousand"),
        (WHEN, "It ended in 1945.", "2 September 1945"),
        # The same words in another order may say something else.
        ("Who won?", "Green beat Brown", "Brown beat Green"),
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
@settings(max_examples=300)
def test_no_text_is_too_odd(question, answer, reference):
    case = Case.of(read(question), read(answer), read(reference))
    values = features(case, focus(case.answer, case.reference, case.question), {})
    assert all(math.isfinite(value) for value in values.values())
    finding = finding_of(question, answer, reference)
    assert finding is None or finding.rule in get_args(RuleId)
