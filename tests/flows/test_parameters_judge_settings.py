"""Judges and their key in Prefect: variables and secret blocks of a real server."""

import pytest
from prefect import flow
from prefect.blocks.system import Secret
from prefect.client.orchestration import get_client
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.task_runners import ThreadPoolTaskRunner
from prefect.variables import Variable

from answerkey.flows import steps
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.llm.access import Access
from answerkey.metrics_core.registry import create
from answerkey.tasks.score.keys import key, settings
from answerkey.tasks.score.plan import plan
from answerkey.tasks.warehouse.home import Home
from tests.judge_server import JudgeServer, agreeable
from tests.tasks.staging_help import rows_of, stage

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


def test_a_task_looks_its_key_up_and_shows_it_nowhere(tmp_path, ask):
    Secret(value=KEY).save("my-judge")
    rows = [{"id": str(i), "question": "?", "answer": f"a {i}", "references": ["a"]} for i in range(3)]
    with JudgeServer(agreeable) as judge:
        options = dict(
            judge=JudgeOptions(judges=(f"openai/m@{judge.url}",)), access=Access(ledger=str(tmp_path), run="r")
        )
        loaded = stage(tmp_path / "staged", rows)
        metrics = create(["meaning_match"], options)
        made = plan(loaded.staged, Home(tmp_path), tmp_path / "runs" / "work", metrics, only_failed=False)

        @flow(name="judged", task_runner=ThreadPoolTaskRunner(max_workers=2))  # type: ignore[arg-type]
        def judged() -> list[str]:
            estimates = steps.estimate_costs(made)
            assert [(one.metric, one.calls) for one in estimates] == [("meaning_match", 3)]
            shards = [steps.score.submit(shard, spawn=False, key_from="secret:my-judge") for shard in made.shards]
            return [str(shard.result()) for shard in shards]

        [part] = judged()
        assert [request.headers["authorization"] for request in judge.requests] == [f"Bearer {KEY}"] * 3
    assert [row["status"] for row in rows_of(f"{tmp_path}/{part}")] == ["scored"] * 3
    [run] = ask("flow_runs/filter", {"flow_runs": {}, "flows": {"name": {"any_": ["judged"]}}})
    of_run = {"flow_runs": {"id": {"any_": [run["id"]]}}}
    names = [one["name"] for one in ask("task_runs/filter", of_run)]
    assert sorted(names) == ["estimate costs", "score meaning_match, 3 rows"]
    seen = [ask("task_runs/filter", of_run), ask("artifacts/filter", of_run), run]
    seen.append(ask("logs/filter", {"logs": {"flow_run_id": {"any_": [run["id"]]}}}))
    assert KEY not in repr(seen)
    assert [file for file in tmp_path.rglob("*") if file.is_file() and KEY.encode() in file.read_bytes()] == []
