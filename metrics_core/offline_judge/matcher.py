"""Meaning match without a language model: rules first, then a small model trained on human verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import fmean
from typing import get_args

import numpy as np
import numpy.typing as npt
from rapidfuzz import fuzz

from answerkey.metrics_core.judges.votes import MatchVerdict
from answerkey.metrics_core.offline_judge.alignment import names_whole, part_ratio
from answerkey.metrics_core.offline_judge.depth import (
    SENTENCE_WORDS,
    UNLIKE_TRAINING,
    has_nothing_of,
    lacks_question,
    too_long,
    unfamiliar,
)
from answerkey.metrics_core.offline_judge.features import features, focus
from answerkey.metrics_core.offline_judge.model import load
from answerkey.metrics_core.offline_judge.reading import Text, read
from answerkey.metrics_core.offline_judge.rules import AGAINST_ANSWER, RULES_VERSION, Case, RuleId, Ruling, decide


def explained(row: Mapping[str, float], *, matched: bool) -> tuple[MatchVerdict, str]:
    """Return the verdict from the closed list, and the two features that support it best, in words.

    >>> [seen] = look([Pair("What do bees make?", "wax", ("honey",))])
    >>> explained(seen.values[0], matched=False)[0]
    'mismatch'
    """
    recall = row["recall"]
    lacks_number = row["numbers_wanted"] > 0 and row["numbers_found"] < 1
    # The reasons, the best ones first
    if matched:
        reasons = {
            "the answer uses another name of the reference": row["whole"] > 0,
            "the answer has the date of the reference": row["date_state"] >= 3,
            "the dates agree as far as both say them": row["date_state"] == 2,
            "the answer has every word of the reference that the question does not give": recall >= 1,
            "the answer has the numbers of the reference": row["numbers_wanted"] > 0 and not lacks_number,
            f"the answer has {recall:.0%} of the words of the reference": 0 < recall < 1,
            f"answer and reference are spelled {row['characters_part']:.0%} alike": True,
        }
    else:
        reasons = {
            "the answer declines to answer": row["refusal"] > 0,
            "the answer is not sure": row["hedge"] > 0,
            "the answer offers another answer beside the reference": row["alternatives"] > 0 and recall >= 1,
            "one says yes, the other no": row["polarity"] < 0,
            "the dates differ": row["date_state"] == -2,
            "a number of the reference is missing": lacks_number,
            f"the answer has only {recall:.0%} of the words of the reference": 0 < recall < 1,
            "the answer has no word of the reference that the question does not give": recall == 0,
            "the words of the reference are there, but not as the answer to the question": recall >= 1,
        }
    reason = "; ".join([text for text, holds in reasons.items() if holds][:2])

    if matched:
        return "match", reason
    if row["refusal"] and recall < 1:
        return "refusal", reason
    if row["alternatives"] and recall >= 1:
        return "multiple_alternatives", reason
    if row["hedge"] and recall >= 1:
        return "hedged", reason
    if 0 < recall < 1:
        return "partial", reason
    return "mismatch", reason


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
        """Compare the answer of a pair with its references by rules; of many, with those nearest in letters."""
        question = read(pair.question)
        answer = read(pair.answer)
        indices: Sequence[int] = range(len(pair.references))
        if len(indices) > MOST_REFERENCES:
            nearness: list[tuple[float, float, str]] = []
            for reference in map(read, pair.references):
                similarity = 100.0
                if not names_whole(reference, answer):
                    similarity = part_ratio(reference.normal, answer.normal)
                nearness.append((similarity, fuzz.ratio(reference.normal, answer.normal), reference.normal))
            nearest = sorted(indices, key=nearness.__getitem__, reverse=True)
            indices = sorted(nearest[:MOST_REFERENCES])

        references = [read(pair.references[index]) for index in indices]
        cases = tuple(Case.of(question, answer, reference, references) for reference in references)
        return _Ruled(cases, tuple(map(decide, cases)), tuple(indices))


MOST_REFERENCES = 8
"""The most references that are compared; of more (lists of aliases), those nearest in letters."""


def look(pairs: Sequence[Pair], words: Mapping[str, float] | None = None) -> list[Seen]:
    """Return the features of every pair and reference.

    Args:
        words: the rarity of stems, 0..1; by default that of the model.

    >>> [seen] = look([Pair("Who wrote it?", "It was Ada.", ("Ada",))])
    >>> seen.values[0]["recall"]
    1.0
    """
    rarity = load().words if words is None else words
    return [_with_features(_Ruled.of(pair), rarity) for pair in pairs]


def _with_features(ruled: _Ruled, words: Mapping[str, float]) -> Seen:
    rows = [features(case, focus(case.answer, case.reference, case.question), words) for case in ruled.cases]
    # Features of all references together, equal for each of them and independent of their order
    together = {
        "references": math.log(len(rows)),
        "full_share": sum(row["recall"] >= SPELLED_OUT for row in rows) / len(rows),
    }
    return Seen(tuple(row | together for row in rows), ruled.rulings, ruled.indices)


def matrix(seen: Sequence[Seen], names: Sequence[str]) -> Matrix:
    """Return the features `names` as columns; rows: the references of the first pair, then of the second, ...

    >>> seen = look([Pair("Who wrote it?", "It was Ada.", ("Ada", "Eve"))])
    >>> matrix(seen, ["recall", "refusal"]).shape
    (2, 2)
    """
    rows = []
    for seen_pair in seen:
        rows += [[*map(row.__getitem__, names)] for row in seen_pair.values]
    return np.array(rows, np.float64).reshape(-1, len(names))


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
    # Releases often give equal answers, so equal pairs are judged once
    wrong_pairs = {pair: Pair(pair.question, pair.answer, pair.wrong) for pair in pairs if pair.wrong}
    ruled = {pair: _Ruled.of(pair) for pair in dict.fromkeys((*pairs, *wrong_pairs.values()))}

    # If a rule decides, no features are needed, unless right answers are weighed against wrong ones
    weighed = {*wrong_pairs, *wrong_pairs.values()}
    for_model = [pair for pair, ruled_pair in ruled.items() if pair in weighed or settled(ruled_pair.rulings) is None]
    seen = {pair: _with_features(ruled[pair], model.words) for pair in for_model}
    rows = matrix([*seen.values()], model.features)
    all_probabilities = iter(model.probabilities(rows).tolist())
    all_far = iter(model.centroids.far(rows).tolist())

    # The verdicts on the right answers, and on the wrong ones
    judgements: dict[Pair, Judgement] = {}
    verdicts: dict[Pair, Match] = {}
    for pair, ruled_pair in ruled.items():
        far: list[bool] = []
        if pair in seen:
            n_references = len(ruled_pair.indices)
            judgements[pair] = seen[pair], list(islice(all_probabilities, n_references))
            far = list(islice(all_far, n_references))
        verdicts[pair] = _verdict(pair, ruled_pair, judgements.get(pair), far)
    if not wrong_pairs:
        return [verdicts[pair] for pair in pairs]

    # The wrong answers may take a match back, or let one be
    sides = [(judgements[pair], judgements[wrong_pair]) for pair, wrong_pair in wrong_pairs.items()]
    outweighs = model.outweighs(*both_sides(sides, model.features)).tolist()
    for (pair, wrong_pair), probability in zip(wrong_pairs.items(), outweighs, strict=True):
        of_value = asks_for_value(map(read, pair.references))
        verdicts[pair] = _weighed(verdicts[pair], verdicts[wrong_pair], probability, of_value=of_value)
    return [verdicts[pair] for pair in pairs]


AGAINST = ("right", "wrong", "recall", "rare", "order")
"""The inputs of the logistic regression for samples with answers known to be wrong (see `both_sides`)."""

Judgement = tuple[Seen, Sequence[float]]
"""An answer with its references: the features, and the probability of each reference."""


def both_sides(sides: Sequence[tuple[Judgement, Judgement]], names: Sequence[str]) -> tuple[Matrix, Matrix]:
    """Return the inputs of the logistic regression and of the trees for answers with right and wrong references.

    The regression compares the nearest right reference with the nearest wrong one: both logits, and the differences in
    words found, by number, by rarity and in the order of the reference. The trees see the probabilities and the
    distances of the references of each side, the features `names` of the nearest reference of each side, and their
    differences.

    Returns:
        Arrays of the shapes (answers, len(AGAINST)) and (answers, 24 + 3 * len(names)).

    >>> [right, wrong] = look([Pair("Who?", "Ada", ("Ada",)), Pair("Who?", "Ada", ("Eve",))])
    >>> few, many = both_sides([((right, [0.9]), (wrong, [0.1]))], ["recall", "whole"])
    >>> few.shape, many.shape
    ((1, 5), (1, 30))
    """
    linear_inputs = []
    tree_inputs = []
    for judgements in sides:
        nearest_rows: list[dict[str, float]] = []
        nearest_logits: list[float] = []
        inputs: list[float] = []
        for seen, probabilities in judgements:
            # The most likely reference, the first of ties
            nearest_rows.append(seen.values[max(range(len(probabilities)), key=probabilities.__getitem__)])
            logits = sorted([math.log(probability / (1 - probability)) for probability in probabilities], reverse=True)
            nearest_logits.append(logits[0])
            inputs += [logits[0], fmean(logits[:2]), fmean(logits), math.log(len(logits))]
            for name in ("characters_tokens", "recall_all", "soft_idf", "rouge_recall"):
                values = sorted([row[name] for row in seen.values], reverse=True)
                inputs += [values[0], fmean(values[:3])]
        nearest_right, nearest_wrong = nearest_rows
        differences = {name: nearest_right[name] - nearest_wrong[name] for name in nearest_right}
        linear_inputs.append(
            [*nearest_logits, *map(differences.__getitem__, ("recall_all", "soft_idf", "rouge_recall"))]
        )
        for row in (nearest_right, nearest_wrong, differences):
            inputs += [row[name] for name in names]
        tree_inputs.append(inputs)
    return np.array(linear_inputs, np.float64), np.array(tree_inputs, np.float64)


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


def _verdict(pair: Pair, ruled: _Ruled, judgement: Judgement | None, far: Sequence[bool]) -> Match:
    """Return the verdict on a pair, without the answers known to be wrong.

    Args:
        judgement: what the model says, or None if the rules decide; `far`: by reference, whether the features are far
            from all those in training.
    """
    model = load()
    question = read(pair.question)
    answer = read(pair.answer)
    references = [read(reference) for reference in pair.references]
    position, ruling = final_ruling(ruled.rulings, judgement[1] if judgement else ())
    index = ruled.indices[position]
    reference = references[index]
    depth = too_long(answer, references, model.limits)
    if ruling is not None:
        # Rules were written, not trained, so that they hold outside the training data
        match = ruling.verdict == "match"
        probability = model.rules.get(ruling.rule, NEVER_SEEN[match])
        if ruling.rule not in SAME_QUANTITY:
            depth = depth or lacks_question(question, [reference])
        return Match(
            match=match,
            probability=probability,
            verdict=ruling.verdict,
            rule=ruling.rule,
            reason=ruling.reason,
            reference=index,
            out_of_depth=depth,
        )

    assert judgement is not None
    seen, probabilities = judgement
    match = probabilities[position] >= HALF
    verdict, reason = explained(seen.values[position], matched=match)
    depth = depth or lacks_question(question, [reference])
    if not depth and (match or not has_nothing_of(answer, reference)):
        depth = unfamiliar(question, answer, references)
    if not depth and far[position]:
        depth = UNLIKE_TRAINING
    return Match(
        match=match,
        probability=probabilities[position],
        verdict=verdict,
        rule="model",
        reason=reason,
        reference=index,
        out_of_depth=depth,
    )


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
    rule: str, probability: float, wrong_verdict: tuple[str, float], weighed: float, *, of_value: bool = False
) -> float:
    """The probability of a match with answers known to be wrong, after the rules.

    Args:
        rule, probability: of the verdict on the right answers; the rule is "model" if no rule decided.
        wrong_verdict: rule and probability of the verdict on the wrong answers.
        weighed: the probability of a match by the model, given both.
        of_value: whether a value is asked for (see `asks_for_value`).

    >>> beside_wrong("negated", 0.05, ("model", 0.1), weighed=0.9)
    0.05
    """
    if rule in _TAKEN_BACK or (rule == "refusal" and of_value):
        # "It is not Paris" and "Maybe Paris" have the words of the right answer, on which the model relies.
        return min(weighed, probability)
    if rule in SAME_QUANTITY and wrong_verdict[0] in _OTHER_QUANTITY:
        # "5 km" is "5,000 m" and not "5 miles", though that shares more characters with it.
        return max(weighed, probability)
    if rule == "same_text":
        return probability
    return min(weighed, 1 - wrong_verdict[1]) if wrong_verdict[0] == "same_text" else weighed


def _weighed(judged: Match, wrong: Match, probability: float, *, of_value: bool = False) -> Match:
    """The verdict `judged`, revised by the verdict `wrong` on answers known to be wrong.

    Args:
        probability: of a match by the model, given both.
    """
    probability = beside_wrong(
        judged.rule, judged.probability, (wrong.rule, wrong.probability), probability, of_value=of_value
    )
    match = probability >= HALF
    if match == judged.match and (match or not wrong.match):
        return replace(judged, probability=probability)
    revised = replace(judged, match=match, probability=probability, rule="model")
    if match:
        reason = "the answer is nearer to what is right than to what is known to be wrong"
        return replace(revised, verdict="match", reason=reason)
    reason = "the answer is nearer to what is known to be wrong than to what is right"
    if wrong.match:
        reason = f"the answer says what a known wrong answer says ({wrong.reason})"
    return replace(revised, verdict="mismatch", reason=reason, wrong=wrong.reference)


_RANK = {rule: rank for rank, rule in enumerate(get_args(RuleId))}


def settled(rulings: Sequence[Ruling | None]) -> tuple[int, Ruling] | None:
    """The index of the deciding reference and its ruling if the rules decide without the model, otherwise None.

    A match takes precedence, then rulings against the answer as a whole. Rulings against a single reference (another
    date than this one) decide only if every reference has one.

    >>> settled((None, None)) is None
    True
    """
    ranked = [(_RANK[ruling.rule], index) for index, ruling in enumerate(rulings) if ruling is not None]
    if not ranked:
        return None
    # Of the rules for all references the one that stands first in the list
    _, index = min(ranked)
    deciding = rulings[index]
    assert deciding is not None
    if deciding.verdict == "match" or deciding.rule in AGAINST_ANSWER or len(ranked) == len(rulings):
        return index, deciding
    return None


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
    # The model may prefer a reference of which no rule says anything
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
    """The version of the matcher and its agreement with human labels on data that it has not seen, in one line.

    >>> about().startswith(f"offline judge v{RULES_VERSION}, kappa with people: short answers 0.")
    True
    """
    lows, highs = zip(*(bounds for kind, bounds in LEFT_OUT.items() if kind != "short answers"), strict=True)
    ranges = {"short answers": LEFT_OUT["short answers"], "others": (min(lows), max(highs))}
    kinds = ", ".join(f"{kind} {low:.2f} to {high:.2f}" for kind, (low, high) in ranges.items())
    return f"offline judge v{RULES_VERSION}, kappa with people: {kinds}"
