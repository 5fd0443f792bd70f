"""Compare two reports on the same data set, sample by sample: is the new release better, worse, or neither shown?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields as fields_of_class
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from answerkey.metrics_core.comparison import (
    ALL_FIELDS,
    HEADLINES,
    Comparison,
    FieldComparison,
    adjust,
    field_comparison,
    mean_difference,
)
from answerkey.metrics_core.decide.bounded_mean import Floats
from answerkey.metrics_core.decide.evidence import (
    CorrectedStatistic,
    LabelDraw,
    PairedScores,
    RuleStatistic,
    people_statistic,
)
from answerkey.metrics_core.decide.paired import PairedDifference
from answerkey.metrics_core.decide.policy import ALL
from answerkey.metrics_core.errors import UserError, did_you_mean
from answerkey.metrics_core.judges.votes import SPREAD
from answerkey.metrics_core.metrics.label import LABEL, MOST_LABELLED
from answerkey.metrics_core.paired_field import SCORED, STATUSES, Unscored
from answerkey.tasks.compare.earlier import removed_notes
from answerkey.tasks.compare.paired_samples import (
    CORPUS_BLEU,
    PairedSamples,
    pair_samples,
)
from answerkey.tasks.compare.warnings import (
    comparison_warnings,
    differing_methods,
    few_samples_notes,
    unanswered_warnings,
)
from answerkey.tasks.labels import drawn_labels
from answerkey.tasks.reports.headline import fields_of, headlines
from answerkey.tasks.reports.report import Report, read_pair, read_reports
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements

_SQL = statements(__name__)

_OF_PAIR = {
    "old": "old_report",
    "new": "new_report",
    "warnings": "warnings",
    "not_comparable": "not_comparable",
    "n_common": "samples_common",
    "n_only_old": "samples_only_old",
    "n_only_new": "samples_only_new",
    "n_changed": "samples_changed",
    "n_pairs": "n_pairs",
    "family": "family",
}
"""What all rows about two reports share: attribute of `Comparison` to column."""

_OF_ROW = {field.name: field.name for field in fields_of_class(FieldComparison)} | {"low": "ci_low", "high": "ci_high"}
"""What a row has of its own: attribute of `FieldComparison` to column."""
_COUNTS = ("missing_old", "missing_new")


def compare(
    home: Home,
    old_report_id: str,
    new_report_id: str,
    *,
    fields: Sequence[str] = (),
    all_fields: bool = False,
    primary: str = "",
) -> Comparison:
    """Compare two reports; `compare_all` says how."""
    pairs = [(old_report_id, new_report_id)]
    return compare_all(home, pairs, fields=fields, all_fields=all_fields, primary=primary)[0]


def compare_all(
    home: Home,
    pairs: Sequence[tuple[str, str]],
    *,
    fields: Sequence[str] = (),
    all_fields: bool = False,
    primary: str = "",
) -> tuple[Comparison, ...]:
    """Compare pairs of reports, field by field and slice by slice, on the samples that both have a number for.

    A sample whose question or references changed between the versions of the data set is not the same sample: it is
    left out and counted. So is one with other facts, for the metrics that read them. A field is not compared where
    the signatures of its metric differ. The p-values are adjusted for all that is compared, in all pairs together; see
    `adjust`.

    The result also replaces what the table `comparisons` has about each pair and the same family of fields. A
    home that is only read keeps nothing (`Home.as_published`).

    Args:
        pairs: ids of an old and a new report; several where several new releases are compared with one baseline.
        fields: METRIC.FIELD, those to look at; where none is named, one per metric (see `headlines`), or, with
            `all_fields`, all that both reports have.
        primary: METRIC.FIELD, which comes first; where it is empty, or a pair lacks it, see `headline.primary`.

    Raises:
        UserError: a report is not there, both of a pair are the same, they are about two data sets, one of `fields` is
            in neither, or no pair has the `primary` field.
    """
    with home.warehouse.reading():
        reports = [read_pair(home, *pair) for pair in pairs]
        declared = [primary if primary in _known(*pair) else "" for pair in reports]
        if primary and reports and not any(declared):
            raise UserError(_unknown(primary, _known(*reports[0])))
        wanted = [
            _wanted(*pair, fields, one, all_fields=all_fields) for pair, one in zip(reports, declared, strict=True)
        ]
        family = ", ".join(fields) if fields else ALL_FIELDS if all_fields else HEADLINES
        n_tests = sum(map(len, wanted))
        compared = [_compare(home, *pair, names, n_tests, family) for pair, names in zip(reports, wanted, strict=True)]
    comparisons = adjust(compared)
    if comparisons and not home.published:
        _store(home, comparisons)
    return comparisons


def _compare(home: Home, old: Report, new: Report, wanted: Sequence[str], n_tests: int, family: str) -> Comparison:
    """The fields `wanted` of two reports, without adjusted p."""
    differ = differing_methods(old, new)
    samples = pair_samples(home, old, new)
    drawn = drawn_labels(home, old.report_id, new.report_id)
    labels = (drawn.old, drawn.new) if drawn else samples.labels()
    draw = drawn.draw if drawn else None
    rows: list[FieldComparison] = []
    for name in wanted:
        metric, _, field = name.partition(".")
        if note := differ.get(metric) or _only_in_one(old, new, name):
            rows.append(FieldComparison(metric, field, ALL, note=note))
        else:
            rows += _compare_field(samples, name, n_tests, labels, draw)
    return Comparison(
        old.report_id,
        new.report_id,
        tuple(rows),
        (
            *comparison_warnings(samples, [name.partition(".")[0] for name in wanted]),
            *unanswered_warnings(new, rows),
            *few_samples_notes(samples, rows),
            *removed_notes(samples),
        ),
        not_comparable=_nothing(wanted, differ),
        n_common=int((samples.in_old & samples.in_new).sum()),
        n_only_old=int((samples.in_old & ~samples.in_new).sum()),
        n_only_new=int((samples.in_new & ~samples.in_old).sum()),
        n_changed=int(samples.changed.sum()),
        family=family,
    )


def primary_field(home: Home, report_ids: Sequence[str], name: str) -> str:
    """METRIC.FIELD `name` where one of the reports has it, otherwise nothing: what is missing is the gate's to say."""
    return name if any(name in report.names for report in read_reports(home, report_ids)) else ""


