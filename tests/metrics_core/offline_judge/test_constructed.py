"""Answers that rules made from right ones: wrong ones must not match, right ones must, in four languages.

The rules and the model were tuned on one half of the questions; only the other half is counted here.
"""

import pytest

from answerkey.metrics_core.offline_judge.matcher import Pair, match
from tests.metrics_core.offline_judge.constructed import GENERAL, WITHOUT_QUESTION, constructed, table

MOST_WRONG_MATCHES = 0.03
MOST_WRONG_MATCHES_OF_A_KIND = 0.08
LEAST_RIGHT_KEPT = 0.98
MOST_UNDECIDED = 0.10


@pytest.fixture(scope="module")
def counts():
    return table(reported=True)


def test_the_table_has_two_thousand_pairs_of_every_kind_in_four_languages():
    rows = constructed()

    reported = [row for row in rows if row.reported]
    kinds = {row.kind for row in rows}
    assert len(reported) >= 1_900
    assert len(rows) - len(reported) >= 1_900
    assert {(row.kind, row.lang) for row in reported} == {(kind, lang) for kind in kinds for lang in GENERAL}


def test_wrong_answers_match_in_at_most_three_of_a_hundred(counts):
    wrong = [count for (is_right, _, _), count in counts.items() if not is_right]

    n_decided = sum(count.n - count.n_undecided for count in wrong)
    n_matches = sum(count.n_errors for count in wrong)

    assert n_matches <= MOST_WRONG_MATCHES * n_decided


def test_wrong_answers_of_no_kind_and_language_match_often(counts):
    too_many = {
        (kind, lang): count
        for (is_right, kind, lang), count in counts.items()
        if not is_right and count.n_errors > MOST_WRONG_MATCHES_OF_A_KIND * (count.n - count.n_undecided)
    }

    assert too_many == {}


def test_right_answers_match_in_ninety_eight_of_a_hundred(counts):
    right = [count for (is_right, _, _), count in counts.items() if is_right]

    n_decided = sum(count.n - count.n_undecided for count in right)
    n_missed = sum(count.n_errors for count in right)

    assert n_decided - n_missed >= LEAST_RIGHT_KEPT * n_decided


def test_at_most_a_tenth_is_called_outside_the_training(counts):
    n_undecided = sum(count.n_undecided for count in counts.values())

    assert n_undecided <= MOST_UNDECIDED * sum(count.n for count in counts.values())


def test_another_value_in_a_sentence_is_never_a_match_without_a_question(counts):
    sentences = {key: count for key, count in counts.items() if key[1] in WITHOUT_QUESTION}

    assert len(sentences) == len(WITHOUT_QUESTION) * len(GENERAL)
    assert all(count.n_errors == 0 for count in sentences.values())


@pytest.mark.parametrize(
    ("question", "answer", "reference"),
    [
        ("What is the total?", "The total is 1250 dollars.", "125"),
        ("Is the dose legal?", "The correct answer is illegal in this case.", "legal"),
        ("Which language is it written in?", "It is written in C++.", "C"),
        ("Which country is it?", "It is Nigeria.", "Niger"),
        ("Which artist was it?", "Jane Smith", "John Smith"),
        ("How many were there?", "5abc", "5"),
        ("Which vitamin is it?", "It is vitamin B12.", "12"),
    ],
)
def test_a_reference_inside_a_longer_word_number_or_name_is_no_match(question, answer, reference):
    [verdict] = match([Pair(question, answer, (reference,))])

    assert not verdict.match


@pytest.mark.parametrize("question", ["", "Tell me about the company.", "Расскажите о фирме"])
def test_a_sentence_needs_a_question_that_tells_which_word_counts(question):
    pair = Pair(question, "Its headquarters are in Munich.", ("Its headquarters are in Berlin.",))

    [verdict] = match([pair])

    assert verdict.out_of_depth == "without a question that tells which word of the sentence counts"


@pytest.mark.parametrize(
    "answer", ["Its headquarters are in Berlin.", "its headquarters are in berlin", "I do not know."]
)
def test_a_sentence_needs_a_question_also_where_a_rule_decides(answer):
    [verdict] = match([Pair("", answer, ("Its headquarters are in Berlin.",))])

    assert verdict.rule != "model"
    assert verdict.out_of_depth == "without a question that tells which word of the sentence counts"


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        ("5kWh", "5"),
        ("the 5th", "5"),
        ("v5", "5"),
        ("12min", "12 minutes"),
        ("Room 12", "12"),
    ],
)
def test_a_unit_beside_the_number_of_the_reference_is_no_other_name(answer, reference):
    [verdict] = match([Pair("Which room, version, day or amount is it?", answer, (reference,))])

    assert verdict.match


def test_a_short_reference_needs_no_question():
    right, wrong = match([Pair("", "It is Paris.", ("Paris",)), Pair("", "It is London.", ("Paris",))])

    assert (right.match, wrong.match) == (True, False)
    assert right.out_of_depth == wrong.out_of_depth == ""
