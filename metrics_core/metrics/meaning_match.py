"""Meaning match: does the answer say the same essential thing as one of the references?

The judge picks a verdict and the rule that decided it from closed lists; the code decides whether that is a match.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from answerkey.metrics_core.judges.judge_metric import JudgeMetric, request
from answerkey.metrics_core.judges.known_answer import KnownAnswer, generated, shipped
from answerkey.metrics_core.judges.prompt import Prompt, closed, extended, load_prompt, one_of
from answerkey.metrics_core.judges.votes import OUT_OF_DEPTH, SPREAD, MatchVerdict
from answerkey.metrics_core.llm.client import Client
from answerkey.metrics_core.llm.cost import Bill
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.reply import Unreadable, number_of, read_object, read_score, reason_of
from answerkey.metrics_core.llm.request import Request
from answerkey.metrics_core.measurement import Measurement, Outcome, Scored
from answerkey.metrics_core.metric import Field
from answerkey.metrics_core.sample import UNANSWERABLE, Sample

if TYPE_CHECKING:
    from answerkey.metrics_core.offline_judge.matcher import Match

Guideline = Literal[
    "factual_equivalence", "alias", "formatting", "extra_context", "hedging", "number_form", "alternatives"
]  # fmt: skip
"""The seven guidelines of the document, in its order."""

_CORE = frozenset(("factual_equivalence", "alias", "formatting", "extra_context", "number_form"))
_RULES: Mapping[str, frozenset[str]] = {
    "match": _CORE,
    "mismatch": _CORE,
    "partial": frozenset(("factual_equivalence", "hedging")),
    "hedged": frozenset(("hedging",)),
    "multiple_alternatives": frozenset(("alternatives",)),
    "refusal": frozenset(("factual_equivalence", "hedging")),
}


PROMPT = load_prompt(
    "meaning_match",
    closed(
        reason={"type": "string"},
        reference={"type": ["integer", "null"]},
        rule={"type": "string", "enum": list(get_args(Guideline))},
        verdict={"type": "string", "enum": list(get_args(MatchVerdict))},
    ),
)
PROMPT_WITH_WRONG = extended(PROMPT, "incorrect_references")
"""The prompt for samples with answers known to be wrong. The signature names `PROMPT` only, since all samples share it:
change `PROMPT` whenever this prompt changes."""

_SCORES: Mapping[str, float] = {verdict: float(verdict == "match") for verdict in get_args(MatchVerdict)}


@dataclass(frozen=True)
class MeaningMatch(JudgeMetric):
    """Whether the answer says the same essential thing as any of the references: `match` is 0 or 1, with a reason.

    Where the sample has answers known to be wrong (`incorrect_references`), an answer that says what one of them says
    is a mismatch; the offline judge names it in `details` as `incorrect_reference`, an index.

    `details` hold the `verdict`, the `rule` that decided and the index of the `reference` that matched. One call per
    sample and vote; none for blank answers, missing references, and answers that equal a reference but for form.

    To a question with the reference `sample.UNANSWERABLE`, an answer that declines is right, and no judge is asked.

    The offline judge adds the calibrated `probability` that people would call it a match, and `out_of_depth` where it
    should not be trusted; its `rule` is "model" if no rule decided. In a cascade (`judge.cascade`) the offline judge
    decides first where it is sure enough, once a trial has shown that the judges agree with it (see `judges.cascade`);
    `decided_by` says which of them decided.

    >>> [measured] = MeaningMatch().measure([Sample("1", "paris.", ["Paris"], "What is the capital of France?")])
    >>> measured.values, measured.details["rule"]
    ({'match': 1.0}, 'same_text')
    """

    name = "meaning_match"
    summary = "a judge: does the answer say the same essential thing?"
    prompts: ClassVar[tuple[Prompt, ...]] = (PROMPT,)
    main: ClassVar[Field] = Field("match", "1 where the answer means what a reference means", binary=True)
    identical: ClassVar[Mapping[str, str]] = {"verdict": "match", "rule": "formatting"}
    cascades: ClassVar[bool] = True
    tokens_out: ClassVar[int] = 80

    def cheap(self, samples: Sequence[Sample]) -> list[Measurement | None]:
        """The verdicts of the offline judge that it gives a smaller probability of being wrong than is accepted."""
        from answerkey.metrics_core.offline_judge import matcher

        verdicts: list[Measurement | None] = [None] * len(samples)
        signature = self.signature
        pending = [index for index, sample in enumerate(samples) if self.without_judge(sample) is None]
        matches = self._match([samples[index] for index in pending])
        for index, match in zip(pending, matches, strict=True):
            if not matcher.undecided(match, self.accepted_error):
                scored = _scored(match, samples[index])
                spread = {SPREAD: 0.0} if len(self.fields) > 1 else {}
                outcome = replace(scored, values={**scored.values, **spread})
                verdicts[index] = Measurement(samples[index].sample_id, self.name, signature, outcome)
        return verdicts

    def without_judge(self, sample: Sample) -> Outcome | None:
        """The outcome if no judge is needed, as where the right answer is to decline, and this one does; else None."""
        outcome = super().without_judge(sample)
        if outcome is not None or UNANSWERABLE not in sample.references:
            return outcome
        from answerkey.metrics_core.offline_judge.rules import only_declines

        if not only_declines(sample.question or "", sample.answer or ""):
            return None
        values = {field.name: float(field.name != SPREAD) for field in self.fields}
        details = {"verdict": "match", "rule": "unanswerable", "reference": sample.references.index(UNANSWERABLE)}
        return Scored(values, "the question cannot be answered, and the answer declines", details)

    def doubt_of_repeated(self, sample: Sample, index: int) -> str:
        """A sentence without a question that tells which of its words counts."""
        from answerkey.metrics_core.offline_judge.depth import doubt_of_repeated

        return doubt_of_repeated(sample.question or "", sample.references[index])

    def known_answers(self, samples: Iterable[Sample]) -> tuple[KnownAnswer, ...]:
        """Six that come with it, and answers to the questions of the run that are known to be right or wrong."""
        return (*shipped("meaning_match"), *generated(samples))

    def offline_signature(self) -> str:
        """The signature of the offline matcher."""
        from answerkey.metrics_core.offline_judge import matcher

        return matcher.signature()

    def judge_offline(self, samples: Sequence[Sample]) -> list[Outcome]:
        """Decide with the offline matcher, without any call."""
        return [_scored(match, sample) for match, sample in zip(self._match(samples), samples, strict=True)]

    def _match(self, samples: Sequence[Sample]) -> list[Match]:
        from answerkey.metrics_core.offline_judge import matcher

        pairs = []
        for sample in samples:
            pair = matcher.Pair(
                question=sample.question or "",
                answer=sample.answer or "",
                references=tuple(text for _, text in sample.usable_references),
                wrong=tuple(text for _, text in sample.usable_incorrect_references),
            )
            pairs.append(pair)
        return matcher.match(pairs)

    async def vote(self, client: Client, sample: Sample, judge: ModelRef, repeat: int, bill: Bill) -> Outcome:
        """Make one call about all references at once."""
        usable = sample.usable_references
        [question] = self.requests(sample, judge, repeat)
        judgement = await client.ask(judge, question, lambda reply: read_verdict(reply, len(usable)), bill)
        index = None if judgement.reference is None else usable[judgement.reference][0]
        details = {"verdict": judgement.verdict, "rule": judgement.rule, "reference": index}
        return Scored({"match": _SCORES[judgement.verdict]}, judgement.reason, details)

    def requests(self, sample: Sample, judge: ModelRef, repeat: int) -> list[Request]:
        """The question about all references at once; only a sample with known wrong answers has a longer prompt."""
        prompt = PROMPT
        references = [{"number": n, "text": text} for n, (_, text) in enumerate(sample.usable_references, start=1)]
        fields: dict[str, object] = {"question": sample.question, "references": references, "answer": sample.answer}
        incorrect = [text for _, text in sample.usable_incorrect_references]
        if incorrect:
            prompt = PROMPT_WITH_WRONG
            fields["incorrect_references"] = incorrect
        return [request(prompt, fields, judge, repeat, options=self.judge)]


def _scored(match: Match, sample: Sample) -> Scored:
    details: dict[str, object] = {
        "verdict": match.verdict,
        "rule": match.rule,
        "probability": round(match.probability, 4),
        "reference": sample.usable_references[match.reference][0] if match.match else None,
    }
    if match.wrong is not None:
        details["incorrect_reference"] = sample.usable_incorrect_references[match.wrong][0]
    if match.out_of_depth:
        details[OUT_OF_DEPTH] = match.out_of_depth
    return Scored({"match": float(match.match)}, match.reason, details)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict; `reference` is the index of the matching one among the references that were sent."""

    verdict: MatchVerdict
    rule: Guideline | None
    reason: str
    reference: int | None


