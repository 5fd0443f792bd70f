"""Models at addresses: labels that can be shown, and keys that cannot."""

import pickle

import pytest

from answerkey.metrics_core.llm.model import ModelRef


@pytest.mark.parametrize(
    ("model", "address", "label"),
    [
        ("openai/gpt-4o-mini", "", "openai/gpt-4o-mini"),
        ("openai/q", "http://127.0.0.1:8080/v1", "openai/q@127.0.0.1:8080/v1"),
        ("openai/q", "https://Example.org", "openai/q@example.org"),
        ("openai/q", "http://[::1]:8080/v1", "openai/q@[::1]:8080/v1"),
        ("openai/q", "http://me:pass-word@host:1/v1", "openai/q@host:1/v1"),
        ("openai/q", "https://host/v1?api-key=se-cret&x=1#frag-ment", "openai/q@host/v1"),
        ("openai/q", "https://me:pa%40ss@host/v1?k", "openai/q@host/v1"),
        # These would end a part of the signature, or one judge of several.
        ("openai/a|b, c\n", "http://h/a|b", "openai/a_b__c_@h/a_b"),
    ],
)
def test_the_label_names_model_and_address_without_what_is_secret_in_it(model, address, label):
    judge = ModelRef(model, address, "sk-very-secret")
    assert judge.label == label
    assert repr(judge) == f"ModelRef({label})"


def test_the_key_opens_a_judge_and_is_no_part_of_it():
    one, other = ModelRef("openai/q", "http://h", "sk-first-key"), ModelRef("openai/q", "http://h", "sk-second-key")
    assert one == other
    assert hash(one) == hash(other)
    assert "sk-" not in f"{one} {one!r} {[one]} {(one,)!r}"
    assert (one == ModelRef("openai/q", "http://g"), one == ModelRef("openai/p", "http://h")) == (False, False)
    copy = pickle.loads(pickle.dumps(one))
    assert (copy, copy.api_key) == (one, "sk-first-key")
