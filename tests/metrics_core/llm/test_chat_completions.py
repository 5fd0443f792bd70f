"""Our own calls to OpenAI-compatible servers, beside those that litellm makes to the same ones."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from answerkey.metrics_core.llm.chat_completions import ChatCompletions
from answerkey.metrics_core.llm.http import MOST_BYTES, exchange, opened
from answerkey.metrics_core.llm.litellm import LiteLLM, litellm
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.request import Message, Request
from answerkey.metrics_core.llm.response_format import ResponseFormat
from answerkey.metrics_core.llm.transport import CallError, Reply, Transport
from tests.answers import ANSWERS
from tests.judge_http import http
from tests.judge_server import JudgeServer
from tests.judge_server import Reply as Said
from tests.raw_server import RawServer, ok, said

KEY = "sk-a-key-that-is-nowhere-9f27"
HELLO: Sequence[Message] = ({"role": "user", "content": "Are they the same?"},)
SETTINGS = {"temperature": 0.0, "seed": 0, "max_tokens": 5}


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_API_BASE", "_BASE_URL")):
            monkeypatch.delenv(name)


def outcome(
    server: RawServer | JudgeServer, transport: Transport, model: str = "openai/m", messages: Sequence[Message] = HELLO,
    settings: Mapping[str, Any] = SETTINGS,
) -> Reply | CallError:  # fmt: skip
    """What comes of one call."""

    async def work() -> Reply | CallError:
        litellm()
        async with opened():
            try:
                return await transport.send(ModelRef(model, server.url, KEY), messages, settings, 60.0)
            except CallError as error:
                return error

    return asyncio.run(work())


def failed(answer: bytes) -> CallError:
    """How the call fails that gets this answer."""
    with RawServer(answer) as server:
        found = outcome(server, ChatCompletions())
    assert isinstance(found, CallError)
    return found


# What is sent.

MODELS = (
    "openai/gpt-4o-mini", "openai/gpt-5", "openai/gpt-5-mini", "openai/o3-mini", "openai/a-model-of-our-own",
    "hosted_vllm/Qwen/Qwen2.5-7B", "lm_studio/gemma", "llamafile/m",
)  # fmt: skip
SCHEMA = json.dumps({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]})
ASKED = Request("m", "p@1", "Be fair.", "Is it \u00e9\U0001f600?", SCHEMA)


@pytest.mark.parametrize("model", MODELS)
def test_the_request_is_the_one_that_litellm_sends(model: str, judge_server: Callable[..., JudgeServer]) -> None:
    server = judge_server(lambda _: Said("yes"))
    repaired = (*ASKED.messages, {"role": "assistant", "content": "{}"}, {"role": "user", "content": "Again."})
    kinds = [
        (ASKED.messages, ResponseFormat("json_schema").settings(ASKED, 1_024)),
        (ASKED.messages, ResponseFormat("json_object").settings(ASKED, 4_096)),
        (repaired, ResponseFormat("text").settings(ASKED, 1_024)),
        (HELLO, ResponseFormat("text", frozenset(("temperature", "seed"))).settings(ASKED, 1)),
        (HELLO, {**SETTINGS, "reasoning_effort": "low", "temperature": 0.7, "seed": 3}),
    ]
    transport = ChatCompletions()
    for messages, settings in kinds:
        theirs, *ours = [
            outcome(server, sender, model, messages, settings) for sender in (LiteLLM(), transport, transport)
        ]
        assert ours == [theirs, theirs]
        first, *others = server.requests[-3:]
        for request in others:
            assert request.body == first.body
            assert all(request.headers[name] == first.headers[name] for name in ("accept", "content-type"))
            assert request.headers["authorization"] == first.headers["authorization"] == f"Bearer {KEY}"
    ours_by_ourselves = [request.headers["user-agent"] == "answerkey" for request in server.requests]
    # For this one litellm changes the messages that have a system message, so it sends those itself.
    changed = 3 if model == "openai/o3-mini" else 0
    assert ours_by_ourselves == [False] * 3 * changed + [False, True, True] * (len(kinds) - changed)


def test_another_provider_is_left_to_litellm(judge_server: Callable[..., JudgeServer]) -> None:
    server = judge_server(lambda _: Said("yes"))
    found = outcome(server, ChatCompletions(), "deepseek/deepseek-chat")
    assert isinstance(found, Reply) and found.text == "yes"
    assert server.requests[0].headers["user-agent"] != "answerkey"


# What comes back: all that litellm says of it, and where we say more.

TELLS_MORE = {
    # litellm fails where the reply is there and only its usage is not believable.
    "usage_float", "usage_string", "usage_huge",
    # Two ways to say that there is no reply.
    "empty_object", "null_choices", "choices_dict", "no_message", "null_message",
    # A text in parts is a text; a rate limit is one whatever its code looks like.
    "parts", "error_in_200_strcode",
    # litellm estimates a prompt that nobody counted.
    "noroom",
}  # fmt: skip


def told(found: Reply | CallError) -> object:
    if isinstance(found, Reply):
        return found
    wait = None if found.retry_after is None else round(found.retry_after, 2)
    return found.kind, found.code, wait, found.parameter, found.about_format


@pytest.mark.filterwarnings("ignore:Pydantic serializer")
@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_an_answer_means_what_litellm_makes_of_it(name: str) -> None:
    with RawServer(ANSWERS[name]) as server:
        ours, theirs = outcome(server, ChatCompletions()), outcome(server, LiteLLM())
        assert len(server.requests) == 2
    if name not in TELLS_MORE:
        assert told(ours) == told(theirs)
    elif isinstance(ours, CallError) and name != "error_in_200_strcode":
        assert isinstance(theirs, CallError) and ours.kind == theirs.kind == "trouble"
    else:
        assert ours != theirs


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("usage_float", (None, None, None)),
        ("usage_string", (None, None, None)),
        ("usage_huge", (None, None, None)),
        ("usage_negative", (None, None, None)),
        ("no_usage", (None, None, None)),
        ("usage_cached", (100, 7, 64)),
    ],
)
def test_usage_is_what_can_be_believed(name: str, tokens: tuple[int | None, ...]) -> None:
    with RawServer(ANSWERS[name]) as server:
        found = outcome(server, ChatCompletions())
    assert isinstance(found, Reply) and found.text == "yes"
    assert (found.tokens_in, found.tokens_out, found.cached_tokens) == tokens


@pytest.mark.parametrize("sender", [ChatCompletions, LiteLLM])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(status: int, sender: Callable[[], Transport]) -> None:
    with RawServer(ok(said())) as other:
        place = other.url.replace("http://", "http://name:secret@") + "/chat/completions?key=hidden"
        sent_on = f"HTTP/1.1 {status} Moved\r\nlocation: {place}\r\ncontent-length: 0\r\n\r\n".encode()
        with RawServer(sent_on) as server:
            found = outcome(server, sender())
        assert isinstance(found, CallError)
        assert (found.kind, found.code) == ("fatal", "redirect")
        where = f"{other.url}/chat/completions"
        assert found.message == f"the server sends calls on to {where}; name that address if you trust it"
        assert other.requests == []


@pytest.mark.parametrize("sender", [ChatCompletions, LiteLLM])
@pytest.mark.parametrize("kind", ["long", "announced", "endless", "bomb", "bomb of bombs"])
def test_an_answer_that_is_too_long_is_not_read(kind: str, sender: Callable[[], Transport]) -> None:
    zeros = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = b"".join(zeros.compress(bytes(2**20)) for _ in range(64)) + zeros.flush()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
    answers = {
        "long": ok(said({"content": "x" * (MOST_BYTES + 1)})),
        "announced": head + b"content-length: 99999999999\r\n\r\n{",
        "endless": head + b"\r\n" + bytes(2 * MOST_BYTES),
        "bomb": head + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(packed) + packed,
        "bomb of bombs": head + b"content-encoding: deflate\r\n\r\n" + packed,
    }
    with RawServer(answers[kind]) as server:
        found = outcome(server, sender())
    assert isinstance(found, CallError)
    assert (found.kind, found.code) == ("permanent", "too_large")
    assert found.message == "the server's answer is longer than 4 MiB"


def test_an_answer_just_short_enough_is_read() -> None:
    with RawServer(ok(said({"content": "x" * (MOST_BYTES - 1_000)}))) as server:
        found = outcome(server, ChatCompletions())
    assert isinstance(found, Reply) and len(found.text) == MOST_BYTES - 1_000


def test_what_cannot_be_unpacked_is_trouble() -> None:
    head = "content-encoding: gzip\r\n"
    error = failed(http(200, b"no gzip at all", head))
    assert (error.kind, error.code) == ("trouble", "disconnected")


@pytest.mark.parametrize("sender", [ChatCompletions, LiteLLM])
def test_no_session_is_left_unclosed(sender: Callable[[], Transport], capfd: pytest.CaptureFixture[str]) -> None:
    for answer in (b"", ANSWERS["half"], ANSWERS["garbage"], ANSWERS["status_500"], ANSWERS["ok"]):
        with RawServer(answer) as server:
            outcome(server, sender())
    gc.collect()
    assert "Unclosed" not in "".join(capfd.readouterr())


def test_a_proxy_of_the_environment_carries_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    with RawServer(ok(said())) as proxy, RawServer(ok(said())) as server:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("NO_PROXY", "")
        outcome(server, ChatCompletions())
        assert (len(proxy.requests), len(server.requests)) == (1, 0)
        assert proxy.requests[0].startswith(f"POST {server.url}/chat/completions HTTP/1.1".encode())
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        outcome(server, ChatCompletions())
        assert (len(proxy.requests), len(server.requests)) == (1, 1)


def test_a_proxy_may_be_named_without_its_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    with RawServer(ok(said())) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"127.0.0.1:{proxy.port}")
        monkeypatch.setenv("NO_PROXY", "")
        found = asyncio.run(exchange("POST", "http://nowhere.invalid/v1/chat/completions", {}, b"{}"))
    assert found.status == 200


@pytest.mark.parametrize("sender", [ChatCompletions, LiteLLM])
def test_an_address_may_have_a_login(sender: Callable[[], Transport], judge_server: Callable[..., JudgeServer]) -> None:
    server = judge_server(lambda _: Said("yes"))
    address = server.url.replace("://", "://me:a-password@")

    async def work() -> Reply:
        litellm()
        async with opened():
            return await sender().send(ModelRef("openai/m", address, KEY), HELLO, SETTINGS, 60.0)

    assert asyncio.run(work()).text == "yes"
    login = base64.b64encode(b"me:a-password").decode()
    assert server.requests[0].headers["authorization"] == f"Basic {login}"


def test_an_answer_that_is_no_json_is_quoted_without_the_key() -> None:
    body = f"<html>{KEY} and http://me:a-password@host/v1 are not welcome</html>".encode()
    error = failed(http(200, body, kind="text/html"))
    assert error.code == "http_500"
    assert "*** and http://***@host/v1 are not welcome" in error.message


def test_an_error_that_is_nested_too_deeply_is_an_error_of_the_server() -> None:
    error = failed(http(503, b'{"error": ' + b"[" * 200_000))
    assert (error.kind, error.code) == ("trouble", "http_503")
