"""Base class of the metrics scored by judges: by language models, by the offline judge, or by both in a cascade."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Self

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.options import OFFLINE_JUDGE, JudgeOptions
from answerkey.metrics_core.judges.probes import (
    FEWEST_ANSWERS,
    Examination,
    Examined,
    JudgeStopped,
    Probe,
    draw_of,
    examination_of,
)  # fmt: skip
from answerkey.metrics_core.judges.prompt import Prompt
from answerkey.metrics_core.judges.second_opinion import reviewed
from answerkey.metrics_core.judges.votes import ANSWERED_BY, FALLBACK_VOTED, SPREAD, WEIGHTS, Vote, combine
from answerkey.metrics_core.llm.access import NO_ACCESS, Access
from answerkey.metrics_core.llm.availability import Unavailable
from answerkey.metrics_core.llm.client import Asker, Batched, Client
from answerkey.metrics_core.llm.cost import ExpectedCall, Replies
from answerkey.metrics_core.llm.log_probabilities import probabilities
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.request import Request
from answerkey.metrics_core.llm.response import NO_WEIGHTS, NoUsableReply
from answerkey.metrics_core.llm.spending import Bill, BudgetUsedUp
from answerkey.metrics_core.llm.untrusted import fenced
from answerkey.metrics_core.measurement import Failed, Measurement, Outcome, Scored, Skipped, Usage
from answerkey.metrics_core.metric import Field, Kind, Metric, degenerate, identical_reference, option
from answerkey.metrics_core.progress import HOW_FAR, Advance, tell
from answerkey.metrics_core.sample import Sample
from answerkey.metrics_core.text import differ_in_case, normal_reference, normalise

PARSER = 1
"""Counts the changes of how replies are read that can change a number."""

Judged = tuple[Outcome, Usage, bool, tuple[str, ...]]
"""The parts of a measurement that judging gives: outcome, usage, whether all came from the ledger, the requests."""

_LEAST_SHOWN = 0.0005
_log = logging.getLogger("answerkey")


@dataclass(frozen=True)
class JudgeMetric(Metric):
    """A metric whose numbers come from judges.

    Args:
        judge: which judges to ask, how, and what they may cost. With the offline judge, which is the default, no model
            API is called, nothing is paid, and equal samples always get equal scores.
        embedding_cache: a folder for the embeddings of earlier calls; it changes no number.
        access: the key, the ledger and the run; it changes no number.
    """

    judge: JudgeOptions = option(
        OFFLINE_JUDGE, title="Judge", description="which judges to ask, how, and what they may cost"
    )
    embedding_cache: str | None = option(
        None, title="Embedding cache", description="a folder for the embeddings of earlier calls", signed=False
    )
    _: KW_ONLY
    # Not an option: it is in no form, and changes no number.
    access: Access = field(default=NO_ACCESS, compare=False)

    kind = "judge"
    needs = frozenset(("answer", "references", "question"))
    prompts: ClassVar[tuple[Prompt, ...]]
    main: ClassVar[Field]
    others: ClassVar[tuple[Field, ...]] = ()
    identical: ClassVar[Mapping[str, str]] = {}
    """Details of an answer that equals a reference."""
    cascades: ClassVar[bool] = False
    """Whether the offline judge can decide first; see `JudgeOptions.cascade`."""
    checked_offline: ClassVar[bool] = False
    """Whether the offline judge can check verdicts; see `disagreement`."""

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The main number, those beside it, and the spread of several votes."""
        main, votes = self.main, len(self.judge.judges) * self.judge.repeats
        if self.weighed:
            main = replace(main, binary=False, description=f"{main.description}; as the judge's probabilities weigh it")
        elif votes > 1 and self.judge.jury == "mean":
            main = replace(main, binary=False)
        spread = Field(SPREAD, "highest vote less the lowest: 0 where all agree")
        return (main, *self.others, *((spread,) if votes > 1 else ()))

    @property
    def labels(self) -> Mapping[str, float]:
        """What a model can say as its `verdict`, with what that is worth; empty: its verdicts cannot be weighed."""
        return {}

    @property
    def weighed(self) -> bool:
        """Whether the main number is what a model's verdict is worth on average, by its log-probabilities."""
        return self.judge.log_probabilities and bool(self.labels)

    @property
    def probes(self) -> tuple[Probe, ...]:
        """What its judges are tested with; empty: nothing."""
        return ()

    def probes_for(self, answers: int) -> tuple[Probe, ...]:
        """What its judges are tested with in a run of so many answers."""
        wanted = self.judge.probes
        asked = wanted == "always" or (wanted == "auto" and answers >= FEWEST_ANSWERS)
        return self.probes if asked and not self.judge.offline else ()

    def of_run(self, answers: int) -> Self:
        """The same metric for a part of a run of so many answers."""
        if self.judge.probes != "auto":
            return self
        probing = "always" if self.probes_for(answers) else "never"
        return replace(self, judge=self.judge.model_copy(update={"probes": probing}))

    @property
    def workload(self) -> Kind:
        """The offline judge is a model in this process."""
        return "semantic" if self.judge.offline else "judge"

    @property
    def all_at_once(self) -> bool:
        """A batch has room for all that is to be judged."""
        return self.judge.batch

    @property
    def signature(self) -> str:
        """For instance `meaning_match|v1|judge:openai/gpt-4o-mini|prompt:3fa2c1|parser:1|t:0|seed:0|blank:zero`,
        or `meaning_match|v1|judge:offline@1:3fa2c1|blank:zero`.
        """
        who = self.offline_signature() if self.judge.offline else self._online()
        return f"{self.name}|v{self.version}|judge:{who}|blank:{self.blank_answer}"

    def _online(self) -> str:
        judges, votes = ",".join(self.judge.labels), len(self.judge.seats())
        prompts = ",".join(prompt.version for prompt in self.prompts)
        jury = f"|jury:{self.judge.jury}|repeats:{self.judge.repeats}" if votes > 1 else ""
        first = f"|first:{self.offline_signature()}|cascade:{self.accepted_error:g}" if self.accepted_error else ""
        sampling, sent, weighed = _sampling(self.judge), _sent(self.judge), "|verdicts:weighed" * self.weighed
        return f"{judges}|prompt:{prompts}|parser:{PARSER}{sampling}{sent}{weighed}{jury}{first}"

    @property
    def accepted_error(self) -> float:
        """The share of errors that is accepted where the offline judge decides first, 0 to .5; 0: it does not."""
        return self.judge.cascade if self.cascades else 0.0

    def measure(self, samples: Sequence[Sample]) -> list[Measurement]:
        """Score `samples`: same length, same order.

        Raises:
            UserError: a judge cannot be asked.
            LedgerError: the ledger cannot be used.
            EncoderError: the embedding model of the offline judge is not available.
        """
        started = time.perf_counter()
        local = self.known(samples)
        pending = [sample for sample, known in zip(samples, local, strict=True) if known is None]
        judged = iter(self._judged(pending, len(samples), started) if pending else ())
        signature = self.signature
        known_already = Usage(), False, ()
        return [
            Measurement(sample.sample_id, self.name, signature, *((known, *known_already) if known else next(judged)))
            for sample, known in zip(samples, local, strict=True)
        ]

    def _judged(self, samples: Sequence[Sample], answers: int, started: float) -> list[Judged]:
        if self.judge.offline:
            outcomes = self.judge_offline(samples)
            # Samples are judged together, so each gets an equal part of the time.
            usage = Usage((time.perf_counter() - started) / len(samples))
            return [(outcome, usage, False, ()) for outcome in outcomes]
        from answerkey.metrics_core.llm import loop as runtime

        work = _Work(self, len(samples), self.probes_for(answers))
        # What a batch says of itself is enough.
        judged = runtime.run(work.judge(samples), work.say_how_far, work.run, 600.0 if self.judge.batch else 5.0)
        outcomes = reviewed(self, samples, [outcome for outcome, *_ in judged], self.judge.second_opinion)
        return [(outcome, *one[1:]) for outcome, one in zip(outcomes, judged, strict=True)]

    def known(self, samples: Sequence[Sample]) -> list[Outcome | None]:
        """For each sample the outcome if no judge need be asked, else None."""
        return [self.without_judge(sample) for sample in samples]

    def without_judge(self, sample: Sample) -> Outcome | None:
        """The outcome if no judge is needed: nothing to judge, or the answer is a reference; None otherwise."""
        known = degenerate(sample, self.fields, self.blank_answer)
        if known is not None:
            return known
        index = identical_reference(sample)
        if index is None or (not self.judge.offline and self.differs_in_case(sample)):
            return None
        values = {one.name: 0.0 if one.name == SPREAD else 1.0 for one in self.fields}
        details = {"reference": index, **self.identical}
        return Scored(values, "the answer is the reference but for its form", details)

    def differs_in_case(self, sample: Sample) -> bool:
        """Whether the answer equals references, and differs from all of these in what may be a unit or an abbreviation:
        the offline judge takes them for the same.
        """
        answer = sample.answer or ""
        alike = [text for _, text in sample.usable_references if normal_reference(text) == normalise(answer)]
        return bool(alike) and all(differ_in_case(answer, text) for text in alike)

    @abstractmethod
    def offline_signature(self) -> str:
        """What `judge_offline` depends on: changes whenever its numbers may change."""

    @abstractmethod
    def judge_offline(self, samples: Sequence[Sample]) -> list[Outcome]:
        """What the offline judge says about samples that need a judge; same length, same order."""

    def disagreement(self, verdict: Scored, second: Outcome | None) -> str | None:
        """What the offline judge says against a verdict, in a few words; None where it agrees, or has said nothing."""
        return None

    @abstractmethod
    async def vote(self, client: Asker, sample: Sample, judge: ModelRef, repeat: int, bill: Bill) -> Outcome:
        """What one language model says about one sample.

        Raises:
            NoUsableReply, BudgetUsedUp, Unavailable, LedgerError: as `Client.ask`.
        """

    async def weigh(self, client: Asker, asked: Request, verdict: Scored) -> Scored:
        """The outcome of a vote: the verdict in the reply, or what it is worth by its log-probabilities.

        Raises:
            NoUsableReply: they say nothing of it.
            LedgerError: the ledger cannot be used.
        """
        if not asked.weighed:
            return verdict
        found = probabilities((await client.origin(asked)).weights or "[]", self.labels)
        if not found:
            raise NoUsableReply(NO_WEIGHTS, "the log-probabilities of the reply say nothing of its verdict")
        worth = sum(self.labels[label] * share for label, share in found.items())
        weights = {label: round(share, 4) for label, share in found.items() if share >= _LEAST_SHOWN}
        return replace(
            verdict,
            values={**verdict.values, self.main.name: min(max(worth, self.main.low), self.main.high)},
            details={**verdict.details, WEIGHTS: weights},
        )

    def rounded(self, outcome: Outcome) -> Outcome:
        """An outcome with the nearest verdict that there is in the place of a weighed one; of two, the better."""
        if not (self.weighed and isinstance(outcome, Scored)):
            return outcome
        worth = outcome.values[self.main.name]
        nearest = min(self.labels.values(), key=lambda one: (abs(one - worth), -one))
        return replace(outcome, values={**outcome.values, self.main.name: nearest})

    @abstractmethod
    def expected_calls(self, sample: Sample, judge: ModelRef, repeat: int, replies: Replies) -> list[ExpectedCall]:
        """The calls that `vote` makes, including those that the ledger answers."""


