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

_LEVEL = 0.995
"""The level at which labelled and unlabelled samples must differ: two tests, and few false alarms."""


def labels_selected(samples: PairedSamples, policy: Policy) -> Iterator[Veto | str]:
    """Check that samples with labels are like those without, as far as their scores can tell."""
    by_labels = [rule.field for rule in policy.rules if rule.kind == "people" or rule.field.startswith(f"{LABEL}.")]
    if not by_labels or any(LABELLED not in report.names for report in (samples.old, samples.new)):
        return

    # How many of the samples of both releases have labels in both
    labels = samples.scores(LABELLED)
    compared = samples.in_old & samples.in_new & ~samples.changed
    labelled = compared & (labels.old_status == SCORED) & (labels.new_status == SCORED)
    n_labelled, n_compared = int(labelled.sum()), int(compared.sum())
    if not 0 < n_labelled < n_compared:
        return
    counted = f"{n_labelled:,} of {n_compared:,} samples have labels in both releases"

    # What the policy says of how they were drawn
    if policy.labels == "chosen":
        yield f"{counted}, and these were chosen: what their labels say holds for these samples."
    else:
        source = "as the policy says they were" if policy.labels == "random" else "which the policy does not say"
        yield f"{counted}; what their labels say of all samples holds if they were drawn at random, {source}."

    # A score that differs between samples with and without labels shows that somebody chose
    predictor = next((name for name in headlines([samples.old, samples.new]) if not name.startswith(f"{LABEL}.")), "")
    if predictor and (difference := _difference(samples, predictor, compared, labelled)):
        if policy.labels == "random" or (policy.labels is None and n_labelled < MOST_LABELLED * n_compared):
            yield from (
                Veto(name, f"{counted}, and these are not like the others: {difference}")
                for name in dict.fromkeys(by_labels)
            )
        else:
            yield f"The samples with labels are not like the others: {difference}."


def _difference(samples: PairedSamples, name: str, compared: Mask, labelled: Mask) -> str:
    """Say how the samples with labels differ from the others by a score; empty where that is not significant."""
    scores = samples.scores(name)
    low, high = samples.range(name)
    scored = compared & (scores.old_status == SCORED) & (scores.new_status == SCORED)
    parts = [scored & labelled, scored & ~labelled]
    if any(part.sum() < 2 for part in parts):
        return ""
    changes, span = scores.new - scores.old, high - low
    # By how much the scores changed, and then how high those of the new release are
    for values, ends in ((changes, (-span, span)), (scores.new, (low, high))):
        estimates = [
            Estimate(
                mean(values[part]),
                mean_interval(values[part], samples.codes(part), low=ends[0], high=ends[1], level=_LEVEL),
            )
            for part in parts
        ]
        interval = independent_difference(estimates[0], estimates[1])
        if interval and not interval.low <= 0 <= interval.high:
            change_labelled, change_unlabelled = (
                f"from {mean(scores.old[part]):.3f} to {mean(scores.new[part]):.3f}" for part in parts
            )
            return f"{name} went {change_labelled} on the samples with labels, and {change_unlabelled} on the others"
    return ""
