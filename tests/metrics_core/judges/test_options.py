"""What a user says about judges, and what is made of it."""

import math
import pickle
import re
from dataclasses import replace

import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.options import OFFLINE_JUDGE, JudgeOptions
from answerkey.metrics_core.llm.access import Access
from answerkey.metrics_core.metrics.meaning_match import MeaningMatch

SECRET = "sk-a-key-that-is-nowhere-51c8"


@pytest.fixture(autouse=True)
def no_addresses(monkeypatch):
    for name in ("OPENAI_API_BASE", "OPENAI_BASE_URL", "ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def judge(text, **changes):
    key = changes.pop("api_key", None)
    [(found, repeat)] = JudgeOptions(judges=(text,), **changes).jurors(key)
    assert repeat == 0
    return found


@pytest.mark.parametrize(
    ("text", "model", "address"),
    [
        ("openai/gpt-4o-mini", "openai/gpt-4o-mini", ""),
        ("  openai/gpt-4o-mini\n", "openai/gpt-4o-mini", ""),
        ("openai/q@http://127.0.0.1:8080/v1", "openai/q", "http://127.0.0.1:8080/v1"),
        ("openai/q@https://host/v1/", "openai/q", "https://host/v1"),
        ("openai/q@HTTP://host/v1", "openai/q", "HTTP://host/v1"),
        # An @ of the model's own: Vertex names versions so.
        ("vertex_ai/claude-3-5-sonnet@20240620", "vertex_ai/claude-3-5-sonnet@20240620", ""),
        ("vertex_ai/claude@20240620@http://host/v1", "vertex_ai/claude@20240620", "http://host/v1"),
        ("openai/q@httpd", "openai/q@httpd", ""),
        # An @ of the address's own.
        ("openai/q@http://me:pw@host/v1", "openai/q", "http://me:pw@host/v1"),
        ("huggingface/org/model-7b", "huggingface/org/model-7b", ""),
        ("openai/q@http://[::1]:8080/v1", "openai/q", "http://[::1]:8080/v1"),
    ],
)
def test_a_judge_is_a_model_and_perhaps_an_address(text, model, address):
    found = judge(text)
    assert (found.model, found.api_base, found.api_key) == (model, address, None)


@pytest.mark.parametrize(
    "text", ["gpt-4o-mini", "", "openai/", "/q", "http://me:hunter2@host/v1", "gpt@http://me:hunter2@host/v1"]
)
def test_a_name_without_a_provider_is_refused(text):
    with pytest.raises(UserError, match="write PROVIDER/MODEL, for instance openai/gpt-4o-mini") as caught:
        judge(text)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    ["localhost:8080", "127.0.0.1", "http://", "http://host:port/v1", "http://host:99999/v1", "ftp://me:hunter2@host",
     "http://me:hunter2@[::1/v1"],
)  # fmt: skip
def test_an_invalid_address_is_refused_without_being_shown(address):
    with pytest.raises(UserError) as caught:
        judge("openai/q", api_base=address)
    assert str(caught.value) == ("judge openai/q: its address is malformed; write it like http://127.0.0.1:8080/v1")


def test_the_address_comes_from_the_judge_then_the_options_then_the_environment(
    monkeypatch,
):
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


@pytest.mark.parametrize("key", [f"{SECRET}\n", f"  {SECRET} ", SECRET])
def test_white_space_around_a_key_is_dropped(key):
    assert judge("openai/q", api_key=key).api_key == SECRET


@pytest.mark.parametrize("key", ["", " \n"])
def test_a_blank_key_counts_as_no_key(key):
    assert judge("openai/q", api_key=key).api_key is None


@pytest.mark.parametrize("key", [f"{SECRET}…", f"{SECRET}\nsecond line", f"{SECRET}\x00", f"{SECRET}é"])
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(key):
    with pytest.raises(UserError, match="judge openai/q: its key contains an impossible character") as caught:
        judge("openai/q", api_key=key)
    assert SECRET not in str(caught.value)


