"""The features of the model: one row of numbers per answer and reference."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

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
    expected = frozenset(reference.content_stems)
    question_stems = frozenset(question.content_stems)
    scores = []
    for part in parts[:_MAX_SENTENCES]:
        stems = read(part).stem_set
        of_reference = len(expected & stems) / max(1, len(expected))
        scores.append(of_reference + 0.2 * len(question_stems & stems) / max(1, len(question_stems)))
    return read(parts[scores.index(max(scores))])


_MAX_SENTENCES = 12


def features(case: Case, focus: Text, words: Mapping[str, float]) -> dict[str, float]:
    """The features that need no other reference, by name.

    Args:
        focus: that of the answer.
        words: how rare stems are in training: their inverse document frequency as a share of the greatest one, 0..1;
            1 for stems that are not in it.

    >>> case = Case.of(read("Who wrote it?"), read("It was Ada."), read("Ada Brown"))
    >>> result = features(case, case.head, {"brown": 0.5})
    >>> result["recall"], round(result["recall_idf"], 3)
    (0.5, 0.667)
    """
    aligned = align(case.reference, case.answer, case.question)
    in_focus = aligned
    if focus.tokens != case.answer.tokens:
        in_focus = align(case.reference, focus, case.question)
    # The content stems of focus and residue that the reference has, in whatever form
    recovered = same_words({*focus.content_stems, *case.residue}, case.reference.content_stems)
    expected_stems = case.reference.stem_set | case.question.stem_set
    added_stems = [stem for stem in focus.said if stem not in expected_stems]
    return {
        **_recall(case, aligned, in_focus),
        **_rare(case, focus, in_focus, words, added_stems=added_stems, recovered=recovered),
        **_extra(case, focus, added_stems, recovered),
        **_numbers(case.reference, case.answer, case.head),
        **_dates(case.reference, case.answer, case.head),
        **_characters(case, focus),
        **_form(case, focus),
    }


def _share(part: float, total: float) -> float:
    return part / total if total else 1.0


def _hits(aligned: Alignment) -> float:
    matched = len(aligned.matched)
    return 1.0 if aligned.whole else _share(matched, matched + len(aligned.missing))


def _recall(case: Case, aligned: Alignment, in_focus: Alignment) -> dict[str, float]:
    hits = [score >= HIT for score in aligned.score]
    reference_stems = case.reference.stems
    return {
        "recall": _hits(aligned),
        "recall_all": 1.0 if aligned.whole else _share(sum(hits), len(hits)),
        "recall_focus": _hits(in_focus),
        "given_share": sum(aligned.in_question) / max(1, len(aligned.in_question)),
        "echo": float(case.question.stem_set.issuperset(aligned.stems)),
        "whole": float(aligned.whole),
        "rouge_recall": LCSseq.similarity(reference_stems, case.answer.stems) / max(1, len(reference_stems)),
    }


def _rare(
    case: Case,
    focus: Text,
    in_focus: Alignment,
    words: Mapping[str, float],
    *,
    added_stems: Sequence[str],
    recovered: frozenset[str],
) -> dict[str, float]:
    """The rare words of the reference that the focus has or lacks, and the rare words that it has instead."""

    def weights(stems: Iterable[str]) -> list[float]:
        return [words.get(stem, 1.0) for stem in stems]

    # The words of the reference that the question does not give
    triples = zip(weights(in_focus.stems), in_focus.score, in_focus.in_question, strict=True)
    expected = [(weight, score) for weight, score, in_question in triples if not in_question]
    total = sum(weight for weight, _ in expected)
    recall = 1.0
    soft_recall = 1.0
    if not in_focus.whole:
        recall = _share(sum(weight for weight, score in expected if score >= HIT), total)
        soft_recall = _share(sum(weight * score for weight, score in expected), total)

    missing = weights(in_focus.missing)
    extra = weights(stem for stem in added_stems if stem not in recovered)
    stated = sorted(frozenset(focus.content_stems).difference(case.question.stems))
    confirmed = weights(stem for stem in stated if stem in recovered)
    return {
        "recall_idf": recall,
        "soft_idf": soft_recall,
        "missing_idf": sum(missing),
        "missing_idf_rarest": max(missing, default=0.0),
        "found_idf_rarest": max(weights(in_focus.matched), default=0.0),
        "extra_idf": sum(extra),
        "extra_idf_rarest": max(extra, default=0.0),
        "precision_idf": sum(confirmed) / (sum(weights(stated)) or 1.0),
    }


def _extra(case: Case, focus: Text, added_stems: Sequence[str], recovered: frozenset[str]) -> dict[str, float]:
    """The content of the answer beyond question and reference."""
    residue = case.residue
    question_stems = case.question.stem_set
    question_content = case.question.content_stems
    head_stems = case.head.stems
    n_hits = sum([stem in recovered for stem in residue])
    return {
        "extra_focus": math.log1p(len(added_stems)),
        "precision_residue": n_hits / len(residue) if residue else 0.0,
        "residue": math.log1p(len(residue)),
        "in_question": sum([stem in question_stems for stem in head_stems]) / max(1, len(head_stems)),
        "said_focus": (len(focus.said) - len(added_stems)) / max(1, len(focus.said)),
        "question_kept": sum([stem in focus.stem_set for stem in question_content]) / max(1, len(question_content)),
    }


def _numbers(reference: Text, answer: Text, head: Text) -> dict[str, float]:
    expected = {number.value for number in reference.numbers}
    stated = {number.value for number in answer.numbers}
    stated_first = {number.value for number in head.numbers}
    gaps = []
    for expected_value, stated_value in product(expected, stated_first or stated):
        larger = max(abs(expected_value), abs(stated_value), 1e-9)
        gaps.append(abs(expected_value - stated_value) / larger)
    return {
        "numbers_wanted": float(len(expected)),
        "numbers_found": _share(len(expected & stated), len(expected)),
        "numbers_other": math.log1p(len(stated_first - expected)),
        "number_gap": min(gaps, default=2.0 if expected else -1.0),
    }


def _dates(reference: Text, answer: Text, head: Text) -> dict[str, float]:
    expected = reference.dates
    stated = head.dates or answer.dates
    pairs = list(product(expected, answer.dates))
    if not expected:
        state = 0.0
    elif not answer.dates:
        state = -1.0
    elif any(stated_date.covers(expected_date) for expected_date, stated_date in pairs):
        state = 3.0
    elif any(stated_date.agrees(expected_date) for expected_date, stated_date in pairs):
        state = 2.0
    else:
        state = -2.0

    year_gap = FAR if expected else -1.0
    expected_years = [date.year for date in expected if date.year is not None]
    stated_years = [date.year for date in stated if date.year is not None]
    if expected_years and stated_years:
        year_gap = math.log1p(min(abs(year - expected) for expected, year in product(expected_years, stated_years)))
    return {
        "date_state": state,
        "date_parts_wanted": float(max((date.parts for date in expected), default=0)),
        "date_parts_said": float(max((date.parts for date in stated), default=0)),
        "year_gap": year_gap,
        "dates_said": float(min(len(stated), 5)),
    }


def _characters(case: Case, focus: Text) -> dict[str, float]:
    tokens = case.reference.tokens
    reference = " ".join(tokens)
    nearest = " ".join(focus.tokens)
    compare = part_ratio if len(nearest) >= len(reference) else fuzz.ratio
    part = compare(reference, nearest) / 100
    if part == 1 and f" {reference} " not in f" {nearest} ":
        # The letters of the reference stand within longer words, by chance if they are few. Long words are rather
        # glued to others, where a blank is lost.
        letters = "".join(tokens)
        is_chance = len(letters) < LONG_WORD or any(map(str.isdigit, letters))
        if len(tokens) == 1:
            is_chance = any(by_chance(letters, word) for word in focus.tokens)
        if is_chance:
            part = spelled_alike(tokens, focus.tokens)
    return {
        "characters_part": part,
        "characters_tokens": fuzz.token_set_ratio(reference, nearest) / 100,
        "characters_residue": run_alike(case.reference.content_stems, case.residue),
    }


def _form(case: Case, focus: Text) -> dict[str, float]:
    return {
        "length_answer": math.log1p(len(case.answer.tokens)),
        "length_reference": math.log1p(len(case.reference.tokens)),
        "sentences": math.log1p(len(sentences(case.answer.raw))),
        "negation": float(focus.negated != case.reference.negated),
        "hedge": float(hedges(focus.normal) or hedges(case.head.normal)),
        "refusal": float(declines(case.answer, case.question)),
        "polarity": float(polarity(case.reference, case.answer, case.question)),
        "alternatives": float(bool(ALTERNATIVE_WORDS & set(focus.tokens))),
    }
