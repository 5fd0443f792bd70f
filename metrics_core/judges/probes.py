"""Known-answer probes: samples whose verdict is known, which show whether a judge can be believed.

Judges that have to be called about the rows of a run are tested first: before the first call about a row, each is
asked about every probe of the metric, and must be right on at least `REQUIRED` of those that it answers. After about
one row in `EVERY` that made a call it is asked about one more, and must be right on at least `REQUIRED_LATER` of the
last `RECENT`. A judge that is not is asked nothing more in this run. A probe without a verdict (an error, a spent
budget) says nothing about agreement, so until a judge has answered `RECENT` of them, all that it answered are weighed
as before the first row. One that replies to nearly all of the first with what cannot be read is not believed either;
one whose server cannot be reached is left to fail on the rows.

Probes go the way of every question: through the ledger, the budget and the fence. Which rows have one is decided by
their texts, so that the same rows ask the same, and an estimate can count them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar, get_args

from answerkey.metrics_core.llm.client import Batched
from answerkey.metrics_core.llm.ledger import Origin
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.reply import Code
from answerkey.metrics_core.llm.request import Request
from answerkey.metrics_core.llm.spending import Bill
from answerkey.metrics_core.llm.untrusted import cut, one_line
from answerkey.metrics_core.measurement import Failed, Outcome, Scored
from answerkey.metrics_core.sample import Sample, content_hash

T = TypeVar("T")

FEWEST_ANSWERS = 50
"""Answers of a run from which on its judges are probed, unless an option says otherwise."""
EVERY = 50
REQUIRED = 0.8
REQUIRED_LATER = 0.65
RECENT = 12

_LONGEST_TEXT = 120
_FEWEST_WRONG = 2

_log = logging.getLogger("answerkey")


@dataclass(frozen=True, slots=True)
class Probe:
    """A sample, and where the main number of the metric must lie: from `least` to `most`, both included.

    `name` says in a few words what it tries, for people. No probe is decided without a judge.

    >>> probe = Probe("another city", Sample("probe", "It is Lyon.", ["Paris"], "The capital of France?"), 0.0, 0.0)
    >>> probe.passed_by(0.0), probe.passed_by(1.0)
    (True, False)
    """

    name: str
    sample: Sample
    least: float
    most: float

    def passed_by(self, value: float) -> bool:
        """Whether a judge that gives this number is right."""
        return self.least <= value <= self.most


class JudgeStopped(Exception):
    """A judge was wrong about too many probes: it is not asked any more in this run."""


Answer = Callable[[Probe, ModelRef, int], Awaitable[Outcome]]
"""What a judge says about a probe, in this repeat."""


@dataclass(slots=True)
class _Standing:
    """What one judge made of its probes so far."""

    answered: int = 0
    right: int = 0
    unreadable: list[str] = field(default_factory=list)
    recent: deque[bool] = field(default_factory=lambda: deque(maxlen=RECENT))
    wrong: list[tuple[Probe, Scored]] = field(default_factory=list)


class Examination:
    """The probing of the judges of one metric in one run. Lives on one event loop.

    Args:
        metric, main: names of the metric and of its main field.
        probes: what the judges are asked.
        judges: who is asked.
    """

    def __init__(self, metric: str, main: str, probes: Sequence[Probe], judges: Sequence[ModelRef]) -> None:
        self._metric, self._main, self._probes = metric, main, probes
        self._standings = {judge: _Standing() for judge in judges}
        self._lock = asyncio.Lock()
        self._begun = False
        self._why = ""

    def tally(self) -> str:
        """How many probes were answered rightly so far, for people."""
        standings = self._standings.values()
        return f"{sum(one.right for one in standings)} of {sum(one.answered for one in standings)} probes right"

    @property
    def passed(self) -> bool:
        """Whether rows may be asked about, as far as is known."""
        return self._begun and not self._why

    async def begin(self, answer: Answer) -> None:
        """Ask every judge about every probe, unless that was done before.

        Raises:
            JudgeStopped: one of the judges was wrong about too many, now or earlier.
        """
        async with self._lock:
            if not self._begun:
                # Whoever began before was cancelled.
                self._standings = {judge: _Standing() for judge in self._standings}
                async with asyncio.TaskGroup() as group:
                    for judge in self._standings:
                        for probe in self._probes:
                            group.create_task(self._ask(probe, judge, 0, answer))
                self._begun = True
                for judge, standing in self._standings.items():
                    self._weigh(judge, standing.right, standing.answered, REQUIRED)
                    self._hear(judge, standing.unreadable)
        if self._why:
            raise JudgeStopped(self._why)

    async def go_on(self, draw: int, answer: Answer) -> None:
        """Ask every judge about one more probe, if they still stand; `draw` as `draw_of` gives it."""
        if not self.passed:
            return
        probe = self._probes[draw % len(self._probes)]
        for judge, standing in self._standings.items():
            await self._ask(probe, judge, draw, answer)
            if standing.answered > RECENT:
                self._weigh(judge, sum(standing.recent), RECENT, REQUIRED_LATER)
            else:
                self._weigh(judge, standing.right, standing.answered, REQUIRED)

    async def _ask(self, probe: Probe, judge: ModelRef, repeat: int, answer: Answer) -> None:
        outcome = await answer(probe, judge, repeat)
        standing = self._standings[judge]
        if not isinstance(outcome, Scored):
            if isinstance(outcome, Failed) and outcome.code in get_args(Code):
                standing.unreadable.append(f"{outcome.code}: {outcome.message}")
            return
        right = probe.passed_by(outcome.values[self._main])
        standing.answered += 1
        standing.right += right
        standing.recent.append(right)
        if not right:
            standing.wrong.append((probe, outcome))

    def _weigh(self, judge: ModelRef, right: int, answered: int, required: float) -> None:
        n_wrong = answered - right
        # One wrong verdict beside eleven time-outs is no proof.
        if self._why or n_wrong < _FEWEST_WRONG or right >= required * answered:
            return
        wrong = self._standings[judge].wrong[-n_wrong:]
        names = ", ".join(dict.fromkeys(probe.name for probe, _ in wrong))
        self._why = (
            f"judge stopped: {judge.label} was right on {right} of {answered} probes, less than {required:.0%}; "
            f"wrong on: {names}"
        )
        items = "\n".join(self._item(probe, outcome) for probe, outcome in wrong)
        _log.warning(f"{self._metric}: {self._why}. No more rows are judged. What it was wrong on:\n{items}")

    def _hear(self, judge: ModelRef, unreadable: Sequence[str]) -> None:
        """Stop a judge that said hardly anything that can be read."""
        n_probes = len(self._probes)
        if self._why or len(unreadable) < max(_FEWEST_WRONG, REQUIRED * n_probes):
            return
        self._why = (
            f"judge stopped: {judge.label} gave no verdict that can be read on {len(unreadable)} of {n_probes} probes; "
            f"the first: {unreadable[0]}"
        )
        _log.warning(f"{self._metric}: {self._why}. No more rows are judged.")

    def _item(self, probe: Probe, outcome: Scored) -> str:
        sample = probe.sample
        texts = (sample.question or "", sample.references[0] if sample.references else "", sample.answer or "")
        question, reference, answer = (cut(one_line(text), _LONGEST_TEXT) for text in texts)
        known = f"{probe.least:g}" if probe.least == probe.most else f"{probe.least:g} to {probe.most:g}"
        said = f"{self._main} {outcome.values[self._main]:g}, known to be {known}"
        return f"  {probe.name}: {said}; question: {question} | reference: {reference} | answer: {answer}"


class Examined:
    """Asks judges about rows: what the ledger has at once, everything else only once they have passed their probes."""

    def __init__(self, client: Batched, examination: Examination, answer: Answer) -> None:
        self._client, self._examination, self._answer = client, examination, answer

    async def ask(self, model: ModelRef, request: Request, read: Callable[[str], T], bill: Bill) -> T:
        """See `Client.ask`.

        Raises:
            JudgeStopped: a judge has not passed.
        """
        if not self._examination.passed and not await self._client.knows(request, read):
            await self._examination.begin(self._answer)
        return await self._client.ask(model, request, read, bill)

    async def origin(self, request: Request) -> Origin:
        """See `Client.origin`."""
        return await self._client.origin(request)


@lru_cache(maxsize=128)
def examination_of(
    run: str, metric: str, main: str, probes: tuple[Probe, ...], judges: tuple[ModelRef, ...]
) -> Examination:
    """The examination of a run: its shards share one, so that a judge that was stopped stays so."""
    return Examination(metric, main, probes, judges)


def draw_of(sample: Sample) -> int:
    """Which probe follows on a sample, as a large number that is also its repeat; 0: none, as for most.

    >>> sum(draw_of(Sample("", f"answer {n}", ["Paris"])) > 0 for n in range(1_000))
    14
    """
    number = int(content_hash([sample.question, sample.answer, list(sample.references)])[:8], 16)
    return 0 if number % EVERY else 1_000 + number // EVERY
