"""How the time of functions grows with their inputs: a check, which fails where one grows faster than it may.

    python benchmarks/bench.py growth

Each function works on a short input and a long one by turns, and the least CPU time of each counts: what else the
machine does can only add to it. A function that looks at each pair of words takes sixteen times as long for four times
the text, and a pattern that backtracks minutes for a hostile one.
"""

from __future__ import annotations

import contextlib
import json
import random
import string
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from answerkey import METRICS, Sample, evaluate  # noqa: E402
from answerkey.metrics_core.decide.bounded_mean import bounded_mean  # noqa: E402
from answerkey.metrics_core.embeddings.embed import chunk  # noqa: E402
from answerkey.metrics_core.judges.facts import read_matches  # noqa: E402
from answerkey.metrics_core.llm.reply import Unreadable, read_object  # noqa: E402
from answerkey.metrics_core.metrics.continuous_eval import PROFILES, score  # noqa: E402
from answerkey.metrics_core.offline_judge.facts import facts_of  # noqa: E402
from answerkey.metrics_core.offline_judge.matcher import Pair, match  # noqa: E402
from answerkey.metrics_core.text import is_blank, normalise, trimmed, words  # noqa: E402
from benchmarks._turns import Turn, rounds  # noqa: E402

NOISE_S = 0.005
"""What takes less is no time: its growth says nothing."""

