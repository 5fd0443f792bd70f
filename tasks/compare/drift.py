"""Does the newest report differ from those before it?

The newest report is compared, sample by sample, with up to ten trailing ones that were computed in the same way (of the
same release where there are three of it): its number less the mean of theirs. How hard a sample is cancels, so much
smaller changes show than between two means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from answerkey.metrics_core.comparison import USES_FACTS
from answerkey.metrics_core.statistics.bounded_mean import Floats
from answerkey.metrics_core.statistics.clustered import Codes, mean
from answerkey.metrics_core.statistics.intervals import LEVEL, decimals, percent
from answerkey.metrics_core.statistics.paired import difference_interval
from answerkey.tasks.compare.paired_samples import CORPUS_BLEU, floats
from answerkey.tasks.reports.report import Report, ReportPoint, read_reports
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements

MOST_TRAILING, LEAST_TRAILING = 10, 3
"""How many reports the newest one is compared with: at most, and at least."""

Shift = Literal["higher", "lower"] | None
"""What is shown of the newest one; None: no difference is."""

_SQL = statements(__name__)


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
    if why := _why_not(newest, len(trailing)):
        return Drift(newest.report_id, tuple(one.report_id for one in trailing), sentence=why)
    *before, now = read_reports(home, [one.report_id for one in (*trailing, newest)])
    samples = _samples(home, before, now, metric, field)
    return _drift(samples, before, now, now.range(newest.field))


def _why_not(newest: ReportPoint, n_alike: int) -> str | None:
    """Why there is no test; None where there is one."""
    if newest.field == CORPUS_BLEU:
        return f"Drift is tested sample by sample, and {newest.field} is one number for a whole report."
    if not newest.n_scored:
        return f"{newest.report_id} has no number to test for drift."
    if n_alike >= LEAST_TRAILING:
        return None
    return (
        f"Whether {newest.report_id} differs from earlier reports is not tested: that takes {LEAST_TRAILING} earlier "
        f"reports that were computed in the same way, and there "
        f"{'is 1' if n_alike == 1 else f'are {n_alike}' if n_alike else 'is none'}."
    )


@dataclass(frozen=True, slots=True)
class _Samples:
    """Numbers by sample, shape (samples,), the newest NaN where there is none; `codes` of clusters.

    `n_trailing` of shape (samples,) counts the reports behind each trailing number.
    """

    trailing: Floats
    newest: Floats
    codes: Codes | None
    n_trailing: npt.NDArray[np.int64]

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
        found: dict[str, Any] = warehouse.execute(_SQL["samples"], parameters).fetchnumpy()
    codes = found["cluster"].astype(np.intp) if found["clustered"].any() else None
    return _Samples(floats(found["trailing"]), floats(found["newest"]), codes, found["n_trailing"])


def _drift(
    samples: _Samples,
    before: Sequence[Report],
    now: Report,
    range_: tuple[float, float],
) -> Drift:
    low, high = range_
    changes, codes = samples.changes()
    trailing, n = tuple(report.report_id for report in before), len(changes)
    interval = difference_interval(changes, codes, binary=False, span=high - low) if n > 1 else None
    if interval is None:
        sentence = f"Drift is not tested: {now.report_id} shares {n} samples with the {len(before)} reports before it."
        return Drift(now.report_id, trailing, n, sentence=sentence)
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
    found = Drift(now.report_id, trailing, n, missing, *means, mean(changes), interval.low, interval.high, finding)
    return replace(found, sentence=_said(found, samples, before, now, undone=undone))


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
    if found.missing:
        end = "; with the lowest score for those, nothing is shown" if undone else ""
        sentence += f"; {found.missing:,} more have no number in it{end}"
    return f"{sentence}."
