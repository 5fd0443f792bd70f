"""Embedding models behind an API, through litellm.

Keys and addresses come from the environment variables that litellm reads (`OPENAI_API_KEY`,
`OPENAI_API_BASE`, ...).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from answerkey.metrics_core.embeddings.encoder import API_REVISION, Encoded, EncoderError, EncodingFailed
from answerkey.metrics_core.llm.provider import litellm, seconds_to_wait

ATTEMPTS = 3
_FIRST_WAIT_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 30.0
_TIMEOUT_SECONDS = 60.0
_TRANSIENT = frozenset((408, 409, 429, 500, 502, 503, 504, 529))
_NOT_THE_TEXTS = _TRANSIENT | {401, 402, 403, 404}
_DEFAULT_LENGTH = 512
"""The limit of models that litellm does not know: that of the shortest common ones."""


class ApiEncoder:
    """A litellm embedding model as an `Encoder`.

    This class does all retries: `ATTEMPTS` per batch for rate limits, server errors and broken connections, with
    exponential back-off or the wait that the server asks for. The pieces are those of a general tokenizer, which is
    close enough to find texts that are too long.

    Raises:
        EncoderError: litellm does not know the provider.
    """

    revision = API_REVISION
    batch_size = 64

    def __init__(self, name: str, sleep: Callable[[float], None] = time.sleep) -> None:
        self.name = name
        self._sleep = sleep
        library = litellm()
        try:
            library.get_llm_provider(name)
        except library.BadRequestError as error:
            raise EncoderError(
                f"embedding model {name!r}: litellm knows no such provider; "
                "write litellm:PROVIDER/MODEL, for instance litellm:openai/text-embedding-3-small"
            ) from error
        # Listed with or without its provider
        entry = library.model_cost.get(name) or library.model_cost.get(name.partition("/")[2]) or {}
        self.max_pieces = int(entry.get("max_input_tokens") or _DEFAULT_LENGTH)

    def pieces(self, text: str) -> Sequence[str | None]:
        """The token ids as texts; an API accepts every text, so no piece is unknown."""
        return [str(token) for token in litellm().encode(model=self.name, text=text)]

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Embeddings in the order of `texts`, with tokens and cost.

        Raises:
            EncodingFailed: the API refused the texts, did not answer, or answered with something else.
        """
        library = litellm()
        attempt = 1
        # litellm takes a `max_retries` of 0 for embeddings as none given, and uses this number of the module instead.
        library.DEFAULT_MAX_RETRIES = 0
        while True:
            try:
                response = library.embedding(
                    model=self.name, input=list(texts), num_retries=0, max_retries=0, timeout=_TIMEOUT_SECONDS
                )
                return _unpacked(response, len(texts))
            except Exception as error:
                # All errors of litellm have a status; any other error is a bug here.
                status = getattr(error, "status_code", None)
                if status is None:
                    raise
                if status not in _TRANSIENT or attempt == ATTEMPTS:
                    line = (str(error).splitlines() or [""])[0]
                    for_all = status in _NOT_THE_TEXTS
                    raise EncodingFailed(f"http_{status}", line, attempt, for_all=for_all) from error
                # litellm keeps the server's headers here, and gives `error.response` empty ones.
                wait = seconds_to_wait(getattr(error, "litellm_response_headers", None) or {})
                if wait is None:
                    # Jitter, so that parallel callers do not retry at the same time.
                    wait = _FIRST_WAIT_SECONDS * 2 ** (attempt - 1) * random.uniform(0.75, 1.25)
                self._sleep(min(wait, _LONGEST_WAIT_SECONDS))
                attempt += 1


def _unpacked(response: Any, expected: int) -> Encoded:
    import numpy as np

    rows = sorted(response.data, key=lambda row: int(row["index"]))
    if [row["index"] for row in rows] != list(range(expected)):
        raise EncodingFailed("encoder", f"asked for {expected} embeddings, got {len(rows)}")
    cost = response._hidden_params.get("response_cost")
    tokens = response.usage.prompt_tokens if response.usage else 0
    return Encoded(np.array([row["embedding"] for row in rows], np.float32), tokens, cost)
