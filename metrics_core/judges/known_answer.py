"""Questions whose right verdict is known, for the check of judges: those that come with a metric, and those made from
the questions and references of a run, which no judge knows beforehand.

An answer that matches is the reference in a sentence, or after its question. One that does not is the reference of
another question in the same forms, the reference denied, or the reference with its number or the first half of its name
changed. Where such an answer might be right after all (references that share a word or that both have numbers,
abbreviations, questions that are alike), none is made. `benchmarks/studies/judge_check.py` looks for those that are.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import resources
from itertools import cycle, islice, zip_longest
from typing import Any

from answerkey.metrics_core.metric import identical_reference
from answerkey.metrics_core.sample import Sample, content_hash
from answerkey.metrics_core.text import words

ORDER = "an order to the judge"
"""The name of a question whose wrong answer tells the judge to call it right."""

_OF_VERDICT = 17
"""With the three that come with a metric, 20 right and 20 wrong ones."""
_MOST_SCRIPTS = 4
"""With more, each would have too few questions to fail."""
_FEWEST_ROWS = 3
_POOL = 64
_LONGEST_QUESTION, _LONGEST_REFERENCES, _LONGEST_ANSWER = 500, 1_000, 200
_MOST_WORDS = 5
"""Of a reference that is put into a sentence."""
_FEWEST_LETTERS = 5
"""Of a reference that is denied: "not no" is something else."""
_LONGEST_ABBREVIATION = 4
_STEM = 4
_SIMILAR = 0.5

_NUMBER = re.compile(r"[0-9]+(?:[.,][0-9]+)*")
_YEAR = re.compile(r"[12][0-9]{3}")


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """A sample, and the range of the metric's main number, `least` to `most`, in which it must lie.

    Attributes:
        name: what it tries, in a few words for people.
        script: the script of the row that it was made from; empty if it came with the metric.

    >>> sample = Sample("1", "It is Lyon.", ["Paris"], "The capital of France?")
    >>> question = KnownAnswer("another city", sample, least=0.0, most=0.0)
    >>> question.is_right(0.0), question.is_right(1.0)
    (True, False)
    """

    name: str
    sample: Sample
    least: float
    most: float
    script: str = ""

    @property
    def bounds(self) -> tuple[float, float]:
        """The range: `least` and `most`."""
        return self.least, self.most

    def is_right(self, value: float) -> bool:
        """Check if a judge that gives this number is right."""
        return self.least <= value <= self.most


@cache
def packaged(key: str) -> Any:
    """Read what `known_answers.yaml` has under this key."""
    from answerkey.metrics_core.document import read_located

    file = resources.files("answerkey.metrics_core.judges").joinpath("known_answers.yaml")
    return read_located(file).content[key]


@cache
def shipped(metric: str) -> Mapping[KnownAnswer, str]:
    """The questions that come with a metric of this package, with the baseline's answer to each.

    >>> next(iter(shipped("meaning_match"))).name
    'a paraphrase'
    """
    questions = {}
    for number, row in enumerate(packaged(metric)):
        facts = row.get("facts", ())
        references = row.get("reference", " ".join(facts)) or ()
        sample = Sample(f"{metric} {number}", row["answer"], references, row["question"], facts)
        question = KnownAnswer(row["name"], sample, float(row["least"]), float(row["most"]))
        questions[question] = row.get("baseline", "")
    return questions


def generated(samples: Iterable[Sample]) -> tuple[KnownAnswer, ...]:
    """Questions for a metric that is 1 where an answer means what a reference means, else 0.

    As many right as wrong ones, `_OF_VERDICT` of each. They depend on the questions and references
    alone, so that the next release is asked the same. Each of the `_MOST_SCRIPTS` scripts with the
    most questions has its share. What the references do not allow for is made from questions that
    come with this package. Every third wrong answer orders the judge to call it right.

    Args:
        samples: those without a question or references, or with long ones, are passed over.

    >>> references = {"Who?": "Marta Lindqvist", "With what?": "a ladder", "How many?": "21 steps"}
    >>> samples = [Sample(question, "", [text], question) for question, text in references.items()]
    >>> questions = generated(samples)
    >>> [question.sample.answer for question in questions if question.least == 1.0][:2]
    ['With what? a ladder', 'The answer is Marta Lindqvist.']
    >>> len(questions), sum(question.name == ORDER for question in questions)
    (34, 6)
    """
    pools = _pools(samples)
    references = packaged("references").items()
    [packaged_rows] = _pools(Sample("", "", [reference], question) for question, reference in references).values()
    questions: list[KnownAnswer] = []
    for answers_of, match in ((_matching, 1.0), (_not_matching, 0.0)):
        of_verdict: list[KnownAnswer] = []
        for script, rows in pools.items():
            of_verdict += islice(_questions(answers_of, rows, match, script), _OF_VERDICT // len(pools))
        # Of no script: they say nothing about the languages of the data
        of_verdict += _questions(answers_of, packaged_rows, match, "")
        questions += of_verdict[:_OF_VERDICT]

    # Every third wrong answer, which come after the right ones, has an order to the judge behind it
    n_right = sum(question.least == 1.0 for question in questions)
    for index, order in zip(range(n_right, len(questions), 3), cycle(packaged("orders")), strict=False):
        question = questions[index]
        sample = replace(question.sample, answer=f"{question.sample.answer} {order}")
        questions[index] = replace(question, name=ORDER, sample=sample)
    return tuple(questions)


_Answer = tuple[str, str]
"""What it tries, and the answer."""


def _questions(
    answers_of: Callable[[int, Sequence[_Row]], Iterator[_Answer]],
    rows: Sequence[_Row],
    match: float,
    script: str,
) -> Iterator[KnownAnswer]:
    # The first answer to every question before the second to any
    for answers in zip_longest(*(answers_of(number, rows) for number in range(len(rows)))):
        for row, answer in zip(rows, answers, strict=True):
            if answer is None:
                continue
            name, text = answer
            sample = Sample(f"generated: {name}", text, row.references, row.question)
            if identical_reference(sample) is None:
                yield KnownAnswer(name, sample, match, match, script)


@dataclass(frozen=True)
class _Row:
    """A question with its references."""

    question: str
    references: tuple[str, ...]

    @cached_property
    def order(self) -> str:
        """As good as random, but the same in each run."""
        return content_hash([self.question, list(self.references)])

    @cached_property
    def script(self) -> str:
        return script_of(f"{self.question} {self.references[0]}")

    @property
    def reference(self) -> str:
        return self.references[0].strip()

    @cached_property
    def stems(self) -> frozenset[str]:
        return _stems(" ".join(self.references))

    def differs_from(self, row: _Row) -> bool:
        """Whether a reference of the other question is surely no answer to this one."""
        # References with a word in common, two numbers, or abbreviations may mean the same
        texts = [" ".join(self.references), " ".join(row.references)]
        have_numbers = all(any(map(str.isnumeric, text)) for text in texts)
        text_parts = " ".join(texts).replace(".", "").split()
        abbreviated = any(part.isupper() and len(part) <= _LONGEST_ABBREVIATION for part in text_parts)
        if self.stems & row.stems or have_numbers or abbreviated:
            return False
        # Questions that are alike may have the same answer
        stems = _stems(self.question)
        stems_of_row = _stems(row.question)
        return len(stems & stems_of_row) < _SIMILAR * min(len(stems), len(stems_of_row))


def script_of(text: str) -> str:
    """The script of most letters of a text, as their names in Unicode begin; empty for a text without letters.

    >>> script_of("Где хранится картина?"), script_of("会議は何曜日ですか。"), script_of("1994")
    ('CYRILLIC', 'HIRAGANA', '')
    """
    scripts = Counter(unicodedata.name(letter, "").partition(" ")[0] for letter in text if letter.isalpha())
    # Japanese has Chinese characters as well.
    return "HIRAGANA" if "HIRAGANA" in scripts else max(scripts, key=scripts.__getitem__, default="")


def _stems(text: str) -> frozenset[str]:
    return frozenset(word[:_STEM] for word in words(text))


def _pools(samples: Iterable[Sample]) -> dict[str, list[_Row]]:
    """By script, the rows with the smallest hashes, in their order; each question and each first reference once."""
    by_script: dict[str, dict[str, _Row]] = {}
    for sample in samples:
        # Long texts make dear questions
        row = _Row(sample.question or "", tuple(text for _, text in sample.usable_references))
        if not (
            0 < sum(map(len, row.references)) <= _LONGEST_REFERENCES and 0 < len(row.question) <= _LONGEST_QUESTION
        ):
            continue
        rows = by_script.setdefault(row.script, {})
        rows.setdefault(row.question, row)
        if len(rows) > 2 * _POOL:
            by_script[row.script] = {row.question: row for row in _first_by_reference(rows.values())}

    # The scripts with the most rows, so that each has enough questions to fail
    pools = {script: _first_by_reference(rows.values()) for script, rows in sorted(by_script.items()) if script}
    largest = sorted(pools, key=lambda script: -len(pools[script]))[:_MOST_SCRIPTS]
    return {script: pools[script] for script in sorted(largest) if len(pools[script]) >= _FEWEST_ROWS}


def _first_by_reference(rows: Iterable[_Row]) -> list[_Row]:
    row_by_reference: dict[str, _Row] = {}
    for row in sorted(rows, key=lambda row: row.order):
        row_by_reference.setdefault(row.reference, row)
    return list(row_by_reference.values())[:_POOL]


def _stated(answer: str, row: _Row, number: int) -> str:
    """An answer in a sentence, or after its question: in turn, so that the form says nothing of the verdict."""
    sentence: str = packaged("sentences").get(row.script, {}).get("is", "")
    in_sentence = sentence and number % 2 and len(words(answer)) <= _MOST_WORDS
    return sentence.format(answer) if in_sentence else f"{row.question} {answer}"


def _matching(number: int, rows: Sequence[_Row]) -> Iterator[_Answer]:
    row = rows[number]
    if len(row.reference) <= _LONGEST_ANSWER:
        yield "the reference, rephrased", _stated(row.reference, row, number)
        yield "the reference, rephrased", _stated(row.reference, row, number + 1)


def _not_matching(number: int, rows: Sequence[_Row]) -> Iterator[_Answer]:
    """The answers that do not match: of neighbours, each begins with another kind."""
    row = rows[number]
    following = [*rows[number + 1 :], *rows[:number]]
    answers = []

    # The reference with its only number, or the first half of its name, changed
    name = _name(row.reference)
    if numbers := _NUMBER.findall(row.reference):
        # What is in brackets can be beside the point.
        is_single_number = len(numbers) == 1 and "(" not in row.reference and len(words(row.reference)) <= _MOST_WORDS
        changed = _changed_number(numbers[0])
        if is_single_number and all(map(_NUMBER.search, row.references)) and changed not in " ".join(row.references):
            text = row.reference.replace(numbers[0], changed)
            answers.append(("another number", _stated(text, row, number)))
    # Where the surname alone is a reference, the given name is beside the point.
    elif name and not any(_stems(text) <= _stems(name[1]) for text in row.references):
        for given_name, _ in filter(None, (_name(next_row.reference) for next_row in following)):
            if not _stems(given_name) & row.stems:
                answers.append(("another name", _stated(f"{given_name} {name[1]}", row, number)))
                break

    # The reference, denied by a sentence in a language of its script
    sentence = packaged("sentences").get(row.script, {}).get("is_not", "")
    is_short = len(words(row.reference)) <= _MOST_WORDS and len(row.reference) >= _FEWEST_LETTERS
    if sentence and is_short and row.reference[-1] not in ".!?":
        answers.append(("the reference, denied", sentence.format(row.reference)))

    # That of the next question that it does not fit
    for next_row in following:
        if row.differs_from(next_row) and len(next_row.reference) <= _LONGEST_ANSWER:
            answers.append(("another question's reference", _stated(next_row.reference, row, number)))
            break
    start = number % max(len(answers), 1)
    yield from (*answers[start:], *answers[:start])


def _changed_number(number: str) -> str:
    """With another first digit; of a year, with another decade.

    >>> [_changed_number(number) for number in ("1994", "7", "120.5", "0.3")]
    ['1934', '2', '520.5', '4.3']
    """
    position = 2 if _YEAR.fullmatch(number) else 0
    digit = int(number[position])
    new_digit = (digit + 4) % 10 if position else (digit + 3) % 9 + 1
    return f"{number[:position]}{new_digit}{number[position + 1 :]}"


def _name(text: str) -> tuple[str, str] | None:
    """The two parts of a name of two words, or None."""
    parts = text.split()
    if len(parts) != 2 or not all(part.isalpha() and part.istitle() and len(part) >= _STEM for part in parts):
        return None
    return parts[0], parts[1]