UNITS = (
    *("{", "[", "[ ", "[{", "}", '"', "\\", '{"a":', "{}", '{"a":"\\', "{1}", "```", "<think>", '{"', "a ", "1"),
    *('{"a":1}', '{"a":"' + '\\"' * 50, "[" + " " * 50),
)
"""What replies of a judge that has lost its mind consist of."""
HOSTILE: dict[str, Callable[[int], str]] = {
    "stops": lambda n: "a" + "." * n + "b",
    "underlines": lambda n: "é" + "_" * n + "b",
    "commas": lambda n: "1," * (n // 2) + "a",
    "signs": lambda n: "-1" * (n // 2),
    "marks": lambda n: "e" + "\u0301" * n + "a",
    "invisible": lambda n: "\u200b" * n,
}


@dataclass(frozen=True)
class Case:
    """A function of an input of a size, of two sizes, and how many times as long the long one may take.

    `work` makes the input, and returns what is timed: an input is new each time, since functions remember theirs.
    """

    name: str
    work: Callable[[int], Callable[[], object]]
    short: int
    long: int
    most: float


def cases() -> Iterator[Case]:
    """All of them."""
    lexical = [name for name, kind in METRICS.items() if kind.kind == "lexical"]
    for name in lexical:
        yield Case(f"{name}: references", partial(of_references, name), 250, 1_000, 10)
    all_but_rouge = [name for name in lexical if name != "rouge"]
    for accent in ("", "é"):
        work = partial(of_texts, all_but_rouge, accent)
        yield Case(f"lexical metrics: words{' with accents' if accent else ''}", work, 1_000, 4_000, 32)
    for profile in PROFILES:
        for gap in (" ", ". "):
            name = f"{profile}: {'sentences' if gap == '. ' else 'words'}"
            yield Case(name, partial(of_pair, profile, gap), 1_000, 4_000, 32)
    yield Case("bounded_mean: rows", of_rows, 100_000, 1_000_000, 30)
    for joint in (" ", ", ", ". "):
        yield Case(f"offline matcher: words joined by {joint!r}", partial(of_matcher, joint), 160, 640, 8)
    yield Case("facts: an enumeration", lambda n: partial(facts_of, "b, " * n + "end"), 300, 1_200, 8)
    yield Case("facts: links of a reply", of_links, 100, 400, 64)
    yield Case("chunk: sentences", of_sentences, 750, 7_500, 30)
    for unit in UNITS:
        yield Case(f"reply of {unit[:9]!r}", partial(of_reply, unit), 30_000, 120_000, 9)
    for function in (normalise, words, trimmed, is_blank):
        for name, text in HOSTILE.items():
            work = partial(of_hostile, function, text)
            yield Case(f"{function.__name__}: {name}", work, 25_000, 100_000, 9)


def of_references(name: str, n: int) -> Callable[[], object]:
    """One answer and so many references, each with some words of the answer in another order."""
    rng = random.Random()
    vocabulary = [f"w{i:x}" for i in range(300)]
    answer = rng.choices(vocabulary, k=12)

    def mutated() -> str:
        share = rng.random()
        text = " ".join(rng.choice(answer) if rng.random() < share else word for word in answer)
        return text[rng.randrange(9) :] + rng.choice(vocabulary)

    row = Sample("1", " ".join(answer), [mutated() for _ in range(n)])
    return lambda: evaluate([row], [name])


def of_texts(names: list[str], accent: str, n: int) -> Callable[[], object]:
    """An answer and two references of so many words."""
    rng = random.Random()
    vocabulary = ["".join(rng.choices("abcdefgh", k=rng.randint(2, 8))) + accent for _ in range(800)]
    answer, *references = (" ".join(rng.choices(vocabulary, k=n)) for _ in range(3))
    return lambda: evaluate([Sample("1", answer, references)], names)


def of_pair(profile: Any, gap: str, n: int) -> Callable[[], object]:
    """An answer and a reference of so many words, or sentences of one."""
    vocabulary = [f"w{number}" for number in range(2_000)]
    answer, reference = (gap.join(random.choices(vocabulary, k=n)) for _ in range(2))
    return lambda: score(answer, [reference], profile)


def of_rows(n: int) -> Callable[[], object]:
    """The interval of so many values."""
    values = np.random.default_rng(0).beta(4, 1, n)
    return lambda: bounded_mean(values)


def of_matcher(joint: str, n: int) -> Callable[[], object]:
    """Two texts of so many invented words."""

    def text() -> str:
        return joint.join("".join(random.choices(string.ascii_lowercase, k=4)) for _ in range(n))

    pair = Pair("Which words?", text(), (text(),))
    return lambda: match([pair])


def of_links(n: int) -> Callable[[], object]:
    """A judge's reply about so many facts, each linked with three of twenty others."""
    names = [f"a{number}" for number in range(1, n + 1)]
    reply = json.dumps(
        {
            "answer_facts": [{"id": name, "fact": f"fact {name}"} for name in names],
            "reference_facts": [
                {"id": f"r1.{number}", "equivalent": random.sample(names, 3 * n // 20), "contradicted_by": []}
                for number in range(1, n + 1)
            ],
            "abstained": False,
        }
    )
    facts = [f"fact {number}" for number in range(n)]
    return lambda: read_matches(reply, [facts])


def of_sentences(n: int) -> Callable[[], object]:
    """So many sentences cut into parts of 254 words."""
    text = "This is a sentence of some words. " * n
    return lambda: chunk(text, str.split, 254)


def of_reply(unit: str, length: int) -> Callable[[], object]:
    """A reply of so many characters."""
    reply = unit * (length // len(unit))

    def read() -> None:
        with contextlib.suppress(Unreadable):
            read_object(reply)

    return read


def of_hostile(function: Callable[[str], object], text: Callable[[int], str], n: int) -> Callable[[], object]:
    """A text of so many characters that patterns may backtrack in."""
    hostile = text(n)
    return lambda: function(hostile)


def turn(case: Case, size: int) -> Turn:
    """One turn at an input of that size."""
    work = case.work(size)
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Turn(time.perf_counter() - wall, time.process_time() - cpu, [])


def figures(cache: Path, n_rounds: int) -> dict[str, Any]:
    """How many times as long the long input takes.

    Raises:
        SystemExit: for one, it is more than it may be.
    """
    rows = []
    for case in cases():
        sides = {"short": partial(turn, case, case.short), "long": partial(turn, case, case.long)}
        turns, _ = rounds(sides, n_rounds)
        short, long = (min(one.cpu for one in turns[name]) for name in sides)
        times = float(f"{long / max(short, NOISE_S):.3g}")
        row = {"case": case.name, "short": case.short, "long": case.long, "times": times, "most": case.most}
        print(row, flush=True)
        rows.append(row)
    if wrong := [row for row in rows if row["times"] > row["most"]]:
        raise SystemExit("\n".join(f"{row['case']}: {row['times']} times, {row['most']} at most" for row in wrong))
    return {"rows": rows}
