"""The form for judges: what reaches the library, and what is refused without being repeated."""

import re
from typing import get_args

import pytest

from answerkey.flows.parameters import Judging, preflight
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.options import JudgeOptions, Jury
from answerkey.metrics_core.validation import InvalidValue

KEY = "sk-canary-0123456789"
OPENAI = "openai/gpt-4o-mini"


def test_an_untouched_form_has_the_library_s_defaults(monkeypatch, tmp_path):
    monkeypatch.setenv("ANSWERKEY_JUDGE", OPENAI)
    assert Judging().options() == JudgeOptions(judges=(OPENAI,))
    assert get_args(Judging.model_fields["jury"].annotation) == get_args(Jury)


def test_choices_reach_the_library(tmp_path):
    judging = Judging(
        judges=["openai/a", "openai/b@http://127.0.0.1:8080/v1"],
        api_base="https://judge.example/v1",
        key_from="env:JUDGE_KEY",
        jury="unanimous",
        repeats=3,
        concurrency=5,
        max_calls=7,
        max_cost_usd=0.5,
        deadline_s=9.0,
        timeout_s=8.0,
        cascade=0.02,
    )
    options = judging.options()
    assert options == JudgeOptions(
        judges=("openai/a", "openai/b@http://127.0.0.1:8080/v1"), api_base="https://judge.example/v1",
        jury="unanimous", repeats=3, concurrency=5, timeout_s=8.0, deadline_s=9.0, max_calls=7, max_cost_usd=0.5,
        cascade=0.02,
    )  # fmt: skip
    unlimited = Judging(judges=["openai/a"]).options()
    assert (unlimited.limits.max_calls, unlimited.limits.max_cost_usd, unlimited.cascade) == (None, None, 0.0)
    # Every option of the library is one of the form.
    assert set(JudgeOptions.model_fields) == set(Judging.model_fields) - {"key_from", "dry_run"}


def test_schedules_saved_with_none_or_with_zero_have_no_limit():
    for saved in (None, 0):
        form = Judging.model_validate(dict.fromkeys(("max_calls", "max_cost_usd", "cascade"), saved))
        assert (form.max_calls, form.max_cost_usd, form.cascade) == (0, 0.0, 0.0)


@pytest.mark.parametrize(
    "judge",
    [
        OPENAI,
        "offline",
        "openai/qwen2.5:7b@http://127.0.0.1:8080/v1",
        "vertex_ai/claude-3-5-sonnet@20240620",
        "vertex_ai/claude-3-5-sonnet@20240620@https://judge.example/v1",
        "openrouter/meta-llama/llama-3.1-70b-instruct",
        "bedrock/anthropic.claude-3-haiku-20240307-v1:0",
    ],
)
def test_judges_as_they_are_written(judge):
    assert Judging(judges=[judge]).judges == (judge,)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("key_from", KEY),
        ("key_from", f"env:{KEY}"),
        ("key_from", "env:"),
        ("key_from", "secret: judge"),
        ("key_from", f"file:{KEY}"),
        ("judges", [KEY]),
        ("judges", [f"openai/x@http://user:{KEY}@127.0.0.1/v1"]),
        ("judges", [f"openai/x@http://127.0.0.1/v1?key={KEY}"]),
        ("judges", ["openai/x y"]),
        ("api_base", KEY),
        ("api_base", f"https://user:{KEY}@judge.example/v1"),
        ("api_base", f"https://judge.example/v1?key={KEY}"),
        ("api_base", f"https://judge.example/v1#{KEY}"),
    ],
)
def test_what_may_hold_a_key_is_refused_and_not_repeated(field, value):
    with pytest.raises(InvalidValue) as caught:
        Judging.model_validate({field: value})
    assert caught.value.field == field
    assert KEY not in str(caught.value)
    # The same in the form of the UI, which checks before it stores.
    schema = Judging.model_json_schema()["properties"][field]
    pattern = schema["items"]["pattern"] if field == "judges" else schema["pattern"]
    assert not re.search(pattern, value[0] if isinstance(value, list) else str(value))


@pytest.mark.parametrize("place", ["", "env:JUDGE_KEY", "secret:judge-key", "variable:judge_key"])
def test_places_of_a_key(place):
    assert Judging(key_from=place).key_from == place


@pytest.mark.parametrize(
    "change", [{"repeats": 0}, {"max_calls": -1}, {"max_cost_usd": -0.1}, {"timeout_s": 0.0}, {"cascade": 0.5}]
)
def test_numbers_that_make_no_sense(change):
    with pytest.raises(InvalidValue):
        Judging.model_validate(change)


def test_no_judge_is_the_offline_one_which_needs_no_preflight(tmp_path):
    options = Judging().options()
    assert options.offline
    assert options == Judging(judges=["offline"]).options()
    preflight(options, "env:NOT_THERE")


def test_what_does_not_go_together(tmp_path):
    with pytest.raises(UserError, match=r"^the offline judge cannot be part of a jury; name only the others"):
        Judging(judges=["offline", "openai/a"]).options()
    with pytest.raises(UserError, match=r"^the offline judge always gives the same verdict; leave `repeats` at 1"):
        Judging(repeats=2).options()
    with pytest.raises(UserError, match=r"^cascade needs a judge to ask where the offline one is undecided"):
        Judging(cascade=0.02).options()


def test_twice_the_same(tmp_path):
    with pytest.raises(UserError, match=r"^a judge is named twice"):
        Judging(judges=["openai/a", "openai/a"]).options()


def test_preflight_looks_for_the_key_where_the_form_says(monkeypatch, tmp_path):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    options = Judging(judges=[OPENAI]).options()
    with pytest.raises(UserError, match=rf"^judge {OPENAI}: no key; set OPENAI_API_KEY or ANSWERKEY_JUDGE_KEY"):
        preflight(options, "")
    with pytest.raises(UserError, match=r"^the judge's key is not in env:JUDGE_KEY"):
        preflight(options, "env:JUDGE_KEY")
    monkeypatch.setenv("JUDGE_KEY", KEY)
    preflight(options, "env:JUDGE_KEY")
    assert list(tmp_path.iterdir()) == []
