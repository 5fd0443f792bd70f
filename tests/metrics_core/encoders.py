"""Encoders of known vectors, which metrics take as objects: nothing is patched."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from answerkey.metrics_core.embeddings.encoder import Encoded


class Scripted:
    """An encoder with a vector for each text it knows; other texts are an error. Pieces are words."""

    revision = "1"

    def __init__(
        self,
        vectors: Mapping[str, Sequence[float]],
        name: str = "scripted",
        *,
        max_pieces: int = 1000,
        batch_size: int = 4,
        unknown: str = "",
    ) -> None:
        self.vectors, self.name, self.unknown = vectors, name, unknown
        self.max_pieces, self.batch_size = max_pieces, batch_size
        self.calls: list[list[str]] = []

    def pieces(self, text: str) -> list[str | None]:
        return [None if self.unknown and self.unknown in word else word for word in text.split()]

    def encode(self, texts: Sequence[str]) -> Encoded:
        self.calls.append(list(texts))
        missing = [text for text in texts if text not in self.vectors]
        if missing:
            raise ValueError(f"no vector for {missing[0]!r}")
        return Encoded(np.array([self.vectors[text] for text in texts], np.float32), tokens=len(texts))


class BagOfWords(Scripted):
    """An encoder that takes every text: a sum of one random direction per word, and a common one."""

    def __init__(self, name: str = "bag", **options: int) -> None:
        super().__init__({}, name, **options)

    def encode(self, texts: Sequence[str]) -> Encoded:
        self.calls.append(list(texts))
        return Encoded(np.array([self.direction(text) for text in texts], np.float32))

    def direction(self, text: str) -> np.ndarray:
        total = np.full(8, 0.1)
        for word in text.split():
            seed = int.from_bytes(hashlib.sha256((self.name + word).encode()).digest()[:4], "big")
            total += np.random.default_rng(seed).normal(size=8)
        return total
