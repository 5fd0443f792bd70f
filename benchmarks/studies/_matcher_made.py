"""Pairs constructed from gold answers, changed or not, so that the verdict is known, for training."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from _matcher_data import DATA, MADE, Row, question_key
from rapidfuzz import fuzz, process

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


_PEOPLE = (
    "Ada Brown", "Ben Carter", "Cleo Dunn", "Dan Ellis", "Eve Foster", "Finn Gray", "Gia Hart", "Hal Irwin",
    "Iris Jones", "Jack Kent",
)  # fmt: skip
_THINGS = (
    "iron", "cork", "glass", "copper", "oak", "marble", "ice", "lead", "wool", "tin", "granite", "rubber",
)  # fmt: skip
_DEEDS = (
    ("beat", "beaten"), ("taught", "taught"), ("hired", "hired"), ("followed", "followed"), ("betrayed", "betrayed"),
    ("succeeded", "succeeded"), ("painted", "painted"), ("sued", "sued"), ("saved", "saved"), ("married", "married"),
)  # fmt: skip
_MORE = ("denser", "heavier", "older", "cheaper", "softer", "warmer", "longer", "brighter", "safer", "rarer")


def taught(rows: Iterable[Row], seed: int = 11) -> list[dict[str, Any]]:
    """At least 2,000 answers made from gold ones, for training, as rows of a data set.

    Reversed roles and comparisons (beside the passive, which is right), denials, other quantities, names that look
    alike, lists that lack an item, and the right answer beside another one. Each keeps the question that it is made
    from, so that it is trained on where that is.
    """
    dice = random.Random(seed)
    gold = {question_key(row): (row["question"], row["references"][0]) for row in rows if row["references"][0]}
    asked = [gold[key] for key in sorted(gold)]
    names = sorted({text for _, text in asked if 4 <= len(text) <= 30 and not re.search(r"\d", text)})
    made = [*_roles(dice)]
    for question, text in dice.sample(asked, min(len(asked), 1_600)):
        made += [(question, text, answer, label) for answer, label in _spoilt(text, names, dice)]
    return [
        {"id": f"made-{i}", "question": q, "references": [r], "answer": a, "human_label": y, "lang": "en",
         "model": MADE, "meta": {}}
        for i, (q, r, a, y) in enumerate(made)
    ]  # fmt: skip


def _roles(dice: random.Random) -> Iterator[tuple[str, str, str, bool]]:
    for _ in range(150):
        (one, other), (deed, done) = dice.sample(_PEOPLE, 2), dice.choice(_DEEDS)
        right, question = f"{one} {deed} {other}", f"Who {deed} whom?"
        yield question, right, f"{other} {deed} {one}.", False
        yield question, right, f"{other} was {done} by {one}.", True
        (one, other), more = dice.sample(_THINGS, 2), dice.choice(_MORE)
        right, question = f"{one.capitalize()} is {more} than {other}", f"Which is {more}, {one} or {other}?"
        yield question, right, f"{other.capitalize()} is {more} than {one}.", False
        yield question, right, f"{one} is {more} than {other}", True
        yield question, right, f"{one.capitalize()} is not {more} than {other}.", False


def _spoilt(text: str, names: Sequence[str], dice: random.Random) -> Iterator[tuple[str, bool]]:
    """What becomes of one gold answer."""
    items = re.split(r",\s+(?:and\s+)?|\s+and\s+", text)
    if len(items) > 2:
        gone = dice.randrange(len(items))
        yield ", ".join(items[:gone] + items[gone + 1 :]), False
        yield " and ".join(dice.sample(items, len(items))), True
    if re.search(r"\d", text):
        yield f"It was {_other_numbers(text, dice)}.", False
    near = process.extract(text, names, scorer=fuzz.ratio, score_cutoff=60, limit=4)
    near = [name for name, score, _ in near if score < 92 and name.lower() not in text.lower()]
    if near:
        yield dice.choice(near), False
    words = text.split()
    if len(words) >= 5 and (at := next((i for i, w in enumerate(words) if w in ("is", "are", "was", "can")), 0)):
        yield " ".join([*words[: at + 1], "not", *words[at + 1 :]]), False
    elif dice.random() < 0.2:
        yield f"{text} or {dice.choice(names)}", False
    if dice.random() < 0.3:
        yield f"The answer is {text}.", True
