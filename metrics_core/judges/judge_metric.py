"""Base class of the metrics scored by judges: by language models, by the offline judge, or by both in a cascade."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property, partial
from itertools import compress, islice, product
from typing import ClassVar, Self

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.cascade import (
    JUDGE_DECIDED,
    OFFLINE_DECIDED,
    OTHER,
    SAME,
    Trial,
    holds,
    key_of,
    trial_of,
)
from answerkey.metrics_core.judges.known_answer import KnownAnswer
from answerkey.metrics_core.judges.options import OFFLINE_JUDGE, JudgeOptions
from answerkey.metrics_core.judges.prompt import Prompt
from answerkey.metrics_core.judges.votes import ANSWERED_BY, DECIDED_BY, OUT_OF_DEPTH, SPREAD, Vote, combine, votes_of
from answerkey.metrics_core.llm import loop as runtime
from answerkey.metrics_core.llm import provider
from answerkey.metrics_core.llm.access import NO_ACCESS, Access
from answerkey.metrics_core.llm.batch import BATCHING
from answerkey.metrics_core.llm.client import Client
from answerkey.metrics_core.llm.cost import Bill, ExpectedCall, Replies
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.provider_options import check_environment
from answerkey.metrics_core.llm.request import CallFailed, CallSkipped, Request
from answerkey.metrics_core.llm.untrusted import fenced
from answerkey.metrics_core.measurement import Failed, Measurement, Outcome, Scored, Skipped, Usage
from answerkey.metrics_core.metric import Field, Metric, Workload, degenerate, identical_reference, option
from answerkey.metrics_core.sample import Sample, content_hash
from answerkey.metrics_core.text import differ_in_case, normal_reference, normalise

PARSER = 2
"""Counts the changes of how replies are read that can change a number."""
_MATCHED_AT_ONCE = 512

AskJudges = Callable[[Client, Sequence[Sample]], Awaitable[list[Measurement]]]
"""Has language models judge samples, through this client: same length, same order."""

_log = logging.getLogger("answerkey")


@dataclass(frozen=True)
class JudgeMetric(Metric):
    """A metric whose numbers come from judges.

    Args:
        judge: which judges to ask, how, and what they may cost. With the offline judge, which is the default, no model
            API is called, nothing is paid, and equal samples always get equal scores.
        access: the key, the ledger and the run; it changes no number.
        trial: of a cascade; None: `with_trial` draws it.
    """

    judge: JudgeOptions = option(
        OFFLINE_JUDGE, title="Judge", description="which judges to ask, how, and what they may cost"
    )
    _: KW_ONLY
    # Not an option: it is in no form, and changes no number.
    access: Access = field(default=NO_ACCESS, compare=False)
    trial: Trial | None = field(default=None, compare=False, repr=False)

    kind = "judge"
    needs = frozenset(("answer", "references", "question"))
    prompts: ClassVar[tuple[Prompt, ...]]
    main: ClassVar[Field]
    others: ClassVar[tuple[Field, ...]] = ()
    identical: ClassVar[Mapping[str, str]] = {}
    """Details of an answer that equals a reference."""
    tokens_out: ClassVar[int] = 60
    """Tokens of a usual reply, for estimates."""
    cascades: ClassVar[bool] = False
    """Whether the offline judge can decide first; see `JudgeOptions.cascade`."""

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The main number, those beside it, and the spread of several votes."""
        if self.judge.n_votes == 1:
            return self.main, *self.others
        main = replace(self.main, binary=False) if self.judge.jury == "mean" else self.main
        return main, *self.others, Field(SPREAD, "highest vote less the lowest: 0 where all agree")

    def known_answers(self, samples: Iterable[Sample]) -> tuple[KnownAnswer, ...]:
        """The questions with known answers that its judges can be checked with; empty if there are none.

        Args:
            samples: have questions and references that some may be made from.
        """
        return ()

    def alone(self) -> list[tuple[ModelRef, Self]]:
        """Each judge and fallback, and the metric that asks it alone, once and directly.

        Raises:
            UserError: a judge is named twice; a model name or an address is malformed.
        """
        directly = {"fallbacks": (), "repeats": 1, "jury": "majority", "cascade": 0.0, "batch": False}
        names = (*self.judge.judges, *self.judge.fallbacks)
        return [
            (model, replace(self, judge=self.judge.model_copy(update={"judges": (name,), **directly})))
            for name, model in zip(names, self.judge.all_models(), strict=True)
        ]

    def with_trial(self, samples: Iterable[Sample]) -> Self:
        """Return the metric with the trial of its cascade, if it has one, in a run that judges these samples."""
        if self.trial is not None or not self.accepted_error:
            return self

        # The samples may be very many, so they are matched some hundreds at a time
        def candidates() -> Iterator[Sample]:
            remaining = iter(samples)
            while batch := list(islice(remaining, _MATCHED_AT_ONCE)):
                yield from compress(batch, [verdict is not None for verdict in self.cheap(batch)])

        trial = trial_of(candidates(), self.accepted_error)
        if not trial.drawn:
            _log.warning(
                f"{self.name}: the cascade decides nothing. The {trial.candidates:,} answers that the offline judge is "
                f"sure of are too few to show that at most {self.accepted_error:.3g} of its verdicts on them are wrong"
            )
        return replace(self, trial=trial)

    def cheap(self, samples: Sequence[Sample]) -> list[Measurement | None]:
        """What the offline judge decides in a cascade; None where it is not sure, or no judge is needed."""
        raise NotImplementedError

    @property
    def workload(self) -> Workload:
        """Where the work is done: by the offline judge on this machine, or by a model elsewhere."""
        return "offline" if self.judge.offline else "judge"

    @property
    def all_at_once(self) -> bool:
        """Whether all samples are judged in one piece: they go in one batch."""
        return self.judge.batch

    @property
    def signature(self) -> str:
        """For instance `meaning_match|v1|judge:openai/gpt-4o-mini|prompt:3fa2c1|parser:2|t:0|seed:0|blank:zero`,
        or `meaning_match|v1|judge:offline@1:3fa2c1|blank:zero`.
        """
        start = f"{self.name}|v{self.version}|judge:"
        end = f"{self.also_signed}|blank:{self.blank_answer}"
        options = self.judge
        if options.offline:
            return f"{start}{self.offline_signature()}{end}"
        models = options.all_models()
        n_judges = len(options.judges)
        labels = [model.label for model in models]
        prompts = ",".join(prompt.version for prompt in self.prompts)
        signature = f"{start}{','.join(labels[:n_judges])}|prompt:{prompts}|parser:{PARSER}"

        # Temperature and seed as far as the judges take them, in their order where they differ
        parameters_by_model = [provider.sampling_of(model.model) for model in models[:n_judges]]
        for name, short, value in (("temperature", "t", f"{options.temperature:g}"), ("seed", "seed", "0")):
            values = [value if name in parameters else "-" for parameters in parameters_by_model]
            if value in values:
                signature += f"|{short}:{','.join(values) if '-' in values else value}"

        # What is not the default
        if options.max_tokens != OFFLINE_JUDGE.max_tokens:
            signature += f"|max_tokens:{options.max_tokens}"
        if options.reasoning_effort != "default":
            signature += f"|effort:{options.reasoning_effort}"
        if options.extras:
            signature += f"|extras:{content_hash(options.extras)[:6]}"
        if options.fallbacks:
            signature += f"|else:{','.join(labels[n_judges:])}"
        if options.n_votes > 1:
            signature += f"|jury:{options.jury}|repeats:{options.repeats}"
        if self.accepted_error:
            signature += f"|first:{self.offline_signature()}|cascade:{self.accepted_error:g}"
        return signature + end

    @property
    def also_signed(self) -> str:
        """What else changes the numbers of this metric, as a part of the signature: `|NAME:VALUE`, or nothing."""
        return ""

    @property
    def accepted_error(self) -> float:
        """The share of errors that is accepted where the offline judge decides first, 0 to .5; 0: it does not."""
        return self.judge.cascade if self.cascades else 0.0

    def measure(self, samples: Sequence[Sample]) -> list[Measurement]:
        """Score `samples`: same length, same order.

        Raises:
            UserError: a judge cannot be asked.
            LedgerError: the ledger cannot be used.
        """
        started = time.perf_counter()
        signature = self.signature
        measurements: dict[int, Measurement] = {}

        # What needs no judge
        pending: dict[int, Sample] = {}
        for index, sample in enumerate(samples):
            outcome = self.without_judge(sample)
            if outcome is None:
                pending[index] = sample
            else:
                measurements[index] = Measurement(sample.sample_id, self.name, signature, outcome)

        # The rest: samples are judged together, so each gets an equal part of the time of the offline judge
        to_judge = list(pending.values())
        if self.judge.offline and to_judge:
            outcomes = self.judge_offline(to_judge)
            usage = Usage((time.perf_counter() - started) / len(to_judge))
            for index, outcome in zip(pending, outcomes, strict=True):
                sample_id = samples[index].sample_id
                measurements[index] = Measurement(sample_id, self.name, signature, outcome, usage=usage)
        elif to_judge:
            measurements |= zip(pending, _judged_by_models(self, to_judge), strict=True)
        return [measurements[index] for index in range(len(samples))]

    def without_judge(self, sample: Sample) -> Outcome | None:
        """The outcome if no judge is needed: nothing to judge, or the answer is a reference; None otherwise."""
        outcome = degenerate(sample, self.fields, self.blank_answer)
        if outcome is not None:
            return outcome
        index = identical_reference(sample)
        if index is None:
            return None
        details = {"reference": index, **self.identical}
        if not self.judge.offline:
            # What differs in case may be a unit or an abbreviation: a language model is asked
            answer = sample.answer or ""
            plain = normalise(answer)
            equal = [text for _, text in sample.usable_references if normal_reference(text) == plain]
            if all(differ_in_case(answer, text) for text in equal):
                return None
        elif doubt := self.doubt_of_repeated(sample, index):
            details[OUT_OF_DEPTH] = doubt
        values = {field.name: float(field.name != SPREAD) for field in self.fields}
        return Scored(values, "the answer equals the reference apart from its form", details)

    def doubt_of_repeated(self, sample: Sample, index: int) -> str:
        """Why the offline judge could not compare other answers with the reference that this one repeats, or ""."""
        return ""

    def offline_signature(self) -> str:
        """A text that changes whenever the numbers of `judge_offline` may change."""
        return "none"

    def judge_offline(self, samples: Sequence[Sample]) -> list[Outcome]:
        """The outcomes of samples that need a judge, by the offline judge; same length, same order.

        Raises:
            UserError: the offline judge cannot score this metric.
        """
        raise UserError(
            f"{self.name}: the offline judge cannot judge this; name a language model with --judge, for instance "
            "openai/gpt-4o-mini"
        )

    @abstractmethod
    async def vote(self, client: Client, sample: Sample, judge: ModelRef, repeat: int, bill: Bill) -> Outcome:
        """The vote of one language model on one sample.

        Raises:
            CallFailed, CallSkipped, LedgerError: as `Client.ask`.
        """

    def combined(self, votes: Sequence[Vote]) -> Outcome:
        """The outcome of all votes, decided on the main number; see `combine`."""
        main = self.fields[0]
        return combine(votes, self.judge.jury, main.name, binary=main.binary)

    def requests(self, sample: Sample, judge: ModelRef, repeat: int) -> list[Request]:
        """The requests that `vote` makes, for a metric of which none depends on the reply to another."""
        raise NotImplementedError

    def expected_calls(self, sample: Sample, judge: ModelRef, repeat: int, replies: Replies) -> list[ExpectedCall]:
        """The calls that `vote` makes, including those that the ledger answers."""
        return [ExpectedCall(judge, request, self.tokens_out) for request in self.requests(sample, judge, repeat)]

    def expected(self, samples: Iterable[Sample], replies: Replies) -> Iterator[list[ExpectedCall]]:
        """For each sample the calls of all judges, without fallbacks; none where no judge is needed."""
        voters = list(product(self.judge.models(), range(self.judge.repeats)))
        for sample in samples:
            calls: list[ExpectedCall] = []
            if self.without_judge(sample) is None:
                for model, repeat in voters:
                    calls += self.expected_calls(sample, model, repeat, replies)
            yield calls


