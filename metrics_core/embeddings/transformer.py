"""Models of sentence-transformers: the embedded MiniLM, a folder, a snapshot in the Hugging Face cache."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from answerkey.metrics_core.embeddings.encoder import Encoded, EncoderError
from answerkey.metrics_core.embeddings.packaged import MINILM

_DEFAULT_LENGTH = 512
"""For models without a limit of their own, such as static embeddings."""

_SETTINGS = {
    # Every file is local; this keeps the libraries from contacting the hub anyway.
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    # Threads that spin while they wait starve each other on a busy machine: MiniLM embedded 67 texts per second that
    # way and 261 without, on two cores with a load of 3; on idle cores 516 and 456.
    "OMP_WAIT_POLICY": "PASSIVE",
}
"""Read by the libraries when they are imported. Values that the user has set are kept."""


class TransformerEncoder:
    """A sentence-transformers model in a local folder as an `Encoder`."""

    batch_size = 64

    def __init__(self, folder: Path, name: str, revision: str, device: str | None = None) -> None:
        self.name, self.revision = name, revision
        self._model = _load(folder, name, device)
        self._tokenizer: Any = self._model.tokenizer
        self._lock = threading.RLock()
        prompt = self._model.prompts.get(self._model.default_prompt_name or "", "")
        length = getattr(self._model, "max_seq_length", None)
        if length is None or not math.isfinite(length):
            length = _DEFAULT_LENGTH
        self.max_pieces = int(length) - self._special_pieces() - len(self.pieces(prompt))

    def pieces(self, text: str) -> Sequence[str | None]:
        """The pieces of the model's own tokenizer."""
        # `encode` changes the length at which the tokenizer cuts, so the two must not run at the same time.
        with self._lock:
            if not callable(self._tokenizer):
                return list(self._tokenizer.encode(text, add_special_tokens=False).tokens)
            encoding = self._tokenizer(text, add_special_tokens=False, truncation=False, verbose=False)
            ids = encoding["input_ids"]
            unknown = self._tokenizer.unk_token_id
            tokens = self._tokenizer.convert_ids_to_tokens(ids)
            return [None if i == unknown else token for i, token in zip(ids, tokens, strict=True)]

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Embeddings as the model returns them, shape (texts, dimension)."""
        with self._lock:
            vectors = self._model.encode(list(texts), batch_size=self.batch_size, show_progress_bar=False)
        return Encoded(vectors.astype("float32", copy=False))

    def _special_pieces(self) -> int:
        return int(self._tokenizer.num_special_tokens_to_add()) if callable(self._tokenizer) else 0


def load_minilm() -> TransformerEncoder:
    """The packaged English model, on the CPU, so that its numbers are the same on every machine.

    Raises:
        EncoderError: its package is missing or damaged.
    """
    return TransformerEncoder(MINILM.folder() / "model", MINILM.name, MINILM.revision, device="cpu")


def _load(folder: Path, name: str, device: str | None) -> Any:
    for variable, value in _SETTINGS.items():
        os.environ.setdefault(variable, value)
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise EncoderError(
            f"embedding model {name!r} needs sentence-transformers: pip install {MINILM.wanted} ({error})"
        ) from error
    _use_all_cores()
    try:
        with _quietly():
            return SentenceTransformer(str(folder), device=device, local_files_only=True)
    except Exception as error:
        # Whatever is wrong with the files, the remedy is the same: other files.
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise EncoderError(f"embedding model {name!r} cannot be loaded from {folder}: {line}") from error


@cache
def _use_all_cores() -> None:
    if "OMP_NUM_THREADS" not in os.environ:
        import torch

        torch.set_num_threads(_cores())


def _cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _quietly() -> Iterator[None]:
    from transformers.utils import logging as untyped

    logging: Any = untyped
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
