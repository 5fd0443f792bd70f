"""The laws that hold for every lexical metric, every field and every script.

A metric that is added to the catalogue as lexical is bound by them at once. The compatibility profiles are not, nor are
metrics that read one value of a text.
"""

import math
import unicodedata

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from answerkey import METRICS, Sample, create, evaluate
from answerkey.metrics_core.text import is_blank, words

# `rouge` is rouge-score, whatever that says of texts in other scripts.
OTHERS = {"rouge", "number", "choice", "json_equal", "pattern", "tool_calls"}
LEXICAL = [name for name, info in METRICS.items() if info.kind == "lexical" and name not in OTHERS]
FIELDS = {metric.name: metric.fields for metric in create(LEXICAL)}


def letters(*ranges):
    """Assigned characters of some ranges of code points."""
    return st.one_of(
        st.characters(min_codepoint=low, max_codepoint=high, exclude_categories=("Cn", "Cs", "Co"))
        for low, high in ranges
    )


SCRIPTS = {
    "Latin": letters((0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x24F), (0x1E00, 0x1EFF), (0x300, 0x36F), (0xFF21, 0xFF5A)),
    "Cyrillic": letters((0x400, 0x4FF)),
    "Greek": letters((0x370, 0x3FF), (0x1F00, 0x1FFF)),
    "Han and kana": letters((0x4E00, 0x9FFF), (0x3041, 0x30FF), (0xF900, 0xFAD9), (0xFF66, 0xFF9F)),
    "Arabic": letters((0x620, 0x6FF), (0xFE70, 0xFEFC)),
    "Thai": letters((0xE01, 0xE3A), (0xE40, 0xE5B)),
    "Devanagari": letters((0x900, 0x97F)),
    "Hangul": letters((0xAC00, 0xD7A3), (0x1100, 0x1112), (0x1161, 0x1175), (0x11A8, 0x11C2)),
    # Unassigned code points and lone surrogates too: JSON files can bring them.
    "anything": st.characters(exclude_categories=()),
}
# What stands between words: space of all kinds, punctuation, numbers with and without compatibility forms,
# invisible characters, ligatures, emoji.
BETWEEN = st.one_of(
    st.sampled_from(" \t\n\u00a0\u3000\u200b\u00ad.,?!-−–'’«»()%$€+=#&_5５①№ﬁ㎏🙂、。؟।"),
    st.sampled_from(
        ["  ", "...", " not ", " не ", "❤\ufe0f", "-5", "3.14", "1,000", ".5", "٣٫٥", "१२", "10²", "1½", "x₂"]
    ),
)
WHITE = st.text(st.sampled_from(" \t\n\r\x0b\x0c\u0085\u00a0\u2003\u2028\u3000"), max_size=3)


@st.composite
def cases(draw, letter):
    """An answer and one to four references that share words with it."""
    vocabulary = st.sampled_from(draw(st.lists(st.text(letter, min_size=1, max_size=5), min_size=1, max_size=4)))
    text = st.lists(vocabulary | BETWEEN | st.just(" "), min_size=1, max_size=8).map("".join)
    return draw(text), draw(st.lists(text, min_size=1, max_size=4))


def all_scores(answer, references):
    """The values of every lexical metric; none where it is undefined."""
    measured = evaluate([Sample("1", answer, references)], LEXICAL)
    return {measurement.metric: measurement.values for measurement in measured}


def each(value):
    return {name: {field.name: value for field in fields} for name, fields in FIELDS.items()}


in_every_script = pytest.mark.parametrize("script", SCRIPTS)
some = settings(max_examples=15)


@in_every_script
@some
@given(data=st.data())
def test_a_text_against_itself_scores_one(script, data):
    text, others = data.draw(cases(SCRIPTS[script]))
    assume(words(text))
    assert all_scores(text, [text]) == each(1.0)
    assert all_scores(text, [*others, text]) == each(1.0)


@settings(max_examples=10)
@given(data=st.data())
def test_the_order_of_rows_changes_no_value(data):
    rows = st.one_of([cases(letter) for letter in SCRIPTS.values()])
    drawn = data.draw(st.lists(rows, min_size=2, max_size=6))
    samples = [Sample(str(i), answer, references) for i, (answer, references) in enumerate(drawn)]
    shuffled = data.draw(st.permutations(samples))
    for name in LEXICAL:
        values = {m.sample_id: m.outcome for m in evaluate(samples, [name])}
        assert {m.sample_id: m.outcome for m in evaluate(shuffled, [name])} == values
        assert {s.sample_id: evaluate([s], [name])[0].outcome for s in samples} == values


