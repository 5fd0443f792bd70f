"""Draw the questions whose answers people are to label, so that a gate can decide."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from answerkey.metrics_core.decide.evidence import Missing
from answerkey.metrics_core.decide.policy import ALL, Policy
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.metrics.label import LABEL
from answerkey.tasks.gate.gate import evidence
from answerkey.tasks.labels import Design, DrawnQuestion, Queue, drawn_labels, newest_queue, paired_labels, store_queue
from answerkey.tasks.reports.report import pair_named, read_pair
from answerkey.tasks.warehouse.home import Home

_QUESTIONS_BEFORE_ANALYSIS = 25
"""Questions before the first interim analysis."""
_GROWTH = 1.4
"""The factor from one analysis to the next."""
_MAX_QUESTIONS = 2000
_WEIGHTS = {"worse": 2.0, "same": 1.0, "better": 2.0}
"""How often a question of each stratum is drawn, relative to the others: the judge errs more where it sees a change. No
question has less than half of the probability that it would have in a simple random draw."""


@dataclass(frozen=True, slots=True)
class LabelPlan:
    """How questions are to be drawn and labelled.

    Attributes:
        labels: questions to label, with one analysis at their end; None: until decided, with an analysis after ever
            larger batches.
        annotators: how many people label each question.
    """

    labels: int | None = None
    design: Design = "random"
    annotators: int = 1
    seed: int = 0


def label_queue(home: Home, old: str, new: str, policy: Policy, plan: LabelPlan, dataset: str = "") -> Queue:
    """Return the queue for two releases: the newest, for this policy, if it has the same plan; else draw a new one.

    The intervals of all analyses of a queue hold together whatever the policy is, but those of two queues do not.

    Raises:
        UserError: the releases cannot be compared by this policy, there is nothing to label, or the labels of a queue
            with another plan were analysed already.
    """
    if policy.primary.field.startswith(f"{LABEL}."):
        raise UserError(f"{policy.primary.field}: name the field of a metric, which predicts the labels still missing")
    if plan.annotators < 1 or (plan.labels is not None and plan.labels < 2):
        raise UserError("label: at least 2 questions and 1 annotator are needed")
    old_report, new_report = read_pair(home, *pair_named(home, old, new, dataset, fields=policy.fields))

    # Go on with the queue that is there, if it was drawn for as many questions and annotators
    newest = newest_queue(home, old_report.report_id, new_report.report_id)
    if newest and plan.annotators == newest.annotators and plan.labels in (None, newest.analyses[-1]):
        return replace(newest, policy=policy)
    if newest and drawn_labels(home, old_report.report_id, new_report.report_id):
        raise UserError(
            f"queue {newest.id} was planned for {newest.analyses[-1]:,} questions and {newest.annotators} annotators, "
            "and has been analysed: go on with it, since two plans together would err more often than stated"
        )

    # Scores predict the labels; what the judges of the old release could not decide, people can
    _, scores = evidence(home, old_report, new_report, policy)
    column = scores.scores[policy.primary.field, ALL]
    if isinstance(column, Missing):
        raise UserError(f"{policy.primary.field}: {column.reason}")
    column = column.as_predictions()

    # Questions to label: comparable, with different answers, and without a label of one of them
    existing = paired_labels(home, old_report.report_id, new_report.report_id)
    if existing.most_answers > 1:
        raise UserError(
            f"{new_report.report_id}: there are several answers to a question, and a queue needs one for each"
        )
    comparable = np.isfinite(column.filled(column.low)) & column.comparable()
    labels = zip(existing.same, existing.old, existing.new, strict=True)
    lacks_label = np.array([not are_equal and None in pair for are_equal, *pair in labels])
    to_label = np.flatnonzero(comparable & lacks_label)
    if len(to_label) < 2:
        raise UserError(
            f"{new_report.report_id} against {old_report.report_id}: every question has its labels; run the gate"
        )

    # Draw them. Within strata, only single rows with scores of 0 or 1 have an interval that is narrower
    design: Design = plan.design if scores.clusters is None and column.binary else "random"
    strata = np.full(len(comparable), "all", dtype="<U6")
    if design == "stratified":
        change = np.sign(column.filled(column.low) - column.old)
        strata = np.select([change < 0, change > 0], ["worse", "better"], "same")
    order = draw_order(strata[to_label], np.random.default_rng(plan.seed))
    analyses = planned_analyses(len(to_label), plan.labels)
    drawn = to_label[order]
    # The share of a stratum that is drawn at each analysis is the probability of each of its questions
    stratum_of_drawn = strata[drawn]
    chances = {}
    for stratum in np.unique(stratum_of_drawn):
        is_in_stratum = stratum_of_drawn == stratum
        chances[stratum] = np.cumsum(is_in_stratum)[np.array(analyses) - 1] / is_in_stratum.sum()
    questions = [
        DrawnQuestion(existing.sample_ids[index], position, str(strata[index]), tuple(chances[strata[index]].tolist()))
        for position, index in enumerate(drawn.tolist(), 1)
    ]
    questions_with_labels = [
        DrawnQuestion(existing.sample_ids[index], 0, "known", (1.0,) * len(analyses))
        for index in np.flatnonzero(comparable & ~lacks_label)
    ]
    queue = Queue(
        id=uuid.uuid4().hex[:12],
        old=old_report.report_id,
        new=new_report.report_id,
        design=design,
        seed=plan.seed,
        policy=policy,
        annotators=plan.annotators,
        analyses=analyses,
    )
    store_queue(home, queue, [*questions_with_labels, *questions])
    return queue


def planned_analyses(n: int, labels: int | None) -> tuple[int, ...]:
    """Plan after how many questions the gate decides: geometric steps, so that each adds a similar part.

    >>> planned_analyses(100, None), planned_analyses(1000, 60)
    ((25, 35, 49, 69, 100), (60,))
    """
    if labels is not None:
        return (min(labels, n),)
    analyses = []
    n_questions = float(_QUESTIONS_BEFORE_ANALYSIS)
    n_final = min(n, _MAX_QUESTIONS)
    while n_questions * _GROWTH <= n_final:
        analyses.append(round(n_questions))
        n_questions *= _GROWTH
    return (*analyses, n_final)


def draw_order(strata: npt.NDArray[np.str_], rng: np.random.Generator) -> npt.NDArray[np.intp]:
    """The order of a draw: random within each stratum, and strata mixed so that every beginning has their shares."""
    position = np.empty(len(strata))
    for name in np.unique(strata):
        members = np.flatnonzero(strata == name)
        rank = rng.permutation(len(members))
        # The first of each stratum comes at once: a stratum without a label could have any mean
        position[members] = np.where(rank == 0, 0.0, (rank + 0.5) / (len(members) * _WEIGHTS.get(str(name), 1.0)))
    return np.argsort(position, kind="stable")
