"""Meaning match without a language model: rules first, then a small model trained on human verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean as mean
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
from rapidfuzz import fuzz

from answerkey.metrics_core.judges.votes import MatchVerdict
from answerkey.metrics_core.offline_judge.alignment import names_whole, part_ratio
from answerkey.metrics_core.offline_judge.depth import SENTENCE_WORDS, UNLIKE_TRAINING, doubt, lacks_question, too_long
from answerkey.metrics_core.offline_judge.features import features, focus
from answerkey.metrics_core.offline_judge.model import load
from answerkey.metrics_core.offline_judge.reading import Text, read
from answerkey.metrics_core.offline_judge.rules import AGAINST_ANSWER, RULES_VERSION, Case, RuleId, Ruling, decide


def explained(row: Mapping[str, float], *, matched: bool) -> tuple[MatchVerdict, str]:
    """The verdict from the closed list, and the features that support it best, in words.

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
    if row["alternatives"] and row["recall"] >= 1:
        return "multiple_alternatives", reason
    if row["hedge"] and row["recall"] >= 1:
        return "hedged", reason
    return ("partial" if 0 < row["recall"] < 1 else "mismatch"), reason


def _for(row: Mapping[str, float]) -> list[tuple[bool, str]]:
    return [
        (row["whole"] > 0, "the answer uses another name of the reference"),
        (row["date_state"] >= 3, "the answer has the date of the reference"),
        (row["date_state"] == 2, "the dates agree as far as both say them"),
        (row["recall"] >= 1, "the answer has every word of the reference that the question does not give"),
        (row["numbers_wanted"] > 0 and row["numbers_found"] >= 1, "the answer has the numbers of the reference"),
        (0 < row["recall"] < 1, f"the answer has {row['recall']:.0%} of the words of the reference"),
        (True, f"answer and reference are spelled {row['characters_part']:.0%} alike"),
    ]


def _against(row: Mapping[str, float]) -> list[tuple[bool, str]]:
    return [
        (row["refusal"] > 0, "the answer declines to answer"),
        (row["hedge"] > 0, "the answer is not sure"),
        (row["alternatives"] > 0 and row["recall"] >= 1, "the answer offers another answer beside the reference"),
        (row["polarity"] < 0, "one says yes, the other no"),
        (row["date_state"] == -2, "the dates differ"),
        (row["numbers_wanted"] > 0 and row["numbers_found"] < 1, "a number of the reference is missing"),
        (0 < row["recall"] < 1, f"the answer has only {row['recall']:.0%} of the words of the reference"),
        (row["recall"] == 0, "the answer has no word of the reference that the question does not give"),
        (row["recall"] >= 1, "the words of the reference are there, but not as the answer to the question"),
    ]


Matrix = npt.NDArray[np.float64]
"""Features: shape (references of all pairs, features)."""

SPELLED_OUT = 0.99
"""The recall from which an answer counts as containing the whole reference."""

HALF = 0.5
"""The probability from which the model's verdict is a match."""

