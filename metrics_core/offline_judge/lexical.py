"""Features of words, numbers and dates of one answer against one reference."""

from __future__ import annotations

import math

from rapidfuzz import fuzz
from rapidfuzz.distance import LCSseq

from answerkey.metrics_core.offline_judge.alignment import HIT, Alignment, align, alike
from answerkey.metrics_core.offline_judge.case import Case
from answerkey.metrics_core.offline_judge.kinds import asked, kind_of
from answerkey.metrics_core.offline_judge.reading import Text, read, sentences
from answerkey.metrics_core.offline_judge.stance import declines, hedges, polarity
from answerkey.metrics_core.offline_judge.vocabulary import ALTERNATIVE_WORDS, PLACE_OR_KIND, TITLES

FAR = 9.0
"""Stands for "no such number" in distances."""


def focus(answer: Text, reference: Text, question: Text) -> Text:
    """The sentence of the answer that speaks most of the reference, then of the question; the first of equals."""
    parts = sentences(answer.raw)
    if len(parts) == 1:
        return answer
    wanted, about = frozenset(reference.content_stems), frozenset(question.content_stems)

    def score(part: str) -> float:
        stems = frozenset(read(part).stems)
        return len(wanted & stems) / max(1, len(wanted)) + 0.2 * len(about & stems) / max(1, len(about))

    return read(max(parts[:12], key=score))


def features(case: Case, near: Text) -> dict[str, float]:
    """Everything that is seen without embeddings. `near` is the answer's `focus`."""
    aligned = align(case.reference, case.answer, case.question)
    return {
        **_recall(case, aligned, near),
        **_missing(case, aligned),
        **_extra(case, near),
        **_numbers(case.reference, case.answer, case.head),
        **_dates(case.reference, case.answer, case.head),
        **_characters(case, near),
        **_form(case, near),
        **_asked(case),
    }


def _share(found: float, of: float) -> float:
    return found / of if of else 1.0


def _hits(reference: Text, text: Text, question: Text) -> float:
    aligned = align(reference, text, question)
    found = len(aligned.found)
    return 1.0 if aligned.whole else _share(found, found + len(aligned.missing))


def rarity(stem: str) -> float:
    """How much a word tells, roughly: long words and numbers more than short ones. 0.3..1.6."""
    if any(map(str.isdigit, stem)):
        return 1.3
    return min(1.6, 0.2 + 0.15 * len(stem)) if stem not in PLACE_OR_KIND and stem not in TITLES else 0.3


def _recall(case: Case, aligned: Alignment, near: Text) -> dict[str, float]:
    triples = list(zip(aligned.stems, aligned.score, aligned.given, strict=True))
    new = [(stem, score) for stem, score, given in triples if not given]
    weight = sum(rarity(stem) for stem, _ in new)
    places = [at for at, score in zip(aligned.where, aligned.score, strict=True) if at >= 0 and score >= HIT]
    found = len(aligned.found)
    return {
        "recall": 1.0 if aligned.whole else _share(found, found + len(aligned.missing)),
        "recall_rare": 1.0 if aligned.whole else _share(
            sum(rarity(s) for s, score in new if score >= HIT), weight),
        "recall_soft": 1.0 if aligned.whole else _share(sum(rarity(s) * score for s, score in new), weight),
        "recall_all": 1.0 if aligned.whole else _share(sum(s >= HIT for s in aligned.score), len(aligned.score)),
        "recall_head": _hits(case.reference, case.head, case.question),
        "recall_focus": _hits(case.reference, near, case.question),
        "first_hit": aligned.score[0] if aligned.score else 0.0,
        "last_hit": aligned.score[-1] if aligned.score else 0.0,
        "given_share": sum(aligned.given) / max(1, len(aligned.given)),
        "echo": float(frozenset(aligned.stems) <= frozenset(case.question.stems)),
        "spread": math.log1p(max(0, max(places) - min(places) + 1 - len(places))) if places else 0.0,
        "place": math.log1p(min(places)) if places else FAR,
        "whole": float(aligned.whole),
        "rouge_recall": LCSseq.similarity(case.reference.stems, case.answer.stems) / max(1, len(case.reference.stems)),
    }  # fmt: skip


def _missing(case: Case, aligned: Alignment) -> dict[str, float]:
    missing = aligned.missing
    names = case.reference.names
    return {
        "missing": float(len(missing)),
        "missing_rarest": max(map(rarity, missing), default=0.0),
        "missing_numbers": float(sum(any(map(str.isdigit, stem)) for stem in missing)),
        "missing_names": float(sum(stem in names for stem in missing)),
        "missing_kinds": float(sum(stem in PLACE_OR_KIND or stem in TITLES for stem in missing)),
        "missing_short": float(sum(len(stem) <= 2 for stem in missing)),
        "found_rarest": max(map(rarity, aligned.found), default=0.0),
    }


