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
    is_whole_answer = focus.tokens == case.answer.tokens
    in_focus = aligned if is_whole_answer else align(case.reference, focus, case.question)
    # The content stems of focus and residue that the reference has, in whatever form.
    recovered = same_words({*focus.content_stems, *case.residue}, case.reference.content_stems)
    known_stems = case.reference.stem_set | case.question.stem_set
    extra_stems = [stem for stem in focus.said if stem not in known_stems and stem not in recovered]
    return {
        **_recall(case, aligned, in_focus),
        **_rare(case, focus, in_focus, extra_stems, recovered, words),
        **_extra(case, focus, known_stems, recovered),
        **_numbers(case.reference, case.answer, case.head),
        **_dates(case.reference, case.answer, case.head),
        **_characters(case, focus),
        **_form(case, focus),
    }


def _share(part: float, of: float) -> float:
    return part / of if of else 1.0


def _hits(aligned: Alignment) -> float:
    matched = len(aligned.matched)
    return 1.0 if aligned.whole else _share(matched, matched + len(aligned.missing))


def _recall(case: Case, aligned: Alignment, in_focus: Alignment) -> dict[str, float]:
    return {
        "recall": _hits(aligned),
        "recall_all": 1.0 if aligned.whole else _share(sum(s >= HIT for s in aligned.score), len(aligned.score)),
        "recall_focus": _hits(in_focus),
        "given_share": sum(aligned.in_question) / max(1, len(aligned.in_question)),
        "echo": float(case.question.stem_set.issuperset(aligned.stems)),
        "whole": float(aligned.whole),
        "rouge_recall": LCSseq.similarity(case.reference.stems, case.answer.stems) / max(1, len(case.reference.stems)),
    }


def _rare(
    case: Case,
    focus: Text,
    in_focus: Alignment,
    extra_stems: Sequence[str],
    recovered: frozenset[str],
    words: Mapping[str, float],
) -> dict[str, float]:
    """The rare words of the reference that the focus has or lacks, and the rare words that it has instead: `others`."""

    def weight(stems: Iterable[str]) -> float:
        return sum([words.get(stem, 1.0) for stem in stems])

    def rarest(stems: Iterable[str]) -> float:
        return max([words.get(stem, 1.0) for stem in stems], default=0.0)

    triples = zip(in_focus.stems, in_focus.score, in_focus.in_question, strict=True)
    not_in_question = [(stem, score) for stem, score, known in triples if not known]
    total = weight(stem for stem, _ in not_in_question)
    stated = sorted(frozenset(focus.content_stems).difference(case.question.stems))
    return {
        "recall_idf": 1.0
        if in_focus.whole
        else _share(weight(s for s, score in not_in_question if score >= HIT), total),
        "soft_idf": 1.0
        if in_focus.whole
        else _share(sum(words.get(s, 1.0) * score for s, score in not_in_question), total),
        "missing_idf": weight(in_focus.missing),
        "missing_idf_rarest": rarest(in_focus.missing),
        "found_idf_rarest": rarest(in_focus.matched),
        "extra_idf": weight(extra_stems),
        "extra_idf_rarest": rarest(extra_stems),
        "precision_idf": weight(s for s in stated if s in recovered) / (weight(stated) or 1.0),
    }


def _extra(case: Case, focus: Text, known_stems: frozenset[str], recovered: frozenset[str]) -> dict[str, float]:
    """The content of the answer beyond question and reference, whose stems are `known`."""
    close = [stem for stem in focus.said if stem not in known_stems]
    residue, question_stems, question_content = case.residue, case.question.stem_set, case.question.content_stems
    hits = sum([stem in recovered for stem in residue])
    return {
        "extra_focus": math.log1p(len(close)),
        "precision_residue": hits / len(residue) if residue else 0.0,
        "residue": math.log1p(len(residue)),
        "in_question": sum([stem in question_stems for stem in case.head.stems]) / max(1, len(case.head.stems)),
        "said_focus": (len(focus.said) - len(close)) / max(1, len(focus.said)),
        "question_kept": sum([stem in focus.stem_set for stem in question_content]) / max(1, len(question_content)),
    }


def _numbers(reference: Text, answer: Text, head: Text) -> dict[str, float]:
    expected = {n.value for n in reference.numbers}
    stated, stated_head = {n.value for n in answer.numbers}, {n.value for n in head.numbers}
    gaps = [
        abs(expected_value - stated_value) / max(abs(expected_value), abs(stated_value), 1e-9)
        for expected_value in expected
        for stated_value in stated_head or stated
    ]
    return {
        "numbers_wanted": float(len(expected)),
        "numbers_found": _share(len(expected & stated), len(expected)),
        "numbers_other": math.log1p(len(stated_head - expected)),
        "number_gap": min(gaps, default=2.0 if expected else -1.0),
    }


def _dates(reference: Text, answer: Text, head: Text) -> dict[str, float]:
    expected = reference.dates
    stated = head.dates or answer.dates
    state = 0.0
    if expected:
        if any(stated_date.covers(expected_date) for expected_date in expected for stated_date in answer.dates):
            state = 3.0
        elif any(stated_date.agrees(expected_date) for expected_date in expected for stated_date in answer.dates):
            state = 2.0
        elif answer.dates:
            state = -2.0
        else:
            state = -1.0
    years = [
        abs(stated_date.year - expected_date.year)
        for stated_date in stated
        for expected_date in expected
        if stated_date.year is not None and expected_date.year is not None
    ]
    return {
        "date_state": state,
        "date_parts_wanted": float(max((expected_date.parts for expected_date in expected), default=0)),
        "date_parts_said": float(max((stated_date.parts for stated_date in stated), default=0)),
        "year_gap": math.log1p(min(years)) if years else FAR if expected else -1.0,
        "dates_said": float(min(len(stated), 5)),
    }


def _characters(case: Case, focus: Text) -> dict[str, float]:
    reference, nearest = " ".join(case.reference.tokens), " ".join(focus.tokens)
    part = (
        part_ratio(reference, nearest) / 100 if len(nearest) >= len(reference) else fuzz.ratio(reference, nearest) / 100
    )
    if part == 1 and f" {reference} " not in f" {nearest} " and _by_chance(case.reference, focus):
        # The letters of the reference stand within longer words
        part = spelled_alike(case.reference.tokens, focus.tokens)
    return {
        "characters_part": part,
        "characters_tokens": fuzz.token_set_ratio(reference, nearest) / 100,
        "characters_residue": run_alike(case.reference.content_stems, case.residue),
    }


def _by_chance(reference: Text, focus: Text) -> bool:
    """Whether letters in common may be of other words: long words are rather glued to others, where a blank is lost."""
    if len(reference.tokens) == 1:
        return any(by_chance(reference.tokens[0], word) for word in focus.tokens)
    letters = "".join(reference.tokens)
    return len(letters) < LONG_WORD or any(map(str.isdigit, letters))


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
