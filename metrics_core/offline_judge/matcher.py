"""Meaning match without a model behind an API: rules first, then a small model trained on people's verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from answerkey.metrics_core.metrics.meaning_match import Verdict
from answerkey.metrics_core.offline_judge.case import Finding
from answerkey.metrics_core.offline_judge.depth import out_of_depth
from answerkey.metrics_core.offline_judge.explaining import explained
from answerkey.metrics_core.offline_judge.features import Seen, look, matrix
from answerkey.metrics_core.offline_judge.model import Model, load
from answerkey.metrics_core.offline_judge.reading import read
from answerkey.metrics_core.offline_judge.rules import AGAINST_ANSWER, RULES_VERSION

HALF = 0.5
"""From this probability on, the model says match."""


@dataclass(frozen=True, slots=True)
class Pair:
    """What is compared: an answer with the references to its question, none of them blank."""

    question: str
    answer: str
    references: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Match:
    """A verdict.

    Attributes:
        match: whether `verdict` is "match".
        probability: that people would say it matches, 0..1, calibrated on questions that the model had not seen.
        verdict: from the closed list of `meaning_match`.
        rule: the id of the rule that decided (`rules.RuleId`), or "model".
        reason: in plain words.
        reference: index of the reference that matched, or came nearest.
        out_of_depth: why the verdict should not be trusted here, or "".
    """

    match: bool
    probability: float
    verdict: Verdict
    rule: str
    reason: str
    reference: int
    out_of_depth: str = ""


def match(pairs: Sequence[Pair], *, cache_dir: str | None = None) -> list[Match]:
    """A verdict for each of `pairs`: same length, same order, the same on every call.

    Args:
        cache_dir: a folder for embeddings of earlier calls; it changes no verdict.

    Raises:
        EncoderError: the embedding model is not there.
    """
    if not pairs:
        return []
    model = load()
    seen = look(pairs, cache_dir)
    probabilities = iter(model.probabilities(matrix(seen, model.features)).tolist())
    return [
        _verdict(pair, one, [next(probabilities) for _ in one.values], model)
        for pair, one in zip(pairs, seen, strict=True)
    ]


def signature() -> str:
    """For instance `offline@1:3fa2c1`: changes whenever a verdict may change."""
    return f"offline@{RULES_VERSION}:{load().revision}"


def undecided(found: Match, accepted_error: float) -> bool:
    """Whether both verdicts are still open, where `accepted_error` (0..1) of all verdicts may be wrong.

    Split conformal prediction (Vovk et al. 2005): the model file has, for each error, the border that the probability
    of the right verdict stayed above in all but that share of the answers to questions the model had not seen. What is
    out of its depth is always undecided, unless a rule decided.
    """
    if found.out_of_depth and found.rule == "model":
        return True
    return max(found.probability, 1 - found.probability) <= load().border(accepted_error)


def _verdict(pair: Pair, seen: Seen, probabilities: Sequence[float], model: Model) -> Match:
    unknown = out_of_depth(read(pair.question), read(pair.answer), map(read, pair.references), model.limits)
    at, finding = ruling(seen.findings, probabilities)
    if finding is not None:
        probability = model.ruled(finding, max(probabilities))
        return Match(
            finding.verdict == "match", probability, finding.verdict, finding.rule, finding.reason, at, unknown
        )
    matched = probabilities[at] >= HALF
    verdict, reason = explained(seen.values[at], matched=matched)
    return Match(matched, probabilities[at], verdict, "model", reason, at, unknown)


def ruling(findings: Sequence[Finding | None], probabilities: Sequence[float]) -> tuple[int, Finding | None]:
    """The reference that decides and the rule's finding, or None where the model decides.

    A match comes before anything else, then what speaks against the answer as a whole. What speaks against one
    reference alone (another date than this one) decides only where no other one is likelier than not to match.

    Args:
        findings: of the rules, by reference; `probabilities`: of the model, in step with them.
    """
    ranked = sorted(range(len(findings)), key=lambda i: (-probabilities[i], i))
    for wanted in (_matches, _against_answer):
        for i in ranked:
            if wanted(findings[i]):
                return i, findings[i]
    rest = [i for i in ranked if findings[i] is None]
    if rest and (probabilities[rest[0]] >= HALF or len(rest) == len(ranked)):
        return rest[0], None
    at = next(i for i in ranked if findings[i] is not None)
    return at, findings[at]


def _matches(finding: Finding | None) -> bool:
    return finding is not None and finding.verdict == "match"


def _against_answer(finding: Finding | None) -> bool:
    return finding is not None and finding.rule in AGAINST_ANSWER


def about() -> str:
    """What the matcher is and how far it agrees with people, in one line for reports."""
    trained = load().trained_on
    return f"offline matcher v{RULES_VERSION}, kappa {trained['kappa']:.2f} with people on {trained['judged_on']}"
