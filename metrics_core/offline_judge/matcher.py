"""Meaning match without a language model: rules first, then a small model trained on human verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import regex

from answerkey.metrics_core.judges.votes import MatchVerdict
from answerkey.metrics_core.offline_judge.features import (
    embedding_features,
    focus,
    texts_to_embed,
    unit_vectors,
    word_features,
)
from answerkey.metrics_core.offline_judge.model import MatcherModel, load
from answerkey.metrics_core.offline_judge.reading import Text, read
from answerkey.metrics_core.offline_judge.rules import AGAINST_ANSWER, RULES_VERSION, Case, Ruling, decide
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
"""Nearly every English sentence of five words contains one of these."""


_OTHER = word_set(
    "der das und ist ein eine einen von mit fur wer wie wo wann warum welche les des est et une dans qui que quel ou "
    "quand combien cette ce sont pas nicht auf viele el "
    "las una por donde cuando quien cual cuantos como il della che dove quando het een waar wie jest gdzie kiedy "
    "bir nerede kim nao onde voce"
)
"""Function words of other languages in Latin letters; none is an English word or a usual part of names."""


def out_of_depth(question: Text, answer: Text, references: Iterable[Text], limits: Mapping[str, int]) -> str:
    """Why a verdict should not be trusted here, or "".

    Args:
        limits: the longest answer and reference, in words, of which training had enough.

    >>> limits = {"answer": 150, "reference": 15}
    >>> out_of_depth(read("Кто написал роман?"), read("Лев Толстой"), [read("Толстой")], limits)
    'written in letters that it was not trained on'
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
    """More function words of other languages than of English; or none of either in many words."""
    tokens = frozenset(question.tokens) | frozenset(answer.tokens)
    english, other = len(tokens & _ENGLISH), len(tokens & _OTHER)
    unknown = not english and len(tokens) >= _ENOUGH_WORDS and not question.names and not answer.names
    return other > english or unknown


def explained(row: Mapping[str, float], *, matched: bool) -> tuple[MatchVerdict, str]:
    """The verdict from the closed list, and the features that support it most plainly.

    >>> [seen] = look([Pair("What do bees make?", "wax", ("honey",))])
    >>> explained(seen.values[0], matched=False)[0]
    'mismatch'
    """
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


Matrix = npt.NDArray[np.float64]
"""Features: shape (references of all pairs, features)."""

SPELLED_OUT = 0.99
"""From this recall on, an answer contains the whole reference."""

HALF = 0.5
"""From this probability on, the model's verdict is a match."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A question, an answer and the references to compare it with, none of them blank (the question may be).

    `wrong` has answers known to be wrong: an answer that says what one of them says does not match.

    >>> Pair("Who painted it?", "Da Vinci", ("Leonardo da Vinci",)).references
    ('Leonardo da Vinci',)
    """

    question: str
    answer: str
    references: tuple[str, ...]
    wrong: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Match:
    """The verdict on a pair.

    Attributes:
        match: whether `verdict` is "match".
        probability: that human annotators would call it a match, 0..1, calibrated on questions not seen in training.
        verdict: from the closed list of `meaning_match`.
        rule: the id of the rule that decided (`rules.RuleId`), or "model".
        reason: in plain words.
        reference: index of the reference that matched, or came closest.
        out_of_depth: why the verdict should not be trusted here, or "".
        wrong: index of the known wrong answer that the answer says, where that decided.

    >>> Match(True, 0.97, "match", "alias", "the answer uses another name of the reference", 0).match
    True
    """

    match: bool
    probability: float
    verdict: MatchVerdict
    rule: str
    reason: str
    reference: int
    out_of_depth: str = ""
    wrong: int | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """A pair as the model sees it, by reference: the features, and the ruling of a rule, if any.

    >>> [seen] = look([Pair("Who wrote it?", "Ada", ("Ada", "Eve"))])
    >>> len(seen.values), seen.rulings[0].rule
    (2, 'same_text')
    """

    values: tuple[dict[str, float], ...]
    rulings: tuple[Ruling | None, ...]


def look(pairs: Sequence[Pair], cache_dir: str | None = None) -> list[Seen]:
    """The features of every pair and reference; all texts are embedded in one call.

    >>> [seen] = look([Pair("Who wrote it?", "It was Ada.", ("Ada",))])
    >>> seen.values[0]["recall"]
    1.0
    """
    cases = [_cases(pair) for pair in pairs]
    near = [[focus(case.answer, case.reference, case.question) for case in some] for some in cases]
    roles = [
        [texts_to_embed(case, text) for case, text in zip(some, texts, strict=True)]
        for some, texts in zip(cases, near, strict=True)
    ]
    known = unit_vectors({text for some in roles for by_role in some for text in by_role.values()}, cache_dir)
    seen = []
    for some, texts, by_roles in zip(cases, near, roles, strict=True):
        rows = [
            {**word_features(case, text), **embedding_features(by_role, known)}
            for case, text, by_role in zip(some, texts, by_roles, strict=True)
        ]
        together = _together(rows)
        seen.append(Seen(tuple({**row, **together} for row in rows), tuple(decide(case) for case in some)))
    return seen


