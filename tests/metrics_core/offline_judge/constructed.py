"""Pairs of an answer and a reference whose verdict is known, because rules made the answer from the right one.

The facts are our own: `data/judge_facts.csv` in English, German, Russian and Spanish, and the questions of the help
desk among the examples. Run it to read the pairs of a kind:

    python -m tests.metrics_core.offline_judge.constructed "digit added" de
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from answerkey.metrics_core.offline_judge.matcher import Pair, match

TESTS = Path(__file__).resolve().parents[1]
FACTS = TESTS / "data/judge_facts.csv"
HELP_DESK = TESTS.parents[1] / "examples/helpdesk/questions.jsonl"

LEAD_INS = {
    "en": ("It is {}.", "The answer is {}."),
    "de": ("Es ist {}.", "Die Antwort ist {}."),
    "ru": ("Это {}.", "Ответ: {}."),
    "es": ("Es {}.", "La respuesta es {}."),
}
DENIALS = {
    "en": ("It is not {}.", "No, definitely not {}."),
    "de": ("Es ist nicht {}.", "Nein, auf keinen Fall {}."),
    "ru": ("Это не {}.", "Нет, точно не {}."),
    "es": ("No es {}.", "No, nunca fue {}."),
}
GENERAL = {
    "en": "Tell me about the place.",
    "de": "Erzähl mir etwas über den Ort.",
    "ru": "Расскажи мне об этом месте.",
    "es": "Cuéntame algo sobre el lugar.",
}
WITHOUT_QUESTION = ("question left out", "general question")


@dataclass(frozen=True)
class Constructed:
    """A pair with the kind and language it counts for, and whether it is for the report (else for tuning)."""

    kind: str
    lang: str
    reported: bool
    is_right: bool
    pair: Pair


@dataclass(frozen=True)
class Fact:
    """A row of the table: `right` fills `sentence` and `reworded`; `also` means the same, `wrong` something else."""

    id: str
    lang: str
    kind: str
    question: str
    right: str
    sentence: str
    reworded: str
    also: tuple[str, ...]
    wrong: tuple[str, ...]


def constructed() -> list[Constructed]:
    """All pairs, each once."""
    pairs: dict[tuple[str, Pair], Constructed] = {}
    for fact in [*own_facts(), *help_desk_facts()]:
        # Translations of a question are in one half
        reported = int(re.sub(r"\D", "", fact.id)) % 2 == 0
        for makers, is_right in ((WRONG[fact.kind], False), (RIGHT[fact.kind], True)):
            for maker in makers:
                for kind, pair in maker(fact):
                    pairs[kind, pair] = Constructed(kind, fact.lang, reported, is_right, pair)
    return list(pairs.values())


def own_facts() -> Iterator[Fact]:
    with FACTS.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="|"):
            also, wrong = (tuple(filter(None, row.pop(name).split(";"))) for name in ("also", "wrong"))
            yield Fact(**row, also=also, wrong=wrong)


def help_desk_facts() -> Iterator[Fact]:
    """The help desk's amounts that are written in digits."""
    for number, line in enumerate(HELP_DESK.read_text(encoding="utf-8").splitlines()):
        row = json.loads(line)
        if row["lang"] == "en" and number % 3:
            # Two thirds of its questions are English
            continue
        right, *others = row["references"]
        if row["kind"] in ("number", "price", "time") and re.search(r"\d", right):
            sentence, reworded = LEAD_INS[row["lang"]]
            also = tuple(other for other in others if re.search(r"\d", other))
            yield Fact(
                id=f"h{number}", lang=row["lang"], kind="amount", question=row["question"], right=right,
                sentence=sentence, reworded=reworded, also=also, wrong=(),
            )  # fmt: skip


# Wrong answers


def digit_added(fact: Fact) -> Iterator[tuple[str, Pair]]:
    number = re.search(r"\d+", fact.right)
    for new in (f"{number[0]}7", f"3{number[0]}"):
        yield from _in_words("digit added", fact, fact.right.replace(number[0], new, 1))


def digit_taken(fact: Fact) -> Iterator[tuple[str, Pair]]:
    number = re.search(r"\d+", fact.right)[0]
    if len(number) > 1:
        for new in {number[1:].lstrip("0"), number[:-1]} - {""}:
            yield from _in_words("digit taken", fact, fact.right.replace(number, new, 1))


def letter_added(fact: Fact) -> Iterator[tuple[str, Pair]]:
    if fact.right.isdecimal():
        for new in (f"{fact.right}B", f"K{fact.right}", f"{fact.right}abc"):
            yield from _in_words("letter added", fact, new)


def digits_swapped(fact: Fact) -> Iterator[tuple[str, Pair]]:
    number = re.search(r"\d{2,}", fact.right)
    if number and number[0][0] != number[0][1] != "0":
        new = number[0][1] + number[0][0] + number[0][2:]
        yield from _in_words("digits swapped", fact, fact.right.replace(number[0], new, 1))


def other_unit(fact: Fact) -> Iterator[tuple[str, Pair]]:
    for wrong in fact.wrong:
        yield from _in_words("other unit", fact, wrong)