def _sampling(options: JudgeOptions) -> str:
    """Temperature and seed in a signature, as far as they are sent. Of judges that differ, in the judges' order."""
    # Imported late: see `check`.
    from answerkey.metrics_core.llm.litellm import sampling_of

    taken = [sampling_of(judge.model) for judge in options.models()]
    text = ""
    for name, short, value in (("temperature", "t", f"{options.temperature:g}"), ("seed", "seed", "0")):
        values = [value if name in one else "-" for one in taken]
        if value in values:
            text += f"|{short}:{','.join(values) if '-' in values else value}"
    return text


def _sent(options: JudgeOptions) -> str:
    """What else is sent and is not the default, and who answers where the judges fail."""
    tokens = f"|max_tokens:{options.max_tokens}" if options.max_tokens != OFFLINE_JUDGE.max_tokens else ""
    effort = f"|effort:{options.reasoning_effort}" if options.reasoning_effort != "default" else ""
    fallbacks = ",".join(judge.label for judge in options.substitutes())
    return f"{tokens}{effort}{f'|else:{fallbacks}' if fallbacks else ''}"


def request(
    prompt: Prompt, fields: dict[str, object], judge: ModelRef, repeat: int, options: JudgeOptions, *,
    weighed: bool = False,
) -> Request:  # fmt: skip
    """What `judge` is asked about `fields`. Repeats differ in their seed, so that they are drawn anew.

    Args:
        weighed: whether its `verdict` is to come with log-probabilities.

    >>> from answerkey.metrics_core.judges.prompt import load_prompt
    >>> options = JudgeOptions(judges=["openai/m"], temperature=0.7, repeats=2)
    >>> asked = request(load_prompt("decompose", {}), {"reference": "Paris"}, ModelRef("openai/m"), 1, options)
    >>> asked.model, asked.seed, asked.temperature, asked.user.splitlines()[1]
    ('openai/m', 1, 0.7, '{"reference": "Paris"}')
    """
    user = f"{fenced(fields)}\nReply with the JSON object only."
    named = f"{prompt.name}@{prompt.version}"
    effort = "" if options.reasoning_effort == "default" else options.reasoning_effort
    return Request(
        judge.label, named, prompt.text, user, prompt.schema_text, options.temperature, repeat, options.max_tokens,
        repeat, effort, "verdict" if weighed else "",
    )  # fmt: skip


