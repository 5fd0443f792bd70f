"""Conversations: lists of messages, as the APIs of providers and the exports of tools have them."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator, model_validator

COLUMN: Final = "messages"
"""The column that a conversation is in."""


class ToolCall(BaseModel):
    """A call of a tool: its name, and the arguments as they were given, a text or a JSON value."""

    model_config = ConfigDict(frozen=True)

    name: str
    arguments: Any = ""

    @model_validator(mode="before")
    @classmethod
    def _of_a_provider(cls, call: Any) -> Any:
        # {"id": ..., "type": "function", "function": {"name": ..., "arguments": ...}}
        return call["function"] if isinstance(call, dict) and isinstance(call.get("function"), dict) else call


class Message(BaseModel):
    """One turn of a conversation: who says what, and the tools that are called in it."""

    model_config = ConfigDict(frozen=True)

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _of_other_apis(cls, message: Any) -> Any:
        if not isinstance(message, dict) or message.get("tool_calls"):
            return message
        # An older API has a single call under a key of its own
        if message.get("function_call"):
            return {**message, "tool_calls": [message["function_call"]]}
        # Anthropic's has calls and what they return among the texts
        content = message.get("content")
        if not isinstance(content, list):
            return message
        parts: list[Any] = []
        calls = []
        for part in content:
            kind = part.get("type") if isinstance(part, dict) else None
            if kind == "tool_use":
                calls.append({"name": part.get("name"), "arguments": part.get("input", "")})
            elif kind == "tool_result":
                returned = part.get("content") or ""
                parts += returned if isinstance(returned, list) else [{"text": returned}]
            else:
                parts.append(part)
        return {**message, "content": parts, "tool_calls": calls}

    @field_validator("content", mode="before")
    @classmethod
    def _parts(cls, content: Any) -> Any:
        if isinstance(content, list):
            if other := next((part for part in content if not (isinstance(part, dict) and "text" in part)), None):
                kind = other.get("type", "object") if isinstance(other, dict) else type(other).__name__
                raise ValueError(f"has a part of the type {kind!r}; only texts are judged")
            # The texts of all parts, a line each
            content = "\n".join(str(part["text"]) for part in content)
        return "" if content is None else content

    @field_validator("tool_calls", mode="before")
    @classmethod
    def _no_calls(cls, calls: Any) -> Any:
        return () if calls is None else calls


_MESSAGES = TypeAdapter(Annotated[tuple[Message, ...], Field(min_length=1)])


def turns(value: object) -> list[dict[str, Any]]:
    """A conversation as a list of turns with `role`, `content` and, where tools are called, `tool_calls`.

    Args:
        value: a list of messages, or its JSON text. A message has a `role` (system, developer, user, assistant or tool)
            and a `content`, which is a text or a list of parts with a `text`; calls of tools as OpenAI's API or
            Anthropic's has them, or with `name` and `arguments`. What else a message has is left out.

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
        calls = message.model_dump(include={"tool_calls"}, exclude_defaults=True)
        conversation_turns.append({"role": message.role, "content": message.content, **calls})
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
