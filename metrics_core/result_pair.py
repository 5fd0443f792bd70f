"""Two results of `evaluate` side by side, sample by sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Protocol

import numpy as np

from answerkey.metrics_core.comparison import (
    ALL,
    USES_FACTS,
    Comparison,
    FieldComparison,
    Settings,
    field_comparison,
    not_compared,
)
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.measurement import Measurement
from answerkey.metrics_core.metric import Field, Metric
from answerkey.metrics_core.sample import Sample
from answerkey.metrics_core.statistics.bounded_mean import Floats
from answerkey.metrics_core.statistics.clustered import Codes, Mask, codes_of
from answerkey.metrics_core.text import is_blank


class Side(Protocol):
    """A result, as a comparison reads it: the module of `Result` imports this one."""

    samples: list[Sample]
    metrics: list[Metric]

    @property
    def fields(self) -> dict[str, Field]:
        """By METRIC.FIELD."""

    def scores(self, field: str = "") -> Floats:
        """The numbers of METRIC.FIELD: shape (samples,), NaN where there is none."""

    def of(self, metric: str) -> list[Measurement]:
        """The measurements of one metric, in the order of the samples."""


class ResultPair:
    """The samples of two results: those of the old one in their order, then those that only the new one has.

    All masks have the shape (samples,).

    Attributes:
        there: for each result, the samples that it has.
        changed: samples whose question or references differ; `facts_changed`: samples whose facts differ.
        unanswered: samples without an answer in the new result.
        clusters: codes of dependent samples; None without clusters.
    """

    def __init__(self, old: Side, new: Side) -> None:
        self.old, self.new = self._results = old, new
        by_id = [_by_id(old, "the baseline"), _by_id(new, "the result")]
        ids = list(dict.fromkeys([*by_id[0], *by_id[1]]))
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
        self.clusters = codes_of([sample.cluster if sample else None for sample in before], len(ids))

    def changed_for(self, metric: str) -> Mask:
        """The samples that differ for `metric`, which may read the facts."""
        return self.changed | self.facts_changed if metric in USES_FACTS else self.changed

    def compared(self, name: str, settings: Settings) -> FieldComparison:
        """One field on all samples, without adjusted p."""
        metric, _, field = name.partition(".")
        if note := self._not_comparable(metric, name):
            return not_compared(metric, field, ALL, note)
        old, new = self._scores(0, name), self._scores(1, name)
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
            "baseline",
            "result",
            rows,
            (
                *_left_out(n_changed, "another question or other references"),
                *_left_out(n_facts, "other facts", f" of {', '.join(readers)}"),
            ),
            not_comparable=nothing if len(notes) == len(rows) else None,
            n_common=int((in_old & in_new).sum()),
            n_only_old=int((in_old & ~in_new).sum()),
            n_only_new=int((in_new & ~in_old).sum()),
            n_changed=n_changed,
            family=family,
        )

    def _not_comparable(self, metric: str, name: str) -> str | None:
        for result, other in ((self.old, "the result"), (self.new, "the baseline")):
            if name not in result.fields:
                return f"only {other} has it"
        signatures = {one.signature for result in (self.old, self.new) for one in result.metrics if one.name == metric}
        return "computed in another way: the signatures differ" if len(signatures) > 1 else None

    def _scores(self, side: int, name: str) -> Floats:
        scores = self._results[side].scores(name)
        return np.array([np.nan if index is None else scores[index] for index in self._indices[side]], np.float64)

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


def _left_out(n: int, other: str, of: str = "") -> list[str]:
    """A warning about samples that differ between the results; nothing if there are none."""
    have, are = ("sample has", "is") if n == 1 else ("samples have", "are")
    return [f"{n:,} {have} {other}, and {are} left out{of}"] if n else []


def _chosen(codes: Codes | None, rows: Mask) -> Codes | None:
    return None if codes is None else codes[rows]
