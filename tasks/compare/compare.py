"""Compare two reports on the same data set, sample by sample: is the new release better, worse, or neither shown?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from answerkey.metrics_core.comparison import ALL, Comparison, Pair
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.votes import SPREAD
from answerkey.metrics_core.statistics.intervals import LEVEL
from answerkey.metrics_core.statistics.multiple_testing import benjamini_hochberg, holm
from answerkey.tasks.compare.field import Settings, compare_field, without_numbers
from answerkey.tasks.compare.paired_samples import pairing
from answerkey.tasks.compare.stored import store
from answerkey.tasks.compare.warnings import cautions, differing_methods
from answerkey.tasks.reports.labels import LABEL, LABEL_FIELD
from answerkey.tasks.reports.report import Report, read_reports
from answerkey.tasks.warehouse.home import Home


def compare(
    home: Home,
    old_report_id: str,
    new_report_id: str,
    *,
    fields: Sequence[str] = (),
    primary: str = "",
    seed: int = 0,
    level: float = LEVEL,
) -> Pair:
    """Compare two reports, field by field and slice by slice, on the samples that both have a number for.

    A sample whose question or references changed between the versions of the data set is not the same sample: it is
    left out and counted. So is one with other facts, for the metrics that read them. A field is not compared where
    the signatures of its metric differ. `p_adjusted` is Holm's over the fields on 'all', and Benjamini and
    Hochberg's over all slices of all fields. The `primary` field is declared to decide before anybody has looked, so
    on 'all' it is a family of its own.

    The result also replaces what the table `comparisons` has about these two reports.

    Args:
        fields: METRIC.FIELD, those to look at; where none is named, all that both reports have.
        primary: METRIC.FIELD, which comes first; where it is empty, none does.
        seed: of the random sign flips and the bootstrap.
        level: of the intervals, 0 to 1.

    Raises:
        UserError: a report is not there, both are the same, they are about two data sets, or one of `fields` is in
            neither.
    """
    old, new = read_reports(home, [old_report_id, new_report_id])
    if old.report_id == new.report_id:
        raise UserError(f"{old.report_id}: a report cannot be compared with itself")
    if old.dataset != new.dataset:
        raise UserError(f"{old.report_id} is about {old.dataset}, and {new.report_id} about {new.dataset}")
    wanted = _wanted(old, new, fields, primary)
    differ = differing_methods(old, new)
    pair = pairing(home, old, new)
    settings = Settings(seed, level, n_fields=len(wanted))
    label = f"{LABEL}.{LABEL_FIELD.name}"
    labels = pair.columns(LABEL, LABEL_FIELD.name) if label in _names(old) and label in _names(new) else None
    rows: list[Comparison] = []
    for metric, _, field in (name.partition(".") for name in wanted):
        if note := differ.get(metric) or _only_in_one(old, new, f"{metric}.{field}"):
            rows.append(without_numbers(metric, field, ALL, note))
        else:
            rows += compare_field(pair, metric, field, settings, labels)
    found = Pair(
        old.report_id,
        new.report_id,
        tuple(_adjusted(rows, primary)),
        cautions(pair, [name.partition(".")[0] for name in wanted]),
        not_comparable=_nothing(wanted, differ),
        n_common=int((pair.in_old & pair.in_new).sum()),
        n_only_old=int((pair.in_old & ~pair.in_new).sum()),
        n_only_new=int((pair.in_new & ~pair.in_old).sum()),
        n_changed=int(pair.changed.sum()),
    )
    store(home, found, seed=seed)
    return found


def primary_field(home: Home, report_ids: Sequence[str], name: str) -> str:
    """METRIC.FIELD `name` where one of the reports has it, otherwise nothing: what is missing is the gate's to say."""
    return name if any(name in _names(report) for report in read_reports(home, report_ids)) else ""


def _names(report: Report) -> list[str]:
    return [f"{score.metric}.{score.field}" for score in report.overall]


def _wanted(old: Report, new: Report, fields: Sequence[str], primary: str) -> list[str]:
    first = [primary] if primary else []
    known = list(dict.fromkeys([*_names(new), *_names(old)]))
    for name in (*fields, *first):
        if name not in known:
            raise UserError(f"{name}: these reports have {', '.join(known)}")
    # The spread of votes is about the judges, and less of it is no worse a release.
    both = [name for name in known if name in _names(old) and name in _names(new) and not name.endswith(f".{SPREAD}")]
    return list(dict.fromkeys([*first, *(fields or both)]))


def _only_in_one(old: Report, new: Report, name: str) -> str | None:
    for report, other in ((old, new), (new, old)):
        if name not in _names(report):
            return f"only {other.report_id} has it"
    return None


def _nothing(wanted: Sequence[str], differ: Mapping[str, str]) -> str | None:
    if not wanted:
        return "the two reports have no field in common"
    if all(name.partition(".")[0] in differ for name in wanted):
        return "none of these metrics was computed in the same way in both reports"
    return None


def _adjusted(rows: Sequence[Comparison], primary: str) -> Iterator[Comparison]:
    """The rows in their order, with p-values that allow for everything that is looked at beside them."""
    first = {place for place, row in enumerate(rows) if row.slice == ALL and row.name == primary}
    overall = {place for place, row in enumerate(rows) if row.slice == ALL} - first
    slices = {place for place, row in enumerate(rows) if row.slice != ALL}
    adjusted: dict[int, float] = {}
    for family, correction in ((first, holm), (overall, holm), (slices, benjamini_hochberg)):
        raw = {place: p for place in family if (p := rows[place].p) is not None}
        adjusted |= dict(zip(raw, correction(list(raw.values())), strict=True))
    for place, row in enumerate(rows):
        yield replace(row, p_adjusted=adjusted.get(place))