def test_every_judge_has_a_seat_for_every_repeat():
    jurors = JudgeOptions(judges=("openai/a", "openai/b"), repeats=2).jurors(SECRET)
    assert [(one.model, repeat) for one, repeat in jurors] == [
        ("openai/a", 0), ("openai/a", 1), ("openai/b", 0), ("openai/b", 1),
    ]  # fmt: skip
    assert {one.api_key for one, _ in jurors} == {SECRET}


def test_without_a_judge_it_is_the_offline_one_and_there_are_no_jurors():
    assert JudgeOptions(judges=("offline",)) == OFFLINE_JUDGE
    assert (OFFLINE_JUDGE.offline, OFFLINE_JUDGE.labels, OFFLINE_JUDGE.jurors()) == (True, ("offline",), ())
    named = JudgeOptions(judges=("openai/a", "openai/b"), repeats=2)
    assert (named.offline, named.labels) == (False, ("openai/a", "openai/b"))


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
    ],
)
def test_what_does_not_go_with_the_offline_judge(changes, message):
    with pytest.raises(UserError, match=re.escape(message)):
        JudgeOptions(**changes)


def test_a_judge_cannot_vote_twice():
    with pytest.raises(UserError, match="a judge is named twice; `repeats` asks one judge several times"):
        JudgeOptions(judges=("openai/a", "openai/b", "openai/a"))


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
def test_nor_under_two_spellings(one, other, base):
    for named in ({"judges": (one, other)}, {"judges": (one,), "fallbacks": (other,)}):
        options = JudgeOptions(**named, api_base=base)
        with pytest.raises(UserError, match=r"the judge openai/a(@h/v1)? is named twice; `repeats` asks one judge"):
            options.jurors()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, bad) for name in ("repeats", "concurrency", "timeout_s", "deadline_s") for bad in (0, -1, math.nan)),
        *((name, bad) for name in ("max_calls", "max_cost_usd") for bad in (-1, math.nan)),
        ("jury", "most"),
    ],
)  # fmt: skip
def test_impossible_values_are_refused_by_name(name, value):
    with pytest.raises(UserError, match=f"^{name}.*: "):
        JudgeOptions(**{name: value})


@pytest.mark.parametrize("value", [0, None])
def test_none_and_zero_both_mean_no_limit(value):
    options = JudgeOptions.model_validate({"max_calls": value, "max_cost_usd": value, "cascade": value})
    assert options == JudgeOptions()
    assert (options.limits.max_calls, options.limits.max_cost_usd) == (None, None)


@pytest.mark.parametrize("name", list(JudgeOptions.model_fields))
def test_no_message_repeats_what_may_be_a_secret(name):
    with pytest.raises(UserError, match=name) as caught:
        JudgeOptions.model_validate({name: {SECRET: SECRET}})
    assert SECRET not in str(caught.value)


def test_an_option_that_does_not_exist_is_refused():
    with pytest.raises(UserError, match="api_key: there is no such field"):
        JudgeOptions.model_validate({"api_key": SECRET})


def test_the_key_is_not_shown_and_makes_no_difference():
    ours = MeaningMatch(JudgeOptions(judges=("openai/q",)), access=Access(SECRET))
    assert SECRET not in f"{ours} {ours!r} {ours.access} {[ours.access]} {ours.judge.jurors(SECRET)}"
    assert ours.access == Access("sk-another") == Access()
    assert hash(ours.access) == hash(Access())
    assert ours == replace(ours, access=Access("sk-another", run="other"))
    assert SECRET not in ours.signature


def test_worker_processes_get_the_key():
    ours = MeaningMatch(JudgeOptions(judges=("openai/q",), max_calls=3), access=Access(SECRET))
    copy = pickle.loads(pickle.dumps(ours))
    assert (copy, copy.access.api_key, copy.judge.max_calls) == (ours, SECRET, 3)
    assert SECRET not in repr(copy)
