"""The features of the model: one row of numbers per answer and reference."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from rapidfuzz import fuzz
from rapidfuzz.distance import LCSseq

from answerkey.metrics_core.embeddings.cache import EmbeddingCache
from answerkey.metrics_core.embeddings.embed import embed
from answerkey.metrics_core.embeddings.encoder import Embedded, Vector
from answerkey.metrics_core.embeddings.models import load_encoder
from answerkey.metrics_core.offline_judge.alignment import HIT, Alignment, align, part_ratio, same_words
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


def word_features(case: Case, near: Text, words: Mapping[str, float]) -> dict[str, float]:
    """The features without embeddings, by name.

    Args:
        near: the answer's `focus`.
        words: how rare stems are in training: their inverse document frequency as a share of the greatest one, 0..1;
            1 for stems that are not in it.

    >>> case = Case.of(read("Who wrote it?"), read("It was Ada."), read("Ada Brown"))
    >>> result = word_features(case, case.head, {"brown": 0.5})
    >>> result["recall"], round(result["recall_idf"], 3)
    (0.5, 0.667)
    """
    aligned, in_head, in_near = _alignments(case, near)
    # The content stems of focus and residue that the reference has, in whatever form.
    again = same_words({*near.content_stems, *case.residue}, case.reference.content_stems)
    known = case.reference.stem_set | case.question.stem_set
    others = [stem for stem in near.said if stem not in known and stem not in again]
    return {
        **_recall(case, aligned, in_head, in_near),
        **_order(aligned, in_near),
        **_missing(case, aligned),
        **_rare(case, near, in_near, others, again, words),
        **_extra(case, near, known, again),
        **_numbers(case.reference, case.answer, case.head),
        **_dates(case.reference, case.answer, case.head),
        **_characters(case, near),
        **_trigrams(case, near, in_near),
        **_form(case, near),
    }


def _share(part: float, of: float) -> float:
    return part / of if of else 1.0


def _alignments(case: Case, near: Text) -> tuple[Alignment, Alignment, Alignment]:
    """The alignments of the reference with the answer, its head and its focus, which are often the same text."""
    whole = align(case.reference, case.answer, case.question)
    head = whole if case.head.tokens == case.answer.tokens else align(case.reference, case.head, case.question)
    if near.tokens == case.answer.tokens:
        return whole, head, whole
    return whole, head, head if near is case.head else align(case.reference, near, case.question)


def _hits(aligned: Alignment) -> float:
    matched = len(aligned.matched)
    return 1.0 if aligned.whole else _share(matched, matched + len(aligned.missing))


def _order(aligned: Alignment, in_near: Alignment) -> dict[str, float]:
    """The order of the reference's words in the answer, and the share of inexact matches."""
    positions = [at for at, score in zip(in_near.where, in_near.score, strict=True) if at >= 0 and score >= HIT]
    steps = list(pairwise(positions))
    hits = [score for score in aligned.score if score >= HIT]
    return {
        "order": _share(sum(a <= b for a, b in steps), len(steps)),
        "inexact": sum(score < 1 for score in hits) / max(1, len(hits)),
        "near_miss": max((score for score in aligned.score if score < HIT), default=0.0),
    }


def _recall(case: Case, aligned: Alignment, in_head: Alignment, in_near: Alignment) -> dict[str, float]:
    positions = [at for at, score in zip(aligned.where, aligned.score, strict=True) if at >= 0 and score >= HIT]
    return {
        "recall": _hits(aligned),
        "recall_all": 1.0 if aligned.whole else _share(sum(s >= HIT for s in aligned.score), len(aligned.score)),
        "recall_head": _hits(in_head),
        "recall_focus": _hits(in_near),
        "first_hit": aligned.score[0] if aligned.score else 0.0,
        "last_hit": aligned.score[-1] if aligned.score else 0.0,
        "given_share": sum(aligned.in_question) / max(1, len(aligned.in_question)),
        "echo": float(case.question.stem_set.issuperset(aligned.stems)),
        "spread": math.log1p(max(0, max(positions) - min(positions) + 1 - len(positions))) if positions else 0.0,
        "place": math.log1p(min(positions)) if positions else FAR,
        "whole": float(aligned.whole),
        "rouge_recall": LCSseq.similarity(case.reference.stems, case.answer.stems) / max(1, len(case.reference.stems)),
    }  # fmt: skip


