"""A conversation is read alike, whichever API or tool wrote it."""

import json

import pytest

from answerkey.metrics_core.conversation import lines, turns

CALL = {"name": "find", "arguments": {"id": 7}}
ANTHROPIC = {"type": "tool_use", "id": "a", "name": "find", "input": {"id": 7}}
READ = ["user: Who is 7?", 'assistant: One moment.\ncalls find({"id": 7})', "{}: Ada", "assistant: It is Ada."]
DIALECTS = {
    "openai": [
        {"role": "user", "content": "Who is 7?"},
        {
            "role": "assistant",
            "content": "One moment.",
            "tool_calls": [{"type": "function", "function": {"name": "find", "arguments": '{"id": 7}'}}],
        },
        {"role": "tool", "tool_call_id": "a", "content": "Ada"},
        {"role": "assistant", "content": "It is Ada."},
    ],
    "openai before tools": [
        {"role": "user", "content": "Who is 7?"},
        {"role": "assistant", "content": "One moment.", "function_call": {"name": "find", "arguments": '{"id": 7}'}},
        {"role": "function", "name": "find", "content": "Ada"},
        {"role": "assistant", "content": "It is Ada."},
    ],
    "anthropic": [
        {"role": "user", "content": "Who is 7?"},
        {"role": "assistant", "content": [{"type": "text", "text": "One moment."}, ANTHROPIC]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "Ada"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "It is Ada."}]},
    ],
    "gemini": [
        {"role": "user", "parts": [{"text": "Who is 7?"}]},
        {"role": "model", "parts": [{"text": "One moment."}, {"functionCall": {"name": "find", "args": {"id": 7}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "find", "response": "Ada"}}]},
        {"role": "model", "parts": [{"text": "It is Ada."}]},
    ],
    "bedrock": [
        {"role": "user", "content": [{"text": "Who is 7?"}]},
        {"role": "assistant", "content": [{"text": "One moment."}, {"toolUse": {"name": "find", "input": {"id": 7}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "a", "content": [{"text": "Ada"}]}}]},
        {"role": "assistant", "content": [{"text": "It is Ada."}]},
    ],
    "langchain": [
        {"type": "human", "data": {"content": "Who is 7?"}},
        {"type": "ai", "data": {"content": "One moment.", "tool_calls": [{"name": "find", "args": {"id": 7}}]}},
        {"type": "tool", "data": {"content": "Ada", "tool_call_id": "a"}},
        {"type": "ai", "data": {"content": "It is Ada.", "tool_calls": []}},
    ],
}


@pytest.mark.parametrize("name", DIALECTS)
def test_who_says_what_and_which_tools_are_called(name):
    result_is_from = "tool" if name in ("openai", "openai before tools", "langchain") else "user"
    assert lines(json.dumps(DIALECTS[name])) == [line.format(result_is_from) if "{}" in line else line for line in READ]


def test_a_conversation_of_sharegpt():
    conversation = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]
    assert turns(conversation) == [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]


def test_what_a_tool_returns_may_be_an_object():
    returned = {"functionResponse": {"name": "find", "response": {"name": "Ada"}}}
    assert turns([{"role": "user", "parts": [returned]}])[0]["content"] == '{"name": "Ada"}'


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ({"role": "narrator", "content": "Hi"}, "message 1: role: Input should be 'system', 'developer', 'user', "),
        (
            {"role": "user", "content": [{"type": "image_url"}]},
            "message 1: content: has a part of the type 'image_url'",
        ),
        ({"role": "user", "content": [{"inlineData": {}}]}, "message 1: content: has a part of the type 'object'"),
        ({"role": "assistant", "tool_calls": [{"id": "a"}]}, "message 1: tool_calls: 0: name: "),
        ({"content": "Hi"}, "message 1: role: Field required"),
    ],
)
def test_what_is_no_conversation_of_texts(message, problem):
    with pytest.raises(ValueError, match="message 1") as error:
        turns([message])
    assert str(error.value).startswith(problem)
