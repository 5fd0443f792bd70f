"""Error rates that the statistics promise, measured: coverage, wrong verdicts, power, many nights and releases.

    python benchmarks/studies/error_rates.py                              # 200 repetitions of everything, printed
    python benchmarks/studies/error_rates.py --only clusters nights       # tables (or rows) whose name contains a text
    python benchmarks/studies/error_rates.py --repetitions 2000 --write   # and write the tables of docs/error_rates.md

Every simulated release goes through the functions of the product: the intervals of reports and comparisons, and
the decisions of the gate. Where rows are independent and 0 or 1, nothing is drawn: the figure is the sum over all
outcomes. Seeds are fixed, one per row. A figure that misses its bar is bold.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
import zlib
from dataclasses import asdict
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import _error_rates_gate  # noqa: E402
import _error_rates_intervals  # noqa: E402
import _error_rates_power  # noqa: E402
from _error_rates import ANY_FINDING, COVERED, HEAVY_TAILED, ONE_SIDED, POWERED, Bar, Cell, Figure, Table  # noqa: E402

DOCUMENT = ROOT / "docs/error_rates.md"
RESULTS = Path(__file__).with_suffix(".json")
"""The figures of the document, from which its tables are made."""
SEED = 13
RATES = {
    COVERED: "coverage",
    ONE_SIDED: "one-sided error",
    HEAVY_TAILED: "one-sided error",
    ANY_FINDING: "false findings",
    POWERED: "power",
}
"""What is held to each bar."""
TABLES = tuple(
    table for part in (_error_rates_intervals, _error_rates_gate, _error_rates_power) for table in part.tables()
)


def measure(cell: Cell, repetitions: int) -> dict[str, Figure]:
    """The figures of one row, which do not depend on what else is measured."""
    return dict(cell.measure(np.random.default_rng([SEED, zlib.crc32(cell.name.encode())]), repetitions))


def rendered(table: Table, results: dict[str, dict[str, Figure]]) -> str:
    """The table as Markdown, of the rows that have figures."""
    rows = [(cell, results[cell.name]) for cell in table.cells if cell.name in results]
    if not rows:
        return ""
    heads = list(dict.fromkeys(name for _, row in rows for name in row))
    lines = [f"| {' | '.join([*table.head, *heads])} |", "|" + "---|" * (len(table.head) + len(heads))]
    for cell, row in rows:
        lines.append(f"| {' | '.join([*cell.labels, *(_shown(row.get(head)) for head in heads)])} |")
    return "\n".join(lines)


def _shown(figure: Figure | None) -> str:
    if figure is None or figure.text:
        return "" if figure is None else figure.text
    text = f"{figure.value:.2f}" if figure.value > 1 else f"{figure.value:.3f}".replace("0.", ".", 1)
    text = "1" if text == "1.000" else "0" if text == ".000" and figure.value == 0 else text
    return f"**{text}**" if figure.misses else text


def worst(results: dict[str, dict[str, Figure]]) -> str:
    """The figure of each table that comes nearest to its bar, or misses it by most, for each kind of bar."""
    lines = ["| simulated | rate | worst | bar |", "|---|---|---|---|"]
    for table in TABLES:
        figures = [figure for cell in table.cells for figure in results.get(cell.name, {}).values()]
        for bar, rate in RATES.items():
            held = [figure for figure in figures if figure.bar == bar and not figure.text]
            if held:
                extreme = (max if bar.high < 1 else min)(held, key=lambda figure: figure.value)
                limit = f"at most {bar.high:g}" if bar.high < 1 else f"at least {bar.low:g}"
                limit = limit.replace("0.", ".")
                lines.append(f"| {table.name} | {rate} | {_shown(extreme)} | {limit} |")
    return "\n".join(lines)


def written(text: str, results: dict[str, dict[str, Figure]]) -> str:
    """The document with those tables that it has a place for."""
    bodies = {table.name: rendered(table, results) for table in TABLES} | {"worst": worst(results)}
    for name, body in bodies.items():
        marked = rf"(<!-- table: {re.escape(name)} -->\n).*?(<!-- end -->)"
        text = re.sub(marked, lambda match, body=body: f"{match[1]}\n{body}\n\n{match[2]}", text, flags=re.DOTALL)
    return text


def stored() -> dict[str, dict[str, Figure]]:
    """The figures of the document."""
    found = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    return {
        name: {head: Figure(**{**one, "bar": one["bar"] and Bar(**one["bar"])}) for head, one in row.items()}
        for name, row in found.items()
    }


def store(results: dict[str, dict[str, Figure]]) -> None:
    """Keep the figures, in the order of the tables."""
    rows = {
        cell.name: {head: asdict(figure) for head, figure in results[cell.name].items()}
        for table in TABLES
        for cell in table.cells
        if cell.name in results
    }
    text = json.dumps(rows, indent=1).replace("-Infinity", "-1e999").replace("Infinity", "1e999")
    RESULTS.write_text(text + "\n", encoding="utf-8")


def main() -> int:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="rows whose name contains one of these")
    parser.add_argument("--write", action="store_true", help=f"keep the figures and write them to {DOCUMENT.name}")
    arguments = parser.parse_args()
    results: dict[str, dict[str, Figure]] = {}
    missed = []
    for table in TABLES:
        for cell in table.cells:
            if not any(text in cell.name for text in arguments.only):
                continue
            start = time.perf_counter()
            results[cell.name] = measure(cell, arguments.repetitions)
            print(f"{time.perf_counter() - start:6.1f} s  {cell.name}", file=sys.stderr, flush=True)
            missed += [f"{cell.name}: {head} {_shown(one)}" for head, one in results[cell.name].items() if one.misses]
            if arguments.write:
                store(stored() | results)
        if text := rendered(table, results):
            print(f"\n{table.name}\n\n{text}", flush=True)
    print("\n" + "\n".join(missed or ["no figure misses its bar"]))
    if arguments.write:
        DOCUMENT.write_text(written(DOCUMENT.read_text(encoding="utf-8"), stored()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
