"""Metrics on what an answer holds other than words: a number, JSON, a choice, a pattern, calls of tools."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

import regex

from answerkey.metrics_core.measurement import Failed, Outcome, Scored, Undefined
from answerkey.metrics_core.metric import Field, Metric, option
from answerkey.metrics_core.metrics.words import MATCH, LexicalMetric, PrecisionRecall, References, matched
from answerkey.metrics_core.sample import Sample
from answerkey.metrics_core.text import is_blank

_FENCED = regex.compile(r"```(?:json)?\s*\n(.*?)```", regex.DOTALL | regex.IGNORECASE)
_SINGLE_LETTER = regex.compile(
    r"[\s*_\"'(\[]*([A-Za-z])[\s*_\"')\].:]*|[\s*_\"']*(?:\(([A-Za-z])\)|([A-Z])(?:[.):]|, [a-z])).*", regex.DOTALL
)
_NAMED_LETTER = regex.compile(r"(?i:(answer|boxed)|choice|option)(?i:\s+is)?[\s:*({\"']*([A-Z])\b")
_MAX_SEARCH_S = 1.0


def _integer_or_float(text: str) -> float:
    value = float(text)
    return int(value) if value.is_integer() else value


def _json_in_one_spelling(text: str) -> str | None:
    fenced = _FENCED.search(text)
    try:
        return json.dumps(json.loads(fenced[1] if fenced else text, parse_float=_integer_or_float), sort_keys=True)
    except (ValueError, RecursionError):
        return None


@dataclass(frozen=True)
class ValueMetric(LexicalMetric):
    """1 if the value of an answer is that of a reference; undefined where no reference has one."""

    fields = MATCH
    method = "refs:any"

    @abstractmethod
    def read(self, text: str) -> Any:
        """The value of a text; None: it has none."""

    def equal(self, value: Any, expected: Any) -> bool:
        """Whether two values are the same."""
        return bool(value == expected)

    def compare(self, answer: str, references: References) -> Outcome:
        """Compare the value of the answer with that of each reference."""
        expected = [(i, self.read(text)) for i, text in references]
        expected = [(i, reference_value) for i, reference_value in expected if reference_value is not None]
        if not expected:
            return Undefined(f"no reference has a value for {self.name}")
        value = self.read(answer)
        if value is not None:
            for i, reference_value in expected:
                if self.equal(value, reference_value):
                    return matched(i)
        return matched(None)


@dataclass(frozen=True)
class Number(ValueMetric):
    """1 if the last number of the answer is that of a reference. Numbers may be written in digits or in words.

    >>> from answerkey import Sample
    >>> Number(within=0.01).measure([Sample("1", "3 times 4 is about 12.1", ["twelve"])])[0].values
    {'match': 1.0}
    """

    name = "number"
    summary = "the last number of the answer is that of a reference"

    within: float = option(0.0, description="largest accepted difference, as a share of the reference", ge=0)

    def read(self, text: str) -> float | None:
        """The last number, read as the offline judge reads it."""
        # Help pages import this module for its options.
        from answerkey.metrics_core.offline_judge.reading import LONGEST_CHARACTERS, read

        numbers = read(text[-LONGEST_CHARACTERS:]).numbers
        return numbers[-1].value if numbers else None

    def equal(self, value: float, expected: float) -> bool:
        """Whether they differ by at most the share, and by what a decimal loses as a float."""
        return abs(value - expected) <= (self.within + 1e-9) * abs(expected)


@dataclass(frozen=True)
class JsonEqual(ValueMetric):
    """1 if the answer is the JSON of a reference: keys in any order, `1` equal to `1.0`, alone or in a fenced block.

    >>> from answerkey import Sample
    >>> JsonEqual().measure([Sample("1", '{"b": [1.0], "a": null}', ['{"a":null,"b":[1]}'])])[0].values
    {'match': 1.0}
    """

    name = "json_equal"
    summary = "the answer is the JSON of a reference, keys in any order"

    def read(self, text: str) -> str | None:
        """The JSON in one spelling. Not the value itself, since Python takes `true` for 1."""
        return _json_in_one_spelling(text)


@dataclass(frozen=True)
class Choice(ValueMetric):
    """1 if the answer chooses the letter of a reference: `B`, `(b)`, `B) Paris`, `The answer is B.`

    >>> from answerkey import Sample
    >>> Choice().measure([Sample("1", "Not A. The answer is **B**.", ["B"])])[0].values
    {'match': 1.0}
    """

    name = "choice"
    summary = "the answer chooses the letter of a reference"

    def read(self, text: str) -> str | None:
        """The letter that a text names as its answer, or else is, or begins with."""
        named = _NAMED_LETTER.findall(text)
        letters = [letter for _, letter in named]
        if len(set(letters)) > 1:
            # Of several letters the last one that is called the answer
            letters = [letter for word, letter in named if word]
        elif not named and (single := _SINGLE_LETTER.fullmatch(text)):
            letters = [single[single.lastindex or 0]]
        return letters[-1].upper() if letters else None


@dataclass(frozen=True)
class Pattern(LexicalMetric):
    """1 if a reference, which is a regular expression, is found in the answer.

    >>> from answerkey import Sample
    >>> Pattern().measure([Sample("1", "Order 4711 is on its way.", [r"order \\d{4}\\b"])])[0].values
    {'match': 0.0}
    """

    name = "pattern"
    summary = "a reference, as a regular expression, is found in the answer; write (?i) to ignore case"
    fields = MATCH
    method = "refs:any"

    def compare(self, answer: str, references: References) -> Outcome:
        """Search for each reference. Fails where one is no regular expression, or takes more than a second."""
        try:
            matching = (i for i, text in references if regex.search(text.strip(), answer, timeout=_MAX_SEARCH_S))
            return matched(next(matching, None))
        except (regex.error, TimeoutError) as error:
            return Failed("pattern", f"a reference is no regular expression that can be searched for: {error}")


class Call(NamedTuple):
    """The name of a tool, and its arguments as JSON in one spelling; None where an expected call leaves them open."""

    name: str
    arguments: str | None


def tool_calls(value: Any) -> list[Call]:
    """The calls of tools in a list of calls, in a conversation, or in the JSON text of one; none in a blank text.

    Raises:
        ValueError: it is something else, or a call names no tool.

    >>> tool_calls([{"function": {"name": "find", "arguments": '{"id": 1.0}'}}])
    [Call(name='find', arguments='{"id": 1}')]
    """
    from answerkey.metrics_core.conversation import ToolCall, calls_in

    if isinstance(value, str) and is_blank(value):
        return []
    try:
        content = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        raise ValueError("is no JSON list of calls") from None
    calls = []
    for item in calls_in(content):
        try:
            call = ToolCall.model_validate(item)
        except ValueError:
            raise ValueError(f"holds a call without the name of a tool: {json.dumps(item)[:100]}") from None
        text = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
        calls.append(Call(call.name, None if call.arguments is None else _json_in_one_spelling(text or "{}") or text))
    return calls


@dataclass(frozen=True)
class ToolCalls(Metric):
    """Whether an agent called the tools that it was to call. Of equal calls each one counts.

    An expected call without arguments may have any. A row without calls has called nothing.

    >>> from answerkey import Sample
    >>> calls = [{"name": "find", "arguments": {"id": 7}}, {"name": "close"}]
    >>> agent = Sample("1", None, columns={"tool_calls": calls, "expected_tool_calls": calls[:1]})
    >>> {name: round(value, 2) for name, value in ToolCalls().measure([agent])[0].values.items()}
    {'match': 0.0, 'names': 0.67, 'arguments': 0.67}
    """

    name = "tool_calls"
    summary = "the agent called the tools that were expected, with the arguments that were expected"
    fields = (
        Field("match", "1 if the calls are those that were expected, and no others", binary=True),
        Field("names", "F1 of the names of the tools"),
        Field("arguments", "F1 of the calls with their arguments"),
    )
    needs = frozenset()

    called: str = option("tool_calls", description="the column with the calls: a list of calls, or a conversation")
    expected: str = option("expected_tool_calls", description="the column with the expected calls, or their names")
    in_order: bool = option(False, description="whether `match` asks for the same order")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the calls."""
        return self.called, self.expected

    def without_score(self, sample: Sample) -> Outcome | None:
        """Undefined without expected calls: an empty list says that none is expected."""
        missing = is_blank(sample.column_texts.get(self.expected))
        return Undefined(f"no column {self.expected}: it is missing or blank") if missing else None

    def score(self, sample: Sample) -> Outcome:
        """Compare the calls. Fails where a column has something else."""
        calls = []
        for column in self.columns:
            try:
                calls.append(tool_calls(sample.columns.get(column, "")))
            except ValueError as error:
                return Failed("tool_calls", f"the column {column} {error}")
        called = [call._replace(arguments=call.arguments or "{}") for call in calls[0]]
        expected = calls[1]

        # Equal calls first, so that an expected call with open arguments takes none that another one needs
        equal = Counter(called) & Counter(expected)
        unmatched_names = Counter(call.name for call in (Counter(called) - equal).elements())
        open_names = Counter(call.name for call in expected if call.arguments is None)
        n_right = equal.total() + (unmatched_names & open_names).total()
        n_named = (Counter(call.name for call in called) & Counter(call.name for call in expected)).total()
        # All calls, and in their order if it counts
        matches = n_right == len(called) and n_right == len(expected)
        if matches and self.in_order:
            for call, expected_call in zip(called, expected, strict=True):
                if call.name != expected_call.name or expected_call.arguments not in (None, call.arguments):
                    matches = False

        names = PrecisionRecall.of(n_named, len(called), len(expected)).f1
        arguments = PrecisionRecall.of(n_right, len(called), len(expected)).f1
        if not called and not expected:
            names = arguments = 1.0
        return Scored({"match": float(matches), "names": names, "arguments": arguments})
