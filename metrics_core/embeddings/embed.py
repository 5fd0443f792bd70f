"""Texts to embeddings: each text once, sorted by length, in batches, from the cache where it is there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from answerkey.metrics_core.embeddings.cache import EmbeddingCache
from answerkey.metrics_core.embeddings.chunking import Chunk, chunk
from answerkey.metrics_core.embeddings.encoder import Encoded, Encoder, EncodingFailed
from answerkey.metrics_core.embeddings.vectors import Embedded, Matrix, combine
from answerkey.metrics_core.measurement import Failed, Undefined

Embedding = Embedded | Undefined | Failed
"""What became of a text: a vector; nothing that the model could say about it; a failure."""

_FAILURES_IN_A_ROW = 2
"""After so many whole batches without an answer, the rest is not tried: each would wait for its retries."""

_BATCH_CHARACTERS = 65_536
"""Bounds the memory for a batch of long texts."""


@dataclass(slots=True)
class Embeddings:
    """What `embed` found: every text that was asked for, and what it cost."""

    by_text: dict[str, Embedding] = field(default_factory=dict)
    tokens: int = 0
    cost_usd: float | None = 0.0

    def add_cost(self, encoded: Encoded) -> None:
        """Unknown and something is unknown."""
        self.tokens += encoded.tokens
        known = self.cost_usd is not None and encoded.cost_usd is not None
        self.cost_usd = (self.cost_usd or 0.0) + (encoded.cost_usd or 0.0) if known else None


def embed(encoder: Encoder, texts: Iterable[str], cache: EmbeddingCache | None) -> Embeddings:
    """An `Embedding` for every one of `texts`, whatever happens to the others.

    Sorting makes the batches, and with them the last bits of the vectors, independent of the order of
    `texts`. Each batch is in the cache before the next one starts.
    """
    result = Embeddings()
    ordered = sorted(set(texts), key=lambda text: (len(text), text))
    if cache is not None:
        result.by_text.update(cache.get(encoder, ordered))
    chunked: dict[str, list[Chunk]] = {}
    for text in ordered:
        if text not in result.by_text:
            parts = chunk(text, encoder.pieces, encoder.max_pieces)
            if parts is None:
                result.by_text[text] = Undefined(f"{encoder.name} knows less than half of its letters")
            else:
                chunked[text] = parts
    _encode_all(encoder, chunked, cache, result)
    return result


def _encode_all(
    encoder: Encoder, chunked: dict[str, list[Chunk]], cache: EmbeddingCache | None, result: Embeddings
) -> None:
    failures = 0
    for batch in _batches(list(chunked), encoder.batch_size):
        if failures >= _FAILURES_IN_A_ROW:
            not_tried = Failed("encoder", f"{encoder.name}: not tried after {failures} failures in a row", 0)
            result.by_text.update(dict.fromkeys(batch, not_tried))
            continue
        fresh = _encode_batch(encoder, {text: chunked[text] for text in batch}, result)
        result.by_text.update(fresh)
        all_failed = all(isinstance(found, Failed) for found in fresh.values())
        failures = failures + 1 if all_failed else 0
        vectors = {text: found for text, found in fresh.items() if isinstance(found, Embedded)}
        if cache is not None and vectors:
            cache.put(encoder, vectors)


def _batches(texts: Sequence[str], size: int) -> Iterator[list[str]]:
    batch: list[str] = []
    characters = 0
    for text in texts:
        if batch and (len(batch) == size or characters + len(text) > _BATCH_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(text)
        characters += len(text)
    if batch:
        yield batch


def _encode_batch(encoder: Encoder, chunked: Mapping[str, Sequence[Chunk]], result: Embeddings) -> dict[str, Embedding]:
    """Encode a batch; where it fails, find the text that is to blame by halving."""
    try:
        vectors = _encode(encoder, [part.text for parts in chunked.values() for part in parts], result)
    except (EncodingFailed, OSError, RuntimeError, ValueError) as error:
        texts = list(chunked)
        if len(texts) == 1 or (isinstance(error, EncodingFailed) and error.for_all):
            return dict.fromkeys(texts, _failure(encoder, error))
        middle = len(texts) // 2
        first, second = ({text: chunked[text] for text in half} for half in (texts[:middle], texts[middle:]))
        return _encode_batch(encoder, first, result) | _encode_batch(encoder, second, result)
    embeddings: dict[str, Embedding] = {}
    start = 0
    for text, parts in chunked.items():
        embeddings[text] = _embedding(encoder, vectors[start : start + len(parts)], parts)
        start += len(parts)
    return embeddings


def _encode(encoder: Encoder, texts: Sequence[str], result: Embeddings) -> Matrix:
    # A text of many chunks can be longer than a batch.
    vectors = []
    for start in range(0, len(texts), encoder.batch_size):
        some = texts[start : start + encoder.batch_size]
        encoded = encoder.encode(some)
        result.add_cost(encoded)
        if encoded.vectors.ndim != 2 or len(encoded.vectors) != len(some):
            shape = encoded.vectors.shape
            raise EncodingFailed("encoder", f"embeddings of {len(some)} texts have the shape {shape}")
        vectors.append(encoded.vectors)
    return np.concatenate(vectors)


def _embedding(encoder: Encoder, vectors: Matrix, parts: Sequence[Chunk]) -> Embedding:
    vector = combine(vectors, [part.weight for part in parts])
    if not np.isfinite(vector).all():
        return Failed("encoder", f"{encoder.name}: the embedding holds NaN or infinity")
    if not vector.any():
        return Undefined(f"{encoder.name} gives it a zero vector")
    return Embedded(vector, len(parts))


def _failure(encoder: Encoder, error: Exception) -> Failed:
    if isinstance(error, EncodingFailed):
        return Failed(error.code, f"{encoder.name}: {error.message}", error.attempts)
    return Failed("encoder", f"{encoder.name}: {type(error).__name__}: {error}")
