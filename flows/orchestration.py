"""Flows and their steps: run by Prefect where it has a server, and called as plain functions where it has none.

On a server, a flow is a Prefect flow and each of its steps a task. Without one nothing of Prefect is imported: the same
functions are called in the same order, retried as often after the same delays, and submitted to as many threads.
"""

from __future__ import annotations

import concurrent.futures
import functools
import logging
import multiprocessing
import os
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from copy import copy
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

from pydantic import ConfigDict, validate_call

from answerkey.flows.environment import heed_signals
from answerkey.flows.forms import as_shown
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.loop import Stopped
from answerkey.tasks.score.shard import Cancelled
from answerkey.tasks.server import is_away, on_server, within_run

if TYPE_CHECKING:
    import prefect
    from prefect.client.schemas.objects import State, TaskRun
    from prefect.futures import PrefectFuture

P = ParamSpec("P")
R = TypeVar("R")

_DELAYS_S = (1, 10)
"""Before the second and the third attempt at a step that is retried."""
_THREADS = 2 + (os.cpu_count() or 1)
"""Steps that are submitted mostly wait for processes and models; two more than cores keep both busy."""


def _worth_retrying(error: object) -> bool:
    """A wrong input stays wrong, and a run that was stopped stays so; everything else may have been the machine."""
    return not isinstance(error, UserError | Stopped | Cancelled)


class _Threads:
    """What the submitted steps of a run without a server work on."""

    def __init__(self) -> None:
        self.pool = concurrent.futures.ThreadPoolExecutor(_THREADS)
        self.ended = threading.Event()

    def end(self) -> None:
        """Begin no step and no attempt any more, and wait for those that work."""
        self.ended.set()
        self.pool.shutdown(cancel_futures=True)


_threads: ContextVar[_Threads] = ContextVar("_threads")


@contextmanager
def _own_threads() -> Iterator[None]:
    threads = _Threads()
    before = _threads.set(threads)
    try:
        yield
    finally:
        _threads.reset(before)
        threads.end()


