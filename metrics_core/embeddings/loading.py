"""Embedding models by name, each loaded once a process."""

from __future__ import annotations

import threading
from pathlib import Path

from metrics_core.semantic.embedded import MINILM, MultilingualEncoder
from metrics_core.semantic.encoders import Encoder
from metrics_core.semantic.names import ModelName, identify

_loaded: dict[ModelName, Encoder] = {}
_loading = threading.Lock()


def load_encoder(name: str) -> Encoder:
    """The encoder called `name`; `metrics_core.semantic.names` says which names there are.

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
        from metrics_core.semantic.api import ApiEncoder

        return ApiEncoder(model.target)
    if model.target == MultilingualEncoder.name:
        return MultilingualEncoder()
    from metrics_core.semantic.transformer import TransformerEncoder, load_minilm

    if model.target == MINILM.name:
        return load_minilm()
    return TransformerEncoder(Path(model.target), model.label, model.revision)
