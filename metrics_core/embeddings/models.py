"""Embedding models by name: what a name stands for, and the encoder that it names, loaded once per process.

A name is resolved in this order:

1. `minilm`, `use-multilingual`: the models that come as Python packages.
2. `litellm:PROVIDER/MODEL`: a paid model through litellm, whatever the provider.
3. a path: a folder with a sentence-transformers model.
4. `PROVIDER/MODEL` where the provider is one of `API_PROVIDERS`: like 2.
5. anything else: a model on Hugging Face that lies in the local Hugging Face cache already.
"""

from __future__ import annotations

import difflib
import hashlib
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from answerkey.metrics_core.embeddings.encoder import API_REVISION, Encoder, EncoderError
from answerkey.metrics_core.embeddings.packaged import EMBEDDED, MINILM, MultilingualEncoder

API_PREFIX = "litellm:"
API_PROVIDERS = frozenset(("azure", "bedrock", "cohere", "gemini", "mistral", "openai", "vertex_ai", "voyage"))

_NOT_A_MODEL = frozenset((".md", ".onnx", ".h5", ".msgpack", ".ot"))


@dataclass(frozen=True, slots=True)
class ModelName:
    """The model that a name stands for. `target` is what its loader needs: a folder, or litellm's name.

    >>> identify("minilm").target
    'minilm'
    """

    kind: Literal["embedded", "api", "folder"]
    label: str
    revision: str
    target: str


def identify(name: str) -> ModelName:
    """The model that `name` stands for. Reads the files of a local model (to hash them), never the network.

    Raises:
        EncoderError: the folder does not exist, or the Hugging Face model is not in the local cache.

    >>> identify("litellm:openai/text-embedding-3-small").label
    'openai/text-embedding-3-small'
    >>> identify("use-multilingual").kind
    'embedded'
    """
    if name in EMBEDDED:
        return ModelName("embedded", name, EMBEDDED[name].revision, name)
    if is_api(name):
        target = name.removeprefix(API_PREFIX)
        return ModelName("api", target, API_REVISION, target)
    folder = Path(name).expanduser()
    if folder.is_dir():
        return ModelName("folder", folder.resolve().name, folder_revision(folder), str(folder))
    if name.startswith((".", "/", "~")):
        raise EncoderError(f"embedding model {name!r}: there is no such folder")
    return _in_hub_cache(name)


def is_api(name: str) -> bool:
    """Whether the model is behind an API, so that texts leave this machine.

    >>> is_api("openai/text-embedding-3-small"), is_api("minilm")
    (True, False)
    """
    if name.startswith(API_PREFIX):
        return True
    return name.partition("/")[0] in API_PROVIDERS and "/" in name and not Path(name).is_dir()


def _in_hub_cache(name: str) -> ModelName:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    repository = name if "/" in name else f"sentence-transformers/{name}"
    try:
        folder = Path(snapshot_download(repository, local_files_only=True))
    except (OSError, HFValidationError) as error:
        near = difflib.get_close_matches(name, EMBEDDED, n=1)
        hint = f"did you mean {near[0]!r}? Otherwise " if near else ""
        raise EncoderError(
            f"embedding model {name!r} is neither {' nor '.join(EMBEDDED)}, nor a folder, nor in the Hugging "
            f"Face cache, and a run downloads nothing: {hint}fetch it once with: hf download {repository}"
        ) from error
    # The folder is called by the commit.
    return ModelName("folder", repository, folder.name[:8], str(folder))


def folder_revision(folder: Path) -> str:
    """Eight hex digits of a hash over the model files in `folder`, weights included.

    A retrained model has the same shapes and the same configuration, so only the weights show that it is another one.
    Files are read again only when their size or modification time has changed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     _ = Path(name, "weights.bin").write_bytes(b"1")
    ...     print(folder_revision(Path(name)))
    53805827
    """
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and path.suffix not in _NOT_A_MODEL
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )
    stamps = tuple((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files)
    return _hash_of_files(folder, stamps)


@lru_cache(maxsize=16)
def _hash_of_files(folder: Path, stamps: tuple[tuple[str, int, int], ...]) -> str:
    total = hashlib.sha256()
    for path, _, _ in stamps:
        total.update(str(Path(path).relative_to(folder)).encode())
        with open(path, "rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()[:8]


def field_suffixes(names: Sequence[str]) -> list[str]:
    """The suffix of each model's columns: the last part of its name, or the whole name where that is ambiguous.

    >>> field_suffixes(["use-multilingual", "openai/text-embedding-3-small"])
    ['use_multilingual', 'text_embedding_3_small']

    Raises:
        ValueError: two models have the same name.
    """
    for shorten in (True, False):
        suffixes = [_identifier(name, shorten) for name in names]
        if len(set(suffixes)) == len(suffixes):
            return suffixes
    raise ValueError(f"embedding models must have different names, got {', '.join(names)}")


def _identifier(name: str, shorten: bool) -> str:
    full = name.removeprefix(API_PREFIX).rstrip("/")
    short = full.rpartition("/")[2] if shorten else full
    return re.sub(r"[^0-9a-z]+", "_", short.lower()).strip("_") or "model"


_loaded: dict[ModelName, Encoder] = {}
_loading = threading.Lock()


def load_encoder(name: str) -> Encoder:
    """The encoder that `name` stands for (see `identify`), loaded once per process.

    Raises:
        EncoderError: the model is not available on this machine, or its files are not the expected ones.

    >>> try:
    ...     load_encoder("./no-such-folder")
    ... except EncoderError as error:
    ...     print(error)
    embedding model './no-such-folder': there is no such folder
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
