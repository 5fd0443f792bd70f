"""Preference: whether an answer is better than the baseline's answer to the same question.

A judge is asked twice, with the two answers in both orders. If the order changes the verdict, the measurement fails:
the pair has no number, and a gate counts it both as the worst and as the best one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import ClassVar, Literal, cast, get_args

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.judge_metric import ModelMetric, request
from answerkey.metrics_core.judges.probes import Probe, known_answers
from answerkey.metrics_core.judges.prompt import Prompt, closed, load_prompt, one_of
from answerkey.metrics_core.judges.votes import ORDER_DECIDED, PAIRS, SHOWN_FIRST, SHOWN_SECOND, SPREAD
from answerkey.metrics_core.llm.budget import Bill
from answerkey.metrics_core.llm.client import Client
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.reply import read_object, reason_of
from answerkey.metrics_core.llm.request import Request
from answerkey.metrics_core.llm.response import every
from answerkey.metrics_core.measurement import Failed, Outcome, Scored, Undefined
from answerkey.metrics_core.metric import BLANK_ANSWER, NO_QUESTION, Field, option
from answerkey.metrics_core.sample import Sample
from answerkey.metrics_core.text import is_blank, normalise

Choice = Literal["first", "second", "tie"]

NO_BASELINE = Undefined("the baseline has no answer to this question")

_TIE = 0.5

PROMPT = load_prompt(
    "preference", closed(reason={"type": "string"}, verdict={"type": "string", "enum": list(get_args(Choice))})
)


@dataclass(frozen=True)
class Preference(ModelMetric):
    """`preferred`: 1 where the answer is preferred to the baseline's, 0 where the baseline's is, 0.5 for a tie.

    The baseline's own answers tie with themselves, so the difference of two releases is half of the share of better
    answers minus the share of worse ones. Each vote takes two calls per sample.

    If the two orders give different verdicts, the measurement is `Failed` with the code `order_decided`, and its
    message has both choices.

    Args:
        baseline_answers: by `sample_id` of the samples; a question without one has no preference.
        against: a hash of the baseline's answers, for the signature.

    >>> Preference(baseline_answers={"1": "Paris"}).without_judge(Sample("1", " paris", question="The capital?")).values
    {'preferred': 0.5}
    """

    # Not options: a run sets them.
    baseline_answers: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False, kw_only=True)
    against: str = field(default="", compare=False, kw_only=True)

    name = "preference"
    summary = "a judge: is this answer better than the baseline's?"
    needs = frozenset(("answer", "question"))
    prompts: ClassVar[tuple[Prompt, ...]] = (PROMPT,)
    main: ClassVar[Field] = Field("preferred", "1 preferred to the baseline's answer, 0.5 a tie, 0 the baseline's is")

    @property
    def also_signed(self) -> str:
        """The hash of the baseline's answers."""
        return f"|against:{self.against}"

    @property
    def probes(self) -> tuple[Probe, ...]:
        """Pairs in which one answer is known to be better.

        A pair that is decided by the order gives no verdict; a judge without verdicts on nearly all probes is stopped.
        """
        return tuple(known_answers("preference"))

    def without_judge(self, sample: Sample) -> Outcome | None:
        """The outcome if one of the two answers is blank, or both are the same; None if a judge must choose."""
        if is_blank(sample.question):
            return NO_QUESTION
        if sample.sample_id not in self.baseline_answers:
            return NO_BASELINE
        answer, baseline = sample.answer or "", self.baseline_answers[sample.sample_id]
        if is_blank(answer) and self.blank_answer == "undefined":
            return Undefined(BLANK_ANSWER)
        if normalise(answer) == normalise(baseline):
            return self._scored(_TIE, "both answers are the same")
        if is_blank(answer):
            return self._scored(0.0, BLANK_ANSWER)
        return self._scored(1.0, "the baseline's answer is blank") if is_blank(baseline) else None

    def _scored(self, preferred: float, reason: str) -> Scored:
        spread = {SPREAD: 0.0} if SPREAD in [field.name for field in self.fields] else {}
        return Scored({"preferred": preferred, **spread}, reason)

    async def vote(self, client: Client, sample: Sample, judge: ModelRef, repeat: int, bill: Bill) -> Outcome:
        """Make two calls: with the baseline's answer first, and with this one first."""
        asked = self.requests(sample, judge, repeat)
        replies = await every(*(client.ask(judge, one, read_choice, bill) for one in asked))
        (first, why), (second, why_swapped) = replies
        preferred = 1.0 - _value(first)
        if preferred != _value(second):
            both_times = {("first", "first"): SHOWN_FIRST, ("second", "second"): SHOWN_SECOND}
            why = both_times.get((first, second), "a tie in one order only")
            return Failed(ORDER_DECIDED, why, len(replies))
        reason = "; ".join(dict.fromkeys((why, why_swapped)))
        return Scored({"preferred": preferred}, reason, {"verdict": _VERDICTS[preferred]})

    def requests(self, sample: Sample, judge: ModelRef, repeat: int) -> list[Request]:
        """The two questions, which differ in the order of the answers."""
        probed = _beside_probe(sample)
        return self.both_orders(sample, probed or self.baseline_answers[sample.sample_id], judge, repeat)

    def both_orders(self, sample: Sample, other: str, judge: ModelRef, repeat: int) -> list[Request]:
        """The questions about the answer of the sample and another one: with the other one first, and second."""
        references = [text for _, text in sample.usable_references]
        both = {"question": sample.question, "references": references}
        pair = other, sample.answer
        return [
            request(PROMPT, {**both, "first": first, "second": second}, judge, repeat, self.judge)
            for first, second in (pair, pair[::-1])
        ]


