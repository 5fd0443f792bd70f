"""What to know before trusting the difference of two reports, in whole sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tasks.pairing import Pairing
from tasks.report import Report, Score
from tasks.signatures import changes

LENGTH_RATIO = 1.5
"""Of median answer lengths, either way: above it length alone moves the scores that reward overlap."""

_COVERAGE_GAP = 0.01


def cautions(pair: Pairing, metrics: Sequence[str]) -> tuple[str, ...]:
    """Answer lengths, samples and scores that only one report has, samples that changed, methods that differ.

    `metrics` are those that are compared; nothing is said of others.
    """
    differ = {metric: why for metric, why in differing_methods(pair.old, pair.new).items() if metric in metrics}
    return (
        *_length(pair),
        *(f"{metric} is not compared: {why}" for metric, why in differ.items()),
        *_changed(pair),
        *_samples(pair),
        *_coverage(pair.old, pair.new, [metric for metric in metrics if metric not in differ]),
    )


def differing_methods(old: Report, new: Report) -> dict[str, str]:
    """By metric that both reports have and that they computed differently: what differs, in words."""
    before: Mapping[str, str] = old.manifest["signatures"]
    after: Mapping[str, str] = new.manifest["signatures"]
    return {
        metric: "computed in another way, " + ", ".join(str(change) for change in changes(before[metric], signature))
        for metric, signature in after.items()
        if before.get(metric, signature) != signature
    }


def _length(pair: Pairing) -> Iterator[str]:
    both = np.isfinite(pair.old_length) & np.isfinite(pair.new_length)
    if not both.any():
        return
    old, new = float(np.median(pair.old_length[both])), float(np.median(pair.new_length[both]))
    # An answer of no characters is a length too, and nothing can be divided by it.
    ratio = (max(old, new) or 1.0) / (min(old, new) or 1.0)
    if ratio > LENGTH_RATIO:
        yield (
            f"answers are {ratio:,.3g} times {'longer' if new > old else 'shorter'}: the median went from {old:,.6g} "
            f"to {new:,.6g} characters. Scores that reward overlap (F1, precision, BLEU, similarity) move with length "
            "alone; go by recall, by judges and by labels of people"
        )


def _changed(pair: Pairing) -> Iterator[str]:
    if pair.old.dataset_version == pair.new.dataset_version:
        return
    common, changed, facts = (
        int(mask.sum()) for mask in (pair.in_old & pair.in_new, pair.changed, pair.facts_changed & ~pair.changed)
    )
    what = f"{changed:,} of {common:,} common samples have another question or other references and are left out"
    if not changed:
        what = "all common samples have the same question and references"
    if facts:
        what += f"; {facts:,} have other facts and are left out of ground_truth_similarity"
    yield f"the data set changed from version {pair.old.dataset_version} to {pair.new.dataset_version}: {what}"


def _samples(pair: Pairing) -> Iterator[str]:
    only_old, only_new, common = (
        int(mask.sum()) for mask in (pair.in_old & ~pair.in_new, pair.in_new & ~pair.in_old, pair.in_old & pair.in_new)
    )
    if only_old or only_new:
        yield (
            f"the reports do not have the same samples: {only_old:,} only in {pair.old.report_id}, {only_new:,} "
            f"only in {pair.new.report_id}; the {common:,} that both have are compared"
        )


def _coverage(old: Report, new: Report, metrics: Sequence[str]) -> Iterator[str]:
    """Metrics with the same coverage share a line."""
    lines: dict[str, list[str]] = {}
    for metric in dict.fromkeys(metrics):
        before, after = (_first(report, metric) for report in (old, new))
        if before is None or after is None:
            continue
        shares = [_covered(score) for score in (before, after)]
        if abs(shares[0] - shares[1]) >= _COVERAGE_GAP:
            counts = " and ".join(_counts(score) for score in (before, after))
            lines.setdefault(counts, []).append(metric)
    for counts, names in lines.items():
        yield (
            f"{', '.join(names)}: scored {counts}; rows without a score are no part of the comparison, and they may be "
            "the hard ones"
        )


def _first(report: Report, metric: str) -> Score | None:
    return next((score for score in report.overall if score.metric == metric), None)


def _covered(score: Score) -> float:
    """The share of the rows that has a score, of those that should have one."""
    wanted = score.n_total - score.n_undefined
    return score.n_scored / wanted if wanted else 1.0


def _counts(score: Score) -> str:
    return f"{score.n_scored:,} of {score.n_total - score.n_undefined:,}"
