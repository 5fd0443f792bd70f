"""Which fields speak for reports: all that differ, one per metric, and the one that decides."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from answerkey.metrics_core.errors import UserError, did_you_mean
from answerkey.metrics_core.metrics.answer_correctness import PARTITIONS, AnswerCorrectness
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
    kept = set(_once(reports, dict.fromkeys([*headlines(reports, declared), *names])))
    return tuple(name for name in names if name in kept)


def headlines(reports: Sequence[Report], declared: str = "") -> tuple[str, ...]:
    """The primary field (see `primary`), then one METRIC.FIELD of every other metric in the order of the reports.

    Raises:
        UserError: none of the reports has the field `declared`.
    """
    first = primary(reports, declared)
    others = [name for name in _per_metric(reports) if _metric(name) != _metric(first)]
    return tuple(_once(reports, [first, *others])) if first else ()


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
    found = _per_metric(reports)
    found = [name for name in found if all(name in report.names for report in reports)] or found
    if LABELLED in found and all(_labelled(report) >= MOST_LABELLED for report in reports):
        return LABELLED
    # Labels of less than half of the answers come last: their own number rests on few of them.
    return MATCH if MATCH in found else next((name for name in found if name != LABELLED), (*found, "")[0])


def why_primary(name: str) -> str:
    """Why `primary` chose this field where none was declared, as a sentence."""
    reasons = {
        LABELLED: "most answers have a human label",
        MATCH: "most answers have no human label, and this judge compares meaning",
    }
    why = reasons.get(name, "there are neither enough human labels nor meaning_match, and it is the first")
    return f"No primary field was declared. {name} decides because {why}."


def _names(reports: Sequence[Report]) -> list[str]:
    return list(dict.fromkeys(name for report in reports for name in report.names))


def _metric(name: str) -> str:
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


def _labelled(report: Report) -> float:
    """The share of the answers that have a human label."""
    score = report.score(LABELLED)
    return score.n_scored / score.n_total if score else 0.0


def _once(reports: Sequence[Report], names: Iterable[str]) -> Iterator[str]:
    """`names` without those that are another one, further up, by a second name."""
    shown: list[str] = []
    for name in names:
        if not any(_same(reports, name, other) for other in shown):
            shown.append(name)
            yield name


def _same(reports: Sequence[Report], one: str, other: str) -> bool:
    parts = {f"{AnswerCorrectness.name}.{field}": name for field, name in PARTITIONS.items()}
    if parts.get(one) != other and parts.get(other) != one:
        return False
    return all(_equal(report.score(one), report.score(other)) for report in reports)


def _equal(one: Score | None, other: Score | None) -> bool:
    if one is None or other is None:
        return one is other
    if one.mean is None or other.mean is None:
        return False
    # The number of a part is a maximum over the references, so its mean is larger as soon as one sample differs.
    return one.n_scored == other.n_scored and math.isclose(one.mean, other.mean, rel_tol=0, abs_tol=_TOLERANCE)
