"""The interface of an embedding model, its results and its errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from answerkey.metrics_core.errors import UserError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

# As text, so that the forms and the command line can import this module without numpy.
Vector: TypeAlias = "npt.NDArray[np.float32]"
"""One embedding: shape (dimension,)."""

Matrix: TypeAlias = "npt.NDArray[np.float32]"
"""Embeddings row by row: shape (texts, dimension)."""

API_REVISION = "api"
"""The revision of models behind an API, whose provider does not report one."""


class EncoderError(UserError):
    """An embedding model cannot be loaded. The message names the model and the remedy.

    >>> str(EncoderError("embedding model 'x' is not installed"))
    "embedding model 'x' is not installed"
    """


class EncodingFailed(Exception):
    """A loaded model did not embed some texts.

    `for_all` says that the texts are not the cause (a wrong key, a server that does not answer), so that there is no
    point in searching for one that is.

    >>> EncodingFailed("http_401", "wrong key", for_all=True).code
    'http_401'
    """

    def __init__(self, code: str, message: str, attempts: int = 1, *, for_all: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.attempts = attempts
        self.for_all = for_all


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """Embeddings in the order of the texts, with tokens and cost in US dollars (None if unknown).

    >>> import numpy as np
    >>> Encoded(np.ones((2, 3), np.float32), tokens=7).vectors.shape
    (2, 3)
    """

    vectors: Matrix
    tokens: int = 0
    cost_usd: float | None = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """The embedding of a text, and the number of chunks that it was combined from.

    >>> import numpy as np
    >>> Embedded(np.ones(3, np.float32), chunks=2).chunks
    2
    """

    vector: Vector
    chunks: int = 1


@runtime_checkable
class Encoder(Protocol):
    """An embedding model. `SemanticSimilarity` accepts any object with these attributes in place of a name.

    An encoder that is used by several threads must be thread-safe; those of this package are.

    >>> class Lengths:
    ...     name, revision, max_pieces, batch_size = "lengths", "1", 512, 64
    ...     def pieces(self, text):
    ...         return text.split()
    ...     def encode(self, texts):
    ...         import numpy as np
    ...         return Encoded(np.array([[len(text), 1] for text in texts], np.float32))
    >>> Lengths().encode(["Paris"]).vectors.shape
    (1, 2)
    """

    @property
    def name(self) -> str:
        """Identifies the model in fields, signatures and the cache."""

    @property
    def revision(self) -> str:
        """Identifies the weights: another revision gives other numbers."""

    @property
    def max_pieces(self) -> int:
        """The most pieces of text, without special ones, that the model reads. Longer texts are chunked."""

    @property
    def batch_size(self) -> int:
        """The largest number of texts per call of `encode`."""

    def pieces(self, text: str) -> Sequence[str | None]:
        """The pieces of a text by the tokenizer of the model; `None` for each unknown one."""

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Embeddings of `texts`, none of which is longer than `max_pieces`.

        Raises:
            EncodingFailed: the model did not embed them. OSError, RuntimeError and ValueError are treated alike.
        """