def _extra(case: Case, near: Text) -> dict[str, float]:
    """What the answer says beyond question and reference."""
    known = frozenset(case.reference.stems) | frozenset(case.question.stems)

    def beyond(text: Text) -> list[str]:
        return [s for s in (text.stems[i] for i in text.content) if s not in known]

    head, close = beyond(case.head), beyond(near)
    wanted = case.reference.content_stems
    left = case.residue
    hits = sum(any(alike(s, w) >= HIT for w in wanted) for s in left)
    return {
        "extra_head": math.log1p(len(head)),
        "extra_focus": math.log1p(len(close)),
        "extra_names_head": float(len([s for s in set(head) if s in case.head.names])),
        "extra_names_focus": float(len([s for s in set(close) if s in near.names])),
        "precision_residue": hits / len(left) if left else 0.0,
        "residue": math.log1p(len(left)),
        "in_question": sum(s in case.question.stems for s in case.head.stems) / max(1, len(case.head.stems)),
        "question_kept": sum(s in near.stems for s in case.question.content_stems)
        / max(1, len(case.question.content_stems)),
    }


def _numbers(reference: Text, answer: Text, head: Text) -> dict[str, float]:
    wanted = {n.value for n in reference.numbers}
    said, said_head = {n.value for n in answer.numbers}, {n.value for n in head.numbers}
    gaps = [abs(w - s) / max(abs(w), abs(s), 1e-9) for w in wanted for s in said_head or said]
    return {
        "numbers_wanted": float(len(wanted)),
        "numbers_found": _share(len(wanted & said), len(wanted)),
        "numbers_found_head": _share(len(wanted & said_head), len(wanted)),
        "numbers_other": math.log1p(len(said_head - wanted)),
        "number_gap": min(gaps, default=2.0 if wanted else -1.0),
    }


def _dates(reference: Text, answer: Text, head: Text) -> dict[str, float]:
    wanted = reference.dates
    said = head.dates or answer.dates
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
    years = [abs(d.year - w.year) for d in said for w in wanted if d.year is not None and w.year is not None]
    return {
        "date_state": state,
        "date_head": float(any(d.agrees(w) for w in wanted for d in head.dates)) if wanted else -1.0,
        "date_parts_wanted": float(max((w.parts for w in wanted), default=0)),
        "date_parts_said": float(max((d.parts for d in said), default=0)),
        "year_gap": math.log1p(min(years)) if years else FAR if wanted else -1.0,
        "dates_said": float(min(len(said), 5)),
    }


def _characters(case: Case, near: Text) -> dict[str, float]:
    wanted = " ".join(case.reference.tokens)
    head, close, left = " ".join(case.head.tokens), " ".join(near.tokens), " ".join(case.residue)
    return {
        "characters_head": fuzz.ratio(wanted, head) / 100,
        "characters_part": fuzz.partial_ratio(wanted, close) / 100 if len(close) >= len(wanted) else fuzz.ratio(
            wanted, close) / 100,
        "characters_tokens": fuzz.token_set_ratio(wanted, close) / 100,
        "characters_residue": fuzz.ratio(" ".join(case.reference.content_stems), left) / 100,
    }  # fmt: skip


def _form(case: Case, near: Text) -> dict[str, float]:
    return {
        "length_answer": math.log1p(len(case.answer.tokens)),
        "length_head": math.log1p(len(case.head.tokens)),
        "length_reference": math.log1p(len(case.reference.tokens)),
        "sentences": math.log1p(len(sentences(case.answer.raw))),
        "negation": float(near.negated != case.reference.negated),
        "hedge": float(hedges(near.normal) or hedges(case.head.normal)),
        "refusal": float(declines(case.answer, case.question)),
        "polarity": float(polarity(case.reference, case.answer, case.question)),
        "alternatives": float(bool(ALTERNATIVE_WORDS & set(near.tokens))),
    }


def _asked(case: Case) -> dict[str, float]:
    kind, of = asked(case.question), kind_of(case.reference)
    found = {f"asks_{name}": float(kind == name) for name in ("who", "when", "where", "how_many", "why", "closed")}
    found |= {f"reference_{name}": float(of == name) for name in ("date", "number", "name")}
    return found
