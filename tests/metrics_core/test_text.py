"""Normalisation, words and blanks as tables to read, and the properties behind them."""

import sys
import unicodedata
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.metrics_core.text import (
    is_blank,
    normal_reference,
    normalise,
    reference_words,
    trimmed,
    words,
    words_of_normalised,
)

WORDS = {
    # plain
    "It is Paris.": "it is paris",
    "don't": "don t",
    "state-of-the-art": "state of the art",
    "snake_case": "snake case",
    "— … !": "",
    # signs
    "-5": "-5",
    "−5": "-5",
    "is -5 or (-5) or [-5]": "is -5 or -5 or -5",
    "COVID-19": "covid 19",
    "x(2)-3": "x 2 3",
    "+5": "+ 5",
    "$-5": "$ -5",
    "-½": "- ½",
    "3日-5日": "3 日 5 日",
    "อุณหภูมิ-5": "อุ ณ ห ภู มิ -5",
    # decimals and thousands
    "3.14": "3.14",
    "3.14.": "3.14",
    ".5": "0.5",
    "1,000": "1000",
    "-1,000.5": "-1000.5",
    "1'000 1’234’567.5 -1'000": "1000 1234567.5 -1000",
    "1,00,000 12,34,567": "100000 1234567",
    "10,20,30 1,00 0,100": "10,20,30 1,00 0,100",
    "rock'n'roll '90s 5'10": "rock n roll 90s 5 10",
    "3,14": "3,14",
    "0,125": "0,125",
    "1.000": "1.000",
    "192.168.0.1": "192.168.0.1",
    "5.": "5",
    "GPT-3.5": "gpt 3.5",
    # percent, currency, operators, names with marks
    "5%": "5 %",
    "$5": "$ 5",
    "C++": "c + +",
    "a <= b": "a < = b",
    "x != y": "x != y",
    "¬p": "¬ p",
    "✓ 🙂": "✓ 🙂",
    "a | b ~ c": "a b c",
    # digits and forms
    "٣٫١٤": "3.14",
    "١٬٠٠٠": "1000",
    "٥٪": "5 %",
    "10²": "10²",
    "1½": "1½",
    "CO₂": "co2",
    "10⁻⁵": "10 ⁵",
    "Ⅳ": "iv",
    # scripts
    "Ёлка и ёж": "елка и еж",
    "STRASSE Straße": "strasse strasse",
    "ΟΔΟΣ οδος": "οδοσ οδοσ",
    "ﬁnd Ｐａｒｉｓ": "find paris",
    "巴黎是首都": "巴 黎 是 首 都",
    "ｶﾞス": "ガ ス",
    "ก็ไม่": "ก็ ไ ม่",
    "नई दिल्ली।": "नई दिल्ली",
    "ما هي باريس؟": "ما هي باريس",
    "co\u00adoper\u200bate": "cooperate",
}


@pytest.mark.parametrize(("text", "expected"), WORDS.items())
def test_words(text, expected):
    assert words(text) == tuple(expected.split())
    assert reference_words(text) == words(text) == words_of_normalised(normalise(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  Ｐａｒｉｓ\u00a0is\r\n\tNICE ", "paris is nice"),
        ("«Да» “yes” ‘no’ „ja‘ ʼ", '"да" "yes" \'no\' "ja\' \''),
        ("a‐b‑c‒d–e−f", "a-b-c-d-e-f"),
        ("Ёж, ЁЖ, е\u0308ж", "еж, еж, еж"),
        ("e\u0301 é É", "é é é"),
        ("\ufeffBOM\u200b\u200d\ufe0f", "bom"),
        ("İ", "i"),
        ("İZMİR I DİYARBAKIR Iğdır IĞDIR Isparta", "izmir i diyarbakır ığdır ığdır isparta"),
        ("sınır sinir", "sınır sinir"),
        ("كِتَابٌ مـــرحبا ايران ایران أحمد إلى آل", "كتاب مرحبا ايران ايران احمد الي ال"),
        ("سؤال قائمة هٰذا", "سؤال قائمة هذا"),
        ("שָׁלוֹם תל־אביב צה״ל", 'שלום תל-אביב צה"ל'),
        ("10² ≠ 102, H₂O, 1½", "10² ≠ 102, h2o, 1½"),
        ("٣٫٥ ١٬٠٠٠ ٥٪ १२", "3.5 1,000 5% 12"),
        ("\ud800 lone", "\ud800 lone"),
        ("\x1c\x1d a \x1e\x1f", "a"),
        ("", ""),
    ],
)
def test_normalise(text, expected):
    assert normalise(text) == normal_reference(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"Paris."', "paris"),
        ("**Paris**", "paris"),
        ("«Париж».", "париж"),
        ("باريس؟", "باريس"),
        ("「巴黎」。", "巴黎"),
        ("St. John's", "st. john's"),
        ("5.", "5"),
        (".5", ".5"),
        ("...5", "5"),
        ("-5", "-5"),
        ("5 %.", "5 %"),
        ("§ 5", "§ 5"),
        ("C#.", "c#"),
        ("!= 5", "!= 5"),
        ("…", ""),
        ("1,000", "1000"),
        ("1'000 km", "1000 km"),
        ("-1,00,000.5", "-100000.5"),
        ("3,5", "3,5"),
        ("[Paris](https://a.example/b_(c))", "paris"),
        (r"$\boxed{42}$", "42"),
        (r"\(x\)", "x"),
        ("$$42$$.", "42"),
        ("$5", "$5"),
        ("$5 and $6", "$5 and $6"),
        ("`print`", "print"),
        ("_Paris_ is *nice*", "paris is nice"),
        ("a_b_c * 2 * 3", "a_b_c * 2 * 3"),
    ],
)
def test_trimmed(text, expected):
    assert trimmed(text) == expected


