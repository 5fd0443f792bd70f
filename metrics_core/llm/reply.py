"""Read the reply of a model: tolerant of text around the JSON object, strict about there being exactly one.

A model wraps its JSON in prose, repeats it, or stops in the middle; a text that it was given may have talked it into
writing a second object. Whatever cannot be read as one object that means one thing is `Unreadable` with a reason,
never a guess. All functions take time linear in the length of the reply.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal

from answerkey.metrics_core.llm.untrusted import LONGEST_QUOTE, cut, one_line, quoted

LONGEST_REASON = 2_000
DEEPEST = 64
"""Brackets within brackets: far more than a reply needs, far less than Python's own limit."""

# A citation such as [1] opens nothing, so at the top level a bracket counts only right before an object.
_TOP = re.compile(r"[{}]|\[(?=\s*+\{)")
_STRING = r'"(?:[^"\\]++|\\.?)*+"?'
_COMMENT = r"//[^\n]*+|\#[^\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/)?"
_TOKEN = re.compile(rf"[{{}}\[\]]|{_STRING}|{_COMMENT}", re.DOTALL)
"""A bracket, a string, which may lack its end, or a comment."""
_CLOSER = {"{": "}", "[": "]"}
_FENCE_LANGUAGE = re.compile(r"\A\w*\s")

# JSON as people write it. Nothing here can be read in two ways.
_NO_JSON = re.compile(rf"({_STRING})|(?:{_COMMENT}|[^\S \t\n\r])++|\b(?:True|False|None)\b", re.DOTALL)
_LAST_COMMA = re.compile(rf"({_STRING})|,(?=\s*+[}}\]])", re.DOTALL)
_CONSTANTS = {"True": "true", "False": "false", "None": "null"}

# Backslashes that were not doubled, as in LaTeX, regular expressions and paths. No reply has form feeds or backspaces,
# nor tabs and carriage returns before the letters of a command. Line breaks may stand before any letter, so for these
# the commands of LaTeX are named.
_LATEX_AFTER_N = (
    "abla|atural|e|earrow|eg|eq|eqq|ewline|exists|geq|i|leftarrow|leq|mid|olimits|onumber|ot|otin|parallel|rightarrow"
    "|sim|subseteq|u|warrow"
)
_BACKSLASH = re.compile(
    r"\\(?:(?P<escape>[\\\"/]|u[0-9A-Fa-f]{4}|t(?![a-z])|r(?![A-Za-z])"
    rf"|n(?!(?:{_LATEX_AFTER_N})(?![A-Za-z])))|(?P<quote>'))?"
)

_TAG = r"(?:\w+:)?(?:think(?:ing)?|thoughts?|thought_process|reasoning|reflection|analysis|scratchpad|cot)"
_THOUGHTS: tuple[tuple[str, str], ...] = (
    (rf"<({_TAG})(?:\s[^<>]*)?>", r"</{}\s*>"),
    (r"\[(think(?:ing)?|thoughts?|reasoning)\]", r"\[/{}\]"),
    (r"◁(think(?:ing)?)▷", "◁/{}▷"),
    (r"<\|(?:begin_of_|start_)?(think(?:ing)?|thought)\|>", r"<\|(?:end_of_|end_|/){}\|>"),
    (
        r"(?:<\|start\|>assistant)?<\|channel\|>analysis<\|message\|>",
        r"<\|channel\|>final[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>",
    ),
    (r"<\|channel>thought", r"<channel\|>"),
    (r"<unused94>", "<unused95>"),
)
"""How models mark the begin and the end of their thoughts; {} in the end is the name in the begin."""
_BEGINS = [re.compile(begin, re.IGNORECASE) for begin, _ in _THOUGHTS]
_ANY_BEGIN = re.compile("|".join(begin for begin, _ in _THOUGHTS), re.IGNORECASE)
_ANY_END = re.compile("|".join([*(end.replace("{}", _TAG) for _, end in _THOUGHTS), "assistantfinal"]), re.IGNORECASE)
_MARK_SHOWN = re.compile(
    r"(?:\\u[0-9a-f]{4}|[^\w\s.,;:!?'\"()*-])[\s/|]*+[\w:]{0,12}?"
    r"(?:think|thought|reasoning|reflection|analysis|scratchpad|cot\b|channel|unused9)|assistantfinal",
    re.IGNORECASE,
)
"""A mark of thoughts as a text may write it in the fields of a request, where angle brackets are escaped."""

