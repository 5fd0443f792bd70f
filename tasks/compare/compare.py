"""Compare two reports on the same data set, sample by sample: is the new release better, worse, or neither shown?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
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
from answerkey.tasks.compare.paired_samples import (
    CORPUS_BLEU,
    PairedSamples,
    pair_samples,
)
from answerkey.tasks.compare.warnings import (
    comparison_warnings,
    differing_methods,
    few_samples_notes,
    removed_notes,
    unanswered_warnings,
)
from answerkey.tasks.labels import drawn_labels
from answerkey.tasks.reports.headline import fields_of, headlines
from answerkey.tasks.reports.report import Report, read_pair, read_reports
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements

_SQL = statements(__name__)

_PAIR_COLUMNS = {
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
"""The columns that all rows about two reports share, by attribute of `Comparison`."""

_ROW_COLUMNS = {field.name: field.name for field in fields_of_class(FieldComparison)} | {
    "low": "ci_low",
    "high": "ci_high",
}
"""The columns of a row's own, by attribute of `FieldComparison`."""
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
    # One session, so that all pairs are read from the same tables
    with home.warehouse.reading():
        reports = [read_pair(home, *pair) for pair in pairs]
        primaries = []
        for pair in reports:
            primaries.append(primary if primary in _fields_of(*pair) else "")
        if primary and reports and not any(primaries):
            raise UserError(_no_such_field(primary, _fields_of(*reports[0])))

        # What to compare, and how many tests that makes in all
        names_by_pair = [
            _choose_fields(*pair, fields, pair_primary, all_fields=all_fields)
            for pair, pair_primary in zip(reports, primaries, strict=True)
        ]
        family = ALL_FIELDS if all_fields else HEADLINES
        if fields:
            family = ", ".join(fields)
        n_tests = sum(map(len, names_by_pair))
        unadjusted = [
            _compare(home, *pair, names, n_tests, family) for pair, names in zip(reports, names_by_pair, strict=True)
        ]
    comparisons = adjust(unadjusted)
    if comparisons and not home.published:
        _store(home, comparisons)
    return comparisons


def _compare(home: Home, old: Report, new: Report, names: Sequence[str], n_tests: int, family: str) -> Comparison:
    """Compare the fields `names` of two reports, without adjusted p."""
    methods = differing_methods(old, new)
    samples = pair_samples(home, old, new)

    # People's labels of both releases, if there are any, and how they were drawn
    drawing = drawn_labels(home, old.report_id, new.report_id)
    labels = (drawing.old, drawing.new) if drawing else samples.labels()
    draw = drawing.draw if drawing else None

    # The rows; a field that one report alone has, or that was computed in two ways, has a note
    rows: list[FieldComparison] = []
    for name in names:
        metric, _, field = name.partition(".")
        note = methods.get(metric)
        if not note and name not in old.names:
            note = f"only {new.report_id} has it"
        elif not note and name not in new.names:
            note = f"only {old.report_id} has it"
        if note:
            rows.append(FieldComparison(metric, field, ALL, note=note))
        else:
            rows += _compare_field(samples, name, n_tests, labels=labels, draw=draw)

    not_comparable = None
    if not names:
        not_comparable = "the two reports have no field in common"
    elif all(name.partition(".")[0] in methods for name in names):
        not_comparable = "none of these metrics was computed in the same way in both reports"
    return Comparison(
        old.report_id,
        new.report_id,
        tuple(rows),
        (
            *comparison_warnings(samples, [name.partition(".")[0] for name in names]),
            *unanswered_warnings(new, rows),
            *few_samples_notes(samples, rows),
            *removed_notes(samples),
        ),
        not_comparable=not_comparable,
        n_common=int((samples.in_old & samples.in_new).sum()),
        n_only_old=int((samples.in_old & ~samples.in_new).sum()),
        n_only_new=int((samples.in_new & ~samples.in_old).sum()),
        n_changed=int(samples.changed.sum()),
        family=family,
    )


def primary_field(home: Home, report_ids: Sequence[str], name: str) -> str:
    """Return METRIC.FIELD `name` if one of the reports has it, else nothing: the gate says what is missing."""
    if any(name in report.names for report in read_reports(home, report_ids)):
        return name
    return ""


