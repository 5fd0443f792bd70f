"""Token overlap: clipped (multiset) word overlap, the F1 of SQuAD (Rajpurkar et al. 2016)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from answerkey.metrics_core.metrics.counts import Agreement


def token_overlap(answer: Mapping[str, int], length: int, reference: Sequence[str]) -> Agreement:
    """Overlap of an answer, given as token counts and their sum `length`, with a reference's tokens.

    A token counts as often as it stands in both, so repeating a word neither helps nor hurts an identical
    text.
    """
    used: dict[str, int] = {}
    matched = 0
    for token in reference:
        taken = used.get(token, 0)
        if taken < answer.get(token, 0):
            used[token] = taken + 1
            matched += 1
    return Agreement.of(matched, length, len(reference))
