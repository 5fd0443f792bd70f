"""Texts to embeddings: each text once, cut into chunks that the model can read, in batches, through the cache."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from answerkey.metrics_core.embeddings.cache import EmbeddingCache
from answerkey.metrics_core.embeddings.encoder import Embedded, Encoder, EncodingFailed, Matrix, Vector
from answerkey.metrics_core.measurement import Failed, Undefined


def cosine(vector: npt.ArrayLike, other_vector: npt.ArrayLike) -> float:
    """Cosine of the angle between two vectors, -1..1, computed in float64.

    Values outside -1..1, which only rounding can cause, are clipped.

    Raises:
        ValueError: the vectors have different dimensions, or one has no direction (norm 0, NaN, infinity).

    >>> round(cosine([1, 0], [1, 1]), 3)
    0.707
    """
    x = np.asarray(vector, np.float64)
    y = np.asarray(other_vector, np.float64)
    if x.shape != y.shape:
        raise ValueError(f"vectors of {x.size} and {y.size} numbers cannot be compared")
    length = float(np.linalg.norm(x)) * float(np.linalg.norm(y))
    if not np.isfinite(length) or length == 0.0:
        raise ValueError("a vector without a direction has no cosine")
    return min(1.0, max(-1.0, float(x @ y) / length))


def combine(vectors: Matrix, weights: Sequence[int]) -> Vector:
    """One embedding from those of a text's chunks: the weighted mean of their directions.

    Directions are averaged rather than vectors, so that a chunk is weighted by its length in pieces and not by the
    length of its vector. The vector of a single chunk is returned unchanged.

    >>> combine(np.array([[2, 0], [0, 1]], np.float32), [3, 1]).tolist()
    [0.75, 0.25]
    """
    if len(weights) == 1:
        only: Vector = vectors[0]
        return only
    wide = vectors.astype(np.float64)
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    directions = np.divide(wide, norms, out=np.zeros_like(wide), where=norms > 0)
    mean: npt.NDArray[np.float64] = np.average(directions, axis=0, weights=weights)
    return mean.astype(np.float32)


READABLE_SHARE = 0.5
"""The share of letters and digits that a model must know to read a text."""

_CLOSING = r"[\"'”’»)\]]*"
_SENTENCE = re.compile(
    # Full-width marks end a sentence; the others need white space behind them, unlike the one in 3.14.
    rf".+?(?:\n\s*|[.!?…؟۔।॥]{_CLOSING}\s+|[。！？｡][」』”’）]*\s*|$)",
    re.DOTALL,
)
_WORD = re.compile(r"\s*\S+\s*")
# Markers that tokenizers put before a word or a piece.
_MARKERS = "▁Ġ# "


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a text that fits the model; `weight` is its length in pieces, 1 for the only chunk of a text.

    >>> Chunk("One. Two.", weight=6).weight
    6
    """

    text: str
    weight: int = 1


def chunk(text: str, pieces: Callable[[str], Sequence[str | None]], limit: int) -> list[Chunk] | None:
    """Split `text` into chunks of at most `limit` pieces, at the ends of sentences where possible.

    Args:
        text: not blank.
        pieces: the model's tokenizer: the pieces of a text, `None` for each that the model does not know.
        limit: the largest number of pieces that the model reads, without special ones.

    Returns:
        One chunk if the text fits, several if it does not, None if the model cannot read the text (see `readable`): all
        such texts would have the same embedding.

    >>> [part.text for part in chunk("One two. Three four.", str.split, limit=2)]
    ['One two.', 'Three four.']
    """
    # No tokenizer returns more pieces than bytes, and all know ASCII, so most texts need not be tokenized twice.
    if len(text) <= limit and text.isascii() and any(map(str.isalnum, text)):
        return [Chunk(text)]
    all_pieces = pieces(text)
    if not readable(text, all_pieces):
        return None
    if len(all_pieces) <= limit:
        return [Chunk(text)]
    parts = pack(text, lambda part: len(pieces(part)) <= limit)
    return [Chunk(part, len(pieces(part))) for part in parts]


