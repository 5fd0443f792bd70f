"""Rows that benchmarks measure on: public answers where they are there, and made ones of the same lengths.

`made` draws texts of invented words with the lengths, the repetitions, the numbers, the punctuation and the scripts
that real answers have; it needs no data, and any number of rows can be had. What is read from ../shared/data is
printed in no output and committed nowhere.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
SETS = ("evouna_nq", "nq301", "e2e_nlg", "made")
Row = dict[str, Any]
"""`id`, `question`, `answer` and `references`, none of them blank."""

_SYLLABLES = {
    "latin": [
        "ba",
        "lan",
        "ko",
        "dor",
        "mi",
        "vik",
        "su",
        "nes",
        "te",
        "mo",
        "ra",
        "tur",
        "el",
        "ian",
        "sto",
        "pre",
        "con",
        "ding",
        "ter",
        "al",
        "is",
        "un",
        "o",
    ],
    "cyrillic": [
        "ба",
        "лан",
        "ко",
        "дор",
        "ми",
        "вик",
        "су",
        "нес",
        "те",
        "мо",
        "ра",
        "тур",
        "ель",
        "ий",
        "сто",
        "пре",
        "кон",
        "ть",
        "ще",
        "ё",
        "на",
        "по",
    ],
}
_SMALL = {
    "latin": [
        "the",
        "of",
        "and",
        "in",
        "a",
        "to",
        "was",
        "is",
        "by",
        "for",
        "it",
        "on",
        "as",
        "at",
        "with",
        "from",
        "which",
        "his",
        "an",
        "after",
    ],
    "cyrillic": [
        "и",
        "в",
        "на",
        "с",
        "что",
        "по",
        "как",
        "из",
        "к",
        "у",
        "от",
        "за",
        "это",
        "был",
        "для",
        "не",
        "до",
        "о",
        "же",
        "при",
    ],
}
_MARKS = ("", "", "", "", "", "", "", "", "", ",", ".")
_JOINED = ('"{}"', "({})", "{}'s", "{}-{}", "{};")
_RARE = ("“{}”", "{}’s", "{}é", "{} –")


class Language:
    """Words of one script, the first of which come most often."""

    def __init__(self, script: str, rng: random.Random, size: int = 4_000) -> None:
        syllables = _SYLLABLES[script]
        words = ("".join(rng.choices(syllables, k=rng.choice((1, 2, 2, 3, 3, 4)))) for _ in range(size))
        self.words = [*_SMALL[script], *words]
        self.weights = list(accumulate(1 / (rank + 3) for rank in range(len(self.words))))
        self.rng = rng

    def text(self, n_words: int) -> list[str]:
        """Words with marks, names and numbers among them; sentences of some fifteen words."""
        rng, out, start = self.rng, [], True
        for word in rng.choices(self.words, cum_weights=self.weights, k=n_words):
            chance = rng.random()
            if chance < 0.04:
                said = str(rng.choice((rng.randint(1, 99), rng.randint(1500, 2030), f"{rng.randint(1, 999)},000")))
            elif chance < 0.06:
                said = rng.choice(_JOINED).format(word, word)
            elif chance < 0.064:
                said = rng.choice(_RARE).format(word)
            elif start or chance < 0.16:
                said = word.capitalize()
            else:
                said = word
            said += rng.choice(_MARKS)
            start = said.endswith(".")
            out.append(said)
        return out


def made(n: int, seed: int = 7) -> Iterator[Row]:
    """`n` rows: answers of 3 to 240 words (median 25), one to four references of 1 to 40, one row in ten in Cyrillic.

    Two answers of five have a reference within, two have most of its words, and one has none of them.
    """
    rng = random.Random(seed)
    languages = {script: Language(script, rng) for script in _SYLLABLES}
    for number in range(n):
        language = languages["cyrillic" if rng.random() < 0.1 else "latin"]
        truth = language.text(min(40, 1 + int(rng.lognormvariate(1.2, 0.9))))
        references = [truth]
        while len(references) < 4 and rng.random() < 0.4:
            other = [word for word in truth if rng.random() < 0.8] or truth
            references.append(other + language.text(rng.randint(0, 2)))
        kind = rng.random()
        said = truth if kind < 0.4 else [word for word in truth if rng.random() < 0.7] if kind < 0.8 else []
        rest = language.text(min(200, max(3, int(rng.lognormvariate(3.0, 0.8)))))
        at = rng.randint(0, len(rest))
        answer = " ".join([*rest[:at], *said, *rest[at:]])
        question = " ".join(language.text(rng.randint(6, 12))) + f" {number}?"
        yield {
            "id": str(number),
            "question": question,
            "answer": answer,
            "references": [" ".join(words) for words in references],
        }


def public(name: str, n: int, shared: Path = SHARED) -> list[Row] | None:
    """A drawn sample of a public set; None where it is not there."""
    folder = shared / name
    if not folder.is_dir():
        return None
    if name == "e2e_nlg":
        references = {row["id"]: row["references"] for row in _lines(folder / "e2e_references.jsonl")}
        rows = [
            {**row, "references": references[row["meta"]["question_id"]]}
            for row in _lines(folder / "e2e_outputs.jsonl")
        ]
    else:
        rows = list(_lines(next(folder.glob("*.jsonl"))))
    kept = [
        {"id": row["id"], "question": row.get("question") or "?", "answer": row["answer"], "references": texts}
        for row in rows
        if (row["answer"] or "").strip() and (texts := [text for text in row["references"] if text.strip()])
    ]
    return random.Random(7).sample(kept, min(n, len(kept)))


def sample(name: str, n: int) -> list[Row] | None:
    """`n` rows of one of `SETS`; None where the set is not there."""
    return list(made(n)) if name == "made" else public(name, n)


def _lines(file: Path) -> Iterator[Row]:
    with file.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)
