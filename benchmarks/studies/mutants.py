"""How many small faults the tests notice: seeded mutants of some modules, each tried with the tests that run its line.

    python benchmarks/studies/mutants.py                                 # 100 mutants of each module; takes hours
    python benchmarks/studies/mutants.py --n 20 --seed 3 --modules metrics_core/decide/verdict.py
    python benchmarks/studies/mutants.py --also ../before                # in what another checkout has word for word

A mutant is a function with one change: a comparison or an operator turned, a number one more or one less, a boolean
swapped, a condition negated, or a statement left out. A seed, a module and its source always give the same mutants.

pytest runs three times, for three parts of the tests. It collects them once; a fork runs them all and notes which
statements each runs. Then each mutant gets a fork with the changed function, which runs the tests of its statement, the
fastest first, until one fails or the time is up. A mutant is killed by a test that fails or does not end. What runs in
other processes, such as that of a server, is not changed.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import importlib
import json
import multiprocessing
import os
import random
import signal
import tempfile
import time
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import coverage
import pytest
from _pytest.runner import runtestprotocol

ROOT = Path(__file__).resolve().parents[2]
MODULES = (
    "metrics_core/decide/intervals.py", "metrics_core/decide/paired.py", "metrics_core/decide/verdict.py",
    "metrics_core/llm/reply.py", "tasks/compare/compare.py", "tasks/load/columns.py", "tasks/reports/aggregate.py",
    "tasks/score/plan.py", "tasks/validate/validate.py", "tasks/warehouse/warehouse.py",
)  # fmt: skip
PARTS = (
    # Seconds for each mutant, and the tests
    (6.0, ["tests/metrics_core"]),
    (8.0, ["tests", "--ignore=tests/metrics_core", "--ignore=tests/flows"]),
    (10.0, ["tests/flows"]),
)
NO_END_S = 15
"""A test that takes this much longer than ten times its usual time does not end."""
TURNED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
LEFT_OUT = (ast.Assign, ast.AugAssign, ast.Raise, ast.Continue)
Function = ast.FunctionDef | ast.AsyncFunctionDef
Mutant = tuple[str, str, int]
"""A module, the qualified name of a function, and the position of the change among its mutations."""


def functions_of(tree: ast.Module) -> dict[str, Function]:
    """The functions and methods of a module by their qualified names, without those inside functions."""
    found: dict[str, Function] = {}
    bodies: list[tuple[str, list[ast.stmt]]] = [("", tree.body)]
    for prefix, body in bodies:
        for node in body:
            if isinstance(node, Function):
                found[prefix + node.name] = node
            elif isinstance(node, ast.ClassDef):
                bodies.append((f"{prefix}{node.name}.", node.body))
    return found


def code_text(function: Function) -> str:
    """The code of a function without its decorators and its docstring."""
    [copy] = ast.parse(ast.unparse(function)).body
    assert isinstance(copy, Function)
    copy.decorator_list, copy.body = [], copy.body[1:] if ast.get_docstring(copy) else copy.body
    return ast.unparse(copy)


def mutations(function: Function) -> Iterator[tuple[int, Callable[[], None]]]:
    """Yield everything that can be changed in the body of a function: its line, and what changes it."""
    for node in (part for statement in function.body for part in ast.walk(statement)):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in TURNED:
            yield node.lineno, lambda node=node: node.ops.__setitem__(0, TURNED[type(node.ops[0])]())
        elif isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in TURNED:
            yield node.lineno, lambda node=node: setattr(node, "op", TURNED[type(node.op)]())
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield node.lineno, lambda node=node: setattr(node, "value", not node.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            yield node.lineno, lambda node=node: setattr(node, "value", node.value + 1)
            yield node.lineno, lambda node=node: setattr(node, "value", node.value - 1)
        elif isinstance(node, ast.If | ast.IfExp):
            negated = ast.UnaryOp(ast.Not(), node.test)
            yield node.test.lineno, lambda node=node, negated=negated: setattr(node, "test", negated)

    # Statements that may go
    for node in ast.walk(function):
        for body in (getattr(node, "body", None), getattr(node, "orelse", None)):
            for position, statement in enumerate(body if isinstance(body, list) else ()):
                if isinstance(statement, LEFT_OUT):
                    leave_out = lambda body=body, position=position: body.__setitem__(position, ast.Pass())  # noqa: E731
                    yield statement.lineno, leave_out


def drawn(module: str, n: int, seed: int, also: str) -> list[Mutant]:
    """`n` mutants of a module that a seed draws, of functions that the checkout `also` has word for word, if named."""
    functions = functions_of(ast.parse((ROOT / module).read_text(encoding="utf-8")))
    if also:
        others = functions_of(ast.parse((Path(also) / module).read_text(encoding="utf-8")))
        same = [name for name in functions if name in others and code_text(functions[name]) == code_text(others[name])]
        functions = {name: functions[name] for name in same}
    every = [(module, name, index) for name in functions for index, _ in enumerate(mutations(functions[name]))]
    return random.Random(f"{seed} {module}").sample(every, min(n, len(every)))


def live_functions() -> dict[str, list[types.FunctionType]]:
    """The functions that exist, by their file and their qualified name."""
    found: dict[str, list[types.FunctionType]] = {}
    for thing in gc.get_objects():
        if type(thing) is types.FunctionType:
            place = f"{os.path.realpath(thing.__code__.co_filename)} {thing.__code__.co_qualname}"
            found.setdefault(place, []).append(thing)
    return found


def mutated(module: str, name: str, index: int) -> tuple[int, str, types.CodeType]:
    """A mutant: its line, what has changed, and the code of the function."""
    tree = ast.parse((ROOT / module).read_text(encoding="utf-8"))
    function = functions_of(tree)[name]
    before = ast.unparse(function).splitlines()
    line, change = list(mutations(function))[index]
    change()
    code = compile(ast.fix_missing_locations(tree), str(ROOT / module), "exec")
    after = ast.unparse(function).splitlines()
    changes = [f"{old.strip()} -> {new.strip()}" for old, new in zip(before, after, strict=True) if old != new]
    for part in name.split("."):
        *_, code = (one for one in code.co_consts if isinstance(one, types.CodeType) and one.co_name == part)
    return line, f"{name}: {changes[0]}", code


def lines_of(module: str, name: str, line: int) -> range:
    """From the first line of the innermost statement around a line of a function to that line."""
    function = functions_of(ast.parse((ROOT / module).read_text(encoding="utf-8")))[name]
    nodes = (node for node in ast.walk(function) if isinstance(node, ast.stmt) and node is not function)
    first = max(node.lineno for node in nodes if node.lineno <= line <= (node.end_lineno or line))
    return range(first, line + 1)


def passes(item: pytest.Item, following: pytest.Item | None) -> bool:
    """Run a test as pytest does; `following` comes after it, so that what both share stays."""
    return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=following))


def in_fork(work: Callable[[int], int]) -> tuple[int, str]:
    """Do some work in a fork: what it ends with, below 0 for a signal, and what it has written to its file."""
    with tempfile.TemporaryFile() as written:
        pid = os.fork()
        if pid == 0:
            os.setsid()
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1)
            os.dup2(silent, 2)
            os._exit(work(written.fileno()))
        _, status = os.waitpid(pid, 0)
        # Whatever its tests have started
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        written.seek(0)
        return os.waitstatus_to_exitcode(status), written.read().decode()


def trace(items: Sequence[pytest.Item], modules: Sequence[str], file: int) -> int:
    """Run all tests, and write down their seconds, if they pass, and the tests of each line of the modules."""
    measured = coverage.Coverage(data_file=None, include=[str(ROOT / module) for module in modules])
    seconds = {}
    measured.start()
    for item, following in zip(items, [*items[1:], None], strict=True):
        measured.switch_context(item.nodeid)
        began = time.perf_counter()
        if passes(item, following):
            seconds[item.nodeid] = time.perf_counter() - began
    measured.stop()
    data = measured.get_data()
    lines = {module: data.contexts_by_lineno(str(ROOT / module)) for module in modules}
    os.write(file, json.dumps({"seconds": seconds, "lines": lines}).encode())
    return 0


def is_killed(
    functions: Sequence[types.FunctionType], code: types.CodeType, tests: Mapping[pytest.Item, float], limit_s: float
) -> int:
    """Change some functions and run tests, of which the usual seconds are known: 1 if one fails, 0 if none does."""
    for function in functions:
        function.__code__ = code.replace(co_filename=function.__code__.co_filename)
    ordered, began = sorted(tests, key=lambda item: tests[item]), time.monotonic()
    for item, following in zip(ordered, [*ordered[1:], ordered[-1]], strict=True):
        if time.monotonic() - began > limit_s:
            return 0
        signal.setitimer(signal.ITIMER_REAL, NO_END_S + 10 * tests[item])
        if not passes(item, following):
            return 1
    return 0


class Plugin:
    """Tries mutants with the tests that pytest has collected, in place of running these."""

    def __init__(self, mutants: Sequence[Mutant], limit_s: float) -> None:
        self._mutants, self._limit_s = mutants, limit_s
        self.killed: list[Mutant] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        modules = list(dict.fromkeys(module for module, _, _ in self._mutants))
        for module in modules:
            importlib.import_module(f"answerkey.{module.removesuffix('.py').replace('/', '.')}")
        gc.unfreeze()
        live = live_functions()
        gc.freeze()
        traced = json.loads(in_fork(lambda file: trace(session.items, modules, file))[1])
        items = {item.nodeid: item for item in session.items if item.nodeid in traced["seconds"]}
        for mutant in self._mutants:
            module, name, _ = mutant
            line, _, code = mutated(*mutant)
            covering = {
                test for at in lines_of(module, name, line) for test in traced["lines"][module].get(str(at), ())
            }
            tests = {items[test]: traced["seconds"][test] for test in covering if test in items}
            functions = live.get(f"{ROOT / module} {name}", [])
            if tests and in_fork(lambda _: is_killed(functions, code, tests, self._limit_s))[0]:  # noqa: B023
                self.killed.append(mutant)
        return True


def killed_by(mutants: Sequence[Mutant], limit_s: float, tests: Sequence[str]) -> list[Mutant]:
    """Those mutants that some of the tests kill."""
    plugin = Plugin(mutants, limit_s)
    pytest.main(["-q", "-n", "0", "-p", "no:cacheprovider", "-m", "unit or flow", *tests], plugins=[plugin])
    return plugin.killed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modules", nargs="+", default=[*MODULES], choices=[*MODULES], metavar="MODULE")
    parser.add_argument("--n", type=int, default=100, help="mutants of each module")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--also", default="", metavar="DIR", help="only functions that this checkout has too")
    options = parser.parse_args()
    os.chdir(ROOT)
    os.environ["CI"] = "true"
    left = [mutant for module in options.modules for mutant in drawn(module, options.n, options.seed, options.also)]
    n_mutants = Counter(module for module, _, _ in left)
    # Each part of the tests in a process of its own, as conftest.py prepares that
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as processes:
        for limit_s, tests in PARTS:
            killed = processes.submit(killed_by, left, limit_s, tests).result()
            left = [mutant for mutant in left if mutant not in killed]
            print(f"{' '.join(tests)}: {len(killed)} killed, {len(left)} left", flush=True)

    n_left = Counter(module for module, _, _ in left)
    for mutant in left:
        line, what, _ = mutated(*mutant)
        print(f"{mutant[0]}:{line}: {what}: SURVIVED")
    for module, n in n_mutants.items():
        print(f"{module}: {n - n_left[module]} of {n} killed")


if __name__ == "__main__":
    main()
