"""Warnings to read before trusting a number, and the summary at the top of a page without a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from answerkey.metrics_core.comparison import LENGTH_ADVICE, Comparison
from answerkey.metrics_core.decide.intervals import LEVEL
from answerkey.tasks.gate.verdicts import ReleaseVerdict
from answerkey.tasks.publish.page.model import MOST_NAMED, Release, Warning
from answerkey.tasks.publish.text import ends, headline, number, percent
from answerkey.tasks.reports.manifest import (
    check_notes,
    depth_warnings,
    model_warnings,
    uniform_warnings,
)
from answerkey.tasks.reports.report import Report, Score
from answerkey.tasks.validate.validate import Check

_LARGE_QUARANTINE = 0.05
_COVERAGE_GAP = 0.01
_CHECKS = {
    "length_drift": f"Answers differ in length between the releases{{span}}. {LENGTH_ADVICE}",
    "same_samples": "The releases do not have the same samples",
}


def warnings(
    releases: Sequence[Release], comparisons: Sequence[Comparison], checks: Sequence[Check], n_quarantined: int
) -> tuple[Warning, ...]:
    """All of them, the serious ones first, each kind once.

    A comparison of the only two releases has its own words on what sets them apart, on the samples that both have. Of
    several comparisons, the warnings of the last one are spelt out, and those of the others are one.
    """
    all_warnings = []
    if comparisons:
        all_warnings = [Warning(True, line) for line in _lines_about(comparisons[-1])]
    earlier = [pair for pair in comparisons[-2::-1] if _lines_about(pair)]
    if earlier:
        names = ", ".join(dict.fromkeys(pair.new for pair in earlier))
        details = tuple(chain.from_iterable(map(_lines_about, earlier)))
        all_warnings.append(Warning(True, f"There are warnings about {names} too", details))

    # What a comparison says stands for what the reports show
    said_by_comparison = ["length_drift"] if comparisons else []
    if comparisons and len(releases) <= 2:
        said_by_comparison = list(_CHECKS)
    else:
        all_warnings += _what_sets_apart(releases)

    # Of each report by itself, and of the run
    for serious, title, sentences in _OF_REPORTS:
        lines: list[str] = []
        for release in releases:
            lines += (f"{release.label}: {sentence}" for sentence in sentences(release.report))
        if lines:
            all_warnings.append(Warning(serious, title, tuple(lines)))

    # Checks of the data that failed, each message once by the rule
    messages: dict[str, dict[str, None]] = {}
    for check in checks:
        if check.rule in _CHECKS and check.rule not in said_by_comparison and not check.success:
            messages.setdefault(check.rule, {})[check.message] = None
    lengths = ""
    medians = sorted(
        (release.median_length, release.label) for release in releases if release.median_length is not None
    )
    if medians and medians[0][0] != medians[-1][0]:
        low, shortest = medians[0]
        high, longest = medians[-1]
        lengths = f" (median of {low:,.0f} characters in {shortest}, {high:,.0f} in {longest})"
    for rule, texts in messages.items():
        all_warnings.append(Warning(True, _CHECKS[rule].replace("{span}", lengths), tuple(texts)))
    # A run has one quarantine for all its reports
    rows_by_run = {release.report.run_id: release.report.manifest["rows"]["read"] for release in releases}
    n_read = sum(rows_by_run.values())
    if n_quarantined and n_read:
        share = n_quarantined / n_read
        rows = "row was" if n_quarantined == 1 else "rows were"
        title = f"{n_quarantined:,} {rows} put in quarantine and not scored: {percent(share)} of those read"
        all_warnings.append(Warning(share > _LARGE_QUARANTINE, title))
    return tuple(sorted(dict.fromkeys(all_warnings), key=lambda warning: not warning.serious))


def _lines_about(comparison: Comparison) -> list[str]:
    reasons = [comparison.not_comparable] if comparison.not_comparable else []
    return [f"{comparison.new} against {comparison.old}: {text}" for text in (*reasons, *comparison.warnings)]


def _what_sets_apart(releases: Sequence[Release]) -> Iterable[Warning]:
    """Yield how releases differ in what their scores mean and in what these are about."""
    # By metric and signature, by version of the data, and by metric and release
    labels_by_signature: dict[str, dict[str, list[str]]] = {}
    labels_by_version: dict[str, list[str]] = {}
    scores_by_metric: dict[str, dict[str, Score]] = {}
    totals: dict[str, int] = {}
    for release in releases:
        label = release.label
        report = release.report
        for metric, signature in report.manifest["signatures"].items():
            labels_by_signature.setdefault(metric, {}).setdefault(signature, []).append(label)
        labels_by_version.setdefault(report.dataset_version, []).append(label)
        for score in report.overall:
            scores_by_metric.setdefault(score.metric, {}).setdefault(label, score)
        totals[label] = report.n_total

    # Other methods, other data
    for metric, by_signature in labels_by_signature.items():
        if len(by_signature) > 1:
            lines = tuple(f"{', '.join(labels)}: {signature}" for signature, labels in by_signature.items())
            yield Warning(True, f"{metric} is not compared: computed in different ways", lines)
    if len(labels_by_version) > 1:
        lines = tuple(f"{version}: {', '.join(labels)}" for version, labels in labels_by_version.items())
        yield Warning(True, "The releases answered different versions of the data set", lines)

    # Other rows
    for metric, scores in scores_by_metric.items():
        shares = [score.n_scored / max(1, score.n_total - score.n_undefined) for score in scores.values()]
        if max(shares) - min(shares) > _COVERAGE_GAP:
            lines = tuple(f"{label}: {score.n_scored:,} of {score.n_total:,}" for label, score in scores.items())
            title = f"{metric}: scored on different shares of the rows; those without a score may be the hard ones"
            yield Warning(True, title, lines)
    if len(set(totals.values())) > 1:
        lines = tuple(f"{label}: {n:,} answers" for label, n in totals.items())
        yield Warning(False, "The releases do not have the same number of answers", lines)


_OF_REPORTS: Sequence[tuple[bool, str, Callable[[Report], Iterable[str]]]] = (
    (
        True,
        "Not every row could be scored: see coverage for the bounds",
        lambda report: [report.message or "rows have no score"] if report.status == "PARTIAL" else [],
    ),
    (False, "How the judge did on questions with known answers", lambda report: check_notes(report.manifest)),
    (
        False,
        "The offline judge warns of some of its own verdicts",
        lambda report: depth_warnings(report.manifest),
    ),
    (
        True,
        "A judge gave nearly all long answers the same score",
        lambda report: uniform_warnings(report.manifest),
    ),
    (
        True,
        "A judge was several models within one report: its scores mix theirs",
        lambda report: model_warnings(report.manifest),
    ),
)
"""Whether a warning is serious, its title, and what it says of each report."""


def summary(
    releases: Sequence[Release], comparisons: Sequence[Comparison], gates: Sequence[ReleaseVerdict], primary: str
) -> str:
    """The page in one or two plain sentences: what is shown about the field that decides, and what the gate says.

    No difference is claimed that was not tested for.
    """
    if comparisons:
        newest = comparisons[-1]
        verdicts = [gated.verdict for gated in gates if (gated.old, gated.new) == (newest.old, newest.new)]
        return headline(newest, primary, next(iter(verdicts), None))

    # Without a comparison: the mean of each release
    scored: list[tuple[float, str]] = []
    for release in releases:
        score = release.report.score(primary)
        if score and score.mean is not None:
            text = f"{release.label} {number(score.mean)}"
            if score.ci_low is not None:
                text += f" ({percent(LEVEL)} interval {ends(score.ci_low, score.ci_high)})"
            scored.append((score.mean, text))
    if not scored:
        return f"No release has a mean of {primary}: too few answers have a score."

    # Of many releases only the best and the last
    if len(scored) > MOST_NAMED:
        highest = max(scored, key=lambda mean_and_text: mean_and_text[0])
        newest_mean = "" if highest is scored[-1] else f" The last one is {scored[-1][1]}."
        return f"The highest {primary} of {len(scored)} releases: {highest[1]}.{newest_mean} No difference was tested."
    tested = " No difference was tested." if len(scored) > 1 else ""
    return f"{primary}: {', '.join(text for _, text in scored)}.{tested}"