NEVER_SEEN = {True: 0.9, False: 0.05}
"""The probability of a match by a rule for one, or against one, that decided nothing in the training data, as training
gives it."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A question, which may be blank, and an answer with the references to compare it with, which are not.

    `wrong` are answers known to be wrong: an answer that means the same as one of them does not match.

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
        probability: of human annotators calling it a match, 0..1, calibrated on questions not seen in training.
        verdict: from the closed list of `meaning_match`.
        rule: the id of the rule that decided (`rules.RuleId`), or "model".
        reason: in plain words.
        reference: index of the matching or the nearest reference.
        out_of_depth: why the pair is outside the training data, so that the verdict should not be trusted, or "".
        wrong: index of the known wrong answer that the answer repeats, if that decided.

    >>> Match(True, 0.97, "match", "same_number", "the answer names the same number", 0).match
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
    """A pair as the model sees it: by reference, the features and the ruling of a rule, if any.

    `indices` are the indices of these references: of many references only the nearest are compared.

    >>> [seen] = look([Pair("Who wrote it?", "Ada", ("Ada", "Eve"))])
    >>> len(seen.values), seen.rulings[0].rule, seen.indices
    (2, 'same_text', (0, 1))
    """

    values: tuple[dict[str, float], ...]
    rulings: tuple[Ruling | None, ...]
    indices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Ruled:
    """A pair as the rules see it, by reference; `indices` are the indices of the references."""

    cases: tuple[Case, ...]
    rulings: tuple[Ruling | None, ...]
    indices: tuple[int, ...]

    @staticmethod
    def of(pair: Pair) -> _Ruled:
        indices = _nearest(pair)
        compared = cases(pair, indices)
        return _Ruled(compared, tuple(map(decide, compared)), indices)


def look(pairs: Sequence[Pair], words: Mapping[str, float] | None = None) -> list[Seen]:
    """The features of every pair and reference.

    Args:
        words: the rarity of stems, 0..1; by default that of the model.

    >>> [seen] = look([Pair("Who wrote it?", "It was Ada.", ("Ada",))])
    >>> seen.values[0]["recall"]
    1.0
    """
    return [_seen(_Ruled.of(pair), load().words if words is None else words) for pair in pairs]


def _seen(ruled: _Ruled, words: Mapping[str, float]) -> Seen:
    rows = [features(case, focus(case.answer, case.reference, case.question), words) for case in ruled.cases]
    together = _together(rows)
    return Seen(tuple(row | together for row in rows), ruled.rulings, ruled.indices)


def matrix(seen: Sequence[Seen], names: Sequence[str]) -> Matrix:
    """The features `names` as columns; rows: the references of the first pair, then of the second, ...

    >>> seen = look([Pair("Who wrote it?", "It was Ada.", ("Ada", "Eve"))])
    >>> matrix(seen, ["recall", "refusal"]).shape
    (2, 2)
    """
    rows = [[*map(row.__getitem__, names)] for one in seen for row in one.values]
    return np.array(rows, np.float64).reshape(-1, len(names))


MOST_REFERENCES = 8
"""The most references that are compared; of more (lists of aliases), those nearest in letters."""


def _nearest(pair: Pair) -> tuple[int, ...]:
    """The indices of the references to compare with, ascending."""
    if len(pair.references) <= MOST_REFERENCES:
        return tuple(range(len(pair.references)))
    answer = read(pair.answer)

    def likeness(index: int) -> tuple[float, float, str]:
        reference = read(pair.references[index])
        named = 100.0 if names_whole(reference, answer) else part_ratio(reference.normal, answer.normal)
        return named, fuzz.ratio(reference.normal, answer.normal), reference.normal

    return tuple(sorted(sorted(range(len(pair.references)), key=likeness, reverse=True)[:MOST_REFERENCES]))


def cases(pair: Pair, indices: Sequence[int] | None = None) -> tuple[Case, ...]:
    """The answer of a pair against the references with these indices; by default those nearest in letters.

    >>> [case] = cases(Pair("Who wrote it?", "Ada", ("Eve",)))
    >>> case.reference.raw
    'Eve'
    """
    question, answer = read(pair.question), read(pair.answer)
    references = [read(pair.references[index]) for index in (_nearest(pair) if indices is None else indices)]
    dates = frozenset(date for reference in references for date in reference.dates)
    return tuple(Case.of(question, answer, reference, dates) for reference in references)


def _together(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """Features of all references together, equal for each of them and independent of their order."""
    return {
        "references": math.log(len(rows)),
        "full_share": sum(row["recall"] >= SPELLED_OUT for row in rows) / len(rows),
    }


def match(pairs: Sequence[Pair]) -> list[Match]:
    """The verdict on each of `pairs`: same length, same order, deterministic.

    >>> pair = Pair("Who painted the Mona Lisa?", "Da Vinci", ("Leonardo da Vinci",))
    >>> [result] = match([pair])
    >>> result.verdict, result.rule, result.probability > 0.8
    ('match', 'model', True)
    """
    if not pairs:
        return []
    model = load()
    # Releases often give equal answers, so equal pairs are judged once.
    wrong_pairs = {pair: Pair(pair.question, pair.answer, pair.wrong) for pair in pairs if pair.wrong}
    ruled = {pair: _Ruled.of(pair) for pair in dict.fromkeys((*pairs, *wrong_pairs.values()))}
    # If a rule decides, no features are needed, unless right answers are weighed against wrong ones.
    weighed = {*wrong_pairs, *wrong_pairs.values()}
    for_model = [pair for pair, ruled_pair in ruled.items() if pair in weighed or settled(ruled_pair.rulings) is None]
    seen = {pair: _seen(ruled[pair], model.words) for pair in for_model}
    rows = matrix([*seen.values()], model.features)

    def by_pair(values: npt.NDArray[Any]) -> dict[Pair, list[Any]]:
        values_left = iter(values.tolist())
        return {pair: [next(values_left) for _ in features.values] for pair, features in seen.items()}

    probabilities, far = by_pair(model.probabilities(rows)), by_pair(model.centroids.far(rows))
    verdicts = {
        pair: _verdict(pair, ruled_pair, seen.get(pair), probabilities.get(pair, ()), far.get(pair, ()))
        for pair, ruled_pair in ruled.items()
    }
    if wrong_pairs:
        sides = [
            ((seen[pair], probabilities[pair]), (seen[wrong_pair], probabilities[wrong_pair]))
            for pair, wrong_pair in wrong_pairs.items()
        ]
        outweighs = model.outweighs(*both_sides(sides, model.features)).tolist()
        for (pair, wrong_pair), probability in zip(wrong_pairs.items(), outweighs, strict=True):
            verdicts[pair] = _weighed(
                verdicts[pair], verdicts[wrong_pair], probability,
                of_value=asks_for_value(map(read, pair.references))
            )  # fmt: skip
    return [verdicts[pair] for pair in pairs]


def nearest_row(seen: Seen, probabilities: Sequence[float]) -> dict[str, float]:
    """The features of the most likely reference, with its probability.

    >>> [seen] = look([Pair("Who wrote it?", "Ada", ("Eve", "Ada"))])
    >>> nearest_row(seen, [0.1, 0.8])["recall"]
    1.0
    """
    at = max(range(len(probabilities)), key=lambda index: (probabilities[index], -index))
    return {**seen.values[at], "probability": probabilities[at]}


AGAINST = ("right", "wrong", "recall", "rare", "order")
"""The inputs of the logistic regression for samples with answers known to be wrong (see `against`)."""

_SPREAD = ("characters_tokens", "recall_all", "soft_idf", "rouge_recall")

Judgement = tuple[Seen, Sequence[float]]
"""An answer with its references: the features, and the probability of each reference."""


def against(right: Mapping[str, float], wrong: Mapping[str, float]) -> list[float]:
    """The inputs `AGAINST`, which compare the nearest right answer with the nearest wrong one.

    Both logits, and the differences in words found, by number, by rarity and in the order of the reference.

    >>> row = {"probability": 0.5, "recall_all": 1, "soft_idf": 1, "rouge_recall": 1}
    >>> against(row, row)
    [0.0, 0.0, 0, 0, 0]
    """
    differences = [right[name] - wrong[name] for name in ("recall_all", "soft_idf", "rouge_recall")]
    return [_logit(right["probability"]), _logit(wrong["probability"]), *differences]


def both_sides(sides: Sequence[tuple[Judgement, Judgement]], names: Sequence[str]) -> tuple[Matrix, Matrix]:
    """The inputs of the logistic regression and of the trees for answers with right and wrong references.

    The trees see the probabilities and the distances of the references of each side, the features `names` of the
    nearest reference of each side, and their differences.

    Returns:
        Arrays of the shapes (answers, len(AGAINST)) and (answers, 24 + 3 * len(names)).

    >>> [right, wrong] = look([Pair("Who?", "Ada", ("Ada",)), Pair("Who?", "Ada", ("Eve",))])
    >>> few, many = both_sides([((right, [0.9]), (wrong, [0.1]))], ["recall", "whole"])
    >>> few.shape, many.shape
    ((1, 5), (1, 30))
    """
    linear_inputs, tree_inputs = [], []
    for side in sides:
        nearest = [nearest_row(*judged) for judged in side]
        linear_inputs.append(against(*nearest))
        right_features, wrong_features = ([row[name] for name in names] for row in nearest)
        differences = [a - b for a, b in zip(right_features, wrong_features, strict=True)]
        tree_inputs.append([*_spread(*side[0]), *_spread(*side[1]), *right_features, *wrong_features, *differences])
    return np.array(linear_inputs, np.float64), np.array(tree_inputs, np.float64)


def _spread(seen: Seen, probabilities: Sequence[float]) -> list[float]:
    logits = sorted(map(_logit, probabilities), reverse=True)
    inputs = [logits[0], mean(logits[:2]), mean(logits), math.log(len(logits))]
    for name in _SPREAD:
        values = sorted((row[name] for row in seen.values), reverse=True)
        inputs += [values[0], mean(values[:3])]
    return inputs


def _logit(probability: float) -> float:
    return math.log(probability / (1 - probability))


def signature() -> str:
    """The version of the matcher, such as `offline@1:3fa2c1`: changes whenever a verdict may change.

    >>> signature().startswith(f"offline@{RULES_VERSION}:")
    True
    """
    return f"offline@{RULES_VERSION}:{load().revision}"


def undecided(judged: Match, accepted_error: float) -> bool:
    """Whether the verdict is too uncertain if a share of at most `accepted_error` (0..1) of verdicts may be wrong.

    It is by the calibrated probability, which holds on data like those of the training. A pair outside the training
    data is always undecided, unless a rule decided.

    >>> sure = Match(True, 0.99, "match", "model", "", 0)
    >>> undecided(sure, accepted_error=0.05)
    False
    """
    if judged.out_of_depth and judged.rule == "model":
        return True
    return max(judged.probability, 1 - judged.probability) <= 1 - accepted_error


def _verdict(
    pair: Pair, ruled: _Ruled, seen: Seen | None, probabilities: Sequence[float], far: Sequence[bool]
) -> Match:
    model = load()
    question, answer = read(pair.question), read(pair.answer)
    references = [read(reference) for reference in pair.references]
    long = too_long(answer, references, model.limits)
    at, ruling = final_ruling(ruled.rulings, probabilities)
    index = ruled.indices[at]
    if ruling is not None:
        # Rules were written, not trained, so that they hold outside the training data
        match = ruling.verdict == "match"
        probability = model.rules.get(ruling.rule, NEVER_SEEN[match])
        needs_question = ruling.rule not in SAME_QUANTITY
        depth = long or (lacks_question(question, [references[index]]) if needs_question else "")
        return Match(match, probability, ruling.verdict, ruling.rule, ruling.reason, index, depth)
    assert seen is not None
    matched = probabilities[at] >= HALF
    verdict, reason = explained(seen.values[at], matched=matched)
    depth = long or lacks_question(question, [references[index]])
    depth = depth or doubt(question, answer, references, references[index], matched=matched)
    depth = depth or (UNLIKE_TRAINING if far[at] else "")
    return Match(matched, probabilities[at], verdict, "model", reason, index, depth)


SAME_QUANTITY = frozenset(("same_number", "same_date"))
_OTHER_QUANTITY = frozenset(("other_number", "other_date"))
_TAKEN_BACK = frozenset(("negated", "hedged", "opposite"))


def asks_for_value(references: Iterable[Text]) -> bool:
    """Whether every reference is a value of few words, not a statement.

    To statements, "I do not know" may be a right answer: people call it truthful. A value it never is.

    >>> asks_for_value([read("six lines")]), asks_for_value([read("Nobody knows what the sea holds.")])
    (True, False)
    """
    return all(len(reference.tokens) < SENTENCE_WORDS for reference in references)


def beside_wrong(
    rule: str, probability: float, other: tuple[str, float], weighed: float, *, of_value: bool = False
) -> float:
    """The probability of a match with answers known to be wrong, after the rules.

    Args:
        rule, probability: of the verdict on the right answers; the rule is "model" if no rule decided.
        other: rule and probability of the verdict on the wrong answers.
        weighed: the probability of a match by the model, given both.
        of_value: whether a value is asked for (see `asks_for_value`).

    >>> beside_wrong("negated", 0.05, ("model", 0.1), weighed=0.9)
    0.05
    """
    if rule in _TAKEN_BACK or (rule == "refusal" and of_value):
        # "It is not Paris" and "Maybe Paris" have the words of the right answer, on which the model relies.
        return min(weighed, probability)
    if rule in SAME_QUANTITY and other[0] in _OTHER_QUANTITY:
        # "5 km" is "5,000 m" and not "5 miles", though that shares more characters with it.
        return max(weighed, probability)
    if rule == "same_text":
        return probability
    return min(weighed, 1 - other[1]) if other[0] == "same_text" else weighed


def _weighed(judged: Match, wrong: Match, probability: float, *, of_value: bool = False) -> Match:
    """The verdict `judged`, revised by the verdict `wrong` on answers known to be wrong.

    Args:
        probability: of a match by the model, given both.
    """
    other = (wrong.rule, wrong.probability)
    probability = beside_wrong(judged.rule, judged.probability, other, probability, of_value=of_value)
    if probability >= HALF:
        if judged.match:
            return replace(judged, probability=probability)
        reason = "the answer is nearer to what is right than to what is known to be wrong"
        return replace(judged, match=True, probability=probability, verdict="match", rule="model", reason=reason)
    if not wrong.match and not judged.match:
        return replace(judged, probability=probability)
    reason = (
        f"the answer says what a known wrong answer says ({wrong.reason})"
        if wrong.match
        else "the answer is nearer to what is known to be wrong than to what is right"
    )
    return replace(
        judged, match=False, probability=probability, verdict="mismatch", rule="model", reason=reason,
        wrong=wrong.reference,
    )  # fmt: skip


_RANK = {rule: rank for rank, rule in enumerate(get_args(RuleId))}


def settled(rulings: Sequence[Ruling | None]) -> tuple[int, Ruling] | None:
    """The index of the deciding reference and its ruling if the rules decide without the model, otherwise None.

    A match takes precedence, then rulings against the answer as a whole. Rulings against a single reference (another
    date than this one) decide only if every reference has one.

    >>> settled((None, None)) is None
    True
    """
    ranked = [(_RANK[ruling.rule], index, ruling) for index, ruling in enumerate(rulings) if ruling is not None]
    if not ranked:
        return None
    _, index, deciding = min(ranked, key=lambda entry: entry[:2])
    is_settled = deciding.verdict == "match" or deciding.rule in AGAINST_ANSWER or len(ranked) == len(rulings)
    return (index, deciding) if is_settled else None


def final_ruling(rulings: Sequence[Ruling | None], probabilities: Sequence[float]) -> tuple[int, Ruling | None]:
    """The index of the deciding reference, and the ruling that decides, or None if the model decides.

    If the rules do not settle it, the model decides if a reference without a ruling is more likely than not to match,
    or if no reference has a ruling.

    Args:
        rulings: by reference; `probabilities`: of the model, in the same order; not needed if the rules settle it.

    >>> final_ruling((None, None), (0.2, 0.7))
    (1, None)
    """
    decision = settled(rulings)
    if decision is not None:
        return decision
    ranked = sorted(range(len(rulings)), key=lambda index: (-probabilities[index], index))
    unruled = [index for index in ranked if rulings[index] is None]
    if probabilities[unruled[0]] >= HALF or len(unruled) == len(ranked):
        return unruled[0], None
    index = next(index for index in ranked if rulings[index] is not None)
    return index, rulings[index]


LEFT_OUT: Mapping[str, tuple[float, float]] = {
    "short answers": (0.601, 0.869),
    "claims": (0.292, 0.448),
    "other languages": (0.453, 0.578),
}
"""By kind of data, the lowest and the highest kappa with people on a data set that was left out of training, as
a user's data are. From the table "Agreement with human labels" of docs/offline_judge_measured.md."""


def about() -> str:
    """The version of the matcher and its agreement with human labels by kind of data, in one line.

    >>> about().startswith(f"offline judge v{RULES_VERSION}, kappa with people on data that it has not seen: 0.")
    True
    """
    kinds = ", ".join(f"{low:.2f} to {high:.2f} on {kind}" for kind, (low, high) in LEFT_OUT.items())
    return f"offline judge v{RULES_VERSION}, kappa with people on data that it has not seen: {kinds}"
