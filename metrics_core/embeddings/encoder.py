"""What an embedding model is to this package."""

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
"""Stands for the revision of a model behind an API: its provider does not tell which one answered."""


class EncoderError(UserError):
    """An embedding model cannot be loaded. The message names the model and the remedy."""


class EncodingFailed(Exception):
    """A loaded model did not embed some texts.

    `for_all` says that the texts are not to blame (a wrong key, a server that does not answer), so that
    nobody looks for one among them that is.
    """

    def __init__(self, code: str, message: str, attempts: int = 1, *, for_all: bool = False) -> None:
        super().__init__(message)
        self.code, self.message, self.attempts, self.for_all = code, message, attempts, for_all


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """Embeddings in the order of the texts, and what they cost; None where no price is known."""

    vectors: Matrix
    tokens: int = 0
    cost_usd: float | None = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """The embedding of one text, and of how many chunks it was made."""

    vector: Vector
    chunks: int = 1


@runtime_checkable
class Encoder(Protocol):
    """An embedding model. `SemanticSimilarity` takes any object of this shape in place of a name.

    An encoder that is used from several threads has to bear that; those of this package do.
    """

    @property
    def name(self) -> str:
        """Names the model in fields, signatures and the cache."""

    @property
    def revision(self) -> str:
        """Another revision gives other numbers."""

    @property
    def max_pieces(self) -> int:
        """The most pieces of text, without special ones, that the model reads. Longer texts are chunked."""

    @property
    def batch_size(self) -> int:
        """The most texts in a call of `encode`."""

    def pieces(self, text: str) -> Sequence[str | None]:
        """What the model's tokenizer makes of a text; `None` for each piece that it does not know."""

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Embeddings of `texts`, none of which is longer than `max_pieces`.

        Raises:
            EncodingFailed: the model did not embed them. OSError, RuntimeError and ValueError mean the same.
        """
