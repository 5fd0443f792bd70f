"""Every rule by its id: what it decides, and what it leaves to the model."""

from typing import get_args

import pytest

from metrics_core.judge.offline.case import Case, RuleId
from metrics_core.judge.offline.reading import read
from metrics_core.judge.offline.rules import AGAINST_ANSWER, FOR_A_MATCH, decide

WHO, WHEN, MANY = "Who painted the Mona Lisa?", "When did the war end?", "How many cards are in a deck?"
CAPITAL, STOLITSA = "What's the capital of France?", "Назовите столицу Франции"

DECIDED = [
    ("same_text", CAPITAL, "PARIS!", "Paris"),
    ("same_text", CAPITAL, "the  Paris", "Paris"),
    ("same_text", STOLITSA, "париж", "Париж"),
    ("same_text", "Who is king of Erebor?", "DÃ¡in", "Dáin"),
    ("same_answer", CAPITAL, "It's Paris", "Paris"),
    ("same_answer", CAPITAL, "The capital of France is Paris.", "Paris"),
    ("same_answer", CAPITAL, "The correct answer is: Paris", "Paris"),
    ("same_answer", STOLITSA, "Правильный ответ: Париж.", "Париж"),
    ("same_answer", STOLITSA, "Это Париж.", "Париж"),
    ("same_answer", WHO, "It was painted by Leonardo da Vinci.", "Leonardo da Vinci"),
    ("same_polarity", "Is the shop open?", "The shop is not open.", "No"),
    ("same_polarity", "Is it legal?", "Yes, it is legal in most states.", "yes"),
    ("same_number", "What is 3 - 8?", "It is minus five.", "-5"),
    ("same_number", "What's 10 + 10?", "The answer is twenty", "20"),
    ("same_number", MANY, "There are fifty-two cards.", "52"),
    ("same_number", MANY, "100", "one hundred"),
    ("same_number", "Сколько карт в колоде?", "пятьдесят две карты", "52"),
    ("same_number", "Сколько жителей?", "1,5 миллиона", "1500000"),
    ("same_number", "How far?", "five kilometres", "5000 m"),
    ("same_number", "How long?", "3 hours and 48 minutes", "228 minutes"),
    ("same_answer", "Which place?", "fourth", "4th"),
    ("same_date", WHEN, "It ended on 18 May 2018, a Friday.", "May 18, 2018"),
    ("same_date", WHEN, "2018-05-18", "18 мая 2018 года"),
    ("same_date", WHEN, "It ended on 18.05.2018.", "May 2018"),
    ("alias", "Where is the Statue of Liberty?", "It is in NYC", "New York City"),
    ("alias", "Where was he born?", "СССР", "Советский Союз"),
    ("acronym", "Who said so?", "the WHO", "World Health Organization"),
    ("acronym", "Who said so?", "World Health Organization", "WHO"),
    ("part_of_name", WHO, "Da Vinci", "Leonardo da Vinci"),
    ("refusal", CAPITAL, "I'm sorry, but I do not know.", "Paris"),
    ("refusal", STOLITSA, "К сожалению, я не знаю.", "Париж"),
    ("hedged", CAPITAL, "I think it might be Paris, but I'm not sure.", "Paris"),
    ("hedged", STOLITSA, "Возможно, Париж", "Париж"),
    ("alternatives", CAPITAL, "Paris or London", "Paris"),
    ("alternatives", CAPITAL, "Either Lyon or Paris.", "Paris"),
    ("alternatives", STOLITSA, "Париж или Лион", "Париж"),
    ("negated", CAPITAL, "It is not Paris.", "Paris"),
    ("negated", WHO, "It was not painted by Leonardo da Vinci.", "Leonardo da Vinci"),
    ("negated", STOLITSA, "Это не Париж", "Париж"),
    ("opposite", "Is it legal?", "Yes, it is.", "No"),
    ("opposite", "Законно ли это?", "Нет", "Да"),
    ("opposite", "Is 9 prime?", "We divide. 9 is 3 times 3. Therefore the answer is [No].", "Yes"),
    ("other_number", MANY, "There are 54 cards.", "52"),
    ("other_number", "What is the return policy?", "Return it within 60 days.", "Return within 30 days."),
    ("other_number", "How far?", "5 miles", "5 km"),
    ("other_date", WHEN, "It ended in 1944.", "2 September 1945"),
]


def rule_of(question: str, answer: str, reference: str) -> str | None:
    finding = decide(Case.of(read(question), read(answer), read(reference)))
    return finding.rule if finding else None


@pytest.mark.parametrize(("rule", "question", "answer", "reference"), DECIDED)
def test_a_rule_decides(rule: str, question: str, answer: str, reference: str) -> None:
    assert rule_of(question, answer, reference) == rule


def test_every_rule_is_tried_above() -> None:
    assert {rule for rule, *_ in DECIDED} == set(get_args(RuleId))


@pytest.mark.parametrize(("rule", "question", "answer", "reference"), DECIDED)
def test_the_verdict_of_a_rule_goes_with_its_kind(rule: str, question: str, answer: str, reference: str) -> None:
    finding = decide(Case.of(read(question), read(answer), read(reference)))
    assert finding is not None
    assert (finding.verdict == "match") is (rule in FOR_A_MATCH)
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
        ("What fell?", "As an AI I cannot say for sure. However, the Berlin Wall fell in November.", "Rome"),
    ],
)
def test_what_no_rule_decides(question: str, answer: str, reference: str) -> None:
    assert rule_of(question, answer, reference) is None
