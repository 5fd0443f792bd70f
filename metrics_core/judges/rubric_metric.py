"""The metric that a rubric is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import ClassVar

from answerkey.metrics_core.judges.judge_metric import request
from answerkey.metrics_core.judges.model_metric import ModelMetric
from answerkey.metrics_core.judges.probes import Probe
from answerkey.metrics_core.judges.rubric import Rubric
from answerkey.metrics_core.llm.client import Asker
from answerkey.metrics_core.llm.cost import ExpectedCall, Replies
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.request import Request
from answerkey.metrics_core.llm.spending import Bill
from answerkey.metrics_core.llm.untrusted import cut, one_line
from answerkey.metrics_core.measurement import Outcome, Scored
from answerkey.metrics_core.metric import Field, Metric
from answerkey.metrics_core.sample import Sample

_TOKENS_OUT = 60
"""Of a usual reply, for estimates."""
_LONGEST_DESCRIPTION = 100
_SPELLED = {"true": "yes", "false": "no"}


@dataclass(frozen=True)
class RubricMetric(ModelMetric):
    """What language models say by a rubric: one number, the value of the verdict on its scale. One call per vote.

    `details` hold the `verdict`, a label of the scale. `metric_of` makes the class of a rubric.
    """

    rubric: ClassVar[Rubric]

    @property
    def target(self) -> str:
        """The path of the rubric, or the name of one of this package."""
        return self.rubric.source

    @property
    def signature(self) -> str:
        """As for every judge metric, with the scale: its labels are sent, and their values are not."""
        before, blank, policy = super().signature.rpartition("|blank:")
        return f"{before}|scale:{self.rubric.scale_text}{blank}{policy}"

    @property
    def probes(self) -> tuple[Probe, ...]:
        """The examples. Each is left out of the prompt where it is asked about."""
        values = dict(self.rubric.scale)
        low, high = min(values.values()), max(values.values())
        # On a fine scale, people differ by a level too.
        room = 0.0 if len(values) < 4 else (high - low) / (len(values) - 1)
        return tuple(
            Probe(
                one.sample.sample_id,
                one.sample,
                max(low, values[one.verdict] - room),
                min(high, values[one.verdict] + room),
            )
            for one in self.rubric.examples
        )

    @property
    def labels(self) -> Mapping[str, float]:
        """The scale. Some models say true for yes."""
        values = dict(self.rubric.scale)
        return {**values, **{word: values[label] for word, label in _SPELLED.items() if label in values}}

    def without_judge(self, sample: Sample) -> Outcome | None:
        """The outcome of a sample that lacks what the rubric is about."""
        return self.without_score(sample)

    async def vote(self, client: Asker, sample: Sample, judge: ModelRef, repeat: int, bill: Bill) -> Outcome:
        """One call."""
        asked = self._request(sample, judge, repeat)
        label, value, reason = await client.ask(judge, asked, self.rubric.read, bill)
        return await self.weigh(client, asked, Scored({self.main.name: value}, reason, {"verdict": label}))

    def expected_calls(self, sample: Sample, judge: ModelRef, repeat: int, replies: Replies) -> list[ExpectedCall]:
        """The one call."""
        return [ExpectedCall(judge, self._request(sample, judge, repeat), _TOKENS_OUT)]

    def _request(self, sample: Sample, judge: ModelRef, repeat: int) -> Request:
        prompt, shown = self.rubric.prompt(sample), self.rubric.shown(sample)
        return request(prompt, shown, judge, repeat, self.judge, weighed=self.weighed)

    def __reduce__(self) -> tuple[Callable[..., Metric], tuple[object, ...]]:
        # With the rubric itself: where it is scored, the file need not be.
        return _again, (self.rubric, {one.name: getattr(self, one.name) for one in fields(self)})


@cache
def metric_of(rubric: Rubric) -> type[RubricMetric]:
    """The class of the metric that a rubric is: the same class for the same rubric.

    >>> from answerkey.metrics_core.judges.rubric import read_rubric
    >>> metric_of(read_rubric("politeness"))().fields[0].name
    'polite'
    """
    first = next(iter(one_line(rubric.criterion).split(". ")))
    described = rubric.summary or cut(first, _LONGEST_DESCRIPTION)
    return type(
        f"Rubric_{rubric.name}",
        (RubricMetric,),
        {
            "__doc__": described,
            "__module__": __name__,
            "rubric": rubric,
            "name": rubric.name,
            "version": rubric.version,
            "summary": f"a judge: {described}",
            "needs": frozenset(rubric.inputs),
            "prompts": (rubric.prompt(),),
            "main": Field(rubric.field, described, binary=rubric.binary),
        },
    )


def _again(rubric: Rubric, given: dict[str, object]) -> Metric:
    made: Metric = metric_of(rubric)(**given)  # type: ignore[arg-type]
    return made