def _fields_of(old: Report, new: Report) -> list[str]:
    """METRIC.FIELD of every number of either report."""
    return list(dict.fromkeys([*new.names, *old.names]))


def _no_such_field(name: str, fields: Sequence[str]) -> str:
    """Say that reports with these fields lack one."""
    return f"{name}: these reports have {', '.join(fields)}{did_you_mean(name, fields)}"


def _choose_fields(old: Report, new: Report, fields: Sequence[str], primary: str, *, all_fields: bool) -> list[str]:
    """Return the fields to compare, the primary one first."""
    # Fields that are named are compared as they are named
    reported = _fields_of(old, new)
    for name in fields:
        if name not in reported:
            raise UserError(_no_such_field(name, reported))
    if fields:
        return list(dict.fromkeys([*([primary] if primary else []), *fields]))
    names = headlines([old, new], primary)
    if all_fields:
        names = tuple(dict.fromkeys([*names[:1], *fields_of([old, new], primary)]))
    # The spread of votes is about the judges, and less of it is no worse a release
    spreads = {name for name in reported if name.endswith(f".{SPREAD}")}
    comparable = (set(old.names) & set(new.names)) - spreads
    return [name for name in names if name in comparable or name == primary]


def _compare_field(
    samples: PairedSamples,
    name: str,
    n_tests: int,
    *,
    labels: tuple[Floats, Floats] | None,
    draw: LabelDraw | None,
) -> Iterator[FieldComparison]:
    """Compare a field on 'all', then on the slices, without adjusted p. Only its own columns are in memory.

    Args:
        labels: human labels, where both releases have some; `draw`: how they were drawn, if that is known.
    """
    metric, _, field = name.partition(".")
    bleu = samples.bleu() if name == CORPUS_BLEU else None
    scores = bleu.scores if bleu else samples.scores(name)
    same_sample = ~samples.changed_for(metric)
    has_old = scores.old_status == SCORED
    has_new = scores.new_status == SCORED
    compared = has_old & has_new & same_sample
    binary = all(np.isin(side[compared], (0, 1)).all() for side in (scores.old, scores.new))
    low, high = samples.range(name)
    range_ = None if binary else high - low
    lower_is_better = samples.new.lower_is_better(name)
    unscored: Unscored | None = None
    n_slices = sum(len(column.values) for column in samples.slices)
    for slice_, in_old, in_new in samples.members():
        # The samples of the slice, and why some of them are not compared
        family = n_tests * (1 if slice_ == ALL else n_slices)
        old_scored = in_old & has_old
        new_scored = in_new & has_new
        common = old_scored & new_scored & same_sample
        counts = {
            "n_common": int(common.sum()),
            "n_only_old": int((old_scored & ~new_scored).sum()),
            "n_only_new": int((new_scored & ~old_scored).sum()),
            "missing_old": _missing(scores.old_status[new_scored & ~old_scored]),
            "missing_new": _missing(scores.new_status[old_scored & ~new_scored]),
            "n_clusters": None if samples.clusters is None else len(np.unique(samples.clusters[common])),
        }

        # The difference on the samples that both reports have a score for
        difference: PairedDifference | None = None
        if common.any() and bleu:
            difference = bleu.difference(common, samples.clusters)
        elif common.any():
            difference = mean_difference(
                scores.old[common], scores.new[common], samples.codes(common), span=range_, n_tests=n_tests,
                slice_=slice_,
            )  # fmt: skip
        row = field_comparison(metric, field, slice_, difference, counts=counts, family=family)
        row = replace(row, lower_is_better=lower_is_better)

        # A release that seems better is held to the lowest score on the samples that it did not answer
        is_better = row.difference is not None and row.difference > 0 and not lower_is_better
        if row.n_only_old and not bleu and is_better:
            unscored = unscored or samples.unscored(name)
            unanswered = np.zeros(len(common), bool)
            for mask in unscored.by_release.values():
                unanswered |= mask & old_scored & same_sample & ~common
            if unanswered.any():
                rows = common | unanswered
                old = scores.old[rows]
                new = np.where(unanswered, low, scores.new)[rows]
                is_binary = (low, high) == (0.0, 1.0) and np.isin(np.concatenate([old, new]), (0, 1)).all()
                span = None if is_binary else high - low
                filled = mean_difference(old, new, samples.codes(rows), span=span, n_tests=n_tests, slice_=slice_)
                filled_low = filled.interval.low if filled.interval else low - high
                # If the interval contains 0, the difference is not shown anyway, and p keeps its plain meaning
                p = max(row.p or 0.0, filled.p) if filled_low > 0 else row.p
                row = replace(row, n_unanswered=int(unanswered.sum()), low_with_unanswered=filled_low, p=p)

        # The difference in human labels, which the scores predict where they are missing
        if labels and slice_ == ALL and not bleu and metric != LABEL:
            old, new = (np.where(common, side, np.nan) for side in (scores.old, scores.new))
            column = PairedScores(old, new, binary=False, low=low, high=high, labels=labels, draw=draw)
            row = replace(row, **_people(people_statistic(column, samples.clusters)))
        yield row


