"""Prefect's `flow` and `task`, and the same calls without Prefect where no server takes part.

Flows and tasks are declared and called as in Prefect: `@flow`, `task(function, retries=2)`,
`.submit(..., wait_for=[...])`, `.with_options(...)`, `as_completed(futures)`. On a server, and within a run of Prefect,
they are Prefect's. Elsewhere the same functions are called in the same order, with the same retries and on as many
threads, and nothing of Prefect is imported: its temporary server would take more processor time than scoring, and does
not start on a busy machine.
"""

from __future__ import annotations

import concurrent.futures
import functools
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

from pydantic import ConfigDict, validate_call

from answerkey.flows.environment import raise_if_interrupted
from answerkey.tasks.server import on_server, within_run

if TYPE_CHECKING:
    from prefect.futures import PrefectFuture

P = ParamSpec("P")
R = TypeVar("R")

_THREADS = 2 + (os.cpu_count() or 1)
"""Submitted tasks mostly wait for processes and models; two more than cores keep both busy."""
# Values may be secrets that were typed into the wrong field.
_STRICT = ConfigDict(arbitrary_types_allowed=True, hide_input_in_errors=True)


@dataclass(eq=False)
class Future(Generic[R]):
    """A task that was submitted without Prefect, with the methods of a Prefect future."""

    on_thread: concurrent.futures.Future[R]

    def result(self, raise_on_failure: bool = True) -> R | Exception:
        """Wait for the return value; for the error instead of raising it where `raise_on_failure` is False."""
        try:
            return self.on_thread.result()
        except Exception as error:
            if raise_on_failure:
                raise
            return error


