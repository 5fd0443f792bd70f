import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.metrics_core.embeddings.embed import Chunk, chunk, pack, readable
from tests.metrics_core.metrics_help import seconds


def characters(limit):
    return lambda part: len(part) <= limit


@pytest.mark.parametrize(
    ("text", "limit", "parts"),
    [
        ("It is 3.14. Not 5!", 11, ["It is 3.14.", "Not 5!"]),
        ('He said "no." Then he left.', 14, ['He said "no."', "Then he left."]),
        ("今日は。明日も！", 4, ["今日は。", "明日も！"]),
        ("هل هذا صحيح؟ نعم.", 13, ["هل هذا صحيح؟", "نعم."]),
        ("यह एक है। वह दो है।", 10, ["यह एक है।", "वह दो है।"]),
        ("First line\nsecond line", 12, ["First line", "second line"]),
        ("a bb ccc dddd. e", 8, ["a bb ccc", "dddd. e"]),
        ("abcdefgh", 3, ["abc", "def", "gh"]),
        ("  one  ", 10, ["one"]),
    ],
)
def test_cuts(text, limit, parts):
    assert pack(text, characters(limit)) == parts


@given(st.text("ab .!?。\nЖ؟", min_size=1, max_size=200), st.integers(1, 30))
def test_nothing_is_lost_and_everything_fits(text, limit):
    parts = pack(text, characters(limit))
    assert all(part and len(part) <= limit for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


def test_a_character_that_does_not_fit_is_a_part_of_its_own():
    assert pack("ab", lambda _: False) == ["a", "b"]


def test_ten_times_as_many_sentences_take_little_more_than_ten_times_as_long():
    text = "This is a sentence of some words. " * 7500
    assert seconds(lambda: chunk(text, str.split, 254)) < 30 * seconds(lambda: chunk(text[:25_500], str.split, 254))
    parts = chunk(text, str.split, 254)
    assert sum(part.weight for part in parts) == 52_500
    assert {part.weight for part in parts[:-1]} == {252}


def test_a_text_that_fits_is_one_chunk():
    assert chunk("один два три", str.split, 3) == [Chunk("один два три")]


def test_ascii_that_must_fit_is_not_tokenized():
    def never(text):
        raise AssertionError(text)

    assert chunk("short text", never, 10) == [Chunk("short text")]


@pytest.mark.parametrize(
    ("text", "pieces", "expected"),
    [
        ("Paris 🙂", ["▁Paris", "▁", None], True),
        ("🙂", ["▁", None], False),
        ("🙂", [None], False),
        ("!!!", ["!", "!", "!"], True),
        ("ქართული.", ["▁", None, None, "."], False),
        ("ქართული 2024", [None, "2024"], False),
        ("ქა 2024", [None, "2024"], True),
        ("\u200b", [], False),
        ("плюс", ["##пл", "##юс"], True),
    ],
)
def test_readable(text, pieces, expected):
    assert readable(text, pieces) is expected
