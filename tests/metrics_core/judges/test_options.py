"""What a user says about judges, and what is made of it."""

import math
import pickle
import re
from dataclasses import replace

import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.llm.access import Access
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.metrics.meaning_match import MeaningMatch

SECRET = "sk-a-key-that-is-nowhere-51c8"


@pytest.fixture(autouse=True)
def no_addresses(monkeypatch):
    for name in ("OPENAI_API_BASE", "OPENAI_BASE_URL", "ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def judge(text, api_key=None, **changes):
    [model] = JudgeOptions(judges=(text,), **changes).models(api_key)
    return model


@pytest.mark.parametrize(
    ("text", "model", "address", "label"),
    [
        ("  openai/gpt-4o-mini\n", "openai/gpt-4o-mini", "", "openai/gpt-4o-mini"),
        ("openai/q@https://Example.org/", "openai/q", "https://Example.org", "openai/q@example.org"),
        ("openai/q@http://[::1]:8080/v1", "openai/q", "http://[::1]:8080/v1", "openai/q@[::1]:8080/v1"),
        # An @ of the model's own: Vertex names versions so.
        ("vertex_ai/c@2024@http://host/v1", "vertex_ai/c@2024", "http://host/v1", "vertex_ai/c@2024@host/v1"),
        ("openai/q@httpd", "openai/q@httpd", "", "openai/q@httpd"),
        # What is secret in an address is not in the label.
        ("openai/q@http://me:pw@host:1/v1", "openai/q", "http://me:pw@host:1/v1", "openai/q@host:1/v1"),
        ("openai/q@https://h/v1?key=se#frag", "openai/q", "https://h/v1?key=se#frag", "openai/q@h/v1"),
        # These would end a part of the signature, or one judge of several.
        ("openai/a|b, c@http://h/a|b", "openai/a|b, c", "http://h/a|b", "openai/a_b__c@h/a_b"),
    ],
)  # fmt: skip
def test_a_judge_is_a_model_and_perhaps_an_address(text, model, address, label):
    found = judge(text, SECRET)
    assert (found.model, found.api_base, found.label) == (model, address, label)
    assert repr(found) == f"ModelRef({label})"


@pytest.mark.parametrize(
    ("field", "value", "message", "in_form"),
    [
        ("extra_headers", "Authorization=Bearer hunter2", "Authorization=env:GATEWAY_TOKEN", True),
        ("extra_headers", "X-Api-Key=hunter2", "what is written here is stored", True),
        ("extra_headers", "X-Via=sk-hunter2", "what is written here is stored", True),
        ("extra_headers", "X-Via=ghp_hunter2hunter2", "what is written here is stored", True),
        ("extra_body", '{"via": ["ghp_hunter2hunter2"]}', "one of its fields may be a secret", True),
        ("extra_headers", "X-Via=env:HUNTER2", "a variable that ends in _API_KEY, _TOKEN or _SECRET", True),
        ("extra_headers", "hunter2", "a header: write NAME=VALUE", True),
        ("extra_headers", "X-Via=hunter2\r\nX-Other=1", "X-Via: write NAME=VALUE in ASCII", True),
        ("extra_headers", "Host=hunter2.org", "Host: the client sets this header", False),
        ("extra_body", '{"hunter2": 1', 'write a JSON object, for instance {"provider"', False),
        ("extra_body", '["hunter2"]', "write a JSON object", False),
        ("extra_body", '{"model": "hunter2"}', "model: this field has an option of its own", False),
        ("extra_body", '{"a": [{"api_key": "hunter2"}]}', "one of its fields may be a secret", True),
        ("extra_body", '{"via": "Bearer hunter2"}', "one of its fields may be a secret", True),
    ],
)
def test_what_may_be_a_secret_or_is_the_clients_is_refused_and_not_repeated(field, value, message, in_form):
    with pytest.raises(UserError) as caught:
        judge("openai/m", **{field: [value] if field == "extra_headers" else value})
    assert message in str(caught.value) and "hunter2" not in str(caught.value)
    # A form refuses by its pattern what must not reach the server that stores it.
    declared = JudgeOptions.model_json_schema()["properties"][field]
    pattern = declared.get("items", declared)["pattern"]
    assert (re.search(pattern, value) is None) == in_form
    assert re.search(pattern, {"extra_headers": "X-Title=weekly", "extra_body": '{"provider": {}}'}.get(field, "flex"))


@pytest.mark.parametrize(
    "text", ["gpt-4o-mini", "", "openai/", "/q", "http://me:hunter2@host/v1", "gpt@http://me:hunter2@host/v1"]
)
def test_a_name_without_a_provider_is_refused(text):
    with pytest.raises(UserError, match="write PROVIDER/MODEL, for instance openai/gpt-4o-mini") as caught:
        judge(text)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    ["localhost:8080", "127.0.0.1", "http://", "http://host:99999/v1", "ftp://me:hunter2@host",
     "http://me:hunter2@[::1/v1"],
)  # fmt: skip
def test_an_invalid_address_is_refused_without_being_shown(address):
    with pytest.raises(UserError) as caught:
        judge("openai/q", api_base=address)
    assert str(caught.value) == ("judge openai/q: its address is malformed; write it like http://127.0.0.1:8080/v1")


