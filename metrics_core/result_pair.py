"""Two results of `evaluate` side by side, sample by sample."""

from __future__ import annotations

from functools import cached_property
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
    """What is asked of a result."""

    samples: list[Sample]
    metrics: list[Metric]

    @property
    def fields(self) -> dict[str, Field]:
        """What every METRIC.FIELD is."""

    def scores(self, field: str = "") -> Floats:
        """The numbers of METRIC.FIELD: shape (samples,), NaN where there is none."""

    def of(self, metric: str) -> list[Measurement]:
        """The measurements of one metric, in the order of the samples."""


class ResultPair:
    """The samples of two results: those of the old one in their order, then those that only the new one has."""

    def __init__(self, old: Side, new: Side) -> None:
        self.old, self.new = self._results = old, new
        self.places = [_by_id(old, "the baseline"), _by_id(new, "the result")]
        self.ids = list(dict.fromkeys([*self.places[0], *self.places[1]]))

    @cached_property
    def there(self) -> tuple[Mask, Mask]:
        """Which samples each has."""
        first, second = (np.array([one in places for one in self.ids], np.bool_) for places in self.places)
        return first, second

    @cached_property
    def changed(self) -> Mask:
        """Which samples both have, with another question or other references."""
        return np.array([self._differs(one) for one in self.ids], np.bool_)

    @cached_property
    def facts_changed(self) -> Mask:
        """Which samples both have, with other facts."""
        pairs = ((self._sample(0, one), self._sample(1, one)) for one in self.ids)
        return np.array([bool(old and new and sorted(old.facts) != sorted(new.facts)) for old, new in pairs], np.bool_)

    def changed_for(self, metric: str) -> Mask:
        """Which samples are not the same for `metric`, which may read the facts."""
        return self.changed | self.facts_changed if metric in USES_FACTS else self.changed

    @cached_property
    def unanswered(self) -> Mask:
        """Which samples of the old result the new one has no answer to."""
        return np.array([self._unanswered(one) for one in self.ids], np.bool_)

    @cached_property
    def clusters(self) -> Codes | None:
        """Codes of what is not independent, where there are clusters."""
        places, samples = self.places[0], self.old.samples
        return codes_of([samples[places[one]].cluster if one in places else None for one in self.ids], len(self.ids))

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
        """The whole, without adjusted p."""
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
        scores, places = self._results[side].scores(name), self.places[side]
        return np.array([scores[places[one]] if one in places else np.nan for one in self.ids], np.float64)

    def _missing(self, side: int, metric: str, rows: Mask) -> dict[str, int]:
        measured, counts = self._results[side].of(metric), dict[str, int]()
        for one in (self.ids[place] for place in np.flatnonzero(rows)):
            place = self.places[side].get(one)
            why = "absent" if place is None else measured[place].status
            counts[why] = counts.get(why, 0) + 1
        return counts

    def _sample(self, side: int, one: str) -> Sample | None:
        place = self.places[side].get(one)
        return None if place is None else self._results[side].samples[place]

    def _differs(self, one: str) -> bool:
        old, new = self._sample(0, one), self._sample(1, one)
        return (
            old is not None
            and new is not None
            and (
                old.question != new.question
                or sorted(old.references) != sorted(new.references)
                or sorted(old.incorrect_references) != sorted(new.incorrect_references)
            )
        )

    def _unanswered(self, one: str) -> bool:
        new = self._sample(1, one)
        return new is None or is_blank(new.answer)


def _by_id(result: Side, what: str) -> dict[str, int]:
    places: dict[str, int] = {}
    for place, sample in enumerate(result.samples):
        if places.setdefault(sample.sample_id, place) != place:
            raise UserError(f"{what} has several samples with the id {sample.sample_id!r}; to compare, ids must differ")
    return places


def _left_out(n: int, other: str, of: str = "") -> list[str]:
    """What is said of samples that are not the same in both; nothing where there are none."""
    have, are = ("sample has", "is") if n == 1 else ("samples have", "are")
    return [f"{n:,} {have} {other}, and {are} left out{of}"] if n else []


def _chosen(codes: Codes | None, rows: Mask) -> Codes | None:
    return None if codes is None else codes[rows]
