"""A labelling session: which answers an annotator sees next, what they are called, and when the queue is decided."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
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
    _shown: dict[str, tuple[int, float]] = field(default_factory=dict)
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
            place = next(self._open_to(annotator), None)
            if place is None:
                return self._common("waiting")
            self._shown[annotator] = place, time.monotonic()
            answers, settles = self._asked(place, annotator)
            # In an order that does not tell which release gave which answer
            Random(f"{self.queue.id} {place} {annotator}").shuffle(answers)
            return self._common("question") | {
                "place": place,
                "question": answers[0].question or "",
                "references": list(answers[0].references),
                "settles": settles,
                "answers": [
                    {
                        "key": answer.sample_key,
                        "text": answer.answer or "",
                        "labels": sorted(answer.labels.values()) if settles else [],
                    }
                    for answer in answers
                ],
            }

    def label(self, annotator: str, place: int, verdicts: Mapping[str, str]) -> None:
        """Keep what an annotator calls the answers to a question, by their keys.

        Raises:
            UserError: this is no question that the annotator has been shown, or no verdict.
        """
        with self._lock:
            is_shown = self._shown.get(annotator, (0, 0.0))[0] == place and place in self._questions
            answers, settles = self._asked(place, annotator) if is_shown else ([], False)
            if not answers:
                raise UserError("label: others have labelled this question in the meantime; nothing was saved")
            if set(verdicts) != {answer.sample_key for answer in answers} or not set(verdicts.values()) <= set(
                VERDICTS
            ):
                raise UserError(f"label: each answer on the screen is one of {', '.join(VERDICTS)}")
            rows = [NewLabel(key, annotator, verdict) for key, verdict in verdicts.items()]  # type: ignore[arg-type]
            add_labels(self.home, rows, self.queue.id, adjudicates=settles)
            self._questions[place] = [
                self._labelled(answer, annotator, verdicts, settles) for answer in self._questions[place]
            ]
            # The last label before an analysis brings the analysis
            if all(answer.complete for answers in self._questions.values() for answer in answers):
                self._load()

    def undo(self, annotator: str) -> None:
        """Withdraw the labels that an annotator gave last, so that the question is asked again."""
        with self._lock:
            keys = last_labelled(self.home, self.queue.id, annotator)
            if keys and not self._is_over():
                add_labels(self.home, [NewLabel(key, annotator, "withdrawn") for key in keys], self.queue.id)
                self._load()

    def skip(self, annotator: str, place: int) -> None:
        """Ask a question again after all others before the next analysis: none can be left out."""
        with self._lock:
            self._skipped.add((annotator, place))

    def go_on(self) -> None:
        """Go on although more labels would be needed than there are questions."""
        with self._lock:
            self.going_on = True
            self._load()

    def _load(self) -> None:
        """Read the questions up to the next analysis; analyse first if all before it are labelled."""
        drawn = drawn_labels(self.home, self.queue.old, self.queue.new)
        if drawn and drawn.n_drawn > self.n_done:
            self._analyse(drawn.n_drawn)
        self._questions = {}
        for answer in queued_answers(self.home, self.queue, self.queue.until(drawn)):
            self._questions.setdefault(answer.place, []).append(answer)
        self._skipped = {(name, place) for name, place in self._skipped if place in self._questions}

    def _analyse(self, n_drawn: int) -> None:
        self.n_done = n_drawn
        self.verdict = gate(self.home, self.queue.old, self.queue.new, self.queue.policy)
        rule = self.verdict.verdict.rules[0]
        self.needed = None
        if rule.value is not None and rule.low is not None and rule.high is not None:
            distance = abs(rule.value - self.queue.policy.primary.floor)
            self.needed = needed_by_width(Interval(rule.low, rule.high, ""), distance, n_drawn)
        if self._is_decided() or n_drawn >= self.queue.analyses[-1]:
            self.when_decided(self.verdict)

    def _is_decided(self) -> bool:
        return self.verdict is not None and self.verdict.verdict.outcome in ("PASS", "FAIL")

    def _is_over(self) -> bool:
        """Whether the queue is decided, or no label can change that, or too many would be needed."""
        if self._is_decided() or self.n_done >= self.queue.analyses[-1]:
            return True
        is_estimated = self.n_done >= self.queue.analyses[min(_ESTIMATED_AFTER, len(self.queue.analyses)) - 1]
        is_hopeless = self.needed is None or self.needed > self.queue.analyses[-1]
        return is_estimated and is_hopeless and not self.going_on

    def _open_to(self, annotator: str) -> Iterator[int]:
        """Yield the places of questions for an annotator: new ones, then skipped ones, then differences to settle."""
        tasks = {place: self._asked(place, annotator) for place in self._questions if self._is_free(place, annotator)}
        open_places = [place for place, (answers, _) in tasks.items() if answers]
        yield from sorted(open_places, key=lambda place: (tasks[place][1], (annotator, place) in self._skipped, place))

    def _is_free(self, place: int, annotator: str) -> bool:
        """Whether a question is on nobody else's screen; where several label each, it may be."""
        now = time.monotonic()
        screens = [shown for name, shown in self._shown.items() if name != annotator]
        return self.queue.annotators > 1 or all(
            shown_place != place or now - since > self.patience_s for shown_place, since in screens
        )

    def _asked(self, place: int, annotator: str) -> tuple[list[QueuedAnswer], bool]:
        """Return the answers that an annotator is to label, and whether that settles a difference of others."""
        unsettled = [answer for answer in self._questions[place] if not answer.complete]
        differing = [answer for answer in unsettled if self._differs(answer)]
        fresh = [answer for answer in unsettled if answer not in differing and annotator not in answer.labels]
        return (fresh, False) if fresh else (differing, bool(differing))

    def _labelled(
        self, answer: QueuedAnswer, annotator: str, verdicts: Mapping[str, str], settles: bool
    ) -> QueuedAnswer:
        """Return an answer with a label that was just kept."""
        if answer.sample_key not in verdicts:
            return answer
        verdict = verdicts[answer.sample_key]
        if settles:
            return replace(answer, verdict=verdict, complete=True)
        labels = {**answer.labels, annotator: verdict}
        agreed = len(labels) >= self.queue.annotators and len(set(labels.values())) == 1
        return replace(answer, labels=labels, verdict=verdict if agreed else None, complete=agreed)

    def _differs(self, answer: QueuedAnswer) -> bool:
        """Whether as many people as needed have labelled an answer, and not alike."""
        enough = len(answer.labels) >= max(2, self.queue.annotators)
        return not answer.complete and enough and len(set(answer.labels.values())) > 1

    def _common(self, kind: str) -> dict[str, Any]:
        """Return what every page shows: how far the queue is, and what the newest analysis found."""
        n_labelled = sum(all(answer.complete for answer in answers) for answers in self._questions.values())
        verdict = self.verdict.verdict if self.verdict else None
        rule = verdict.rules[0] if verdict else None
        return {
            "kind": kind,
            "labelled": n_labelled,
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
            "agreement": self._agreement(),
        }

    def _agreement(self) -> str:
        """Say how well two annotators agree, as part of a sentence; empty for one."""
        if self.queue.annotators < 2:
            return ""
        answers = [answer for answers in self._questions.values() for answer in answers]
        pairs = [tuple(a.labels.values())[:2] for a in answers if len(a.labels) > 1]
        decided = [pair for pair in pairs if "cannot tell" not in pair]
        if not decided:
            return ""
        n_equal = sum(len(set(pair)) == 1 for pair in decided)
        kappa = agreement(*([float(pair[person] == "right") for pair in decided] for person in (0, 1))).kappa
        kappa_text = f", kappa {kappa.value:.2f}" if kappa else ""
        return f"{n_equal:,} of {len(decided):,} answers were called the same by two people{kappa_text}"


def _rounded_up(n: int) -> int:
    """Round a positive number up to one significant digit.

    >>> [_rounded_up(n) for n in (7, 34, 120)]
    [7, 40, 200]
    """
    size = 10 ** math.floor(math.log10(n)) if n > 9 else 1
    return max(1, math.ceil(n / size) * size)