def read_verdict(reply: str, n_references: int) -> Judgement:
    """Read a reply to `PROMPT`.

    A judge may also leave the rule out, or answer with a bare yes or no under `score`, in any spelling that
    `read_score` knows.

    Raises:
        Unreadable: what `read_object` and `read_score` raise; "inconsistent" for a verdict that contradicts its
            rule, or its own score, and for a reference that was not sent.
    """
    reply_object = read_object(reply)
    if "verdict" not in reply_object:
        # A bare yes or no
        score, reason = read_score(reply_object, "Meaning Match")
        if score not in (0.0, 1.0):
            raise Unreadable("unreadable", "the score must be true or false")
        only_index = 0 if score and n_references == 1 else None
        return Judgement("match" if score else "mismatch", None, reason, only_index)

    # The verdict, the rule and the score have to agree
    verdict = one_of(reply_object, "verdict", get_args(MatchVerdict))
    rule = one_of(reply_object, "rule", get_args(Guideline)) if reply_object.get("rule") else None
    if rule and rule not in _RULES[verdict]:
        raise Unreadable("inconsistent", f"the verdict {verdict} does not fit the rule {rule}")
    for name in ("score", "match"):
        if name in reply_object and number_of(reply_object[name]) != _SCORES[verdict]:
            raise Unreadable("inconsistent", f"{name} and the verdict {verdict} say different things")
    reference = _reference(reply_object.get("reference"), n_references) if verdict == "match" else None
    return Judgement(verdict, rule, reason_of(reply_object), reference)  # type: ignore[arg-type]


def _reference(value: object, n_references: int) -> int:
    if value is None and n_references == 1:
        return 0
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    text = value.strip() if isinstance(value, str) else ""
    number = int(text) if text.isascii() and text.isdecimal() else value
    # A bool is an int in Python, but not the number of a reference.
    if isinstance(number, int | float) and not isinstance(number, bool) and number in range(1, n_references + 1):
        return int(number) - 1
    raise Unreadable("inconsistent", f"reference must be the number of the reference that matched, 1 to {n_references}")
