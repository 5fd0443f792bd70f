"""Warnings to read before trusting the difference between two reports, in whole sentences."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from answerkey.metrics_core.comparison import REWARDS_OVERLAP, Comparison, FieldComparison, length_warning
from answerkey.metrics_core.decide.bounded_mean import ENOUGH
from answerkey.metrics_core.decide.evidence import Veto
from answerkey.metrics_core.decide.intervals import decimals
from answerkey.metrics_core.decide.policy import ALL, Policy
from answerkey.metrics_core.decide.verdict import PRECEDENCE
from answerkey.metrics_core.metrics.label import LABEL
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

_MAX_VERDICTS = 3
"""Earlier verdicts that are named one by one; of more, the outcomes are counted."""
_COVERAGE_GAP = 0.01
_FALLBACK_SHIFT = 0.01
"""How far verdicts of fallback judges may move a difference: half of the smallest margin that is usual."""
_MAX_RELABELLED = 0.01
"""Of the labelled samples: where more answers than that have two labels, labels do not decide between releases."""


def comparison_warnings(samples: PairedSamples, metrics: Sequence[str]) -> tuple[str, ...]:
    """Warn of answer lengths, samples and scores of one report alone, samples that changed, methods that differ.

    `metrics` are those that are compared; nothing is said of others.
    """
    # What is not compared has its reason, and no further warning
    methods = differing_methods(samples.old, samples.new)
    compared = [metric for metric in metrics if metric not in methods]
    # A judge that nearly always goes by the order of two answers is no judge of them
    judge_lines: list[str] = []
    for metric in dict.fromkeys(metrics):
        judge_lines += judge_notes(samples.old, samples.new, metric)
        judge_lines += [f"{metric}: {reason}" for reason in judge_vetoes(samples, metric)]
    return (
        *length_warning(samples.old_length, samples.new_length),
        *(f"{metric} is not compared: {reason}" for metric, reason in methods.items() if metric in metrics),
        *changed_models(samples.old.manifest, samples.new.manifest, compared),
        *_sample_warnings(samples),
        *judge_lines,
        *samples.cluster_notes,
        *relabelled_notes(samples),
        *_coverage_warnings(samples.old, samples.new, compared),
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
    """Say what differs, by each metric that both reports have and that they computed in different ways.

    Reports that were judged by the same judges in name differ where fallback judges gave more of the verdicts in one.
    """
    old_signatures: Mapping[str, str] = old.manifest["signatures"]
    reasons = {}
    for metric, signature in new.manifest["signatures"].items():
        old_signature = old_signatures.get(metric)
        if old_signature == signature:
            if reason := _fallback_reason(old, new, metric) or _scale_reason(old, new, metric):
                reasons[metric] = reason
        elif old_signature is not None:
            changes = ", ".join(map(str, signature_changes(old_signature, signature)))
            reasons[metric] = f"computed in a different way, {changes}"
    return reasons


def _scale_reason(old: Report, new: Report, metric: str) -> str:
    """Say which scores of another tool have two scales, as part of a sentence; empty where none has.

    The range of such scores is what was seen. Shares of at most 1 have another scale than scores whose mean is above 2.
    """
    if new.kind(metric) != "given":
        return ""
    for narrow, wide in ((old, new), (new, old)):
        for score in wide.overall:
            is_share = score.metric == metric and score.name in narrow.names and narrow.range(score.name)[1] == 1.0
            if is_share and score.mean is not None and score.mean > 2:
                in_narrow, in_wide = names_of(narrow, wide)
                return (
                    f"{score.name} has two scales: at most 1 in {in_narrow}, {score.mean:.3g} on average in {in_wide}"
                )
    return ""


def _fallback_reason(old: Report, new: Report, metric: str) -> str:
    """Say why the verdicts of fallback judges forbid a comparison, as part of a sentence; empty where they do not.

    A fallback that gave a share more of the verdicts of one report may have moved its mean by that share.
    """
    notes = [noted(report.manifest, "fallbacks").get(metric, {"of": 0, "by": {}}) for report in (old, new)]
    shift = 0.0
    for judge in notes[0]["by"].keys() | notes[1]["by"].keys():
        shares = [note["by"].get(judge, 0) / max(note["of"], 1) for note in notes]
        shift += abs(shares[1] - shares[0])
    if shift <= _FALLBACK_SHIFT:
        return ""
    counts = []
    commands = []
    for report, name, note in zip((old, new), names_of(old, new), notes, strict=True):
        if note["of"]:
            counts.append(f"{sum(note['by'].values()):,} of {note['of']:,} answers of {name}")
            commands.append(f"answerkey rerun {report.report_id} --only-failed")
    return (
        f"judged by other judges: fallbacks judged {' and '.join(counts)}; ask the named judges again with "
        f"{' and '.join(commands)}"
    )


def judge_vetoes(samples: PairedSamples, metric: str) -> tuple[str, ...]:
    """Say why the scores of a metric decide nothing because of what its judges did, each as part of a sentence."""
    reasons = []
    # A run asks kept questions again, and notes where the replies are others
    if samples.new.kind(metric) == "judge":
        signature = samples.new.manifest["signatures"].get(metric)
        parameters = {**samples.ids, "metric": metric, "signature": signature}
        [(n_runs, n_changed)] = samples.home.rows(_SQL["changed_judges"], parameters)
        if 0 < n_changed < n_runs:
            reasons.append(
                "a judge changed under its name, and some of the scores are from before and some from after; evaluate "
                "both releases with a version of the judge that stays as it is"
            )

    # A judge of pairs that goes by the order of two answers
    for report, name in zip((samples.old, samples.new), samples.names, strict=True):
        orders = noted(report.manifest, "orders").get(metric, {"consistent": 0, "decided": 0})
        n_pairs = orders["consistent"] + orders["decided"]
        if orders["consistent"] < LEAST_CONSISTENT * n_pairs:
            reasons.append(
                f"the judge gave one verdict in both orders on only {orders['consistent']:,} of {n_pairs:,} pairs of "
                f"{name}, less than {LEAST_CONSISTENT:.0%}"
            )
    return tuple(reasons)


def judge_notes(old: Report, new: Report, metric: str) -> tuple[str, ...]:
    """Write a sentence for each release in which a judge of the metric gave one verdict to all."""
    notes = []
    for report, name in zip((old, new), names_of(old, new), strict=True):
        notes += [f"{name}: {line}" for line in uniform_warnings(report.manifest) if line.startswith(f"{metric}: ")]
    return tuple(notes)


def relabelled_notes(samples: PairedSamples) -> Iterator[str]:
    """Yield a sentence about answers, the same word for word, that people called right in one release only."""
    if samples.relabelled.any():
        yield f"{_relabelled(samples)}. That alone moves the labels: label these answers once for both releases."


def removed_notes(samples: PairedSamples) -> Iterator[str]:
    """Yield a sentence about questions that earlier reports about the new release had, and that neither report has now.

    Earlier reports are those of the new release that are older than the newer one of the two, and those of the old
    release that a gate held the new one against. A question with the same text under another id has not gone.
    """
    [(n_removed, n_asked)] = samples.home.rows(_SQL["removed"], samples.ids)
    if n_removed:
        were = "was" if n_removed == 1 else "were"
        yield (
            f"{n_removed:,} of the {n_asked:,} questions of earlier reports about {samples.names[1]} {were} taken out: "
            "neither report has them."
        )


def check_earlier(samples: PairedSamples, policy: Policy) -> Iterator[Veto | str]:
    """Yield what the past of two releases and their data say against the numbers of a gate: vetoes, and notes."""
    yield from removed_notes(samples)

    # Verdicts other than PASS that other policies came to on the same data and answers: of each policy the newest
    primary = policy.primary.field
    margin = abs(policy.primary.floor)
    this_policy = (primary, margin, sorted(rule.text for rule in policy.rules))
    earlier = []
    for outcome, *earlier_policy in samples.home.rows(_SQL["verdicts"], samples.ids):
        if tuple(earlier_policy) == this_policy or outcome == "PASS":
            continue
        earlier_primary, earlier_margin, _ = earlier_policy
        difference = f"by {earlier_primary}, " if earlier_primary != primary else ""
        is_by_margin = difference or earlier_margin != margin
        difference += f"with margin {earlier_margin:g}" if is_by_margin else "with other rules"
        earlier.append((outcome, difference))
    if len(earlier) == 1:
        [(outcome, difference)] = earlier
        yield f"An earlier verdict on the same data, {difference}, was {outcome}."
    elif earlier:
        verdicts = ", ".join(f"{outcome} {difference}" for outcome, difference in earlier)
        if len(earlier) > _MAX_VERDICTS:
            counts = Counter(outcome for outcome, _ in earlier)
            verdicts = ", ".join(f"{counts[outcome]} {outcome}" for outcome in PRECEDENCE if counts[outcome])
        yield f"{len(earlier):,} earlier verdicts on the same data, by other policies: {verdicts}."

    # Labels that contradict each other are vetoes if they are many, and a note otherwise
    yield from samples.cluster_notes
    by_people = {rule.field for rule in policy.rules if rule.kind == "people" or rule.field.startswith(f"{LABEL}.")}
    if by_people and samples.relabelled.sum() > _MAX_RELABELLED * samples.labelled.sum():
        reason = f"{_relabelled(samples)}; label these answers once for both releases"
        yield from (Veto(name, reason) for name in sorted(by_people))
    else:
        yield from relabelled_notes(samples)


def _relabelled(samples: PairedSamples) -> str:
    """Say how many of the same answers have two labels, as the beginning of a sentence."""
    n = int(samples.relabelled.sum())
    old, new = samples.names
    subject = "answer with the same text has" if n == 1 else "answers with the same text have"
    return (
        f"{n:,} {subject} a different label in {new} than in {old}, of "
        f"{int(samples.labelled.sum()):,} questions that people labelled in both"
    )


def unanswered_warnings(new: Report, rows: Sequence[FieldComparison]) -> Iterator[str]:
    """Yield a line for each field that seems better only because answers were left out."""
    for row in rows:
        low = row.low_with_unanswered
        if row.slice == ALL and row.low is not None and low is not None and low <= 0 < row.low:
            start = f"{low:+.{decimals(low, 0.0)}f}"
            yield (
                f"{row.name} is not called better: {new.release} did not answer {row.n_unanswered:,} samples that have "
                f"a score in the old report, and with the lowest score for them the interval starts at {start}"
            )


def few_samples_note(name: str, n: int) -> str:
    """Write a sentence on a field without a highest value that too few samples, or clusters, have for its interval."""
    return f"{name} has no highest value, and {n:,} samples show few of its large ones: its interval may be too narrow"


def few_samples_notes(samples: PairedSamples, rows: Sequence[FieldComparison]) -> Iterator[str]:
    """Yield a line for each field without a highest value that is called better or worse on too few samples."""
    for row in rows:
        n = row.n_clusters or row.n_common
        has_finding = row.slice == ALL and row.finding in ("better", "worse")
        if has_finding and n < ENOUGH and math.isinf(samples.range(row.name)[1]):
            yield few_samples_note(row.name, n)


def _sample_warnings(samples: PairedSamples) -> Iterator[str]:
    """Yield one line about all samples that are not compared, whether the data set or only the answers changed."""
    old, new = samples.names
    versions = samples.old.dataset_version, samples.new.dataset_version
    masks = {
        f"only in {old}": samples.in_old & ~samples.in_new,
        f"only in {new}": samples.in_new & ~samples.in_old,
        "with a different question or different references": samples.changed,
        "with other facts, left out of ground_truth_similarity": samples.facts_changed & ~samples.changed,
    }
    counts = [f"{description}: {int(mask.sum()):,}" for description, mask in masks.items() if mask.any()]
    if versions[0] == versions[1] and not counts:
        return
    start = "the reports do not have the same samples"
    # A data set that came with the answers has another version as soon as one answer is missing
    if samples.changed.any() or samples.facts_changed.any() or not counts:
        start = f"the data set changed from version {versions[0]} to {versions[1]}"
    n_same = int((samples.in_old & samples.in_new & ~samples.changed).sum())
    yield (
        f"{start} ({', '.join(counts) or 'no question and no reference differs'}); the {n_same:,} samples that are the "
        "same in both are compared"
    )


def _coverage_warnings(old: Report, new: Report, metrics: Sequence[str]) -> Iterator[str]:
    """Yield a line for metrics whose coverage differs; those that cover the same rows share a line."""
    metrics_by_coverage: dict[str, list[str]] = {}
    for metric in dict.fromkeys(metrics):
        # Of the rows that should have a score
        counts = []
        shares = []
        for report in (old, new):
            score = next((score for score in report.overall if score.metric == metric), None)
            if score:
                n_due = score.n_total - score.n_undefined
                counts.append(f"{score.n_scored:,} of {n_due:,}")
                shares.append(score.n_scored / n_due if n_due else 1.0)
        if len(shares) == 2 and abs(shares[0] - shares[1]) >= _COVERAGE_GAP:
            metrics_by_coverage.setdefault(" and ".join(counts), []).append(metric)
    for coverage, names in metrics_by_coverage.items():
        yield (
            f"{', '.join(names)}: scored {coverage}; rows without a score are not compared, and they may be the hard "
            "ones"
        )
