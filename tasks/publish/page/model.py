"""Everything that the page shows, as plain values: made by `build`, read by `charts` and `html`, and JSON by `as_json`.

Scores and differences are in the units of their metric, mostly 0 to 1; None stands where there is no number.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import chain
from typing import Any

from answerkey.metrics_core.comparison import Comparison, FieldComparison
from answerkey.metrics_core.decide.policy import ALL
from answerkey.metrics_core.decide.verdict import PRECEDENCE
from answerkey.tasks.compare.examples import LargestChange
from answerkey.tasks.gate.verdicts import ReleaseVerdict
from answerkey.tasks.publish import tables
from answerkey.tasks.publish.table import Table
from answerkey.tasks.publish.text import count, decision, number
from answerkey.tasks.reports.report import Report, ReportPoint
from answerkey.tasks.validate.validate import Check

MOST_NAMED = 3
"""Releases that the title and the summary name; the line below the title names all."""


@dataclass(frozen=True, slots=True)
class Release:
    """One report, and what its answers look like.

    `label` is the release, with the version of the report where the page shows several of one release. The median
    length of its answers is in characters.
    """

    label: str
    report: Report
    command: str
    median_length: float | None


@dataclass(frozen=True, slots=True)
class FieldSummary:
    """A number of a metric, named METRIC.FIELD; binary: it is 0 or 1 on every row; whether less of it is better."""

    name: str
    metric: str
    summary: str
    signatures: tuple[str, ...]
    binary: bool
    lower_is_better: bool = False


@dataclass(frozen=True, slots=True)
class Warning:
    """Something to know before trusting a number. Serious ones change what the page says; `details` are its lines."""

    serious: bool
    title: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answers:
    """What a release answered, by the place of the sample.

    `correct` is the human label. `values` go by METRIC.FIELD. `unscored`, `reasons` and `evidence` go by metric
    and hold places only where there is something to say: status and reason; the metric's own words; facts, votes and
    the rule of a judge, and what the offline judge says against its verdict. `contexts` has the passages that answers
    were to rest on, those that are too long for the page cut, and `columns` likewise the others that rubrics are about,
    by name, a conversation turn by turn. `absent` are places that the release does not have, `cut`
    the whole lengths of cut answers.

    The first of several answers to a question has the place of the sample, and `more` says by place where the others
    are, behind all places. `values` are then means, and `each` has the numbers of the single answers, by METRIC.FIELD.
    """

    release: str
    texts: tuple[str | None, ...]
    correct: tuple[bool | None, ...]
    values: Mapping[str, tuple[float | None, ...]]
    unscored: Mapping[str, Mapping[int, tuple[str, str]]]
    reasons: Mapping[str, Mapping[int, str]]
    evidence: Mapping[str, Mapping[int, Mapping[str, Any]]]
    absent: tuple[int, ...] = ()
    cut: Mapping[int, int] = field(default_factory=dict)
    more: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    each: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    contexts: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    columns: Mapping[int, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples of the table, in columns; `n_total` counts also those that the page leaves out for its size."""

    n_total: int
    ids: tuple[str, ...]
    questions: tuple[str | None, ...]
    references: tuple[tuple[str, ...], ...]
    facts: tuple[tuple[str, ...], ...]
    incorrect_references: tuple[tuple[str, ...], ...]
    slices: Mapping[str, tuple[str | None, ...]]
    answers: tuple[Answers, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """One page about one or several reports of one data set, in the order in which they were asked for.

    `primary` is the METRIC.FIELD that decides, and `why_primary` says why, where the policy does not; `headlines` has
    one field of every metric, the primary one first. In `comparisons` and `gates` reports go by the labels of the
    releases. `failures` has the rows without a score, by reason, and `quarantine` the first rows that were refused.
    `agreements` says how far metrics and judges agree with human labels, of all releases together and of each, and
    `corrected` has estimated means of the human labels: by PPI++ where answers of the report have labels, and by Rogan
    and Gladen where the labels are of another report of the release.
    `data_docs` is the address of the Data Docs of the run, and `overview` that of the overview of the home, relative to
    the page; empty if there are none. `why_old` says why a release is the old one that nobody named.
    """

    dataset: str
    made_at: str
    primary: str
    why_primary: str
    headlines: tuple[str, ...]
    fields: tuple[FieldSummary, ...]
    releases: tuple[Release, ...]
    gates: tuple[ReleaseVerdict, ...]
    summary: str
    warnings: tuple[Warning, ...]
    comparisons: tuple[Comparison, ...]
    failures: Table
    checks: tuple[Check, ...]
    n_quarantined: int
    quarantine: Table
    agreements: Table
    corrected: Table
    history: tuple[ReportPoint, ...]
    samples: Samples
    data_docs: str = ""
    why_old: str = ""
    overview: str = ""

    @property
    def title(self) -> str:
        """The decision; of several verdicts, how many say what; without a verdict, what is compared."""
        if len(self.gates) > 1:
            counts = Counter(gated.verdict.outcome for gated in self.gates)
            outcomes = ", ".join(f"{counts[outcome]} {outcome}" for outcome in PRECEDENCE[::-1] if counts[outcome])
            return f"{self.subject}: {outcomes}"
        return decision(self.gates[0].verdict.outcome, self.gates[0].new) if self.gates else self.subject

    @property
    def subject(self) -> str:
        """What is compared."""
        if len(self.gates) > 1:
            return f"{len(self.gates)} releases against {', '.join(dict.fromkeys(gated.old for gated in self.gates))}"
        pairs = {(gated.new, gated.old) for gated in self.gates} | {(pair.new, pair.old) for pair in self.comparisons}
        if len(pairs) == 1:
            [(new, old)] = pairs
            return f"{new} against {old}"
        if len(self.releases) > MOST_NAMED:
            return f"{len(self.releases)} releases"
        return ", ".join(release.label for release in self.releases)

    @property
    def by_release(self) -> dict[str, Report]:
        """The reports by the labels of their releases."""
        return {release.label: release.report for release in self.releases}

    @property
    def headline_scores(self) -> Table:
        """The headline field of each metric with a column for each release, and what is said about whole releases."""
        reports = self.by_release.values()
        rows = list(tables.counts(self.by_release))
        if any(report.n_questions != report.n_total for report in reports):
            rows.append(("questions", *(count(report.n_questions) for report in reports)))
            variances = (number(report.variance_within(self.primary)) for report in reports)
            rows.append((f"variance between the answers to one question, {self.primary}", *variances))
        rows.append(("median length, characters", *(count(release.median_length) for release in self.releases)))
        return tables.scores("Scores", self.by_release, self.headlines_in_order, rows)

    @property
    def other_scores(self) -> Table:
        """All fields that are not headlines; no rows where there are none."""
        names = [field.name for field in self.fields if field.name not in self.headlines]
        return tables.scores("Scores of the other fields", self.by_release, names)

    @property
    def decisive(self) -> FieldComparison | None:
        """The primary field in the newest comparison; None where the newest verdict is about another pair."""
        pairs = [(pair[-1].old, pair[-1].new) for pair in (self.comparisons, self.gates) if pair]
        if not self.comparisons or len(set(pairs)) > 1:
            return None
        return self.comparisons[-1].row(self.primary)

    @property
    def is_binary(self) -> bool:
        """Whether the field that decides is 0 or 1 on every sample."""
        return any(field.binary for field in self.fields if field.name == self.primary)

    @property
    def changes(self) -> tuple[LargestChange, ...]:
        """Every sample with a primary score in both releases of the newest comparison, those that got worst first."""
        answers_by_release = {answers.release: answers for answers in self.samples.answers}
        newest = self.comparisons[-1] if self.comparisons else None
        if not newest or not {newest.old, newest.new} <= answers_by_release.keys():
            return ()
        old = answers_by_release[newest.old]
        new = answers_by_release[newest.new]

        # Columns of one place each; further answers to a question stand behind them and are left out
        samples = zip(self.samples.ids, self.samples.questions, self.samples.references, strict=False)
        texts = zip(old.texts, new.texts, strict=False)
        scores = zip(old.values.get(self.primary, ()), new.values.get(self.primary, ()), strict=False)
        changes = []
        for sample, answers, (old_score, new_score) in zip(samples, texts, scores, strict=False):
            if old_score is not None and new_score is not None:
                difference = new_score - old_score
                changes.append(LargestChange(*sample, *answers, old_score, new_score, difference))
        return tuple(sorted(changes, key=self._gain))

    def _gain(self, change: LargestChange) -> float:
        """How much better a sample got; less than 0 if it got worse."""
        is_lower_better = any(field.lower_is_better for field in self.fields if field.name == self.primary)
        return -change.difference if is_lower_better else change.difference

    @property
    def got_worse(self) -> tuple[LargestChange, ...]:
        """Of `changes`, those that are worse."""
        return tuple(change for change in self.changes if self._gain(change) < 0)

    @property
    def incomplete(self) -> bool:
        """Whether any row of any release should have a score in any metric and has none."""
        scores = chain.from_iterable(release.report.overall for release in self.releases)
        return any(score.n_failed + score.n_skipped for score in scores)

    @property
    def headlines_in_order(self) -> tuple[str, ...]:
        """The headline fields in the order of all fields."""
        return tuple(field.name for field in self.fields if field.name in self.headlines)

    @property
    def slice_columns(self) -> Mapping[str, int]:
        """The columns that the reports are sliced by, with how many values each has."""
        slices: dict[str, None] = {}
        for release in self.releases:
            slices |= dict.fromkeys(score.slice for score in release.report.scores if score.slice != ALL)
        return Counter(slice_.partition("=")[0] for slice_ in slices)

    @property
    def moments(self) -> tuple[ReportPoint, ...]:
        """The reports of the data set with the primary field, newest first."""
        return tuple(moment for moment in self.history[::-1] if moment.field == self.primary)


def as_json(value: Any) -> str:
    """The page or a part of it as compact JSON. NaN and infinity are refused.

    Raises:
        ValueError: a number is not finite.
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain)


def _plain(value: Any) -> dict[str, Any]:
    if is_dataclass(value):
        return {attribute.name: getattr(value, attribute.name) for attribute in fields(value)}
    raise TypeError(f"{type(value).__name__} is not JSON")