def _beside_probe(sample: Sample) -> str:
    """The other answer of a probe; empty where the sample is none."""
    return {probe.sample: other for probe, other in known_answers("preference").items()}.get(sample, "")


@dataclass(frozen=True)
class Ranking(Preference):
    """`wins`: how much this answer is preferred to those of the other releases of the run, from 0 to 1.

    A judge is shown each pair in both orders, and `wins` is the mean of all verdicts: 1 for a win, 0.5 for a tie, 0 for
    a loss. A judge that prefers what is shown first, or second, so favours nobody. The `details` have, by release, the
    verdict with this answer second, and with it first; `statistics.ranking` ranks releases by them. Of each pair of
    releases both measurements need the same two replies, which are paid once.

    Args:
        opponents: how many releases each answer is compared with; 0: with all. Fewer cost less: the releases play a
            round-robin, of which each question has some rounds, and all pairs have about as many questions.
        rivals: by `sample_id` of the samples, and release, the answers to compare with.

    >>> ranking = Ranking(rivals={"1": {"new": " paris", "mute": ""}})
    >>> ranking.without_judge(Sample("1", "Paris", question="The capital?")).details
    {'pairs': {'new': [0.5, 0.5], 'mute': [1.0, 1.0]}}
    """

    opponents: int = option(
        0, title="Opponents", description="With how many releases `ranking` compares each answer. 0: with all.", ge=0
    )
    # Not an option: a run sets it.
    rivals: Mapping[str, Mapping[str, str]] = field(default_factory=dict, compare=False, repr=False, kw_only=True)

    name = "ranking"
    summary = "a judge: which release gives the better answers, of several?"
    main: ClassVar[Field] = Field("wins", "how much it is preferred to the answers of the other releases: 1 always")

    def check(self) -> None:
        """Find out before anything is asked whether the judge can be asked this.

        Raises:
            UserError: the judge is the offline one, or there are several votes.
        """
        super().check()
        if len(self.judge.judges) * self.judge.repeats > 1:
            raise UserError("ranking: it takes one judge, asked once about each pair and order; leave out the others")

    @property
    def also_signed(self) -> str:
        """How many opponents there are, and the hash of their answers."""
        return f"|opponents:{self.opponents or 'all'}{super().also_signed}"

    def without_judge(self, sample: Sample) -> Outcome | None:
        """The outcome if no pair needs a judge."""
        if is_blank(sample.question):
            return NO_QUESTION
        if not self.rivals.get(sample.sample_id):
            return NO_RIVAL
        if is_blank(sample.answer) and self.blank_answer == "undefined":
            return Undefined(BLANK_ANSWER)
        pairs = self._plain(sample)
        return None if any(points is None for points in pairs.values()) else _ranked(pairs)

    def _plain(self, sample: Sample) -> dict[str, list[float] | None]:
        """By rival, both verdicts where they need no judge: equal answers, or blank ones; else None."""
        answer, found = sample.answer or "", dict[str, list[float] | None]()
        for release, other in self.rivals[sample.sample_id].items():
            equal = normalise(answer) == normalise(other)
            blank = 0.0 if is_blank(answer) else 1.0 if is_blank(other) else None
            found[release] = [_TIE] * 2 if equal else None if blank is None else [blank] * 2
        return found

    async def vote(self, client: Client, sample: Sample, judge: ModelRef, repeat: int, bill: Bill) -> Outcome:
        """Make two calls for each rival whose answer is another one: with it first, and with it second."""
        if _beside_probe(sample):
            probed = await super().vote(client, sample, judge, repeat, bill)
            return Scored({"wins": probed.values["preferred"]}, probed.reason) if isinstance(probed, Scored) else probed
        pairs = self._plain(sample)
        for release, points in pairs.items():
            if points is None:
                asked = self.both_orders(sample, self.rivals[sample.sample_id][release], judge, repeat)
                (first, _), (second, _) = await every(*(client.ask(judge, one, read_choice, bill) for one in asked))
                pairs[release] = [1.0 - _value(first), _value(second)]
        return _ranked(pairs)

    def requests(self, sample: Sample, judge: ModelRef, repeat: int) -> list[Request]:
        """The two questions about each rival whose answer is another one."""
        if other := _beside_probe(sample):
            return self.both_orders(sample, other, judge, repeat)
        answers, pairs = self.rivals[sample.sample_id], self._plain(sample)
        asked = [self.both_orders(sample, answers[name], judge, repeat) for name in pairs if pairs[name] is None]
        return [one for both in asked for one in both]


NO_RIVAL = Undefined("no other release has an answer to this question, or is its opponent")


def _ranked(pairs: Mapping[str, list[float] | None]) -> Scored:
    won = {name: fmean(both) for name, both in pairs.items() if both}
    said = ", ".join(f"{share:g} against {name}" for name, share in won.items())
    return Scored({"wins": fmean(won.values())}, f"wins {said}", {PAIRS: dict(pairs)})


_VERDICTS = {1.0: "preferred", _TIE: "tie", 0.0: "baseline preferred"}


def read_choice(reply: str) -> tuple[Choice, str]:
    """The choice in a reply to `PROMPT`, and its reason.

    Raises:
        Unreadable: as `read_object`; "unreadable" for another verdict.

    >>> read_choice('{"reason": "It is right.", "verdict": "second"}')
    ('second', 'It is right.')
    """
    reply_object = read_object(reply)
    return cast(Choice, one_of(reply_object, "verdict", get_args(Choice))), reason_of(reply_object)


def _value(choice: Choice) -> float:
    """The score of a choice for the answer shown first."""
    return {"first": 1.0, "second": 0.0, "tie": _TIE}[choice]
