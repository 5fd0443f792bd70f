"""What the model sees of an answer and its references: one row of numbers per reference."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
from rapidfuzz import fuzz
from rapidfuzz.distance import LCSseq

from answerkey.metrics_core.embeddings.cache import EmbeddingCache
from answerkey.metrics_core.embeddings.embed import embed
from answerkey.metrics_core.embeddings.encoder import Embedded, Vector
from answerkey.metrics_core.embeddings.models import load_encoder
from answerkey.metrics_core.offline_judge.alignment import HIT, Alignment, align, alike
from answerkey.metrics_core.offline_judge.reading import Text, asks_several, question_kind, read, sentences, text_kind
from answerkey.metrics_core.offline_judge.rules import Case
from answerkey.metrics_core.offline_judge.stance import declines, hedges, polarity
from answerkey.metrics_core.offline_judge.vocabulary import ALTERNATIVE_WORDS, PLACE_OR_KIND, TITLES

FAR = 9.0
"""Stands for "there is no such number" in distances."""


def focus(answer: Text, reference: Text, question: Text) -> Text:
    """The sentence of the answer with most of the reference's words, then of the question's; the first of ties.

    >>> focus(read("It is old. Ada wrote it."), read("Ada"), read("Who wrote it?")).raw
    'Ada wrote it.'
    """
    parts = sentences(answer.raw)
    if len(parts) == 1:
        return answer
    wanted, about = frozenset(reference.content_stems), frozenset(question.content_stems)

    def score(part: str) -> float:
        stems = frozenset(read(part).stems)
        return len(wanted & stems) / max(1, len(wanted)) + 0.2 * len(about & stems) / max(1, len(about))

    return read(max(parts[:12], key=score))


def word_features(case: Case, near: Text) -> dict[str, float]:
    """The features that need no embeddings, by name. `near` is the answer's `focus`.

    >>> case = Case.of(read("Who wrote it?"), read("It was Ada."), read("Ada Brown"))
    >>> word_features(case, case.head)["recall"]
    0.5
    """
    aligned, in_head, in_near = _alignments(case, near)
    return {
        **_recall(case, aligned, in_head, in_near),
        **_order(aligned, in_near),
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


def _alignments(case: Case, near: Text) -> tuple[Alignment, Alignment, Alignment]:
    """Of the reference with the whole answer, with its head and with its focus, which are often the same text."""
    whole = align(case.reference, case.answer, case.question)
    head = whole if case.head.tokens == case.answer.tokens else align(case.reference, case.head, case.question)
    if near.tokens == case.answer.tokens:
        return whole, head, whole
    return whole, head, head if near is case.head else align(case.reference, near, case.question)


def _hits(aligned: Alignment) -> float:
    found = len(aligned.found)
    return 1.0 if aligned.whole else _share(found, found + len(aligned.missing))


def rarity(stem: str) -> float:
    """Roughly how informative a word is, 0.3..1.6: long words and numbers more than short ones.

    >>> rarity("1851"), rarity("city")
    (1.3, 0.3)
    """
    if any(map(str.isdigit, stem)):
        return 1.3
    return min(1.6, 0.2 + 0.15 * len(stem)) if stem not in PLACE_OR_KIND and stem not in TITLES else 0.3


def _order(aligned: Alignment, in_near: Alignment) -> dict[str, float]:
    """Whether the words of the reference come in its order, and how many of them only nearly."""
    places = [at for at, score in zip(in_near.where, in_near.score, strict=True) if at >= 0 and score >= HIT]
    steps = list(pairwise(places))
    hits = [score for score in aligned.score if score >= HIT]
    return {
        "order": _share(sum(a <= b for a, b in steps), len(steps)),
        "inexact": sum(score < 1 for score in hits) / max(1, len(hits)),
        "near_miss": max((score for score in aligned.score if score < HIT), default=0.0),
    }


def _recall(case: Case, aligned: Alignment, in_head: Alignment, in_near: Alignment) -> dict[str, float]:
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
        "recall_head": _hits(in_head),
        "recall_focus": _hits(in_near),
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
        "said_focus": sum(near.stems[i] in known for i in near.content) / max(1, len(near.content)),
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
        "negation_head": float(case.head.negated) - float(case.reference.negated),
        "hedge": float(hedges(near.normal) or hedges(case.head.normal)),
        "refusal": float(declines(case.answer, case.question)),
        "polarity": float(polarity(case.reference, case.answer, case.question)),
        "alternatives": float(bool(ALTERNATIVE_WORDS & set(near.tokens))),
    }


def _asked(case: Case) -> dict[str, float]:
    kind, of = question_kind(case.question), text_kind(case.reference)
    features = {f"asks_{name}": float(kind == name) for name in ("who", "when", "where", "how_many", "why", "closed")}
    features |= {f"reference_{name}": float(of == name) for name in ("date", "number", "name")}
    features["asks_several"] = float(asks_several(case.question.raw))
    return features


ENCODER = "use-multilingual"
DECIMALS = 4
"""Decimals of cosines: the last digits of an embedding depend on the other texts in its batch."""

_LONGEST_WORDS = 60


def texts_to_embed(case: Case, near: Text) -> dict[str, str]:
    """The texts whose embeddings a case needs, by role. Reference and question come again with every answer.

    >>> case = Case.of(read("Who wrote it?"), read("It was Ada."), read("Ada"))
    >>> texts_to_embed(case, case.head)["asked_reference"]
    'Who wrote it? Ada'
    """
    question, reference = case.question.raw, case.reference.raw
    head, close = _cut(case.head.raw), _cut(near.raw)
    by_role = {
        "reference": reference,
        "question": question,
        "head": head,
        "focus": close,
        "asked_reference": f"{question} {reference}",
        "asked_focus": f"{question} {close}",
    }
    return by_role


def unit_vectors(wanted: Iterable[str], cache_dir: str | None) -> Mapping[str, Vector]:
    """Embeddings of length 1, by text; texts that the encoder cannot read are left out.

    >>> vector = unit_vectors(["Paris"], None)["Paris"]
    >>> vector.shape, round(float(vector @ vector), 4)
    ((512,), 1.0)
    """
    cache = EmbeddingCache(Path(cache_dir)) if cache_dir else None
    embeddings = embed(load_encoder(ENCODER), wanted, cache).by_text
    return {text: _unit(e.vector) for text, e in embeddings.items() if isinstance(e, Embedded)}


def embedding_features(roles: Mapping[str, str], known: Mapping[str, Vector]) -> dict[str, float]:
    """Cosines between the texts of a case, by feature name; 0 where the encoder cannot read one of them.

    >>> case = Case.of(read("Who wrote it?"), read("It was Ada."), read("Ada"))
    >>> roles = texts_to_embed(case, case.head)
    >>> embedding_features(roles, unit_vectors(roles.values(), None))["near_head"] > 0.9
    True
    """

    def cosine(a: str, b: str) -> float:
        x, y = known.get(roles.get(a, "")), known.get(roles.get(b, ""))
        return 0.0 if x is None or y is None else round(float(x @ y), DECIMALS)

    return {
        "near_head": cosine("reference", "head"),
        "near_focus": cosine("reference", "focus"),
        "near_asked_focus": cosine("asked_reference", "asked_focus"),
        "near_stated": cosine("asked_reference", "focus"),
        "near_question": cosine("question", "head"),
        "near_question_reference": cosine("question", "reference"),
    }


def _cut(text: str) -> str:
    return " ".join(text.split()[:_LONGEST_WORDS])


def _unit(vector: Vector) -> Vector:
    norm = float(np.linalg.norm(vector))
    return (vector / norm).astype(np.float32) if norm else vector
