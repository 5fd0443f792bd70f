"""Two results of `evaluate` side by side, sample by sample, for a comparison and for a gate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np

from answerkey.metrics_core.comparison import (
    ALL,
    USES_FACTS,
    Comparison,
    FieldComparison,
    Settings,
    field_comparison,
    length_warning,
    not_compared,
)
from answerkey.metrics_core.errors import UserError, did_you_mean
from answerkey.metrics_core.gate.evidence import (
    OFFLINE_ALONE,
    Basis,
    Depth,
    Evidence,
    Missing,
    PairedScores,
)
from answerkey.metrics_core.gate.paired_field import (
    SCORED,
    STATUSES,
    FieldScores,
    PairedField,
    Unscored,
    is_checked,
    people_decide,
)
from answerkey.metrics_core.gate.policy import SCORE_KINDS, Policy, check_ranges
from answerkey.metrics_core.judges.votes import ANSWERED_BY, OUT_OF_DEPTH
from answerkey.metrics_core.measurement import Measurement
from answerkey.metrics_core.metric import Field, Metric
from answerkey.metrics_core.metrics.label import LABEL, LABELLED, OF_THE_DATA
from answerkey.metrics_core.sample import Sample
from answerkey.metrics_core.statistics.bounded_mean import Floats
from answerkey.metrics_core.statistics.clustered import Codes, Mask, dependent_samples
from answerkey.metrics_core.text import is_blank


class Side(Protocol):
    """A result, as a comparison reads it: the module of `Result` imports this one."""

    samples: list[Sample]
    metrics: list[Metric]
    release: str

    @property
    def fields(self) -> dict[str, Field]:
        """By METRIC.FIELD."""

    def scores(self, field: str = "") -> Floats:
        """The numbers of METRIC.FIELD: shape (samples,), NaN where there is none."""

    def of(self, metric: str) -> list[Measurement]:
        """The measurements of one metric, in the order of the samples."""


class ResultPair:
    """The samples of two results, in the order of their ids.

    All masks have the shape (samples,).

    Attributes:
        names: of the old and the new release.
        there: for each result, the samples that it has.
        changed: samples whose question or references differ; `facts_changed`: samples whose facts differ.
        unanswered: samples without an answer in the new result.
        clusters: codes of dependent samples; None if all are independent.
        notes: sentences on samples that are copies of others, and on the lengths of answers.

    Raises:
        UserError: an id occurs twice.
    """

    def __init__(self, old: Side, new: Side) -> None:
        self.old, self.new = self._results = old, new
        self.names = old.release or "baseline", new.release or "result"
        by_id = [_by_id(result, name) for result, name in zip(self._results, self.names, strict=True)]
        ids = sorted({*by_id[0], *by_id[1]})
        self._indices = [[indices.get(sample_id) for sample_id in ids] for indices in by_id]
        before, after = (
            [None if index is None else result.samples[index] for index in indices]
            for result, indices in zip(self._results, self._indices, strict=True)
        )
        pairs = list(zip(before, after, strict=True))
        self.there = _mask(sample is not None for sample in before), _mask(sample is not None for sample in after)
        self.changed = _mask(
            _differ(first, second, "references", "incorrect_references")
            or (first is not None and second is not None and first.question != second.question)
            for first, second in pairs
        )
        self.facts_changed = _mask(_differ(first, second, "facts") for first, second in pairs)
        self.unanswered = _mask(sample is None or is_blank(sample.answer) for sample in after)
        codes, notes = dependent_samples(_dependence(pairs), *self.names)
        self.clusters: Codes | None = None if codes is None else codes.astype(np.intp)
        lengths = (
            np.array([np.nan if one is None or one.answer is None else len(one.answer) for one in side], np.float64)
            for side in (before, after)
        )
        self.notes = (*length_warning(*lengths), *notes)

    def changed_for(self, metric: str) -> Mask:
        """The samples that differ for `metric`, which may read the facts."""
        return self.changed | self.facts_changed if metric in USES_FACTS else self.changed

    def compared(self, name: str, settings: Settings) -> FieldComparison:
        """One field on all samples, without adjusted p."""
        metric, _, field = name.partition(".")
        if note := self._not_comparable(metric, name):
            return not_compared(metric, field, ALL, note)
        old, new = self._columns(name).known()
        before, after = ~np.isnan(old), ~np.isnan(new)
        same = ~self.changed_for(metric)
        common = before & after & same
        codes = self.clusters
        declared = self.new.fields[name]
        binary = all(np.isin(side[common], (0, 1)).all() for side in (old, new))
        about = {
            "n_common": int(common.sum()),
            "n_only_old": int((before & ~after).sum()),
            "n_only_new": int((after & ~before).sum()),
            "missing_old": self._missing(0, metric, after & ~before),
            "missing_new": self._missing(1, metric, before & ~after),
            "n_clusters": None if codes is None else len(np.unique(codes[common])),
        }
        span = None if binary else declared.high - declared.low
        found = None
        if common.any():
            found = settings.difference(old[common], new[common], _chosen(codes, common), span=span)
        row = field_comparison(metric, field, ALL, found, about, settings, settings.n_tests)
        if row.difference is None or row.difference <= 0:
            return row
        unanswered = self.unanswered & before & ~after & same
        rows = common | unanswered
        filled = np.where(unanswered, declared.low, new)
        sides = (old[rows], filled[rows], _chosen(codes, rows))
        return settings.with_unanswered(row, *sides, n=int(unanswered.sum()), range_=(declared.low, declared.high))

    def comparison(self, rows: tuple[FieldComparison, ...], family: str) -> Comparison:
        """The comparison of `rows`, without adjusted p."""
        in_old, in_new = self.there
        notes = [row.note for row in rows if row.note]
        nothing = "; ".join(dict.fromkeys(notes)) or "the two results have no metric in common"
        n_changed = int(self.changed.sum())
        readers = [name for name in USES_FACTS if any(row.metric == name and not row.note for row in rows)]
        n_facts = int((self.facts_changed & ~self.changed).sum()) if readers else 0
        return Comparison(
            *self.names,
            rows,
            (
                *self.notes,
                *_left_out(n_changed, "a different question or different references"),
                *_left_out(n_facts, "other facts", f" of {', '.join(readers)}"),
            ),
            not_comparable=nothing if len(notes) == len(rows) else None,
            n_common=int((in_old & in_new).sum()),
            n_only_old=int((in_old & ~in_new).sum()),
            n_only_new=int((in_new & ~in_old).sum()),
            n_changed=n_changed,
            family=family,
        )

    def evidence(self, policy: Policy) -> tuple[Policy, Evidence]:
        """All that is known of the fields that `policy` names, and the policy with the rules that this calls for.

        The primary rule is about people if every sample has a human label in both releases; fields that the offline
        judge scored get a rule about its depth.

        Raises:
            UserError: a rule rests on human labels of which some are missing; or it always holds, or never.
        """
        known = {name: field for name, field in self.new.fields.items() if name in policy.fields}
        check_ranges(policy, {name: (field.low, field.high) for name, field in known.items()})
        fields = {name: self._field(name) for name in policy.fields}
        labelled = all(LABELLED in result.fields for result in self._results)
        labels = self._columns(LABELLED).known() if labelled else None
        everything = np.ones(len(self.changed), bool)
        bases = {name: self._basis(name) for name in policy.fields}
        scores: dict[tuple[str, str], PairedScores | Missing] = {}
        for name, slice_ in policy.needs:
            field = fields[name]
            if slice_ != ALL and not isinstance(field, Missing):
                field = Missing(f"there is no slice {slice_}; `answerkey gate` has slices")
            checked = is_checked(policy, name, bases[name])
            scores[name, slice_] = (
                field if isinstance(field, Missing) else field.scores(everything, labels if checked else None)
            )
        complete = {name: people_decide(scores[name, ALL], drawn=False) for name, slice_ in scores if slice_ == ALL}
        for rule in policy.rules:
            if rule.at_most:
                raise UserError(f"{rule.text}: more of {rule.field} is better; write it as a rule with >=")
            partly = any(sample.label is None for result in self._results for sample in result.samples)
            if partly and (rule.field == LABELLED or (rule.kind == "people" and not complete.get(rule.field))):
                raise UserError(
                    f"{rule.text}: some answers have no human label, and whether the others were drawn at random is "
                    "for a policy to say; use answerkey gate, or name another field with primary="
                )
        primary = policy.primary
        if primary.kind == "difference" and bases[primary.field] == "judge" and complete[primary.field]:
            policy = policy.by_people()
        depth = {name: depths for name in policy.fields if (depths := self._depth(name))}
        judged = [rule.field for rule in policy.rules if rule.kind in SCORE_KINDS]
        policy = policy.with_depth([name for name in dict.fromkeys(judged) if name in depth])
        not_calibrated = (Missing("it is not calibrated here; use answerkey calibrate and answerkey gate"),)
        return policy, Evidence(
            *self.names,
            scores,
            {name: field.coverage(self.names) for name, field in fields.items() if isinstance(field, PairedField)},
            {name: not_calibrated for name in policy.fields if policy.rule("kappa", name)},
            self.clusters,
            notes=tuple(f"{note[0].upper()}{note[1:].rstrip('.')}." for note in self.notes),
            bases=bases,
            depth=depth,
        )

    def _field(self, name: str) -> PairedField | Missing:
        metric = name.partition(".")[0]
        for result, release in zip(self._results, self.names, strict=True):
            if name not in result.fields:
                hint = did_you_mean(name, result.fields) or f"; it has {', '.join(result.fields)}"
                return Missing(f"{release} has no such field{hint}")
        if note := self._not_comparable(metric, name):
            return Missing(f"{note}; evaluate both releases with the same settings")
        if any(ANSWERED_BY in one.details for result in self._results for one in result.of(metric)):
            return Missing("fallback judges gave some of its verdicts; use answerkey gate, which weighs that")
        columns, declared = self._columns(name), self.new.fields[name]
        by_release, by_measurement = dict[str, Mask](), dict[str, Mask]()
        measured = self.new.of(metric)
        for row in np.flatnonzero(columns.new_status != SCORED):
            index = self._indices[1][row]
            found = None if index is None else measured[index]
            reason = "" if found is None or found.reason is None else found.reason
            of_release = found is None or (found.status == "undefined" and reason not in OF_THE_DATA)
            what = "absent" if found is None else f"{found.status} ({reason.split(':')[0][:60]})"
            reasons = by_release if of_release else by_measurement
            reasons.setdefault(what, np.zeros(len(self.changed), bool))[row] = True
        none = np.zeros(len(self.changed))
        unscored = Unscored(by_release, by_measurement, none, none.astype(np.int64))
        return PairedField.of(columns, unscored, self.changed_for(metric), declared.low, declared.high)

    def _basis(self, name: str) -> Basis:
        metric = name.partition(".")[0]
        kinds = [one.kind for one in self.new.metrics if one.name == metric]
        return "people" if metric == LABEL else "judge" if "judge" in kinds else "text"

    def _depth(self, name: str) -> tuple[Depth, ...]:
        """How many verdicts the offline judge flags in each result; empty if it did not give them all."""
        metric, depths = name.partition(".")[0], []
        for result, release in zip(self._results, self.names, strict=True):
            if not any(one.name == metric and OFFLINE_ALONE in one.signature for one in result.metrics):
                return ()
            measured = [one for one in result.of(metric) if one.status == "scored"]
            why = Counter(one.details[OUT_OF_DEPTH] for one in measured if one.details.get(OUT_OF_DEPTH))
            reasons = ", ".join(f"{n:,} {reason}" for reason, n in why.most_common())
            depths.append(Depth(release, len(measured), why.total(), reasons))
        return tuple(depths)

    def _not_comparable(self, metric: str, name: str) -> str | None:
        for result, other in zip(self._results, self.names[::-1], strict=True):
            if name not in result.fields:
                return f"only {other} has it"
        signatures = {one.signature for result in (self.old, self.new) for one in result.metrics if one.name == metric}
        return "computed in a different way: the signatures differ" if len(signatures) > 1 else None

    def _columns(self, name: str) -> FieldScores:
        scores, statuses = [], []
        for result, indices in zip(self._results, self._indices, strict=True):
            values, measured = result.scores(name), result.of(name.partition(".")[0])
            scores.append(np.array([np.nan if one is None else values[one] for one in indices], np.float64))
            codes = [0 if one is None else STATUSES.index(measured[one].status) for one in indices]
            statuses.append(np.array(codes, np.int8))
        return FieldScores(scores[0], scores[1], statuses[0], statuses[1])

    def _missing(self, side: int, metric: str, rows: Mask) -> dict[str, int]:
        measured, indices = self._results[side].of(metric), self._indices[side]
        missing = (indices[row] for row in np.flatnonzero(rows))
        return dict(Counter("absent" if index is None else measured[index].status for index in missing))


def _mask(values: Iterable[bool]) -> Mask:
    return np.array(list(values), np.bool_)


def _differ(old: Sample | None, new: Sample | None, *names: str) -> bool:
    """Whether both results have the sample, with different texts in these lists; their order does not matter."""
    return bool(old and new) and any(sorted(getattr(old, name)) != sorted(getattr(new, name)) for name in names)


def _by_id(result: Side, what: str) -> dict[str, int]:
    indices: dict[str, int] = {}
    for index, sample in enumerate(result.samples):
        if indices.setdefault(sample.sample_id, index) != index:
            raise UserError(f"{what} has several samples with the id {sample.sample_id!r}; to compare, ids must differ")
    return indices


def _dependence(pairs: Iterable[tuple[Sample | None, Sample | None]]) -> dict[str, Any]:
    """What `dependent_samples` needs to know of these samples."""
    columns: dict[str, list[Any]] = {"clustered": [], "cluster": [], "copies": []}
    columns |= {f"{of}{side}_cluster": [] for of in ("", "in_") for side in ("old", "new")}
    clusters, copies = _codes(), _codes()
    for row, sides in enumerate(pairs):
        named = [None if sample is None else sample.cluster for sample in sides]
        cluster = next((one for one in named[::-1] if one is not None), None)
        question = next((one.question for one in sides[::-1] if one is not None and not is_blank(one.question)), None)
        texts = [one and (one.answer, one.context) for one in sides]
        columns["clustered"].append(cluster is not None)
        columns["cluster"].append(clusters(row if cluster is None else ("cluster", cluster)))
        columns["copies"].append(copies(row if question is None else (question, *texts)))
        for side, one in zip(("old", "new"), named, strict=True):
            columns[f"{side}_cluster"].append(clusters(("cluster", one)))
            columns[f"in_{side}_cluster"].append(one is not None)
    return {name: np.array(values) for name, values in columns.items()}


def _codes() -> Callable[[object], int]:
    """Numbers for things, counted from 0 in the order in which they first appear."""
    seen: dict[object, int] = {}
    return lambda thing: seen.setdefault(thing, len(seen))


def _left_out(n: int, other: str, of: str = "") -> list[str]:
    """A warning about samples that differ between the results; nothing if there are none."""
    have, are = ("sample has", "is") if n == 1 else ("samples have", "are")
    return [f"{n:,} {have} {other}, and {are} left out{of}"] if n else []


def _chosen(codes: Codes | None, rows: Mask) -> Codes | None:
    return None if codes is None else codes[rows]
