"""Embedding models by name, each loaded once a process."""

from __future__ import annotations

import threading
from pathlib import Path

from answerkey.metrics_core.embeddings.encoder import Encoder
from answerkey.metrics_core.embeddings.models import ModelName, identify
from answerkey.metrics_core.embeddings.packaged import MINILM, MultilingualEncoder

_loaded: dict[ModelName, Encoder] = {}
_loading = threading.Lock()


def load_encoder(name: str) -> Encoder:
    """The encoder called `name`; `answerkey.metrics_core.embeddings.models` says which names there are.

    Raises:
        EncoderError: there is no such model here, or its files are not the right ones.
    """
    model = identify(name)
    with _loading:
        if model not in _loaded:
            _loaded[model] = _load(model)
        return _loaded[model]


def _load(model: ModelName) -> Encoder:
    if model.kind == "api":
        from answerkey.metrics_core.embeddings.api import ApiEncoder

        return ApiEncoder(model.target)
    if model.target == MultilingualEncoder.name:
        return MultilingualEncoder()
    from answerkey.metrics_core.embeddings.transformer import TransformerEncoder, load_minilm

    if model.target == MINILM.name:
        return load_minilm()
    return TransformerEncoder(Path(model.target), model.label, model.revision)
