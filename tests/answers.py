"""What servers answer, right or wrong, by name: the bytes of each answer."""

from __future__ import annotations

import gzip
import json
from typing import Any

from tests.judge_http import error_body, http
from tests.raw_server import ok as answer
from tests.raw_server import said


def _error(
    status: int, message: str = "Something is wrong.", kind: str = "server_error", code: str | None = None,
    headers: str = "",
) -> bytes:  # fmt: skip
    return error_body(status, message, kind, code, headers)


def _usage(prompt: Any, completion: Any, **more: Any) -> bytes:
    return answer(said(usage={"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": 9, **more}))


def _without(name: str) -> bytes:
    return answer({key: value for key, value in said().items() if key != name})


def _packed(body: bytes, encoding: str = "gzip") -> bytes:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: {encoding}\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


ANSWERS: dict[str, bytes] = {
    f"status_{s}": _error(s)
    for s in (
        400,
        401,
        402,
        403,
        404,
        405,
        406,
        408,
        409,
        410,
        413,
        415,
        418,
        421,
        422,
        425,
        429,
        431,
        451,
        500,
        501,
        502,
        503,
        504,
        507,
    )
}
ANSWERS |= {
    "429_after": _error(429, headers="retry-after: 7\r\n"),
    "429_ms": _error(429, headers="retry-after-ms: 1500\r\n"),
    "429_date": _error(429, headers="retry-after: Wed, 21 Oct 2015 07:28:00 GMT\r\n"),
    "429_junk": _error(429, headers="retry-after: soon\r\n"),
    "503_after": _error(503, headers="retry-after: 3\r\n"),
    "quota": _error(429, "used up", "insufficient_quota", "insufficient_quota"),
    "context": _error(
        400,
        "This model's maximum context length is 4096 tokens, and the request exceeds it.",
        "invalid_request_error",
        "context_length_exceeded",
    ),
    "context_llama": http(
        400,
        json.dumps(
            {
                "error": {
                    "code": 400,
                    "message": "request (5000 tokens) exceeds the available context size (4096 tokens)",
                    "type": "exceed_context_size_error",
                }
            }
        ).encode(),
    ),
    "context_vllm": http(
        400,
        json.dumps(
            {
                "object": "error",
                "message": "This model's maximum context length is 2048 tokens. However, you requested 3000 tokens",
                "type": "BadRequestError",
                "param": None,
                "code": 400,
            }
        ).encode(),
    ),
    "policy": _error(
        400,
        "Your request was rejected as a result of the safety system",
        "invalid_request_error",
        "content_policy_violation",
    ),
    "not_found": _error(404, "The model does not exist.", "invalid_request_error", "model_not_found"),
    "unauthorized": _error(401, "Incorrect API key provided: x.", "invalid_request_error", "invalid_api_key"),
    "format400": _error(
        400, "Invalid parameter: 'response_format' of type 'json_schema' is not supported", "invalid_request_error"
    ),
    "param_temperature": _error(
        400,
        "Unsupported value: 'temperature' does not support 0.0 with this model.",
        "invalid_request_error",
        "unsupported_value",
    ),
    "param_seed": _error(
        400, "Unsupported parameter: 'seed' is not supported with this model.", "invalid_request_error"
    ),
    "422_detail": http(
        422,
        json.dumps(
            {
                "detail": [
                    {
                        "type": "literal_error",
                        "loc": ["body", "response_format", "type"],
                        "msg": "Input should be 'text'",
                    }
                ]
            }
        ).encode(),
    ),
    "html_500": http(500, b"<html>oops</html>", kind="text/html"),
    "html_502": http(502, b"<html>bad gateway</html>", kind="text/html"),
    "empty_500": http(500, b""),
    "empty_400": http(400, b""),
    "text_429": http(429, b"slow down", kind="text/plain"),
    "error_string": http(400, json.dumps({"error": "no such model"}).encode()),
    "overloaded529": b"HTTP/1.1 529 Overloaded\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}",
    "cf520": b"HTTP/1.1 520 Unknown\r\ncontent-length: 0\r\n\r\n",
    "rate_words_500": _error(500, "Rate limit reached, too many requests"),
    "timeout_words": _error(500, "A timeout occurred"),
    "noroom": _error(
        400,
        "Could not finish the message because max_tokens or model output limit was reached. Please try again.",
        "invalid_request_error",
    ),
    "ok": answer(said()),
    "html": http(200, b"<html>sign in</html>", kind="text/html"),
    "empty_body": http(200, b""),
    "null_body": answer(None),
    "list_body": answer([]),
    "string_body": answer("yes"),
    "number_body": answer(5),
    "empty_object": answer({}),
    "error_in_200": answer({"error": {"message": "overloaded", "code": 503}}),
    "error_in_200_429": answer({"error": {"message": "slow", "code": 429}}),
    "error_in_200_nocode": answer({"error": {"message": "overloaded"}}),
    "error_in_200_strcode": answer({"error": {"message": "overloaded", "code": "rate_limit_exceeded"}}),
    "error_in_200_string": answer({"error": "bad"}),
    "empty_error_and_choices": answer(said(error={"message": "", "code": None})),
    "error_and_choices": answer(said(error={"message": "careful", "code": 500})),
    "no_choices": answer({**said(), "choices": []}),
    "null_choices": answer({**said(), "choices": None}),
    "choices_dict": answer({**said(), "choices": {}}),
    "no_message": answer({**said(), "choices": [{"index": 0, "finish_reason": "stop"}]}),
    "null_message": answer({**said(), "choices": [{"index": 0, "finish_reason": "stop", "message": None}]}),
    "null_content": answer(said({"content": None})),
    "empty_content": answer(said({"content": ""})),
    "parts": answer(said({"content": [{"type": "text", "text": "yes"}]})),
    "length": answer(said(finish_reason="length")),
    "max_tokens": answer(said(finish_reason="max_tokens")),
    "filter": answer(said({"content": ""}, finish_reason="content_filter")),
    "finish_null": answer(said(finish_reason=None)),
    "finish_odd": answer(said(finish_reason="banana")),
    "eos": answer(said(finish_reason="eos")),
    "refusal": answer(said({"content": None, "refusal": "I cannot help."})),
    "tool_calls": answer(
        said(
            {
                "content": None,
                "tool_calls": [{"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            },
            finish_reason="tool_calls",
        )
    ),
    "function_call": answer(
        said({"content": None, "function_call": {"name": "f", "arguments": "{}"}}, finish_reason="function_call")
    ),
    "reasoning_content": answer(said({"content": "", "reasoning_content": "hm"})),
    "reasoning": answer(said({"content": "", "reasoning": "hm"})),
    "reasoning_and_text": answer(said({"content": "yes", "reasoning_content": "hm"})),
    "think": answer(said({"content": "<think>hm</think>yes"})),
    "think_only": answer(said({"content": "<think>hm"})),
    "no_usage": _without("usage"),
    "null_usage": answer(said(usage=None)),
    "usage_float": _usage(1.5, 2.5),
    "usage_string": _usage("many", "few"),
    "usage_huge": _usage(1e30, 1e30),
    "usage_negative": _usage(-5, -7),
    "usage_cached": _usage(100, 7, prompt_tokens_details={"cached_tokens": 64}),
    "no_model": _without("model"),
    "extra": answer(said(extra={"a": 1})),
    "gzip": _packed(gzip.compress(json.dumps(said()).encode())),
    "half": answer(said())[:-20],
    "nothing": b"",
    "garbage": b"\x00\x01garbage\r\n\r\n",
    "chunked": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    + f"{len(json.dumps(said())):x}\r\n{json.dumps(said())}\r\n0\r\n\r\n".encode(),
    "no_length": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n"
    + json.dumps(said()).encode(),
    "redirect302": b"HTTP/1.1 302 Found\r\nlocation: http://u:p@example.org/x?key=1\r\ncontent-length: 0\r\n\r\n",
    "redirect307": b"HTTP/1.1 307 T\r\nlocation: /v2/chat/completions\r\ncontent-length: 0\r\n\r\n",
    "302_without": b"HTTP/1.1 302 Found\r\ncontent-length: 0\r\n\r\n",
    "304": b"HTTP/1.1 304 Not Modified\r\n\r\n",
    "204": b"HTTP/1.1 204 No Content\r\n\r\n",
}
