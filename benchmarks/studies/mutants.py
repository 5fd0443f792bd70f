"""How many small faults the tests notice: seeded mutants of some modules, each tried with the tests of its module.

    python benchmarks/studies/mutants.py                          # 100 mutants of each module
    python benchmarks/studies/mutants.py --n 20 --seed 3 --modules metrics_core/decide/verdict.py

A mutant is a module with one change: a comparison or an operator turned, a number one more or one less, a boolean
swapped, a condition negated, or a statement left out. A seed, a module and its source always give the same mutants.
Each is tried in a copy of the checkout, and is killed if a test fails or does not end.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TESTS = {
    "metrics_core/decide/verdict.py": "metrics_core/gate tasks/gate flows/cli/test_gate.py",
    "metrics_core/llm/reply.py": "metrics_core/llm/test_reply.py metrics_core/judges",
    "metrics_core/decide/intervals.py": "metrics_core/statistics metrics_core/gate",
    "metrics_core/decide/paired.py": "metrics_core/statistics tasks/compare",
    "tasks/compare/compare.py": "tasks/compare flows/cli/test_compare.py",
    "tasks/load/dialect.py": "tasks/load",
    "tasks/reports/aggregate.py": "tasks/reports",
    "tasks/score/plan.py": "tasks/score",
    "tasks/validate/validate.py": "tasks/validate",
    "tasks/warehouse/warehouse.py": "tasks/warehouse tasks/test_maintenance.py",
}
"""The tests of each module, in `tests`."""
NO_END_S = 300
FORKS = multiprocessing.get_context("forkserver")
LIBRARIES = ["duckdb", "great_expectations", "litellm", "pandas", "prefect", "pytest", "scipy.stats"]
"""Imported once, for all runs of the tests."""
TURNED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
LEFT_OUT = (ast.Assign, ast.AugAssign, ast.Raise, ast.Continue)


def mutations(tree: ast.Module) -> Iterator[tuple[int, Callable[[], None]]]:
    """Yield everything that can be changed in a tree: its line, and what changes it."""
    for node in ast.walk(tree):
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

        # Statements of its body that may go
        for body in (getattr(node, "body", None), getattr(node, "orelse", None)):
            for position, statement in enumerate(body if isinstance(body, list) else ()):
                if isinstance(statement, LEFT_OUT):
                    leave_out = lambda body=body, position=position: body.__setitem__(position, ast.Pass())  # noqa: E731
                    yield statement.lineno, leave_out


def mutants(source: str, n: int, generator: random.Random) -> Iterator[tuple[str, str]]:
    """Yield the source of `n` mutants of a module, each with its line, and the code of it before and after."""
    n_mutations = len(list(mutations(ast.parse(source))))
    original = ast.unparse(ast.parse(source))
    for position in sorted(generator.sample(range(n_mutations), min(n, n_mutations))):
        tree = ast.parse(source)
        line, change = list(mutations(tree))[position]
        change()
        mutant = ast.unparse(ast.fix_missing_locations(tree))
        pairs = zip(original.splitlines(), mutant.splitlines(), strict=True)
        [(before, after)] = [pair for pair in pairs if pair[0] != pair[1]]
        yield mutant, f"{line}: {before.strip()} -> {after.strip()}"


def run_tests(checkout: Path, folder: str) -> None:
    """End this process with pytest's exit code for some tests of a checkout."""
    os.chdir(checkout)
    sys.path.insert(0, str(checkout))
    # Test output is not shown
    with open(os.devnull, "w") as silent, contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
        code = pytest.main(["-x", "-q", "-n", "0", "-m", "unit or flow", f"tests/{folder}"])
    os._exit(code)


def is_killed(checkout: Path, tests: str) -> bool:
    """Tell whether a test of a changed checkout fails, or does not end."""
    for folder in tests.split():
        process = FORKS.Process(target=run_tests, args=(checkout, folder))
        process.start()
        process.join(NO_END_S)
        if process.exitcode != 0:
            process.kill()
            return True
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modules", nargs="+", default=[*TESTS], choices=[*TESTS], metavar="MODULE")
    parser.add_argument("--n", type=int, default=100, help="mutants of each module")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    FORKS.set_forkserver_preload(LIBRARIES)
    os.environ.update({"CI": "true", "LITELLM_LOCAL_MODEL_COST_MAP": "true"})
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder) / "checkout"
        left_out = shutil.ignore_patterns(".git", ".venv", "build", "__pycache__", ".*_cache", "*.egg-info")
        shutil.copytree(ROOT, checkout, ignore=left_out, symlinks=True)
        for module in options.modules:
            file = checkout / module
            source = file.read_text(encoding="utf-8")
            assert not is_killed(checkout, TESTS[module]), f"{module}: its tests fail without any change"
            killed = []
            generator = random.Random(f"{options.seed} {module}")
            for number, (mutant, change) in enumerate(mutants(source, options.n, generator)):
                # Python compiles a file anew where its time in seconds, or its size, is another
                file.write_text(mutant, encoding="utf-8")
                os.utime(file, (number, number))
                killed.append(is_killed(checkout, TESTS[module]))
                print(f"{module}:{change}: {'killed' if killed[-1] else 'SURVIVED'}", flush=True)
            file.write_text(source, encoding="utf-8")
            print(f"{module}: {sum(killed)} of {len(killed)} killed", flush=True)


if __name__ == "__main__":
    main()
