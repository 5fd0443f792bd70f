"""Conversations: lists of messages, as the APIs of providers and the exports of tools have them."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator, model_validator

COLUMN: Final = "messages"
"""The column that a conversation is in."""


_ROLES = {"human": "user", "ai": "assistant", "gpt": "assistant", "model": "assistant", "function": "tool"}
"""Other names of roles, by which LangChain, Gemini, ShareGPT and an older API of OpenAI call them."""
_NESTED_UNDER = ("function", "function_call", "functionCall", "toolUse")
"""Keys under which APIs put the name and the arguments of a call."""
_RESULTS = ("toolResult", "functionResponse")
"""Keys under which Bedrock and Gemini put what a tool has returned."""
_NAMES = ("name", "tool_name", "tool")
_ARGUMENTS = (
    "arguments", "args", "input", "tool_input", "tool_args", "input_parameters", "inputParameters", "parameters",
)  # fmt: skip
_OF_TURNS = ("content", "parts", "messages", "data")
"""Keys of a turn of a conversation, or of all of it, under which calls stand among texts and results."""
_CALLS = ("tool_use", "tool_call", "function_call", "function")
"""Types of parts of a message that are calls."""


class ToolCall(BaseModel):
    """A call of a tool: its name, and the arguments as they were given, a text or a JSON value; None if there are none.

    >>> ToolCall.model_validate({"toolUse": {"name": "find", "input": {"id": 7}}})
    ToolCall(name='find', arguments={'id': 7})
    """

    model_config = ConfigDict(frozen=True)

    name: str
    arguments: Any = None

    @model_validator(mode="before")
    @classmethod
    def _of_a_provider(cls, call: Any) -> Any:
        if not isinstance(call, dict):
            return {"name": call}
        call = next((call[key] for key in _NESTED_UNDER if isinstance(call.get(key), dict)), call)
        name = next((call[key] for key in _NAMES if call.get(key) is not None), None)
        return {"name": name, "arguments": next((call[key] for key in _ARGUMENTS if call.get(key) is not None), None)}


def calls_in(value: Any, *, in_turn: bool = False) -> Iterator[Any]:
    """Yield what are calls of tools in a list of calls, a turn, or a conversation, where other things are beside them.

    >>> list(calls_in([{"role": "model", "parts": [{"text": "Well."}, {"functionCall": {"name": "find"}}]}]))
    [{'functionCall': {'name': 'find'}}]
    """
    if isinstance(value, list):
        for item in value:
            yield from calls_in(item, in_turn=in_turn)
        return
    is_object = isinstance(value, dict)
    if is_object and any(isinstance(value.get(key), dict) for key in _NESTED_UNDER):
        yield value
    elif is_object and not value.keys().isdisjoint(("role", "tool_calls", *_OF_TURNS)):
        # Some tools write them once more among the contents
        calls = value.get("tool_calls") or [
            call for key in _OF_TURNS for call in calls_in(value.get(key), in_turn=True)
        ]
        yield from calls
    elif not in_turn:
        # The other items of a response: what a tool has returned, and thoughts
        if not (is_object and re.search("output|result|reasoning", str(value.get("type")))):
            yield value
    elif is_object and value.get("type") in _CALLS:
        yield value


class Message(BaseModel):
    """One turn of a conversation: who says what, and the tools that are called in it."""

    model_config = ConfigDict(frozen=True)

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _of_other_apis(cls, message: Any) -> Any:
        if not isinstance(message, dict):
            return message
        fields = message | (message["data"] if isinstance(message.get("data"), dict) else {})
        role = next((fields[key] for key in ("role", "from", "type") if key in fields), None)
        content = next((fields[key] for key in ("content", "parts", "value") if key in fields), None)
        calls = tuple(calls_in({"role": role, **fields}))
        return {"content": content, "tool_calls": calls} | ({"role": _ROLES.get(str(role), role)} if role else {})

    @field_validator("content", mode="before")
    @classmethod
    def _parts(cls, content: Any) -> Any:
        if isinstance(content, list):
            # The texts of all parts, a line each; calls are kept apart
            parts = [part for part in content if not any(calls_in(part, in_turn=True))]
            content = "\n".join(itertools.chain.from_iterable(map(_texts_in, parts)))
        return "" if content is None else content


def _texts_in(part: Any) -> Iterator[str]:
    """Yield the texts of a part of a message: its own, or those that a tool has returned.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(part, str):
        yield part
        return
    fields = part if isinstance(part, dict) else {}
    result = next((fields[key] for key in _RESULTS if isinstance(fields.get(key), dict)), None)
    if fields.get("type") == "tool_result":
        result = fields
    if "text" in fields:
        yield str(fields["text"])
    elif result is not None:
        returned = result.get("content", result.get("response")) or ""
        for item in returned if isinstance(returned, list) else [returned]:
            # What a tool returns may be any object
            is_part = not isinstance(item, dict) or "text" in item or "type" in item
            yield from _texts_in(item) if is_part else [json.dumps(item, ensure_ascii=False)]
    else:
        kind = fields.get("type", type(part).__name__ if part is not fields else "object")
        raise ValueError(f"has a part of the type {kind!r}; only texts are judged")


