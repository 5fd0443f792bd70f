"""A run of a flow: its folder, its row in the warehouse, and what it logs."""

from __future__ import annotations

import atexit
import logging
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from answerkey.flows.forms import Form, with_names
from answerkey.flows.prefect_or_local import cancel_submitted
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.access import Access
from answerkey.metrics_core.llm.loop import stop as stop_asking
from answerkey.tasks.maintenance import TAG
from answerkey.tasks.publish.artifacts import notify_api
from answerkey.tasks.publish.events import RUN_WAITS, emit
from answerkey.tasks.reports.commit import finish_run, start_run
from answerkey.tasks.reports.report import known_names
from answerkey.tasks.server import within_run
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.store import PROCESS, Unreachable, locked
from answerkey.tasks.warehouse.warehouse import made

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun, State

F = TypeVar("F", bound=Form)

log = logging.getLogger("answerkey")
"""What runs say about themselves: in the terminal, and on the run's page in the Prefect UI."""

# A worker has set up its logging before it imports this.
log.setLevel(logging.INFO)


def _tells_something(record: logging.LogRecord) -> bool:
    """Whether a line of Prefect's has something new: the end of each task is in the graph.

    Prefect logs an error for its task, for the flow and for the engine, each time with a traceback. Where the message
    is one line, the traceback only hides it.
    """
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, UserError | Unreachable):
        record.msg, record.args, record.exc_info = str(error), (), None
        is_new = not vars(error).get("is_logged")
        vars(error)["is_logged"] = True
        return is_new
    return not (record.name == "prefect.task_runs" and record.getMessage().startswith("Finished in state "))


for _name in ("prefect.flow_runs", "prefect.task_runs", "prefect.engine"):
    logging.getLogger(_name).addFilter(_tells_something)


def run_id() -> str:
    """The id of this flow run; without a server a new one."""
    run = _flow_run()
    return str(run.id if run else uuid.uuid4())


def form_of(parameter: str, kind: type[F]) -> F:
    """A form among the parameters of this flow run, which a server may have as a mapping."""
    from prefect.runtime import flow_run

    given = flow_run.parameters[parameter]
    return given if isinstance(given, kind) else kind(**given)


def started_before() -> bool:
    """Whether this is a retry of a flow run on a server, or one that goes on after it was suspended."""
    run = _flow_run()
    # Prefect counts no other run where one goes on.
    return bool(run and (run.run_count > 1 or earlier_suspensions()))


def earlier_suspensions() -> frozenset[str]:
    """The keys under which this run was suspended before; none for a run that was started anew from its end."""
    run = _flow_run()
    return frozenset(run.empirical_policy.pause_keys or ()) if run else frozenset()


def can_be_suspended() -> bool:
    """Whether a worker would start this run again: one of a deployment, and of no other run."""
    run = _flow_run()
    return bool(run and run.deployment_id and not run.parent_task_run_id)


def suspend(key: str, timeout: timedelta) -> None:
    """End this process, and have the run start again from its beginning once it is resumed; at most once for each key.

    Where the server cannot be told, the run goes on.
    """
    from prefect.flow_runs import suspend_flow_run

    # A heartbeat in the moment of suspension would have the automation wait for the next one.
    atexit.register(_say_that_it_waits, run_id())
    try:
        suspend_flow_run(key=key, timeout=int(timeout.total_seconds()))
    except Exception as error:
        log.warning(f"the run cannot be suspended, and goes on: {error}")


def _say_that_it_waits(run: str) -> None:
    """At the end of the process, after everything else that it had to tell the server."""
    from prefect.events.worker import EventsWorker

    EventsWorker.drain_all()
    tag = {"prefect.resource.id": f"prefect.tag.{TAG}", "prefect.resource.role": "tag"}
    emit(RUN_WAITS, f"prefect.flow-run.{run}", {}, [tag])


def _flow_run() -> FlowRun | None:
    if not within_run():
        return None
    from prefect.context import FlowRunContext

    context = FlowRunContext.get()
    return context.flow_run if context else None


def crash_unfinished_subflows() -> None:
    """In a retry, mark as crashed the subflow runs that the killed process has left unfinished.

    Prefect resumes an unfinished subflow run by its position among the subflows of its parent, whatever its parameters
    are now: the next evaluation would be taken for the one that was killed, and then for complete.
    """
    if not started_before():
        return
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter
    from prefect.states import Crashed

    unfinished = {"type": {"any_": ["PENDING", "RUNNING", "CANCELLING"]}}
    wanted = FlowRunFilter.model_validate({"parent_flow_run_id": {"any_": [run_id()]}, "state": unfinished})
    with get_client(sync_client=True) as client:
        for run in client.read_flow_runs(flow_run_filter=wanted):
            lost: State[Any] = Crashed(message="the run that it was part of was killed, and has been started again")
            client.set_flow_run_state(run.id, lost, force=True)


def queued_alike() -> list[uuid.UUID]:
    """The runs of the same deployment, with the same parameters, that are due and wait for their turn.

    None where the server does not answer: each of them then does its work itself.
    """
    run = _flow_run()
    if not run or not run.deployment_id:
        return []
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter

    wanted = {
        "deployment_id": {"any_": [run.deployment_id]},
        "state": {"type": {"any_": ["SCHEDULED"]}},
        "expected_start_time": {"before_": datetime.now(UTC)},
    }
    with suppress(Exception), get_client(sync_client=True) as client:
        found = client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate(wanted))
        return [one.id for one in found if one.parameters == run.parameters]
    return []


