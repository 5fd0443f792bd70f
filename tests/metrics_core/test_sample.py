"""What a sample accepts, and what its key covers."""

import pickle
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey import Sample
from answerkey.metrics_core.sample import content_hash

TEXT = st.text(st.characters(exclude_categories=()), max_size=6)
KEYED = {
    "answer": st.none() | TEXT,
    "question": st.none() | TEXT,
    "references": st.lists(TEXT, max_size=3),
    "facts": st.lists(TEXT, max_size=3),
    "context": st.lists(TEXT, max_size=2),
    "incorrect_references": st.lists(TEXT, max_size=2),
}
UNKEYED = {
    "sample_id": TEXT,
    "cluster": st.none() | TEXT,
    "slices": st.dictionaries(TEXT, TEXT, max_size=2),
}
FIELDS = {**KEYED, **UNKEYED}
SAMPLES = st.builds(Sample, **FIELDS)


def with_field(sample, name, value):
    return Sample(**{field: getattr(sample, field) for field in FIELDS} | {name: value})


def comparable(value):
    return tuple(value) if isinstance(value, list) else value


@pytest.mark.parametrize("name", KEYED)
@given(data=st.data())
def test_the_key_covers_each_field_that_a_score_depends_on(name, data):
    sample, value = data.draw(SAMPLES), data.draw(KEYED[name])
    same = comparable(value) == getattr(sample, name)
    assert (with_field(sample, name, value).key == sample.key) is same


@pytest.mark.parametrize("name", UNKEYED)
@given(data=st.data())
def test_the_key_covers_nothing_else(name, data):
    sample = data.draw(SAMPLES)
    assert with_field(sample, name, data.draw(UNKEYED[name])).key == sample.key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Sample("1", None), Sample("1", "")),
        (Sample("1", "a", question="b"), Sample("1", "b", question="a")),
        (Sample("1", "a", ["b", "c"]), Sample("1", "a", ["b,c"])),
        (Sample("1", "a", ['b","c']), Sample("1", "a", ["b", "c"])),
        # A metric may name a reference by its index.
        (Sample("1", "a", ["b", "c"]), Sample("1", "a", ["c", "b"])),
        # No normalisation: a judge may see the difference.
        (Sample("1", "e\u0301"), Sample("1", "é")),
    ],
    ids=str,
)
def test_keys_that_are_easily_confused_differ(one, other):
    assert one.key != other.key


def test_the_key_is_128_bits_and_the_same_in_every_process_and_version():
    key = Sample("1", "Париж", ["Paris"], question="?", facts=["f"]).key
    assert re.fullmatch(r"[0-9a-f]{32}", key)
    # Scores are stored under these: a change here means that everything is scored again.
    assert key == "844e978cda5e046602a343a67dcbea13"


def test_the_content_hash_ignores_the_order_of_keys_and_nothing_else():
    hashes = [content_hash(value) for value in ({"a": 1, "b": [2, 3]}, {"b": [2, 3], "a": 1}, {"a": 1, "b": [3, 2]})]
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_single_text_is_one_reference():
    sample = Sample("1", "a", "Paris", facts="It is in France.")
    assert (sample.references, sample.facts) == (("Paris",), ("It is in France.",))
    assert sample == Sample("1", "a", ["Paris"], facts=("It is in France.",))
    assert Sample("1", "a", "").references == ("",)


@pytest.mark.parametrize(
    ("references", "expected"),
    [
        ((), ()), ([], ()), (None, ()), (iter(()), ()), (np.array(["b", "c"]), ("b", "c")),
        ((text for text in "bc"), ("b", "c")),
    ],
)  # fmt: skip
def test_references_from_any_sequence_of_texts(references, expected):
    assert Sample("1", "a", references).references == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"answer": 5}, "sample 'q7': answer is int, expected a text"),
        ({"answer": float("nan")}, "sample 'q7': answer is float, expected a text"),
        ({"cluster": 5}, "sample 'q7': cluster is int, expected a text"),
        ({"references": ["a", 5]}, "sample 'q7': references holds int, expected texts"),
        ({"references": float("nan")}, "sample 'q7': references is float, expected texts"),
        ({"references": b"ab"}, "sample 'q7': references holds int, expected texts"),
        ({"facts": 0.5}, "sample 'q7': facts is float, expected texts"),
    ],
    ids=str,
)
def test_what_is_not_a_text_is_refused_with_the_name_of_the_sample(arguments, message):
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        Sample(**{"sample_id": "q7", "answer": "a"} | arguments)


def test_usable_references_keep_their_index():
    sample = Sample("1", "a", ["", "Paris", " \n", "\u200b\ufeff", "?"])
    assert sample.usable_references == ((1, "Paris"), (4, "?"))
    assert Sample("1", "a").usable_references == ()


def test_a_sample_cannot_be_changed():
    with pytest.raises(AttributeError):
        Sample("1", "a", ["b"]).answer = "c"


@given(SAMPLES)
def test_samples_travel_between_processes(sample):
    copy = pickle.loads(pickle.dumps(sample))
    assert copy == sample
    assert copy.key == sample.key


def test_samples_are_hashable_and_equal_by_content():
    one = Sample("1", "a", ["b"], slices={"lang": "en"})
    assert hash(one) == hash(Sample("1", "a", ("b",), slices={"lang": "en"}))
    assert one != Sample("1", "a", ["b"], slices={"lang": "ru"})
    assert len({one, Sample("1", "a", ["b"], slices={"lang": "en"}), Sample("2", "a", ["b"])}) == 2


@pytest.mark.parametrize(
    ("given", "held", "text"),
    [
        (["a", {"b": 1.5}], ["a", {"b": 1.5}], '["a",{"b":1.5}]'),
        ('["a",{"b":1.5}]', ["a", {"b": 1.5}], '["a",{"b":1.5}]'),
        (("a", "b"), ["a", "b"], '["a","b"]'),
        ([], [], "[]"),
        ({}, {}, "{}"),
        (False, "false", "false"),
        ('{"a":1,"a":2}', '{"a":1,"a":2}', '{"a":1,"a":2}'),
        ('[ "spaced" ]', '[ "spaced" ]', '[ "spaced" ]'),
    ],
)
def test_a_column_is_the_list_or_object_that_was_given_or_a_text(given, held, text):
    sample = Sample("1", "a", columns={"c": given, "none": None})
    assert (sample.columns, sample.column_texts) == ({"c": held}, {"c": text})
    # As the warehouse keeps it.
    kept = Sample("1", "a", columns={"c": text})
    assert (kept, kept.key, pickle.loads(pickle.dumps(sample))) == (sample, sample.key, sample)


def test_a_conversation_has_one_form_whoever_exported_it():
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    given = [
        {"role": "user", "content": [{"type": "text", "text": "Where?"}]},
        {"role": "assistant", "tool_calls": [call]},
    ]
    sample = Sample("1", "a", columns={"messages": given})
    assert sample.columns["messages"] == [
        {"content": "Where?", "role": "user"},
        {"content": "", "role": "assistant", "tool_calls": [{"arguments": "{}", "name": "find"}]},
    ]
    assert Sample("1", "a", columns={"messages": [{"role": "narrator"}]}).columns["messages"] == [{"role": "narrator"}]
