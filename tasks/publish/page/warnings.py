"""Warnings to read before trusting a number, and the summary at the top of a page without a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from answerkey.metrics_core.comparison import LENGTH_ADVICE, Comparison
from answerkey.metrics_core.decide.intervals import LEVEL
from answerkey.tasks.gate.verdicts import ReleaseVerdict
from answerkey.tasks.publish.page.model import MOST_NAMED, Release, Warning
from answerkey.tasks.publish.tables import CheckSummary
from answerkey.tasks.publish.text import ends, headline, number, percent
from answerkey.tasks.reports.manifest import (
    check_notes,
    depth_warnings,
    model_warnings,
    uniform_warnings,
)
from answerkey.tasks.reports.report import Report, Score

_LARGE_QUARANTINE = 0.05
_COVERAGE_GAP = 0.01
_CHECKS = {
    "length_drift": f"Answers differ in length between the releases{{span}}. {LENGTH_ADVICE}",
    "same_samples": "The releases do not have the same samples",
}


def warnings(
    releases: Sequence[Release], comparisons: Sequence[Comparison], checks: Sequence[CheckSummary], n_quarantined: int
) -> tuple[Warning, ...]:
    """All of them, the serious ones first, each kind once.

    A comparison of the only two releases has its own words on what sets them apart, on the samples that both have. Of
    several comparisons, the warnings of the last one are spelt out, and those of the others are one.
    """
    compared = bool(comparisons) and len(releases) <= 2
    covered = tuple(_CHECKS) if compared else ("length_drift",) if comparisons else ()
    all_warnings = [
        *(Warning(True, line) for last in comparisons[-1:] for line in _lines_about(last)),
        *_earlier_pairs(comparisons[:-1]),
        *([] if compared else [*_methods(releases), *_data(releases), *_coverage(releases)]),
        *_reports(releases),
        *_checks([check for check in checks if check.rule not in covered], releases),
        *_quarantine(releases, n_quarantined),
    ]
    return tuple(sorted(dict.fromkeys(all_warnings), key=lambda warning: not warning.serious))


def _lines_about(comparison: Comparison) -> list[str]:
    reasons = [comparison.not_comparable] if comparison.not_comparable else []
    return [f"{comparison.new} against {comparison.old}: {text}" for text in (*reasons, *comparison.warnings)]


def _earlier_pairs(comparisons: Sequence[Comparison]) -> Iterable[Warning]:
    lines = tuple(line for comparison in reversed(comparisons) for line in _lines_about(comparison))
    if lines:
        names = dict.fromkeys(comparison.new for comparison in reversed(comparisons) if any(_lines_about(comparison)))
        yield Warning(True, f"There are warnings about {', '.join(names)} too", lines)


def _methods(releases: Sequence[Release]) -> Iterable[Warning]:
    signatures: dict[str, dict[str, list[str]]] = {}
    for release in releases:
        for metric, signature in release.report.manifest["signatures"].items():
            signatures.setdefault(metric, {}).setdefault(signature, []).append(release.label)
    for metric, by_signature in signatures.items():
        if len(by_signature) > 1:
            lines = (f"{', '.join(labels)}: {signature}" for signature, labels in by_signature.items())
            yield Warning(True, f"{metric} is not compared: computed in different ways", tuple(lines))


def _data(releases: Sequence[Release]) -> Iterable[Warning]:
    versions: dict[str, list[str]] = {}
    for release in releases:
        versions.setdefault(release.report.dataset_version, []).append(release.label)
    if len(versions) > 1:
        lines = tuple(f"{version}: {', '.join(labels)}" for version, labels in versions.items())
        yield Warning(True, "The releases answered different versions of the data set", lines)


_Sentences = Callable[[Report], Iterable[str]]


def _partial(report: Report) -> Iterable[str]:
    if report.status == "PARTIAL":
        yield report.message or "rows have no score"


def _of_manifest(sentences: Callable[[Mapping[str, Any]], Iterable[str]]) -> _Sentences:
    return lambda report: sentences(report.manifest)


_OF_REPORTS: Sequence[tuple[bool, str, _Sentences]] = (
    (True, "Not every row could be scored: see coverage for the bounds", _partial),
    (False, "How the judge did on questions with known answers", _of_manifest(check_notes)),
    (False, "The offline judge warns of some of its own verdicts", _of_manifest(depth_warnings)),
    (True, "A judge gave nearly all long answers the same score", _of_manifest(uniform_warnings)),
    (True, "A judge was several models within one report: its scores mix theirs", _of_manifest(model_warnings)),
)
"""Whether a warning is serious, its title, and what it says of each report."""


def _reports(releases: Sequence[Release]) -> Iterable[Warning]:
    for serious, title, sentences in _OF_REPORTS:
        if lines := [f"{release.label}: {line}" for release in releases for line in sentences(release.report)]:
            yield Warning(serious, title, tuple(lines))


def _coverage(releases: Sequence[Release]) -> Iterable[Warning]:
    fields: dict[str, dict[str, Score]] = {}
    for release in releases:
        for score in release.report.overall:
            fields.setdefault(score.metric, {}).setdefault(release.label, score)
    for metric, scores in fields.items():
        shares = [score.n_scored / max(1, score.n_total - score.n_undefined) for score in scores.values()]
        if max(shares) - min(shares) > _COVERAGE_GAP:
            lines = (f"{label}: {score.n_scored:,} of {score.n_total:,}" for label, score in scores.items())
            title = f"{metric}: scored on different shares of the rows; those without a score may be the hard ones"
            yield Warning(True, title, tuple(lines))
    totals = {release.label: release.report.n_total for release in releases}
    if len(set(totals.values())) > 1:
        lines = (f"{label}: {n:,} answers" for label, n in totals.items())
        yield Warning(False, "The releases do not have the same number of answers", tuple(lines))


def _checks(checks: Sequence[CheckSummary], releases: Sequence[Release]) -> Iterable[Warning]:
    messages: dict[str, dict[str, None]] = {}
    for check in checks:
        if check.rule in _CHECKS and not check.success:
            messages.setdefault(check.rule, {})[check.message] = None
    for rule, lines in messages.items():
        yield Warning(True, _CHECKS[rule].replace("{span}", _lengths(releases)), tuple(lines))


def _lengths(releases: Sequence[Release]) -> str:
    """The shortest and the longest of the median answers of the page."""
    medians = sorted(
        (release.median_length, release.label) for release in releases if release.median_length is not None
    )
    if len(medians) < 2 or medians[0][0] == medians[-1][0]:
        return ""
    (low, shortest), (high, longest) = medians[0], medians[-1]
    return f" (median of {low:,.0f} characters in {shortest}, {high:,.0f} in {longest})"


def _quarantine(releases: Sequence[Release], n: int) -> Iterable[Warning]:
    runs = {release.report.run_id: release.report.manifest["rows"]["read"] for release in releases}
    read = sum(runs.values())
    if n and read:
        serious = n / read > _LARGE_QUARANTINE
        rows = "row was" if n == 1 else "rows were"
        yield Warning(serious, f"{n:,} {rows} put in quarantine and not scored: {percent(n / read)} of those read")


def summary(
    releases: Sequence[Release], comparisons: Sequence[Comparison], gates: Sequence[ReleaseVerdict], primary: str
) -> str:
    """The page in one or two plain sentences: what is shown about the field that decides, and what the gate says.

    No difference is claimed that was not tested for.
    """
    if comparisons:
        last = comparisons[-1]
        gated = next((one for one in gates if (one.old, one.new) == (last.old, last.new)), None)
        return headline(last, primary, gated.verdict if gated else None)
    found = [(release, release.report.score(primary)) for release in releases]
    scored = [(release, score) for release, score in found if score is not None and score.mean is not None]
    if not scored:
        return f"No release has a mean of {primary}: too few answers have a score."
    parts = [f"{release.label} {number(score.mean)}{_span(score)}" for release, score in scored]
    if len(parts) > MOST_NAMED:
        best = max(scored, key=lambda one: one[1].mean or 0.0)
        newest = "" if best is scored[-1] else f" The last one is {parts[-1]}."
        highest = parts[scored.index(best)]
        return f"The highest {primary} of {len(parts)} releases: {highest}.{newest} No difference was tested."
    tested = " No difference was tested." if len(parts) > 1 else ""
    return f"{primary}: {', '.join(parts)}.{tested}"


def _span(score: Score) -> str:
    return "" if score.ci_low is None else f" ({percent(LEVEL)} interval {ends(score.ci_low, score.ci_high)})"
