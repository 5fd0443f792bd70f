"""What a judge's server can answer, over HTTP: rows scored, failed and wrong, calls made, dollars billed and counted.

Behind every fault is an honest judge, so a wrong number is a defect of the reader. Each row of the table says what all
rows of a run end as, the code of their failure, and how many calls that may take. "Billed" is what a provider would
charge: every answer with status 200 that was sent.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from answerkey.metrics_core import Measurement
from answerkey.metrics_core.llm import provider
from answerkey.metrics_core.llm.ledger import open_ledger
from answerkey.metrics_core.measurement import Failed
from tests.judge_http import http
from tests.metrics_core.judges.asking import ask, every_third_match, samples, setup
from tests.raw_server import RawServer

pytestmark = pytest.mark.usefixtures("first_call_made")

MODEL, ROWS = "openai/gpt-4o-mini", 12
USAGE = {"prompt_tokens": 1_000, "completion_tokens": 60, "total_tokens": 1_060}
BILLED_USD = 1_000 * 0.15e-6 + 60 * 0.6e-6
STATUS = b"HTTP/1.1 "


class Mode(NamedTuple):
    """What the server answers, given an honest completion; and what becomes of `ROWS` rows.

    `code` is that of failures; empty: the rows are scored. `calls` are the fewest and the most.
    """

    answer: Callable[[dict[str, Any]], bytes]
    code: str = ""
    calls: tuple[int, int] = (ROWS, ROWS)
    changes: dict[str, Any] = {}  # noqa: RUF012


def completion(text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {
        "id": "c", "object": "chat.completion", "created": 1, "model": "m-2026", "system_fingerprint": "fp",
        "choices": [choice], "usage": USAGE,
    }  # fmt: skip


def plain(body: object) -> bytes:
    return http(200, json.dumps(body).encode())


def packed(pack: Callable[[bytes], bytes], encoding: str = "") -> Callable[[dict[str, Any]], bytes]:
    header = f"content-encoding: {encoding}\r\n" if encoding else ""
    return lambda body: http(200, pack(json.dumps(body).encode()), header)


def message(change: Callable[[str], dict[str, Any]], **choice: Any) -> Callable[[dict[str, Any]], bytes]:
    """Another message, made of the honest text; `choice` changes what is beside it."""

    def answer(body: dict[str, Any]) -> bytes:
        text = body["choices"][0]["message"]["content"]
        changed = {**body["choices"][0], "message": {"role": "assistant", **change(text)}, **choice}
        return plain({**body, "choices": [changed]})

    return answer


def text(change: Callable[[str], str], **choice: Any) -> Callable[[dict[str, Any]], bytes]:
    return message(lambda honest: {"content": change(honest)}, **choice)


def top(**changes: Any) -> Callable[[dict[str, Any]], bytes]:
    """Other values at the top of the body; None: it is left out."""
    return lambda body: plain({name: value for name, value in (body | changes).items() if value is not None})


def always(answer: bytes) -> Callable[[dict[str, Any]], bytes]:
    return lambda _body: answer


def error(status: int, headers: str = "", /, **fields: Any) -> Callable[[dict[str, Any]], bytes]:
    content = json.dumps({"error": fields}).encode()
    lines = f"HTTP/1.1 {status} Error\r\ncontent-type: application/json\r\ncontent-length: {len(content)}\r\n{headers}"
    return always(lines.encode() + b"\r\n" + content)


def other(honest: str) -> str:
    """The opposite verdict."""
    verdict = json.loads(honest)
    match = verdict["verdict"] == "match"
    return json.dumps(verdict | {"verdict": "mismatch" if match else "match", "reference": None if match else 1})


def halves(pack: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    return lambda content: pack(content[:100]) + pack(content[100:])


READ = {
    "plain": Mode(plain),
    "byte order mark": Mode(packed(lambda content: b"\xef\xbb\xbf" + content)),
    "blanks before the body": Mode(packed(lambda content: b" \n" * 500 + content)),
    "gzip": Mode(packed(gzip.compress, "gzip")),
    "gzip of two members": Mode(packed(halves(gzip.compress), "gzip")),
    "deflate": Mode(packed(zlib.compress, "deflate")),
    "keys twice": Mode(packed(lambda content: b'{"id": "x", ' + content[1:])),
    "invalid UTF-8 in a name": Mode(packed(lambda content: content.replace(b"m-2026", b"m-\xff"))),
    "no id": Mode(top(id=None)),
    "no model": Mode(top(model=None)),
    "no fingerprint": Mode(top(system_fingerprint=None)),
    "unknown fields": Mode(top(x_groq={"id": "r"}, service_tier="odd", obj=[1])),
    "odd object": Mode(top(object="text")),
    "parts of text": Mode(message(lambda honest: {"content": [{"type": "text", "text": honest}]})),
    "null refusal": Mode(message(lambda honest: {"content": honest, "refusal": None, "tool_calls": None})),
    "prose around": Mode(text(lambda honest: f"Let me compare.\n\n{honest}\n\nI hope that helps!")),
    "fence": Mode(text(lambda honest: f"```json\n{honest}\n```")),
    "said twice": Mode(text(lambda honest: f"{honest}\n{honest}")),
    "citation": Mode(text(lambda honest: f"As [1] says: {honest}")),
    "length after the object": Mode(text(lambda honest: honest, finish_reason="length")),
    "odd finish_reason": Mode(text(lambda honest: honest, finish_reason="eos")),
    "null finish_reason": Mode(text(lambda honest: honest, finish_reason=None)),
    "think": Mode(text(lambda honest: f"<think>At first {other(honest)}</think>{honest}")),
    "thinking": Mode(text(lambda honest: f"<thinking>At first {other(honest)}</thinking>\n{honest}")),
    "end of thoughts alone": Mode(text(lambda honest: f"At first {other(honest)}</think>{honest}")),
    "reasoning_content": Mode(message(lambda honest: {"content": honest, "reasoning_content": other(honest)})),
    "reasoning": Mode(message(lambda honest: {"content": honest, "reasoning": other(honest)})),
    "gpt-oss": Mode(
        text(
            lambda honest: (
                f"<|channel|>analysis<|message|>{other(honest)}<|end|><|start|>assistant<|channel|>final"
                f"<|message|>{honest}"
            )
        )
    ),
    "Seed": Mode(text(lambda honest: f"<seed:think>{other(honest)}</seed:think>{honest}")),
    "Gemma": Mode(text(lambda honest: f"<|channel>thought\n{other(honest)}<channel|>{honest}")),
}
USAGES = {
    "missing": None,
    "a word": "much",
    "a list": [1],
    "empty": {},
    "fractions": {"prompt_tokens": 12.5, "completion_tokens": 3.5},
    "texts": {"prompt_tokens": "1000", "completion_tokens": "60"},
    "negative": {"prompt_tokens": -12, "completion_tokens": -3},
    "huge": {"prompt_tokens": 1e30, "completion_tokens": 1e30},
    "beyond any float": {"prompt_tokens": 10**400, "completion_tokens": 1},
    "booleans": {"prompt_tokens": True, "completion_tokens": []},
    "zero": {"prompt_tokens": 0, "completion_tokens": 0},
    "too small": {"prompt_tokens": 1, "completion_tokens": 1},
}
PAID = (ROWS, 40)
USELESS = {
    "event stream": Mode(always(http(200, b"data: {}\n\ndata: [DONE]\n\n", kind="text/event-stream")), "garbled", PAID),
    "page to log in": Mode(always(http(200, b"<html>Please sign in</html>", kind="text/html")), "garbled", PAID),
    "cut gzip": Mode(packed(lambda content: gzip.compress(content)[:-20], "gzip"), "garbled", PAID),
    "no gzip": Mode(packed(lambda content: content, "gzip"), "garbled", PAID),
    "brackets without end": Mode(always(http(200, b"[" * 100_000)), "garbled", PAID),
    "empty body": Mode(always(http(200, b"")), "garbled", PAID),
    "null": Mode(always(plain(None)), "garbled", PAID),
    "list": Mode(always(plain([1])), "garbled", PAID),
    "word": Mode(always(plain("ok")), "garbled", PAID),
    "no choices": Mode(top(choices=[]), "garbled", PAID),
    "choices are missing": Mode(top(choices=None), "garbled", PAID),
    "error with 200": Mode(always(plain({"error": {"message": "upstream is away", "code": "up"}})), "garbled", PAID),
    "error text with 200": Mode(always(plain({"error": "upstream is away"})), "garbled", PAID),
}
TOOL = {"id": "t", "type": "function", "function": {"name": "judge", "arguments": "{}"}}
TWICE = (2 * ROWS, 2 * ROWS)
OF_THE_MODEL = {
    "refusal": Mode(message(lambda _honest: {"content": None, "refusal": "I cannot."}), "refused_by_model"),
    "refusal in words": Mode(text(lambda _honest: "I'm sorry, but I can't assist with that."), "refused_by_model"),
    "filter": Mode(text(lambda _honest: "", finish_reason="content_filter"), "content_filter"),
    "filter with a part": Mode(text(lambda honest: honest[:20], finish_reason="content_filter"), "content_filter"),
    "two verdicts": Mode(text(lambda honest: f"{honest} or rather {other(honest)}"), "conflict"),
    "broken second": Mode(text(lambda honest: f"{honest} or rather {other(honest)[:-9]}"), "conflict"),
    "plea for </think>": Mode(text(lambda honest: f"{honest} said </think>{other(honest)} </think>"), "conflict"),
    "tool call": Mode(message(lambda _honest: {"content": None, "tool_calls": [TOOL]}), "tool_call", TWICE),
    "function call": Mode(message(lambda _h: {"content": None, "function_call": TOOL["function"]}), "tool_call", TWICE),
    "only thoughts": Mode(message(lambda honest: {"content": "", "reasoning_content": honest}), "only_thoughts", TWICE),
    "only <think>": Mode(text(lambda honest: f"<think>{honest}</think>"), "only_thoughts", TWICE),
    "no end of <think>": Mode(text(lambda honest: f"<think>{honest}"), "only_thoughts", TWICE),
    "prose": Mode(text(lambda _honest: "Both seem fine to me."), "not_json", TWICE),
    "NaN": Mode(text(lambda _honest: '{"verdict": NaN}'), "not_json", TWICE),
    "list of objects": Mode(text(lambda honest: f"[{honest}]"), "not_object", TWICE),
    "string of an object": Mode(text(json.dumps), "not_object", TWICE),
    "deep brackets": Mode(text(lambda _honest: '{"a":' + "[" * 5_000 + "]" * 5_000 + "}"), "unreadable", TWICE),
    "another verdict": Mode(text(lambda _honest: '{"verdict": "maybe"}'), "unreadable", TWICE),
    "empty": Mode(text(lambda _honest: ""), "empty_reply", (3 * ROWS, 3 * ROWS)),
    "blank": Mode(text(lambda _honest: " \u200b\n"), "empty_reply", (3 * ROWS, 3 * ROWS)),
    "thoughts without room": Mode(
        message(lambda _honest: {"content": "", "reasoning_content": "Hm"}, finish_reason="length"),
        "only_thoughts",
        (ROWS, TWICE[1]),
    ),
}
FEW = (1, 2)
SOME = (10, 40)
ERRORS = {
    "OpenAI, wrong key": Mode(
        error(401, message="Incorrect API key", type="invalid_request_error", code="invalid_api_key"), "http_401", FEW
    ),
    "OpenAI, no member": Mode(
        error(401, message="You must be a member of an organization", type="invalid_request_error"), "http_401", FEW
    ),
    "OpenAI, scopes": Mode(error(403, message="Missing scopes", type="invalid_request_error"), "http_403", FEW),
    "OpenAI, no model": Mode(error(404, message="The model does not exist", code="model_not_found"), "http_404", FEW),
    "Groq, wrong key": Mode(
        error(401, message="Invalid API Key", type="invalid_request_error", code="invalid_api_key"), "http_401", FEW
    ),
    "DeepSeek, wrong key": Mode(
        error(401, message="Authentication Fails", type="authentication_error", code="invalid_request_error"),
        "http_401",
        FEW,
    ),
    "DeepSeek, no balance": Mode(
        error(402, message="Insufficient Balance", type="unknown_error", code="invalid_request_error"), "http_402", FEW
    ),
    "OpenRouter, no credits": Mode(error(402, message="Insufficient credits", code=402), "http_402", FEW),
    "Gemini, wrong key": Mode(
        error(400, message="API key not valid. Please pass a valid API key.", status="INVALID_ARGUMENT"),
        "http_400",
        SOME,
    ),
    "proxy, budget": Mode(error(400, message="Budget has been exceeded", type="budget_exceeded"), "http_400", SOME),
    "unprocessable": Mode(error(422, message="body.messages: field required"), "http_422", SOME),
    "method": Mode(error(405, message="Method Not Allowed"), "http_405", (10, ROWS)),
    "Azure's filter": Mode(
        error(400, message="It was filtered", code="content_filter", innererror={}), "content_filter"
    ),
    "Bedrock's filter": Mode(
        error(400, message="ResponsibleAIPolicyViolation: the text was blocked"), "content_filter"
    ),
    "too long": Mode(
        error(400, message="maximum context length is 4096 tokens", code="context_length_exceeded"), "too_long"
    ),
    "payload": Mode(error(413, message="Request too large for model"), "too_long"),
    "tokens a minute": Mode(
        error(429, message="Request too large for model: tokens per min (TPM): Limit 6000", code="tokens"), "too_long"
    ),
    "cannot make JSON": Mode(
        error(400, message="Failed to generate JSON. Please adjust your prompt.", code="json_validate_failed"),
        "http_400",
        (ROWS, 3 * ROWS),
    ),
    "moved": Mode(always(http(301, b"", "location: http://127.0.0.1:9/v1?key=k\r\n")), "redirect", FEW),
    "found": Mode(always(http(302, b"", "location: http://127.0.0.1:9/v1\r\n")), "redirect", FEW),
    "see other": Mode(always(http(303, b"", "location: /login\r\n")), "redirect", FEW),
    "temporary redirect": Mode(always(http(307, b"", "location: http://[bad\r\n")), "redirect", FEW),
    "permanent redirect": Mode(always(http(308, b"", "location: http://127.0.0.1:9/v1\r\n")), "redirect", FEW),
    "too large": Mode(always(http(200, b"x" * (provider.MOST_BYTES + 1))), "too_large"),
    "gzip bomb": Mode(
        always(http(200, gzip.compress(b"x" * (provider.MOST_BYTES + 1)), "content-encoding: gzip\r\n")), "too_large"
    ),
}
BRIEF = {"deadline_s": 1.5}
ANY = (1, 10 * ROWS)
TROUBLE = {
    "500": Mode(error(500, message="The server had an error", type="server_error"), "http_500", ANY, BRIEF),
    "500, a client's fault by its words": Mode(
        error(500, message="overloaded", type="invalid_request_error"), "http_500", ANY, BRIEF
    ),
    "502": Mode(always(http(502, b"<html>Bad gateway</html>", kind="text/html")), "http_502", ANY, BRIEF),
    "503, busy": Mode(
        error(503, message="Service is too busy", type="invalid_request_error", code="invalid_request_error"),
        "http_503", ANY, BRIEF,
    ),
    "503, loading": Mode(error(503, message="Loading model", type="unavailable_error"), "http_503", ANY, BRIEF),
    "504": Mode(error(504, message="upstream timed out"), "http_504", ANY, BRIEF),
    "409": Mode(error(409, message="conflict"), "http_409", ANY, BRIEF),
    "520": Mode(error(520, message="unknown"), "http_520", ANY, BRIEF),
    "522": Mode(error(522, message="connection timed out"), "http_522", ANY, BRIEF),
    "529, overloaded": Mode(error(529, type="overloaded_error", message="Overloaded"), "http_529", ANY, BRIEF),
    "502 within 200": Mode(
        lambda body: plain({**body, "choices": [{"index": 0, "finish_reason": "error", "error": {"code": 502},
                                                 "message": {"role": "assistant", "content": ""}}]}),
        "error_in_reply", ANY, BRIEF,
    ),
    "cut body": Mode(lambda body: plain(body)[:-20], "disconnected", ANY, BRIEF),
    "no answer at all": Mode(always(b""), "disconnected", ANY, BRIEF),
}  # fmt: skip
LIMITED = {
    "429": Mode(error(429, message="slow down", code="rate_limit_exceeded"), "skipped", ANY, BRIEF),
    "429 with a time": Mode(
        error(429, "retry-after: 600\r\n", message="slow down", code="rate_limit_exceeded"), "skipped", ANY, BRIEF
    ),
    "429, quota": Mode(error(429, message="used up", code="insufficient_quota"), "skipped", ANY, BRIEF),
    "503 with a time": Mode(error(503, "retry-after: 600\r\n", message="busy"), "skipped", ANY, BRIEF),
}  # fmt: skip
MODES = {
    **{f"read: {name}": mode for name, mode in READ.items()},
    **{f"usage: {name}": Mode(top(usage=usage)) for name, usage in USAGES.items()},
    **{f"useless: {name}": mode for name, mode in USELESS.items()},
    **{f"model: {name}": mode for name, mode in OF_THE_MODEL.items()},
    **{f"error: {name}": mode for name, mode in ERRORS.items()},
    **{f"trouble: {name}": mode for name, mode in TROUBLE.items()},
    **{f"limited: {name}": mode for name, mode in LIMITED.items()},
}


class Run(NamedTuple):
    """What became of a run: its rows, its calls, and the dollars that were billed and that were counted."""

    measured: list[Measurement]
    calls: int
    billed: float
    counted: float


def run(mode: Mode, folder: Path, **changes: Any) -> Run:
    sent = Counter[bytes]()

    def answer(request: bytes) -> bytes:
        body = json.loads(request.partition(b"\r\n\r\n")[2])
        made = mode.answer(completion(every_third_match(body)))
        sent[made.removeprefix(STATUS)[:3]] += 1
        return made

    with RawServer(answer) as server:
        judge = setup(
            f"{MODEL}@{server.url}", ledger=str(folder), run="run",
            **{"deadline_s": 60.0, "max_cost_usd": 1.0, **mode.changes, **changes},
        )  # fmt: skip
        measured = ask(samples(ROWS), judge)
    ledger = open_ledger(str(folder))
    spent = ledger.spent("run")
    ledger.close()
    return Run(measured, sum(sent.values()), sent[b"200"] * BILLED_USD, spent.cost_usd)


@pytest.mark.parametrize("name", MODES)
def test_every_fault(name: str, tmp_path: Path) -> None:
    mode = MODES[name]
    seen = run(mode, tmp_path)
    n_scored = sum(one.status == "scored" for one in seen.measured)
    wrong = [
        one.sample_id
        for number, one in enumerate(seen.measured)
        if one.status == "scored" and one.values["match"] != float(number % 3 == 0)
    ]
    assert wrong == []
    codes = Counter(one.outcome.code if isinstance(one.outcome, Failed) else one.status for one in seen.measured)
    assert codes == {mode.code or "scored": ROWS}
    assert n_scored == (0 if mode.code else ROWS)
    assert mode.calls[0] <= seen.calls <= mode.calls[1]
    # What is billed is counted: exactly, where the server says how many tokens it was; never less.
    assert seen.counted >= seen.billed - 1e-9
    if name.startswith("read"):
        assert seen.counted == pytest.approx(seen.billed)
    # A call that a brief deadline cut short counts at the most that it may cost.
    if name.startswith(("error", "limited")) and mode.changes is not BRIEF and not re.search("too large|bomb", name):
        assert seen.counted == 0.0


PAID_MODES = [name for name in MODES if name.startswith(("read: plain", "usage", "useless"))]


@pytest.mark.parametrize("name", PAID_MODES)
def test_a_cap_holds_whatever_the_server_answers(name: str, tmp_path: Path) -> None:
    seen = run(MODES[name], tmp_path, max_cost_usd=0.004)
    assert seen.billed <= seen.counted <= 0.004
    assert any(one.status == "skipped" for one in seen.measured) or seen.counted > 0.0
