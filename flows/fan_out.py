"""Load and score shards side by side: as many as this machine and the judges can take, or on a cluster."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

from answerkey.flows import steps
from answerkey.flows.cluster import Cluster, NoWorker, S, WorkersDied, cluster_at
from answerkey.flows.cluster_worker import AnyShard
from answerkey.flows.prefect_or_local import Task, allow_failure, as_completed, outcome, task
from answerkey.flows.runs import log
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.judge_metric import JudgeMetric
from answerkey.metrics_core.metric import Metric
from answerkey.metrics_core.progress import HOW_FAR, Advance, tell
from answerkey.tasks.load.load import Loaded, Source
from answerkey.tasks.load.shard import SourceShard, shard_bytes
from answerkey.tasks.load.sources import called
from answerkey.tasks.publish.artifacts import notify_api
from answerkey.tasks.reports.commit import Committed, SplitCommit
from answerkey.tasks.reports.commit_shard import CommitShard
from answerkey.tasks.reports.scores import ScoresShard, SplitScores
from answerkey.tasks.score.plan import MAX_SHARDS
from answerkey.tasks.score.score import schedule_order, spawns
from answerkey.tasks.score.shard import Shard
from answerkey.tasks.validate.measures import MeasuredShard
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.store import Unreachable

_LINES = 100
_LINE_EVERY_S = 10.0
"""Most progress lines that a run logs."""

Outcomes = Generator[tuple[S, str | Exception]]
"""Each shard as it ends, with the name of its part or with the reason why there is none."""


class Runner(Protocol):
    """What scores shards, loads those of a large source, and writes those of large reports."""

    most_shards: int
    """Shards that a run may be split into."""
    elsewhere: bool
    """Whether that takes work from this machine."""

    def check(self, home: Home, needs: Iterable[tuple[Metric, str]]) -> None:
        """Check what can be checked before anything slow starts; each metric comes with the place of its judges' key.

        Raises:
            UserError: these metrics cannot be scored here.
        """

    def run(self, shards: Sequence[S], key_from: Callable[[S], str], wait_for: Sequence[object] = ()) -> Outcomes[S]:
        """Work on shards. `key_from` says where the key of a shard's judges is kept, `wait_for` holds the results that
        they come from. Closed before its end, it waits for what it has begun.

        Raises:
            Unreachable: no worker can be reached any more.
        """


class LocalRunner:
    """Each shard in a task of its own, with retries, on threads and processes of this machine."""

    most_shards, elsewhere = MAX_SHARDS, False

    def check(self, home: Home, needs: Iterable[tuple[Metric, str]]) -> None:
        """The other steps of a run need the same of this machine."""

    def run(self, shards: Sequence[S], key_from: Callable[[S], str], wait_for: Sequence[object] = ()) -> Outcomes[S]:
        """Submit every shard, and yield each as it ends."""
        spawn = spawns(shards)
        closed = threading.Event()
        submitted: dict[Any, tuple[S, Callable[[], str]]] = {}
        model: list[object] = []
        of_metric = Counter(shard.name for shard in shards if isinstance(shard, Shard))
        begun: Counter[str] = Counter()
        for shard in schedule_order(shards):
            work, arguments = _task_of(shard, spawn, key_from(shard), closed.is_set)
            if isinstance(shard, Shard):
                begun[shard.name] += 1
                # The UI shows the name while a task waits, and makes its run name only then.
                name = f"score {shard.name} {begun[shard.name]}/{of_metric[shard.name]}"
                work = work.with_options(name=name, task_run_name=f"{name}, {{shard.n_rows:,}} rows")
            # Embedding shards run one at a time; the UI shows the others as pending. One that fails stops no other.
            before = model if shard.workload == "semantic" else []
            future = work.submit(shard, **arguments, wait_for=[*wait_for, *before])
            model = [allow_failure(future)] if shard.workload == "semantic" else model
            submitted[future] = shard, partial(work.fn, shard, **arguments)
        try:
            for future in as_completed(submitted):
                shard, here = submitted[future]
                yield shard, outcome(future, here)
        except BaseException as error:
            closed.set()
            if isinstance(error, Exception | GeneratorExit):
                for future, (_, here) in submitted.items():
                    outcome(future, here)
            raise


class DaskRunner:
    """All shards on the workers of a Dask cluster, in one Prefect task: one for each would cost more than scoring."""

    most_shards, elsewhere = 20_000, True

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def check(self, home: Home, needs: Iterable[tuple[Metric, str]]) -> None:
        """Ask the workers for versions, metrics and keys."""
        self._cluster.check(home, needs)

    def run(self, shards: Sequence[S], key_from: Callable[[S], str], wait_for: Sequence[object] = ()) -> Outcomes[S]:
        """Send every shard to the cluster, and yield each as it ends."""
        # Prefect would look into every shard.
        run = partial(self._cluster.run, shards, key_from)
        return _on_cluster(run, _DOES[type(shards[0])], self._cluster.address, wait_for=wait_for)


_DOES: Mapping[type, str] = {
    MeasuredShard: "load",
    SourceShard: "load",
    Shard: "score",
    CommitShard: "write a commit",
    ScoresShard: "write scores",
}


def _run(run: Callable[[], Outcomes[Any]], does: str, address: str) -> Outcomes[Any]:
    yield from run()


_on_cluster = task(_run, name="work on a cluster", task_run_name="{does} on {address}")


def _task_of(
    shard: AnyShard, spawn: bool, key_from: str, stopped: Callable[[], bool]
) -> tuple[Task[..., str], dict[str, Any]]:
    """The task that works on a shard, and its arguments beside the shard."""
    if isinstance(shard, MeasuredShard | SourceShard):
        return steps.stage, {"spawn": spawn}
    if isinstance(shard, CommitShard | ScoresShard):
        return steps.write, {"spawn": spawn}
    return steps.score.with_options(tags=_tags(shard)), {"spawn": spawn, "key_from": key_from, "stopped": stopped}


def runner_at(address: str) -> Runner:
    """The runner that a form names.

    Raises:
        UserError: as `cluster_at`.
    """
    cluster = cluster_at(address)
    return DaskRunner(cluster) if cluster else LocalRunner()


def load(runner: Runner, home: Home, source: Source, folder: Path) -> tuple[Loaded, str | None]:
    """Load a source into the folder of a run; a large one in shards, wherever its answers are to be scored.

    Returns:
        What was loaded, and of a large source the file with what validation measures of its rows.

    Raises:
        UserError: as `tasks.load.load`.
        Unreachable: no worker can be reached any more.
    """
    size = shard_bytes(source.answers, runner.most_shards)
    if not size:
        return steps.load(source, folder), None
    tell(Advance("split into shards"))
    of_references = shard_bytes(source.references, runner.most_shards) if source.references else 0
    references = steps.split_references(source, home, folder, of_references) if of_references else None
    known = _load(runner, references.shards, called(source.references or ""), references) if references else []
    answers = steps.split_answers(source, home, folder, size, references, wait_for=known)
    shards = [MeasuredShard(shard) for shard in answers.shards]
    parts = _load(runner, shards, called(source.answers), answers)
    merged = steps.merge_shards(answers, home, folder, wait_for=parts)
    return merged, steps.merge_measures(shards, home, folder, wait_for=parts)


def _load(
    runner: Runner, shards: Sequence[MeasuredShard] | Sequence[SourceShard], name: str, source: object
) -> list[str]:
    """The names of the parts, as they end."""
    parts = []
    for done, (_, part) in enumerate(runner.run(shards, lambda _shard: "", [source]), start=1):
        if isinstance(part, WorkersDied | NoWorker):
            raise Unreachable(f"{name}: not all of it could be loaded ({part}); run the same command again") from part
        if isinstance(part, Exception):
            raise part
        parts.append(part)
        tell(Advance("load shards", done, len(shards)))
        if done % -(-len(shards) // _LINES) == 0 or done == len(shards):
            log.info(f"loaded {done}/{len(shards)} shards", extra=HOW_FAR)
    return parts


def fan_out(
    runner: Runner,
    shards: Sequence[Shard],
    key_from: Callable[[Shard], str],
    *,
    remedy: str,
    wait_for: Sequence[object] = (),
) -> dict[str, str]:
    """Score shards; returns where each part is, by where it was planned to be.

    A shard that fails for good is written down as failed, and the run goes on; `remedy` says what to do about it.
    `key_from` says where the key of a shard's judges is kept, and `wait_for` holds the plan that they come from.

    Raises:
        UserError: a judge cannot be asked. No shard is worked on any more by then.
        Unreachable: nothing can be scored any more.
    """
    if not shards:
        return {}
    # Each time, Prefect makes a connection of its own: no more than one in a second.
    progress, began = notify_api("its progress", _begin_progress), time.monotonic()
    shown = logged = began
    parts: dict[str, str] = {}
    todo: Counter[str] = Counter()
    for shard in shards:
        todo[shard.name] += shard.n_rows
    scored = Counter(dict.fromkeys(todo, 0))
    for name in todo:
        tell(Advance(name, 0, todo[name]))
    outcomes = runner.run(shards, key_from, wait_for)
    try:
        for done, (shard, part) in enumerate(outcomes, start=1):
            scored[shard.name] += shard.n_rows
            tell(Advance(shard.name, scored[shard.name], todo[shard.name]))
            parts[shard.part] = part if isinstance(part, str) else _failed(shard, part, remedy)
            now, ended = time.monotonic(), done == len(shards)
            if ended or now >= logged + _LINE_EVERY_S:
                speed = "" if ended else _speed(scored.total(), todo.total(), now - began)
                log.info(f"scored {scored.total():,} of {todo.total():,} rows{speed}", extra=HOW_FAR)
                logged = now
            if progress and (ended or now >= shown + 1):
                notify_api("its progress", partial(_show_progress, progress, 100 * done / len(shards)))
                shown = time.monotonic()
    except Exception:
        # Shards that are still worked on read the files that the run removes next.
        outcomes.close()
        raise
    return parts


def _speed(done: int, of: int, seconds: float) -> str:
    """Rows per second so far, and how long the others take at that rate.

    >>> _speed(3_000, 12_000, 20.0)
    ', 150 rows/s, about 0:01:00 left'
    """
    return f", {done / seconds:,.0f} rows/s, about {timedelta(seconds=round(seconds * (of - done) / done))} left"


def _begin_progress() -> uuid.UUID:
    from prefect.artifacts import create_progress_artifact

    # The type allows for a coroutine, which only asynchronous flows get.
    return cast(uuid.UUID, create_progress_artifact(0.0, "scoring", "Shards scored"))


def _show_progress(progress: uuid.UUID, percent: float) -> None:
    from prefect.artifacts import update_progress_artifact

    update_progress_artifact(progress, percent)


def write_commit(
    runner: Runner, home: Home, run_id: str, loaded: Loaded, accepted: str, parts: Sequence[str], folder: Path
) -> SplitCommit | None:
    """Let others write what a large run commits, into the folder of the run; None where this machine does it as well.

    Raises:
        Unreachable: no worker can be reached any more.
    """
    split = steps.split_commit(home, run_id, loaded, accepted, parts, folder) if runner.elsewhere else None
    return split if split and _written(runner, split.shards, "what is committed") else None


def write_scores(
    runner: Runner, home: Home, committed: Committed, metrics: Sequence[Metric], folder: Path
) -> SplitScores | None:
    """Let others write the rows of large reports, into the folder of a run; None where this machine does it as well.

    Raises:
        Unreachable: no worker can be reached any more.
    """
    split = steps.split_scores(home, committed, metrics, folder) if runner.elsewhere else None
    return split if split and _written(runner, split.shards, "the rows of the reports") else None


def _written(runner: Runner, shards: Sequence[CommitShard] | Sequence[ScoresShard], what: str) -> bool:
    for _, part in runner.run(shards, lambda _shard: ""):
        if isinstance(part, Exception):
            log.warning(f"no worker could write {what}, so the run does it: {part}")
            return False
    return True


def _tags(shard: Shard) -> list[str]:
    """`judge-openai` for a shard that asks such a judge: a concurrency limit of that name holds it back.

    Others have none. The server is asked about every tag, and takes a lock on its database for the answer.
    """
    metric = shard.metric
    if not isinstance(metric, JudgeMetric) or metric.workload != "judge":
        return []
    return sorted({"judge-" + judge.model.partition("/")[0] for judge in metric.judge.models()})


def _failed(shard: Shard, error: Exception, remedy: str) -> str:
    if isinstance(error, UserError):
        raise error
    problem = f"{type(error).__name__}: {error}"
    log.warning(f"{shard.metric.name}: {shard.n_rows:,} rows failed: {problem}; {remedy}")
    return steps.fail_shard(shard, problem)
