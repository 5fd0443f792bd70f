"""The one call of the library: order, processes, options, speed; and the examples in the docstrings."""

import ast
import doctest
import importlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

import pytest

import answerkey.metrics_core
from answerkey import METRICS, Sample, evaluate
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.offline_judge.rules import RuleId
from answerkey.metrics_core.registry import DEFAULT_METRICS
from answerkey.processes import spawned_pool
from tests.kit.waiting import wait_until
from tests.metrics_core.metrics_help import ROOT

LEXICAL = [name for name, cls in METRICS.items() if cls.kind == "lexical" and name != "rouge"]
PACKAGE = Path(answerkey.metrics_core.__file__).parent
PARENT = """
import os, sys
from answerkey.processes import spawned_pool
if __name__ == "__main__":
    pool = spawned_pool(1)
    print(pool.submit(os.getpid).result(), flush=True)
    sys.stdin.readline()
"""
CTRL_C = """
import os, signal, time
from concurrent.futures.process import BrokenProcessPool
from answerkey.processes import spawned_pool
if __name__ == "__main__":
    # Whoever started the tests may have switched Ctrl-C off, as a shell does for what runs in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with spawned_pool(2) as pool:
        working = pool.submit(os.getpid)
        if READY:
            working.result()
        # As a terminal does. The second one has only begun to start, or both.
        pool.submit(time.sleep, 60)
        signal.signal(signal.SIGINT, lambda *_: print("told once", flush=True))
        os.killpg(0, signal.SIGINT)
        try:
            pool.submit(os.getpid).result()
        except BrokenProcessPool:
            print("broken", flush=True)
"""


def samples(n=7):
    texts = ["Paris", "It is not Paris.", "", None, "Это Париж", "-5 °C", "北京"]
    return [Sample(f"s{i}", texts[i % 7], ["Paris", "Париж -5"] if i % 5 else []) for i in range(n)]


def test_measurements_come_metric_by_metric_and_sample_by_sample():
    measured = evaluate(samples(), ["contains", "rouge_l"])
    assert [(m.metric, m.sample_id) for m in measured] == [
        (metric, f"s{i}") for metric in ("contains", "rouge_l") for i in range(7)
    ]
    assert [m.status for m in measured[:7]] == ["undefined", *["scored"] * 4, "undefined", "scored"]


def test_samples_may_be_any_iterable_and_share_ids():
    twins = [Sample("s", "Paris", ["Paris"]), Sample("s", "Rome", ["Paris"])]
    assert [m.values["match"] for m in evaluate(iter(twins), ["exact_match"])] == [1.0, 0.0]
    assert evaluate([], LEXICAL) == evaluate(twins, []) == []


def test_the_default_metrics_when_none_is_named():
    # Without a sample no model is loaded.
    assert evaluate([]) == []
    with pytest.raises(UserError, match="metric semantic_similarity: "):
        evaluate([], threshold=2.0)
    assert {m.metric for m in evaluate([Sample("1", None, ["a"])])} == set(DEFAULT_METRICS)
    judge = JudgeOptions(judges=("openai/never-asked",))
    assert {m.metric for m in evaluate([Sample("1", None, ["a"])], judge=judge)} == set(DEFAULT_METRICS)


@pytest.mark.real
def test_processes_give_the_same_list_and_have_the_options():
    rows = samples(20)
    here, there = (
        evaluate(rows, ["contains", "bleu", "meaning_match"], blank_answer="undefined", workers=n) for n in (1, 2)
    )
    assert [(one.sample_id, one.signature, one.outcome) for one in there] == [
        (one.sample_id, one.signature, one.outcome) for one in here
    ]
    assert evaluate(samples(1), ["rouge_l"], workers=8) == evaluate(samples(1), ["rouge_l"])


def modules_with_examples():
    return [
        ".".join(path.relative_to(PACKAGE.parents[1]).with_suffix("").parts)
        for package in ("metrics_core", "tasks", "flows")
        for path in sorted((PACKAGE.parent / package).rglob("*.py"))
        if ">>> " in path.read_text(encoding="utf-8")
    ]


@pytest.mark.parametrize("name", modules_with_examples())
def test_the_examples_in_docstrings(name, monkeypatch):
    monkeypatch.delenv("ANSWERKEY_HOME", raising=False)
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > result.failed == 0


WITHOUT_EXAMPLE = {
    # Theirs would need files, a network, or seconds
    "embeddings": {"api.ApiEncoder", "models.MultilingualEncoder", "models.TransformerEncoder"},
    # Those of a whole policy show them
    # A rule has its examples in the table of its test
    "offline_judge": {f"rules.{rule}" for rule in get_args(RuleId)},
}


@pytest.mark.parametrize("folder", WITHOUT_EXAMPLE)
def test_every_public_name_has_an_example(folder):
    files = sorted((PACKAGE / folder).glob("*.py"))
    lacking = {
        f"{path.stem}.{node.name}"
        for path in files
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and ">>> " not in ast.unparse(node)
    }
    assert files
    assert lacking <= WITHOUT_EXAMPLE[folder]


@pytest.mark.real
def test_a_worker_that_loads_an_encoder_is_not_started_again():
    with spawned_pool(1) as pool:
        worker = pool.submit(os.getpid).result()
        # As much as torch and its models take. The pool looks at the memory of a worker once a second.
        pool.submit(_load, 400_000_000, 1.5).result()
        assert pool.submit(os.getpid).result() == worker


def _load(size, seconds):
    time.sleep(seconds)
    _LOADED.append(b"1" * size)


_LOADED = []


def script(folder, code, warnings="", **options):
    """A process of this script, which is a file because a spawned process reads it again."""
    file = folder / "script.py"
    file.write_text(code)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    environment["PYTHONWARNINGS"] = warnings
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen([sys.executable, str(file)], text=True, env=environment, **pipes, **options)


@pytest.mark.nightly
@pytest.mark.parametrize("ready", [True, False])
def test_workers_say_nothing_of_ctrl_c(ready, tmp_path):
    code = CTRL_C.replace("READY", str(ready))
    # Loky 3.7 may end between removing a semaphore and telling its tracker, which then warns of it: not our workers.
    started = script(tmp_path, code, warnings="ignore::UserWarning", start_new_session=True)
    assert (*started.communicate(), started.returncode) == ("told once\nbroken\n", "", 0)


@pytest.mark.real
def test_workers_do_not_outlive_a_parent_that_was_killed(tmp_path):
    parent = script(tmp_path, PARENT)
    worker = Path("/proc") / parent.stdout.readline().strip()
    assert worker.exists()
    parent.send_signal(signal.SIGKILL)
    # The worker has the other end of the pipe, which is closed when it ends; a moment later it is gone.
    parent.communicate()
    wait_until(lambda: not worker.exists(), "the end of the worker")
