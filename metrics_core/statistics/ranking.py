"""Ranks of several releases by pairwise preference: Bradley and Terry's model with ties and a position effect.

With strengths s and a position effect d, a judge prefers the answer shown first with a probability in proportion to
exp(s_first + d), the second with exp(s_second), and calls a tie with exp(t + (s_first + s_second + d) / 2): Bradley and
Terry (1952), with the ties of Davidson (1970) and the order of Davidson and Beaver (1977). Each pair is shown in both
orders, so the effect and the strengths are told apart.

The variance of the estimates is the larger one of the model's own and of the sandwich of questions (Liang and Zeger
1986): verdicts on the answers to one question depend on each other, and the model's own one does not vanish where a
judge says the same of all. One made-up verdict on each pair, a third of each kind and half in each order, keeps
estimates finite where a release always wins.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from answerkey.metrics_core.sample import content_hash
from answerkey.metrics_core.statistics.intervals import LEVEL, Interval

METHOD = "Bradley-Terry, sandwich"
_ROUNDS = 100
_SMALL = 1e-10
_MADE_UP = 1 / 6


class Shown(NamedTuple):
    """One verdict: the releases shown first and second, what the first one won (1, .5 or 0), and the question.

    >>> Shown("a", "b", 1.0, "q1").won
    1.0
    """

    first: str
    second: str
    won: float
    cluster: Hashable


@dataclass(frozen=True, slots=True)
class Ranked:
    """A release in a ranking.

    Attributes:
        strength: log-odds of being preferred to a release of mean strength, ties aside, with its interval.
        wins: the mean of the verdicts on its pairs, 0 to 1, each release that it met weighing the same.
        best, worst: the places that it may have: one place down for each release that is shown to be stronger, all
            pairs together at the level of the interval (Bonferroni).
        n: its verdicts.

    >>> Ranked("a", 0.4, Interval(0.1, 0.7, METHOD), 0.6, best=1, worst=2, n=80).worst
    2
    """

    release: str
    strength: float
    interval: Interval
    wins: float
    best: int
    worst: int
    n: int


@dataclass(frozen=True, slots=True)
class Ranking:
    """Releases, the strongest first.

    Attributes:
        first: the share of decided verdicts on two equal answers that goes to the one shown first, with its interval.
        tie: the share of ties among the verdicts.
        n: verdicts; `clusters`: questions.
        pairs: by pair of releases, the verdicts on it: the fewest and the most.

    >>> found = rank([Shown("a", "b", 1.0, n) for n in range(9)] + [Shown("b", "a", 0.0, n) for n in range(9)])
    >>> found.n, found.clusters, found.releases[0].release
    (18, 9, 'a')
    """

    releases: tuple[Ranked, ...]
    first: float
    first_interval: Interval
    tie: float
    n: int
    clusters: int
    pairs: tuple[int, int]


def opponents_of(question: str, release: str, releases: Sequence[str], most: int) -> list[str]:
    """The releases that one is compared with on a question; 0 for `most`: all others.

    The releases play a round-robin (circle method); a question has `most` rounds of it, from a first one that is drawn
    by its name. So each release has as many opponents, but for byes, and all pairs have about as many questions.

    >>> [opponents_of("q1", name, ["a", "b", "c", "d"], 1) for name in "abcd"]
    [['c'], ['d'], ['a'], ['b']]
    """
    seats: list[str | None] = [*releases, *([None] if len(releases) % 2 else [])]
    rounds = len(seats) - 1
    if not 0 < most < rounds:
        return [other for other in releases if other != release]
    start = int(content_hash(["round", question])[:8], 16)
    found = []
    for turn in range(start, start + most):
        turned = turn % rounds
        circle = [seats[0], *(seats[1 + (place - turned) % rounds] for place in range(rounds))]
        other = circle[rounds - circle.index(release)]
        if other is not None:
            found.append(other)
    return found


def rank(shown: Sequence[Shown], *, level: float = LEVEL) -> Ranking | None:
    """Rank the releases of these verdicts; None for fewer than two releases or two questions.

    >>> verdicts = [Shown("a", "b", float(n % 4 > 0), n) for n in range(40)]
    >>> verdicts += [Shown("b", "a", float(n % 3 < 1), n) for n in range(40)]
    >>> found = rank(verdicts)
    >>> [(one.release, one.best, one.worst) for one in found.releases], round(found.releases[0].wins, 2)
    ([('a', 1, 1), ('b', 2, 2)], 0.7)
    """
    from scipy.stats import norm

    names = sorted({name for one in shown for name in (one.first, one.second)})
    codes = np.unique([str(one.cluster) for one in shown], return_inverse=True)[1] if shown else np.zeros(0, int)
    questions = int(codes.max()) + 1 if len(codes) else 0
    if len(names) < 2 or questions < 2:
        return None
    places = {name: place for place, name in enumerate(names)}
    first = np.array([places[one.first] for one in shown])
    second = np.array([places[one.second] for one in shown])
    won = np.array([one.won for one in shown])
    estimate, variance = _fitted(len(names), first, second, won, codes, questions)
    spread = np.sqrt(np.diag(variance))
    z, pairs = float(norm.ppf((1 + level) / 2)), list(combinations(range(len(names)), 2))
    z_of_pairs = float(norm.ppf(1 - (1 - level) / 2 / len(pairs)))
    stronger = np.zeros((len(names), len(names)), bool)
    for one, other in pairs:
        apart = estimate[one] - estimate[other]
        spread_of_pair = variance[one, one] + variance[other, other] - 2 * variance[one, other]
        # Releases that answer alike differ by rounding errors only.
        margin = z_of_pairs * np.sqrt(max(float(spread_of_pair), _SMALL))
        stronger[one, other], stronger[other, one] = apart > margin, -apart > margin
    met = np.bincount(first * len(names) + second, minlength=len(names) ** 2).reshape(len(names), -1)
    points = np.bincount(first * len(names) + second, won, len(names) ** 2).reshape(len(names), -1)
    met, points = met + met.T, points + (met - points).T
    wins = [float((points[at][met[at] > 0] / met[at][met[at] > 0]).mean()) for at in range(len(names))]
    ranked = [
        Ranked(
            name, float(estimate[at]), _around(float(estimate[at]), z * float(spread[at])), wins[at],
            1 + int(stronger[:, at].sum()), len(names) - int(stronger[at].sum()), int(met[at].sum()),
        )
        for at, name in enumerate(names)
    ]  # fmt: skip
    effect, spread_of_it = float(estimate[-2]), z * float(spread[-2])
    low, high = (_logistic(effect + sign * spread_of_it) for sign in (-1, 1))
    compared = [int(met[pair]) for pair in pairs]
    return Ranking(
        tuple(sorted(ranked, key=lambda one: (-one.strength, one.release))), _logistic(effect),
        Interval(low, high, METHOD), float((won == 0.5).mean()), len(shown), questions, (min(compared), max(compared)),
    )  # fmt: skip


Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]


def _fitted(n: int, first: Codes, second: Codes, won: Floats, codes: Codes, questions: int) -> tuple[Floats, Floats]:
    """The estimates (strengths with a mean of 0, position effect, ties), and their covariance."""
    both = np.array([pair for one in combinations(range(n), 2) for pair in (one, one[::-1])])
    # The kinds of verdicts: for the first, for the second, tie. Those of the model come before the made-up ones.
    ordered = np.concatenate([np.stack([first, second], axis=1), both])
    weights = np.zeros((len(ordered), 3))
    weights[np.arange(len(won)), np.select([won == 1.0, won == 0.0], [0, 1], 2)] = 1.0
    weights[len(won) :] = _MADE_UP
    features = np.zeros((len(ordered), 3, n + 2))
    rows = np.arange(len(ordered))
    features[rows, 0, ordered[:, 0]] = features[rows, 1, ordered[:, 1]] = 1.0
    features[:, 0, n] = features[:, 2, n + 1] = 1.0
    features[:, 2, :n] = (features[:, 0, :n] + features[:, 1, :n]) / 2
    features[:, 2, n] = 0.5
    # Strengths are known up to a constant: a penalty on their sum sets it, and is orthogonal to their differences.
    fixed = np.zeros((n + 2, n + 2))
    fixed[:n, :n] = 1.0
    estimate = np.zeros(n + 2)
    for _ in range(_ROUNDS):
        scores, hessian = _scores(features, weights, estimate)
        step = np.linalg.solve(hessian + fixed, scores.sum(axis=0))
        estimate += step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < _SMALL:
            break
    scores, hessian = _scores(features, weights, estimate)
    inverse = np.linalg.inv(hessian + fixed)
    centred = np.eye(n + 2)
    centred[:n, :n] -= 1 / n
    model = centred @ inverse @ centred.T
    sums = np.zeros((questions, n + 2))
    np.add.at(sums, codes, scores[: len(won)])
    sandwich = centred @ inverse @ (sums.T @ sums) @ inverse @ centred.T * questions / (questions - 1)
    return estimate, max(model, sandwich, key=lambda covariance: float(np.trace(covariance[:n, :n])))


def _scores(features: Floats, weights: Floats, estimate: Floats) -> tuple[Floats, Floats]:
    """The gradient of each verdict's log-likelihood, (verdicts, parameters), and the information of all."""
    linear = features @ estimate
    chances = np.exp(linear - linear.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    total = weights.sum(axis=1, keepdims=True)
    expected = np.einsum("vk,vkp->vp", chances, features)
    scores = np.einsum("vk,vkp->vp", weights, features) - total * expected
    second = np.einsum("vk,vkp,vkq->pq", total * chances, features, features, optimize=True)
    return scores, second - np.einsum("v,vp,vq->pq", total[:, 0], expected, expected, optimize=True)


def _around(value: float, margin: float) -> Interval:
    return Interval(value - margin, value + margin, METHOD)


def _logistic(value: float) -> float:
    return float(1 / (1 + np.exp(-value)))
