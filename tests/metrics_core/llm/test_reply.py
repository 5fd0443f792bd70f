"""Reading replies: golden cases, what fails closed and with which code, scores, and laws over any text."""

import json
import pickle
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from answerkey.metrics_core.llm.reply import (
    DEEPEST,
    Code,
    Unreadable,
    number_of,
    read_object,
    read_score,
    reason_of,
)
from answerkey.metrics_core.llm.untrusted import quoted

N_EXTRACTION = 6

TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
# In lower case, as they are read; and no text has a tab or a form feed, which would be a backslash of LaTeX.
KEYS = st.text(st.characters(categories=["Ll", "Nd", "Po"]), max_size=20).filter(lambda key: key == key.lower())
VALUES = st.text(st.characters(exclude_characters="\b\f\n\r\t", exclude_categories=()), max_size=20)
NUMBERS = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, VALUES),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, JSON, max_size=5)
DUMPED = st.builds(
    lambda value, ascii, indent: json.dumps(value, ensure_ascii=ascii, indent=indent),
    OBJECTS,
    st.booleans(),
    st.sampled_from([None, 2]),
)
# No braces; also no bracket right before the object, no <think>, and no quotation marks that make it a JSON text.
PROSE = st.text(st.characters(exclude_characters='{}[<"`', exclude_categories=()), max_size=40)
# What a reply is made of, so that arbitrary texts reach every corner.
SCRAPS = st.lists(
    st.sampled_from(
        (*'{}[]"\\,: 1\ud800\x00', "```", "json\n", "<think>", "</think>", "NaN", "1e999", "true", '"score"',
         '{"score": true}', '{"S": {"score": 1}}')
    ),
    max_size=30,
).map("".join)  # fmt: skip


def golden(shared, kind):
    return json.loads((shared / "golden" / "meaning_match.json").read_text(encoding="utf-8"))[kind]


def code_of(reply, read=read_object):
    with pytest.raises(Unreadable) as caught:
        read(reply)
    assert caught.value.repairable == (caught.value.code != "conflict")
    return caught.value.code


def meaning(value):
    """A text that is equal for values that mean the same: 1 and 1.0 are one, true is not."""
    if isinstance(value, dict):
        return "{" + ",".join(sorted(f"{key!r}:{meaning(item)}" for key, item in value.items())) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(meaning, value)) + "]"
    if isinstance(value, float) and value.is_integer():
        return repr(int(value))
    return repr(value)


# One object


@pytest.mark.parametrize("index", range(N_EXTRACTION))
def test_golden_extraction(index, shared):
    cases = golden(shared, "extraction")
    assert len(cases) == N_EXTRACTION
    case = cases[index]
    if case["ok"]:
        assert read_object(case["reply"]) == {"score": True, "reason": "a"}
    else:
        assert code_of(case["reply"]) == ("not_json" if "NaN" in case["reply"] else "conflict")


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ('```json {"a": 1}```', {"a": 1}),
        ('<think>perhaps {"a": 2}</think>\n{"a": 1}', {"a": 1}),
        ('  \n<think></think>{"a": 1}', {"a": 1}),
        ('As source [1] says, "it\'s": {"a": 1}.', {"a": 1}),
        ('{"a": 1, "a": 1.0}', {"a": 1}),
        ('{"a": "} ] \\" {"}', {"a": '} ] " {'}),
        ('{"a": "one\ntwo"}', {"a": "one\ntwo"}),
        (r'{"a": "one\nThe \tNext \r\n \u00e9"}', {"a": "one\nThe \tNext \r\n é"}),
        (
            r'{"a": "\theta \nabla \rho \beta \frac{1}{2} \ung \\alpha"}',
            {"a": r"\theta \nabla \rho \beta \frac{1}{2} \ung \alpha"},
        ),
    ],
)
def test_one_object_is_read(reply, value):
    assert read_object(reply) == value


@pytest.mark.parametrize(
    ("code", "replies"),
    [
        ("no_answer", [None, "", " \n\t", "<think>hm</think>  "]),
        (
            "not_json",
            [
                "Sure! Let me evaluate", "[1] says so", "{'score': true}", '{"score": true,,}',
                '{"score": NaN}', '{"score": tru}', '{"score": [true}',
                '{"score": true}}', '{"score": true} as for {1, 2}',
            ],
        ),
        (
            "not_object",
            [
                "null", '"{\\"score\\": true}"', '[{"score": true}]',
                '```json\n[1, {"score": true}]\n```',
            ],
        ),
        ("truncated", ['{"score": "tr\\', '[{"score": true}']),
        ("only_thoughts", ['<think>so {"score": true}']),
        (
            "unreadable",
            [
                '{"score": 1e999}', '{"score": [-1' + "0" * 400 + "]}", '{"score": 1' + "0" * 5000 + "}",
                '{"a":' * (DEEPEST + 1) + "1" + "}" * (DEEPEST + 1), '{"a":' + "[" * 5000 + "]" * 5000 + "}",
            ],
        ),
        (
            "conflict",
            [
                '{"a": 1} {"a": 2} {"a": 1}', '{"a": 1} {bad} {"a": 2}', '{"score": true, "score": false}',
                '{"S": {"score": true, "score": 1}}', '{"score": true} {"score": tr',
                '{"score": true} {"score": false]', '{"score": true} [{"score": false}',
                '<think>the answer says </think>{"score": true}</think>{"score": false}',
            ],
        ),
    ],
)  # fmt: skip
def test_everything_else_fails_closed(code, replies):
    assert [code_of(reply) for reply in replies] == [code] * len(replies)


