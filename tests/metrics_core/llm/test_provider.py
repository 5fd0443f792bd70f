"""One call through litellm: what is known of a model, what becomes of a call that fails."""

import asyncio
import contextlib
import json
import os
import socket
import sys
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm import provider
from answerkey.metrics_core.llm.access import NO_LIMITS, CallLimits
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.provider import abilities, complete, count_tokens, missing_key, seconds_to_wait
from answerkey.metrics_core.llm.request import CallError
from tests.conftest import ROOT
from tests.judge_http import http
from tests.judge_server import Reply
from tests.kit.processes import finished
from tests.metrics_core.judges.asking import ask, match, patiently, samples, setup
from tests.raw_server import RawServer, ok, said

MESSAGES = ({"role": "user", "content": "Are they the same?"},)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_API_BASE", "_BASE_URL")):
            monkeypatch.delenv(name)


def error_of(judge, timeout_s=60.0):
    async def call():
        # As the client does: else the first call's imports would be in its time.
        await asyncio.to_thread(provider.prepare, judge)
        try:
            await complete(judge, MESSAGES, {"max_tokens": 5}, timeout_s)
        finally:
            await provider.disconnect()

    with pytest.raises(CallError) as caught:
        asyncio.run(call())
    return caught.value


@contextlib.contextmanager
def silent_server():
    """A listener that never answers, and the judge there."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener, ModelRef("openai/judge", f"http://127.0.0.1:{listener.getsockname()[1]}/v1")


def test_a_server_that_never_replies_is_given_up_in_time_and_not_called_again():
    def check(timeout_s):
        calls = 0
        with silent_server() as (listener, judge):
            error = error_of(judge, timeout_s)
            listener.settimeout(0.5)
            with contextlib.suppress(TimeoutError):
                while True:
                    listener.accept()
                    calls += 1
        assert (error.kind, error.code, error.message) == ("trouble", "timeout", f"no reply within {timeout_s:g} s")
        assert calls == 1

    patiently(check, 0.5, 5.0, 50.0)


def test_a_cancelled_call_is_cancelled_and_no_error_of_a_server():
    async def work():
        with silent_server() as (listener, judge):
            call = asyncio.create_task(complete(judge, MESSAGES, {"max_tokens": 5}, 30.0))
            listener.setblocking(False)
            await asyncio.get_running_loop().sock_accept(listener)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        await provider.disconnect()

    asyncio.run(work())


PROVIDERS = {
    "azure/gpt-4o": "", "azure/gpt-4o-mini": "/openai/v1", "anthropic/claude-haiku-4-5": "", "groq/m": "/v1",
    "nvidia_nim/m": "/v1", "gemini/gemini-2.5-flash": "",
}  # fmt: skip
"""Models of which litellm calls each in another way, and the path of their address."""


@pytest.mark.parametrize("model", PROVIDERS)
def test_every_provider_is_asked_once_and_followed_nowhere(model):
    def error(answer):
        with RawServer(answer) as server:
            address = f"http://127.0.0.1:{server.port}{PROVIDERS[model]}"
            return error_of(ModelRef(model, address, "a-key-of-the-user")).code, len(server.requests)

    with RawServer(ok(said())) as other:
        assert error(http(307, b"", f"location: {other.url}\r\n")) == ("redirect", 1)
        assert other.requests == []
    assert error(http(500, b"{}")) == ("http_500", 1)
    assert error(http(200, b"x" * (provider.MOST_BYTES + 1))) == ("too_large", 1)


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
def test_a_message_shows_no_secret_that_it_quotes(quoted, shown, monkeypatch):
    """litellm quotes the model's name, which here holds one."""
    monkeypatch.setenv("SOME_OTHER_API_KEY", "from-the-environment-91")
    monkeypatch.setenv("TINY_TOKEN", "short")
    message = error_of(ModelRef(quoted, "", "k7")).message
    assert "LLM Provider NOT provided" in message
    assert "nobody/" in message
    assert "\n" not in message
    assert len(message) <= 500
    if shown is None:
        # A short word of the environment may be any word.
        assert quoted in message
    else:
        assert (shown in message, "***" in message) == (False, True)


# What is known before any call.


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
def test_which_key_is_missing(judge, missing, monkeypatch):
    assert missing_key(judge) == missing
    if missing:
        monkeypatch.setenv(missing, "sk-from-the-environment")
        assert missing_key(judge) is None


@pytest.mark.parametrize(
    ("model", "package"), [("openai/gpt-5-pro", "'answerkey[responses]'"), ("vertex_ai/gemini-2.5-pro", "google-auth")]
)
def test_a_judge_whose_modules_are_missing_is_refused_in_one_line(model, package, monkeypatch):
    monkeypatch.setattr(provider, "find_spec", lambda _name: None)
    line = f"judge {model}: litellm needs another package to call it: pip install {package}"
    with pytest.raises(UserError, match="litellm needs") as error:
        provider.check([ModelRef(model, "", "a key")], NO_LIMITS, "judge")
    assert str(error.value) == line


def test_prices_are_dollars_per_token_also_of_litellms_look_up_and_none_where_unknown():
    known = abilities("openai/gpt-4o-mini")
    assert "response_format" in known.parameters
    asked, _, answered = known.price
    assert 1e-9 < asked < answered < 1e-3
    assert abilities("openai/a-model-of-our-own").price is None
    limits = CallLimits(max_cost_usd=1.0)
    provider.check([ModelRef("bedrock/converse/us.amazon.nova-pro-v1:0", "http://127.0.0.1:1")], limits, "judge")