class Flow(Generic[P, R]):
    """A function that is run as a Prefect flow on a server, and else called as it is, with its parameters validated.

    Whatever else Prefect's flows can do, such as `serve`, this one can do as well.
    """

    def __init__(self, function: Callable[P, R], on_prefect: Callable[[], prefect.Flow[P, R]]) -> None:
        functools.update_wrapper(self, function)
        self._on_prefect = functools.cache(on_prefect)
        self._validated = validate_call(config=_STRICT)(function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run it.

        Raises:
            RuntimeError: a process that is to score for a run has come here by importing the script that started it.
        """
        _refuse_twice()
        if on_server():
            return self._on_prefect()(*args, **kwargs)
        with _own_threads():
            return self._validated(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """As Prefect has it."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._on_prefect(), name)


def _refuse_twice() -> None:
    # By this, multiprocessing knows such a process. The same run would begin once more in each.
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError('a script must start a run under `if __name__ == "__main__":`, since processes import it')


# Values may be secrets that were typed into the wrong field.
_STRICT = ConfigDict(arbitrary_types_allowed=True, hide_input_in_errors=True)


def flow(
    name: str, description: str, run_name: Callable[[Mapping[str, Any]], str]
) -> Callable[[Callable[P, R]], Flow[P, R]]:
    """Make a function a flow. `run_name` names a run on a server by its parameters.

    Where Prefect is imported already, as in its workers, it is one of Prefect's own flows.
    """

    def of(function: Callable[P, R]) -> Flow[P, R]:
        def on_prefect() -> prefect.Flow[P, R]:
            return _prefect_flow(plain, function, name, description, run_name)

        plain = Flow(function, on_prefect)
        return cast("Flow[P, R]", on_prefect()) if "prefect" in sys.modules else plain

    return of


def _prefect_flow(
    plain: Flow[P, R],
    function: Callable[P, R],
    name: str,
    description: str,
    run_name: Callable[[Mapping[str, Any]], str],
) -> prefect.Flow[P, R]:
    import prefect
    from prefect.runtime import flow_run
    from prefect.task_runners import ThreadPoolTaskRunner

    class OnServer(prefect.Flow[P, R]):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            _refuse_twice()
            return super().__call__(*args, **kwargs) if on_server() else plain(*args, **kwargs)

    _log_to_server()
    made = OnServer(
        function,
        name=name,
        description=description,
        flow_run_name=lambda: run_name(flow_run.parameters),
        retries=0,
        persist_result=False,
        validate_parameters=True,
        task_runner=ThreadPoolTaskRunner(max_workers=_THREADS),  # type: ignore[arg-type]
    )
    # Read by what deploys a flow, and only there: calls and their validation look at the function.
    made.__signature__ = as_shown(function)  # type: ignore[attr-defined]
    return made


@functools.cache
def _log_to_server() -> None:
    """Show on the page of a run in the Prefect UI what runs say about themselves."""
    from prefect.logging.handlers import APILogHandler

    handler = APILogHandler()
    handler.addFilter(lambda _record: within_run())
    logging.getLogger("answerkey").addHandler(handler)


class Step(Generic[P, R]):
    """A function that is a task of Prefect within a run of Prefect, and else called as it is.

    Args:
        run_name: what a task run is called, with parameters in braces; as the step without it.
        retried: try twice more, unless the input is wrong or the run is stopped.
    """

    def __init__(
        self,
        name: str,
        function: Callable[P, R],
        run_name: str = "",
        *,
        retried: bool = False,
    ) -> None:
        self._name, self._function, self._run_name = name, function, run_name or name
        self._delays = _DELAYS_S if retried else ()
        self._tags: tuple[str, ...] = ()
        self._after: tuple[object, ...] = ()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Carry it out."""
        heed_signals()
        try:
            if not within_run():
                return self._attempted(*args, **kwargs)
            # Its type says nothing of a function whose parameters are not known.
            task: Any = self._task
            with _no_tags():
                return cast(R, task(*args, wait_for=self._waits_for(), **kwargs))
        except Exception:
            # A statement of DuckDB that was told to end says so by an error of its own.
            heed_signals()
            raise

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> Submitted[R]:
        """Carry it out beside what follows, on a thread of the run."""
        heed_signals()
        if not within_run():
            attempted = functools.partial(self._attempted, *args, **kwargs)
            return Submitted(_threads.get().pool.submit(copy_context().run, attempted))
        task: Any = self._task
        with _no_tags():
            future = task.submit(*args, wait_for=self._waits_for(), **kwargs)
        return Submitted(future, functools.partial(self._function, *args, **kwargs))

    def tagged(self, tags: Iterable[str], name: str) -> Step[P, R]:
        """The same with tags, of which a concurrency limit on a server holds it back. Prefect shows a task by `name`
        while it waits, and makes its `run_name` only then."""
        return self._with(_tags=tuple(tags), _name=name)

    def after(self, *steps: object) -> Step[P, R]:
        """The same after other steps that give it nothing: their results, or what was submitted, which may fail.

        On a server, it is seen to wait, and the graph of the run has an edge. Without one, it is carried out at once.
        """
        return self._with(_after=(*self._after, *steps))

    def _with(self, **changes: object) -> Step[P, R]:
        changed = copy(self)
        # The task of Prefect is made anew.
        changed.__dict__ = {name: value for name, value in vars(self).items() if name != "_task"} | changes
        return changed

    def _waits_for(self) -> list[object]:
        from prefect import allow_failure
        from prefect.client.schemas.objects import StateType
        from prefect.utilities.engine import get_state_for_result

        submitted = [allow_failure(one.future) for one in self._after if isinstance(one, Submitted)]
        states: dict[object, object] = {}
        for one in self._after:
            if not isinstance(one, Submitted) and (state := get_state_for_result(one)):
                # Prefect would look into all that a result holds, once for each step that waits for it. What gives its
                # results one by one is not complete before the last of them.
                known = {"data": True, "type": StateType.COMPLETED}
                states[state[0].state_details.task_run_id] = state[0].model_copy(update=known)
        return [*submitted, *states.values()]

    def _attempted(self, *args: P.args, **kwargs: P.kwargs) -> R:
        for delay in self._delays:
            try:
                return self._function(*args, **kwargs)
            except Exception as error:
                if not _worth_retrying(error) or _threads.get().ended.wait(delay):
                    raise
        return self._function(*args, **kwargs)

    @functools.cached_property
    def _task(self) -> prefect.Task[P, R]:
        from prefect import Task
        from prefect.cache_policies import NO_CACHE

        def retry(_task: Any, _run: TaskRun, state: State[Any]) -> bool:
            return _worth_retrying(state.result(raise_on_failure=False))

        return Task(
            self._function,
            name=self._name,
            task_run_name=self._run_name,
            tags=self._tags,
            cache_policy=NO_CACHE,
            retries=len(self._delays) or None,
            retry_delay_seconds=list(self._delays) or None,
            retry_condition_fn=retry if self._delays else None,
        )


class Submitted(Generic[R]):
    """A step that was submitted; `here` carries it out without the server of which it is a task."""

    def __init__(
        self, future: PrefectFuture[R] | concurrent.futures.Future[R], here: Callable[[], R] | None = None
    ) -> None:
        self.future, self._here = future, here

    def outcome(self) -> R | Exception:
        """What it returned, or the error of its last attempt; waits for it.

        A step that waits for a concurrency limit of a server that is gone does not wait any more.
        """
        try:
            if isinstance(self.future, concurrent.futures.Future):
                return self.future.result()
            # An error comes back as the result, which the declared type does not say. What is raised is Prefect's.
            return cast("R | Exception", self.future.result(raise_on_failure=False))
        except Exception as error:
            if self._here is None or not _asked_in_vain(error):
                return error
        try:
            return self._here()
        except Exception as error:
            return error


def _asked_in_vain(error: Exception) -> bool:
    """Whether a server was asked for a place under a concurrency limit, or was to be told that it is free again."""
    from prefect.concurrency.asyncio import ConcurrencySlotAcquisitionError

    return isinstance(error, ConcurrencySlotAcquisitionError) or is_away(error)


def as_completed(submitted: Iterable[Submitted[R]]) -> Iterator[Submitted[R]]:
    """Each as it ends."""
    by_future: dict[Any, Submitted[R]] = {one.future: one for one in submitted}
    ended: Callable[[list[Any]], Iterator[Any]] = concurrent.futures.as_completed
    if within_run():
        from prefect import futures

        ended = futures.as_completed
    for future in ended(list(by_future)):
        yield by_future[future]


def end_submitted() -> None:
    """Begin no step any more that was submitted, and wait for those that work, whose files the run removes next."""
    if not within_run():
        if threads := _threads.get(None):
            threads.end()
        return
    from prefect.context import FlowRunContext

    if run := FlowRunContext.get():
        # That of the threads has it, which the declared type does not say.
        threads_of_prefect: Any = run.task_runner
        threads_of_prefect.cancel_all()


def run_id() -> str:
    """The id of the flow run that this is part of; without a server a new one."""
    if within_run():
        from prefect.runtime import flow_run

        if flow_run.id:
            return str(flow_run.id)
    return str(uuid.uuid4())


def started_before() -> bool:
    """Whether this run has been started before, as a retry of a run on a server has."""
    if not within_run():
        return False
    from prefect.runtime import flow_run

    return int(flow_run.run_count) > 1


def crash_unfinished_within() -> None:
    """In a run that is started again, mark as crashed the runs within it that its killed process has left unfinished.

    Prefect takes up one that is unfinished by its place among the runs within a run, whatever is to be done there now:
    what is evaluated next would be taken for what was being evaluated then, and for complete.
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


def ended(result: R, message: str, name: str = "Completed") -> R:
    """The result of a flow, which on a server ends Completed, with that message and name of its state."""
    if not message or not within_run():
        return result
    from prefect.states import Completed

    # Prefect gives its callers the result.
    return cast(R, Completed(name=name, message=message, data=result))


@contextmanager
def _no_tags() -> Iterator[None]:
    """Steps have no tags but their own: for each, Prefect asks the server for a concurrency limit of that name."""
    from prefect.context import TagsContext

    with TagsContext(current_tags=set()):
        yield


@contextmanager
def tagged() -> Iterator[None]:
    """Gives runs on a server the tag by which housekeeping knows those of this product."""
    if not on_server():
        yield
        return
    from prefect import tags

    from answerkey.tasks.maintenance import TAG

    with tags(TAG):
        yield
