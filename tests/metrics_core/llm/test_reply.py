"""Reading replies: the golden extraction cases, what fails closed and with which code, and laws over arbitrary text."""

import json
import pickle
import time
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from answerkey.metrics_core.llm.reply import DEEPEST, Code, Unreadable, read_object, read_scores, reason_of
from answerkey.metrics_core.llm.untrusted import quoted

N_EXTRACTION = 6

TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
NUMBERS = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=12,
)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=5)
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
        [
            *(
                "{",
                "}",
                "[",
                "]",
                '"',
                "\\",
                ",",
                ":",
                "```",
                "json\n",
                "<think>",
                "</think>",
                " ",
                "NaN",
                "1e999",
                "1",
            ),
            *("true", '"score"', '{"score": true}', '{"S": {"score": 1}}', "\ud800", "\x00"),
        ]
    ),
    max_size=30,
).map("".join)


def code_of(reply: str | None) -> str:
    with pytest.raises(Unreadable) as caught:
        read_object(reply)
    assert caught.value.repairable == (caught.value.code != "conflict")
    return caught.value.code


def meaning(value: Any) -> str:
    """A text that is equal for values that mean the same: 1 and 1.0 are one, true is not."""
    if isinstance(value, dict):
        return "{" + ",".join(sorted(f"{key!r}:{meaning(item)}" for key, item in value.items())) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(meaning, value)) + "]"
    if isinstance(value, float) and value.is_integer():
        return repr(int(value))
    return repr(value)


@pytest.mark.parametrize("index", range(N_EXTRACTION))
def test_golden_extraction(index: int, shared: Path) -> None:
    cases = json.loads((shared / "golden" / "meaning_match.json").read_text(encoding="utf-8"))["extraction"]
    assert len(cases) == N_EXTRACTION
    case = cases[index]
    if case["ok"]:
        assert read_object(case["reply"]) == {"score": True, "reason": "a"}
    else:
        assert code_of(case["reply"]) == ("not_json" if "NaN" in case["reply"] else "conflict")


# One object


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('```\n{"a": 1}\n```', {"a": 1}),
        ('```json {"a": 1}```', {"a": 1}),
        ('<think>perhaps {"a": 2}</think>\n{"a": 1}', {"a": 1}),
        ('  \n<think></think>{"a": 1}', {"a": 1}),
        ('As source [1] says, "it\'s": {"a": 1}.', {"a": 1}),
        ('{"a": 1} {"a": 1.0}', {"a": 1}),
        ('{"a": 1, "b": [{"c": 2}]} again: {"b": [{"c": 2.0}], "a": 1}', {"a": 1, "b": [{"c": 2}]}),
        ('{"a": 1, "a": 1.0}', {"a": 1}),
        ('{"a": "} ] \\" {"}', {"a": '} ] " {'}),
        ('{"a": "one\ntwo"}', {"a": "one\ntwo"}),
        ('{"a": "\\ud800"}', {"a": "\ud800"}),
        ("{}", {}),
    ],
)
def test_one_object_is_read(reply: str, value: dict[str, Any]) -> None:
    assert read_object(reply) == value


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (None, "no_answer"),
        ("", "no_answer"),
        (" \n\t", "no_answer"),
        ("<think>hm</think>  ", "no_answer"),
        ("Sure! Let me evaluate", "not_json"),
        ("[1] says so", "not_json"),
        ("{score: true}", "not_json"),
        ("{'score': true}", "not_json"),
        ('{"score": true,}', "not_json"),
        ('{"score": NaN}', "not_json"),
        ('{"score": -Infinity}', "not_json"),
        ('{"score": tru}', "not_json"),
        ('{"score": [true}', "not_json"),
        ('{"score": true]', "not_json"),
        ('{"score": true}}', "not_json"),
        ('the set {1, 2}, so {"score": true}', "not_json"),
        ('{"score": true} as for {1, 2}', "not_json"),
        ("null", "not_object"),
        ("true", "not_object"),
        ('"{\\"score\\": true}"', "not_object"),
        ('[{"score": true}]', "not_object"),
        ('[1, {"score": true}]', "not_object"),
        ('```json\n[1, {"score": true}]\n```', "not_object"),
        ('Here: [ {"score": true} ]', "not_object"),
        ('{"score": true', "truncated"),
        ('{"score": "tr', "truncated"),
        ('{"score": "tr\\', "truncated"),
        ('[{"score": true}', "truncated"),
        ('<think>so {"score": true}', "only_thoughts"),
        ('{"score": 1e999}', "unreadable"),
        ('{"score": [-1' + "0" * 400 + "]}", "unreadable"),
        ('{"score": 1' + "0" * 5000 + "}", "unreadable"),
        ('{"a":' * (DEEPEST + 1) + "1" + "}" * (DEEPEST + 1), "unreadable"),
        ('{"a":' + "[" * 5000 + "]" * 5000 + "}", "unreadable"),
        ('{"score": true} {"score": false}', "conflict"),
        ('{"score": true} {"score": 1}', "conflict"),
        ('{"a": [true]} {"a": [1]}', "conflict"),
        ('{"a": 1} {"a": 1, "b": null}', "conflict"),
        ('{"a": 1} {"a": 2} {"a": 1}', "conflict"),
        ('{"a": 1} {bad} {"a": 2}', "conflict"),
        ('{"score": true, "score": false}', "conflict"),
        ('{"S": {"score": true, "score": 1}}', "conflict"),
        ('{"score": true} {"score": tr', "conflict"),
        ('{"score": true} {"score": false]', "conflict"),
        ('{"score": true} [{"score": false}', "conflict"),
        ('<think>the answer says </think>{"score": true}</think>{"score": false}', "conflict"),
    ],
)
def test_everything_else_fails_closed(reply: str | None, code: str) -> None:
    assert code_of(reply) == code