def request(prompt: Prompt, fields: dict[str, object], judge: ModelRef, repeat: int, options: JudgeOptions) -> Request:
    """What `judge` is asked about `fields`. Repeats differ in their seed, so that they are drawn anew.

    >>> from answerkey.metrics_core.judges.prompt import load_prompt
    >>> options = JudgeOptions(judges=["openai/m"], temperature=0.7, repeats=2)
    >>> asked = request(load_prompt("decompose", {}), {"reference": "Paris"}, ModelRef("openai/m"), 1, options)
    >>> asked.model, asked.seed, asked.temperature, asked.user.splitlines()[1]
    ('openai/m', 1, 0.7, '{"reference": "Paris"}')
    """
    return Request(
        model=judge.label,
        prompt=f"{prompt.name}@{prompt.version}",
        system=prompt.text,
        user=f"{fenced(fields)}\nReply with the JSON object only.",
        schema=prompt.schema_text,
        temperature=options.temperature,
        seed=repeat,
        max_tokens=options.max_tokens,
        repeat=repeat,
        reasoning_effort="" if options.reasoning_effort == "default" else options.reasoning_effort,
        extras=options.extras,
    )


def check(options: JudgeOptions, api_key: str | None = None, *, needs_key: bool = True) -> None:
    """Check what can be known before the first call. Nothing is sent, and an estimate needs no key.

    Raises:
        UserError: litellm does not know the provider of a judge, its key is not set, it does not take what is to be
            sent, or the cost is to be limited and its price is not known.

    >>> check(OFFLINE_JUDGE)  # needs no key
    """
    if options.offline:
        return
    judges = options.all_models(api_key)
    check_environment(options.extra_headers)
    provider.check(judges, options.limits, "judge", needs_key=needs_key)

    # What is to be sent has to be what each of them takes
    for judge in judges:
        sampling = provider.sampling_of(judge.model)
        abilities = provider.abilities(judge.model)
        if options.repeats > 1 and "seed" not in sampling and not (options.temperature and "temperature" in sampling):
            remedy = "set a temperature, such as .7" if "temperature" in sampling else "ask several judges instead"
            raise UserError(f"judge {judge.label} takes no seed, so its repeats would be one question; {remedy}")
        if options.batch and abilities.provider not in BATCHING:
            raise UserError(
                f"judge {judge.label}: batches are not sent to {abilities.provider}, but only to "
                f"{', '.join(sorted(BATCHING))}; leave --batch out"
            )
        if options.temperature and "temperature" not in sampling:
            raise UserError(f"judge {judge.label} takes no temperature; leave it at 0")
        if options.reasoning_effort != "default" and "reasoning_effort" not in abilities.parameters:
            raise UserError(f"judge {judge.label} takes no reasoning effort; leave it at default")


