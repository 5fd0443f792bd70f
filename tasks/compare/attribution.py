"""By how much each cause moved the mean of a field from one report to the other; the amounts add up to the change."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from answerkey.tasks.compare.paired_samples import SCORED, Mask, Pairing

Cause = Literal["rows", "coverage", "sample", "answer", "method", "several", "none"]

CAUSES: dict[Cause, str] = {
    "rows": "samples that only one report has",
    "coverage": "samples that only one report has a score for",
    "sample": "another question, other references or facts",
    "answer": "another answer",
    "method": "the same texts, scored in another way",
    "several": "more than one of these at once",
    "none": "the same texts and the same way, another number",
}
"""What each cause means, in the order in which they are told."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one cause did: the rows it touched, and by how much it moved the mean."""

    cause: Cause
    n_rows: int
    amount: float


@dataclass(frozen=True, slots=True)
class Movement:
    """One field in both reports, with means over all rows that have a number there.

    `change` = new - old = the sum of the amounts of `parts`. Causes that touched no row are left out.
    """

    metric: str
    field: str
    old: float
    new: float
    change: float
    parts: tuple[Part, ...]


def movement(pair: Pairing, metric: str, field: str, *, same_method: bool) -> Movement | None:
    """Take the change of a mean apart; None where a report has no number for the field.

    With O the rows of the old report, N those of the new one, and C those in both:
    mean(N) - mean(O) = sum over C of (new - old) / |C| + sum over N - C of (value - mean of C) / |N|
    - the same over O - C. So every row has a share of its own, and the shares are added up by cause. Where no row is
    in both, everything is due to rows, or to coverage where the samples are the same.
    """
    columns = pair.columns(metric, field)
    before, after = columns.old_status == SCORED, columns.new_status == SCORED
    if not before.any() or not after.any():
        return None
    common, either = before & after, before | after
    shares = np.zeros(len(common))
    shares[common] = (columns.new[common] - columns.old[common]) / common.sum()
    for values, side, sign in ((columns.new, after, 1), (columns.old, before, -1)):
        alone = side & ~common
        centre = _mean(values[common]) if common.any() else 0.0
        shares[alone] = sign * (values[alone] - centre) / side.sum()
    causes = _causes(pair, common, same_method=same_method)
    # Rows where nothing changed, the number least of all, are no cause of anything.
    causes["none"] &= shares != 0
    parts = tuple(
        Part(cause, int(touched.sum()), math.fsum(shares[touched].tolist()))
        for cause in CAUSES
        if (touched := causes[cause] & either).any()
    )
    old, new = _mean(columns.old[before]), _mean(columns.new[after])
    return Movement(metric, field, old, new, new - old, parts)


def _mean(values: npt.NDArray[np.float64]) -> float:
    return math.fsum(values.tolist()) / len(values)


def _causes(pair: Pairing, common: Mask, *, same_method: bool) -> dict[Cause, Mask]:
    """Every row is in exactly one of them."""
    in_both = pair.in_old & pair.in_new
    sample, answer = pair.changed | pair.facts_changed, in_both & ~pair.same_answer
    method = np.full(len(common), not same_method)
    n = sample.astype(int) + answer + method
    one = common & (n == 1)
    return {
        "rows": ~in_both,
        "coverage": in_both & ~common,
        "sample": one & sample,
        "answer": one & answer,
        "method": one & method,
        "several": common & (n > 1),
        "none": common & (n == 0),
    }


def movements(pair: Pairing) -> Iterator[Movement]:
    """Of every field that both reports have rows for, in the order of the new one. Corpus BLEU has none."""
    before, after = pair.old.manifest["signatures"], pair.new.manifest["signatures"]
    known = {(score.metric, score.field) for score in pair.old.overall}
    for score in pair.new.overall:
        if (score.metric, score.field) in known:
            same_method = before.get(score.metric) == after.get(score.metric)
            if found := movement(pair, score.metric, score.field, same_method=same_method):
                yield found