def _missing(case: Case, aligned: Alignment) -> dict[str, float]:
    missing = aligned.missing
    names = case.reference.names
    return {
        "missing": float(len(missing)),
        "missing_numbers": float(sum(any(map(str.isdigit, stem)) for stem in missing)),
        "missing_names": float(sum(stem in names for stem in missing)),
        "missing_short": float(sum(len(stem) <= 2 for stem in missing)),
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
    head, close = ([stem for stem in text.said if stem not in known] for text in (case.head, near))
    left, asked, kept = case.residue, case.question.stem_set, case.question.content_stems
    hits = sum([stem in again for stem in left])
    return {
        "extra_head": math.log1p(len(head)),
        "extra_focus": math.log1p(len(close)),
        "extra_names_head": float(len([s for s in set(head) if s in case.head.names])),
        "extra_names_focus": float(len([s for s in set(close) if s in near.names])),
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
        "numbers_found_head": _share(len(wanted & stated_head), len(wanted)),
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
        "date_head": float(any(d.agrees(w) for w in wanted for d in head.dates)) if wanted else -1.0,
        "date_parts_wanted": float(max((w.parts for w in wanted), default=0)),
        "date_parts_said": float(max((d.parts for d in stated), default=0)),
        "year_gap": math.log1p(min(years)) if years else FAR if wanted else -1.0,
        "dates_said": float(min(len(stated), 5)),
    }


def _characters(case: Case, near: Text) -> dict[str, float]:
    wanted = " ".join(case.reference.tokens)
    head, close, left = " ".join(case.head.tokens), " ".join(near.tokens), " ".join(case.residue)
    return {
        "characters_head": fuzz.ratio(wanted, head) / 100,
        "characters_part": part_ratio(wanted, close) / 100 if len(close) >= len(wanted) else fuzz.ratio(
            wanted, close) / 100,
        "characters_tokens": fuzz.token_set_ratio(wanted, close) / 100,
        "characters_residue": fuzz.ratio(" ".join(case.reference.content_stems), left) / 100,
    }  # fmt: skip


def _trigrams(case: Case, near: Text, in_near: Alignment) -> dict[str, float]:
    """The character trigrams that the reference shares with the focus, and those beyond the question."""
    wanted, close = _trigrams_of(case.reference.tokens), _trigrams_of(near.tokens)
    left = _trigrams_of(case.residue)
    new = _trigrams_of(
        tuple([stem for stem, known in zip(in_near.stems, in_near.in_question, strict=True) if not known])
    )
    return {
        "trigrams_found": len(wanted & close) / max(1, len(wanted)),
        "trigrams_both": len(wanted & close) / max(1, len(wanted | close)),
        "trigrams_residue": len(left & new) / max(1, len(left | new)),
    }


# The texts of an answer are compared with every reference.
@lru_cache(maxsize=128)
def _trigrams_of(words: tuple[str, ...]) -> frozenset[tuple[str, str, str]]:
    text = f" {' '.join(words)} "
    return frozenset(zip(text, text[1:], text[2:], strict=False))


def _form(case: Case, near: Text) -> dict[str, float]:
    return {
        "length_answer": math.log1p(len(case.answer.tokens)),
        "length_head": math.log1p(len(case.head.tokens)),
        "length_reference": math.log1p(len(case.reference.tokens)),
        "sentences": math.log1p(len(sentences(case.answer.raw))),
        "negation": float(near.negated != case.reference.negated),
        "negation_head": float(case.head.negated) - float(case.reference.negated),
        "hedge": float(hedges(near.normal) or hedges(case.head.normal)),
        "refusal": float(declines(case.answer, case.question)),
        "polarity": float(polarity(case.reference, case.answer, case.question)),
        "alternatives": float(bool(ALTERNATIVE_WORDS & set(near.tokens))),
    }


ENCODER = "use-multilingual"
DECIMALS = 4
"""The decimals of cosines: further digits depend on the other texts of the batch."""

_LONGEST_WORDS = 60


def texts_to_embed(case: Case, near: Text) -> dict[str, str]:
    """The texts whose embeddings a case needs, by role.

    >>> case = Case.of(read("Who wrote it?"), read("It was Ada."), read("Ada"))
    >>> texts_to_embed(case, case.head)["asked_reference"]
    'Who wrote it? Ada'
    """
    question, reference = case.question.raw, case.reference.raw
    close = " ".join(near.raw.split()[:_LONGEST_WORDS])
    return {
        "reference": reference,
        "focus": close,
        "asked_reference": f"{question} {reference}",
        "asked_focus": f"{question} {close}",
    }


def unit_vectors(wanted: Iterable[str], cache_dir: str | None) -> Mapping[str, Vector]:
    """Embeddings of length 1, by text, without those that the encoder cannot read.

    >>> vector = unit_vectors(["Paris"], None)["Paris"]
    >>> vector.shape, round(float(vector @ vector), 4)
    ((512,), 1.0)
    """
    texts = set(wanted)
    if not texts:
        return {}
    cache = EmbeddingCache(Path(cache_dir)) if cache_dir else None
    embeddings = embed(load_encoder(ENCODER), texts, cache).by_text
    return {text: _unit(e.vector) for text, e in embeddings.items() if isinstance(e, Embedded)}


def embedding_features(roles: Mapping[str, str], known: Mapping[str, Vector]) -> dict[str, float]:
    """Cosines between the texts of a case, by feature name; 0 if the encoder cannot read one of them.

    >>> case = Case.of(read("Who wrote it?"), read("It was Ada."), read("Ada"))
    >>> roles = texts_to_embed(case, case.head)
    >>> embedding_features(roles, unit_vectors(roles.values(), None))["near_focus"] > 0.9
    True
    """

    def cosine(a: str, b: str) -> float:
        x, y = known.get(roles[a]), known.get(roles[b])
        return 0.0 if x is None or y is None else round(float(x @ y), DECIMALS)

    return {
        "near_focus": cosine("reference", "focus"),
        "near_asked_focus": cosine("asked_reference", "asked_focus"),
        "near_stated": cosine("asked_reference", "focus"),
    }


def _unit(vector: Vector) -> Vector:
    norm = math.sqrt(vector @ vector)
    return (vector / norm).astype(np.float32, copy=False) if norm else vector
