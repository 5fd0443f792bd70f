"""What servers answer, over HTTP: what it costs, how many calls are made, and what the user is told."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm import provider
from answerkey.metrics_core.llm.access import NO_LIMITS, CallLimits
from answerkey.metrics_core.llm.ledger import open_ledger
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.request import CallError
from tests.judge_http import http
from tests.judge_server import JudgeServer, Reply
from tests.metrics_core.judges.asking import ask, match, options, samples, setup
from tests.raw_server import RawServer, said

pytestmark = pytest.mark.usefixtures("first_call_made")

YES = json.dumps({"reason": "the same", "reference": 1, "rule": "factual_equivalence", "verdict": "match"})
PAID = json.dumps(said({"content": YES}, usage={"prompt_tokens": 1_000, "completion_tokens": 60})).encode()
MODEL = "openai/gpt-4o-mini"


class Seen(NamedTuple):
    """What became of a run: the statuses, the calls, the dollars, and the message of the last row."""

    statuses: Counter[str]
    calls: int
    cost_usd: float
    message: str


def run(folder: Path, answer: bytes | list[bytes], rows: int = 30, **changes: Any) -> Seen:
    with RawServer(*([answer] if isinstance(answer, bytes) else answer)) as server:
        judge = setup(f"{MODEL}@{server.url}", ledger=str(folder), run="run", **{"deadline_s": 20.0, **changes})
        measured = ask(samples(rows), judge)
        ledger = open_ledger(str(folder))
        spent = ledger.spent("run")
        ledger.close()
        last = measured[-1]
        return Seen(Counter(one.status for one in measured), len(server.requests), spent.cost_usd, str(last.reason))


def failed(status: int, **error: Any) -> bytes:
    return http(status, json.dumps({"error": error}).encode())


def test_the_status_of_the_wire_decides_whatever_the_body_says(tmp_path: Path) -> None:
    busy = failed(503, message="Service is too busy", type="invalid_request_error", code="invalid_request_error")
    seen = run(tmp_path, [busy, busy, http(200, PAID)], rows=6)
    assert (seen.statuses, seen.calls) == ({"scored": 6}, 8)


def test_a_reply_that_its_provider_could_not_make_is_asked_for_again(tmp_path: Path) -> None:
    bad = failed(400, message="Failed to generate JSON. Please adjust your prompt.", code="json_validate_failed")
    assert run(tmp_path, [bad, http(200, PAID)], rows=1)[:2] == ({"scored": 1}, 2)


SAYS = {
    "max_completion_tokens": "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
    "'max_completion_tokens' instead.",
    "reasoning_effort": "Unsupported parameter: 'reasoning_effort' is not supported with this model.",
    "fewer": "max_tokens is too large: 4096. This model supports at most 512 completion tokens.",
}


def picky(kind: str) -> Callable[[Any], bool]:
    """Whether a request is one that the server takes."""
    return {
        "max_completion_tokens": lambda body: "max_tokens" not in body,
        "reasoning_effort": lambda body: "reasoning_effort" not in body,
        "fewer": lambda body: body.get("max_tokens", 0) <= 512,
    }[kind]


@pytest.mark.parametrize("kind", SAYS)
def test_what_a_server_does_not_take_is_learned_once(
    kind: str, judge_server: Callable[..., JudgeServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("tests.judge_server", fromlist=["ERRORS"]).ERRORS, "picky",
                        (400, SAYS[kind], "invalid_request_error", None))  # fmt: skip
    monkeypatch.setattr("tests.judge_server.KINDS", frozenset({"picky"}))
    takes = picky(kind)
    server = judge_server(match, faults=lambda _number, body: None if takes(body) else "picky")
    # litellm sends an effort to models that its tables know to think.
    model = "openai/gpt-5-mini" if kind == "reasoning_effort" else ""
    effort = {"reasoning_effort": "low"} if kind == "reasoning_effort" else {}
    measured = ask(samples(20), options(server, model, **effort))
    assert Counter(one.status for one in measured) == {"scored": 20}
    assert sum(server.fault_counts.values()) <= 4


def test_the_room_that_a_reply_needed_is_remembered(judge_server: Callable[..., JudgeServer]) -> None:
    def thinks(body: Any) -> Reply:
        return Reply(match(body)) if body.get("max_tokens", 0) >= 4_096 else Reply("", "length")

    server = judge_server(thinks)
    measured = ask(samples(20), options(server, concurrency=2))
    assert Counter(one.status for one in measured) == {"scored": 20}
    # Those in flight until the first has its reply.
    assert server.n_requests <= 26


@pytest.mark.parametrize(
    ("model", "package"), [("openai/gpt-5-pro", "'answerkey[responses]'"), ("vertex_ai/gemini-2.5-pro", "google-auth")]
)
def test_a_judge_whose_modules_are_missing_is_refused_in_one_line(
    model: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider, "find_spec", lambda _name: None)
    with pytest.raises(UserError, match=rf"^judge {model}: litellm needs another package to call it: pip install"):
        provider.check([ModelRef(model, "", "a key")], NO_LIMITS, "judge")
    assert provider._missing_package(model) == package


def test_a_price_that_is_given_is_counted_and_allows_a_cap(tmp_path: Path) -> None:
    with RawServer(http(200, PAID)) as server:
        name = f"openai/our-own@{server.url}"
        with pytest.raises(UserError, match=r"its price is not known, so its cost cannot be limited; name the price"):
            ask(samples(1), setup(name, ledger=str(tmp_path), max_cost_usd=1.0))
        [measured] = ask(samples(1), setup(name, ledger=str(tmp_path), max_cost_usd=1.0, price="2,10"))
    assert measured.usage.cost_usd == pytest.approx((1_000 * 2 + 60 * 10) / 1e6)
    with pytest.raises(UserError, match=r"dollars per million tokens"):
        setup("openai/m", price="cheap")


def test_prices_come_from_litellms_look_up_too() -> None:
    limits = CallLimits(max_cost_usd=1.0)
    provider.check([ModelRef("bedrock/converse/us.amazon.nova-pro-v1:0", "http://127.0.0.1:1")], limits, "judge")


@pytest.mark.slow
def test_an_outage_costs_no_row_whose_deadline_is_later(judge_server: Callable[..., JudgeServer]) -> None:
    """The server fails from its 41st to its 60th request: more than the attempts of any row."""
    server = judge_server(match, latency=0.01, faults=lambda number, _body: "error_503" if 40 <= number < 60 else None)
    measured = ask(samples(200), options(server, concurrency=8))
    assert Counter(one.status for one in measured) == {"scored": 200}
    # One at a time, once all calls fail.
    assert server.n_requests <= 200 + 20


PROVIDERS = {
    "azure/gpt-4o": "", "azure/gpt-4o-mini": "/openai/v1", "anthropic/claude-haiku-4-5": "", "groq/m": "/v1",
    "nvidia_nim/m": "/v1", "gemini/gemini-2.5-flash": "",
}  # fmt: skip
"""Models of which litellm calls each in another way, and the path of their address."""


@pytest.mark.parametrize("model", PROVIDERS)
def test_every_provider_is_asked_once_and_followed_nowhere(model: str) -> None:
    def error(answer: bytes) -> tuple[str, int]:
        with RawServer(answer) as server:
            judge = ModelRef(model, f"http://127.0.0.1:{server.port}{PROVIDERS[model]}", "a-key-of-the-user")
            provider.prepare(judge)

            async def call() -> None:
                try:
                    await provider.complete(judge, [{"role": "user", "content": "?"}], {"max_tokens": 5}, 60.0)
                finally:
                    await provider.disconnect()

            with pytest.raises(CallError) as caught:
                asyncio.run(call())
            return caught.value.code, len(server.requests)

    with RawServer(http(200, PAID)) as other:
        assert error(http(307, b"", f"location: {other.url}\r\n")) == ("redirect", 1)
        assert other.requests == []
    assert error(http(500, b"{}")) == ("http_500", 1)
    assert error(http(200, b"x" * (provider.MOST_BYTES + 1))) == ("too_large", 1)
