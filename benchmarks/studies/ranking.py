"""How often a ranking of four releases has the right order, and its intervals cover the truth, with biased judges.

    python benchmarks/studies/ranking.py

Releases have strengths .9, .3, -.3 and -.9; questions differ in how well each release does on them (normal, with the
spread of the table). A judge of bias d adds d to the strength of what it is shown first, and calls ties.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from answerkey.metrics_core.statistics.ranking import Shown, opponents_of, rank

STRENGTHS: dict[str, float] = {"a": 0.9, "b": 0.3, "c": -0.3, "d": -0.9}
SPREAD, TIES, RUNS = 0.5, -0.7, 400


def verdicts(rng: np.random.Generator, questions: int, bias: float, opponents: int, spread: float) -> list[Shown]:
    """The verdicts of a judge on all pairs that are asked, in both orders."""
    names, found = list(STRENGTHS), []
    for question in range(questions):
        own = {name: value + spread * rng.standard_normal() for name, value in STRENGTHS.items()}
        pairs = [(first, other) for first in names for other in opponents_of(f"q{question}", first, names, opponents)]
        for (first, second), drawn in zip(pairs, rng.random(len(pairs)).tolist(), strict=True):
            one, other = math.exp(own[first] + bias), math.exp(own[second])
            total = one + other + math.exp(TIES) * math.sqrt(one * other)
            won = 1.0 if drawn < one / total else 0.0 if drawn < (one + other) / total else 0.5
            found.append(Shown(first, second, won, question))
    return found


def limits(bias: float, spread: float) -> dict[str, float]:
    """What the estimates tend to: strengths as they are, or, where questions differ, of a very long run."""
    if not spread:
        return STRENGTHS
    found = rank(verdicts(np.random.default_rng(1), 20_000, bias, 0, spread))
    return {one.release: one.strength for one in found.releases}


def main() -> None:
    print("| spread | bias | questions | opponents | right order | intervals that cover | place within its range |")
    print("|---|---|---|---|---|---|---|")
    for spread in (0.0, SPREAD):
        for bias in (0.0, 0.5, 1.5, 3.0):
            truth = limits(bias, spread)
            for questions, opponents in ((50, 0), (50, 1), (300, 0), (300, 1)):
                rng, right, cover, within = np.random.default_rng(7), 0, 0, 0
                for _ in range(RUNS):
                    found = rank(verdicts(rng, questions, bias, opponents, spread)).releases
                    right += [one.release for one in found] == list(STRENGTHS)
                    cover += sum(one.interval.low <= truth[one.release] <= one.interval.high for one in found)
                    places = {name: place for place, name in enumerate(STRENGTHS, start=1)}
                    within += all(one.best <= places[one.release] <= one.worst for one in found)
                row = f"{right / RUNS:.1%} | {cover / RUNS / 4:.1%} | {within / RUNS:.1%}"
                print(f"| {spread} | {bias} | {questions} | {opponents or 'all'} | {row} |", flush=True)


if __name__ == "__main__":
    main()
