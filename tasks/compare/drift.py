"""Does the newest report differ from those before it, and what changed between them?

The newest report is compared, sample by sample, with up to ten trailing ones that were computed in the same way (of the
same release where there are three of it): its number less the mean of theirs. How hard a sample is cancels, so much
smaller changes show than between two means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from answerkey.metrics_core.comparison import USES_FACTS
from answerkey.metrics_core.llm.untrusted import cut, one_line
from answerkey.metrics_core.statistics.bounded_mean import Floats
from answerkey.metrics_core.statistics.clustered import Codes, mean
from answerkey.metrics_core.statistics.intervals import LEVEL, decimals, percent
from answerkey.metrics_core.statistics.paired import difference_interval
from answerkey.tasks.compare.attribution import signature_changes
from answerkey.tasks.compare.paired_samples import CORPUS_BLEU, floats
from answerkey.tasks.reports.report import Report, ReportPoint, read_reports
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements

MOST_TRAILING, LEAST_TRAILING = 10, 3
"""How many reports the newest one is compared with: at most, and at least."""

Shift = Literal["higher", "lower"] | None
"""What is shown of the newest one; None: no difference is."""

_SQL = statements(__name__)
_GENERATION = {
    "model": "its model",
    "answered_by": "the model that answered",
    "system": "its system message",
    "template": "its prompt",
    "temperature": "its temperature",
    "seed": "its seed",
    "max_tokens": "its longest answer",
}
"""Settings of generated answers, by their key in the manifest."""
_NO_MATTER = ("answerkey", "prefect", "great-expectations", "duckdb")
"""Versions in a manifest that no score depends on; that of answerkey itself is told by its code."""
_LONGEST = 40


@dataclass(frozen=True, slots=True)
class ManifestChange:
    """Something that the newest report has otherwise: its value, and those of the trailing reports."""

    what: str
    before: tuple[str, ...]
    now: str

    def __str__(self) -> str:
        return f"{self.what} ({self.now}, before {', '.join(self.before)})"


@dataclass(frozen=True, slots=True)
class Drift:
    """The newest report of a field against the trailing ones.

    Attributes:
        report: its id; `trailing`: the ids of those that it is compared with, oldest first.
        n: samples that have a number in the newest report and in a trailing one. `missing` have one in a trailing
            report only.
        before, now: means over the `n` samples; `difference` = now - before, with the ends `low` and `high` of its
            interval. None where nothing can be compared.
        finding: what is shown; None: no difference is.
        changed: what changed between the trailing reports and the newest one.
        sentence: all of this in words.
    """

    report: str
    trailing: tuple[str, ...]
    n: int = 0
    missing: int = 0
    before: float | None = None
    now: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    finding: Shift = None
    changed: tuple[ManifestChange, ...] = ()
    sentence: str = ""


def drift(home: Home, moments: Sequence[ReportPoint]) -> Drift:
    """Test whether the last of `moments` differs from those before it; all are of one field, oldest first.

    Raises:
        ValueError: there are no moments.
    """
    if not moments:
        raise ValueError("moments: at least one is needed")
    *earlier, newest = moments
    metric, _, field = newest.field.partition(".")
    alike = [one for one in earlier if one.methods == newest.methods and one.n_scored]
    # Reports of the same release say most about it; where there are too few, others stand for what is usual.
    same = [one for one in alike if one.release == newest.release]
    trailing = (same if len(same) >= LEAST_TRAILING else alike)[-MOST_TRAILING:]
    if why := _why_not(home, newest, earlier, len(trailing)):
        return Drift(newest.report_id, tuple(one.report_id for one in trailing), sentence=why)
    *before, now = read_reports(home, [one.report_id for one in (*trailing, newest)])
    samples = _samples(home, before, now, metric, field)
    changed = (*_changed(before, now), *_judged_otherwise(home, before, now, metric))
    tested = _drift(samples, before, now, now.range(newest.field), changed)
    if tested.difference is None:
        return tested
    answers = ""
    if any(one.what == "answers" for one in changed):
        last = next(report for report in reversed(before) if report.release == now.release)
        answers = _answers(home, last, now, metric, field)
    return replace(tested, sentence=f"{tested.sentence}. {'. '.join(_why(tested, before, now, answers))}.")


def _why_not(home: Home, newest: ReportPoint, earlier: Sequence[ReportPoint], n_alike: int) -> str | None:
    """Why there is no test; None where there is one."""
    if newest.field == CORPUS_BLEU:
        return f"Drift is tested sample by sample, and {newest.field} is one number for a whole report."
    if not newest.n_scored:
        return f"{newest.report_id} has no number to test for drift."
    if n_alike >= LEAST_TRAILING:
        return None
    start = (
        f"Whether {newest.report_id} differs from earlier reports is not tested: that takes {LEAST_TRAILING} earlier "
        f"reports that were computed in the same way, and there "
        f"{'is 1' if n_alike == 1 else f'are {n_alike}' if n_alike else 'is none'}."
    )
    others = [one for one in earlier if one.methods != newest.methods]
    if not others:
        return start
    old, new = read_reports(home, [others[-1].report_id, newest.report_id])
    signatures = [str(report.manifest["signatures"].get(newest.field.partition(".")[0])) for report in (old, new)]
    changes = ", ".join(
        f"{change.kind} {change}" if change.kind != change.what else str(change)
        for change in signature_changes(*signatures)
    )
    return f"{start} Since {old.report_id} the method changed: {changes}."


@dataclass(frozen=True, slots=True)
class _Samples:
    """Numbers by sample, shape (samples,), the newest NaN where there is none; `codes` of clusters.

    `n_trailing` of shape (samples,) counts the reports behind each trailing number. `means` has, for each trailing
    report, its id, its mean, and that of the newest report on the same samples.
    """

    trailing: Floats
    newest: Floats
    codes: Codes | None
    n_trailing: npt.NDArray[np.int64]
    means: Sequence[tuple[str, float, float]]

    def changes(self, worst: float | None = None) -> tuple[Floats, Codes | None]:
        """Newest less trailing, with the clusters; without the samples that have no newest number, or with `worst`."""
        newest = self.newest if worst is None else np.where(np.isnan(self.newest), worst, self.newest)
        known = np.isfinite(newest)
        # Means of the same numbers may differ in their last digit.
        return np.round(newest - self.trailing, 12)[known], None if self.codes is None else self.codes[known]


def _samples(home: Home, before: Sequence[Report], now: Report, metric: str, field: str) -> _Samples:
    reports = [report.report_id for report in (*before, now)]
    parameters: dict[str, Any] = {"reports": reports, "newest": now.report_id, "metric": metric, "field": field}
    parameters["facts"] = metric in USES_FACTS
    with home.warehouse.reading() as warehouse:
        found: dict[str, Any] = warehouse.execute(_SQL["numbers"] + "\n" + _SQL["samples"], parameters).fetchnumpy()
        means = warehouse.execute(_SQL["numbers"] + "\n" + _SQL["means"], parameters).fetchall()
    codes = found["cluster"].astype(np.intp) if found["clustered"].any() else None
    return _Samples(floats(found["trailing"]), floats(found["newest"]), codes, found["n_trailing"], means)


def _drift(
    samples: _Samples,
    before: Sequence[Report],
    now: Report,
    range_: tuple[float, float],
    changed: tuple[ManifestChange, ...],
) -> Drift:
    low, high = range_
    changes, codes = samples.changes()
    trailing, n = tuple(report.report_id for report in before), len(changes)
    interval = difference_interval(changes, codes, binary=False, span=high - low) if n > 1 else None
    if interval is None:
        sentence = f"Drift is not tested: {now.report_id} shares {n} samples with the {len(before)} reports before it."
        return Drift(now.report_id, trailing, n, changed=changed, sentence=sentence)
    missing = len(samples.newest) - n
    finding: Shift = "higher" if interval.low > 0 else "lower" if interval.high < 0 else None
    undone = False
    if finding == "higher" and missing:
        filled, all_codes = samples.changes(worst=low)
        worst = difference_interval(filled, all_codes, binary=False, span=high - low)
        undone = worst is None or worst.low <= 0
    known = np.isfinite(samples.newest)
    means = mean(samples.trailing[known]), mean(samples.newest[known])
    finding = None if undone else finding
    found = Drift(
        now.report_id, trailing, n, missing, *means, mean(changes), interval.low, interval.high, finding, changed
    )
    return replace(found, sentence=_said(found, samples, before, now, undone=undone))


def _changed(before: Sequence[Report], now: Report) -> Iterator[ManifestChange]:
    """What the newest report has otherwise than all trailing ones."""
    known, new = [_about(report, now.release) for report in before], _about(now, now.release)
    for what, value in new.items():
        values = tuple(dict.fromkeys(one[what] for one in known if what in one))
        if values and value not in values:
            yield ManifestChange(what, values, value)


def _judged_otherwise(home: Home, before: Sequence[Report], now: Report, metric: str) -> Iterator[ManifestChange]:
    """Models that answered for the judges of the newest report only, under the names that these judges had before."""
    if now.kind(metric) != "judge":
        return
    reports = [report.report_id for report in (*before, now)]
    found = home.rows(_SQL["judged_by"], {"reports": reports, "signature": now.manifest["signatures"][metric]})
    served = {report_id: names for report_id, *names in found}
    for place, what in enumerate(("the model that answers for the judge", "the configuration of the judge's model")):
        earlier, newest = (
            {name for report in part if report.report_id in served for name in served[report.report_id][place] or ()}
            for part in (before, [now])
        )
        if earlier and newest - earlier:
            yield ManifestChange(what, tuple(sorted(earlier)), ", ".join(sorted(newest - earlier)))


def _about(report: Report, release: str) -> dict[str, str]:
    """What may have moved the numbers of a report. Answers are only told apart within one release."""
    same = report.release == release
    generation: Mapping[str, Any] = report.manifest.get("generation") or {}
    found = {"release": report.release, "data set version": report.dataset_version}
    found |= {"answers": report.answers_version} if same else {}
    found |= {what: _text(generation[key]) for key, what in _GENERATION.items() if same and key in generation}
    found |= {"code": str(report.manifest.get("code", "unknown"))}
    versions: Mapping[str, str] = report.manifest.get("versions", {})
    return found | {name: version for name, version in versions.items() if name not in _NO_MATTER}


def _text(value: object) -> str:
    """A setting, short; of a mapping of counts its keys."""
    text = ", ".join(value) if isinstance(value, Mapping) else str(value)
    return cut(one_line(text), _LONGEST)


def _ordered(before: Sequence[Report], now: Report) -> bool:
    """Whether the newest report came after the others: those of one run are in the order of a file."""
    return all(report.run_id != now.run_id for report in before)


def _said(found: Drift, samples: _Samples, before: Sequence[Report], now: Report, *, undone: bool) -> str:
    """How the newest report compares with the mean of the trailing ones."""
    assert found.now is not None and found.low is not None and found.high is not None
    what = f"is {found.finding} than" if found.finding else "is not shown to differ from"
    ordered = _ordered(before, now)
    others = f"the {len(before)} {'' if ordered else 'other '}comparable reports{' before it' if ordered else ''}"
    complete = (samples.n_trailing[np.isfinite(samples.newest)] == len(before)).all()
    sentence = (
        f"{now.report_id} {what} the mean of {others}: {found.now:.3f} against {found.before:.3f} on "
        f"{'the same ' if complete else ''}{found.n:,} samples ({found.difference:+.3f}, {percent(LEVEL)} interval "
        f"{found.low:+.{decimals(found.low, 0.0)}f} to {found.high:+.{decimals(found.high, 0.0)}f})"
    )
    if not complete:
        sentence += "; not all of these reports have a number for each, and the mean is over those that do"
    sign = 1 if found.finding == "higher" else -1
    unlike = [f"{name} ({mean:.3f})" for name, mean, newest in samples.means if sign * (newest - mean) <= 0]
    if found.finding and unlike:
        opposite = "lower" if found.finding == "higher" else "higher"
        sentence += f"; of these, {', '.join(unlike)} {'is' if len(unlike) == 1 else 'are'} not {opposite}"
    if found.missing:
        end = "; with the lowest score for those, nothing is shown" if undone else ""
        sentence += f"; {found.missing:,} more have no number in it{end}"
    return sentence


def _answers(home: Home, last: Report, now: Report, metric: str, field: str) -> str:
    """What became of the questions and answers of the `last` report about the same release, whose answers differ."""
    about = {"old": last.report_id, "new": now.report_id, "metric": metric, "field": field}
    [(n, n_other, n_gone, n_new, mean_gone)] = home.rows(_SQL["answers"], about)
    if not n_gone and not n_new:
        what = "answers" if n_other else "labels or slices of the answers"
        return f"Only the {what} are new: the release is {now.release} as before, and it is measured in the same way"
    scored = "" if mean_gone is None else f" (it scored {mean_gone:.3f} on them)"
    same = "the same" if not n_other else f"new for {n_other:,}"
    return (
        f"The questions are not those of {last.report_id}: {n_gone:,} of them are gone{scored} and {n_new:,} are new; "
        f"the answers to the other {n:,} are {same}"
    )


def _why(found: Drift, before: Sequence[Report], now: Report, answers: str) -> Iterator[str]:
    """What changed, and whether that can be the cause. Of another data set version, only unchanged samples count.

    `answers` says what became of the questions and answers of the same release.
    """
    causes = [one for one in found.changed if one.what not in ("answers", "data set version")]
    ordered = _ordered(before, now)
    than = "before" if ordered else "in the others"
    shown = ", ".join(f"{one.what} ({one.now}, {than} {', '.join(one.before)})" for one in causes)
    if len(causes) > 1:
        end = ": which of these moved it cannot be told" if found.finding else ""
        yield f"These changed at once: {shown}{end}" if ordered else f"These differ at once: {shown}{end}"
    elif causes and causes[0].what == "release":
        verb = "changed" if ordered else "differs"
        yield f"Of what is recorded only the release {verb}: {causes[0].now}, {than} {', '.join(causes[0].before)}"
    elif causes:
        yield f"Of what is recorded only this {'changed' if ordered else 'differs'}: {shown}"
    elif not answers:
        yield "Nothing changed that is recorded"
    if answers and (not causes or not answers.startswith("Only")):
        yield answers
    releases = dict.fromkeys(report.release for report in before)
    if len(releases) > 1:
        yield f"The {'reports before it' if ordered else 'others'} are about several releases: {', '.join(releases)}"
    for one in found.changed:
        if one.what == "data set version":
            yield f"The data set has another version ({one.now}), and samples that changed in it are left out"
