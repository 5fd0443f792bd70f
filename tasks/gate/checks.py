"""What may speak against the numbers of two reports: picked labels, answers that name the reference among others."""

from __future__ import annotations

from collections.abc import Iterator

from answerkey.metrics_core.decide.clustered import Mask, mean, mean_interval
from answerkey.metrics_core.decide.evidence import Veto
from answerkey.metrics_core.decide.intervals import Estimate, independent_difference
from answerkey.metrics_core.decide.policy import Policy
from answerkey.metrics_core.metrics.label import LABEL, LABELLED, MOST_LABELLED
from answerkey.metrics_core.paired_field import SCORED
from answerkey.tasks.compare.paired_samples import PairedSamples
from answerkey.tasks.reports.headline import headlines

_SURE = 0.995
"""The level at which labelled and unlabelled samples must differ: two tests, and few false alarms."""


def labels_selected(samples: PairedSamples, policy: Policy) -> Iterator[Veto | str]:
    """Whether samples with labels are like those without, as far as their scores can tell."""
    by_labels = [rule.field for rule in policy.rules if rule.kind == "people" or rule.field.startswith(f"{LABEL}.")]
    if not by_labels or any(LABELLED not in report.names for report in (samples.old, samples.new)):
        return
    found = samples.scores(LABELLED)
    both = samples.in_old & samples.in_new & ~samples.changed
    labelled = both & (found.old_status == SCORED) & (found.new_status == SCORED)
    n, total = int(labelled.sum()), int(both.sum())
    if not 0 < n < total:
        return
    counted = f"{n:,} of {total:,} samples have labels in both releases"
    if policy.labels == "chosen":
        yield f"{counted}, and these were chosen: what their labels say holds for these samples."
    else:
        drawn = "as the policy says they were" if policy.labels == "random" else "which the policy does not say"
        yield f"{counted}; what their labels say of all samples holds if they were drawn at random, {drawn}."
    predictor = next((name for name in headlines([samples.old, samples.new]) if not name.startswith(f"{LABEL}.")), "")
    if predictor and (difference := _differs(samples, predictor, both, labelled)):
        if policy.labels == "random" or (policy.labels is None and n < MOST_LABELLED * total):
            yield from (
                Veto(name, f"{counted}, and these are not like the others: {difference}")
                for name in dict.fromkeys(by_labels)
            )
        else:
            yield f"The samples with labels are not like the others: {difference}."


def _differs(samples: PairedSamples, name: str, both: Mask, labelled: Mask) -> str:
    """How the samples with labels differ from the others by a score; empty where that is not significant."""
    scores = samples.scores(name)
    low, high = samples.range(name)
    there = both & (scores.old_status == SCORED) & (scores.new_status == SCORED)
    parts = [there & labelled, there & ~labelled]
    if any(part.sum() < 2 for part in parts):
        return ""
    changes, span = scores.new - scores.old, high - low
    for values, ends in ((changes, (-span, span)), (scores.new, (low, high))):
        estimates = [
            Estimate(
                mean(values[part]),
                mean_interval(values[part], samples.codes(part), low=ends[0], high=ends[1], level=_SURE),
            )
            for part in parts
        ]
        interval = independent_difference(estimates[0], estimates[1])
        if interval and not interval.low <= 0 <= interval.high:
            with_labels, without = (
                f"from {mean(scores.old[part]):.3f} to {mean(scores.new[part]):.3f}" for part in parts
            )
            return f"{name} went {with_labels} on the samples with labels, and {without} on the others"
    return ""
