"""Warnings to read before trusting the difference between two reports, in whole sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from answerkey.metrics_core.comparison import ALL, FieldComparison
from answerkey.metrics_core.metrics.preference import Preference
from answerkey.tasks.compare.attribution import signature_changes
from answerkey.tasks.compare.paired_samples import PairedSamples
from answerkey.tasks.reports.manifest import changed_models
from answerkey.tasks.reports.report import Report, Score, labels

LENGTH_RATIO = 1.5
"""Of median answer lengths, either way: above it length alone moves the scores that reward overlap."""

_COVERAGE_GAP = 0.01


def comparison_warnings(samples: PairedSamples, metrics: Sequence[str]) -> tuple[str, ...]:
    """Answer lengths, samples and scores that only one report has, samples that changed, methods that differ.

    `metrics` are those that are compared; nothing is said of others.
    """
    differ = {metric: why for metric, why in differing_methods(samples.old, samples.new).items() if metric in metrics}
    return (
        *_length(samples),
        *(f"{metric} is not compared: {why}" for metric, why in differ.items()),
        *changed_models(samples.old.manifest, samples.new.manifest, [one for one in metrics if one not in differ]),
        *_samples(samples),
        *_swayed(samples.new, metrics),
        *_coverage(samples.old, samples.new, [metric for metric in metrics if metric not in differ]),
    )


def differing_methods(old: Report, new: Report) -> dict[str, str]:
    """By metric that both reports have and that they computed differently: what differs, in words."""
    before: Mapping[str, str] = old.manifest["signatures"]
    after: Mapping[str, str] = new.manifest["signatures"]
    return {
        metric: "computed in another way, "
        + ", ".join(str(change) for change in signature_changes(before[metric], signature))
        for metric, signature in after.items()
        if before.get(metric, signature) != signature
    }


def unanswered_warnings(new: Report, rows: Sequence[FieldComparison]) -> Iterator[str]:
    """One line for each field that seems better only because answers were left out."""
    for row in rows:
        least = row.low_with_unanswered
        if row.slice == ALL and row.low is not None and least is not None and least <= 0 < row.low:
            yield (
                f"{row.name} is not called better: {new.release} did not answer {row.n_unanswered:,} samples that have "
                f"a score in the old report, and with the lowest score for them the interval starts at {least:+.3f}"
            )


def _length(samples: PairedSamples) -> Iterator[str]:
    both = np.isfinite(samples.old_length) & np.isfinite(samples.new_length)
    if not both.any():
        return
    old, new = float(np.median(samples.old_length[both])), float(np.median(samples.new_length[both]))
    # An answer of no characters is a length too, and nothing can be divided by it.
    ratio = (max(old, new) or 1.0) / (min(old, new) or 1.0)
    if ratio > LENGTH_RATIO:
        yield (
            f"answers are {ratio:,.3g} times {'longer' if new > old else 'shorter'}: the median went from {old:,.6g} "
            f"to {new:,.6g} characters. Scores that reward overlap (F1, precision, BLEU, similarity) move with length "
            "alone; go by recall, judges and human labels"
        )


def _samples(samples: PairedSamples) -> Iterator[str]:
    """One line about all samples that are not compared, whether the data set or only the answers have changed."""
    names = labels((samples.old, samples.new))
    versions = samples.old.dataset_version, samples.new.dataset_version
    masks = {
        f"only in {names[samples.old.report_id]}": samples.in_old & ~samples.in_new,
        f"only in {names[samples.new.report_id]}": samples.in_new & ~samples.in_old,
        "with another question or other references": samples.changed,
        "with other facts, left out of ground_truth_similarity": samples.facts_changed & ~samples.changed,
    }
    found = [f"{what}: {n:,}" for what, mask in masks.items() if (n := int(mask.sum()))]
    if versions[0] == versions[1] and not found:
        return
    start = "the reports do not have the same samples"
    if versions[0] != versions[1]:
        start = f"the data set changed from version {versions[0]} to {versions[1]}"
    same = int((samples.in_old & samples.in_new & ~samples.changed).sum())
    yield (
        f"{start} ({', '.join(found) or 'no question and no reference differs'}); the {same:,} samples that are the "
        "same in both are compared"
    )


def _swayed(new: Report, metrics: Sequence[str]) -> Iterator[str]:
    """The position bias of a judge that compared two answers."""
    means = {score.field: score.mean for score in new.overall if score.metric == Preference.name}
    consistent, first = means.get("consistent"), means.get("first")
    if Preference.name in metrics and consistent is not None and first is not None and consistent < 1:
        # A pair on which both orders agree counts a half, so what is left is that of the pairs which the order decided.
        shown_first = 0.5 + (first - 0.5) / (1 - consistent)
        yield (
            f"{Preference.name}: the order in which the answers were shown decided {1 - consistent:.1%} of the pairs, "
            f"which count as ties; in these, the answer shown first was preferred {shown_first:.1%} of the time"
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
