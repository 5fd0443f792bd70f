"""Contains: the words of a reference stand in the answer in one piece."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from answerkey.metrics_core.measurement import Outcome, Scored
from answerkey.metrics_core.metric import NO_REFERENCE
from answerkey.metrics_core.metrics._lexical import (
    MATCH,
    References,
    WordMetric,
    Words,
    identical,
    matched,
)
from answerkey.metrics_core.sample import Sample
from answerkey.metrics_core.text import TOKENIZER_ID, is_blank, normalise, reference_words


@dataclass(frozen=True)
class Contains(WordMetric):
    """1 where a reference's words stand in the answer one after another, as whole words.

    >>> from answerkey.metrics_core import Sample
    >>> Contains().measure([Sample("1", "It is Paris.", ["Paris"])])[0].values
    {'match': 1.0}
    """

    name = "contains"
    summary = "the words of a reference stand in the answer in one piece"
    fields = MATCH
    method = f"tok:{TOKENIZER_ID}|refs:any"

    def of_words(self, sample: Sample, answer: Words) -> Outcome:
        """The answer's words against those of each reference."""
        line = f" {' '.join(answer)} "
        usable, found = False, []
        for place, text in enumerate(sample.references):
            expected = _reference_line(text)
            if expected is not None:
                usable = True
                if expected and expected in line:
                    found.append(place)
        if len(found) > 1:
            same = identical(normalise(sample.answer or ""), [(place, sample.references[place]) for place in found])
            return matched(found[0] if same is None else same)
        return matched(found[0] if found else None) if usable else NO_REFERENCE

    def compare(self, answer: str, references: References) -> Scored:
        """An answer without words: it equals a reference, or contains none."""
        return matched(identical(normalise(answer), references))


@lru_cache(maxsize=16_384)
def _reference_line(text: str) -> str | None:
    """The words with a space around each; nothing where there is none, None for a blank text."""
    cut = reference_words(text)
    return f" {' '.join(cut)} " if cut else None if is_blank(text) else ""
