"""A cascade: a cheap judge decides what it is sure of, once a trial has shown that a dear one agrees.

Of the answers that the cheap judge would decide in a run, some are drawn at random, and the dear one is asked about
them. The cheap judge decides the others where the draw shows, with a confidence of 95 %, that at most the accepted
share of its verdicts on them differs from what the dear one would say. Nothing is assumed about the data: the draw is
from the very answers that the promise is about, so it holds for data unlike any that a judge was trained on.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count

from answerkey.metrics_core.sample import Sample, content_hash

TRIED = 0.2
"""The share of the answers that are drawn: the more there are, the less the trial costs beside what it saves."""
MOST_TRIED = 500
TOLERATED = 2
"""So many different verdicts must be tolerable, or hardly any good judge would pass."""
_LEVEL = 0.05

OFFLINE_DECIDED, JUDGE_DECIDED = "offline", "judge"
SAME, OTHER = "judge, as offline", "judge, unlike offline"
"""Who decided an answer of the trial, in its details: the judges, and whether the offline judge says so too."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The answers that the offline judge would decide, `candidates` in number, and those drawn from them.

    Nothing is drawn where the trial would have to have all of them.
    """

    candidates: int
    drawn: tuple[Sample, ...]


def trial_of(candidates: Iterable[Sample], accepted: float) -> Trial:
    """Draw the trial of a run from the answers that the offline judge would decide: by their texts, so always the same.

    Args:
        accepted: the share of verdicts that may be wrong, 0 to .5.

    >>> answers = [Sample(str(n), f"answer {n}", ["Paris"]) for n in range(400)]
    >>> len(trial_of(answers, 0.05).drawn), len(trial_of(answers[:60], 0.05).drawn)
    (136, 59)
    """
    # There may be very many, so no more of them are kept than the largest trial has
    numbers = count()
    numbered = ((key_of(sample), next(numbers), sample) for sample in candidates)
    nearest = heapq.nsmallest(trial_size(10**6, accepted), numbered)
    n = next(numbers)
    size = trial_size(n, accepted)
    if size >= n:
        return Trial(n, ())
    return Trial(n, tuple(sample for *_, sample in nearest[:size]))


def key_of(sample: Sample) -> str:
    """A hash of the texts that an answer is judged by."""
    texts = [sample.question, sample.answer, list(sample.references), list(sample.incorrect_references)]
    return content_hash(["trial of a cascade", *texts])


def trial_size(candidates: int, accepted: float) -> int:
    """How many answers to draw: at least so many that the trial holds with `TOLERATED` different verdicts.

    >>> trial_size(600, 0.05), trial_size(10_000, 0.02), trial_size(100, 0.05)
    (132, 500, 99)
    """
    fewest = bisect_left(
        range(candidates),
        True,
        lo=min(TOLERATED + 1, candidates),
        key=lambda drawn: holds(candidates, drawn, TOLERATED, accepted),
    )
    return max(fewest, min(int(TRIED * candidates), MOST_TRIED))


def holds(candidates: int, drawn: int, different: int, accepted: float) -> bool:
    """Whether at most the `accepted` share of the answers that were not drawn has another verdict, at 95 % confidence.

    The fewest different verdicts among all candidates that would break the promise are found too many, by the
    hypergeometric distribution, to show so few in the draw.

    >>> holds(1_000, 150, 2, 0.05), holds(1_000, 150, 5, 0.05)
    (True, False)
    """
    from scipy.stats import hypergeom

    n_undrawn = candidates - drawn
    if n_undrawn <= 0:
        return False
    broken = different + int(accepted * n_undrawn) + 1
    return bool(broken > candidates or hypergeom.cdf(different, candidates, broken, drawn) <= _LEVEL)