def check(options: JudgeOptions, api_key: str | None = None) -> None:
    """Check what can be known before the first call. Nothing is sent.

    Raises:
        UserError: litellm does not know the provider of a judge, its key is not set, it does not take what is to be
            sent, or the cost is to be limited and its price is not known.

    >>> check(OFFLINE_JUDGE)  # needs no key
    """
    if options.offline:
        return
    # Imported late: litellm takes seconds, and most of what imports this module calls no model.
    from answerkey.metrics_core.llm.batch_service import BATCHING
    from answerkey.metrics_core.llm.litellm import abilities, provider_of, sampling_of
    from answerkey.metrics_core.llm.litellm import check as check_models

    judges = [*options.models(api_key), *options.substitutes(api_key)]
    check_models(judges, options.limits, "judge")
    for judge in judges:
        taken = sampling_of(judge.model)
        if options.repeats > 1 and "seed" not in taken and not (options.temperature and "temperature" in taken):
            remedy = "set a temperature, such as .7" if "temperature" in taken else "ask several judges instead"
            raise UserError(f"judge {judge.label} takes no seed, so its repeats would be one question; {remedy}")
        if options.batch and (provider := provider_of(judge.model)) not in BATCHING:
            raise UserError(
                f"judge {judge.label}: batches are not sent to {provider}, but only to {', '.join(sorted(BATCHING))}; "
                "leave --batch out"
            )
        if options.temperature and "temperature" not in taken:
            raise UserError(f"judge {judge.label} takes no temperature; leave it at 0")
        if options.reasoning_effort != "default" and "reasoning_effort" not in abilities(judge.model).parameters:
            raise UserError(f"judge {judge.label} takes no reasoning effort; leave it at default")
        if options.log_probabilities and not {"logprobs", "top_logprobs"} <= abilities(judge.model).parameters:
            raise UserError(
                f"judge {judge.label} sends no log-probabilities, so its verdicts cannot be weighed; leave "
                "--log-probabilities out"
            )