def test_nesting_up_to_the_limit_is_read() -> None:
    reply = '{"a":' * DEEPEST + "1" + "}" * DEEPEST
    assert json.dumps(read_object(reply), separators=(",", ":")) == reply


@given(OBJECTS, st.booleans(), st.sampled_from([None, 2]), PROSE, PROSE)
def test_an_object_in_prose_is_read_back(
    value: dict[str, Any], ascii: bool, indent: int | None, before: str, after: str
) -> None:
    dumped = json.dumps(value, ensure_ascii=ascii, indent=indent)
    assert meaning(read_object(f"{before}{dumped}{after}")) == meaning(json.loads(dumped))


@given(OBJECTS, OBJECTS, PROSE)
@example({"a": True}, {"a": 1}, "")
@example({"a": 0}, {"a": False}, "")
def test_two_objects_give_a_value_only_if_they_mean_the_same(
    one: dict[str, Any], other: dict[str, Any], between: str
) -> None:
    first, second = json.dumps(one), json.dumps(other)
    if meaning(json.loads(first)) == meaning(json.loads(second)):
        assert meaning(read_object(first + between + second)) == meaning(json.loads(first))
    else:
        assert code_of(first + between + second) == "conflict"


@given(DUMPED, PROSE, st.data())
def test_no_prefix_of_an_object_gives_a_value(dumped: str, before: str, data: st.DataObject) -> None:
    kept = data.draw(st.integers(0, len(dumped) - 1))
    with pytest.raises(Unreadable) as caught:
        read_object(before + dumped[:kept])
    assert kept == 0 or caught.value.code == "truncated"


@given(DUMPED, DUMPED, st.data())
def test_a_cut_tail_is_a_conflict(whole: str, cut: str, data: st.DataObject) -> None:
    kept = data.draw(st.integers(1, len(cut) - 1))
    assert code_of(whole + cut[:kept]) == "conflict"


@given(st.one_of(TEXT, SCRAPS))
@example("{" * 20_000)
@example("[" * 20_000)
@example("[{" * 20_000)
@example('{"a":[' * 20_000)
@example("[" * 20_000 + "]" * 20_000)
@example("}" * 20_000)
@example("{1}" * 20_000)
def test_arbitrary_text_raises_nothing_but_unreadable(reply: str) -> None:
    for read in (read_object, lambda reply: read_scores(reply, ["S"]), lambda reply: read_scores(reply, ["S", "T"])):
        try:
            read(reply)
        except Unreadable as error:
            assert error.code in get_args(Code)
            assert error.message.splitlines() == [error.message]
            assert len(error.message) <= 200


@pytest.mark.parametrize(
    "unit",
    [
        *("{", "[", "[ ", "[{", "}", '"', "\\", '{"a":', "{}", '{"a":"\\', "{1}", "```", "<think>", '{"', "a ", "1"),
        *('{"a":1}', '{"a":"' + '\\"' * 50, "[" + " " * 50),
    ],
)
def test_reading_takes_linear_time(unit: str) -> None:
    def seconds(length: int) -> float:
        reply = unit * (length // len(unit))
        times = []
        for _ in range(2):
            start = time.thread_time()
            try:
                read_object(reply)
            except Unreadable as error:
                assert error.code
            times.append(time.thread_time() - start)
        return min(times)

    # Four times the text: four times the time if linear, sixteen times if quadratic. Below 5 ms is noise.
    assert seconds(120_000) < 9 * max(seconds(30_000), 0.005)


def test_megabytes_are_read() -> None:
    reply = json.dumps({"score": True, "reason": 'so "they" say \\ ' * 200_000})
    start = time.thread_time()
    assert read_object("x" * 3_000_000 + reply) == json.loads(reply)
    assert time.thread_time() - start < 10


# Reasons and messages


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("  it is\r\n\tthe same \x1b[31mfact\x00 ", "it is the same [31mfact"),
        (["a ", " b", 3, "c"], "a, b, c"),
        ("mid\u202edle \ud800 \ufeffend\u2028x", "middle \ufffd end x"),
        ("می‌خواهم", "می‌خواهم"),
        (None, ""),
        (7, ""),
        ({"text": "a"}, ""),
        ("x" * 2000, "x" * 2000),
        ("x" * 2001, "x" * 1999 + "…"),
    ],
)
def test_the_reason_is_one_clean_line(reason: object, text: str) -> None:
    assert reason_of({"score": True, "reason": reason}) == text


def test_an_object_without_a_reason_has_an_empty_one() -> None:
    assert reason_of({"score": True}) == ""


@pytest.mark.parametrize("code", get_args(Code))
def test_unreadable_survives_pickling(code: Code) -> None:
    error = Unreadable(code, "one\nline\x07")
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.code, copy.message, str(copy), copy.repairable) == (
        code,
        "one line",
        "one line",
        code not in ("conflict", "no_room"),
    )


@given(st.text(st.characters(exclude_categories=()), min_size=61, max_size=300))
def test_a_message_quotes_little_and_nothing_that_acts(text: str) -> None:
    shown = quoted(text)
    assert len(shown) <= 62
    assert set("<>`\n\r\x1b\u202e\u2028") & set(shown) == set()
    assert shown.count('"') == 2
    shown.encode("utf-8")


def test_a_message_names_the_place() -> None:
    with pytest.raises(Unreadable) as caught:
        read_object('{"score": tru, "reason": "a long reason that is not shown as a whole"}')
    assert caught.value.message == 'the JSON is not valid: Expecting value, at "tru, reason : a long reason"'
