"""What is known of a judge before any call, and what becomes of a call that reaches no server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable

import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm import provider
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.provider import abilities, complete, count_tokens, missing_key
from answerkey.metrics_core.llm.request import CallError
from tests.judge_server import JudgeServer, Reply
from tests.metrics_core.judges.asking import patiently

MESSAGES = ({"role": "user", "content": "Are they the same?"},)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_API_BASE", "_BASE_URL")):
            monkeypatch.delenv(name)


def error_of(judge: ModelRef, timeout_s: float = 10.0) -> CallError:
    async def call() -> None:
        # As the client does: else the first call's imports would be in its time.
        await asyncio.to_thread(provider.prepare, judge)
        try:
            await complete(judge, MESSAGES, {"max_tokens": 5}, timeout_s)
        finally:
            await provider.disconnect()

    with pytest.raises(CallError) as caught:
        asyncio.run(call())
    return caught.value


@pytest.fixture
def nobody() -> str:
    """An address where nothing listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    return f"http://127.0.0.1:{port}/v1"


def test_an_unreachable_server_is_trouble(nobody: str) -> None:
    error = error_of(ModelRef("openai/judge", nobody))
    assert (error.kind, error.code, error.retry_after) == ("trouble", "connection", None)


def test_a_server_that_never_replies_is_given_up_in_time_and_not_called_again() -> None:
    def check(timeout_s: float) -> None:
        calls = 0
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            judge = ModelRef("openai/judge", f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
            error = error_of(judge, timeout_s)
            listener.settimeout(0.5)
            with contextlib.suppress(TimeoutError):
                while True:
                    listener.accept()
                    calls += 1
        assert (error.kind, error.code, error.message) == ("trouble", "timeout", f"no reply within {timeout_s:g} s")
        assert calls == 1

    patiently(check, 0.5, 5.0, 50.0)


def test_a_cancelled_call_is_cancelled_and_no_error_of_a_server() -> None:
    async def work() -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            judge = ModelRef("openai/judge", f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
            call = asyncio.create_task(complete(judge, MESSAGES, {"max_tokens": 5}, 30.0))
            listener.setblocking(False)
            await asyncio.get_running_loop().sock_accept(listener)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        await provider.disconnect()

    asyncio.run(work())


CALLS = """
import asyncio, sys
from answerkey.metrics_core.llm import provider
from answerkey.metrics_core.llm.model import ModelRef

judge = ModelRef("openai/gpt-4o-mini", sys.argv[1])
provider.prepare(judge)

async def work():
    await asyncio.gather(*(provider.complete(judge, [{"role": "user", "content": "?"}], {}, 60.0) for _ in range(5)))
    await provider.disconnect()

asyncio.run(work())
asyncio.run(work())
"""


@pytest.mark.slow
def test_calls_on_several_event_loops_print_nothing(judge_server: Callable[..., JudgeServer]) -> None:
    server = judge_server(lambda _: Reply("yes"))
    done = subprocess.run([sys.executable, "-c", CALLS, server.url], text=True, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr, server.n_requests) == (0, "", "", 10)


@pytest.mark.parametrize(
    ("quoted", "shown"),
    [
        ("nobody/k7", "k7"),
        ("nobody/sk-proj-abcdefgh", "sk-proj"),
        ("nobody/key-abcdefgh", "abcdefgh"),
        ("nobody/http://me:hunter2@host/v1", "hunter2"),
        ("nobody/http://host/v1?api_key=hunter2", "hunter2"),
        ("nobody/from-the-environment-91", "from-the-environment-91"),
        ("nobody/short", None),
    ],
)
def test_a_message_shows_no_secret_that_it_quotes(
    quoted: str, shown: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """litellm quotes the model's name, which here holds one."""
    monkeypatch.setenv("SOME_OTHER_API_KEY", "from-the-environment-91")
    monkeypatch.setenv("TINY_TOKEN", "short")
    error = error_of(ModelRef(quoted, "", "k7"))
    assert "nobody/" in error.message
    assert "\n" not in error.message
    assert len(error.message) <= 500
    if shown is None:
        # A short word of the environment may be any word.
        assert quoted in error.message
    else:
        assert shown not in error.message
        assert "***" in error.message


def test_a_message_says_what_is_wrong_in_the_words_of_the_provider() -> None:
    assert "LLM Provider NOT provided" in error_of(ModelRef("nobody/x")).message


def test_an_unknown_provider_is_refused_before_any_call() -> None:
    with pytest.raises(UserError, match=r"'nobody/x': litellm knows no such provider; write PROVIDER/MODEL, "):
        abilities("nobody/x")


def test_prices_are_dollars_per_token_and_none_where_unknown() -> None:
    known = abilities("openai/gpt-4o-mini")
    assert known.takes_format
    assert known.price is not None
    asked, _, answered = known.price
    assert 1e-9 < asked < answered < 1e-3
    assert abilities("openai/a-model-of-our-own").price is None


@pytest.mark.parametrize(
    ("judge", "missing"),
    [
        (ModelRef("openai/gpt-4o-mini"), "OPENAI_API_KEY"),
        (ModelRef("anthropic/claude-sonnet-4-5"), "ANTHROPIC_API_KEY"),
        # A server of one's own often wants none.
        (ModelRef("openai/q", "http://127.0.0.1:8080/v1"), None),
        (ModelRef("openai/gpt-4o-mini", "", "sk-given"), None),
    ],
)
def test_which_key_is_missing(judge: ModelRef, missing: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing_key(judge) == missing
    if missing:
        monkeypatch.setenv(missing, "sk-from-the-environment")
        assert missing_key(judge) is None


@pytest.mark.parametrize("model", ["openai/gpt-4o-mini", "openai/a-model-of-our-own", "anthropic/claude-sonnet-4-5"])
def test_tokens_are_counted_without_the_network(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*where: object, **_: object) -> None:
        raise AssertionError(f"asks the network: {where}")

    monkeypatch.setattr(socket, "getaddrinfo", forbidden)
    judge = ModelRef(model)
    assert count_tokens(judge, "") == 0
    assert 9 <= count_tokens(judge, "The quick brown fox jumps over the lazy dog.") <= 12
    assert 4 <= count_tokens(judge, "東京は日本の首都です。") <= 20
