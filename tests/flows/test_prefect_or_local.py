"""The same flow on a Prefect server and without one: its steps in the same order, tried as often, beside each other."""

from __future__ import annotations

import importlib
import os
import re
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import duckdb
import prefect
import pytest
from prefect.client.orchestration import get_client
from prefect.logging.handlers import APILogWorker
from prefect.settings import PREFECT_API_URL, temporary_settings

from answerkey.flows import evaluate_release, prefect_or_local
from answerkey.flows.environment import started_here
from answerkey.flows.fan_out import outcome
from answerkey.flows.parameters import Data, Scoring
from answerkey.flows.prefect_or_local import as_completed, flow, task
from answerkey.flows.runs import may_succeed, run_id
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.loop import Stopped
from answerkey.tasks.server import on_server, within_run
from answerkey.tasks.warehouse.home import Home
from tests.kit.waiting import FAULT_S

OF_THE_RUN = ("run_id", "created_at", "started_at", "finished_at", "manifest", "content_hash", "parameters", "seconds")
"""Columns that differ between any two runs."""


def rows(home):
    """What a run has written, as text."""
    found = {}
    with Home(home).warehouse.reading() as warehouse:
        for table in ("runs", "samples", "answers", "validations", "measurements", "reports", "scores", "comparisons"):
            columns = [name for name, *_ in warehouse.execute(f"DESCRIBE {table}").fetchall() if name not in OF_THE_RUN]
            chosen = ", ".join(f'"{name}"' for name in columns)
            found[table] = sorted(map(repr, warehouse.execute(f"SELECT {chosen} FROM {table}").fetchall()))
    return found


@pytest.mark.nightly
def test_a_run_writes_the_same_rows_and_says_the_same(bare_cli, server, answers, tmp_path):
    said: dict[str, list[str]] = {}
    for name, address in (("with", server), ("without", "")):
        home = tmp_path / name
        process = bare_cli(
            "evaluate", answers, "--metrics", "exact_match,contains,rouge_l", "--baseline", "old",
            "--home", home, PREFECT_API_URL=address, code=0,
        )  # fmt: skip
        lines = [line for line in process.stderr.splitlines() if not line.startswith("data docs:")]
        said[name] = [line.replace(str(home), "HOME") for line in (*process.stdout.splitlines(), *lines)]
    assert said["without"] == said["with"]
    assert rows(tmp_path / "without") == rows(tmp_path / "with")


