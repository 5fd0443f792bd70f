"""Embeddings on disk, so that a text is embedded only once per model."""

from __future__ import annotations

import hashlib
import logging
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from answerkey.metrics_core.embeddings.encoder import Embedded, Encoder

FILE_NAME = "embeddings.sqlite"

_log = logging.getLogger(__name__)

_SCHEMA = """
-- `max_pieces` belongs to the key because it decides where long texts are cut.
CREATE TABLE IF NOT EXISTS encoders (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, revision TEXT NOT NULL, max_pieces INTEGER NOT NULL,
    UNIQUE (name, revision, max_pieces)
);
-- `text_hash`: 128 bits of BLAKE2b of the UTF-8 text. `vector`: little-endian float32.
CREATE TABLE IF NOT EXISTS embeddings (
    encoder_id INTEGER NOT NULL REFERENCES encoders (id), text_hash BLOB NOT NULL,
    chunks INTEGER NOT NULL, vector BLOB NOT NULL,
    PRIMARY KEY (encoder_id, text_hash)
);
"""
_IDENTITY = "name, revision, max_pieces"
_ENCODER_ID = f"SELECT id FROM encoders WHERE ({_IDENTITY}) = (?, ?, ?)"
_KEYS_AT_ONCE = 500
_WAIT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class EmbeddingCache:
    """One SQLite file in `folder`, shared by any number of threads and processes.

    Vectors are stored as the float32 values of the model, bit for bit. If the file cannot be read or written (a full
    disk, a damaged file), a warning is logged and the embeddings are computed again.

    >>> import tempfile
    >>> from types import SimpleNamespace
    >>> encoder = SimpleNamespace(name="lengths", revision="1", max_pieces=512)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cache = EmbeddingCache(Path(folder))
    ...     cache.put(encoder, {"Paris": Embedded(np.array([5, 1], np.float32))})
    ...     print(cache.get(encoder, ["Paris", "Rome"])["Paris"].vector.tolist())
    [5.0, 1.0]
    """

    folder: Path

    def get(self, encoder: Encoder, texts: Sequence[str]) -> dict[str, Embedded]:
        """The embeddings of those of `texts` that are in the cache."""
        by_hash = {_hash(text): text for text in texts}
        hashes = list(by_hash)
        cached: dict[str, Embedded] = {}
        with self._tolerantly("read"), self._open() as db:
            for start in range(0, len(hashes), _KEYS_AT_ONCE):
                keys = hashes[start : start + _KEYS_AT_ONCE]
                rows = db.execute(
                    "SELECT text_hash, chunks, vector FROM embeddings "
                    f"WHERE encoder_id = ({_ENCODER_ID}) AND text_hash IN ({','.join('?' * len(keys))})",
                    (*_identity(encoder), *keys),
                )
                for key, chunks, vector in rows:
                    cached[by_hash[key]] = Embedded(np.frombuffer(vector, "<f4").astype(np.float32), chunks)
        return cached

    def put(self, encoder: Encoder, embeddings: Mapping[str, Embedded]) -> None:
        """Store `embeddings` in one transaction. Existing entries stay unchanged."""
        identity = _identity(encoder)
        rows = [
            (*identity, _hash(text), embedded.chunks, embedded.vector.astype("<f4").tobytes())
            for text, embedded in embeddings.items()
        ]
        with self._tolerantly("written"), self._open() as db, db:
            db.execute(f"INSERT OR IGNORE INTO encoders ({_IDENTITY}) VALUES (?, ?, ?)", identity)
            db.executemany(f"INSERT OR IGNORE INTO embeddings VALUES (({_ENCODER_ID}), ?, ?, ?)", rows)

    @contextmanager
    def _tolerantly(self, action: str) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            _log.warning("embedding cache %s cannot be %s: %s", self.folder / FILE_NAME, action, error)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        self.folder.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(self.folder / FILE_NAME, timeout=_WAIT_SECONDS)
        try:
            # A vector fills half of a page of the default size, which would leave the other half empty.
            db.execute("PRAGMA page_size = 32768")
            # Readers do not wait for the writer, and a killed process leaves an intact file.
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.executescript(_SCHEMA)
            yield db
        finally:
            db.close()


def _identity(encoder: Encoder) -> tuple[str, str, int]:
    return encoder.name, encoder.revision, encoder.max_pieces


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