_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_WORDS = dict.fromkeys(("true", "yes", "on", "t", "y", "pass", "passed"), 1.0) | dict.fromkeys(
    ("false", "no", "off", "f", "n", "fail", "failed"), 0.0
)

# fmt: off
Code = Literal[
    "no_answer", "not_json", "not_object", "no_score_fields", "conflict", "truncated", "unreadable", "null",
    "inconsistent", "ids", "no_room", "only_thoughts", "tool_call",
]
# fmt: on
"""What is wrong with a reply. `inconsistent` and `ids` are for what a caller checks, `no_room` for a plain
answer that was cut off before it began, `only_thoughts` and `tool_call` for what is no answer at all."""


class Unreadable(Exception):
    """A reply that cannot be used. `str` of it is the message.

    The message is one line for people and for the call that asks again: it says what was wrong and
    shows at most a short quotation of the reply (see `untrusted.quoted`).

    >>> Unreadable("conflict", "two values").repairable
    False
    """

    def __init__(self, code: Code, message: str) -> None:
        self.code = code
        self.message = one_line(message)
        super().__init__(code, self.message)

    def __str__(self) -> str:
        return self.message

    @property
    def repairable(self) -> bool:
        """Whether asking once more may help. Not after a conflict: the model was of two minds, or was talked into one.
        Nor if more room would make it another request.
        """
        return self.code not in ("conflict", "no_room")


def read_object(reply: str | None) -> dict[str, Any]:
    """The one JSON object in a reply, whatever prose or fence stands around it.

    An object that comes several times counts once; the order of keys does not matter, 1 equals 1.0, and true
    does not equal 1. Keys are in lower case. Thoughts at the start, between marks of any of `_THOUGHTS`, are skipped;
    so are comments, and a comma after the last item.

    Raises:
        Unreadable: "no_answer", "not_json", "not_object"; "truncated" for an object without an end;
            "unreadable" for nesting over `DEEPEST` and numbers that no float holds; "conflict" for different
            objects, for one key with different values, and for a broken object after a whole one.

    >>> read_object('Here it is: {"score": 1, "reason": "the same"}. I hope that helps.')
    {'score': 1, 'reason': 'the same'}
    >>> read_object('{"score": 1} or rather {"score": 0}')
    Traceback (most recent call last):
    answerkey.metrics_core.llm.reply.Unreadable: the reply holds several JSON objects that differ
    """
    text = _without_thoughts(reply or "")
    _refuse_other_json(text)
    reply_object: dict[str, Any] | None = None
    fault: Unreadable | None = None
    position = 0
    while opener := _TOP.search(text, position):
        # Where the next object ends; a fault in it counts once all of the reply has been read
        if opener[0] == "}":
            fault = fault or Unreadable("not_json", "the reply closes a brace that it did not open")
            position = opener.end()
            continue
        try:
            position = _end(text, opener.start())
        except Unreadable:
            if reply_object is None:
                raise
            raise Unreadable("conflict", "the reply holds a whole JSON object and then a broken one") from None
        try:
            # Without what JSON does not have: comments, Python's constants, a comma after the last item
            plain = _NO_JSON.sub(
                lambda match: match[1] or _CONSTANTS.get(match[0], " "), text[opener.start() : position]
            )
            value = load(_LAST_COMMA.sub(r"\1", plain))
            if not isinstance(value, dict):
                raise Unreadable("not_object", "the reply is a list, and one JSON object was asked for")
        except Unreadable as problem:
            if not problem.repairable:
                raise
            fault = fault or problem
            continue
        if reply_object is not None and not same(reply_object, value):
            raise Unreadable("conflict", "the reply holds several JSON objects that differ")
        reply_object = value
    if fault is not None:
        raise fault
    if reply_object is None:
        raise Unreadable("not_json", f"the reply holds no JSON object: {quoted(text)}")
    return reply_object


