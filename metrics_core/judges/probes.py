"""Known-answer probes: samples whose verdict is known, which show whether a judge can be believed.

Judges that have to be called about the rows of a run are tested first: before the first call about a row, each is
asked about every probe of the run, those of the metric and those generated from its rows. There is a bar for each
verdict, and for each verdict in each script where the rows have several: a judge is stopped where it is wrong so often
that one that is wrong on `ERROR` of all is with a probability of at most `FALSE_STOPS`, all bars together. After about
one row in `EVERY` that made a call it is asked about one more, and must be right on more than half of the last
`RECENT`. A judge that is not is asked nothing more in this run. A probe without a verdict (an error, a spent budget)
says nothing about agreement, so until a judge has answered `RECENT` of them, all that it answered are weighed as before
the first row. One that gives no verdict on nearly all of the first, because its replies cannot be read or the order of
two answers decides them, is not believed either. One whose server cannot be reached fails on the rows.

Probes go the way of every question: through the ledger, the budget and the fence. Which rows have one is decided by
their texts, so that the same rows ask the same, and an estimate can count them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Any, get_args

from answerkey.metrics_core.judges.votes import ORDER_DECIDED
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.reply import Code
from answerkey.metrics_core.llm.request import CallSkipped
from answerkey.metrics_core.llm.untrusted import cut, one_line
from answerkey.metrics_core.measurement import Failed, Outcome, Scored
from answerkey.metrics_core.sample import Sample, content_hash

FEWEST_ANSWERS = 10
"""Answers of a run from which on its judges are probed, unless an option says otherwise."""
ERROR = 0.05
"""How often a judge may be wrong that is hardly ever to be stopped."""
FALSE_STOPS = 0.018
"""How often it may be stopped before the first row, at most; ten thousand rows add .001."""
EVERY = 50
RECENT = 12

_MOST_WITHOUT_VERDICT = 0.8
_LONGEST_TEXT = 120

_log = logging.getLogger("answerkey")


@dataclass(frozen=True, slots=True)
class Probe:
    """A sample, and where the main number of the metric must lie: from `least` to `most`, both included.

    `name` says in a few words what it tries, for people. `script` is that of the row from which it was generated, or
    empty for one that came with the metric. No probe is decided without a judge.

    >>> probe = Probe("another city", Sample("probe", "It is Lyon.", ["Paris"], "The capital of France?"), 0.0, 0.0)
    >>> probe.passed_by(0.0), probe.passed_by(1.0)
    (True, False)
    """

    name: str
    sample: Sample
    least: float
    most: float
    script: str = ""

    def passed_by(self, value: float) -> bool:
        """Whether a judge that gives this number is right."""
        return self.least <= value <= self.most


@cache
def packaged(key: str) -> Any:
    """What `probes.yaml` has under this key."""
    from answerkey.metrics_core.document import read_located

    return read_located(resources.files("answerkey.metrics_core.judges").joinpath("probes.yaml")).content[key]


@cache
def known_answers(metric: str) -> Mapping[Probe, str]:
    """The probes of a metric of this package, in the order of `probes.yaml`, with the baseline's answer to each.

    >>> list(known_answers("meaning_match"))[0].name
    'a paraphrase'
    """
    probes = {}
    for number, row in enumerate(packaged(metric)):
        facts = row.get("facts", ())
        references = row.get("reference", " ".join(facts)) or ()
        sample = Sample(f"{metric} probe {number}", row["answer"], references, row["question"], facts)
        probes[Probe(row["name"], sample, float(row["least"]), float(row["most"]))] = row.get("baseline", "")
    return probes


def fewest_wrong(n: int, level: float) -> int:
    """The fewest wrong verdicts on `n` probes that are no chance: a judge that is wrong on `ERROR` of all has so many
    or more with a probability of at most `level` (0 to 1), by the binomial distribution.

    >>> [fewest_wrong(n, 0.009) for n in (1, 2, 4, 9, 26)]
    [2, 2, 3, 3, 5]
    """
    from scipy.special import bdtrc

    return next(wrong for wrong in range(n + 2) if bdtrc(wrong - 1, n, ERROR) <= level)


Bar = tuple[float, float, str]
"""The probes that are weighed together: from `least` to `most`, in this script; empty: in all."""


def bars_of(probes: Sequence[Probe]) -> list[Bar]:
    """A bar for each verdict, and, where rows of several scripts have probes, for each verdict in each script."""
    scripts = sorted({probe.script for probe in probes} - {""})
    verdicts = sorted({(probe.least, probe.most) for probe in probes})
    return [(*verdict, script) for verdict in verdicts for script in ("", *(scripts if len(scripts) > 1 else ()))]


def failed_bar(bars: Sequence[Bar], answered: Sequence[tuple[Probe, bool]], judges: int = 1) -> Bar | None:
    """The first bar that a judge fails, or None.

    Args:
        answered: the probes that it answered, each with whether it was right.
        judges: how many judges are tested beside each other: one that fails stops them all.
    """
    level = FALSE_STOPS / max(len(bars) * judges, 1)
    for bar in bars:
        rights = [right for probe, right in answered if _is_under(probe, bar)]
        if rights.count(False) >= fewest_wrong(len(rights), level):
            return bar
    return None


def _is_under(probe: Probe, bar: Bar) -> bool:
    return (probe.least, probe.most) == bar[:2] and bar[2] in ("", probe.script)


Answer = Callable[[Probe, ModelRef, int], Awaitable[Outcome]]
"""What a judge says about a probe, in this repeat."""


class Examination:
    """The probing of the judges of one metric in one run. Lives on one event loop.

    Args:
        metric, main: names of the metric and of its main field.
        probes: what the judges are asked.
        judges: who is asked.
    """

    def __init__(self, metric: str, main: str, probes: Sequence[Probe], judges: Sequence[ModelRef]) -> None:
        self._metric, self._main, self._probes, self._judges = metric, main, probes, judges
        self._bars = bars_of(probes)
        # Each with whether it was right.
        self._verdicts: dict[ModelRef, list[tuple[Probe, Scored, bool]]] = {}
        self._no_verdict: dict[ModelRef, list[str]] = {}
        self._lock = asyncio.Lock()
        self._begun = False
        self._why = ""

    def tally(self) -> str:
        """A line for people: how many probes were answered rightly so far."""
        right = [right for verdicts in self._verdicts.values() for *_, right in verdicts]
        return f"{sum(right)} of {len(right)} probes right"

    @property
    def passed(self) -> bool:
        """Whether rows may be asked about, as far as is known."""
        return self._begun and not self._why

    async def begin(self, answer: Answer) -> None:
        """Ask every judge about every probe, unless that was done before.

        Raises:
            CallSkipped: one of the judges was wrong about too many, now or earlier.
        """
        async with self._lock:
            if not self._begun:
                # Whoever began before was cancelled.
                self._verdicts = {judge: [] for judge in self._judges}
                self._no_verdict = {judge: [] for judge in self._judges}
                async with asyncio.TaskGroup() as group:
                    for judge in self._judges:
                        for probe in self._probes:
                            group.create_task(self._ask(probe, judge, 0, answer))
                self._begun = True
                for judge in self._judges:
                    # The message does not depend on which reply came first.
                    self._verdicts[judge].sort(key=lambda verdict: self._probes.index(verdict[0]))
                    self._weigh(judge, self._verdicts[judge])
                    self._hear(judge, self._no_verdict[judge])
        if self._why:
            raise CallSkipped(self._why)

    async def go_on(self, draw: int, answer: Answer) -> None:
        """Ask every judge about one more probe, if they still stand; `draw` as `draw_of` gives it."""
        if not self.passed:
            return
        probe = self._probes[draw % len(self._probes)]
        for judge in self._judges:
            await self._ask(probe, judge, draw, answer)
            verdicts = self._verdicts[judge]
            if len(verdicts) <= RECENT:
                self._weigh(judge, verdicts)
            elif 2 * sum(right for *_, right in verdicts[-RECENT:]) <= RECENT:
                self._stop(judge, verdicts[-RECENT:], f"the last {RECENT} probes")

    async def _ask(self, probe: Probe, judge: ModelRef, repeat: int, answer: Answer) -> None:
        outcome = await answer(probe, judge, repeat)
        if isinstance(outcome, Scored):
            self._verdicts[judge].append((probe, outcome, probe.passed_by(outcome.values[self._main])))
        elif isinstance(outcome, Failed) and outcome.code in (*get_args(Code), ORDER_DECIDED):
            self._no_verdict[judge].append(outcome.reason)

    def _weigh(self, judge: ModelRef, verdicts: Sequence[tuple[Probe, Scored, bool]]) -> None:
        answered = [(probe, right) for probe, _, right in verdicts]
        if (bar := failed_bar(self._bars, answered, len(self._judges))) is not None:
            least, most, script = bar
            of_bar = [one for one in verdicts if _is_under(one[0], bar)]
            where = f" in the script {script}" if script else ""
            self._stop(
                judge, of_bar, f"{len(of_bar)} probes{where} whose {self._main} is known to be {in_words(least, most)}"
            )

    def _stop(self, judge: ModelRef, verdicts: Sequence[tuple[Probe, Scored, bool]], what: str) -> None:
        if self._why:
            return
        wrong = [(probe, outcome) for probe, outcome, right in verdicts if not right]
        names = ", ".join(dict.fromkeys(probe.name for probe, _ in wrong))
        self._why = (
            f"judge stopped: {judge.label} was right on {len(verdicts) - len(wrong)} of {what}; wrong on: {names}"
        )
        items = "\n".join(self._item(probe, outcome) for probe, outcome in wrong)
        _log.warning(f"{self._metric}: {self._why}. No more rows are judged. What it was wrong on:\n{items}")

    def _hear(self, judge: ModelRef, no_verdict: Sequence[str]) -> None:
        """Stop a judge that gave hardly any verdict."""
        n_probes = len(self._probes)
        if self._why or len(no_verdict) < max(2, _MOST_WITHOUT_VERDICT * n_probes):
            return
        self._why = (
            f"judge stopped: {judge.label} gave no verdict on {len(no_verdict)} of {n_probes} probes; "
            f"the first: {no_verdict[0]}"
        )
        _log.warning(f"{self._metric}: {self._why}. No more rows are judged.")

    def _item(self, probe: Probe, outcome: Scored) -> str:
        sample = probe.sample
        texts = (sample.question or "", sample.references[0] if sample.references else "", sample.answer or "")
        question, reference, answer = (cut(one_line(text), _LONGEST_TEXT) for text in texts)
        said = f"{self._main} {outcome.values[self._main]:g}, known to be {in_words(probe.least, probe.most)}"
        return f"  {probe.name}: {said}; question: {question} | reference: {reference} | answer: {answer}"


def in_words(least: float, most: float) -> str:
    """The range in which a number is known to lie.

    >>> in_words(0.0, 0.0), in_words(0.5, 1.0)
    ('0', '0.5 to 1')
    """
    return f"{least:g}" if least == most else f"{least:g} to {most:g}"


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
