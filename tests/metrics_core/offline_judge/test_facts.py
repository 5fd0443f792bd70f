"""Facts of a text: clauses, enumerations, lists, introductions, what is no claim; English and Russian; real texts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.metrics_core.offline_judge.facts import facts_of
from answerkey.metrics_core.offline_judge.reading import asks_several, parts_of
from tests.metrics_core.metrics_help import read_jsonl

CASES = [
    # One claim.
    ("He is 96.", "How old is he?", ["He is 96"]),
    ("96 years old.", None, ["96 years old"]),
    # Enumerations; what stands before them is the first item's.
    ("Amy likes apples and bananas.", "What fruits does Amy like?", ["Amy likes apples", "bananas"]),
    ("You should bring a water bottle, hiking shoes, and sunscreen.", None,
     ["You should bring a water bottle", "hiking shoes", "sunscreen"]),
    ("red, green and blue", None, ["red", "green", "blue"]),
    ("Amy likes apples and pears, too.", None, ["Amy likes apples", "pears"]),
    ("He lived in Paris, France.", None, ["He lived in Paris, France"]),
    ("Ada Brown, 1851", "Who wrote it, and when?", ["Ada Brown", "1851"]),
    # Clauses.
    ("The capital of France is Paris, and the most spoken language is English.", None,
     ["The capital of France is Paris", "the most spoken language is English"]),
    ("She wrote it in 1851 and died in 1900.", None, ["She wrote it in 1851", "died in 1900"]),
    ("The lake is large; nobody lives there.", None, ["The lake is large", "nobody lives there"]),
    ("The capital is Tokyo, which lies on Honshu.", None, ["The capital is Tokyo", "which lies on Honshu"]),
    # Lists; a lead-in only announces them.
    ("Side effects include:\n* headache\n* nausea", None, ["headache", "nausea"]),
    ("Here is a list of items to bring: 1) hiking shoes; 2) a water bottle.", None, ["hiking shoes", "a water bottle"]),
    ("**Red**\n- Green\n2. Blue", None, ["Red", "Green", "Blue"]),
    # Introductions, and what is no claim.
    ("Sure! The answer is Paris. I hope this helps!", None, ["Paris"]),
    ("I am sorry, but I cannot answer that.", None, []),
    ("Great question. Do you mean the city? Let me know if you need more.", None, []),
    ("I cannot say, but Ada Brown won.", None, ["Ada Brown won"]),
    ("It might be Ilse, but I am really not sure.", None, ["It might be Ilse, but I am really not sure"]),
    ("Yes, whales are mammals.", "Are whales mammals?", ["Yes", "whales are mammals"]),
    # What is kept together.
    ("It ended on May 18, 2018 and 3,000 people came.", None, ["It ended on May 18, 2018", "3,000 people came"]),
    ("William Shakespeare wrote Romeo and Juliet.", "Who wrote Romeo and Juliet?",
     ["William Shakespeare wrote Romeo and Juliet"]),
    ("The crossing takes 1 hour and 25 minutes.", None, ["The crossing takes 1 hour and 25 minutes"]),
    ("Andorra lies between Spain and France.", None, ["Andorra lies between Spain and France"]),
    ("He has either 46, 47 or 48.", None, ["He has either 46, 47 or 48"]),
    ("The tower (built in 1900) is 41 m high.", None, ["The tower is 41 m high"]),
    # Brackets are form where the answer stands in them, and a part of a name where a word goes on.
    ("(42)", "Which number?", ["42"]),
    ("（巴黎）", "哪里？", ["巴黎"]),
    ("The result is (3.14).", "What is pi?", ["3.14"]),
    ("He died (1999).", "When did he die?", ["He died 1999"]),
    ("The code is [A-17].", "Which code?", ["The code is A-17"]),
    ("The city is **[Paris](https://a.example)**.", "Which city?", ["The city is Paris"]),
    (r"\(42\)", None, ["42"]),
    ("It is iron(III) oxide.", None, ["iron(III) oxide"]),
    ("Paris [1]", None, ["Paris"]),
    ("Paris ([source](https://a.example))", None, ["Paris"]),
    # Said twice in the same form.
    ("Paris. Paris!", None, ["Paris"]),
]  # fmt: skip
RUSSIAN = [
    ("У Лены есть молоток и пила.", None, ["У Лены есть молоток", "пила"]),
    ("Времён года четыре: весна, лето, осень и зима.", None, ["Времён года четыре: весна", "лето", "осень", "зима"]),
    ("Столица Франции — Париж, он стоит на Сене.", None, ["Столица Франции — Париж", "он стоит на Сене"]),
    ("Музей открывается в девять, а билет стоит 300 рублей.", None,
     ["Музей открывается в девять", "билет стоит 300 рублей"]),
    ("Нет, киты относятся к млекопитающим.", "Киты — рыбы?", ["Нет", "киты относятся к млекопитающим"]),
    ("К сожалению, я не знаю.", None, []),
    ("Роман «Война и мир» написал Толстой.", None, ["Роман «Война и мир» написал Толстой"]),
    ("В зале 8 или 16 мест.", None, ["В зале 8 или 16 мест"]),
    ("Ответ: Волга.", None, ["Волга"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "question", "facts"), [*CASES, *RUSSIAN])
def test_a_text_taken_apart(text, question, facts):
    assert [fact.text for fact in facts_of(text, question)] == facts


def test_items_know_that_they_are_items():
    assert [fact.item for fact in facts_of("Amy likes apples and plums. She is nine.")] == [
        "Amy likes apples",
        "plums",
        "",
    ]


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("Who wrote it?", 1),
        ("Who wrote it, and when?", 2),
        ("What is the capital of France, and what is the primary language spoken there?", 2),
        ("Кто открыл закон и в каком году?", 2),
        ("В какой день, в какое время и где пройдёт собрание?", 3),
        (None, 0),
    ],
)
def test_the_parts_of_a_question(question, parts):
    assert len(parts_of(question)) == parts


def test_questions_that_ask_for_several_things():
    assert asks_several("Which two rivers?")
    assert asks_several("Перечислите делители числа 10.")
    assert not asks_several("Who wrote it?")


@given(st.text(st.characters(exclude_categories=()), max_size=60), st.none() | st.text(max_size=20))
def test_any_text_can_be_taken_apart_and_no_fact_is_blank(text, question):
    facts = facts_of(text, question)
    assert all(fact.text.strip() for fact in facts)
    assert len({fact.text for fact in facts}) == len(facts)


@pytest.mark.parametrize("piece", ["it is, ", "a and b, ", "1) a ", "((((", '"', ", who ", "and ", "A. ", "- a\n"])
def test_hostile_texts_take_no_longer_than_others(piece):
    # Only the beginning of a long text is read, and nothing is looked at twice for every other thing.
    assert len(facts_of(piece * 5_000)) <= 2_000


def test_as_many_facts_as_physicians_find(shared):
    """K-QA: answers of physicians, taken apart by physicians. They leave out what does not matter; we cannot."""
    file = shared / "data/kqa_facts/kqa_gold_facts.jsonl"
    if not file.exists():
        pytest.skip("no K-QA beside the repository")
    rows = read_jsonl(file)
    ours = np.array([len(facts_of(row["references"][0], row["question"])) for row in rows])
    people = np.array([len(row["meta"]["must_have"]) + len(row["meta"]["nice_to_have"]) for row in rows])
    assert len(rows) == 201
    # Sentences alone: .63, and 3.3 facts off.
    assert np.corrcoef(ours, people)[0, 1] > 0.66
    assert np.abs(ours - people).mean() < 3.3


def test_a_long_enumeration_of_the_same_is_two_facts():
    assert len(facts_of("b, " * 1_200 + "end")) == 2
