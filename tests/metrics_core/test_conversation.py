"""A turn of a conversation is read alike, whichever API or tool wrote it."""

import json

import pytest

from answerkey.metrics_core.conversation import lines, turns

CALLS = 'assistant: One moment.\ncalls find({"id": 7})'
DIALECTS = [
    (
        {"role": "model", "parts": [{"text": "One moment."}, {"functionCall": {"name": "find", "args": {"id": 7}}}]},
        CALLS,
    ),
    ({"role": "user", "parts": [{"functionResponse": {"response": {"name": "Ada"}}}]}, 'user: {"name": "Ada"}'),
    (
        {"role": "assistant", "content": [{"text": "One moment."}, {"toolUse": {"name": "find", "input": {"id": 7}}}]},
        CALLS,
    ),
    ({"role": "user", "content": [{"toolResult": {"content": [{"text": "Ada"}]}}]}, "user: Ada"),
    ({"type": "ai", "data": {"content": "One moment.", "tool_calls": [{"name": "find", "args": {"id": 7}}]}}, CALLS),
    ({"type": "human", "data": {"content": "Who is 7?"}}, "user: Who is 7?"),
    ({"role": "function", "name": "find", "content": "Ada"}, "tool: Ada"),
    ({"from": "gpt", "value": "It is Ada."}, "assistant: It is Ada."),
]
"""Turns of Gemini, Bedrock, LangChain, the first API of OpenAI with calls, and ShareGPT."""


@pytest.mark.parametrize(("message", "line"), DIALECTS)
def test_who_says_what_and_which_tools_are_called(message, line):
    assert lines(json.dumps([message])) == [line]


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ({"role": "narrator", "content": "Hi"}, "message 1: role: Input should be 'system', 'developer', 'user', "),
        ({"role": "user", "content": [{"inlineData": {}}]}, "message 1: content: has a part of the type 'object'"),
        ({"role": "assistant", "tool_calls": [{"id": "a"}]}, "message 1: tool_calls: 0: name: "),
    ],
)
def test_what_is_no_conversation_of_texts(message, problem):
    with pytest.raises(ValueError, match="message 1") as error:
        turns([message])
    assert str(error.value).startswith(problem)
