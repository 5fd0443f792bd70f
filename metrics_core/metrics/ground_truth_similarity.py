"""Ground truth similarity: how many facts answer and reference share, over the larger number of facts.

A judge takes the texts apart and says which facts agree; matching, bookkeeping and arithmetic are the code's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from answerkey.metrics_core.judges.facts import (
    DECOMPOSE,
    MATCH,
    match_fields,
    merged,
    outcome_of,
    read_facts,
    read_matches,
)  # fmt: skip
from answerkey.metrics_core.judges.judge_metric import JudgeMetric, request
from answerkey.metrics_core.judges.known_answer import KnownAnswer, generated, shipped
from answerkey.metrics_core.judges.prompt import Prompt
from answerkey.metrics_core.llm.client import Client
from answerkey.metrics_core.llm.cost import Bill, ExpectedCall, Replies
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.reply import Unreadable
from answerkey.metrics_core.llm.request import Request
from answerkey.metrics_core.llm.response import every
from answerkey.metrics_core.measurement import Outcome
from answerkey.metrics_core.metric import Field, degenerate
from answerkey.metrics_core.sample import Sample
from answerkey.metrics_core.text import words

_ALL_MATCH = (0.5, 1.0)
_NONE_MATCHES = (0.0, 0.3)
"""Where the similarity of a known answer must lie: a judge may take an answer for two facts."""
_MAX_FACT_WORDS = 5
"""Of a reference that is a single fact."""
_FACTS_OUT = 60
_MATCH_OUT = 160
"""Tokens of typical replies, for estimates."""


@dataclass(frozen=True)
class GroundTruthSimilarity(JudgeMetric):
    """Matched facts over the larger number of facts, with precision, recall and F1, from the best reference.

    Two calls: one takes a reference apart, once for all answers to it and always by the first judge, so that every
    release and every judge is measured against the same facts; one takes the answer apart and matches it, with all
    references at once. Facts that the sample brings stand for the references, and save the first call.

    `details`: `reference` (index of the best one; None: the sample's own facts), the counts, `abstained`,
    `similarities` by reference, and `facts`, one row per fact (see `judges.facts.rows`). There is no cascade: whatever
    `judge.cascade` says, the judges are asked about everything.

    >>> [measured] = GroundTruthSimilarity().measure([Sample("1", "", ["Paris"], "What is the capital of France?")])
    >>> measured.values["similarity"], measured.reason
    (0.0, 'blank answer')
    """

    name = "ground_truth_similarity"
    summary = "a judge: matched facts over the larger number of facts"
    prompts: ClassVar[tuple[Prompt, ...]] = (DECOMPOSE, MATCH)
    main: ClassVar[Field] = Field("similarity", "matched facts over the larger number of facts in answer and reference")
    others: ClassVar[tuple[Field, ...]] = (
        Field("fact_precision", "matched facts over the facts of the answer"),
        Field("fact_recall", "matched facts over the facts of the reference"),
        Field("fact_f1", "harmonic mean of the two"),
    )

    def known_answers(self, samples: Iterable[Sample]) -> tuple[KnownAnswer, ...]:
        """Six that come with it, and those of `meaning_match` whose reference is so short that it is one fact.

        Of these, all match or none. As facts of the sample, they cost one call each.
        """
        one_fact = []
        for sample in samples:
            first_references = [text for _, text in sample.usable_references[:1]]
            if all(len(words(text)) <= _MAX_FACT_WORDS for text in first_references):
                one_fact.append(sample)
        questions = list(shipped("ground_truth_similarity"))
        for question in generated(one_fact):
            sample = replace(question.sample, facts=question.sample.references[:1])
            lowest, highest = _ALL_MATCH if question.least else _NONE_MATCHES
            questions.append(replace(question, sample=sample, least=lowest, most=highest))
        return tuple(questions)

    def offline_signature(self) -> str:
        """The signatures of the offline matcher and of the way texts are split into facts."""
        from answerkey.metrics_core.offline_judge import matcher
        from answerkey.metrics_core.offline_judge.facts import GRAMMAR

        return f"{matcher.signature()}|grammar:{GRAMMAR}"

    def judge_offline(self, samples: Sequence[Sample]) -> list[Outcome]:
        """Split texts into sentences, clauses and items, and match these by rules and the offline matcher."""
        from answerkey.metrics_core.offline_judge import similarity

        return similarity.judge(samples)

    def without_judge(self, sample: Sample) -> Outcome | None:
        """The outcome if no judge is needed; facts can stand in for references."""
        if sample.facts and not sample.usable_references:
            return degenerate(replace(sample, references=sample.facts), self.fields, self.blank_answer)
        return super().without_judge(sample)

    def doubt_of_repeated(self, sample: Sample, index: int) -> str:
        """A sentence without a question that tells which of its words counts."""
        from answerkey.metrics_core.offline_judge.depth import doubt_of_repeated

        return doubt_of_repeated(sample.question or "", sample.references[index])

    async def vote(self, client: Client, sample: Sample, judge: ModelRef, repeat: int, bill: Bill) -> Outcome:
        """Decompose the references that are not yet in the ledger, then match."""
        sample_facts = merged(sample.facts)
        references: list[tuple[str, ...]] = [sample_facts]
        indices: list[int | None] = [None]
        # Facts that come with the sample save the first call
        if not sample_facts:
            indices = [index for index, _ in sample.usable_references]
            decompositions = self._decompositions(sample, judge)
            references = await every(*(client.ask(model, call, read_facts, bill) for model, call in decompositions))
        fields = match_fields(sample.question, references, sample.answer or "")
        matching = request(MATCH, fields, judge, repeat, options=self.judge)
        matches = await client.ask(judge, matching, lambda reply: read_matches(reply, references), bill)
        return outcome_of(matches, references, indices)

    def _decompositions(self, sample: Sample, judge: ModelRef) -> list[tuple[ModelRef, Request]]:
        """The requests that split references into facts: by the first judge, or by a fallback."""
        judges = self.judge.models(self.access.api_key)
        decomposer = judges[0] if judge in judges else judge
        requests = []
        for _, text in sample.usable_references:
            fields: dict[str, object] = {"question": sample.question, "reference": text}
            requests.append((decomposer, request(DECOMPOSE, fields, decomposer, 0, options=self.judge)))
        return requests

    def expected_calls(self, sample: Sample, judge: ModelRef, repeat: int, replies: Replies) -> list[ExpectedCall]:
        """The missing decompositions, and the matching, in which a reference without known facts counts as one fact."""
        sample_facts = merged(sample.facts)
        references: list[Sequence[str]] = [sample_facts]
        calls = []
        is_exact = True
        if not sample_facts:
            # A reference that is not yet taken apart counts as one fact
            references = [(text,) for _, text in sample.usable_references]
            for position, (decomposer, decomposition) in enumerate(self._decompositions(sample, judge)):
                calls.append(ExpectedCall(decomposer, decomposition, _FACTS_OUT))
                try:
                    references[position] = read_facts(replies(decomposition.key) or "")
                except Unreadable:
                    is_exact = False
        fields = match_fields(sample.question, references, sample.answer or "")
        matching = request(MATCH, fields, judge, repeat, options=self.judge)
        return [*calls, ExpectedCall(judge, matching, _MATCH_OUT, is_exact)]
