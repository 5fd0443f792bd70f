"""Judge servers on loopback, and encoders of known vectors, given to the metric as objects: nothing is patched."""

from __future__ import annotations

import contextlib
import hashlib
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pytest

from answerkey.metrics_core.embeddings.encoder import Encoded
from answerkey.metrics_core.llm import client
from tests.judge_server import JudgeServer
from tests.metrics_core.judges.asking import ask, match, options, samples


@pytest.fixture(autouse=True)
def unknown_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server's port may have been that of an earlier test's server, of which this process has learned much."""
    for module, name in ((client, "_limiters"), (client, "_learned")):
        monkeypatch.setattr(module, name, {})


@pytest.fixture
def judge_server() -> Iterator[Callable[..., JudgeServer]]:
    """Starts a `JudgeServer` with the arguments of its class; all of them close when the test ends."""
    with contextlib.ExitStack() as servers:
        yield lambda *arguments, **options: servers.enter_context(JudgeServer(*arguments, **options))


@pytest.fixture(scope="session")
def first_call_made() -> None:
    """The first call of a process takes seconds, in which litellm imports half of itself: no time for a time-out."""
    with JudgeServer(match) as server:
        ask(samples(1), options(server))


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, also where pytest itself was started in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Scripted:
    """An encoder with a vector for each text it knows; other texts are an error. Pieces are words."""

    revision = "1"

    def __init__(
        self,
        vectors: Mapping[str, Sequence[float]],
        name: str = "scripted",
        *,
        max_pieces: int = 1000,
        batch_size: int = 4,
        unknown: str = "",
    ) -> None:
        self.vectors, self.name, self.unknown = vectors, name, unknown
        self.max_pieces, self.batch_size = max_pieces, batch_size
        self.calls: list[list[str]] = []

    def pieces(self, text: str) -> list[str | None]:
        return [None if self.unknown and self.unknown in word else word for word in text.split()]

    def encode(self, texts: Sequence[str]) -> Encoded:
        self.calls.append(list(texts))
        missing = [text for text in texts if text not in self.vectors]
        if missing:
            raise ValueError(f"no vector for {missing[0]!r}")
        return Encoded(np.array([self.vectors[text] for text in texts], np.float32), tokens=len(texts))


class BagOfWords(Scripted):
    """An encoder that takes every text: a sum of one random direction per word, and a common one."""

    def __init__(self, name: str = "bag", **options: int) -> None:
        super().__init__({}, name, **options)

    def encode(self, texts: Sequence[str]) -> Encoded:
        self.calls.append(list(texts))
        return Encoded(np.array([self.direction(text) for text in texts], np.float32))

    def direction(self, text: str) -> np.ndarray:
        total = np.full(8, 0.1)
        for word in text.split():
            seed = int.from_bytes(hashlib.sha256((self.name + word).encode()).digest()[:4], "big")
            total += np.random.default_rng(seed).normal(size=8)
        return total


@pytest.fixture(scope="session")
def scripted() -> type[Scripted]:
    return Scripted


@pytest.fixture(scope="session")
def bag_of_words() -> type[BagOfWords]:
    return BagOfWords
