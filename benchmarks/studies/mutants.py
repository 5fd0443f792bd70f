"""How many small faults the tests notice: seeded mutants of ten modules, each with the tests of its own.

    python benchmarks/studies/mutants.py                  # 100 mutants of each module
    python benchmarks/studies/mutants.py --each 20 metrics_core/gate/gate.py

A mutant is the module with one change: a comparison or an arithmetic operator turned, a constant moved by one, a
condition negated, or a statement left out. The seed is the name of the module, so that the same module gives the same
mutants. Each one is tried in a copy of the checkout, and counts as noticed if any test fails or does not end.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODULES = {
    "metrics_core/comparison.py": "tests/metrics_core/test_result.py tests/tasks/compare/test_compare.py",
    "metrics_core/gate/gate.py": "tests/metrics_core/gate",
    "metrics_core/gate/policy.py": "tests/metrics_core/gate",
    "metrics_core/llm/reply.py": "tests/metrics_core/llm",
    "metrics_core/metrics/answer_correctness.py": "tests/metrics_core/metrics",
    "metrics_core/statistics/agreement.py": "tests/metrics_core/statistics/test_agreement.py",
    "metrics_core/statistics/bounded_mean.py": "tests/metrics_core/statistics/test_intervals.py",
    "metrics_core/statistics/intervals.py": "tests/metrics_core/statistics/test_intervals.py",
    "metrics_core/statistics/paired.py": "tests/metrics_core/statistics/test_paired.py",
    "tasks/load/columns.py": "tests/tasks/load/test_columns.py",
}
LONGEST_S = 300
TURNED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip

Change = Callable[[], None]


def changes(tree: ast.Module) -> list[Change]:
    """Everything that can be changed in a tree, each as a function that changes it."""
    found: list[Change] = []
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in TURNED:
            found.append(lambda node=node: node.ops.__setitem__(0, TURNED[type(node.ops[0])]()))
        elif isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in TURNED:
            found.append(lambda node=node: setattr(node, "op", TURNED[type(node.op)]()))
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float) and id(node) not in docstrings:
            found.append(lambda node=node: setattr(node, "value", node.value + 1))
        elif isinstance(node, ast.If | ast.IfExp):
            found.append(lambda node=node: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test)))
        for body in (getattr(node, "body", None), getattr(node, "orelse", None)):
            for place, statement in enumerate(body if isinstance(body, list) else ()):
                if isinstance(statement, ast.Assign | ast.AugAssign | ast.Raise | ast.Continue):
                    found.append(lambda body=body, place=place: body.__setitem__(place, ast.Pass()))
    return found


def mutants(module: str, source: str, each: int) -> list[str]:
    """The source of `each` mutants of a module."""
    tree = ast.parse(source)
    places = range(len(changes(tree)))
    made = []
    for place in random.Random(module).sample(places, min(each, len(places))):
        changed = copy.deepcopy(tree)
        changes(changed)[place]()
        made.append(ast.unparse(ast.fix_missing_locations(changed)))
    return made


def is_noticed(checkout: Path, tests: str) -> bool:
    """Whether a test of a changed checkout fails."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-m", "unit or flow", *tests.split()]
    environment = {**os.environ, "PYTHONPATH": str(checkout), "CI": "true"}
    try:
        done = subprocess.run(
            command, cwd=checkout, env=environment, capture_output=True, timeout=LONGEST_S, check=False
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", default=[*MODULES])
    parser.add_argument("--each", type=int, default=100)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder) / "checkout"
        left_out = shutil.ignore_patterns(".git", ".venv", "build", "__pycache__", ".*_cache", "*.egg-info")
        shutil.copytree(ROOT, checkout, ignore=left_out, symlinks=True)
        for module in asked.modules:
            file = checkout / module
            source = file.read_text(encoding="utf-8")
            assert not is_noticed(checkout, MODULES[module]), f"{module}: its tests fail without any change"
            noticed = []
            for mutant in mutants(module, source, asked.each):
                file.write_text(mutant, encoding="utf-8")
                noticed.append(is_noticed(checkout, MODULES[module]))
            file.write_text(source, encoding="utf-8")
            print(f"{module:<46}{sum(noticed):>4} of {len(noticed):>4}", flush=True)


if __name__ == "__main__":
    main()