def readable(text: str, pieces: Sequence[str | None]) -> bool:
    """Whether a model knows enough of `text`: `READABLE_SHARE` of its letters and digits.

    For a text without letters or digits, one known mark is enough.

    >>> readable("ab!", ["ab", None]), readable("абв", [None])
    (True, False)
    """
    known_pieces = [piece for piece in pieces if piece is not None]
    if len(known_pieces) == len(pieces):
        return bool(pieces)
    n_letters = sum(map(str.isalnum, text))
    if not n_letters:
        return any(piece.strip(_MARKERS) for piece in known_pieces)
    n_known = sum(map(str.isalnum, "".join(known_pieces)))
    return n_known >= READABLE_SHARE * n_letters


def pack(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Split `text` into stripped parts that fit, filled greedily from the front.

    Parts end at the ends of sentences; a sentence that does not fit is split between words, and a word that does not
    fit between characters. A single character always counts as fitting.

    >>> pack("One. Two three. Four.", lambda part: len(part) <= 15)
    ['One. Two three.', 'Four.']
    """
    units = _SENTENCE.findall(text)
    parts: list[str] = []
    start = 0
    while start < len(units):
        count = _count_that_fits(units, start, fits)
        if count == 0:
            smaller: list[str] = _WORD.findall(units[start])
            units[start : start + 1] = smaller if len(smaller) > 1 else list(units[start])
            continue
        parts.append("".join(units[start : start + count]).strip())
        start += count
    return [part for part in parts if part]


def _count_that_fits(units: Sequence[str], start: int, fits: Callable[[str], bool]) -> int:
    """The number of units from `start` that fit together, by doubling and bisection, since each try is tokenized."""

    def fit(count: int) -> bool:
        return fits("".join(units[start : start + count]).strip())

    n_units = len(units) - start
    high = 1
    while high <= n_units and fit(high):
        high *= 2
    low = high // 2
    high = min(high, n_units + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if fit(middle):
            low = middle
        else:
            high = middle
    return low if low or len(units[start]) > 1 else 1


Embedding = Embedded | Undefined | Failed
"""The result for a text: a vector, `Undefined` if the model cannot read it, or a failure."""

_FAILURES_IN_A_ROW = 2
"""The number of failed batches in a row after which the rest is not tried, since each would wait for its retries."""

_BATCH_CHARACTERS = 65_536
"""The most characters of a batch, which bounds its memory."""


@dataclass(slots=True)
class Embeddings:
    """The result of `embed` by text, with tokens and cost in US dollars (None if unknown).

    >>> Embeddings().tokens
    0
    """

    by_text: dict[str, Embedding] = field(default_factory=dict)
    tokens: int = 0
    cost_usd: float | None = 0.0


def embed(encoder: Encoder, texts: Iterable[str], cache: EmbeddingCache | None) -> Embeddings:
    """An `Embedding` for each of `texts`; a failure does not affect other texts.

    Texts are sorted, so that the batches, and with them the last bits of the vectors, do not depend on their order.
    Each batch is cached before the next one starts.

    Args:
        cache: the cache for embeddings; None for no cache.

    >>> from answerkey.metrics_core.embeddings.encoder import Encoded
    >>> class Lengths:
    ...     name, revision, max_pieces, batch_size = "lengths", "1", 512, 64
    ...     def pieces(self, text):
    ...         return text.split()
    ...     def encode(self, texts):
    ...         return Encoded(np.array([[len(text), 1] for text in texts], np.float32))
    >>> embeddings = embed(Lengths(), ["Paris", "Rome"], cache=None)
    >>> embeddings.by_text["Paris"].vector.tolist()
    [5.0, 1.0]
    """
    result = Embeddings()
    ordered = sorted(set(texts), key=lambda text: (len(text), text))
    if cache is not None:
        result.by_text.update(cache.get(encoder, ordered))
    # What the cache does not have is cut into chunks that the model can read
    chunked: dict[str, list[Chunk]] = {}
    for text in ordered:
        if text not in result.by_text:
            parts = chunk(text, encoder.pieces, encoder.max_pieces)
            if parts is None:
                result.by_text[text] = Undefined(f"{encoder.name} knows less than half of its characters")
            else:
                chunked[text] = parts

    # Batch by batch. If nothing comes of several in a row, the rest would fail too, and after long waits.
    failures = 0
    for batch in _batches(list(chunked), encoder.batch_size):
        if failures >= _FAILURES_IN_A_ROW:
            not_tried = Failed("encoder", f"{encoder.name}: not tried after {failures} failures in a row", 0)
            result.by_text.update(dict.fromkeys(batch, not_tried))
            continue
        fresh = _encode_batch(encoder, {text: chunked[text] for text in batch}, result)
        result.by_text.update(fresh)
        all_failed = all(isinstance(embedding, Failed) for embedding in fresh.values())
        failures = failures + 1 if all_failed else 0
        vectors = {text: embedding for text, embedding in fresh.items() if isinstance(embedding, Embedded)}
        if cache is not None and vectors:
            cache.put(encoder, vectors)
    return result


def _batches(texts: Sequence[str], size: int) -> Iterator[list[str]]:
    batch: list[str] = []
    characters = 0
    for text in texts:
        if batch and (len(batch) == size or characters + len(text) > _BATCH_CHARACTERS):
            yield batch
            batch = []
            characters = 0
        batch.append(text)
        characters += len(text)
    if batch:
        yield batch


def _encode_batch(encoder: Encoder, chunked: Mapping[str, Sequence[Chunk]], result: Embeddings) -> dict[str, Embedding]:
    """Encode a batch; if it fails, find the text that causes it by bisection."""
    texts = list(chunked)
    chunk_texts = []
    for chunks in chunked.values():
        chunk_texts += [part.text for part in chunks]
    try:
        vectors = _encode(encoder, chunk_texts, result)
    except (EncodingFailed, OSError, RuntimeError, ValueError) as error:
        failure = Failed("encoder", f"{encoder.name}: {type(error).__name__}: {error}")
        concerns_all = False
        if isinstance(error, EncodingFailed):
            failure = Failed(error.code, f"{encoder.name}: {error.message}", error.attempts)
            concerns_all = error.for_all
        if len(texts) == 1 or concerns_all:
            return dict.fromkeys(texts, failure)
        # One text of the batch may be the cause, so its halves are tried
        middle = len(texts) // 2
        embeddings: dict[str, Embedding] = {}
        for half in (texts[:middle], texts[middle:]):
            embeddings |= _encode_batch(encoder, {text: chunked[text] for text in half}, result)
        return embeddings

    embeddings = {}
    start = 0
    for text, chunks in chunked.items():
        stop = start + len(chunks)
        vector = combine(vectors[start:stop], [part.weight for part in chunks])
        if not np.isfinite(vector).all():
            embeddings[text] = Failed("encoder", f"{encoder.name}: the embedding holds NaN or infinity")
        elif not vector.any():
            embeddings[text] = Undefined(f"{encoder.name} gives it a zero vector")
        else:
            embeddings[text] = Embedded(vector, len(chunks))
        start = stop
    return embeddings


def _encode(encoder: Encoder, texts: Sequence[str], result: Embeddings) -> Matrix:
    # A text of many chunks can be longer than a batch.
    vectors = []
    for start in range(0, len(texts), encoder.batch_size):
        batch = texts[start : start + encoder.batch_size]
        encoded = encoder.encode(batch)
        result.tokens += encoded.tokens
        # A sum with an unknown cost is unknown
        if result.cost_usd is not None:
            result.cost_usd = None if encoded.cost_usd is None else result.cost_usd + encoded.cost_usd
        if encoded.vectors.ndim != 2 or len(encoded.vectors) != len(batch):
            shape = encoded.vectors.shape
            raise EncodingFailed("encoder", f"embeddings of {len(batch)} texts have the shape {shape}")
        vectors.append(encoded.vectors)
    return np.concatenate(vectors)
