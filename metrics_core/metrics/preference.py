"""Preference: whether an answer is better than the baseline's answer to the same question.

A judge is asked twice, with the two answers in both orders. If the order changes the verdict, the measurement fails:
the pair has no number, and a gate counts it both as the worst and as the best one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self, cast, get_args

from answerkey.metrics_core.judges.judge_metric import ModelMetric, request
from answerkey.metrics_core.judges.known_answer import KnownAnswer, shipped
from answerkey.metrics_core.judges.prompt import Prompt, closed, load_prompt, one_of
from answerkey.metrics_core.judges.votes import ORDER_DECIDED, SHOWN_FIRST, SHOWN_SECOND, SPREAD
from answerkey.metrics_core.llm.client import Client
from answerkey.metrics_core.llm.cost import Bill
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.reply import read_object, reason_of
from answerkey.metrics_core.llm.request import Request
from answerkey.metrics_core.llm.response import every
from answerkey.metrics_core.measurement import Failed, Outcome, Scored, Undefined
from answerkey.metrics_core.metric import BLANK_ANSWER, NO_QUESTION, Field
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

    def known_answers(self, samples: Iterable[Sample]) -> tuple[KnownAnswer, ...]:
        """Pairs in which one answer is known to be better; one that the order decides gives no verdict."""
        return tuple(shipped("preference"))

    def alone(self) -> list[tuple[ModelRef, Self]]:
        """Each judge and fallback, and the metric that asks it alone about the pairs."""
        baseline_answers = {
            question.sample.sample_id: baseline_answer for question, baseline_answer in shipped("preference").items()
        }
        return [(model, replace(metric, baseline_answers=baseline_answers)) for model, metric in super().alone()]

    def without_judge(self, sample: Sample) -> Outcome | None:
        """The outcome if one of the two answers is blank, or both are the same; None if a judge must choose."""
        if is_blank(sample.question):
            return NO_QUESTION
        if sample.sample_id not in self.baseline_answers:
            return NO_BASELINE
        answer = sample.answer or ""
        baseline = self.baseline_answers[sample.sample_id]
        # No judge is needed where an answer is blank, or both are the same
        if is_blank(answer) and self.blank_answer == "undefined":
            return Undefined(BLANK_ANSWER)
        if normalise(answer) == normalise(baseline):
            return self._scored(_TIE, "both answers are the same")
        if is_blank(answer):
            return self._scored(0.0, BLANK_ANSWER)
        return self._scored(1.0, "the baseline's answer is blank") if is_blank(baseline) else None

    def _scored(self, preferred: float, reason: str) -> Scored:
        values = {field.name: 0.0 for field in self.fields if field.name == SPREAD}
        return Scored({"preferred": preferred, **values}, reason)

    async def vote(self, client: Client, sample: Sample, judge: ModelRef, repeat: int, bill: Bill) -> Outcome:
        """Make two calls: with the baseline's answer first, and with this one first."""
        questions = self.requests(sample, judge, repeat)
        replies = await every(*(client.ask(judge, question, read_choice, bill) for question in questions))
        # The baseline's answer was shown first, then second
        (choice, reason_of_choice), (choice_swapped, reason_swapped) = replies
        preferred = 1.0 - _SCORES_OF_FIRST[choice]
        if preferred != _SCORES_OF_FIRST[choice_swapped]:
            both_times = {("first", "first"): SHOWN_FIRST, ("second", "second"): SHOWN_SECOND}
            cause = both_times.get((choice, choice_swapped), "a tie in one order only")
            return Failed(ORDER_DECIDED, cause, len(replies))
        reason = "; ".join(dict.fromkeys((reason_of_choice, reason_swapped)))
        return Scored({"preferred": preferred}, reason, {"verdict": _VERDICTS[preferred]})

    def requests(self, sample: Sample, judge: ModelRef, repeat: int) -> list[Request]:
        """The two questions, which differ in the order of the answers."""
        baseline_answer = self.baseline_answers[sample.sample_id]
        references = [text for _, text in sample.usable_references]
        common_fields = {"question": sample.question, "references": references}
        pair = baseline_answer, sample.answer
        requests = []
        for shown_first, shown_second in (pair, pair[::-1]):
            fields: dict[str, object] = {**common_fields, "first": shown_first, "second": shown_second}
            requests.append(request(PROMPT, fields, judge, repeat, options=self.judge))
        return requests


_SCORES_OF_FIRST: Mapping[Choice, float] = {"first": 1.0, "second": 0.0, "tie": _TIE}
"""The score of a choice for the answer shown first."""
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
