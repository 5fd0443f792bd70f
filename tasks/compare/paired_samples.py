"""The samples of two reports side by side, as columns: labels, slices, scores, and the counts behind corpus BLEU.

Every read is a session of its own, or shares that of its caller.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from answerkey.metrics_core.comparison import USES_FACTS, groups
from answerkey.metrics_core.decide.bounded_mean import Floats
from answerkey.metrics_core.decide.clustered import Codes, Mask, dependent_samples
from answerkey.metrics_core.decide.intervals import SumStatistic
from answerkey.metrics_core.decide.paired import PairedDifference, pooled_difference
from answerkey.metrics_core.decide.policy import ALL
from answerkey.metrics_core.metrics.bleu import bleu_extremes, corpus_bleu
from answerkey.metrics_core.metrics.label import LABELLED, OF_THE_DATA
from answerkey.metrics_core.paired_field import STATUSES, FieldScores, Unscored
from answerkey.tasks.reports.report import NOT_GIVEN, Report, labels
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements

if TYPE_CHECKING:
    import duckdb

CORPUS_BLEU = "bleu.corpus_bleu"

_SQL = statements(__name__)
_COUNTS = 10
"""Of the statistics behind BLEU, per answer."""
_MAX_GROUPS = 2_000
_LANGUAGE = "^(|.*?[-_.:/#])([A-Za-z]{2}(?:-[A-Z]{2})?)(|[-_.:/#].*)$"
"""The id of a sample with the code of a language in it."""


@dataclass(frozen=True, slots=True)
class Slices:
    """One slice column: the values that both reports have, and their codes by sample; -1 for anything else."""

    column: str
    values: tuple[str, ...]
    old: npt.NDArray[np.int32]
    new: npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class PairedBleu:
    """Sentence BLEU of both reports and the counts behind it, shape (samples, 10) each.

    Corpus BLEU is not a mean of rows, so it is resampled as a whole.
    """

    scores: FieldScores
    old: npt.NDArray[np.int32]
    new: npt.NDArray[np.int32]

    def difference(self, common: Mask, clusters: npt.NDArray[np.int64] | None) -> PairedDifference:
        """Compare corpus BLEU on the samples in `common`."""
        # Sums over groups of samples, since corpus BLEU is no mean of rows
        codes = groups(int(common.sum()), None if clusters is None else clusters[common], _MAX_GROUPS)
        sums = np.zeros((2, int(codes.max()) + 1, _COUNTS))
        np.add.at(sums[0], codes, self.old[common])
        np.add.at(sums[1], codes, self.new[common])
        return pooled_difference(sums[0], sums[1], SumStatistic(corpus_bleu, bleu_extremes))


@dataclass(frozen=True, slots=True)
class PairedSamples:
    """The samples of either report, in the order of their ids; all columns have the shape (samples,).

    Attributes:
        in_old, in_new: whether the report has the sample.
        changed: both have it, with a different question or different references: it is not the same sample any more.
        facts_changed: both have it, with other facts.
        same_answer: both have it, with the same answer; same_label: with the same human label, or with none.
        old_length, new_length: of the answers, in characters; NaN where there is none.
        labelled: people have labelled the answers of both; relabelled: they have called the same answer right in one
            and wrong in the other.
        clusters: codes of what is not independent, None where all samples are.
        cluster_notes: where these are not simply the clusters that the data set has, what they are: whole sentences.
    """

    home: Home
    old: Report
    new: Report
    in_old: Mask
    in_new: Mask
    changed: Mask
    facts_changed: Mask
    same_answer: Mask
    same_label: Mask
    labelled: Mask
    relabelled: Mask
    old_length: npt.NDArray[np.float64]
    new_length: npt.NDArray[np.float64]
    clusters: npt.NDArray[np.int64] | None
    cluster_notes: tuple[str, ...]
    slices: tuple[Slices, ...]

    def changed_for(self, metric: str) -> Mask:
        """The samples that are not the same for `metric`, which may read the facts."""
        return self.changed | self.facts_changed if metric in USES_FACTS else self.changed

    @property
    def ids(self) -> dict[str, str]:
        """The ids of the reports, `old` and `new`."""
        return {"old": self.old.report_id, "new": self.new.report_id}

    @property
    def names(self) -> tuple[str, str]:
        """Short names of the old and the new report, for sentences."""
        return names_of(self.old, self.new)

    def scores(self, name: str) -> FieldScores:
        """Read the scores and statuses of METRIC.FIELD `name`."""
        parameters = {**self.ids, **_parts(name), "statuses": list(STATUSES[1:])}
        with self.home.warehouse.reading() as warehouse:
            columns: dict[str, Any] = warehouse.execute(_SQL["scores"], parameters).fetchnumpy()
        return FieldScores(
            floats(columns["old"]),
            floats(columns["new"]),
            columns["old_status"].astype(np.int8),
            columns["new_status"].astype(np.int8),
        )

    def labels(self) -> tuple[Floats, Floats] | None:
        """Read the human labels of both reports, NaN where there is none; None if one of the two has no labels."""
        if any(LABELLED not in report.names for report in (self.old, self.new)):
            return None
        return self.scores(LABELLED).known()

    def range(self, name: str) -> tuple[float, float]:
        """The lowest and highest possible value of METRIC.FIELD `name` in the two reports."""
        lows, highs = zip(*(report.range(name) for report in (self.old, self.new)), strict=True)
        return min(lows), max(highs)

    def codes(self, rows: Mask) -> Codes | None:
        """The clusters of these samples, where the data have any."""
        return None if self.clusters is None else self.clusters[rows]

    def unscored(self, name: str) -> Unscored:
        """Read why the new report has no number METRIC.FIELD `name` for some samples; both reports have the field."""
        parameters: dict[str, Any] = {**self.ids, **_parts(name), "run": self.new.run_id, "release": self.new.release}
        parameters |= {"of_the_data": list(OF_THE_DATA), "not_given": NOT_GIVEN}
        n_samples = len(self.in_old)
        share = np.zeros(n_samples)
        n_missing = np.zeros(n_samples, np.int64)
        samples_by_reason: dict[tuple[str, bool], list[int]] = {}
        for sample, reason, by_release, missing, answers in self.home.rows(_SQL["unscored"], parameters):
            # Without a reason, only some of the answers to the question are missing
            if reason is None:
                share[sample] = missing
                n_missing[sample] = answers
            else:
                samples_by_reason.setdefault((reason, by_release), []).append(sample)

        # The samples without a number because of the release, and those because of how it was scored
        masks: tuple[dict[str, Mask], dict[str, Mask]] = {}, {}
        for (reason, by_release), members in samples_by_reason.items():
            mask = np.zeros(n_samples, bool)
            mask[members] = True
            masks[not by_release][reason] = mask
        return Unscored(*masks, share, n_missing)

    def bleu(self) -> PairedBleu:
        """Read the counts that the metric `bleu` stored with every answer of the two reports."""
        with self.home.warehouse.reading() as warehouse:
            counts = warehouse.execute(_SQL["bleu"], self.ids).to_arrow_table()
        old, new = (counts[side].combine_chunks().flatten().to_numpy().reshape(-1, _COUNTS) for side in ("old", "new"))
        return PairedBleu(self.scores("bleu.bleu"), old, new)

    def members(self) -> Iterator[tuple[str, Mask, Mask]]:
        """Yield the name of a slice, and its samples in the old and in the new report: 'all', then those of both."""
        all_samples = np.ones(len(self.in_old), bool)
        yield ALL, all_samples, all_samples
        for slices in self.slices:
            for code, value in enumerate(slices.values):
                yield f"{slices.column}={value}", slices.old == code, slices.new == code


def names_of(old: Report, new: Report) -> tuple[str, str]:
    """Short names of two different reports, for sentences."""
    names = labels((old, new))
    return names[old.report_id], names[new.report_id]


def _parts(name: str) -> dict[str, str]:
    """The metric and the field of METRIC.FIELD, as parameters of a statement."""
    metric, _, field = name.partition(".")
    return {"metric": metric, "field": field}


_MASKS = ("in_old", "in_new", "changed", "facts_changed", "same_answer", "same_label", "labelled", "relabelled")


def pair_samples(home: Home, old: Report, new: Report) -> PairedSamples:
    """Put the samples of two reports side by side."""
    parameters: dict[str, Any] = {}
    for side, report in (("old", old), ("new", new)):
        parameters |= {
            f"{side}_dataset": report.dataset,
            f"{side}_release": report.release,
            f"{side}_version": report.dataset_version,
            f"{side}_answers": report.answers_version,
        }
    with home.warehouse.reading() as warehouse:
        columns: dict[str, Any] = warehouse.execute(_SQL["sides"] + "\n" + _SQL["samples"], parameters).fetchnumpy()
        slices = tuple(_slices(warehouse, parameters))
        [(n_questions, n, n_languages, total, *examples)] = warehouse.execute(
            _SQL["sides"] + "\n" + _SQL["languages"], {**parameters, "code": _LANGUAGE}
        ).fetchall()

    # Samples that are not independent. Ids may look so by chance as if they named a language, so most must
    clusters, notes = dependent_samples(columns, *names_of(old, new))
    if not columns["clustered"].any() and 2 * n >= total and n >= 2 * n_languages and n_questions > 1:
        notes += (
            f"{n:,} samples seem to be {n_questions:,} questions in several languages ({', '.join(examples)}). The "
            "answers to one question are not independent: name the question in a column `cluster` "
            "(--map cluster=COLUMN).",
        )

    masks: dict[str, Any] = {name: columns[name].astype(bool) for name in _MASKS}
    return PairedSamples(
        home,
        old,
        new,
        **masks,
        old_length=floats(columns["old_length"]),
        new_length=floats(columns["new_length"]),
        clusters=clusters,
        cluster_notes=notes,
        slices=slices,
    )


def _slices(warehouse: duckdb.DuckDBPyConnection, parameters: dict[str, Any]) -> Iterator[Slices]:
    """Read the slice columns with the values that both reports have."""
    # Values that both reports have, then which sample has which
    by_column: dict[str, list[str]] = {}
    for column, value in warehouse.execute(_SQL["sides"] + "\n" + _SQL["slice_values"], parameters).fetchall():
        by_column.setdefault(column, []).append(value)
    for column, values in by_column.items():
        codes: dict[str, Any] = warehouse.execute(
            _SQL["sides"] + "\n" + _SQL["slice_codes"], {**parameters, "column": column, "values": values}
        ).fetchnumpy()
        yield Slices(column, tuple(values), codes["old"].astype(np.int32), codes["new"].astype(np.int32))


def floats(column: Any) -> npt.NDArray[np.float64]:
    """A column of DuckDB's as floats, NaN for NULL."""
    return np.ma.filled(np.ma.asarray(column, dtype=np.float64), np.nan)
