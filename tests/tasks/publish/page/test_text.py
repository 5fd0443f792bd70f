"""Numbers and untrusted text, made safe and readable for the page."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.tasks.publish.page.text import (
    hidden_name,
    isolated,
    number,
    percent,
    probability,
    signed,
    typeset,
    visible,
)


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "–"), (0.6754, "0.675"), (-0.0201, "\u22120.020"), (1, "1.000"), (0.0, "0.000")]
)
def test_numbers(value: float | None, shown: str) -> None:
    assert number(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "–"), (0.0123, "+0.012"), (-0.5, "\u22120.500"), (0.0, "0.000"), (-0.00004, "0.000")]
)
def test_differences_have_a_sign_unless_they_are_nothing(value: float | None, shown: str) -> None:
    assert signed(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (1.0, "100\u00a0%"),
        (0.9999, "> 99.9\u00a0%"),
        (0.0001, "< 0.1\u00a0%"),
        (0.0, "0\u00a0%"),
        (0.784, "78.4\u00a0%"),
    ],
)
def test_shares_are_never_rounded_to_all_or_nothing(value: float | None, shown: str) -> None:
    assert percent(value) == shown


def test_numbers_of_a_sentence_have_a_true_minus_and_names_are_left_alone() -> None:
    sentence = "gpt-4-0613 lost (-0.094, 95 % interval -0.113 to -0.074) of GPT -3.5"
    assert typeset(sentence) == (
        "gpt-4-0613 lost (\u22120.094, 95\u00a0% interval \u22120.113 to \u22120.074) of GPT -3.5"
    )


@pytest.mark.parametrize(("value", "shown"), [(None, "–"), (0.0004, "< 0.001"), (0.05, "0.050")])
def test_probabilities(value: float | None, shown: str) -> None:
    assert probability(value) == shown


@pytest.mark.parametrize(
    ("character", "name"),
    [("\u202e", "RLO"), ("\u2066", "LRI"), ("\x00", "U+0000"), ("\x85", "U+0085"), ("\U000e0041", "U+E0041")],
)
def test_characters_that_steer_text_are_named(character: str, name: str) -> None:
    assert hidden_name(character) == name
    assert visible(f"a{character}b") == f"a[{name}]b"
    assert str(isolated(f"a{character}b")) == f'<bdi dir="auto">a<span class="mark">{name}</span>b</bdi>'


@pytest.mark.parametrize("text", ["Привет, мир", "القاهرة", "東京\n2 lines\ttab", "👩‍👩‍👧", "می‌خواهم"])
def test_ordinary_text_of_any_script_stays_as_it_is(text: str) -> None:
    assert visible(text) == text
    assert str(isolated(text)) == f'<bdi dir="auto">{text}</bdi>'


@given(st.text())
def test_nothing_in_a_text_becomes_markup(text: str) -> None:
    inside = str(isolated(text)).removeprefix('<bdi dir="auto">').removesuffix("</bdi>")
    for tag in ('<span class="mark">', "</span>"):
        inside = inside.replace(tag, "")
    assert not set("<>\"'") & set(inside)