def _people(people: RuleStatistic | None) -> dict[str, Any]:
    """Return the difference in human labels, where only a part of the samples is labelled, or they were drawn."""
    if people is None or not people.n_labelled:
        return {}
    has_draw = isinstance(people, CorrectedStatistic) and people.draw is not None
    if not has_draw and people.n_labelled >= MOST_LABELLED * people.n:
        return {}
    interval = people.interval()
    if interval is None:
        return {}
    low, high, _ = interval.clipped(-1.0, 1.0)
    return {"people": people.value, "people_low": low, "people_high": high, "n_labelled": people.n_labelled}


def _missing(statuses: npt.NDArray[np.int8]) -> dict[str, int]:
    """Count why samples have no number here. One that does have a number is in another slice here."""
    counts = np.bincount(statuses, minlength=len(STATUSES))
    names = {"scored": "other slice"}
    return {names.get(name, name): int(n) for name, n in zip(STATUSES, counts, strict=True) if n}


def _store(home: Home, comparisons: Sequence[Comparison]) -> None:
    """Write what was compared together, in place of what was stored about the same reports and family of fields."""
    import pyarrow as pa

    rows = []
    for comparison in comparisons:
        # A row for each field and slice, with what all rows of the pair share
        pair_columns = {column: getattr(comparison, name) for name, column in _PAIR_COLUMNS.items()}
        for position, row in enumerate(comparison.rows):
            columns = {column: getattr(row, name) for name, column in _ROW_COLUMNS.items()}
            counts = {name: json.dumps(dict(columns[name])) for name in _COUNTS}
            rows.append({**pair_columns, **columns, **counts, "place": position, "finding": row.finding})
    with home.warehouse.writing() as warehouse:
        for comparison in comparisons:
            key = {"old": comparison.old, "new": comparison.new, "family": comparison.family}
            warehouse.execute(_SQL["forget"], key)
        if rows:
            warehouse.register("compared", pa.Table.from_pylist(rows))
            warehouse.execute("INSERT INTO comparisons BY NAME SELECT *, now() AS created_at FROM compared")
            warehouse.unregister("compared")


def stored_comparisons(home: Home, new_report_ids: Sequence[str], *, family: str = HEADLINES) -> tuple[Comparison, ...]:
    """Read the comparisons whose new report is one of `new_report_ids`, in that order, then as they were made.

    Args:
        family: that of the fields; see `Comparison`.
    """
    with home.warehouse.reading() as warehouse:
        cursor = warehouse.execute(_SQL["stored"], {"reports": list(new_report_ids), "family": family})
        names = [column[0] for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    # Rows about the same two reports are one comparison
    rows_by_pair: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        rows_by_pair.setdefault((row["old_report"], row["new_report"]), []).append(row)
    comparisons = []
    for pair_rows in rows_by_pair.values():
        pair = {name: pair_rows[0][column] for name, column in _PAIR_COLUMNS.items()}
        pair["warnings"] = tuple(pair["warnings"])
        field_rows = []
        for row in pair_rows:
            stored = {name: row[column] for name, column in _ROW_COLUMNS.items()}
            stored |= {name: json.loads(row[name]) for name in _COUNTS}
            field_rows.append(FieldComparison(**stored))
        comparisons.append(Comparison(rows=tuple(field_rows), **pair))
    return tuple(comparisons)