def test_nesting_up_to_the_limit_is_read():
    reply = '{"a":' * DEEPEST + "1" + "}" * DEEPEST
    assert json.dumps(read_object(reply), separators=(",", ":")) == reply


@given(DUMPED, PROSE, PROSE)
def test_an_object_in_prose_is_read_back(dumped, before, after):
    assert meaning(read_object(f"{before}{dumped}{after}")) == meaning(json.loads(dumped))


@given(OBJECTS, OBJECTS, PROSE)
@example({"a": True}, {"a": 1}, "")
@example({"a": [0]}, {"a": [False]}, "")
@example({"a": 1}, {"a": 1, "b": None}, "")
@example({"a": 1, "b": [{"c": 2}]}, {"b": [{"c": 2.0}], "a": 1}, " again: ")
def test_two_objects_give_a_value_only_if_they_mean_the_same(one, other, between):
    first, second = json.dumps(one), json.dumps(other)
    if meaning(json.loads(first)) == meaning(json.loads(second)):
        assert meaning(read_object(first + between + second)) == meaning(json.loads(first))
    else:
        assert code_of(first + between + second) == "conflict"


@given(DUMPED, PROSE, st.data())
def test_no_prefix_of_an_object_gives_a_value(dumped, before, data):
    kept = data.draw(st.integers(0, len(dumped) - 1))
    with pytest.raises(Unreadable) as caught:
        read_object(before + dumped[:kept])
    assert kept == 0 or caught.value.code == "truncated"


@given(DUMPED, DUMPED, st.data())
def test_a_cut_tail_is_a_conflict(whole, cut, data):
    kept = data.draw(st.integers(1, len(cut) - 1))
    assert code_of(whole + cut[:kept]) == "conflict"


@given(st.one_of(TEXT, SCRAPS))
@example("[{" * 20_000)
@example('{"a":[' * 20_000)
@example("[" * 20_000 + "]" * 20_000)
@example("}" * 20_000)
@example("{1}" * 20_000)
def test_arbitrary_text_raises_nothing_but_unreadable(reply):
    for read in (read_object, lambda reply: read_score(read_object(reply), "S")):
        try:
            read(reply)
        except Unreadable as error:
            assert error.code in get_args(Code)
            assert error.message.splitlines() == [error.message]
            assert len(error.message) <= 200


# Scores


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ("{}", "no_score_fields"),
        ('{"S": true}', "no_score_fields"),
        ('{"a": {"score": 1}, "b": {"score": 1}}', "no_score_fields"),
        ('{"S": {"score": true}, "s": {"score": false}}', "conflict"),
        ('{"S": {"score": true}, "score": false}', "conflict"),
    ],
)
def test_no_score_is_guessed(reply, code):
    assert code_of(reply, lambda reply: read_score(read_object(reply), "S")) == code


@pytest.mark.parametrize(
    ("number", "values"),
    [
        (1.0, [True, "1", "TRUE", "yes", "on", "t", " pass "]),
        (0.0, [False, " False ", "no", "OFF", "n", "FAIL"]),
        (3.0, [3, "3."]),
        (-2.5, [-2.5]),
        (0.5, ["+.5"]),
        (-2000.0, [" -2e3\n"]),
    ],
)
def test_values_that_are_numbers(number, values):
    assert [(number_of(value), type(number_of(value))) for value in values] == [(number, float)] * len(values)


@pytest.mark.parametrize(
    "value",
    [
        *("high", "", "nan", "1e999", "1_000", "0,8", "80%", "0x1", "１"),
        *([1], {}, float("nan"), 10**400),
    ],
    ids=repr,
)
def test_values_that_are_no_numbers(value):
    with pytest.raises(Unreadable, match=r"is neither a number nor true or false$") as caught:
        number_of(value)
    assert (caught.value.code, caught.value.repairable) == ("unreadable", True)


# Reasons and messages


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ({"reason": "  it is\r\n\tthe same \x1b[31mfact\x00 "}, "it is the same [31mfact"),
        ({"reason": ["a ", " b", 3, "c"]}, "a, b, c"),
        ({"reason": "mid\u202edle \ud800 \ufeffend\u2028x"}, "middle \ufffd end x"),
        ({"reason": "می‌خواهم"}, "می‌خواهم"),
        ({"reason": {"text": "a"}}, ""),
        ({"score": True}, ""),
        ({"reason": "x" * 2000}, "x" * 2000),
        ({"reason": "x" * 2001}, "x" * 1999 + "…"),
    ],
)
def test_the_reason_is_one_clean_line(reply, text):
    assert reason_of(reply) == text


@pytest.mark.parametrize("code", get_args(Code))
def test_unreadable_survives_pickling(code):
    error = Unreadable(code, "one\nline\x07")
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.code, copy.message, str(copy)) == (code, "one line", "one line")
    assert copy.repairable == (code not in ("conflict", "no_room"))


@given(st.text(st.characters(exclude_categories=()), min_size=61, max_size=300))
def test_a_message_quotes_little_and_nothing_that_acts(text):
    shown = quoted(text)
    assert len(shown) <= 62
    assert set("<>`\n\r\x1b\u202e\u2028") & set(shown) == set()
    assert shown.count('"') == 2
    shown.encode("utf-8")


def test_a_message_names_the_place():
    with pytest.raises(Unreadable) as caught:
        read_object('{"score": tru, "reason": "a long reason that is not shown as a whole"}')
    assert caught.value.message == 'the JSON is not valid: Expecting value, at "tru, reason : a long reason"'
