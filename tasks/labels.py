"""Labels of people in the warehouse: queues of drawn questions, the labels, and what these say of two reports.

A label belongs to a question with its references and an answer, whichever release gave it: it also counts for a later
release that gives the same answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import numpy as np

from answerkey.metrics_core.decide.bounded_mean import Floats
from answerkey.metrics_core.decide.clustered import Mask
from answerkey.metrics_core.decide.evidence import LabelDraw
from answerkey.metrics_core.decide.policy import Policy
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.policy_file import parse_policy
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements

Design = Literal["random", "stratified"]
LabelVerdict = Literal["right", "wrong", "cannot tell", "withdrawn"]
VERDICTS: tuple[LabelVerdict, ...] = ("right", "wrong", "cannot tell")
_SQL = statements(__name__)
_VALUES: Mapping[str | None, float] = {"right": 1.0, "wrong": 0.0}


@dataclass(frozen=True, slots=True)
class Queue:
    """Drawn questions whose answers people label, so that a gate can decide about two reports.

    Attributes:
        annotators: how many people label each question.
        analyses: after how many drawn questions the gate decides, increasing.
    """

    id: str
    old: str
    new: str
    design: Design
    seed: int
    policy: Policy
    annotators: int
    analyses: tuple[int, ...]

    def until(self, analysed: DrawnLabels | None) -> int:
        """How many drawn questions have labels at the next analysis, after the one of `analysed`; at most all."""
        done = len(analysed.draw.fractions) if analysed else 0
        return self.analyses[min(done, len(self.analyses) - 1)]


@dataclass(frozen=True, slots=True)
class DrawnQuestion:
    """A question in a queue: its place in the draw (0: known beforehand), and its probability at each analysis."""

    sample_id: str
    place: int
    stratum: str
    probabilities: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PairedLabels:
    """The samples of either of two reports, in the order of their ids, with what people call both answers.

    A verdict is None where there is none, or annotators differ. `same`: both releases gave the same answer.
    """

    sample_ids: list[str]
    old: list[str | None]
    new: list[str | None]
    same: list[bool]
    most_answers: int


@dataclass(frozen=True, slots=True, eq=False)
class DrawnLabels:
    """The labels of a queue at its latest complete interim analysis.

    Attributes:
        old, new: (samples,): 1 right, 0 wrong, NaN for no label, in the order of the ids of the samples.
        asked: the samples that the queue has, drawn or known beforehand.
        draw: how they were drawn.
        n_done: drawn questions that are labelled without a gap from the first one on.
        n_drawn: those that this analysis uses; `n_known`: questions that needed no label, since they had one before or
            have the same answer in both; `n_untold`: drawn ones of which people cannot tell.
        annotators: who labelled them; `first`, `last`: when.
    """

    queue: Queue
    old: Floats
    new: Floats
    asked: Mask
    draw: LabelDraw
    n_done: int
    n_drawn: int
    n_known: int
    n_untold: int
    annotators: tuple[str, ...]
    first: datetime | None
    last: datetime | None

    @property
    def sentence(self) -> str:
        """How the labels came about, for the reader of a verdict."""
        how = "at random" if self.queue.design == "random" else "at random in strata, by the sign of the difference,"
        days = dict.fromkeys(f"{day:%Y-%m-%d}" for day in (self.first, self.last) if day)
        people = f" by {', '.join(self.annotators)}" if self.annotators else ""
        twice = f", each by {self.queue.annotators} people" if self.queue.annotators > 1 else ""
        text = f"{self.n_drawn:,} questions were drawn {how} and labelled{people}{twice} ({' to '.join(days)})"
        if self.n_known:
            text += f"; {self.n_known:,} more have the same answer in both releases, or had labels before"
        if self.n_untold:
            text += f"; of {self.n_untold:,} people cannot tell, and these are left out"
        analysis, planned = len(self.draw.fractions), self.draw.planned
        return f"{text}. This is analysis {analysis} of {planned} of the labels; the intervals of all hold together."


def store_queue(home: Home, queue: Queue, questions: Sequence[DrawnQuestion]) -> None:
    """Keep a draw."""
    about = {
        "queue": queue.id, "old": queue.old, "new": queue.new, "design": queue.design, "seed": queue.seed,
        "policy": json.dumps(queue.policy.as_dict()), "annotators": queue.annotators, "analyses": list(queue.analyses),
    }  # fmt: skip
    columns = {
        "samples": [question.sample_id for question in questions],
        "places": [question.place for question in questions],
        "strata": [question.stratum for question in questions],
        "probabilities": [list(question.probabilities) for question in questions],
    }
    with home.warehouse.writing() as warehouse:
        warehouse.execute(_SQL["add_queue"], about)
        warehouse.execute(_SQL["add_questions"], {"queue": queue.id, **columns})


def newest_queue(home: Home, old: str = "", new: str = "", queue: str = "") -> Queue | None:
    """The newest queue about two reports, or the one with this id; None if there is none."""
    rows = home.rows(_SQL["queues"], {"old": old, "new": new, "queue": queue})
    if not rows:
        return None
    id_, before, after, design, seed, policy, annotators, analyses = rows[0]
    return Queue(
        id_, before, after, design, seed, parse_policy(json.loads(policy), "label_queues"), annotators, tuple(analyses)
    )


def paired_labels(home: Home, old: str, new: str) -> PairedLabels:
    """What people call the answers of two reports, from the table `labels`, else from what came with the answers."""
    rows = home.rows(_SQL["sides"] + "\n" + _SQL["pairs"], {"old": old, "new": new})
    ids, before, after, same, repeats = (list(column) for column in zip(*rows, strict=True))
    return PairedLabels(ids, before, after, same, max(repeats))


def drawn_labels(home: Home, old: str, new: str) -> DrawnLabels | None:
    """The labels of the newest queue about two reports; None without a queue, or before its first analysis."""
    queue = newest_queue(home, old, new)
    if queue is None:
        return None
    about = {"old": old, "new": new, "queue": queue.id, "annotators": queue.annotators}
    with home.warehouse.reading() as warehouse:
        rows = warehouse.execute(_SQL["sides"] + "\n" + _SQL["drawn"], about).fetchall()
        people = tuple(name for (name,) in warehouse.execute(_SQL["annotators"], {"queue": queue.id}).fetchall())
    n_done = min((row[1] for row in rows if row[1] and not row[7]), default=queue.analyses[-1] + 1) - 1
    analysis = sum(until <= n_done for until in queue.analyses)
    return _at(queue, rows, analysis, n_done, people) if analysis else None


def _at(
    queue: Queue, rows: Sequence[tuple[Any, ...]], analysis: int, n_done: int, people: tuple[str, ...]
) -> DrawnLabels:
    n_drawn = queue.analyses[analysis - 1]
    old, new, chances = (np.full(len(rows), value) for value in (np.nan, np.nan, 1.0))
    drawn = np.zeros(len(rows), np.bool_)
    n_known = n_untold = 0
    moments: list[datetime] = []
    for index, (_, place, _, probabilities, before, after, same, _, first, last) in enumerate(rows):
        if place is None:
            continue
        chances[index] = probabilities[analysis - 1]
        if place > n_drawn:
            continue
        # The same answer is as good as itself, whatever people call it.
        unknown = 1.0 if same else np.nan
        old[index], new[index] = (_VALUES.get(verdict, unknown) for verdict in (before, after))
        drawn[index] = place > 0
        n_known += place == 0
        n_untold += place > 0 and "cannot tell" in (before, after)
        moments += [moment for moment in (first, last) if moment and place]
    fractions = tuple(until / queue.analyses[-1] for until in queue.analyses[:analysis])
    return DrawnLabels(
        queue, old, new, np.array([row[1] is not None for row in rows]),
        LabelDraw(chances, drawn, fractions, len(queue.analyses)), n_done, n_drawn, n_known, n_untold,
        people, min(moments, default=None), max(moments, default=None),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class NewLabel:
    """What an annotator calls an answer."""

    sample_key: str
    annotator: str
    verdict: LabelVerdict


def add_labels(home: Home, labels: Sequence[NewLabel], queue: str | None, *, adjudicates: bool = False) -> None:
    """Keep labels; those that the same annotators gave before stay as history. They are on disk when this returns.

    Raises:
        UserError: an answer is not in the warehouse.
    """
    keys = [label.sample_key for label in labels]
    rows = {
        "keys": keys,
        "annotators": [label.annotator for label in labels],
        "verdicts": [label.verdict for label in labels],
    }
    with home.warehouse.writing() as warehouse:
        if unknown := warehouse.execute(_SQL["unknown"], {"keys": keys}).fetchall():
            raise UserError(f"{unknown[0][0]}: no answer in {home} has this key")
        warehouse.execute(_SQL["add_labels"], {**rows, "queue": queue, "adjudicates": adjudicates})


@dataclass(frozen=True, slots=True)
class QueuedAnswer:
    """An answer to a question of a queue.

    `labels` are the newest of every annotator. `complete`: as many people have labelled it as the queue asks for, and
    they agree, or a difference was settled; a blank answer needs nobody.
    """

    place: int
    sample_key: str
    is_old: bool
    question: str | None
    references: tuple[str, ...]
    answer: str | None
    verdict: str | None
    complete: bool
    labels: Mapping[str, str]


def queued_answers(home: Home, queue: Queue, most: int) -> list[QueuedAnswer]:
    """The answers to the questions of a queue up to the place `most`, in the order of the draw."""
    about = {"old": queue.old, "new": queue.new, "queue": queue.id, "annotators": queue.annotators, "most": most}
    rows = home.rows(_SQL["sides"] + "\n" + _SQL["questions"], about)
    return [
        QueuedAnswer(
            place, key, bool(is_old), question, tuple(references or ()), answer, verdict,
            bool(blank or (verdict is not None and complete)), dict(labels),
        )
        for place, _, is_old, key, question, references, answer, blank, verdict, complete, labels in rows
    ]  # fmt: skip


def last_labelled(home: Home, queue: str, annotator: str) -> list[str]:
    """The keys of the answers that an annotator labelled last in a queue."""
    rows = home.rows(_SQL["last_labelled"], {"queue": queue, "annotator": annotator})
    return [key for (key,) in rows]
