"""Ground truth similarity without a language model: facts, matched by rules and the offline judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from answerkey.metrics_core.judges.facts import Matches, merged, outcome_of
from answerkey.metrics_core.judges.votes import OUT_OF_DEPTH
from answerkey.metrics_core.measurement import Outcome, Scored
from answerkey.metrics_core.offline_judge import matcher
from answerkey.metrics_core.offline_judge.claims import Asked, Claim, claims_of, refined, says_yes_or_no
from answerkey.metrics_core.offline_judge.depth import out_of_depth
from answerkey.metrics_core.offline_judge.facts import Fact, facts_of
from answerkey.metrics_core.offline_judge.links import Links
from answerkey.metrics_core.offline_judge.model import load
from answerkey.metrics_core.offline_judge.reading import read
from answerkey.metrics_core.offline_judge.stance import is_refusal
from answerkey.metrics_core.sample import Sample
from answerkey.metrics_core.text import normalise


def judge(samples: Sequence[Sample]) -> list[Outcome]:
    """The outcome of `ground_truth_similarity` for samples that have an answer and a reference; same length and order.

    Texts are split into facts (see `facts`); two facts match if each follows from the other, given the question. The
    matching is one-to-one. Facts of the sample replace the references. All open pairs of all samples go to the matcher
    together.

    >>> sample = Sample("1", "Amy likes apples.", ["Amy likes apples and pears."], "What does Amy like?")
    >>> judge([sample])[0].values["similarity"]
    0.5
    """
    cases = [_Case.of(sample) for sample in samples]
    pairs = [pair for case in cases for links in case.links for pair in links.pairs()]
    matches = iter(matcher.match(pairs))
    for links in (links for case in cases for links in case.links):
        links.settle(matches)
    return [case.outcome() for case in cases]


@dataclass(frozen=True, slots=True)
class _Case:
    """The facts of the answer of a sample, and their links with those of each reference."""

    answer: tuple[Claim, ...]
    abstained: bool
    indices: tuple[int | None, ...]
    links: tuple[Links, ...]
    depth: str

    @classmethod
    def of(cls, sample: Sample) -> _Case:
        texts = sample.usable_references
        facts = merged(sample.facts)
        is_closed = any(says_yes_or_no(text) for _, text in texts)
        question = Asked.of(sample.question, closed=is_closed)
        answer = sample.answer or ""
        references = (
            [tuple(Claim.of(Fact(fact), question) for fact in facts)]
            if facts
            else [_claims(text, sample.question, closed=is_closed) for _, text in texts]
        )
        indices = (None,) if facts else tuple(index for index, _ in texts)
        whole_claims = claims_of(facts_of(answer, sample.question), question)
        answer_claims = refined(
            whole_claims, (claim for reference_claims in references for claim in reference_claims), question
        )
        links = tuple(Links.of(question, reference_claims, answer_claims) for reference_claims in references)
        reference_texts = facts or tuple(text for _, text in texts)
        depth = out_of_depth(read(sample.question or ""), read(answer), map(read, reference_texts), load().limits)
        return cls(answer_claims, not answer_claims and is_refusal(normalise(answer)), indices, links, depth)

    def outcome(self) -> Outcome:
        """The outcome, with the counts, the matching and the status of each fact."""
        comparisons = tuple(links.comparison(index) for index, links in enumerate(self.links))
        facts = [[claim.fact.text for claim in links.expected] for links in self.links]
        answer = tuple(claim.fact.text for claim in self.answer)
        outcome = outcome_of(Matches(answer, self.abstained, comparisons), facts, self.indices)
        if not self.depth or not isinstance(outcome, Scored):
            return outcome
        return replace(outcome, details={**outcome.details, OUT_OF_DEPTH: self.depth})


# References are the same in every release.
@lru_cache(maxsize=16_384)
def _claims(text: str, question: str | None, *, closed: bool) -> tuple[Claim, ...]:
    return claims_of(facts_of(text, question), Asked.of(question, closed=closed))
