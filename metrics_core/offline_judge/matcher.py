"""Meaning match without a language model: rules first, then a small model trained on human verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import regex

from answerkey.metrics_core.metrics.meaning_match import Verdict
from answerkey.metrics_core.offline_judge.features import Seen, look, matrix
from answerkey.metrics_core.offline_judge.model import Model, load
from answerkey.metrics_core.offline_judge.reading import Text, read
from answerkey.metrics_core.offline_judge.rules import AGAINST_ANSWER, RULES_VERSION, Ruling
from answerkey.metrics_core.offline_judge.vocabulary import word_set

_LETTER = regex.compile(r"\p{L}")
_LATIN = regex.compile(r"\p{Latin}")
_ENOUGH_LETTERS = 4
_FOREIGN_SHARE = 0.3
_ENOUGH_WORDS = 8

_ENGLISH = word_set(
    "a an the of in on at to for from by with as is are was were be been it its this that and or not he "
    "she they who whom whose what when where why how which has have had do does did will would can could "
    "many much name list"
)
"""Seen in nearly every English sentence of five words."""


_OTHER = word_set(
    "der das und ist ein eine einen von mit fur wer wie wo wann warum welche les des est et une dans qui que quel ou "
    "quand combien cette ce sont pas nicht auf viele el "
    "las una por donde cuando quien cual cuantos como il della che dove quando het een waar wie jest gdzie kiedy "
    "bir nerede kim nao onde voce"
)
"""Of the grammar of other languages in Latin letters; none is an English word or a usual part of names."""


def out_of_depth(question: Text, answer: Text, references: Iterable[Text], limits: Mapping[str, int]) -> str:
    """Why the verdict should not be trusted here, or "".

    Args:
        limits: the longest answer and reference, in words, that training had enough of.
    """
    references = list(references)
    if _foreign(answer) or any(map(_foreign, references)):
        return "written in letters that it was not trained on"
    if _not_english(question, answer):
        return "in a language that it was not trained on"
    if len(answer.tokens) > limits["answer"]:
        return f"the answer is longer than the {limits['answer']} words that it was trained on"
    if all(len(reference.tokens) > limits["reference"] for reference in references):
        return f"the reference is longer than the {limits['reference']} words that it was trained on"
    return ""


def _foreign(text: Text) -> bool:
    letters = _LETTER.findall(text.raw)
    if not letters:
        return False
    foreign = sum(not _LATIN.match(letter) for letter in letters)
    return foreign >= min(len(letters), _ENOUGH_LETTERS) and foreign > _FOREIGN_SHARE * len(letters)


def _not_english(question: Text, answer: Text) -> bool:
    """More words of another language's grammar than of the English one; or none of either in many words."""
    found = frozenset(question.tokens) | frozenset(answer.tokens)
    english, other = len(found & _ENGLISH), len(found & _OTHER)
    unknown = not english and len(found) >= _ENOUGH_WORDS and not question.names and not answer.names
    return other > english or unknown


def explained(row: Mapping[str, float], *, matched: bool) -> tuple[Verdict, str]:
    """The verdict from the closed list, and the features that speak for it most plainly."""
    reasons = [text for holds, text in (_for(row) if matched else _against(row)) if holds][:2]
    reason = "; ".join(reasons)
    if matched:
        return "match", reason
    if row["refusal"] and row["recall"] < 1:
        return "refusal", reason
    if row["hedge"] and row["recall"] >= 1:
        return "hedged", reason
    return ("partial" if 0 < row["recall"] < 1 else "mismatch"), reason


def _for(row: Mapping[str, float]) -> list[tuple[bool, str]]:
    near = row["near_asked_focus"]
    return [
        (row["whole"] > 0, "the answer uses another name of the reference"),
        (row["date_state"] >= 3, "the answer has the date of the reference"),
        (row["date_state"] == 2, "the dates agree as far as both say them"),
        (row["recall"] >= 1, "the answer has every word of the reference that the question does not give"),
        (row["numbers_wanted"] > 0 and row["numbers_found"] >= 1, "the answer has the numbers of the reference"),
        (0 < row["recall"] < 1, f"the answer has {row['recall']:.0%} of the words of the reference"),
        (True, f"the answer to this question is near the reference in meaning (cosine {near:.2f})"),
    ]


def _against(row: Mapping[str, float]) -> list[tuple[bool, str]]:
    near = row["near_asked_focus"]
    missing = int(row["missing"])
    return [
        (row["refusal"] > 0, "the answer declines to answer"),
        (row["hedge"] > 0, "the answer is not sure"),
        (row["polarity"] < 0, "one says yes, the other no"),
        (row["date_state"] == -2, "the dates differ"),
        (row["numbers_wanted"] > 0 and row["numbers_found"] < 1, "a number of the reference is missing"),
        (0 < row["recall"] < 1, f"the answer lacks {missing} of the words of the reference"),
        (row["recall"] == 0, "the answer has no word of the reference that the question does not give"),
        (row["recall"] >= 1, "the words of the reference are there, but not as the answer to the question"),
        (True, f"the cosine with the reference is {near:.2f}"),
    ]


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
    at, ruling = final_ruling(seen.rulings, probabilities)
    if ruling is not None:
        probability = model.ruled(ruling, max(probabilities))
        return Match(ruling.verdict == "match", probability, ruling.verdict, ruling.rule, ruling.reason, at, unknown)
    matched = probabilities[at] >= HALF
    verdict, reason = explained(seen.values[at], matched=matched)
    return Match(matched, probabilities[at], verdict, "model", reason, at, unknown)


def final_ruling(rulings: Sequence[Ruling | None], probabilities: Sequence[float]) -> tuple[int, Ruling | None]:
    """The reference that decides and the rule's ruling, or None where the model decides.

    A match comes before anything else, then what speaks against the answer as a whole. What speaks against one
    reference alone (another date than this one) decides only where no other one is likelier than not to match.

    Args:
        rulings: of the rules, by reference; `probabilities`: of the model, in step with them.
    """
    ranked = sorted(range(len(rulings)), key=lambda i: (-probabilities[i], i))
    for wanted in (_matches, _against_answer):
        for i in ranked:
            if wanted(rulings[i]):
                return i, rulings[i]
    rest = [i for i in ranked if rulings[i] is None]
    if rest and (probabilities[rest[0]] >= HALF or len(rest) == len(ranked)):
        return rest[0], None
    at = next(i for i in ranked if rulings[i] is not None)
    return at, rulings[at]


def _matches(ruling: Ruling | None) -> bool:
    return ruling is not None and ruling.verdict == "match"


def _against_answer(ruling: Ruling | None) -> bool:
    return ruling is not None and ruling.rule in AGAINST_ANSWER


def about() -> str:
    """What the matcher is and how far it agrees with people, in one line for reports."""
    trained = load().trained_on
    return f"offline matcher v{RULES_VERSION}, kappa {trained['kappa']:.2f} with people on {trained['judged_on']}"
