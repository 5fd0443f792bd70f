"""A labelling session: which answers an annotator sees next, what they are called, and when the queue is decided."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from random import Random
from threading import RLock
from typing import Any

from answerkey.metrics_core.decide.agreement import agreement
from answerkey.metrics_core.decide.intervals import Interval
from answerkey.metrics_core.decide.power import needed_by_width
from answerkey.metrics_core.errors import UserError
from answerkey.tasks.gate.gate import gate
from answerkey.tasks.gate.verdicts import ReleaseVerdict
from answerkey.tasks.labels import (
    VERDICTS,
    NewLabel,
    Queue,
    QueuedAnswer,
    add_labels,
    drawn_labels,
    last_labelled,
    queued_answers,
)
from answerkey.tasks.warehouse.home import Home

_ESTIMATED_AFTER = 4
"""The analyses after which an estimate of the labels still needed may end the session: earlier ones are too rough."""


@dataclass
class LabellingSession:
    """The questions of a queue up to the next interim analysis, for several annotators at once.

    Labels are in the warehouse before a call returns. What is only here (who has which question on the screen, and who
    skipped which) is lost with the process, and nothing depends on it.
    """

    home: Home
    queue: Queue
    when_decided: Callable[[ReleaseVerdict], None] = lambda _: None
    """Called with the verdict once it is PASS or FAIL, or all questions are labelled."""
    verdict: ReleaseVerdict | None = None
    """Of the newest analysis."""
    n_done: int = 0
    """Questions that this analysis used."""
    needed: int | None = None
    """About how many labelled questions would decide, if the difference is as observed; None: not known."""
    patience_s: float = 600.0
    """How long a question stays with the person on whose screen it is, before others get it."""
    going_on: bool = False
    """Whether to go on although too many labels would be needed."""
    _questions: dict[int, list[QueuedAnswer]] = field(default_factory=dict)
    _on_screen: dict[str, tuple[int, float]] = field(default_factory=dict)
    _skipped: set[tuple[str, int]] = field(default_factory=set)
    _lock: RLock = field(default_factory=RLock)

    def __post_init__(self) -> None:
        self._load()

    def state(self, annotator: str) -> dict[str, Any]:
        """What the page of an annotator shows, as plain values: a question, or why there is none.

        Raises:
            UserError: the name of the annotator is blank or too long.
        """
        if not annotator.strip() or len(annotator) > 80:
            raise UserError("annotator: a name or initials of at most 80 characters")
        with self._lock:
            if self._is_over():
                return self._common("decided" if self._is_decided() else "stopped")
            # Questions on nobody else's screen, unless several label each
            others_see = set()
            if self.queue.annotators == 1:
                for name, (position, since) in self._on_screen.items():
                    if name != annotator and time.monotonic() - since <= self.patience_s:
                        others_see.add(position)
            # New ones, then skipped ones, then differences to settle
            open_questions = []
            for position in self._questions.keys() - others_see:
                answers, settles = self._answers_for(annotator, position)
                if answers:
                    open_questions.append((settles, (annotator, position) in self._skipped, position))
            if not open_questions:
                return self._common("waiting")
            position = min(open_questions)[-1]
            self._on_screen[annotator] = position, time.monotonic()
            answers, settles = self._answers_for(annotator, position)
            # In an order that does not tell which release gave which answer
            Random(f"{self.queue.id} {position} {annotator}").shuffle(answers)
            return self._common("question") | {
                "place": position,
                "question": answers[0].question or "",
                "references": list(answers[0].references),
                "settles": settles,
                "answers": [
                    {
                        "key": answer.sample_key,
                        "text": answer.answer or "",
                        # Nobody sees what others say, unless to settle it
                        "labels": sorted(answer.labels.values()) if settles else [],
                    }
                    for answer in answers
                ],
            }

    def label(self, annotator: str, position: int, verdicts: Mapping[str, str]) -> None:
        """Keep what an annotator calls the answers to a question, by their keys.

        Raises:
            UserError: this is no question that the annotator has been shown, or no verdict.
        """
        with self._lock:
            is_on_screen = self._on_screen.get(annotator, (0, 0.0))[0] == position and position in self._questions
            answers, settles = self._answers_for(annotator, position) if is_on_screen else ([], False)
            if not answers:
                raise UserError("label: others have labelled this question in the meantime; nothing was saved")
            if set(verdicts) != {answer.sample_key for answer in answers} or not set(verdicts.values()) <= set(
                VERDICTS
            ):
                raise UserError(f"label: each answer on the screen is one of {', '.join(VERDICTS)}")
            rows = [NewLabel(key, annotator, verdict) for key, verdict in verdicts.items()]  # type: ignore[arg-type]
            add_labels(self.home, rows, self.queue.id, adjudicates=settles)
            for index, answer in enumerate(self._questions[position]):
                verdict = verdicts.get(answer.sample_key)
                if verdict is None:
                    continue
                labels = {**answer.labels, annotator: verdict}
                agreed = len(labels) >= self.queue.annotators and len(set(labels.values())) == 1
                if settles:
                    answer_now = replace(answer, verdict=verdict, complete=True)
                else:
                    answer_now = replace(answer, labels=labels, verdict=verdict if agreed else None, complete=agreed)
                self._questions[position][index] = answer_now
            # The last label before an analysis brings the analysis
            if self._n_complete() == len(self._questions):
                self._load()

    def undo(self, annotator: str) -> None:
        """Withdraw the labels that an annotator gave last, so that the question is asked again."""
        with self._lock:
            keys = last_labelled(self.home, self.queue.id, annotator)
            if keys and not self._is_over():
                add_labels(self.home, [NewLabel(key, annotator, "withdrawn") for key in keys], self.queue.id)
                self._load()

    def skip(self, annotator: str, position: int) -> None:
        """Ask a question again after all others before the next analysis: none can be left out."""
        with self._lock:
            self._skipped.add((annotator, position))

    def go_on(self) -> None:
        """Go on although more labels would be needed than there are questions."""
        with self._lock:
            self.going_on = True
            self._load()

    def _load(self) -> None:
        """Read the questions up to the next analysis; analyse first if all before it are labelled."""
        drawing = drawn_labels(self.home, self.queue.old, self.queue.new)
        if drawing and drawing.n_drawn > self.n_done:
            self.n_done = drawing.n_drawn
            self.verdict = gate(self.home, self.queue.old, self.queue.new, self.queue.policy)
            rule = self.verdict.verdict.rules[0]
            self.needed = None
            if rule.value is not None and rule.low is not None and rule.high is not None:
                distance = abs(rule.value - self.queue.policy.primary.floor)
                self.needed = needed_by_width(Interval(rule.low, rule.high, ""), distance, self.n_done)
            if self._is_decided() or self.n_done >= self.queue.analyses[-1]:
                self.when_decided(self.verdict)
        self._questions = {}
        for answer in queued_answers(self.home, self.queue, self.queue.until(drawing)):
            self._questions.setdefault(answer.place, []).append(answer)
        self._skipped = {(name, position) for name, position in self._skipped if position in self._questions}

    def _is_decided(self) -> bool:
        return self.verdict is not None and self.verdict.verdict.outcome in ("PASS", "FAIL")

    def _is_over(self) -> bool:
        """Whether the queue is decided, or no label can change that, or too many would be needed."""
        if self._is_decided() or self.n_done >= self.queue.analyses[-1]:
            return True
        is_estimated = self.n_done >= self.queue.analyses[min(_ESTIMATED_AFTER, len(self.queue.analyses)) - 1]
        is_hopeless = self.needed is None or self.needed > self.queue.analyses[-1]
        return is_estimated and is_hopeless and not self.going_on

    def _answers_for(self, annotator: str, position: int) -> tuple[list[QueuedAnswer], bool]:
        """Return the answers that an annotator is to label, and whether that settles a difference of others."""
        fresh = []
        differing = []
        for answer in self._questions[position]:
            if answer.complete:
                continue
            # As many people as needed have labelled it, and not alike
            is_labelled = len(answer.labels) >= max(2, self.queue.annotators)
            if is_labelled and len(set(answer.labels.values())) > 1:
                differing.append(answer)
            elif annotator not in answer.labels:
                fresh.append(answer)
        return (fresh, False) if fresh else (differing, bool(differing))

    def _n_complete(self) -> int:
        """Return the number of questions of which all answers have their labels."""
        return sum(all(map(attrgetter("complete"), answers)) for answers in self._questions.values())

    def _common(self, kind: str) -> dict[str, Any]:
        """Return what every page shows: how far the queue is, and what the newest analysis found."""
        # How well the first two people agree, as part of a sentence
        agreement_text = ""
        answers = chain.from_iterable(self._questions.values())
        pairs = [tuple(answer.labels.values())[:2] for answer in answers if len(answer.labels) > 1]
        judged_pairs = [pair for pair in pairs if "cannot tell" not in pair]
        if self.queue.annotators > 1 and judged_pairs:
            n_equal = sum(verdict == other_verdict for verdict, other_verdict in judged_pairs)
            agreement_text = f"{n_equal:,} of {len(judged_pairs):,} answers were called the same by two people"
            kappa = agreement(
                [verdict == "right" for verdict, _ in judged_pairs],
                [other_verdict == "right" for _, other_verdict in judged_pairs],
            ).kappa
            if kappa:
                agreement_text += f", kappa {kappa.value:.2f}"
        verdict = self.verdict.verdict if self.verdict else None
        rule = verdict.rules[0] if verdict else None
        return {
            "kind": kind,
            "dataset": self.queue.new.partition("/")[0],
            "labelled": self._n_complete(),
            "until": len(self._questions) if kind != "decided" else self.n_done,
            "most": self.queue.analyses[-1],
            "analysed": self.n_done,
            "outcome": verdict.outcome if verdict else None,
            "sentence": verdict.sentence if verdict else None,
            "notes": list(verdict.notes) if verdict else [],
            "value": rule.value if rule else None,
            "low": rule.low if rule else None,
            "high": rule.high if rule else None,
            "more": _rounded_up(self.needed - self.n_done) if self.needed else None,
            "agreement": agreement_text,
        }


def _rounded_up(n: int) -> int:
    """Round a positive number up to one significant digit.

    >>> [_rounded_up(n) for n in (7, 34, 120)]
    [7, 40, 200]
    """
    size = 10 ** math.floor(math.log10(n)) if n > 9 else 1
    return max(1, math.ceil(n / size) * size)