def _known(old: Report, new: Report) -> list[str]:
    return list(dict.fromkeys([*new.names, *old.names]))


def _unknown(name: str, known: Sequence[str]) -> str:
    return f"{name}: these reports have {', '.join(known)}{did_you_mean(name, known)}"


def _wanted(old: Report, new: Report, fields: Sequence[str], declared: str, *, all_fields: bool) -> list[str]:
    """The fields to compare; that which decides comes first, where it is not one of several that were named."""
    known = _known(old, new)
    for name in fields:
        if name not in known:
            raise UserError(_unknown(name, known))
    if fields:
        return list(dict.fromkeys([*([declared] if declared else []), *fields]))
    names = headlines([old, new], declared)
    if all_fields:
        names = tuple(dict.fromkeys([*names[:1], *fields_of([old, new], declared)]))
    # The spread of votes is about the judges, and less of it is no worse a release.
    both = set(old.names) & set(new.names) - {name for name in known if name.endswith(f".{SPREAD}")}
    return [name for name in names if name in both or name == declared]


def _only_in_one(old: Report, new: Report, name: str) -> str | None:
    for report, other in ((old, new), (new, old)):
        if name not in report.names:
            return f"only {other.report_id} has it"
    return None


def _nothing(wanted: Sequence[str], differ: Mapping[str, str]) -> str | None:
    if not wanted:
        return "the two reports have no field in common"
    if all(name.partition(".")[0] in differ for name in wanted):
        return "none of these metrics was computed in the same way in both reports"
    return None


