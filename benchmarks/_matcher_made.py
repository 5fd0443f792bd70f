"""Pairs constructed from gold answers, changed or not, so that the verdict is known; in English and Russian."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from _matcher_training import DATA

from answerkey.metrics_core.offline_judge.matcher import Pair

Part = tuple[str, list[Pair], list[bool]]

_NOT = ("It is not {}.", "It was definitely not {}.", "The answer is not {}.", "That was never {}.")
_UNSURE = ("Maybe {}.", "I think it is {}, but I am not sure.", "It could be {}.", "Possibly {}")
_SHELLS_RU = ("{}", "Это {}.", "Ответ: {}", "Правильный ответ — {}.")


def made(rows: Sequence[Mapping[str, Any]]) -> Iterator[Part]:
    """English: the gold answer in a lead-in, with another number, negated, hedged, or beside another answer."""
    dice = random.Random(3)
    gold = dice.sample([(row["question"], row["references"][0]) for row in rows if row["references"][0]], 900)
    others = [reference for _, reference in gold]
    numbers = [(q, r) for q, r in gold if re.search(r"\d", r)]
    yield "the gold answer in a shell", [Pair(q, f"The answer is {r}.", (r,)) for q, r in gold], [True] * len(gold)
    changed = [Pair(q, f"It was {_other_numbers(r, dice)}.", (r,)) for q, r in numbers]
    yield "another number or date", changed, [False] * len(numbers)
    yield "the gold answer denied", [_filled(dice.choice(_NOT), q, r) for q, r in gold], [False] * len(gold)
    yield "the gold answer doubted", [_filled(dice.choice(_UNSURE), q, r) for q, r in gold], [False] * len(gold)
    beside = [Pair(q, f"{r} or {dice.choice(others)}", (r,)) for q, r in gold]
    yield "the gold answer or another", beside, [False] * len(gold)
    foreign = [Pair(q, dice.choice(others), (r,)) for q, r in gold]
    yield "another question's answer", foreign, [pair.answer == pair.references[0] for pair in foreign]


def _filled(pattern: str, question: str, reference: str) -> Pair:
    return Pair(question, pattern.format(reference), (reference,))


def _other_numbers(text: str, dice: random.Random) -> str:
    return re.sub(r"\d{1,8}", lambda found: str(int(found[0]) + dice.choice((2, 3, 7, 10))), text)


def russian() -> Iterator[Part]:
    """RuBQ: gold answers, their aliases in Cyrillic and across scripts, other questions' answers."""
    lines = (DATA / "rubq" / "rubq2_dev.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    dice = random.Random(7)
    gold = [(row["question"], tuple(text for text in row["references"] if text.strip())) for row in rows]
    shelled = [Pair(q, dice.choice(_SHELLS_RU).format(texts[0]), texts) for q, texts in gold]
    yield "Russian: the gold answer in a shell", shelled, [True] * len(gold)
    same: list[Pair] = []
    across: list[Pair] = []
    for row in rows:
        names = next((group for group in row["meta"]["alias_groups"] if len(group) > 1), None)
        if names:
            one, other = dice.sample(names, 2)
            part = across if _latin(one) != _latin(other) else same
            part.append(Pair(row["question"], dice.choice(_SHELLS_RU).format(one), (other,)))
    yield "Russian: an alias in the same script", same, [True] * len(same)
    yield "Russian: an alias in the other script", across, [True] * len(across)
    foreign = [Pair(q, dice.choice(gold)[1][0], texts) for q, texts in gold]
    labels = [pair.answer.lower() in {text.lower() for text in pair.references} for pair in foreign]
    yield "Russian: another question's answer", foreign, labels


def _latin(text: str) -> bool:
    return re.search("[A-Za-z]", text) is not None
