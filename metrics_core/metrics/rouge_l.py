"""ROUGE-L: the longest common subsequence of word tokens (Lin 2004, sentence level, beta = 1)."""

from __future__ import annotations

from collections.abc import Sequence

from rapidfuzz.distance import LCSseq

from answerkey.metrics_core.metrics.counts import Agreement


def rouge_l(answer: Sequence[str], reference: Sequence[str]) -> Agreement:
    """ROUGE-L of two token sequences. Linear in memory; equal to rouge-score's on the same tokens."""
    return Agreement.of(LCSseq.similarity(answer, reference), len(answer), len(reference))
