"""The labelled answers that the offline matcher is trained and judged on, as the model sees them.

All of it lies in ../shared/data; see its README and docs/offline_judge_measured.md.
"""

from __future__ import annotations

import json
import math
import random
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rapidfuzz import fuzz, process

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from answerkey.metrics_core.metric import identical_reference  # noqa: E402
from answerkey.metrics_core.offline_judge.depth import _foreign, language_of, too_long, unfamiliar  # noqa: E402
from answerkey.metrics_core.offline_judge.matcher import Pair, Seen, look  # noqa: E402
from answerkey.metrics_core.offline_judge.reading import Text, read  # noqa: E402
from answerkey.metrics_core.sample import Sample  # noqa: E402

DATA = ROOT.parent / "shared" / "data"
FILES = {
    "evouna_nq": "evouna_nq/evouna_nq_dev.jsonl",
    "evouna_tq": "evouna_tq/evouna_tq_dev.jsonl",
    "efficientqa": "efficientqa/efficientqa_dev.jsonl",
    "truthfulqa": "truthfulqa/truthfulqa_english_dev.jsonl",
    "truthfulqa, five languages": "truthfulqa/truthfulqa_multi_dev.jsonl",
    "nq301": "nq301/nq301.jsonl",
}
TRAINED_ON = tuple(name for name in FILES if name != "nq301")
MADE = "made"
MOST_ANSWERS = 8
"""Of one question of truthfulqa: many of its answers are the same sentence, in a hundred spellings."""
ALIKE = 85
"""From this similarity (0..100, sorted words) on, a question is taken for one of nq301's."""
LIMITS = {"answer": 150, "reference": 40}
"""In words: nearly all of training is shorter."""

KINDS = ("short answers", "claims", "other languages")
"""The kinds of data that agreement is told for: facts of a few words in English, sentences in English, all others."""
CLAIM_WORDS = 5

Row = Mapping[str, Any]


def kind_of(question: Text, answer: Text, references: Sequence[Text]) -> str:
    """The kind of data that a pair is."""
    if language_of(f"{question.raw} {answer.raw}") != "en" or _foreign(answer) or all(map(_foreign, references)):
        return "other languages"
    return "claims" if median(len(text.tokens) for text in references) >= CLAIM_WORDS else "short answers"


def rarities(texts: Iterable[str], least: int = 4) -> dict[str, float]:
    """The inverse document frequency of stems, as a share of the greatest one; of those that `least` texts have."""
    stems = [set(read(text).stems) for text in texts]
    counts = Counter(stem for some in stems for stem in sorted(some))
    return {
        stem: round(math.log(len(stems) / count) / math.log(len(stems)), 3)
        for stem, count in sorted(counts.items())
        if count >= least
    }


def read_rows(name: str) -> list[dict[str, Any]]:
    """Labelled rows with an answer; of equal answers to a question of truthfulqa one, and at most `MOST_ANSWERS`."""
    rows = [json.loads(line) for line in (DATA / FILES[name]).read_text(encoding="utf-8").splitlines()]
    rows = [
        row
        for row in rows
        if row["human_label"] is not None and (row["answer"] or "").strip() and row["meta"].get("usable", True)
    ]
    if name != "truthfulqa":
        return rows
    rows = list({(row["question"], row["answer"]): row for row in rows}.values())
    random.Random(5).shuffle(rows)
    seen: Counter[str] = Counter()
    kept = []
    for row in rows:
        seen[row["question"]] += 1
        if seen[row["question"]] <= MOST_ANSWERS:
            kept.append(row)
    return kept


def question_key(row: Row) -> str:
    """Equal for questions that differ in case and punctuation only, and for the translations of one question."""
    text = row["question"]
    if row["id"].startswith("tqam-"):
        text = _english().get(row["meta"]["question_id"].split("-")[2], text)
    return " ".join(re.findall(r"\w+", text.lower()))


@cache
def _english() -> dict[str, str]:
    lines = (DATA / FILES["truthfulqa, five languages"]).read_text(encoding="utf-8").splitlines()
    rows = map(json.loads, lines)
    return {row["meta"]["question_id"].split("-")[2]: row["question"] for row in rows if row["lang"] == "en"}


@cache
def held_back() -> frozenset[str]:
    """The questions of any set that nq301 has too, word for word or nearly: they are never trained on."""
    theirs = sorted({question_key(row) for row in read_rows("nq301")})
    ours = {question_key(row) for name in TRAINED_ON for row in read_rows(name)}
    near = [key for key in ours if process.extractOne(key, theirs, scorer=fuzz.token_sort_ratio, score_cutoff=ALIKE)]
    return frozenset(near) | frozenset(theirs)


def pair_of(row: Row) -> Pair:
    """What the matcher gets of a row."""
    texts = (row["references"], row["meta"].get("incorrect_references") or ())
    right, wrong = (tuple(text for text in some if text and text.strip()) for some in texts)
    return Pair(row["question"], row["answer"], right, wrong)


@dataclass(frozen=True, eq=False)
class Side:
    """Answers against references: `x` (references, features), `source` the answer that each row is of, `rulings`."""

    x: np.ndarray
    source: np.ndarray
    seen: tuple[Seen | None, ...]


@dataclass(frozen=True, eq=False)
class Table:
    """Labelled answers as the model sees them: against the right references, and against the wrong ones."""

    names: tuple[str, ...]
    right: Side
    wrong: Side
    labels: np.ndarray
    questions: np.ndarray
    sets: np.ndarray
    languages: np.ndarray
    releases: np.ndarray
    kinds: np.ndarray
    long: np.ndarray
    unfamiliar: np.ndarray
    texts: Sequence[tuple[Text, Text, Sequence[Text]]]
    given: np.ndarray
    """Whether the answer is a reference but for its form, so that no judge is asked."""

    def __len__(self) -> int:
        return len(self.labels)


def table(rows: Mapping[str, Sequence[Row]], words: Mapping[str, float]) -> Table:
    """Features of labelled rows, by the name of their set. `words`: see `rarities`."""
    flat = [(name, row) for name, some in rows.items() for row in some]
    pairs = [pair_of(row) for _, row in flat]
    right = look(pairs, words)
    doubted = [at for at, pair in enumerate(pairs) if pair.wrong]
    against = [Pair(pairs[at].question, pairs[at].answer, pairs[at].wrong) for at in doubted]
    wrong: list[Seen | None] = [None] * len(pairs)
    for at, one in zip(doubted, look(against, words), strict=True):
        wrong[at] = one
    names = tuple(right[0].values[0])
    texts = [(read(p.question), read(p.answer), [read(text) for text in p.references]) for p in pairs]
    return Table(
        names,
        _side(right, names),
        _side(wrong, names),
        np.array([float(bool(row["human_label"])) for _, row in flat]),
        np.array([question_key(row) for _, row in flat]),
        np.array([name for name, _ in flat]),
        np.array([row["lang"] for _, row in flat]),
        np.array([row["model"] or "" for _, row in flat]),
        np.array([kind_of(*some) for some in texts]),
        np.array([bool(too_long(answer, references, LIMITS)) for _, answer, references in texts]),
        np.array([bool(unfamiliar(*some)) for some in texts]),
        texts,
        np.array([identical_reference(Sample("", p.answer, p.references)) is not None for p in pairs]),
    )


def _side(seen: Sequence[Seen | None], names: Sequence[str]) -> Side:
    values = [[row[name] for name in names] for one in seen if one for row in one.values]
    source = [at for at, one in enumerate(seen) if one for _ in one.values]
    return Side(np.array(values, np.float64).reshape(-1, len(names)), np.array(source, np.intp), tuple(seen))