@dataclass(frozen=True)
class ModelMetric(JudgeMetric):
    """A metric that only language models can score."""

    def check(self) -> None:
        """Find out before anything is asked whether there is a language model to ask.

        Raises:
            UserError: the judge is the offline one.
        """
        if self.judge.offline:
            self.judge_offline(())


def _judged_by_models(metric: JudgeMetric, samples: Sequence[Sample]) -> list[Measurement]:
    """Have language models judge samples: same length, same order."""
    metric = metric.with_trial(samples)
    options = metric.judge
    signature = metric.signature
    models = options.all_models(metric.access.api_key)
    n_judges = len(options.judges)
    progress = runtime.Progress(metric.name, "samples", len(samples))
    own_ids = {sample.sample_id for sample in samples}

    async def vote_of(client: Client, sample: Sample, model: ModelRef, repeat: int) -> Vote:
        """The vote of a model on a sample, or why there is none."""
        bill = Bill()
        is_lost = False
        try:
            outcome = await metric.vote(client, sample, model, repeat, bill=bill)
        except CallFailed as error:
            outcome = Failed(error.code, error.message, bill.calls)
            is_lost = True
        except CallSkipped as error:
            outcome = Skipped(error.message)
            is_lost = error.unavailable
        return Vote(model.label, repeat, outcome, bill, lost=is_lost)

    async def measured(client: Client, sample: Sample) -> Measurement:
        """The outcome of all votes on a sample."""
        started = time.perf_counter()
        votes = await votes_of(partial(vote_of, client, sample), models[:n_judges], models[n_judges:], options.repeats)
        outcome = metric.combined(votes)

        # What they cost, and whose they are
        bill = Bill()
        stand_ins = set()
        is_complete = True
        for vote in votes:
            bill.add(vote.bill)
            if vote.outcome.status in ("failed", "skipped"):
                is_complete = False
            elif vote.stands_in and vote.outcome.status == "scored":
                stand_ins.add(vote.judge)
        if stand_ins and isinstance(outcome, Scored):
            outcome = replace(outcome, details={**outcome.details, ANSWERED_BY: ", ".join(sorted(stand_ins))})
        # An answer of the trial may be that of another shard, whose replies come from the ledger
        if sample.sample_id in own_ids:
            progress.add(failed=isinstance(outcome, Failed), cost_usd=bill.cost_usd)
        return Measurement(
            sample_id=sample.sample_id,
            metric=metric.name,
            signature=signature,
            outcome=outcome,
            usage=Usage(time.perf_counter() - started, bill.tokens_in, bill.tokens_out, bill.cost_usd),
            from_ledger=is_complete and not bill.calls,
            requests=tuple(dict.fromkeys(bill.requests)),
        )

    async def ask(client: Client, pending: Sequence[Sample]) -> list[Measurement]:
        # All that is asked has to be there before a batch can be sent.
        at_once = len(samples) if options.batch else options.concurrency
        return await runtime.each(pending, partial(measured, client), at_once)

    judge = partial(ask, pending=samples)
    if metric.trial is not None:
        judge = partial(_judged_in_cascade, metric, trial=metric.trial, samples=samples, ask=ask)
    return runtime.ask(
        judge,
        access=metric.access,
        limits=options.limits,
        noun="judge",
        check=partial(check, options, metric.access.api_key),
        progress=progress,
    )