def test_with_its_one_import_replaced_by_prefects_the_flow_writes_the_same_rows(server, answers, tmp_path, monkeypatch):
    source = Path(evaluate_release.__file__).read_text(encoding="utf-8")
    ours = "from answerkey.flows.prefect_or_local import flow, task\n"
    assert source.count(ours) == 1
    (tmp_path / "plain_flow.py").write_text(source.replace(ours, "from prefect import flow, task\n"), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    plain_flow = importlib.import_module("plain_flow")
    assert type(plain_flow.evaluate_release) is prefect.Flow

    scoring = Scoring(metrics=["exact_match", "rouge_l"])
    report_ids = {}
    for module, name, address in ((plain_flow, "plain", server), (evaluate_release, "ours", "")):
        with temporary_settings({PREFECT_API_URL: address or None}):
            home = str(tmp_path / name)
            report_ids[name] = module.evaluate_release(Data(answers=str(answers)), scoring, home=home, page=False)
            APILogWorker.drain_all()
    assert report_ids["plain"] == report_ids["ours"] == ["faq/old/v1", "faq/new/v1"]
    assert rows(tmp_path / "plain") == rows(tmp_path / "ours")


@pytest.fixture(params=["with a server", "without"])
def on_prefect(request):
    """Whether there is a server."""
    if request.param == "without":
        yield False
        return
    with temporary_settings({PREFECT_API_URL: request.getfixturevalue("server")}):
        yield True
        # What is still to be sent would wait for the server when it is gone.
        APILogWorker.drain_all()


def a_flow(function):
    return flow(name="a-flow", flow_run_name="one of a test")(function)


@pytest.mark.parametrize(
    ("errors", "attempts"),
    [
        ([OSError("a"), OSError("b")], 3),
        ([OSError("a"), OSError("b"), OSError("c")], 3),
        ([UserError("a")], 1),
        ([OSError("a"), Stopped()], 2),
    ],
)
def test_a_step_is_tried_as_often(on_prefect, errors, attempts):
    tried = []

    def work(name):
        assert within_run() == on_prefect
        tried.append(name)
        if len(tried) <= len(errors):
            raise errors[len(tried) - 1]
        return f"{name} is done"

    step = task(
        work,
        name="work",
        task_run_name="work on {name}",
        retries=2,
        retry_delay_seconds=[0.01, 0.01],
        retry_condition_fn=may_succeed,
    )

    @a_flow
    def run() -> list[object]:
        return [outcome(step.submit("one"))]

    [end] = run()
    assert tried == ["one"] * attempts
    assert end == "one is done" if attempts > len(errors) else end is errors[attempts - 1]


def test_what_is_not_retried_fails_at_once_and_its_error_ends_the_flow(on_prefect):
    tried = []

    def work():
        tried.append(1)
        raise OSError("broken")

    step = task(work, name="work")

    @a_flow
    def run() -> list[object]:
        step()
        return []

    with pytest.raises(OSError, match="broken"):
        run()
    assert tried == [1]


def test_steps_come_in_their_order_and_those_submitted_as_they_end(on_prefect):
    second_began, order = threading.Event(), []

    def work(name):
        order.append(name)
        if name == "second":
            second_began.set()
        elif name == "first":
            # Only beside another thread does this end.
            assert second_began.wait(FAULT_S)
        return name

    step = task(work, name="work", task_run_name="work on {name}")

    @a_flow
    def run() -> list[object]:
        found: list[object] = [step("before")]
        submitted = [step.submit("first"), step.with_options(tags=["tagged"]).submit("second")]
        found += sorted(str(outcome(future)) for future in as_completed(submitted))
        return [*found, step("after"), run_id()]

    *found, run_of = run()
    assert found == ["before", "first", "second", "after"]
    assert (order[0], order[-1], len(order)) == ("before", "after", 4)
    if on_prefect:
        with get_client(sync_client=True) as client:
            assert client.read_flow_run(str(run_of)).name == "one of a test"
    assert not on_prefect or on_server()


def test_a_flow_that_is_interrupted_begins_nothing_more_and_waits_for_no_attempt(
    monkeypatch,
):
    monkeypatch.setattr(prefect_or_local, "_THREADS", 1)
    failed, began = threading.Event(), []

    def work(name):
        began.append(name)
        failed.set()
        raise OSError("broken")

    step = task(work, name="work", retries=1, retry_delay_seconds=[10 * FAULT_S])

    @a_flow
    def run() -> list[object]:
        submitted = [step.submit(name) for name in ("first", "second")]
        assert failed.wait(FAULT_S)
        if submitted:
            raise KeyboardInterrupt
        return []

    with pytest.raises(KeyboardInterrupt):
        run()
    assert began == ["first"]


def test_parameters_are_validated_and_none_is_repeated(on_prefect):
    @flow(name="a-flow", flow_run_name="one of a test")
    def double(number: int) -> int:
        return 2 * number

    given: object = "21"
    assert double(given) == 42  # type: ignore[arg-type]
    with pytest.raises(Exception, match="unable to parse") as error:
        double(number="sk-secret")  # type: ignore[arg-type]
    assert on_prefect or "sk-secret" not in str(error.value)


def test_a_ctrl_c_that_something_else_catches_ends_the_run_at_its_next_step():
    done: list[str] = []
    step = task(done.append, name="note")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with started_here():
            step("first")
            with suppress(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(FAULT_S)
            with pytest.raises(KeyboardInterrupt) as raised:
                step("second")
        assert (done, raised.value.args) == (["first"], (signal.SIGINT,))
        # Another run in this process was not told.
        with started_here():
            step("third")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert done == ["first", "third"]


def test_a_ctrl_c_within_a_statement_of_duckdb_is_one(on_prefect):
    """Of DuckDB it is an error like any other; a run would wait for its judges, and end with a traceback."""
    began, ended = threading.Event(), []

    def work():
        assert within_run() == on_prefect
        began.set()
        with duckdb.connect(config={"threads": 1}) as connection:
            connection.execute("SELECT sum(range) FROM range(1_000_000_000_000)")

    step = task(work, name="work")

    @a_flow
    def run() -> list[object]:
        try:
            step()
        except BaseException as error:
            ended.append(type(error))
            raise
        return []

    def interrupt():
        assert began.wait(FAULT_S)
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=interrupt).start()
    try:
        with pytest.raises(KeyboardInterrupt), started_here():
            run()
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended == [KeyboardInterrupt]


@pytest.mark.parametrize("module", ["calibrate_judge", "generate_answers", "score_traces"])
def test_names_of_task_runs_take_parameters_that_are_there(module):
    for step in vars(importlib.import_module(f"answerkey.flows.{module}")).values():
        if isinstance(step, prefect_or_local.Task):
            named = re.findall(r"\{(\w+)", step.options.get("task_run_name", ""))
            assert set(named) <= step.fn.__annotations__.keys()