@pytest.mark.parametrize(
    ("text", "blank"),
    [
        (None, True),
        ("", True),
        (" \t\r\n", True),
        ("\u00a0\u3000\u2028", True),
        ("\u200b\u200d\ufeff\u00ad\ufe0f", True),
        ("0", False),
        ("не", False),
        ("🙂", False),
        ("\x00", False),
    ],
)
def test_is_blank(text, blank):
    assert is_blank(text) is blank


def is_number_form(character):
    """Whether its compatibility form would make another number: 10² is not 102, 1½ is not 11⁄2."""
    form = unicodedata.normalize("NFKC", character)
    kind = unicodedata.decomposition(character).partition(" ")[0]
    return kind in ("<super>", "<sub>", "<fraction>") and any("0" <= part <= "9" for part in form)


def test_normal_forms_of_every_character():
    """Each character that has another form, alone and among letters, digits and marks."""
    seen = 0
    wrong = []
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        if not (unicodedata.decomposition(character) or unicodedata.combining(character)):
            continue
        seen += 1
        for text in (character, f"a{character}b", f"5{character}\u0301e", f"e{character}\u0308"):
            for form in ("NFC", "NFD") if is_number_form(character) else ("NFC", "NFD", "NFKC", "NFKD"):
                if normalise(unicodedata.normalize(form, text)) != normalise(text):
                    wrong.append((form, text))
    assert seen > 6_000
    assert wrong == []


def test_a_superscript_a_subscript_and_a_fraction_are_not_folded_into_other_numbers():
    kept = [character for character in map(chr, range(sys.maxunicode + 1)) if is_number_form(character)]
    assert "".join(kept[:6]) == "²³¹¼½¾"
    assert {character: words(f"10{character}") for character in kept} == {
        character: (f"10{character}",) for character in kept
    }


def test_every_code_point_can_be_normalised_and_cut():
    # The two libraries of Unicode data differ in age: digits that only one of them knows once ended the run.
    text = " ".join(map(chr, range(sys.maxunicode + 1)))
    assert len(words(text)) > 150_000
    assert len(normalise("\U00011f50\U0001ccf5")) == 2
    assert not is_blank("\U00011f50")


def test_case_changes_nothing_for_every_letter():
    # Folding case can take a composed letter apart: ΐ in capitals comes back as another sequence.
    every = [character for character in map(chr, range(sys.maxunicode + 1)) if character.upper() != character.lower()]
    assert len(every) > 2_000
    changed = [c for c in every if not normalise(c.upper()) == normalise(c) == normalise(c.lower())]
    assert changed == ["ı"]  # a letter of its own in Turkish, and a capital i in upper case


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_takes_a_shorter_way_to_the_same_words(text):
    assert words(f"{text} ж") == (*words(text), "ж")


@given(*[st.text(st.sampled_from('ab5.!=?_-#%) "\t') | st.characters(max_codepoint=127), max_size=6)] * 2)
def test_ascii_is_trimmed_as_any_text(head, tail):
    assert trimmed(f"{head}e{tail}") == trimmed(f"{head}é{tail}").replace("é", "e")


@given(st.text(st.characters(exclude_categories=()), max_size=30))
def test_words_are_not_empty_and_hold_no_white_space(text):
    assert all(word and not any(map(str.isspace, word)) for word in words(text))
    assert not is_blank(text) or not words(text)
    assert is_blank(text) == (normalise(text) == "")


@given(st.text(st.characters(exclude_categories=()), max_size=30))
def test_trimming_only_takes_from_the_ends(text):
    assert trimmed(text) in normalise(text)
    cut = Counter(normalise(text)) - Counter(trimmed(text))
    assert [character for character in cut if character.isalnum() or character in "-+$%#&@<=>"] == []


@pytest.mark.parametrize("function", [normalise, words, trimmed])
@pytest.mark.parametrize(
    "text",
    [
        "a" + "." * 100_000 + "b",
        "é" + "_" * 100_000 + "b",
        "1," * 50_000 + "a",
        "-1" * 50_000,
        "e" + "\u0301" * 100_000 + "a",
        "\u200b" * 100_000,
    ],
    ids=["stops", "underlines", "commas", "signs", "marks", "invisible"],
)
def test_hostile_texts_are_read_whole(function, text):
    assert function(text) is not None
