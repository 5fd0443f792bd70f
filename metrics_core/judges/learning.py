"""Learn from labels: which examples make a judge agree best with people on answers that it was not shown?"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from answerkey.metrics_core.decide.clustered import codes_of
from answerkey.metrics_core.decide.paired import PairedDifference, paired_difference
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.rubric import Example, Rubric
from answerkey.metrics_core.sample import Sample

FEWEST = 12
"""Labelled answers below which there is nothing to choose from, and nothing to check the choice on."""
_FOLDS, _SETS, _MOST_TRIED = 3, 3, 60

Judge = Callable[[Rubric, Sequence[Sample]], Sequence[str | None]]
"""The verdicts of a judge by a rubric; None where it gave none."""


@dataclass(frozen=True, slots=True)
class LabelledSample:
    """A sample, the verdict of a person, and what it is not independent of."""

    sample: Sample
    verdict: str
    cluster: Hashable


@dataclass(frozen=True, slots=True)
class Learned:
    """The result of learning.

    Attributes:
        rubric: with the examples that agreed best with all labels; as it was where the gain does not exclude a loss.
        n: answers that were judged in both ways; `corrected`: those on which judge and person disagreed at first.
        gain: the share of answers on which the judge agrees with people, before (old) and after (new), each answer
            judged with examples chosen without it and its cluster.
    """

    rubric: Rubric
    n: int
    corrected: int
    gain: PairedDifference


def learn(rubric: Rubric, rows: Sequence[LabelledSample], judge: Judge, n_examples: int) -> Learned:
    """Choose `n_examples` examples for `rubric` from `rows`, and measure on other rows what they change.

    A few sets are tried, drawn first from what the judge got wrong, with both verdicts in turn; the examples that the
    rubric has are one of the sets. Without a gain on other rows, with an interval above 0, the rubric stays as it is.
    Each row is judged 11 times at most.

    Raises:
        UserError: there are too few rows, or they all have one verdict; or the judge gave too few verdicts.
    """
    if len(rows) < FEWEST or len({row.cluster for row in rows}) < _FOLDS or len({row.verdict for row in rows}) < 2:
        raise UserError(f"--learn: {len(rows)} labelled answers; it takes at least {FEWEST}, with both verdicts")
    agreed = _agreed(judge, rubric, rows)
    judged = np.flatnonzero(np.isfinite(agreed)).tolist()
    if len(judged) < FEWEST:
        raise UserError(
            f"--learn: the judge gave a verdict on {len(judged)} of {len(rows)} answers; try it on one first"
        )
    rows = [rows[index] for index in judged]
    agreed = agreed[judged]

    # Folds of whole clusters
    codes = codes_of([row.cluster for row in rows], len(rows))
    codes = np.arange(len(rows)) if codes is None else codes
    # At random: labels may come in a pattern.
    folds = np.random.default_rng(0).permutation(int(codes.max()) + 1)[codes] % _FOLDS

    def chosen_from(inside: Any) -> Rubric:
        """The rubric with the set of examples from `inside` that agrees best with the other rows of `inside`."""
        rng = np.random.default_rng(0)
        best = rubric
        best_gain = 0.0
        for number in range(_SETS):
            order = rng.permutation(inside)
            # The first set has what was got wrong before anything else; the others mix.
            is_later = agreed[order] != 0
            if number > 0:
                is_later &= rng.random(len(order)) < 0.5
            order = order[np.argsort(is_later, kind="stable")]
            examples = _in_turn(rows, order.tolist(), n_examples)
            tested = [index for index in rng.permutation(inside).tolist() if index not in examples][:_MOST_TRIED]
            if not tested:
                continue
            chosen = [Example(rows[index].sample, (rows[index].verdict,)) for index in examples]
            candidate = replace(rubric, examples=tuple(chosen))
            agreed_so = _agreed(judge, candidate, [rows[index] for index in tested])
            gain = float((np.nan_to_num(agreed_so) - agreed[tested]).mean())
            # Never for a tie: what is there already needs no reason.
            if gain > best_gain:
                best = candidate
                best_gain = gain
        return best

    # Each fold is judged with examples from the others
    agreed_new = agreed.copy()
    for fold in range(_FOLDS):
        candidate = chosen_from(np.flatnonzero(folds != fold))
        if candidate is not rubric:
            in_fold = np.flatnonzero(folds == fold)
            agreed_new[in_fold] = _agreed(judge, candidate, [rows[index] for index in in_fold])
    twice = np.flatnonzero(np.isfinite(agreed_new))
    clusters = [rows[index].cluster for index in twice]
    difference = paired_difference(agreed[twice], agreed_new[twice], binary=True, clusters=clusters)
    if difference.interval is not None and difference.interval.low > 0:
        rubric = chosen_from(np.arange(len(rows)))
    return Learned(rubric, n=len(twice), corrected=int((agreed == 0).sum()), gain=difference)


def _agreed(judge: Judge, rubric: Rubric, rows: Sequence[LabelledSample]) -> Any:
    """1 where the judge says what the person said, 0 where not, NaN where it said nothing; shape (rows,)."""
    verdicts = judge(rubric, [row.sample for row in rows])
    agreed = np.full(len(rows), np.nan)
    for index, (verdict, row) in enumerate(zip(verdicts, rows, strict=True)):
        if verdict is not None:
            agreed[index] = verdict == row.verdict
    return agreed


def _in_turn(rows: Sequence[LabelledSample], order: Sequence[int], n_examples: int) -> list[int]:
    """The first indices of the order, of one verdict and another in turn, no cluster twice."""
    queues: dict[str, list[int]] = {}
    for index in order:
        queues.setdefault(rows[index].verdict, []).append(index)
    chosen_rows: list[int] = []
    clusters: set[Hashable] = set()
    while len(chosen_rows) < n_examples and any(queues.values()):
        for queue in queues.values():
            # Answers to one question would teach the same thing twice
            while queue and rows[queue[0]].cluster in clusters:
                queue.pop(0)
            if queue and len(chosen_rows) < n_examples:
                clusters.add(rows[queue[0]].cluster)
                chosen_rows.append(queue.pop(0))
    return chosen_rows
