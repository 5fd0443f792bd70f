"""The features of the model: one row of numbers per answer and reference."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from rapidfuzz import fuzz
from rapidfuzz.distance import LCSseq

from answerkey.metrics_core.offline_judge.alignment import (
    HIT,
    LONG_WORD,
    Alignment,
    align,
    by_chance,
    part_ratio,
    run_alike,
    same_words,
    spelled_alike,
)
from answerkey.metrics_core.offline_judge.reading import Text, read, sentences
from answerkey.metrics_core.offline_judge.rules import Case
from answerkey.metrics_core.offline_judge.stance import declines, hedges, polarity
from answerkey.metrics_core.offline_judge.vocabulary import ALTERNATIVE_WORDS

FAR = 9.0
"""The distance if there is no such number."""


def focus(answer: Text, reference: Text, question: Text) -> Text:
    """The sentence of the answer with the most words of the reference, then of the question; the first of ties.

    >>> focus(read("It is old. Ada wrote it."), read("Ada"), read("Who wrote it?")).raw
    'Ada wrote it.'
    """
    parts = sentences(answer.raw)
    if len(parts) == 1:
        return answer
    wanted, about = frozenset(reference.content_stems), frozenset(question.content_stems)

    def score(part: str) -> float:
        stems = read(part).stem_set
        return len(wanted & stems) / max(1, len(wanted)) + 0.2 * len(about & stems) / max(1, len(about))

    return read(max(parts[:12], key=score))


def features(case: Case, near: Text, words: Mapping[str, float]) -> dict[str, float]:
    """The features that need no other reference, by name.

    Args:
        near: the answer's `focus`.
        words: how rare stems are in training: their inverse document frequency as a share of the greatest one, 0..1;
            1 for stems that are not in it.

    >>> case = Case.of(read("Who wrote it?"), read("It was Ada."), read("Ada Brown"))
    >>> result = features(case, case.head, {"brown": 0.5})
    >>> result["recall"], round(result["recall_idf"], 3)
    (0.5, 0.667)
    """
    aligned = align(case.reference, case.answer, case.question)
    same = near.tokens == case.answer.tokens
    in_near = aligned if same else align(case.reference, near, case.question)
    # The content stems of focus and residue that the reference has, in whatever form.
    again = same_words({*near.content_stems, *case.residue}, case.reference.content_stems)
    known = case.reference.stem_set | case.question.stem_set
    others = [stem for stem in near.said if stem not in known and stem not in again]
    return {
        **_recall(case, aligned, in_near),
        **_rare(case, near, in_near, others, again, words),
        **_extra(case, near, known, again),
        **_numbers(case.reference, case.answer, case.head),
        **_dates(case.reference, case.answer, case.head),
        **_characters(case, near),
        **_form(case, near),
    }


def _share(part: float, of: float) -> float:
    return part / of if of else 1.0


def _hits(aligned: Alignment) -> float:
    matched = len(aligned.matched)
    return 1.0 if aligned.whole else _share(matched, matched + len(aligned.missing))


def _recall(case: Case, aligned: Alignment, in_near: Alignment) -> dict[str, float]:
    return {
        "recall": _hits(aligned),
        "recall_all": 1.0 if aligned.whole else _share(sum(s >= HIT for s in aligned.score), len(aligned.score)),
        "recall_focus": _hits(in_near),
        "given_share": sum(aligned.in_question) / max(1, len(aligned.in_question)),
        "echo": float(case.question.stem_set.issuperset(aligned.stems)),
        "whole": float(aligned.whole),
        "rouge_recall": LCSseq.similarity(case.reference.stems, case.answer.stems) / max(1, len(case.reference.stems)),
    }


def _rare(
    case: Case,
    near: Text,
    in_near: Alignment,
    others: Sequence[str],
    again: frozenset[str],
    words: Mapping[str, float],
) -> dict[str, float]:
    """The rare words of the reference that the focus has or lacks, and the rare words that it has instead: `others`."""

    def weight(stems: Iterable[str]) -> float:
        return sum([words.get(stem, 1.0) for stem in stems])

    def rarest(stems: Iterable[str]) -> float:
        return max([words.get(stem, 1.0) for stem in stems], default=0.0)

    triples = zip(in_near.stems, in_near.score, in_near.in_question, strict=True)
    new = [(stem, score) for stem, score, known in triples if not known]
    of = weight(stem for stem, _ in new)
    stated = sorted(frozenset(near.content_stems).difference(case.question.stems))
    return {
        "recall_idf": 1.0 if in_near.whole else _share(weight(s for s, score in new if score >= HIT), of),
        "soft_idf": 1.0 if in_near.whole else _share(sum(words.get(s, 1.0) * score for s, score in new), of),
        "missing_idf": weight(in_near.missing),
        "missing_idf_rarest": rarest(in_near.missing),
        "found_idf_rarest": rarest(in_near.matched),
        "extra_idf": weight(others),
        "extra_idf_rarest": rarest(others),
        "precision_idf": weight(s for s in stated if s in again) / (weight(stated) or 1.0),
    }


def _extra(case: Case, near: Text, known: frozenset[str], again: frozenset[str]) -> dict[str, float]:
    """The content of the answer beyond question and reference, whose stems are `known`."""
    close = [stem for stem in near.said if stem not in known]
    left, asked, kept = case.residue, case.question.stem_set, case.question.content_stems
    hits = sum([stem in again for stem in left])
    return {
        "extra_focus": math.log1p(len(close)),
        "precision_residue": hits / len(left) if left else 0.0,
        "residue": math.log1p(len(left)),
        "in_question": sum([stem in asked for stem in case.head.stems]) / max(1, len(case.head.stems)),
        "said_focus": (len(near.said) - len(close)) / max(1, len(near.said)),
        "question_kept": sum([stem in near.stem_set for stem in kept]) / max(1, len(kept)),
    }


def _numbers(reference: Text, answer: Text, head: Text) -> dict[str, float]:
    wanted = {n.value for n in reference.numbers}
    stated, stated_head = {n.value for n in answer.numbers}, {n.value for n in head.numbers}
    gaps = [abs(w - s) / max(abs(w), abs(s), 1e-9) for w in wanted for s in stated_head or stated]
    return {
        "numbers_wanted": float(len(wanted)),
        "numbers_found": _share(len(wanted & stated), len(wanted)),
        "numbers_other": math.log1p(len(stated_head - wanted)),
        "number_gap": min(gaps, default=2.0 if wanted else -1.0),
    }


def _dates(reference: Text, answer: Text, head: Text) -> dict[str, float]:
    wanted = reference.dates
    stated = head.dates or answer.dates
    state = 0.0
    if wanted:
        if any(d.covers(w) for w in wanted for d in answer.dates):
            state = 3.0
        elif any(d.agrees(w) for w in wanted for d in answer.dates):
            state = 2.0
        elif answer.dates:
            state = -2.0
        else:
            state = -1.0
    years = [abs(d.year - w.year) for d in stated for w in wanted if d.year is not None and w.year is not None]
    return {
        "date_state": state,
        "date_parts_wanted": float(max((w.parts for w in wanted), default=0)),
        "date_parts_said": float(max((d.parts for d in stated), default=0)),
        "year_gap": math.log1p(min(years)) if years else FAR if wanted else -1.0,
        "dates_said": float(min(len(stated), 5)),
    }


def _characters(case: Case, near: Text) -> dict[str, float]:
    wanted, close = " ".join(case.reference.tokens), " ".join(near.tokens)
    part = part_ratio(wanted, close) / 100 if len(close) >= len(wanted) else fuzz.ratio(wanted, close) / 100
    if part == 1 and f" {wanted} " not in f" {close} " and _by_chance(case.reference, near):
        # The letters of the reference stand within longer words
        part = spelled_alike(case.reference.tokens, near.tokens)
    return {
        "characters_part": part,
        "characters_tokens": fuzz.token_set_ratio(wanted, close) / 100,
        "characters_residue": run_alike(case.reference.content_stems, case.residue),
    }


def _by_chance(reference: Text, near: Text) -> bool:
    """Whether letters in common may be of other words: long words are rather glued to others, where a blank is lost."""
    if len(reference.tokens) == 1:
        return any(by_chance(reference.tokens[0], word) for word in near.tokens)
    letters = "".join(reference.tokens)
    return len(letters) < LONG_WORD or any(map(str.isdigit, letters))


def _form(case: Case, near: Text) -> dict[str, float]:
    return {
        "length_answer": math.log1p(len(case.answer.tokens)),
        "length_reference": math.log1p(len(case.reference.tokens)),
        "sentences": math.log1p(len(sentences(case.answer.raw))),
        "negation": float(near.negated != case.reference.negated),
        "hedge": float(hedges(near.normal) or hedges(case.head.normal)),
        "refusal": float(declines(case.answer, case.question)),
        "polarity": float(polarity(case.reference, case.answer, case.question)),
        "alternatives": float(bool(ALTERNATIVE_WORDS & set(near.tokens))),
    }