def read_score(reply_object: Mapping[str, Any], name: str) -> tuple[float, str]:
    """The score of an object `{"<name>": {"score": ..., "reason": ...}}`, and its reason.

    The name matches in any case. `score` at the top level is it too, and so is a single score under another name.

    Raises:
        Unreadable: as `number_of`; "no_score_fields" for none; "conflict" for two values.

    >>> read_score({"fluency": {"score": "yes", "reason": "reads well"}}, "Fluency")
    (1.0, 'reads well')
    """
    scored = {}
    for key, value in {**reply_object, "": reply_object}.items():
        if isinstance(value, dict) and "score" in value:
            scored[key] = value
    claims = [value for key, value in scored.items() if key.casefold() in (name.casefold(), "")]
    if not claims and len(scored) == 1:
        claims = list(scored.values())
    if not claims:
        fields = quoted(", ".join(list(reply_object)[:10]))
        raise Unreadable("no_score_fields", f"the reply has not the score asked for; its fields are {fields}")
    if any(not same(claim["score"], claims[0]["score"]) for claim in claims):
        raise Unreadable("conflict", f"the reply gives the score {quoted(name)} two values")
    return number_of(claims[0]["score"]), reason_of(claims[0])


def number_of(value: Any) -> float:
    """A score as a finite number: a number, a boolean, or a text that spells one (1.5, -2e3, true, No, PASS).

    Raises:
        Unreadable: "null" for `None`; "unreadable" for everything else.

    >>> number_of("PASS"), number_of("-2e3"), number_of(False)
    (1.0, -2000.0, 0.0)
    """
    if value is None:
        raise Unreadable("null", "the score must be true or false")
    number = math.nan
    word = value.strip().lower() if isinstance(value, str) else ""
    if word in _WORDS:
        number = _WORDS[word]
    elif isinstance(value, bool | int | float) or _DECIMAL.fullmatch(word):
        with suppress(OverflowError):
            number = float(value)
    if not math.isfinite(number):
        raise Unreadable("unreadable", f"the value {quoted(value)} is neither a number nor true or false")
    return number


def reason_of(reply_object: Mapping[str, Any]) -> str:
    """The `reason` of an object: a text, or a list of texts joined with ", ". Empty where there is neither.

    It is one line of at most 2,000 characters, without control characters, lone surrogates and such.

    >>> reason_of({"reason": ["too", "late"]})
    'too, late'
    """
    reason = reply_object.get("reason")
    if isinstance(reason, list):
        reason = ", ".join(part.strip() for part in reason if isinstance(part, str))
    return cut(one_line(reason), LONGEST_REASON) if isinstance(reason, str) else ""


