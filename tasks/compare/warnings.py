"""Warnings to read before trusting the difference between two reports, in whole sentences."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from answerkey.metrics_core.comparison import REWARDS_OVERLAP, Comparison, FieldComparison, length_warning
from answerkey.metrics_core.decide.bounded_mean import ENOUGH
from answerkey.metrics_core.decide.evidence import Veto
from answerkey.metrics_core.decide.intervals import clopper_pearson, decimals
from answerkey.metrics_core.decide.policy import ALL
from answerkey.tasks.compare.difference import signature_changes
from answerkey.tasks.compare.paired_samples import PairedSamples, names_of
from answerkey.tasks.reports.manifest import changed_models, noted, uniform_warnings
from answerkey.tasks.reports.report import Report
from answerkey.tasks.warehouse.sql import statements

_SQL = statements(__name__)

MOVES_WITH_LENGTH = "moves with length"
"""What is said of a field where the lengths of the answers differ so much."""
_REWARDS_OVERLAP = re.compile(
    r"(bleu|chrf|rouge|semantic_similarity)\.|.*[._](precision|f1|similarity|bleu|bleu_score)$"
)

LEAST_CONSISTENT = 0.8
"""The share of pairs on which both orders must give one verdict."""

_COVERAGE_GAP = 0.01
_FALLBACK_SHIFT = 0.01
"""How far verdicts of fallback judges may move a difference: half of the smallest margin that is usual."""
_MOST_RELABELLED = 0.01
"""Of the labelled samples: where more answers than that have two labels, labels do not decide between releases."""


def comparison_warnings(samples: PairedSamples, metrics: Sequence[str]) -> tuple[str, ...]:
    """Answer lengths, samples and scores that only one report has, samples that changed, methods that differ.

    `metrics` are those that are compared; nothing is said of others.
    """
    differ = {metric: why for metric, why in differing_methods(samples.old, samples.new).items() if metric in metrics}
    return (
        *length_warning(samples.old_length, samples.new_length),
        *(f"{metric} is not compared: {why}" for metric, why in differ.items()),
        *changed_models(samples.old.manifest, samples.new.manifest, [one for one in metrics if one not in differ]),
        *_samples(samples),
        *_of_judges(samples, metrics),
        *samples.cluster_notes,
        *relabelled_notes(samples),
        *_coverage(samples.old, samples.new, [metric for metric in metrics if metric not in differ]),
    )


def confounded(comparison: Comparison) -> frozenset[str]:
    """The fields, as METRIC.FIELD, that a warning of the comparison says not to go by: lengths alone move them.

    >>> row = FieldComparison("token_overlap", "f1", "all")
    >>> said = "answers are 2 times longer. Scores that reward overlap move with length alone"
    >>> set(confounded(Comparison("a", "b", (row,), (said,)))), set(confounded(Comparison("a", "b", (row,))))
    ({'token_overlap.f1'}, set())
    """
    if not any(REWARDS_OVERLAP in warning for warning in comparison.warnings):
        return frozenset()
    return frozenset(row.name for row in comparison.overall if _REWARDS_OVERLAP.match(row.name))


def differing_methods(old: Report, new: Report) -> dict[str, str]:
    """By metric that both reports have and that they computed differently: what differs, in words.

    Reports that were judged by the same judges in name differ where fallback judges gave more of the verdicts in one.
    """
    before: Mapping[str, str] = old.manifest["signatures"]
    after: Mapping[str, str] = new.manifest["signatures"]
    reasons = {
        metric: "computed in a different way, "
        + ", ".join(str(change) for change in signature_changes(before[metric], signature))
        for metric, signature in after.items()
        if before.get(metric, signature) != signature
    }
    same = [metric for metric in after if metric in before and metric not in reasons]
    return reasons | {metric: why for metric in same if (why := _other_judges(old, new, metric))}


def _other_judges(old: Report, new: Report, metric: str) -> str:
    """Why the verdicts of fallback judges forbid a comparison, as part of a sentence; empty where they do not.

    A fallback that gave a share more of the verdicts of one report may have moved its mean by that share, or by what is
    known where it has judged the same answers as the named judges: the share times the most that they may differ on.
    """
    reports = (old, new)
    sides = [noted(report.manifest, "fallbacks").get(metric) for report in reports]
    shift = 0.0
    for judge in sorted({judge for side in sides if side for judge in side["by"]}):
        shares = [side["by"].get(judge, 0) / side["of"] if side else 0.0 for side in sides]
        # Where more of the verdicts are the fallback's: another release has other answers, on which it may not differ.
        both, differ = (sides[shares.index(max(shares))] or {"both": {}})["both"].get(judge, (0, 0))
        interval = clopper_pearson(differ, both) if both else None
        shift += abs(shares[1] - shares[0]) * (interval.high if interval else 1.0)
    if shift <= _FALLBACK_SHIFT:
        return ""
    counts = [
        f"{sum(side['by'].values()):,} of {side['of']:,} answers of {name}"
        for name, side in zip(names_of(old, new), sides, strict=True)
        if side
    ]
    again = " and ".join(
        f"answerkey rerun {report.report_id} --only-failed" for report, side in zip(reports, sides, strict=True) if side
    )
    return f"judged by other judges: fallbacks judged {' and '.join(counts)}; ask the named judges again with {again}"


def judge_vetoes(samples: PairedSamples, metric: str) -> tuple[str, ...]:
    """Why the scores of a metric decide nothing because of what its judges did, each as part of a sentence."""
    reasons = []
    if samples.new.kind(metric) == "judge":
        about = {**samples.ids, "metric": metric, "signature": samples.new.manifest["signatures"].get(metric)}
        [(n_runs, n_changed)] = samples.home.rows(_SQL["changed_judges"], about)
        if 0 < n_changed < n_runs:
            reasons.append(
                "a judge changed under its name, and some of the scores are from before and some from after; evaluate "
                "both releases with a version of the judge that stays as it is"
            )
    for report, name in zip((samples.old, samples.new), samples.names, strict=True):
        orders = noted(report.manifest, "orders").get(metric, {"consistent": 0, "decided": 0})
        asked = orders["consistent"] + orders["decided"]
        if orders["consistent"] < LEAST_CONSISTENT * asked:
            reasons.append(
                f"the judge gave one verdict in both orders on only {orders['consistent']:,} of {asked:,} pairs of "
                f"{name}, less than {LEAST_CONSISTENT:.0%}"
            )
    return tuple(reasons)


def judge_notes(old: Report, new: Report, metric: str) -> tuple[str, ...]:
    """A sentence for each release in which a judge of the metric gave one verdict to all."""
    return tuple(
        f"{name}: {line}"
        for report, name in zip((old, new), names_of(old, new), strict=True)
        for line in uniform_warnings(report.manifest)
        if line.startswith(f"{metric}: ")
    )


def relabelled_notes(samples: PairedSamples) -> Iterator[str]:
    """A sentence about answers, the same word for word, that people called right in one release only."""
    if samples.relabelled.any():
        yield f"{_relabelled(samples)}. That alone moves the labels: label these answers once for both releases."


def relabelled_vetoes(samples: PairedSamples, fields: Sequence[str]) -> Iterator[Veto]:
    """A veto for each METRIC.FIELD of `fields`, which rest on human labels, where more than 1 % of these contradict."""
    if samples.relabelled.sum() > _MOST_RELABELLED * samples.labelled.sum():
        reason = f"{_relabelled(samples)}; label these answers once for both releases"
        yield from (Veto(name, reason) for name in fields)


def _relabelled(samples: PairedSamples) -> str:
    n, (old, new) = int(samples.relabelled.sum()), samples.names
    what = "answer with the same text has" if n == 1 else "answers with the same text have"
    return (
        f"{n:,} {what} a different label in {new} than in {old}, of "
        f"{int(samples.labelled.sum()):,} questions that people labelled in both"
    )


def unanswered_warnings(new: Report, rows: Sequence[FieldComparison]) -> Iterator[str]:
    """One line for each field that seems better only because answers were left out."""
    for row in rows:
        least = row.low_with_unanswered
        if row.slice == ALL and row.low is not None and least is not None and least <= 0 < row.low:
            start = f"{least:+.{decimals(least, 0.0)}f}"
            yield (
                f"{row.name} is not called better: {new.release} did not answer {row.n_unanswered:,} samples that have "
                f"a score in the old report, and with the lowest score for them the interval starts at {start}"
            )


def few_samples_note(name: str, n: int) -> str:
    """A sentence on a field without a highest value that too few samples, or clusters, have for its interval."""
    return f"{name} has no highest value, and {n:,} samples show few of its large ones: its interval may be too narrow"


def few_samples_notes(samples: PairedSamples, rows: Sequence[FieldComparison]) -> Iterator[str]:
    """One line for each field without a highest value that is called better or worse on too few samples."""
    for row in rows:
        n = row.n_clusters or row.n_common
        is_shown = row.slice == ALL and row.finding in ("better", "worse")
        if is_shown and n < ENOUGH and math.isinf(samples.range(row.name)[1]):
            yield few_samples_note(row.name, n)


def _samples(samples: PairedSamples) -> Iterator[str]:
    """One line about all samples that are not compared, whether the data set or only the answers have changed."""
    old, new = samples.names
    versions = samples.old.dataset_version, samples.new.dataset_version
    masks = {
        f"only in {old}": samples.in_old & ~samples.in_new,
        f"only in {new}": samples.in_new & ~samples.in_old,
        "with a different question or different references": samples.changed,
        "with other facts, left out of ground_truth_similarity": samples.facts_changed & ~samples.changed,
    }
    found = [f"{what}: {n:,}" for what, mask in masks.items() if (n := int(mask.sum()))]
    if versions[0] == versions[1] and not found:
        return
    start = "the reports do not have the same samples"
    # A data set that came with the answers has another version as soon as one answer is missing
    if samples.changed.any() or samples.facts_changed.any() or not found:
        start = f"the data set changed from version {versions[0]} to {versions[1]}"
    same = int((samples.in_old & samples.in_new & ~samples.changed).sum())
    yield (
        f"{start} ({', '.join(found) or 'no question and no reference differs'}); the {same:,} samples that are the "
        "same in both are compared"
    )


def _of_judges(samples: PairedSamples, metrics: Sequence[str]) -> Iterator[str]:
    """What the judges did; one that nearly always goes by the order of two answers is no judge of them."""
    for metric in dict.fromkeys(metrics):
        yield from judge_notes(samples.old, samples.new, metric)
        yield from (f"{metric}: {reason}" for reason in judge_vetoes(samples, metric))


def _coverage(old: Report, new: Report, metrics: Sequence[str]) -> Iterator[str]:
    """Metrics with the same coverage, of the rows that should have a score, share a line."""
    lines: dict[str, list[str]] = {}
    for metric in dict.fromkeys(metrics):
        scores = [next((one for one in report.overall if one.metric == metric), None) for report in (old, new)]
        counts = [(one.n_scored, one.n_total - one.n_undefined) for one in scores if one]
        shares = [scored / wanted if wanted else 1.0 for scored, wanted in counts]
        if len(shares) == 2 and abs(shares[0] - shares[1]) >= _COVERAGE_GAP:
            shown = " and ".join(f"{scored:,} of {wanted:,}" for scored, wanted in counts)
            lines.setdefault(shown, []).append(metric)
    for shown, names in lines.items():
        yield (
            f"{', '.join(names)}: scored {shown}; rows without a score are not compared, and they may be the hard ones"
        )