class _Work:
    """The judging of one list of samples, and how far it is."""

    def __init__(self, metric: JudgeMetric, total: int, probes: tuple[Probe, ...]) -> None:
        self._metric = metric
        self._options, access = metric.judge, metric.access
        self._access = access if access.run else replace(access, run=uuid.uuid4().hex)
        self._seats = metric.judge.seats(access.api_key)
        self._substitutes = metric.judge.substitutes(access.api_key)
        self._total, self._done, self._failed = total, 0, 0
        self._client: Client | None = None
        self._examination: Examination | None = None
        if probes:
            judges = (*self._options.models(access.api_key), *self._substitutes)
            self._examination = examination_of(self._access.run, metric.name, metric.main.name, probes, judges)

    @property
    def run(self) -> str:
        """What it is counted for."""
        return self._access.run

    async def judge(self, samples: Sequence[Sample]) -> list[Judged]:
        from answerkey.metrics_core.llm import loop as runtime

        def checked() -> None:
            check(self._options, self._access.api_key)

        limits = self._options.limits
        async with runtime.connect(self._access, limits, "judge", checked) as client:
            self._client = client
            # All that is asked has to be there before a batch can be sent.
            at_once = len(samples) if self._options.batch else self._options.concurrency
            return await runtime.each(samples, lambda sample: self._examined(client, sample), at_once)

    async def _examined(self, client: Client, sample: Sample) -> Judged:
        """One sample, between the probes."""
        examination = self._examination
        if examination is None:
            return await self._one(Batched(client), sample)

        async def answer(probe: Probe, judge: ModelRef, repeat: int) -> Outcome:
            seat = _Seat(judge, repeat)
            await self._ask(client, probe.sample, judge, seat)
            return self._metric.rounded(seat.result().outcome)

        judged = await self._one(Examined(Batched(client), examination, answer), sample)
        outcome, _, from_ledger, _ = judged
        if isinstance(outcome, Scored) and not from_ledger and (draw := draw_of(sample)):
            await examination.go_on(draw, answer)
        return judged

    async def _one(self, asker: Asker, sample: Sample) -> Judged:
        started = time.perf_counter()
        seats = [_Seat(judge, repeat) for judge, repeat in self._seats]
        await self._fill(asker, sample, [(seat.judge, seat) for seat in seats])
        for substitute in self._substitutes:
            await self._fill(asker, sample, [(substitute, seat) for seat in _open_to(substitute, seats)])
        main, votes = self._metric.fields[0], _votes(seats)
        outcome = combine(votes, self._options.jury, main.name, binary=main.binary)
        self._done += 1
        self._failed += isinstance(outcome, Failed)
        bill = Bill.total([seat.bill for seat in seats])
        usage = Usage(time.perf_counter() - started, bill.tokens_in, bill.tokens_out, bill.cost_usd)
        tell(Advance(self._metric.name, more=1, cost_usd=bill.cost_usd or 0.0))
        known = not bill.calls and not any(isinstance(vote.outcome, Failed | Skipped) for vote in votes)
        return outcome, usage, known, tuple(dict.fromkeys(bill.requests))

    async def _fill(self, asker: Asker, sample: Sample, asked: Sequence[tuple[ModelRef, _Seat]]) -> None:
        if len(asked) == 1:
            # As usual: without a task, which each of several needs.
            await self._ask(asker, sample, *asked[0])
            return
        async with asyncio.TaskGroup() as group:
            for judge, seat in asked:
                group.create_task(self._ask(asker, sample, judge, seat))

    async def _ask(self, asker: Asker, sample: Sample, judge: ModelRef, seat: _Seat) -> None:
        """Have a judge, or a substitute for it, vote for a seat."""
        try:
            outcome = await self._metric.vote(asker, sample, judge, seat.repeat, seat.bill)
        except (NoUsableReply, Unavailable) as error:
            seat.failures.append((judge, error))
            return
        except (BudgetUsedUp, JudgeStopped) as error:
            outcome = Skipped(str(error))
        if judge is not seat.judge and isinstance(outcome, Scored):
            outcome = replace(outcome, details={**outcome.details, ANSWERED_BY: judge.label})
        seat.vote = Vote(judge.label, seat.repeat, outcome)

    def say_how_far(self) -> None:
        # Work that waits for its turn has nothing to say.
        if self._client is None or not (self._done or self._client.calls):
            return
        probes = f"{self._examination.tally()}, " if self._examination else ""
        _log.info(
            f"{self._metric.name}: {self._done:,}/{self._total:,} samples, {probes}{self._client.tally()}, "
            f"{self._failed:,} failed",
            extra=HOW_FAR,
        )


