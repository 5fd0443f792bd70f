"""Features of sentence embeddings: the multilingual encoder that `semantic_similarity` uses by default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from answerkey.metrics_core.embeddings.cache import EmbeddingCache
from answerkey.metrics_core.embeddings.embed import embed
from answerkey.metrics_core.embeddings.loading import load_encoder
from answerkey.metrics_core.embeddings.vectors import Embedded, Vector
from answerkey.metrics_core.offline_judge.alignment import align
from answerkey.metrics_core.offline_judge.case import Case
from answerkey.metrics_core.offline_judge.reading import Text
from answerkey.metrics_core.offline_judge.vocabulary import FUNCTION_WORDS

ENCODER = "use-multilingual"
DECIMALS = 4
"""Of cosines: the last digits of an embedding depend on the texts that shared its batch."""

_LONGEST_WORDS = 60
_MOST_SPANS = 8
_MOST_MISSING = 4
_MOST_WORDS = 16


def texts(case: Case, near: Text) -> dict[str, str]:
    """The texts whose embeddings a case needs, by role."""
    question, reference = case.question.raw, case.reference.raw
    head, close = _cut(case.head.raw), _cut(near.raw)
    found = {
        "reference": reference,
        "question": question,
        "head": head,
        "focus": close,
        "asked_reference": f"{question} {reference}",
        "asked_head": f"{question} {head}",
        "asked_focus": f"{question} {close}",
    }
    for i, span in enumerate(spans(case, near)):
        found[f"span{i}"] = span
        found[f"asked_span{i}"] = f"{question} {span}"
    if case.residue:
        found["residue"] = _cut(
            " ".join(t for t, s in zip(case.head.tokens, case.head.stems, strict=True) if s in case.residue)
        )
    aligned = align(case.reference, case.answer, case.question)
    absent = frozenset(aligned.missing)
    tokens = dict.fromkeys(t for t, s in zip(case.reference.tokens, case.reference.stems, strict=True) if s in absent)
    found |= {f"missing{i}": token for i, token in enumerate(list(tokens)[:_MOST_MISSING])}
    if tokens:
        have = dict.fromkeys(
            near.tokens[i] for i in near.content if near.stems[i] not in frozenset(case.question.stems)
        )
        found |= {f"word{i}": token for i, token in enumerate(list(have)[:_MOST_WORDS])}
    return found


def spans(case: Case, near: Text) -> list[str]:
    """Runs of words of the focus that the question does not give: what might be the answer itself."""
    given = frozenset(case.question.stems)
    runs: list[list[str]] = [[]]
    for token, stem in zip(near.tokens, near.stems, strict=True):
        if stem in given or token in FUNCTION_WORDS:
            if runs[-1]:
                runs.append([])
        else:
            runs[-1].append(token)
    unique = dict.fromkeys(" ".join(run[:8]) for run in runs if run)
    return list(unique)[:_MOST_SPANS]


def vectors(wanted: Iterable[str], cache_dir: str | None) -> Mapping[str, Vector]:
    """Unit vectors of texts; a text that the encoder cannot read has none."""
    cache = EmbeddingCache(Path(cache_dir)) if cache_dir else None
    found = embed(load_encoder(ENCODER), wanted, cache).by_text
    return {text: _unit(e.vector) for text, e in found.items() if isinstance(e, Embedded)}


def features(roles: Mapping[str, str], known: Mapping[str, Vector]) -> dict[str, float]:
    """Cosines between the texts of a case; 0 where the encoder cannot read one of them."""

    def cosine(a: str, b: str) -> float:
        x, y = known.get(roles.get(a, "")), known.get(roles.get(b, ""))
        return 0.0 if x is None or y is None else round(float(x @ y), DECIMALS)

    span_cosines = [cosine("reference", role) for role in roles if role.startswith("span")]
    best = max(span_cosines, default=0.0)
    asked = [cosine("asked_reference", role) for role in roles if role.startswith("asked_span")]
    words = [role for role in roles if role.startswith("word")]
    absent = [max((cosine(role, word) for word in words), default=0.0) for role in roles if role.startswith("missing")]
    return {
        "near_head": cosine("reference", "head"),
        "near_focus": cosine("reference", "focus"),
        "near_asked_head": cosine("asked_reference", "asked_head"),
        "near_asked_focus": cosine("asked_reference", "asked_focus"),
        "near_stated": cosine("asked_reference", "focus"),
        "near_stated_head": cosine("asked_reference", "head"),
        "near_question": cosine("question", "head"),
        "near_question_reference": cosine("question", "reference"),
        "near_span": best,
        "near_asked_span": max(asked, default=0.0),
        "near_asked_gain": max(asked, default=0.0) - cosine("asked_reference", "question"),
        "near_residue": cosine("reference", "residue"),
        "near_words": mean(absent) if absent else 1.0,
        "near_word_least": min(absent, default=1.0),
        "near_best": max(best, cosine("reference", "head")),
    }


def _cut(text: str) -> str:
    return " ".join(text.split()[:_LONGEST_WORDS])


def _unit(vector: Vector) -> Vector:
    norm = float(np.linalg.norm(vector))
    return (vector / norm).astype(np.float32) if norm else vector


def mean(values: Sequence[float]) -> float:
    """The mean; 0 for none."""
    return sum(values) / len(values) if values else 0.0