_MESSAGES = TypeAdapter(Annotated[tuple[Message, ...], Field(min_length=1)])


def turns(value: object) -> list[dict[str, Any]]:
    """A conversation as a list of turns with `role`, `content` and, where tools are called, `tool_calls`.

    Args:
        value: a list of messages, or its JSON text. A message has a `role` (system, developer, user, assistant or tool)
            and a `content`, which is a text or a list of parts with a `text`, or these as the APIs of Anthropic, Gemini
            and Bedrock, LangChain and ShareGPT write them; so may calls of tools be, or with `name` and `arguments`.
            What else a message has is left out.

    Raises:
        ValueError: it is something else, or has no message; the message says which one is wrong, counted from 1.

    >>> turns('[{"role": "user", "content": "Hi"}]')
    [{'role': 'user', 'content': 'Hi'}]
    >>> turns([{"role": "narrator", "content": "Hi"}])
    Traceback (most recent call last):
    ValueError: message 1: role: Input should be 'system', 'developer', 'user', 'assistant' or 'tool'
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise ValueError("is not a JSON list of messages with role and content") from None
    if not isinstance(value, list):
        raise ValueError("is not a list of messages with role and content")
    try:
        messages = _MESSAGES.validate_python(value)
    except ValidationError as error:
        problem = error.errors()[0]
        path = problem["loc"]
        # Messages are counted from 1
        location = ["there is no message"]
        if path:
            location = [f"message {int(path[0]) + 1}", *map(str, path[1:])]
        raise ValueError(": ".join([*location, problem["msg"].removeprefix("Value error, ")])) from None
    conversation_turns = []
    for message in messages:
        turn: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.tool_calls:
            calls = [call.model_dump(exclude_none=True) for call in message.tool_calls]
            turn["tool_calls"] = [{key: field for key, field in call.items() if field != ""} for call in calls]
        conversation_turns.append(turn)
    return conversation_turns


def lines(conversation: str) -> list[str]:
    """A conversation, as JSON text, for people: who says what, and which tools are called with what.

    Raises:
        ValueError: as `turns`.

    >>> lines('[{"role": "assistant", "tool_calls": [{"name": "find", "arguments": "{}"}]}]')
    ['assistant: calls find({})']
    >>> lines('[{"role": "assistant", "function_call": {"name": "find", "arguments": "{}"}}]')
    ['assistant: calls find({})']
    >>> used = '{"type": "tool_use", "name": "find", "input": {"id": 7}}'
    >>> returned = '{"type": "tool_result", "content": [{"type": "text", "text": "Ada"}]}'
    >>> lines(f'[{{"role": "assistant", "content": [{used}]}}, {{"role": "user", "content": [{returned}]}}]')
    ['assistant: calls find({"id": 7})', 'user: Ada']
    """
    conversation_lines = []
    for message in turns(conversation):
        parts = [message["content"]] if message["content"] else []
        for call in message.get("tool_calls", ()):
            # Arguments that are no text are shown as JSON
            arguments = call.get("arguments", "")
            if not isinstance(arguments, str):
                arguments = json.dumps(arguments)
            parts.append(f"calls {call['name']}({arguments})")
        conversation_lines.append(f"{message['role']}: " + "\n".join(parts))
    return conversation_lines
