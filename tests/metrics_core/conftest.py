"""Servers for the tests of the judge."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator

import pytest

from tests.judge_server import JudgeServer


@pytest.fixture
def judge_server() -> Iterator[Callable[..., JudgeServer]]:
    """Starts a `JudgeServer` with the arguments of its class; all of them close when the test ends."""
    with contextlib.ExitStack() as servers:
        yield lambda *arguments, **options: servers.enter_context(JudgeServer(*arguments, **options))


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, also where pytest itself was started in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