async def _judged_in_cascade(
    metric: JudgeMetric, client: Client, *, trial: Trial, samples: Sequence[Sample], ask: AskJudges
) -> list[Measurement]:
    """Judge samples: same length, same order. In the details, `DECIDED_BY` says who decided."""
    keys = [key_of(sample) for sample in samples]
    trial_samples = trial.drawn
    by_trial: dict[str, Measurement] = {}
    cheap_decides = False
    if trial_samples:
        # What the judges say of the answers of the trial; whether it holds has to be known before a batch is sent
        by_judges = await ask(client.unbatched(), trial_samples)
        n_different = 0
        for sample, judged, by_cheap in zip(trial_samples, by_judges, metric.cheap(trial_samples), strict=True):
            agrees = by_cheap is not None and judged.values.get(metric.main.name) == by_cheap.values[metric.main.name]
            by_trial[key_of(sample)] = _signed(judged, SAME if agrees else OTHER)
            n_different += not agrees
        cheap_decides = holds(trial.candidates, len(trial_samples), n_different, metric.accepted_error)

        # Every shard of a run comes by here, and one of them says so
        if key_of(trial_samples[0]) in keys:
            decides = "nothing, and the judge is asked about all"
            if cheap_decides:
                decides = f"{trial.candidates - len(trial_samples):,} answers"
            _log.log(
                logging.INFO if cheap_decides else logging.WARNING,
                f"{metric.name}: the cascade decides {decides}: on {n_different:,} of the {len(trial_samples):,} that "
                f"were tried, the judge says otherwise than the offline judge "
                f"({metric.accepted_error:.3g} of its verdicts may be wrong)",
            )

    # Those of the trial, then what the cheap judge is sure of, and the rest
    verdicts = {index: by_trial[key] for index, key in enumerate(keys) if key in by_trial}
    if cheap_decides:
        for index, verdict in enumerate(metric.cheap(samples)):
            if verdict is not None:
                verdicts.setdefault(index, _signed(verdict, OFFLINE_DECIDED))
    pending = [index for index in range(len(samples)) if index not in verdicts]
    measurements = await ask(client, [samples[index] for index in pending])
    for index, measurement in zip(pending, measurements, strict=True):
        verdicts[index] = _signed(measurement, JUDGE_DECIDED)
    return [verdicts[index]._replace(sample_id=sample.sample_id) for index, sample in enumerate(samples)]


def _signed(verdict: Measurement, decided_by: str) -> Measurement:
    if not isinstance(verdict.outcome, Scored):
        return verdict
    details = {**verdict.outcome.details, DECIDED_BY: decided_by}
    return verdict._replace(outcome=replace(verdict.outcome, details=details))
