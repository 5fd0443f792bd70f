"""Judges and their key in Prefect: variables and secret blocks of a real server."""

import pytest
from prefect.blocks.system import Secret
from prefect.client.orchestration import get_client
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.variables import Variable

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.score.keys import key, settings

KEY = "sk-0123456789abcdef"


@pytest.fixture(autouse=True)
def _prefect(server):
    """The session's server, without anything that a test has put there."""
    with temporary_settings({PREFECT_API_URL: server}):
        yield
        # What is still to be sent would wait for the server when it is gone.
        APILogWorker.drain_all()
        EventsWorker.drain_all()
        with get_client(sync_client=True) as client:
            for variable in client.read_variables():
                client.delete_variable_by_name(variable.name)
            for document in client.read_block_documents():
                client.delete_block_document(document.id)


@pytest.mark.nightly
def test_nothing_is_there(monkeypatch):
    assert settings((), "") == ((), "")
    assert key("") is None
    for place, remedy in (
        ("secret:my-judge", "save a Secret block called my-judge in Prefect"),
        ("variable:my_judge", "set it with `prefect variable set my_judge ...`"),
    ):
        with pytest.raises(UserError) as error:
            key(place)
        assert str(error.value) == f"the judge's key is not in {place}: {remedy}"


@pytest.mark.real
def test_variables_come_after_parameters_and_environment(monkeypatch):
    Variable.set("answerkey_judge", "openai/a, openai/b")
    Variable.set("answerkey_judge_base", "http://there/v1")
    assert settings((), "") == (("openai/a", "openai/b"), "http://there/v1")
    assert settings(["openai/c"], "") == (("openai/c",), "http://there/v1")
    monkeypatch.setenv("ANSWERKEY_JUDGE", "openai/d")
    monkeypatch.setenv("ANSWERKEY_JUDGE_BASE", "http://here/v1")
    assert settings((), "") == (("openai/d",), "http://here/v1")
    monkeypatch.delenv("ANSWERKEY_JUDGE")
    Variable.set("answerkey_judge", ["openai/e", "openai/f@http://own/v1"], overwrite=True)
    assert settings((), "") == (("openai/e", "openai/f@http://own/v1"), "http://here/v1")
    Variable.set("answerkey_judge", {"model": "openai/e"}, overwrite=True)
    with pytest.raises(UserError, match="the Prefect variables answerkey_judge and answerkey_judge_base hold a text"):
        settings((), "")


@pytest.mark.real
def test_a_key_in_prefect(monkeypatch):
    Secret(value=KEY).save("answerkey-judge-key")
    # The block's own reading would make a number of this one.
    Secret(value="1234567890").save("digits")
    Variable.set("my_key", " in-a-variable ")
    Variable.set("no_key", 7)
    assert key("") == KEY
    assert key("secret:answerkey-judge-key") == KEY
    assert key("secret:digits") == "1234567890"
    assert key("variable:my_key") == "in-a-variable"
    with pytest.raises(UserError, match="is not in variable:no_key"):
        key("variable:no_key")
    monkeypatch.setenv("ANSWERKEY_JUDGE_KEY", "from-the-environment")
    assert key("") == "from-the-environment"
