"""What the rules and features are about: one answer against one reference, and what a rule may find."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from answerkey.metrics_core.metrics.meaning_match import Verdict
from answerkey.metrics_core.offline_judge.reading import Text, read, sentences
from answerkey.metrics_core.offline_judge.stance import SHELL_WORDS, hedges, shelled
from answerkey.metrics_core.offline_judge.vocabulary import ALTERNATIVE_WORDS

RuleId = Literal[
    "same_text", "same_answer", "same_polarity", "same_number", "same_date", "alias", "acronym", "part_of_name",
    "refusal", "hedged", "alternatives", "negated", "opposite", "other_list",
    "other_number", "other_date",
]  # fmt: skip
"""The rules, those for a match first."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule decided, and why in plain words."""

    rule: RuleId
    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True)
class Case:
    """One answer against one reference.

    `head` is the answer's first sentence without its shell, `residue` what is left of it without what the question
    says, `accepted` the stems of all references.
    """

    question: Text
    answer: Text
    reference: Text
    head: Text
    residue: tuple[str, ...]
    accepted: frozenset[str] = frozenset()

    @staticmethod
    def of(question: Text, answer: Text, reference: Text, accepted: frozenset[str] = frozenset()) -> Case:
        """Read the head of the answer, and what is left of it without what the question says."""
        head = read(shelled(sentences(answer.raw)[0]))
        return Case(question, answer, reference, head, _residue(head, question, reference), accepted)


def _residue(head: Text, question: Text, reference: Text) -> tuple[str, ...]:
    """Content stems of the head that the question does not give, shell words dropped."""
    given = frozenset(question.stems) - frozenset(reference.stems)
    left = [s for s in (head.stems[i] for i in head.content) if s not in given and s not in SHELL_WORDS]
    return tuple(left)


def clear(case: Case) -> bool:
    """The head denies nothing that the reference does not deny, offers no choice, and the answer has no doubts."""
    choice = bool(ALTERNATIVE_WORDS & {*case.head.tokens} - {*case.reference.tokens, *case.question.tokens})
    return case.head.negated == case.reference.negated and not choice and not hedges(case.answer.normal)
