"""What a user has sent to a provider beside the question, through litellm's own parameters, declared once."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.model import KEY_SHAPE, holds_key
from answerkey.metrics_core.validation import NO_OPTION


def _in_either_case(words: Iterable[str]) -> str:
    # JavaScript, by which forms check patterns, has no flag for letters of either case within a pattern.
    return "|".join("".join(f"[{one}{one.upper()}]" if one.isalpha() else one for one in word) for word in words)


_NAME, _VARIABLE = r"[A-Za-z][A-Za-z0-9_-]*", r"[A-Za-z0-9_]+_(?:API_KEY|TOKEN|SECRET)"
"""A header; and a variable whose value is blanked wherever something is shown or stored."""
_SECRET_HEADER = _in_either_case(("auth", "key", "token", "secret", "cookie", "passw", "credential"))
_SECRET_FIELD = rf'"[^"]*({_in_either_case(("auth", "key", "token", "secret", "passw", "credential"))})"\s*:'
_SECRET_VALUE = rf"({_in_either_case(('bearer', 'basic'))})\s|(sk|pk|key)[-_]"
"""How one begins; `KEY_SHAPE` is how any part of a text may look."""
_HEADER = re.compile(rf"({_NAME})=(?:env:{_VARIABLE}|(?!env:)([\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?))")
_CLIENTS_HEADERS = re.compile(r"host|connection|transfer-encoding|te|upgrade|content-.*|accept.*", re.IGNORECASE)
_CLIENTS_FIELDS = frozenset(
    (
        *("model", "messages", "temperature", "seed", "max_tokens", "max_completion_tokens", "response_format", "n"),
        *("stream", "logprobs", "top_logprobs", "reasoning_effort", "service_tier", "tools", "functions"),
    )
)
ROUTING = '{"provider": {"order": ["azure"]}}'
"""An example of fields of the body."""


def _without_secrets(headers: tuple[str, ...]) -> tuple[str, ...]:
    for header in headers:
        name = header.partition("=")[0]
        shown = name if "=" in header and re.fullmatch(_NAME, name) else "a header"
        if not (parts := _HEADER.fullmatch(header)):
            raise ValueError(
                f"{shown}: write NAME=VALUE in ASCII, or NAME=env:VARIABLE with a variable that ends in _API_KEY, "
                "_TOKEN or _SECRET, since their values are never shown or stored"
            )
        if _CLIENTS_HEADERS.fullmatch(name):
            raise ValueError(f"{name}: the client sets this header; leave it out")
        value = parts[2] or ""
        if value and (re.search(_SECRET_HEADER, name) or re.match(_SECRET_VALUE, value) or holds_key(value)):
            raise ValueError(
                f"{name}: what is written here is stored, and this may be a secret; put the value into an "
                f"environment variable, such as GATEWAY_TOKEN, and write {name}=env:GATEWAY_TOKEN"
            )
    if len({header.partition("=")[0].lower() for header in headers}) < len(headers):
        raise ValueError("a header is there twice; keep one")
    return headers


def _json_object(body: str) -> str:
    try:
        fields: Any = json.loads(body or "{}")
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise ValueError(f"write a JSON object, for instance {ROUTING}")
    if ours := sorted(_CLIENTS_FIELDS & fields.keys()):
        raise ValueError(f"{ours[0]}: this field has an option of its own, or is set by the client; leave it out")
    text = json.dumps(fields, sort_keys=True) if fields else ""
    if re.search(rf'{_SECRET_FIELD}|: "({_SECRET_VALUE})', text) or holds_key(text):
        raise ValueError(
            "what is written here is stored, and one of its fields may be a secret; send it in a header from the "
            "environment (extra_headers)"
        )
    return text


Header = Annotated[
    str,
    WithJsonSchema(
        {
            "type": "string",
            "pattern": rf"^{_NAME}=env:{_VARIABLE}$|^(?![^=]*({_SECRET_HEADER}))(?![^=]*=({_SECRET_VALUE}))"
            rf"(?!.*{KEY_SHAPE}){_NAME}=(?!env:).+$",
        }
    ),
]
"""NAME=VALUE. The pattern is for forms, which refuse by it what may be a secret before a server stores it."""
Headers = Annotated[tuple[Header, ...], NO_OPTION, AfterValidator(_without_secrets)]
"""Each header once. What may be a secret is refused, unless it is the name of a variable of the environment."""
JsonObject = Annotated[
    str,
    NO_OPTION,
    BeforeValidator(lambda value: json.dumps(value) if isinstance(value, dict) else value),
    AfterValidator(_json_object),
    WithJsonSchema({"type": "string", "pattern": rf'^(?!.*({_SECRET_FIELD}|:\s*"({_SECRET_VALUE})|{KEY_SHAPE}))'}),
]
"""The text of a JSON object; a file of options may have the object itself."""


EXTRA_HEADERS: Any = Field(
    (),
    title="Headers",
    description="NAME=VALUE, sent with every call, for instance X-Title=nightly. A secret is never typed here: "
    "NAME=env:VARIABLE reads it, from a variable that ends in _API_KEY, _TOKEN or _SECRET.",
    examples=[["X-Title=nightly"]],
)
EXTRA_BODY: Any = Field(
    "",
    title="Fields of the body",
    description=f"A JSON object whose fields are sent with every call, such as a provider's routing: {ROUTING}. "
    "Empty: none.",
)


def extras(headers: Collection[str], body: str) -> str:
    """What is sent beside the question, as JSON text with litellm's names of its arguments; empty: nothing.

    Of a header from the environment it has the name of the variable.

    >>> extras(["X-Title=nightly"], "")
    '{"extra_headers": {"X-Title": "nightly"}}'
    """
    arguments: dict[str, Any] = {}
    if fields := json.loads(body or "{}"):
        arguments["extra_body"] = fields
    if headers:
        arguments["extra_headers"] = dict(header.split("=", 1) for header in headers)
    return json.dumps(arguments, sort_keys=True) if arguments else ""


def check_environment(headers: Iterable[str]) -> None:
    """Check that the variables of headers are set in this process.

    Raises:
        UserError: one is not.
    """
    for header in headers:
        name, _, value = header.partition("=")
        if value.startswith("env:") and not from_environment(value):
            variable = value.removeprefix("env:")
            raise UserError(f"header {name}: export {variable}=... where the run, and each of its workers, starts")


def from_environment(value: str) -> str:
    """The value of a header: what `env:VARIABLE` stands for, without white space around it, or the text itself."""
    return os.environ.get(value.removeprefix("env:"), "").strip() if value.startswith("env:") else value
