"""Decide about two releases from their scores alone: arrays of numbers, or of numbers beside ids."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from .bounded_mean import Floats
from .clustered import Clusters, Codes, codes_of, mean
from .evidence import Coverage, Evidence, PairedScores
from .intervals import LEVEL
from .paired import PairedDifference, paired_difference
from .policy import ALL, COVERAGE, Policy, PolicyRule, RuleKind, parse_rule, range_problem
from .power import needed_to_pass
from .verdict import Verdict, apply_policy

FIELD = "given.score"
"""What rules call the scores."""
Ids = tuple[Sequence[Hashable], Sequence[Hashable]] | None
"""The ids of the rows of the old and of the new release; None if the rows are the same, in the same order."""


def gate(  # noqa: PLR0913
    old: npt.ArrayLike,
    new: npt.ArrayLike,
    *,
    margin: float,
    rules: Sequence[str] = (),
    clusters: Clusters = None,
    ids: Ids = None,
    labels: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    low: float = 0.0,
    high: float = 1.0,
    names: tuple[str, str] = ("old", "new"),
) -> Verdict:
    """Decide whether a new release may take the place of an old one: PASS, FAIL, INCONCLUSIVE or INCOMPLETE.

    A release that is worse by the margin passes with a chance of at most 2.8 %, and one that is no worse fails with a
    chance of at most 2.5 % (docs/error_rates.md has the cells). Rows are independent samples of questions.

    Args:
        old: (rows,): scores of the old release; NaN or None: no number, so the row does not count. `new`: of the new
            one; a row without a number counts as `low`, and with more than 5 % of them nothing is decided.
        margin: the loss of the mean score that is accepted, 0 or more, in the units of the scores.
        rules: further conditions, for instance `level given.score >= 0.8`.
        clusters: (rows of `old`,): rows with the same value are not independent, such as questions about one document.
        ids: of the rows of both releases. Rows of one id are answers to the same question, of which the mean counts;
            what is in the new release alone does not.
        labels: what people say of the answers, 0 or 1, beside `old` and beside `new`; NaN or None for no label. Then
            people decide, and scores predict the labels that are missing. The labelled rows must be drawn at random.
        low: the lowest possible score, and `high`: the highest.
        names: of the releases, for the sentence.

    Raises:
        ValueError: rows and ids or clusters differ in number, a score is out of range, or a rule cannot be decided.

    >>> right = np.repeat([1, 0], [170, 30])
    >>> gate(right, right, margin=0.05).outcome, gate(right, 1 - right, margin=0.05).outcome
    ('PASS', 'FAIL')
    >>> gate([1, 0, 1], [1, 0, None], margin=0.05).sentence[:70]
    'It cannot be decided whether new may ship: given.score (-0.333) decide'
    """
    old_scores, new_scores, codes = _paired(old, new, ids, clusters, limits=(low, high))
    # Labels of people, in the order of the scores
    people = None
    if labels is not None:
        people_old, people_new, _ = _paired(*labels, ids, clusters, limits=(0.0, 1.0))
        people = people_old, people_new
        if not _is_binary(*people, (0.0, 1.0)):
            raise ValueError("labels are 0 or 1, one for each question and release")

    # The policy: the margin, the further conditions, and coverage
    kind: RuleKind = "difference" if people is None else "people"
    further = [parse_rule(rule) for rule in rules]
    policy = Policy((PolicyRule(kind, FIELD, ALL, -margin or 0.0), *further, PolicyRule("coverage", "", ALL, COVERAGE)))
    # What nobody could meet, or everybody, decides nothing
    for rule in policy.rules:
        problem = range_problem(rule, low, high)
        if rule.field not in (FIELD, "") or rule.slice != ALL:
            problem = f"the scores are called {FIELD}, and have no slices"
        if problem or margin < 0:
            raise ValueError(f"{rule.text}: {problem or 'write the loss that is accepted, 0 or more'}")

    # The evidence: what the old release has a score of, the new one must have as well
    comparable = np.isfinite(old_scores)
    unanswered = comparable & ~np.isfinite(new_scores)
    column = PairedScores(
        old_scores,
        new_scores,
        _is_binary(old_scores, new_scores, (low, high)),
        low=low,
        high=high,
        unanswered={"missing": unanswered},
        labels=people,
    )
    n = int(comparable.sum())
    n_missing = int(unanswered.sum())
    coverage = Coverage(names[0], n, n), Coverage(names[1], n, n - n_missing, {"missing": n_missing})
    evidence = Evidence(*names, {(FIELD, ALL): column}, {FIELD: coverage}, clusters=codes, bases={FIELD: "given"})
    return apply_policy(policy, evidence)


def compare(
    old: npt.ArrayLike,
    new: npt.ArrayLike,
    *,
    clusters: Clusters = None,
    ids: Ids = None,
    low: float = 0.0,
    high: float = 1.0,
    level: float = LEVEL,
) -> PairedDifference:
    """The difference of the mean scores of two releases, with its interval and its p-value (`paired_difference`).

    Args:
        old: (rows,): as in `gate`; rows without a number in either release do not count.
        level: of the interval, 0 to 1.

    Raises:
        ValueError: as `gate`; or no row has a number in both releases.

    >>> result = compare([0.2, 0.4, 0.6], [0.6, 0.4, 0.9], ids=(["a", "b", "c"], ["c", "b", "a"]))
    >>> round(result.difference, 3)
    0.233
    """
    old_scores, new_scores, codes, binary = _in_both(old, new, ids, clusters, limits=(low, high))
    return paired_difference(old_scores, new_scores, binary=binary, clusters=codes, span=high - low, level=level)


def rows_needed(
    old: npt.ArrayLike, new: npt.ArrayLike, *, margin: float, clusters: Clusters = None, low: float = 0.0,
    high: float = 1.0,
) -> int | None:  # fmt: skip
    """About how many rows like these a release that is equally good would pass with, with a power of 80 %.

    Args:
        old: (rows,): scores of a first try, and `new`: likewise; how often they differ is what counts.
        margin: as in `gate`.

    Returns:
        None for a margin of 0, or if ten million rows would not do.

    Raises:
        ValueError: as `compare`.

    >>> old, new = np.repeat([1, 0], [40, 10]), np.repeat([0, 1, 0], [2, 40, 8])
    >>> round(rows_needed(old, new, margin=0.05), -2)
    300
    """
    old_scores, new_scores, codes, binary = _in_both(old, new, None, clusters, limits=(low, high))
    return needed_to_pass(new_scores - old_scores, codes, -margin, 0.0, binary=binary, bounds=(low - high, high - low))


def _in_both(
    old: npt.ArrayLike, new: npt.ArrayLike, ids: Ids, clusters: Clusters, limits: tuple[float, float]
) -> tuple[Floats, Floats, Codes | None, bool]:
    """The scores of the questions that have a number in both releases, with the codes of their clusters, and whether
    all are 0 or 1.

    Raises:
        ValueError: as `_paired`; or there are none.
    """
    old_scores, new_scores, codes = _paired(old, new, ids, clusters, limits=limits)
    # A pair with a number in one release only says nothing about the difference
    in_both = np.isfinite(old_scores) & np.isfinite(new_scores)
    if not in_both.any():
        raise ValueError("no row has a number in both releases")
    codes = None if codes is None else codes_of(codes[in_both].tolist(), int(in_both.sum()))
    return old_scores[in_both], new_scores[in_both], codes, _is_binary(old_scores, new_scores, limits)


def _paired(
    old: npt.ArrayLike, new: npt.ArrayLike, ids: Ids, clusters: Clusters, limits: tuple[float, float]
) -> tuple[Floats, Floats, Codes | None]:
    """The scores of both releases by question, NaN where there is none, and the codes of the questions' clusters."""
    old_scores = np.asarray(old, np.float64)
    new_scores = np.asarray(new, np.float64)
    low, high = limits
    for scores in (old_scores, new_scores):
        outside = scores[np.isfinite(scores) & ((scores < low) | (scores > high))]
        if len(outside):
            raise ValueError(f"the score {outside[0]:g} is not {low:g} to {high:g}; name the range: low=, high=")
    old_ids, new_ids = ids or (range(len(old_scores)), range(len(old_scores)))
    cluster_of_row = None if clusters is None else list(clusters)
    if (
        len(old_ids) != len(old_scores)
        or len(new_ids) != len(new_scores)
        or (cluster_of_row is not None and len(cluster_of_row) != len(old_scores))
    ):
        raise ValueError(f"{len(old_scores)} and {len(new_scores)} rows; give ids or clusters of as many")

    # A question is what has an id in the old release; its cluster is that of its first row
    row_of_id: dict[Hashable, int] = {}
    for row, id_ in enumerate(old_ids):
        row_of_id.setdefault(id_, row)
    codes = None
    if cluster_of_row is not None:
        codes = codes_of([cluster_of_row[row] for row in row_of_id.values()], len(row_of_id))
    return _by_id(row_of_id, old_ids, old_scores), _by_id(row_of_id, new_ids, new_scores), codes


def _by_id(questions: Iterable[Hashable], ids: Sequence[Hashable], scores: Floats) -> Floats:
    """The mean score of each question, from the rows with its id that have a number; NaN if none has."""
    scores_of_id: dict[Hashable, list[float]] = {}
    for id_, score in zip(ids, scores.tolist(), strict=True):
        if np.isfinite(score):
            scores_of_id.setdefault(id_, []).append(score)
    means = {id_: mean(np.array(answers)) for id_, answers in scores_of_id.items()}
    return np.array([means.get(id_, np.nan) for id_ in questions])


def _is_binary(old: Floats, new: Floats, limits: tuple[float, float]) -> bool:
    """Whether all scores are 0 or 1, and can be nothing else that a missing one would count as."""
    scores = np.concatenate([old, new])
    return limits == (0.0, 1.0) and bool(np.isin(scores[np.isfinite(scores)], (0.0, 1.0)).all())