def test_the_address_comes_from_the_judge_then_the_options_then_the_environment(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://newer/v1")
    assert judge("openai/q").api_base == "http://newer/v1"
    monkeypatch.setenv("OPENAI_API_BASE", "http://older/v1/")
    assert judge("openai/q").api_base == "http://older/v1"
    assert judge("anthropic/c").api_base == ""
    assert judge("openai/q", api_base="http://given/v1").api_base == "http://given/v1"
    assert judge("openai/q@http://own/v1", api_base="http://given/v1").api_base == "http://own/v1"
    # Another address is another judge, wherever it was found.
    signatures = {
        MeaningMatch(JudgeOptions(judges=("openai/q",), api_base=address)).signature
        for address in ("", "http://given/v1", "http://newer/v1")
    }
    assert len(signatures) == 3


@pytest.mark.parametrize(("text", "key"), [(f"  {SECRET} \n", SECRET), ("", None), (" \n", None), (None, None)])
def test_white_space_around_a_key_is_dropped_and_a_blank_one_is_none(text, key):
    assert judge("openai/q", text).api_key == key


@pytest.mark.parametrize("key", [f"{SECRET}…", f"{SECRET}\nsecond line", f"{SECRET}\x00", f"{SECRET}é"])
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(key):
    with pytest.raises(UserError, match="judge openai/q: its key contains an impossible character") as caught:
        judge("openai/q", key)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"judges": ("offline", "openai/a")},
            "the offline judge cannot be part of a jury; name only the others, with `cascade`",
        ),
        ({"repeats": 3}, "the offline judge always gives the same verdict; leave `repeats` at 1"),
        ({"cascade": 0.02}, "cascade needs a judge to ask where the offline one is undecided, like openai/gpt-4o-mini"),
        ({"judges": ("openai/a",), "cascade": 0.5}, "cascade 0.5: must be less than 0.5"),
        ({"judges": ("openai/a",), "cascade": -0.1}, "cascade -0.1: must be greater than or equal to 0"),
        (
            {"judges": ("openai/a", "openai/b", "openai/a")},
            "a judge is named twice; `repeats` asks one judge several times",
        ),
        *(
            (
                {"judges": ("openai/a",), "fallbacks": fallbacks},
                "a fallback is a language model that is not a judge already, and is named once",
            )
            for fallbacks in (("openai/a",), ("offline",), ("openai/b", "openai/b"))
        ),
        ({"api_key": SECRET}, "api_key: there is no such field"),
        ({"jury": "most"}, "jury"),
        *(({name: bad}, name) for name in ("repeats", "concurrency", "timeout_s") for bad in (0, math.nan)),
        *(({name: bad}, name) for name in ("max_calls", "max_cost_usd") for bad in (-1, math.nan)),
    ],
)
def test_what_cannot_be_is_refused_by_name(changes, message):
    with pytest.raises(UserError, match=re.escape(message)):
        JudgeOptions(**changes)


@pytest.mark.parametrize(
    ("one", "other", "base"),
    [
        ("openai/a", " openai/a", ""),
        ("openai/a@http://h/v1", "openai/a@http://h/v1/", ""),
        ("openai/a", "openai/a@http://h/v1", "http://h/v1"),
        # The same place under two names, of which the ledger knows only one.
        ("openai/a@http://h/v1", "openai/a@http://me:hunter2@h/v1", ""),
    ],
)
def test_a_judge_cannot_vote_twice_under_two_spellings(one, other, base):
    for named in ({"judges": (one, other)}, {"judges": (one,), "fallbacks": (other,)}):
        options = JudgeOptions(**named, api_base=base)
        with pytest.raises(UserError, match=r"the judge openai/a(@h/v1)? is named twice; `repeats` asks one judge"):
            options.models()


@pytest.mark.parametrize("name", list(JudgeOptions.model_fields))
def test_no_message_repeats_what_may_be_a_secret(name):
    with pytest.raises(UserError, match=name) as caught:
        JudgeOptions.model_validate({name: {SECRET: SECRET}})
    assert SECRET not in str(caught.value)


def test_the_key_is_not_shown_makes_no_difference_and_travels_to_worker_processes():
    ours = MeaningMatch(JudgeOptions(judges=("openai/q",), max_calls=3), access=Access(SECRET))
    copy = pickle.loads(pickle.dumps(ours))
    assert (copy, copy.access.api_key, copy.judge.max_calls) == (ours, SECRET, 3)
    assert SECRET not in f"{ours} {copy!r} {ours.access} {[ours.access]} {ours.judge.models(SECRET)} {ours.signature}"
    assert ours.access == Access("sk-another") == Access()
    assert hash(ours.access) == hash(Access())
    assert ours == replace(ours, access=Access("sk-another", run="other"))
    one, other = ModelRef("openai/q", "http://h", SECRET), ModelRef("openai/q", "http://h", "sk-another")
    assert (one == other, hash(one) == hash(other), pickle.loads(pickle.dumps(one)).api_key) == (True, True, SECRET)
    assert (one == ModelRef("openai/q", "http://g"), one == ModelRef("openai/p", "http://h")) == (False, False)