def has_number_form(text):
    """Whether a compatibility form would make another number: 10² is not 102, 1½ is not 11⁄2."""
    return any(
        unicodedata.category(character) == "No"
        and unicodedata.decomposition(character).startswith(("<super>", "<sub>", "<fraction>"))
        for character in text
    )


@in_every_script
@some
@given(data=st.data(), before=WHITE, after=WHITE)
def test_values_are_in_range_and_no_order_form_or_outer_white_space_changes_them(script, data, before, after):
    answer, references = data.draw(cases(SCRIPTS[script]))
    expected = all_scores(answer, references)
    for name, values in expected.items():
        # An undefined measurement has no field; a scored one has all of them, in order.
        assert list(values) in ([], [field.name for field in FIELDS[name]])
        for field in FIELDS[name] if values else ():
            value = values[field.name]
            assert math.isfinite(value)
            assert field.low <= value <= field.high, (name, field.name, value)
            assert not field.binary or value in (0.0, 1.0)
    assert all_scores(answer, data.draw(st.permutations(references))) == expected
    assert all_scores(before + answer + after, references) == expected
    assert all_scores(answer, [before + reference + after for reference in references]) == expected
    safe = not any(map(has_number_form, [answer, *references]))
    for form in ("NFC", "NFD", "NFKC", "NFKD") if safe else ("NFC", "NFD"):
        assert all_scores(unicodedata.normalize(form, answer), references) == expected, form
        others = [unicodedata.normalize(form, reference) for reference in references]
        assert all_scores(answer, others) == expected, form


# What is said, and what would be left or put in its place. None of the second may count as the first.
MEANINGFUL = [
    ("not", ""),
    ("isn't", "is"),
    ("не", ""),
    ("不", ""),
    ("ليس", ""),
    ("-5", "5"),
    ("−5", "5"),
    ("-٥", "٥"),
    (".5", "5"),
    ("-$5", "$5"),
    ("+5", "-5"),
    ("±5", "5"),
    ("3.14", "314"),
    ("3.14", "3 14"),
    ("٣٫١٤", "٣١٤"),
    ("1,000", "1"),
    ("10²", "102"),
    ("1½", "11⁄2"),
    ("5%", "5‰"),
    ("$5", "€5"),
    ("< 5", "> 5"),
    ("x != y", "x = y"),
    ("¬p", "p"),
    ("C++", "C"),
    ("✓", "✗"),
]
PARTIAL = {"precision", "recall"}  # either may well be 1 where one text is a part of the other


@pytest.mark.parametrize(("stated", "other"), MEANINGFUL)
@settings(max_examples=8)
@given(data=st.data())
@example(data=None)
def test_negation_numbers_and_signs_are_never_dropped(stated, other, data):
    before = after = "" if other else "Paris"
    if data:
        word = st.text(data.draw(st.sampled_from([SCRIPTS[s] for s in SCRIPTS if s != "anything"])), max_size=4)
        before, after = data.draw(word), data.draw(word)
    full, changed = f"{before} {stated} {after}", f"{before} {other} {after}"
    # A mark without a letter is no text, so there would be no reference
    assume(not is_blank(changed))
    for answer, reference in ((full, changed), (changed, full)):
        scores = all_scores(answer, [reference])
        # "not Paris" does contain "Paris"; the other way round it must not.
        if answer == full:
            del scores["contains"]
        whole = {
            f"{name}.{field}": value
            for name, values in scores.items()
            for field, value in values.items()
            if field.rpartition("_")[2] not in PARTIAL
        }
        assert len(whole) >= 6
        assert {field: value for field, value in whole.items() if value == 1} == {}


@pytest.mark.parametrize(
    ("stated", "other"),
    [
        ("气温-5度", "气温5度"),
        ("อุณหภูมิ-5องศา", "อุณหภูมิ5องศา"),
        ("他不去", "他去"),
        ("约3.14米", "约314米"),
    ],
)
def test_nothing_is_dropped_in_scripts_without_spaces(stated, other):
    for name in ("rouge_l", "token_overlap"):
        assert all_scores(stated, [other])[name]["f1"] < 1
    assert all_scores(stated, [other])["exact_match"] == {"match": 0}
    assert all_scores(other, [stated])["contains"] == {"match": 0}
