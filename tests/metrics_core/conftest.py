"""Judge servers on loopback, and a module of metrics that a user wrote."""

from __future__ import annotations

import contextlib
import importlib
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.judge_server import JudgeServer
from tests.metrics_core.judges.asking import ask, match, options, samples


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


@pytest.fixture
def custom_metrics(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module `data/custom_metrics.py`, as a module of users that can be imported by its name."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "data"))
    yield importlib.import_module("custom_metrics")
    sys.modules.pop("custom_metrics")
