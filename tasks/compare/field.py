"""One field of a metric in two reports, on all samples and on every slice that both have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from answerkey.metrics_core.comparison import ALL, Comparison
from answerkey.metrics_core.registry import METRICS
from answerkey.metrics_core.statistics.paired import PairedDifference, paired_difference, sign_flip
from answerkey.metrics_core.statistics.power import minimum_detectable, needed_for_mean, needed_for_share
from answerkey.metrics_core.statistics.ppi import ppi_difference
from answerkey.tasks.compare.grouping import groups
from answerkey.tasks.compare.paired_bleu import CORPUS_BLEU, read_bleu
from answerkey.tasks.compare.paired_samples import SCORED, STATUSES, Columns, Mask, Pairing
from answerkey.tasks.reports.labels import LABEL, MOST_LABELLED

USES_FACTS = ("ground_truth_similarity",)
"""Metrics for which a sample with other facts is another sample."""

_UNITS, _SLICE_UNITS = 10_000, 2_000
"""What a test exchanges at most, on all samples and on a slice; more rows are put into so many random groups."""
_LEAST, _MOST = 999, 9_999
"""Exchanges that a test tries: as many as if there were always as many units as allowed."""
_HOPELESS = 100


@dataclass(frozen=True, slots=True)
class Settings:
    """What all fields share: the seed, the level of intervals (0 to 1), and how many fields are looked at."""

    seed: int
    level: float
    n_fields: int

    def permutations(self, units: int, most_units: int) -> int:
        """Exchanges to try: enough for the smallest p to survive the correction, and more where units are few."""
        return max(_LEAST, 40 * self.n_fields, min(_MOST, _LEAST * most_units // units))


def without_numbers(metric: str, field: str, slice_: str, note: str) -> Comparison:
    """A comparison that could not be made, with the reason."""
    return Comparison(
        metric, field, slice_, n_common=0, n_only_old=0, n_only_new=0, old=None, new=None, difference=None, low=None,
        high=None, p=None, p_adjusted=None, mde=None, fixed=None, broken=None, test="", note=note,
    )  # fmt: skip


def compare_field(
    pair: Pairing, metric: str, field: str, settings: Settings, labels: Columns | None = None
) -> Iterator[Comparison]:
    """The field on 'all', then on the slices, without adjusted p. Only its own columns are in memory.

    `labels` are those of people, where both reports have some.
    """
    bleu = read_bleu(pair) if (metric, field) == CORPUS_BLEU else None
    columns = bleu.columns if bleu else pair.columns(metric, field)
    same_sample = ~(pair.changed | pair.facts_changed) if metric in USES_FACTS else ~pair.changed
    both = (columns.old_status == SCORED) & (columns.new_status == SCORED) & same_sample
    binary = all(np.isin(side[both], (0, 1)).all() for side in (columns.old, columns.new))
    range_ = None if binary else span(metric, field)
    for slice_, in_old, in_new in pair.members():
        before, after = in_old & (columns.old_status == SCORED), in_new & (columns.new_status == SCORED)
        common = before & after & same_sample
        about = {
            "n_common": int(common.sum()),
            "n_only_old": int((before & ~after).sum()),
            "n_only_new": int((after & ~before).sum()),
            "missing_old": _missing(columns.old_status[after & ~before]),
            "missing_new": _missing(columns.new_status[before & ~after]),
        }
        found: PairedDifference | None = None
        if common.any() and bleu:
            found = bleu.difference(common, pair.clusters, settings.seed, settings.level)
        elif common.any():
            found = _difference(pair, columns, common, range_, settings, slice_)
        row = _row(metric, field, slice_, found, about, settings)
        if labels and slice_ == ALL and not bleu and metric != LABEL:
            row = replace(row, **_people(pair, columns, labels, common, span(metric, field), settings.level))
        yield row


def _people(
    pair: Pairing, columns: Columns, labels: Columns, common: Mask, range_: float, level: float
) -> dict[str, Any]:
    """What people would find on the rows `common`, of which they labelled a part in both releases."""
    known = [status[common] == SCORED for status in (labels.old_status, labels.new_status)]
    n_labelled = int((known[0] & known[1]).sum())
    if not 0 < n_labelled < MOST_LABELLED * common.sum():
        return {}
    given = [
        [float(label) if there else None for label, there in zip(side[common], mask, strict=True)]
        for side, mask in zip((labels.old, labels.new), known, strict=True)
    ]
    clusters = None if pair.clusters is None else pair.clusters[common].tolist()
    old, new = columns.old[common], columns.new[common]
    found = ppi_difference(old, new, *given, clusters=clusters, span=range_, level=level)
    if found.interval is None:
        return {}
    low, high, _ = found.interval.clipped(-1.0, 1.0)
    return {"people": found.value, "people_low": low, "people_high": high, "n_labelled": n_labelled}


def _difference(
    pair: Pairing, columns: Columns, common: Mask, range_: float | None, settings: Settings, slice_: str
) -> PairedDifference:
    """Of means; `range_` is None for fields that are 0 or 1."""
    clusters = None if pair.clusters is None else pair.clusters[common]
    old, new = columns.old[common], columns.new[common]
    most = _UNITS if slice_ == ALL else _SLICE_UNITS
    of_row = groups(len(old), clusters, most, settings.seed)
    permutations = settings.permutations(int(of_row.max()) + 1, most)
    found = paired_difference(
        old,
        new,
        binary=range_ is None,
        clusters=None if clusters is None else clusters.tolist(),
        span=range_ or 1.0,
        seed=settings.seed,
        permutations=permutations if len(old) <= most else 1,
        level=settings.level,
    )
    if len(old) <= most or found.test == "mcnemar":
        return found
    sums = np.bincount(of_row, weights=new - old).astype(np.float64)
    return replace(found, p=sign_flip(sums, seed=settings.seed, permutations=permutations))


def _missing(statuses: npt.NDArray[np.int8]) -> dict[str, int]:
    """Why rows have no number here: a row that does have one is in another slice here."""
    counts = np.bincount(statuses, minlength=len(STATUSES))
    names = ["other slice" if name == "scored" else name for name in STATUSES]
    return {name: int(n) for name, n in zip(names, counts, strict=True) if n}


def _row(
    metric: str,
    field: str,
    slice_: str,
    found: PairedDifference | None,
    about: dict[str, Any],
    settings: Settings,
) -> Comparison:
    if found is None:
        return replace(without_numbers(metric, field, slice_, "no sample has a number in both reports"), **about)
    low, high, _ = found.interval or (None, None, None)
    mde = minimum_detectable(found, level=settings.level)
    return Comparison(
        metric, field, slice_, **about, old=found.old, new=found.new, difference=found.difference, low=low, high=high,
        p=found.p, p_adjusted=None, mde=mde, fixed=found.fixed, broken=found.broken, test=found.test,
        needed=_needed(found, mde, settings.level) if slice_ == ALL else None, level=settings.level,
    )  # fmt: skip


def _needed(found: PairedDifference, mde: float | None, level: float) -> int | None:
    """How many rows like these would show the observed difference, were it the true one."""
    effect = abs(found.difference)
    # Rows grow with the square of what the effect is too small by.
    if mde is None or not found.sd or effect >= mde or effect * _HOPELESS**0.5 < mde:
        return None
    if found.test == "mcnemar" and found.fixed is not None and found.broken is not None:
        return needed_for_share(effect, (found.fixed + found.broken) / found.n, level=level)
    return needed_for_mean(
        effect, found.sd, design_effect=found.design_effect, cluster_size=found.n / found.units, level=level
    )


def span(metric: str, field: str) -> float:
    """The length of the range that a field's numbers lie in: 1, or 2 for cosines."""
    if metric not in METRICS:
        return 1.0
    known = {one.name: one.high - one.low for one in METRICS[metric]().fields}
    # A field of its own for each embedding model: it is named after the model, and has the range of the others.
    return known.get(field, max(known.values()))