def complete_queued(runs: Iterable[uuid.UUID]) -> None:
    """Complete runs for which nothing is left to do, before a worker starts a process for each."""
    from prefect.client.orchestration import get_client
    from prefect.states import Completed

    with suppress(Exception), get_client(sync_client=True) as client:
        for one in runs:
            done: State[Any] = Completed(message=f"nothing to do: the run {run_id()} has done it")
            client.set_flow_run_state(one, done, force=True)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a flow, with the home that it works on."""

    home: Home
    id: str

    @property
    def folder(self) -> Path:
        """Where the run keeps its files while it works: copies of what the warehouse holds, or can be read again."""
        return self.home.scratch / self.id

    @property
    def access(self) -> Access:
        """How the run reaches models: through the ledger of its home, with a budget of its own."""
        return Access(ledger=self.home.ledger, run=self.id)

    @contextmanager
    def recorded(
        self, flow: str, dataset: str, parameters: Mapping[str, Any], *, dry_run: bool = False
    ) -> Iterator[None]:
        """Around the work of the run: the row in `runs` that says when it started and how it ended."""
        made(self.home.local)
        # By its lock `forget`, and housekeeping without a server, know that it works: before its row says so.
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder / PROCESS):
            start_run(self.home, self.id, flow, dataset, parameters)
            try:
                yield
            except BaseException as error:
                if not isinstance(error, Exception):
                    # Judges would be asked, and paid, for as long as another run holds the warehouse.
                    stop_asking(self.id)
                finish_run(self.home, self.id, "stopped", f"{type(error).__name__}: {error}")
                raise
            finish_run(self.home, self.id, "complete", "dry run" if dry_run else None)

    def describe(self, tags: Mapping[str, Iterable[str]], name: str | None = None) -> None:
        """Tag the flow run with what is known only by now, for the filters of the page of runs; and give it a name.

        Args:
            tags: values by kind: {"release": ["gpt-5"]} is the tag `release:gpt-5`, in place of others of this kind.
        """
        notify_api("the name and tags of this run", partial(_describe, uuid.UUID(self.id), tags, name))


def _describe(run: uuid.UUID, tags: Mapping[str, Iterable[str]], name: str | None) -> None:
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        others = [tag for tag in client.read_flow_run(run).tags if tag.partition(":")[0] not in tags]
        new = [f"{kind}:{value}" for kind, values in tags.items() for value in values]
        client.update_flow_run(run, name=name, tags=[*others, *dict.fromkeys(new)])


@contextmanager
def started(home: str) -> Iterator[Run]:
    """The flow run that calls, on the home written as `home`; its folder is removed at the end.

    One that is interrupted, cancelled or told to end stops asking models within seconds.
    """
    run = Run(Home.parse(home), run_id())
    if run.home.warning:
        log.warning(run.home.warning)
    try:
        yield run
    except Exception:
        raise
    except BaseException as error:
        # Interrupted or told to end. What was submitted would wait for its judges.
        if can_be_suspended() and type(error).__name__ != "Pause":
            log.warning("told to end: unless somebody has cancelled it, this run goes on by itself, once")
        stop_asking(run.id)
        cancel_submitted()
        raise
    finally:
        shutil.rmtree(run.folder, ignore_errors=True)
        # Of a bucket that is gone, the run's own error says more.
        with suppress(Unreachable):
            run.home.store.remove(run.home.shared_name(run.folder))


def offer_names(home: Home) -> None:
    """Have the forms of the deployments that work on this home offer the data sets and releases that are in it."""
    notify_api("the names for its forms", partial(_offer_names, home))


def _offer_names(home: Home) -> None:
    from prefect.client.orchestration import get_client

    offered = None
    with get_client(sync_client=True) as client:
        # Another run that ends meanwhile may have offered more, which this one has just overwritten.
        while (names := known_names(home)) != offered:
            _offer(client, home, names)
            offered = names


def _home_of(client: SyncPrefectClient, parameters: Mapping[str, Any]) -> str | None:
    """The home on which runs with these parameters work."""
    reference = (parameters.get("target") or {}).get("$ref", {}).get("block_document_id")
    if not reference or "home" in parameters:
        return parameters.get("home")
    return str(client.read_block_document(uuid.UUID(reference)).data["home"])


def _offer(client: SyncPrefectClient, home: Home, names: Mapping[str, Sequence[str]]) -> None:
    ours = {"deployments": {"tags": {"all_": [TAG]}}}
    for found in client.request("POST", "/deployments/filter", json=ours).json():
        if _home_of(client, found["parameters"]) != home.address or any(one["active"] for one in found["schedules"]):
            # With every change of a deployment, Prefect plans what is scheduled anew: a run that is due within these
            # seconds would fall out.
            continue
        schema = with_names(found["parameter_openapi_schema"], names)
        if schema != found["parameter_openapi_schema"]:
            body = {"parameter_openapi_schema": schema}
            client.request("PATCH", "/deployments/{id}", path_params={"id": found["id"]}, json=body)
