"""Untrusted text and our own numbers, made safe and readable for the page."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.tasks.publish.escape import hidden_name, isolated, typeset, visible


def test_numbers_of_a_sentence_have_a_true_minus_and_names_are_left_alone():
    sentence = "gpt-4-0613 lost (-0.094, 95 % interval -0.113 to -0.074) of GPT -3.5"
    assert typeset(sentence) == (
        "gpt-4-0613 lost (\u22120.094, 95\u00a0% interval \u22120.113 to \u22120.074) of GPT -3.5"
    )
    assert [typeset(text) for text in ("-0.500", "-0.031 [-0.050, -0.012]", "a-0.500", "78.4 %")] == [
        "\u22120.500", "\u22120.031 [\u22120.050, \u22120.012]", "a-0.500", "78.4\u00a0%",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("character", "name"),
    [("\u202e", "RLO"), ("\u2066", "LRI"), ("\x00", "U+0000"), ("\x85", "U+0085"), ("\U000e0041", "U+E0041")],
)
def test_characters_that_steer_text_are_named(character, name):
    assert hidden_name(character) == name
    assert visible(f"a{character}b") == f"a[{name}]b"
    assert str(isolated(f"a{character}b")) == f'<bdi dir="auto">a<span class="mark">{name}</span>b</bdi>'


@pytest.mark.parametrize("text", ["Привет, мир", "القاهرة", "東京\n2 lines\ttab", "👩‍👩‍👧", "می‌خواهم"])
def test_ordinary_text_of_any_script_stays_as_it_is(text):
    assert visible(text) == text
    assert str(isolated(text)) == f'<bdi dir="auto">{text}</bdi>'


@given(st.text())
def test_nothing_in_a_text_becomes_markup(text):
    inside = str(isolated(text)).removeprefix('<bdi dir="auto">').removesuffix("</bdi>")
    for tag in ('<span class="mark">', "</span>"):
        inside = inside.replace(tag, "")
    assert not set("<>\"'") & set(inside)