@dataclass(slots=True)
class _Seat:
    """The place of one vote: a judge, in one of its repeats.

    Attributes:
        vote: of the judge, or of a fallback where the judge failed for good or is not there.
        failures: of all that were asked, in this order.
    """

    judge: ModelRef
    repeat: int
    bill: Bill = field(default_factory=Bill)
    vote: Vote | None = None
    failures: list[tuple[ModelRef, NoUsableReply | Unavailable]] = field(default_factory=list)

    def result(self) -> Vote:
        """The vote, or why there is none."""
        if self.vote is not None:
            return self.vote
        (_, first), *later = self.failures
        others = "".join(f"; {asked.label}: {error}" for asked, error in later)
        if isinstance(first, Unavailable):
            return Vote(self.judge.label, self.repeat, Skipped(f"{first}{others}"))
        return Vote(self.judge.label, self.repeat, Failed(first.code, f"{first.message}{others}", self.bill.calls))


def _open_to(fallback: ModelRef, seats: Sequence[_Seat]) -> list[_Seat]:
    """The seats that a fallback may vote for: the first empty one of each repeat, as it has one reply to each."""
    heard = {seat.repeat for seat in seats if seat.vote and seat.vote.judge == fallback.label}
    empty = {seat.repeat: seat for seat in reversed(seats) if seat.vote is None}
    return [seat for repeat, seat in empty.items() if repeat not in heard]


def _votes(seats: Sequence[_Seat]) -> list[Vote]:
    """The votes of all seats. What is said of one that no fallback was left for is what the first one did instead."""
    given = {vote.repeat: vote for seat in reversed(seats) if (vote := seat.vote) and vote.judge != seat.judge.label}
    votes = []
    for seat in seats:
        vote = seat.result()
        if seat.vote is None and (other := given.get(seat.repeat)):
            vote = replace(other, outcome=FALLBACK_VOTED) if isinstance(other.outcome, Scored) else other
        votes.append(vote)
    return votes