class _Declared(Generic[P, R]):
    """A function that Prefect may run.

    Attributes:
        fn: the function.
        options: keyword arguments of `prefect.task` or `prefect.flow`.
    """

    _prefect: Any
    """The function as Prefect has it, made where it is first needed."""

    def __init__(self, fn: Callable[P, R], **options: Any) -> None:
        functools.update_wrapper(cast(Any, self), fn)
        self.fn = fn
        self.options = options

    def __getattr__(self, name: str) -> Any:
        """Whatever else Prefect's tasks and flows can do, such as `map`, `with_options` and `serve`."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._prefect, name)


class Task(_Declared[P, R]):
    """A function that is a Prefect task within a run of Prefect, and is otherwise called as it is."""

    def __call__(self, *args: Any, wait_for: Sequence[object] = (), **kwargs: Any) -> R:
        """Run the task, and return what the function returns."""
        raise_if_interrupted()
        try:
            if not within_run():
                return self._with_retries(*args, **kwargs)
            with _no_inherited_tags():
                return cast(R, self._prefect(*args, wait_for=wait_for, **kwargs))
        except Exception:
            # DuckDB reports an interrupted statement as an error of its own.
            raise_if_interrupted()
            raise

    def submit(self, *args: Any, wait_for: Sequence[object] = (), **kwargs: Any) -> Future[R] | PrefectFuture[R]:
        """Run the task on a thread of the flow run. Without Prefect, `wait_for` is taken to be complete."""
        raise_if_interrupted()
        if within_run():
            with _no_inherited_tags():
                return cast("PrefectFuture[R]", self._prefect.submit(*args, wait_for=wait_for, **kwargs))
        attempts = functools.partial(self._with_retries, *args, **kwargs)
        return Future(_threads.get().pool.submit(copy_context().run, attempts))

    def with_options(self, **options: Any) -> Task[P, R]:
        """A copy with other options of `prefect.task`."""
        return Task(self.fn, **{**self.options, **options})

    def _with_retries(self, *args: Any, **kwargs: Any) -> R:
        for attempt in range(self.options.get("retries", 0)):
            try:
                return self.fn(*args, **kwargs)
            except Exception as error:
                condition = self.options.get("retry_condition_fn")
                failed: concurrent.futures.Future[R] = concurrent.futures.Future()
                failed.set_exception(error)
                if condition and not condition(self, None, Future(failed)):
                    raise
                if _threads.get().ended.wait(self.options["retry_delay_seconds"][attempt]):
                    raise
        return self.fn(*args, **kwargs)

    @functools.cached_property
    def _prefect(self) -> Any:
        import prefect
        from prefect.cache_policies import NO_CACHE

        # Finished parts and the warehouse are the cache, and they outlive the server.
        options = {"task_run_name": self.options["name"], "cache_policy": NO_CACHE, "persist_result": False}
        return prefect.Task(self.fn, **{**options, **self.options})


def task(fn: Callable[P, R], *, name: str, **options: Any) -> Task[P, R]:
    """A task of a function, with options of `prefect.task`."""
    return Task(fn, name=name, **options)


@contextmanager
def _no_inherited_tags() -> Iterator[None]:
    """Prefect asks the server for a concurrency limit of each tag, also of those that a task has from its flow run."""
    from prefect.context import TagsContext

    with TagsContext(current_tags=set()):
        yield


class Flow(_Declared[P, R]):
    """A function that is run as a Prefect flow on a server, and is otherwise called with its parameters validated."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the flow."""
        if on_server():
            return cast(R, self._prefect(*args, **kwargs))
        return self.locally(*args, **kwargs)

    def locally(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the flow without Prefect."""
        threads = _Threads()
        token = _threads.set(threads)
        try:
            return validate_call(config=_STRICT)(self.fn)(*args, **kwargs)
        finally:
            _threads.reset(token)
            threads.end()

    @functools.cached_property
    def _prefect(self) -> Any:
        import prefect
        from prefect.task_runners import ThreadPoolTaskRunner

        local = self

        class OnServer(prefect.Flow[P, R]):
            def __call__(self, *args: Any, **kwargs: Any) -> Any:
                return super().__call__(*args, **kwargs) if on_server() else local.locally(*args, **kwargs)

        _log_to_server()
        runner: Any = ThreadPoolTaskRunner(max_workers=_THREADS)
        options = {"retries": 0, "persist_result": False, "task_runner": runner, **self.options}
        return OnServer(self.fn, **options)


def flow(**options: Any) -> Callable[[Callable[P, R]], Flow[P, R]]:
    """Declare a flow, with options of `prefect.flow`.

    Where Prefect is imported already, as in its workers, the flow is one of Prefect's own.
    """

    def declare(fn: Callable[P, R]) -> Flow[P, R]:
        local = Flow(fn, **options)
        return cast("Flow[P, R]", local._prefect) if "prefect" in sys.modules else local

    return declare


@functools.cache
def _log_to_server() -> None:
    """Show on the page of a run in the Prefect UI what runs log."""
    from prefect.logging.handlers import APILogHandler

    handler = APILogHandler()
    handler.addFilter(lambda _record: within_run())
    logging.getLogger("answerkey").addHandler(handler)


class _Threads:
    """The threads of a flow that runs without Prefect."""

    def __init__(self) -> None:
        self.name = f"flow-{id(self)}"
        self.pool = concurrent.futures.ThreadPoolExecutor(_THREADS, self.name)
        self.ended = threading.Event()

    def end(self) -> None:
        """Start no task and no further attempt, and wait for the tasks that are running."""
        self.ended.set()
        self.pool.shutdown(cancel_futures=True)
        # The pool does not know a thread in whose start it was interrupted.
        for thread in threading.enumerate():
            if thread.name.startswith(f"{self.name}_"):
                thread.join()


_threads: ContextVar[_Threads] = ContextVar("_threads")


def as_completed(futures: Iterable[Future[R] | PrefectFuture[R]]) -> Iterator[Any]:
    """Yield futures as they complete."""
    if within_run():
        from prefect.futures import as_completed as completed

        yield from completed(list(cast("Iterable[PrefectFuture[R]]", futures)))
        return
    by_thread = {future.on_thread: future for future in cast("Iterable[Future[R]]", futures)}
    for on_thread in concurrent.futures.as_completed(by_thread):
        yield by_thread[on_thread]


def allow_failure(future: Future[R] | PrefectFuture[R]) -> object:
    """For `wait_for`: a future that is waited for, however it ends."""
    if not within_run():
        return future
    from prefect import allow_failure as allowed

    return allowed(future)


def cancel_submitted() -> None:
    """Start no submitted task any more, and wait for those that are running."""
    if not within_run():
        if threads := _threads.get(None):
            threads.end()
        return
    from prefect.context import FlowRunContext

    if run := FlowRunContext.get():
        # Only the runner of threads has it.
        runner: Any = run.task_runner
        runner.cancel_all()


@contextmanager
def tagged() -> Iterator[None]:
    """Give runs on a server the tag by which housekeeping recognises runs of this product."""
    if not on_server():
        yield
        return
    from prefect import tags

    from answerkey.tasks.maintenance import TAG

    with tags(TAG):
        yield
