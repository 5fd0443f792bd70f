"""Which fields speak for reports: all that differ, one per metric, and the one that decides."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain

from answerkey.metrics_core.errors import UserError, did_you_mean
from answerkey.metrics_core.metrics.answer_correctness import SINGLE_METRIC_FIELDS, AnswerCorrectness
from answerkey.metrics_core.metrics.label import LABELLED, MOST_LABELLED
from answerkey.tasks.reports.report import Report, Score

MATCH = "meaning_match.match"
_TOLERANCE = 1e-12
"""Between two means of the same numbers, which may be summed in another order."""


def fields_of(reports: Sequence[Report], declared: str = "") -> tuple[str, ...]:
    """Every METRIC.FIELD of the reports in their order.

    A part of `answer_correctness` and the metric of that part (`answer_correctness.rouge_l_f1` and `rouge_l.f1`) are
    there once, where their numbers are the same in all reports: the one of the two that is among the `headlines`, else
    the first.
    """
    names = _names(reports)
    without_doubles = set(_once(reports, dict.fromkeys([*headlines(reports, declared), *names])))
    return tuple(name for name in names if name in without_doubles)


def headlines(reports: Sequence[Report], declared: str = "") -> tuple[str, ...]:
    """The primary field (see `primary`), then one METRIC.FIELD of every other metric in the order of the reports.

    Raises:
        UserError: none of the reports has the field `declared`.
    """
    primary_name = primary(reports, declared)
    if not primary_name:
        return ()
    other_metrics = [name for name in _per_metric(reports) if _metric(name) != _metric(primary_name)]
    return tuple(_once(reports, [primary_name, *other_metrics]))


def primary(reports: Sequence[Report], declared: str = "") -> str:
    """The METRIC.FIELD that decides and makes the headline; empty where the reports have no numbers.

    It is the one that is `declared`, by a policy for instance; else the human label, where at least half of the
    answers of every report have one; else `meaning_match.match`; else the headline field of the first metric. A field
    that all reports have is preferred to one that only some have. None of this depends on the values of the scores,
    so the choice needs no correction.

    Raises:
        UserError: none of the reports has the field `declared`.
    """
    names = _names(reports)
    if declared and declared not in names:
        raise UserError(f"{declared}: these reports have {', '.join(names)}{did_you_mean(declared, names)}")
    if declared:
        return declared
    # Fields that all reports have are preferred to those that only some have
    candidates = _per_metric(reports)
    for report in reports:
        candidates = [name for name in candidates if name in report.names]
    candidates = candidates or _per_metric(reports)
    if LABELLED in candidates:
        labels = [report.score(LABELLED) for report in reports]
        if all(score and score.n_scored / score.n_total >= MOST_LABELLED for score in labels):
            return LABELLED
    if MATCH in candidates:
        return MATCH
    # Labels of less than half of the answers come last: their own number rests on few of them.
    candidates.sort(key=lambda name: name == LABELLED)
    return next(iter(candidates), "")


def why_primary(name: str) -> str:
    """Why `primary` chose this field where none was declared, as a sentence."""
    reasons = {
        LABELLED: "most answers have a human label",
        MATCH: "most answers have no human label, and this judge compares meaning",
    }
    reason = reasons.get(name, "there are neither enough human labels nor meaning_match, and it is the first")
    return f"No primary field was declared. {name} decides because {reason}."


def _names(reports: Sequence[Report]) -> list[str]:
    """METRIC.FIELD of every number of the reports, each once."""
    return list(dict.fromkeys(chain.from_iterable(report.names for report in reports)))


def _metric(name: str) -> str:
    """The metric of METRIC.FIELD."""
    return name.partition(".")[0]


def _per_metric(reports: Sequence[Report]) -> list[str]:
    """The headline field of each metric, as the newest report says that has the metric."""
    names = _names(reports)
    chosen = []
    for metric in dict.fromkeys(map(_metric, names)):
        notes = [note for report in reports[::-1] if (note := report.metric(metric))]
        fields = [name for name in names if _metric(name) == metric]
        headline = f"{metric}.{notes[0].headline}" if notes else fields[0]
        chosen.append(headline if headline in fields else fields[0])
    return chosen


def _once(reports: Sequence[Report], names: Iterable[str]) -> list[str]:
    """`names` without those that are another one, further up, by a second name."""
    # A name and its second name, in both directions
    twins = {f"{AnswerCorrectness.name}.{field}": name for field, name in SINGLE_METRIC_FIELDS.items()}
    twins |= {name: twin for twin, name in twins.items()}
    unique: list[str] = []
    for name in names:
        twin = twins.get(name, "")
        if twin not in unique or not all(_equal(report.score(name), report.score(twin)) for report in reports):
            unique.append(name)
    return unique


def _equal(score: Score | None, twin: Score | None) -> bool:
    """Whether two numbers of a report are the same."""
    if score is None or twin is None:
        return score is twin
    if score.mean is None or twin.mean is None:
        return False
    # The number of a part is a maximum over the references, so its mean is larger as soon as one sample differs.
    return score.n_scored == twin.n_scored and math.isclose(score.mean, twin.mean, rel_tol=0, abs_tol=_TOLERANCE)
