"""The gate on counts of right answers alone: `47/50`, or `41/50` and `47/50`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from answerkey.metrics_core.decide.evidence import Basis, Evidence, PairedScores
from answerkey.metrics_core.decide.policy import ALL, Policy, PolicyRule
from answerkey.metrics_core.decide.verdict import apply_policy
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.policy_file import check_ranges
from answerkey.tasks.gate.verdicts import ReleaseVerdict

_FIELD = "given.right"
_BASES: Mapping[str, Basis] = {_FIELD: "given"}
_PAIRS_TELL_MORE = (
    "The counts are taken as those of different questions. If both releases answered the same ones, pairs tell more: "
    "gate a file with the columns id, old, new."
)
_COUNT = re.compile(r"(\d{1,7})/(\d{1,7})")


def counts_in(*texts: str) -> list[tuple[int, int]]:
    """Return each text of the form RIGHT/ALL as two numbers; nothing if one of them has another form.

    Raises:
        UserError: more are right than there are, or there are fewer than two.

    >>> counts_in("41/50", "47/50"), counts_in("faq/gpt-4", "47/50")
    ([(41, 50), (47, 50)], [])
    """
    # As long as one text is the name of a release, these are no counts
    matches = [match for text in texts if (match := _COUNT.fullmatch(text))]
    if len(matches) < len(texts):
        return []
    counts = [(int(match[1]), int(match[2])) for match in matches]
    for n_right, n in counts:
        if n_right > n or n < 2:
            raise UserError(f"{n_right}/{n}: write how many of how many answers were right, for instance 47/50")
    return counts


def decide_counts(counts: Sequence[tuple[int, int]], *, margin: float | None, level: float | None) -> ReleaseVerdict:
    """Decide on the share of right answers of one release, or on the difference of two that share no question.

    Args:
        counts: right answers and all answers, of the old release, if there is one, and of the new one.
        margin: the loss of the share that is accepted, for two; `level`: the share that must be reached, for one.

    Raises:
        UserError: there is no limit, or one that cannot be met or broken.
    """
    *old, new = counts
    names = [f"{n_right}/{n}" for n_right, n in counts]
    limit, excluded = (margin, level) if old else (level, margin)
    if limit is None or limit < 0 or excluded is not None:
        option = "--margin X, the largest loss" if old else "--level X, the lowest share"
        raise UserError(f"{' '.join(names)}: give {option} of right answers that you accept, and no other limit")

    # Two counts are of different questions, so nothing is paired; one is decided as its answers would be
    sides = "".join(names[:-1]), names[-1]
    if old:
        rule = PolicyRule("difference", _FIELD, ALL, -limit if limit else 0.0)
        evidence = Evidence(*sides, {}, {}, notes=(_PAIRS_TELL_MORE,), bases=_BASES, counts=(old[0], new))
    else:
        rule = PolicyRule("level", _FIELD, ALL, limit)
        scores = np.repeat([1.0, 0.0], [new[0], new[1] - new[0]])
        evidence = Evidence(*sides, {(_FIELD, ALL): PairedScores(scores, scores, binary=True)}, {}, bases=_BASES)

    policy = Policy((rule,))
    check_ranges(policy, {_FIELD: (0.0, 1.0)})
    return ReleaseVerdict(*sides, policy, apply_policy(policy, evidence))