def load(text: str) -> Any:
    r"""The value of a JSON text. Line breaks within strings are allowed: models write them.

    So are backslashes that were not doubled, as in LaTeX: they keep their letters. Keys are in lower case.

    Raises:
        Unreadable: "not_json", also for NaN and Infinity; "unreadable" for a number that no float holds and for
            nesting that Python cannot follow; "conflict" for one key with different values.

    >>> print(load(r'{"Fact": "The angle is \theta"}')["fact"])
    The angle is \theta
    >>> load('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    answerkey.metrics_core.llm.reply.Unreadable: the reply gives the key "a" two values
    """
    try:
        return _DECODER.decode(_BACKSLASH.sub(_doubled, text) if "\\" in text else text)
    except json.JSONDecodeError as error:
        excerpt = quoted(text[error.pos : error.pos + LONGEST_QUOTE // 2])
        raise Unreadable("not_json", f"the JSON is not valid: {error.msg}, at {excerpt}") from None
    except RecursionError:
        raise Unreadable("unreadable", "the JSON is nested too deeply") from None


def same(left: Any, right: Any) -> bool:
    """Whether two JSON values mean the same.

    >>> same({"a": 1}, {"a": 1.0}), same(1, True)
    (True, False)
    """
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def _doubled(backslash: re.Match[str]) -> str:
    if backslash["escape"] is not None:
        return backslash[0]
    return "'" if backslash["quote"] else r"\\"


def _number(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise Unreadable("unreadable", f"the number {quoted(digits)} is too large")
    return int(digits) if digits.removeprefix("-").isdecimal() else number


def _no_constant(name: str) -> float:
    raise Unreadable("not_json", f"{name} is not JSON")


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in pairs:
        key = name.strip().lower()
        if key in result and not same(result[key], value):
            raise Unreadable("conflict", f"the reply gives the key {quoted(key)} two values")
        result.setdefault(key, value)
    return result


_DECODER = json.JSONDecoder(
    strict=False,
    object_pairs_hook=_unambiguous,
    parse_int=_number,
    parse_float=_number,
    parse_constant=_no_constant,
)


def without_thoughts(reply: str, shown: str) -> str:
    """What follows the thoughts in a reply, wherever they begin, and also where only their end is marked.

    Where the model was shown a text with such a mark, the reply is left as it is, so that no text can hide what the
    model said by having it repeated.

    Args:
        shown: the text that the model was shown.

    >>> without_thoughts('It says {"a": 1}, so no.</think>{"a": 2}', shown="It is Paris.")
    '{"a": 2}'
    >>> without_thoughts('{"a": 2} for </think>{"a": 1}', shown='"answer": "\\\\u003c/think\\\\u003e{1}"')
    '{"a": 2} for </think>{"a": 1}'
    """
    if _MARK_SHOWN.search(shown):
        return reply
    begin = _ANY_BEGIN.search(reply)
    if begin is None:
        # Some templates begin the thoughts themselves, so that the reply has their end alone
        ends = list(_ANY_END.finditer(reply))
        return reply[ends[0].end() :] if len(ends) == 1 else reply
    # An object before the thoughts would be a second one
    return reply if "{" in reply[: begin.start()] else reply[begin.start() :]


def _without_thoughts(reply: str) -> str:
    """What follows the thoughts with which a reply begins, of which there may be several blocks."""
    text = reply.strip()
    number = 0
    while number < len(_THOUGHTS):
        begin = _BEGINS[number].match(text)
        _, end_pattern = _THOUGHTS[number]
        number += 1
        if begin is not None:
            name = re.escape(begin[1]) if begin.groups() else ""
            end = re.compile(end_pattern.replace("{}", name), re.IGNORECASE).search(text, begin.end())
            if end is None:
                raise Unreadable("only_thoughts", "the reply ends within the thoughts, before any answer")
            text = text[end.end() :].strip()
            number = 0
    if not text:
        raise Unreadable("no_answer", "the reply is empty")
    return text


def _refuse_other_json(text: str) -> None:
    """Refuse a reply, or a single fence in it, that is JSON and no object: objects within it are not the answer."""
    pieces = text.split("```", 3)
    fence = [_FENCE_LANGUAGE.sub("", pieces[1], count=1)] if len(pieces) == 3 else []
    for candidate in (text, *fence):
        if candidate.lstrip().startswith("{"):
            continue
        try:
            load(candidate)
        except Unreadable:
            continue
        raise Unreadable("not_object", f"the reply is JSON but not an object: {quoted(candidate)}")


def _end(text: str, start: int) -> int:
    """Where the bracket that opens at `start` is closed."""
    closers: list[str] = []
    for mark in _TOKEN.finditer(text, start):
        if mark[0] in _CLOSER:
            closers.append(_CLOSER[mark[0]])
            if len(closers) > DEEPEST:
                raise Unreadable("unreadable", f"the JSON is nested deeper than {DEEPEST} levels")
        elif mark[0] in _CLOSER.values():
            if mark[0] != closers.pop():
                raise Unreadable("not_json", "the brackets of the JSON do not match")
            if not closers:
                return mark.end()
    raise Unreadable("truncated", "the JSON object is cut off before its end")
