"""Metrics on what an answer holds other than words: a number, JSON, a choice, a pattern."""

from __future__ import annotations

import json
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import regex

from answerkey.metrics_core.measurement import Failed, Outcome, Undefined
from answerkey.metrics_core.metric import option
from answerkey.metrics_core.metrics.words import MATCH, LexicalMetric, References, matched

_FENCED = regex.compile(r"```(?:json)?\s*\n(.*?)```", regex.DOTALL | regex.IGNORECASE)
_ALONE = regex.compile(
    r"[\s*_\"'(\[]*([A-Za-z])[\s*_\"')\].:]*|[\s*_\"']*(?:\(([A-Za-z])\)|([A-Z])(?:[.):]|, [a-z])).*", regex.DOTALL
)
_NAMED = regex.compile(r"(?i:(answer|boxed)|choice|option)(?i:\s+is)?[\s:*({\"']*([A-Z])\b")
_LONGEST_SEARCH_S = 1.0


def _integer_or_float(text: str) -> float:
    value = float(text)
    return int(value) if value.is_integer() else value


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
        expected = [(i, value) for i, text in references if (value := self.read(text)) is not None]
        if not expected:
            return Undefined(f"no reference has a value for {self.name}")
        value = self.read(answer)
        same = (i for i, reference in expected if value is not None and self.equal(value, reference))
        return matched(next(same, None))


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
        fenced = _FENCED.search(text)
        try:
            return json.dumps(json.loads(fenced[1] if fenced else text, parse_float=_integer_or_float), sort_keys=True)
        except (ValueError, RecursionError):
            return None


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
        named = _NAMED.findall(text)
        if len({letter for _, letter in named}) > 1:
            named = [(word, letter) for word, letter in named if word][-1:]
        elif not named and (alone := _ALONE.fullmatch(text)):
            named = [("", alone[alone.lastindex or 0])]
        return named[-1][1].upper() if named else None


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
            matching = (i for i, text in references if regex.search(text.strip(), answer, timeout=_LONGEST_SEARCH_S))
            return matched(next(matching, None))
        except (regex.error, TimeoutError) as error:
            return Failed("pattern", f"a reference is no regular expression that can be searched for: {error}")
