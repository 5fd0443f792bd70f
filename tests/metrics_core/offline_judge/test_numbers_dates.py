"""Numbers and dates in words and digits, English and Russian."""

import pytest

from answerkey.metrics_core.offline_judge.numbers_dates import (
    Date,
    Quantity,
    dates,
    numbers,
    quantities,
)
from answerkey.metrics_core.offline_judge.reading import read
from answerkey.metrics_core.offline_judge.rules import only_quantity
from answerkey.metrics_core.text import words


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
    found = read(text)
    return quantities(found.tokens, found.numbers)


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
        (Quantity(1, "year"), Quantity(12, "month"), True),
        (Quantity(1, "dollar"), Quantity(1, "euro"), False),
    ],
)
def test_quantities_compare_across_units(one, other, same):
    assert one.equals(other) is same
    assert other.equals(one) is same


def test_one_quantity_and_no_more():
    assert only_quantity(read("the answer is 5 km"), frozenset()) == Quantity(5, "kilometre")
    assert only_quantity(read("5 green bottles"), frozenset()) is None
    assert only_quantity(read("5 green bottles"), frozenset(read("green bottles").stems)) == Quantity(5)


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
