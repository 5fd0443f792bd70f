"""The request, and the key under which its reply is kept."""

import pickle
from dataclasses import asdict, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.metrics_core.llm.reply import Unreadable
from answerkey.metrics_core.llm.request import Reply, Request
from answerkey.metrics_core.llm.response import repair

PLAIN = Request("openai/j", "p@1", "Judge this.", "the data", '{"type": "object"}')

# By the type that a field is declared with; a field of a new type needs a new line here.
VALUES = {
    "str": st.text(),
    "int": st.integers(-(2**63), 2**63),
    "float": st.floats(allow_nan=False, allow_infinity=False),
}
OF_FIELD = {one.name: VALUES[str(one.type)] for one in fields(Request)}
REQUESTS = st.builds(Request, **OF_FIELD)


@pytest.mark.parametrize("name", OF_FIELD)
@given(request_=REQUESTS, data=st.data())
def test_every_field_changes_the_key(name, request_, data):
    value = getattr(request_, name)
    other = replace(request_, **{name: data.draw(OF_FIELD[name].filter(lambda drawn: drawn != value))})
    assert other.key != request_.key
    assert replace(other, **{name: value}).key == request_.key


@given(REQUESTS)
def test_equal_requests_have_equal_keys_of_128_bits(request_):
    assert Request(**asdict(request_)).key == pickle.loads(pickle.dumps(request_)).key == request_.key
    assert len(request_.key) == 32
    assert int(request_.key, 16) >= 0


@given(st.text(min_size=1), st.text())
def test_text_cannot_move_from_one_field_to_the_next_unseen(first, second):
    whole = replace(PLAIN, system=first + second, user="")
    parts = replace(PLAIN, system=first, user=second)
    assert (whole.key == parts.key) == (second == "")


def test_keys_stay_what_they_are():
    """A different key means that everything is paid for again: change this line only on purpose."""
    assert PLAIN.key == "a826556b529f30e3056800e481d08f01"
    assert replace(PLAIN, reasoning_effort="low").key == "8b04a7a6449b6f679ca21382534d39a5"


def repaired(text, problem):
    return repair(PLAIN.messages, Reply(text, "stop", 1, 1, "m", ""), Unreadable("unreadable", problem))


def test_a_repair_shows_what_was_said_and_asks_the_same_again():
    system, user, said, again = repaired('Well: {"verdict": "maybe"}', 'verdict is "maybe"')
    assert system == {"role": "system", "content": "Judge this."}
    assert user == {"role": "user", "content": "the data"}
    assert said == {"role": "assistant", "content": '{"verdict": "maybe"}'}
    assert again["role"] == "user"
    # What is wrong, without the words of whoever wrote the reply.
    assert 'This reply cannot be used: verdict is "...". Answer the same question again.' in again["content"]


@pytest.mark.parametrize("reply", ["no object at all", "", '{"a": "' + "x" * 30_000 + '"}'])
def test_a_reply_that_is_no_object_or_too_long_is_not_shown(reply):
    assert repaired(reply, "it is empty")[2]["content"] == "(This reply is left out.)"