def matrix(seen: Sequence[Seen], names: Sequence[str]) -> Matrix:
    """The features `names` as columns; rows: the references of the first pair, then of the second, ...

    >>> seen = look([Pair("Who wrote it?", "It was Ada.", ("Ada", "Eve"))])
    >>> matrix(seen, ["recall", "refusal"]).shape
    (2, 2)
    """
    return np.array([[row[name] for name in names] for one in seen for row in one.values], np.float64)


def _cases(pair: Pair) -> list[Case]:
    question, answer = read(pair.question), read(pair.answer)
    references = [read(reference) for reference in pair.references]
    accepted = frozenset(stem for reference in references for stem in reference.stems)
    return [Case.of(question, answer, reference, accepted) for reference in references]


def _together(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """Features of all references together, the same for each of them, whatever their order."""
    return {
        "references": math.log(len(rows)),
        "full_share": sum(row["recall"] >= SPELLED_OUT for row in rows) / len(rows),
        "best_span": max(row["near_span"] for row in rows),
        "best_asked": max(row["near_asked_focus"] for row in rows),
    }


def match(pairs: Sequence[Pair], *, cache_dir: str | None = None) -> list[Match]:
    """The verdict on each of `pairs`: same length, same order, the same on every call.

    Args:
        cache_dir: a folder for embeddings of earlier calls; it changes no verdict.

    Raises:
        EncoderError: the embedding model is not installed.

    >>> pair = Pair("Who painted the Mona Lisa?", "Da Vinci", ("Leonardo da Vinci",))
    >>> [found] = match([pair])
    >>> found.verdict, found.rule, found.probability > 0.9
    ('match', 'part_of_name', True)
    """
    if not pairs:
        return []
    model = load()
    doubted = [place for place, pair in enumerate(pairs) if pair.wrong]
    compared = [*pairs, *(Pair(pairs[place].question, pairs[place].answer, pairs[place].wrong) for place in doubted)]
    seen = look(compared, cache_dir)
    probabilities = iter(model.probabilities(matrix(seen, model.features)).tolist())
    found = [
        _verdict(pair, one, [next(probabilities) for _ in one.values], model)
        for pair, one in zip(compared, seen, strict=True)
    ]
    for place, against in zip(doubted, found[len(pairs) :], strict=True):
        found[place] = _weighed(found[place], against)
    return found[: len(pairs)]


def signature() -> str:
    """For instance `offline@1:3fa2c1`: changes whenever a verdict may change.

    >>> signature().startswith(f"offline@{RULES_VERSION}:")
    True
    """
    return f"offline@{RULES_VERSION}:{load().revision}"


def undecided(judged: Match, accepted_error: float) -> bool:
    """Whether the verdict is open if a share of at most `accepted_error` (0..1) of all verdicts may be wrong.

    Split conformal prediction (Vovk et al. 2005): for each error, the model file has the border above which the
    probability of the right verdict lay for all but that share of answers to questions not seen in training. A pair
    that is out of the matcher's depth is always undecided, unless a rule decided.

    >>> sure = Match(True, 0.99, "match", "model", "", 0)
    >>> undecided(sure, accepted_error=0.05)
    False
    """
    if judged.out_of_depth and judged.rule == "model":
        return True
    return max(judged.probability, 1 - judged.probability) <= load().border(accepted_error)


def _verdict(pair: Pair, seen: Seen, probabilities: Sequence[float], model: MatcherModel) -> Match:
    unknown = out_of_depth(read(pair.question), read(pair.answer), map(read, pair.references), model.limits)
    at, ruling = final_ruling(seen.rulings, probabilities)
    if ruling is not None:
        probability = model.ruled(ruling, max(probabilities))
        return Match(ruling.verdict == "match", probability, ruling.verdict, ruling.rule, ruling.reason, at, unknown)
    matched = probabilities[at] >= HALF
    verdict, reason = explained(seen.values[at], matched=matched)
    return Match(matched, probabilities[at], verdict, "model", reason, at, unknown)


def _weighed(judged: Match, against: Match) -> Match:
    """The verdict where `against` is that on the answers known to be wrong: the likelier of the two counts."""
    if not against.match or against.probability < judged.probability:
        return judged
    likely = judged.probability * (1 - against.probability)
    probability = likely / (likely + (1 - judged.probability) * against.probability)
    reason = f"the answer says what a known wrong answer says ({against.reason})"
    return replace(
        judged, match=False, probability=probability, verdict="mismatch", rule="model", reason=reason,
        wrong=against.reference,
    )  # fmt: skip


def final_ruling(rulings: Sequence[Ruling | None], probabilities: Sequence[float]) -> tuple[int, Ruling | None]:
    """The index of the deciding reference, and the ruling that decides, or None where the model decides.

    A match takes precedence, then what speaks against the answer as a whole. What speaks against one reference only
    (another date than this one) decides if no other reference is more likely than not to match.

    Args:
        rulings: by reference; `probabilities`: of the model, in the same order.

    >>> final_ruling((None, None), (0.2, 0.7))
    (1, None)
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
    """The matcher's version and its agreement with human labels, in one line for reports.

    >>> about().startswith(f"offline matcher v{RULES_VERSION}, kappa 0.")
    True
    """
    trained = load().trained_on
    return f"offline matcher v{RULES_VERSION}, kappa {trained['kappa']:.2f} with people on {trained['judged_on']}"