def _compare_field(
    samples: PairedSamples,
    name: str,
    n_tests: int,
    labels: tuple[Floats, Floats] | None,
    draw: LabelDraw | None,
) -> Iterator[FieldComparison]:
    """The field on 'all', then on the slices, without adjusted p. Only its own columns are in memory.

    `labels` are the human labels, where both releases have some, and `draw` is how they were drawn, if that is known.
    """
    metric, _, field = name.partition(".")
    bleu = samples.bleu() if name == CORPUS_BLEU else None
    scores = bleu.scores if bleu else samples.scores(name)
    same_sample = ~samples.changed_for(metric)
    both = (scores.old_status == SCORED) & (scores.new_status == SCORED) & same_sample
    binary = all(np.isin(side[both], (0, 1)).all() for side in (scores.old, scores.new))
    low, high = samples.range(name)
    range_ = None if binary else high - low
    lower_is_better = samples.new.lower_is_better(name)
    unscored: Unscored | None = None
    slices = sum(len(one.values) for one in samples.slices)
    for slice_, in_old, in_new in samples.members():
        family = n_tests * (1 if slice_ == ALL else slices)
        before, after = in_old & (scores.old_status == SCORED), in_new & (scores.new_status == SCORED)
        common = before & after & same_sample
        about = {
            "n_common": int(common.sum()),
            "n_only_old": int((before & ~after).sum()),
            "n_only_new": int((after & ~before).sum()),
            "missing_old": _missing(scores.old_status[after & ~before]),
            "missing_new": _missing(scores.new_status[before & ~after]),
            "n_clusters": None if samples.clusters is None else len(np.unique(samples.clusters[common])),
        }
        difference: PairedDifference | None = None
        if common.any() and bleu:
            difference = bleu.difference(common, samples.clusters)
        elif common.any():
            difference = mean_difference(
                scores.old[common], scores.new[common], samples.codes(common), span=range_, n_tests=n_tests,
                slice_=slice_,
            )  # fmt: skip
        row = field_comparison(metric, field, slice_, difference, about, family)
        row = replace(row, lower_is_better=lower_is_better)
        better = row.difference is not None and row.difference > 0 and not lower_is_better
        if row.n_only_old and not bleu and better:
            unscored = unscored or samples.unscored(name)
            asked = common | (before & same_sample)
            unanswered = np.zeros(len(common), bool)
            for mask in unscored.by_release.values():
                unanswered |= mask & asked & ~common
            if unanswered.any():
                rows = common | unanswered
                old, new = scores.old[rows], np.where(unanswered, low, scores.new)[rows]
                zeros_and_ones = (low, high) == (0.0, 1.0) and all(np.isin(side, (0, 1)).all() for side in (old, new))
                span = None if zeros_and_ones else high - low
                filled = mean_difference(old, new, samples.codes(rows), span=span, n_tests=n_tests, slice_=slice_)
                least = filled.interval.low if filled.interval else low - high
                # If the interval contains 0, the difference is not shown anyway, and p keeps its plain meaning
                p = max(row.p or 0.0, filled.p) if least > 0 else row.p
                row = replace(row, n_unanswered=int(unanswered.sum()), low_with_unanswered=least, p=p)
        if labels and slice_ == ALL and not bleu and metric != LABEL:
            old, new = (np.where(common, side, np.nan) for side in (scores.old, scores.new))
            column = PairedScores(old, new, False, low, high, labels=labels, draw=draw)
            row = replace(row, **_people(people_statistic(column, samples.clusters)))
        yield row


def _people(people: RuleStatistic | None) -> dict[str, Any]:
    """The difference in human labels, where only a part of the samples is labelled, or they were drawn."""
    drawn = isinstance(people, CorrectedStatistic) and people.draw is not None
    if people is None or not people.n_labelled or not (drawn or people.n_labelled < MOST_LABELLED * people.n):
        return {}
    interval = people.interval()
    if interval is None:
        return {}
    low, high, _ = interval.clipped(-1.0, 1.0)
    return {"people": people.value, "people_low": low, "people_high": high, "n_labelled": people.n_labelled}


def _missing(statuses: npt.NDArray[np.int8]) -> dict[str, int]:
    """Why rows have no number here: a row that does have one is in another slice here."""
    counts = np.bincount(statuses, minlength=len(STATUSES))
    names = ["other slice" if name == "scored" else name for name in STATUSES]
    return {name: int(n) for name, n in zip(names, counts, strict=True) if n}


def _store(home: Home, comparisons: Sequence[Comparison]) -> None:
    """Write what was compared together, in place of what was stored about the same reports and family of fields."""
    import pyarrow as pa

    rows = []
    for one in comparisons:
        about = {column: getattr(one, name) for name, column in _OF_PAIR.items()}
        for place, row in enumerate(one.rows):
            values = {column: getattr(row, name) for name, column in _OF_ROW.items()}
            counts = {name: json.dumps(dict(values[name])) for name in _COUNTS}
            rows.append({**about, **values, **counts, "place": place, "finding": row.finding})
    with home.warehouse.writing() as warehouse:
        for one in comparisons:
            warehouse.execute(_SQL["forget"], {"old": one.old, "new": one.new, "family": one.family})
        if rows:
            warehouse.register("compared", pa.Table.from_pylist(rows))
            warehouse.execute("INSERT INTO comparisons BY NAME SELECT *, now() AS created_at FROM compared")
            warehouse.unregister("compared")


def stored_comparisons(home: Home, new_report_ids: Sequence[str], *, family: str = HEADLINES) -> tuple[Comparison, ...]:
    """The comparisons whose new report is one of `new_report_ids`, in that order, then in the order of their making.

    Args:
        family: that of the fields; see `Comparison`.
    """
    with home.warehouse.reading() as warehouse:
        found = warehouse.execute(_SQL["stored"], {"reports": list(new_report_ids), "family": family})
        names = [column[0] for column in found.description]
        rows = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
    comparisons: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        comparisons.setdefault((row["old_report"], row["new_report"]), []).append(row)
    return tuple(
        Comparison(
            rows=tuple(
                FieldComparison(
                    **{name: row[column] for name, column in _OF_ROW.items()}
                    | {name: json.loads(row[name]) for name in _COUNTS}
                )
                for row in of_pair
            ),
            **{name: of_pair[0][column] for name, column in _OF_PAIR.items()}
            | {"warnings": tuple(of_pair[0]["warnings"])},
        )
        for of_pair in comparisons.values()
    )
