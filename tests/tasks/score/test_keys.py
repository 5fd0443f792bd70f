"""Where judges and their key come from, as far as parameters and the environment go."""

import pytest

from answerkey.tasks.score.keys import key, settings
from tests.tasks.staging_help import refusal

SECRET = "sk-0123456789abcdef"


def test_parameters_come_before_the_environment(monkeypatch):
    assert settings((), "") == ((), "")
    assert settings(["openai/a"], "http://here/v1") == (("openai/a",), "http://here/v1")
    monkeypatch.setenv("ANSWERKEY_JUDGE", " openai/b , openai/c@http://there/v1,")
    monkeypatch.setenv("ANSWERKEY_JUDGE_BASE", " http://base/v1 ")
    assert settings((), "") == (("openai/b", "openai/c@http://there/v1"), "http://base/v1")
    assert settings(["openai/a"], "") == (("openai/a",), "http://base/v1")
    assert settings([], "http://here/v1") == (("openai/b", "openai/c@http://there/v1"), "http://here/v1")
    monkeypatch.setenv("ANSWERKEY_JUDGE", "  ")
    assert settings((), "") == ((), "http://base/v1")


def test_the_key_comes_from_the_environment(monkeypatch):
    assert key("") is None
    monkeypatch.setenv("ANSWERKEY_JUDGE_KEY", f" {SECRET}\n")
    monkeypatch.setenv("OTHER", "other-key")
    assert key("") == SECRET
    assert key("env:OTHER") == "other-key"
    monkeypatch.setenv("OTHER", " ")
    assert refusal(key, "env:OTHER") == "the judge's key is not in env:OTHER: export OTHER=... where the run starts"


@pytest.mark.parametrize("place", ["secret:block", "variable:name"])
def test_without_a_server_prefect_has_no_key(place):
    assert refusal(key, place) == (
        f"the judge's key is not in {place}: there is no Prefect server: set PREFECT_API_URL, or use env:NAME"
    )


@pytest.mark.parametrize(
    "given", [SECRET, "env:", f"env:{SECRET}", f"key:{SECRET}", f" env:{SECRET}", f"ENV:X {SECRET}"]
)
def test_a_key_given_in_place_of_its_location_is_not_repeated(given):
    message = refusal(key, given)
    assert "is written env:NAME, secret:BLOCK or variable:NAME" in message and SECRET not in message