def part_of_a_word(fact: Fact) -> Iterator[tuple[str, Pair]]:
    for wrong in fact.wrong:
        yield from _in_words("part of a word", fact, wrong)
        yield "part of a word", Pair(fact.question, LEAD_INS[fact.lang][1].format(wrong), (fact.right,))
        yield "part of a word", Pair("", fact.sentence.format(wrong), (fact.right,))


def denied(fact: Fact) -> Iterator[tuple[str, Pair]]:
    for denial in DENIALS[fact.lang]:
        yield "negated", Pair(fact.question, denial.format(fact.right), (fact.right,))


def same_kind(fact: Fact) -> Iterator[tuple[str, Pair]]:
    for wrong in fact.wrong:
        yield from _in_words("value of the same kind", fact, wrong)
        yield "value of the same kind", Pair("", fact.reworded.format(wrong), (fact.right,))


def other_first_name(fact: Fact) -> Iterator[tuple[str, Pair]]:
    yield from _in_words("another first name", fact, fact.wrong[0])
    yield from _in_words("another last name", fact, fact.wrong[1])


def other_order(fact: Fact) -> Iterator[tuple[str, Pair]]:
    for wrong in fact.wrong:
        yield "order of two names", Pair(fact.question, f"{wrong}.", (fact.right,))
        yield "order of two names", Pair(fact.question, wrong, (f"{fact.right}.",))


def no_question(fact: Fact) -> Iterator[tuple[str, Pair]]:
    reference = fact.sentence.format(fact.right)
    for wrong in fact.wrong[:1]:
        answer = fact.sentence.format(wrong)
        yield WITHOUT_QUESTION[0], Pair("", answer, (reference,))
        yield WITHOUT_QUESTION[1], Pair(GENERAL[fact.lang], answer, (reference,))


def _in_words(kind: str, fact: Fact, wrong: str) -> Iterator[tuple[str, Pair]]:
    """A wrong value alone, in a sentence, and in other words; of the help desk, which has many, in a sentence."""
    patterns = (fact.sentence,) if fact.id.startswith("h") else ("{}", fact.sentence, fact.reworded)
    for pattern in patterns:
        yield kind, Pair(fact.question, pattern.format(wrong), (fact.right,))


# Right answers


def in_a_sentence(fact: Fact) -> Iterator[tuple[str, Pair]]:
    for pattern in (fact.sentence, *LEAD_INS[fact.lang]):
        yield "in a sentence", Pair(fact.question, pattern.format(fact.right), (fact.right,))


def in_other_words(fact: Fact) -> Iterator[tuple[str, Pair]]:
    yield "reworded", Pair(fact.question, fact.reworded.format(fact.right), (fact.right,))


def in_another_form(fact: Fact) -> Iterator[tuple[str, Pair]]:
    for also in fact.also:
        yield "number words and units", Pair(fact.question, also, (fact.right,))
        yield "number words and units", Pair(fact.question, fact.sentence.format(also), (fact.right,))


def in_another_case(fact: Fact) -> Iterator[tuple[str, Pair]]:
    yield "case", Pair(fact.question, f" {fact.right.upper()}!", (fact.right,))
    yield "case", Pair(fact.question, fact.sentence.format(fact.right.upper()), (fact.right,))


def other_statement(fact: Fact) -> Iterator[tuple[str, Pair]]:
    yield "same statement", Pair(fact.question, f"{fact.right}.", (fact.right,))
    yield "turned round", Pair(fact.question, fact.reworded, (fact.right,))


WRONG = {
    "amount": (digit_added, digit_taken, letter_added, digits_swapped, other_unit),
    "word": (part_of_a_word, denied),
    "name": (other_first_name, denied, no_question),
    "value": (same_kind, denied, no_question),
    "order": (other_order,),
}
RIGHT = {
    "amount": (in_a_sentence, in_other_words, in_another_form),
    "word": (in_a_sentence, in_other_words, in_another_case),
    "name": (in_a_sentence, in_other_words, in_another_case),
    "value": (in_a_sentence, in_other_words, in_another_case),
    "order": (other_statement,),
}


@dataclass
class Count:
    """How many pairs, how many that the judge calls outside its training, and how many others with a wrong verdict."""

    n: int = 0
    n_undecided: int = 0
    n_errors: int = 0


def table(*, reported: bool) -> dict[tuple[bool, str, str], Count]:
    """The counts by right or wrong, kind and language."""
    rows = [row for row in constructed() if row.reported == reported]
    verdicts = match([row.pair for row in rows])
    counts: defaultdict[tuple[bool, str, str], Count] = defaultdict(Count)
    for row, verdict in zip(rows, verdicts, strict=True):
        count = counts[row.is_right, row.kind, row.lang]
        count.n += 1
        if verdict.out_of_depth:
            count.n_undecided += 1
        elif verdict.match != row.is_right:
            count.n_errors += 1
    return dict(counts)


def _print() -> None:
    kind, lang = sys.argv[1:3]
    rows = [row for row in constructed() if row.kind == kind and row.lang == lang]
    for row, verdict in zip(rows, match([row.pair for row in rows]), strict=True):
        pair = row.pair
        outcome = f"{verdict.match} {verdict.rule} {verdict.out_of_depth}"
        print(f"{pair.question} | {pair.answer} | {pair.references[0]} | {outcome}")


if __name__ == "__main__":
    _print()