# Each is a shape that a provider documents; the row after the shape is what it bills as output
USAGE = {
    "thoughts within (OpenAI, DeepSeek)": (
        {"completion_tokens": 1_040, "total_tokens": 2_540, "completion_tokens_details": {"reasoning_tokens": 1_000}},
        1_040,
    ),
    "thoughts beside (xAI)": (
        {"completion_tokens": 40, "total_tokens": 2_540, "completion_tokens_details": {"reasoning_tokens": 1_000}},
        1_040,
    ),
    "thoughts in the total alone (Google)": ({"completion_tokens": 40, "total_tokens": 2_540}, 1_040),
    "thoughts beside, without a total": (
        {"completion_tokens": 40, "completion_tokens_details": {"reasoning_tokens": 1_000}},
        1_040,
    ),
    "no thoughts (Mistral, vLLM)": ({"completion_tokens": 40, "total_tokens": 1_540}, 40),
    "no total (llama.cpp)": ({"completion_tokens": 40}, 40),
    "a total that is no sum": ({"completion_tokens": 40, "total_tokens": 7}, 40),
    "a total that is no number": ({"completion_tokens": 40, "total_tokens": "2540"}, 40),
    "details that are none": ({"completion_tokens": 40, "total_tokens": 1_540, "completion_tokens_details": None}, 40),
}


@pytest.mark.parametrize(("usage", "tokens_out"), USAGE.values(), ids=USAGE.keys())
def test_output_is_paid_as_the_provider_bills_it(judge_server, usage, tokens_out):
    server = judge_server(lambda body: Reply(match(body), usage={"prompt_tokens": 1_500, **usage}))

    [outcome] = ask(samples(1), setup(f"openai/our-own@{server.url}", max_cost_usd=1.0, price="2,10"))

    assert outcome.usage.cost_usd == pytest.approx((1_500 * 2 + tokens_out * 10) / 1e6)


def test_a_price_that_is_given_is_counted_and_allows_a_cap(judge_server):
    server = judge_server(lambda body: Reply(match(body), prompt_tokens=1_000, completion_tokens=60))
    name = f"openai/our-own@{server.url}"
    with pytest.raises(UserError, match=r"its price is not known, so its cost cannot be limited; name the price"):
        ask(samples(1), setup(name, max_cost_usd=1.0))
    assert server.n_requests == 0
    [found] = ask(samples(1), setup(name, max_cost_usd=1.0, price="2,10"))
    assert found.usage.cost_usd == pytest.approx((1_000 * 2 + 60 * 10) / 1e6)
    with pytest.raises(UserError, match=r"dollars per million tokens"):
        setup("openai/m", price="cheap")


@pytest.mark.parametrize("model", ["openai/gpt-4o-mini", "openai/a-model-of-our-own", "anthropic/claude-sonnet-4-5"])
def test_tokens_are_counted(model):
    judge = ModelRef(model)
    assert count_tokens(judge, "") == 0
    assert 9 <= count_tokens(judge, "The quick brown fox jumps over the lazy dog.") <= 12
    assert 4 <= count_tokens(judge, "東京は日本の首都です。") <= 20


# How long a server asks to wait.


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": " 7 "}, 7.0),
        ({"retry-after": "0.25"}, 0.25),
        # The finer one of two goes first.
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "2"}, 2.0),
        ({"retry-after-ms": "nan", "retry-after": "2"}, 2.0),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": formatdate(1_000_030, usegmt=True)}, 29.5),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": "soon"}, None),
    ],
)
def test_how_long_a_server_asks_to_wait(headers, seconds, monkeypatch):
    if "1970" in headers.get("retry-after", ""):
        monkeypatch.setattr("time.time", lambda: 1_000_000.5)
    assert seconds_to_wait(headers) == seconds


NUMBER = st.integers(0, 10**12).map(str)
DATE = st.tuples(NUMBER, st.sampled_from(["Jan", "Feb", "June", "13"]), NUMBER, NUMBER, NUMBER, NUMBER | st.just("GMT"))
HEADER = st.text() | DATE.map(lambda parts: "{} {} {} {}:{} {}".format(*parts))


@given(st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms"]), HEADER))
def test_whatever_stands_there_is_a_time_or_nothing(headers):
    seconds = seconds_to_wait(headers)
    assert seconds is None or 0.0 <= seconds < float("inf")


# Quiet.


IMPORT = """
import json, logging, os, socket, sys

touched = []
for name in ("getaddrinfo", "create_connection"):
    setattr(socket, name, lambda *where, **_: touched.append(repr(where)) or (_ for _ in ()).throw(OSError("none")))
socket.socket.connect = socket.socket.connect_ex = lambda self, where: touched.append(repr(where))

set_at_import = []
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "litellm":
            set_at_import.append(os.environ.get("LITELLM_LOCAL_MODEL_COST_MAP"))
sys.meta_path.insert(0, Watch())

from answerkey.metrics_core.llm.provider import litellm
before = "litellm" in sys.modules
library = litellm()
print(json.dumps({
    "before": before,
    "set": set_at_import[0],
    "touched": touched,
    "telemetry": library.telemetry,
    "debug": library.suppress_debug_info,
    "levels": [logging.getLogger(name).level for name in ("LiteLLM", "httpx", "openai")],
    "same": litellm() is library,
    "prices": len(library.model_cost) > 1_000,
}))
"""


@pytest.mark.nightly
def test_the_import_is_late_quiet_and_alone():
    plain = {name: value for name, value in os.environ.items() if not name.startswith("LITELLM")}
    command = [sys.executable, "-c", IMPORT]
    run = finished(command, cwd=ROOT, env=plain, check=True)
    # One line, and it is ours.
    assert (json.loads(run.stdout), run.stderr) == (
        {
            "before": False,
            "set": "True",
            "touched": [],
            "telemetry": False,
            "debug": True,
            "levels": [40, 30, 30],
            "same": True,
            "prices": True,
        },
        "",
    )
